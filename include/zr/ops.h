/**
 * ops: the building blocks of models. Each function adds one op to the graph and returns its (first) output. Each
 * comment ends with the kernels that a device must have: name, operands -> outputs, and the attributes i[] and f[].
 *
 * [x] marks an optional operand. The type "g" is the graph's dtype; "w" is the dtype of the output value (the graph's
 * grad_dtype, or F32 for a partial sum). "rows" stands for all dimensions but the last. All sums are computed in F32 or
 * a wider type, whatever the dtype.
 */
#ifndef ZR_OPS_H
#define ZR_OPS_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Look up embeddings: y[b,t,:] = table[ids[b,t],:].
 *  embedding:    ids (B,T) I32, table (V,C) g -> y (B,T,C) g
 *  embedding_dw: ids, dy (B,T,C) g, [earlier (V,C) F32] -> dtable (V,C) w
 *                dtable[v] = earlier[v] + sum over ids[b,t]==v of dy[b,t], tokens in order;
 *                may be in place of earlier */
ZR_API zr_value zr_embedding(zr_graph *graph, zr_value ids, zr_value table);

/** Add a position table: y[b,t,:] = x[b,t,:] + table[position + t,:], where position is 0 except in DECODE.
 *  i[0] = 0; or T, if this rank has R rows of the flat micro-batch: then x is (R,C), its first row is row place * R of
 *         the micro-batch (zr_runtime.place), and row r has position r % T
 *  position:    x (B,T,C) g, table (P,C) g -> y (B,T,C) g; may be in place of x
 * position_dw: dy (B,T,C) g, [earlier (P,C) F32] -> dtable (P,C) w, rows from T on are copied from earlier, or 0 */
ZR_API zr_value zr_position(zr_graph *graph, zr_value x, zr_value table);

/** Multiply by a weight: y = x w + b with w (K,N), or, if transposed, y = x w^T + b with w (N,K). b may be ZR_NONE.
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
 * (Zhang and Sennrich 2019).
 *  f[0] = eps
 *  rmsnorm:    x (rows,C) g, gain (C) g -> y (rows,C) g, rstd (rows) F32
 *  rmsnorm_dx: dy (rows,C) g, x g, gain g, rstd, [earlier (rows,C) g] -> dx (rows,C) g;
 *              dx = earlier + ...; may be in place of earlier or dy
 *  rmsnorm_dw: dy (rows,C) g, x g, rstd -> dgain (C) w */
ZR_API zr_value zr_rmsnorm(zr_graph *graph, zr_value x, zr_value gain, double eps);

/** Apply an activation function to each element. Function f has the kernels f and f_dx:
 *  gelu: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GELU in its tanh form
 *  relu: x where x > 0, otherwise 0; its slope at 0 is 0
 *  silu: x / (1 + e^-x)
 *  gelu:    x g -> y g
 *  gelu_dx: dy g, x g -> dx g, or w for a parameter; may be in place of dy */
ZR_API zr_value zr_gelu(zr_graph *graph, zr_value x);
ZR_API zr_value zr_relu(zr_graph *graph, zr_value x);
ZR_API zr_value zr_silu(zr_graph *graph, zr_value x);

/** Multiply by a constant: y = factor * x, where factor is finite in F32.
 *  f[0] = factor
 * scale: x g -> y g; may be in place of x. The adjoint is scale itself; dx has type w for a parameter. */
ZR_API zr_value zr_scale(zr_graph *graph, zr_value x, double factor);

/** Multiply element by element: y = a * b, of equal shapes. A square is zr_mul(graph, x, x).
 * mul: a g, b g -> y g; may be in place of a. The adjoint is mul itself (da = dy * b); da has type w for a parameter.
 */
ZR_API zr_value zr_mul(zr_graph *graph, zr_value a, zr_value b);

/** Compute the softmax over the last dimension: y = e^x / sum of e^x.
 *  softmax:    x (rows,C) g -> y (rows,C) g
 *  softmax_dx: dy (rows,C) g, y g -> dx (rows,C) g, or w for a parameter; dx = y (dy - sum of dy y);
 *              may be in place of dy */
ZR_API zr_value zr_softmax(zr_graph *graph, zr_value x);

/** Compute the mean over the last dimension, which is removed: (B,T,C) -> (B,T). dtype is the type of y: F32 (for
 * losses) or the graph's.
 *  i[0] = dtype of y
 *  mean:    x (rows,C) g -> y (rows) F32 or g
 *  mean_dx: dy (rows) F32 or g -> dx (rows,C) g, or w for a parameter */
ZR_API zr_value zr_mean(zr_graph *graph, zr_value x, zr_dtype dtype);

/** Select columns [first, first + n) of the last dimension: (B,T,C) -> (B,T,n).
 *  i[0] = first, i[1] = n
 *  slice:    x (rows,C) g -> y (rows,n) g, or w for a parameter
 *  slice_dx: dy (rows,n) g, [earlier (rows,C) g or F32] -> dx (rows,C) g, or w for a parameter; dx = earlier, or 0,
 *            plus dy in these columns; may be in place of earlier */
ZR_API zr_value zr_slice(zr_graph *graph, zr_value x, int64_t first, int64_t n);

/** Concatenate a and b along the last dimension: (B,T,M), (B,T,N) -> (B,T,M+N).
 *  concat: a (rows,M) g, b (rows,N) g -> y (rows,M+N) g. The adjoint is slice. */
ZR_API zr_value zr_concat(zr_graph *graph, zr_value a, zr_value b);

/** Swap the last two dimensions: (..,M,N) -> (..,N,M).
 *  transpose: x g -> y g, or w for a parameter. The adjoint is transpose itself. */
ZR_API zr_value zr_transpose(zr_graph *graph, zr_value x);

/** Separate the heads, (B,T,C) -> (B,n_head,T,C/n_head), or join them again, (B,n_head,T,D) -> (B,T,n_head*D). The two
 * ops are each other's adjoints.
 *  i[0] = n_head
 *  split_heads: x (B,T,C) g -> y (B,n_head,T,D) g
 *  merge_heads: x (B,n_head,T,D) g -> y (B,T,C) g, or w for a parameter */
ZR_API zr_value zr_split_heads(zr_graph *graph, zr_value x, int64_t n_head);
ZR_API zr_value zr_merge_heads(zr_graph *graph, zr_value x);

/** Compute y = a + b, of equal shapes; each operand may be F32, BF16 or F16.
 *  i[0] = dtype of y for internal use (sums of gradients), or -1 for the dtype of a
 *  add: a, [b] -> y; may be in place of a; without b, y = a (internal: a copy, perhaps of another dtype) */
ZR_API zr_value zr_add(zr_graph *graph, zr_value a, zr_value b);

/** Compute causal self-attention of n_head heads; qkv holds q, k and v side by side in its last dimension.
 *  S = q k^T * scale for keys up to the query's own position; y = dropout(softmax(S)) v.
 *  i[0] = n_head, i[1] = dropout stream; f[0] = scale, f[1] = dropout probability (0 outside TRAIN)
 *  attention:        qkv (B,T,3C) g -> y (B,T,C) g, lse (B,n_head,T) F32 (log-sum-exp of scaled scores)
 *  attention_dx:     dy (B,T,C) g, qkv, y, lse -> dqkv (B,T,3C) g
 *  attention_cached: qkv (1,1,3C) g, cache (2,cache_len,C) g [value of kind CACHE] -> y (1,1,C) g;
 *                    writes key and value at the run-time position, attends to 0..position
 *  Dropout of score (b,h,i,j) uses random element ((first_row + b)*n_head + h)*T*T + i*T + j. */
ZR_API zr_value zr_attention(zr_graph *graph, zr_value qkv, int64_t n_head, double dropout);

/** Apply dropout: set elements to zero with probability p and scale the rest by 1/(1-p). Outside TRAIN return x; no op
 * is added.
 *  i[0] = stream; i[1] = 0, or the elements of a row of the batch if this rank has only its tokens of x; f[0] = p
 *  dropout: x g -> y g; may be in place of x. The adjoint is dropout itself.
 *  Element i of the flat micro-batch uses random element first_row * (elems / B) + i; element i of a rank's tokens uses
 * first_row * i[1] + place * elems + i. An element is kept if (u32 >> 8) * 2^-24 >= p. */
ZR_API zr_value zr_dropout(zr_graph *graph, zr_value x, double p);

/** Compute the cross-entropy losses[b,t] = lse(logits[b,t,:]) - logits[b,t,targets[b,t]]. A negative target gives
 * loss 0 and no gradient.
 *  cross_entropy:    logits (B,T,V) g, targets (B,T) I32 -> losses (B,T) F32, lse (B,T) F32
 *  cross_entropy_dx: dlosses (B,T) F32, logits, targets, lse -> dlogits (B,T,V) g;
 *                    may be in place of logits, so that no second copy of the logits exists */
ZR_API zr_value zr_cross_entropy(zr_graph *graph, zr_value logits, zr_value targets);

/** Compute zr_cross_entropy of the logits x w^T, with w (V,C), without holding all logits: the kernel computes them in
 * its scratch, about 512 rows at a time. In TRAIN mode the backward op also computes the losses, and the forward op
 * does not run unless another op reads its losses.
 *  i[0] = rows of a block; the last block may have fewer
 *  linear_cross_entropy:    x (B,T,C) g, w (V,C) g, targets (B,T) I32 -> losses (B,T) F32
 *  linear_cross_entropy_dx: dlosses (B,T) F32, x, w, targets -> dx (B,T,C) g, dw (V,C) w, losses (B,T) F32;
 *                           dx may be in place of x */
ZR_API zr_value zr_linear_cross_entropy(zr_graph *graph, zr_value x, zr_value w, zr_value targets);

/* Internal kernel "fill": -> y. It sets every element of y to zr_runtime.loss_seed. */

#ifdef __cplusplus
}
#endif
#endif
