/**
 * Byte-pair encoding (Sennrich et al. 2016) of two kinds, and WordPiece. With byte-level BPE (Radford et al. 2019), a
 * piece of text begins as one token per byte. With BPE by characters (as SentencePiece's), a piece begins as one token
 * per character, and characters outside the vocabulary become tokens for their bytes. Each step merges the pair of
 * neighbouring tokens that comes first in the list of merges. Equal pairs are merged from left to right. WordPiece
 * (wordpiece.h) has no merges, but the same vocabulary, added tokens and tokens at the ends of documents.
 */
#ifndef ZR_DATA_BPE_H
#define ZR_DATA_BPE_H

#include "data/pieces/normalize.h"
#include "data/pieces/split.h"
#include "data/pieces/symbols.h"
#include "data/tokenizer/added.h"
#include "zr/data.h"

#define ZR__BPE_BYTES 256

/** The character that stands for a space in the tokens of SentencePiece: U+2581. */
#define ZR__BPE_SPACE "\xe2\x96\x81"

/** Number of bytes of the name of a byte's token, such as "<0x0A>", in BPE by characters. */
#define ZR__BPE_BYTE_NAME 6

/** Rule by which a tokenizer divides text into pieces that are merged independently. */
typedef enum zr__bpe_pieces {
    ZR__PIECES_SPLIT, /* by the steps of the pre-tokenizer (split.h) */
    /* before each ZR__BPE_SPACE that follows another character; no merge crosses the beginning of a piece */
    ZR__PIECES_WORDS,
    ZR__PIECES_EACH,  /* before each ZR__BPE_SPACE */
    ZR__PIECES_WHOLE, /* nowhere */
    ZR__PIECES_BERT,  /* at white space, and around punctuation (zr__bert_next); only WordPiece */
} zr__bpe_pieces;

/** Tokens that a tokenizer puts before and after a document. */
typedef struct zr__bpe_ends {
    int32_t *begin, *end; /* arrays of n_begin and n_end tokens */
    int64_t n_begin, n_end;
    int32_t separator; /* token after a document, or -1 */
} zr__bpe_ends;

/** A step of the decoder of BPE by characters. Steps change a list of texts, at first the names of tokens. */
typedef struct zr__saying {
    enum {
        ZR__SAY_REPLACE, /* replace `from` by `to` */
        ZR__SAY_BYTES,   /* decode consecutive names of bytes, such as "<0x0A>", to text */
        ZR__SAY_FUSE,    /* join all texts */
        ZR__SAY_STRIP, /* leave out up to `start` characters `from` at the beginning, `stop` at the end of each text */
        ZR__SAY_METASPACE, /* replace `from` by spaces; in the first text leave it out if `start` is 1 */
        ZR__SAY_SUFFIX,    /* replace `from` by spaces; in the last text leave it out */
        ZR__SAY_SPACED,    /* put a space between texts */
    } kind;
    int64_t start, stop;
    char *from, *to; /* released with zr_free */
} zr__saying;

enum { ZR__SAYING_MOST = 16 };

/** A tokenizer as read from its files. */
typedef struct zr__bpe {
    int64_t vocab;
    char *text;     /* names of all tokens, concatenated: bytes with byte-level BPE, else UTF-8 */
    int64_t *begin; /* array of vocab + 1 offsets: token i has the name text[begin[i], begin[i + 1]) */
    /* for each token: whether merges may produce it; with byte-level BPE its name then consists of symbols for bytes */
    bool *spelled;
    bool *special;                     /* for each token: whether it is a special added token */
    bool *alone;                       /* for each token: whether merging its name gives exactly this token */
    bool ignore_merges;                /* whether a piece that equals a token becomes this token without merging */
    bool by_character;                 /* whether pieces begin as characters instead of bytes */
    int32_t byte_token[ZR__BPE_BYTES]; /* token of each byte, or -1 */
    bool lacks_bytes;                  /* byte-level BPE: whether a byte has no token */

    /* treatment of a character outside the vocabulary. `byte_fallback`: whether it becomes the tokens of its bytes, if
     * they exist. `fuse_unk`: whether neighbouring unknown characters become one token `unknown` */
    bool byte_fallback, fuse_unk;
    int32_t unknown; /* token of a character outside the vocabulary; -1 if such characters are left out */
    char *said;      /* BPE by characters: texts of all tokens, concatenated like `text`; otherwise NULL */
    int64_t *said_begin;
    zr__saying saying[ZR__SAYING_MOST]; /* BPE by characters: steps of the decoder */
    int n_saying;
    bool lines_apart; /* BPE by characters: whether no merge contains a line end */

    /* WordPiece: maximum number of characters of a word; longer words become the unknown token. 0 for BPE */
    int64_t most_characters;
    /* WordPiece: bytes of the longest token that begins a word, and of the longest one that continues a word, without
     * its prefix */
    int64_t longest[2];
    bool tidies; /* WordPiece: whether decoding drops spaces before punctuation */

    struct zr__bpe_merge *merges; /* hash table of merges */
    int64_t merge_mask;
    int32_t *names; /* hash table from names to spelled tokens; -1 in empty slots */
    int64_t name_mask;

    zr__changes normalizer, spaces; /* changes before the second search for added tokens, and after it */
    zr__added_list added, later;    /* added tokens of the first and of the second search */
    bool uncut; /* whether texts must not be cut, because an added token contains a place where they would be cut */
    /* for each byte: whether a text must not be cut after it, because an added token ends with this byte and affects
     * the text after it */
    bool no_cut_behind[ZR__BPE_BYTES];

    zr__classes *classes;
    zr__split *split; /* NULL unless pieces is ZR__PIECES_SPLIT */
    zr__bpe_pieces pieces;
    zr__bpe_ends ends;
    int64_t growth, more; /* a text of n bytes has at most growth * n + more tokens */
    uint64_t hash;
} zr__bpe;

/** Return the token with this name, or -1. Only tokens in `spelled` are found. */
int32_t zr__bpe_find(const zr__bpe *bpe, const char *text, int64_t bytes);
/** Do the same as zr__bpe_find, given the XXH3-64 hash of the name. */
int32_t zr__bpe_find_hashed(const zr__bpe *bpe, const char *text, int64_t bytes, uint64_t hash);

static inline int64_t zr__bpe_bytes(const zr__bpe *bpe, int32_t token)
{
    return bpe->begin[token + 1] - bpe->begin[token];
}

/** Allocate the tables for `n` tokens that have `bytes` bytes in total. The caller then fills text, begin, spelled and
 * special, and calls zr__bpe_name_tokens. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_take_tokens(zr__bpe *bpe, int64_t n, int64_t bytes);
/** Build the hash table that zr__bpe_find reads. */
void zr__bpe_name_tokens(zr__bpe *bpe);
ZR_NODISCARD zr_status zr__bpe_take_merges(zr__bpe *bpe, int64_t n);
/** Add a merge. A lower rank is merged earlier. A second merge of the same pair replaces the first. */
void zr__bpe_merge(zr__bpe *bpe, int32_t left, int32_t right, int32_t into, uint32_t rank);
/** Read a slot of the hash table of merges, 0 to merge_mask. Return false if the slot is empty. */
bool zr__bpe_merge_at(const zr__bpe *bpe, int64_t slot, int32_t *left, int32_t *right);
/** Return a hash of the merges that does not depend on their order in the table. */
uint64_t zr__bpe_merges_hash(const zr__bpe *bpe);
/** Compute the tables that encoding needs. Call this function after all tokens and merges are added. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_finish(zr__bpe *bpe);
void zr__bpe_free(zr__bpe *bpe);

/** Compute the tokens of a piece only by merges. `tokens` has space for `bytes` tokens; *n receives their number.
 * Errors: ZR_ERR_MEMORY; ZR_ERR_DATA if the piece has more than 2^31 - 1 bytes. */
ZR_NODISCARD zr_status zr__bpe_merge_piece(const zr__bpe *bpe, const char *piece, int64_t bytes, int32_t *tokens,
                                           int64_t *n);

/** Encode a text like zr_tokenizer_encode. `continues` is true if the text continues an earlier text from a cut on. */
ZR_NODISCARD zr_status zr__bpe_encode(const zr__bpe *bpe, const char *text, int64_t bytes, bool continues,
                                      int32_t *tokens, int64_t room, int64_t *n);

/** Decode tokens like zr_tokenizer_text. */
ZR_NODISCARD zr_status zr__bpe_decode(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, char **text,
                                      int64_t *bytes);
/** Append bytes, with U+FFFD in place of bytes that are not UTF-8. */
void zr__bpe_add_lossy(zr__text *out, const char *text, int64_t bytes);
/** Compute `said`, the texts of all tokens, for BPE by characters. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bpe_say_tokens(zr__bpe *bpe);
/** Find a cut like zr__tokenizer_cut. */
int64_t zr__bpe_cut(const zr__bpe *bpe, const char *text, int64_t from, int64_t bytes);

/** Read a tokenizer from tokenizer.json, from vocab.json and merges.txt, or from tekken.json in a directory. Call
 * zr__bpe_free even after a failure. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA if the files are damaged or the tokenizer is
 * of another kind. */
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
