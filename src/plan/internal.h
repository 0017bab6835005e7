/** plan, internal: the schedule under construction and the passes over it. */
#ifndef ZR_PLAN_INTERNAL_H
#define ZR_PLAN_INTERNAL_H

#include "zr/plan.h"

/* ---- what runs (program.c, recompute.c, auto.c) ------------------------------------------------ */

typedef enum zr__role { ZR__FORWARD, ZR__REPLAY, ZR__BACKWARD } zr__role;
typedef struct zr__run_of {
    int32_t op;
    zr__role role;
} zr__run_of;

/* The ops of one micro-batch in order. The backward is one pass or, where lean needs the norm first, two. */
typedef struct zr__program {
    zr__run_of *run;
    int32_t n, room;
    int32_t pass_end[2]; /* the first pass holds the forward as well */
    int passes;
    zr_status status;
} zr__program;

zr_status zr__program_make(zr__program *program, const zr_plan *plan, zr_schedule_kind kind);
void zr__program_free(zr__program *program);

/* Recompute policies of the units: the first so many, and the rest. */
typedef struct zr__mix {
    zr_recompute first, rest;
    int32_t n_first;
    int64_t every;
} zr__mix;

/* Units, from the first, that may be computed again. */
int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *graph);
void zr__recompute_assign(zr_plan *plan, const zr_graph *graph, const zr__mix *mix);
/* Which values of the forward pass are not kept for the backward: dropped[value]. */
zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *graph, bool *dropped);

/* One plan with these policies; plan.c. */
zr_status zr__plan_create_mix(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                              const zr__mix *mix, zr_plan **plan);
/* ZR_RECOMPUTE_AUTO: the plan of the cheapest mix. */
zr_status zr__plan_create_auto(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                               zr_plan **plan);

/* ---- a schedule being written (writer.c) ------------------------------------------------------ */

/* Arrays grow; the first failure is latched and later calls do nothing. */
typedef struct zr__writer {
    zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    zr_schedule *schedule;
    int32_t step_room, use_room, wait_room, buffer_room;
    int32_t (*clock)[ZR_STREAMS]; /* per step: the last step of each stream that happens before it */
    int32_t clock_room;
    int32_t last[ZR_STREAMS]; /* the last step of each stream, -1: none */
    int32_t reduced[2];       /* the last step that reduces the newest reduced unit, and the one before; -1: none */
    int32_t last_norm;        /* what an update waits for, -1: none */
    int64_t bytes;            /* of all buffers, as if none shared a place: no offset can be larger */
    zr_status status;
} zr__writer;

/* A longer schedule is refused: some 100 bytes a step, and seconds to write it. */
#define ZR__STEPS_MAX (1 << 20)

/* Begin with the plan's persistent buffers. */
zr_status zr__writer_begin(zr__writer *w, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule);
/* Free what only the writer needs; returns the latched status. */
zr_status zr__writer_end(zr__writer *w);
/* Append; the uses and waits that follow belong to it. Returns its index. */
int32_t zr__writer_step(zr__writer *w, zr_step_kind kind, zr_stream stream, int32_t unit, int32_t op);
void zr__writer_range(zr__writer *w, int64_t first, int64_t count);
void zr__writer_owner(zr__writer *w, int32_t owner);
void zr__writer_use(zr__writer *w, int32_t buffer, bool reads, bool writes);
/* The newest step waits for `step`; nothing is added when that is implied already, or step < 0. */
void zr__writer_wait(zr__writer *w, int32_t step);
int32_t zr__writer_buffer(zr__writer *w, zr_category category, int32_t unit, const char *what, int64_t bytes);

/* The bytes that a buffer takes: every place begins at a multiple of 64. */
int64_t zr__round_bytes(int64_t bytes);
/* *sum += bytes; ZR_ERR_CONFIG when that overflows. */
zr_status zr__add_bytes(int64_t *sum, int64_t bytes);

/* ---- model states (states.c) ------------------------------------------------------------------ */

/* Units and the persistent buffers of the model states. */
zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph);
/* Add a persistent buffer; its offset follows the ones before. */
zr_status zr__plan_persistent(zr_plan *plan, zr_category category, int32_t unit, const char *what, int64_t bytes,
                              int32_t *index);
/* The exchange stage: the largest that any step moves. */
zr_status zr__plan_stage(zr_plan *plan);

/* ---- writing (schedule.c, gathers.c, movement.c, update.c) ------------------------------------ */

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind);
zr_status zr__write_flush(zr_plan *plan);

/* Stage 3: a unit is whole from one segment of the program to another. */
typedef struct zr__fetch {
    int32_t unit, from, to;
    int32_t buffer; /* ZR_NONE: not issued yet */
    int32_t step;   /* its last gather */
} zr__fetch;

typedef struct zr__gathers {
    zr__fetch *fetch; /* in order of `from` */
    int32_t n, room, issued, begun;
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
/* At the start of a segment: gather what it needs, and ahead what the layout allows, once step `wait` has ended. */
void zr__gathers_issue(zr__gathers *gathers, zr__writer *w, int32_t segment, int32_t wait);

/* Gathers return their last step, -1: none. `target`: the whole unit. */
int32_t zr__write_gather(zr__writer *w, int32_t unit, int32_t target, int32_t wait);
int32_t zr__write_gather_grad(zr__writer *w, int32_t unit, int32_t sums, int32_t wait);
/* Pieces to their owners, and their sums. grad: the unit's gradient of this micro-batch. */
void zr__write_reduce(zr__writer *w, int32_t unit, int32_t grad);
/* What other ranks have updated of a unit that stays whole, once a step. Returns its last step. */
int32_t zr__write_refresh(zr__writer *w, int32_t unit);
/* Is there such a unit? */
bool zr__refreshed(const zr_plan *plan, int32_t unit);
/* What makes it an all-reduce, where it is one: everyone gets the sums of this micro-batch. */
int32_t zr__write_gather_sums(zr__writer *w, int32_t unit, int32_t grad);

/* Do the layout's buckets cut the model into more pieces than a schedule has room for? ZR_ERR_CONFIG. */
zr_status zr__check_pieces(const zr_plan *plan);

/* Is a unit's gradient a buffer of its own in each micro-batch? */
bool zr__grad_transient(const zr_plan *plan);
/* Does every rank get the sums of a whole gradient? */
bool zr__all_get_sums(const zr_plan *plan);
/* Where the sums of a unit's gradient stand: `grad`, or a persistent buffer. */
int32_t zr__sums_buffer(const zr_plan *plan, int32_t unit, int32_t grad);

/* A unit's gradient is summed: where it is consumed, what follows at once (`norm`: this pass is for the norm alone). */
void zr__write_consume(zr__writer *w, int32_t unit, int32_t grad, int32_t wait, bool norm);
void zr__write_norm(zr__writer *w);
/* After the last micro-batch: norm, and the updates that were not made along the way. */
void zr__write_update(zr__writer *w);

/* ---- passes over a schedule (pack.c, account.c) ------------------------------------------------ */

typedef struct zr__packed {
    int64_t bytes; /* end of the highest buffer */
    int64_t looks; /* how often a buffer was held against a placed one: what packing costs */
} zr__packed;

/* Give every transient buffer of a schedule its offset. */
zr_status zr__pack(const zr_plan *plan, zr_schedule *schedule, int32_t (*clock)[ZR_STREAMS], zr__packed *packed);

/* Bytes that a step brings into one rank; of one owner's steps, into the owner (REDUCE) or everyone else. */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_step *step);

/* Fill plan->memory, traffic, flops. */
zr_status zr__account(zr_plan *plan);

#endif
