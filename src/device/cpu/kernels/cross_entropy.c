#include "device/cpu/shared/cross_entropy_rows.h"

static zr_status cross_entropy(const zr_kernel_args *args)
{
    const zr_tensor *logits = &args->in[0], *targets = &args->in[1];
    const int64_t rows = zr_shape_rows(&logits->shape), V = zr_shape_cols(&logits->shape);
    const int32_t *target = targets->data;
    float *losses = args->out[0].data, *lses = args->out[1].data;
    ZR_TRY(zr__check_ids("target", targets, INT32_MIN, V));
#pragma omp parallel for num_threads(zr__team(args, rows *V)) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        losses[r] = zr__row_loss(logits->data, logits->dtype, r * V, V, target[r], &lses[r]);
    return ZR_OK;
}

static zr_status cross_entropy_dx(const zr_kernel_args *args)
{
    const zr_tensor *logits = &args->in[1];
    const int64_t rows = zr_shape_rows(&logits->shape), V = zr_shape_cols(&logits->shape);
    const float *dlosses = args->in[0].data, *lses = args->in[3].data;
    const int32_t *target = args->in[2].data;
    ZR_TRY(zr__check_ids("target", &args->in[2], INT32_MIN, V));
#pragma omp parallel for num_threads(zr__team(args, rows *V)) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        zr__row_dlogits(args->out[0].data, logits->data, logits->dtype, r * V, V, target[r], dlosses[r], lses[r]);
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_cross_entropy)[] = {
    {"cross_entropy", .run = cross_entropy},
    {"cross_entropy_dx", .run = cross_entropy_dx},
    {0},
};
