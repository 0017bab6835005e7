/**
 * train/generate: text that a model writes. generate.c generates with the weights of a directory, whose settings
 * generation.c reads. writer.c draws the tokens with an engine's decode schedule, one after the other; a run uses it
 * too.
 */
#ifndef ZR_TRAIN_GENERATE_H
#define ZR_TRAIN_GENERATE_H

#include "base/text/text.h"
#include "train/weights/load.h"
#include "zr/run.h"

/* ---- settings in a Hugging Face directory (generation.c) -------------------------------------------------------- */

/** Tokens that end a text: the end tokens of the model's files, and the token that ends a turn in a chat. */
typedef struct zr__ends {
    int32_t token[ZR_IDS_MOST + 1];
    int n;
} zr__ends;

/** Add a token, unless it is negative or already in the list. */
void zr__ends_add(zr__ends *ends, int32_t token);

/** Find the tokens that end a text: eos_token_id in generation_config.json beside the weights or beside the tokenizer,
 * or else in the config.json of the weights. The value is a number or a list. `tokenizer` is a directory, "bytes" or
 * NULL. Error: ZR_ERR_DATA if a file is damaged or has other values. */
ZR_NODISCARD zr_status zr__ends_find(const zr__loaded *loaded, const char *tokenizer, zr__ends *ends);

/* ---- stop texts (writer.c) -------------------------------------------------------------------------------------- */

/** Stop texts, which end a text that arrives in pieces. Bytes that may begin a stop text are held back until later
 * bytes decide. */
typedef struct zr__stops {
    const char *const *stop; /* array of n texts that are not empty; borrowed */
    int64_t n;
    zr__text held; /* text that is not emitted yet; clear it in the end */
} zr__stops;

/** Append a piece to stops->held. *ready receives the number of bytes at the beginning of stops->held that can be
 * emitted. *found receives whether a stop text follows these bytes. If there are several stop texts, the earliest
 * counts. The caller drops from stops->held what it has emitted or must not emit. Errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__stops_add(zr__stops *stops, const char *piece, int64_t bytes, int64_t *ready, bool *found);

/* ---- drawing tokens (writer.c) ---------------------------------------------------------------------------------- */

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
