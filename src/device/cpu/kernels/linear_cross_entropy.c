/*
 * linear_cross_entropy, linear_cross_entropy_dx: one block of rows after the other; a block's logits become their
 * gradient in the scratch, and the products that want either are made while it is there. linear_cross_entropy_part and
 * _part_dx do the same with the logits of a part of the vocabulary, whose ranks linear_cross_entropy_join brings
 * together.
 */
#include "device/cpu/shared/cross_entropy_rows.h"
#include "device/cpu/shared/linear_cross_entropy_blocks.h"
#include "device/cpu/matmul.h"
#include "device/cpu/shared/scratch.h"

/* Operands of all ops of this family; in the forward pass dlosses, dx and dw are NULL, in a backward pass without dw
 * only dw is. */
typedef struct operands {
    const zr_tensor *x, *w, *targets, *losses, *dlosses, *dx, *dw;
    const zr_tensor *lse, *part; /* parts of the vocabulary: backward, lse of all of it; forward, the output */
    int64_t rows, V, C;
    int64_t first, valid, all; /* its first token, how many of V are no padding; the whole vocabulary */
    zr__head_layout layout;
} operands;

static operands part_operands_of(const zr_kernel_args *args)
{
    const bool backward = args->n_in > 3;
    const zr_tensor *x = &args->in[backward ? 2 : 0];
    operands o = {.x = x, .w = x + 1, .targets = x + 2, .part = backward ? NULL : &args->out[0]};
    if (backward) {
        o.dlosses = &args->in[0];
        o.lse = &args->in[1];
        o.dx = &args->out[0];
        o.dw = args->n_out > 1 ? &args->out[1] : NULL;
    }
    return o;
}

static operands whole_operands_of(const zr_kernel_args *args)
{
    const bool backward = args->n_in > 3;
    const zr_tensor *x = &args->in[backward ? 1 : 0];
    operands o = {.x = x, .w = x + 1, .targets = x + 2, .losses = &args->out[args->n_out - 1]};
    if (backward) {
        o.dlosses = &args->in[0];
        o.dx = &args->out[0];
        o.dw = args->n_out > 2 ? &args->out[1] : NULL;
    }
    return o;
}

static operands operands_of(const zr_kernel_args *args)
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
    o.layout = zr__head_layout_make(o.rows, args->op->attr.i[0], o.V, o.C, o.x->dtype, o.dw ? o.dw->dtype : ZR_F32);
    return o;
}

/* ---- products --------------------------------------------------------------------------------- */

typedef struct products {
    zr__matmul *logits, *dw, *dx;
} products;

typedef struct head {
    products whole, last;  /* products of a whole block, and of a last block with fewer rows; they add to dw */
    zr__matmul *dw_begins; /* the first block's dw */
} head;

extern const zr__panel_ops ZR_LEVEL_NAME(zr__panels);

static zr_status create(zr__product_spec spec, const zr_kernel_args *args, zr_dtype dtype, zr_dtype out_dtype,
                        zr__matmul **product)
{
    spec.dtype = dtype;
    spec.out_dtype = out_dtype;
    spec.threads = args->threads;
    return zr__matmul_create(&spec, &ZR_LEVEL_NAME(zr__panels), product);
}

/* dw (V,C) = dlogits^T x */
static zr_status create_dw(const zr_kernel_args *args, const operands *o, int64_t rows, bool accumulate,
                           zr__matmul **product)
{
    zr__product_spec dw = {.m = o->V, .n = o->C, .k = rows, .a = {1, o->V}, .b = {o->C, 1}, .accumulate = accumulate};
    return create(dw, args, o->x->dtype, o->layout.sum_in_dw ? o->dw->dtype : ZR_F32, product);
}

/* logits (rows,V) = x w^T, dx (rows,C) = dlogits w, and a later block's dw. */
static zr_status create_products(const zr_kernel_args *args, const operands *o, int64_t rows, products *p)
{
    const zr_dtype g = o->x->dtype;
    zr__product_spec logits = {.m = rows, .n = o->V, .k = o->C, .a = {o->C, 1}, .b = {1, o->C}};
    zr__product_spec dx = {.m = rows, .n = o->C, .k = o->V, .a = {o->V, 1}, .b = {o->C, 1}};
    ZR_TRY(create(logits, args, g, g, &p->logits));
    if (!o->dx) return ZR_OK;
    ZR_TRY(create(dx, args, g, g, &p->dx));
    return o->dw && o->layout.blocks > 1 ? create_dw(args, o, rows, true, &p->dw) : ZR_OK;
}

static zr_status create_all(const zr_kernel_args *args, head *h)
{
    const operands o = operands_of(args);
    int64_t last = o.rows % o.layout.rows;
    ZR_TRY(create_products(args, &o, o.layout.rows, &h->whole));
    if (last) ZR_TRY(create_products(args, &o, last, &h->last));
    if (o.dw) ZR_TRY(create_dw(args, &o, o.layout.rows, false, &h->dw_begins));
    return ZR_OK;
}

static void release(void *state)
{
    head *h = state;
    if (!h) return;
    products *both[] = {&h->whole, &h->last};
    for (int i = 0; i < 2; i++) {
        zr__matmul_destroy(&both[i]->logits);
        zr__matmul_destroy(&both[i]->dw);
        zr__matmul_destroy(&both[i]->dx);
    }
    zr__matmul_destroy(&h->dw_begins);
    zr_free(h);
}

static zr_status prepare(const zr_kernel_args *args, void **state)
{
    head *h = zr_alloc(sizeof *h);
    ZR_CHECK(h, ZR_ERR_MEMORY, "no memory for a head's %zu bytes", sizeof *h);
    zr_status status = create_all(args, h);
    if (status != ZR_OK) {
        release(h);
        return zr_error_frame(status, __func__, __FILE__, __LINE__);
    }
    *state = h;
    return ZR_OK;
}

/* ---- a block ---------------------------------------------------------------------------------- */

/* Losses of the rows from `row` on whose logits are in the scratch; in the backward these become their gradient. */
static void run_rows(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n)
{
    const int32_t *target = (const int32_t *)o->targets->data + row;
    const float *dlosses = o->dlosses ? (const float *)o->dlosses->data + row : NULL;
    float *losses = (float *)o->losses->data + row;
    void *logits = args->scratch;
#pragma omp parallel for num_threads(zr__team(args, n * o->V)) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        float lse;
        losses[r] = zr__row_loss(logits, o->x->dtype, r * o->V, o->V, target[r], &lse);
        if (dlosses) zr__row_dlogits(logits, logits, o->x->dtype, r * o->V, o->V, target[r], dlosses[r], lse);
    }
}

/* The same for a part of the vocabulary: what joins with others' to the losses, or the gradient by the sum of all. */
static void run_part_rows(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n)
{
    const int32_t *target = (const int32_t *)o->targets->data + row;
    const zr_dtype dtype = o->x->dtype;
    void *logits = args->scratch;
#pragma omp parallel for num_threads(zr__team(args, n * o->V)) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = r * o->V, own = target[r] - o->first;
        const bool here = target[r] >= 0 && own >= 0 && own < o->valid;
        if (o->part) {
            float *out = (float *)o->part->data + 2 * (row + r), max, sum;
            zr__row_softmax(logits, dtype, at, o->valid, &max, &sum);
            out[0] = o->valid > 0 ? (float)((double)max + log((double)sum)) : -INFINITY;
            out[1] = 0;
            if (here) zr__load(&out[1], logits, dtype, at + own, 1);
            continue;
        }
        const float lse = ((const float *)o->lse->data)[row + r], dloss = ((const float *)o->dlosses->data)[row + r];
        const size_t bytes = (size_t)zr_dtype_bytes(dtype);
        memset((char *)logits + (size_t)(at + o->valid) * bytes, 0, (size_t)(o->V - o->valid) * bytes);
        zr__row_dlogits(logits, logits, dtype, at, o->valid,
                        target[r] < 0 ? -1
                        : here        ? (int32_t)own
                                      : INT32_MAX,
                        dloss, lse);
    }
}

/* dx comes last: it may lie in the place of x. */
static zr_status run_block(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n, void *sum)
{
    const head *h = args->state;
    const products *p = n == o->layout.rows ? &h->whole : &h->last;
    const int64_t at = row * o->C * zr_dtype_bytes(o->x->dtype);
    void *logits = args->scratch, *panels = (char *)args->scratch + o->layout.panels;
    const char *x = (const char *)o->x->data + at;
    ZR_TRY(zr__matmul_run(p->logits, &(zr__matmul_operands){.a = x, .b = o->w->data, .c = logits, .panels = panels}));
    (o->losses ? run_rows : run_part_rows)(args, o, row, n);
    if (!o->dx) return ZR_OK;
    char *dx = (char *)o->dx->data + at;
    if (o->dw)
        ZR_TRY(zr__matmul_run(row ? p->dw : h->dw_begins,
                              &(zr__matmul_operands){.a = logits, .b = x, .c = sum, .panels = panels}));
    return zr__matmul_run(p->dx, &(zr__matmul_operands){.a = logits, .b = o->w->data, .c = dx, .panels = panels});
}

static zr_status run(const zr_kernel_args *args)
{
    const operands o = operands_of(args);
    float *sum = (float *)((char *)args->scratch + o.layout.sum);
    ZR_TRY(zr__check_targets(o.targets, o.all));
    for (int64_t row = 0; row < o.rows; row += o.layout.rows)
        ZR_TRY(run_block(args, &o, row, zr__min64(o.layout.rows, o.rows - row),
                         o.dw && o.layout.sum_in_dw ? o.dw->data : sum));
    if (o.layout.sum_in_dw) return ZR_OK;
#pragma omp parallel for num_threads(zr__team(args, o.V *o.C)) schedule(static)
    for (int64_t v = 0; v < o.V; v++) zr__store(o.dw->data, o.dw->dtype, v * o.C, sum + v * o.C, o.C);
    return ZR_OK;
}

/* ---- all parts of the vocabulary --------------------------------------------------------------- */

/* Losses and the logarithm of the whole sum, from everyone's (M,B,T,2), in the order of the ranks. */
static zr_status run_join(const zr_kernel_args *args)
{
    const zr_tensor *all = &args->in[0], *targets = &args->in[3];
    const int64_t rows = zr_shape_elems(&targets->shape), ranks = all->shape.dim[0];
    const int32_t *target = targets->data;
    const float *part = all->data;
    float *losses = args->out[0].data, *lse = args->out[1].data;
    for (int64_t r = 0; r < rows; r++) {
        double most = -INFINITY, sum = 0, own = 0;
        for (int64_t m = 0; m < ranks; m++) most = fmax(most, part[2 * (m * rows + r)]);
        for (int64_t m = 0; m < ranks; m++) {
            sum += exp(part[2 * (m * rows + r)] - most);
            own += part[2 * (m * rows + r) + 1]; /* the target's rank has its logit, all others 0 */
        }
        lse[r] = (float)(most + log(sum));
        losses[r] = target[r] < 0 ? 0.0f : (float)(most - own + log(sum));
    }
    return ZR_OK;
}

/* ---- scratch ---------------------------------------------------------------------------------- */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A block's logits, and behind them what the products pack, one at a time: the logits' own and, in the backward, dx
 * and dw. */
static int64_t scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const bool backward = op->n_in > 3, with_dw = backward && op->n_out > (op->attr.i[1] ? 1 : 2);
    const int first = !backward ? 0 : op->attr.i[1] ? 2 : 1;
    const zr_type *x = zr__in_type(graph, op, first), *w = zr__in_type(graph, op, first + 1);
    const int64_t V = w->shape.dim[0], C = w->shape.dim[1];
    const zr_dtype g = x->dtype, dw = with_dw ? zr__out_type(graph, op, 1)->dtype : ZR_F32;
    const zr__head_layout l = zr__head_layout_make(zr_shape_rows(&x->shape), op->attr.i[0], V, C, g, dw);
    int64_t bytes = zr__matmul_scratch(facts, l.rows, V, C, g, g);
    if (backward) bytes = max64(bytes, zr__matmul_scratch(facts, l.rows, C, V, g, g));
    if (with_dw) bytes = max64(bytes, zr__matmul_scratch(facts, V, C, l.rows, g, l.sum_in_dw ? dw : ZR_F32));
    return l.panels + bytes;
}

extern const zr_kernel ZR_LEVEL_NAME(zr__kernels_linear_cross_entropy)[];
const zr_kernel ZR_LEVEL_NAME(zr__kernels_linear_cross_entropy)[] = {
    {"linear_cross_entropy", .prepare = prepare, .run = run, .release = release, .scratch_bytes = scratch},
    {"linear_cross_entropy_dx", .prepare = prepare, .run = run, .release = release, .scratch_bytes = scratch},
    {"linear_cross_entropy_part", .prepare = prepare, .run = run, .release = release, .scratch_bytes = scratch},
    {"linear_cross_entropy_part_dx", .prepare = prepare, .run = run, .release = release, .scratch_bytes = scratch},
    {"linear_cross_entropy_join", .run = run_join},
    {0},
};
