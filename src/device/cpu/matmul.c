#include "device/cpu/matmul.h"

#include "device/cpu/onednn.h"

/* An op as C = A B: which operand is which, how they lie, how the product is made. */
typedef struct matmul {
    zr__product_spec spec;
    int a, b, bias, earlier; /* operands' indices; -1: none */
    zr__product *product;    /* of n_block columns; NULL: by panels */
    zr__product *rest;       /* of the last columns where they are fewer */
    const zr__panel_ops *panel;
    int64_t m_block, n_block, k_block;
} matmul;

static zr__strides rows_of(int64_t cols)
{
    return (zr__strides){cols, 1};
}

static zr__strides transposed(zr__strides s)
{
    return (zr__strides){s.col, s.row};
}

static int optional(const zr_kernel_args *args, int i)
{
    return i < args->n_in && args->in[i].data ? i : -1;
}

static void set_sizes(zr__product_spec *s, int64_t m, int64_t n, int64_t k)
{
    s->m = m;
    s->n = n;
    s->k = k;
}

/* y = x w + b */
static void describe_forward(matmul *mm, const zr_kernel_args *args, bool w_transposed)
{
    int64_t rows = zr_shape_rows(&args->in[0].shape), k = zr_shape_cols(&args->in[0].shape);
    int64_t n = zr_shape_cols(&args->out[0].shape);
    set_sizes(&mm->spec, rows, n, k);
    mm->spec.a = rows_of(k);
    mm->spec.b = w_transposed ? transposed(rows_of(k)) : rows_of(n);
    mm->bias = optional(args, 2);
}

/* dx = dy w^T */
static void describe_dx(matmul *mm, const zr_kernel_args *args, bool w_transposed)
{
    int64_t rows = zr_shape_rows(&args->in[0].shape), n = zr_shape_cols(&args->in[0].shape);
    int64_t k = zr_shape_cols(&args->out[0].shape);
    set_sizes(&mm->spec, rows, k, n);
    mm->spec.a = rows_of(n);
    mm->spec.b = w_transposed ? rows_of(k) : transposed(rows_of(n));
}

/* dw = x^T dy, or transposed: dw = dy^T x */
static void describe_dw(matmul *mm, const zr_kernel_args *args, bool w_transposed)
{
    mm->a = w_transposed ? 1 : 0;
    mm->b = 1 - mm->a;
    const zr_shape *a = &args->in[mm->a].shape, *b = &args->in[mm->b].shape;
    set_sizes(&mm->spec, zr_shape_cols(a), zr_shape_cols(b), zr_shape_rows(a));
    mm->spec.a = transposed(rows_of(mm->spec.m));
    mm->spec.b = rows_of(mm->spec.n);
    mm->earlier = optional(args, 2);
}

static void describe(matmul *mm, const zr_kernel_args *args, zr__linear_kind kind)
{
    bool w_transposed = args->op->attr.i[0] != 0;
    *mm = (matmul){.a = 0, .b = 1, .bias = -1, .earlier = -1};
    mm->spec.dtype = args->in[0].dtype;
    mm->spec.out_dtype = args->out[0].dtype;
    mm->spec.threads = args->threads;
    if (kind == ZR__LINEAR) describe_forward(mm, args, w_transposed);
    if (kind == ZR__LINEAR_DX) describe_dx(mm, args, w_transposed);
    if (kind == ZR__LINEAR_DW) describe_dw(mm, args, w_transposed);
    mm->spec.bias = mm->bias >= 0;
    mm->spec.earlier = mm->earlier >= 0;
}

static zr_status check_types(const matmul *mm, const zr_kernel_args *args)
{
    zr_dtype a = args->in[mm->a].dtype, b = args->in[mm->b].dtype, c = args->out[0].dtype;
    ZR_CHECK(a == b && zr_dtype_is_float(a), ZR_ERR_DTYPE,
             "%s: operands are %s and %s, wanted both F32, both BF16 or both F16", args->op->def->name,
             zr_dtype_name(a), zr_dtype_name(b));
    ZR_CHECK(c == ZR_F32 || c == a, ZR_ERR_UNSUPPORTED,
             "%s: the output of %s operands is to be %s, wanted F32 or their type; keep gradients in one of these",
             args->op->def->name, zr_dtype_name(a), zr_dtype_name(c));
    return ZR_OK;
}

static bool by_panels(zr_dtype dtype, const zr__panel_ops *panel)
{
    return dtype == ZR_F16 || (dtype == ZR_BF16 && !panel->bf16_products);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Longest block of a dimension of `length` when the others let it have `room`: all of it, or a
 * multiple of 64, which the product's inner kernels like. */
static int64_t block_of(int64_t length, int64_t room)
{
    return length <= room ? length : room / 64 * 64;
}

/* Square blocks where all dimensions are long; where one is short, the others get its room. */
static void choose_blocks(matmul *mm)
{
    const int64_t elems = ZR__PANEL_BYTES / (int64_t)sizeof(float), side = 1024;
    const zr__product_spec *s = &mm->spec;
    int64_t m = min64(s->m, side), k = min64(s->k, side);
    mm->n_block = block_of(s->n, elems / (m > k ? m : k));
    mm->k_block = block_of(s->k, elems / (m > mm->n_block ? m : mm->n_block));
    mm->m_block = block_of(s->m, elems / (mm->n_block > mm->k_block ? mm->n_block : mm->k_block));
}

static zr_status create_products(matmul *mm)
{
    zr__product_spec spec = mm->spec;
    spec.ld = spec.n;
    spec.n = mm->n_block = block_of(spec.n, zr__product_cols(spec.threads));
    ZR_TRY(zr__product_create(&spec, &mm->product));
    spec.n = mm->spec.n % mm->n_block;
    if (spec.n > 0) ZR_TRY(zr__product_create(&spec, &mm->rest));
    return ZR_OK;
}

zr_status zr__matmul_prepare(const zr_kernel_args *args, zr__linear_kind kind, const zr__panel_ops *panel, void **state)
{
    matmul described;
    describe(&described, args, kind);
    ZR_TRY(check_types(&described, args));
    matmul *mm = zr_alloc(sizeof *mm);
    ZR_CHECK(mm, ZR_ERR_MEMORY, "no memory for a linear op's %zu bytes", sizeof *mm);
    *mm = described;
    mm->panel = panel;
    *state = mm;
    if (by_panels(mm->spec.dtype, panel)) {
        choose_blocks(mm);
        return ZR_OK;
    }
    zr_status status = create_products(mm);
    if (status == ZR_OK) return ZR_OK;
    zr__matmul_release(mm);
    *state = NULL;
    return zr_error_frame(status, __func__, __FILE__, __LINE__);
}

void zr__matmul_release(void *state)
{
    matmul *mm = state;
    if (!mm) return;
    zr__product_destroy(&mm->product);
    zr__product_destroy(&mm->rest);
    zr_free(mm);
}

/* ---- by panels ------------------------------------------------------------------------------- */

/* A widened block of an operand, and which it is: it is kept while the next product needs the same. */
typedef struct panel {
    float *data;
    int64_t row, col;
    zr__strides at;
} panel;

static void load_panel(const matmul *mm, panel *p, const uint16_t *matrix, zr__strides at, int64_t row, int64_t col,
                       int64_t rows, int64_t cols)
{
    if (p->row == row && p->col == col) return;
    p->row = row;
    p->col = col;
    const uint16_t *block = matrix + row * at.row + col * at.col;
    if (at.col == 1) {
        p->at = rows_of(cols);
        mm->panel->widen(mm->spec.threads, p->data, block, mm->spec.dtype, rows, cols, at.row);
    } else {
        p->at = transposed(rows_of(rows));
        mm->panel->widen(mm->spec.threads, p->data, block, mm->spec.dtype, cols, rows, at.col);
    }
}

/* One block of C: its terms are added in F32 in order of k, then rounded once. */
static zr_status run_block(const matmul *mm, const zr_kernel_args *args, panel *a, panel *b, float *c, int64_t row,
                           int64_t col)
{
    const zr__product_spec *s = &mm->spec;
    int64_t rows = min64(mm->m_block, s->m - row), cols = min64(mm->n_block, s->n - col), at = row * s->n + col;
    const float *earlier = s->earlier ? (const float *)args->in[mm->earlier].data + at : NULL;
    const uint16_t *bias = s->bias ? (const uint16_t *)args->in[mm->bias].data + col : NULL;
    mm->panel->begin(s->threads, c, earlier, bias, s->dtype, rows, cols, s->n);
    for (int64_t k = 0; k < s->k; k += mm->k_block) {
        int64_t depth = min64(mm->k_block, s->k - k);
        load_panel(mm, a, args->in[mm->a].data, s->a, row, k, rows, depth);
        load_panel(mm, b, args->in[mm->b].data, s->b, k, col, depth, cols);
        ZR_TRY(zr__product_add(s->threads, rows, cols, depth, a->data, a->at, b->data, b->at, c));
    }
    void *out = (char *)args->out[0].data + at * zr_dtype_bytes(s->out_dtype);
    mm->panel->store(s->threads, out, s->out_dtype, c, rows, cols, s->n);
    return ZR_OK;
}

static zr_status run_panels(const matmul *mm, const zr_kernel_args *args)
{
    const int64_t elems = ZR__PANEL_BYTES / (int64_t)sizeof(float);
    panel a = {args->scratch, -1, -1, {0, 0}}, b = {a.data + elems, -1, -1, {0, 0}};
    float *c = b.data + elems;
    for (int64_t col = 0; col < mm->spec.n; col += mm->n_block)
        for (int64_t row = 0; row < mm->spec.m; row += mm->m_block) ZR_TRY(run_block(mm, args, &a, &b, c, row, col));
    return ZR_OK;
}

static zr_status run_products(const matmul *mm, const zr_kernel_args *args)
{
    const zr__product_spec *s = &mm->spec;
    const int64_t each = zr_dtype_bytes(s->dtype), out_each = zr_dtype_bytes(s->out_dtype);
    const char *b = args->in[mm->b].data, *bias = s->bias ? args->in[mm->bias].data : NULL;
    const float *earlier = s->earlier ? args->in[mm->earlier].data : NULL;
    for (int64_t col = 0; col < s->n; col += mm->n_block)
        ZR_TRY(zr__product_run(s->n - col < mm->n_block ? mm->rest : mm->product, args->in[mm->a].data,
                               b + col * s->b.col * each, bias ? bias + col * each : NULL,
                               earlier ? earlier + col : NULL, (char *)args->out[0].data + col * out_each));
    return ZR_OK;
}

zr_status zr__matmul_run(const zr_kernel_args *args)
{
    const matmul *mm = args->state;
    return mm->product ? run_products(mm, args) : run_panels(mm, args);
}
