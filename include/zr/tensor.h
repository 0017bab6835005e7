/**
 * tensor: types, shapes and tensors. A tensor does not own its memory. It is a pointer with a type and a shape.
 * Elements are row-major and contiguous.
 */
#ifndef ZR_TENSOR_H
#define ZR_TENSOR_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** List of types: name, bytes per record, elements per record. A record is the smallest unit that is stored or sent.
 *
 * The types after I32 have records of 128 or 256 elements (zr_dtype_is_record): a scale in bf16, then a code for each
 * element in 8 or 4 bits. An element's value is its code times the scale. Codes are integers from -127 to 127 (I8) or
 * from -7 to 7 (I4), or floating-point numbers of 8 bits (E4M3, E5M2). H4 is I4 for each 128 elements after a rotation
 * by a Hadamard matrix, which spreads large elements, so that the error is smaller if few elements are large. The
 * elements of a record begin at a multiple of their number. If any is infinite or NaN, the scale is NaN, and so are all
 * values of the record. Records are aligned to 2 bytes. Gradients and parameters are exchanged in these types, but no
 * value of a graph and no file has them. */
#define ZR_DTYPE_LIST(X)                                                                                               \
    X(F32, "F32", 4, 1)                                                                                                \
    X(BF16, "BF16", 2, 1)                                                                                              \
    X(F16, "F16", 2, 1)                                                                                                \
    X(I32, "I32", 4, 1)                                                                                                \
    X(I8X128, "I8X128", 130, 128)                                                                                      \
    X(I8X256, "I8X256", 258, 256)                                                                                      \
    X(I4X128, "I4X128", 66, 128)                                                                                       \
    X(I4X256, "I4X256", 130, 256)                                                                                      \
    X(E4M3X128, "E4M3X128", 130, 128)                                                                                  \
    X(E4M3X256, "E4M3X256", 258, 256)                                                                                  \
    X(E5M2X128, "E5M2X128", 130, 128)                                                                                  \
    X(E5M2X256, "E5M2X256", 258, 256)                                                                                  \
    X(H4X128, "H4X128", 66, 128)                                                                                       \
    X(H4X256, "H4X256", 130, 256)

typedef enum zr_dtype {
#define ZR_DTYPE_ENUM(name, text, bytes, elems) ZR_##name,
    ZR_DTYPE_LIST(ZR_DTYPE_ENUM)
#undef ZR_DTYPE_ENUM
        ZR_DTYPES
} zr_dtype;

/** Return the type's name as in safetensors files, such as "F32". */
ZR_API const char *zr_dtype_name(zr_dtype dtype);
/** Return the number of bytes of a record, which is one element unless zr_dtype_is_record. */
ZR_API int64_t zr_dtype_bytes(zr_dtype dtype);
/** Return the number of bytes of n elements, rounded up to whole records. */
ZR_API int64_t zr_dtype_span(zr_dtype dtype, int64_t n);
/** Return whether the type is F32, BF16 or F16. Parameters, activations and gradients may have only these types. */
ZR_API bool zr_dtype_is_float(zr_dtype dtype);
/** Return whether a record of the type has several elements, which share a scale. */
ZR_API bool zr_dtype_is_record(zr_dtype dtype);

#define ZR_MAX_DIMS 4
typedef struct zr_shape {
    int ndim;
    int64_t dim[ZR_MAX_DIMS];
} zr_shape;
/** Make a shape from its dimensions: ZR_SHAPE(B, T, C). */
#define ZR_SHAPE(...) ((zr_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

/** Return the number of elements, that is, the product of the dimensions. It is 1 if ndim is 0. */
ZR_API int64_t zr_shape_elems(const zr_shape *shape);
/** Return the number of rows, that is, the product of all dimensions but the last. It is 1 if ndim < 2. */
ZR_API int64_t zr_shape_rows(const zr_shape *shape);
/** Return the number of columns, that is, the last dimension. It is 1 if ndim is 0. */
ZR_API int64_t zr_shape_cols(const zr_shape *shape);
ZR_API bool zr_shape_equal(const zr_shape *a, const zr_shape *b);
/** Write the shape to `text` in the form "(4, 32, 64)", truncated to `size` bytes. */
ZR_API void zr_shape_print(const zr_shape *shape, char *text, size_t size);

typedef struct zr_tensor {
    void *data; /* elements; NULL for an optional operand that is absent */
    zr_dtype dtype;
    zr_shape shape;
} zr_tensor;

/** Round fp32 to the nearest bf16, ties to even. NaN stays NaN. The function has no branches, so that compilers
 * vectorise loops over it. */
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

/** Round fp32 to the nearest fp16 (IEEE 754 binary16), ties to even. Magnitudes from 65520 on become infinity.
 * Magnitudes below 2^-14 become subnormal. NaN stays NaN. The bits are the same as from x86's VCVTPS2PH. Masks
 * replace branches, so that compilers vectorise loops over this function. */
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
    v.f += 0.5f; /* round to a multiple of 2^-24, which is the ulp of 0.5 and of fp16 subnormals */
    return (uint16_t)(sign | (tiny & (v.u - 0x3f000000u)) | (~tiny & normal));
}

/** Widen fp16 to fp32 exactly. A signalling NaN becomes a quiet NaN, as in x86's VCVTPH2PS. */
ZR_INLINE float zr_f32_from_f16(uint16_t x)
{
    union {
        uint32_t u;
        float f;
    } v = {0x3f000000u | (x & 0x3ffu)};
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = x & 0x7fffu, tiny = 0u - (uint32_t)(size < 0x400u);
    uint32_t normal = (size << 13) + (size < 0x7c00u ? 112u << 23 : 224u << 23);
    normal |= size > 0x7c00u ? 0x400000u : 0u;
    v.f -= 0.5f; /* the result is fraction * 2^-24, the value of a subnormal */
    v.u = sign | (tiny & v.u) | (~tiny & normal);
    return v.f;
}

#ifdef __cplusplus
}
#endif
#endif
