/* linear, linear_dx and linear_dw, computed by the products of products.c; linear_db and bias. */
#include "device/cuda/column_sums.h"
#include "device/cuda/products.h"
#include "device/cuda/scratch.h"

namespace
{

const zr_tensor *optional(const zr_kernel_args *args, int i)
{
    return i < args->n_in && args->in[i].data ? &args->in[i] : nullptr;
}

bool w_transposed(const zr_kernel_args *args)
{
    return args->op->attr.i[0] != 0;
}

/* ---- y, dx, dw --------------------------------------------------------------------------------- */

/* State of an op between prepare and release. */
struct linear {
    zr__cuda_product *product;
    zr__cuda_product *last; /* product of a shorter last block; used if dw is computed in blocks */
    bool adds_bias;
};

void release_linear(void *state)
{
    auto *l = (linear *)state;
    if (!l) return;
    zr__cuda_product_destroy(&l->product);
    zr__cuda_product_destroy(&l->last);
    zr_free(l);
}

zr_status check_types(const zr_kernel_args *args)
{
    const zr_dtype a = args->in[0].dtype, b = args->in[1].dtype;
    ZR_CHECK(a == b && zr_dtype_is_float(a), ZR_ERR_DTYPE,
             "%s: operands are %s and %s, wanted both F32, both BF16 or both F16", args->op->def->name,
             zr_dtype_name(a), zr_dtype_name(b));
    return ZR_OK;
}

zr__cuda_product_operands operands_of(const zr_kernel_args *args)
{
    return {args->in[0].data, args->in[1].data, nullptr, nullptr, args->out[0].data, args->scratch};
}

/* Return the spec of y = x w + b or dx = dy w^T. transposed: whether the product's second operand is stored transposed.
 */
zr__cuda_product_spec spec_of(const zr_kernel_args *args, bool transposed)
{
    zr__cuda_product_spec s =
        zr__cuda_product_spec_make(zr_shape_rows(&args->in[0].shape), zr_shape_cols(&args->out[0].shape),
                                   zr_shape_cols(&args->in[0].shape), args->in[0].dtype, args->out[0].dtype);
    s.b_transposed = transposed;
    return s;
}

/* Create the product of the forward pass. If cuBLASLt cannot add the bias, y is first set to the bias, and the product
 * is added to y. The result is the same, because the sum is rounded only once in both cases. */
zr_status make_forward(const zr_kernel_args *args, linear *l)
{
    zr__cuda_product_spec spec = spec_of(args, w_transposed(args));
    zr__cuda_product_operands used = operands_of(args);
    if (const zr_tensor *b = optional(args, 2)) {
        used.bias = b->data;
        spec.bias = b->dtype == spec.out_dtype && zr__cuda_product_takes_bias(b->data);
        const zr_status st =
            spec.bias ? zr__cuda_product_create(args->device, &spec, &used, &l->product) : ZR_ERR_UNSUPPORTED;
        l->adds_bias = st == ZR_OK;
        if (st != ZR_ERR_UNSUPPORTED) return st;
        spec.bias = false;
    }
    return zr__cuda_product_create(args->device, &spec, &used, &l->product);
}

zr_status make_dx(const zr_kernel_args *args, linear *l)
{
    const zr__cuda_product_spec spec = spec_of(args, !w_transposed(args));
    const zr__cuda_product_operands used = operands_of(args);
    return zr__cuda_product_create(args->device, &spec, &used, &l->product);
}

template <zr_status (*make)(const zr_kernel_args *args, linear *l)>
zr_status prepare_linear(const zr_kernel_args *args, void **state)
{
    ZR_TRY(check_types(args));
    auto *l = (linear *)zr_alloc(sizeof(linear));
    ZR_CHECK(l, ZR_ERR_MEMORY, "no memory for a product's %zu bytes", sizeof *l);
    const zr_status st = make(args, l);
    if (st != ZR_OK) {
        release_linear(l);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *state = l;
    return ZR_OK;
}

/* ---- bias -------------------------------------------------------------------------------------- */

/* Compute y = x + b in each row, or y = b if there is no x. A thread holds the elements of b for its columns in
 * registers. */
template <int V> __global__ void add_bias(zr__array y, zr__array x, zr__array b, int64_t rows, int64_t cols)
{
    const int64_t col = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (col >= cols) return;
    float bias[V], value[V];
    zr__get_all<V>(bias, b, col);
    for (int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; row < rows;
         row += (int64_t)gridDim.y * blockDim.y) {
        if (x.data) zr__get_all<V>(value, x, row * cols + col);
        for (int v = 0; v < V; v++) value[v] = x.data ? value[v] + bias[v] : bias[v];
        zr__put_all<V>(y, row * cols + col, value);
    }
}

template <int V> dim3 tiles(int64_t rows, int64_t cols)
{
    const int64_t most = 1 << 14, below = zr__ceil_div(rows, ZR__SUM_DOWN);
    return dim3((unsigned)zr__ceil_div(cols, ZR__SUM_ACROSS * V), (unsigned)(below < most ? below : most));
}

zr_status launch_bias(const zr_kernel_args *args, zr__array y, zr__array x, zr__array b)
{
    const int64_t rows = zr_shape_rows(&args->out[0].shape), cols = zr_shape_cols(&args->out[0].shape);
    const dim3 threads(ZR__SUM_ACROSS, ZR__SUM_DOWN);
    if (cols % ZR__PACK == 0 && zr__are_aligned(y, x, b))
        ZR_LAUNCH(zr__stream_of(args), add_bias<ZR__PACK>, tiles<ZR__PACK>(rows, cols), threads, 0, y, x, b, rows,
                  cols);
    else
        ZR_LAUNCH(zr__stream_of(args), add_bias<1>, tiles<1>(rows, cols), threads, 0, y, x, b, rows, cols);
    return zr__launched();
}

zr_status run_bias(const zr_kernel_args *args)
{
    return launch_bias(args, zr__array_of(&args->out[0]), zr__array_of(&args->in[0]), zr__array_of(&args->in[1]));
}

/* ---- running y, dx, dw ------------------------------------------------------------------------- */

zr_status run_product(const zr_kernel_args *args)
{
    const auto *l = (const linear *)args->state;
    const zr_tensor *b = optional(args, 2);
    zr__cuda_product_operands at = operands_of(args);
    if (b && l->adds_bias) at.bias = b->data;
    if (b && !l->adds_bias) {
        ZR_TRY(launch_bias(args, zr__array_of(&args->out[0]), zr__array{nullptr, b->dtype}, zr__array_of(b)));
        at.earlier = at.c;
    }
    return zr__cuda_product_run(l->product, args->device, &at);
}

/* Operands and sizes of dw = x^T dy or, for a transposed w, dw = dy^T x. */
struct dw_sizes {
    const zr_tensor *a, *b, *earlier;
    int64_t m, n, k;
    bool rounds; /* whether the sum of dw and `earlier` is computed in fp32 and a separate pass rounds it */
    zr__cuda_rounded block;
};

dw_sizes dw_sizes_of(const zr_kernel_args *args)
{
    const zr_tensor *a = &args->in[w_transposed(args) ? 1 : 0], *b = &args->in[w_transposed(args) ? 0 : 1];
    dw_sizes s = {.a = a,
                  .b = b,
                  .earlier = optional(args, 2),
                  .m = zr_shape_cols(&a->shape),
                  .n = zr_shape_cols(&b->shape),
                  .k = zr_shape_rows(&a->shape),
                  .rounds = false,
                  .block = {}};
    s.rounds = s.earlier && args->out[0].dtype != ZR_F32;
    if (s.rounds) s.block = zr__cuda_rounded_make(s.m, s.n);
    return s;
}

/* Return the operands for the rows of dw from `row` on. */
zr__cuda_product_operands dw_operands(const zr_kernel_args *args, const dw_sizes &s, int64_t row)
{
    return {.a = (const char *)s.a->data + row * zr_dtype_bytes(s.a->dtype),
            .b = s.b->data,
            .bias = nullptr,
            .earlier = s.earlier ? (const float *)s.earlier->data + row * s.n : nullptr,
            .c = s.rounds ? args->scratch : args->out[0].data,
            .workspace = (char *)args->scratch + s.block.workspace};
}

zr_status create_dw(const zr_kernel_args *args, const dw_sizes &s, int64_t rows, zr__cuda_product **product)
{
    const zr__cuda_product_operands used = dw_operands(args, s, 0);
    zr__cuda_product_spec spec =
        zr__cuda_product_spec_make(rows, s.n, s.k, s.a->dtype, s.rounds ? ZR_F32 : args->out[0].dtype);
    spec.a_transposed = true;
    spec.a_ld = s.m;
    spec.workspace_bytes = zr__cuda_workspace(s.rounds ? s.block.rows : s.m, s.n);
    return zr__cuda_product_create(args->device, &spec, &used, product);
}

zr_status make_dw(const zr_kernel_args *args, linear *l)
{
    const dw_sizes s = dw_sizes_of(args);
    const zr_dtype g = s.a->dtype, w = args->out[0].dtype;
    ZR_CHECK(w == ZR_F32 || w == g, ZR_ERR_UNSUPPORTED,
             "%s: the gradient of a %s weight is to be %s, wanted F32 or its type", args->op->def->name,
             zr_dtype_name(g), zr_dtype_name(w));
    if (!s.rounds) return create_dw(args, s, s.m, &l->product);
    ZR_TRY(create_dw(args, s, s.block.rows, &l->product));
    return s.m % s.block.rows ? create_dw(args, s, s.m % s.block.rows, &l->last) : ZR_OK;
}

zr_status run_dw(const zr_kernel_args *args)
{
    const auto *l = (const linear *)args->state;
    const dw_sizes s = dw_sizes_of(args);
    const zr_tensor *dw = &args->out[0];
    for (int64_t row = 0; row < s.m; row += s.rounds ? s.block.rows : s.m) {
        const bool whole = !s.rounds || row + s.block.rows <= s.m;
        const zr__cuda_product_operands at = dw_operands(args, s, row);
        ZR_TRY(zr__cuda_product_run(whole ? l->product : l->last, args->device, &at));
        if (s.rounds)
            ZR_TRY(zr__cuda_cast(args->device, (char *)dw->data + row * s.n * zr_dtype_bytes(dw->dtype), dw->dtype,
                                 args->scratch, ZR_F32, (whole ? s.block.rows : s.m - row) * s.n, NULL));
    }
    return ZR_OK;
}

/* ---- db ---------------------------------------------------------------------------------------- */

zr_status run_db(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *earlier = optional(args, 1);
    const int64_t rows = zr_shape_rows(&dy->shape), cols = zr_shape_cols(&dy->shape);
    return zr__column_sums(zr__stream_of(args), {dy->data, dy->dtype, rows, cols, cols},
                           earlier ? (const float *)earlier->data : nullptr, zr__array_of(&args->out[0]),
                           (float *)args->scratch);
}

} // namespace

ZR_CUDA_KERNELS(linear) = {
    zr__kernel("linear", run_product, prepare_linear<make_forward>, release_linear),
    zr__kernel("linear_dx", run_product, prepare_linear<make_dx>, release_linear),
    zr__kernel("linear_dw", run_dw, prepare_linear<make_dw>, release_linear),
    zr__kernel("linear_db", run_db),
    zr__kernel("bias", run_bias),
    {},
};
