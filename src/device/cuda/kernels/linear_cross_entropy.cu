/*
 * linear_cross_entropy, linear_cross_entropy_dx: run one block of rows after the other. A product computes a block's
 * logits in the scratch. In the backward pass the logits' gradient replaces them, and the products for dx and dw read
 * the gradient there. linear_cross_entropy_part, _part_dx and _part_dw do the same with the logits of a part of the
 * vocabulary; linear_cross_entropy_join joins the results of all parts.
 */
#include "device/cuda/column_sums.h"
#include "device/cuda/cross_entropy_rows.h"
#include "device/cuda/indices.h"
#include "device/cuda/products.h"
#include "device/cuda/scratch.h"
#include "device/operands.h"

namespace
{

struct operands : zr__loss_operands {
    zr__cuda_head layout;
};

operands operands_of(const zr_kernel_args *args)
{
    operands o = {zr__loss_operands_of(args), {}};
    o.layout = zr__cuda_head_make(o.rows, args->op->attr.i[0], o.V, o.C, o.x->dtype, o.dw ? o.dw->dtype : ZR_F32,
                                  o.dlosses != nullptr, o.db != nullptr);
    return o;
}

/* ---- products ---------------------------------------------------------------------------------- */

struct products {
    zr__cuda_product *logits, *dw, *dx;
};

struct head {
    products whole, /* products of a whole block */
        last;       /* products of a shorter last block */
};

/* Operands of the products of one block. */
struct block_operands {
    zr__cuda_product_operands logits; /* logits (rows,V) = x w^T */
    zr__cuda_product_operands dw;     /* dw (V,C) = dlogits^T x, added to the sum over earlier blocks */
    zr__cuda_product_operands dx;     /* dx (rows,C) = dlogits w, added to the sum over earlier tiles */
};

void *dw_sum(const zr_kernel_args *args, const operands &o)
{
    return o.dw && o.layout.sum_in_dw ? o.dw->data : (char *)args->scratch + o.layout.sum;
}

/* Return the operands for the block whose first row is `row`. */
block_operands operands_at(const zr_kernel_args *args, const operands &o, int64_t row)
{
    const int64_t at = row * o.C;
    char *dx = o.dx ? (char *)o.dx->data + at * zr_dtype_bytes(o.dx->dtype) : nullptr;
    const char *earlier = o.dx && o.earlier ? (const char *)o.earlier->data + at * zr_dtype_bytes(ZR_F32) : nullptr;
    void *logits = args->scratch, *sum = dw_sum(args, o), *workspace = (char *)args->scratch + o.layout.workspace;
    const void *x = (const char *)o.x->data + at * zr_dtype_bytes(o.x->dtype);
    return {{x, o.w->data, nullptr, nullptr, logits, workspace},
            {logits, x, nullptr, row > 0 ? sum : nullptr, sum, workspace},
            {logits, o.w->data, nullptr, earlier, dx, workspace}};
}

zr_status create_products(const zr_kernel_args *args, const operands &o, int64_t rows, products *all)
{
    const block_operands used = operands_at(args, o, 0);
    const zr_dtype g = o.x->dtype, w = o.dw && o.layout.sum_in_dw ? o.dw->dtype : ZR_F32;
    zr__cuda_product_spec logits = zr__cuda_product_spec_make(rows, o.V, o.C, g, g),
                          dw = zr__cuda_product_spec_make(o.V, o.C, rows, g, w),
                          dx = zr__cuda_product_spec_make(rows, o.C, o.V, g, o.dx ? o.dx->dtype : g);
    logits.b_transposed = true;
    dw.a_transposed = true;
    logits.c_ld = dw.a_ld = dx.a_ld = o.layout.ld;
    ZR_TRY(zr__cuda_product_create(args->device, &logits, &used.logits, &all->logits));
    if (o.dw) ZR_TRY(zr__cuda_product_create(args->device, &dw, &used.dw, &all->dw));
    return o.dx ? zr__cuda_product_create(args->device, &dx, &used.dx, &all->dx) : ZR_OK;
}

void release_head(void *state)
{
    auto *h = (head *)state;
    if (!h) return;
    for (products *all : {&h->whole, &h->last}) {
        zr__cuda_product_destroy(&all->logits);
        zr__cuda_product_destroy(&all->dw);
        zr__cuda_product_destroy(&all->dx);
    }
    zr_free(h);
}

zr_status prepare_head(const zr_kernel_args *args, void **state)
{
    auto *h = (head *)zr_alloc(sizeof(head));
    ZR_CHECK(h, ZR_ERR_MEMORY, "no memory for a head's %zu bytes", sizeof *h);
    const operands o = operands_of(args);
    const int64_t last = o.rows % o.layout.rows;
    zr_status st = create_products(args, o, o.layout.rows, &h->whole);
    if (st == ZR_OK && last) st = create_products(args, o, last, &h->last);
    if (st != ZR_OK) {
        release_head(h);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *state = h;
    return ZR_OK;
}

/* ---- a block ----------------------------------------------------------------------------------- */

template <typename T> T *from(const zr_tensor *x, int64_t row)
{
    return x ? (T *)x->data + row : nullptr;
}

/* Compute the op's results for n rows from `row` on, whose logits are in the scratch. In the backward pass, replace the
 * logits by their gradient. */
zr_status run_rows(const zr_kernel_args *args, const operands &o, int64_t row, int64_t n)
{
    zr__loss_rows r = {};
    r.logits = r.dlogits = args->scratch;
    r.bias = o.b ? o.b->data : nullptr;
    r.ld = o.layout.ld;
    r.V = o.valid;
    r.width = o.V;
    r.first = o.first;
    r.target = from<const int32_t>(o.targets, row);
    r.dlosses = from<const float>(o.dlosses, row);
    r.lse = from<const float>(o.lse, row);
    r.losses = from<float>(o.losses, row);
    r.hits = from<float>(o.hits, row);
    r.numbers = o.numbers;
    r.part = from<float>(o.part, o.numbers * (o.part_row + row));
    cudaStream_t stream = zr__stream_of(args);
    if (!o.dlosses) return zr__loss_launch<true, false>(stream, o.x->dtype, n, r);
    if (o.lse) return zr__loss_launch<false, true>(stream, o.x->dtype, n, r);
    return zr__loss_launch<true, true>(stream, o.x->dtype, n, r);
}

float *bias_sum(const zr_kernel_args *args, const operands &o)
{
    return (float *)((char *)args->scratch + o.layout.bias_sum);
}

/* Add the block's part of db, the sum of the gradients of n rows of logits. */
zr_status add_bias_rows(const zr_kernel_args *args, const operands &o, int64_t row, int64_t n)
{
    float *sum = bias_sum(args, o);
    return zr__column_sums(zr__stream_of(args), {args->scratch, o.x->dtype, n, o.V, o.layout.ld},
                           row > 0 ? sum : nullptr, {sum, ZR_F32}, sum + o.V);
}

/* Run one block of n rows from `row` on. dx is computed last, since it may overwrite x. */
zr_status run_block(const zr_kernel_args *args, const operands &o, int64_t row, int64_t n)
{
    const auto *h = (const head *)args->state;
    const products &all = n == o.layout.rows ? h->whole : h->last;
    const block_operands at = operands_at(args, o, row);
    ZR_TRY(zr__cuda_product_run(all.logits, args->device, &at.logits));
    ZR_TRY(run_rows(args, o, row, n));
    if (o.db) ZR_TRY(add_bias_rows(args, o, row, n));
    if (o.dw) ZR_TRY(zr__cuda_product_run(all.dw, args->device, &at.dw));
    return o.dx ? zr__cuda_product_run(all.dx, args->device, &at.dx) : ZR_OK;
}

zr_status run_head(const zr_kernel_args *args)
{
    const operands o = operands_of(args);
    ZR_TRY(zr__check_indices(args, o.targets, "target", INT32_MIN, o.all));
    if (o.part && o.earlier && o.earlier->data != o.part->data)
        ZR_TRY(zr__cuda_cast(args->device, o.part->data, ZR_F32, o.earlier->data, ZR_F32,
                             zr_shape_elems(&o.part->shape), NULL));
    for (int64_t row = 0; row < o.rows; row += o.layout.rows)
        ZR_TRY(run_block(args, o, row, row + o.layout.rows <= o.rows ? o.layout.rows : o.rows - row));
    if (o.db) ZR_TRY(zr__cuda_cast(args->device, o.db->data, o.db->dtype, bias_sum(args, o), ZR_F32, o.V, NULL));
    if (o.layout.sum_in_dw) return ZR_OK;
    return zr__cuda_cast(args->device, o.dw->data, o.dw->dtype, dw_sum(args, o), ZR_F32, o.V * o.C, NULL);
}

/* ---- all parts of the vocabulary --------------------------------------------------------------- */

/* Compute losses, log-sum-exps and, unless `hits` is null, hits from the results of all parts, `part` (parts,rows,n).
 * The results are added in the order of the vocabulary. */
__global__ void join(const float *part, const int32_t *target, float *losses, float *lse, float *hits, int64_t rows,
                     int64_t parts)
{
    const int64_t r = zr__first(), n = hits ? 3 : 2;
    if (r >= rows) return;
    double most = -INFINITY, sum = 0, own = 0;
    bool ahead = target[r] >= 0;
    part += n * r;
    for (int64_t m = 0; m < parts; m++) most = fmax(most, (double)part[n * m * rows]);
    for (int64_t m = 0; m < parts; m++) {
        sum += exp(part[n * m * rows] - most);
        /* Add the target's logit. Only the part that holds the target supplies it; the other parts supply 0. */
        own += part[n * m * rows + 1];
    }
    for (int64_t m = 0; m < parts && hits; m++) ahead = ahead && own >= part[n * m * rows + 2];
    lse[r] = (float)(most + log(sum));
    losses[r] = target[r] < 0 ? 0.0f : (float)(most - own + log(sum));
    if (hits) hits[r] = ahead ? 1.0f : 0.0f;
}

zr_status run_join(const zr_kernel_args *args)
{
    const zr_tensor *all = &args->in[0], *targets = &args->in[3];
    const int64_t rows = zr_shape_elems(&targets->shape), threads = 128, n = args->n_out > 2 ? 3 : 2;
    ZR_LAUNCH(zr__stream_of(args), join, (unsigned)zr__ceil_div(rows, threads), (unsigned)threads, 0,
              (const float *)all->data, (const int32_t *)targets->data, (float *)args->out[0].data,
              (float *)args->out[1].data, n > 2 ? (float *)args->out[2].data : nullptr, rows,
              zr_shape_elems(&all->shape) / (n * rows));
    return zr__launched();
}

} // namespace

ZR_CUDA_KERNELS(linear_cross_entropy) = {
    zr__kernel("linear_cross_entropy", run_head, prepare_head, release_head),
    zr__kernel("linear_cross_entropy_dx", run_head, prepare_head, release_head),
    zr__kernel("linear_cross_entropy_part", run_head, prepare_head, release_head),
    zr__kernel("linear_cross_entropy_part_dx", run_head, prepare_head, release_head),
    zr__kernel("linear_cross_entropy_part_dw", run_head, prepare_head, release_head),
    zr__kernel("linear_cross_entropy_join", run_join),
    {},
};
