#include "data/pairs/groups.h"

#include "base/core/grow.h"
#include "base/number/sorted.h"

#include <string.h>

enum {
    GROUP_ROWS = 64, /* tokens of a group, in rows */
    WINDOW = 256,    /* number of samples that are packed together */
};

/* ---- packing --------------------------------------------------------------------------------- */

/* A row that is being packed: what still fits into it. */
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

/* Return the row with the least space into which a sample fits, or a new row. */
static int best_row(const zr__groups *g, window *w, int i)
{
    int best = -1;
    for (int r = 0; r < w->rows; r++) {
        const open_row *o = &w->open[r];
        const bool fits = o->samples > 0 && o->tokens >= w->length[i] && o->predictions >= w->predictions[i];
        if (fits && (best < 0 || o->tokens < w->open[best].tokens)) best = r;
    }
    if (best >= 0) return best;
    w->open[w->rows] = (open_row){g->recipe->seq_length, g->recipe->predictions, g->row_samples};
    return w->rows++;
}

/* Choose the rows of a window's samples, the longest samples first. */
static void pack(const zr__groups *g, window *w)
{
    int order[WINDOW];
    for (int i = 0; i < w->n; i++) {
        int at = i;
        for (; at > 0 && w->length[order[at - 1]] < w->length[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    w->rows = 0;
    for (int k = 0; k < w->n; k++) {
        const int i = order[k], row = w->row[i] = best_row(g, w, i);
        w->open[row].tokens -= w->length[i];
        w->open[row].predictions -= w->predictions[i];
        w->open[row].samples--;
    }
}

/* Pack the samples [from, from + w->n) of the divided group. In a row they have the order of the text. */
static zr_status add_window(const zr__groups *g, zr__divided *d, int64_t from, window *w)
{
    int64_t at = from;
    for (int i = 0; i < w->n; i++) {
        w->length[i] = zr__recipe_length(g->recipe, &d->samples.sample[from + i]);
        w->predictions[i] = zr__recipe_predictions(g->recipe, &d->samples.sample[from + i]);
    }
    pack(g, w);
    ZR_GROW(d->first, d->first_room, d->rows + w->rows + 1, "rows of samples");
    for (int r = 0; r < w->rows; r++) {
        d->first[d->rows++] = (int32_t)at;
        for (int i = 0; i < w->n; i++)
            if (w->row[i] == r) d->order[at++] = (int32_t)(from + i);
    }
    d->first[d->rows] = (int32_t)at;
    return ZR_OK;
}

static zr_status pack_group(const zr__groups *g, zr__divided *d)
{
    window w;
    d->rows = 0;
    ZR_GROW(d->order, d->order_room, d->samples.n, "samples of a text");
    for (int64_t from = 0; from < d->samples.n; from += w.n) {
        const int64_t left = d->samples.n - from;
        w.n = g->row_samples == 1 ? 1 : left < WINDOW ? (int)left : WINDOW;
        ZR_TRY(add_window(g, d, from, &w));
    }
    return ZR_OK;
}

/* Divide the documents of a group, unless they are divided already. */
static zr_status divide_group(zr__groups *g, uint32_t epoch, int64_t group)
{
    zr__divided *d = &g->divided;
    if (d->made && d->epoch == epoch && d->group == group) return ZR_OK;
    d->made = false;
    d->samples.n = 0;
    for (int64_t i = g->first[group]; i < g->first[group + 1]; i++)
        ZR_TRY(zr__recipe_divide(g->recipe, epoch, i, &d->samples));
    ZR_TRY(pack_group(g, d));
    d->epoch = epoch;
    d->group = group;
    d->made = true;
    return ZR_OK;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static zr_status make_epoch(zr__groups *g, uint32_t number, zr__epoch *e)
{
    e->made = false;
    e->tokens = 0;
    e->begin[0] = (zr__group_begin){0, 0};
    for (int64_t i = 0; i < g->n; i++) {
        ZR_TRY(divide_group(g, number, i));
        e->begin[i + 1] =
            (zr__group_begin){e->begin[i].row + g->divided.rows, e->begin[i].sample + g->divided.samples.n};
        for (int64_t s = 0; s < g->divided.samples.n; s++)
            e->tokens += zr__recipe_length(g->recipe, &g->divided.samples.sample[s]);
    }
    e->number = number;
    e->made = true;
    return ZR_OK;
}

zr_status zr__groups_epoch(zr__groups *g, uint32_t number, const zr__epoch **epoch)
{
    zr__epoch *oldest = &g->epoch[0], *found = NULL;
    for (int i = 0; i < ZR__EPOCHS_KEPT; i++) {
        if (g->epoch[i].made && g->epoch[i].number == number) found = &g->epoch[i];
        if (g->epoch[i].used < oldest->used) oldest = &g->epoch[i];
    }
    if (!found) ZR_TRY(make_epoch(g, number, oldest));
    if (!found) found = oldest;
    found->used = ++g->clock;
    *epoch = found;
    return ZR_OK;
}

zr_status zr__groups_find(zr__groups *g, int64_t row, uint32_t *number, int64_t *own)
{
    const zr__epoch *e = NULL;
    while (g->rows_before[g->epochs] <= row) {
        ZR_CHECK(g->epochs <= UINT32_MAX, ZR_ERR_ARG, "row %lld is in epoch %lld; the epoch must be below 2^32",
                 (long long)row, (long long)g->epochs);
        ZR_TRY(zr__groups_epoch(g, (uint32_t)g->epochs, &e));
        ZR_GROW(g->rows_before, g->epochs_room, g->epochs + 2, "epochs");
        g->rows_before[g->epochs + 1] = g->rows_before[g->epochs] + e->begin[g->n].row;
        g->epochs++;
    }
    int64_t at = g->epochs - 1;
    while (g->rows_before[at] > row) at--;
    *number = (uint32_t)at;
    *own = row - g->rows_before[at];
    return ZR_OK;
}

zr_status zr__groups_row(zr__groups *g, uint32_t number, int64_t row, zr__row_sample *found, int64_t *n)
{
    const zr__epoch *e = NULL;
    ZR_TRY(zr__groups_epoch(g, number, &e));
    const int64_t group =
        zr__sorted_below(e->begin, g->n, sizeof(*e->begin), offsetof(zr__group_begin, row), row + 1) - 1;
    ZR_TRY(divide_group(g, number, group));
    const zr__divided *d = &g->divided;
    const int64_t own = row - e->begin[group].row;
    *n = 0;
    for (int32_t i = d->first[own]; i < d->first[own + 1]; i++)
        found[(*n)++] = (zr__row_sample){&d->samples.sample[d->order[i]], e->begin[group].sample + d->order[i]};
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status form_groups(zr__groups *g)
{
    const zr__corpus *c = g->recipe->corpus;
    const int64_t wanted = GROUP_ROWS * g->recipe->seq_length;
    for (int64_t i = 0, token = 0; i < c->documents; i++) {
        if (g->n > 0 && c->document[i].token - token < wanted) continue;
        ZR_GROW(g->first, g->room, g->n + 2, "groups of documents");
        g->first[g->n++] = i;
        token = c->document[i].token;
    }
    g->first[g->n] = c->documents;
    return ZR_OK;
}

zr_status zr__groups_open(const zr__recipe *recipe, int64_t row_samples, zr__groups *g)
{
    const zr__epoch *e = NULL;
    *g = (zr__groups){.recipe = recipe, .row_samples = row_samples};
    ZR_TRY(form_groups(g));
    ZR_GROW(g->rows_before, g->epochs_room, 1, "epochs");
    for (int i = 0; i < ZR__EPOCHS_KEPT; i++) {
        g->epoch[i].begin = zr_alloc((size_t)(g->n + 1) * sizeof(*g->epoch[i].begin));
        ZR_CHECK(g->epoch[i].begin, ZR_ERR_MEMORY, "no memory for %lld groups of documents", (long long)g->n);
    }
    return zr__groups_epoch(g, 0, &e);
}

void zr__groups_close(zr__groups *g)
{
    for (int i = 0; i < ZR__EPOCHS_KEPT; i++) zr_free(g->epoch[i].begin);
    zr_free(g->first);
    zr_free(g->rows_before);
    zr_free(g->divided.samples.sample);
    zr_free(g->divided.order);
    zr_free(g->divided.first);
    *g = (zr__groups){.recipe = NULL};
}

int64_t zr__groups_bytes(const zr__groups *g)
{
    const zr__divided *d = &g->divided;
    return g->room * (int64_t)sizeof(*g->first) + ZR__EPOCHS_KEPT * (g->n + 1) * (int64_t)sizeof(zr__group_begin) +
           d->samples.room * (int64_t)sizeof(*d->samples.sample) +
           (d->order_room + d->first_room) * (int64_t)sizeof(int32_t);
}
