#include "device/cpu/matmul.h"

struct zr__matmul {
    zr__product_spec spec;
    zr__product *product; /* the library's; NULL: the level's */
    const zr__panel_ops *level;
};

zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *level, zr__matmul **matmul)
{
    zr__matmul *mm = zr_alloc(sizeof *mm);
    ZR_CHECK(mm, ZR_ERR_MEMORY, "no memory for a matrix product's %zu bytes", sizeof *mm);
    mm->spec = *spec;
    mm->level = level;
    zr_status status = ZR_OK;
    if (spec->dtype == ZR_BF16 && level->bf16_products) status = zr__product_create(spec, &mm->product);
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
    zr_free(mm);
}

zr_status zr__matmul_run(const zr__matmul *mm, const zr__matmul_operands *o)
{
    if (mm->product) return zr__product_run(mm->product, o->a, o->b, o->bias, o->earlier, o->c);
    mm->level->multiply(&mm->spec, o);
    return ZR_OK;
}
