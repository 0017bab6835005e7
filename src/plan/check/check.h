/**
 * plan/check: the proof of a finished plan, which shares no code with the files that write plans.
 * check.c runs all checks, and checks what no use of a buffer shows. check_order.c proves the order of steps and the
 * sharing of bytes, check_reads.c that bytes are written before they are read, check_values.c that they are the
 * intended value, check_homes.c the homes and saves of states; check_kinds.c has the proof's own table of steps.
 */
#ifndef ZR_PLAN_CHECK_H
#define ZR_PLAN_CHECK_H

#include "zr/plan.h"

/* A use of a buffer. */
typedef struct zr__use_of {
    int32_t time;
    bool reads, writes;
} zr__use_of;

/* The first of the two consecutive rounds over which the body of REPEAT is proved. */
typedef enum zr__pair {
    ZR__PAIR_STALE,   /* a training step's first round, without a flush before it */
    ZR__PAIR_FLUSHED, /* a training step's first round after a flush, which skips the ZR_WHEN_STALE steps */
    ZR__PAIR_LATER    /* any later round */
} zr__pair;

/* The state of proving one schedule. A time numbers the steps of the schedule with the first of two rounds, and then
 * the steps of the second round. A transient buffer has an instance in each round. */
typedef struct zr__proof {
    const zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    const zr_schedule *s;
    zr_schedule_kind kind;
    int32_t repeat, end, times; /* repeat, end: positions of REPEAT and END, -1: none; times: count of all times */
    bool has_when[ZR_WHEN_SAVE + 1];
    zr__pair pair;
    bool asked;                   /* steps that run only when asked for (ZR_WHEN_SAVE) run in this training step */
    int32_t (*clock)[ZR_STREAMS]; /* by time: the last time of each stream that happens before it, -1: none */
    zr__use_of *use;              /* all uses; the uses of instance b are [first[b], first[b+1]), ordered by time */
    int32_t *first;
} zr__proof;

/* Find the body of REPEAT and the times of a schedule; zr__check_order fills clocks and uses. */
zr_status zr__proof_begin(zr__proof *p, const zr_plan *plan, zr_schedule_kind kind);
void zr__proof_end(zr__proof *p);

/* Find the clocks and uses of one pair of rounds, and check that conflicting uses are ordered as in the list and that
 * buffers which share bytes are never in use at once. */
zr_status zr__check_order(zr__proof *p, zr__pair pair, bool asked);
int32_t zr__step_at(const zr__proof *p, int32_t time);
/* Return whether the step at time a happens before the step at time b; both run. */
bool zr__happens_before(const zr__proof *p, int32_t a, int32_t b);
/* Return whether one time is in the second round and the other follows END. Steps after END are proved as if they
 * followed the first round, so these times are never compared. */
bool zr__never_meet(const zr__proof *p, int32_t a, int32_t b);

/* Return whether a step (check_kinds.c) gathers pieces; reduces; exchanges scalars among all ranks; takes a unit's
 * gradient as complete; adds to the sum that a buffer holds (later: in a later round of REPEAT). */
bool zr__gathers(const zr_step *step);
bool zr__reduces(const zr_step *step);
bool zr__asks_all(const zr_step *step);
bool zr__takes_gradient(const zr_step *step);
bool zr__adds_to_sums(const zr_step *step, bool later);
/* Return whether a step runs in a round, the first of a training step or a later one. */
bool zr__runs(const zr_step *step, bool first, bool stale, bool asked);

/* Check that every use lies within its buffer on every rank. */
zr_status zr__check_ranges(const zr__proof *p);
/* Check that every byte that is read has been written. */
zr_status zr__check_reads(const zr__proof *p);
/* Check that every value is still in its place when it is read. */
zr_status zr__check_values(const zr__proof *p);
/* Check that steps which compute with a unit's states read them from their home buffer or a copy of it, and that
 * changes go back home (check_homes.c). */
zr_status zr__check_homes(const zr__proof *p);
/* Return whether a use names these elements of a unit on every rank, in a buffer that keeps `kept` of it. */
bool zr__names(const zr_use *use, const zr_range *kept, const zr_range *wanted);

#endif
