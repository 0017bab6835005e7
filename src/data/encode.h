/** A text file to tokens, by several threads, a part of it for each at a time (data/parts.h). Tokens follow from the
 * text alone, not from parts and threads. */
#ifndef ZR_DATA_ENCODE_H
#define ZR_DATA_ENCODE_H

#include "data/parts.h"
#include "zr/data.h"

typedef struct zr__encoding {
    zr__parts parts; /* file, and how it is read; cut, of, and usual_bytes where it is 0, are filled in here */
    const zr_tokenizer *tokenizer;
    int32_t separator; /* behind each document of .jsonl; negative: nothing */
    int token_bytes;   /* 1, 2 or 4 */
    int threads;       /* 0: as many as there are processors, up to 8 */
    zr_tokens_fn put;
    void *put_arg;
    zr_progress_fn progress; /* of the file's bytes; may be NULL */
    void *arg;
} zr__encoding;

typedef struct zr__encoded {
    int64_t tokens;
    zr__found_texts found;
} zr__encoded;

/** Does the tokenizer say where a text may be cut? Without, a text is in memory as a whole, five bytes for each;
 * about 30 where it is one word that cannot be cut, up to 75 for a line of .jsonl made of other members. */
bool zr__encode_cuts(const zr_tokenizer *tokenizer);

/** ZR_ERR_DATA naming file and line; ZR_ERR_MEMORY; ZR_ERR_IO, also where the file has changed; what `put` says. */
ZR_NODISCARD zr_status zr__encode(const zr__encoding *encoding, zr__encoded *encoded);

#endif
