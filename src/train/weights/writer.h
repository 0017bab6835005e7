/** Text generation with an engine's decode schedule, token by token. */
#ifndef ZR_TRAIN_WRITER_H
#define ZR_TRAIN_WRITER_H

#include "train/weights/stops.h"
#include "zr/data.h"
#include "zr/run.h"

/** A text that is being generated. The caller sets the members before `choices` and zero-initialises the others. */
typedef struct zr__writer {
    /* Function that decodes a token, such as zr_engine_decode. */
    zr_status (*decode)(void *arg, int32_t token, int64_t position, zr_tensor *output);
    void *arg;
    const zr_tokenizer *tokenizer;
    int64_t vocab;   /* vocabulary size of the model */
    int64_t longest; /* capacity of the engine's cache, in tokens */
    const zr_generate_args *args;
    const int32_t *prompt; /* n_prompt tokens of the prompt; NULL to encode args->prompt */
    int64_t n_prompt;
    const int32_t *end; /* n_ends tokens that end a text */
    int64_t n_ends;
    int64_t choices; /* number of tokens that both model and tokenizer know; only these tokens are drawn */
    int32_t *tokens; /* tokens of the prompt, followed by generated tokens */
    int64_t n_tokens;
    int64_t position; /* number of tokens in the cache */
    bool begun_anew;  /* whether the cache was refilled, so that it lacks the first tokens */
    float *logits, *sorted;
    zr__stops stops;
} zr__writer;

/** Encode the prompt. Fail with ZR_ERR_DATA if one of its tokens is outside the model's vocabulary. Call
 * zr__writer_close in any case. */
ZR_NODISCARD zr_status zr__writer_open(zr__writer *writer);
/** Generate the samples that the arguments request, as zr_generate does. Fail with ZR_ERR_DIVERGED if the weights
 * produce logits that are not finite. */
ZR_NODISCARD zr_status zr__writer_run(zr__writer *writer, zr_emit_fn emit, void *arg);
void zr__writer_close(zr__writer *writer);

#endif
