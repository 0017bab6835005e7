/** Logits of any type of floating-point numbers. */
#ifndef ZR_TRAIN_LOGITS_H
#define ZR_TRAIN_LOGITS_H

#include "zr/tensor.h"

/** Return element i of a tensor. */
static inline float zr__number_at(const zr_tensor *tensor, int64_t i)
{
    const uint16_t *half = (const uint16_t *)tensor->data;
    if (tensor->dtype == ZR_BF16) return zr_f32_from_bf16(half[i]);
    if (tensor->dtype == ZR_F16) return zr_f32_from_f16(half[i]);
    return ((const float *)tensor->data)[i];
}

#endif
