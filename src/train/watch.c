#include "train/watch.h"

zr_status zr__watch_open(zr__watch *w, const zr_observer *observer, const zr_plan *plan)
{
    if (observer->timings) ZR_TRY(zr__timings_create(plan, &w->timings));
    return ZR_OK;
}

void zr__watch_close(zr__watch *w)
{
    zr__timings_destroy(&w->timings);
}

static void on_event(void *arg, const zr_event *event)
{
    zr__watch *w = arg;
    if (w->timings) zr__timings_event(w->timings, event);
}

void zr__watch_begin(zr__watch *w, zr_engine *engine)
{
    if (!w->timings) return;
    zr__timings_begin(w->timings);
    zr_engine_watch(engine, on_event, w);
}

void zr__watch_end(zr__watch *w, zr_engine *engine, double wall_sec)
{
    if (!w->timings) return;
    zr_engine_watch(engine, NULL, NULL);
    zr__timings_end(w->timings, wall_sec);
}
