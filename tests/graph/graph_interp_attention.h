/* graph_interp's kernels for attention. Part of graph_interp.h. */
#ifndef GRAPH_INTERP_ATTENTION_H
#define GRAPH_INTERP_ATTENTION_H

/* One query head of one row of the batch, in a graph of one rank. q, k and v point to the head's first element of token
 * 0; a token has q_row or kv_row elements. */
typedef struct interp_head {
    const double *q, *k, *v;
    int64_t T, D, q_row, kv_row;
    int64_t y, y_row;       /* index of token 0 in (B, T, H D), and elements of a token */
    int64_t lse;            /* index of token 0 in (B, H, T) */
    const double *document; /* beginnings of the row's documents, or NULL */
    int64_t stream, element, window;
    bool causal;
    double scale, p;
} interp_head;

/* Return whether the op's operands are one fused value, given that `others` operands are neither q, k nor v. */
static inline bool interp_is_fused(const zr_op *op, int others)
{
    return op->n_in - others == 1;
}

/* Find a head whose operand q is number `first`. `others` operands are neither q, k nor v. */
static inline interp_head interp_head_at(const interp *it, const zr_op *op, int first, int others, int64_t b, int64_t h)
{
    const int64_t *i = op->attr.i, *dim = interp_shape(it, op->in[first])->dim, T = dim[1];
    const bool fused = interp_is_fused(op, others);
    const int64_t D = fused ? dim[2] / (i[0] + 2 * i[3]) : dim[2] / i[0], kv = h * i[3] / i[0];
    const int64_t kv_row = fused ? dim[2] : i[3] * D;
    const double *q = interp_in(it, op, first);
    const double *k = fused ? q + i[0] * D : interp_in(it, op, first + 1);
    const double *v = fused ? k + i[3] * D : interp_in(it, op, first + 2);
    return (interp_head){.q = q + b * T * dim[2] + h * D,
                         .k = k + b * T * kv_row + kv * D,
                         .v = v + b * T * kv_row + kv * D,
                         .T = T,
                         .D = D,
                         .q_row = dim[2],
                         .kv_row = kv_row,
                         .y = b * T * i[0] * D + h * D,
                         .y_row = i[0] * D,
                         .lse = (b * i[0] + h) * T,
                         .stream = i[1],
                         .element = (b * i[0] + h) * T * T,
                         .window = i[4],
                         .causal = i[5],
                         .scale = op->attr.f[0],
                         .p = op->attr.f[1]};
}

static inline bool interp_sees(const interp_head *a, int64_t i, int64_t j)
{
    if (a->document && a->document[j] != a->document[i]) return false;
    return !a->causal || (j <= i && (a->window == 0 || j > i - a->window));
}

/* Return the exponential of the score of query i and key j, or 0 if the query does not see the key. */
static inline double interp_weight_of(const interp_head *a, int64_t i, int64_t j, double lse)
{
    double dot = 0;
    for (int64_t d = 0; d < a->D; d++) dot += a->q[i * a->q_row + d] * a->k[j * a->kv_row + d];
    return interp_sees(a, i, j) ? exp(dot * a->scale - lse) : 0;
}

static inline double interp_mask(const interp *it, const interp_head *a, int64_t i, int64_t j)
{
    return a->p == 0 ? 1 : interp_kept(it, a->stream, a->p, a->element + i * a->T + j);
}

static inline void interp_attention(interp *it, const zr_op *op)
{
    double *y = interp_sum(it, op, 0, NULL);
    const int documents = op->n_in % 2 == 0;
    for (int64_t n = 0; n < interp_shape(it, op->in[0])->dim[0] * op->attr.i[0]; n++) {
        interp_head a = interp_head_at(it, op, 0, documents, n / op->attr.i[0], n % op->attr.i[0]);
        if (documents) a.document = interp_in(it, op, op->n_in - 1) + n / op->attr.i[0] * a.T;
        for (int64_t i = 0; i < a.T; i++) {
            double sum = 0;
            for (int64_t j = 0; j < a.T; j++) sum += interp_weight_of(&a, i, j, 0);
            interp_out(it, op, 1)[a.lse + i] = log(sum);
            for (int64_t j = 0; j < a.T; j++) {
                double p = interp_weight_of(&a, i, j, 0) / sum * interp_mask(it, &a, i, j);
                for (int64_t d = 0; d < a.D; d++) y[a.y + i * a.y_row + d] += p * a.v[j * a.kv_row + d];
            }
        }
    }
}

/* Add the terms of the pair (i, j) to the head's gradients `to`. dot = dy[i] y[i]. */
static inline void interp_attention_pair(const interp *it, const interp_head *a, const double *dy, double lse,
                                         double dot, double *const to[3], int64_t i, int64_t j)
{
    double p = interp_weight_of(a, i, j, lse), m = interp_mask(it, a, i, j), dp = 0;
    for (int64_t d = 0; d < a->D; d++) dp += dy[d] * a->v[j * a->kv_row + d] * m;
    double ds = p * (dp - dot) * a->scale;
    for (int64_t d = 0; d < a->D; d++) {
        to[0][i * a->q_row + d] += ds * a->k[j * a->kv_row + d];
        to[1][j * a->kv_row + d] += ds * a->q[i * a->q_row + d];
        to[2][j * a->kv_row + d] += p * m * dy[d];
    }
}

static inline void interp_attention_dx(interp *it, const zr_op *op)
{
    const bool fused = op->n_out == 1;
    const int n = op->n_out, others = op->n_in - n;
    const double *dy = interp_in(it, op, 0), *y = interp_in(it, op, n + 1), *lse = interp_in(it, op, n + 2);
    const double *q = interp_in(it, op, 1), *k = fused ? q : interp_in(it, op, 2),
                 *v = fused ? q : interp_in(it, op, 3);
    double *out[3];
    for (int o = 0; o < 3; o++) out[o] = fused && o > 0 ? out[0] : interp_sum(it, op, o, NULL);
    for (int64_t index = 0; index < interp_shape(it, op->in[1])->dim[0] * op->attr.i[0]; index++) {
        interp_head a = interp_head_at(it, op, 1, others, index / op->attr.i[0], index % op->attr.i[0]);
        if (others > 3) a.document = interp_in(it, op, op->n_in - 1) + index / op->attr.i[0] * a.T;
        double *const to[3] = {out[0] + (a.q - q), out[1] + (a.k - k), out[2] + (a.v - v)};
        for (int64_t i = 0; i < a.T; i++) {
            const double *dy_i = dy + a.y + i * a.y_row, *y_i = y + a.y + i * a.y_row;
            double dot = 0;
            for (int64_t d = 0; d < a.D; d++) dot += dy_i[d] * y_i[d];
            for (int64_t j = 0; j < a.T; j++) interp_attention_pair(it, &a, dy_i, lse[a.lse + i], dot, to, i, j);
        }
    }
}

/* Attend to the cache as if it were the keys and values of earlier tokens. */
static inline void interp_attention_cached(interp *it, const zr_op *op)
{
    const int64_t *dim = interp_shape(it, op->in[op->n_in - 1])->dim, kv = dim[2];
    const interp_head first = interp_head_at(it, op, 0, 1, 0, 0);
    double *keys = interp_in(it, op, op->n_in - 1), *values = keys + dim[1] * kv, *y = interp_sum(it, op, 0, NULL);
    memcpy(keys + it->position * kv, first.k, (size_t)kv * sizeof *keys);
    memcpy(values + it->position * kv, first.v, (size_t)kv * sizeof *values);
    for (int64_t h = 0; h < op->attr.i[0]; h++) {
        interp_head a = interp_head_at(it, op, 0, 1, 0, h);
        double sum = 0;
        a.q -= it->position * a.q_row;
        a.k = keys + (a.k - first.k);
        a.v = values + (a.v - first.v);
        a.kv_row = kv;
        for (int64_t j = 0; j <= it->position; j++) {
            double p = interp_weight_of(&a, it->position, j, 0);
            sum += p;
            for (int64_t d = 0; d < a.D; d++) y[h * a.D + d] += p * a.v[j * kv + d];
        }
        for (int64_t d = 0; d < a.D; d++) y[h * a.D + d] /= sum;
    }
}

#endif
