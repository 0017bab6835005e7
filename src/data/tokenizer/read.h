/**
 * Reading of tokenizers, in several files. read_vocab.c reads the vocabulary and the merges, read_steps.c normalizers
 * and decoders, read_cuts.c pre-tokenizers, read_ends.c post-processors, read_tekken.c reads tekken.json,
 * read_wordpiece.c reads WordPiece, and bpe_read.c puts a tokenizer together. Settings that zr does not support are
 * refused, with a message that names the file and the setting.
 */
#ifndef ZR_DATA_TOKENIZER_READ_H
#define ZR_DATA_TOKENIZER_READ_H

#include "base/json/json.h"
#include "data/tokenizer/bpe.h"

#include <limits.h>

enum { ZR__READ_MOST_BYTES = 128 << 20 }; /* maximum size of a tokenizer's file */

/** Tokenizer that is being read. */
typedef struct zr__reader {
    zr__bpe *bpe;
    char file[PATH_MAX];  /* printable path of the current file, for messages */
    const json_t *vocab;  /* JSON object from names to tokens */
    const json_t *merges; /* JSON array of merges, or NULL if they are in merges.txt */
    const json_t *added;  /* JSON array of added tokens, or NULL */
    /* whether the files are vocab.json and merges.txt, which list no added tokens; ZR_END_OF_TEXT then counts as added
     */
    bool two_files;
    bool has_zeros; /* whether character 0 is read as character 1; this is for texts of tekken.json that zr ignores */
    bool prepends, symbols; /* whether a step of the pre-tokenizer prepends; whether a step follows ByteLevel */
    char end_of_text[256];  /* name of the token that ends a text, by tokenizer_config.json; "" if it names none */
} zr__reader;

/** Read a file, which becomes the reader's current file. Release *text with zr_free. Errors: ZR_ERR_DATA if it is too
 * large; ZR_ERR_NOT_FOUND, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__read_file(zr__reader *r, const char *path, char **text, size_t *bytes);

/** Read a JSON file, which becomes the reader's current file. Release *root with json_decref. Errors: ZR_ERR_DATA,
 * ZR_ERR_NOT_FOUND, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__read_json(zr__reader *r, const char *path, json_t **root);

/** Fail with ZR_ERR_DATA unless a value is missing or has no effect: null, false, 0 or "". */
ZR_NODISCARD zr_status zr__read_nothing(const zr__reader *r, const json_t *in, const char *section, const char *key);
/** Fail with ZR_ERR_DATA unless the object is of the type. */
ZR_NODISCARD zr_status zr__read_type(const zr__reader *r, const json_t *in, const char *section, const char *wanted);
/** Return whether an object is of a type. */
bool zr__read_is(const json_t *in, const char *type);

/** A step of a normalizer, pre-tokenizer, decoder or post-processor. */
typedef struct zr__member {
    const json_t *its;
    char place[160]; /* its place in the file, such as "pre_tokenizer.pretokenizers[1]" */
} zr__member;

/** A type of steps, and the function that reads one. */
typedef struct zr__member_type {
    const char *type;
    zr_status (*read)(zr__reader *r, const zr__member *m);
} zr__member_type;

/** Read a section: a step, or a "Sequence" with a list of steps in its member `list`; no step if it is missing or null.
 * Call the function of the type of each step. Errors: ZR_ERR_DATA if a step has another type; and errors of the
 * functions. */
ZR_NODISCARD zr_status zr__read_section(zr__reader *r, const json_t *root, const char *section, const char *list,
                                        const zr__member_type *types, size_t n);

/** Read a setting of a step: true or false. Fail with ZR_ERR_DATA if it is something else. */
ZR_NODISCARD zr_status zr__read_flag(const zr__reader *r, const zr__member *m, const char *key, bool *flag);
/** Read a setting of a step: a text of 1 to ZR__READ_MOST_SETTING bytes. Fail with ZR_ERR_DATA if it is something else.
 */
ZR_NODISCARD zr_status zr__read_text(const zr__reader *r, const zr__member *m, const char *key, const char **text);
/** Read a setting of a step: a single character. Fail with ZR_ERR_DATA if it is something else. */
ZR_NODISCARD zr_status zr__read_character(const zr__reader *r, const zr__member *m, const char *key, const char **text);
/** Read a setting of a step: an integer from `least` to `most`. Fail with ZR_ERR_DATA if it is something else. */
ZR_NODISCARD zr_status zr__read_count(const zr__reader *r, const zr__member *m, const char *key, int64_t least,
                                      int64_t most, int64_t *count);
/** Read the setting "pattern": {"String": text} or {"Regex": text}. Fail with ZR_ERR_DATA if it is something else. */
ZR_NODISCARD zr_status zr__read_pattern(const zr__reader *r, const zr__member *m, bool *regex, const char **text);
enum { ZR__READ_MOST_SETTING = 1 << 14 };

/** Settings of Metaspace. */
typedef struct zr__read_scheme {
    const char *replacement; /* replacement of spaces, one character */
    bool prepends, first;    /* whether it is put before a text, and only before a whole text */
    bool splits;             /* whether text is cut before each replacement */
} zr__read_scheme;
ZR_NODISCARD zr_status zr__read_metaspace(const zr__reader *r, const zr__member *m, zr__read_scheme *scheme);

/** Read the step BertNormalizer. */
ZR_NODISCARD zr_status zr__read_bert_normalizer(zr__reader *r, const zr__member *m);
/** Read the normalizer, the pre-tokenizer and the decoder. They decide whether BPE is byte-level or by characters. */
ZR_NODISCARD zr_status zr__read_steps(zr__reader *r, const json_t *root);
/** Read the pre-tokenizer. */
ZR_NODISCARD zr_status zr__read_cuts(zr__reader *r, const json_t *root);
/** Make a text's only step the regular expression of a byte-level tokenizer. */
ZR_NODISCARD zr_status zr__read_take_expression(zr__reader *r, const char *expression);
/** Read the tokens that the post_processor puts at the ends of a text. Call this function after zr__read_vocab. */
ZR_NODISCARD zr_status zr__read_post_processor(zr__reader *r, const json_t *root);

/** Read the vocabulary, with the added tokens. Call this function after zr__read_steps. */
ZR_NODISCARD zr_status zr__read_vocab(const zr__reader *r);
/** Read the merges of a tokenizer.json. */
ZR_NODISCARD zr_status zr__read_merges(const zr__reader *r);
/** Read the text of merges.txt. */
ZR_NODISCARD zr_status zr__read_merge_lines(const zr__reader *r, const char *text, size_t bytes);
/** Return the token with this name, in the vocabulary or among the added tokens, or -1. */
int32_t zr__read_find(const zr__reader *r, const char *name);
/** Append an added token whose text is `name`. The caller sets its flags in *added. Errors: ZR_ERR_DATA if the text is
 * too long; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__read_add_token(const zr__reader *r, zr__added added, const char *name, size_t bytes);

/** Read tokenizer_config.json. Release *config with json_decref. Errors: as for zr__read_json. */
ZR_NODISCARD zr_status zr__read_config(zr__reader *r, const char *path, json_t **config);

/** Read a tokenizer.json with a WordPiece model. */
ZR_NODISCARD zr_status zr__read_wordpiece(zr__reader *r, const json_t *root);
/** Read the vocab.txt of a directory, as its tokenizer_config.json says. */
ZR_NODISCARD zr_status zr__read_vocab_lines(zr__reader *r, const char *dir);

/** Read Mistral's tekken.json. */
ZR_NODISCARD zr_status zr__read_tekken(zr__reader *r, const char *path);

/** Fail with ZR_ERR_DATA if a byte-level vocabulary lacks the token of a byte. */
ZR_NODISCARD zr_status zr__read_want_bytes(const zr__reader *r);

/** Compute the remaining tables for encoding, after vocabulary, merges and steps are read. */
ZR_NODISCARD zr_status zr__read_finish(const zr__reader *r);

#endif
