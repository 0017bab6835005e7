/** plan/list: the steps of a schedule, and the buffers that they use. While a schedule is being written, its steps are
 * in a linked list (list.c).
 *
 * states.c plans the persistent buffers of the model states, matrices.c the hidden matrices, and place.h has the grid
 * of ranks; every step uses both. When the list is finished, order.c and painted.c find the waits between steps. pack.c
 * gives every transient buffer an offset. */
#ifndef ZR_PLAN_LIST_H
#define ZR_PLAN_LIST_H

#include "zr/plan.h"

/* ---- a list of steps (list.c) ---------------------------------------------------------------------------------- */

/* Id of a step, or ZR_NONE. A step keeps its id when other steps are inserted. */
typedef int32_t zr__id;

typedef struct zr__link {
    zr__id next, prev;
    int32_t pace; /* index in zr__list.pace of the newest pace wait of this step, or ZR_NONE */
} zr__link;

/* A pace wait throttles a step: the step waits for the step `step`, although no data dependency requires this.
 * Otherwise it could run too far ahead of other streams. */
typedef struct zr__pace {
    zr__id step;
    int32_t next; /* index in zr__list.pace of an earlier pace wait of the same step, or ZR_NONE */
} zr__pace;

/* The list of a schedule's steps while they are being written. Arrays grow on demand. After the first failure,
 * `status` keeps its error and later calls do nothing. */
typedef struct zr__list {
    zr_plan *plan;
    const zr_graph *graph; /* NULL for the schedules FLUSH and FILL */
    zr_schedule *schedule; /* schedule being written; it gets its steps when the list is finished */
    zr_step *step;         /* steps, indexed by id; their waits are derived when the list is finished */
    zr__link *link;        /* indexed by id */
    zr_use *use;
    zr__pace *pace;
    int32_t n, n_uses, n_paces;
    int64_t step_room, link_room, use_room, pace_room, buffer_room;
    bool edited;       /* whether a step was inserted before the end of the list, so that ids differ from positions */
    zr__id first, end; /* first and last step of the list */
    zr__id before;     /* step before which new steps are inserted, or ZR_NONE for the end of the list */
    zr_when when;      /* rounds in which newly inserted steps run (zr_step.when) */
    int32_t micro;     /* micro-batch of newly inserted steps (zr_step.micro) */
    int32_t stage;     /* cell of newly inserted steps (zr_step.stage, zr_step.action) */
    char action;
    zr__id newest;            /* step that was inserted most recently */
    zr__id last[ZR_STREAMS];  /* for each stream: last step appended at the end of the list */
    zr__id reduced[2];        /* last steps of the two newest reductions of units; index 0 is the newest reduction */
    int64_t bytes[ZR_SPACES]; /* for each memory space: total bytes of all buffers, an upper bound of offsets */
    zr_step unused;           /* dummy step that zr__list_newest returns after a failure */
    zr_status status;
} zr__list;

/* Maximum number of steps in a schedule. A step takes about 300 bytes with its uses. Planning more steps than this
 * would take seconds. */
#define ZR__STEPS_MAX (1 << 20)

/* Begin a list of steps. Its schedule begins with the plan's persistent buffers. */
zr_status zr__list_begin(zr__list *l, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule);
void zr__list_end(zr__list *l);
/* From now on insert steps before the step `before`, or at the end of the list if `before` is ZR_NONE. */
void zr__list_seek(zr__list *l, zr__id before);
/* Insert a step and return its id. The step involves only this rank (group SELF). The caller completes it through
 * zr__list_newest. */
zr__id zr__list_step(zr__list *l, zr_step_kind kind, zr_stream stream, int32_t unit);
zr_step *zr__list_newest(zr__list *l);
void zr__list_use(zr__list *l, zr__id id, zr_use use);
/* Insert a COPY of `range` from `from` to `to`. The flags `reads` and `writes` of both uses are ignored. */
zr__id zr__list_copy(zr__list *l, zr_stream stream, int32_t unit, zr_range range, zr_use from, zr_use to);
/* Return the stream of copies from one space to another. */
static inline zr_stream zr__copy_stream(zr_space from, zr_space to)
{
    return from == ZR_SPACE_DISK ? ZR_STREAM_FETCH : to == ZR_SPACE_DISK ? ZR_STREAM_STORE : ZR_STREAM_COPY;
}
/* Make the step `step` wait for the step `earlier`, although no data dependency requires this (see zr__pace). If
 * `earlier` is ZR_NONE, do nothing. */
void zr__list_pace(zr__list *l, zr__id step, zr__id earlier);
/* Give `step` the same pace waits as the step `other`. */
void zr__list_pace_as(zr__list *l, zr__id step, zr__id other);
int32_t zr__list_buffer(zr__list *l, zr_space space, zr_category category, int32_t unit, const char *what,
                        int64_t bytes);
/* Write the schedule: the steps in order, buffer lifetimes, waits and offsets. Return the first error of the list. */
zr_status zr__list_finish(zr__list *l);

/* Make room for entry n of an array. Return false after a failure. */
bool zr__grow_now(zr_status *status, void **array, int32_t n, int64_t *room, size_t each);
static inline bool zr__grow(zr_status *status, void **array, int32_t n, int64_t *room, size_t each)
{
    return (n < *room && *status == ZR_OK) || zr__grow_now(status, array, n, room, each);
}

/* ---- waits (order.c) ------------------------------------------------------------------------------------------- */

/* For each stream, raise the time point in `time` to at least the stream's time point in `by`. */
static inline void zr__raise(int32_t time[ZR_STREAMS], const int32_t by[ZR_STREAMS])
{
    for (int s = 0; s < ZR_STREAMS; s++)
        if (by[s] > time[s]) time[s] = by[s];
}

typedef struct zr__found {
    int32_t step;
    zr_wait wait;
} zr__found;

/* For each byte of a memory space: time point of each stream's last use of the byte (painted.c). The time points of a
 * buffer's last uses are "painted" over its bytes. */
typedef struct zr__painted {
    int64_t *edge; /* offsets at which transient buffers begin or end, in ascending order */
    struct zr__cell *cell;
    int32_t n_edges;
} zr__painted;

zr_status zr__painted_begin(zr__painted *painted, const zr_schedule *schedule, zr_space space);
void zr__painted_end(zr__painted *painted);
/* Record time[stream], each stream's last use of a buffer, for all bytes of the buffer. A time point of -1 means that
 * the stream never used the buffer. */
void zr__painted_add(zr__painted *painted, const zr_buffer *buffer, const int32_t time[ZR_STREAMS]);
/* Raise time[stream] to the latest time point at which the stream used any byte of the buffer. */
void zr__painted_latest(const zr__painted *painted, const zr_buffer *buffer, int32_t time[ZR_STREAMS]);

/* For each stream: the time points at which it last read and last wrote a buffer, or -1 for never. */
typedef struct zr__touched {
    int32_t read[ZR_STREAMS], written[ZR_STREAMS];
    bool again; /* whether the second round uses the buffer */
} zr__touched;

typedef struct zr__order {
    const zr_plan *plan;
    zr_schedule *schedule;
    const zr__list *list;
    /* `position[id]`: position of a step in the schedule; `id[position]`: id of the step at this position */
    const int32_t *position, *id;
    int64_t rounds;
    int32_t repeat, end; /* positions of REPEAT and END, or -1 if absent */
    int32_t (*clock)[ZR_STREAMS];
    zr__touched *touched;        /* for each buffer */
    int32_t *of_all[ZR_STREAMS]; /* for each stream: positions of its steps, in ascending order */
    int32_t n_of[ZR_STREAMS];
    int32_t last[ZR_STREAMS];
    /* for each memory space and byte: when each stream last used a transient buffer at this byte in the first round */
    zr__painted painted[ZR_SPACES];
    zr__found *found;
    int32_t n_found;
    int64_t found_room;
    zr_status status;
} zr__order;

/* Find the lifetimes of buffers and the waits within a round. Also find the vector clocks, which determine the buffers
 * that may share bytes. */
zr_status zr__order_steps(zr__order *order);
/* Find the waits for steps of the previous round, which depend on the buffers' offsets. Write all waits into the
 * schedule. */
zr_status zr__order_rounds(zr__order *order);
void zr__order_end(zr__order *order);

/* Round a buffer's bytes up to the alignment of its memory space. */
int64_t zr__round_bytes(zr_space space, int64_t bytes);
/* Add `bytes` to *sum. Return ZR_ERR_CONFIG if the sum overflows. */
zr_status zr__add_bytes(int64_t *sum, int64_t bytes);

/* ---- offsets (pack.c) ------------------------------------------------------------------------------------------ */

typedef struct zr__packed {
    int64_t bytes[ZR_SPACES]; /* for each memory space: highest offset at which a buffer ends */
    int64_t looks;            /* number of comparisons with placed buffers or blocks, a measure of the work */
} zr__packed;

/* Assign an offset to every transient buffer. */
zr_status zr__pack(const zr__order *order, zr__packed *packed);

/* ---- model states (states.c) ----------------------------------------------------------------------------------- */

/* Return the alignment in elements that the records of a layout need; 1 without records. */
int64_t zr__record_align(const zr_layout *layout);
/* Return the type in which a unit's parameters pass between ranks. */
static inline zr_dtype zr__passed_dtype(const zr_plan *plan, int32_t unit)
{
    const zr_dtype records = plan->unit[unit].weight_records;
    return zr_dtype_is_record(records) ? records : plan->layout.dtype;
}
/* Plan the units and the persistent buffers of the model states. */
zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph);
/* Plan the hidden matrices and their owners (matrices.c). Do nothing unless directions are made orthogonal. */
zr_status zr__plan_matrices(zr_plan *plan, const zr_graph *graph);
/** Return the bucket size in elements: wanted_elems rounded up to a multiple of ranks * align_elems. */
int64_t zr__plan_bucket_elems(int64_t wanted_elems, int ranks, int64_t align_elems);
/* Add a persistent buffer at the end of its memory space. */
zr_status zr__plan_persistent(zr_plan *plan, zr_space space, zr_category category, int32_t unit, const char *what,
                              int64_t bytes, int32_t *index);
/* Add a persistent buffer in host memory that is read from and written to disk, so it begins at a multiple of
 * ZR_DISK_ALIGN. */
zr_status zr__plan_persistent_disk(zr_plan *plan, const char *what, int64_t bytes, int32_t *index);
/* Plan the staging memory of each group of ranks. */
zr_status zr__plan_staging(zr_plan *plan);
/* Plan the buffers of results, such as the loss, the squares of gradients and the output. */
zr_status zr__plan_results(zr_plan *plan);

/* Return a use of a range of a unit, in the buffer that stores the unit's state. The buffer may store the whole state
 * or only this rank's shard. If the state has no buffer, return a use with the buffer ZR_NONE. */
zr_use zr__use_state(const zr_state *state, zr_range range, bool reads, bool writes);
/* Return a use of a whole buffer. The buffer may be ZR_NONE. */
zr_use zr__use_all(int32_t buffer, bool reads, bool writes);
/* Return a copy of `use` with the given `reads` and `writes`. */
static inline zr_use zr__use_as(zr_use use, bool reads, bool writes)
{
    use.reads = reads;
    use.writes = writes;
    return use;
}

int64_t zr__value_bytes(const zr_value_info *value);

#endif
