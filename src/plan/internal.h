/** plan, internal: the schedule under construction and the passes over it. */
#ifndef ZR_PLAN_INTERNAL_H
#define ZR_PLAN_INTERNAL_H

#include "zr/plan.h"

/* ---- what runs (program.c, recompute.c, auto.c) ------------------------------------------------ */

typedef enum zr__role { ZR__FORWARD, ZR__REPLAY, ZR__BACKWARD, ZR__KEEP, ZR__RESTORE } zr__role;
/* A run: an op; or KEEP, which stores a value until the backward pass; or RESTORE, which fetches the value back into a
 * new instance. */
typedef struct zr__run_of {
    int32_t op; /* KEEP, RESTORE: -1 */
    zr__role role;
    zr_value value; /* KEEP, RESTORE */
    int32_t unit;   /* unit of the segment that the run belongs to */
    bool pieces;    /* KEEP, RESTORE: each tensor-parallel rank keeps only its piece */
} zr__run_of;

/* The program of one micro-batch: its runs in order. The backward pass runs once or, where lean needs the norm first,
 * twice. */
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
/* Return the op of a run; NULL for KEEP and RESTORE. */
const zr_op *zr__program_op(const zr__program *program, const zr_graph *graph, int32_t run);

/* Rewrite the program so that activation checkpoints are kept from the forward to the backward pass, in pieces or
 * whole, on the device or on the host (checkpoints.c). */
zr_status zr__keep_checkpoints(zr__program *program, const zr_plan *plan, const zr_graph *graph);
/* Return the elements of one tensor-parallel rank's piece of a value; the last rank's piece ends in padding. */
int64_t zr__piece_elems(const zr_plan *plan, const zr_value_info *value);

/* Recompute policies of the first n_first units and of the rest, and how their checkpoints are kept. */
typedef struct zr__mix {
    zr_recompute first, rest;
    int32_t n_first;
    int64_t every;
    bool partition, offload; /* zr_plan's */
} zr__mix;

/* Return how many units, counted from the first, may be recomputed. */
int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *graph);
void zr__recompute_assign(zr_plan *plan, const zr_graph *graph, const zr__mix *mix);
/* Find the values of the forward pass that are not kept for the backward pass: dropped[value]. */
zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *graph, bool *dropped);

/* Create one plan with these policies (plan.c). */
zr_status zr__plan_create_mix(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                              const zr__mix *mix, zr_plan **plan);

/* ---- a list of steps (list.c) ------------------------------------------------------------------ */

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
void zr__list_use(zr__list *l, zr__id step, zr_use use);
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

/* ---- model states (states.c) ------------------------------------------------------------------ */

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

/* ---- what is decided (segments.c, places.c) ---------------------------------------------------- */

/* Consecutive runs of one unit. */
typedef struct zr__segment {
    int32_t first, end; /* runs of the program */
    int pass;
} zr__segment;

/* Decisions on a program before its steps are written. Each time that a value is written makes an instance of it, with
 * a place of its own; instances are numbered in the order of writing. */
typedef struct zr__decided {
    const zr_plan *plan;
    const zr_graph *graph;
    zr__program program;
    zr__segment *segment;
    int32_t n_segments, n_instances;
    int32_t *last_use; /* instance -> last run that reads it; the number of runs: used after all runs; -1: no run */
    bool *checkpoint;  /* instance -> written by the forward pass and read by a replay that the policy asks for */
    int32_t *due;      /* (passes, units): segment at whose end the unit is reduced in that pass; -1: never */
    int32_t *consumed; /* (passes, units): segment at whose end the unit's update consumes its gradient
                          (zr_plan.consume_grad); -1: never */
} zr__decided;

zr_status zr__decide(zr__decided *d, const zr_plan *plan, zr_schedule_kind kind);
void zr__decided_free(zr__decided *d);
/* Return the op of a run; NULL for KEEP and RESTORE. */
const zr_op *zr__op_of(const zr__decided *d, int32_t run);
/* Return the unit of a parameter; -1 for any other value. */
int32_t zr__param_unit(const zr_graph *graph, zr_value value);

/* ---- writing (schedule.c, gathers.c, movement.c, update.c) ------------------------------------ */

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind);
zr_status zr__write_flush(zr_plan *plan);

/* The segments of the program between which a unit is held gathered (stage 3). */
typedef struct zr__fetch {
    int32_t unit, from, to;
    bool first;     /* the unit's first fetch in this schedule */
    int32_t buffer; /* ZR_NONE: not issued yet */
} zr__fetch;

typedef struct zr__gathers {
    zr__fetch *fetch; /* in order of `from` */
    int32_t n, issued, begun;
    int64_t room;
    int32_t *of;         /* unit -> the fetch that holds it now, ZR_NONE */
    int64_t *gone_elems; /* per segment: elements of the fetches that end with it */
    int64_t *used_elems; /* per segment: elements that all segments before it use */
    int32_t segment;     /* the last segment that was begun */
    int64_t total_elems, live_elems, ahead_elems;
    zr_status status;
} zr__gathers;

zr_status zr__gathers_begin(zr__gathers *gathers, const zr_plan *plan, int32_t n_segments);
void zr__gathers_end(zr__gathers *gathers);
/* Note that a segment reads a parameter of `unit`. Called segment by segment, in order of use. */
void zr__gathers_add(zr__gathers *gathers, const zr_plan *plan, int32_t segment, int32_t unit);
/* Write the gathers at the start of a segment: of the units that it reads, and the prefetches that the layout allows,
 * which wait for step `pace`. */
void zr__gathers_issue(zr__gathers *gathers, zr__list *l, int32_t segment, zr__id pace);

/* Gather a unit whole into `buffer`. */
void zr__write_gather(zr__list *l, int32_t unit, int32_t buffer, zr__id pace);
/* Gather a unit for a zr__fetch. With hpZ only the unit's first fetch of a training step gathers from all ranks; later
 * fetches gather from the secondary partition. */
void zr__write_fetch(zr__list *l, int32_t unit, int32_t buffer, bool first, zr__id pace);
/* Reduce-scatter a unit's gradient to the owners of its shards. grad: buffer of this micro-batch's gradient; again:
 * this is the second pass, and the first has taken the squares. */
void zr__write_reduce(zr__list *l, int32_t unit, int32_t grad, bool again);
/* Reduce the sums over all micro-batches after the last one (zr_plan.reduce_once). */
void zr__write_reduce_once(zr__list *l, int32_t unit);
/* Gather the parts that other ranks have updated of a unit that stays whole, once a training step. */
void zr__write_refresh(zr__list *l, int32_t unit);
/* Return whether this rank keeps the whole unit while others update parts of it. */
bool zr__refreshed(const zr_plan *plan, int32_t unit);
/* Gather other ranks' sums that this rank's update reads, or with ZR_REDUCE_ALL_REDUCE all sums: of this micro-batch,
 * or (`step`) of all micro-batches. At stage 0 this makes the reduction an all-reduce. */
void zr__write_gather_sums(zr__list *l, int32_t unit, int32_t grad, bool step);

/* The state of writing one graph's schedule. */
typedef struct zr__writing {
    zr__list list;
    zr_schedule_kind kind;
    zr__decided decided;
    zr__gathers gathers;
    int32_t *instance;    /* value -> its newest instance, -1: not written */
    int32_t *kept;        /* value -> buffer that keeps its checkpoint */
    int32_t *place;       /* instance -> buffer */
    int32_t *grad_buffer; /* unit -> whole gradient of this pass, ZR_NONE: not begun */
    int32_t n_instances;
    zr__id ended[2]; /* last computing step of the previous segment, and of the segment before it */
} zr__writing;

int64_t zr__value_bytes(const zr_value_info *value);
/* Return a use of a value in this buffer: at its offset in its unit, or at the beginning. */
zr_use zr__use_value(const zr_graph *graph, zr_value value, int32_t buffer, bool reads, bool writes);
/* Return the place of a run's operand; the place of the output that `step` writes. */
zr_use zr__place_input(const zr__writing *w, zr_value value);
zr_use zr__place_output(zr__writing *w, zr__id step, int32_t run, int out);
/* Return the buffer of a unit's whole gradient in this pass. */
int32_t zr__unit_gradient(zr__writing *w, int32_t unit);

/* Return whether a unit's whole gradient is a transient buffer of each micro-batch. */
bool zr__grad_transient(const zr_plan *plan);
/* Return whether every rank gets the sums of a whole gradient. */
bool zr__all_get_sums(const zr_plan *plan);
/* Return a unit's whole gradient in a buffer of the schedule; return where its sums are: in that buffer, or in the
 * unit's persistent one. */
zr_state zr__whole_grad(const zr_plan *plan, int32_t unit, int32_t buffer);
zr_state zr__sums_of(const zr_plan *plan, int32_t unit, int32_t grad);

/* Write SQUARE, AGREE and UPDATE after the reduction of a unit whose update consumes its gradient (consume_grad);
 * `norm`: SQUARE alone, since this pass is for the norm. */
void zr__write_consume(zr__list *l, int32_t unit, int32_t grad, bool norm);
void zr__write_norm(zr__list *l);
/* Write NORM and the updates after the last micro-batch, except the updates that consume_grad has made before. */
void zr__write_update(zr__list *l);

/* ---- policies (policies.c) --------------------------------------------------------------------- */

/* A choice of the layout beside the ZeRO stage, in a file of its own. Hooks are called in the order in which a plan is
 * made; NULL: the policy does nothing there. */
typedef struct zr__policy {
    /* Refuse an impossible layout: ZR_ERR_CONFIG, ZR_ERR_UNSUPPORTED. */
    zr_status (*check)(const zr_layout *layout);
    /* Return whether the layout leaves a choice open; create the best of the plans that the choice allows. */
    bool (*chooses)(const zr_layout *layout);
    zr_status (*create)(const zr_model *model, const zr_layout *layout, const zr_profile *profile, zr_plan **plan);
    /* Add persistent buffers. */
    zr_status (*add_buffers)(zr_plan *plan);
    /* Write steps at the beginning of a round of training. */
    void (*round)(zr__list *l);
    /* Write steps for a unit's gradient of this micro-batch after it is complete and before it is reduced. */
    void (*gradient)(zr__list *l, int32_t unit, const zr_state *gradient);
    /* Add to NORM, the newest step of the list. */
    void (*norm)(zr__list *l, zr__id norm);
    /* Change the list of a whole schedule. */
    void (*rewrite)(zr__list *l);
} zr__policy;

extern const zr__policy zr__policy_noise, zr__policy_save, zr__policy_recompute, zr__policy_residency;

zr_status zr__policies_check(const zr_layout *layout);
/* Return the first policy whose choice the layout leaves open; NULL if every choice is made. */
const zr__policy *zr__policies_choose(const zr_layout *layout);
zr_status zr__policies_add_buffers(zr_plan *plan);
void zr__policies_round(zr__list *l);
void zr__policies_gradient(zr__list *l, int32_t unit, const zr_state *gradient);
void zr__policies_norm(zr__list *l, zr__id norm);
void zr__policies_rewrite(zr__list *l);

/* ---- passes over a schedule (pack.c, account.c) ------------------------------------------------ */

typedef struct zr__packed {
    int64_t bytes[ZR_SPACES]; /* end of the highest buffer */
    int64_t looks;            /* comparisons of a buffer with a placed buffer or a block: the cost of packing */
} zr__packed;

/* Give every transient buffer its offset. */
zr_status zr__pack(const zr__order *order, zr__packed *packed);

/* Return the bytes that a step brings into one rank; for steps with an owner, into the owner (REDUCE) or into each
 * other rank (BROADCAST). */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *schedule, const zr_step *step);

/* Fill plan->memory, traffic, flops. */
zr_status zr__account(zr_plan *plan);

#endif
