/**
 * Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes, Radford et al. 2019). A piece of text begins as one
 * token per byte. Each step merges the pair of neighbouring tokens that comes first in the list of merges. Equal pairs
 * are merged from left to right.
 */
#ifndef ZR_DATA_BPE_H
#define ZR_DATA_BPE_H

#include "data/tokenizer/split.h"
#include "zr/data.h"

#define ZR__BPE_BYTES 256

/** An added token, such as <|endoftext|>. The text is searched for added tokens before it is cut into pieces. */
typedef struct zr__bpe_added {
    int32_t token;
    bool later; /* whether the token is searched for in a second pass, in the text between the added tokens of the first
                   pass */
} zr__bpe_added;

/** A tokenizer as read from its files. */
typedef struct zr__bpe {
    int64_t vocab;
    char *text;     /* bytes of all tokens, concatenated */
    int64_t *begin; /* array of vocab + 1 offsets: token i has the bytes text[begin[i], begin[i + 1]) */
    bool *spelled;  /* for each token: whether merges may produce it, since its name consists of symbols for bytes */
    bool *alone;    /* for each token: whether merging its bytes gives exactly this token */
    bool ignore_merges; /* whether a piece that equals a token becomes this token without merging */
    int32_t byte_token[ZR__BPE_BYTES];

    struct zr__bpe_merge *merges; /* hash table of merges */
    int64_t merge_mask;
    int32_t *names; /* hash table from bytes to spelled tokens; -1 in empty slots */
    int64_t name_mask;

    zr__bpe_added *added; /* added tokens, longest first */
    int64_t n_added;
    bool begins[ZR__BPE_BYTES]; /* for each byte: whether an added token begins with it */
    bool has_later, spaced; /* has_later: whether any added token is `later`; spaced: whether any has white space after
                               its first byte */

    zr__split *split;
    uint64_t hash;
} zr__bpe;

/** Return the token with these bytes, or -1. Only tokens in `spelled` are found. */
int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes);

static inline int64_t zr__bpe_bytes(const zr__bpe *bpe, int32_t token)
{
    return bpe->begin[token + 1] - bpe->begin[token];
}

/** Allocate the tables for `n` tokens that have `bytes` bytes in total. The caller then fills text, begin and spelled,
 * and calls zr__bpe_name_tokens. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_take_tokens(zr__bpe *bpe, int64_t n, int64_t bytes);
/** Build the hash table that zr__bpe_find reads. */
void zr__bpe_name_tokens(zr__bpe *bpe);
ZR_NODISCARD zr_status zr__bpe_take_merges(zr__bpe *bpe, int64_t n);
/** Add a merge. A lower rank is merged earlier. A second merge of the same pair replaces the first. */
void zr__bpe_merge(zr__bpe *bpe, int32_t left, int32_t right, int32_t into, uint32_t rank);
/** Compute the tables that encoding needs. Call this function after all tokens and merges are added. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_finish(zr__bpe *bpe);
void zr__bpe_free(zr__bpe *bpe);

/** Encode a text like zr_tokenizer_encode. */
ZR_NODISCARD zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, int32_t *tokens,
                                      int64_t room, int64_t *n);
/** Find a cut like zr__tokenizer_cut. */
int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes);

/* ---- symbols --------------------------------------------------------------------------------- */

/** Return the character that represents a byte in token names, as in GPT-2. Printable bytes of Latin-1 represent
 * themselves. The other bytes, in order, are represented by U+0100 and the following characters. */
uint32_t zr__bpe_symbol(unsigned char byte);
/** Convert a token's name (UTF-8, n bytes) to the bytes that its characters represent. `out` needs space for n bytes.
 * Return the number of bytes, or -1 if a character represents no byte. */
int64_t zr__bpe_spell(const char *name, int64_t n, char *out);

/** Read a tokenizer from tokenizer.json, or from vocab.json and merges.txt in a directory. Call zr__bpe_free even after
 * a failure. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA if the files are damaged or the tokenizer is of another kind. */
ZR_NODISCARD zr_status zr__bpe_read(const char *path, zr__bpe *bpe);

/* ---- writing --------------------------------------------------------------------------------- */

/** A merge of two tokens, by their numbers. */
typedef struct zr__bpe_pair {
    int32_t left, right;
} zr__bpe_pair;

/** A learned tokenizer to be written. The bytes of token i are text[end[i - 1], end[i]); token 0 begins at 0. */
typedef struct zr__bpe_told {
    const char *text;
    const int64_t *end;
    int64_t tokens;
    const zr__bpe_pair *merges; /* merges in the order of their ranks */
    int64_t n_merges;
    bool end_of_text; /* whether the added token ZR_END_OF_TEXT follows these tokens */
} zr__bpe_told;

/** Print a tokenizer.json that cuts text into pieces like GPT-2. Free *json with zr_free. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_print(const zr__bpe_told *told, char **json);

#endif
