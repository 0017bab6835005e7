/* Types, shapes and views. */
#include "tensor/tensor.h"

#include "base/core/names.h"

#include <inttypes.h>
#include <stdio.h>

const char *zr_dtype_name(zr_dtype dtype)
{
    ZR__NAME_IN(ZR_DTYPE_LIST, ZR_DTYPES, dtype, "unknown");
}

/* Storage unit of a dtype: `bytes` bytes hold `elems` elements. An unknown dtype has 0 bytes. */
typedef struct record {
    int64_t bytes, elems;
} record;

static record record_of(zr_dtype dtype)
{
#define DTYPE_RECORD(id, text, bytes, elems) {bytes, elems},
    static const record records[] = {ZR_DTYPE_LIST(DTYPE_RECORD)};
#undef DTYPE_RECORD
    return (unsigned)dtype < ZR_DTYPES ? records[dtype] : (record){0, 1};
}

int64_t zr_dtype_bytes(zr_dtype dtype)
{
    return record_of(dtype).bytes;
}

int64_t zr__dtype_grain(zr_dtype dtype)
{
    return record_of(dtype).elems;
}

int64_t zr_dtype_span(zr_dtype dtype, int64_t n)
{
    const record its = record_of(dtype);
    return its.elems == 1 ? n * its.bytes : (n + its.elems - 1) / its.elems * its.bytes;
}

const char *const zr__record_codes_names[ZR_RECORD_CODES] = {"int8", "int4", "fp8_e4m3", "fp8_e5m2", "int4_hadamard"};

bool zr_dtype_is_float(zr_dtype dtype)
{
    return dtype == ZR_F32 || dtype == ZR_BF16 || dtype == ZR_F16;
}

bool zr_dtype_is_record(zr_dtype dtype)
{
    return zr__dtype_grain(dtype) > 1;
}

int64_t zr_shape_elems(const zr_shape *shape)
{
    return zr_shape_rows(shape) * zr_shape_cols(shape);
}

int64_t zr_shape_rows(const zr_shape *shape)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape->ndim; i++) rows *= shape->dim[i];
    return rows;
}

int64_t zr_shape_cols(const zr_shape *shape)
{
    return shape->ndim > 0 ? shape->dim[shape->ndim - 1] : 1;
}

bool zr_shape_equal(const zr_shape *a, const zr_shape *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

void zr_shape_print(const zr_shape *shape, char *text, size_t size)
{
    char whole[ZR_MAX_DIMS * 24 + 4];
    int used = snprintf(whole, sizeof(whole), "(");
    for (int i = 0; i < shape->ndim; i++)
        used += snprintf(whole + used, sizeof(whole) - (size_t)used, "%s%" PRId64, i ? ", " : "", shape->dim[i]);
    snprintf(whole + used, sizeof(whole) - (size_t)used, ")");
    snprintf(text, size, "%s", whole);
}
