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

static inline void interp_gelu_erf(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double x = interp_in(it, op, 0)[i];
        interp_out(it, op, 0)[i] = x / 2 * (1 + erf(x / sqrt(2)));
    }
}

static inline void interp_gelu_erf_dx(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double x = interp_in(it, op, 1)[i], density = exp(-x * x / 2) / sqrt(2 * acos(-1));
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * ((1 + erf(x / sqrt(2))) / 2 + x * density);
    }
}

static inline void interp_tanh(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) interp_out(it, op, 0)[i] = tanh(interp_in(it, op, 0)[i]);
}

static inline void interp_tanh_dx(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * (1 - pow(tanh(interp_in(it, op, 1)[i]), 2));
}

static inline void interp_swiglu(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double gate = interp_in(it, op, 0)[i];
        interp_out(it, op, 0)[i] = gate / (1 + exp(-gate)) * interp_in(it, op, 1)[i];
    }
}

static inline void interp_swiglu_dx(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double dy = interp_in(it, op, 0)[i], gate = interp_in(it, op, 1)[i], up = interp_in(it, op, 2)[i];
        double s = 1 / (1 + exp(-gate));
        interp_out(it, op, 0)[i] = dy * up * s * (1 + gate * (1 - s));
        interp_out(it, op, 1)[i] = dy * gate * s;
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

/* ---- rows by index ----------------------------------------------------------------------------- */

/* Return the row of x (B, T, C) that the op rows takes for index i. */
static inline int64_t interp_row_of(const interp *it, const zr_op *op, zr_value x, int64_t i)
{
    const int64_t P = zr_shape_cols(interp_shape(it, op->in[0])), T = interp_shape(it, x)->dim[1];
    return i / P * T + (int64_t)interp_in(it, op, 0)[i];
}

static inline void interp_rows(interp *it, const zr_op *op)
{
    const int64_t n = interp_elems(it, op->in[0]), C = zr_shape_cols(interp_shape(it, op->in[1]));
    for (int64_t i = 0; i < n * C; i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 1)[interp_row_of(it, op, op->in[1], i / C) * C + i % C];
}

static inline void interp_rows_dx(interp *it, const zr_op *op)
{
    const int64_t n = interp_elems(it, op->in[0]), C = zr_shape_cols(interp_shape(it, op->in[1]));
    double *dx = interp_sum(it, op, 0, interp_in(it, op, 2));
    for (int64_t i = 0; i < n * C; i++)
        dx[interp_row_of(it, op, op->out[0], i / C) * C + i % C] += interp_in(it, op, 1)[i];
}

/* ---- rows -------------------------------------------------------------------------------------- */

/* Compute rmsnorm. The interpreter rounds nothing, so the attribute that rounds x * rstd has no effect. A group is a
 * whole row of x, or a part of a row with one column for each element of the gain. */
static inline void interp_rmsnorm(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 0), *gain = interp_in(it, op, 1);
    int64_t G = interp_elems(it, op->in[1]), groups = interp_elems(it, op->in[0]) / G;
    for (int64_t r = 0; r < groups; r++) {
        double square = 0;
        for (int64_t c = 0; c < G; c++) square += x[r * G + c] * x[r * G + c] / (double)G;
        double rstd = interp_out(it, op, 1)[r] = 1 / sqrt(square + op->attr.f[0]);
        for (int64_t c = 0; c < G; c++) interp_out(it, op, 0)[r * G + c] = x[r * G + c] * rstd * gain[c];
    }
}

static inline void interp_rmsnorm_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *x = interp_in(it, op, 1), *gain = interp_in(it, op, 2);
    const double *rstd = interp_in(it, op, 3);
    int64_t G = interp_elems(it, op->in[2]), groups = interp_elems(it, op->in[0]) / G;
    double *dx = interp_sum(it, op, 0, interp_in(it, op, 4));
    for (int64_t r = 0; r < groups; r++) {
        double dot = 0;
        for (int64_t c = 0; c < G; c++) dot += dy[r * G + c] * gain[c] * x[r * G + c] / (double)G;
        for (int64_t c = 0; c < G; c++)
            dx[r * G + c] += rstd[r] * dy[r * G + c] * gain[c] - pow(rstd[r], 3) * x[r * G + c] * dot;
    }
}

static inline void interp_rmsnorm_dw(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *x = interp_in(it, op, 1), *rstd = interp_in(it, op, 2);
    int64_t G = interp_elems(it, op->out[0]);
    double *dgain = interp_sum(it, op, 0, NULL);
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) dgain[i % G] += dy[i] * x[i] * rstd[i / G];
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

/* ---- rotary embedding -------------------------------------------------------------------------- */

/* Return the angle per position of pair j of a table of D columns, for sequences of `length` tokens. */
static inline double interp_frequency(const zr_op_attr *attr, int64_t j, int64_t length)
{
    const double D = (double)attr->i[1], original = (double)attr->i[2], factor = attr->f[1], pi = acos(-1.0);
    const zr_rotary_kind kind = (zr_rotary_kind)attr->i[0];
    double theta = attr->f[0], s = (double)length / original;
    if (kind == ZR_ROTARY_DYNAMIC && s > 1) theta *= pow(factor * s - (factor - 1), D / (D - 2));
    const double usual = pow(theta, -2.0 * (double)j / D), wavelength = 2 * pi / usual;
    if (kind == ZR_ROTARY_LINEAR) return usual / factor;
    if (kind == ZR_ROTARY_LLAMA3) {
        if (wavelength < original / attr->f[3]) return usual;
        if (wavelength > original / attr->f[2]) return usual / factor;
        const double kept = (original / wavelength - attr->f[2]) / (attr->f[3] - attr->f[2]);
        return (1 - kept) * usual / factor + kept * usual;
    }
    if (kind != ZR_ROTARY_YARN) return usual;
    double low = D * log(original / (attr->f[4] * 2 * pi)) / (2 * log(theta));
    double high = D * log(original / (attr->f[5] * 2 * pi)) / (2 * log(theta));
    low = fmax(attr->i[3] ? floor(low) : low, 0);
    high = fmin(attr->i[3] ? ceil(high) : high, D - 1);
    const double ramp = fmin(fmax(((double)j - low) / (low == high ? 0.001 : high - low), 0), 1);
    return usual / factor * ramp + usual * (1 - ramp);
}

static inline void interp_rotary_table(interp *it, const zr_op *op)
{
    const int64_t T = interp_shape(it, op->out[0])->dim[0], D = interp_shape(it, op->out[0])->dim[1];
    for (int64_t i = 0; i < T * D; i++) {
        const int64_t t = it->position + i / D, j = i % D % (D / 2);
        const double angle = (double)t * interp_frequency(&op->attr, j, it->position + T);
        interp_out(it, op, 0)[i] = op->attr.f[6] * (i % D < D / 2 ? cos(angle) : sin(angle));
    }
}

static inline void interp_rotary(interp *it, const zr_op *op)
{
    const int64_t T = interp_shape(it, op->in[1])->dim[0], D = interp_shape(it, op->in[1])->dim[1], half = D / 2;
    const int64_t C = zr_shape_cols(interp_shape(it, op->in[0]));
    const double *documents = interp_in(it, op, 2);
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        const int64_t t = i / C % T - (documents ? (int64_t)documents[i / C] : 0);
        const double *row = interp_in(it, op, 1) + t * D, *x = interp_in(it, op, 0);
        const int64_t j = i % D % half;
        const double s = op->attr.i[0] ? -row[half + j] : row[half + j];
        interp_out(it, op, 0)[i] = x[i] * row[j] + (i % D < half ? -x[i + half] : x[i - half]) * s;
    }
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
    {"gelu_erf", interp_gelu_erf}, {"gelu_erf_dx", interp_gelu_erf_dx}, {"tanh", interp_tanh},                         \
        {"tanh_dx", interp_tanh_dx}, {"rows", interp_rows}, {"rows_dx", interp_rows_dx}, {"relu", interp_relu},        \
        {"relu_dx", interp_relu_dx}, {"silu", interp_silu}, {"silu_dx", interp_silu_dx}, {"swiglu", interp_swiglu},    \
        {"swiglu_dx", interp_swiglu_dx}, {"rotary_table", interp_rotary_table}, {"rotary", interp_rotary},             \
        {"mul", interp_mul}, {"scale", interp_scale}, {"rmsnorm", interp_rmsnorm}, {"rmsnorm_dx", interp_rmsnorm_dx},  \
        {"rmsnorm_dw", interp_rmsnorm_dw}, {"softmax", interp_softmax}, {"softmax_dx", interp_softmax_dx},             \
        {"mean", interp_mean}, {"mean_dx", interp_mean_dx}, {"slice", interp_slice}, {"slice_dx", interp_slice_dx},    \
        {"concat", interp_concat}, {"transpose", interp_transpose}, {"split_heads", interp_split_heads},               \
    {                                                                                                                  \
        "merge_heads", interp_merge_heads                                                                              \
    }

#endif
