/*
 * Engines: creation, the calls that walk a schedule, and what was measured.
 */
#include "engine/internal.h"

#include <float.h>
#include <string.h>

/* What one rank takes, and may fail to get, by itself. */
static zr_status take_memory(zr_engine *e)
{
    const zr_plan *p = e->plan;
    void *memory = NULL;
    int64_t before = zr_alloc_taken();
    ZR_TRY(e->device->ops->alloc(e->device, p->arena_bytes, &memory));
    e->arena = memory;
    e->arena_taken_bytes = zr_alloc_taken() - before;
    /* One byte stands for none; a device with memory of its own has taken what it was asked for. */
    if (p->arena_bytes == 0 || e->arena_taken_bytes == 0) e->arena_taken_bytes = p->arena_bytes;
    size_t ranks = (size_t)p->layout.ranks, units = (size_t)p->n_units + 1;
    e->scalars = zr_alloc(sizeof *e->scalars * (size_t)p->norm_scalars * ranks);
    e->squares = zr_alloc(sizeof *e->squares * units);
    e->bad = zr_alloc(sizeof *e->bad * units);
    ZR_CHECK(e->scalars && e->squares && e->bad, ZR_ERR_MEMORY, "no memory for the tables of %d ranks and %d units",
             p->layout.ranks, p->n_units);
    return e->comm->concurrent && p->layout.overlap ? zr__lanes_start(e, &e->lanes) : ZR_OK;
}

/* The stage is made together, so all ranks must have come so far; engines of one communicator share it. */
static zr_status take_stage(zr_engine *e)
{
    void *stage = NULL;
    _Static_assert(ZR_STAGE_LEAST >= ZR_COMM_STAGE_LEAST, "the plan gives comm what it wants at least");
    e->stage_bytes = e->plan->stage_bytes;
    if (e->comm->stage_bytes >= e->stage_bytes) return ZR_OK;
    ZR_TRY(zr_comm_stage(e->comm, e->stage_bytes, &stage));
    e->stage_bytes = e->comm->stage_taken_bytes;
    return ZR_OK;
}

static zr_status prepare(zr_engine *e)
{
    const zr_plan *p = e->plan;
    zr_update_args nothing = {.grad_dtype = ZR_F32, .hyper = p->layout.optimizer.hyper};
    if (p->layout.train)
        ZR_TRY(e->device->ops->update(e->device, &p->layout.optimizer, &nothing)); /* is there such a rule? */
    for (int32_t b = 0; b < p->n_persistent; b++) {
        zr_category c = p->persistent[b].category;
        zr_ledger_take(&e->ledger, c, p->persistent[b].bytes);
        if (c == ZR_PARAM || c == ZR_GRAD || c == ZR_OPTIM) e->states_bytes += p->persistent[b].bytes;
    }
    for (int k = 0; k < ZR_SCHEDULES; k++) ZR_TRY(zr__bind(e, (zr_schedule_kind)k));
    return ZR_OK;
}

zr_status zr_engine_create(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed, zr_engine **engine)
{
    ZR_CHECK(plan && device && comm && engine, ZR_ERR_ARG, "zr_engine_create: a NULL argument");
    ZR_CHECK(plan->layout.ranks == comm->size, ZR_ERR_CONFIG, "the plan is for %d ranks, the communicator has %d",
             plan->layout.ranks, comm->size);
    ZR_CHECK(zr_device_facts_same(&plan->profile.facts, &device->profile.facts), ZR_ERR_CONFIG,
             "the plan was made for \"%s\", the device is \"%s\": plan with the device's profile",
             plan->profile.facts.name, device->profile.facts.name);
    zr_engine *e = zr_alloc(sizeof *e);
    zr_status st = e ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for an engine");
    if (e) {
        e->plan = plan;
        e->device = device;
        e->comm = comm;
        e->runtime.seed = seed;
        st = take_memory(e);
    }
    st = zr_comm_agree(comm, st);
    if (st == ZR_OK) st = take_stage(e);
    if (st == ZR_OK) st = zr_comm_agree(comm, prepare(e));
    if (st != ZR_OK) {
        zr_engine_destroy(&e);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *engine = e;
    return ZR_OK;
}

void zr_engine_destroy(zr_engine **engine)
{
    if (!engine || !*engine) return;
    zr_engine *e = *engine;
    zr__lanes_stop(&e->lanes);
    for (int k = 0; k < ZR_SCHEDULES; k++) zr__unbind(&e->bound[k]);
    /* What was on its way from or into it when a call was stopped may still be: until the process ends, or MPI does. */
    if (e->arena && !(e->stopped && e->comm->concurrent)) e->device->ops->free(e->device, e->arena);
    zr_free(e->scalars);
    zr_free(e->squares);
    zr_free(e->bad);
    zr_free(e);
    *engine = NULL;
}

/* Walk and count: traffic belongs to a step, to evaluation it does not. */
static zr_status walk_counted(zr_engine *e, zr_schedule_kind kind)
{
    zr_traffic before = e->comm->traffic;
    ZR_TRY(zr__walk(e, kind));
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++) e->traffic.bytes[k] += e->comm->traffic.bytes[k] - before.bytes[k];
    return ZR_OK;
}

zr_status zr_engine_flush(zr_engine *e)
{
    if (!e->stale) return ZR_OK;
    e->stale = false;
    return e->bound[ZR_FLUSH].schedule ? walk_counted(e, ZR_FLUSH) : ZR_OK;
}

static void begin_step(zr_engine *e, const zr_step_args *args)
{
    const zr_layout *l = &e->plan->layout;
    const zr_graph *g = e->plan->graph[ZR_TRAIN];
    const zr_shape *losses = &zr_graph_value(g, zr_graph_get_losses(g))->type.shape;
    e->mean = 1.0 / ((double)zr_shape_elems(losses) * (double)l->accum * l->ranks);
    e->scale = args->loss_scale > 0 ? args->loss_scale : 1;
    e->grad_scale = (float)(1 / e->scale);
    e->step = args;
    e->batch_fn = args->batch;
    e->batch_arg = args->arg;
    e->batch.step = e->runtime.step = args->step;
    e->runtime.loss_seed = (float)(e->mean * e->scale);
    e->loss = e->exact_squares = (zr_exact){0};
    for (int32_t u = 0; u < e->plan->n_units; u++) e->bad[u] = -1;
    e->updated = 0;
    e->result = (zr_step_result){.bad_param = -1};
}

static zr_status check_step(const zr_engine *e, const zr_step_args *args, const zr_step_result *result)
{
    const zr_plan *p = e->plan;
    ZR_CHECK(p->layout.train, ZR_ERR_STATE, "the plan has no training schedule: set zr_layout.train");
    ZR_CHECK(args && args->batch && result, ZR_ERR_ARG, "zr_engine_step: a NULL argument");
    ZR_CHECK(args->clip >= 0, ZR_ERR_ARG, "clipping to %g: wanted 0 (none) or a positive norm", args->clip);
    ZR_CHECK(args->loss_scale == 0 || args->loss_scale >= FLT_MIN, ZR_ERR_ARG,
             "a loss scale of %g: wanted 0 (none), or at least %g, by which gradients can be divided", args->loss_scale,
             FLT_MIN);
    ZR_CHECK(args->clip == 0 || !p->consume_grad || p->layout.two_pass, ZR_ERR_STATE,
             "clipping to %g with a plan that updates before the norm is known: set zr_layout.norm_first", args->clip);
    return ZR_OK;
}

/* A batch that could not be had is this rank's failure; the others know of no more than a loss that is not finite. */
static zr_status batch_failure(const zr_engine *e, zr_status walked)
{
    if (e->batch_status == ZR_OK || (walked != ZR_OK && walked != ZR_ERR_DIVERGED)) return walked;
    return ZR_FAIL(e->batch_status, "%s", e->batch_text);
}

zr_status zr_engine_step(zr_engine *e, const zr_step_args *args, zr_step_result *result)
{
    ZR_TRY(check_step(e, args, result));
    begin_step(e, args);
    e->refresh = e->stale;
    e->stale = true; /* also after a skipped step: every step moves the same bytes */
    zr_status st = walk_counted(e, ZR_TRAIN);
    bool whole = st == ZR_ERR_STOPPED || st == ZR_ERR_DIVERGED ? e->updated == 0 : false;
    if (whole) e->stale = e->refresh; /* as if it had not begun */
    if (st == ZR_OK && !e->result.skipped) e->updates++;
    if (st == ZR_OK) e->steps++;
    if (st != ZR_OK) e->result.skipped = whole;
    *result = e->result;
    return batch_failure(e, st);
}

zr_status zr_engine_probe(zr_engine *e, const zr_step_args *args, zr_step_result *result)
{
    ZR_TRY(check_step(e, args, result));
    ZR_TRY(zr_engine_flush(e));
    begin_step(e, args);
    e->refresh = false;
    e->dry = e->result.skipped = true;
    zr_status st = zr__walk(e, ZR_TRAIN);
    e->dry = false;
    *result = e->result;
    return batch_failure(e, st);
}

zr_status zr_engine_eval(zr_engine *e, const zr_batch *batch, zr_batch_fn fn, void *arg, zr_exact *sum)
{
    ZR_CHECK(e->bound[ZR_EVAL].schedule, ZR_ERR_STATE, "the plan has no evaluation schedule: set zr_layout.eval");
    ZR_CHECK(batch && fn && sum, ZR_ERR_ARG, "zr_engine_eval: a NULL argument");
    ZR_TRY(zr_engine_flush(e));
    e->batch = *batch;
    e->batch_fn = fn;
    e->batch_arg = arg;
    e->runtime.step = batch->step;
    e->loss = (zr_exact){0};
    ZR_TRY(batch_failure(e, zr__walk(e, ZR_EVAL)));
    zr_exact_merge(sum, &e->loss);
    return ZR_OK;
}

/* The only input of a decode graph is its token. */
static zr_status give_token(void *arg, const zr_batch *batch, void *const *input)
{
    (void)batch;
    *(int32_t *)input[0] = *(const int32_t *)arg;
    return ZR_OK;
}

zr_status zr_engine_decode(zr_engine *e, int32_t token, int64_t position, zr_tensor *output)
{
    const zr_plan *p = e->plan;
    ZR_CHECK(e->bound[ZR_DECODE].schedule, ZR_ERR_STATE, "the plan has no decode schedule: set zr_layout.decode_len");
    ZR_CHECK(position >= 0 && position < p->layout.decode_len, ZR_ERR_ARG,
             "position %lld outside the cache of %lld tokens", (long long)position, (long long)p->layout.decode_len);
    ZR_TRY(zr_engine_flush(e));
    e->runtime.position = position;
    e->batch_fn = give_token;
    e->batch_arg = &token;
    zr_status st = zr__walk(e, ZR_DECODE);
    e->runtime.position = 0;
    ZR_TRY(st);
    return zr_engine_value(e, ZR_DECODE, zr_graph_get_output(p->graph[ZR_DECODE]), output);
}

zr_status zr_engine_value(const zr_engine *e, zr_schedule_kind kind, zr_value value, zr_tensor *tensor)
{
    const zr_schedule *s = e->bound[kind].schedule;
    const zr_graph *g = e->plan->graph[kind];
    ZR_CHECK(s && g && value >= 0 && value < zr_graph_values(g), ZR_ERR_ARG, "no value %d in schedule %d", value,
             (int)kind);
    ZR_CHECK(s->value_buffer[value] != ZR_NONE, ZR_ERR_ARG,
             "value %d has no place of its own: it is a parameter (use zr_engine_read), or of an op that is not run",
             value);
    const zr_value_info *info = zr_graph_value(g, value);
    *tensor = (zr_tensor){zr__buffer(e, &s->buffer[s->value_buffer[value]]) + s->value_offset[value], info->type.dtype,
                          info->type.shape};
    return ZR_OK;
}

void zr_engine_measured(const zr_engine *e, zr_measured *measured)
{
    memset(measured, 0, sizeof *measured);
    memcpy(measured->memory.category_bytes, e->ledger.peak_bytes, sizeof e->ledger.peak_bytes);
    measured->memory.states_bytes = e->states_bytes;
    measured->memory.total_bytes = e->arena_taken_bytes + e->stage_bytes;
    measured->traffic = e->traffic;
    measured->steps = e->steps;
}

bool zr_engine_serial(const zr_engine *e)
{
    return !e->lanes;
}

void zr_engine_watch(zr_engine *e, zr_watch_fn fn, void *arg)
{
    e->watch = fn;
    e->watch_arg = arg;
}

void zr_engine_arena(const zr_engine *e, void **arena, int64_t *bytes)
{
    *arena = e->arena;
    *bytes = e->plan->arena_bytes;
}
