/* Decides when stage 3 gathers units and when it frees them again. DeepSpeed's thresholds are applied when the plan is
 * created: prefetch_elems and live_elems limit how far ahead units are prefetched, and reuse_elems decides whether a
 * unit stays gathered until its next use. Units that stay whole (persist_elems) are not gathered; stays_whole
 * (plan/list/states.c) decides which they are. */
#include "plan/write/write.h"

#include <string.h>

zr_status zr__gathers_begin(zr__gathers *g, const zr_plan *plan, int32_t n_visits)
{
    memset(g, 0, sizeof *g);
    g->of = zr_alloc(sizeof *g->of * (size_t)(plan->n_units + 1));
    g->gone_elems = zr_alloc(sizeof *g->gone_elems * 2 * (size_t)(n_visits + 2));
    ZR_CHECK(g->of && g->gone_elems, ZR_ERR_MEMORY, "no memory to plan the gathers of %d visits", n_visits);
    g->used_elems = g->gone_elems + n_visits + 2;
    for (int32_t u = 0; u < plan->n_units; u++) g->of[u] = ZR_NONE;
    return ZR_OK;
}

void zr__gathers_end(zr__gathers *g)
{
    zr_free(g->fetch);
    zr_free(g->of);
    zr_free(g->gone_elems);
}

void zr__gathers_add(zr__gathers *g, const zr_plan *plan, int32_t visit, int32_t unit)
{
    if (g->status != ZR_OK || !plan->unit[unit].gathered) return;
    zr__fetch *newest = g->of[unit] == ZR_NONE ? NULL : &g->fetch[g->of[unit]];
    if (newest && newest->to == visit) return;
    while (g->visit < visit) g->used_elems[++g->visit] = g->total_elems;
    g->total_elems += plan->unit[unit].padded_elems;
    /* Number of elements that visits use between the unit's previous use and this use. A unit that the previous
     * visit used stays gathered in any case. */
    int64_t between = newest ? g->used_elems[visit] - g->used_elems[newest->to + 1] : 0;
    if (newest && (newest->to + 1 == visit || between < plan->layout.reuse_elems)) {
        newest->to = visit;
        return;
    }
    if (!zr__grow(&g->status, (void **)&g->fetch, g->n, &g->room, sizeof *g->fetch)) return;
    g->fetch[g->n] = (zr__fetch){.unit = unit, .from = visit, .to = visit, .first = !newest, .buffer = ZR_NONE};
    g->of[unit] = g->n++; /* until all gathers are added, of[unit] is the unit's newest entry */
}

static bool may_gather(const zr__gathers *g, const zr_layout *l, const zr__fetch *f, int32_t visit, int64_t elems)
{
    if (f->from == visit) return true;
    if (l->live_elems == 0) return l->prefetch_elems > 0 && f->from == visit + 1;
    return g->ahead_elems < l->prefetch_elems && g->live_elems + elems <= l->live_elems;
}

void zr__gathers_issue(zr__gathers *g, zr__list *l, int32_t visit, zr__id pace)
{
    const zr_plan *plan = l->plan;
    if (visit > 0) g->live_elems -= g->gone_elems[visit - 1];
    for (; g->begun < g->n && g->fetch[g->begun].from == visit; g->begun++) {
        const zr__fetch *f = &g->fetch[g->begun];
        g->of[f->unit] = g->begun;
        if (g->begun < g->issued) g->ahead_elems -= plan->unit[f->unit].padded_elems;
    }
    for (; g->issued < g->n && l->status == ZR_OK; g->issued++) {
        zr__fetch *f = &g->fetch[g->issued];
        int64_t elems = plan->unit[f->unit].padded_elems;
        if (!may_gather(g, &plan->layout, f, visit, elems)) break;
        f->buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_PARAM, f->unit, "gathered parameters",
                                    zr_dtype_span(plan->layout.dtype, elems));
        if (zr__fetch_in_halves(plan, f->unit))
            zr__write_fetch_half(l, f->unit, f->buffer, false, pace);
        else
            zr__write_fetch(l, f->unit, f->buffer, f->first, pace);
        g->live_elems += elems;
        g->gone_elems[f->to] += elems;
        if (f->from > visit) g->ahead_elems += elems;
    }
    for (; g->exchanged < g->begun; g->exchanged++) {
        const zr__fetch *f = &g->fetch[g->exchanged];
        if (zr__fetch_in_halves(plan, f->unit)) zr__write_fetch_half(l, f->unit, f->buffer, true, pace);
    }
}
