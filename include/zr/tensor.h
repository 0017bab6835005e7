/**
 * tensor: types, shapes and tensors. A tensor owns nothing: it is a pointer with a type and a shape, row-major and
 * contiguous.
 */
#ifndef ZR_TENSOR_H
#define ZR_TENSOR_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** List of types: name, bytes per record, elements per record. A record is stored and sent as a whole. */
#define ZR_DTYPE_LIST(X)                                                                                               \
    X(F32, "F32", 4, 1)                                                                                                \
    X(BF16, "BF16", 2, 1)                                                                                              \
    X(F16, "F16", 2, 1)                                                                                                \
    X(I32, "I32", 4, 1)

typedef enum zr_dtype {
#define ZR_DTYPE_ENUM(name, text, bytes, elems) ZR_##name,
    ZR_DTYPE_LIST(ZR_DTYPE_ENUM)
#undef ZR_DTYPE_ENUM
        ZR_DTYPES
} zr_dtype;

/** Return the name as spelled in safetensors files, such as "F32". */
ZR_API const char *zr_dtype_name(zr_dtype dtype);
/** Return the bytes of a record, which is one element in most types. */
ZR_API int64_t zr_dtype_bytes(zr_dtype dtype);
/** Return the number of elements in a record. */
ZR_API int64_t zr_dtype_grain(zr_dtype dtype);
/** Return the bytes of n elements, rounded up to whole records. */
ZR_API int64_t zr_dtype_span(zr_dtype dtype, int64_t n);
/** Return whether the type is F32, BF16 or F16, in which parameters, activations and gradients may be stored. */
ZR_API bool zr_dtype_is_float(zr_dtype dtype);

#define ZR_MAX_DIMS 4
typedef struct zr_shape {
    int ndim;
    int64_t dim[ZR_MAX_DIMS];
} zr_shape;

/** Return the product of the dimensions, or 1 if ndim is 0. */
ZR_API int64_t zr_shape_elems(const zr_shape *shape);
/** Return the product of all dimensions but the last, or 1 if ndim < 2. */
ZR_API int64_t zr_shape_rows(const zr_shape *shape);
/** Return the last dimension, or 1 if ndim is 0. */
ZR_API int64_t zr_shape_cols(const zr_shape *shape);
ZR_API bool zr_shape_equal(const zr_shape *a, const zr_shape *b);
/** Write the shape as "(4, 32, 64)" to text, truncated to `size`. */
ZR_API void zr_shape_print(const zr_shape *shape, char *text, size_t size);

typedef struct zr_tensor {
    void *data; /* NULL for an optional operand that is absent */
    zr_dtype dtype;
    zr_shape shape;
} zr_tensor;

/** Round fp32 to bf16, to nearest even; NaN stays NaN. There is no branch, so that loops over it vectorise. */
ZR_INLINE uint16_t zr_bf16_from_f32(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    uint32_t rounded = (v.u + 0x7fffu + (v.u >> 16 & 1u)) >> 16, nan = v.u >> 16 | 0x40u;
    return (uint16_t)((v.u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

ZR_INLINE float zr_f32_from_bf16(uint16_t x)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)x << 16};
    return v.f;
}

/** Round fp32 to fp16 (IEEE 754 binary16), to nearest even. Magnitudes from 65520 on become infinity, magnitudes below
 * 2^-14 become subnormal, and NaN stays NaN. The bits are those of x86's VCVTPS2PH. Masks replace branches, so that
 * loops over it vectorise. */
ZR_INLINE uint16_t zr_f16_from_f32(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    uint32_t sign = v.u >> 16 & 0x8000u, size = v.u & 0x7fffffffu, tiny = 0u - (uint32_t)(size < (113u << 23));
    uint32_t normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13, nan = 0x7e00u | (size >> 13 & 0x1ffu);
    normal = normal < 0x7c00u ? normal : 0x7c00u;
    normal = size > 0x7f800000u ? nan : normal;
    v.u = size;
    v.f += 0.5f; /* rounds to a multiple of 2^-24, which is the ulp of 0.5 and of fp16 subnormals */
    return (uint16_t)(sign | (tiny & (v.u - 0x3f000000u)) | (~tiny & normal));
}

/** Widen fp16 to fp32 exactly. A signalling NaN becomes a quiet one, as in x86's VCVTPH2PS. */
ZR_INLINE float zr_f32_from_f16(uint16_t x)
{
    union {
        uint32_t u;
        float f;
    } v = {0x3f000000u | (x & 0x3ffu)};
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = x & 0x7fffu, tiny = 0u - (uint32_t)(size < 0x400u);
    uint32_t normal = (size << 13) + (size < 0x7c00u ? 112u << 23 : 224u << 23);
    normal |= size > 0x7c00u ? 0x400000u : 0u;
    v.f -= 0.5f; /* leaves fraction * 2^-24, the value of a subnormal */
    v.u = sign | (tiny & v.u) | (~tiny & normal);
    return v.f;
}

#ifdef __cplusplus
}
#endif
#endif
