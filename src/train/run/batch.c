/** The rows of a training step's micro-batches, read and counted. */
#include "train/run/run.h"

int64_t zr__run_sample(const zr__run *r, int64_t step)
{
    return r->from_sample + (step - r->from_step) * r->config->train_batch_size;
}

/** Return the index of the sample in a micro-batch's first row. */
static int64_t first_sample(const zr__run *r, const zr_batch *batch)
{
    return zr__run_sample(r, batch->step) + batch->first_row;
}

zr_status zr__run_read(void *arg, const zr_batch *batch, void *const *input)
{
    zr__run *r = arg;
    const double begin = zr_clock_sec();
    const int64_t rows = r->plan->layout.batch;
    const int64_t first = first_sample(r, batch);
    zr_status st = ZR_OK;
    for (int64_t b = 0; b < rows && st == ZR_OK; b++) {
        const zr__row row = zr__row_at(r->inputs.train.kind, &r->plan->layout, b, input);
        st = r->ahead ? zr__rows_ahead_read(r->ahead, first + b, b, input)
                      : zr__samples_read(&r->inputs.train, first + b, &row);
        if (st == ZR_OK) zr__row_count(&r->plan->layout, &row, batch->counted);
    }
    /* The next micro-batch begins after the samples that all ranks together read in this one. */
    const int64_t all = r->config->train_batch_size / r->plan->layout.accum;
    if (st == ZR_OK && r->ahead) zr__rows_ahead_want(r->ahead, first + all, all);
    r->data_wait_sec += zr_clock_sec() - begin;
    if (r->batch_failed == ZR_OK) r->batch_failed = st; /* keep the first failure, which the engine also returns */
    return st;
}

zr_status zr__run_count(void *arg, const zr_batch *batch)
{
    zr__run *r = arg;
    const double begin = zr_clock_sec();
    const int64_t first = first_sample(r, batch);
    zr_status st = ZR_OK;
    for (int64_t b = 0; b < r->plan->layout.batch && st == ZR_OK; b++)
        st = r->ahead ? zr__rows_ahead_count(r->ahead, first + b, batch->counted)
                      : zr__samples_count(&r->inputs.train, &r->plan->layout, first + b, batch->counted);
    r->data_wait_sec += zr_clock_sec() - begin;
    if (r->batch_failed == ZR_OK) r->batch_failed = st;
    return st;
}
