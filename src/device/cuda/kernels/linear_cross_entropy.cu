/*
 * linear_cross_entropy, linear_cross_entropy_dx: one block of rows after the other; a block's logits become their
 * gradient in the scratch, and the products that want either are made while it is there. linear_cross_entropy_part and
 * _part_dx do the same with the logits of a part of the vocabulary, whose ranks linear_cross_entropy_join brings
 * together.
 */
#include "device/cuda/cross_entropy_rows.h"
#include "device/cuda/indices.h"
#include "device/cuda/products.h"
#include "device/cuda/scratch.h"

namespace
{

/* Operands of all ops of this family; in the forward pass dlosses, dx and dw are null, in a backward pass without dw
 * only dw is. */
struct operands {
    const zr_tensor *x, *w, *targets, *losses, *dlosses, *dx, *dw;
    const zr_tensor *lse, *part; /* parts of the vocabulary: backward, lse of all of it; forward, the output */
    int64_t rows, V, C;
    int64_t first, valid, all; /* its first token, how many of V are no padding; the whole vocabulary */
    zr__cuda_head layout;
};

operands part_operands_of(const zr_kernel_args *args)
{
    const bool backward = args->n_in > 3;
    const zr_tensor *x = &args->in[backward ? 2 : 0];
    operands o = {};
    o.x = x;
    o.w = x + 1;
    o.targets = x + 2;
    if (!backward) {
        o.part = &args->out[0];
        return o;
    }
    o.dlosses = &args->in[0];
    o.lse = &args->in[1];
    o.dx = &args->out[0];
    o.dw = args->n_out > 1 ? &args->out[1] : nullptr;
    return o;
}

operands whole_operands_of(const zr_kernel_args *args)
{
    const bool backward = args->n_in > 3;
    const zr_tensor *x = &args->in[backward ? 1 : 0];
    operands o = {};
    o.x = x;
    o.w = x + 1;
    o.targets = x + 2;
    o.losses = &args->out[args->n_out - 1];
    if (!backward) return o;
    o.dlosses = &args->in[0];
    o.dx = &args->out[0];
    o.dw = args->n_out > 2 ? &args->out[1] : nullptr;
    return o;
}

operands operands_of(const zr_kernel_args *args)
{
    const int64_t all = args->op->attr.i[1];
    operands o = all ? part_operands_of(args) : whole_operands_of(args);
    o.rows = zr_shape_rows(&o.x->shape);
    o.V = o.w->shape.dim[0];
    o.C = o.w->shape.dim[1];
    o.all = all ? all : o.V;
    o.first = all && args->runtime ? args->runtime->place * o.V : 0; /* preparing needs no place */
    o.valid = o.all - o.first < o.V ? o.all - o.first : o.V;
    if (o.valid < 0) o.valid = 0;
    o.layout = zr__cuda_head_make(o.rows, args->op->attr.i[0], o.V, o.C, o.x->dtype, o.dw ? o.dw->dtype : ZR_F32,
                                  o.dx != nullptr);
    return o;
}

/* ---- products ---------------------------------------------------------------------------------- */

struct products {
    zr__cuda_product *logits, *dw, *dx;
};

struct head {
    products whole, last; /* products of a whole block, and of a last block with fewer rows */
};

/* Where a product finds its operands, for the rows from `row` on. */
struct places {
    void *logits, *sum, *workspace;
    const void *x;
    void *dx;
};

places places_of(const zr_kernel_args *args, const operands &o, int64_t row)
{
    char *scratch = (char *)args->scratch;
    const int64_t at = row * o.C * zr_dtype_bytes(o.x->dtype);
    return {.logits = scratch,
            .sum = o.dw && o.layout.sum_in_dw ? o.dw->data : scratch + o.layout.sum,
            .workspace = scratch + o.layout.workspace,
            .x = (const char *)o.x->data + at,
            .dx = o.dx ? (char *)o.dx->data + at : nullptr};
}

/* logits (rows,V) = x w^T */
zr__cuda_product_operands at_logits(const operands &o, const places &p)
{
    return {.a = p.x, .b = o.w->data, .bias = nullptr, .earlier = nullptr, .c = p.logits, .workspace = p.workspace};
}

/* dw (V,C) = dlogits^T x, added to what the blocks before have made. */
zr__cuda_product_operands at_dw(const places &p, bool adds)
{
    return {.a = p.logits,
            .b = p.x,
            .bias = nullptr,
            .earlier = adds ? p.sum : nullptr,
            .c = p.sum,
            .workspace = p.workspace};
}

/* dx (rows,C) = dlogits w */
zr__cuda_product_operands at_dx(const operands &o, const places &p)
{
    return {.a = p.logits, .b = o.w->data, .bias = nullptr, .earlier = nullptr, .c = p.dx, .workspace = p.workspace};
}

zr__cuda_product_spec spec_of(const operands &o, int64_t m, int64_t n, int64_t k)
{
    return {.m = m,
            .n = n,
            .k = k,
            .a_transposed = false,
            .b_transposed = false,
            .a_ld = 0,
            .c_ld = 0,
            .dtype = o.x->dtype,
            .out_dtype = o.x->dtype,
            .bias = false,
            .workspace_bytes = zr__cuda_workspace(m, n)};
}

zr_status create_products(const zr_kernel_args *args, const operands &o, int64_t rows, products *all)
{
    const places p = places_of(args, o, 0);
    const zr__cuda_product_operands logits_at = at_logits(o, p), dw_at = at_dw(p, false), dx_at = at_dx(o, p);
    zr__cuda_product_spec logits = spec_of(o, rows, o.V, o.C), dw = spec_of(o, o.V, o.C, rows),
                          dx = spec_of(o, rows, o.C, o.V);
    logits.b_transposed = true;
    dw.a_transposed = true;
    dw.out_dtype = o.dw && o.layout.sum_in_dw ? o.dw->dtype : ZR_F32;
    logits.c_ld = dw.a_ld = dx.a_ld = o.layout.ld;
    ZR_TRY(zr__cuda_product_create(args->device, &logits, &logits_at, &all->logits));
    if (!o.dx) return ZR_OK;
    if (o.dw) ZR_TRY(zr__cuda_product_create(args->device, &dw, &dw_at, &all->dw));
    return zr__cuda_product_create(args->device, &dx, &dx_at, &all->dx);
}

void release(void *state)
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

zr_status prepare(const zr_kernel_args *args, void **state)
{
    auto *h = (head *)zr_alloc(sizeof(head));
    ZR_CHECK(h, ZR_ERR_MEMORY, "no memory for a head's %zu bytes", sizeof *h);
    const operands o = operands_of(args);
    const int64_t last = o.rows % o.layout.rows;
    zr_status st = create_products(args, o, o.layout.rows, &h->whole);
    if (st == ZR_OK && last) st = create_products(args, o, last, &h->last);
    if (st != ZR_OK) {
        release(h);
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

/* Compute the op's results for rows from `row` on, whose logits are in the scratch; in the backward pass the logits
 * are replaced by their gradient. */
zr_status run_rows(const zr_kernel_args *args, const operands &o, int64_t row, int64_t n)
{
    zr__loss_rows r = {};
    r.logits = r.dlogits = args->scratch;
    r.ld = o.layout.ld;
    r.V = o.valid;
    r.width = o.V;
    r.first = o.first;
    r.target = from<const int32_t>(o.targets, row);
    r.dlosses = from<const float>(o.dlosses, row);
    r.lse = from<const float>(o.lse, row);
    r.losses = from<float>(o.losses, row);
    r.part = from<float>(o.part, 2 * row);
    cudaStream_t stream = zr__stream_of(args);
    if (!o.dx) return zr__loss_launch<true, false>(stream, o.x->dtype, n, r);
    if (o.lse) return zr__loss_launch<false, true>(stream, o.x->dtype, n, r);
    return zr__loss_launch<true, true>(stream, o.x->dtype, n, r);
}

/* dx comes last: it may lie in the place of x. */
zr_status run_block(const zr_kernel_args *args, const operands &o, int64_t row, int64_t n)
{
    const auto *h = (const head *)args->state;
    const products &all = n == o.layout.rows ? h->whole : h->last;
    const places p = places_of(args, o, row);
    const zr__cuda_product_operands logits = at_logits(o, p), dw = at_dw(p, row > 0), dx = at_dx(o, p);
    ZR_TRY(zr__cuda_product_run(all.logits, args->device, &logits));
    ZR_TRY(run_rows(args, o, row, n));
    if (!o.dx) return ZR_OK;
    if (o.dw) ZR_TRY(zr__cuda_product_run(all.dw, args->device, &dw));
    return zr__cuda_product_run(all.dx, args->device, &dx);
}

zr_status run(const zr_kernel_args *args)
{
    const operands o = operands_of(args);
    ZR_TRY(zr__check_indices(args, o.targets, "target", INT32_MIN, o.all));
    for (int64_t row = 0; row < o.rows; row += o.layout.rows)
        ZR_TRY(run_block(args, o, row, row + o.layout.rows <= o.rows ? o.layout.rows : o.rows - row));
    if (o.layout.sum_in_dw) return ZR_OK;
    return zr__cuda_cast(args->device, o.dw->data, o.dw->dtype, places_of(args, o, 0).sum, ZR_F32, o.V * o.C);
}

/* ---- all parts of the vocabulary --------------------------------------------------------------- */

/* Losses and the logarithm of the whole sum, from everyone's part (ranks,rows,2), in the order of the ranks. */
__global__ void join(const float *part, const int32_t *target, float *losses, float *lse, int64_t rows, int64_t ranks)
{
    const int64_t r = zr__first();
    if (r >= rows) return;
    double most = -INFINITY, sum = 0, own = 0;
    for (int64_t m = 0; m < ranks; m++) most = fmax(most, (double)part[2 * (m * rows + r)]);
    for (int64_t m = 0; m < ranks; m++) {
        sum += exp(part[2 * (m * rows + r)] - most);
        own += part[2 * (m * rows + r) + 1]; /* the target's rank has its logit, all others 0 */
    }
    lse[r] = (float)(most + log(sum));
    losses[r] = target[r] < 0 ? 0.0f : (float)(most - own + log(sum));
}

zr_status run_join(const zr_kernel_args *args)
{
    const zr_tensor *all = &args->in[0], *targets = &args->in[3];
    const int64_t rows = zr_shape_elems(&targets->shape), threads = 128;
    ZR_LAUNCH(zr__stream_of(args), join, (unsigned)zr__ceil_div(rows, threads), (unsigned)threads, 0,
              (const float *)all->data, (const int32_t *)targets->data, (float *)args->out[0].data,
              (float *)args->out[1].data, rows, all->shape.dim[0]);
    return zr__launched();
}

} // namespace

extern "C" const zr_kernel zr__cuda_kernels_linear_cross_entropy[];
extern "C" const zr_kernel zr__cuda_kernels_linear_cross_entropy[] = {
    zr__kernel("linear_cross_entropy", run, prepare, release),
    zr__kernel("linear_cross_entropy_dx", run, prepare, release),
    zr__kernel("linear_cross_entropy_part", run, prepare, release),
    zr__kernel("linear_cross_entropy_part_dx", run, prepare, release),
    zr__kernel("linear_cross_entropy_join", run_join),
    {},
};
