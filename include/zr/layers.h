/**
 * layers: parts of models that consist of several ops and declare their own parameters. A custom model calls them as
 * the family BERT does. Parameters belong to the current unit (zr_graph_unit).
 */
#ifndef ZR_LAYERS_H
#define ZR_LAYERS_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Add a linear layer: y = x w^T + b. "<name>.weight" has the shape (outputs, columns of x) and begins with normal
 * values of standard deviation `std`. "<name>.bias" begins with zeros. `cut` says how the weight may be cut over
 * tensor-parallel ranks: {0, 1} by outputs, {1, 1} by inputs, {0, 0} not at all. If the weight is cut by inputs, x must
 * be cut in the same way, and `inputs` is the width of x on all ranks together. Otherwise x must be whole. */
ZR_API zr_value zr_layer_linear(zr_graph *graph, zr_value x, int64_t inputs, int64_t outputs, zr_cut cut, double std,
                                const char *name);

/** Add a layer norm (zr_layernorm) with the gain "<name>.weight", which begins with ones, and the bias "<name>.bias",
 * which begins with zeros. */
ZR_API zr_value zr_layer_norm(zr_graph *graph, zr_value x, double eps, const char *name);

/** Parts of an encoder layer that have parameters. */
typedef enum zr_encoder_part {
    ZR_ENCODER_QUERY,
    ZR_ENCODER_KEY,
    ZR_ENCODER_VALUE,
    ZR_ENCODER_ATTENTION_OUTPUT,
    ZR_ENCODER_ATTENTION_NORM, /* norm of attention: before it if pre_layer_norm, else after it */
    ZR_ENCODER_INNER,          /* first linear layer of the MLP */
    ZR_ENCODER_OUTPUT,         /* second linear layer of the MLP */
    ZR_ENCODER_NORM,           /* norm of the MLP: before it if pre_layer_norm, else after it */
    ZR_ENCODER_PARTS
} zr_encoder_part;

/** Sizes and constants of an encoder layer (Vaswani et al. 2017), with the words of DeepSpeed's transformer kernel in
 * brackets where they differ. */
typedef struct zr_encoder_spec {
    int64_t heads;            /* number of attention heads, which must divide the width of x */
    int64_t inner;            /* width of the MLP's hidden layer [intermediate_size]; 0 for 4 times the width of x */
    double eps;               /* epsilon of the norms [layer_norm_eps] */
    double dropout;           /* dropout probability before residual additions [hidden_dropout_ratio] */
    double attention_dropout; /* dropout probability of attention weights [attn_dropout_ratio] */
    double std;               /* standard deviation of initial weights [initializer_range]; 0 for zeros */
    /* standard deviation of the initial weights of projections that end in a residual addition, such as std / sqrt(2
     * layers) [adjust_init_range]; 0 for `std` */
    double residual_std;
    bool pre_layer_norm; /* whether norms come before attention and the MLP, and not after residual additions */
    const char *prefix;  /* text before the names of parameters, such as "encoder.3."; NULL for none */
    const char *name[ZR_ENCODER_PARTS]; /* names of the parts; NULL for BERT's, such as "attention.self.query" */
} zr_encoder_spec;

/** Add an encoder layer: bidirectional self-attention, then an MLP with GELU (zr_gelu_erf), each with dropout, a
 * residual addition and a layer norm. x and the result have the shape (B,T,C).
 *  norms after additions:  h = norm(x + attention(x));   y = norm(h + mlp(h))
 *  with pre_layer_norm:    h = x + attention(norm(x));   y = h + mlp(norm(h))
 * With pre_layer_norm, the output of the last layer still needs a norm. Heads and the MLP's hidden layer may be cut
 * over tensor-parallel ranks, but every rank must have all columns of x. Documents are kept apart (zr_attend). The spec
 * is not needed after the call. Errors in the graph: ZR_ERR_CONFIG if a size, a deviation or a name is impossible;
 * ZR_ERR_SHAPE for another shape of x; ZR_ERR_UNSUPPORTED if the columns of x are cut; ZR_ERR_ARG if x or the spec is
 * missing, or if a probability or eps is impossible.
 *
 * Without a recompute policy (ZR_RECOMPUTE_NONE) and without tensor parallelism, the backward pass keeps 6 C + inner
 * elements per token, and one F32 number per token and head, whatever the dropout: outputs of norms and of GELU are
 * recomputed, and masks of dropout are drawn again (docs/memory.md). At stage 3 with norms after additions it also
 * keeps the result: C elements and two F32 numbers per token. */
ZR_API zr_value zr_layer_encoder(zr_graph *graph, zr_value x, const zr_encoder_spec *spec);

#ifdef __cplusplus
}
#endif
#endif
