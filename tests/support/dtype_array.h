/* Access to single elements of arrays of any floating-point type. */
#ifndef ZR_TESTS_DTYPE_ARRAY_H
#define ZR_TESTS_DTYPE_ARRAY_H

#include "zr/tensor.h"

/* All floating-point types. */
static const zr_dtype dtypes[] = {ZR_F32, ZR_BF16, ZR_F16};
#define N_DTYPES (int)(sizeof dtypes / sizeof *dtypes)

static inline double array_get(const void *x, zr_dtype dtype, int64_t i)
{
    if (dtype == ZR_BF16) return zr_f32_from_bf16(((const uint16_t *)x)[i]);
    if (dtype == ZR_F16) return zr_f32_from_f16(((const uint16_t *)x)[i]);
    return ((const float *)x)[i];
}

static inline void array_set(void *x, zr_dtype dtype, int64_t i, double value)
{
    if (dtype == ZR_BF16)
        ((uint16_t *)x)[i] = zr_bf16_from_f32((float)value);
    else if (dtype == ZR_F16)
        ((uint16_t *)x)[i] = zr_f16_from_f32((float)value);
    else
        ((float *)x)[i] = (float)value;
}

#endif
