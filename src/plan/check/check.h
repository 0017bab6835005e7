/** plan/check: proves that a finished plan is correct. The proof shares no code with the files that write plans.
 *
 * check.c runs all checks, and checks the properties that do not follow from uses of buffers. check_order.c proves the
 * order of steps and the sharing of bytes. check_reads.c proves that bytes are written before they are read.
 * check_values.c proves that the bytes read hold the intended value. check_homes.c proves that each model state is read
 * from its own buffer, written back to it and saved from it. check_micros.c checks the sums over micro-batches,
 * check_trust.c the norms for trust ratios, check_ortho.c orthogonalised directions. check_kinds.c has the proof's own
 * table of step kinds. */
#ifndef ZR_PLAN_CHECK_H
#define ZR_PLAN_CHECK_H

#include "zr/plan.h"

/* A use of a buffer by the step at the time point `time` (see zr__proof). */
typedef struct zr__use_of {
    int32_t time;
    bool reads, writes;
} zr__use_of;

/* Kinds of pairs of consecutive rounds, by their first round. The steps between REPEAT and END are proved for pairs of
 * rounds. */
typedef enum zr__pair {
    ZR__PAIR_STALE,   /* first round of a training step, without a flush before it */
    ZR__PAIR_FLUSHED, /* first round of a training step after a flush, in which ZR_WHEN_STALE steps are skipped */
    ZR__PAIR_LATER    /* any later round of a training step */
} zr__pair;

/* The state of the proof of one schedule. Each execution of a step in the two rounds of a pair has a number, its time
 * point. Time points 0 to n_steps - 1 are the steps of the whole schedule, with REPEAT's steps in the first round. Time
 * points from n_steps on are REPEAT's steps in the second round. A transient buffer has one instance for each round. */
typedef struct zr__proof {
    const zr_plan *plan;
    const zr_graph *graph; /* NULL for the schedules FLUSH and FILL */
    const zr_schedule *s;
    zr_schedule_kind kind;
    /* `repeat`, `end`: positions of REPEAT and END in the schedule, or -1 if absent; `times`: number of time points */
    int32_t repeat, end, times;
    bool has_when[ZR_WHEN_SAVE + 1];
    zr__pair pair;
    bool asked; /* whether the training step saves a checkpoint, so that the ZR_WHEN_SAVE steps run */
    /* clock[time][stream]: last time point of the stream that happens before `time`, or -1 if none does. clock[time] is
     * the vector clock of the time point `time`. */
    int32_t (*clock)[ZR_STREAMS];
    zr__use_of *use; /* all uses. Instance b of a buffer has the uses [first[b], first[b+1]), ordered by time. */
    int32_t *first;
} zr__proof;

/* Begin a proof: find REPEAT and END, and number the time points. zr__check_order fills in clocks and uses. */
zr_status zr__proof_begin(zr__proof *p, const zr_plan *plan, zr_schedule_kind kind);
void zr__proof_end(zr__proof *p);

/* Compute the clocks and uses of a pair of rounds. Check that conflicting uses have the same order as the steps in the
 * list. Check that buffers which share bytes are never in use at the same time. */
zr_status zr__check_order(zr__proof *p, zr__pair pair, bool asked);
int32_t zr__step_at(const zr__proof *p, int32_t time);
/* Return whether the step at time point a happens before the step at time point b. Both steps must run. */
bool zr__happens_before(const zr__proof *p, int32_t a, int32_t b);
/* Return whether one time point is in the second round and the other is after END. Such time points have no order,
 * because the proof lets the steps after END follow the first round instead of the second. */
bool zr__never_meet(const zr__proof *p, int32_t a, int32_t b);

/* Return a property of a step (check_kinds.c). zr__gathers: the step gathers pieces. zr__reduces: it reduces pieces of
 * gradients or values. zr__scatters: it sums pieces of directions.
 * zr__asks_all: it exchanges scalars among all ranks. zr__computes: it computes with states or values, or exchanges
 * them. zr__takes_gradient: it needs a unit's complete gradient. zr__adds_to_sums: it adds to the sum in its buffer;
 * `later` is true in any round of REPEAT except the first. */
/* zr__passes: it passes a value from role to role. */
bool zr__passes(const zr_step *step);
bool zr__gathers(const zr_step *step);
bool zr__reduces(const zr_step *step);
bool zr__scatters(const zr_step *step);
bool zr__asks_all(const zr_step *step);
bool zr__computes(const zr_step *step);
bool zr__takes_gradient(const zr_step *step);
bool zr__adds_to_sums(const zr_step *step, bool later);
/* Return whether a step runs in a round of a training step. `first`: whether it is the first round. `stale`: whether no
 * flush came before the training step. `asked`: whether the training step saves a checkpoint. */
bool zr__runs(const zr_step *step, bool first, bool stale, bool asked);

/* Check that every use is within its buffer on every rank. */
zr_status zr__check_ranges(const zr__proof *p);
/* Check that every byte that a step reads has been written before. */
zr_status zr__check_reads(const zr__proof *p);
/* Check that every value is still in its buffer when a step reads it. */
zr_status zr__check_values(const zr__proof *p);
/* Return whether all ranks agree on the gradient that an update applies, before the update (check.c). The ranks must
 * agree only after the gradient's squares and the loss are known. */
bool zr__is_agreed(const zr__proof *p, int32_t update);
/* Check the steps that compute the norms for trust ratios (check_trust.c). */
zr_status zr__check_trust(const zr__proof *p);
/* Check the steps of orthogonalised directions (check_ortho.c). */
zr_status zr__check_ortho(const zr__proof *p);
/* Return whether the plan's role runs an op, or trains a unit (check_roles.c). */
bool zr__is_own(const zr__proof *p, int32_t op);
bool zr__trains(const zr__proof *p, int32_t unit);
/* Return the number of micro-batches in a round (check_micros.c). */
int32_t zr__micros(const zr__proof *p);
/* Check that each micro-batch takes part in all sums over micro-batches, once and in order. */
zr_status zr__check_micros(const zr__proof *p);
/* Check that steps which compute with a unit's states read them from their own buffer or from a copy. Check that
 * changes to a copy are written back (check_homes.c). */
zr_status zr__check_homes(const zr__proof *p);
/* Return whether a use covers exactly the range `wanted` of a unit on every rank. `kept` is the range of the unit that
 * the buffer of the use stores. */
bool zr__names(const zr_plan *plan, const zr_use *use, const zr_range *kept, const zr_range *wanted);

#endif
