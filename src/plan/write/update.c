/* Writes the end of a training step: the gradient norm, the check that all numbers are finite, and the updates. With
 * trust ratios, all ranks agree on the norms of parameters and of their directions before the updates. Directions of
 * hidden matrices are gathered, made orthogonal by the matrices' owners, and scattered.
 * Usually these steps come after the last micro-batch. If updates consume the gradients (lean states), they come at
 * the end of each unit's backward pass. */
#include "base/core/scope.h"
#include "plan/write/write.h"

void zr__write_square(zr__list *l, int32_t unit, const zr_state *sums)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    zr__id step = zr__list_step(l, ZR_STEP_SQUARE, ZR_STREAM_COMPUTE, unit);
    zr__list_newest(l)->range = u->own;
    zr__list_newest(l)->rank_free_sums = l->plan->layout.rank_free_sums;
    zr__list_use(l, step, zr__use_state(sums, u->own, true, false));
    zr__list_use(l, step, zr__use_all(u->square, false, true));
}

bool zr__copies_grad_home(const zr_plan *plan, int32_t unit)
{
    const zr_state *sums = &plan->unit[unit].sums;
    return !plan->moves && !plan->sum_f32 && sums->buffer != ZR_NONE &&
           plan->persistent[sums->buffer].space != ZR_SPACE_DEVICE;
}

bool zr__squares_early(const zr_plan *plan, int32_t unit)
{
    const zr_state *sums = &plan->unit[unit].sums;
    return !plan->moves && plan->rounds == 1 && sums->buffer != ZR_NONE &&
           plan->persistent[sums->buffer].space != ZR_SPACE_DEVICE;
}

/* Write UPDATE or SQUARE_UPDATE. Both read the same states, but SQUARE_UPDATE reads only this rank's shard at every
 * stage. For hidden matrices `sums` are their directions, and DIRECTION has used the optimizer's states. */
static zr__id write_unit_step(zr__list *l, zr_step_kind kind, int32_t unit, const zr_state *sums)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const bool updates = kind == ZR_STEP_UPDATE, no_master = u->master.buffer == ZR_NONE;
    const zr_range range = updates ? u->update : u->own;
    zr__id step = zr__list_step(l, kind, ZR_STREAM_COMPUTE, unit);
    zr__list_newest(l)->range = range;
    zr__list_use(l, step, zr__use_state(sums, range, true, false));
    zr__list_use(l, step, zr__use_state(&u->master, range, true, updates));
    for (int i = 0; i < u->n_slots && !u->orthogonal; i++)
        zr__list_use(l, step, zr__use_state(&u->slot[i], range, true, updates));
    /* parameters that pass as records change only in a gather, which casts them from the master */
    const bool params = no_master || (updates && !zr_dtype_is_record(u->weight_records));
    zr__list_use(l, step,
                 params ? zr__use_state(&u->param, range, no_master, updates) : zr__use_all(ZR_NONE, false, false));
    zr__list_use(l, step, zr__use_all(u->verdict, true, false));
    return step;
}

static void write_unit_update(zr__list *l, int32_t unit, const zr_state *sums)
{
    const zr__id step = write_unit_step(l, ZR_STEP_UPDATE, unit, sums);
    if (l->plan->layout.optimizer.trust) zr__list_use(l, step, zr__use_all(l->plan->unit[unit].norms, true, false));
}

static void write_square_update(zr__list *l, int32_t unit, const zr_state *sums)
{
    if (!l->plan->layout.optimizer.trust) return;
    const zr__id step = write_unit_step(l, ZR_STEP_SQUARE_UPDATE, unit, sums);
    zr__list_newest(l)->rank_free_sums = l->plan->layout.rank_free_sums;
    zr__list_use(l, step, zr__use_all(l->plan->unit[unit].trust, false, true));
}

/* ---- orthogonalised directions ------------------------------------------------------------------ */

/* Return the state of a unit's directions in a buffer. */
static zr_state directions_in(const zr_plan *plan, int32_t unit, int32_t buffer)
{
    return (zr_state){buffer, plan->optimizer.ortho.dtype, {.count = plan->unit[unit].padded_elems}};
}

/* Write the steps that compute the directions of a unit's matrices and gather them. Return their buffer. */
static int32_t write_direction(zr__list *l, int32_t unit, const zr_state *sums)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const zr_dtype dtype = l->plan->optimizer.ortho.dtype;
    const int32_t buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_WORK, unit, "directions",
                                           zr_dtype_span(dtype, u->padded_elems));
    const zr_state directions = directions_in(l->plan, unit, buffer);
    const zr__id step = zr__list_step(l, ZR_STEP_DIRECTION, ZR_STREAM_COMPUTE, unit);
    zr__list_newest(l)->range = u->update;
    zr__list_use(l, step, zr__use_state(sums, u->update, true, false));
    for (int i = 0; i < u->n_slots; i++) zr__list_use(l, step, zr__use_state(&u->slot[i], u->update, true, true));
    zr__list_use(l, step, zr__use_all(u->verdict, true, false));
    zr__list_use(l, step, zr__use_state(&directions, u->update, false, true));
    if (l->plan->shards_optim) zr__write_gather_directions(l, unit, &directions);
    return buffer;
}

/* Write the iteration of this rank's matrices of a unit. */
static void write_ortho(zr__list *l, int32_t unit, int32_t buffer)
{
    const zr_plan *plan = l->plan;
    const zr_state directions = directions_in(plan, unit, buffer);
    const zr__id step = zr__list_step(l, ZR_STEP_ORTHO, ZR_STREAM_COMPUTE, unit);
    const int32_t scratch =
        zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_WORK, unit, "scratch", plan->ortho_scratch_bytes);
    zr__list_newest(l)->group = plan->unit[unit].ortho_group;
    zr__list_use(l, step, zr__use_state(&directions, directions.range, true, true));
    zr__list_use(l, step, zr__use_all(scratch, true, true));
    zr__list_use(l, step, zr__use_all(plan->unit[unit].verdict, true, false));
}

/* Write the exchange of the results. At stage 0 each rank needs all results. */
static void write_results(zr__list *l, int32_t unit, int32_t buffer)
{
    const zr_state directions = directions_in(l->plan, unit, buffer);
    zr__write_scatter_directions(l, unit, &directions);
    if (!l->plan->shards_optim) zr__write_gather_directions(l, unit, &directions);
}

/* Write the iterations of the units of a batch, the exchange of their results, and their updates. */
static void write_batch(zr__list *l, int32_t batch, const int32_t *buffer)
{
    const zr_plan *plan = l->plan;
    for (int pass = 0; pass < 3; pass++)
        for (int32_t u = 0; u < plan->n_units; u++) {
            if (!plan->unit[u].orthogonal || plan->unit[u].ortho_batch != batch) continue;
            const zr_state directions = directions_in(plan, u, buffer[u]);
            if (pass == 0) write_ortho(l, u, buffer[u]);
            if (pass == 1) write_results(l, u, buffer[u]);
            if (pass == 2) write_unit_update(l, u, &directions);
        }
}

/* Write the updates of all hidden matrices. With overlap, the directions of the next batch are gathered while the ranks
 * iterate the matrices of a batch. The other units are updated while the first directions are gathered. */
static void write_updates(zr__list *l)
{
    const zr_plan *plan = l->plan;
    const int32_t ahead = plan->layout.overlap ? 1 : 0;
    int32_t batches = 0;
    ZR_AUTO_FREE int32_t *buffer = zr_alloc(sizeof *buffer * (size_t)(plan->n_units + 1));
    if (!buffer && l->status == ZR_OK) l->status = ZR_FAIL(ZR_ERR_MEMORY, "no memory to plan %d units", plan->n_units);
    if (!buffer) return;
    for (int32_t u = 0; u < plan->n_units; u++)
        if (plan->unit[u].orthogonal) batches = plan->unit[u].ortho_batch + 1;
    for (int32_t b = 0; b < batches + ahead || b == 0; b++) {
        for (int32_t u = 0; u < plan->n_units && b < batches; u++)
            if (plan->unit[u].orthogonal && plan->unit[u].ortho_batch == b)
                buffer[u] = write_direction(l, u, &plan->unit[u].sums);
        for (int32_t u = 0; u < plan->n_units && b == 0; u++)
            if (plan->unit[u].trains && !plan->unit[u].orthogonal) write_unit_update(l, u, &plan->unit[u].sums);
        if (b >= ahead && b - ahead < batches) write_batch(l, b - ahead, buffer);
    }
}

/* Add a step in which all ranks exchange scalars. It is a collective, and therefore on the comm stream. */
static zr__id all_ranks(zr__list *l, zr_step_kind kind, int32_t unit)
{
    zr__id step = zr__list_step(l, kind, ZR_STREAM_COMM, unit);
    zr__list_newest(l)->group = ZR_GROUP_ALL;
    return step;
}

/* Write the TRUST step, which exchanges the squares for trust ratios, for one unit or for all units (unit -1). */
static void write_trust(zr__list *l, int32_t unit)
{
    const zr_plan *plan = l->plan;
    if (!plan->layout.optimizer.trust) return;
    const zr__id step = all_ranks(l, ZR_STEP_TRUST, unit);
    zr__list_newest(l)->group = ZR_GROUP_ALL & ~ZR_GROUP_PIPELINE; /* other roles have other units */
    zr__list_newest(l)->rank_free_sums = plan->layout.rank_free_sums;
    zr__list_use(l, step, zr__use_all(plan->numbers, true, true));
    for (int32_t u = 0; u < plan->n_units; u++) {
        if (!plan->unit[u].trains || (unit >= 0 && u != unit)) continue;
        zr__list_use(l, step, zr__use_all(plan->unit[u].trust, true, false));
        zr__list_use(l, step, zr__use_all(plan->unit[u].norms, false, true));
    }
}

/* Write the operands that the steps NORM and AGREE have in common. */
static zr__id verdict(zr__list *l, zr_step_kind kind, int32_t unit)
{
    zr__id step = all_ranks(l, kind, unit);
    zr__list_use(l, step, zr__use_all(l->plan->loss, true, false));
    zr__list_use(l, step, zr__use_all(l->plan->numbers, true, true));
    return step;
}

void zr__write_count(zr__list *l)
{
    if (l->plan->terms == 1) return;
    zr__id step = all_ranks(l, ZR_STEP_COUNT, -1);
    zr__list_newest(l)->when = ZR_WHEN_FIRST;
    zr__list_use(l, step, zr__use_all(l->plan->numbers, true, true));
    zr__list_use(l, step, zr__use_all(l->plan->counted, false, true));
}

/* Add the last operand that NORM and AGREE have with several loss terms: the sums of COUNT. */
static void use_counted(zr__list *l, zr__id step)
{
    if (l->plan->terms > 1) zr__list_use(l, step, zr__use_all(l->plan->counted, true, false));
}

void zr__write_norm(zr__list *l)
{
    zr__id step = verdict(l, ZR_STEP_NORM, -1);
    zr__list_use(l, step, zr__use_all(l->plan->verdict, false, true));
    for (int32_t u = 0; u < l->plan->n_units; u++)
        if (l->plan->unit[u].trains) zr__list_use(l, step, zr__use_all(l->plan->unit[u].square, true, false));
    zr__policies_norm(l, step);
    use_counted(l, step);
}

static void write_agree(zr__list *l, int32_t unit)
{
    zr__id step = verdict(l, ZR_STEP_AGREE, unit);
    zr__list_use(l, step, zr__use_all(l->plan->unit[unit].verdict, false, true));
    zr__list_use(l, step, zr__use_all(l->plan->unit[unit].square, true, false));
    use_counted(l, step);
}

void zr__write_consume(zr__list *l, int32_t unit, int32_t grad, bool norm)
{
    const zr_state sums = zr__sums_of(l->plan, unit, grad);
    bool two_pass = l->plan->layout.two_pass;
    if (norm || !two_pass) zr__write_square(l, unit, &sums);
    if (norm) return;
    if (!two_pass) write_agree(l, unit);
    write_square_update(l, unit, &sums);
    write_trust(l, unit);
    if (!l->plan->unit[unit].orthogonal) {
        write_unit_update(l, unit, &sums);
        return;
    }
    const int32_t buffer = write_direction(l, unit, &sums);
    const zr_state directions = directions_in(l->plan, unit, buffer);
    write_ortho(l, unit, buffer);
    write_results(l, unit, buffer);
    write_unit_update(l, unit, &directions);
}

void zr__write_update(zr__list *l)
{
    const zr_plan *plan = l->plan;
    if (plan->consume_grad) {
        if (!plan->layout.two_pass) zr__write_norm(l);
        return;
    }
    for (int32_t u = 0; u < plan->n_units; u++) {
        zr__write_reduce_once(l, u);
        zr__write_gather_sums(l, u, ZR_NONE, true);
    }
    for (int32_t u = 0; u < plan->n_units; u++)
        if (plan->unit[u].trains && !zr__squares_early(plan, u)) zr__write_square(l, u, &plan->unit[u].sums);
    zr__write_norm(l);
    for (int32_t u = 0; u < plan->n_units; u++)
        if (plan->unit[u].trains) write_square_update(l, u, &plan->unit[u].sums);
    write_trust(l, -1);
    write_updates(l);
}
