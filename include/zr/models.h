/**
 * models: builders of models, on top of zr/graph.h. A builder is a function that writes the forward pass of a model,
 * without regard to ZeRO, ranks or devices. The same builder is called for training, evaluation and decoding. In each
 * of the three, it must declare the same parameters in the same order. The models are in src/models/: gpt2.c and
 * chain.c. presets.c has named sizes.
 */
#ifndef ZR_MODELS_H
#define ZR_MODELS_H

#include "zr/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_model {
    const char *name;
    /** Write the forward pass into `graph`, for the mode and the sizes in zr_graph_get_spec. Errors are stored in the
     * graph. */
    void (*build)(zr_graph *graph, const void *config);
    const void *config; /* argument of build; borrowed */
    const char *frozen; /* name patterns of frozen parameters for zr_graph_freeze, borrowed; NULL if all are trained */
} zr_model;

/** Sizes of a GPT-2 (Radford et al. 2019), with the names of Hugging Face. */
typedef struct zr_gpt2_config {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon; /* usually 1e-5 */
    double initializer_range;  /* standard deviation of initial values, usually 0.02; it is divided by sqrt(2 n_layer)
                                  for residual projections */
} zr_gpt2_config;

/**
 * Find the sizes of a named model, with dropout 0. Fail with ZR_ERR_NOT_FOUND and the most similar names in the
 * message.
 *
 *    gpt2-124m gpt2-350m gpt2-774m gpt2-1.5b    the GPT-2 family
 *    gpt3-175b megatron-8.3b turing-nlg-17b
 *    gpt-neox-20b bloom-176b                    sizes of these models: layers, width, heads, positions, vocabulary
 *    gpt-1t                                     10^12 parameters within 0.02 %
 *    zero-<size>b                               models of the ZeRO papers, named by the size in the papers
 *    zero-<size>b-<layers>x<width>x<heads>      one of several models of the papers with the same size
 *    zero-c1 ... zero-c5                        largest models of the configurations C1 to C5 of the SC20 paper
 *
 * All of these use the blocks of GPT-2 here, whatever the original architecture. Positions are 1,024 and the
 * vocabulary is 50,257 if the source does not give them. The originals differ: GPT-3 alternates dense and sparse
 * attention. GPT-NeoX has rotary positions, parallel branches and an untied head. BLOOM has ALiBi instead of a
 * position table, and a norm after the embedding. Megatron pads the vocabulary to 51,200.
 */
ZR_API ZR_NODISCARD zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config);
/** Return the names of all named models, ending with NULL. */
ZR_API const char *const *zr_gpt2_presets(void);
/** Check the sizes of a GPT-2. Fail with ZR_ERR_CONFIG naming the field if a size is impossible, or if the number of
 * parameters overflows int64. */
ZR_API ZR_NODISCARD zr_status zr_gpt2_check(const zr_gpt2_config *config);
/** Return the builder of a GPT-2 with pre-layer norm and a tied head. Its units are "embedding" (wte, wpe), "h.0" ...,
 * and "final" (ln_f, head). Parameter names are those of Hugging Face's GPT2LMHeadModel, such as
 * "transformer.h.0.attn.c_attn.weight". `config` is borrowed. */
ZR_API zr_model zr_gpt2(const zr_gpt2_config *config);

/** Sizes of a decoder of the Llama kind, with the names of Hugging Face. */
typedef struct zr_llama_config {
    int64_t num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, hidden_size, intermediate_size,
        max_position_embeddings, vocab_size;
    double rms_norm_eps;
    double initializer_range;     /* standard deviation of initial weights, usually 0.02 */
    double attention_dropout;     /* dropout probability of attention weights */
    int64_t sliding_window;       /* number of tokens that a token attends to, itself included; 0 for all */
    int64_t max_window_layers;    /* number of first layers that attend to all tokens despite sliding_window */
    zr_rotary_spec rotary;        /* positions; its width is head_dim */
    bool tie_word_embeddings;     /* whether the head's weights are the embedding */
    bool qkv_bias;                /* whether the projections of queries, keys and values have biases (Qwen2) */
    bool attention_bias;          /* whether all four projections of attention have biases */
    bool mlp_bias;                /* whether the three projections of the MLP have biases */
    bool qk_norm;                 /* whether queries and keys are normalised per head (Qwen3) */
} zr_llama_config;

/** Check the sizes. Fail with ZR_ERR_CONFIG naming the field if a size is impossible. */
ZR_API ZR_NODISCARD zr_status zr_llama_check(const zr_llama_config *config);
/** Return the builder of a decoder of the Llama kind: Llama, Mistral, Qwen2, Qwen3 and models with their blocks. Its
 * units are "embedding", "layers.0" ..., and "final" (last norm; the head if it is not tied). Parameter names are those
 * of Hugging Face's LlamaForCausalLM, such as "model.layers.0.self_attn.q_proj.weight". `config` is borrowed. */
ZR_API zr_model zr_llama(const zr_llama_config *config);

/** Sizes of a chain of matrices with exactly units * rows * cols parameters. Chains serve to plan for a given number
 * of parameters. */
typedef struct zr_chain_config {
    int64_t units, rows, cols;
} zr_chain_config;

/** Return the builder of a chain of matrices. The input x (B,T,rows), in the graph's dtype, is multiplied by matrices
 * of shapes (rows,cols), (cols,rows), (rows,cols) ... in turn. The last product gives the logits. The losses (B,T)
 * are computed from the logits and targets (B,T) I32. Unit "0", "1" ... has one matrix "<unit>.weight". M
 * tensor-parallel ranks divide the columns of (rows,cols) and the rows of (cols,rows). A chain cannot decode.
 * `config` is borrowed.
 *
 * Building fails with ZR_ERR_CONFIG if a number is not positive or units is above 65,536. With M > 1 it also fails if
 * units is odd, or if M does not divide cols or B*T*rows. */
ZR_API zr_model zr_chain(const zr_chain_config *config);

#ifdef __cplusplus
}
#endif
#endif
