/* The orders of micro-batches: each lists the segments of all micro-batches of a round, as cells. All give the same
 * bits, because each segment runs for the micro-batches in ascending order, so that gradients are summed in this
 * order. */
#include "plan/list/list.h"
#include "plan/program/program.h"

bool zr__micros_alike(const zr_layout *l)
{
    return l->accum_order == ZR_ACCUM_MICRO || (l->accum_order == ZR_ACCUM_AHEAD && l->accum_ahead == 1);
}

static void layer_major(zr__decided *d)
{
    for (int32_t k = 0; k < d->n_segments; k++)
        for (int32_t m = 0; m < d->n_micros; m++) d->cell[d->n_cells++] = (zr__cell){k, m, k};
}

/* Add the segments [first, end) of a micro-batch. */
static void add_segments(zr__decided *d, int32_t first, int32_t end, int32_t micro)
{
    for (int32_t k = first; k < end; k++, d->n_cells++) d->cell[d->n_cells] = (zr__cell){k, micro, d->n_cells};
}

/* Return the number of segments before the first segment of the backward pass. A segment with ops of both passes,
 * usually the segment of the head, belongs to the backward pass. */
static int32_t forward_segments(const zr__decided *d)
{
    const zr__run_of *run = d->program.run;
    int32_t i = 0, k = 0;
    while (i < d->program.n && (run[i].role == ZR__FORWARD || run[i].role == ZR__KEEP)) i++;
    while (k < d->n_segments && d->segment[k].end <= i) k++;
    return k;
}

/* Run `ahead` forward passes, then in turn a backward pass and the next forward pass. With ahead 1 this is one
 * micro-batch after the other. */
static void forwards_ahead(zr__decided *d, int32_t ahead)
{
    const int32_t turn = forward_segments(d);
    for (int32_t m = 0; m < d->n_micros + ahead; m++) {
        if (m >= ahead) add_segments(d, turn, d->n_segments, m - ahead);
        if (m < d->n_micros) add_segments(d, 0, turn, m);
    }
}

zr_status zr__make_cells(zr__decided *d, zr_schedule_kind kind)
{
    const zr_layout *l = &d->plan->layout;
    const int64_t micros = kind == ZR_SCHEDULE_TRAIN ? l->accum / d->plan->rounds : 1;
    ZR_CHECK(micros == 1 || micros <= ZR__STEPS_MAX / (d->program.n + 1), ZR_ERR_CONFIG,
             "%lld micro-batches of %d ops each in one round are a schedule of more than %d steps: use fewer "
             "micro-batches a step (gradient_accumulation_steps), or train.accumulation_order micro",
             (long long)micros, d->program.n, ZR__STEPS_MAX);
    d->n_micros = (int32_t)micros;
    d->cell = zr_alloc(sizeof *d->cell * ((size_t)d->n_segments * (size_t)micros + 1));
    ZR_CHECK(d->cell, ZR_ERR_MEMORY, "no memory to order %d segments", d->n_segments);
    if (l->accum_order == ZR_ACCUM_LAYER)
        layer_major(d);
    else
        forwards_ahead(d, micros > 1 && l->accum_ahead < micros ? (int32_t)l->accum_ahead : d->n_micros);
    return ZR_OK;
}
