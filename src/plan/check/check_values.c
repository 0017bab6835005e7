/* Part of the proof of a plan: checks that every read finds the intended value. A use must be within its buffer on
 * every rank. When a step reads an operand, or the caller reads the losses or the output, the buffer must still hold
 * the intended value. */
#include "base/core/scope.h"
#include "plan/check/check.h"

/* Return the first element of a range on the rank where it is lowest (`which` is -1) or highest (`which` is 1). */
static int64_t outermost(const zr_plan *plan, const zr_range *r, int which)
{
    const int64_t by = (plan->group[r->by.group].size - 1) * r->by.elems,
                  outer = (plan->group[r->outer.group].size - 1) * r->outer.elems;
    return r->first + (by * which > 0 ? by : 0) + (outer * which > 0 ? outer : 0);
}

/* Check that the steps of a unit use each of its buffers with one type, and that an exchange moves its pieces without a
 * change of type. So records are read only after a CAST. */
static zr_status check_types(const zr__proof *p)
{
    ZR_AUTO_FREE int8_t *type = zr_alloc((size_t)p->s->n_buffers + 1);
    ZR_CHECK(type, ZR_ERR_MEMORY, "no memory to check the types of %d buffers", p->s->n_buffers);
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        const zr_use *use = &p->s->use[step->uses];
        if (step->unit < 0 || step->op >= 0) continue;
        for (int32_t u = 0; u < step->n_uses; u++) {
            if (use[u].buffer == ZR_NONE || use[u].range.count == 0) continue;
            int8_t *its = &type[use[u].buffer];
            ZR_CHECK(p->s->buffer[use[u].buffer].unit < 0 || *its == 0 || *its == use[u].dtype + 1, ZR_ERR_INTERNAL,
                     "step %d uses buffer %s as %s, but another step as %s", i, p->s->buffer[use[u].buffer].what,
                     zr_dtype_name(use[u].dtype), zr_dtype_name((zr_dtype)(*its - 1)));
            *its = (int8_t)(use[u].dtype + 1);
        }
        ZR_CHECK(!zr__gathers(step) || use[0].dtype == use[1].dtype, ZR_ERR_INTERNAL, "step %d gathers %s as %s", i,
                 zr_dtype_name(use[0].dtype), zr_dtype_name(use[1].dtype));
    }
    return ZR_OK;
}

/* Check that every use is within its buffer on every rank. If a step has a range of a unit, check that each of its uses
 * with a range has as many elements as the step's range. */
zr_status zr__check_ranges(const zr__proof *p)
{
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        const bool moves =
            (zr__gathers(step) || zr__reduces(step) || zr__scatters(step)) && step->unit >= 0 && step->op < 0;
        ZR_CHECK(step->bucket_elems == 0 || (step->bucket_elems > 0 && moves), ZR_ERR_INTERNAL,
                 "step %d has buckets of %lld elements, but is no move of a unit", i, (long long)step->bucket_elems);
        const zr_use *copies = step->kind == ZR_STEP_COPY ? &p->s->use[step->uses] : NULL;
        ZR_CHECK(!copies || (step->n_uses == 2 && copies[0].buffer >= 0 && copies[1].buffer >= 0), ZR_ERR_INTERNAL,
                 "step %d copies from or to no buffer", i);
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
            const zr_use *use = &p->s->use[u];
            if (use->buffer == ZR_NONE || use->range.count == 0) continue;
            const zr_buffer *buffer = &p->s->buffer[use->buffer];
            const zr_range range = use->range;
            int64_t end = zr_dtype_span(use->dtype, outermost(p->plan, &range, 1) + range.count);
            ZR_CHECK(outermost(p->plan, &range, -1) >= 0 && end <= buffer->bytes, ZR_ERR_INTERNAL,
                     "step %d uses %lld bytes of buffer %s, which has %lld", i, (long long)end, buffer->what,
                     (long long)buffer->bytes);
            bool in_unit = step->unit >= 0 && step->range.count > 0;
            ZR_CHECK(!in_unit || use->range.count == step->range.count, ZR_ERR_INTERNAL,
                     "step %d is of %lld elements of a unit, but uses %lld of buffer %s", i,
                     (long long)step->range.count, (long long)use->range.count, buffer->what);
        }
    }
    return check_types(p);
}

/* Compute the byte range [*begin, *end) of a use within its buffer. */
static void bytes_used(const zr_use *use, int64_t *begin, int64_t *end)
{
    *begin = zr_dtype_span(use->dtype, use->range.first);
    *end = *begin + zr_dtype_span(use->dtype, use->range.count);
}

/* A value of one micro-batch of a round, as a number: the index of the micro-batch times the number of values, plus the
 * value. ZR_NONE stands for no value. */
typedef int64_t held_value;

static held_value value_of(const zr__proof *p, int32_t step, zr_value value)
{
    return (held_value)p->s->step[step].micro * zr_graph_values(p->graph) + value;
}

/* Return the graph's value that a held_value stands for, or ZR_NONE. */
static zr_value graph_value(const zr__proof *p, held_value held)
{
    return held == ZR_NONE ? ZR_NONE : (zr_value)(held % zr_graph_values(p->graph));
}

/* Return whether `value` of micro-batch `micro`, a part of a parameter's gradient, is what RUN steps before `end_step`
 * wrote last to the bytes of `use`. */
static bool was_last(const zr__proof *p, int32_t end_step, int32_t micro, zr_value value, const zr_use *use)
{
    int64_t first, end, at, stop;
    bytes_used(use, &first, &end);
    for (int32_t i = end_step - 1; i >= 0 && zr_graph_value(p->graph, value)->param >= 0; i--) {
        if (p->s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(p->graph, p->s->step[i].op);
        for (int j = 0; j < op->n_out; j++) {
            const zr_use *out = &p->s->use[p->s->step[i].uses + op->n_in + j];
            bytes_used(out, &at, &stop);
            if (out->buffer == use->buffer && at < end && first < stop)
                return op->out[j] == value && p->s->step[i].micro == micro;
        }
    }
    return false;
}

/* Check that a use names the buffer of `value`, and that the buffer still holds this value. `made`: whether this step
 * has just written the value. */
static zr_status check_held(const zr__proof *p, const held_value *holder, int32_t step, zr_value value,
                            const zr_use *use, bool made)
{
    const zr_value_info *info = zr_graph_value(p->graph, value);
    ZR_CHECK(use->buffer != ZR_NONE, ZR_ERR_INTERNAL, "step %d uses value %d, which has no place", step, value);
    const zr_buffer *b = &p->s->buffer[use->buffer];
    const int64_t elems = zr_shape_elems(&info->type.shape);
    ZR_CHECK(use->dtype == info->type.dtype && use->range.count == elems, ZR_ERR_INTERNAL,
             "step %d uses value %d as %lld elements of %s, but it has %lld elements of %s", step, value,
             (long long)use->range.count, zr_dtype_name(use->dtype), (long long)elems, zr_dtype_name(info->type.dtype));
    if (info->kind == ZR_VALUE_PARAM || info->kind == ZR_VALUE_GRAD) {
        const zr_param_info *param = zr_graph_param(p->graph, info->param);
        bool placed = b->category == (info->kind == ZR_VALUE_PARAM ? ZR_CATEGORY_PARAM : ZR_CATEGORY_GRAD) &&
                      b->unit == param->unit && use->range.first == param->unit_offset;
        ZR_CHECK(placed, ZR_ERR_INTERNAL, "step %d looks for %s or its gradient at element %lld of buffer %d (%s)",
                 step, param->name, (long long)use->range.first, use->buffer, b->what);
        return ZR_OK;
    }
    const int32_t micro = p->s->step[step].micro;
    bool held = info->kind == ZR_VALUE_CACHE
                    ? use->buffer == p->s->value[value].buffer
                    : holder[use->buffer] == value_of(p, step, value) || was_last(p, step + made, micro, value, use);
    ZR_CHECK(held, ZR_ERR_INTERNAL, "step %d reads value %d, but its place, buffer %d (%s), was given to value %d",
             step, value, use->buffer, b->what, graph_value(p, holder[use->buffer]));
    return ZR_OK;
}

/* Return a use of a whole value, given the use of all ranks' pieces of it. If the pieces do not cover the value
 * exactly, the range of the result is empty. */
static zr_use all_of(const zr__proof *p, const zr_use *pieces)
{
    const zr_range *r = &pieces->range;
    zr_use use = *pieces;
    const bool tiled = pieces->each && r->by.elems == r->count;
    use.range = (zr_range){.first = r->first, .count = tiled ? r->count * p->plan->group[r->by.group].size : 0};
    return use;
}

/* Contents of buffers; ZR_NONE means no value. `all[buffer]`: value that the buffer holds completely. `piece[buffer]`:
 * value, if the buffer holds only this rank's piece of it. `grad[micro-batch * parameters + parameter]`: value in the
 * bytes of the parameter's gradient. `where`, with the same index: the gradient's buffer. `holds[buffer]`: whether it
 * is a buffer of gradients. `from[buffer]`: micro-batch of the last step that moved data into the buffer. */
typedef struct held {
    held_value *all, *piece;
    zr_value *grad;
    int32_t *where, *from;
    bool *holds;
    int32_t micros;
} held;

/* Return whether a use covers exactly this tensor-parallel rank's piece of a value. */
static bool is_own_piece(const zr_use *use)
{
    const zr_range *r = &use->range;
    return r->count > 0 && r->by.group == ZR_GROUP_TENSOR && r->by.elems == r->count && !use->each && r->first == 0 &&
           r->outer.elems == 0;
}

static bool is_whole_value(const zr_use *use, int64_t elems)
{
    const zr_range *r = &use->range;
    return r->first == 0 && r->count == elems && r->by.elems == 0 && r->outer.elems == 0;
}

/* Check a copy of a whole value or of this rank's piece. A piece may be copied back to its position among the other
 * ranks' pieces. */
static zr_status check_value_copy(const zr__proof *p, const held *h, int32_t i)
{
    const zr_use *from = &p->s->use[p->s->step[i].uses], *to = from + 1;
    const held_value all = h->all[from->buffer], piece = h->piece[from->buffer], kept = all != ZR_NONE ? all : piece;
    const zr_value value = graph_value(p, kept);
    h->all[to->buffer] = h->piece[to->buffer] = ZR_NONE;
    if (value == ZR_NONE) return ZR_OK; /* the buffer holds a model state, not a value of the graph */
    const zr_type *type = &zr_graph_value(p->graph, value)->type;
    const int64_t elems = zr_shape_elems(&type->shape), ranks = p->plan->group[ZR_GROUP_TENSOR].size;
    const bool cuts = all != ZR_NONE && is_own_piece(from), returns = piece != ZR_NONE && is_own_piece(to);
    const int64_t count = cuts || piece != ZR_NONE ? (elems + ranks - 1) / ranks : elems;
    ZR_CHECK(from->dtype == type->dtype && to->dtype == type->dtype &&
                 (cuts ? from->range.count == count : is_whole_value(from, count)) &&
                 (returns ? to->range.count == count : is_whole_value(to, count)),
             ZR_ERR_INTERNAL, "step %d copies %lld elements of value %d to %lld, of %lld", i,
             (long long)from->range.count, value, (long long)to->range.count, (long long)count);
    (cuts || piece != ZR_NONE ? h->piece : h->all)[to->buffer] = kept;
    return ZR_OK;
}

/* Check a gather of a checkpoint that tensor-parallel ranks stored in pieces. */
static zr_status check_gathered(const zr__proof *p, const held *h, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    const zr_use *use = p->s->use + step->uses;
    const zr_op *op = zr_graph_get_op(p->graph, step->op);
    const held_value piece = h->piece[use[0].buffer];
    const zr_value value = graph_value(p, piece);
    const zr_use all = all_of(p, &use[1]);
    bool made = false;
    for (int j = 0; j < op->n_out; j++) made |= piece == value_of(p, i, op->out[j]);
    ZR_CHECK(made && step->kind == ZR_STEP_GATHER && step->group == ZR_GROUP_TENSOR, ZR_ERR_INTERNAL,
             "step %d gathers buffer %s, which holds no piece of what its op has made", i,
             p->s->buffer[use[0].buffer].what);
    const zr_value_info *info = zr_graph_value(p->graph, value);
    const int64_t elems = zr_shape_elems(&info->type.shape), padding = all.range.count - elems;
    const bool mine = is_own_piece(&use[0]) || is_whole_value(&use[0], step->range.count);
    ZR_CHECK(padding >= 0 && padding < p->plan->group[ZR_GROUP_TENSOR].size && mine &&
                 use[0].range.count == step->range.count && use[0].dtype == info->type.dtype &&
                 use[1].range.by.group == ZR_GROUP_TENSOR && use[1].range.first == 0 && use[1].range.outer.elems == 0 &&
                 use[1].dtype == info->type.dtype && !info->cut && !info->tokens,
             ZR_ERR_INTERNAL, "step %d gathers %lld elements of value %d, which has %lld", i,
             (long long)all.range.count, value, (long long)elems);
    h->all[use[1].buffer] = piece;
    h->piece[use[1].buffer] = ZR_NONE;
    return ZR_OK;
}

/* Check a step that joins values of the tensor-parallel ranks. It sums partial values into pieces, or gathers pieces
 * into the output. */
static zr_status check_join(const zr__proof *p, const held *h, int32_t i)
{
    held_value *holder = h->all;
    const zr_step *step = &p->s->step[i];
    const zr_use *use = p->s->use + step->uses;
    const zr_op *op = zr_graph_get_op(p->graph, step->op);
    const bool sums = step->kind == ZR_STEP_REDUCE_SCATTER;
    const zr_use all = all_of(p, &use[sums ? 0 : 1]);
    ZR_CHECK(step->group == ZR_GROUP_TENSOR && use[sums ? 0 : 1].range.by.group == ZR_GROUP_TENSOR, ZR_ERR_INTERNAL,
             "step %d joins values of tensor-parallel ranks, but not among them", i);
    if (sums) {
        ZR_TRY(check_held(p, holder, i, op->in[0], &all, false));
        const bool scatters = op->def->join == ZR_JOIN_SCATTER;
        h->piece[use[2].buffer] = ZR_NONE;
        holder[use[2].buffer] = scatters ? value_of(p, i, op->out[0]) : ZR_NONE;
        return scatters ? check_held(p, holder, i, op->out[0], &use[2], true) : ZR_OK;
    }
    if (op->def->join == ZR_JOIN_GATHER) {
        ZR_TRY(check_held(p, holder, i, op->in[0], &use[0], false));
    } else {
        const zr_step *sum = i > 0 ? &p->s->step[i - 1] : step;
        const zr_use *summed = &p->s->use[sum->uses + 2];
        bool follows = sum->kind == ZR_STEP_REDUCE_SCATTER && sum->op == step->op && sum->micro == step->micro &&
                       summed->buffer == use[0].buffer && summed->range.first == use[0].range.first &&
                       summed->range.count == use[0].range.count;
        ZR_CHECK(follows, ZR_ERR_INTERNAL, "step %d gathers sums that the step before did not make", i);
    }
    holder[use[1].buffer] = value_of(p, i, op->out[0]);
    h->piece[use[1].buffer] = ZR_NONE;
    return check_held(p, holder, i, op->out[0], &all, true);
}

/* Record which value is in the bytes of a parameter's gradient. The first value there may be only a part of the
 * gradient; a later op then adds the rest in place. */
static void note_gradient(const zr__proof *p, const held *h, int32_t step, zr_value value, const zr_use *use,
                          bool finished)
{
    const int32_t param = zr_graph_value(p->graph, value)->param;
    if (param < 0) return;
    const zr_buffer *b = &p->s->buffer[use->buffer];
    const zr_param_info *info = zr_graph_param(p->graph, param);
    const bool placed = b->category == ZR_CATEGORY_GRAD && b->unit == info->unit;
    if (!placed || use->range.first != info->unit_offset) return;
    const int64_t at = (int64_t)p->s->step[step].micro * zr_graph_params(p->graph) + param;
    h->grad[at] = finished ? value : ZR_NONE;
    h->where[at] = use->buffer;
    h->holds[use->buffer] = true;
}

/* Check that a unit's gradient is complete when a step squares it, casts it, reduces it or applies it. Within a round,
 * the step must take the gradient of its own micro-batch, from the buffer of the gradient or of its partial sums. After
 * the last round, and for squares of sums, all micro-batches must have completed their gradients. */
static zr_status check_gradients(const zr__proof *p, const held *h, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    const bool casts =
        step->kind == ZR_STEP_CAST && p->s->buffer[p->s->use[step->uses].buffer].category == ZR_CATEGORY_GRAD;
    if (!zr__takes_gradient(step) && !casts && step->kind != ZR_STEP_COPY) return ZR_OK;
    const zr_unit_info *unit = zr_graph_unit_info(p->graph, step->unit);
    const bool rests = i > p->end, all = rests || step->kind == ZR_STEP_SQUARE;
    const int32_t taken = p->s->use[step->uses].buffer, last = all ? h->micros - 1 : step->micro;
    for (int32_t m = all ? 0 : step->micro; m <= last; m++)
        for (int32_t k = unit->first_param; k < unit->first_param + unit->n_params; k++) {
            const zr_param_info *param = zr_graph_param(p->graph, k);
            const int64_t at = (int64_t)m * zr_graph_params(p->graph) + k;
            ZR_CHECK(param->grad == ZR_NONE || h->grad[at] == param->grad, ZR_ERR_INTERNAL,
                     "step %d takes the gradient of %s, which is not finished: its place has value %d, wanted %d", i,
                     param->name, h->grad[at], param->grad);
            ZR_CHECK(param->grad == ZR_NONE || rests || !h->holds[taken] || h->where[at] == taken, ZR_ERR_INTERNAL,
                     "step %d takes the gradient of %s from buffer %d, but it is in buffer %d", i, param->name, taken,
                     h->where[at]);
        }
    ZR_CHECK(rests || h->holds[taken] || taken < p->plan->n_persistent || h->from[taken] == step->micro,
             ZR_ERR_INTERNAL, "step %d takes partial sums of another micro-batch from buffer %d", i, taken);
    return ZR_OK;
}

/* Check a step in which tensor-parallel ranks exchange an op's values. */
static zr_status check_shared(const zr__proof *p, const held *h, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    const zr_use *use = p->s->use + step->uses;
    const zr_op *op = zr_graph_get_op(p->graph, step->op);
    const bool gathers = step->kind == ZR_STEP_GATHER;
    if (op->def->join == ZR_JOIN_NONE || (gathers && h->piece[use[0].buffer] != ZR_NONE))
        return check_gathered(p, h, i);
    ZR_TRY(check_join(p, h, i));
    const zr_use all = all_of(p, &use[1]);
    note_gradient(p, h, i, op->out[0], gathers ? &all : &use[2], gathers);
    return ZR_OK;
}

/* Check a step that passes a value to another role, or receives it. While a message is on its way, its buffer has no
 * value of this role. RECV and RECEIVED name the same buffer, as do SEND and SENT of a micro-batch. */
static zr_status check_passed(const zr__proof *p, const held *h, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    const zr_use *use = p->s->use + step->uses;
    const bool comes = step->kind == ZR_STEP_RECV || step->kind == ZR_STEP_RECEIVED;
    ZR_CHECK(step->n_uses == 1 && step->value >= 0 && step->channel >= 0 && step->channel < p->s->n_channels &&
                 use->writes == comes && use->reads == !comes,
             ZR_ERR_INTERNAL, "step %d passes no value, or uses another buffer than the value's", i);
    int32_t begun = i - 1;
    const bool ends = step->kind == ZR_STEP_SENT || step->kind == ZR_STEP_RECEIVED;
    while (ends && begun >= 0 && (p->s->step[begun].channel != step->channel || p->s->step[begun].micro != step->micro))
        begun--;
    ZR_CHECK(!ends || (begun >= 0 && p->s->use[p->s->step[begun].uses].buffer == use->buffer), ZR_ERR_INTERNAL,
             "step %d ends a message in another buffer than it began in", i);
    if (step->when == ZR_WHEN_STALE) return ZR_OK; /* a part of a unit, not a value (check_once in check.c) */
    if (comes) h->all[use->buffer] = step->kind == ZR_STEP_RECV ? ZR_NONE : value_of(p, i, step->value);
    if (comes) h->piece[use->buffer] = ZR_NONE;
    return step->kind == ZR_STEP_RECV ? ZR_OK : check_held(p, h->all, i, step->value, use, false);
}

static zr_status check_step_values(const zr__proof *p, const held *h, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    const zr_use *use = p->s->use + step->uses;
    for (int32_t u = 0; u < step->n_uses; u++)
        if (use[u].buffer != ZR_NONE && use[u].writes && step->kind != ZR_STEP_RUN)
            h->from[use[u].buffer] = step->micro;
    for (int32_t j = 0; j < zr_graph_inputs(p->graph) && step->kind == ZR_STEP_BATCH; j++)
        h->all[use[2 * j].buffer] = value_of(p, i, zr_graph_input(p->graph, j));
    if (zr__passes(step)) return check_passed(p, h, i);
    if (step->kind == ZR_STEP_LOSS)
        ZR_TRY(check_held(p, h->all, i, zr_graph_get_loss_term(p->graph, step->term), &use[0], false));
    if (step->kind == ZR_STEP_COPY && use[1].buffer == p->plan->output)
        ZR_TRY(check_held(p, h->all, i, zr_graph_get_output(p->graph), &use[0], false));
    if (step->kind == ZR_STEP_COPY) {
        const zr_buffer *from = &p->s->buffer[use[0].buffer];
        const bool gradient = from->category == ZR_CATEGORY_GRAD && from->space == ZR_SPACE_DEVICE && from->unit >= 0;
        return gradient && from->unit == step->unit ? check_gradients(p, h, i) : check_value_copy(p, h, i);
    }
    if (step->op < 0) return check_gradients(p, h, i);
    if (step->kind != ZR_STEP_RUN) return check_shared(p, h, i);
    const zr_op *op = zr_graph_get_op(p->graph, step->op);
    for (int j = 0; j < op->n_in; j++)
        if (op->in[j] != ZR_NONE) ZR_TRY(check_held(p, h->all, i, op->in[j], &use[j], false));
    const zr_use *out = use + op->n_in;
    for (int j = 0; j < op->n_out; j++) {
        ZR_CHECK(out[j].buffer != ZR_NONE, ZR_ERR_INTERNAL, "step %d writes value %d nowhere", i, op->out[j]);
        h->all[out[j].buffer] = value_of(p, i, op->out[j]);
        h->piece[out[j].buffer] = ZR_NONE;
    }
    for (int j = 0; j < op->n_out; j++) {
        ZR_TRY(check_held(p, h->all, i, op->out[j], &out[j], true));
        note_gradient(p, h, i, op->out[j], &out[j], true);
    }
    return ZR_OK;
}

/* Check that each read finds the last value written to its buffer. An output may take over the buffer of an input
 * (in_place). One walk through the list is enough, since check_order.c proves that conflicting uses have the order of
 * the list. */
zr_status zr__check_values(const zr__proof *p)
{
    const size_t buffers = (size_t)p->s->n_buffers + 1;
    held h = {.micros = zr__micros(p)};
    const size_t grads = (size_t)h.micros * (size_t)zr_graph_params(p->graph);
    ZR_AUTO_FREE held_value *all = h.all = zr_alloc(sizeof *all * 2 * buffers);
    ZR_AUTO_FREE zr_value *grad = h.grad = zr_alloc(sizeof *grad * (2 * grads + buffers));
    ZR_AUTO_FREE bool *holds = h.holds = zr_alloc(buffers);
    ZR_CHECK(all && grad && holds, ZR_ERR_MEMORY, "no memory to check %d buffers", p->s->n_buffers);
    h.piece = h.all + buffers;
    h.where = h.grad + grads;
    h.from = h.where + grads;
    for (size_t b = 0; b < 2 * buffers; b++) h.all[b] = ZR_NONE;
    for (size_t k = 0; k < 2 * grads; k++) h.grad[k] = ZR_NONE;
    for (int32_t i = 0; i < p->s->n_steps; i++) ZR_TRY(check_step_values(p, &h, i));
    return ZR_OK;
}
