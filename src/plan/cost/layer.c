/* Measures a layer of a finished plan: the bytes that it keeps for the backward pass, and the passes of its
 * element-wise steps over memory. All numbers come from the steps of the schedule. */
#include "base/core/scope.h"
#include "plan/cost/cost.h"
#include "plan/list/list.h"

enum { READERS_MAX = 8 };

/* Contents of a buffer: the step that wrote them, and the passes that have read them. */
typedef struct content {
    int32_t writer;
    int64_t bytes;  /* number of bytes that the writer wrote */
    bool statistic; /* whether the contents are statistics of rows, such as the mean of a norm */
    int32_t reader[READERS_MAX], readers;
    bool needed; /* whether a step outside the writer's pass reads the contents */
} content;

/* State of the walk over the steps. A pass is a set of element-wise steps that could run together: steps of the layer
 * in the same direction that lie between the same products and moves, and therefore have the same `level`. */
typedef struct survey {
    const zr_plan *plan;
    const zr_schedule *s;
    const zr_graph *g;
    content *buffer;
    int32_t *level; /* for each step: number of products and moves that precede it in its unit and direction */
    zr__layer *layer;
} survey;

/* Return the unit of a layer in the middle of the model, or -1 if the model has only its first and last unit. */
static int32_t middle_unit(const zr_graph *g)
{
    int32_t units = 0;
    for (; units < zr_graph_units(g); units++) {
        const zr_unit_info *unit = zr_graph_unit_info(g, units);
        if (unit->tile || unit->frozen || unit->vectors) break;
    }
    return units < 3 ? -1 : units / 2;
}

/* Return the bytes of the largest value that the unit's forward pass reads from another unit. */
static int64_t input_bytes(const zr_graph *g, int32_t unit)
{
    int64_t most = 0;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in && !op->backward && op->unit == unit; j++) {
            const zr_value_info *v = op->in[j] == ZR_NONE ? NULL : zr_graph_value(g, op->in[j]);
            if (v && v->kind == ZR_VALUE_ACT && v->unit != unit && zr__value_bytes(v) > most) most = zr__value_bytes(v);
        }
    }
    return most;
}

/* Return the op that a step runs, or that a move between tensor-parallel ranks replaces. Otherwise return NULL. */
static const zr_op *op_of(const survey *v, int32_t step)
{
    const zr_step *s = &v->s->step[step];
    if (s->op < 0 || s->micro != 0) return NULL;
    const zr_op *op = zr_graph_get_op(v->g, s->op);
    return s->kind == ZR_STEP_RUN || (op->def->join != ZR_JOIN_NONE && !s->restores) ? op : NULL;
}

static bool is_backward(const survey *v, int32_t step)
{
    return v->s->step[step].replay || op_of(v, step)->backward;
}

/* Return whether a step runs an op of the layer that has no product. */
static bool is_elementwise(const survey *v, int32_t step)
{
    const zr_op *op = step < 0 ? NULL : op_of(v, step);
    return op && v->s->step[step].kind == ZR_STEP_RUN && v->s->step[step].unit == v->layer->unit &&
           op->def->cost(v->g, op).flops == 0;
}

static bool same_pass(const survey *v, int32_t a, int32_t b)
{
    return is_elementwise(v, a) && is_elementwise(v, b) && is_backward(v, a) == is_backward(v, b) &&
           v->level[a] == v->level[b];
}

static int64_t bytes_of(const survey *v, const zr_use *use)
{
    const zr_buffer *b = &v->s->buffer[use->buffer];
    return use->range.count > 0 ? zr_dtype_span(use->dtype, use->range.count) : b->bytes;
}

/* Return whether a use is of an array of activations or of their gradients, and not of parameters, of statistics of
 * rows or of integers. */
static bool is_array(const survey *v, const zr_use *use)
{
    if (use->buffer == ZR_NONE || use->dtype == ZR_I32 || v->buffer[use->buffer].statistic) return false;
    const zr_category c = v->s->buffer[use->buffer].category;
    return c == ZR_CATEGORY_ACT || c == ZR_CATEGORY_CHECKPOINT;
}

/* Return whether use u of a step is an output that holds statistics: not the first output of a forward op, and with
 * fewer elements than the first. */
static bool writes_statistic(const survey *v, int32_t step, int32_t u)
{
    const zr_op *op = op_of(v, step);
    const int32_t i = op ? u - v->s->step[step].uses - op->n_in : 0;
    if (!op || v->s->step[step].kind != ZR_STEP_RUN || op->backward || i < 1 || i >= op->n_out) return false;
    return zr_shape_elems(&zr_graph_value(v->g, op->out[i])->type.shape) <
           zr_shape_elems(&zr_graph_value(v->g, op->out[0])->type.shape);
}

static void find_level(const survey *v, int32_t step)
{
    const zr_step *s = &v->s->step[step];
    v->level[step] = 0;
    for (int32_t u = s->uses; u < s->uses + s->n_uses; u++) {
        const zr_use *use = &v->s->use[u];
        const int32_t from = use->reads && is_array(v, use) ? v->buffer[use->buffer].writer : -1;
        if (from < 0 || v->s->step[from].unit != s->unit || is_backward(v, from) != is_backward(v, step)) continue;
        const int32_t level = v->level[from] + !is_elementwise(v, from);
        if (level > v->level[step]) v->level[step] = level;
    }
}

/* Count a read of an array in passed_bytes and least_bytes. For least_bytes, a pass reads an array of another step
 * once, and an array is written only if another pass or a product reads it. */
static void count_read(const survey *v, int32_t step, const zr_use *use)
{
    content *c = &v->buffer[use->buffer];
    const bool inside = same_pass(v, c->writer, step);
    if (is_elementwise(v, step)) {
        bool again = inside;
        for (int32_t i = 0; i < c->readers; i++) again |= same_pass(v, c->reader[i], step);
        v->layer->passed_bytes += bytes_of(v, use);
        if (!again) v->layer->least_bytes += bytes_of(v, use);
        if (!again && c->readers < READERS_MAX) c->reader[c->readers++] = step;
    }
    if (is_elementwise(v, c->writer) && !inside && !c->needed) {
        v->layer->least_bytes += c->bytes;
        c->needed = true;
    }
}

static void count_step(const survey *v, int32_t step)
{
    const zr_step *s = &v->s->step[step];
    if (op_of(v, step)) find_level(v, step);
    for (int32_t u = s->uses; u < s->uses + s->n_uses; u++)
        if (v->s->use[u].reads && is_array(v, &v->s->use[u])) count_read(v, step, &v->s->use[u]);
    for (int32_t u = s->uses; u < s->uses + s->n_uses; u++) {
        const zr_use *use = &v->s->use[u];
        if (!use->writes || use->buffer == ZR_NONE) continue;
        v->buffer[use->buffer] = (content){
            .writer = op_of(v, step) ? step : -1, .bytes = bytes_of(v, use), .statistic = writes_statistic(v, step, u)};
        if (is_elementwise(v, step) && is_array(v, use)) v->layer->passed_bytes += bytes_of(v, use);
    }
}

/* Add the buffers that the layer's forward pass has written and that the backward pass, which begins at step `turn`,
 * reads. */
static void count_kept(const survey *v, int32_t turn)
{
    for (int32_t i = v->plan->n_persistent; i < v->s->n_buffers; i++) {
        const zr_buffer *b = &v->s->buffer[i];
        const int32_t writer = v->buffer[i].writer;
        const bool activation = b->category == ZR_CATEGORY_ACT || b->category == ZR_CATEGORY_CHECKPOINT;
        if (activation && writer >= 0 && v->s->step[writer].unit == v->layer->unit && b->last_step >= turn)
            v->layer->kept_bytes += b->bytes;
    }
}

zr_status zr__plan_layer(const zr_plan *plan, zr__layer *layer)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    *layer = (zr__layer){.unit = g ? middle_unit(g) : -1};
    if (layer->unit < 0) return ZR_OK;
    layer->input_bytes = input_bytes(g, layer->unit);
    survey v = {plan, s, g, NULL, NULL, layer};
    ZR_AUTO_FREE void *buffer = v.buffer = zr_alloc(sizeof *v.buffer * ((size_t)s->n_buffers + 1));
    ZR_AUTO_FREE void *level = v.level = zr_alloc(sizeof *v.level * ((size_t)s->n_steps + 1));
    ZR_CHECK(buffer && level, ZR_ERR_MEMORY, "no memory to look through %d steps", s->n_steps);
    bool turned = false;
    for (int32_t i = 0; i < s->n_buffers; i++) v.buffer[i].writer = -1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_op *op = op_of(&v, i);
        if (op && op->backward && !turned) {
            count_kept(&v, i);
            turned = true;
        }
        count_step(&v, i);
    }
    return ZR_OK;
}
