/**
 * A text to a file of tokens, by several threads, part by part: memory does not grow with the text.
 *
 * A part of a plain text ends before a newline behind an ASCII letter: there the usual tokenizers end a word whatever
 * comes next, so the tokens are those of the whole text. Parts, and so tokens, follow from the text alone, not from the
 * number of threads. A part of a .jsonl file is whole lines.
 */
#ifndef ZR_DATA_ENCODE_H
#define ZR_DATA_ENCODE_H

#include "base/file.h"
#include "zr/data.h"

typedef struct zr__encoding {
    const zr__file *text;
    const zr_tokenizer *tokenizer;
    bool lines;           /* .jsonl, and its keys: */
    const char *text_key; /* of each line */
    bool skip_bad_lines;
    int token_bytes; /* 1, 2 or 4 */
    zr_progress_fn progress;
    void *arg;
} zr__encoding;

typedef struct zr__encoded {
    int64_t tokens;
    int64_t text_bytes; /* that became tokens; of .jsonl those of the texts alone */
    int64_t skipped_lines, first_skipped;
} zr__encoded;

/** Write the tokens to `out` from byte `at` on, little-endian. ZR_ERR_DATA naming file and line; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__encode(const zr__encoding *encoding, const zr__file *out, int64_t at, zr__encoded *encoded);

#endif
