/* Helpers for kernels that process rows in pieces of ZR_CHUNK elements. zr__view reads operands, zr__target returns the
 * address at which results are computed, and zr__settle stores the results. A kernel may work in place: an element of
 * the output may overlap the operand elements from which it is computed. ZR_STREAM_LOOP declares that there is no other
 * overlap, so that the compiler can vectorise the loop. */
#ifndef ZR_DEVICE_CPU_ROWS_H
#define ZR_DEVICE_CPU_ROWS_H

#include "device/cpu/shared/stream.h"

/* Return the address of n elements of an array from `first` on, as fp32. The elements of an F32 array are used in
 * place. Other elements are widened into `buffer`. */
static inline const float *zr__view(float *buffer, const void *in, zr_dtype dtype, int64_t first, int64_t n)
{
    if (dtype == ZR_F32) return (const float *)in + first;
    zr__widen(buffer, (const uint16_t *)in + first, dtype, n);
    return buffer;
}

/* Return the address at which results from element `first` on are computed: in the array itself if it is F32, else
 * `buffer`. */
static inline float *zr__target(float *buffer, void *out, zr_dtype dtype, int64_t first)
{
    return dtype == ZR_F32 ? (float *)out + first : buffer;
}

/* Round the results in a buffer, and store them in the array. Do nothing for an F32 array, which already has its
 * results. */
static inline void zr__settle(void *out, zr_dtype dtype, int64_t first, const float *made, int64_t n)
{
    if (dtype != ZR_F32) zr__round((uint16_t *)out + first, dtype, made, n);
}

/* Compute y = a + b. y may share the memory of a or b. */
static inline void zr__rows_add(float *y, const float *a, const float *b, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

/* Compute out[to + i] = a[at + i] + b[from + i] for n elements. out may share the memory of a or b. */
static inline void zr__add_elems(const zr_tensor *out, int64_t to, const zr_tensor *a, int64_t at, const zr_tensor *b,
                                 int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i += ZR_CHUNK) {
        float abuf[ZR_CHUNK], bbuf[ZR_CHUNK], ybuf[ZR_CHUNK], *y = zr__target(ybuf, out->data, out->dtype, to + i);
        const int64_t part = zr__min64(ZR_CHUNK, n - i);
        const float *u = zr__view(abuf, a->data, a->dtype, at + i, part);
        zr__rows_add(y, u, zr__view(bbuf, b->data, b->dtype, from + i, part), part);
        zr__settle(out->data, out->dtype, to + i, y, part);
    }
}

/* Return the number of threads for `elems` elements: one for each 8192 elements, up to args->threads. */
static inline int zr__team(const zr_kernel_args *args, int64_t elems)
{
    const int64_t share = 8192;
    int64_t wanted = (elems + share - 1) / share;
    return (int)(wanted < 1 ? 1 : zr__min64(wanted, args->threads));
}

/* Return the mean of row `row` of x (rows, C). */
static inline float zr__row_mean(const zr_tensor *x, int64_t row, int64_t C)
{
    float buffer[ZR_CHUNK], sum = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        sum += zr__sum(zr__view(buffer, x->data, x->dtype, row * C + c0, n), n);
    }
    return sum / (float)C;
}

/* Add n elements of x from `first` on to acc. */
static inline void zr__add_to(float *restrict acc, const zr_tensor *x, int64_t first, int64_t n)
{
    float buffer[ZR_CHUNK];
    for (int64_t i = 0; i < n; i += ZR_CHUNK) {
        const int64_t part = zr__min64(ZR_CHUNK, n - i);
        const float *v = zr__view(buffer, x->data, x->dtype, first + i, part);
        for (int64_t k = 0; k < part; k++) acc[i + k] += v[k];
    }
}

/* Check that all ids are in [low, V). `what` names an id in the message. */
static inline zr_status zr__check_ids(const char *what, const zr_tensor *ids, int32_t low, int64_t V)
{
    const int64_t n = zr_shape_elems(&ids->shape), T = zr_shape_cols(&ids->shape);
    const int32_t *id = ids->data;
    for (int64_t i = 0; i < n; i++)
        ZR_CHECK(id[i] >= low && id[i] < V, ZR_ERR_DATA,
                 "%s %d at row %lld, position %lld is outside the vocabulary of %lld: check the data's tokenizer", what,
                 id[i], (long long)(i / T), (long long)(i % T), (long long)V);
    return ZR_OK;
}

#endif
