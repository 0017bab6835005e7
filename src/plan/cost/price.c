/* Computes the time of one training step, by a walk through the schedules (walk.c). A pricer returns the duration of
 * each step. With a profile, the duration is the larger of the step's time for FLOPs and its time for bytes. */
#include "plan/cost/walk.h"
#include "base/core/core.h"
#include "tensor/tensor.h"

#include <math.h>

/* Return the seconds that `amount` takes at `rate` (amount per second), or 0 if the rate is unknown. */
static double seconds(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

/* Return the bytes of memory that a step without an op reads and writes. On a device with its own memory, count only
 * device memory; for a step of the host's processors count only host memory. */
static double touched_bytes(const zr_plan *plan, const zr_schedule *s, const zr_step *step)
{
    double bytes = 0;
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        const zr_use *use = &s->use[u];
        if (use->buffer == ZR_NONE) continue;
        const zr_buffer *b = &s->buffer[use->buffer];
        const bool copied = b->space == ZR_SPACE_HOST && step->kind == ZR_STEP_COPY && !plan->profile.facts.own_memory;
        const bool there = step->stream == ZR_STREAM_HOST ? b->space == ZR_SPACE_HOST && use->range.count > 0
                                                          : b->space == ZR_SPACE_DEVICE;
        if (!there && !copied) continue;
        const double range = (double)zr_dtype_span(use->dtype, use->range.count);
        bytes += (use->reads + use->writes) * (use->range.count ? range : (double)b->bytes);
    }
    return bytes;
}

/* Add the cost of a unit's matrices to a step ORTHO. Ranks iterate different matrices of the units between two
 * exchanges, and wait for the busiest one, so count its share of the unit's FLOPs. */
static void add_iterations(const zr_plan *plan, int32_t unit, zr_step_cost *cost)
{
    const zr_plan_unit *u = &plan->unit[unit];
    double most = 0;
    for (int32_t i = u->first_matrix; i < u->first_matrix + u->n_matrices; i++) {
        const zr_op *op = zr_graph_get_op(plan->ortho, plan->matrix[i].op);
        const zr_cost its = op->def->cost(plan->ortho, op);
        cost->flops += its.flops * u->ortho_share;
        if (its.flops > most) cost->product = its.product;
        most = fmax(most, its.flops);
    }
}

zr_step_cost zr__plan_step_cost(const zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const zr_schedule *s = &plan->schedule[kind];
    const zr_step *step = &s->step[index];
    if (step->kind == ZR_STEP_RUN) {
        const zr_op *op = zr_graph_get_op(plan->graph[kind], step->op);
        const zr_cost its = op->def->cost(plan->graph[kind], op);
        return (zr_step_cost){.flops = its.flops,
                              .product = its.product,
                              .pairs = its.pairs,
                              .head = its.head,
                              .memory_bytes = its.bytes,
                              .calls = 1};
    }
    /* an exchange of scalars costs latency but no bandwidth */
    const bool scalars = zr_step_traits_of(step->kind).move == ZR_MOVE_SCALARS;
    zr_step_cost cost = {.calls = (double)zr__plan_calls(plan, step)};
    if (step->kind == ZR_STEP_ORTHO) add_iterations(plan, step->unit, &cost);
    cost.wire_bytes = scalars ? 0 : (double)zr__wire_bytes(plan, s, step);
    if (cost.wire_bytes == 0 && step->channel < 0) cost.memory_bytes = touched_bytes(plan, s, step);
    return cost;
}

/* ---- by the rates of a profile ------------------------------------------------------------------ */

typedef struct profile_pricer {
    zr__pricer base;
    const zr_machine *machine;
    double disk_bytes_sec;
} profile_pricer;

double zr__plan_op_flops_sec(const zr_plan *plan, const zr_op_def *def, const zr_machine *machine,
                             zr_product_sizes sizes)
{
    const bool widens = def->in_f32 && !zr__plan_narrow_attention(plan);
    const bool narrow = plan->layout.dtype != ZR_F32 && machine->flops_bf16 > 0 && !widens;
    return zr__machine_flops(machine, narrow, sizes);
}

/* Return the seconds in which an update decodes states in records, and encodes them again: the first moment to nearest,
 * the second one at random. */
static double states_coding_sec(const zr_schedule *s, const zr_step *step, const zr_machine *machine)
{
    double sec = 0;
    bool second = false;
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        const zr_use *use = &s->use[u];
        if (!zr_dtype_is_record(use->dtype) || !use->writes) continue;
        const zr_record_rate *rate = &machine->records[zr__record_codes_of(use->dtype)];
        const double elems = (double)use->range.count;
        sec += seconds(elems, rate->decode) + seconds(elems, second ? rate->encode_random : rate->encode);
        second = true;
    }
    return sec;
}

double zr__plan_coding_sec(const zr_plan *plan, zr_schedule_kind kind, int32_t index, const zr_machine *machine)
{
    const zr_schedule *s = &plan->schedule[kind];
    const zr_step *step = &s->step[index];
    const zr_step_traits traits = zr_step_traits_of(step->kind);
    const bool reduces = traits.move == ZR_MOVE_REDUCE;
    if (step->kind == ZR_STEP_UPDATE) return states_coding_sec(s, step, machine);
    if (step->kind != ZR_STEP_CAST && !reduces) return 0;
    const zr_use *use = &s->use[step->uses + (reduces ? traits.pieces : 0)];
    const zr_dtype from = use[0].dtype, to = reduces ? ZR_F32 : use[1].dtype;
    const double elems =
        reduces ? (double)plan->group[step->group].size * (double)step->range.count : (double)use[0].range.count;
    double sec = 0;
    if (from == to) return 0;
    if (zr_dtype_is_record(from)) sec += seconds(elems, machine->records[zr__record_codes_of(from)].decode);
    if (!zr_dtype_is_record(to)) return sec;
    const zr_record_rate *rate = &machine->records[zr__record_codes_of(to)];
    sec += seconds(elems, plan->stochastic ? rate->encode_random : rate->encode);
    if (step->n_uses < 3 || !zr_dtype_is_record(use[2].dtype)) return sec;
    /* errors are decoded; new errors need the record's values, and are encoded */
    const zr_record_rate *errors = &machine->records[zr__record_codes_of(use[2].dtype)];
    return sec + seconds(elems, errors->decode) + seconds(elems, rate->decode) + seconds(elems, errors->encode);
}

double zr__plan_ortho_flops_sec(const zr_plan *plan, const zr_machine *machine, zr_product_sizes sizes)
{
    const bool narrow = plan->optimizer.ortho.dtype == ZR_BF16 && machine->flops_bf16 > 0;
    return zr__machine_flops(machine, narrow, sizes);
}

int64_t zr__plan_saved_bytes(const zr_plan *plan, const zr_step *step)
{
    const zr_use *use = &plan->schedule[ZR_SCHEDULE_TRAIN].use[step->uses];
    return zr_dtype_span(ZR_F32, use->range.count); /* for any type in memory */
}

double zr__plan_disk_sec(const zr_plan *plan, int32_t index, zr__disk_rates rates)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_use *use = &s->use[s->step[index].uses];
    double read = 0, written = 0;
    for (int space = 0; space < ZR_SPACES; space++) {
        read += (double)plan->copied[ZR_SPACE_DISK][space];
        written += (double)plan->copied[space][ZR_SPACE_DISK];
    }
    const double read_sec = seconds(read, rates.read), write_sec = seconds(written, rates.write);
    const double alone = fmax(read_sec, write_sec);
    const double both = rates.both > 0 ? (read + written) / rates.both : read_sec + write_sec;
    const bool fetches = s->step[index].stream == ZR_STREAM_FETCH;
    const double sec = seconds((double)zr_dtype_span(use->dtype, use->range.count), fetches ? rates.read : rates.write);
    return read_sec > 0 && write_sec > 0 ? sec * fmax(both / alone, 1) : sec;
}

/* Return whether a step copies between the device's own memory and host memory. */
static bool crosses_bus(const zr_plan *plan, const zr_schedule *s, const zr_step *step)
{
    const zr_use *use = &s->use[step->uses];
    return step->kind == ZR_STEP_COPY && plan->profile.facts.own_memory && !zr__is_disk_copy(step) &&
           s->buffer[use[0].buffer].space != s->buffer[use[1].buffer].space;
}

static double step_seconds(const zr__pricer *pricer, const zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const profile_pricer *me = (const profile_pricer *)pricer;
    const zr_step *step = &plan->schedule[kind].step[index];
    if (step->kind == ZR_STEP_SAVE) return seconds((double)zr__plan_saved_bytes(plan, step), me->disk_bytes_sec);
    double compute = 0;
    const zr_machine *m = me->machine;
    const zr_step_cost cost = zr__plan_step_cost(plan, kind, index);
    if (m->host_bytes_sec > 0 && crosses_bus(plan, &plan->schedule[kind], step))
        return seconds(cost.memory_bytes, m->host_bytes_sec);
    if (step->stream == ZR_STREAM_HOST) return seconds(cost.memory_bytes, m->host_memory_bytes_sec);
    if (zr__is_disk_copy(step))
        return zr__plan_disk_sec(
            plan, index, (zr__disk_rates){m->disk_read_bytes_sec, m->disk_write_bytes_sec, m->disk_both_bytes_sec});
    if (step->kind == ZR_STEP_RUN) {
        const zr_op *op = zr_graph_get_op(plan->graph[kind], step->op);
        compute = seconds(cost.flops, zr__plan_op_flops_sec(plan, op->def, me->machine, cost.product));
    }
    if (step->kind == ZR_STEP_ORTHO) compute = seconds(cost.flops, zr__plan_ortho_flops_sec(plan, m, cost.product));
    const double coding = zr__plan_coding_sec(plan, kind, index, m);
    if (cost.wire_bytes > 0) return seconds(cost.wire_bytes, zr__machine_link(m).bytes_sec) + coding;
    return fmax(fmax(compute, coding), seconds(cost.memory_bytes, m->memory_bytes_sec));
}

static profile_pricer pricer_of(const zr_plan *plan, const zr_profile *profile, double disk_bytes_sec)
{
    const zr_queues queues = zr__plan_queues(plan, !profile->machine.link_copies);
    return (profile_pricer){{.step_sec = step_seconds, .queues = queues}, &profile->machine, disk_bytes_sec};
}

/* ---- prices ------------------------------------------------------------------------------------- */

/* Return the time of the iterations of hidden matrices, which follow all rounds. */
static double iterations_sec(const zr_plan *plan, const zr__pricer *pricer)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    double sec = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_ORTHO) sec += pricer->step_sec(pricer, plan, ZR_SCHEDULE_TRAIN, i);
    return sec;
}

zr_status zr__plans_price_by(const zr_plans *plans, const zr__pricer *pricer, zr_price *price)
{
    zr__walked w;
    ZR_TRY(zr__walk_roles(plans, pricer, false, NULL, &w));
    *price = (zr_price){.step_sec = w.step_sec,
                        .compute_sec = w.busy[ZR_STREAM_COMPUTE],
                        .comm_sec = w.busy[ZR_STREAM_COMM] + w.busy[ZR_STREAM_COPY] + w.busy[ZR_STREAM_RETURN] +
                                    w.busy[ZR_STREAM_RECV],
                        .host_sec = w.busy[ZR_STREAM_HOST],
                        .exposed_sec = fmax(w.step_sec - w.busy[ZR_STREAM_COMPUTE], 0),
                        .bubble_sec = w.bubble_sec,
                        .ortho_sec = iterations_sec(plans->role[w.busiest], pricer),
                        .role = w.busiest,
                        .disk_sec = fmax(w.busy[ZR_STREAM_FETCH], w.busy[ZR_STREAM_STORE])};
    return ZR_OK;
}

zr_status zr_plans_price(const zr_plans *plans, const zr_profile *profile, zr_price *price)
{
    const profile_pricer pricer = pricer_of(plans->role[0], profile, 0);
    return zr__plans_price_by(plans, &pricer.base, price);
}

static bool rates_known(const zr_plan *plan)
{
    const zr_machine *m = &plan->profile.machine;
    const bool products = m->flops_f32 > 0 || (plan->layout.dtype != ZR_F32 && m->flops_bf16 > 0);
    return products && m->memory_bytes_sec > 0 && (plan->ranks == 1 || zr__machine_link(m).bytes_sec > 0);
}

static double all_traffic(const zr_plan *plan)
{
    double bytes = 0;
    for (int i = 0; i < ZR_TRAFFIC_KINDS; i++) bytes += (double)plan->traffic.bytes[i];
    return bytes;
}

/* Return whether a is less than b by more than a rounding error. Equal times of two plans may differ in their last
 * bits, if they were summed in different orders. */
static bool clearly_less(double a, double b)
{
    return a < (1 - 1e-9) * b;
}

static zr_status is_faster(const zr_plan *plan, const zr_plan *other, bool *faster)
{
    if (rates_known(plan) && rates_known(other)) {
        zr_price mine, its;
        ZR_TRY(zr_plans_price(&ZR__ALONE(plan), &plan->profile, &mine));
        ZR_TRY(zr_plans_price(&ZR__ALONE(other), &other->profile, &its));
        *faster = clearly_less(mine.step_sec, its.step_sec);
        return ZR_OK;
    }
    const double work = plan->flops_hardware, its_work = other->flops_hardware;
    *faster = clearly_less(work, its_work) ||
              (!clearly_less(its_work, work) && clearly_less(all_traffic(plan), all_traffic(other)));
    return ZR_OK;
}

zr_status zr__plan_better(const zr_plan *plan, const zr_plan *other, bool *better)
{
    const bool fits = zr__plan_fits(plan);
    ZR_CHECK(plan->graph[ZR_SCHEDULE_TRAIN] && other->graph[ZR_SCHEDULE_TRAIN], ZR_ERR_STATE,
             "only plans with a training step can be compared: set zr_layout.train");
    *better = fits;
    if (fits != zr__plan_fits(other)) return ZR_OK;
    if (fits) return is_faster(plan, other, better);
    *better = zr__memory_limited(&plan->memory, &plan->profile.facts) <
              zr__memory_limited(&other->memory, &other->profile.facts);
    return ZR_OK;
}

zr_status zr__plans_price_save_by(const zr_plans *plans, const zr__pricer *pricer, zr_save_price *price)
{
    ZR_CHECK(plans->role[0]->save != ZR_SAVE_NONE, ZR_ERR_STATE,
             "this plan saves nothing behind a step: set zr_layout.save");
    zr__walked without, with;
    ZR_TRY(zr__walk_roles(plans, pricer, false, NULL, &without));
    ZR_TRY(zr__walk_roles(plans, pricer, true, NULL, &with));
    *price = (zr_save_price){.write_sec = with.save_sec, .stall_sec = fmax(with.step_sec - without.step_sec, 0)};
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_schedule *s = &plans->role[r]->schedule[ZR_SCHEDULE_TRAIN];
        int64_t bytes = 0;
        for (int32_t i = 0; i < s->n_steps; i++)
            if (s->step[i].kind == ZR_STEP_SAVE) bytes += zr__plan_saved_bytes(plans->role[r], &s->step[i]);
        if (bytes > price->bytes) price->bytes = bytes;
    }
    return ZR_OK;
}

zr_status zr__plans_price_save(const zr_plans *plans, const zr_profile *profile, double disk_bytes_sec,
                               zr_save_price *price)
{
    const profile_pricer pricer = pricer_of(plans->role[0], profile, disk_bytes_sec);
    return zr__plans_price_save_by(plans, &pricer.base, price);
}

zr_status zr__plans_times_by(const zr_plans *plans, const zr__pricer *pricer, zr_step_time *const *time)
{
    zr__walked walked;
    return zr__walk_roles(plans, pricer, false, time, &walked);
}

zr_status zr_plans_times(const zr_plans *plans, const zr_profile *profile, zr_step_time *const *time)
{
    const profile_pricer pricer = pricer_of(plans->role[0], profile, 0);
    return zr__plans_times_by(plans, &pricer.base, time);
}
