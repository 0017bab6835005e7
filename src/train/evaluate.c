#include "train/evaluate.h"

typedef struct reader {
    zr_data *data;
    int64_t batch, seq, windows;
    zr__eval_part *part;
} reader;

static void pad(int32_t *tokens, int32_t *targets, int64_t seq)
{
    for (int64_t t = 0; t < seq; t++) {
        tokens[t] = 0;
        targets[t] = -1;
    }
}

static zr_status read_rows(void *arg, const zr_batch *batch, void *const *input)
{
    reader *r = arg;
    for (int64_t b = 0; b < r->batch; b++) {
        int32_t *tokens = (int32_t *)input[0] + b * r->seq, *targets = (int32_t *)input[1] + b * r->seq;
        int64_t window = batch->first_row + b;
        if (window < r->windows && r->part->data == ZR_OK) {
            r->part->data = zr_data_window(r->data, window, tokens, targets);
            if (r->part->data == ZR_OK) r->part->tokens += r->seq;
        }
        if (window >= r->windows || r->part->data != ZR_OK) pad(tokens, targets, r->seq);
    }
    return ZR_OK;
}

zr_status zr__evaluate(zr_engine *engine, const zr_comm *comm, const zr_layout *layout, zr_data *data, int64_t windows,
                       const zr__eval_watch *watch, zr__eval_part *part)
{
    reader r = {.data = data, .batch = layout->batch, .seq = layout->seq, .windows = windows, .part = part};
    int64_t rows = layout->batch * comm->size;
    *part = (zr__eval_part){0};
    for (int64_t first = 0; first < windows; first += rows) {
        zr_batch batch = {.first_row = first + comm->rank * layout->batch};
        ZR_TRY(zr_engine_eval(engine, &batch, read_rows, &r, &part->sum));
        if (watch) ZR_TRY(watch->done(watch->arg, first + rows < windows ? first + rows : windows));
    }
    return ZR_OK;
}

zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, double *loss, int64_t *tokens)
{
    enum { N = ZR_EXACT_LIMBS + 1 };
    _Static_assert(N <= ZR_COMM_SCALARS, "a part travels in one call");
    double mine[N];
    zr_exact total = {0};
    zr_exact_pack(&part->sum, mine);
    mine[ZR_EXACT_LIMBS] = (double)part->tokens;
    ZR_TRY(zr_comm_scalars(comm, mine, N, comm->table));
    *tokens = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        const double *other = comm->table + (size_t)N * (size_t)rank;
        zr_exact_unpack(&total, other);
        *tokens += (int64_t)other[ZR_EXACT_LIMBS];
    }
    *loss = *tokens > 0 ? zr_exact_value(&total) / (double)*tokens : 0.0;
    return ZR_OK;
}
