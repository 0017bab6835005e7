/**
 * models: builders over graph. A model is a function that writes its forward pass, without regard to ZeRO, ranks or
 * devices. The same builder is called for training, evaluation and decoding and must declare the same parameters in
 * the same order each time. In src/models/: gpt2.c, chain.c; presets.c has shapes by name.
 */
#ifndef ZR_MODELS_H
#define ZR_MODELS_H

#include "zr/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_model {
    const char *name;
    /** Write the forward pass into `graph`; spec: zr_graph_get_spec. Errors are latched in the graph. */
    void (*build)(zr_graph *graph, const void *config);
    const void *config; /* borrowed; passed to build */
    const char *frozen; /* parameters that do not train, for zr_graph_freeze; borrowed; NULL: all train */
} zr_model;

/** GPT-2's sizes, Hugging Face's names (Radford et al. 2019). */
typedef struct zr_gpt2_config {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon; /* 1e-5 */
    double initializer_range;  /* 0.02; residual projections are divided by sqrt(2 n_layer) */
} zr_gpt2_config;

/**
 * Find the sizes of a known shape, dropout 0; ZR_ERR_NOT_FOUND naming the nearest ones.
 *
 *     gpt2-124m gpt2-350m gpt2-774m gpt2-1.5b    the GPT-2 family
 *     gpt3-175b megatron-8.3b turing-nlg-17b
 *     gpt-neox-20b bloom-176b                    their layers, width, heads, positions and vocabulary
 *     gpt-1t                                     10^12 parameters within 0.02 %
 *     zero-<size>b                               models of the ZeRO papers, by the size that they give; where one size
 *     zero-<size>b-<layers>x<width>x<heads>      has several shapes, each of them by this longer name
 *     zero-c1 ... zero-c5                        the largest models of the SC20 paper's configurations C1 to C5
 *
 * All are GPT-2's blocks here; positions are 1,024 and the vocabulary 50,257 where the source says nothing. In reality
 * GPT-3 alternates dense and sparse attention, GPT-NeoX has rotary positions, parallel branches and a head of its own,
 * BLOOM has ALiBi in place of a position table and a norm after the embedding, Megatron pads the vocabulary to 51,200.
 */
ZR_API ZR_NODISCARD zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config);
/** Return the names of the presets, NULL at the end. */
ZR_API const char *const *zr_gpt2_presets(void);
/** Check sizes. ZR_ERR_CONFIG with the field when they are impossible or the parameters overflow int64. */
ZR_API ZR_NODISCARD zr_status zr_gpt2_check(const zr_gpt2_config *config);
/** Return the builder of a pre-LN GPT-2 with tied head. Units: "embedding" (wte, wpe), "h.0" ..., "final" (ln_f, head).
 *  `config` is borrowed. Parameters are named as in Hugging Face's GPT2LMHeadModel
 *  ("transformer.h.0.attn.c_attn.weight", ...). */
ZR_API zr_model zr_gpt2(const zr_gpt2_config *config);

/** A chain of matrices: exactly units * rows * cols parameters and nothing else, to plan a number of parameters. */
typedef struct zr_chain_config {
    int64_t units, rows, cols;
} zr_chain_config;

/** Return the builder of a chain: x (B,T,rows) in the graph's dtype, through matrices of (rows,cols), (cols,rows),
 *  (rows,cols) ... in turn, to the losses (B,T) of targets (B,T) I32; the last matrix gives the logits. Units: "0", "1"
 *  ..., a matrix each, named "<unit>.weight". M tensor-parallel ranks have an M-th of each: of the columns of
 *  (rows,cols), of the rows of (cols,rows). It does not decode. ZR_ERR_CONFIG when a number is not positive or units
 *  above 65,536; with M > 1 when units are odd or M does not divide cols or B*T*rows. `config` is borrowed. */
ZR_API zr_model zr_chain(const zr_chain_config *config);

#ifdef __cplusplus
}
#endif
#endif
