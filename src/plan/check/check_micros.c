/* Part of the proof of a plan: the micro-batches of a round. A round may have steps of several micro-batches.
 * check_values.c checks that a step reads the values of its own micro-batch. This file checks that each micro-batch
 * takes part once in each sum over micro-batches, and in order, since sums of floating-point numbers depend on their
 * order. */
#include "plan/check/check.h"

int32_t zr__micros(const zr__proof *p)
{
    int32_t micros = 1;
    for (int32_t i = 0; i < p->s->n_steps; i++)
        if (p->s->step[i].micro >= micros) micros = p->s->step[i].micro + 1;
    return micros;
}

/* Check that step `i` belongs to micro-batch *next, and increment *next. */
static zr_status take_turn(const zr__proof *p, int32_t i, int32_t *next)
{
    ZR_CHECK(p->s->step[i].micro == *next, ZR_ERR_INTERNAL,
             "step %d takes micro-batch %d of the round, but it is the turn of %d", i, p->s->step[i].micro, *next);
    (*next)++;
    return ZR_OK;
}

/* Check the steps of one kind and unit: each micro-batch must have one step, in order. */
static zr_status check_turns(const zr__proof *p, zr_step_kind kind, int32_t unit, int32_t micros)
{
    int32_t next = 0;
    for (int32_t i = 0; i < p->end; i++)
        if (p->s->step[i].kind == kind && p->s->step[i].unit == unit) ZR_TRY(take_turn(p, i, &next));
    ZR_CHECK(next == micros, ZR_ERR_INTERNAL, "%d of %d micro-batches of a round have a step %s", next, micros,
             zr_step_kind_name(kind));
    return ZR_OK;
}

/* The accumulators of a unit, with zr_plan.reduces_early: the buffer to which micro-batches are added, and the buffer
 * of the newest sums over ranks; or ZR_NONE. */
typedef struct early {
    int32_t added, summed;
} early;

/* Return the buffer of the gradient that a step reduces. If it reduces records, return the buffer from which they were
 * cast last. */
static int32_t reduced_buffer(const zr__proof *p, int32_t index)
{
    const int32_t from = p->s->use[p->s->step[index].uses].buffer;
    const bool records = zr_dtype_is_record(p->s->use[p->s->step[index].uses].dtype);
    for (int32_t i = index - 1; i > p->repeat && records; i--) {
        const zr_use *use = &p->s->use[p->s->step[i].uses];
        if (p->s->step[i].kind == ZR_STEP_CAST && use[1].buffer == from) return use[0].buffer;
    }
    return from;
}

/* Check a step that sums a unit's accumulators over a group of ranks, once, after all micro-batches. */
static zr_status check_summed(const zr__proof *p, int32_t i, early *e, bool complete, int32_t *times)
{
    const zr_step *step = &p->s->step[i];
    const int32_t from = reduced_buffer(p, i);
    const bool begins = step->range.first == 0;
    *times += begins;
    ZR_CHECK(complete && !step->adds && *times == 1 && (from == e->added || from == e->summed), ZR_ERR_INTERNAL,
             "step %d sums unit %d over ranks, but not once after the last micro-batch", i, step->unit);
    e->summed = p->s->use[step->uses + 2].buffer;
    return ZR_OK;
}

/* Check that the gradient of each micro-batch is added to a unit's sums once, in order, over each group of ranks that
 * reduces it. A micro-batch may have one step for each bucket. */
static zr_status check_reductions(const zr__proof *p, int32_t unit, int32_t micros)
{
    const zr_plan_unit *u = &p->plan->unit[unit];
    int32_t next[ZR_GROUPS] = {0}, added = 0;
    early e = {ZR_NONE, ZR_NONE};
    for (int32_t i = 0; i < p->end; i++) {
        const zr_step *step = &p->s->step[i];
        ZR_CHECK(step->kind != ZR_STEP_SQUARE || step->unit != unit || added >= micros, ZR_ERR_INTERNAL,
                 "step %d squares the sums of %d of %d micro-batches", i, added, micros);
        if (!zr__reduces(step) || step->op >= 0 || step->unit != unit) continue;
        int32_t *mine = &next[step->group];
        if (p->plan->reduces_early && step->group != ZR_GROUP_SELF) {
            ZR_TRY(check_summed(p, i, &e, added == micros, mine));
            continue;
        }
        const bool begins = step->range.first == 0; /* else the step is for a later bucket of the micro-batch */
        if (begins) ZR_TRY(take_turn(p, i, mine));
        ZR_CHECK((begins || step->micro == *mine - 1) && step->when == ZR_WHEN_ALWAYS, ZR_ERR_INTERNAL,
                 "step %d takes micro-batch %d of the round, but it is the turn of %d", i, step->micro, *mine - 1);
        added += begins && step->adds;
        ZR_CHECK(!p->plan->reduces_early || e.added == ZR_NONE || e.added == p->s->use[step->uses + 2].buffer,
                 ZR_ERR_INTERNAL, "step %d adds to other accumulators than the micro-batch before", i);
        e.added = p->s->use[step->uses + 2].buffer;
        ZR_CHECK(step->adds || p->s->use[step->uses + 2].buffer != u->sums.buffer, ZR_ERR_INTERNAL,
                 "step %d writes the sums of several micro-batches, but does not add to them", i);
        ZR_CHECK(step->rounds == p->plan->layout.accum, ZR_ERR_INTERNAL,
                 "step %d sums %lld micro-batches, but a training step has %lld", i, (long long)step->rounds,
                 (long long)p->plan->layout.accum);
    }
    for (int g = 0; g < ZR_GROUPS; g++)
        ZR_CHECK(next[g] == 0 || next[g] == (p->plan->reduces_early && g != ZR_GROUP_SELF ? 1 : micros),
                 ZR_ERR_INTERNAL, "the gradients of %d of %d micro-batches of a round are summed for unit %d", next[g],
                 micros, unit);
    ZR_CHECK(added >= micros, ZR_ERR_INTERNAL,
             "the gradients of %d of %d micro-batches of a round are summed for unit %d", added, micros, unit);
    return ZR_OK;
}

zr_status zr__check_micros(const zr__proof *p)
{
    const int32_t micros = zr__micros(p);
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const int32_t micro = p->s->step[i].micro;
        const bool inside = i > p->repeat && i < p->end;
        ZR_CHECK(micro == 0 || (micro > 0 && inside), ZR_ERR_INTERNAL, "step %d is of micro-batch %d, but of no round",
                 i, micro);
    }
    if (p->kind != ZR_SCHEDULE_TRAIN) return ZR_OK;
    const int64_t rounds = p->repeat >= 0 ? p->s->step[p->repeat].rounds : 1;
    ZR_CHECK(rounds * micros == p->plan->layout.accum, ZR_ERR_INTERNAL,
             "%lld rounds of %d micro-batches, but a training step has %lld", (long long)rounds, micros,
             (long long)p->plan->layout.accum);
    ZR_TRY(check_turns(p, ZR_STEP_BATCH, -1, micros));
    if (p->plan->layout.accum == 1) return ZR_OK;
    for (int32_t u = 0; u < p->plan->n_units; u++) {
        if (!p->plan->unit[u].trains) continue;
        ZR_TRY(check_reductions(p, u, micros));
        if (p->plan->layout.micro_squares) ZR_TRY(check_turns(p, ZR_STEP_SQUARE_MICRO, u, micros));
    }
    return ZR_OK;
}
