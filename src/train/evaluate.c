#include "train/evaluate.h"

#include <string.h>

typedef struct reader {
    zr_data *data;
    int64_t batch, seq, windows;
    int64_t rows;     /* whole windows that this rank has read */
    zr_status failed; /* latched: a rank that stops here would leave the others in a collective */
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
        if (window >= r->windows || r->failed != ZR_OK) {
            pad(tokens, targets, r->seq);
            continue;
        }
        r->failed = zr_data_window(r->data, window, tokens, targets);
        if (r->failed == ZR_OK) {
            r->rows++;
        } else {
            pad(tokens, targets, r->seq);
        }
    }
    return ZR_OK;
}

zr_status zr__evaluate(zr_engine *engine, zr_comm *comm, const zr_layout *layout, zr_data *data, int64_t windows,
                       double *loss, int64_t *tokens)
{
    reader r = {.data = data, .batch = layout->batch, .seq = layout->seq, .windows = windows};
    int64_t rows = layout->batch * comm->size;
    double sum = 0.0;
    for (int64_t first = 0; first < windows; first += rows) {
        zr_batch batch = {.first_row = first + comm->rank * layout->batch};
        ZR_TRY(zr_engine_eval(engine, &batch, read_rows, &r, &sum));
    }
    ZR_TRY(zr_comm_agree(comm, r.failed));

    double mine[2] = {sum, (double)(r.rows * layout->seq)};
    double *all = zr_alloc(sizeof(mine) * (size_t)comm->size);
    zr_status st = all ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for the losses of %d ranks", comm->size);
    ZR_TRY(zr_comm_agree(comm, st));
    ZR_TRY_GOTO(st, zr_comm_scalars(comm, mine, 2, all), done);
    double total = 0.0, count = 0.0;
    for (int rank = 0; rank < comm->size; rank++) {
        total += all[2 * rank];
        count += all[2 * rank + 1];
    }
    *loss = count > 0.0 ? total / count : 0.0;
    *tokens = (int64_t)count;
done:
    zr_free(all);
    return st;
}
