/** plan, internal: the proof of a finished plan. It shares no code with what writes plans. */
#ifndef ZR_PLAN_CHECK_H
#define ZR_PLAN_CHECK_H

#include "zr/plan.h"

/* A use of a buffer. */
typedef struct zr__use_of {
    int32_t time;
    bool reads, writes;
} zr__use_of;

/* A body that REPEAT runs again is proved over two rounds that follow each other. Which round is the first of them? */
typedef enum zr__pair {
    ZR__PAIR_STALE,   /* a step's first */
    ZR__PAIR_FLUSHED, /* a step's first, where a flush has done what is ZR_WHEN_STALE */
    ZR__PAIR_LATER    /* any later one */
} zr__pair;

/* Times count the steps of the first of two rounds and of what follows END, then those of the second round. Each round
 * has transient buffers of its own: instances of a buffer. */
typedef struct zr__proof {
    const zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    const zr_schedule *s;
    zr_schedule_kind kind;
    int32_t repeat, end, times; /* body: steps between repeat and end; times: all */
    bool has_when[ZR_WHEN_SAVE + 1];
    zr__pair pair;
    bool asked;                   /* steps that run only when asked for (ZR_WHEN_SAVE) run in this training step */
    int32_t (*clock)[ZR_STREAMS]; /* of a time: the last time of each stream that comes before it, -1: none */
    zr__use_of *use;              /* by instance: those of b are [first[b], first[b+1]), by time */
    int32_t *first;
} zr__proof;

/* The body and the times; no clock and no use yet. */
zr_status zr__proof_begin(zr__proof *p, const zr_plan *plan, zr_schedule_kind kind);
void zr__proof_end(zr__proof *p);

/* Clocks and uses of one pair of rounds: uses that conflict are in the order of the list, and buffers that share bytes
 * are never in use at once. */
zr_status zr__check_order(zr__proof *p, zr__pair pair, bool asked);
int32_t zr__step_at(const zr__proof *p, int32_t time);
/* Of steps that run. */
bool zr__happens_before(const zr__proof *p, int32_t a, int32_t b);
/* What follows END comes after the last round, whichever that is: it is proved behind the first. */
bool zr__never_meet(const zr__proof *p, int32_t a, int32_t b);

/* Kinds of steps (check_kinds.c): those that gather pieces, that reduce, in which all ranks tell each other numbers,
 * that take a unit's gradient as finished; that add to what is there, in a later round of REPEAT or in any. */
bool zr__gathers(const zr_step *step);
bool zr__reduces(const zr_step *step);
bool zr__asks_all(const zr_step *step);
bool zr__takes_gradient(const zr_step *step);
bool zr__adds_to_sums(const zr_step *step, bool later);
/* Does a step run in a round, the first of a training step or a later one? */
bool zr__runs(const zr_step *step, bool first, bool stale, bool asked);

/* On every rank a use lies in its buffer. */
zr_status zr__check_ranges(const zr__proof *p);
/* Every byte that is read has been written. */
zr_status zr__check_reads(const zr__proof *p);
/* Every value is still in its place when it is read. */
zr_status zr__check_values(const zr__proof *p);
/* What computes with a unit's states has them from where they are kept or from a copy, and what it changes goes there
 * (check_homes.c). */
zr_status zr__check_homes(const zr__proof *p);
/* Does a use name these elements of a unit on every rank, in a buffer that keeps `kept` of it? */
bool zr__names(const zr_use *use, const zr_range *kept, const zr_range *wanted);

#endif
