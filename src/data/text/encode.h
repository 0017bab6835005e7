/** Encodes a text file as tokens on several threads. Each thread encodes one part of the file at a time
 * (data/text/parts.h). The tokens do not depend on the parts or on the number of threads. */
#ifndef ZR_DATA_ENCODE_H
#define ZR_DATA_ENCODE_H

#include "data/text/parts.h"
#include "data/text/record.h"
#include "zr/data.h"

/** Callback that receives the next n tokens, each as a little-endian number of zr__encoding.token_bytes bytes. */
typedef zr_status (*zr__tokens_fn)(void *arg, const unsigned char *tokens, int64_t n);

/** A document of a .jsonl file, or a sentence, as indices of its tokens among all tokens of the file. */
typedef struct zr__document {
    int64_t first;  /* index of the first token */
    int64_t answer; /* index of the first token that counts for the loss */
} zr__document;

/** Callback that receives the next n documents. */
typedef zr_status (*zr__documents_fn)(void *arg, const zr__document *document, int64_t n);

typedef struct zr__encoding {
    zr__parts parts; /* input file and how to read it; zr__encode sets `cut`, `of`, and a missing `usual_bytes` */
    const zr_tokenizer *tokenizer;
    /* Settings for records of instruction data; NULL if each record has one text. With settings, tokens that the loss
     * does not count have ZR__IGNORED added, and token_bytes must be 4. */
    const zr__instruct *instruct;
    /* whether each line is a sentence, to which no tokens are added; parts.shape must be ZR__SHAPE_LINES. A line
     * without tokens is an empty document */
    bool sentences;
    int32_t separator; /* token appended to each document of .jsonl; negative for no token */
    int token_bytes;   /* bytes per token: 1, 2 or 4 */
    int threads;       /* number of threads; 0 for one per processor, up to 8 */
    zr__tokens_fn put;
    zr__documents_fn put_documents; /* callback for the documents of a .jsonl file, in order; may be NULL */
    void *put_arg;
    zr_progress_fn progress; /* callback for the progress, in bytes of the file; may be NULL */
    void *arg;
} zr__encoding;

typedef struct zr__encoded {
    int64_t tokens, documents; /* number of tokens; number of documents of a .jsonl file */
    zr__found_texts found;
} zr__encoded;

/** Return whether the tokenizer can tell where a text may be cut. If it cannot, a whole text must be in memory, and
 * takes five bytes of memory per byte of text. A text of one word takes about 30, and a line of .jsonl that consists of
 * JSON members other than the text takes up to 75. */
bool zr__encode_cuts(const zr_tokenizer *tokenizer);

/** Encode a file. Errors: ZR_ERR_DATA naming file and line; ZR_ERR_MEMORY; ZR_ERR_IO, also if the file has changed;
 * errors of `put`. */
ZR_NODISCARD zr_status zr__encode(const zr__encoding *encoding, zr__encoded *encoded);

#endif
