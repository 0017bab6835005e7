/**
 * train/tokenizer: converts text to files of tokens and learns tokenizers from texts, for `zr tokenize`.
 * tokenizer_files.h copies a tokenizer's files into a directory.
 */
#ifndef ZR_TRAIN_TOKENIZER_TOKENIZE_H
#define ZR_TRAIN_TOKENIZER_TOKENIZE_H

#include "zr/base.h"

typedef enum zr__tokens_format {
    ZR_TOKENS_LLMC,   /* format of llm.c: a header of 1024 bytes; tokens are uint16 for vocabularies up to 65536, else
                         uint32 */
    ZR_TOKENS_NANOGPT /* format of nanoGPT: uint16 tokens without a header */
} zr__tokens_format;
#define ZR_TOKENIZE_TEXTS 256
#define ZR_TOKENIZE_THREADS 256

typedef struct zr__tokenize_args {
    const char *tokenizer;   /* name as in zr_tokenizer_open */
    const char *const *text; /* n_texts paths; each file, or each line of a .jsonl file, is a document (zr__texts) */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* path of the output, which zr_data_open can read; for NANOGPT it must end in ".bin" */
    zr__tokens_format format;
    bool eot;                /* whether ZR_END_OF_TEXT is put between documents; no other token is inserted */
    int threads;             /* 1 .. ZR_TOKENIZE_THREADS, or 0 for one per processor, up to ZR_TOKENIZE_THREADS */
    zr_progress_fn progress; /* progress in bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* key of the text in a line of .jsonl; NULL for "text" */
    bool skip_bad_lines;  /* whether bad lines are skipped instead of causing an error */
} zr__tokenize_args;

/** Result of zr__tokenize. */
typedef struct zr__tokenized {
    int64_t bytes, tokens; /* bytes of text in all documents; tokens, including tokens between documents */
    int64_t vocab;
    uint64_t hash; /* hash of the tokenizer (zr_tokenizer_hash) */
    int token_bytes;
    char note[512];                   /* the note of zr__texts_info */
    int64_t documents, skipped_lines; /* documents with a text; bad lines of .jsonl files that were skipped */
} zr__tokenized;

/** Write the tokens of texts into a file, which appears atomically; it is first written as `out`.tmp. Each document is
 * encoded as a whole by zr_tokenizer_encode, with the same result for any number of threads. zr__texts_encode describes
 * how texts are read, and with how much memory.
 *
 * Fail with ZR_ERR_ARG if a number is out of range; ZR_ERR_CREATE if `out` or `out`.tmp is an input, `out` exists and
 * is not a token file of this format, or `out`.tmp exists; ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the tokenizer or a text
 * is missing or bad; ZR_ERR_DATA if there are too many tokens for the header or no ZR_END_OF_TEXT; ZR_ERR_IO also if a
 * text changes. Other errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenize(const zr__tokenize_args *args, zr__tokenized *did);

typedef struct zr__tokenize_train_args {
    const char *const *text; /* paths of n_texts files, as in zr__tokenize_args */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* output directory, new or empty; zr_tokenizer_open can open it */
    int64_t vocab;           /* number of tokens, at least ZR_TOKENIZER_LEAST_VOCAB */
    zr_progress_fn progress; /* progress in bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* key of the text in a line of .jsonl; NULL for "text" */
    bool skip_bad_lines;  /* whether bad lines are skipped instead of causing an error */
} zr__tokenize_train_args;

/** Learn a tokenizer from texts (zr__tokenizer_trainer_learn) and write it into a directory, which appears atomically.
 * The directory holds tokenizer.json, and tokenizer_config.json for the package transformers. Texts are read in parts
 * (zr__texts). *did receives the facts about the texts, and the vocabulary and hash of the tokenizer. The tokenizer has
 * fewer than `vocab` tokens if the texts have no more pairs to merge. Fail with ZR_ERR_ARG if a number is out of range;
 * ZR_ERR_CREATE if `out` is not empty or cannot be created; ZR_ERR_NOT_FOUND or ZR_ERR_DATA if a text is missing or
 * bad. Other errors: ZR_ERR_MEMORY, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenize_train(const zr__tokenize_train_args *args, zr__tokenized *did);

#endif
