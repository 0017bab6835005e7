/* Finds how much longer steps take in a measured launch than if they run alone. There are two causes: ranks wait for
 * each other, and streams share the cores. */
#include "base/core/scope.h"
#include "simulate/simulate.h"

#include <math.h>

/* ---- ranks that wait for each other -------------------------------------------------------------- */

/* Return the time of the wait for an exchange, divided by the time of the computation before the exchange. Interpolate
 * this ratio between the measured models by inverse distance weighting. The distance is the logarithm of the ratio
 * between the measured model's computation time and this one. The wait does not grow beyond the longest measured
 * computation, because another task on a rank's core delays the rank by at most one time slice. */
static double wait_share(const zr_launch *launch, double computed_sec)
{
    double weights = 0, sum = 0, longest = 0;
    for (int32_t i = 0; i < launch->n_waits; i++) longest = fmax(longest, launch->wait[i].computed_sec);
    const double at = fmin(computed_sec, longest);
    for (int32_t i = 0; i < launch->n_waits; i++) {
        const double octaves = log2(launch->wait[i].computed_sec / at), near = octaves * octaves + 1;
        sum += launch->wait[i].share / (near * near);
        weights += 1 / (near * near);
    }
    return weights > 0 ? sum / weights * at / computed_sec : 0;
}

static bool is_meeting(const zr_plan *plan, int32_t index)
{
    return zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, index).ranks > 1;
}

/* Find how long each exchange waits, in proportion to the computation since the previous exchange. For the first
 * exchange of a training step, this computation begins in the previous training step. */
static void find_waits(const zr_plan *plan, const zr_launch *launch, const zr__pricer *pricer, double *longer_sec)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    double computed = 0, exchanges = 0, since = 0;
    int64_t rounds = 1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const double runs = (double)zr__step_runs(&s->step[i], true, &rounds);
        const bool meet = is_meeting(plan, i);
        const double sec = meet || runs == 0 ? 0 : pricer->step_sec(pricer, plan, ZR_SCHEDULE_TRAIN, i);
        computed += runs * sec;
        exchanges += meet ? runs : 0;
        since = meet ? 0 : since + sec;
    }
    if (exchanges == 0 || computed == 0) return;
    const double share = wait_share(launch, computed / exchanges);
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (is_meeting(plan, i)) {
            longer_sec[i] = share * since;
            since = 0;
        } else if (s->step[i].when != ZR_WHEN_SAVE) {
            since += pricer->step_sec(pricer, plan, ZR_SCHEDULE_TRAIN, i);
        }
    }
}

/* ---- streams that run at once -------------------------------------------------------------------- */

/* For each step of `stream`, find the seconds for which it overlaps with steps of the stream `other`. The steps of each
 * stream run in order. */
static void find_both(const zr_schedule *s, const zr_step_time *time, zr_stream stream, zr_stream other,
                      double *both_sec)
{
    int32_t from = 0; /* first step of `other` that ends after step i begins */
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].stream != stream) continue;
        while (from < s->n_steps && (s->step[from].stream != other || time[from].end_sec <= time[i].begin_sec)) from++;
        both_sec[i] = 0;
        for (int32_t j = from; j < s->n_steps && (s->step[j].stream != other || time[j].begin_sec < time[i].end_sec);
             j++)
            if (s->step[j].stream == other)
                both_sec[i] +=
                    fmax(fmin(time[i].end_sec, time[j].end_sec) - fmax(time[i].begin_sec, time[j].begin_sec), 0);
    }
}

/* Find the slowdown of computation and exchanges that overlap. Each step takes longer by a fraction of its overlap, and
 * the overlap itself depends on the slowdown. Therefore iterate from no slowdown until the total changes by less than a
 * thousandth. Each iteration multiplies the error by at most the larger of `lost` and `late` of the launch. */
static zr_status find_slower(const zr_plans *plans, const zr_launch *launch, const zr__pricer *pricer,
                             double *const *longer_sec)
{
    enum { ROUNDS = 64 };
    size_t steps = 0, at = 0;
    for (int32_t r = 0; r < plans->n; r++) steps += (size_t)plans->role[r]->schedule[ZR_SCHEDULE_TRAIN].n_steps + 1;
    ZR_AUTO_FREE zr_step_time *all = zr_alloc(steps * sizeof *all);
    ZR_AUTO_FREE double *both_sec = zr_alloc(steps * sizeof *both_sec);
    zr_step_time *time[ZR_ROLES];
    double lost_sec = 0;
    const double share[ZR_STREAMS] = {[ZR_STREAM_COMPUTE] = launch->lost, [ZR_STREAM_COMM] = launch->late};
    ZR_CHECK(all && both_sec, ZR_ERR_MEMORY, "no memory to price %zu steps", steps);
    for (int32_t r = 0; r < plans->n; r++) {
        time[r] = all + at;
        at += (size_t)plans->role[r]->schedule[ZR_SCHEDULE_TRAIN].n_steps + 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        ZR_TRY(zr__plans_times_by(plans, pricer, time));
        const double before = lost_sec;
        lost_sec = 0;
        for (int32_t r = 0; r < plans->n; r++) {
            const zr_schedule *s = &plans->role[r]->schedule[ZR_SCHEDULE_TRAIN];
            double *longer = longer_sec[plans->role[r]->layout.role];
            find_both(s, time[r], ZR_STREAM_COMPUTE, ZR_STREAM_COMM, both_sec);
            find_both(s, time[r], ZR_STREAM_COMM, ZR_STREAM_COMPUTE, both_sec);
            for (int32_t i = 0; i < s->n_steps; i++) {
                longer[i] = share[s->step[i].stream] * both_sec[i];
                lost_sec += longer[i];
            }
        }
        if (fabs(lost_sec - before) <= 1e-3 * lost_sec) break;
    }
    return ZR_OK;
}

zr_status zr__find_longer(const zr_plans *plans, const zr_launch *launch, const zr__pricer *pricer,
                          double *const *longer_sec)
{
    if (launch->beside) return find_slower(plans, launch, pricer, longer_sec);
    for (int32_t r = 0; r < plans->n; r++)
        find_waits(plans->role[r], launch, pricer, longer_sec[plans->role[r]->layout.role]);
    return ZR_OK;
}
