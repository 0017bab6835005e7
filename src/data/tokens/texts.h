/**
 * data/tokens: files of tokens. shard.h opens one file and finds its format. indexed.h reads Megatron's format, and
 * cache.h caches the tokens of texts. tokens.h reads a list of files as one sequence.
 *
 * This header reads texts once, in parts, to tokenize them or to learn a tokenizer. It also writes the header of
 * llm.c's token files.
 */
#ifndef ZR_DATA_TOKENS_TEXTS_H
#define ZR_DATA_TOKENS_TEXTS_H

#include "data/text/encode.h"
#include "data/tokenizer/tokenizer.h"
#include "zr/data.h"

/**
 * Text files that are read once, in order. They are read in parts, so memory does not grow with their size. A plain
 * text is one document. In a file of JSON records (data/text/shape.h) each record is a document, an object with a text.
 * Documents without text are skipped.
 */
typedef struct zr__texts zr__texts;
typedef struct zr__texts_args {
    const char *const *path; /* array of n paths */
    int n;
    const char *text_key;    /* key of the text in a line of .jsonl; NULL for "text" */
    bool skip_bad_lines;     /* whether to skip bad lines; otherwise they are errors */
    bool as_text;            /* whether each file is one text, even if it consists of JSON records */
    zr_progress_fn progress; /* callback for the progress, in bytes of all files; may be NULL */
    void *arg;
} zr__texts_args;
typedef struct zr__texts_info {
    int64_t file_bytes;            /* total bytes of all files */
    int64_t documents, text_bytes; /* number of documents read so far, and total bytes of their texts */
    int64_t skipped_lines;         /* number of bad lines of .jsonl files skipped so far */
    const char *note;              /* message about skipped bad lines or about the first suspicious file, or "" */
} zr__texts_info;

/** Open texts and check all files, which must not change afterwards. `args`, and all memory that it points to, must
 * stay valid until close. Errors: ZR_ERR_NOT_FOUND or ZR_ERR_DATA if a file is missing or not text; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__texts_open(const zr__texts_args *args, zr__texts **texts);
void zr__texts_close(zr__texts **texts);
zr__texts_info zr__texts_get_info(const zr__texts *texts);

/**
 * Pass the tokens of all documents to `put`, with the token `between` after each document but the last (negative for no
 * token). Each document has the tokens that zr_tokenizer_encode gives for the whole document, whatever the number of
 * threads.
 *
 * Each thread encodes a part of 1 MiB at a time, which takes five bytes of memory per byte. A part grows until it can
 * be cut (zr__tokenizer_cut). If the tokenizer knows no cuts, a whole document is in memory, and one thread encodes a
 * plain text. A line may have up to 16 MiB. It takes about 30 times its length in memory if it is one word that cannot
 * be cut, and up to 75 times if it consists of JSON members other than the text.
 *
 * Errors: ZR_ERR_DATA naming file and byte or line; ZR_ERR_IO, also if a file has changed; ZR_ERR_MEMORY; and errors of
 * `put`.
 */
ZR_NODISCARD zr_status zr__texts_encode(zr__texts *texts, const zr_tokenizer *tokenizer, int token_bytes,
                                        int32_t between, int threads, zr__tokens_fn put, void *arg);

/** Count the pieces of all documents (zr__tokenizer_trainer_add), each cut as a separate text. Errors: as
 * zr__texts_encode. */
ZR_NODISCARD zr_status zr__texts_learn(zr__texts *texts, zr__tokenizer_trainer *trainer);

#define ZR_LLMC_HEADER_BYTES 1024

/** Write the header of an llm.c file with `tokens` tokens, each of token_bytes bytes (2 or 4). Fail with ZR_ERR_DATA if
 * the number of tokens exceeds the limit of the format. */
ZR_NODISCARD zr_status zr__llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES]);

#endif
