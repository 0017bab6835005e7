/** plan/check: proves that a finished plan is correct. It shares no code with the files that write plans.
 *
 * check.c runs all checks, and checks the properties that no use of a buffer shows. check_order.c proves the order of
 * steps and the sharing of bytes; check_reads.c proves that bytes are written before they are read, and check_values.c
 * that the bytes read hold the intended value; check_homes.c proves that states are read from, returned to and saved
 * from their homes; check_kinds.c has the proof's own table of step kinds. */
#ifndef ZR_PLAN_CHECK_H
#define ZR_PLAN_CHECK_H

#include "zr/plan.h"

/* A use of a buffer by the step at the time point `time`. */
typedef struct zr__use_of {
    int32_t time;
    bool reads, writes;
} zr__use_of;

/* The kind of the first of two consecutive rounds for which the body of REPEAT is proved. */
typedef enum zr__pair {
    ZR__PAIR_STALE,   /* first round of a training step, without a flush before it */
    ZR__PAIR_FLUSHED, /* first round of a training step after a flush, which skips the ZR_WHEN_STALE steps */
    ZR__PAIR_LATER    /* any later round of a training step */
} zr__pair;

/* The state of the proof of one schedule. A time point is the position of a step in the sequence of proved steps: first
 * the whole schedule with the first of two rounds, then the steps of the second round. A transient buffer has one
 * instance per round. */
typedef struct zr__proof {
    const zr_plan *plan;
    const zr_graph *graph; /* NULL for the schedule FLUSH */
    const zr_schedule *s;
    zr_schedule_kind kind;
    int32_t repeat, end, times; /* repeat, end: positions of REPEAT and END, or -1; times: number of time points */
    bool has_when[ZR_WHEN_SAVE + 1];
    zr__pair pair;
    bool asked;                   /* whether the steps with ZR_WHEN_SAVE run in this training step */
    int32_t (*clock)[ZR_STREAMS]; /* [time][stream]: last time point of the stream that happens before `time`, or -1 */
    zr__use_of *use;              /* all uses; the uses of instance b are [first[b], first[b+1]), ordered by time */
    int32_t *first;
} zr__proof;

/* Begin a proof: locate the body of REPEAT and number the time points. zr__check_order fills in clocks and uses. */
zr_status zr__proof_begin(zr__proof *p, const zr_plan *plan, zr_schedule_kind kind);
void zr__proof_end(zr__proof *p);

/* Compute the clocks and uses of a pair of rounds. Check that conflicting uses are ordered as in the list of steps, and
 * that buffers which share bytes are never in use simultaneously. */
zr_status zr__check_order(zr__proof *p, zr__pair pair, bool asked);
int32_t zr__step_at(const zr__proof *p, int32_t time);
/* Return whether the step at time point a happens before the step at time point b. Both steps must run. */
bool zr__happens_before(const zr__proof *p, int32_t a, int32_t b);
/* Return whether one time point is in the second round and the other is after END. Steps after END are proved as if
 * they followed the first round, so such time points are never compared. */
bool zr__never_meet(const zr__proof *p, int32_t a, int32_t b);

/* zr__gathers returns whether the step gathers pieces; zr__reduces, whether it reduces pieces; zr__asks_all, whether it
 * exchanges scalars among all ranks; zr__takes_gradient, whether it needs a unit's complete gradient; zr__adds_to_sums,
 * whether it adds to the sum that its buffer holds (`later` means in a later round of REPEAT). They are in
 * check_kinds.c. */
bool zr__gathers(const zr_step *step);
bool zr__reduces(const zr_step *step);
bool zr__asks_all(const zr_step *step);
bool zr__takes_gradient(const zr_step *step);
bool zr__adds_to_sums(const zr_step *step, bool later);
/* Return whether a step runs in the first round of a training step (if `first`) or in a later round. `stale` means that
 * no flush came before the training step; `asked` means that the training step saves. */
bool zr__runs(const zr_step *step, bool first, bool stale, bool asked);

/* Check that every use lies within its buffer on every rank. */
zr_status zr__check_ranges(const zr__proof *p);
/* Check that every byte that is read has been written. */
zr_status zr__check_reads(const zr__proof *p);
/* Check that every value is still in its buffer when it is read. */
zr_status zr__check_values(const zr__proof *p);
/* Check that steps which compute with a unit's states read the states from their home buffer or from a copy, and that
 * changes to a copy are written back to the home buffer (check_homes.c). */
zr_status zr__check_homes(const zr__proof *p);
/* Return whether a use covers exactly the elements `wanted` of a unit on every rank. The use's buffer holds the range
 * `kept` of the unit. */
bool zr__names(const zr_use *use, const zr_range *kept, const zr_range *wanted);

#endif
