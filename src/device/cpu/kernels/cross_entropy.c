/* cross_entropy, cross_entropy_dx. */
#include <float.h>
#include <math.h>

#include "device/cpu/rows.h"

static zr_status check_targets(const zr_tensor *targets, int64_t V)
{
    const int64_t T = zr_shape_cols(&targets->shape);
    const int32_t *target = targets->data;
    int64_t bad = zr__first_outside(target, zr_shape_elems(&targets->shape), INT32_MIN, V);
    ZR_CHECK(bad < 0, ZR_ERR_DATA,
             "target %d at row %lld, position %lld is outside the vocabulary of %lld: check the data's tokenizer",
             target[bad], (long long)(bad / T), (long long)(bad % T), (long long)V);
    return ZR_OK;
}

/* One pass over a row: the largest logit and the sum of exp(logit - largest). The maximum starts at
 * the lowest finite number, so that masked logits (-inf) never meet -inf - -inf. */
static void row_softmax(const zr_tensor *logits, int64_t row, int64_t V, float *largest, float *total)
{
    float buffer[ZR_CHUNK], e[ZR_CHUNK];
    float max = -FLT_MAX, sum = 0.0f;
    for (int64_t v0 = 0; v0 < V; v0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, V - v0);
        const float *x = zr__view(buffer, logits->data, logits->dtype, row * V + v0, n);
        float here = zr__max(x, n);
        if (!(here <= max)) {
            sum *= zr__expf(max - here);
            max = here;
        }
        for (int64_t i = 0; i < n; i++) e[i] = zr__expf(x[i] - max);
        sum += zr__sum(e, n);
    }
    *largest = max;
    *total = sum;
}

static float logit_at(const zr_tensor *logits, int64_t i)
{
    float x;
    zr__load(&x, logits->data, logits->dtype, i, 1);
    return x;
}

static zr_status cross_entropy(const zr_kernel_args *args)
{
    const zr_tensor *logits = &args->in[0], *targets = &args->in[1];
    const int64_t rows = zr_shape_rows(&logits->shape), V = zr_shape_cols(&logits->shape);
    const int32_t *target = targets->data;
    float *losses = args->out[0].data, *lses = args->out[1].data;
    ZR_TRY(check_targets(targets, V));
#pragma omp parallel for num_threads(zr__team(args, rows *V)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float max, sum;
        row_softmax(logits, r, V, &max, &sum);
        double tail = log((double)sum);
        lses[r] = (float)((double)max + tail);
        /* Not from lse, whose rounding grows with the logits. */
        losses[r] = target[r] < 0 ? 0.0f : (float)((double)max - (double)logit_at(logits, r * V + target[r]) + tail);
    }
    return ZR_OK;
}

static void row_dx(const zr_kernel_args *args, int64_t row, int64_t V)
{
    const zr_tensor *logits = &args->in[1], *out = &args->out[0];
    const float dloss = ((const float *)args->in[0].data)[row], lse = ((const float *)args->in[3].data)[row];
    const int32_t target = ((const int32_t *)args->in[2].data)[row];
    float buffer[ZR_CHUNK], dx[ZR_CHUNK];
    if (target < 0) {
        size_t bytes = (size_t)zr_dtype_bytes(out->dtype);
        memset((char *)out->data + (size_t)(row * V) * bytes, 0, (size_t)V * bytes);
        return;
    }
    for (int64_t v0 = 0; v0 < V; v0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, V - v0);
        const float *x = zr__view(buffer, logits->data, logits->dtype, row * V + v0, n);
        for (int64_t i = 0; i < n; i++) dx[i] = dloss * zr__expf(x[i] - lse);
        /* The target's share exactly once, before rounding to the output's dtype. */
        if (target >= v0 && target < v0 + n) dx[target - v0] = dloss * (zr__expf(x[target - v0] - lse) - 1.0f);
        zr__store(out->data, out->dtype, row * V + v0, dx, n);
    }
}

static zr_status cross_entropy_dx(const zr_kernel_args *args)
{
    const int64_t rows = zr_shape_rows(&args->in[1].shape), V = zr_shape_cols(&args->in[1].shape);
    ZR_TRY(check_targets(&args->in[2], V));
#pragma omp parallel for num_threads(zr__team(args, rows *V)) schedule(static)
    for (int64_t r = 0; r < rows; r++) row_dx(args, r, V);
    return ZR_OK;
}

extern const zr_kernel ZR_LEVEL_NAME(zr__kernels_cross_entropy)[];
const zr_kernel ZR_LEVEL_NAME(zr__kernels_cross_entropy)[] = {
    {"cross_entropy", NULL, cross_entropy, NULL},
    {"cross_entropy_dx", NULL, cross_entropy_dx, NULL},
    {NULL, NULL, NULL, NULL},
};
