/** Text generation with an engine's schedule decode, token by token. */
#ifndef ZR_TRAIN_WRITER_H
#define ZR_TRAIN_WRITER_H

#include "train/weights/stops.h"
#include "zr/data.h"
#include "zr/run.h"

/** A text that is being generated. Zero-initialise all but the first six members. */
typedef struct zr__writer {
    zr_status (*decode)(void *arg, int32_t token, int64_t position, zr_tensor *output); /* as zr_engine_decode */
    void *arg;
    const zr_tokenizer *tokenizer;
    int64_t vocab;   /* vocabulary of the model */
    int64_t longest; /* maximum tokens of the engine's cache */
    const zr_generate_args *args;
    int64_t choices; /* tokens to sample from, known to both model and tokenizer */
    int32_t *tokens; /* tokens of the prompt, then generated tokens */
    int64_t n_tokens;
    int64_t position; /* tokens in the cache */
    bool begun_anew;  /* the cache no longer begins with the first token */
    float *logits, *sorted;
    zr__stops stops;
} zr__writer;

/** Encode the prompt. ZR_ERR_DATA: one of its tokens is outside the model's vocabulary. Call zr__writer_close in any
 * case. */
ZR_NODISCARD zr_status zr__writer_open(zr__writer *writer);
/** Generate the samples that the args ask for, as zr_generate does. ZR_ERR_DIVERGED: the weights give logits that are
 * not finite. */
ZR_NODISCARD zr_status zr__writer_run(zr__writer *writer, zr_emit_fn emit, void *arg);
void zr__writer_close(zr__writer *writer);

#endif
