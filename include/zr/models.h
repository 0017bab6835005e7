/**
 * models: builders that use zr/graph.h. A model is a function that writes its forward pass, without regard to ZeRO,
 * ranks or devices. The same builder is called for training, evaluation and decoding, and must declare the same
 * parameters in the same order each time. The models are in src/models/: gpt2.c, chain.c; presets.c has shapes by name.
 */
#ifndef ZR_MODELS_H
#define ZR_MODELS_H

#include "zr/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_model {
    const char *name;
    /** Write the forward pass into `graph` for the mode and sizes in zr_graph_get_spec. Errors are stored in the
     * graph. */
    void (*build)(zr_graph *graph, const void *config);
    const void *config; /* passed to build; borrowed */
    const char *frozen; /* name patterns of frozen parameters, for zr_graph_freeze; borrowed; NULL if all are trained */
} zr_model;

/** Sizes of a GPT-2 (Radford et al. 2019), with the names that Hugging Face uses. */
typedef struct zr_gpt2_config {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon; /* usually 1e-5 */
    double initializer_range;  /* standard deviation, usually 0.02; for residual projections it is divided by sqrt(2
                                  n_layer) */
} zr_gpt2_config;

/**
 * Find the sizes of a known shape, with dropout 0. Fail with ZR_ERR_NOT_FOUND naming the nearest names.
 *
 *     gpt2-124m gpt2-350m gpt2-774m gpt2-1.5b    the GPT-2 family
 *     gpt3-175b megatron-8.3b turing-nlg-17b
 *     gpt-neox-20b bloom-176b                    their layers, width, heads, positions and vocabulary
 *     gpt-1t                                     10^12 parameters within 0.02 %
 *     zero-<size>b                               models of the ZeRO papers, by the size that the papers give
 * zero-<size>b-<layers>x<width>x<heads> one of several such models of equal size
 *     zero-c1 ... zero-c5                        the largest models of the SC20 paper's configurations C1 to C5
 *
 * All use GPT-2's blocks here. Positions are 1,024 and the vocabulary 50,257 if the source does not give them. The
 * original GPT-3 alternates dense and sparse attention; GPT-NeoX has rotary positions, parallel branches and an untied
 * head; BLOOM has ALiBi instead of a position table and a norm after the embedding; Megatron pads the vocabulary to
 * 51,200.
 */
ZR_API ZR_NODISCARD zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config);
/** Return the names of the presets, ending with NULL. */
ZR_API const char *const *zr_gpt2_presets(void);
/** Check the sizes. Fail with ZR_ERR_CONFIG naming the field if they are impossible or the number of parameters
 * overflows int64. */
ZR_API ZR_NODISCARD zr_status zr_gpt2_check(const zr_gpt2_config *config);
/** Return the builder of a pre-LN GPT-2 with tied head. Its units are "embedding" (wte, wpe), "h.0" ..., "final" (ln_f,
 * head). Parameters are named as in Hugging Face's GPT2LMHeadModel ("transformer.h.0.attn.c_attn.weight", ...).
 * `config` is borrowed. */
ZR_API zr_model zr_gpt2(const zr_gpt2_config *config);

/** A chain of matrices, which has exactly units * rows * cols parameters; used to plan for a number of parameters. */
typedef struct zr_chain_config {
    int64_t units, rows, cols;
} zr_chain_config;

/** Return the builder of a chain. It multiplies x (B,T,rows), in the graph's dtype, with matrices of (rows,cols),
 * (cols,rows), (rows,cols) ... in turn; the last product gives the logits, from which the losses (B,T) of targets (B,T)
 * I32 follow. Its units are "0", "1" ..., each with one matrix "<unit>.weight". M tensor-parallel ranks have an M-th of
 * each matrix: of the columns of (rows,cols), of the rows of (cols,rows). A chain cannot decode. `config` is borrowed.
 * Building fails with ZR_ERR_CONFIG if a number is not positive or units is above 65,536; with M > 1 also if units is
 * odd or M does not divide cols or B*T*rows. */
ZR_API zr_model zr_chain(const zr_chain_config *config);

#ifdef __cplusplus
}
#endif
#endif
