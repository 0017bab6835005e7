/*
 * Ops linear_cross_entropy and linear_cross_entropy_dx process one block of rows at a time. A matrix product writes a
 * block's logits to the scratch. In the backward pass, the gradient of the logits replaces the logits, and the products
 * for dx and dw read it.
 *
 * linear_cross_entropy_part, linear_cross_entropy_part_dx and linear_cross_entropy_part_dw do the same for a part of
 * the vocabulary. linear_cross_entropy_join combines the results of all parts.
 */
#include "device/cpu/shared/column_sums.h"
#include "device/cpu/shared/cross_entropy_rows.h"
#include "device/cpu/linear_cross_entropy_blocks.h"
#include "device/cpu/matmul.h"
#include "device/operands.h"

typedef struct operands {
    zr__loss_operands of;
    zr__head_layout layout;
} operands;

static operands operands_of(const zr_kernel_args *args)
{
    const zr__loss_operands of = zr__loss_operands_of(args);
    return (operands){of, zr__head_layout_make(of.rows, args->op->attr.i[0], of.V, of.C, of.x->dtype,
                                               of.dw ? of.dw->dtype : ZR_F32, of.db != NULL)};
}

/* ---- products --------------------------------------------------------------------------------- */

typedef struct products {
    zr__matmul *logits, *dw, *dx;
} products;

typedef struct head {
    products whole, /* products for a full block */
        last;       /* products for a last block with fewer rows */
    /* product for dw of the first block, which initialises the sum; later blocks add to the sum */
    zr__matmul *dw_begins;
} head;

extern const zr__panel_ops ZR_LEVEL_NAME(zr__panels);

static zr_status create_product(zr__product_spec spec, const zr_kernel_args *args, zr_dtype dtype, zr_dtype out_dtype,
                                zr__matmul **product)
{
    spec.dtype = dtype;
    spec.out_dtype = out_dtype;
    spec.threads = args->threads;
    return zr__matmul_create(&spec, &ZR_LEVEL_NAME(zr__panels), product);
}

/* Create the product dw (V,C) = dlogits^T x. */
static zr_status create_dw(const zr_kernel_args *args, const operands *o, int64_t rows, bool accumulate,
                           zr__matmul **product)
{
    zr__product_spec dw = {
        .m = o->of.V, .n = o->of.C, .k = rows, .a = {1, o->of.V}, .b = {o->of.C, 1}, .accumulate = accumulate};
    return create_product(dw, args, o->of.x->dtype, o->layout.sum_in_dw ? o->of.dw->dtype : ZR_F32, product);
}

/* Create the products of a block: logits (rows,V) = x w^T + b; dx (rows,C) = dlogits w, added to the sum over earlier
 * tiles; and dw of all blocks but the first. */
static zr_status create_products(const zr_kernel_args *args, const operands *o, int64_t rows, products *p)
{
    const zr_dtype g = o->of.x->dtype;
    zr__product_spec logits = {
        .m = rows, .n = o->of.V, .k = o->of.C, .a = {o->of.C, 1}, .b = {1, o->of.C}, .bias = o->of.b != NULL};
    zr__product_spec dx = {.m = rows, .n = o->of.C, .k = o->of.V, .a = {o->of.V, 1}, .b = {o->of.C, 1}};
    ZR_TRY(create_product(logits, args, g, g, &p->logits));
    dx.accumulate = o->of.earlier != NULL;
    if (o->of.dx) ZR_TRY(create_product(dx, args, g, o->of.dx->dtype, &p->dx));
    return o->of.dw && o->layout.blocks > 1 ? create_dw(args, o, rows, true, &p->dw) : ZR_OK;
}

static zr_status create_all(const zr_kernel_args *args, head *h)
{
    const operands o = operands_of(args);
    int64_t last = o.of.rows % o.layout.rows;
    ZR_TRY(create_products(args, &o, o.layout.rows, &h->whole));
    if (last) ZR_TRY(create_products(args, &o, last, &h->last));
    if (o.of.dw) ZR_TRY(create_dw(args, &o, o.layout.rows, false, &h->dw_begins));
    return ZR_OK;
}

static void release_head(void *state)
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

static zr_status prepare_head(const zr_kernel_args *args, void **state)
{
    head *h = zr_alloc(sizeof *h);
    ZR_CHECK(h, ZR_ERR_MEMORY, "no memory for a head's %zu bytes", sizeof *h);
    zr_status status = create_all(args, h);
    if (status != ZR_OK) {
        release_head(h);
        return zr_error_frame(status, __func__, __FILE__, __LINE__);
    }
    *state = h;
    return ZR_OK;
}

/* ---- a block ---------------------------------------------------------------------------------- */

/* Return whether the target has the largest of V logits, the first of several equal ones. */
static bool is_hit(const void *logits, zr_dtype dtype, int64_t first, int64_t V, int32_t target, float lse)
{
    float own;
    if (target < 0) return false;
    zr__load(&own, logits, dtype, first + target, 1);
    return own >= zr__row_threshold(logits, dtype, first, V, target, lse);
}

/* Compute the losses of n rows from `row` on. The logits are in the scratch. In the backward pass, replace the logits
 * by their gradient. */
static void run_rows(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n)
{
    const int32_t *target = (const int32_t *)o->of.targets->data + row;
    const float *dlosses = o->of.dlosses ? (const float *)o->of.dlosses->data + row : NULL;
    float *losses = (float *)o->of.losses->data + row, *hits = o->of.hits ? (float *)o->of.hits->data + row : NULL;
    const zr_dtype dtype = o->of.x->dtype;
    void *logits = args->scratch;
#pragma omp parallel for num_threads(zr__team(args, n * o->of.V)) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = r * o->of.V;
        float lse;
        losses[r] = zr__row_loss(logits, dtype, at, o->of.V, target[r], &lse);
        if (hits) hits[r] = is_hit(logits, dtype, at, o->of.V, target[r], lse) ? 1.0f : 0.0f;
        if (dlosses) zr__row_dlogits(logits, logits, dtype, at, o->of.V, target[r], dlosses[r], lse);
    }
}

/* Process n rows from `row` on, for a part of the vocabulary. Forward: compute the numbers of each row, from which
 * linear_cross_entropy_join computes the results: the log-sum-exp over the part, the target's logit (0 if the target is
 * in another part), and for hits the part's threshold. Backward: replace the logits by their gradient. */
static void run_part_rows(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n)
{
    const int32_t *target = (const int32_t *)o->of.targets->data + row;
    const zr_dtype dtype = o->of.x->dtype;
    void *logits = args->scratch;
#pragma omp parallel for num_threads(zr__team(args, n * o->of.V)) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = r * o->of.V, own = target[r] - o->of.first;
        const bool here = target[r] >= 0 && own >= 0 && own < o->of.valid;
        if (o->of.part) {
            float *out = (float *)o->of.part->data + o->of.numbers * (o->of.part_row + row + r), max, sum;
            zr__row_softmax(logits, dtype, at, o->of.valid, &max, &sum);
            out[0] = o->of.valid > 0 ? (float)((double)max + log((double)sum)) : -INFINITY;
            out[1] = 0;
            if (here) zr__load(&out[1], logits, dtype, at + own, 1);
            if (o->of.numbers > 2) out[2] = zr__row_threshold(logits, dtype, at, o->of.valid, own, out[0]);
            continue;
        }
        const float lse = ((const float *)o->of.lse->data)[row + r],
                    dloss = ((const float *)o->of.dlosses->data)[row + r];
        const size_t bytes = (size_t)zr_dtype_bytes(dtype);
        memset((char *)logits + (size_t)(at + o->of.valid) * bytes, 0, (size_t)(o->of.V - o->of.valid) * bytes);
        zr__row_dlogits(logits, logits, dtype, at, o->of.valid,
                        target[r] < 0 ? -1
                        : here        ? (int32_t)own
                                      : INT32_MAX,
                        dloss, lse);
    }
}

/* Add the block's part of db, the sum of the gradients of n rows of logits. The accumulator is rounded into db after
 * the last block. */
static void add_bias_rows(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n)
{
    float *sum = (float *)((char *)args->scratch + o->layout.bias_sum);
    const zr_tensor logits = {.data = args->scratch, .dtype = o->of.x->dtype}, total = {.data = sum, .dtype = ZR_F32};
    zr__column_sums(args, &logits, n, o->of.V, row ? sum : NULL, &total);
}

/* Run one block of n rows from `row` on. dx is computed last, since it may overwrite x. */
static zr_status run_block(const zr_kernel_args *args, const operands *o, int64_t row, int64_t n, void *sum)
{
    const head *h = args->state;
    const products *p = n == o->layout.rows ? &h->whole : &h->last;
    const int64_t at = row * o->of.C;
    void *logits = args->scratch, *panels = (char *)args->scratch + o->layout.panels;
    const char *x = (const char *)o->of.x->data + at * zr_dtype_bytes(o->of.x->dtype);
    ZR_TRY(zr__matmul_run(
        p->logits,
        &(zr__matmul_operands){
            .a = x, .b = o->of.w->data, .bias = o->of.b ? o->of.b->data : NULL, .c = logits, .panels = panels}));
    (o->of.losses ? run_rows : run_part_rows)(args, o, row, n);
    if (o->of.db) add_bias_rows(args, o, row, n);
    if (o->of.dw)
        ZR_TRY(zr__matmul_run(row ? p->dw : h->dw_begins,
                              &(zr__matmul_operands){.a = logits, .b = x, .c = sum, .panels = panels}));
    if (!o->of.dx) return ZR_OK;
    char *dx = (char *)o->of.dx->data + at * zr_dtype_bytes(o->of.dx->dtype);
    return zr__matmul_run(p->dx, &(zr__matmul_operands){.a = logits, .b = o->of.w->data, .c = dx, .panels = panels});
}

static zr_status run_head(const zr_kernel_args *args)
{
    const operands o = operands_of(args);
    float *sum = (float *)((char *)args->scratch + o.layout.sum);
    const zr_tensor *out = o.of.part ? o.of.part : o.of.dx;
    ZR_TRY(zr__check_ids("target", o.of.targets, INT32_MIN, o.of.all));
    if (o.of.earlier && o.of.earlier->data != out->data)
        memcpy(out->data, o.of.earlier->data, (size_t)zr_shape_elems(&out->shape) * sizeof(float));
    for (int64_t row = 0; row < o.of.rows; row += o.layout.rows)
        ZR_TRY(run_block(args, &o, row, zr__min64(o.layout.rows, o.of.rows - row),
                         o.of.dw && o.layout.sum_in_dw ? o.of.dw->data : sum));
    if (o.of.db)
        zr__store(o.of.db->data, o.of.db->dtype, 0, (float *)((char *)args->scratch + o.layout.bias_sum), o.of.V);
    if (o.layout.sum_in_dw) return ZR_OK;
#pragma omp parallel for num_threads(zr__team(args, o.of.V *o.of.C)) schedule(static)
    for (int64_t v = 0; v < o.of.V; v++) zr__store(o.of.dw->data, o.of.dw->dtype, v * o.of.C, sum + v * o.of.C, o.of.C);
    return ZR_OK;
}

/* ---- all parts of the vocabulary --------------------------------------------------------------- */

/* Compute losses, log-sum-exps and perhaps hits from the results of all parts, (parts,B,T,n), with n numbers for each
 * token. The results are added in the order of the vocabulary. */
static zr_status run_join(const zr_kernel_args *args)
{
    const zr_tensor *all = &args->in[0], *targets = &args->in[3];
    const int64_t rows = zr_shape_elems(&targets->shape), n = args->n_out > 2 ? 3 : 2;
    const int64_t parts = zr_shape_elems(&all->shape) / (n * rows);
    const int32_t *target = targets->data;
    float *losses = args->out[0].data, *lse = args->out[1].data, *hits = n > 2 ? args->out[2].data : NULL;
    for (int64_t r = 0; r < rows; r++) {
        const float *part = (const float *)all->data + n * r;
        double most = -INFINITY, sum = 0, own = 0;
        bool ahead = target[r] >= 0;
        for (int64_t m = 0; m < parts; m++) most = fmax(most, part[n * m * rows]);
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
    return ZR_OK;
}

/* ---- scratch ---------------------------------------------------------------------------------- */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Return the scratch bytes: a block's logits, the sum of dw if dw cannot hold the sum itself, and the packed operands
 * of one product at a time. */
static int64_t head_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const bool backward = zr__loss_is_backward(op->n_in, op);
    const int first = zr__loss_first(op->n_in, op), dw_out = zr__loss_dw(op->n_in, op->n_out, op);
    const zr_type *x = zr__in_type(graph, op, first), *w = zr__in_type(graph, op, first + 1);
    const int64_t V = w->shape.dim[0], C = w->shape.dim[1];
    const zr_dtype g = x->dtype, dw = dw_out >= 0 ? zr__out_type(graph, op, dw_out)->dtype : ZR_F32;
    const zr__head_layout l = zr__head_layout_make(zr_shape_rows(&x->shape), op->attr.i[0], V, C, g, dw,
                                                   dw_out >= 0 && zr__loss_has_bias(op));
    int64_t bytes = zr__matmul_scratch(facts, l.rows, V, C, g, g);
    if (backward && dw_out != 0)
        bytes = max64(bytes, zr__matmul_scratch(facts, l.rows, C, V, g, zr__out_type(graph, op, 0)->dtype));
    if (dw_out >= 0) bytes = max64(bytes, zr__matmul_scratch(facts, V, C, l.rows, g, l.sum_in_dw ? dw : ZR_F32));
    return l.panels + bytes;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_linear_cross_entropy)[] = {
    {"linear_cross_entropy", .prepare = prepare_head, .run = run_head, .release = release_head,
     .scratch_bytes = head_scratch},
    {"linear_cross_entropy_dx", .prepare = prepare_head, .run = run_head, .release = release_head,
     .scratch_bytes = head_scratch},
    {"linear_cross_entropy_part", .prepare = prepare_head, .run = run_head, .release = release_head,
     .scratch_bytes = head_scratch},
    {"linear_cross_entropy_part_dx", .prepare = prepare_head, .run = run_head, .release = release_head,
     .scratch_bytes = head_scratch},
    {"linear_cross_entropy_part_dw", .prepare = prepare_head, .run = run_head, .release = release_head,
     .scratch_bytes = head_scratch},
    {"linear_cross_entropy_join", .run = run_join},
    {0},
};
