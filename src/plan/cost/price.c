/* Computes the time of one training step. A walk through the schedule keeps one clock per stream. A pricer returns the
 * duration of each step. With a profile, the duration is the larger of the step's time for FLOPs and its time for
 * bytes. */
#include "plan/cost/cost.h"
#include "base/core/core.h"

#include <math.h>

/* The state of a walk through the training schedule. */
typedef struct pricing {
    const zr_plan *plan;
    const zr_schedule *s;
    const zr__pricer *pricer;
    bool in_turn; /* whether the streams share one queue, except streams with their own thread (is_beside) */
    bool saves;   /* whether the training step saves states */
    double clock[ZR_STREAMS]; /* `clock[stream]`: time in seconds from which the stream is free */
    double busy[ZR_STREAMS];
    struct ran *ran; /* executions of steps, in order, or NULL if waits are not reported */
    int32_t n_ran;
    int32_t last[ZR_STREAMS]; /* `last[stream]`: index in `ran` of the stream's last step, or -1 */
    double rounds;            /* number of rounds that the walked round represents, because they take equally long */
    zr_step_time *time;       /* begin and end of each step in one round, or NULL if not wanted */
} pricing;

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
    cost.wire_bytes = scalars ? 0 : (double)zr__wire_bytes(plan, s, step);
    if (cost.wire_bytes == 0) cost.memory_bytes = touched_bytes(plan, s, step);
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

int64_t zr__plan_saved_bytes(const zr_plan *plan, const zr_step *step)
{
    const zr_use *use = &plan->schedule[ZR_SCHEDULE_TRAIN].use[step->uses];
    return zr_dtype_span(use->dtype, use->range.count);
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
    double move = fmax(seconds(cost.memory_bytes, me->machine->memory_bytes_sec),
                       seconds(cost.wire_bytes, zr__machine_link(me->machine).bytes_sec));
    return fmax(compute, move);
}

static profile_pricer pricer_of(const zr_plan *plan, const zr_profile *profile, double disk_bytes_sec)
{
    const zr_queues queues = zr__plan_queues(plan, !profile->machine.link_copies);
    return (profile_pricer){{.step_sec = step_seconds, .queues = queues}, &profile->machine, disk_bytes_sec};
}

/* ---- the walk ----------------------------------------------------------------------------------- */

/* Return the time at which all streams except SAVE are free. A save may continue beyond the end of the training
 * step. */
static double all_streams_free(const pricing *p)
{
    double free_at = 0;
    for (int i = 0; i < ZR_STREAMS; i++)
        if (i != ZR_STREAM_SAVE) free_at = fmax(free_at, p->clock[i]);
    return free_at;
}

/* For each step: time in seconds at which it ends, in this round of REPEAT (`now`) and in the round before (`before`).
 */
typedef struct ends {
    double *now, *before; /* `before` is NULL in the first round */
} ends;

/* ---- waits -------------------------------------------------------------------------------------- */

/* One execution of a step, with its begin and end in seconds. */
typedef struct ran {
    int32_t step, before; /* `before`: index in `ran` of the stream's previous step, or -1 */
    double begin, end;
} ran;

static void report_wait(const pricing *p, int32_t waiting, int32_t awaited, double sec)
{
    if (sec > 0 && awaited >= 0)
        p->pricer->waited(p->pricer, p->plan, ZR_SCHEDULE_TRAIN, waiting, awaited, p->rounds * sec);
}

/* Report a wait of the compute stream, from `from` to `until`, for the step `awaited` of `stream`. If several steps ran
 * on `stream` in this time, report the time of each separately. Idle time of `stream` counts for its next step. */
static void book_wait(const pricing *p, int32_t waiting, int32_t awaited, zr_stream stream, double from, double until)
{
    if (!p->ran) return;
    for (int32_t i = p->last[stream]; i >= 0 && until > from; i = p->ran[i].before) {
        const ran *its = &p->ran[i];
        if (its->end > until) continue;
        const double ended = fmax(its->end, from), began = fmax(its->begin, from);
        if (awaited < 0) awaited = its->step;
        report_wait(p, waiting, awaited, until - ended);
        if (ended > began) awaited = its->step;
        report_wait(p, waiting, awaited, ended - began);
        until = began;
    }
    report_wait(p, waiting, awaited, until - from);
}

/* Return whether a stream has a thread of its own on every device. */
static bool is_beside(int stream)
{
    return stream == ZR_STREAM_SAVE || stream == ZR_STREAM_FETCH || stream == ZR_STREAM_STORE ||
           stream == ZR_STREAM_HOST || stream == ZR_STREAM_RETURN;
}

/* Advance all streams of a queue to the latest clock among them. If in_turn is true, one thread runs the steps of the
 * shared queue, and also issues the steps of the other streams. A step of another stream can then begin only after this
 * thread has issued it. */
static void advance_queues(pricing *p, int32_t index)
{
    const int8_t *of = p->pricer->queues.of;
    int latest[ZR_STREAMS]; /* `latest[queue]`: stream of the queue with the latest clock */
    for (int i = 0; i < ZR_STREAMS; i++) {
        if (of[i] == i) latest[i] = i;
        if (p->clock[i] > p->clock[latest[of[i]]]) latest[of[i]] = i;
    }
    const int last = latest[ZR_STREAM_COMPUTE];
    book_wait(p, index, ZR_NONE, (zr_stream)last, p->clock[ZR_STREAM_COMPUTE], p->clock[last]);
    for (int i = 0; i < ZR_STREAMS; i++) p->clock[i] = p->clock[latest[of[i]]];
    for (int i = 0; i < ZR_STREAMS; i++)
        if (p->in_turn && is_beside(i)) p->clock[i] = fmax(p->clock[i], p->clock[ZR_STREAM_COMPUTE]);
}

/* Return the time at which a step may begin. Its stream must be free, and the steps for which it waits must have
 * ended. */
static double begin_of(const pricing *p, int32_t index, const ends *end)
{
    const zr_schedule *s = p->s;
    const zr_step *step = &s->step[index];
    const double ready = p->clock[step->stream];
    double start = ready;
    int32_t awaited = -1;
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
        const double *its = s->wait[w].before ? end->before : end->now;
        if (!its || its[s->wait[w].step] <= start) continue;
        start = its[s->wait[w].step];
        awaited = s->wait[w].step;
    }
    if (step->stream == ZR_STREAM_COMPUTE && awaited >= 0)
        book_wait(p, index, awaited, s->step[awaited].stream, ready, start);
    return start;
}

/* Walk through the steps from `first` to `last` of a schedule, for one round. */
static void walk_steps(pricing *p, int32_t first, int32_t last, const ends *end)
{
    for (int32_t i = first; i <= last; i++) {
        const zr_step *step = &p->s->step[i];
        advance_queues(p, i);
        if (!zr_when_runs(step->when, end->before != NULL, true, p->saves)) {
            /* The step is skipped. A step that waits for a skipped ZR_WHEN_LATER step may begin as soon as the stream
             * of the skipped step is free. */
            const double now = p->clock[step->stream];
            bool goes_on = zr_when_asked(step->when) && end->before;
            end->now[i] = goes_on ? end->before[i] : step->when == ZR_WHEN_LATER ? now : 0;
            if (p->time) p->time[i] = (zr_step_time){now, now};
            continue;
        }
        const double start = begin_of(p, i, end);
        const double takes = p->pricer->step_sec(p->pricer, p->plan, ZR_SCHEDULE_TRAIN, i);
        p->clock[step->stream] = end->now[i] = start + takes;
        p->busy[step->stream] += takes;
        if (p->ran) {
            p->ran[p->n_ran] = (ran){i, p->last[step->stream], start, end->now[i]};
            p->last[step->stream] = p->n_ran++;
        }
        if (p->time) p->time[i] = (zr_step_time){start, end->now[i]};
    }
}

/* Walk through the second round, and extrapolate its duration to the later rounds, which take equally long. */
static void walk_again(pricing *p, int32_t repeat, int32_t stop, ends *end)
{
    const zr_step *step = p->s->step;
    const double more = (double)(step[repeat].rounds - 1);
    const pricing before = *p;
    double *again = end->before;
    end->before = end->now;
    end->now = again;
    p->rounds = more;
    walk_steps(p, repeat, stop, end);
    p->rounds = 1;
    for (int32_t i = repeat; i <= stop; i++) { /* shift each step's end from the second round to the last round */
        if (zr_when_asked(step[i].when)) continue;
        end->now[i] += (more - 1) * (p->clock[step[i].stream] - before.clock[step[i].stream]);
    }
    for (int32_t i = before.n_ran; i < p->n_ran; i++) {
        const zr_stream stream = step[p->ran[i].step].stream;
        const double later = (more - 1) * (p->clock[stream] - before.clock[stream]);
        p->ran[i].begin += later;
        p->ran[i].end += later;
    }
    for (int i = 0; i < ZR_STREAMS; i++) {
        p->busy[i] = before.busy[i] + more * (p->busy[i] - before.busy[i]);
        p->clock[i] = before.clock[i] + more * (p->clock[i] - before.clock[i]);
    }
}

static zr_status walk_step(pricing *p)
{
    const zr_schedule *s = p->s;
    ZR_CHECK(p->plan->graph[ZR_SCHEDULE_TRAIN], ZR_ERR_STATE,
             "this plan has no training step to price: set zr_layout.train");
    int32_t repeat = 0, stop = -1;
    /* room for two executions of every step, since the steps of REPEAT are walked for at most two rounds */
    const size_t most = ((size_t)s->n_steps + 1) * 2;
    ZR_AUTO_FREE double *time = zr_alloc(most * sizeof *time);
    ZR_AUTO_FREE void *records = p->pricer->waited ? zr_alloc(most * sizeof *p->ran) : NULL;
    ZR_CHECK(time && (records || !p->pricer->waited), ZR_ERR_MEMORY, "no memory to price %d steps", (int)s->n_steps);
    p->ran = records;
    ends end = {.now = time};
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind == ZR_STEP_REPEAT) repeat = i;
        if (s->step[i].kind == ZR_STEP_END) stop = i;
    }
    walk_steps(p, 0, stop, &end);
    if (stop >= 0 && s->step[repeat].rounds > 1 && !p->time) {
        end.before = time + s->n_steps + 1;
        walk_again(p, repeat, stop, &end);
    }
    walk_steps(p, stop + 1, s->n_steps - 1, &(ends){.now = end.now});
    for (int i = 0; i < ZR_STREAMS; i++) { /* report the stream whose transfers continue after the last computation */
        if (i != ZR_STREAM_COMPUTE && i != ZR_STREAM_SAVE && p->clock[i] == all_streams_free(p)) {
            book_wait(p, ZR_NONE, ZR_NONE, (zr_stream)i, p->clock[ZR_STREAM_COMPUTE], p->clock[i]);
            break;
        }
    }
    p->ran = NULL;
    return ZR_OK;
}

static pricing pricing_by(const zr_plan *plan, const zr__pricer *pricer)
{
    pricing p = {.plan = plan, .s = &plan->schedule[ZR_SCHEDULE_TRAIN], .pricer = pricer, .in_turn = true, .rounds = 1};
    for (int i = 0; i < ZR_STREAMS; i++) {
        p.last[i] = ZR_NONE;
        p.in_turn &= is_beside(i) || !zr_queues_apart(&pricer->queues, (zr_stream)i);
    }
    return p;
}

/* Price a training step that follows another training step, including the gathers of parameters that the previous step
 * has updated. */
zr_status zr__plan_price_by(const zr_plan *plan, const zr__pricer *pricer, zr_price *price)
{
    pricing p = pricing_by(plan, pricer);
    ZR_TRY(walk_step(&p));
    price->step_sec = all_streams_free(&p);
    price->compute_sec = p.busy[ZR_STREAM_COMPUTE];
    price->comm_sec = p.busy[ZR_STREAM_COMM] + p.busy[ZR_STREAM_COPY] + p.busy[ZR_STREAM_RETURN];
    price->host_sec = p.busy[ZR_STREAM_HOST];
    price->exposed_sec = fmax(price->step_sec - price->compute_sec, 0);
    price->disk_sec = fmax(p.busy[ZR_STREAM_FETCH], p.busy[ZR_STREAM_STORE]);
    return ZR_OK;
}

zr_status zr_plan_price(const zr_plan *plan, const zr_profile *profile, zr_price *price)
{
    const profile_pricer pricer = pricer_of(plan, profile, 0);
    return zr__plan_price_by(plan, &pricer.base, price);
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
        ZR_TRY(zr_plan_price(plan, &plan->profile, &mine));
        ZR_TRY(zr_plan_price(other, &other->profile, &its));
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

zr_status zr__plan_price_save_by(const zr_plan *plan, const zr__pricer *pricer, zr_save_price *price)
{
    ZR_CHECK(plan->save != ZR_SAVE_NONE, ZR_ERR_STATE, "this plan saves nothing behind a step: set zr_layout.save");
    pricing without = pricing_by(plan, pricer), with = without;
    with.saves = true;
    ZR_TRY(walk_step(&without));
    ZR_TRY(walk_step(&with));
    *price = (zr_save_price){.write_sec = with.busy[ZR_STREAM_SAVE],
                             .stall_sec = fmax(all_streams_free(&with) - all_streams_free(&without), 0)};
    for (int32_t i = 0; i < with.s->n_steps; i++)
        if (with.s->step[i].kind == ZR_STEP_SAVE) price->bytes += zr__plan_saved_bytes(plan, &with.s->step[i]);
    return ZR_OK;
}

zr_status zr__plan_price_save(const zr_plan *plan, const zr_profile *profile, double disk_bytes_sec,
                              zr_save_price *price)
{
    const profile_pricer pricer = pricer_of(plan, profile, disk_bytes_sec);
    return zr__plan_price_save_by(plan, &pricer.base, price);
}

zr_status zr__plan_times_by(const zr_plan *plan, const zr__pricer *pricer, zr_step_time *time)
{
    pricing p = pricing_by(plan, pricer);
    p.time = time;
    return walk_step(&p);
}

zr_status zr_plan_times(const zr_plan *plan, const zr_profile *profile, zr_step_time *time)
{
    const profile_pricer pricer = pricer_of(plan, profile, 0);
    return zr__plan_times_by(plan, &pricer.base, time);
}
