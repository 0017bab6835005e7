/* Saves states asynchronously. SAVE steps run on their own queue, for which walks do not wait. SAVE steps that read
 * copies of the states may still run during later training steps. */
#include "engine/walk.h"
#include "comm/comm.h"

#include <string.h>

/* ---- on the saving queue ----------------------------------------------------------------------- */

/* Pass elements of a state to the sink. `window`: the window of a state that is on disk. */
static zr_status put_param(const zr__running *r, zr__window *window, const zr_param_info *param)
{
    zr_engine *e = r->engine;
    const zr_sink *sink = &e->saving.sink;
    const zr_range *range = &r->step->range;
    const zr__span mine = zr__passed(e, param, range);
    const int state = r->step->slot < 0 ? ZR_STATE_PARAM : ZR_STATE_SLOT + r->step->slot;
    const int64_t before = zr__elements_before(e, param, state);
    const bool cleared = state >= ZR_STATE_ERROR && !e->saving.error_kept[state - ZR_STATE_ERROR];
    const bool in_place = r->use[1].buffer != ZR_NONE;
    const bool on_disk = e->plan->persistent[r->use->buffer].space == ZR_SPACE_DISK;
    const zr_state *its = zr__engine_state(e->plan, r->step->unit, state);
    for (int64_t at = mine.begin, n; at < mine.end; at += n) {
        n = mine.end - at < ZR_PASSING_ELEMS ? mine.end - at : ZR_PASSING_ELEMS;
        ZR_CHECK(!e->saving.gone, ZR_ERR_STOPPED, "the engine is gone");
        if (on_disk) n = zr__window_meet(e, window, its, at, n);
        char *from = NULL;
        if (on_disk)
            ZR_TRY(zr__window_open(e, window, its, at, false, &from));
        else
            from = zr__at(r, 0) + zr_dtype_span(r->use->dtype, at - zr__first(e, range));
        if (in_place && !cleared)
            ZR_TRY(r->device->ops->cast(r->device, zr__at(r, 1), ZR_F32, from, r->use->dtype, n, NULL));
        ZR_TRY(r->device->ops->finish(r->device));
        const float *out = (const float *)(in_place ? zr__at(r, 1) : from);
        if (cleared) memset(zr__at(r, 1), 0, sizeof *out * (size_t)n);
        for (int64_t i = 0, run; i < n; i += run) {
            run = n - i;
            const int64_t whole = zr__whole_of(e, param, at + i, &run);
            if (whole >= 0) /* no padding */
                ZR_TRY(sink->put(sink->arg, state, param, before + whole, run, out + i));
        }
        zr__moved_part(e);
    }
    return ZR_OK;
}

static zr_status put_unit(const zr__running *r)
{
    const zr_graph *g = r->engine->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, r->step->unit);
    zr__window window = zr__window_of(r->engine, ZR_WINDOW_SAVE);
    for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
        ZR_TRY(put_param(r, &window, zr_graph_param(g, p)));
    return ZR_OK;
}

/* Run a SAVE step. A failure of the sink does not fail the training step. The failure is stored, and zr_engine_save_end
 * returns it. */
zr_status zr__engine_put(void *arg, zr_device *device, int64_t index)
{
    zr_engine *e = arg;
    zr__saving *s = &e->saving;
    const zr__bound *b = &e->bound[ZR_SCHEDULE_TRAIN];
    const zr_step *step = &b->schedule->step[index];
    const zr__running r = {e, b, step, b->schedule->use + step->uses, device, 0, 0, step->range.count};
    double begin_sec = s->sink.ran ? zr_clock_sec() : 0;
    if (s->failed.status == ZR_OK) zr__failure_note(&s->failed, put_unit(&r));
    if (s->left == 1 && s->failed.status == ZR_OK) zr__failure_note(&s->failed, s->sink.end(s->sink.arg));
    if (s->sink.ran) {
        zr_event event = {ZR_SCHEDULE_TRAIN, (int32_t)index, step->stream, 0, begin_sec, begin_sec, zr_clock_sec()};
        s->sink.ran(s->sink.arg, &event);
    }
    s->left--;
    return ZR_OK;
}

/* Populate the pages of a buffer, on the saving queue. */
static zr_status populate(void *arg, zr_device *device, int64_t index)
{
    const zr_engine *e = arg;
    const zr_buffer *buffer = &e->plan->persistent[index];
    if (!e->saving.gone) device->ops->populate(device, zr__buffer(e, buffer), buffer->bytes);
    return ZR_OK;
}

zr_status zr__save_prepare(zr_engine *e)
{
    const zr_schedule *s = &e->plan->schedule[ZR_SCHEDULE_TRAIN];
    e->saving.prepared = true;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_use *from = s->step[i].kind == ZR_STEP_SAVE ? &s->use[s->step[i].uses] : NULL;
        if (!from || s->buffer[from->buffer].space != ZR_SPACE_HOST) continue;
        const zr_task task = {populate, NULL, e, from->buffer};
        ZR_TRY(e->device->ops->issue(e->queue[ZR_STREAM_SAVE], &task));
    }
    return ZR_OK;
}

/* ---- the caller's ------------------------------------------------------------------------------ */

int32_t zr__count_puts(const zr_plan *plan)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_steps; i++) n += s->step[i].kind == ZR_STEP_SAVE;
    return n;
}

zr_status zr_engine_save(zr_engine *e, const zr_sink *sink)
{
    const int32_t steps = zr__count_puts(e->plan);
    ZR_CHECK(sink && sink->put && sink->end, ZR_ERR_ARG, "zr_engine_save: no functions to pass states to");
    ZR_CHECK(steps > 0, ZR_ERR_STATE, "the plan has no save after a step: set zr_layout.save");
    ZR_CHECK(zr_engine_saved(e), ZR_ERR_STATE, "a save is already in progress: call zr_engine_save_end first");
    ZR_CHECK(!e->plan->differences || !e->stale, ZR_ERR_STATE,
             "parameters as they are sent are not up to date: call zr_engine_flush first");
    e->saving.sink = *sink;
    e->saving.next = 0;
    e->saving.failed.status = ZR_OK;
    memcpy(e->saving.error_kept, e->error_kept, sizeof e->error_kept);
    e->saving.left = steps;
    return ZR_OK;
}

bool zr_engine_saved(const zr_engine *e)
{
    return e->saving.left == 0;
}

zr_status zr__save_drain(zr_engine *e)
{
    zr__saving *s = &e->saving;
    const zr_device_ops *ops = e->device->ops;
    const zr_schedule *train = &e->plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_schedule_kind walked = e->kind;
    zr_queue *queue[] = {e->queue[ZR_STREAM_COPY], e->queue[ZR_STREAM_SAVE]};
    zr__failure f = {0};
    if (!zr_queues_apart(&e->queues, ZR_STREAM_SAVE)) return ZR_OK; /* without a saving queue, the plan saves nothing */
    e->kind = ZR_SCHEDULE_TRAIN;
    for (int32_t i = s->next; f.status == ZR_OK && s->left > 0 && i < train->n_steps; i++)
        if (zr_when_asked(train->step[i].when)) zr__failure_note(&f, zr__issue_saving(e, i, true));
    /* Wait even after a failure. The caller may free the sink only after the saving thread has ended all tasks. No walk
     * waits for the copies that this function issued, so also wait for the copy queue. */
    for (int i = 0; i < 2; i++) {
        if (f.status != ZR_OK) ops->cancel(queue[i]);
        zr__failure_note(&f, ops->sync(queue[i]));
    }
    zr__comm_show(e->comm, ZR_ENGINE_SHOWN, 0);
    s->cut = false;
    e->kind = walked;
    if (f.status == ZR_OK) return ZR_OK;
    s->left = 0;
    return zr__failure_tell(&f);
}

zr_status zr_engine_save_end(zr_engine *e)
{
    zr__failure *failed = &e->saving.failed;
    ZR_TRY(zr__save_drain(e));
    const zr_status st = failed->status;
    failed->status = ZR_OK;
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", failed->message);
}
