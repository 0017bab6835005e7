/** plan, internal: the schedule under construction and the passes over it. */
#ifndef ZR_PLAN_INTERNAL_H
#define ZR_PLAN_INTERNAL_H

#include "zr/plan.h"

/* ---- what runs (program.c, recompute.c, auto.c) ------------------------------------------------ */

typedef enum zr__role { ZR__FORWARD, ZR__REPLAY, ZR__BACKWARD, ZR__KEEP, ZR__RESTORE } zr__role;
/* An op that runs; or a value that is kept until the backward pass, or fetched back from there, which writes it anew.
 */
typedef struct zr__run_of {
    int32_t op; /* KEEP, RESTORE: -1 */
    zr__role role;
    zr_value value; /* KEEP, RESTORE */
    int32_t unit;   /* whose segment it belongs to */
    bool pieces;    /* KEEP, RESTORE: each rank of a layer keeps its piece */
} zr__run_of;

/* The program of one micro-batch, in order. The backward is one pass or, where lean needs the norm first, two. */
typedef struct zr__program {
    zr__run_of *run;
    int32_t n;
    int64_t room;
    int32_t pass_end[2]; /* the first pass holds the forward as well */
    int passes;
    zr_status status;
} zr__program;

zr_status zr__program_make(zr__program *program, const zr_plan *plan, zr_schedule_kind kind);
void zr__program_free(zr__program *program);
void zr__program_emit(zr__program *program, zr__run_of run);
/* The op that runs, NULL: none does. */
const zr_op *zr__program_op(const zr__program *program, const zr_graph *graph, int32_t run);

/* Rewrite the program so that activation checkpoints are kept between forward and backward pass, in pieces or whole, on
 * the device or on the host (checkpoints.c). */
zr_status zr__keep_checkpoints(zr__program *program, const zr_plan *plan, const zr_graph *graph);
/* Elements of one rank's piece of a value, of a layer's ranks; the last one's ends in padding. */
int64_t zr__piece_elems(const zr_plan *plan, const zr_value_info *value);

/* Recompute policies of the first n_first units and of the rest, and how their checkpoints are kept. */
typedef struct zr__mix {
    zr_recompute first, rest;
    int32_t n_first;
    int64_t every;
    bool partition, offload; /* zr_plan's */
} zr__mix;

/* Units, from the first, that may be computed again. */
int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *graph);
void zr__recompute_assign(zr_plan *plan, const zr_graph *graph, const zr__mix *mix);
/* Find the values of the forward pass that are not kept for the backward pass: dropped[value]. */
zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *graph, bool *dropped);

/* One plan with these policies; plan.c. */
zr_status zr__plan_create_mix(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                              const zr__mix *mix, zr_plan **plan);

/* ---- a list of steps (list.c) ------------------------------------------------------------------ */

/* Id of a step, which stays the same whatever is put in before or behind it. ZR_NONE: no step. */
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
    bool edited;              /* ids are not positions */
    zr__id first, end;        /* first step of the list, and the last */
    zr__id before;            /* where steps are put in; ZR_NONE: at the end */
    zr_when when;             /* the rounds in which they run */
    zr__id newest;            /* step that was put in */
    zr__id last[ZR_STREAMS];  /* step of each stream at the end of the list */
    zr__id reduced[2];        /* the last step that reduces the newest reduced unit, and the one before */
    int64_t bytes[ZR_SPACES]; /* sum of all buffers, as if none shared bytes: no offset can be larger */
    zr_step unused;           /* returned by zr__list_newest after a failure */
    zr_status status;
} zr__list;

/* A longer schedule is refused: some 300 bytes a step with its uses, and seconds to write it. */
#define ZR__STEPS_MAX (1 << 20)

/* Begin with the plan's persistent buffers. */
zr_status zr__list_begin(zr__list *l, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule);
void zr__list_end(zr__list *l);
/* Put the following steps in before this one; ZR_NONE: at the end. */
void zr__list_seek(zr__list *l, zr__id before);
/* Put a step in, of this rank alone; zr__list_newest is it, to be completed. */
zr__id zr__list_step(zr__list *l, zr_step_kind kind, zr_stream stream, int32_t unit);
zr_step *zr__list_newest(zr__list *l);
void zr__list_use(zr__list *l, zr__id step, zr_use use);
/* A wait that no use asks for; `earlier` ZR_NONE: nothing. */
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

/* ---- waits (order.c) --------------------------------------------------------------------------- */

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
/* The bytes of a buffer of the schedule were used at these times, -1: not. */
void zr__painted_add(zr__painted *painted, const zr_buffer *buffer, const int32_t time[ZR_STREAMS]);
/* Raise `time` to the latest times painted on any byte of the buffer. */
void zr__painted_latest(const zr__painted *painted, const zr_buffer *buffer, int32_t time[ZR_STREAMS]);

/* Last time at which each stream has read a buffer, and written it; -1: never. */
typedef struct zr__touched {
    int32_t read[ZR_STREAMS], written[ZR_STREAMS];
    bool again; /* in the second round */
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

/* The lifetimes of buffers, the waits within a round, and the clocks by which buffers may share bytes. */
zr_status zr__order_steps(zr__order *order);
/* Once buffers have their places: the waits for the round before. Writes all waits into the schedule. */
zr_status zr__order_rounds(zr__order *order);
void zr__order_end(zr__order *order);

/* The bytes that a buffer takes in a space: every place begins at a multiple of the space's alignment. */
int64_t zr__round_bytes(zr_space space, int64_t bytes);
/* *sum += bytes; ZR_ERR_CONFIG when that overflows. */
zr_status zr__add_bytes(int64_t *sum, int64_t bytes);

/* ---- model states (states.c) ------------------------------------------------------------------ */

/* Units and the persistent buffers of the model states. */
zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph);
/* Add a persistent buffer; it follows the last one of its space. */
zr_status zr__plan_persistent(zr_plan *plan, zr_space space, zr_category category, int32_t unit, const char *what,
                              int64_t bytes, int32_t *index);
/* The staging memory: the largest that any step moves. */
zr_status zr__plan_staging(zr_plan *plan);
/* Results that steer later steps. */
zr_status zr__plan_results(zr_plan *plan);

/* A use of a range of a unit in a buffer that keeps the whole or this rank's shard; absent where nothing is kept. */
zr_use zr__use_state(const zr_state *state, zr_range range, bool reads, bool writes);
/* A use of all of a buffer; ZR_NONE: absent. */
zr_use zr__use_all(int32_t buffer, bool reads, bool writes);

/* ---- what is decided (segments.c, places.c) ---------------------------------------------------- */

/* Runs of one unit that follow each other. */
typedef struct zr__segment {
    int32_t first, end; /* runs of the program */
    int pass;
} zr__segment;

/* Decisions on a program before a step is written. A value that is written again has a place for each time: an
 * instance, numbered in the order of writing. */
typedef struct zr__decided {
    const zr_plan *plan;
    const zr_graph *graph;
    zr__program program;
    zr__segment *segment;
    int32_t n_segments, n_instances;
    int32_t *last_use; /* instance -> last run that reads it; the program's end: needed after it; -1 */
    bool *checkpoint;  /* instance -> written by the forward pass and read by a replay that the policy asks for */
    int32_t *due;      /* (passes, units): segment at whose end the unit is reduced in that pass; -1: it is not */
    int32_t
        *consumed; /* likewise, at whose end its gradient dies in its update (zr_plan.consume_grad); -1: it does not */
} zr__decided;

zr_status zr__decide(zr__decided *d, const zr_plan *plan, zr_schedule_kind kind);
void zr__decided_free(zr__decided *d);
/* Return the op that runs, NULL: none does. */
const zr_op *zr__op_of(const zr__decided *d, int32_t run);
/* The unit of a parameter; -1: the value is none. */
int32_t zr__param_unit(const zr_graph *graph, zr_value value);

/* ---- writing (schedule.c, gathers.c, movement.c, update.c) ------------------------------------ */

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind);
zr_status zr__write_flush(zr_plan *plan);

/* Stage 3: a unit is whole from one segment of the program to another. */
typedef struct zr__fetch {
    int32_t unit, from, to;
    bool first;     /* the unit's first in this schedule */
    int32_t buffer; /* ZR_NONE: not issued yet */
} zr__fetch;

typedef struct zr__gathers {
    zr__fetch *fetch; /* in order of `from` */
    int32_t n, issued, begun;
    int64_t room;
    int32_t *of;         /* unit -> the fetch that holds it now, ZR_NONE */
    int64_t *gone_elems; /* per segment: elements of the fetches that end there */
    int64_t *used_elems; /* per segment: elements that all segments before it use */
    int32_t segment;     /* the last of them that was begun */
    int64_t total_elems, live_elems, ahead_elems;
    zr_status status;
} zr__gathers;

zr_status zr__gathers_begin(zr__gathers *gathers, const zr_plan *plan, int32_t n_segments);
void zr__gathers_end(zr__gathers *gathers);
/* Segment by segment, in order of use: this one reads a parameter of `unit`. */
void zr__gathers_add(zr__gathers *gathers, const zr_plan *plan, int32_t segment, int32_t unit);
/* At the start of a segment: gather what it needs, and ahead what the layout allows, once step `pace` has ended. */
void zr__gathers_issue(zr__gathers *gathers, zr__list *l, int32_t segment, zr__id pace);

/* Gather a unit whole into `buffer`. */
void zr__write_gather(zr__list *l, int32_t unit, int32_t buffer, zr__id pace);
/* Likewise for a zr__fetch. With hpZ all but the unit's first of a training step come from the second copy. */
void zr__write_fetch(zr__list *l, int32_t unit, int32_t buffer, bool first, zr__id pace);
/* Reduce a unit: pieces to their owners, and their sums. grad: the unit's gradient of this micro-batch; again: of a
 * second pass, whose squares the first has taken. */
void zr__write_reduce(zr__list *l, int32_t unit, int32_t grad, bool again);
/* zr_plan.reduce_once: reduce the sums over all micro-batches, behind the last one. */
void zr__write_reduce_once(zr__list *l, int32_t unit);
/* Gather what other ranks have updated of a unit that stays whole, once a training step. */
void zr__write_refresh(zr__list *l, int32_t unit);
/* Return whether this rank keeps the whole unit while others update parts of it. */
bool zr__refreshed(const zr_plan *plan, int32_t unit);
/* Gather the sums that this rank updates by and others have made: of this micro-batch, or (`step`) of all. At stage 0
 * this makes the reduction an all-reduce. */
void zr__write_gather_sums(zr__list *l, int32_t unit, int32_t grad, bool step);

/* A schedule of a graph that is being written. */
typedef struct zr__writing {
    zr__list list;
    zr_schedule_kind kind;
    zr__decided decided;
    zr__gathers gathers;
    int32_t *instance;    /* value -> its newest instance, -1: not written */
    int32_t *kept;        /* value -> buffer that it is kept in */
    int32_t *place;       /* instance -> buffer */
    int32_t *grad_buffer; /* unit -> whole gradient of this pass, ZR_NONE: not begun */
    int32_t n_instances;
    zr__id ended[2]; /* the last computing step of the segment before, and of the one before that */
} zr__writing;

int64_t zr__value_bytes(const zr_value_info *value);
/* A use of a value in this buffer: at its place in its unit, or at the beginning. */
zr_use zr__use_value(const zr_graph *graph, zr_value value, int32_t buffer, bool reads, bool writes);
/* Return the place of a run's operand; of the output that `step` writes. */
zr_use zr__place_input(const zr__writing *w, zr_value value);
zr_use zr__place_output(zr__writing *w, zr__id step, int32_t run, int out);
/* The whole gradient of a unit in this pass. */
int32_t zr__unit_gradient(zr__writing *w, int32_t unit);

/* Is a unit's gradient a buffer of its own in each micro-batch? */
bool zr__grad_transient(const zr_plan *plan);
/* Does every rank get the sums of a whole gradient? */
bool zr__all_get_sums(const zr_plan *plan);
/* A unit's whole gradient in a buffer of the schedule; where its sums stand: there, or where they stay. */
zr_state zr__whole_grad(const zr_plan *plan, int32_t unit, int32_t buffer);
zr_state zr__sums_of(const zr_plan *plan, int32_t unit, int32_t grad);

/* Behind the reduction of a unit whose gradient dies in its update (consume_grad): its square, AGREE and update;
 * `norm`: the square alone, since this pass is for the norm. */
void zr__write_consume(zr__list *l, int32_t unit, int32_t grad, bool norm);
void zr__write_norm(zr__list *l);
/* After the last micro-batch: norm, and the updates that were not made along the way. */
void zr__write_update(zr__list *l);

/* ---- policies (policies.c) --------------------------------------------------------------------- */

/* A choice of the layout beside the ZeRO stage, in a file of its own. Hooks are called in the order in which a plan is
 * made; NULL: the policy has no part in that. */
typedef struct zr__policy {
    /* Refuse an impossible layout: ZR_ERR_CONFIG, ZR_ERR_UNSUPPORTED. */
    zr_status (*check)(const zr_layout *layout);
    /* Return whether the layout leaves a choice open, and make the best of the plans that it leaves. */
    bool (*chooses)(const zr_layout *layout);
    zr_status (*create)(const zr_model *model, const zr_layout *layout, const zr_profile *profile, zr_plan **plan);
    /* Add persistent buffers. */
    zr_status (*add_buffers)(zr_plan *plan);
    /* Write steps at the beginning of a round of training. */
    void (*round)(zr__list *l);
    /* Write steps for a unit's gradient of this micro-batch, which is finished and not yet reduced. */
    void (*gradient)(zr__list *l, int32_t unit, const zr_state *gradient);
    /* Add to NORM, the newest step of the list. */
    void (*norm)(zr__list *l, zr__id norm);
    /* Change the list of a whole schedule. */
    void (*rewrite)(zr__list *l);
} zr__policy;

extern const zr__policy zr__policy_noise, zr__policy_save, zr__policy_recompute, zr__policy_residency;

zr_status zr__policies_check(const zr_layout *layout);
/* Return the first policy that leaves a choice open; NULL: none does. */
const zr__policy *zr__policies_choose(const zr_layout *layout);
zr_status zr__policies_add_buffers(zr_plan *plan);
void zr__policies_round(zr__list *l);
void zr__policies_gradient(zr__list *l, int32_t unit, const zr_state *gradient);
void zr__policies_norm(zr__list *l, zr__id norm);
void zr__policies_rewrite(zr__list *l);

/* ---- passes over a schedule (pack.c, account.c) ------------------------------------------------ */

typedef struct zr__packed {
    int64_t bytes[ZR_SPACES]; /* end of the highest buffer */
    int64_t looks;            /* how often a buffer was held against a placed one: what packing costs */
} zr__packed;

/* Give every transient buffer its offset. clock: per step, the last step of each stream that comes before. */
zr_status zr__pack(const zr__order *order, zr__packed *packed);

/* Bytes that a step brings into one rank; of one owner's steps, into the owner (REDUCE) or everyone else. */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *schedule, const zr_step *step);

/* Fill plan->memory, traffic, flops. */
zr_status zr__account(zr_plan *plan);

#endif
