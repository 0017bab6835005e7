/** Encoding of a text file as tokens by several threads, each with one part of the file at a time (data/text/parts.h).
 * The tokens depend on the text alone, not on parts and threads. */
#ifndef ZR_DATA_ENCODE_H
#define ZR_DATA_ENCODE_H

#include "data/text/parts.h"
#include "zr/data.h"

/** Callback for the next n tokens, little-endian, each of zr__texts_encode's token_bytes. */
typedef zr_status (*zr__tokens_fn)(void *arg, const unsigned char *tokens, int64_t n);

typedef struct zr__encoding {
    zr__parts parts; /* the file and how it is read; cut, of, and usual_bytes where it is 0, are set by zr__encode */
    const zr_tokenizer *tokenizer;
    int32_t separator; /* the token after each document of .jsonl; negative: none */
    int token_bytes;   /* 1, 2 or 4 */
    int threads;       /* 0: one for each processor, up to 8 */
    zr__tokens_fn put;
    void *put_arg;
    zr_progress_fn progress; /* progress in bytes of the file; may be NULL */
    void *arg;
} zr__encoding;

typedef struct zr__encoded {
    int64_t tokens;
    zr__found_texts found;
} zr__encoded;

/** Return whether the tokenizer knows where a text may be cut. If it does not, a text is in memory as a whole, with
 * five bytes for each of its bytes; about 30 if it is one word that cannot be cut, up to 75 for a line of .jsonl made
 * of other members. */
bool zr__encode_cuts(const zr_tokenizer *tokenizer);

/** Encode a file. ZR_ERR_DATA naming file and line; ZR_ERR_MEMORY; ZR_ERR_IO, also when the file has changed; the
 * errors of `put`. */
ZR_NODISCARD zr_status zr__encode(const zr__encoding *encoding, zr__encoded *encoded);

#endif
