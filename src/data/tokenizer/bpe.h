/**
 * Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes, Radford et al. 2019). A piece of text begins as one
 * token per byte. Of all neighbours that can merge, the pair that is first in the list of merges merges first; equal
 * pairs merge from left to right.
 */
#ifndef ZR_DATA_BPE_H
#define ZR_DATA_BPE_H

#include "data/tokenizer/split.h"
#include "zr/data.h"

#define ZR__BPE_BYTES 256

/** A token that is searched for before the text is cut into pieces, such as <|endoftext|>. */
typedef struct zr__bpe_added {
    int32_t token;
    bool later; /* searched for only between the tokens that are not `later` */
} zr__bpe_added;

/** A tokenizer as read from its files. zr__bpe_find and zr__bpe_merge_of search its tables. */
typedef struct zr__bpe {
    int64_t vocab;
    char *text;         /* the bytes of all tokens, concatenated */
    int64_t *begin;     /* (vocab + 1) */
    bool *spelled;      /* (vocab) the name consists of symbols for bytes: merges may make it */
    bool *alone;        /* (vocab) a piece of just its bytes is this token */
    bool ignore_merges; /* a piece equal to a token's bytes is that token, whatever merges would make */
    int32_t byte_token[ZR__BPE_BYTES];

    struct zr__bpe_merge *merges; /* a hash table */
    int64_t merge_mask;
    int32_t *names; /* a hash table of spelled tokens; -1: empty */
    int64_t name_mask;

    zr__bpe_added *added; /* longest first */
    int64_t n_added;
    bool begins[ZR__BPE_BYTES]; /* an added token begins with this byte */
    bool has_later, spaced;     /* one is `later`; one has white space after its first byte */

    zr__split *split;
    uint64_t hash;
} zr__bpe;

/** Return the spelled token with these bytes, or -1. */
int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes);

static inline int64_t zr__bpe_bytes(const zr__bpe *bpe, int32_t token)
{
    return bpe->begin[token + 1] - bpe->begin[token];
}

/** Allocate `n` tokens whose names have `bytes` in total. The caller fills text, begin and spelled, then calls
 * zr__bpe_name_tokens. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_take_tokens(zr__bpe *bpe, int64_t n, int64_t bytes);
/** Build the table of names; zr__bpe_find works from then on. */
void zr__bpe_name_tokens(zr__bpe *bpe);
ZR_NODISCARD zr_status zr__bpe_take_merges(zr__bpe *bpe, int64_t n);
/** Add merge number `rank`; a second merge of the same pair replaces the first. */
void zr__bpe_merge(zr__bpe *bpe, int32_t left, int32_t right, int32_t into, uint32_t rank);
/** Compute the tables that encoding needs, after all tokens and merges are added. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_finish(zr__bpe *bpe);
void zr__bpe_free(zr__bpe *bpe);

/** Encode as zr_tokenizer_encode does. */
ZR_NODISCARD zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, int32_t *tokens,
                                      int64_t room, int64_t *n);
/** Find a cut as zr__tokenizer_cut does. */
int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes);

/* ---- symbols --------------------------------------------------------------------------------- */

/** Return the character that stands for a byte in names of tokens, as in GPT-2: a printable byte of Latin-1 stands
 * for itself; the others, in order, are U+0100 and the following. */
uint32_t zr__bpe_symbol(unsigned char byte);
/** Write the bytes that `name` (UTF-8, n bytes) spells to `out` (n) and return their number; -1: `name` has a
 * character that stands for no byte. */
int64_t zr__bpe_spell(const char *name, int64_t n, char *out);

/** Read a tokenizer from tokenizer.json, or from vocab.json and merges.txt in a directory. ZR_ERR_NOT_FOUND;
 * ZR_ERR_DATA: the files are damaged, or the tokenizer is of another kind. zr__bpe_free in either case. */
ZR_NODISCARD zr_status zr__bpe_read(const char *path, zr__bpe *bpe);
/** Return whether the directory has files of a tokenizer. */
bool zr__bpe_is_in(const char *dir);

/* ---- writing --------------------------------------------------------------------------------- */

/** A merge of two tokens by their numbers. */
typedef struct zr__bpe_pair {
    int32_t left, right;
} zr__bpe_pair;

/** A learned tokenizer to write: token i is the bytes text[end[i - 1], end[i]); token 0 begins at 0. */
typedef struct zr__bpe_told {
    const char *text;
    const int64_t *end;
    int64_t tokens;
    const zr__bpe_pair *merges; /* by rank */
    int64_t n_merges;
    bool end_of_text; /* ZR_END_OF_TEXT is one more token, the last, and is an added one */
} zr__bpe_told;

/** Print a tokenizer.json that cuts text as GPT-2's does; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_print(const zr__bpe_told *told, char **json);

#endif
