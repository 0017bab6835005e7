/**
 * ops: the building blocks of models. Each function adds one op to the graph and returns the op's first output. A
 * function's comment also lists the attributes i[] and f[] of the op. Then it lists the kernels that a device must
 * have, in the form "name: operands -> outputs".
 *
 * [x] is an optional operand. [documents] is an operand in graphs with zr_graph_spec.documents: (B,T) I32, for each
 * token the index in its row of its document's first token. The functions take this operand from the graph. Type "g" is
 * the graph's dtype. Type "w" is the dtype of the output value: the graph's grad_dtype, or F32 for a partial sum.
 * "rows" stands for all dimensions but the last. "In place of x" means that the output may use the memory of operand x.
 * All sums are computed in F32 or a wider type, whatever the dtype.
 */
#ifndef ZR_OPS_H
#define ZR_OPS_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Look up embeddings: y[b,t,:] = table[ids[b,t],:].
 *  embedding:    ids (B,T) I32, table (V,C) g -> y (B,T,C) g
 *  embedding_dw: ids, dy (B,T,C) g, [earlier (V,C) F32] -> dtable (V,C) w;
 *                dtable[v] = earlier[v] + sum over ids[b,t]==v of dy[b,t], with tokens in order;
 *                may be in place of earlier */
ZR_API zr_value zr_embedding(zr_graph *graph, zr_value ids, zr_value table);

/** Take rows of x by their indices: y[b,p,:] = x[b, index[b,p], :], with index (B,P) and x (B,T,C). An index may occur
 * several times. If a rank has only its own tokens of x, y is summed over the ranks, and every rank has all of y.
 *  i[0] = 0 if x has all rows of the micro-batch. i[0] = T if x (R,C) has only this rank's rows of the flat
 *         micro-batch, beginning at row place * R (zr_runtime.place). A row of y is then 0 if its row of x is on
 *         another rank
 *  rows:    index (B,P) I32, x (B,T,C) g -> y (B,P,C) g
 *  rows_dx: index, dy (B,P,C) g, [earlier, shape of x, g] -> dx g, shape of x;
 *           dx[b,t] = earlier[b,t] + sum over index[b,p]==t of dy[b,p], with p in order; may be in place of earlier */
ZR_API zr_value zr_rows(zr_graph *graph, zr_value x, zr_value index);

/** Add a position table: y[b,t,:] = x[b,t,:] + table[position + t,:], where position is 0 except in DECODE. With
 * documents, t counts from the beginning of the token's document.
 *  i[0] = 0 if x has all rows of the micro-batch. i[0] = T if x (R,C) has only this rank's rows of the flat
 *         micro-batch, beginning at row place * R (zr_runtime.place). Row r of the flat micro-batch then has position
 *         r % T
 *  position:    x (B,T,C) g, table (P,C) g, [documents] -> y (B,T,C) g; may be in place of x
 *  position_dw: dy (B,T,C) g, [earlier (P,C) F32] -> dtable (P,C) w; rows from T on are copied from earlier, or 0;
 *               with documents: documents, dy, [earlier] -> dtable */
ZR_API zr_value zr_position(zr_graph *graph, zr_value x, zr_value table);

/** Multiply by a weight and add a bias: y = x w + b with w (K,N), or y = x w^T + b with w (N,K) if `transposed`. b may
 * be ZR_NONE.
 *  i[0] = transposed
 *  linear:    x (rows,K) g, w g, [b (N) g] -> y (rows,N) g
 *  linear_dx: dy (rows,N) g, w g -> dx (rows,K) g
 *  linear_dw: x (rows,K) g, dy (rows,N) g, [earlier F32, shape of w] -> dw w
 *  linear_db: dy (rows,N) g, [earlier (N) F32] -> db (N) w */
ZR_API zr_value zr_linear(zr_graph *graph, zr_value x, zr_value w, zr_value b, bool transposed);

/** Normalise the last dimension: y = (x - mean) * rstd * gain + bias, with rstd = 1 / sqrt(variance + eps).
 *  f[0] = eps
 *  layernorm:    x (rows,C) g, gain (C) g, bias (C) g -> y (rows,C) g, mean (rows) F32, rstd (rows) F32
 *  layernorm_dx: dy (rows,C) g, x g, gain g, mean, rstd, [earlier (rows,C) g] -> dx (rows,C) g;
 *                dx = earlier + ...; may be in place of earlier or dy
 *  layernorm_dw: dy (rows,C) g, x g, mean, rstd -> dgain (C) w, dbias (C) w */
ZR_API zr_value zr_layernorm(zr_graph *graph, zr_value x, zr_value gain, zr_value bias, double eps);

/** Normalise the last dimension without mean and bias: y = x * rstd * gain, with rstd = 1 / sqrt(mean of x^2 + eps)
 * (Zhang and Sennrich 2019). If the gain has G elements, fewer than the C columns of x, each group of G columns is
 * normalised separately, for example each head of the queries. rstd then has the shape (rows,C/G). G must divide C,
 * which may be cut over tensor-parallel ranks in groups of G columns. zr_rmsnorm_rounded rounds x * rstd to the graph's
 * dtype before the product with the gain, as the models Llama, Mistral and Qwen do. In F32 both functions give the same
 * bits.
 *  i[0] = 1 to round x * rstd; f[0] = eps
 *  rmsnorm:    x (rows,C) g, gain (G) g -> y (rows,C) g, rstd (rows) or (rows,C/G) F32
 *  rmsnorm_dx: dy (rows,C) g, x g, gain g, rstd, [earlier (rows,C) g] -> dx (rows,C) g;
 *              dx = earlier + ...; may be in place of earlier or dy
 *  rmsnorm_dw: dy (rows,C) g, x g, rstd -> dgain (G) w */
ZR_API zr_value zr_rmsnorm(zr_graph *graph, zr_value x, zr_value gain, double eps);
ZR_API zr_value zr_rmsnorm_rounded(zr_graph *graph, zr_value x, zr_value gain, double eps);

/** Apply an activation function to each element:
 *  gelu: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh form of GELU
 *  gelu_erf: 0.5 x (1 + erf(x / sqrt(2))), GELU itself (Hendrycks and Gimpel 2016), as in BERT
 *  relu: x where x > 0, otherwise 0; the derivative at 0 is 0
 *  silu: x / (1 + e^-x)
 *  tanh: (e^x - e^-x) / (e^x + e^-x)
 * Each function has a forward kernel and a kernel for the gradient, for example:
 *  gelu:    x g -> y g
 *  gelu_dx: dy g, x g -> dx g, or w for a parameter; may be in place of dy */
ZR_API zr_value zr_gelu(zr_graph *graph, zr_value x);
ZR_API zr_value zr_gelu_erf(zr_graph *graph, zr_value x);
ZR_API zr_value zr_relu(zr_graph *graph, zr_value x);
ZR_API zr_value zr_silu(zr_graph *graph, zr_value x);
ZR_API zr_value zr_tanh(zr_graph *graph, zr_value x);

/** Multiply `up` by the SiLU of `gate`: y = silu(gate) * up, with equal shapes (Shazeer 2020).
 *  swiglu:    gate g, up g -> y g; may be in place of gate
 *  swiglu_dx: dy g, gate g, up g -> dgate g, dup g, each w for a parameter; dgate may be in place of dy, and dup in
 *             place of up */
ZR_API zr_value zr_swiglu(zr_graph *graph, zr_value gate, zr_value up);

/** Multiply by a constant: y = factor * x, where factor is finite in F32. The adjoint is scale too.
 *  f[0] = factor
 *  scale: x g -> y g (type w if y is the gradient of a parameter); may be in place of x */
ZR_API zr_value zr_scale(zr_graph *graph, zr_value x, double factor);

/** Multiply element by element: y = a * b, with equal shapes. For example, zr_mul(graph, x, x) is a square. The
 * adjoint is mul too: da = dy * b.
 *  mul: a g, b g -> y g (type w if y is the gradient of a parameter); may be in place of a */
ZR_API zr_value zr_mul(zr_graph *graph, zr_value a, zr_value b);

/** Rule by which the frequencies of a rotary embedding depend on the length of sequences. The names are the values of
 * rope_type in Hugging Face's config.json. */
typedef enum zr_rotary_kind {
    ZR_ROTARY_DEFAULT, /* angle of pair j at position t is t * theta^(-2j/D) */
    ZR_ROTARY_LINEAR,  /* like DEFAULT, with positions divided by `factor` (Chen et al. 2023) */
    /* like DEFAULT, with a larger theta for a sequence of more than `original` tokens (NTK-aware scaling) */
    ZR_ROTARY_DYNAMIC,
    ZR_ROTARY_LLAMA3, /* low frequencies divided by `factor`, as in Llama 3.1 */
    /* low frequencies divided by `factor`, and cosines and sines multiplied by a factor (Peng et al. 2023) */
    ZR_ROTARY_YARN
} zr_rotary_kind;

/** Kind and constants of a rotary embedding. Constants of other kinds are ignored. */
typedef struct zr_rotary_spec {
    zr_rotary_kind kind;
    int64_t width;    /* D, width of a head in elements; even */
    double theta;     /* base of the frequencies */
    double factor;    /* for all kinds but DEFAULT: factor by which the length of sequences grows, at least 1 */
    int64_t original; /* for DYNAMIC, LLAMA3 and YARN: length in tokens of the sequences before scaling */
    /* for LLAMA3: a wavelength above original / low_freq_factor tokens is multiplied by `factor`; a wavelength below
     * original / high_freq_factor tokens does not change */
    double low_freq_factor, high_freq_factor;
    /* for YARN: frequencies with more than beta_fast turns in `original` tokens do not change; frequencies with fewer
     * than beta_slow turns are divided by `factor` */
    double beta_fast, beta_slow;
    double attention_factor; /* for YARN: factor of cosines and sines in the table; 0 for 0.1 ln(factor) + 1 */
    /* for YARN: whether the pair numbers j that belong to beta_fast and beta_slow are rounded to integers */
    bool truncate;
} zr_rotary_spec;

/** Compute the cosines and sines of a rotary embedding (Su et al. 2021). Row t of the table has the cosines of the D/2
 * angles of position t, then their sines, computed in F64 and rounded once. The table has T = spec.seq rows. In DECODE
 * its only row is for position zr_runtime.position. The op has no operands. A table is cheap to compute: call this
 * function in each unit that rotates, so that no table is kept in memory between units.
 *  i[0] = kind, i[1] = D, i[2] = original, i[3] = truncate
 *  f[0] = theta, f[1] = factor, f[2] and f[3] = low_freq_factor and high_freq_factor, f[4] and f[5] = beta_fast and
 *  beta_slow, f[6] = factor of the table
 *  rotary_table: no operands -> table (T,D) F32 */
ZR_API zr_value zr_rotary_table(zr_graph *graph, const zr_rotary_spec *spec);

/** Rotate each head of x by the angles of its position. For each head and j < D/2, with the cosine c and the sine s of
 * angle j: y[j] = x[j] c - x[j + D/2] s and y[j + D/2] = x[j + D/2] c + x[j] s. With documents, positions count from
 * the beginning of the token's document. The adjoint is rotary too.
 *  i[0] = 1 for the inverse rotation
 *  i[1] = 0 if x has all rows of the micro-batch. i[1] = T if x (R,H*D) has only this rank's rows of the flat
 *         micro-batch, beginning at row place * R (zr_runtime.place). Row r of the flat micro-batch then has position
 *         r % T
 *  rotary: x (B,T,H*D) g, table (T,D) F32, [documents] -> y g; may be in place of x
 *          y has x's shape, and type w if y is the gradient of a parameter. */
ZR_API zr_value zr_rotary(zr_graph *graph, zr_value x, zr_value table);

/** Compute the softmax over the last dimension: y = e^x / sum of e^x.
 *  softmax:    x (rows,C) g -> y (rows,C) g
 *  softmax_dx: dy (rows,C) g, y g -> dx (rows,C) g, or w for a parameter;
 *              dx = y (dy - sum of dy y); may be in place of dy */
ZR_API zr_value zr_softmax(zr_graph *graph, zr_value x);

/** Compute the mean over the last dimension, which is removed: (B,T,C) -> (B,T). `dtype` is the type of y: F32 for
 * losses, or the graph's dtype.
 *  i[0] = dtype of y
 *  mean:    x (rows,C) g -> y (rows) F32 or g
 *  mean_dx: dy (rows) F32 or g -> dx (rows,C) g, or w for a parameter */
ZR_API zr_value zr_mean(zr_graph *graph, zr_value x, zr_dtype dtype);

/** Select columns [first, first + n) of the last dimension: (B,T,C) -> (B,T,n).
 *  i[0] = first, i[1] = n
 *  slice:    x (rows,C) g -> y (rows,n) g, or w for a parameter
 *  slice_dx: dy (rows,n) g, [earlier (rows,C) g or F32] -> dx (rows,C) g, or w for a parameter;
 *            dx is earlier, or 0 without earlier, with dy added to the selected columns; may be in place of earlier */
ZR_API zr_value zr_slice(zr_graph *graph, zr_value x, int64_t first, int64_t n);

/** Concatenate a and b along the last dimension: (B,T,M), (B,T,N) -> (B,T,M+N). The adjoint is slice.
 *  concat: a (rows,M) g, b (rows,N) g -> y (rows,M+N) g */
ZR_API zr_value zr_concat(zr_graph *graph, zr_value a, zr_value b);

/** Swap the last two dimensions: (..,M,N) -> (..,N,M). The adjoint is transpose too.
 *  transpose: x g -> y g, or w for a parameter */
ZR_API zr_value zr_transpose(zr_graph *graph, zr_value x);

/** Split the heads of attention, (B,T,C) -> (B,n_head,T,C/n_head), or merge them, (B,n_head,T,D) -> (B,T,n_head*D).
 * Each of the two ops is the adjoint of the other.
 *  i[0] = n_head
 *  split_heads: x (B,T,C) g -> y (B,n_head,T,D) g
 *  merge_heads: x (B,n_head,T,D) g -> y (B,T,C) g, or w for a parameter */
ZR_API zr_value zr_split_heads(zr_graph *graph, zr_value x, int64_t n_head);
ZR_API zr_value zr_merge_heads(zr_graph *graph, zr_value x);

/** Add element by element: y = a + b, with equal shapes. Each operand may be F32, BF16 or F16.
 *  i[0] = dtype of y, or -1 for the dtype of a. Only the ops that zr itself adds to sum gradients use another value
 *         than -1
 *  add: a, [b] -> y; may be in place of a. Without b (used only inside zr), y is a copy of a, which may have another
 *       dtype */
ZR_API zr_value zr_add(zr_graph *graph, zr_value a, zr_value b);

/** Kind and sizes of an attention. */
typedef struct zr_attention_spec {
    /* number of query heads, and of key-value heads, of the whole model; kv_heads divides heads */
    int64_t heads, kv_heads;
    int64_t window;     /* number of keys that a query sees, including its own; 0 for all earlier keys */
    bool bidirectional; /* whether a query also sees later keys, as in encoders; window must then be 0 */
    double scale;       /* factor of the scores; 0 for 1 / sqrt(width of a head) */
    double dropout;     /* dropout probability of the attention weights */
} zr_attention_spec;

/** Compute self-attention. If heads is a multiple of kv_heads, heads / kv_heads consecutive query heads share the keys
 * and values of one key-value head (Ainslie et al. 2023). Query i sees the keys j with i - window < j <= i; without a
 * window all j <= i; if bidirectional, all j. With documents, query i of row b sees only the keys of its own document
 * among these, and the kernels skip blocks of keys of other documents.
 *  S = q k^T * scale for the keys that a query sees; y = dropout(softmax(S)) v
 *
 * A rank has H query heads and K key-value heads of width D. H D may differ from the width of the model. q is (B,T,H
 * D), k and v are (B,T,K D). If k and v are ZR_NONE, q is one fused value (B,T,(H+2K) D), whose columns are q, k and v,
 * one after the other. "qkv" below is either the fused value or three operands q, k, v, and "dqkv" is one output or
 * three.
 *
 * Tensor parallelism cuts heads. M must divide heads. If M divides kv_heads, k and v may be cut as well. Otherwise k
 * and v must be whole on each rank, and the gradients of k and v are summed over the ranks. A fused value can be cut
 * only if kv_heads equals heads. If each rank has only its own tokens of k and v, zr_attend gathers them.
 *
 *  i[0] = H, i[1] = dropout stream, i[2] = heads, i[3] = kv_heads, i[4] = window, i[5] = 1, or 0 if bidirectional
 *  f[0] = scale, f[1] = dropout probability (0 outside TRAIN)
 *  attention:        qkv g, [documents] -> y (B,T,H D) g, lse (B,H,T) F32 (log-sum-exp of scaled scores)
 *  attention_dx:     dy (B,T,H D) g, qkv, y, lse, [documents] -> dqkv g
 *  attention_cached: qkv (1,1,..) g, cache (2,cache_len,K D) g [value of kind CACHE] -> y (1,1,H D) g;
 *                    writes key and value at zr_runtime.position, and attends to the tokens that this position sees
 * dk and dv are 0 for key-value heads that no query head of this rank uses.
 * Query head h of a rank uses its key-value head (first + h) / (heads / kv_heads) - first_kv. first is place * H if H
 * is less than heads, else 0. first_kv is place * K if K is less than kv_heads, else 0. Dropout of score (b,h,i,j) uses
 * random element ((first_row + b)*heads + first + h)*T*T + i*T + j. */
ZR_API zr_value zr_attend(zr_graph *graph, zr_value q, zr_value k, zr_value v, const zr_attention_spec *spec);

/** Compute causal self-attention with n_head heads. Each head has its own queries, keys and values. The function is
 * zr_attend with a fused value. */
ZR_API zr_value zr_attention(zr_graph *graph, zr_value qkv, int64_t n_head, double dropout);

/** Apply dropout: set elements to zero with probability p, and multiply the others by 1/(1-p). Outside TRAIN add no op
 * and return x. The adjoint is dropout too.
 *  i[0] = stream; f[0] = p
 *  i[1] = 0, or the number of elements in a row of the batch on all ranks, if this rank has only some columns of x or
 *         only its own tokens
 *  i[2] = 0, or the number of columns of a piece if this rank has a piece of each part of the columns (zr_cut)
 *  i[3] = 0, or the number of pieces of a part, M
 *  dropout: x g -> y g; may be in place of x
 * An element is kept if (u32 >> 8) * 2^-24 >= p, where u32 is its random number. x has `elems` elements. Element i of
 * the flat micro-batch uses random element first_row * (elems / B) + i. If i[2] is not 0, element i of the rank's
 * columns uses random element first_row * i[1] + (i / i[2] * i[3] + place) * i[2] + i % i[2]. If only i[1] is not 0,
 * element i of the rank's tokens uses random element first_row * i[1] + place * elems + i. If M divides the columns,
 * the mask therefore does not depend on how x is divided among ranks. */
ZR_API zr_value zr_dropout(zr_graph *graph, zr_value x, double p);

/** Compute the cross-entropy: losses[b,t] = lse(logits[b,t,:]) - logits[b,t,targets[b,t]]. A negative target gives
 * loss 0 and no gradient.
 *  cross_entropy:    logits (B,T,V) g, targets (B,T) I32 -> losses (B,T) F32, lse (B,T) F32
 *  cross_entropy_dx: dlosses (B,T) F32, logits, targets, lse -> dlogits (B,T,V) g;
 *                    may be in place of logits, which saves a second copy of the logits */
ZR_API zr_value zr_cross_entropy(zr_graph *graph, zr_value logits, zr_value targets);

/** Compute the cross-entropy of places in a row: column k of the logits scores the tokens of a document, and
 * targets[b,s,k] is the index in row b of the right token. losses[b,s,k] = lse(logits[b,t,k]) -
 * logits[b,targets[b,s,k],k], where lse is over the tokens t of the target's document. Without documents a row is one
 * document. Tokens of other documents, such as padding, take no part. A negative target gives loss 0 and no gradient.
 *  i[0] = 0, or the number R of tokens of the flat micro-batch whose gradient this rank computes, beginning at token
 *         place * R; the gradient of other tokens is then 0
 *  place_cross_entropy:    logits (B,T,K) g, targets (B,S,K) I32, [documents] -> losses (B,S,K) F32, lse (B,S,K) F32
 *  place_cross_entropy_dx: dlosses (B,S,K) F32, logits, targets, lse, [documents] -> dlogits (B,T,K) g */
ZR_API zr_value zr_place_cross_entropy(zr_graph *graph, zr_value logits, zr_value targets);

/** Compute the cross-entropy (zr_cross_entropy) of the logits x w^T, with w (V,C), without storing all logits. The
 * kernel computes the logits in its scratch memory, some rows at a time (zr_graph_spec.head_bytes). In TRAIN mode the
 * backward op also computes the losses. The forward op then runs only if another op reads its losses.
 * zr_linear_cross_entropy_bias adds a bias b (V) to the logits of each row; b may be ZR_NONE. If w is cut among
 * tensor-parallel ranks, b must be cut as well.
 *
 * zr_linear_cross_entropy_hits also sets *hits to a value (B,T) F32. The value is 1 where the target has the largest
 * logit (the first of the largest, if several are equal), and 0 elsewhere, also if the target is negative or a logit is
 * NaN. Only the forward op computes this value, so it suits an evaluation. With `hits` NULL, the call does the same as
 * zr_linear_cross_entropy_bias.
 *  i[0] = rows of a block; the last block may have fewer; i[2] = 1 with a bias
 *  linear_cross_entropy:    x (B,T,C) g, w (V,C) g, targets (B,T) I32, [b (V) g] -> losses (B,T) F32, [hits]
 *  linear_cross_entropy_dx: dlosses (B,T) F32, x, w, targets, [b] -> dx (B,T,C) g, dw (V,C) w, [db (V) w], losses (B,T)
 *                           F32; dx may be in place of x. dw and db are absent if neither is needed */
ZR_API zr_value zr_linear_cross_entropy(zr_graph *graph, zr_value x, zr_value w, zr_value targets);
ZR_API zr_value zr_linear_cross_entropy_bias(zr_graph *graph, zr_value x, zr_value w, zr_value b, zr_value targets);
ZR_API zr_value zr_linear_cross_entropy_hits(zr_graph *graph, zr_value x, zr_value w, zr_value b, zr_value targets,
                                             zr_value *hits);

/* Internal kernel "fill", with output y and no operands. It sets every element of y to zr_runtime.loss_seed[i[0]]. */

#ifdef __cplusplus
}
#endif
#endif
