/**
 * tensor: dtype, shape and the view. A tensor owns nothing: it is a pointer with a type, row-major
 * and contiguous.
 */
#ifndef ZR_TENSOR_H
#define ZR_TENSOR_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_DTYPE_LIST(X)                                                                                               \
    X(F32, "F32", 4)                                                                                                   \
    X(BF16, "BF16", 2)                                                                                                 \
    X(F16, "F16", 2)                                                                                                   \
    X(I32, "I32", 4)

typedef enum zr_dtype {
#define ZR_DTYPE_ENUM(name, text, bytes) ZR_##name,
    ZR_DTYPE_LIST(ZR_DTYPE_ENUM)
#undef ZR_DTYPE_ENUM
        ZR_DTYPES
} zr_dtype;

/** "F32" ..., as safetensors spells it. */
ZR_API const char *zr_dtype_name(zr_dtype dtype);
/** Bytes of one element. */
ZR_API int64_t zr_dtype_bytes(zr_dtype dtype);

#define ZR_MAX_DIMS 4
typedef struct zr_shape {
    int ndim;
    int64_t dim[ZR_MAX_DIMS];
} zr_shape;

/** Product of the dimensions; 1 for ndim 0. */
ZR_API int64_t zr_shape_elems(const zr_shape *shape);
/** Product of all dimensions but the last; 1 for ndim < 2. */
ZR_API int64_t zr_shape_rows(const zr_shape *shape);
/** The last dimension; 1 for ndim 0. */
ZR_API int64_t zr_shape_cols(const zr_shape *shape);
ZR_API bool zr_shape_equal(const zr_shape *a, const zr_shape *b);
/** "(4, 32, 64)" into text, cut to size. */
ZR_API void zr_shape_print(const zr_shape *shape, char *text, size_t size);

typedef struct zr_tensor {
    void *data; /* NULL: an optional operand that is absent */
    zr_dtype dtype;
    zr_shape shape;
} zr_tensor;

/** fp32 to bf16, round to nearest even; NaN stays NaN. */
static inline uint16_t zr_bf16_from_f32(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    if ((v.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((v.u >> 16) | 0x40u);
    return (uint16_t)((v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16);
}

static inline float zr_f32_from_bf16(uint16_t x)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)x << 16};
    return v.f;
}

#ifdef __cplusplus
}
#endif
#endif
