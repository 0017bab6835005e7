/**
 * plan/write: the steps of a schedule, from the program and the states.
 * schedule.c walks the program; gathers.c and movement.c write what brings units and gradients between ranks; places.c
 * chooses the buffer of each value; update.c writes norm and optimizer.
 */
#ifndef ZR_PLAN_WRITE_H
#define ZR_PLAN_WRITE_H

#include "plan/policy/policy.h"

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
/* If this rank keeps a whole unit while others update parts of it, gather these parts. */
void zr__write_refresh(zr__list *l, int32_t unit, zr_when when);
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

/* Return a use of a value in this buffer: at its offset in its unit, or at the beginning. */
zr_use zr__use_value(const zr_graph *graph, zr_value value, int32_t buffer, bool reads, bool writes);
/* Return the place of a run's operand; the place of the output that `step` writes. */
zr_use zr__place_input(const zr__writing *w, zr_value value);
zr_use zr__place_output(zr__writing *w, zr__id step, int32_t run, int out);
/* Return the buffer of a unit's whole gradient in this pass. */
int32_t zr__unit_gradient(zr__writing *w, int32_t unit);

/* Return whether a unit's whole gradient is a transient buffer of each micro-batch. */
bool zr__grad_transient(const zr_plan *plan);
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

#endif
