/* Binds schedules to memory once, when the engine is created. For each op, this file computes the addresses of its
 * operands and prepares its kernel. Buffers are listed by the steps at which their lifetimes begin and end. Steps for
 * which another stream waits are numbered. Steps other than RUN compute the addresses of their operands when they run.
 */
#include "engine/walk.h"

#include <string.h>

char *zr__buffer(const zr_engine *engine, const zr_buffer *buffer)
{
    return engine->memory[buffer->space] + buffer->offset;
}

int64_t zr__first(const zr_engine *engine, const zr_range *range)
{
    return range->first + engine->place[range->by.group] * range->by.elems +
           engine->place[range->outer.group] * range->outer.elems;
}

char *zr__use_at(const zr_engine *engine, const zr_schedule *schedule, const zr_use *use)
{
    zr_range range = use->range;
    /* the use covers the ranges of all ranks of the group, which begin with the first rank's range */
    if (use->each) range.by = (zr_stride){0};
    return zr__buffer(engine, &schedule->buffer[use->buffer]) + zr_dtype_span(use->dtype, zr__first(engine, &range));
}

void *zr__result(const zr_engine *engine, int32_t index)
{
    return zr__buffer(engine, &engine->plan->persistent[index]);
}

/* For each step, list the buffers whose lifetimes begin there if `begins` is true. Otherwise list the buffers whose
 * lifetimes end there. This is a counting sort. */
static zr_status by_step(const zr_schedule *s, int32_t n_persistent, bool begins, int32_t **list, int32_t **end)
{
    int32_t n = s->n_buffers - n_persistent;
    *list = zr_alloc(sizeof **list * (size_t)(n + 1));
    *end = zr_alloc(sizeof **end * (size_t)(s->n_steps + 2));
    ZR_CHECK(*list && *end, ZR_ERR_MEMORY, "no memory to bind %d steps", s->n_steps);
    /* While sorting, the entry of step i is end[i + 1]: first a count, then the next free position in `list`. The
     * memmove below moves it to end[i], which is then the end of step i's list. */
    int32_t *at = *end + 1;
    for (int32_t b = n_persistent; b < s->n_buffers; b++)
        at[begins ? s->buffer[b].first_step : s->buffer[b].last_step]++;
    for (int32_t i = 0, sum = 0; i < s->n_steps; i++) {
        int32_t here = at[i];
        at[i] = sum;
        sum += here;
    }
    for (int32_t b = n_persistent; b < s->n_buffers; b++)
        (*list)[at[begins ? s->buffer[b].first_step : s->buffer[b].last_step]++] = b;
    memmove(*end, at, sizeof **end * (size_t)s->n_steps);
    return ZR_OK;
}

static zr_status bind_run(zr_engine *e, zr_schedule_kind kind, const zr_step *step, zr_tensor *tensor, zr__run *run)
{
    const zr_schedule *s = e->bound[kind].schedule;
    const zr_graph *g = e->plan->graph[kind];
    const zr_op *op = zr_graph_get_op(g, step->op);
    const zr_use *use = s->use + step->uses;
    const zr_kernel *kernel = e->device->ops->kernel(e->device, op->def->name);
    ZR_CHECK(kernel, ZR_ERR_UNSUPPORTED, "the device has no kernel for op %s: give one in zr_device_config.kernels",
             op->def->name);
    for (int32_t i = 0; i < op->n_in + op->n_out; i++) {
        zr_value value = i < op->n_in ? op->in[i] : op->out[i - op->n_in];
        if (use[i].buffer == ZR_NONE) continue;
        tensor[i] = (zr_tensor){zr__use_at(e, s, &use[i]), use[i].dtype, zr_graph_value(g, value)->type.shape};
    }
    /* scratch memory, if any, follows the inputs and outputs; the sums of COUNT, if any, come last */
    const int32_t more = op->n_in + op->n_out;
    const bool scratch = step->n_uses > more && use[more].buffer != e->plan->counted;
    run->args = (zr_kernel_args){.device = e->queue[ZR_STREAM_COMPUTE]->device,
                                 .op = op,
                                 .n_in = op->n_in,
                                 .n_out = op->n_out,
                                 .in = tensor,
                                 .out = tensor + op->n_in,
                                 .scratch = scratch ? zr__use_at(e, s, &use[more]) : NULL,
                                 .runtime = &e->runtime,
                                 .threads = e->plan->profile.facts.threads};
    if (kernel->prepare) ZR_TRY(kernel->prepare(&run->args, &run->args.state));
    run->kernel = kernel;
    return ZR_OK;
}

/* Bind every RUN step to an entry of `run`, and the step's operands and outputs to entries of `tensor`. */
static zr_status bind_runs(zr_engine *e, zr_schedule_kind kind)
{
    zr__bound *b = &e->bound[kind];
    const zr_schedule *s = b->schedule;
    size_t operands = 0;
    b->run_of = zr_alloc(sizeof *b->run_of * (size_t)(s->n_steps + 1));
    ZR_CHECK(b->run_of, ZR_ERR_MEMORY, "no memory to bind %d steps", s->n_steps);
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        b->run_of[i] = b->n_runs++;
        operands += (size_t)s->step[i].n_uses;
    }
    b->run = zr_alloc(sizeof *b->run * (size_t)(b->n_runs + 1));
    b->tensor = zr_alloc(sizeof *b->tensor * (operands + 1));
    ZR_CHECK(b->run && b->tensor, ZR_ERR_MEMORY, "no memory to bind %d ops", b->n_runs);
    zr_tensor *tensor = b->tensor;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        ZR_TRY(bind_run(e, kind, &s->step[i], tensor, &b->run[b->run_of[i]]));
        tensor += s->step[i].n_uses;
    }
    return ZR_OK;
}

/* Number the steps for which other streams wait. For each of these steps, allocate two marks of its end: one for even
 * rounds and one for odd rounds. */
static zr_status bind_waits(zr__bound *b)
{
    const zr_schedule *s = b->schedule;
    int32_t n = 0;
    b->awaited = zr_alloc(sizeof *b->awaited * (size_t)(s->n_steps + 1));
    ZR_CHECK(b->awaited, ZR_ERR_MEMORY, "no memory to bind %d steps", s->n_steps);
    for (int32_t i = 0; i < s->n_steps; i++) b->awaited[i] = -1;
    for (int32_t w = 0; w < s->n_waits; w++)
        if (b->awaited[s->wait[w].step] < 0) b->awaited[s->wait[w].step] = n++;
    b->mark[0] = zr_alloc(sizeof(zr_mark) * 2 * (size_t)(n + 1));
    ZR_CHECK(b->mark[0], ZR_ERR_MEMORY, "no memory for the marks of %d steps", n);
    b->mark[1] = b->mark[0] + n + 1;
    return ZR_OK;
}

/* Return whether only BATCH uses the host memory of the inputs. In debug builds it is poisoned, too. */
static bool are_inputs_apart(const zr_schedule *s, int32_t inputs)
{
#ifdef ZR_DEBUG
    (void)s, (void)inputs;
    return false;
#else
    int64_t begin = INT64_MAX, end = 0;
    int32_t given = 0, there = 0; /* buffers of inputs, and buffers in their memory */
    for (int32_t i = 0; i < s->n_steps; i++)
        for (int32_t u = 0; s->step[i].kind == ZR_STEP_BATCH && u < inputs; u++) {
            const zr_buffer *its = &s->buffer[s->use[s->step[i].uses + 2 * u + 1].buffer];
            if (its->offset < begin) begin = its->offset;
            if (its->offset + its->bytes > end) end = its->offset + its->bytes;
            given++;
        }
    for (int32_t b = 0; b < s->n_buffers; b++) {
        const zr_buffer *its = &s->buffer[b];
        there += its->space == ZR_SPACE_HOST && its->offset < end && its->offset + its->bytes > begin;
    }
    return there == given;
#endif
}

zr_status zr__bind(zr_engine *e, zr_schedule_kind kind)
{
    zr__bound *b = &e->bound[kind];
    const zr_schedule *s = &e->plan->schedule[kind];
    const zr_graph *g = e->plan->graph[kind];
    if (!s->buffer) return ZR_OK;
    b->schedule = s;
    int32_t inputs = g ? zr_graph_inputs(g) : 0;
    b->input = zr_alloc(sizeof *b->input * (size_t)(inputs + 1));
    ZR_CHECK(b->input, ZR_ERR_MEMORY, "no memory to bind %d inputs", inputs);
    b->inputs_apart = are_inputs_apart(s, inputs);
    ZR_TRY(by_step(s, e->plan->n_persistent, true, &b->take, &b->take_end));
    ZR_TRY(by_step(s, e->plan->n_persistent, false, &b->give, &b->give_end));
    ZR_TRY(bind_waits(b));
    return bind_runs(e, kind);
}

void zr__unbind(zr__bound *b)
{
    for (int32_t i = 0; b->run && i < b->n_runs; i++)
        if (b->run[i].kernel && b->run[i].kernel->release) b->run[i].kernel->release(b->run[i].args.state);
    zr_free(b->run_of);
    zr_free(b->run);
    zr_free(b->tensor);
    zr_free(b->input);
    zr_free(b->take);
    zr_free(b->take_end);
    zr_free(b->give);
    zr_free(b->give_end);
    zr_free(b->awaited);
    zr_free(b->mark[0]);
}
