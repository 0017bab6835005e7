/**
 * plan/list: the steps of a schedule, in a list while they are written (list.c), and the buffers that they use.
 * The persistent buffers of the model states (states.c) and the grid of ranks (place.h) are here too, since every step
 * uses them. When the list is finished, this room finds the waits between steps (order.c, painted.c) and gives every
 * transient buffer an offset (pack.c).
 */
#ifndef ZR_PLAN_LIST_H
#define ZR_PLAN_LIST_H

#include "zr/plan.h"

/* ---- a list of steps (list.c) ---------------------------------------------------------------------------------- */

/* Id of a step, unchanged when other steps are inserted before or after it. ZR_NONE: no step. */
typedef int32_t zr__id;

typedef struct zr__link {
    zr__id next, prev;
    int32_t pace; /* the newest of the step's paces, ZR_NONE */
} zr__link;

/* A wait that no use asks for: it keeps a step from running too far ahead. */
typedef struct zr__pace {
    zr__id step;
    int32_t next; /* the step's next older pace, ZR_NONE */
} zr__pace;

/* Arrays grow; the first failure is latched and later calls do nothing. */
typedef struct zr__list {
    zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    zr_schedule *schedule; /* its buffers are there from the beginning, its steps when the list is finished */
    zr_step *step;         /* by id; their waits are found when the list is finished */
    zr__link *link;        /* by id */
    zr_use *use;
    zr__pace *pace;
    int32_t n, n_uses, n_paces;
    int64_t step_room, link_room, use_room, pace_room, buffer_room;
    bool edited;              /* a step was inserted before the end, so ids are not positions */
    zr__id first, end;        /* first step of the list, and the last */
    zr__id before;            /* the step before which new steps are inserted; ZR_NONE: at the end */
    zr_when when;             /* the rounds in which new steps run */
    zr__id newest;            /* the step that was inserted last */
    zr__id last[ZR_STREAMS];  /* step of each stream at the end of the list */
    zr__id reduced[2];        /* last step of the newest unit's reduction, and last step of the reduction before it */
    int64_t bytes[ZR_SPACES]; /* sum of all buffers' bytes, without sharing: no offset can be larger */
    zr_step unused;           /* returned by zr__list_newest after a failure */
    zr_status status;
} zr__list;

/* The most steps of a schedule: a step takes some 300 bytes with its uses, and a longer schedule takes seconds to
 * write. */
#define ZR__STEPS_MAX (1 << 20)

/* Begin a list with the plan's persistent buffers. */
zr_status zr__list_begin(zr__list *l, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule);
void zr__list_end(zr__list *l);
/* Insert the following steps before this one; ZR_NONE: at the end. */
void zr__list_seek(zr__list *l, zr__id before);
/* Insert a step of this rank alone (group SELF); zr__list_newest returns it, so that the caller completes it. */
zr__id zr__list_step(zr__list *l, zr_step_kind kind, zr_stream stream, int32_t unit);
zr_step *zr__list_newest(zr__list *l);
void zr__list_use(zr__list *l, zr__id id, zr_use use);
/* Insert a COPY of `from` to `to`; their own reads and writes do not count. */
zr__id zr__list_copy(zr__list *l, zr_stream stream, int32_t unit, zr_range range, zr_use from, zr_use to);
/* Add a wait for `earlier` that no use asks for; ZR_NONE adds nothing. */
void zr__list_pace(zr__list *l, zr__id step, zr__id earlier);
/* Give a step all paces of another step. */
void zr__list_pace_as(zr__list *l, zr__id step, zr__id other);
int32_t zr__list_buffer(zr__list *l, zr_space space, zr_category category, int32_t unit, const char *what,
                        int64_t bytes);
/* Write the schedule: steps in order, lifetimes, waits, offsets. Returns the latched status. */
zr_status zr__list_finish(zr__list *l);

/* Make room for one more entry than n; false after a failure. */
bool zr__grow_now(zr_status *status, void **array, int32_t n, int64_t *room, size_t each);
static inline bool zr__grow(zr_status *status, void **array, int32_t n, int64_t *room, size_t each)
{
    return (n < *room && *status == ZR_OK) || zr__grow_now(status, array, n, room, each);
}

/* ---- waits (order.c) ------------------------------------------------------------------------------------------- */

typedef struct zr__found {
    int32_t step;
    zr_wait wait;
} zr__found;

/* Times painted on the bytes of a space (painted.c). */
typedef struct zr__painted {
    int64_t *edge; /* where transient buffers begin or end, ascending */
    struct zr__cell *cell;
    int32_t n_edges;
} zr__painted;

zr_status zr__painted_begin(zr__painted *painted, const zr_schedule *schedule, zr_space space);
void zr__painted_end(zr__painted *painted);
/* Paint the times at which each stream last used the bytes of a buffer of the schedule; -1: never. */
void zr__painted_add(zr__painted *painted, const zr_buffer *buffer, const int32_t time[ZR_STREAMS]);
/* Raise `time` to the latest times painted on any byte of the buffer. */
void zr__painted_latest(const zr__painted *painted, const zr_buffer *buffer, int32_t time[ZR_STREAMS]);

/* Last time at which each stream has read a buffer, and written it; -1: never. */
typedef struct zr__touched {
    int32_t read[ZR_STREAMS], written[ZR_STREAMS];
    bool again; /* used in the second round */
} zr__touched;

typedef struct zr__order {
    const zr_plan *plan;
    zr_schedule *schedule;
    const zr__list *list;
    const int32_t *position, *id; /* id -> position of the step, and back */
    int64_t rounds;
    int32_t repeat, end; /* positions of REPEAT and END, -1: none */
    int32_t (*clock)[ZR_STREAMS];
    zr__touched *touched;        /* by buffer */
    int32_t *of_all[ZR_STREAMS]; /* each stream's steps, ascending */
    int32_t n_of[ZR_STREAMS];
    int32_t last[ZR_STREAMS];
    zr__painted painted[ZR_SPACES]; /* the first round's uses of transient buffers */
    zr__found *found;
    int32_t n_found;
    int64_t found_room;
    zr_status status;
} zr__order;

/* Find the lifetimes of buffers, the waits within a round, and the clocks by which buffers may share bytes. */
zr_status zr__order_steps(zr__order *order);
/* Find the waits for the previous round, which depend on the buffers' offsets, and write all waits into the schedule.
 */
zr_status zr__order_rounds(zr__order *order);
void zr__order_end(zr__order *order);

/* Round a buffer's bytes up to the alignment of its space. */
int64_t zr__round_bytes(zr_space space, int64_t bytes);
/* Add bytes to *sum; ZR_ERR_CONFIG when the sum overflows. */
zr_status zr__add_bytes(int64_t *sum, int64_t bytes);

/* ---- offsets (pack.c) ------------------------------------------------------------------------------------------ */

typedef struct zr__packed {
    int64_t bytes[ZR_SPACES]; /* end of the highest buffer */
    int64_t looks;            /* comparisons of a buffer with a placed buffer or a block: the cost of packing */
} zr__packed;

/* Give every transient buffer its offset. */
zr_status zr__pack(const zr__order *order, zr__packed *packed);

/* ---- model states (states.c) ----------------------------------------------------------------------------------- */

/* Plan the units and the persistent buffers of the model states. */
zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph);
/* Add a persistent buffer at the end of its space. */
zr_status zr__plan_persistent(zr_plan *plan, zr_space space, zr_category category, int32_t unit, const char *what,
                              int64_t bytes, int32_t *index);
/* Plan the staging memory of each group. */
zr_status zr__plan_staging(zr_plan *plan);
/* Plan the buffers of results that steer later steps. */
zr_status zr__plan_results(zr_plan *plan);

/* Return a use of a range of a unit in a buffer that keeps the whole unit or this rank's shard; an absent use where no
 * buffer keeps the state. */
zr_use zr__use_state(const zr_state *state, zr_range range, bool reads, bool writes);
/* Return a use of all of a buffer; for ZR_NONE an absent use. */
zr_use zr__use_all(int32_t buffer, bool reads, bool writes);
/* Return the use with another direction. */
static inline zr_use zr__use_as(zr_use use, bool reads, bool writes)
{
    use.reads = reads;
    use.writes = writes;
    return use;
}

int64_t zr__value_bytes(const zr_value_info *value);
/* Return whether every rank gets the sums of a whole gradient. */
bool zr__all_get_sums(const zr_plan *plan);

#endif
