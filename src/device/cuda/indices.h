/*
 * Checks of an operand's indices into a table. The checks run on the GPU before the indices are used. An index outside
 * the table is reported when the host next waits. Until then, kernels ignore the index.
 */
#ifndef ZR_DEVICE_CUDA_INDICES_H
#define ZR_DEVICE_CUDA_INDICES_H

#include "device/cuda/launch.h"

struct zr__least {
    __device__ int64_t operator()(int64_t a, int64_t b) const
    {
        return a < b ? a : b;
    }
};

namespace
{

/* Find the first index outside [low, found.end), by one block of threads. If *first already has a result, keep that
 * result. */
__global__ void zr__find_outside(const int32_t *index, int64_t n, int32_t low, zr__cuda_outside found,
                                 zr__cuda_outside *first)
{
    int64_t at = INT64_MAX;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        if ((index[i] < low || index[i] >= found.end) && i < at) at = i;
    at = zr__block_all(at, zr__least(), (int64_t)INT64_MAX);
    if (threadIdx.x != 0 || at == INT64_MAX || first->what) return;
    found.at = at;
    found.index = index[at];
    *first = found;
}

} // namespace

/* Check that the indices are in [low, end). If an index is not, the next `finish` fails with ZR_ERR_DATA. `what` names
 * the indices in the message; it must be constant text. `in_row` says whether they are indices of tokens in a row of
 * the batch, and not token ids. */
static inline zr_status zr__check_indices(const zr_kernel_args *args, const zr_tensor *indices, const char *what,
                                          int32_t low, int64_t end, bool in_row = false)
{
    const int64_t n = zr_shape_elems(&indices->shape);
    const zr__cuda_outside found = {
        .what = what, .at = 0, .cols = zr_shape_cols(&indices->shape), .end = end, .index = 0, .in_row = in_row};
    const unsigned threads = n < 1024 ? (unsigned)(zr__ceil_div(n, ZR__WARP) * ZR__WARP) : 1024;
    ZR_LAUNCH(zr__stream_of(args), zr__find_outside, 1, threads, 0, (const int32_t *)indices->data, n, low, found,
              zr__cuda(args->device)->outside);
    return zr__launched();
}

#endif
