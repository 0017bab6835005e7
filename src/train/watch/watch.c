#include "train/watch/watch.h"

#include "comm/comm.h"
#include "engine/engine.h"

zr_status zr__watch_same(const zr_observer *observer, zr_comm *comm)
{
    const zr_trace *trace = &observer->trace;
    ZR_TRY(zr__comm_same(comm, "--timings", observer->timings != NULL));
    ZR_TRY(zr__comm_same(comm, "--trace", trace->path != NULL));
    ZR_TRY(zr__comm_same(comm, "the first step of --trace-steps", (uint64_t)trace->first_step));
    return zr__comm_same(comm, "the last step of --trace-steps", (uint64_t)trace->last_step);
}

zr_status zr__watch_create(zr__watch *w, const zr_observer *observer, const zr_plans *plans, int rank)
{
    if (observer->reached) w->observer = observer;
    w->plan = plans->role[plans->own];
    w->rank = rank;
    if (observer->timings) ZR_TRY(zr__timings_create(plans, &w->timings));
    if (observer->trace.path) ZR_TRY(zr__trace_create(plans, &observer->trace, &w->trace));
    return ZR_OK;
}

void zr__watch_destroy(zr__watch *w)
{
    zr__timings_destroy(&w->timings);
    zr__trace_destroy(&w->trace);
}

/* Return the phase of a schedule step, such as "forward", or NULL if the step belongs to no named phase. */
static const char *event_phase(const zr_plan *plan, const zr_event *event)
{
    const zr_step *step = &plan->schedule[event->schedule].step[event->step];
    const zr_op *op = step->op >= 0 ? zr_graph_get_op(plan->graph[event->schedule], step->op) : NULL;
    const zr_step_traits traits = zr_step_traits_of(step->kind);
    if (op) return op->backward || step->restores ? "backward" : "forward";
    const bool ortho = step->kind == ZR_STEP_DIRECTION || step->kind == ZR_STEP_ORTHO;
    if (step->kind == ZR_STEP_UPDATE || step->kind == ZR_STEP_SQUARE_UPDATE || ortho) return "update";
    if (step->kind == ZR_STEP_GATHER_DIRECTION) return "exchange";
    if (traits.move == ZR_MOVE_REDUCE) return "exchange";
    return traits.move == ZR_MOVE_GATHER && step->kind != ZR_STEP_GATHER_GRAD ? "gather" : NULL;
}

/* Report the phase and the cell of a schedule step that has ended. */
static void report(const zr__watch *w, const zr_event *event)
{
    const zr_step *step = &w->plan->schedule[event->schedule].step[event->step];
    const char *phase = event_phase(w->plan, event);
    char cell[ZR__CELL_BYTES];
    if (phase) w->observer->reached(w->observer->arg, w->rank, phase, w->step + 1);
    if (!step->action) return;
    w->observer->reached(w->observer->arg, w->rank, zr__engine_cell(step->stage, step->action, event->micro, cell),
                         w->step + 1);
}

static void on_watched_event(void *arg, const zr_event *event)
{
    const zr__watch *w = arg;
    if (w->timings) zr__timings_event(w->timings, event);
    if (w->tracing) zr__trace_event(w->trace, event);
    if (w->observer) report(w, event);
}

void zr__watch_begin(zr__watch *w, zr_engine *engine, int64_t step)
{
    w->tracing = w->trace && zr__trace_wants(w->trace, step);
    if (w->timings) zr__timings_begin(w->timings);
    w->step = step;
    if (w->timings || w->tracing || w->observer) zr__engine_watch(engine, on_watched_event, w);
}

void zr__watch_end(zr__watch *w, zr_engine *engine, double wall_sec)
{
    zr__engine_watch(engine, NULL, NULL);
    if (w->timings) zr__timings_end(w->timings, wall_sec);
}

void zr__watch_drop(zr__watch *w)
{
    if (w->timings) zr__timings_drop(w->timings);
    if (w->trace) zr__trace_drop(w->trace);
}
