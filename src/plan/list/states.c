/* Plans the model states, which are stored in flat buffers, one set for each unit. A rank stores either a whole buffer
 * or only one shard of it. This choice is the only influence of the ZeRO stage on the memory map (ZeRO section 5). */
#include "plan/list/list.h"
#include "plan/list/place.h"
#include "tensor/tensor.h"

int64_t zr__value_bytes(const zr_value_info *v)
{
    return zr_dtype_span(v->type.dtype, zr_shape_elems(&v->type.shape));
}

zr_status zr__plan_persistent(zr_plan *plan, zr_space space, zr_category category, int32_t unit, const char *what,
                              int64_t bytes, int32_t *index)
{
    zr_status st = ZR_OK;
    if (!zr__grow(&st, (void **)&plan->persistent, plan->n_persistent, &plan->persistent_room, sizeof(zr_buffer)))
        return st;
    zr_buffer *b = &plan->persistent[plan->n_persistent];
    *b = (zr_buffer){.category = category,
                     .space = space,
                     .persistent = true,
                     .unit = unit,
                     .what = what,
                     .bytes = zr__round_bytes(space, bytes),
                     .offset = plan->persistent_bytes[space]};
    ZR_TRY(zr__add_bytes(&plan->persistent_bytes[space], b->bytes));
    *index = plan->n_persistent++;
    return ZR_OK;
}

zr_status zr__plan_persistent_disk(zr_plan *plan, const char *what, int64_t bytes, int32_t *index)
{
    int64_t *end = &plan->persistent_bytes[ZR_SPACE_HOST];
    ZR_TRY(zr__add_bytes(end, (ZR_DISK_ALIGN - *end % ZR_DISK_ALIGN) % ZR_DISK_ALIGN));
    return zr__plan_persistent(plan, ZR_SPACE_HOST, ZR_CATEGORY_WORK, -1, what, bytes, index);
}

/* ---- what a rank keeps of a unit --------------------------------------------------------------- */

/* Return a rank's part of a unit that is sharded over a group. With the group SELF, return the whole unit. With sums in
 * two levels, the shards of ranks with the same place in their LOCAL groups are adjacent, so that each level moves
 * contiguous ranges. */
static zr_range unit_part(const zr_plan *plan, const zr_plan_unit *u, int32_t group)
{
    const int32_t near = group & ZR_GROUP_LOCAL, far = group & ~ZR_GROUP_LOCAL;
    const int64_t elems = u->padded_elems / plan->group[group].size;
    if (group == ZR_GROUP_SELF) return (zr_range){.count = elems};
    if (!plan->two_levels || near == group) return (zr_range){.count = elems, .by = {elems, group}};
    return (zr_range){.count = elems, .by = {elems, far}, .outer = {u->padded_elems / plan->group[near].size, near}};
}

/* Return the group over which a state of a unit is sharded, if the stage shards it. */
static int32_t group_of(const zr_plan_unit *u, bool sharded)
{
    return sharded ? u->shard_group : ZR_GROUP_SELF;
}

static zr_status keep_state(zr_plan *plan, zr_space space, zr_category category, int32_t unit, const char *what,
                            zr_dtype dtype, int32_t group, zr_state *state)
{
    state->dtype = dtype;
    state->range = unit_part(plan, &plan->unit[unit], group);
    return zr__plan_persistent(plan, space, category, unit, what, zr_dtype_span(dtype, state->range.count),
                               &state->buffer);
}

zr_use zr__use_all(int32_t buffer, bool reads, bool writes)
{
    return (zr_use){.buffer = buffer, .reads = reads, .writes = writes};
}

zr_use zr__use_state(const zr_state *state, zr_range range, bool reads, bool writes)
{
    /* If the buffer itself begins at this rank's elements, its stride is removed from the use. */
    const zr_stride moved[] = {state->range.by, state->range.outer};
    for (int i = 0; i < 2; i++) {
        if (moved[i].elems == range.by.elems && moved[i].group == range.by.group) range.by = (zr_stride){0};
        if (moved[i].elems == range.outer.elems && moved[i].group == range.outer.group) range.outer = (zr_stride){0};
    }
    return (zr_use){state->buffer, state->dtype, reads, writes, .range = range};
}

int64_t zr__plan_bucket_elems(int64_t wanted_elems, int ranks, int64_t align_elems)
{
    const int64_t grain = ranks * align_elems;
    if (wanted_elems < 1) wanted_elems = 1;
    if (wanted_elems > INT64_MAX - grain) wanted_elems = INT64_MAX - grain;
    return (wanted_elems + grain - 1) / grain * grain;
}

/* Add the persistent buffers of a unit's gradient. If sums are in fp32, add its accumulators too. */
static zr_status grad_states(zr_plan *plan, int32_t index)
{
    zr_plan_unit *u = &plan->unit[index];
    const zr_layout *l = &plan->layout;
    if (plan->consume_grad || !u->trains) return ZR_OK;
    const bool shard = plan->shards_grad;
    /* Ops write whole gradients, so whole gradients are on the device. Shards and accumulators may be in another space.
     */
    const zr_space home = l->home.grad;
    if (!plan->reduce_once && (!shard || !plan->sum_f32))
        ZR_TRY(keep_state(plan, shard ? home : ZR_SPACE_DEVICE, ZR_CATEGORY_GRAD, index,
                          shard ? "gradient shards" : "gradients", l->wire_dtype, group_of(u, shard), &u->grad));
    u->sums = u->grad;
    if (!plan->sum_f32) return ZR_OK;
    /* The binary tree over micro-batches keeps one partial sum for each 1 in the binary form of the number of
     * micro-batches so far. Micro-batch j (from 0) opens a new partial sum if j is even. If j is odd, its gradient is
     * added to the newest partial sum. `sums` stores the first partial sum, and `open_sums` stores the later ones. */
    while (l->rank_free_sums && ((uint64_t)l->accum + 1) >> (u->n_open_sums + 1) > 1) u->n_open_sums++;
    ZR_CHECK(u->shard_elems <= (INT64_MAX / 8 - u->padded_elems) / (u->n_open_sums + 1), ZR_ERR_CONFIG,
             "the accumulators of %lld micro-batches do not fit 63 bits of bytes", (long long)l->accum);
    static const char what[] = "gradient accumulators (fp32)";
    ZR_TRY(keep_state(plan, home, ZR_CATEGORY_GRAD, index, what, ZR_F32,
                      group_of(u, plan->shards_optim && (!plan->reduce_once || plan->reduces_early)), &u->sums));
    u->open_sums = plan->n_persistent;
    for (int32_t i = 0, at; i < u->n_open_sums; i++)
        ZR_TRY(zr__plan_persistent(plan, home, ZR_CATEGORY_GRAD, index, what, 4 * u->shard_elems, &at));
    return ZR_OK;
}

int32_t zr__error_group(const zr_plan *plan, int level)
{
    const zr_layout *l = &plan->layout;
    if (!l->train || l->error_steps == 0 || l->ranks == 1) return ZR_GROUP_SELF;
    if (level == ZR_ERROR_WHOLE) return ZR_GROUP_DATA;
    /* in groups of one rank, whose gradients have not been cast yet, the partial sums are the whole gradient */
    return plan->two_levels && plan->group[ZR_GROUP_LOCAL].size > 1 ? ZR_GROUP_DATA & ~ZR_GROUP_LOCAL : ZR_GROUP_SELF;
}

/* Check that the rotation of elements mixes no errors of a matrix with errors of the padding behind it, which no
 * checkpoint has. */
static zr_status check_rotated(const zr_graph *graph, int32_t unit, zr_dtype records)
{
    const zr_unit_info *info = zr_graph_unit_info(graph, unit);
    const bool rotates = records == ZR_H4X128 || records == ZR_H4X256;
    for (int32_t p = info->first_param; p < info->first_param + info->n_params && rotates; p++) {
        const zr_param_info *param = zr_graph_param(graph, p);
        ZR_CHECK(zr_shape_elems(&param->shape) % zr__dtype_grain(records) == 0, ZR_ERR_UNSUPPORTED,
                 "zeropp_loco_param with quantization.gradients int4_hadamard: %s has %lld elements, wanted a multiple "
                 "of quantization.block, %lld; choose int4",
                 param->name, (long long)zr_shape_elems(&param->shape), (long long)zr__dtype_grain(records));
    }
    return ZR_OK;
}

/* Add the errors of a unit's gradient, one state for each level at which it is cast to records. */
static zr_status error_states(zr_plan *plan, const zr_graph *graph, int32_t index)
{
    zr_plan_unit *u = &plan->unit[index];
    const zr_range range[ZR_ERROR_LEVELS] = {{.count = u->padded_elems},
                                             {.count = u->own.outer.elems, .by = u->own.outer}};
    for (int i = 0; i < ZR_ERROR_LEVELS && zr_dtype_is_record(u->grad_records); i++) {
        zr_state *error = &u->error[i];
        if (zr__error_group(plan, i) == ZR_GROUP_SELF) continue;
        ZR_TRY(check_rotated(graph, index, u->grad_records));
        error->dtype = zr__error_dtype(u->grad_records);
        error->range = range[i];
        ZR_TRY(zr__plan_persistent(plan, ZR_SPACE_DEVICE, ZR_CATEGORY_GRAD, index, "errors of gradients",
                                   zr_dtype_span(error->dtype, range[i].count), &error->buffer));
    }
    return ZR_OK;
}

static zr_status optim_states(zr_plan *plan, const zr_graph *graph, int32_t index)
{
    zr_plan_unit *u = &plan->unit[index];
    const bool records = zr__unit_has_records(plan, graph, index);
    if (!u->trains) return ZR_OK;
    /* fp32 parameters need no separate master, unless ops read other values, which have passed as records */
    if (plan->layout.dtype != ZR_F32 || zr_dtype_is_record(u->weight_records))
        ZR_TRY(keep_state(plan, u->optim_home, ZR_CATEGORY_OPTIM, index, "master parameters (fp32)", ZR_F32,
                          group_of(u, plan->shards_optim), &u->master));
    for (int i = 0; i < u->n_slots; i++) {
        const zr_dtype dtype = records ? zr_plan_optimizer(plan, u)->slot_records[i] : ZR_F32;
        ZR_TRY(keep_state(plan, u->optim_home, ZR_CATEGORY_OPTIM, index,
                          dtype == ZR_F32 ? "optimizer states (fp32)" : "optimizer states (8 bits)", dtype,
                          group_of(u, plan->shards_optim), &u->slot[i]));
    }
    return ZR_OK;
}

/* Return whether a unit stays whole at stage 3 because its parameters are small. *persisting counts the elements of all
 * units that stay whole, at most persist_model_elems. */
static bool stays_whole(const zr_plan *plan, const zr_graph *graph, int32_t unit, int64_t *persisting)
{
    const zr_layout *l = &plan->layout;
    const zr_unit_info *info = zr_graph_unit_info(graph, unit);
    for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
        if (zr_shape_elems(&zr_graph_param(graph, p)->shape) >= l->persist_elems) return false;
    if (l->persist_elems == 0 || (l->persist_model_elems > 0 && info->elems > l->persist_model_elems - *persisting))
        return false;
    *persisting += info->elems;
    return true;
}

/* Return whether a unit's parameters are stored as records: only frozen ones are. */
static bool is_stored_as_records(const zr_plan_unit *u)
{
    return !u->trains && zr_dtype_is_record(u->weight_records);
}

/* Return whether a unit's parameters are not stored in the type that passes between ranks, but cast from its master for
 * every gather (stage 3, with lean states or as records). */
static bool is_not_stored(const zr_plan *plan, const zr_plan_unit *u)
{
    const bool lean = plan->layout.states == ZR_STATES_LEAN && plan->layout.dtype != ZR_F32;
    return u->trains && u->gathered && (lean || zr_dtype_is_record(u->weight_records));
}

/* Return whether several ranks share one copy of a unit's parameters. */
static bool is_shared(const zr_plan *plan, const zr_plan_unit *u)
{
    return plan->group[group_of(u, plan->shards_param)].size > 1;
}

/* Decide which units are gathered, and which units' parameters and optimizer states are off the device: the last units
 * of the model, until they have the share of the elements that the layout requests. */
static void find_homes(zr_plan *plan, const zr_graph *graph)
{
    const zr_homes *home = &plan->layout.home;
    int64_t persisting = 0, params = 0, trained = 0, params_away = 0, trained_away = 0;
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        /* On a single rank, the parameters that ops read need a separate buffer only if they are stored in another
         * dtype or in another memory space. */
        u->gathered = true;
        const bool records = is_stored_as_records(u), own_buffer = is_shared(plan, u) || is_not_stored(plan, u) ||
                                                                   records || home->param != ZR_SPACE_DEVICE;
        u->gathered =
            u->held && plan->shards_param && own_buffer && (records || !stays_whole(plan, graph, i, &persisting));
        if (u->gathered && !u->copied && !is_not_stored(plan, u)) params += u->elems;
        if (u->trains) trained += u->elems;
    }
    for (int32_t i = plan->n_units - 1; i >= 0; i--) {
        zr_plan_unit *u = &plan->unit[i];
        u->param_home = u->optim_home = ZR_SPACE_DEVICE;
        if (u->gathered && !u->copied && !is_not_stored(plan, u) &&
            (double)params_away < home->param_share * (double)params) {
            u->param_home = home->param;
            params_away += u->elems;
        }
        if (u->trains && (double)trained_away < home->optim_share * (double)trained) {
            u->optim_home = home->optim;
            trained_away += u->elems;
        }
        if (!is_shared(plan, u) && !is_not_stored(plan, u) && !is_stored_as_records(u) &&
            u->param_home == ZR_SPACE_DEVICE)
            u->gathered = false;
    }
}

int64_t zr__record_align(const zr_layout *l)
{
    const zr_dtype records[] = {l->weight_records, l->frozen_records, l->grad_records, l->optimizer.slot_records[0]};
    int64_t align = 1;
    for (int i = 0; i < 3 + l->train; i++)
        if (zr__dtype_grain(records[i]) > align) align = zr__dtype_grain(records[i]);
    return align;
}

/* Return whether a unit has the matrices of a block, that is, of a unit which the model declares between its first one,
 * with the tables, and its last one, with the head. */
static bool is_block(const zr_graph *graph, int32_t unit)
{
    int32_t last = 0;
    for (int32_t u = 0; u < zr_graph_units(graph); u++)
        if (zr_graph_unit_info(graph, u)->declared == u) last = u;
    const zr_unit_info *info = zr_graph_unit_info(graph, unit);
    bool matrices = info->declared > 0 && info->declared < last;
    for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
        matrices &= zr_graph_param(graph, p)->shape.ndim > 1;
    return matrices;
}

bool zr__unit_has_records(const zr_plan *plan, const zr_graph *graph, int32_t unit)
{
    const uint64_t roles = plan->unit[unit].roles;
    return zr__record_align(&plan->layout) > 1 && (roles & (roles - 1)) == 0 && is_block(graph, unit);
}

/* Decide whether parameters and gradients of a unit pass between ranks as records. */
static void choose_records(zr_plan *plan, const zr_graph *graph, int32_t unit)
{
    const zr_layout *l = &plan->layout;
    zr_plan_unit *u = &plan->unit[unit];
    const int64_t align = zr__record_align(l);
    const bool frozen = l->train && u->elems > 0 && zr_graph_unit_info(graph, unit)->frozen;
    u->weight_records = u->grad_records = ZR_F32;
    u->align_elems = ZR_SHARD_ALIGN;
    if (!(u->trains || frozen) || !zr__unit_has_records(plan, graph, unit)) return;
    u->weight_records = frozen ? l->frozen_records : l->weight_records;
    u->differs = u->trains && l->weight_differences;
    if (u->trains) u->grad_records = l->grad_records;
    if (align > u->align_elems) u->align_elems = align;
}

/* Find the optimizer of a unit. A unit has only hidden matrices, or no hidden matrix. */
static void choose_optimizer(zr_plan *plan, const zr_graph *graph, int32_t unit)
{
    zr_plan_unit *u = &plan->unit[unit];
    const bool ortho = plan->optimizer.ortho.steps > 0;
    u->orthogonal = ortho && u->trains && zr_graph_param(graph, zr_graph_unit_info(graph, unit)->first_param)->hidden;
    u->n_slots = u->trains ? zr_plan_optimizer(plan, u)->n_slots : 0;
    u->first_slot = ortho && !u->orthogonal ? plan->optimizer.n_slots : 0;
}

/* Return the number of a unit's parameter elements on one rank. */
static int64_t param_elems(const zr_graph *graph, int32_t unit)
{
    const zr_unit_info *info = zr_graph_unit_info(graph, unit);
    int64_t elems = 0;
    for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
        elems += zr_shape_elems(&zr_graph_param(graph, p)->shape);
    return elems;
}

zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph)
{
    const zr_layout *l = &plan->layout;
    ZR_CHECK(zr_graph_param_elems(graph) <= INT64_MAX / 64, ZR_ERR_CONFIG,
             "%lld parameters: their states do not fit 63 bits of bytes, a smaller model is needed",
             (long long)zr_graph_param_elems(graph));
    plan->params = zr_graph_param_elems(graph);
    bool rest = false;
    for (int32_t i = 0; i < zr_graph_params(graph); i++) {
        const zr_param_info *param = zr_graph_param(graph, i);
        if (!param->frozen && param->tile.index == 0) plan->trained += zr_shape_elems(&param->whole);
        rest |= !param->frozen && !param->hidden;
    }
    plan->n_slots = plan->optimizer.n_slots + (rest ? plan->rest.n_slots : 0);
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        u->elems = u->held ? zr_graph_unit_info(graph, i)->elems : 0;
        u->trains = l->train && u->elems > 0 && !u->copied && !zr_graph_unit_info(graph, i)->frozen;
        choose_optimizer(plan, graph, i);
        u->sum_group = ZR_GROUP_DATA;
        u->shard_group = l->shard_ranks > 0 && plan->group[ZR_GROUP_ACROSS].size > 1 ? ZR_GROUP_LOCAL : u->sum_group;
        choose_records(plan, graph, i);
        const int64_t ranks = plan->group[u->sum_group].size, grain = ranks * u->align_elems;
        u->padded_elems = (u->elems + grain - 1) / grain * grain;
        u->shard_elems = u->padded_elems / ranks;
        u->own = unit_part(plan, u, u->sum_group);
        u->param.buffer = u->grad.buffer = u->sums.buffer = u->hpz_shard.buffer = u->master.buffer = u->square =
            u->verdict = u->trust = u->norms = ZR_NONE;
        for (int s = 0; s < ZR_OPTIMIZER_SLOTS; s++) u->slot[s].buffer = ZR_NONE;
        for (int s = 0; s < ZR_ERROR_LEVELS; s++) u->error[s].buffer = ZR_NONE;
        plan->padding_elems += u->padded_elems - (u->held ? param_elems(graph, i) : 0);
    }
    find_homes(plan, graph);
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        if (u->held && !is_not_stored(plan, u))
            ZR_TRY(keep_state(
                plan, u->param_home, ZR_CATEGORY_PARAM, i, u->gathered ? "parameter shards" : "parameters",
                is_stored_as_records(u) ? u->weight_records : l->dtype, group_of(u, u->gathered), &u->param));
        u->update = u->trains || u->copied ? unit_part(plan, u, group_of(u, plan->shards_optim)) : u->param.range;
    }
    for (int32_t i = 0; l->train && l->hpz_ranks > 0 && plan->group[ZR_GROUP_ACROSS].size > 1 && i < plan->n_units; i++)
        if (plan->unit[i].gathered)
            ZR_TRY(keep_state(plan, ZR_SPACE_DEVICE, ZR_CATEGORY_PARAM, i, "second parameter shards",
                              zr__passed_dtype(plan, i), ZR_GROUP_LOCAL, &plan->unit[i].hpz_shard));
    /* Place all gradients before all optimizer states, so that a memory map shows each kind as one band. */
    for (int32_t i = 0; l->train && i < plan->n_units; i++) ZR_TRY(grad_states(plan, i));
    for (int32_t i = 0; l->train && i < plan->n_units; i++) ZR_TRY(error_states(plan, graph, i));
    for (int32_t i = 0; l->train && i < plan->n_units; i++) ZR_TRY(optim_states(plan, graph, i));
    return ZR_OK;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Return the larger of the dtypes that gathers move: the dtype of the parameters and, if gathers also move summed
 * gradients, the dtype of the sums. */
static zr_dtype gathered_dtype(const zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    const bool params = plan->shards_optim || !l->train;
    const bool sums = l->train && (!plan->shards_optim || l->reduce == ZR_REDUCE_ALL_REDUCE);
    const zr_dtype param = l->dtype, sum = plan->sum_f32 ? ZR_F32 : l->wire_dtype;
    const bool larger = zr_dtype_span(sum, ZR_SHARD_ALIGN) > zr_dtype_span(param, ZR_SHARD_ALIGN);
    return sums && (!params || larger) ? sum : param;
}

/* Return the bytes of the largest bucket of any step that passes through staging memory. Gathers between devices with
 * their own memory do not, so they count as 1 byte, for which comm has its least staging memory. */
static int64_t largest_bucket(const zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    const zr_dtype wire = plan->reduce_once ? ZR_F32 : l->wire_dtype, gathered = gathered_dtype(plan);
    const bool direct = plan->profile.facts.own_memory;
    int64_t largest = 0;
    for (int32_t i = 0; i < plan->n_units; i++) {
        const zr_plan_unit *u = &plan->unit[i];
        const int32_t ranks = plan->group[u->sum_group].size;
        const int64_t reduce = zr__plan_bucket_elems(l->reduce_bucket_elems, ranks, u->align_elems),
                      gather = zr__plan_bucket_elems(l->gather_bucket_elems, ranks, u->align_elems);
        const zr_dtype directions = plan->optimizer.ortho.dtype;
        const int64_t elems = u->padded_elems, reduced = zr_dtype_span(wire, smaller(reduce, elems)),
                      whole = direct ? smaller(1, elems) : zr_dtype_span(gathered, smaller(gather, elems)),
                      passed = u->orthogonal ? zr_dtype_span(directions, smaller(direct ? reduce : gather, elems)) : 0;
        if (u->trains && reduced > largest) largest = reduced;
        if (passed > largest) largest = passed;
        if ((u->trains || u->copied || u->gathered) && whole > largest) largest = whole;
    }
    return largest;
}

/* Return the size in bytes of the largest value that tensor-parallel ranks exchange or may store in pieces. */
static int64_t largest_joined(const zr_plan *plan)
{
    int64_t largest = 0;
    const zr_graph *train = plan->graph[ZR_SCHEDULE_TRAIN];
    for (int32_t v = 0; train && plan->partition_checkpoints && v < zr_graph_values(train); v++) {
        const zr_value_info *info = zr_graph_value(train, v);
        const bool forward = info->kind == ZR_VALUE_ACT && !zr_graph_get_op(train, info->producer)->backward;
        if (forward && !info->cut && !info->tokens && zr__value_bytes(info) > largest) largest = zr__value_bytes(info);
    }
    for (int k = 0; k < ZR_SCHEDULES; k++)
        for (int32_t i = 0; plan->graph[k] && i < zr_graph_ops(plan->graph[k]); i++) {
            const zr_op *op = zr_graph_get_op(plan->graph[k], i);
            if (op->def->join == ZR_JOIN_NONE) continue;
            const int64_t in = zr__value_bytes(zr_graph_value(plan->graph[k], op->in[0])),
                          out = zr__value_bytes(zr_graph_value(plan->graph[k], op->out[0]));
            if (in > largest) largest = in;
            if (out > largest) largest = out;
        }
    return largest;
}

/* Maximum bytes of the staging memory on processors, and between devices. Pieces pass through it in chunks, so its
 * size does not depend on the model (ZeRO section 6.2, C_B). One half is filled while the other half is read. On
 * processors, a larger staging memory is no faster. Between devices, a chunk must be long enough to hide the latency of
 * a request. */
#define STAGING_BYTES ((int64_t)4 << 20)
#define STAGING_OWN_MEMORY_BYTES ((int64_t)64 << 20)
#define STAGING_LEAST_BYTES ((int64_t)128 << 10) /* minimum bytes per rank, for both halves together */

/* Plan the staging memory of each group. */
zr_status zr__plan_staging(zr_plan *plan)
{
    const int64_t largest = largest_bucket(plan), joined = largest_joined(plan);
    const int32_t tensor = plan->group[ZR_GROUP_TENSOR].same, all = plan->group[ZR_GROUP_ALL].same;
    /* a record of gradients, which must not be cut, fits in each half */
    const int64_t record = 2 * zr__round_bytes(ZR_SPACE_STAGING, zr_dtype_bytes(plan->layout.grad_records)),
                  least = record > ZR_STAGING_LEAST ? record : ZR_STAGING_LEAST;
    /* parameters or gradients are exchanged only if there are several data-parallel ranks and some unit has a bucket */
    plan->moves = plan->group[ZR_GROUP_DATA].size > 1 && largest > 0;
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        plan->staging[g] = ZR_NONE;
        const bool layers = g == tensor && g != ZR_GROUP_SELF, units = plan->moves && (g & ~ZR_GROUP_DATA) == 0;
        int64_t moved = units ? largest : 0;
        if (layers) moved = joined;
        /* saves use the staging memory of all ranks, also of roles that train nothing */
        const bool saves = g == all && (plan->moves || plan->layout.pipeline > 1);
        if (!plan->group[g].exchanges || (moved == 0 && !saves)) continue;
        const int64_t ranks = plan->group[g].size,
                      most = plan->profile.facts.own_memory ? STAGING_OWN_MEMORY_BYTES : STAGING_BYTES;
        int64_t wanted = ranks * STAGING_LEAST_BYTES > most ? ranks * STAGING_LEAST_BYTES : most;
        wanted = smaller(wanted, 2 * moved);
        if (wanted < ranks * least) wanted = ranks * least;
        ZR_TRY(zr__plan_persistent(plan, ZR_SPACE_STAGING, ZR_CATEGORY_BUFFER, -1, "staging memory", wanted,
                                   &plan->staging[g]));
    }
    return ZR_OK;
}

/* ---- results that steer later steps ------------------------------------------------------------ */

static zr_status plan_result(zr_plan *plan, int32_t unit, const char *what, size_t bytes, int32_t *index)
{
    return zr__plan_persistent(plan, ZR_SPACE_HOST, ZR_CATEGORY_WORK, unit, what, (int64_t)bytes, index);
}

zr_status zr__plan_results(zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    plan->loss = plan->verdict = plan->numbers = plan->counted = plan->output = ZR_NONE;
    ZR_TRY(plan_result(plan, -1, "states that are filled and read", ZR_PASSING_ELEMS * sizeof(float), &plan->passing));
    if (l->decode_len > 0) {
        const zr_graph *g = plan->graph[ZR_SCHEDULE_DECODE];
        const zr_value_info *output = zr_graph_value(g, zr_graph_get_output(g));
        ZR_TRY(plan_result(plan, -1, "output", (size_t)zr__value_bytes(output), &plan->output));
    }
    if (!l->train && !l->eval) return ZR_OK;
    ZR_TRY(plan_result(plan, -1, "loss", sizeof(zr_exact) * (size_t)plan->terms, &plan->loss));
    if (!l->train) return ZR_OK;
    int scalars = zr_norm_scalars(l->micro_squares, plan->terms);
    if (l->optimizer.trust && scalars < ZR_TRUST_CALL) scalars = ZR_TRUST_CALL;
    ZR_TRY(plan_result(plan, -1, "what all ranks agree on", sizeof(zr_verdict), &plan->verdict));
    ZR_TRY(plan_result(plan, -1, "numbers of all ranks", sizeof(double) * (size_t)scalars * (size_t)plan->ranks,
                       &plan->numbers));
    if (plan->terms > 1)
        ZR_TRY(plan_result(plan, -1, "numbers of losses that count", sizeof(double) * (size_t)plan->terms,
                           &plan->counted));
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        if (!u->trains) continue; /* the unit has no gradient */
        ZR_TRY(plan_result(plan, i, "squares of the gradient", sizeof(zr_square), &u->square));
        u->verdict = plan->verdict;
        if (plan->consume_grad && !l->two_pass)
            ZR_TRY(plan_result(plan, i, "what all ranks agree on of the unit", sizeof(zr_verdict), &u->verdict));
        if (!l->optimizer.trust) continue;
        const size_t params = (size_t)zr_graph_unit_info(plan->graph[ZR_SCHEDULE_TRAIN], i)->n_params;
        ZR_TRY(plan_result(plan, i, "squares for trust ratios", params * sizeof(zr_trust), &u->trust));
        ZR_TRY(plan_result(plan, i, "norms for trust ratios", params * sizeof(zr_norms), &u->norms));
    }
    return ZR_OK;
}
