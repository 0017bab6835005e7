/** Differentiates in reverse mode: runs the adjoints of the forward ops, from the last op to the first.
 *
 * The number of contributions to each gradient is counted before any adjoint runs. Therefore the last contribution to a
 * parameter's gradient can be rounded once and written directly into the gradient that is sent between ranks. The count
 * is right only if an adjoint contributes exactly once for each use of an operand that needs a gradient; run_adjoint
 * reports an adjoint that breaks this rule. */
#include "graph/internal.h"

/* ---- for adjoints ---------------------------------------------------------------------------- */

zr_value zr_grad_of(const zr_graph *graph, zr_value value)
{
    return zr__graph_has(graph, value) ? graph->value[value].grad : ZR_NONE;
}

bool zr_grad_needed(const zr_graph *graph, zr_value value)
{
    return zr__graph_has(graph, value) && graph->value[value].needed;
}

static bool is_param(const zr__value *v)
{
    return v->info.kind == ZR_VALUE_PARAM;
}

/* Return whether the final sum of contributions is itself the gradient that is sent between ranks. */
static bool is_whole_gradient(const zr__value *v)
{
    return is_param(v) && !v->parts;
}

/* Return the dtype of a partial sum of contributions. The dtype is F32 for a parameter's gradient, and the activation's
 * own dtype for an activation's gradient. */
static zr_dtype partial_dtype(const zr__value *v)
{
    return is_param(v) ? ZR_F32 : v->info.type.dtype;
}

/* Add a value that holds a sum of contributions. If the sum is a parameter's final sum, the value is the parameter's
 * gradient. */
static zr_value sum_add(zr_graph *graph, zr_value value, bool final)
{
    const zr__value *v = &graph->value[value];
    bool whole = final && is_whole_gradient(v);
    zr_type type = {whole ? graph->spec.grad_dtype : partial_dtype(v), v->info.type.shape};
    return zr__graph_value_add(graph, whole ? ZR_VALUE_GRAD : ZR_VALUE_ACT, type, is_param(v) ? v->info.param : -1);
}

/* Add the postponed contribution to the gradient of a tile. */
static void add_late(zr_graph *graph, zr_value tile)
{
    const int32_t head = graph->value[tile].late;
    graph->value[tile].late = -1;
    const zr_value dw = sum_add(graph, tile, false);
    const int32_t own = graph->adjoint_of;
    graph->adjoint_of = head;
    zr__head_dw(graph, head, tile, dw);
    graph->adjoint_of = own;
    graph->value[tile].grad = dw;
}

/* Count a contribution to the gradient of `value`. Return false, with an error latched, if the contribution is not
 * allowed. */
static bool begin_contribution(zr_graph *graph, zr_value value)
{
    if (zr__graph_closed(graph)) return false;
    if (!zr_grad_needed(graph, value))
        zr_graph_error(graph, ZR_ERR_ARG, "gradient of value %d: nothing needs it; ask zr_grad_needed first",
                       (int)value);
    else if (!graph->backward)
        zr_graph_error(graph, ZR_ERR_STATE, "gradient of value %d: only adjoints make gradients", (int)value);
    else if (graph->value[value].begun == graph->value[value].expected)
        zr_graph_error(graph, ZR_ERR_STATE, "gradient of value %d: more contributions than the %d uses", (int)value,
                       (int)graph->value[value].expected);
    else if (graph->value[value].late >= 0)
        add_late(graph, value);
    if (!zr__graph_closed(graph)) graph->value[value].begun++;
    return !zr__graph_closed(graph);
}

bool zr__grad_postpone(zr_graph *graph, zr_value tile, zr_value losses)
{
    zr__value *v = &graph->value[tile];
    if (zr__graph_closed(graph) || v->grad != ZR_NONE || v->begun != v->ended || v->begun + 1 >= v->expected)
        return false;
    v->begun++;
    v->ended++;
    v->late = graph->value[losses].info.producer;
    return true;
}

zr_value zr_grad_begin(zr_graph *graph, zr_value value, zr_value *earlier)
{
    if (earlier) *earlier = ZR_NONE;
    if (!begin_contribution(graph, value)) return ZR_NONE;
    zr__value *v = &graph->value[value];
    bool others_open = v->begun - v->ended > 1;
    if (earlier) { /* the caller's op adds the sum of earlier contributions to its own contribution */
        *earlier = v->grad;
        v->grad = ZR_NONE;
    }
    bool final = v->begun == v->expected && v->grad == ZR_NONE && !others_open;
    return sum_add(graph, value, final);
}

/* Sum all ranks' parts of a parameter's gradient into the gradient that is sent between ranks. */
static zr_value sum_parts(zr_graph *graph, zr_value value, zr_value part)
{
    const zr_value_info info = graph->value[value].info;
    const int64_t elems = zr_shape_elems(&info.type.shape), ranks = graph->spec.tensor;
    const bool equal = elems % ranks == 0, vector = info.type.shape.ndim == 1;
    if (!equal && !vector)
        zr_graph_error(
            graph, ZR_ERR_CONFIG,
            "gradient of %s: its %lld elements cannot be summed in equal pieces by %lld tensor-parallel ranks; "
            "a degree that divides them would do, or parallel.sequence off",
            graph->param[info.param].name, (long long)elems, (long long)ranks);
    zr_value sum =
        zr__graph_value_add(graph, ZR_VALUE_GRAD, (zr_type){graph->spec.grad_dtype, info.type.shape}, info.param);
    (equal ? zr__tensor_sum : zr__tensor_sum_vector)(graph, part, &sum);
    return sum;
}

void zr_grad_end(zr_graph *graph, zr_value value, zr_value contribution)
{
    if (zr__graph_closed(graph)) return;
    if (!zr__graph_has(graph, value) || graph->value[value].begun == graph->value[value].ended) {
        zr_graph_error(graph, ZR_ERR_STATE, "gradient of value %d: zr_grad_end without zr_grad_begin", (int)value);
        return;
    }
    if (!zr__graph_has(graph, contribution) || graph->value[contribution].info.producer < 0) {
        zr_graph_error(graph, ZR_ERR_STATE, "gradient of value %d: its op must be added before zr_grad_end",
                       (int)value);
        return;
    }
    zr__value *v = &graph->value[value];
    bool final = ++v->ended == v->expected;
    zr_value sum = contribution, so_far = v->grad;
    if (so_far != ZR_NONE) {
        sum = sum_add(graph, value, final);
        if (sum == ZR_NONE) return;
        zr__add(graph, so_far, contribution, graph->value[sum].info.type.dtype, sum);
    }
    if (final && graph->value[value].parts) sum = sum_parts(graph, value, sum);
    graph->value[value].grad = sum;
}

void zr_grad_pass(zr_graph *graph, zr_value value, zr_value contribution)
{
    if (!begin_contribution(graph, value)) return;
    if (!zr__graph_has(graph, contribution)) {
        zr_graph_error(graph, ZR_ERR_ARG, "gradient of value %d: its contribution is no value of this graph",
                       (int)value);
        return;
    }
    const zr__value *v = &graph->value[value];
    bool final = v->begun == v->expected && v->grad == ZR_NONE;
    bool whole = final && is_whole_gradient(v);
    /* A single contribution can serve as the gradient without a copy, unless the gradient has its own buffer or a
     * different dtype. */
    bool copied = v->grad == ZR_NONE && (whole || zr_graph_value(graph, contribution)->type.dtype != partial_dtype(v));
    if (copied) {
        zr_value copy = sum_add(graph, value, final);
        if (copy == ZR_NONE) return;
        contribution = zr__add(graph, contribution, ZR_NONE, graph->value[copy].info.type.dtype, copy);
    }
    zr_grad_end(graph, value, contribution);
}

void zr_grad_losses(zr_graph *graph, zr_value losses, zr_value again)
{
    int term = 0;
    while (term < graph->n_terms && graph->term[term].losses != losses) term++;
    if (zr__graph_closed(graph) || term == graph->n_terms) return;
    const zr_type *wanted = &graph->value[losses].info.type;
    const zr_type *given = zr__graph_has(graph, again) ? &graph->value[again].info.type : NULL;
    if (!graph->backward)
        zr_graph_error(graph, ZR_ERR_STATE, "losses: only an adjoint can give them once more");
    else if (!given || graph->value[again].info.producer < 0 || given->dtype != wanted->dtype ||
             !zr_shape_equal(&given->shape, &wanted->shape))
        zr_graph_error(graph, ZR_ERR_ARG, "losses: value %d is not of their type, or no op writes it", (int)again);
    else
        graph->term[term].losses = again;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Mark the values that depend on a parameter that trains. */
static void find_needed(zr_graph *graph)
{
    for (int32_t p = 0; p < graph->n_params; p++) graph->value[graph->param[p].value].needed = !graph->param[p].frozen;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const zr_op *op = &graph->op[i];
        bool needed = false;
        for (int k = 0; k < op->n_in && op->def->adjoint; k++) needed = needed || zr_grad_needed(graph, op->in[k]);
        for (int k = 0; k < op->n_out; k++) graph->value[op->out[k]].needed = needed;
    }
}

/* Find the values for which operand k stands: the operand alone, or all tiles of its table (zr_op_def.all_tiles). Set
 * *first to the first value, and return the number of values. */
static int32_t values_of(const zr_graph *graph, const zr_op *op, int k, zr_value *first)
{
    *first = op->in[k];
    const int32_t tiles = op->def->all_tiles ? zr__tiles(graph, op->in[k]) : 1;
    if (tiles > 1) *first -= graph->param[graph->value[op->in[k]].info.param].tile.index;
    return tiles;
}

/* Return the number of contributions so far to the gradients of all values for which operand k stands. */
static int32_t given_to(const zr_graph *graph, const zr_op *op, int k)
{
    zr_value first;
    int32_t given = 0;
    for (int32_t i = 0, n = values_of(graph, op, k, &first); i < n; i++) given += graph->value[first + i].ended;
    return given;
}

/* Count the contributions that each value's gradient will get from ops whose adjoints will run. */
static void count_uses(zr_graph *graph)
{
    for (int t = 0; t < graph->n_terms; t++) {
        zr__value *losses = &graph->value[graph->term[t].losses];
        losses->expected = losses->needed; /* one contribution: the loss seed */
    }
    for (int32_t i = graph->n_ops - 1; i >= 0; i--) {
        const zr_op *op = &graph->op[i];
        bool runs = false;
        for (int k = 0; k < op->n_out; k++) runs = runs || graph->value[op->out[k]].expected > 0;
        for (int k = 0; k < op->n_in && runs && op->def->adjoint; k++) {
            zr_value first;
            if (!zr_grad_needed(graph, op->in[k])) continue;
            for (int32_t j = 0, n = values_of(graph, op, k, &first); j < n; j++) graph->value[first + j].expected++;
        }
    }
}

/* Run the adjoint of an op. Then check that each operand that needs a gradient got one contribution for each use by the
 * op. */
static void run_adjoint(zr_graph *graph, const zr_op *op)
{
    graph->adjoint_of = op->of;
    int32_t before[ZR_OP_INS] = {0};
    for (int k = 0; k < op->n_in; k++)
        if (op->in[k] != ZR_NONE) before[k] = given_to(graph, op, k);
    graph->current_unit = op->unit;
    zr__graph_latch(graph, op->def->adjoint(graph, op));
    for (int k = 0; k < op->n_in; k++) {
        if (!zr_grad_needed(graph, op->in[k])) continue;
        zr_value first;
        const int each = values_of(graph, op, k, &first);
        int given = given_to(graph, op, k) - before[k], wanted = 0;
        for (int i = 0; i < op->n_in; i++) wanted += op->in[i] == op->in[k] ? each : 0;
        if (given != wanted)
            zr_graph_error(graph, ZR_ERR_STATE,
                           "adjoint of %s: operand %d was given %d gradients; wanted %d, one for each use",
                           op->def->name, k, given, wanted);
    }
}

static bool has_gradient(const zr_graph *graph, const zr_op *op)
{
    for (int k = 0; k < op->n_out; k++)
        if (graph->value[op->out[k]].grad != ZR_NONE) return true;
    return false;
}

/* Set the gradient of a term's losses to the loss seed. A term that depends on no parameter that trains has no
 * gradient. */
static void add_seed(zr_graph *graph, int term)
{
    const zr_value losses = graph->term[term].losses;
    if (zr__graph_closed(graph) || !zr_grad_needed(graph, losses)) return;
    graph->current_unit = graph->value[losses].info.unit;
    graph->adjoint_of = graph->value[losses].info.producer;
    zr_value seed = zr_grad_begin(graph, losses, NULL);
    zr__fill(graph, term, seed);
    zr_grad_end(graph, losses, seed);
}

void zr__differentiate(zr_graph *graph)
{
    if (graph->n_terms == 0) {
        zr_graph_error(graph, ZR_ERR_STATE, "graph: training needs losses; call zr_graph_losses");
        return;
    }
    find_needed(graph);
    int trained = 0;
    for (int t = 0; t < graph->n_terms; t++) trained += zr_grad_needed(graph, graph->term[t].losses);
    if (trained == 0) {
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "graph: the losses depend on no parameter that trains; there is nothing to train");
        return;
    }
    int32_t n_forward = graph->n_ops;
    count_uses(graph);
    graph->backward = true;
    for (int t = 0; t < graph->n_terms; t++) add_seed(graph, t);
    for (int32_t i = n_forward - 1; i >= 0 && !zr__graph_closed(graph); i--) {
        zr_op op = graph->op[i]; /* a copy, because graph->op may move when ops are added */
        if (op.def->adjoint && has_gradient(graph, &op)) run_adjoint(graph, &op);
    }
    for (int32_t i = 0; i < graph->n_params; i++) graph->param[i].grad = graph->value[graph->param[i].value].grad;
}
