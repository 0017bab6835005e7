#include "data/pairs/groups.h"

#include "base/core/grow.h"

enum { GROUP_ROWS = 64 }; /* tokens of a group, in rows */

/* ---- the source of rows ---------------------------------------------------------------------- */

static zr_status divide(void *arg, uint32_t epoch, int64_t group, int64_t *n)
{
    zr__groups *g = arg;
    g->samples.n = 0;
    for (int64_t i = g->first[group]; i < g->first[group + 1]; i++)
        ZR_TRY(zr__recipe_divide(g->recipe, epoch, i, &g->samples));
    *n = g->samples.n;
    return ZR_OK;
}

static void measure(void *arg, int64_t i, int64_t *tokens, int64_t *predictions)
{
    const zr__groups *g = arg;
    *tokens = zr__recipe_length(g->recipe, &g->samples.sample[i]);
    *predictions = zr__recipe_predictions(g->recipe, &g->samples.sample[i]);
}

zr_status zr__groups_row(zr__groups *g, uint32_t epoch, int64_t row, zr__row_sample *found, int64_t *n)
{
    int64_t first = 0;
    ZR_TRY(zr__rows_samples(&g->rows, epoch, row, g->found, n, &first));
    for (int64_t i = 0; i < *n; i++) found[i] = (zr__row_sample){&g->samples.sample[g->found[i]], first + g->found[i]};
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
    *g = (zr__groups){.recipe = recipe};
    ZR_TRY(form_groups(g));
    g->found = zr_alloc((size_t)row_samples * sizeof(*g->found));
    ZR_CHECK(g->found, ZR_ERR_MEMORY, "no memory for %lld samples of a row", (long long)row_samples);
    const zr__rows_source source = {.groups = g->n,
                                    .tokens = recipe->seq_length,
                                    .predictions = recipe->predictions,
                                    .samples = row_samples,
                                    .divide = divide,
                                    .measure = measure,
                                    .arg = g};
    return zr__rows_open(&source, &g->rows);
}

void zr__groups_close(zr__groups *g)
{
    zr__rows_close(&g->rows);
    zr_free(g->first);
    zr_free(g->found);
    zr_free(g->samples.sample);
    *g = (zr__groups){.recipe = NULL};
}

int64_t zr__groups_bytes(const zr__groups *g)
{
    return g->room * (int64_t)sizeof(*g->first) + g->samples.room * (int64_t)sizeof(*g->samples.sample) +
           zr__rows_bytes(&g->rows);
}
