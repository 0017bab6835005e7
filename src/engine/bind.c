/*
 * Binding: every operand of every step gets its address once, kernels prepare, and the walk needs
 * no decision. All of the engine's memory is taken here.
 */
#include "engine/internal.h"

#include <string.h>

char *zr__buffer(const zr_engine *engine, const zr_buffer *buffer)
{
    return engine->arena + buffer->offset;
}

/* Buffers by the step at which something happens to them: a counting sort. */
static zr_status by_step(const zr_schedule *s, int32_t n_persistent, bool begins, int32_t **list, int32_t **end)
{
    int32_t n = s->n_buffers - n_persistent;
    *list = zr_alloc(sizeof **list * (size_t)(n + 1));
    *end = zr_alloc(sizeof **end * (size_t)(s->n_steps + 2));
    ZR_CHECK(*list && *end, ZR_ERR_MEMORY, "no memory to bind %d steps", s->n_steps);
    int32_t *at = *end + 1; /* shifted: after filling, end[i] is the end of step i */
    for (int32_t b = n_persistent; b < s->n_buffers; b++) at[begins ? s->buffer[b].first_step : s->buffer[b].last_step]++;
    for (int32_t i = 0, sum = 0; i < s->n_steps; i++) {
        int32_t here = at[i];
        at[i] = sum;
        sum += here;
    }
    for (int32_t b = n_persistent; b < s->n_buffers; b++) (*list)[at[begins ? s->buffer[b].first_step : s->buffer[b].last_step]++] = b;
    memmove(*end, at, sizeof **end * (size_t)s->n_steps);
    return ZR_OK;
}

static void bind_operands(zr_engine *e, zr_schedule_kind kind, int32_t index)
{
    zr__bound *b = &e->bound[kind];
    const zr_graph *g = e->plan->graph[kind];
    const zr_step *step = &b->schedule->step[index];
    const zr_op *op = zr_graph_get_op(g, step->op);
    for (int32_t i = 0; i < op->n_in + op->n_out; i++) {
        zr_value value = i < op->n_in ? op->in[i] : op->out[i - op->n_in];
        zr_tensor *t = &b->tensor[step->uses + i];
        if (value == ZR_NONE) continue;
        const zr_value_info *info = zr_graph_value(g, value);
        const zr_buffer *buffer = &b->schedule->buffer[b->schedule->use[step->uses + i].buffer];
        *t = (zr_tensor){zr__buffer(e, buffer) + b->schedule->value_offset[value], info->type.dtype, info->type.shape};
    }
    bool scratch = step->n_uses > op->n_in + op->n_out;
    const zr_use *last = &b->schedule->use[step->uses + step->n_uses - 1];
    b->args[index] = (zr_kernel_args){.op = op,
                                      .n_in = op->n_in,
                                      .n_out = op->n_out,
                                      .in = b->tensor + step->uses,
                                      .out = b->tensor + step->uses + op->n_in,
                                      .scratch = scratch ? zr__buffer(e, &b->schedule->buffer[last->buffer]) : NULL,
                                      .runtime = &e->runtime,
                                      .threads = e->plan->profile.threads};
}

static zr_status bind_step(zr_engine *e, zr_schedule_kind kind, int32_t index)
{
    zr__bound *b = &e->bound[kind];
    const zr_step *step = &b->schedule->step[index];
    if (step->kind != ZR_STEP_RUN) return ZR_OK;
    const char *name = zr_graph_get_op(e->plan->graph[kind], step->op)->def->name;
    const zr_kernel *kernel = e->device->ops->kernel(e->device, name);
    ZR_CHECK(kernel, ZR_ERR_UNSUPPORTED, "the device has no kernel for op %s: give one in zr_device_config.kernels", name);
    bind_operands(e, kind, index);
    if (kernel->prepare) ZR_TRY(kernel->prepare(&b->args[index], &b->args[index].state));
    b->kernel[index] = kernel;
    return ZR_OK;
}

zr_status zr__bind(zr_engine *e, zr_schedule_kind kind)
{
    zr__bound *b = &e->bound[kind];
    const zr_schedule *s = &e->plan->schedule[kind];
    const zr_graph *g = e->plan->graph[kind];
    size_t steps = (size_t)s->n_steps + 1;
    if (!s->buffer) return ZR_OK;
    b->schedule = s;
    b->kernel = zr_alloc(sizeof *b->kernel * steps);
    b->args = zr_alloc(sizeof *b->args * steps);
    b->tensor = zr_alloc(sizeof *b->tensor * (size_t)(s->n_uses + 1));
    int32_t inputs = g ? zr_graph_inputs(g) : 0;
    b->input = zr_alloc(sizeof *b->input * (size_t)(inputs + 1));
    ZR_CHECK(b->kernel && b->args && b->tensor && b->input, ZR_ERR_MEMORY, "no memory to bind %d steps", s->n_steps);
    ZR_TRY(by_step(s, e->plan->n_persistent, true, &b->take, &b->take_end));
    ZR_TRY(by_step(s, e->plan->n_persistent, false, &b->give, &b->give_end));
    for (int32_t i = 0; i < inputs; i++) b->input[i] = zr__buffer(e, &s->buffer[s->value_buffer[zr_graph_input(g, i)]]);
    for (int32_t i = 0; i < s->n_steps; i++) ZR_TRY(bind_step(e, kind, i));
    return ZR_OK;
}

void zr__unbind(zr__bound *b)
{
    for (int32_t i = 0; b->schedule && b->kernel && i < b->schedule->n_steps; i++)
        if (b->kernel[i] && b->kernel[i]->release) b->kernel[i]->release(b->args[i].state);
    zr_free(b->kernel);
    zr_free(b->args);
    zr_free(b->tensor);
    zr_free(b->input);
    zr_free(b->take);
    zr_free(b->take_end);
    zr_free(b->give);
    zr_free(b->give_end);
}
