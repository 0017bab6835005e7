#include "data/samples/rows.h"

#include "base/core/grow.h"
#include "base/number/sorted.h"
#include "data/samples/order.h"

enum { WINDOW = 256 }; /* number of samples that are packed together */

/* ---- packing --------------------------------------------------------------------------------- */

/* Free space of a row that is being packed. */
typedef struct open_row {
    int64_t tokens, predictions, samples;
} open_row;

/* Samples that are packed together. */
typedef struct window {
    int64_t length[WINDOW], predictions[WINDOW];
    int row[WINDOW]; /* row of each sample */
    open_row open[WINDOW];
    int n, rows;
} window;

/* Return the row with the least free space that can hold sample i, or a new row. */
static int best_row(const zr__rows *x, window *w, int i)
{
    int best = -1;
    for (int r = 0; r < w->rows; r++) {
        const open_row *o = &w->open[r];
        const bool fits = o->samples > 0 && o->tokens >= w->length[i] && o->predictions >= w->predictions[i];
        if (fits && (best < 0 || o->tokens < w->open[best].tokens)) best = r;
    }
    if (best >= 0) return best;
    w->open[w->rows] = (open_row){x->source.tokens, x->source.predictions, x->source.samples};
    return w->rows++;
}

/* Choose the rows of a window's samples, the longest samples first. */
static void pack(const zr__rows *x, window *w)
{
    int order[WINDOW];
    for (int i = 0; i < w->n; i++) {
        int at = i;
        for (; at > 0 && w->length[order[at - 1]] < w->length[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    w->rows = 0;
    for (int k = 0; k < w->n; k++) {
        const int i = order[k], row = w->row[i] = best_row(x, w, i);
        w->open[row].tokens -= w->length[i];
        w->open[row].predictions -= w->predictions[i];
        w->open[row].samples--;
    }
}

/* Pack the samples [from, from + w->n) of the divided group. Within a row, samples keep their order in the group. */
static zr_status add_window(const zr__rows *x, zr__divided *d, int64_t from, window *w)
{
    int64_t at = from;
    for (int i = 0; i < w->n; i++) x->source.measure(x->source.arg, from + i, &w->length[i], &w->predictions[i]);
    pack(x, w);
    ZR_GROW(d->first, d->first_room, d->rows + w->rows + 1, "rows of samples");
    for (int r = 0; r < w->rows; r++) {
        d->first[d->rows++] = (int32_t)at;
        for (int i = 0; i < w->n; i++)
            if (w->row[i] == r) d->order[at++] = (int32_t)(from + i);
    }
    d->first[d->rows] = (int32_t)at;
    return ZR_OK;
}

static zr_status pack_group(const zr__rows *x, zr__divided *d)
{
    window w;
    d->rows = 0;
    ZR_GROW(d->order, d->order_room, d->samples, "samples of a group");
    for (int64_t from = 0; from < d->samples; from += w.n) {
        const int64_t left = d->samples - from;
        w.n = x->source.samples == 1 ? 1 : left < WINDOW ? (int)left : WINDOW;
        ZR_TRY(add_window(x, d, from, &w));
    }
    return ZR_OK;
}

/* Divide a group and pack its samples, unless this has been done already. */
static zr_status divide_group(zr__rows *x, uint32_t epoch, int64_t group)
{
    zr__divided *d = &x->divided;
    if (d->made && d->epoch == epoch && d->group == group) return ZR_OK;
    d->made = false;
    ZR_TRY(x->source.divide(x->source.arg, epoch, group, &d->samples));
    ZR_TRY(pack_group(x, d));
    d->epoch = epoch;
    d->group = group;
    d->made = true;
    return ZR_OK;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static zr_status make_epoch(zr__rows *x, uint32_t number, zr__epoch *e)
{
    const zr__rows_source *source = &x->source;
    e->made = false;
    e->tokens = 0;
    e->begin[0] = (zr__group_begin){0, 0};
    for (int64_t i = 0; i < source->groups; i++) {
        ZR_TRY(divide_group(x, number, i));
        e->begin[i + 1] = (zr__group_begin){e->begin[i].row + x->divided.rows, e->begin[i].sample + x->divided.samples};
        for (int64_t s = 0; s < x->divided.samples; s++) {
            int64_t tokens = 0, predictions = 0;
            source->measure(source->arg, s, &tokens, &predictions);
            e->tokens += tokens;
        }
    }
    e->number = number;
    e->made = true;
    return ZR_OK;
}

zr_status zr__rows_epoch(zr__rows *x, uint32_t number, const zr__epoch **epoch)
{
    zr__epoch *oldest = &x->epoch[0], *found = NULL;
    for (int i = 0; i < ZR__EPOCHS_KEPT; i++) {
        if (x->epoch[i].made && x->epoch[i].number == number) found = &x->epoch[i];
        if (x->epoch[i].used < oldest->used) oldest = &x->epoch[i];
    }
    if (!found) ZR_TRY(make_epoch(x, number, oldest));
    if (!found) found = oldest;
    found->used = ++x->clock;
    *epoch = found;
    return ZR_OK;
}

/* Find the epoch of a row, and its place in the epoch before rows are permuted. */
static zr_status find_epoch(zr__rows *x, int64_t row, uint32_t *number, int64_t *own)
{
    const zr__epoch *e = NULL;
    while (x->rows_before[x->epochs] <= row) {
        ZR_CHECK(x->epochs <= UINT32_MAX, ZR_ERR_ARG, "row %lld is in epoch %lld; the epoch must be below 2^32",
                 (long long)row, (long long)x->epochs);
        ZR_TRY(zr__rows_epoch(x, (uint32_t)x->epochs, &e));
        ZR_GROW(x->rows_before, x->epochs_room, x->epochs + 2, "epochs");
        x->rows_before[x->epochs + 1] = x->rows_before[x->epochs] + e->begin[x->source.groups].row;
        x->epochs++;
    }
    int64_t at = x->epochs - 1;
    while (x->rows_before[at] > row) at--;
    *number = (uint32_t)at;
    *own = row - x->rows_before[at];
    return ZR_OK;
}

zr_status zr__rows_find(zr__rows *x, zr_data_order order, uint64_t seed, int64_t row, uint32_t *number, int64_t *own)
{
    const zr__epoch *e = NULL;
    ZR_CHECK(row >= 0, ZR_ERR_ARG, "the row number is %lld; it must be at least 0", (long long)row);
    *number = 0;
    if (order == ZR_SHUFFLED) ZR_TRY(find_epoch(x, row, number, own));
    ZR_TRY(zr__rows_epoch(x, *number, &e));
    const int64_t rows = e->begin[x->source.groups].row;
    *own = order == ZR_SHUFFLED ? zr__order_permute(seed, *number, rows, *own) : row % rows;
    return ZR_OK;
}

zr_status zr__rows_samples(zr__rows *x, uint32_t number, int64_t row, int32_t *found, int64_t *n, int64_t *first)
{
    const zr__epoch *e = NULL;
    ZR_TRY(zr__rows_epoch(x, number, &e));
    const int64_t group =
        zr__sorted_below(e->begin, x->source.groups, sizeof(*e->begin), offsetof(zr__group_begin, row), row + 1) - 1;
    ZR_TRY(divide_group(x, number, group));
    const zr__divided *d = &x->divided;
    const int64_t own = row - e->begin[group].row;
    *first = e->begin[group].sample;
    *n = 0;
    for (int32_t i = d->first[own]; i < d->first[own + 1]; i++) found[(*n)++] = d->order[i];
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

zr_status zr__rows_open(const zr__rows_source *source, zr__rows *x)
{
    const zr__epoch *e = NULL;
    *x = (zr__rows){.source = *source};
    ZR_GROW(x->rows_before, x->epochs_room, 1, "epochs");
    for (int i = 0; i < ZR__EPOCHS_KEPT; i++) {
        x->epoch[i].begin = zr_alloc((size_t)(source->groups + 1) * sizeof(*x->epoch[i].begin));
        ZR_CHECK(x->epoch[i].begin, ZR_ERR_MEMORY, "no memory for %lld groups of samples", (long long)source->groups);
    }
    return zr__rows_epoch(x, 0, &e);
}

void zr__rows_close(zr__rows *x)
{
    for (int i = 0; i < ZR__EPOCHS_KEPT; i++) zr_free(x->epoch[i].begin);
    zr_free(x->rows_before);
    zr_free(x->divided.order);
    zr_free(x->divided.first);
    *x = (zr__rows){.clock = 0};
}

int64_t zr__rows_bytes(const zr__rows *x)
{
    const zr__divided *d = &x->divided;
    return ZR__EPOCHS_KEPT * (x->source.groups + 1) * (int64_t)sizeof(zr__group_begin) +
           (d->order_room + d->first_room) * (int64_t)sizeof(int32_t);
}
