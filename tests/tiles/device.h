/* A device whose kernels multiply on tiles in plain C (tiles/amx.h). A test that includes this file has a line //TILES,
 * which makes the Makefile link those kernels. */
#ifndef ZR_TESTS_TILES_DEVICE_H
#define ZR_TESTS_TILES_DEVICE_H

#include "device/cpu/cpu.h"
#include "device/cpu/matmul.h"
#include "zr/device.h"

#ifdef ZR_TILES
extern const zr_kernel zr__kernels_attention_v4tiles[], zr__kernels_linear_v4tiles[];
extern const zr__panel_ops zr__panels_v4tiles;

/* Return the device, or NULL if this processor lacks v4. Kernels without matrix products are v4's. */
static inline zr_device *tiles_device(int threads)
{
    static zr_kernel kernel[32];
    static const zr_kernel *const family[] = {zr__kernels_attention_v4tiles, zr__kernels_linear_v4tiles};
    const zr_device_config config = {.threads = threads, .kernels = kernel};
    zr_device *device = NULL;
    int n = 0;
    if (!zr__cpu_has("v4")) return NULL;
    for (int f = 0; f < 2; f++)
        for (const zr_kernel *k = family[f]; k->op; k++) kernel[n++] = *k;
    assert_in_range(n, 2, 31);
    assert_int_equal(zr__device_create_cpu_level(&config, "v4", &device), ZR_OK);
    zr_device_facts *facts = &device->profile.facts;
    facts->bf16_products = facts->tiles = facts->narrow_attention = true;
    return device;
}

/* Return the products, or NULL if this processor lacks v4. */
static inline const zr__panel_ops *tiles_panels(void)
{
    return zr__cpu_has("v4") ? &zr__panels_v4tiles : NULL;
}
#else
static inline zr_device *tiles_device(int threads)
{
    (void)threads;
    return NULL;
}

static inline const zr__panel_ops *tiles_panels(void)
{
    return NULL;
}
#endif

#endif
