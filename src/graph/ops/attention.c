/* attention: multi-head self-attention, over a whole sequence or, when decoding, one token at a time. Several query
 * heads may share the keys and values of one key-value head. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t H, K, D; /* number of query heads and of key-value heads of this rank; width of a head */
} sizes;

/* Return the number of key-value heads of this rank in a fused value, which holds q, k and v side by side. A fused
 * value is cut only if each query head has its own key-value head. */
static int64_t fused_kv_heads(const zr_op_attr *attr)
{
    return attr->i[0] < attr->i[2] ? attr->i[0] : attr->i[3];
}

/* Check a fused value, operand number `first`, and compute the sizes. */
static zr_status fused_sizes(const zr_graph *graph, const zr_op *op, int first, sizes *s)
{
    const int64_t H = op->attr.i[0], K = fused_kv_heads(&op->attr), parts = H + 2 * K;
    ZR_TRY(zr__want(graph, op, first, "qkv", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t cols = zr__in(graph, op, first)->shape.dim[2];
    if (H == K) {
        ZR_CHECK(cols % 3 == 0, ZR_ERR_SHAPE,
                 "%s: qkv's last dimension, %" PRId64 ", is no multiple of 3; wanted q, k and v side by side",
                 op->def->name, cols);
        ZR_CHECK(H >= 1 && cols / 3 % H == 0, ZR_ERR_SHAPE, "%s: %" PRId64 " heads do not divide the width %" PRId64,
                 op->def->name, H, cols / 3);
    }
    ZR_CHECK(parts > 0 && cols % parts == 0, ZR_ERR_SHAPE,
             "%s: qkv's last dimension, %" PRId64 ", is no multiple of %" PRId64 "; wanted %" PRId64
             " heads of q and %" PRId64 " each of k and v, side by side",
             op->def->name, cols, parts, H, K);
    *s = (sizes){H, K, cols / parts};
    return ZR_OK;
}

/* Check separate q, k and v, the operands from number `first` on, and compute the sizes. */
static zr_status separate_sizes(const zr_graph *graph, const zr_op *op, int first, sizes *s)
{
    const int64_t H = op->attr.i[0], all = op->attr.i[3];
    ZR_TRY(zr__want(graph, op, first, "q", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *q = zr__in(graph, op, first)->shape.dim;
    ZR_CHECK(H >= 1 && q[2] % H == 0, ZR_ERR_SHAPE, "%s: %" PRId64 " heads do not divide the width of q, %" PRId64,
             op->def->name, H, q[2]);
    ZR_TRY(zr__want(graph, op, first + 1, "k", graph->spec.dtype, ZR_SHAPE(q[0], q[1], ZR__ANY)));
    const int64_t cols = zr__in(graph, op, first + 1)->shape.dim[2], D = q[2] / H, M = op->attr.i[2] / H;
    const bool cut = M > 1 && all % M == 0 && cols == all / M * D;
    ZR_CHECK(cut || cols == all * D, ZR_ERR_SHAPE,
             "%s: k has %" PRId64 " columns; wanted %" PRId64 ", for %" PRId64 " key-value heads of q's width %" PRId64,
             op->def->name, cols, all * D, all, D);
    ZR_TRY(zr__want(graph, op, first + 2, "v", graph->spec.dtype, ZR_SHAPE(q[0], q[1], cols)));
    *s = (sizes){H, cols / D, D};
    return ZR_OK;
}

/* Check the n operands from number `first` on, which are one fused value or q, k and v. Compute the sizes. */
static zr_status check_heads(const zr_graph *graph, const zr_op *op, int first, int n, sizes *s)
{
    return n == 1 ? fused_sizes(graph, op, first, s) : separate_sizes(graph, op, first, s);
}

/* Check the last operand, which says where the documents of q's rows begin. */
static zr_status check_documents(const zr_graph *graph, const zr_op *op, const int64_t *q)
{
    return zr__want(graph, op, op->n_in - 1, "documents", ZR_I32, ZR_SHAPE(q[0], q[1]));
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* Return the number of pairs of tokens of one head, counted as in the papers (ZeRO SC20 artifact; Narayanan et al.
 * 2021, appendix): T x T, including the masked half. With a window, the number is twice the number of visible pairs,
 * but at most T x T. */
static double pairs_of(const zr_op *op, double T)
{
    const double W = (double)op->attr.i[4];
    if (W == 0 || W >= T) return T * T;
    const double visible = W * T - W * (W - 1) / 2;
    return fmin(T * T, 2 * visible);
}

/* Return the cost of `products` matrix products. Each product takes D (the width of a head) multiply-adds for each pair
 * of tokens of each head. Scores that the backward pass recomputes are not counted. */
static zr_cost pairs_cost(const zr_graph *graph, const zr_op *op, int products, const zr_shape *y)
{
    const double B = (double)y->dim[0], width = (double)y->dim[2], pairs = pairs_of(op, (double)y->dim[1]);
    const double heads = (double)op->attr.i[0];
    return (zr_cost){.flops = 2.0 * products * B * width * pairs,
                     .bytes = zr__bytes(graph, op),
                     .pairs = B * heads * pairs,
                     .head = y->dim[2] / op->attr.i[0]};
}

/* ---- attention_dx ---------------------------------------------------------------------------- */

static zr_status attention_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const int n = op->n_out;
    sizes s = {0};
    ZR_TRY(check_heads(graph, op, 1, n, &s));
    const int64_t *q = zr__in(graph, op, 1)->shape.dim;
    const zr_shape y = ZR_SHAPE(q[0], q[1], s.H * s.D);
    ZR_TRY(zr__want(graph, op, 0, "dy", graph->spec.dtype, y));
    ZR_TRY(zr__want(graph, op, n + 1, "y", graph->spec.dtype, y));
    ZR_TRY(zr__want(graph, op, n + 2, "lse", ZR_F32, ZR_SHAPE(y.dim[0], s.H, y.dim[1])));
    if (op->n_in > n + 3) ZR_TRY(check_documents(graph, op, q));
    for (int i = 0; i < n; i++) out[i] = *zr__in(graph, op, i + 1);
    return ZR_OK;
}

/* Count four products: dp, dq, dk and dv. */
static zr_cost attention_dx_cost(const zr_graph *graph, const zr_op *op)
{
    return pairs_cost(graph, op, 4, &zr__in(graph, op, 0)->shape);
}

/* Define the op with n outputs: dqkv if n is 1; dq, dk and dv if n is 3. */
#define DX(n)                                                                                                          \
    {                                                                                                                  \
        .name = "attention_dx", .in_f32 = true, .n_out = n, .infer = attention_dx_infer, .cost = attention_dx_cost     \
    }
static const zr_op_def attention_dx = DX(1), attention_dx_apart = DX(3);

/* ---- attention ------------------------------------------------------------------------------- */

static zr_status attention_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    sizes s = {0};
    const bool documents = op->n_in % 2 == 0;
    ZR_TRY(zr__want_at_most(op, 4));
    ZR_TRY(check_heads(graph, op, 0, op->n_in - documents, &s));
    const int64_t *q = zr__in(graph, op, 0)->shape.dim;
    if (documents) ZR_TRY(check_documents(graph, op, q));
    /* With dropout, the first dimension must be the batch, whose rows index the random numbers. */
    ZR_CHECK(op->attr.f[1] == 0 || q[0] == spec->batch, ZR_ERR_SHAPE,
             "attention: the first dimension is %" PRId64 "; with dropout wanted the batch, %" PRId64, q[0],
             spec->batch);
    out[0] = (zr_type){spec->dtype, ZR_SHAPE(q[0], q[1], s.H * s.D)};
    out[1] = (zr_type){ZR_F32, ZR_SHAPE(q[0], s.H, q[1])};
    return ZR_OK;
}

/* Return whether each rank computes only a part of the gradient of operand i. This is the case for keys and values if a
 * rank has only its own query heads, but all key-value heads. */
static bool has_parts(const zr_graph *graph, const zr_op *op, int i)
{
    return zr_graph_value(graph, op->in[0])->cut && !zr_graph_value(graph, op->in[i])->cut;
}

/* Contribute dq, dk and dv, which one op computes. Sum the ranks' parts of dk and dv, unless zr__all_tokens gathered k
 * and v. In that case the adjoint of the gather sums the parts. */
static zr_status contribute_apart(zr_graph *graph, const zr_op *op)
{
    zr_value grad[3], out[3];
    bool sums[3], need[3];
    for (int i = 0; i < 3; i++) {
        need[i] = zr_grad_needed(graph, op->in[i]);
        grad[i] = need[i] ? zr_grad_begin(graph, op->in[i], NULL) : ZR_NONE;
        sums[i] = need[i] && has_parts(graph, op, i) && !zr__is_gathered(graph, op->in[i]);
        out[i] = sums[i] ? ZR_NONE : grad[i];
    }
    const zr_value in[] = {
        zr_grad_of(graph, op->out[0]), op->in[0], op->in[1], op->in[2], op->out[0], op->out[1], op->in[3]};
    zr_graph_op(graph, &attention_dx_apart, &op->attr, op->n_in + 3, in, out);
    for (int i = 0; i < 3; i++) {
        if (!need[i]) continue;
        if (sums[i]) zr__tensor_sum(graph, out[i], &grad[i]);
        zr_grad_end(graph, op->in[i], sums[i] ? grad[i] : out[i]);
    }
    return ZR_OK;
}

static zr_status attention_adjoint(zr_graph *graph, const zr_op *op)
{
    if (op->n_in > 2) return contribute_apart(graph, op);
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->in[0], op->out[0], op->out[1], op->in[1]};
    return zr__contribute(graph, op->in[0], &attention_dx, &op->attr, op->n_in + 3, in);
}

static zr_cost attention_cost(const zr_graph *graph, const zr_op *op)
{
    return pairs_cost(graph, op, 2, &zr__out(graph, op, 0)->shape);
}

static const zr_op_def attention = {
    .name = "attention",
    .in_f32 = true,
    .selective = true,
    .keeps_cut = true,
    .n_out = 2,
    .infer = attention_infer,
    .adjoint = attention_adjoint,
    .cost = attention_cost,
};

/* ---- attention_cached ------------------------------------------------------------------------ */

static zr_status cached_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const int n = op->n_in - 1;
    sizes s = {0};
    ZR_TRY(check_heads(graph, op, 0, n, &s));
    const zr_shape *q = &zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 0, n == 1 ? "qkv" : "q", spec->dtype, ZR_SHAPE(1, 1, q->dim[2])));
    ZR_TRY(zr__want(graph, op, n, "cache", spec->dtype, ZR_SHAPE(2, spec->cache_len, s.K * s.D)));
    out[0] = (zr_type){spec->dtype, ZR_SHAPE(1, 1, s.H * s.D)};
    return ZR_OK;
}

/* Return the cost for the longest sequence, as an upper bound, because the position is known only at run time. */
static zr_cost cached_cost(const zr_graph *graph, const zr_op *op)
{
    const int64_t length = zr__in(graph, op, op->n_in - 1)->shape.dim[1], window = op->attr.i[4];
    const double keys = (double)(window > 0 && window < length ? window : length);
    return (zr_cost){.flops = 4.0 * keys * (double)zr__out(graph, op, 0)->shape.dim[2], .bytes = zr__bytes(graph, op)};
}

static const zr_op_def attention_cached = {
    .name = "attention_cached",
    .in_f32 = true,
    .n_out = 1,
    .infer = cached_infer,
    .cost = cached_cost,
};

/* ---- builder --------------------------------------------------------------------------------- */

static zr_status check_attention_spec(const zr_graph *graph, const zr_attention_spec *spec)
{
    ZR_CHECK(spec->heads < 1 || (spec->kv_heads >= 1 && spec->heads % spec->kv_heads == 0), ZR_ERR_SHAPE,
             "attention: %" PRId64 " key-value heads do not divide %" PRId64 " query heads", spec->kv_heads,
             spec->heads);
    ZR_CHECK(spec->window >= 0, ZR_ERR_ARG, "attention: the window is %" PRId64 "; wanted 0 or more keys",
             spec->window);
    ZR_CHECK(spec->window == 0 || !spec->bidirectional, ZR_ERR_UNSUPPORTED,
             "attention: a window of %" PRId64 " keys of bidirectional attention; wanted window 0, or causal attention",
             spec->window);
    ZR_CHECK(!spec->bidirectional || graph->spec.mode != ZR_MODE_DECODE, ZR_ERR_UNSUPPORTED,
             "attention: bidirectional attention cannot decode, because a token would see later tokens");
    ZR_CHECK(isfinite((float)spec->scale), ZR_ERR_ARG, "attention: the scale is %g; wanted a finite number",
             spec->scale);
    return ZR_OK;
}

/* Check how q, k and v are cut among M tensor-parallel ranks. The arguments q, k and v are the numbers of parts into
 * which their columns are cut, or 0. */
static zr_status check_head_cuts(int32_t q, int32_t k, int32_t v, bool fused, int64_t M, const zr_attention_spec *spec)
{
    ZR_CHECK(q == 0 || q == (fused ? 3 : 1), ZR_ERR_UNSUPPORTED,
             "attention: the columns of %s are cut in %d parts; wanted %s", fused ? "qkv" : "q", q,
             fused ? "3, queries, keys and values" : "1");
    ZR_CHECK(q == 0 || !fused || spec->kv_heads == spec->heads, ZR_ERR_UNSUPPORTED,
             "attention: qkv is cut, and its %" PRId64 " query heads share %" PRId64
             " key-value heads; wanted q, k and v as separate values",
             spec->heads, spec->kv_heads);
    ZR_CHECK(q == 0 || spec->heads % M == 0, ZR_ERR_CONFIG,
             "attention: %" PRId64 " heads over %" PRId64 " tensor-parallel ranks: a degree that divides the heads is "
             "wanted",
             spec->heads, M);
    ZR_CHECK(k == v && (k == 0 || k == 1), ZR_ERR_UNSUPPORTED,
             "attention: the columns of k are cut in %d parts, of v in %d (0: not); wanted both in 0 or both in 1", k,
             v);
    ZR_CHECK(k == 0 || q != 0, ZR_ERR_UNSUPPORTED,
             "attention: k and v are cut among the tensor-parallel ranks, but q is not");
    ZR_CHECK(k == 0 || spec->kv_heads % M == 0, ZR_ERR_CONFIG,
             "attention: %" PRId64 " key-value heads over %" PRId64
             " tensor-parallel ranks: k and v that are not cut are wanted, or a degree that divides the heads",
             spec->kv_heads, M);
    return ZR_OK;
}

/* Return the number of parts in which the columns of a value are cut, or 0 if the value is ZR_NONE. */
static int32_t cut_of(const zr_graph *graph, zr_value value)
{
    const zr_value_info *info = zr_graph_value(graph, value);
    return info ? info->cut : 0;
}

/* Return the width of a head. If q has fewer columns than heads, return 0, with an error latched. */
static int64_t head_width(zr_graph *graph, zr_value q, bool fused, const zr_op_attr *attr)
{
    const zr_value_info *info = zr_graph_value(graph, q);
    const int64_t H = attr->i[0], cols = info ? zr_shape_cols(&info->type.shape) : 0;
    const int64_t width = H < 1 ? 0 : fused ? cols / (H + 2 * fused_kv_heads(attr)) : cols / H;
    if (width < 1)
        zr_graph_error(graph, ZR_ERR_SHAPE, "attention: %" PRId64 " heads do not divide the width %" PRId64, H,
                       fused ? cols / 3 : cols);
    return width;
}

/* Add the op that attends to cached keys and values. */
static zr_value attend_cached(zr_graph *graph, int n, zr_value in[4], int64_t kv_cols, const zr_op_attr *attr)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_type type = {spec->dtype, ZR_SHAPE(2, spec->cache_len, kv_cols)};
    in[n] = zr__graph_value_add(graph, ZR_VALUE_CACHE, type, -1);
    return zr__apply(graph, &attention_cached, attr, n + 1, in);
}

zr_value zr_attend(zr_graph *graph, zr_value q, zr_value k, zr_value v, const zr_attention_spec *of)
{
    if (!zr__probability_ok(graph, "attention", of->dropout)) return ZR_NONE;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const bool fused = k == ZR_NONE && v == ZR_NONE, cut = cut_of(graph, q) != 0;
    zr__graph_latch(graph, check_attention_spec(graph, of));
    zr__graph_latch(graph,
                    check_head_cuts(cut_of(graph, q), cut_of(graph, k), cut_of(graph, v), fused, spec->tensor, of));
    zr_op_attr attr = {
        .i = {cut ? of->heads / spec->tensor : of->heads, zr__graph_stream(graph), of->heads, of->kv_heads, of->window,
              !of->bidirectional},
        .f = {of->scale, spec->mode == ZR_MODE_TRAIN ? of->dropout : 0},
    };
    const int64_t D = head_width(graph, q, fused, &attr);
    if (zr__graph_closed(graph)) return ZR_NONE;
    if (of->scale == 0) attr.f[0] = 1.0 / sqrt((double)D);
    if (cut && !fused) { /* each rank needs all tokens of its keys and values */
        k = zr__all_tokens(graph, k);
        v = zr__all_tokens(graph, v);
    }
    zr_value in[4] = {q, k, v}, out[2] = {ZR_NONE, ZR_NONE};
    const int n = fused ? 1 : 3;
    const int64_t kv_heads = cut_of(graph, k) ? of->kv_heads / spec->tensor : of->kv_heads;
    if (spec->mode == ZR_MODE_DECODE)
        return attend_cached(graph, n, in, (fused ? fused_kv_heads(&attr) : kv_heads) * D, &attr);
    in[n] = zr__graph_documents(graph);
    graph->attends |= in[n] != ZR_NONE;
    zr_graph_op(graph, &attention, &attr, in[n] == ZR_NONE ? n : n + 1, in, out);
    /* If q is cut, so is y: a rank's heads produce only the rank's own columns of y. */
    for (int i = 0; i < 2 && cut; i++)
        if (out[i] != ZR_NONE) graph->value[out[i]].info.cut = 1;
    return out[0];
}

zr_value zr_attention(zr_graph *graph, zr_value qkv, int64_t n_head, double dropout)
{
    const zr_attention_spec spec = {.heads = n_head, .kv_heads = n_head, .dropout = dropout};
    return zr_attend(graph, qkv, ZR_NONE, ZR_NONE, &spec);
}
