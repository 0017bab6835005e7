/* cross_entropy, place_cross_entropy, and their gradients. */
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

/* ---- places ------------------------------------------------------------------------------------ */

/* Operands of place_cross_entropy or place_cross_entropy_dx: logits (B,T,K), targets (B,S,K), documents (B,T). */
struct places {
    zr__array logits;
    const int32_t *target, *documents; /* documents may be nullptr */
    int64_t B, S, T, K;

    /* Return whether tokens t and u of row b are in one document. */
    __device__ bool share_document(int64_t b, int64_t t, int64_t u) const
    {
        return !documents || documents[b * T + t] == documents[b * T + u];
    }
    /* Return target i, or a negative number if it does not count or is beyond its row. */
    __device__ int64_t target_of(int64_t i) const
    {
        return target[i] < T ? target[i] : -1;
    }
};

/* Set *p to the operands from number `first` on. `documents` is the index of the operand with the documents, which may
 * be absent. */
zr_status places_of(const zr_kernel_args *args, int first, int documents, places *p)
{
    const zr_tensor *logits = &args->in[first], *targets = &args->in[first + 1];
    const int64_t *dim = logits->shape.dim;
    *p = {zr__array_of(logits),
          (const int32_t *)targets->data,
          args->n_in > documents ? (const int32_t *)args->in[documents].data : nullptr,
          dim[0],
          targets->shape.dim[1],
          dim[1],
          dim[2]};
    return zr__check_indices(args, targets, "target", INT32_MIN, p->T, true);
}

/* Compute the losses, each by one warp. */
__global__ void lose_places(places p, float *losses, float *lses)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    for (int64_t i = zr__first() / ZR__WARP; i < p.B * p.S * p.K; i += zr__step() / ZR__WARP) {
        const int64_t b = i / p.K / p.S, target = p.target_of(i), first = b * p.T * p.K + i % p.K;
        float largest = -FLT_MAX, sum = 0.0f;
        for (int64_t t = lane; target >= 0 && t < p.T; t += ZR__WARP)
            if (p.share_document(b, t, target)) largest = zr__larger()(zr__get(p.logits, first + t * p.K), largest);
        largest = zr__warp_all(largest, zr__larger());
        for (int64_t t = lane; target >= 0 && t < p.T; t += ZR__WARP)
            if (p.share_document(b, t, target)) sum += expf(zr__get(p.logits, first + t * p.K) - largest);
        const float tail = logf(zr__warp_all(sum, zr__plus()));
        if (lane > 0) continue;
        lses[i] = target < 0 ? 0.0f : largest + tail;
        losses[i] = target < 0 ? 0.0f : largest - zr__get(p.logits, first + target * p.K) + tail;
    }
}

zr_status place_cross_entropy(const zr_kernel_args *args)
{
    constexpr int threads = 4 * ZR__WARP;
    places p;
    ZR_TRY(places_of(args, 0, 2, &p));
    ZR_LAUNCH(zr__stream_of(args), lose_places, zr__blocks(p.B * p.S * p.K, threads / ZR__WARP), threads, 0, p,
              (float *)args->out[0].data, (float *)args->out[1].data);
    return zr__launched();
}

/* Functor that computes the gradient of each logit of the `own` tokens from `first` on, or of all tokens if `own` is 0.
 */
struct place_gradients {
    places p;
    const float *dlosses, *lses;
    zr__array dlogits;
    int64_t first, own;

    template <int V> __device__ void run(int64_t i) const
    {
        const int64_t row = i / p.K, b = row / p.T, t = row % p.T, k = i % p.K;
        const bool mine = own == 0 || (row >= first && row < first + own);
        float dx = 0.0f;
        for (int64_t s = 0; mine && s < p.S; s++) {
            const int64_t at = (b * p.S + s) * p.K + k, target = p.target_of(at);
            if (target < 0 || !p.share_document(b, t, target)) continue;
            dx += dlosses[at] * (expf(zr__get(p.logits, i) - lses[at]) - (t == target ? 1.0f : 0.0f));
        }
        zr__put(dlogits, i, dx);
    }
};

zr_status place_cross_entropy_dx(const zr_kernel_args *args)
{
    places p;
    const int64_t own = args->op->attr.i[0];
    ZR_TRY(places_of(args, 1, 4, &p));
    const place_gradients f = {p,
                               (const float *)args->in[0].data,
                               (const float *)args->in[3].data,
                               zr__array_of(&args->out[0]),
                               own * args->runtime->place,
                               own};
    return zr__each(zr__stream_of(args), p.B * p.T * p.K, false, f);
}

} // namespace

ZR_CUDA_KERNELS(cross_entropy) = {
    zr__kernel("cross_entropy", cross_entropy),
    zr__kernel("cross_entropy_dx", cross_entropy_dx),
    zr__kernel("place_cross_entropy", place_cross_entropy),
    zr__kernel("place_cross_entropy_dx", place_cross_entropy_dx),
    {},
};
