/** train/tokenizer: the functions of `zr tokenize`, which convert texts to token files and train tokenizers on texts.
 * tokenizer_files.c copies the files of a tokenizer into a directory. */
#ifndef ZR_TRAIN_TOKENIZER_TOKENIZE_H
#define ZR_TRAIN_TOKENIZER_TOKENIZE_H

#include "data/tokens/texts.h"

typedef enum zr__tokens_format {
    ZR_TOKENS_LLMC,   /* format of llm.c: a header of 1024 bytes, then uint16 tokens (uint32 if vocabulary > 65536) */
    ZR_TOKENS_NANOGPT /* format of nanoGPT: uint16 tokens without a header */
} zr__tokens_format;
#define ZR_TOKENIZE_TEXTS 256
#define ZR_TOKENIZE_THREADS 256

typedef struct zr__tokenize_args {
    const char *tokenizer; /* name or path for zr_tokenizer_open */
    zr__texts_args texts;  /* 1 to ZR_TOKENIZE_TEXTS files; each file, or each of its JSON records, is a document */
    const char *out; /* path of the output, which zr_data_open can read; must end in ".bin" for ZR_TOKENS_NANOGPT */
    zr__tokens_format format;
    bool eot;    /* whether a token separates documents: ZR_END_OF_TEXT or the eos_token */
    int threads; /* number of threads, up to ZR_TOKENIZE_THREADS; 0 for one per processor */
} zr__tokenize_args;

/** Result of zr__tokenize or zr__tokenize_train. */
typedef struct zr__tokenized {
    int64_t bytes, tokens; /* bytes of text in all documents; number of tokens, including tokens between documents */
    int64_t vocab;
    uint64_t hash; /* hash of the tokenizer (zr_tokenizer_hash) */
    int token_bytes;
    char note[512];                   /* note about the texts (zr__texts_info) */
    int64_t documents, skipped_lines; /* number of documents with a text; number of skipped bad lines in .jsonl files */
} zr__tokenized;

/**
 * Write the tokens of texts into a file. The file is written as `out`.tmp and then renamed, so it appears atomically.
 * Each document is encoded as a whole by zr_tokenizer_encode. The result does not depend on the number of threads.
 * zr__texts_encode describes how texts are read, and how much memory this takes.
 *
 * Fail with ZR_ERR_ARG if a number is out of range. Fail with ZR_ERR_CREATE if `out` or `out`.tmp is an input, if `out`
 * exists and is not a token file of this format, or if `out`.tmp exists. Fail with ZR_ERR_NOT_FOUND or ZR_ERR_DATA if
 * the tokenizer or a text is missing or bad. Fail with ZR_ERR_DATA if there are too many tokens for the header, or if
 * `eot` is set and the tokenizer has no separator. Fail with ZR_ERR_IO if a text changes meanwhile, or if writing
 * fails. Other errors: ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__tokenize(const zr__tokenize_args *args, zr__tokenized *did);

typedef struct zr__tokenize_train_args {
    zr__texts_args texts; /* 1 to ZR_TOKENIZE_TEXTS files; each file, or each of its JSON records, is a document */
    const char *out;      /* path of the output directory, which must be new or empty */
    int64_t vocab;        /* number of tokens, at least ZR_TOKENIZER_LEAST_VOCAB */
} zr__tokenize_train_args;

/**
 * Train a tokenizer on texts (zr__tokenizer_trainer_learn) and write it into a directory, which appears atomically. The
 * directory holds tokenizer.json and, for the package transformers, tokenizer_config.json. Texts are read in parts
 * (zr__texts). *did receives facts about the texts, and the vocabulary size and the hash of the tokenizer. The
 * tokenizer has fewer than `vocab` tokens if the texts have no more pairs to merge.
 *
 * Fail with ZR_ERR_ARG if a number is out of range. Fail with ZR_ERR_CREATE if `out` is not empty or cannot be created.
 * Fail with ZR_ERR_NOT_FOUND or ZR_ERR_DATA if a text is missing or bad. Other errors: ZR_ERR_MEMORY, ZR_ERR_IO.
 */
ZR_NODISCARD zr_status zr__tokenize_train(const zr__tokenize_train_args *args, zr__tokenized *did);

/* ---- files of a tokenizer (tokenizer_files.c) ----------------------------------------------------------------- */

/** Write tokenizer.json and tokenizer_config.json into `dir`. `json` is the text of tokenizer.json.
 * tokenizer_config.json tells the package transformers the class of the tokenizer. `end_of_text` tells whether the
 * tokenizer has the token <|endoftext|>. Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_write(const char *dir, const char *json, bool end_of_text);

/** Copy the files of the tokenizer `name` (zr_tokenizer_open) into `dir`, unchanged. If `name` is "bytes", write the
 * files of an equivalent tokenizer. If `name` is NULL, do nothing. Fail with ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the
 * tokenizer has no usable files. Other errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_copy(const char *name, const char *dir);

/** Copy all tokenizer files from the directory `from` into `dir`, unchanged and unchecked. Fail with ZR_ERR_DATA if a
 * file is too large for a tokenizer. Other errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenizer_files_take(const char *from, const char *dir);
/** Copy generation_config.json from the directory `from` into `dir`, unless `dir` has one. If `all` is set and `from`
 * has a tokenizer, copy all tokenizer files instead. Errors: as zr__tokenizer_files_take. */
ZR_NODISCARD zr_status zr__tokenizer_files_add(const char *from, const char *dir, bool all);
/** Return whether `dir` has at least one file of a tokenizer. */
bool zr__tokenizer_files_any(const char *dir);

/** Remove the tokenizer files in `dir`. If the directory `like` is not NULL, remove only files that have the same
 * content in `like`. */
void zr__tokenizer_files_remove(const char *dir, const char *like);

#endif
