/* Ops linear, linear_dx and linear_dw, which use the matrix products of matmul.c, and ops linear_db and bias. */
#include "device/cpu/matmul.h"
#include "device/cpu/shared/column_sums.h"
#include "device/operands.h"

/* ---- products -------------------------------------------------------------------------------- */

extern const zr__panel_ops ZR_LEVEL_NAME(zr__panels);

static const void *optional(const zr_kernel_args *args, int i)
{
    return i < args->n_in ? args->in[i].data : NULL;
}

static bool w_transposed(const zr_kernel_args *args)
{
    return args->op->attr.i[0] != 0;
}

static zr_status check_types(const zr_kernel_args *args)
{
    zr_dtype a = args->in[0].dtype, b = args->in[1].dtype, c = args->out[0].dtype;
    ZR_CHECK(a == b && zr_dtype_is_float(a), ZR_ERR_DTYPE,
             "%s: operands are %s and %s, wanted both F32, both BF16 or both F16", args->op->def->name,
             zr_dtype_name(a), zr_dtype_name(b));
    ZR_CHECK(c == ZR_F32 || c == a, ZR_ERR_UNSUPPORTED,
             "%s: operands of type %s with an output of type %s; the output must be F32 or of the operands' type",
             args->op->def->name, zr_dtype_name(a), zr_dtype_name(c));
    return ZR_OK;
}

static zr_status prepare_product(const zr_kernel_args *args, zr__product_spec spec, void **state)
{
    ZR_TRY(check_types(args));
    spec.dtype = args->in[0].dtype;
    spec.out_dtype = args->out[0].dtype;
    spec.threads = args->threads;
    zr__matmul *product = NULL;
    ZR_TRY(zr__matmul_create(&spec, &ZR_LEVEL_NAME(zr__panels), &product));
    *state = product;
    return ZR_OK;
}

static void release_product(void *state)
{
    zr__matmul *product = state;
    zr__matmul_destroy(&product);
}

/* Prepare the product y = x w + b or dx = dy w^T. `transposed_b` says whether the second operand is stored transposed.
 */
static zr_status prepare_rows(const zr_kernel_args *args, bool transposed_b, bool bias, void **state)
{
    const int64_t n = zr_shape_cols(&args->out[0].shape), k = zr_shape_cols(&args->in[0].shape);
    const zr__product_spec s = {.m = zr_shape_rows(&args->in[0].shape),
                                .n = n,
                                .k = k,
                                .a = {k, 1},
                                .b = transposed_b ? (zr__strides){1, k} : (zr__strides){n, 1},
                                .bias = bias};
    return prepare_product(args, s, state);
}

static zr_status prepare_forward(const zr_kernel_args *args, void **state)
{
    return prepare_rows(args, w_transposed(args), optional(args, 2) != NULL, state);
}

static zr_status prepare_dx(const zr_kernel_args *args, void **state)
{
    return prepare_rows(args, !w_transposed(args), false, state);
}

static zr_status run_product(const zr_kernel_args *args)
{
    return zr__matmul_run(args->state, &(zr__matmul_operands){.a = args->in[0].data,
                                                              .b = args->in[1].data,
                                                              .bias = optional(args, 2),
                                                              .c = args->out[0].data,
                                                              .panels = args->scratch});
}

/* Prepare the product dw = x^T dy or, if w is stored transposed, dw = dy^T x. */
static zr_status prepare_dw(const zr_kernel_args *args, void **state)
{
    const zr_tensor *a = &args->in[w_transposed(args) ? 1 : 0], *b = &args->in[w_transposed(args) ? 0 : 1];
    const int64_t m = zr_shape_cols(&a->shape), n = zr_shape_cols(&b->shape);
    const zr__product_spec s = {
        .m = m, .n = n, .k = zr_shape_rows(&a->shape), .a = {1, m}, .b = {n, 1}, .earlier = optional(args, 2) != NULL};
    return prepare_product(args, s, state);
}

static zr_status run_dw(const zr_kernel_args *args)
{
    return zr__matmul_run(args->state, &(zr__matmul_operands){.a = args->in[w_transposed(args) ? 1 : 0].data,
                                                              .b = args->in[w_transposed(args) ? 0 : 1].data,
                                                              .earlier = optional(args, 2),
                                                              .c = args->out[0].data,
                                                              .panels = args->scratch});
}

static int64_t product_bytes(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op, int64_t k)
{
    const zr_type *c = zr__out_type(graph, op, 0);
    return zr__matmul_scratch(facts, zr_shape_rows(&c->shape), zr_shape_cols(&c->shape), k,
                              zr__in_type(graph, op, 0)->dtype, c->dtype);
}

/* Return the scratch bytes of linear and linear_dx. Both sum over the columns of their first operand. */
static int64_t product_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    return product_bytes(facts, graph, op, zr_shape_cols(&zr__in_type(graph, op, 0)->shape));
}

static int64_t dw_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    return product_bytes(facts, graph, op, zr_shape_rows(&zr__in_type(graph, op, 0)->shape));
}

/* ---- the gradient of the bias ---------------------------------------------------------------- */

static zr_status run_db(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0];
    zr__column_sums(args, dy, zr_shape_rows(&dy->shape), zr_shape_cols(&dy->shape), optional(args, 1), &args->out[0]);
    return ZR_OK;
}

/* ---- the bias of a sum over ranks ------------------------------------------------------------- */

static zr_status run_bias(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *b = &args->in[1], *y = &args->out[0];
    const int64_t rows = zr_shape_rows(&x->shape), cols = zr_shape_cols(&x->shape);
#pragma omp parallel for num_threads(zr__team(args, rows *cols)) schedule(static)
    for (int64_t row = 0; row < rows; row++) zr__add_elems(y, row * cols, x, row * cols, b, 0, cols);
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_linear)[] = {
    {"linear", .prepare = prepare_forward, .run = run_product, .release = release_product,
     .scratch_bytes = product_scratch},
    {"linear_dx", .prepare = prepare_dx, .run = run_product, .release = release_product,
     .scratch_bytes = product_scratch},
    {"linear_dw", .prepare = prepare_dw, .run = run_dw, .release = release_product, .scratch_bytes = dw_scratch},
    {"linear_db", .run = run_db},
    {"bias", .run = run_bias},
    {0},
};
