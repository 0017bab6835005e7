/** Encoding of a text file as tokens by several threads, each with one part of the file at a time (data/text/parts.h).
 * The tokens depend only on the text, not on parts and threads. */
#ifndef ZR_DATA_ENCODE_H
#define ZR_DATA_ENCODE_H

#include "data/text/parts.h"
#include "zr/data.h"

/** Callback that receives the next n tokens, each as a little-endian number of zr__encoding.token_bytes bytes. */
typedef zr_status (*zr__tokens_fn)(void *arg, const unsigned char *tokens, int64_t n);

typedef struct zr__encoding {
    zr__parts parts; /* file, settings and position of reading; zr__encode sets cut and of, and usual_bytes if it is
                        0 */
    const zr_tokenizer *tokenizer;
    int32_t separator; /* token after each document of .jsonl, or negative for none */
    int token_bytes;   /* bytes per token: 1, 2 or 4 */
    int threads;       /* 0 for one thread per processor, up to 8 */
    zr__tokens_fn put;
    void *put_arg;
    zr_progress_fn progress; /* called with the progress in bytes of the file; may be NULL */
    void *arg;
} zr__encoding;

typedef struct zr__encoded {
    int64_t tokens;
    zr__found_texts found;
} zr__encoded;

/** Return whether the tokenizer knows where a text may be cut. If not, a whole text must be in memory, with five bytes
 * of memory per byte of text. This rises to about 30 if the text is one word that cannot be cut, and up to 75 for a
 * line of .jsonl that consists of other members. */
bool zr__encode_cuts(const zr_tokenizer *tokenizer);

/** Encode a file. Errors: ZR_ERR_DATA naming file and line; ZR_ERR_MEMORY; ZR_ERR_IO, also if the file has changed; and
 * those of `put`. */
ZR_NODISCARD zr_status zr__encode(const zr__encoding *encoding, zr__encoded *encoded);

#endif
