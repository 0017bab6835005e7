/** A text that an engine's schedule decode writes, token by token. */
#ifndef ZR_TRAIN_WRITER_H
#define ZR_TRAIN_WRITER_H

#include "train/weights/stops.h"
#include "zr/data.h"
#include "zr/train.h"

/** Zero-initialise but for the first six members. */
typedef struct zr__writer {
    zr_status (*decode)(void *arg, int32_t token, int64_t position, zr_tensor *output); /* as zr_engine_decode */
    void *arg;
    const zr_tokenizer *tokenizer;
    int64_t vocab;   /* tokens of the model */
    int64_t longest; /* tokens of the engine's cache */
    const zr_generate_args *args;
    int64_t choices; /* tokens to choose from */
    int32_t *tokens; /* prompt and what was added */
    int64_t n_tokens;
    int64_t position; /* tokens in the cache */
    bool begun_anew;  /* ... which are not the first ones any more */
    float *logits, *sorted;
    zr__stops stops;
} zr__writer;

/** Read the prompt. ZR_ERR_DATA: a token of it that the model has not. zr__writer_close in any case. */
ZR_NODISCARD zr_status zr__writer_open(zr__writer *writer);
/** Write what the args ask for, as zr_generate does. ZR_ERR_DIVERGED: weights that are of no use. */
ZR_NODISCARD zr_status zr__writer_run(zr__writer *writer, zr_emit_fn emit, void *arg);
void zr__writer_close(zr__writer *writer);

#endif
