/** plan/write: writes the steps of a schedule, from the program and the states.
 *
 * schedule.c walks through the cells of the program. gathers.c and movement.c write the steps that move parameters and
 * gradients between ranks. places.c chooses the buffer of each value. update.c writes the norm and the optimizer's
 * updates. */
#ifndef ZR_PLAN_WRITE_H
#define ZR_PLAN_WRITE_H

#include "plan/policy/policy.h"

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind);
zr_status zr__write_flush(zr_plan *plan, zr_schedule_kind kind);

/* A gather of a unit at stage 3. The unit stays gathered from visit `from` to visit `to` (zr__cell). */
typedef struct zr__fetch {
    int32_t unit, from, to;
    bool first;     /* whether this is the unit's first gather in the schedule */
    int32_t buffer; /* buffer of the gathered parameters, or ZR_NONE until the gather is written */
} zr__fetch;

typedef struct zr__gathers {
    zr__fetch *fetch; /* gathers, ordered by `from` */
    int32_t n, issued, begun, exchanged;
    int64_t room;
    int32_t *of;         /* for each unit: index in `fetch` of the unit's current gather, or ZR_NONE */
    int64_t *gone_elems; /* for each visit: number of gathered elements that are freed at its end */
    int64_t *used_elems; /* for each visit: number of elements that all earlier visits use */
    int32_t visit;       /* visit of the newest call of zr__gathers_add */
    int64_t total_elems, live_elems, ahead_elems;
    zr_status status;
} zr__gathers;

zr_status zr__gathers_begin(zr__gathers *gathers, const zr_plan *plan, int32_t n_visits);
void zr__gathers_end(zr__gathers *gathers);
/* Record that a visit reads a parameter of `unit`. Calls must be in the order of the visits. */
void zr__gathers_add(zr__gathers *gathers, const zr_plan *plan, int32_t visit, int32_t unit);
/* At the start of a visit, write the gathers of the units that it reads. Also write prefetches of later units, as far
 * as the layout allows. All these gathers wait for the step `pace`. */
void zr__gathers_issue(zr__gathers *gathers, zr__list *l, int32_t visit, zr__id pace);

/* Write a gather of a unit at stage 3. With hpZ, only the unit's first gather of a training step is over all ranks.
 * Later gathers read the secondary partition. */
void zr__write_fetch(zr__list *l, int32_t unit, int32_t buffer, bool first, zr__id pace);
/* Return whether a gather is written in two halves: this rank's part is prefetched from disk, and exchanged with other
 * ranks only just before the unit's use. zr__write_fetch_half writes one half. */
bool zr__fetch_in_halves(const zr_plan *plan, int32_t unit);
void zr__write_fetch_half(zr__list *l, int32_t unit, int32_t buffer, bool exchanges, zr__id pace);
/* Reduce-scatter a unit's gradient to the owners of its shards. `grad` is the buffer of this micro-batch's gradient.
 * `accumulators`: with zr_plan.reduces_early, the buffer to which micro-batches are added first.
 * `again`: whether this is the second backward pass; the first has already squared the gradient of the micro-batch. */
void zr__write_reduce(zr__list *l, int32_t unit, int32_t grad, int32_t accumulators, bool again);
/* Reduce a unit's sums over the ranks once, after the last micro-batch (zr_plan.reduce_once). */
void zr__write_reduce_once(zr__list *l, int32_t unit);
/* Gather the parts of a unit that other ranks have updated. Write nothing if stage 3 gathers the unit anyway. */
void zr__write_refresh(zr__list *l, int32_t unit, zr_when when);
/* Return a use of the part of a unit's parameters that this rank updates. If it is not on the device in the dtype that
 * ops read, write the steps that bring it there. */
zr_use zr__write_updated_part(zr__list *l, int32_t unit, zr_when when);
/* Gather the other ranks' sums that this rank's update reads, or all sums with ZR_REDUCE_ALL_REDUCE. At stage 0 this
 * gather completes an all-reduce. This function is called after the reduction in a micro-batch (`step` is false), and
 * again at the end of the training step (`step` is true). Only one of these calls writes steps: with fp32 sums
 * (zr_plan.sum_f32) the call at the end, else the call after the reduction. */
void zr__write_gather_sums(zr__list *l, int32_t unit, int32_t grad, bool step);

/* Gather a unit's directions, or scatter the results of ORTHO to the ranks that update the shards, in the buffer of the
 * whole unit. */
void zr__write_gather_directions(zr__list *l, int32_t unit, const zr_state *directions);
void zr__write_scatter_directions(zr__list *l, int32_t unit, const zr_state *directions);

/* The state of a micro-batch while the program is being written for it. */
typedef struct zr__micro {
    int32_t *instance;    /* indexed by zr_value: newest instance of the value, or -1 if the value is not written yet */
    int32_t *kept;        /* indexed by zr_value: buffer of the value's checkpoint */
    int32_t *place;       /* for each instance: its buffer */
    int32_t *grad_buffer; /* for each unit: buffer of its gradient in this pass, or ZR_NONE before the first write */
    bool begun;           /* whether a cell of the micro-batch is written */
    int32_t restored;     /* run up to which the RESTOREs of the next cell are written ahead, or 0 */
} zr__micro;

/* A channel to or from another role: its messages are one value of all micro-batches, or a part of a unit's parameters,
 * for which `value` is the unit's first one. Its number is its place in zr__writing.channel. */
typedef struct zr__messages {
    zr_value value;
    int32_t unit, peer, depth;
    bool sends;
    zr_when when;
    int32_t stage; /* cells of its steps (zr_step.stage, zr_step.action) */
    char action;
    int32_t n, n_sent; /* number of steps SEND and of steps SENT so far */
    zr_use *use;       /* for each micro-batch: use of the message that is sent */
} zr__messages;

/* The state while a graph's schedule is written. The program is written for each micro-batch of a round. */
typedef struct zr__writing {
    zr__list list;
    zr_schedule_kind kind;
    zr__decided decided;
    zr__gathers gathers;
    zr__micro *micro;      /* one entry for each micro-batch of a round */
    zr__micro *now;        /* entry of the micro-batch whose steps are being written */
    int32_t *accumulators; /* for each unit: transient buffer of its accumulators (zr_plan.reduces_early), or ZR_NONE */
    /* last compute steps of the two newest cells; index 0 is the newest cell */
    zr__id ended[2];
    zr__id acted[2];              /* the same for the two newest actions of a pipeline that have ended */
    zr__id stored[2];             /* two newest steps that write a checkpoint to disk; index 0 is the newest step */
    zr__messages *channel;        /* channels to other roles, in the order of their first message */
    int32_t n_channels, n_copies; /* `n_copies`: number of channels of zr__write_copies, which are the first */
    int64_t channel_room;
    zr__id sent; /* newest SENT, if no op has been written since; otherwise ZR_NONE */
} zr__writing;

/* Write the steps that pass a value to another role (messages.c), or receive it from there in a new buffer. Return the
 * use of that buffer. */
void zr__write_send(zr__writing *w, int32_t run);
zr_use zr__write_receive(zr__writing *w, int32_t run);
/* Write SENT for the messages of the first channels that are still on their way. */
void zr__write_all_sent(zr__writing *w, int32_t channels);
/* Write the steps that bring the copies of units up to date which other roles hold, or this role: all but SENT. */
void zr__write_copies(zr__writing *w, zr_when when);
void zr__end_channels(zr__writing *w);

/* Return a use of a value in `buffer`. A parameter, or its gradient, lies at the parameter's offset within its unit.
 * Any other value lies at the beginning of the buffer. */
zr_use zr__use_value(const zr_graph *graph, zr_value value, int32_t buffer, bool reads, bool writes);
/* Return the use of an operand of an op (zr__place_input), or of an output that `step` writes (zr__place_output), after
 * choosing its buffer. */
zr_use zr__place_input(const zr__writing *w, zr_value value);
zr_use zr__place_output(zr__writing *w, zr__id step, int32_t run, int out);
/* Return the buffer of a unit's whole gradient in this pass. If the gradient has no buffer yet, create one. */
int32_t zr__unit_gradient(zr__writing *w, int32_t unit);

/* Return whether a unit's whole gradient is in a transient buffer, which exists only within one micro-batch. */
bool zr__grad_transient(const zr_plan *plan);
/* Return the state of a unit's sums. They are in the unit's persistent buffer of sums, or in the buffer `grad` if the
 * unit has none. */
zr_state zr__sums_of(const zr_plan *plan, int32_t unit, int32_t grad);

/* Write SQUARE, AGREE and UPDATE after the reduction of a unit, if the update consumes its gradient (consume_grad).
 * `norm`: whether this pass computes only the norm; then only SQUARE is written. */
void zr__write_consume(zr__list *l, int32_t unit, int32_t grad, bool norm);
/* Return whether a unit's gradient is copied to its home off the device without a reduction, because there is one rank
 * and one micro-batch. */
bool zr__copies_grad_home(const zr_plan *plan, int32_t unit);
/* Return whether a unit's sums are squared as soon as they are complete, before they are copied to their home off the
 * device. The result is true on one rank if one round has all micro-batches. Otherwise all units are squared after the
 * last micro-batch. */
bool zr__squares_early(const zr_plan *plan, int32_t unit);
void zr__write_square(zr__list *l, int32_t unit, const zr_state *sums);
void zr__write_norm(zr__list *l);
/* With several loss terms, write the exchange of the numbers of losses that count. */
void zr__write_count(zr__list *l);
/* Write NORM and the updates after the last micro-batch. Updates with consume_grad are written earlier. */
void zr__write_update(zr__list *l);

#endif
