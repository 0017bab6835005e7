#include "device/cpu/matmul.h"

#include "base/core/scope.h"
#include "device/cpu/shared/product_blocks.h"

struct zr__matmul {
    zr__product_spec spec;
    zr__product *product; /* oneDNN's product; NULL if zr's own code for this level multiplies */
    const zr__panel_ops *level;
};

int64_t zr__matmul_scratch(const zr_device_facts *facts, int64_t m, int64_t n, int64_t k, zr_dtype dtype,
                           zr_dtype out_dtype)
{
    const bool library = dtype == ZR_BF16 && facts->bf16_products && !facts->tiles;
    if (library || facts->panel_bytes == 0) return 0;
    const zr__product_shape shape = {m, n, k, dtype, out_dtype, facts->tiles};
    return zr__product_layout_make(shape, facts->threads, facts->panel_bytes).bytes;
}

zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *level, zr__matmul **matmul)
{
    ZR_AUTO(zr__matmul_destroy) zr__matmul *mm = zr_alloc(sizeof *mm);
    ZR_CHECK(mm, ZR_ERR_MEMORY, "no memory for a matrix product's %zu bytes", sizeof *mm);
    mm->spec = *spec;
    mm->level = level;
    if (spec->dtype == ZR_BF16 && level->bf16_products && !level->tiles) ZR_TRY(zr__product_create(spec, &mm->product));
    *matmul = ZR_TAKE(mm);
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
