/**
 * Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes, Radford et al. 2019). A piece of text begins as one
 * token per byte. Of all neighbouring pairs that can merge, the one that comes first in the list of merges is merged
 * first; equal pairs are merged from left to right.
 */
#ifndef ZR_DATA_BPE_H
#define ZR_DATA_BPE_H

#include "data/tokenizer/split.h"
#include "zr/data.h"

#define ZR__BPE_BYTES 256

/** A token that is searched for before the text is cut into pieces, such as <|endoftext|>. */
typedef struct zr__bpe_added {
    int32_t token;
    bool later; /* whether the token is searched for only after the added tokens that are not `later`, in the text
                   between them */
} zr__bpe_added;

/** A tokenizer as read from its files. zr__bpe_find and zr__bpe_merge_of look up its tables. */
typedef struct zr__bpe {
    int64_t vocab;
    char *text;         /* bytes of all tokens, concatenated */
    int64_t *begin;     /* (vocab + 1) offset of each token's bytes in `text`; the last entry is the end of the last
                           token */
    bool *spelled;      /* (vocab) whether the token's name consists of symbols for bytes, so that merges may produce
                           it */
    bool *alone;        /* (vocab) whether a piece with exactly the token's bytes is encoded as this token */
    bool ignore_merges; /* whether a piece with exactly a token's bytes becomes that token, without merging */
    int32_t byte_token[ZR__BPE_BYTES];

    struct zr__bpe_merge *merges; /* hash table of merges */
    int64_t merge_mask;
    int32_t *names; /* hash table of spelled tokens; -1 in empty slots */
    int64_t name_mask;

    zr__bpe_added *added; /* added tokens, longest first */
    int64_t n_added;
    bool begins[ZR__BPE_BYTES]; /* whether an added token begins with this byte */
    bool has_later, spaced;     /* has_later: whether any added token is `later`; spaced: whether any added token has
                                   white space after its first byte */

    zr__split *split;
    uint64_t hash;
} zr__bpe;

/** Return the spelled token with these bytes, or -1 if there is none. */
int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes);

static inline int64_t zr__bpe_bytes(const zr__bpe *bpe, int32_t token)
{
    return bpe->begin[token + 1] - bpe->begin[token];
}

/** Allocate `n` tokens whose names have `bytes` bytes in total. The caller then fills text, begin and spelled, and
 * calls zr__bpe_name_tokens. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_take_tokens(zr__bpe *bpe, int64_t n, int64_t bytes);
/** Build the table of names, which zr__bpe_find needs. */
void zr__bpe_name_tokens(zr__bpe *bpe);
ZR_NODISCARD zr_status zr__bpe_take_merges(zr__bpe *bpe, int64_t n);
/** Add merge number `rank`. A second merge of the same pair replaces the first. */
void zr__bpe_merge(zr__bpe *bpe, int32_t left, int32_t right, int32_t into, uint32_t rank);
/** Compute the tables that encoding needs, after all tokens and merges are added. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_finish(zr__bpe *bpe);
void zr__bpe_free(zr__bpe *bpe);

/** Encode a text like zr_tokenizer_encode. */
ZR_NODISCARD zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, int32_t *tokens,
                                      int64_t room, int64_t *n);
/** Find a cut like zr__tokenizer_cut. */
int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes);

/* ---- symbols --------------------------------------------------------------------------------- */

/** Return the character that stands for a byte in names of tokens, as in GPT-2. Printable bytes of Latin-1 stand for
 * themselves; the other bytes, in order, are represented by U+0100 and the following characters. */
uint32_t zr__bpe_symbol(unsigned char byte);
/** Write the bytes that `name` (UTF-8, n bytes) stands for to `out` (n) and return their number, or -1 if `name` has a
 * character that stands for no byte. */
int64_t zr__bpe_spell(const char *name, int64_t n, char *out);

/** Read a tokenizer from tokenizer.json, or from vocab.json and merges.txt in a directory. Call zr__bpe_free even after
 * a failure. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA if the files are damaged or the tokenizer is of another kind. */
ZR_NODISCARD zr_status zr__bpe_read(const char *path, zr__bpe *bpe);
/** Return whether the directory has files of a tokenizer. */
bool zr__bpe_is_in(const char *dir);

/* ---- writing --------------------------------------------------------------------------------- */

/** A merge of two tokens, given by their numbers. */
typedef struct zr__bpe_pair {
    int32_t left, right;
} zr__bpe_pair;

/** A learned tokenizer to be written. The bytes of token i are text[end[i - 1], end[i]), where end[-1] stands for 0. */
typedef struct zr__bpe_told {
    const char *text;
    const int64_t *end;
    int64_t tokens;
    const zr__bpe_pair *merges; /* merges in the order of their ranks */
    int64_t n_merges;
    bool end_of_text; /* whether an added token ZR_END_OF_TEXT follows these tokens */
} zr__bpe_told;

/** Print a tokenizer.json that cuts text into pieces as GPT-2's does; zr_free it. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_print(const zr__bpe_told *told, char **json);

#endif
