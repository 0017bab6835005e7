/**
 * A text to a file of tokens, by several threads, part by part: memory does not grow with the text.
 *
 * A part of a plain text ends where zr_tokenizer_cut allows, so the tokens are those of the whole text; where there is
 * no such place in ZR__STRETCH_MOST_BYTES, before a character. Where a tokenizer has no such places at all, a text is
 * tokenized whole: a plain one up to ZR__WHOLE_BYTES, one of a .jsonl file whatever its line may hold. A part of a
 * .jsonl file is whole lines. Tokens follow from the text alone, not from the number of threads.
 */
#ifndef ZR_DATA_ENCODE_H
#define ZR_DATA_ENCODE_H

#include "base/file.h"
#include "zr/data.h"

#define ZR__STRETCH_MOST_BYTES ((int64_t)1 << 20)
#define ZR__WHOLE_BYTES ((int64_t)4 << 20)

typedef struct zr__encoding {
    const zr__file *text;
    const zr_tokenizer *tokenizer;
    bool lines;           /* .jsonl, and its keys: */
    const char *text_key; /* of each line */
    bool skip_bad_lines;
    int token_bytes;    /* 1, 2 or 4 */
    int threads;        /* 0: as many as there are processors, up to 8 */
    int64_t part_bytes; /* of the text for a thread at a time, up to ZR__STRETCH_MOST_BYTES; 0: what is fast */
    zr_progress_fn progress;
    void *arg;
} zr__encoding;

typedef struct zr__encoded {
    int64_t tokens;
    int64_t text_bytes; /* that became tokens; of .jsonl those of the texts alone */
    int64_t skipped_lines, first_skipped;
} zr__encoded;

/** ZR_ERR_UNSUPPORTED: this text must be tokenized whole, and is too long for it. */
ZR_NODISCARD zr_status zr__encode_possible(const zr__encoding *encoding);

/** Write the tokens to `out` from byte `at` on, little-endian. ZR_ERR_DATA naming file and line; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__encode(const zr__encoding *encoding, const zr__file *out, int64_t at, zr__encoded *encoded);

#endif
