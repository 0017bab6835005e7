/** tensor: types of elements, shapes, and views of memory. zr/tensor.h declares most of this layer. */
#ifndef ZR_TENSOR_TENSOR_H
#define ZR_TENSOR_TENSOR_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Return the number of elements in a record. */
int64_t zr__dtype_grain(zr_dtype dtype);

/** Return the type with records of the same length in which the errors of records are kept (zr_feedback.error). */
static inline zr_dtype zr__error_dtype(zr_dtype records)
{
    return zr__dtype_grain(records) == 128 ? ZR_I8X128 : ZR_I8X256;
}

/** Return the index of a type's codes among the kinds that have rates (ZR_RECORD_CODES). The type has records. */
static inline int zr__record_codes_of(zr_dtype dtype)
{
    return ((int)dtype - (int)ZR_I8X128) / 2;
}

/** Names of the kinds of codes, as in the configuration's section quantization. */
extern const char *const zr__record_codes_names[ZR_RECORD_CODES];

/** Return element i of a tensor of the type F32, BF16 or F16. */
static inline float zr__number_at(const zr_tensor *tensor, int64_t i)
{
    const uint16_t *half = (const uint16_t *)tensor->data;
    if (tensor->dtype == ZR_BF16) return zr_f32_from_bf16(half[i]);
    if (tensor->dtype == ZR_F16) return zr_f32_from_f16(half[i]);
    return ((const float *)tensor->data)[i];
}

#ifdef __cplusplus
}
#endif
#endif
