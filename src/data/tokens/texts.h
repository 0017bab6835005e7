/**
 * data/tokens: files of tokens. shard.h opens one file and finds its format (indexed.h: Megatron's, cache.h: tokens of
 * a text), tokens.h reads a list of files as one sequence. This header has texts that are read once, in parts, to be
 * tokenized or learned from, and the header of llm.c's token files.
 */
#ifndef ZR_DATA_TOKENS_TEXTS_H
#define ZR_DATA_TOKENS_TEXTS_H

#include "data/text/encode.h"
#include "data/tokenizer/tokenizer.h"
#include "zr/data.h"

/**
 * Text files read once, in their order and in parts: memory does not grow with them. A plain text is one document; a
 * ".jsonl" file has one in each line, an object with a text. Documents without text are skipped.
 */
typedef struct zr__texts zr__texts;
typedef struct zr__texts_args {
    const char *const *path; /* (n) */
    int n;
    const char *text_key;    /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;     /* else they are errors */
    zr_progress_fn progress; /* progress in bytes of all files; may be NULL */
    void *arg;
} zr__texts_args;
typedef struct zr__texts_info {
    int64_t file_bytes;            /* bytes of all files */
    int64_t documents, text_bytes; /* documents read so far, and the bytes of their texts */
    int64_t skipped_lines;         /* bad lines of .jsonl files, left out so far */
    const char *note;              /* message on bad lines left out, or on the first suspicious file; "" */
} zr__texts_info;

/** Open texts and check all files, which must not change from here on; `args` and the memory that it points to must
 *  stay valid until close. ZR_ERR_NOT_FOUND, ZR_ERR_DATA a file is missing, or no text. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__texts_open(const zr__texts_args *args, zr__texts **texts);
void zr__texts_close(zr__texts **texts);
zr__texts_info zr__texts_get_info(const zr__texts *texts);

/** Give `put` the tokens of all documents, each encoded by zr_tokenizer_encode as a whole, for any number of threads,
 *  and the token `between` documents (negative: none). A thread has a part of 1 MiB at a time (five bytes of memory for
 *  each byte); a part grows until it can be cut (zr__tokenizer_cut). Where a tokenizer knows no cuts, a document
 *  is in memory as a whole, and one thread works on a plain text. A line may have 16 MiB; its memory is about 30 times
 *  its length where it is one word that cannot be cut, and up to 75 where it consists of other members. ZR_ERR_DATA
 *  naming file and byte or line; ZR_ERR_IO also where a file has changed; ZR_ERR_MEMORY; the status of `put`. */
ZR_NODISCARD zr_status zr__texts_encode(zr__texts *texts, const zr_tokenizer *tokenizer, int token_bytes,
                                        int32_t between, int threads, zr__tokens_fn put, void *arg);

/** Count the pieces of all documents (zr__tokenizer_trainer_add), each cut as a text of its own. Errors as above. */
ZR_NODISCARD zr_status zr__texts_learn(zr__texts *texts, zr__tokenizer_trainer *trainer);

#define ZR_LLMC_HEADER_BYTES 1024

/** Write the header of an llm.c file of `tokens` tokens of token_bytes each, 2 or 4. ZR_ERR_DATA: more than it can
 *  count. */
ZR_NODISCARD zr_status zr__llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES]);

#endif
