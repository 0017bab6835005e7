/**
 * train/tokenizer: text to files of tokens, and tokenizers learned from texts: `zr tokenize`. tokenizer_files.h copies
 * a tokenizer's files into a directory.
 */
#ifndef ZR_TRAIN_TOKENIZER_TOKENIZE_H
#define ZR_TRAIN_TOKENIZER_TOKENIZE_H

#include "zr/base.h"

typedef enum zr__tokens_format {
    ZR_TOKENS_LLMC,   /* llm.c's: 1024 bytes of header; uint16 up to 65536 tokens, else uint32 */
    ZR_TOKENS_NANOGPT /* nanoGPT's: uint16 without header */
} zr__tokens_format;
#define ZR_TOKENIZE_TEXTS 256
#define ZR_TOKENIZE_THREADS 256

typedef struct zr__tokenize_args {
    const char *tokenizer;   /* name as in zr_tokenizer_open */
    const char *const *text; /* (n_texts) files: each a document, or of .jsonl each line (zr__texts) */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* zr_data_open reads it; with NANOGPT its name ends in ".bin" */
    zr__tokens_format format;
    bool eot;                /* ZR_END_OF_TEXT between documents; no other token is put in */
    int threads;             /* 1 .. ZR_TOKENIZE_THREADS; 0: one for each processor, up to ZR_TOKENIZE_THREADS */
    zr_progress_fn progress; /* progress in bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;  /* else they are errors */
} zr__tokenize_args;

/** Result of zr__tokenize. */
typedef struct zr__tokenized {
    int64_t bytes, tokens; /* bytes of the text of all documents; tokens, those between documents included */
    int64_t vocab;
    uint64_t hash; /* zr_tokenizer_hash */
    int token_bytes;
    char note[512];                   /* zr__texts_info's */
    int64_t documents, skipped_lines; /* documents with a text; bad lines of .jsonl files, left out */
} zr__tokenized;

/** Write the tokens of texts into a file, which appears atomically. Each whole document is encoded by
 *  zr_tokenizer_encode, for any number of threads; zr__texts_encode describes the reading and its memory. The file is
 * written as `out`.tmp.
 *
 *  ZR_ERR_ARG sizes; ZR_ERR_CREATE `out` or `out`.tmp is one of the inputs, `out` exists and is no such file of tokens,
 *  or `out`.tmp exists; ZR_ERR_NOT_FOUND, ZR_ERR_DATA of tokenizer and texts; ZR_ERR_DATA too many tokens for the
 *  header, no ZR_END_OF_TEXT; ZR_ERR_MEMORY; ZR_ERR_IO also where a text changes. */
ZR_NODISCARD zr_status zr__tokenize(const zr__tokenize_args *args, zr__tokenized *did);

typedef struct zr__tokenize_train_args {
    const char *const *text; /* (n_texts) files, as zr__tokenize's */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* a directory, new or empty; zr_tokenizer_open takes it */
    int64_t vocab;           /* tokens, from ZR_TOKENIZER_LEAST_VOCAB */
    zr_progress_fn progress; /* progress in bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;  /* else they are errors */
} zr__tokenize_train_args;

/** Learn a tokenizer from texts (zr__tokenizer_trainer_learn) and write it into a directory, which appears atomically:
 *  tokenizer.json, and tokenizer_config.json for the package transformers. Sets of *did: bytes, and the vocabulary and
 *  hash of the tokenizer, which has fewer tokens than `vocab` where the texts have no more pairs. Texts are read in
 *  parts (zr__texts). ZR_ERR_ARG sizes; ZR_ERR_CREATE `out` is not empty or cannot be made; ZR_ERR_NOT_FOUND,
 *  ZR_ERR_DATA of texts; ZR_ERR_MEMORY; ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__tokenize_train(const zr__tokenize_train_args *args, zr__tokenized *did);

#endif
