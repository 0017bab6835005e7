/**
 * models: builders over graph. A model is a function that writes its forward pass; it never hears of
 * ZeRO, ranks or devices. The same builder is called for training, evaluation and decoding and must
 * declare the same parameters in the same order each time.
 */
#ifndef ZR_MODELS_H
#define ZR_MODELS_H

#include "zr/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_model {
    const char *name;
    /** Write the forward pass into `graph`; spec: zr_graph_get_spec. Errors are latched there. */
    void (*build)(zr_graph *graph, const void *config);
    const void *config; /* borrowed; passed to build */
} zr_model;

/** GPT-2's sizes, Hugging Face's names (Radford et al. 2019). */
typedef struct zr_gpt2_config {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon; /* 1e-5 */
    double initializer_range;  /* 0.02; residual projections are divided by sqrt(2 n_layer) */
} zr_gpt2_config;

/** Sizes of "gpt2-124m", "gpt2-350m", "gpt2-774m", "gpt2-1.5b"; ZR_ERR_NOT_FOUND with the list. */
ZR_API ZR_NODISCARD zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config);
/** The names of the presets, NULL at the end. */
ZR_API const char *const *zr_gpt2_presets(void);
/** ZR_ERR_CONFIG with the field when sizes are impossible or the parameters overflow int64. */
ZR_API ZR_NODISCARD zr_status zr_gpt2_check(const zr_gpt2_config *config);
/** A pre-LN GPT-2 with tied head. Units: "embedding" (wte, wpe), "h.0" ..., "final" (ln_f, head).
 *  `config` is borrowed. Parameters are named as in Hugging Face's GPT2LMHeadModel
 *  ("transformer.h.0.attn.c_attn.weight", ...). */
ZR_API zr_model zr_gpt2(const zr_gpt2_config *config);

#ifdef __cplusplus
}
#endif
#endif
