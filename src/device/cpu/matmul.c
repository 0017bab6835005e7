#include "device/cpu/matmul.h"

struct zr__matmul {
    zr__product_spec spec;
    zr__product *product; /* of n_block columns; NULL: by panels */
    zr__product *rest;    /* of the last columns where they are fewer */
    const zr__panel_ops *panel;
    int64_t m_block, n_block, k_block;
};

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
static void choose_blocks(zr__matmul *mm)
{
    const int64_t elems = ZR__PANEL_BYTES / (int64_t)sizeof(float), side = 1024;
    const zr__product_spec *s = &mm->spec;
    int64_t m = min64(s->m, side), k = min64(s->k, side);
    mm->n_block = block_of(s->n, elems / (m > k ? m : k));
    mm->k_block = block_of(s->k, elems / (m > mm->n_block ? m : mm->n_block));
    mm->m_block = block_of(s->m, elems / (mm->n_block > mm->k_block ? mm->n_block : mm->k_block));
}

static zr_status create_products(zr__matmul *mm)
{
    zr__product_spec spec = mm->spec;
    spec.ld = spec.n;
    spec.n = mm->n_block = block_of(spec.n, zr__product_cols(spec.threads));
    ZR_TRY(zr__product_create(&spec, &mm->product));
    spec.n = mm->spec.n % mm->n_block;
    if (spec.n > 0) ZR_TRY(zr__product_create(&spec, &mm->rest));
    return ZR_OK;
}

zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *panel, zr__matmul **matmul)
{
    zr__matmul *mm = zr_alloc(sizeof *mm);
    ZR_CHECK(mm, ZR_ERR_MEMORY, "no memory for a matrix product's %zu bytes", sizeof *mm);
    mm->spec = *spec;
    mm->panel = panel;
    zr_status status = ZR_OK;
    if (by_panels(spec->dtype, panel))
        choose_blocks(mm);
    else
        status = create_products(mm);
    if (status != ZR_OK) {
        zr__matmul_destroy(&mm);
        return zr_error_frame(status, __func__, __FILE__, __LINE__);
    }
    *matmul = mm;
    return ZR_OK;
}

void zr__matmul_destroy(zr__matmul **matmul)
{
    zr__matmul *mm = *matmul;
    *matmul = NULL;
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

static void load_panel(const zr__matmul *mm, panel *p, const uint16_t *matrix, zr__strides at, int64_t row, int64_t col,
                       int64_t rows, int64_t cols)
{
    if (p->row == row && p->col == col) return;
    p->row = row;
    p->col = col;
    const uint16_t *block = matrix + row * at.row + col * at.col;
    if (at.col == 1) {
        p->at = (zr__strides){cols, 1};
        mm->panel->widen(mm->spec.threads, p->data, block, mm->spec.dtype, rows, cols, at.row);
    } else {
        p->at = (zr__strides){1, rows};
        mm->panel->widen(mm->spec.threads, p->data, block, mm->spec.dtype, cols, rows, at.col);
    }
}

/* One block of C: its terms are added in F32 in order of k, then rounded once. */
static zr_status run_block(const zr__matmul *mm, const zr__matmul_operands *o, panel *a, panel *b, float *c,
                           int64_t row, int64_t col)
{
    const zr__product_spec *s = &mm->spec;
    int64_t rows = min64(mm->m_block, s->m - row), cols = min64(mm->n_block, s->n - col), at = row * s->n + col;
    const float *earlier = s->accumulate ? o->c : s->earlier ? o->earlier : NULL;
    const uint16_t *bias = s->bias ? (const uint16_t *)o->bias + col : NULL;
    mm->panel->begin(s->threads, c, earlier ? earlier + at : NULL, bias, s->dtype, rows, cols, s->n);
    for (int64_t k = 0; k < s->k; k += mm->k_block) {
        int64_t depth = min64(mm->k_block, s->k - k);
        load_panel(mm, a, o->a, s->a, row, k, rows, depth);
        load_panel(mm, b, o->b, s->b, k, col, depth, cols);
        ZR_TRY(zr__product_add(s->threads, rows, cols, depth, a->data, a->at, b->data, b->at, c));
    }
    void *out = (char *)o->c + at * zr_dtype_bytes(s->out_dtype);
    mm->panel->store(s->threads, out, s->out_dtype, c, rows, cols, s->n);
    return ZR_OK;
}

static zr_status run_panels(const zr__matmul *mm, const zr__matmul_operands *o)
{
    const int64_t elems = ZR__PANEL_BYTES / (int64_t)sizeof(float);
    panel a = {o->panels, -1, -1, {0, 0}}, b = {a.data + elems, -1, -1, {0, 0}};
    float *c = b.data + elems;
    for (int64_t col = 0; col < mm->spec.n; col += mm->n_block)
        for (int64_t row = 0; row < mm->spec.m; row += mm->m_block) ZR_TRY(run_block(mm, o, &a, &b, c, row, col));
    return ZR_OK;
}

static zr_status run_products(const zr__matmul *mm, const zr__matmul_operands *o)
{
    const zr__product_spec *s = &mm->spec;
    const int64_t each = zr_dtype_bytes(s->dtype), out_each = zr_dtype_bytes(s->out_dtype);
    const char *b = o->b, *bias = s->bias ? o->bias : NULL;
    const float *earlier = s->earlier ? o->earlier : NULL;
    for (int64_t col = 0; col < s->n; col += mm->n_block)
        ZR_TRY(zr__product_run(s->n - col < mm->n_block ? mm->rest : mm->product, o->a, b + col * s->b.col * each,
                               bias ? bias + col * each : NULL, earlier ? earlier + col : NULL,
                               (char *)o->c + col * out_each));
    return ZR_OK;
}

zr_status zr__matmul_run(const zr__matmul *mm, const zr__matmul_operands *operands)
{
    return mm->product ? run_products(mm, operands) : run_panels(mm, operands);
}
