/* Fills, reads and saves model states. Callers address elements of whole parameters, independently of the layout. On
 * each rank that stores a state, elements pass through a host buffer of constant size, which is part of the plan. */
#include "engine/walk.h"
#include "comm/comm.h"
#include "plan/list/place.h"

#include <math.h>
#include <string.h>

const zr_state *zr__engine_state(const zr_plan *plan, int32_t unit, int state)
{
    static const zr_state none = {.buffer = ZR_NONE};
    const zr_plan_unit *u = &plan->unit[unit];
    if (state >= ZR_STATE_ERROR) return &u->error[state - ZR_STATE_ERROR];
    if (state == ZR_STATE_SENT) return &u->param;
    const int slot = state - ZR_STATE_SLOT - u->first_slot;
    if (state == ZR_STATE_PARAM) return u->master.buffer != ZR_NONE ? &u->master : &u->param;
    if (state == ZR_STATE_GRAD) return &u->sums;
    return slot >= 0 && slot < u->n_slots ? &u->slot[slot] : &none;
}

zr__span zr__meet(const zr_engine *e, const zr_param_info *param, const zr_range *range)
{
    int64_t first = zr__first(e, range), begin = param->unit_offset, end = begin + zr_shape_elems(&param->shape);
    return (zr__span){begin < first ? first : begin, end > first + range->count ? first + range->count : end};
}

const zr_graph *zr__any_graph(const zr_plan *plan)
{
    return plan->graph[ZR_SCHEDULE_TRAIN]  ? plan->graph[ZR_SCHEDULE_TRAIN]
           : plan->graph[ZR_SCHEDULE_EVAL] ? plan->graph[ZR_SCHEDULE_EVAL]
                                           : plan->graph[ZR_SCHEDULE_DECODE];
}

int64_t zr__whole_of(const zr_engine *e, const zr_param_info *param, int64_t element, int64_t *n)
{
    const zr_graph *g = zr__any_graph(e->plan);
    const int32_t index = zr_graph_value(g, param->value)->param;
    return zr_param_place(g, index, e->runtime.place, element - param->unit_offset, *n, n);
}

bool zr__counts(const zr_engine *e, const zr_param_info *param)
{
    return !e->repeats && (e->runtime.place == 0 || param->cut.parts > 0);
}

zr__span zr__passed(const zr_engine *e, const zr_param_info *param, const zr_range *range)
{
    return e->plan->unit[param->unit].owned && zr__counts(e, param) ? zr__meet(e, param, range) : (zr__span){0};
}

/* Return the range of a unit's state that this rank passes on: its own part, or all its errors. */
static const zr_range *range_of(const zr_plan *plan, int32_t unit, int state)
{
    return state >= ZR_STATE_ERROR ? &zr__engine_state(plan, unit, state)->range : &plan->unit[unit].own;
}

int64_t zr__elements_before(const zr_engine *e, const zr_param_info *param, int state)
{
    if (state < ZR_STATE_ERROR) return 0;
    return e->place[zr__error_group(e->plan, state - ZR_STATE_ERROR)] * zr_shape_elems(&param->whole);
}

void zr__engine_part(const zr_engine *e, const zr_param_info *param, int state, int64_t *first, int64_t *n)
{
    const zr__span mine = zr__passed(e, param, range_of(e->plan, param->unit, state));
    const bool some = mine.begin < mine.end;
    *first = some ? mine.begin - param->unit_offset : 0;
    *n = some ? mine.end - mine.begin : 0;
}

void zr__moved_part(zr_engine *e)
{
    zr__comm_show(e->comm, ZR_ENGINE_MOVED, ++e->parts);
}

static zr_status check_state(const zr_engine *e, int state)
{
    const int slots = e->plan->n_slots, level = state - ZR_STATE_ERROR;
    const bool error = level >= 0 && level < ZR_ERROR_LEVELS && e->plan->error_steps > 0;
    ZR_CHECK(state == ZR_STATE_PARAM || state == ZR_STATE_GRAD || error ||
                 (state == ZR_STATE_SENT && e->plan->differences) ||
                 (state >= ZR_STATE_SLOT && state < ZR_STATE_SLOT + slots),
             ZR_ERR_ARG, "state %d: there are parameters, gradients, %d states of the optimizer%s%s", state, slots,
             e->plan->differences ? ", parameters as they are sent" : "",
             e->plan->error_steps > 0 ? ", errors of gradients" : "");
    return ZR_OK;
}

/* ---- one part, on the device ------------------------------------------------------------------- */

/* Elements [at, at + n) of a unit that are being copied through host memory. */
typedef struct passing {
    zr_engine *engine;
    const zr_param_info *param;
    const zr_state *state;
    /* window[0]: window of the state; window[1], when filling: window of the 16-bit parameters that are rounded from
     * the state */
    zr__window *window;
    int64_t at, n;
    int64_t whole;  /* for initial values: index, within the whole parameter, of the unit's element `at` */
    int64_t before; /* zr__elements_before */
    float *host;    /* host memory; NULL if initial values are generated directly in the state */
    bool rounded;   /* whether to write the parameters also in the 16-bit dtype that ops read */
} passing;

static zr_status set_part(void *arg, zr_device *device, int64_t index)
{
    (void)index;
    const passing *p = arg;
    zr_engine *e = p->engine;
    char *place, *rounded;
    ZR_TRY(zr__window_open(e, &p->window[0], p->state, p->at, true, &place));
    if (p->host) {
        ZR_TRY(device->ops->cast(device, place, p->state->dtype, p->host, ZR_F32, p->n, NULL));
    } else {
        const zr_rng rng = {.seed = e->runtime.seed, .purpose = ZR_RNG_INIT};
        uint64_t first = (uint64_t)(p->param->first + p->whole);
        device->ops->normal(device, &rng, first, p->n, (float)p->param->init.std, (float *)place);
    }
    const zr_state *param = &e->plan->unit[p->param->unit].param;
    if (!p->rounded || param == p->state || param->buffer == ZR_NONE) return ZR_OK;
    ZR_TRY(zr__window_open(e, &p->window[1], param, p->at, true, &rounded));
    return device->ops->cast(device, rounded, param->dtype, place, p->state->dtype, p->n, NULL);
}

static zr_status get_part(void *arg, zr_device *device, int64_t index)
{
    (void)index;
    const passing *p = arg;
    char *place;
    ZR_TRY(zr__window_open(p->engine, p->window, p->state, p->at, false, &place));
    return device->ops->cast(device, p->host, ZR_F32, place, p->state->dtype, p->n, NULL);
}

/* ---- filling ----------------------------------------------------------------------------------- */

/* Return an element of a uniform distribution with mean 0. */
static float uniform_value(const zr_rng *rng, uint64_t index, double std)
{
    return (float)(sqrt(3.0) * std * (2 * zr_rng_uniform(rng, index) - 1));
}

zr_status zr__engine_initial(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const zr_engine *e = arg;
    const zr_rng rng = {.seed = e->runtime.seed, .purpose = ZR_RNG_INIT};
    const uint64_t from = (uint64_t)(param->first + first);
    const bool normal = param->init.kind == ZR_INIT_NORMAL;
    if (param->init.kind == ZR_INIT_UNIFORM) {
        for (int64_t i = 0; i < n; i++) out[i] = uniform_value(&rng, from + (uint64_t)i, param->init.std);
        return ZR_OK;
    }
    if (normal) zr_rng_normal(&rng, from, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = normal ? (float)param->init.std * out[i] : param->init.kind == ZR_INIT_ONE ? 1.0f : 0.0f;
    return ZR_OK;
}

/* Write the windows back, in a task. */
static zr_status close_windows(void *arg, zr_device *device, int64_t index)
{
    (void)device, (void)index;
    const passing *p = arg;
    for (int i = 0; i < 2; i++) ZR_TRY(zr__window_close(p->engine, &p->window[i]));
    return ZR_OK;
}

/* Fill the host buffer. Padding becomes 0. */
static zr_status fill_host(const passing *p, zr_fill_fn fn, void *arg)
{
    for (int64_t i = 0, run; i < p->n; i += run) {
        run = p->n - i;
        const int64_t whole = zr__whole_of(p->engine, p->param, p->at + i, &run);
        if (whole < 0)
            memset(p->host + i, 0, sizeof(float) * (size_t)run);
        else
            ZR_TRY(fn(arg, p->param, p->before + whole, run, p->host + i));
    }
    return ZR_OK;
}

static zr_status fill_param(passing *all, int state, const zr_param_info *param, zr_fill_fn fn, void *arg)
{
    zr_engine *e = all->engine;
    const zr_plan_unit *u = &e->plan->unit[param->unit];
    const bool params = state == ZR_STATE_PARAM, sent = state == ZR_STATE_SENT;
    passing p = *all;
    p.param = param;
    p.state = zr__engine_state(e->plan, param->unit, state);
    p.rounded = params;
    p.before = zr__elements_before(e, param, state);
    if (p.state->buffer == ZR_NONE || (sent && !u->differs)) return ZR_OK;
    const zr__span mine = zr__meet(e, param, params || sent ? &u->update : &p.state->range);
    const bool made_there = !fn && p.state->dtype == ZR_F32 && param->init.kind == ZR_INIT_NORMAL;
    const int64_t most = made_there ? INT64_MAX : ZR_PASSING_ELEMS;
    if (!fn) {
        fn = zr__engine_initial;
        arg = e;
    }
    for (p.at = mine.begin; p.at < mine.end; p.at += p.n) {
        p.n = mine.end - p.at < most ? mine.end - p.at : most;
        if (made_there) p.whole = zr__whole_of(e, param, p.at, &p.n);
        const bool passes = !made_there || p.whole < 0; /* generated values do not pass through the host, but padding */
        if (passes && p.n > ZR_PASSING_ELEMS) p.n = ZR_PASSING_ELEMS;
        p.n = zr__window_meet(e, &p.window[0], p.state, p.at, p.n);
        if (params) p.n = zr__window_meet(e, &p.window[1], &u->param, p.at, p.n);
        p.host = passes ? zr__result(e, e->plan->passing) : NULL;
        if (passes) ZR_TRY(fill_host(&p, fn, arg));
        ZR_TRY(zr__call(e, set_part, &p));
        zr__moved_part(e);
    }
    return ZR_OK;
}

typedef struct filling {
    const zr_engine *engine;
    int state;
} filling;

/* Populate the pages of a unit's state on another thread, so that page faults overlap with disk reads. */
static zr_status take_pages(void *arg, zr_device *device, int64_t unit)
{
    const filling *f = arg;
    const zr_plan *plan = f->engine->plan;
    const int32_t taken[] = {zr__engine_state(plan, (int32_t)unit, f->state)->buffer,
                             f->state == ZR_STATE_PARAM ? plan->unit[unit].param.buffer : ZR_NONE};
    for (int i = 0; i < 2; i++) {
        const zr_buffer *buffer = taken[i] == ZR_NONE ? NULL : &plan->persistent[taken[i]];
        if (buffer && buffer->space != ZR_SPACE_DISK)
            device->ops->populate(device, zr__buffer(f->engine, buffer), buffer->bytes);
    }
    return ZR_OK;
}

static zr_status fill_params(zr_engine *e, int state, zr_fill_fn fn, void *arg)
{
    const zr_graph *g = zr__any_graph(e->plan);
    const zr_device_ops *ops = e->device->ops;
    const zr_queue_config config = {.runs = ZR_QUEUE_THREAD, .most = e->plan->n_units};
    filling all = {e, state};
    zr__window window[] = {zr__window_of(e, ZR_WINDOW_STATE), zr__window_of(e, ZR_WINDOW_PARAM)};
    passing p = {.engine = e, .window = window};
    zr_queue *beside = NULL;
    zr_status st = ZR_OK;
    /* the queue `beside` is optional: continue without it if it cannot be created */
    if (fn && ops->queue_create(e->device, &config, &beside) != ZR_OK) beside = NULL;
    for (int32_t u = 0; beside && st == ZR_OK && u < e->plan->n_units; u++)
        st = ops->issue(beside, &(zr_task){take_pages, NULL, &all, u});
    for (int32_t i = 0; i < zr_graph_params(g) && st == ZR_OK; i++)
        st = fill_param(&p, state, zr_graph_param(g, i), fn, arg);
    if (st == ZR_OK) st = zr__call(e, close_windows, &p);
    if (beside) {
        ops->cancel(beside);
        ops->queue_destroy(beside);
    }
    return st;
}

zr_status zr_engine_fill(zr_engine *e, int state, zr_fill_fn fn, void *arg)
{
    ZR_TRY(check_state(e, state));
    ZR_CHECK(state != ZR_STATE_GRAD && (fn || state == ZR_STATE_PARAM), ZR_ERR_ARG,
             "gradients cannot be filled, and optimizer states only with a function");
    zr_status st = fill_params(e, state, fn, arg);
    if (state >= ZR_STATE_ERROR) e->error_kept[state - ZR_STATE_ERROR] = true;
    /* Agree here. Otherwise a rank could wait for a rank that failed to read its part. */
    ZR_TRY(zr_comm_agree(e->comm, st));
    return state == ZR_STATE_PARAM || state == ZR_STATE_SENT ? zr__gather_anew(e) : ZR_OK;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* Pass the elements in the host buffer to the caller, without padding. */
static zr_status read_host(const passing *p, zr_read_fn fn, void *arg)
{
    for (int64_t i = 0, run; i < p->n; i += run) {
        run = p->n - i;
        const int64_t whole = zr__whole_of(p->engine, p->param, p->at + i, &run);
        if (whole >= 0) ZR_TRY(fn(arg, p->param, p->before + whole, run, p->host + i));
    }
    return ZR_OK;
}

static zr_status read_param(zr_engine *e, int state, zr__window *window, const zr_param_info *param, zr_read_fn fn,
                            void *arg)
{
    passing p = {.engine = e,
                 .param = param,
                 .state = zr__engine_state(e->plan, param->unit, state),
                 .window = window,
                 .before = zr__elements_before(e, param, state),
                 .host = zr__result(e, e->plan->passing)};
    /* the unit is not trained, its gradient not cast to records, or its parameters not sent as differences */
    if (p.state->buffer == ZR_NONE || (state == ZR_STATE_SENT && !e->plan->unit[param->unit].differs)) return ZR_OK;
    const zr__span mine = zr__passed(e, param, range_of(e->plan, param->unit, state));
    const bool cleared = state >= ZR_STATE_ERROR && !e->error_kept[state - ZR_STATE_ERROR];
    const double scale = state == ZR_STATE_GRAD ? e->scale / e->per_counted : 1;
    for (p.at = mine.begin; p.at < mine.end; p.at += p.n) {
        p.n = mine.end - p.at < ZR_PASSING_ELEMS ? mine.end - p.at : ZR_PASSING_ELEMS;
        p.n = zr__window_meet(e, window, p.state, p.at, p.n);
        if (cleared)
            memset(p.host, 0, sizeof(float) * (size_t)p.n);
        else
            ZR_TRY(zr__call(e, get_part, &p));
        for (int64_t i = 0; i < p.n && scale != 1; i++) p.host[i] = (float)(p.host[i] / scale);
        ZR_TRY(read_host(&p, fn, arg));
        zr__moved_part(e);
    }
    return ZR_OK;
}

zr_status zr_engine_read(zr_engine *e, int state, zr_read_fn fn, void *arg)
{
    ZR_CHECK(fn, ZR_ERR_ARG, "zr_engine_read: no function to pass elements to");
    ZR_TRY(check_state(e, state));
    ZR_CHECK(state != ZR_STATE_GRAD || e->steps > 0, ZR_ERR_STATE, "there is no gradient before the first step");
    ZR_CHECK(state != ZR_STATE_SENT || !e->stale, ZR_ERR_STATE,
             "parameters as they are sent are not up to date: call zr_engine_flush first");
    bool kept = state != ZR_STATE_GRAD;
    for (int32_t u = 0; u < e->plan->n_units && !kept; u++) kept = e->plan->unit[u].sums.buffer != ZR_NONE;
    ZR_CHECK(kept, ZR_ERR_STATE, "the layout lean has consumed the gradient; plan with ZR_STATES_PAPER to read it");
    const zr_graph *g = zr__any_graph(e->plan);
    zr__window window = zr__window_of(e, ZR_WINDOW_STATE);
    for (int32_t i = 0; i < zr_graph_params(g); i++)
        ZR_TRY(read_param(e, state, &window, zr_graph_param(g, i), fn, arg));
    return ZR_OK;
}
