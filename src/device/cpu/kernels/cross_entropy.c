/* Ops cross_entropy and place_cross_entropy with their gradients (_dx). */
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

/* ---- places ------------------------------------------------------------------------------------ */

/* Operands of place_cross_entropy or place_cross_entropy_dx: logits (B,T,K), targets (B,S,K), documents (B,T). */
typedef struct places {
    const zr_tensor *logits;
    const int32_t *target, *documents; /* documents may be NULL */
    int64_t B, S, T, K;
} places;

/* Set *p to the operands from number `first` on. `documents` is the index of the operand with the documents, which may
 * be absent. Fail if a target is beyond its row. */
static zr_status places_of(const zr_kernel_args *args, int first, int documents, places *p)
{
    const zr_tensor *logits = &args->in[first], *targets = &args->in[first + 1];
    *p = (places){.logits = logits,
                  .target = targets->data,
                  .documents = args->n_in > documents ? args->in[documents].data : NULL,
                  .B = logits->shape.dim[0],
                  .S = targets->shape.dim[1],
                  .T = logits->shape.dim[1],
                  .K = logits->shape.dim[2]};
    for (int64_t i = 0; i < p->B * p->S * p->K; i++)
        ZR_CHECK(p->target[i] < p->T, ZR_ERR_DATA, "target %d of sample %lld in row %lld is outside the row of %lld",
                 p->target[i], (long long)(i / p->K % p->S), (long long)(i / p->K / p->S), (long long)p->T);
    return ZR_OK;
}

/* Return logit k of token t of row b. */
static float place_logit(const places *p, int64_t b, int64_t t, int64_t k)
{
    float x;
    zr__load(&x, p->logits->data, p->logits->dtype, (b * p->T + t) * p->K + k, 1);
    return x;
}

/* Return whether tokens t and u of row b are in one document. */
static bool share_document(const places *p, int64_t b, int64_t t, int64_t u)
{
    return !p->documents || p->documents[b * p->T + t] == p->documents[b * p->T + u];
}

static zr_status place_cross_entropy(const zr_kernel_args *args)
{
    places p;
    float *losses = args->out[0].data, *lses = args->out[1].data;
    ZR_TRY(places_of(args, 0, 2, &p));
#pragma omp parallel for num_threads(zr__team(args, p.B *p.S *p.K *p.T)) schedule(static)
    for (int64_t i = 0; i < p.B * p.S * p.K; i++) {
        const int64_t b = i / p.K / p.S, k = i % p.K, target = p.target[i];
        double largest = -FLT_MAX, sum = 0.0;
        losses[i] = lses[i] = 0.0f;
        if (target < 0) continue;
        for (int64_t t = 0; t < p.T; t++)
            if (share_document(&p, b, t, target) && !(place_logit(&p, b, t, k) <= largest))
                largest = place_logit(&p, b, t, k);
        for (int64_t t = 0; t < p.T; t++)
            if (share_document(&p, b, t, target)) sum += exp(place_logit(&p, b, t, k) - largest);
        lses[i] = (float)(largest + log(sum));
        losses[i] = (float)(largest - place_logit(&p, b, target, k) + log(sum));
    }
    return ZR_OK;
}

static zr_status place_cross_entropy_dx(const zr_kernel_args *args)
{
    places p;
    const float *dlosses = args->in[0].data, *lses = args->in[3].data;
    const int64_t own = args->op->attr.i[0], first = own * args->runtime->place;
    ZR_TRY(places_of(args, 1, 4, &p));
#pragma omp parallel for num_threads(zr__team(args, p.B *p.T *p.K *p.S)) schedule(static)
    for (int64_t i = 0; i < p.B * p.T * p.K; i++) {
        const int64_t row = i / p.K, b = row / p.T, t = row % p.T, k = i % p.K;
        const bool mine = own == 0 || (row >= first && row < first + own);
        float dx = 0.0f;
        for (int64_t s = 0; mine && s < p.S; s++) {
            const int64_t at = (b * p.S + s) * p.K + k, target = p.target[at];
            if (target < 0 || !share_document(&p, b, t, target)) continue;
            const double share = exp((double)place_logit(&p, b, t, k) - lses[at]);
            dx += dlosses[at] * (float)(share - (t == target));
        }
        zr__store(args->out[0].data, args->out[0].dtype, i, &dx, 1);
    }
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_cross_entropy)[] = {
    {"cross_entropy", .run = cross_entropy},
    {"cross_entropy_dx", .run = cross_entropy_dx},
    {"place_cross_entropy", .run = place_cross_entropy},
    {"place_cross_entropy_dx", .run = place_cross_entropy_dx},
    {0},
};
