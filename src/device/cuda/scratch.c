#include "device/cuda/scratch.h"

#include <string.h>

#include "device/attention_operands.h"
#include "device/device.h"
#include "device/operands.h"
#include "device/rotary.h"

/* An op, and the function that returns the scratch bytes of its kernel. The function is called only if
 * zr__op_is_counted is true for the op. */
typedef struct entry {
    const char *op;
    int64_t (*bytes)(const zr_graph *graph, const zr_op *op);
} entry;

/* ---- products and heads ------------------------------------------------------------------------ */

static int64_t product(const zr_graph *graph, const zr_op *op)
{
    const zr_shape *c = &zr__out_type(graph, op, 0)->shape;
    return zr__cuda_workspace(zr_shape_rows(c), zr_shape_cols(c));
}

static int64_t orthogonalize(const zr_graph *graph, const zr_op *op)
{
    const zr_type *x = zr__in_type(graph, op, 0);
    return zr__cuda_ortho_make(x->shape.dim[0], x->shape.dim[1], x->dtype).bytes;
}

/* Return the scratch bytes of linear_dw. If dw plus earlier contributions must be rounded, the scratch holds a block of
 * their sum in fp32. */
static int64_t linear_dw(const zr_graph *graph, const zr_op *op)
{
    const zr_type *dw = zr__out_type(graph, op, 0);
    const bool earlier = op->n_in > 2 && op->in[2] != ZR_NONE;
    if (!earlier || dw->dtype == ZR_F32) return product(graph, op);
    return zr__cuda_rounded_make(zr_shape_rows(&dw->shape), zr_shape_cols(&dw->shape)).bytes;
}

/* Return the scratch bytes of linear_db: one sum of each column for each run of rows, in F32. */
static int64_t linear_db(const zr_graph *graph, const zr_op *op)
{
    const zr_shape *dy = &zr__in_type(graph, op, 0)->shape;
    const int64_t rows = zr_shape_rows(dy);
    return zr__cuda_ceil_div(rows, zr__cuda_row_run(rows)) * zr_shape_cols(dy) * 4;
}

/* Return the scratch bytes of linear_cross_entropy and related ops: a block's logits, the sum of dw if dw cannot hold
 * the sum itself, and the products' workspace. */
static int64_t head(const zr_graph *graph, const zr_op *op)
{
    const int dw = zr__loss_dw(op->n_in, op->n_out, op), first = zr__loss_first(op->n_in, op);
    const zr_type *x = zr__in_type(graph, op, first), *w = zr__in_type(graph, op, first + 1);
    return zr__cuda_head_make(zr_shape_rows(&x->shape), op->attr.i[0], w->shape.dim[0], w->shape.dim[1], x->dtype,
                              dw >= 0 ? zr__out_type(graph, op, dw)->dtype : ZR_F32, zr__loss_is_backward(op->n_in, op),
                              dw >= 0 && zr__loss_has_bias(op))
        .bytes;
}

/* ---- rows -------------------------------------------------------------------------------------- */

/* Return the scratch bytes of layernorm_dw and rmsnorm_dw: each run's sums for each output, in F32. */
static int64_t norm_dw(const zr_graph *graph, const zr_op *op)
{
    const int64_t C = zr_shape_elems(&zr__out_type(graph, op, 0)->shape);
    const int64_t rows = zr_shape_elems(&zr__in_type(graph, op, 1)->shape) / C;
    return zr__cuda_ceil_div(rows, zr__cuda_row_run(rows)) * op->n_out * C * (int64_t)sizeof(float);
}

/* Return the scratch bytes of rows_dx, which sorts the indices by their rows. */
static int64_t rows_dx(const zr_graph *graph, const zr_op *op)
{
    const int64_t indices = zr_shape_elems(&zr__in_type(graph, op, 0)->shape);
    const int64_t rows = zr_shape_rows(&zr__out_type(graph, op, 0)->shape);
    return zr__cuda_token_places_of(indices, rows).words * (int64_t)sizeof(uint32_t);
}

/* Return the scratch bytes of embedding_dw, which sorts the tokens by their rows. */
static int64_t embedding_dw(const zr_graph *graph, const zr_op *op)
{
    const int64_t tokens = zr_shape_elems(&zr__in_type(graph, op, 0)->shape);
    return zr__cuda_token_places_of(tokens, zr__out_type(graph, op, 0)->shape.dim[0]).words * (int64_t)sizeof(uint32_t);
}

/* Return the scratch bytes of position_dw: with documents it sorts the tokens by their positions. */
static int64_t position_dw(const zr_graph *graph, const zr_op *op)
{
    if (op->n_in < 3) return 0;
    const int64_t tokens = zr_shape_rows(&zr__in_type(graph, op, 1)->shape);
    return zr__cuda_token_places_of(tokens, zr__out_type(graph, op, 0)->shape.dim[0]).words * (int64_t)sizeof(uint32_t);
}

/* ---- attention --------------------------------------------------------------------------------- */

/* Return the scratch bytes for the ends of documents, (B,T) int32, or 0 if queries see no later keys. */
static int64_t ends_bytes(const zr_op *op, const zr_shape *y, bool documents)
{
    const bool ends = zr__attention_needs_ends(&op->attr, documents);
    return ends ? y->dim[0] * y->dim[1] * (int64_t)sizeof(int32_t) : 0;
}

static int64_t attention(const zr_graph *graph, const zr_op *op)
{
    return ends_bytes(op, &zr__in_type(graph, op, 0)->shape, op->n_in % 2 == 0);
}

/* Return the scratch bytes of attention_dx: the sum of dy * y for each query of each head, (B, heads, T) F32, and the
 * ends of documents. */
static int64_t attention_dx(const zr_graph *graph, const zr_op *op)
{
    const zr_shape *dy = &zr__in_type(graph, op, 0)->shape;
    return dy->dim[0] * op->attr.i[0] * dy->dim[1] * (int64_t)sizeof(float) +
           ends_bytes(op, dy, op->n_in > op->n_out + 3);
}

/* Return the scratch bytes of attention_cached, in F32: for each range of keys of each query head, the weighted sum of
 * values, the maximum of the scores and the sum of the weights. A window limits the number of keys. */
static int64_t attention_cached(const zr_graph *graph, const zr_op *op)
{
    const int64_t length = zr__in_type(graph, op, op->n_in - 1)->shape.dim[1], window = op->attr.i[4];
    const int64_t keys = window > 0 && window < length ? window : length;
    const int64_t stretches = zr__cuda_ceil_div(keys, ZR__CUDA_CACHED_KEYS);
    const int64_t columns = zr_shape_cols(&zr__out_type(graph, op, 0)->shape);
    return stretches * (columns + 2 * op->attr.i[0]) * (int64_t)sizeof(float);
}

/* Return the scratch bytes of rotary_table: angles in double. */
static int64_t rotary_table(const zr_graph *graph, const zr_op *op)
{
    const int64_t *table = zr__out_type(graph, op, 0)->shape.dim;
    return (int64_t)sizeof(double) * zr__rotary_angles_most(table[0]) * table[1];
}

/* ---- all ops that take some -------------------------------------------------------------------- */

static const entry entries[] = {
    {"rotary_table", rotary_table},
    {"attention", attention},
    {"attention_dx", attention_dx},
    {"attention_cached", attention_cached},
    {"linear", product},
    {"linear_dx", product},
    {"linear_dw", linear_dw},
    {"linear_db", linear_db},
    {"orthogonalize", orthogonalize},
    {"linear_cross_entropy", head},
    {"linear_cross_entropy_dx", head},
    {"linear_cross_entropy_part", head},
    {"linear_cross_entropy_part_dx", head},
    {"linear_cross_entropy_part_dw", head},
    {"embedding_dw", embedding_dw},
    {"rows_dx", rows_dx},
    {"position_dw", position_dw},
    {"layernorm_dw", norm_dw},
    {"rmsnorm_dw", norm_dw},
    {NULL, NULL},
};

int64_t zr_device_cuda_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_kernel *user = zr__kernel_find(facts->kernels, op->def->name);
    if (!zr__op_is_counted(graph, op)) return INT64_MAX / 64 * 64;
    if (user) return user->scratch_bytes ? user->scratch_bytes(facts, graph, op) : 0;
    for (const entry *e = entries; e->op; e++)
        if (strcmp(e->op, op->def->name) == 0) return e->bytes(graph, op);
    return 0;
}
