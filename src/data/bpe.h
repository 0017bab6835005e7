/**
 * Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes, Radford et al. 2019): a piece of text begins as one
 * token a byte, and of neighbours that may merge those merge first whose merge stands first in the list, of equals the
 * leftmost.
 */
#ifndef ZR_DATA_BPE_H
#define ZR_DATA_BPE_H

#include "data/split.h"
#include "zr/data.h"

#define ZR__BPE_BYTES 256

/** A token that text is searched for before it is cut into pieces, such as <|endoftext|>. */
typedef struct zr__bpe_added {
    int32_t token;
    bool later; /* looked for in what is left between those that are not */
} zr__bpe_added;

/** What a file says. Tables are found by zr__bpe_find and zr__bpe_merge_of. */
typedef struct zr__bpe {
    int64_t vocab;
    char *text;         /* of all tokens, one behind the other */
    int64_t *begin;     /* (vocab + 1) */
    bool *spelled;      /* (vocab) its name is spelled in the symbols that stand for bytes: merges may make it */
    bool *alone;        /* (vocab) a piece of just its bytes is this token */
    bool ignore_merges; /* a piece that is a token's bytes is that token, whatever the merges would make */
    int32_t byte_token[ZR__BPE_BYTES];

    struct zr__bpe_merge *merges; /* a hash table */
    int64_t merge_mask;
    int32_t *names; /* a hash table of spelled tokens; -1: nothing */
    int64_t name_mask;

    zr__bpe_added *added; /* longest first */
    int64_t n_added;
    bool begins[ZR__BPE_BYTES]; /* an added token begins with this byte */
    bool has_later, spaced;     /* one is looked for later; one has white space behind something else */

    zr__split *split;
    uint64_t hash;
} zr__bpe;

/** The token spelled so, or -1. */
int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes);

static inline int64_t zr__bpe_bytes(const zr__bpe *bpe, int32_t token)
{
    return bpe->begin[token + 1] - bpe->begin[token];
}

/** Room for `n` tokens whose names take `bytes`; the caller fills text, begin and spelled, then calls name_tokens.
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_take_tokens(zr__bpe *bpe, int64_t n, int64_t bytes);
/** Tokens can be found from here on. */
void zr__bpe_name_tokens(zr__bpe *bpe);
ZR_NODISCARD zr_status zr__bpe_take_merges(zr__bpe *bpe, int64_t n);
/** Merge number `rank`; of two of the same pair the later holds. */
void zr__bpe_merge(zr__bpe *bpe, int32_t left, int32_t right, int32_t into, uint32_t rank);
/** All is told: what is known ahead. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_finish(zr__bpe *bpe);
void zr__bpe_free(zr__bpe *bpe);

/** As zr_tokenizer_encode. */
ZR_NODISCARD zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, int32_t *tokens,
                                      int64_t room, int64_t *n);
/** As zr_tokenizer_cut. */
int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes);

/* ---- symbols --------------------------------------------------------------------------------- */

/** Names of tokens are spelled in one printable character for each byte, GPT-2's: printable bytes of Latin-1 are
 * themselves, the others in their order are U+0100 and those behind it. */
uint32_t zr__bpe_symbol(unsigned char byte);
/** The bytes that `name` (UTF-8, n bytes) spells into out (n); -1: another character is in it. */
int64_t zr__bpe_spell(const char *name, int64_t n, char *out);

/** A tokenizer of tokenizer.json, or of vocab.json and merges.txt in a directory. ZR_ERR_NOT_FOUND; ZR_ERR_DATA what
 * is damaged or not of this kind. zr__bpe_free in either case. */
ZR_NODISCARD zr_status zr__bpe_read(const char *path, zr__bpe *bpe);
/** Has the directory such files? */
bool zr__bpe_is_in(const char *dir);

/* ---- writing --------------------------------------------------------------------------------- */

/** A merge of two tokens by their numbers. */
typedef struct zr__bpe_pair {
    int32_t left, right;
} zr__bpe_pair;

/** What is written: token i is the bytes text[end[i - 1], end[i]), the first from 0. */
typedef struct zr__bpe_told {
    const char *text;
    const int64_t *end;
    int64_t tokens;
    const zr__bpe_pair *merges; /* in their order */
    int64_t n_merges;
    bool end_of_text; /* ZR_END_OF_TEXT is one more token, the last, and an added one */
} zr__bpe_told;

/** The text of a tokenizer.json that cuts as GPT-2's does; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_print(const zr__bpe_told *told, char **json);

#endif
