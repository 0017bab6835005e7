/* cross_entropy and cross_entropy_dx. */
#include "device/cuda/cross_entropy_rows.h"
#include "device/cuda/indices.h"

namespace
{

zr__loss_rows rows_of(const zr_tensor *logits, const zr_tensor *targets)
{
    zr__loss_rows r = {};
    r.logits = logits->data;
    r.ld = r.V = r.width = zr_shape_cols(&logits->shape);
    r.target = (const int32_t *)targets->data;
    return r;
}

zr_status cross_entropy(const zr_kernel_args *args)
{
    const zr_tensor *logits = &args->in[0], *targets = &args->in[1];
    zr__loss_rows r = rows_of(logits, targets);
    r.losses = (float *)args->out[0].data;
    r.lses = (float *)args->out[1].data;
    ZR_TRY(zr__check_indices(args, targets, "target", INT32_MIN, r.V));
    return zr__loss_launch<true, false>(zr__stream_of(args), logits->dtype, zr_shape_rows(&logits->shape), r);
}

zr_status cross_entropy_dx(const zr_kernel_args *args)
{
    const zr_tensor *logits = &args->in[1], *targets = &args->in[2];
    zr__loss_rows r = rows_of(logits, targets);
    r.dlosses = (const float *)args->in[0].data;
    r.lse = (const float *)args->in[3].data;
    r.dlogits = args->out[0].data;
    ZR_TRY(zr__check_indices(args, targets, "target", INT32_MIN, r.V));
    return zr__loss_launch<false, true>(zr__stream_of(args), logits->dtype, zr_shape_rows(&logits->shape), r);
}

} // namespace

ZR_CUDA_KERNELS(cross_entropy) = {
    zr__kernel("cross_entropy", cross_entropy),
    zr__kernel("cross_entropy_dx", cross_entropy_dx),
    {},
};
