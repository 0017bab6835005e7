/** graph_interp: runs a graph in double precision, op by op, with plain loops. It is the reference for adjoints: it
 * follows the formulas of zr/ops.h, adds no rounding of fp32 or 16 bits, and checks that values are written once and
 * read only after they are written. */
#ifndef GRAPH_INTERP_H
#define GRAPH_INTERP_H

#include "zr/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct interp interp;

typedef struct interp_kernel {
    const char *op;
    void (*run)(interp *it, const zr_op *op);
} interp_kernel;

struct interp {
    const zr_graph *graph;
    double **data; /* one array per value; I32 values are doubles too */
    bool *written;
    const interp_kernel *extra; /* a test's own kernels, ended by a NULL op; or NULL */
    uint64_t seed;
    int64_t position;
    const int64_t *counted; /* number of losses of each term that count; NULL if all count */
};

/* ---- access ---------------------------------------------------------------------------------- */

static inline const zr_shape *interp_shape(const interp *it, zr_value value)
{
    return &zr_graph_value(it->graph, value)->type.shape;
}

static inline int64_t interp_elems(const interp *it, zr_value value)
{
    return zr_shape_elems(interp_shape(it, value));
}

static inline double *interp_in(const interp *it, const zr_op *op, int i)
{
    return i < op->n_in && op->in[i] != ZR_NONE ? it->data[op->in[i]] : NULL;
}

static inline double *interp_out(const interp *it, const zr_op *op, int i)
{
    return it->data[op->out[i]];
}

/* Set the output to `earlier`, or to zero without it, and return it as the start of a sum. */
static inline double *interp_sum(const interp *it, const zr_op *op, int out, const double *earlier)
{
    double *y = interp_out(it, op, out);
    size_t bytes = (size_t)interp_elems(it, op->out[out]) * sizeof *y;
    if (earlier)
        memcpy(y, earlier, bytes);
    else
        memset(y, 0, bytes);
    return y;
}

#include "graph_interp_ops.h"

/* ---- tables ---------------------------------------------------------------------------------- */

static inline void interp_embedding(interp *it, const zr_op *op)
{
    const double *ids = interp_in(it, op, 0), *table = interp_in(it, op, 1);
    int64_t n = interp_elems(it, op->in[0]), C = zr_shape_cols(interp_shape(it, op->in[1]));
    for (int64_t i = 0; i < n; i++)
        memcpy(interp_out(it, op, 0) + i * C, table + (int64_t)ids[i] * C, (size_t)C * sizeof *table);
}

static inline void interp_embedding_dw(interp *it, const zr_op *op)
{
    const double *ids = interp_in(it, op, 0), *dy = interp_in(it, op, 1);
    double *dw = interp_sum(it, op, 0, interp_in(it, op, 2));
    int64_t n = interp_elems(it, op->in[0]), C = zr_shape_cols(interp_shape(it, op->in[1]));
    for (int64_t i = 0; i < n * C; i++) dw[(int64_t)ids[i / C] * C + i % C] += dy[i];
}

static inline void interp_position(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 0), *table = interp_in(it, op, 1), *documents = interp_in(it, op, 2);
    const int64_t *dim = interp_shape(it, op->in[0])->dim, C = dim[2];
    for (int64_t i = 0; i < dim[0] * dim[1] * C; i++) {
        const int64_t t = it->position + i / C % dim[1] - (documents ? (int64_t)documents[i / C] : 0);
        interp_out(it, op, 0)[i] = x[i] + table[t * C + i % C];
    }
}

static inline void interp_position_dw(interp *it, const zr_op *op)
{
    const int at = op->n_in > 2; /* number of the operand dy, which may follow documents */
    const int64_t *dim = interp_shape(it, op->in[at])->dim, C = dim[2];
    const double *documents = at ? interp_in(it, op, 0) : NULL;
    double *dw = interp_sum(it, op, 0, interp_in(it, op, at + 1));
    for (int64_t i = 0; i < dim[0] * dim[1] * C; i++) {
        const int64_t t = i / C % dim[1] - (documents ? (int64_t)documents[i / C] : 0);
        dw[t * C + i % C] += interp_in(it, op, at)[i];
    }
}

/* ---- linear ---------------------------------------------------------------------------------- */

/* Return the index of element (k, n) of a weight stored as (K, N) or, transposed, (N, K). */
static inline int64_t interp_weight(const zr_op *op, int64_t K, int64_t N, int64_t k, int64_t n)
{
    return op->attr.i[0] ? n * K + k : k * N + n;
}

static inline void interp_linear(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 0), *w = interp_in(it, op, 1), *b = interp_in(it, op, 2);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), K = zr_shape_cols(interp_shape(it, op->in[0]));
    int64_t N = zr_shape_cols(interp_shape(it, op->out[0]));
    double *y = interp_out(it, op, 0);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < N; n++) {
            double sum = b ? b[n] : 0;
            for (int64_t k = 0; k < K; k++) sum += x[r * K + k] * w[interp_weight(op, K, N, k, n)];
            y[r * N + n] = sum;
        }
}

static inline void interp_linear_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *w = interp_in(it, op, 1);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), N = zr_shape_cols(interp_shape(it, op->in[0]));
    int64_t K = zr_shape_cols(interp_shape(it, op->out[0]));
    double *dx = interp_sum(it, op, 0, NULL);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = 0; n < N; n++) dx[r * K + k] += dy[r * N + n] * w[interp_weight(op, K, N, k, n)];
}

static inline void interp_linear_dw(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 0), *dy = interp_in(it, op, 1);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), K = zr_shape_cols(interp_shape(it, op->in[0]));
    int64_t N = zr_shape_cols(interp_shape(it, op->in[1]));
    double *dw = interp_sum(it, op, 0, interp_in(it, op, 2));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = 0; n < N; n++) dw[interp_weight(op, K, N, k, n)] += x[r * K + k] * dy[r * N + n];
}

static inline void interp_linear_db(interp *it, const zr_op *op)
{
    int64_t N = zr_shape_cols(interp_shape(it, op->in[0]));
    double *db = interp_sum(it, op, 0, interp_in(it, op, 1));
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) db[i % N] += interp_in(it, op, 0)[i];
}

/* ---- layernorm ------------------------------------------------------------------------------- */

static inline void interp_layernorm(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 0), *gain = interp_in(it, op, 1), *bias = interp_in(it, op, 2);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), C = zr_shape_cols(interp_shape(it, op->in[0]));
    double *y = interp_out(it, op, 0);
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, square = 0;
        for (int64_t c = 0; c < C; c++) mean += x[r * C + c] / (double)C;
        for (int64_t c = 0; c < C; c++) square += (x[r * C + c] - mean) * (x[r * C + c] - mean) / (double)C;
        double rstd = 1 / sqrt(square + op->attr.f[0]);
        for (int64_t c = 0; c < C; c++) y[r * C + c] = (x[r * C + c] - mean) * rstd * gain[c] + bias[c];
        interp_out(it, op, 1)[r] = mean;
        interp_out(it, op, 2)[r] = rstd;
    }
}

static inline void interp_layernorm_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *x = interp_in(it, op, 1), *gain = interp_in(it, op, 2);
    const double *mean = interp_in(it, op, 3), *rstd = interp_in(it, op, 4);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), C = zr_shape_cols(interp_shape(it, op->in[0]));
    double *dx = interp_sum(it, op, 0, interp_in(it, op, 5));
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, dot = 0;
        for (int64_t c = 0; c < C; c++) {
            double g = dy[r * C + c] * gain[c];
            sum += g / (double)C;
            dot += g * (x[r * C + c] - mean[r]) * rstd[r] / (double)C;
        }
        for (int64_t c = 0; c < C; c++)
            dx[r * C + c] += rstd[r] * (dy[r * C + c] * gain[c] - sum - (x[r * C + c] - mean[r]) * rstd[r] * dot);
    }
}

static inline void interp_layernorm_dw(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *x = interp_in(it, op, 1);
    const double *mean = interp_in(it, op, 2), *rstd = interp_in(it, op, 3);
    int64_t C = zr_shape_cols(interp_shape(it, op->in[0]));
    double *dgain = interp_sum(it, op, 0, NULL), *dbias = interp_sum(it, op, 1, NULL);
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        dgain[i % C] += dy[i] * (x[i] - mean[i / C]) * rstd[i / C];
        dbias[i % C] += dy[i];
    }
}

/* ---- element by element ------------------------------------------------------------------------ */

#define INTERP_GELU_SCALE 0.79788456080286535588 /* sqrt(2/pi) */

static inline void interp_gelu(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double x = interp_in(it, op, 0)[i];
        interp_out(it, op, 0)[i] = 0.5 * x * (1 + tanh(INTERP_GELU_SCALE * (x + 0.044715 * x * x * x)));
    }
}

static inline void interp_gelu_dx(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++) {
        double x = interp_in(it, op, 1)[i], t = tanh(INTERP_GELU_SCALE * (x + 0.044715 * x * x * x));
        double slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * INTERP_GELU_SCALE * (1 + 3 * 0.044715 * x * x);
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * slope;
    }
}

static inline void interp_add(interp *it, const zr_op *op)
{
    const double *b = interp_in(it, op, 1);
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] + (b ? b[i] : 0);
}

/* Return the factor by which dropout multiplies element `index` of a stream. */
static inline double interp_kept(const interp *it, int64_t stream, double p, int64_t index)
{
    zr_rng rng = {.seed = it->seed, .purpose = ZR_RNG_DROPOUT, .stream = (uint32_t)stream};
    double u = (double)(zr_rng_u32(&rng, (uint64_t)index) >> 8) / 16777216.0;
    return u >= p ? 1 / (1 - p) : 0;
}

static inline void interp_dropout(interp *it, const zr_op *op)
{
    for (int64_t i = 0; i < interp_elems(it, op->in[0]); i++)
        interp_out(it, op, 0)[i] = interp_in(it, op, 0)[i] * interp_kept(it, op->attr.i[0], op->attr.f[0], i);
}

static inline void interp_fill(interp *it, const zr_op *op)
{
    const int64_t n = interp_elems(it, op->out[0]), counted = it->counted ? it->counted[op->attr.i[0]] : n;
    for (int64_t i = 0; i < n; i++) interp_out(it, op, 0)[i] = counted > 0 ? 1 / (double)counted : 0;
}

#include "graph_interp_attention.h"

/* ---- cross entropy --------------------------------------------------------------------------- */

static inline void interp_cross_entropy(interp *it, const zr_op *op)
{
    const double *logits = interp_in(it, op, 0), *targets = interp_in(it, op, 1);
    int64_t rows = zr_shape_rows(interp_shape(it, op->in[0])), V = zr_shape_cols(interp_shape(it, op->in[0]));
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t v = 0; v < V; v++) sum += exp(logits[r * V + v]);
        interp_out(it, op, 1)[r] = log(sum);
        interp_out(it, op, 0)[r] = targets[r] < 0 ? 0 : log(sum) - logits[r * V + (int64_t)targets[r]];
    }
}

static inline void interp_cross_entropy_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *logits = interp_in(it, op, 1), *targets = interp_in(it, op, 2);
    int64_t V = zr_shape_cols(interp_shape(it, op->in[1]));
    double *dx = interp_sum(it, op, 0, NULL);
    for (int64_t i = 0; i < interp_elems(it, op->in[1]); i++) {
        int64_t r = i / V, target = (int64_t)targets[r];
        if (target >= 0) dx[i] = dy[r] * (exp(logits[i] - interp_in(it, op, 3)[r]) - (i % V == target));
    }
}

/* Return whether token t of row b is in the document of a target; documents may be NULL. */
static inline bool interp_in_document(const double *documents, const int64_t *dim, int64_t b, int64_t t, int64_t target)
{
    return target >= 0 && (!documents || documents[b * dim[1] + t] == documents[b * dim[1] + target]);
}

static inline void interp_place_cross_entropy(interp *it, const zr_op *op)
{
    const double *logits = interp_in(it, op, 0), *documents = interp_in(it, op, 2);
    const int64_t *dim = interp_shape(it, op->in[0])->dim, S = interp_shape(it, op->in[1])->dim[1], K = dim[2];
    for (int64_t i = 0; i < dim[0] * S * K; i++) {
        const int64_t b = i / K / S, target = (int64_t)interp_in(it, op, 1)[i];
        double sum = 0;
        for (int64_t t = 0; t < dim[1]; t++)
            if (interp_in_document(documents, dim, b, t, target)) sum += exp(logits[(b * dim[1] + t) * K + i % K]);
        interp_out(it, op, 1)[i] = target < 0 ? 0 : log(sum);
        interp_out(it, op, 0)[i] = target < 0 ? 0 : log(sum) - logits[(b * dim[1] + target) * K + i % K];
    }
}

static inline void interp_place_cross_entropy_dx(interp *it, const zr_op *op)
{
    const double *dy = interp_in(it, op, 0), *logits = interp_in(it, op, 1), *documents = interp_in(it, op, 4);
    const int64_t *dim = interp_shape(it, op->in[1])->dim, S = interp_shape(it, op->in[2])->dim[1], K = dim[2];
    double *dx = interp_sum(it, op, 0, NULL);
    for (int64_t i = 0; i < dim[0] * S * K; i++) {
        const int64_t b = i / K / S, target = (int64_t)interp_in(it, op, 2)[i];
        for (int64_t t = 0; t < dim[1]; t++) {
            const int64_t at = (b * dim[1] + t) * K + i % K;
            if (interp_in_document(documents, dim, b, t, target))
                dx[at] += dy[i] * (exp(logits[at] - interp_in(it, op, 3)[i]) - (t == target));
        }
    }
}

/* Compute the logits of row r. */
static inline void interp_head_row(interp *it, const zr_op *op, int x, int64_t r, double *logits)
{
    const double *w = interp_in(it, op, x + 1), *b = op->attr.i[2] ? interp_in(it, op, x + 3) : NULL;
    const int64_t *dim = interp_shape(it, op->in[x + 1])->dim, C = dim[1];
    for (int64_t v = 0; v < dim[0]; v++) {
        logits[v] = b ? b[v] : 0;
        for (int64_t c = 0; c < C; c++) logits[v] += interp_in(it, op, x)[r * C + c] * w[v * C + c];
    }
}

/* Return the loss of a row and replace the logits by their softmax. */
static inline double interp_row_loss(double *logits, int64_t V, int64_t target)
{
    double sum = 0, logit = target < 0 ? 0 : logits[target];
    for (int64_t v = 0; v < V; v++) sum += logits[v] = exp(logits[v]);
    for (int64_t v = 0; v < V; v++) logits[v] /= sum;
    return target < 0 ? 0 : log(sum) - logit;
}

static inline void interp_linear_cross_entropy(interp *it, const zr_op *op)
{
    int64_t V = interp_shape(it, op->in[1])->dim[0];
    double *logits = malloc((size_t)V * sizeof *logits);
    for (int64_t r = 0; r < interp_elems(it, op->in[2]); r++) {
        interp_head_row(it, op, 0, r, logits);
        interp_out(it, op, 0)[r] = interp_row_loss(logits, V, (int64_t)interp_in(it, op, 2)[r]);
    }
    free(logits);
}

static inline void interp_linear_cross_entropy_dx(interp *it, const zr_op *op)
{
    const double *x = interp_in(it, op, 1), *w = interp_in(it, op, 2);
    double *dx = interp_sum(it, op, 0, NULL), *dw = op->n_out > 2 ? interp_sum(it, op, 1, NULL) : NULL;
    double *db = op->n_out > 3 ? interp_sum(it, op, 2, NULL) : NULL;
    int64_t V = interp_shape(it, op->in[2])->dim[0], C = interp_shape(it, op->in[2])->dim[1];
    double *p = malloc((size_t)V * sizeof *p);
    for (int64_t r = 0; r < interp_elems(it, op->in[3]); r++) {
        int64_t target = (int64_t)interp_in(it, op, 3)[r];
        interp_head_row(it, op, 1, r, p);
        interp_out(it, op, op->n_out - 1)[r] = interp_row_loss(p, V, target);
        for (int64_t i = 0; i < V * C && target >= 0; i++) {
            double dlogit = interp_in(it, op, 0)[r] * (p[i / C] - (i / C == target));
            dx[r * C + i % C] += dlogit * w[i];
            if (dw) dw[i] += dlogit * x[r * C + i % C];
            if (db && i % C == 0) db[i / C] += dlogit;
        }
    }
    free(p);
}

/* ---- running --------------------------------------------------------------------------------- */

static const interp_kernel interp_kernels[] = {
    {"embedding", interp_embedding},
    {"embedding_dw", interp_embedding_dw},
    {"position", interp_position},
    {"position_dw", interp_position_dw},
    {"linear", interp_linear},
    {"linear_dx", interp_linear_dx},
    {"linear_dw", interp_linear_dw},
    {"linear_db", interp_linear_db},
    {"layernorm", interp_layernorm},
    {"layernorm_dx", interp_layernorm_dx},
    {"layernorm_dw", interp_layernorm_dw},
    {"gelu", interp_gelu},
    {"gelu_dx", interp_gelu_dx},
    {"add", interp_add},
    {"dropout", interp_dropout},
    {"fill", interp_fill},
    {"attention", interp_attention},
    {"attention_dx", interp_attention_dx},
    {"attention_cached", interp_attention_cached},
    {"cross_entropy", interp_cross_entropy},
    {"cross_entropy_dx", interp_cross_entropy_dx},
    {"place_cross_entropy", interp_place_cross_entropy},
    {"place_cross_entropy_dx", interp_place_cross_entropy_dx},
    {"linear_cross_entropy", interp_linear_cross_entropy},
    {"linear_cross_entropy_dx", interp_linear_cross_entropy_dx},
    INTERP_OPS,
    {NULL, NULL},
};

static inline const interp_kernel *interp_find(const interp_kernel *list, const char *op)
{
    for (; list && list->op; list++)
        if (strcmp(list->op, op) == 0) return list;
    return NULL;
}

/* Create an interpreter. Parameters are filled with values of the order of 1/2, inputs and caches with zero. */
static inline interp interp_create(const zr_graph *graph, const interp_kernel *extra)
{
    interp it = {.graph = graph, .extra = extra, .seed = 7};
    int32_t n = zr_graph_values(graph);
    it.data = calloc((size_t)n, sizeof *it.data);
    it.written = calloc((size_t)n, sizeof *it.written);
    for (zr_value v = 0; v < n; v++) {
        const zr_value_info *info = zr_graph_value(graph, v);
        it.data[v] = calloc((size_t)interp_elems(&it, v), sizeof **it.data);
        if (info->kind != ZR_VALUE_PARAM) continue;
        zr_rng rng = {.seed = 3, .purpose = ZR_RNG_INIT, .stream = (uint32_t)info->param};
        for (int64_t i = 0; i < interp_elems(&it, v); i++)
            it.data[v][i] = zr_rng_uniform(&rng, (uint64_t)i) - 0.5 + (interp_shape(&it, v)->ndim == 1);
    }
    return it;
}

static inline void interp_destroy(interp *it)
{
    for (zr_value v = 0; v < zr_graph_values(it->graph); v++) free(it->data[v]);
    free(it->data);
    free(it->written);
}

/* Run ops [first, last). Return false when an op is unknown, reads an unwritten value or writes a value twice. */
static inline bool interp_run_range(interp *it, int32_t first, int32_t last)
{
    for (int32_t i = first; i < last; i++) {
        const zr_op *op = zr_graph_get_op(it->graph, i);
        const interp_kernel *kernel = interp_find(it->extra, op->def->name);
        if (!kernel) kernel = interp_find(interp_kernels, op->def->name);
        if (!kernel) return false;
        for (int k = 0; k < op->n_in; k++)
            if (op->in[k] != ZR_NONE && zr_graph_value(it->graph, op->in[k])->producer >= 0 && !it->written[op->in[k]])
                return false;
        for (int k = 0; k < op->n_out; k++) {
            if (it->written[op->out[k]]) return false;
            it->written[op->out[k]] = true;
        }
        kernel->run(it, op);
    }
    return true;
}

static inline bool interp_run(interp *it)
{
    memset(it->written, 0, (size_t)zr_graph_values(it->graph) * sizeof *it->written);
    return interp_run_range(it, 0, zr_graph_ops(it->graph));
}

/* Run all ops up to the op that makes the losses, and return the mean loss. */
static inline double interp_loss(interp *it)
{
    zr_value losses = zr_graph_get_loss_term(it->graph, 0);
    memset(it->written, 0, (size_t)zr_graph_values(it->graph) * sizeof *it->written);
    if (!interp_run_range(it, 0, zr_graph_value(it->graph, losses)->producer + 1)) return NAN;
    double sum = 0;
    for (int64_t i = 0; i < interp_elems(it, losses); i++) sum += it->data[losses][i];
    return sum / (double)interp_elems(it, losses);
}

/* Return the derivative of the loss by *w, by the five-point formula. */
static inline double interp_slope(interp *it, double *w)
{
    static const double at[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
    double keep = *w, step = 1e-3, slope = 0;
    for (int i = 0; i < 4; i++) {
        *w = keep + at[i] * step;
        slope += weight[i] * interp_loss(it) / (12 * step);
    }
    *w = keep;
    return slope;
}

/* Return the largest error of the parameters' gradients against interp_slope, relative to the larger of the two and
 * 1e-4, over about `samples` elements of each parameter. INFINITY when the run fails. */
static inline double interp_gradient_error(interp *it, int64_t samples)
{
    double worst = 0;
    for (int32_t p = 0; p < zr_graph_params(it->graph); p++) {
        const zr_param_info *param = zr_graph_param(it->graph, p);
        int64_t n = zr_shape_elems(&param->shape), stride = n / samples > 1 ? n / samples : 1;
        if (param->frozen) continue;
        if (!interp_run(it)) return INFINITY;
        double *given =
            calloc((size_t)n, sizeof *given); /* a copy: the op that makes the losses may make gradients too */
        if (param->grad != ZR_NONE) memcpy(given, it->data[param->grad], (size_t)n * sizeof *given);
        for (int64_t i = 0; i < n; i += stride) {
            double wanted = interp_slope(it, it->data[param->value] + i);
            double error = fabs(given[i] - wanted) / fmax(1e-4, fmax(fabs(given[i]), fabs(wanted)));
            if (!(error <= worst)) worst = error;
        }
        free(given);
    }
    return worst;
}

#endif
