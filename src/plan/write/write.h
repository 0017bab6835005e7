/** plan/write: writes the steps of a schedule, from the program and the states.
 *
 * schedule.c walks through the program. gathers.c and movement.c write the steps that move parameters and gradients
 * between ranks. places.c chooses the buffer of each value. update.c writes the norm and the optimizer's updates. */
#ifndef ZR_PLAN_WRITE_H
#define ZR_PLAN_WRITE_H

#include "plan/policy/policy.h"

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind);
zr_status zr__write_flush(zr_plan *plan);

/* A gather of a unit at stage 3. The unit stays gathered from segment `from` to segment `to`. */
typedef struct zr__fetch {
    int32_t unit, from, to;
    bool first;     /* whether this is the unit's first gather in the schedule */
    int32_t buffer; /* ZR_NONE until the gather is issued */
} zr__fetch;

typedef struct zr__gathers {
    zr__fetch *fetch; /* gathers, ordered by `from` */
    int32_t n, issued, begun;
    int64_t room;
    int32_t *of;         /* by unit: index of the unit's current gather, or ZR_NONE */
    int64_t *gone_elems; /* by segment: number of gathered elements that are freed at the segment's end */
    int64_t *used_elems; /* by segment: number of elements that all earlier segments use */
    int32_t segment;     /* last segment that has begun */
    int64_t total_elems, live_elems, ahead_elems;
    zr_status status;
} zr__gathers;

zr_status zr__gathers_begin(zr__gathers *gathers, const zr_plan *plan, int32_t n_segments);
void zr__gathers_end(zr__gathers *gathers);
/* Record that a segment reads a parameter of `unit`. Calls must be in the order of the segments. */
void zr__gathers_add(zr__gathers *gathers, const zr_plan *plan, int32_t segment, int32_t unit);
/* At the start of a segment, write the gathers of the units that it reads, and prefetches of later units as far as the
 * layout allows. Prefetches wait for the step `pace`. */
void zr__gathers_issue(zr__gathers *gathers, zr__list *l, int32_t segment, zr__id pace);

/* Write a gather of a unit at stage 3. With hpZ, only the unit's first gather of a training step is from all ranks.
 * Later gathers are from the secondary partition. */
void zr__write_fetch(zr__list *l, int32_t unit, int32_t buffer, bool first, zr__id pace);
/* Reduce-scatter a unit's gradient to the owners of its shards. `grad` is the buffer of this micro-batch's gradient.
 * `again` is true in the second backward pass, since the first pass has already computed the squares. */
void zr__write_reduce(zr__list *l, int32_t unit, int32_t grad, bool again);
/* Reduce a unit's sums over the ranks once, after the last micro-batch (zr_plan.reduce_once). */
void zr__write_reduce_once(zr__list *l, int32_t unit);
/* Gather the parts of a unit that other ranks have updated. Write nothing if stage 3 gathers the unit anyway. */
void zr__write_refresh(zr__list *l, int32_t unit, zr_when when);
/* Gather the other ranks' sums that this rank's update reads. With ZR_REDUCE_ALL_REDUCE, gather all sums. `step`:
 * whether the sums are over all micro-batches of the training step, otherwise over one. At stage 0 this gather
 * completes an all-reduce. */
void zr__write_gather_sums(zr__list *l, int32_t unit, int32_t grad, bool step);

/* The state while a graph's schedule is being written. */
typedef struct zr__writing {
    zr__list list;
    zr_schedule_kind kind;
    zr__decided decided;
    zr__gathers gathers;
    int32_t *instance;    /* by value: the value's newest instance, or -1 if the value is not written yet */
    int32_t *kept;        /* by value: buffer of the value's checkpoint */
    int32_t *place;       /* by instance: its buffer */
    int32_t *grad_buffer; /* by unit: buffer of the unit's whole gradient in this pass, or ZR_NONE before the first
                           * write */
    int32_t n_instances;
    zr__id ended[2]; /* last compute steps of the previous segment [0] and of the segment before it [1] */
} zr__writing;

/* Return a use of a value in `buffer`. A parameter or its gradient is at its offset within its unit. Any other value
 * is at the beginning of the buffer. */
zr_use zr__use_value(const zr_graph *graph, zr_value value, int32_t buffer, bool reads, bool writes);
/* zr__place_input returns the use of an operand of an op. zr__place_output returns the use of an output that `step`
 * writes. Both choose the buffer. */
zr_use zr__place_input(const zr__writing *w, zr_value value);
zr_use zr__place_output(zr__writing *w, zr__id step, int32_t run, int out);
/* Return the buffer of a unit's whole gradient in this pass. */
int32_t zr__unit_gradient(zr__writing *w, int32_t unit);

/* Return whether a unit's whole gradient is in a transient buffer, which exists only within one micro-batch. */
bool zr__grad_transient(const zr_plan *plan);
/* Return the state of a unit's sums, in its persistent buffer or, without one, in `grad`. */
zr_state zr__sums_of(const zr_plan *plan, int32_t unit, int32_t grad);

/* Write SQUARE, AGREE and UPDATE after the reduction of a unit, if the update consumes its gradient (consume_grad).
 * With `norm` write SQUARE only, since this pass only computes the norm. */
void zr__write_consume(zr__list *l, int32_t unit, int32_t grad, bool norm);
void zr__write_norm(zr__list *l);
/* Write NORM and the updates after the last micro-batch. Updates with consume_grad are written earlier. */
void zr__write_update(zr__list *l);

#endif
