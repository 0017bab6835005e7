/* graph_interp's kernels for ops that GPT-2 does not use. Part of graph_interp.h. */
#ifndef GRAPH_INTERP_OPS_H
#define GRAPH_INTERP_OPS_H

/* ---- element by element ------------------------------------------------------------------------ */

static inline void interp_relu(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = fmax(interp_in(it, op, 0)[i], 0);
}

static inline void interp_relu_dx(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 1)[i] > 0 ? interp_in(it, op, 0)[i] : 0;
}

static inline void interp_silu(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double x = interp_in(it, op, 0)[i];
        interp_out(it, op, 0)[i] = x / (1 + exp(-x));
    }
}

static inline void interp_silu_dx(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double x = interp_in(it, op, 1)[i], s = 1 / (1 + exp(-x));
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * s * (1 + x * (1 - s));
    }
}

static inline void interp_mul(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * interp_in(it, op, 1)[i];
}

static inline void interp_scale(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * op->attr.f[0];
}

/* ---- rows -------------------------------------------------------------------------------------- */

static inline void interp_rmsnorm(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 0), *gain = interp_in(it, op, 1);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), C = zr_shape_cols(interp_shape(it, op->in[0]));
    for (int64_t r = 0; r < rows; r++) {
        double square = 0;
        for (int64_t c = 0; c < C; c++) square += x[r * C + c] * x[r * C + c] / (double)C;
        double rstd = interp_out(it, op, 1)[r] = 1 / sqrt(square + op->attr.f[0]);
        for (int64_t c = 0; c < C; c++) interp_out(it, op, 0)[r * C + c] = x[r * C + c] * rstd * gain[c];
    }
}

static inline void interp_rmsnorm_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *x = interp_in(it, op, 1), *gain = interp_in(it, op, 2);
    const double *rstd = interp_in(it, op, 3);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), C = zr_shape_cols(interp_shape(it, op->in[0]));
    double *dx = interp_sum(it, op, 0, interp_in(it, op, 4));
    for (int64_t r = 0; r < rows; r++) {
        double dot = 0;
        for (int64_t c = 0; c < C; c++) dot += dy[r * C + c] * gain[c] * x[r * C + c] / (double)C;
        for (int64_t c = 0; c < C; c++)
            dx[r * C + c] += rstd[r] * dy[r * C + c] * gain[c] - pow(rstd[r], 3) * x[r * C + c] * dot;
    }
}

static inline void interp_rmsnorm_dw(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *x = interp_in(it, op, 1), *rstd = interp_in(it, op, 2);
    int64_t C = zr_shape_cols(interp_shape(it, op->in[0]));
    double *dgain = interp_sum(it, op, 0, NULL);
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) dgain[i % C] += dy[i] * x[i] * rstd[i / C];
}

static inline void interp_softmax(interp *it, const zr_op *op)
{
    int64_t C = zr_shape_cols(interp_shape(it, op->in[0]));
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double sum = 0;
        for (int64_t c = 0; c < C; c++) sum += exp(interp_in(it, op, 0)[i / C * C + c]);
        interp_out(it, op, 0)[i] = exp(interp_in(it, op, 0)[i]) / sum;
    }
}

static inline void interp_softmax_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *y = interp_in(it, op, 1);
    int64_t C = zr_shape_cols(interp_shape(it, op->in[0]));
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double dot = 0;
        for (int64_t c = i / C * C; c < (i / C + 1) * C; c++) dot += dy[c] * y[c];
        interp_out(it, op, 0)[i] = y[i] * (dy[i] - dot);
    }
}

static inline void interp_mean(interp *it, const zr_op *op)
{
    int64_t C = zr_shape_cols(interp_shape(it, op->in[0]));
    double *y = interp_sum(it, op, 0, NULL);
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) y[i / C] += interp_in(it, op, 0)[i] / (double)C;
}

static inline void interp_mean_dx(interp *it, const zr_op *op)
{
    int64_t C = zr_shape_cols(interp_shape(it, op->out[0]));
    for (int64_t i = 0; i < interp_elems(it, op->out[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i / C] / (double)C;
}

/* ---- arrangement ------------------------------------------------------------------------------- */

static inline void interp_slice(interp *it, const zr_op *op)
{
    int64_t C = zr_shape_cols(interp_shape(it, op->in[0])), n = zr_shape_cols(interp_shape(it, op->out[0]));
    for (int64_t i = 0; i < interp_elems(it, op->out[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i / n * C + op->attr.i[0] + i % n];
}

static inline void interp_slice_dx(interp *it, const zr_op *op)
{
    int64_t C = zr_shape_cols(interp_shape(it, op->out[0])), n = zr_shape_cols(interp_shape(it, op->in[0]));
    double *dx = interp_sum(it, op, 0, interp_in(it, op, 1));
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        dx[i / n * C + op->attr.i[0] + i % n] += interp_in(it, op, 0)[i];
}

static inline void interp_concat(interp *it, const zr_op *op)
{
    int64_t M = zr_shape_cols(interp_shape(it, op->in[0])), N = zr_shape_cols(interp_shape(it, op->in[1]));
    for (int64_t i = 0; i < interp_elems(it, op->out[0]); i++) {
        int64_t r = i / (M + N), c = i % (M + N);
        interp_out(it, op, 0)[i] = c < M ? interp_in(it, op, 0)[r * M + c] : interp_in(it, op, 1)[r * N + c - M];
    }
}

static inline void interp_transpose(interp *it, const zr_op *op)
{
    const zr_shape *x = interp_shape(it, op->in[0]);
    int64_t M = x->dim[x->ndim - 2], N = x->dim[x->ndim - 1];
    for (int64_t i = 0; i < zr_shape_elems(x); i++)
        interp_out(it, op, 0)[i / (M * N) * M * N + i % N * M + i / N % M] = interp_in(it, op, 0)[i];
}

/* Return the index in (B, T, n_head * D) of element i of (B, n_head, T, D). */
static inline int64_t interp_merged(const int64_t *split, int64_t i)
{
    int64_t d = i % split[3], t = i / split[3] % split[2], h = i / (split[3] * split[2]) % split[1];
    return ((i / (split[1] * split[2] * split[3]) * split[2] + t) * split[1] + h) * split[3] + d;
}

static inline void interp_split_heads(interp *it, const zr_op *op)
{
    const int64_t *split = interp_shape(it, op->out[0])->dim;
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[interp_merged(split, i)];
}

static inline void interp_merge_heads(interp *it, const zr_op *op)
{
    const int64_t *split = interp_shape(it, op->in[0])->dim;
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[interp_merged(split, i)] = interp_in(it, op, 0)[i];
}

#define INTERP_OPS                                                                                                     \
    {"relu", interp_relu}, {"relu_dx", interp_relu_dx}, {"silu", interp_silu}, {"silu_dx", interp_silu_dx},            \
        {"mul", interp_mul}, {"scale", interp_scale}, {"rmsnorm", interp_rmsnorm}, {"rmsnorm_dx", interp_rmsnorm_dx},  \
        {"rmsnorm_dw", interp_rmsnorm_dw}, {"softmax", interp_softmax}, {"softmax_dx", interp_softmax_dx},             \
        {"mean", interp_mean}, {"mean_dx", interp_mean_dx}, {"slice", interp_slice}, {"slice_dx", interp_slice_dx},    \
        {"concat", interp_concat}, {"transpose", interp_transpose}, {"split_heads", interp_split_heads},               \
    {                                                                                                                  \
        "merge_heads", interp_merge_heads                                                                              \
    }

#endif
