/** plan, internal: the schedule under construction and the passes over it. */
#ifndef ZR_PLAN_INTERNAL_H
#define ZR_PLAN_INTERNAL_H

#include "zr/plan.h"

/* A schedule being written. Arrays grow; the first failure is latched and later calls do nothing. */
typedef struct zr__writer {
    zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    zr_schedule *schedule;
    int32_t step_room, use_room, wait_room, buffer_room;
    int32_t (*clock)[ZR_STREAMS]; /* per step: the last step of each stream that happens before it */
    int32_t clock_room;
    int32_t last[ZR_STREAMS]; /* the last step of each stream, -1: none */
    int32_t last_sum;         /* the last reader of the exchange stage, -1: none */
    int64_t bytes;            /* of all buffers, as if none shared a place: no offset can be larger */
    zr_status status;
} zr__writer;

/* Begin with the plan's persistent buffers. */
zr_status zr__writer_begin(zr__writer *w, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule);
/* Free what only the writer needs; returns the latched status. */
zr_status zr__writer_end(zr__writer *w);
/* Append; the uses and waits that follow belong to it. Returns its index. */
int32_t zr__writer_step(zr__writer *w, zr_step_kind kind, zr_stream stream, int32_t unit, int32_t op);
void zr__writer_range(zr__writer *w, int64_t first, int64_t count);
void zr__writer_use(zr__writer *w, int32_t buffer, bool reads, bool writes);
/* The newest step waits for `step`; nothing is added when that is implied already, or step < 0. */
void zr__writer_wait(zr__writer *w, int32_t step);
int32_t zr__writer_buffer(zr__writer *w, zr_category category, int32_t unit, const char *what, int64_t bytes);

/* The bytes that a buffer takes: every place begins at a multiple of 64. */
int64_t zr__round_bytes(int64_t bytes);
/* *sum += bytes; ZR_ERR_CONFIG when that overflows. */
zr_status zr__add_bytes(int64_t *sum, int64_t bytes);

/* Units and the persistent buffers of the model states. */
zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph);
/* Add a persistent buffer; its offset follows the ones before. */
zr_status zr__plan_persistent(zr_plan *plan, zr_category category, int32_t unit, const char *what, int64_t bytes,
                              int32_t *index);

/* Write the schedules. */
zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind);
zr_status zr__write_flush(zr_plan *plan);
/* Steps that move a unit, shared by the writers. */
int32_t zr__write_gather(zr__writer *w, int32_t unit, int32_t target, int32_t wait);
void zr__write_gather_grad(zr__writer *w, int32_t unit, int32_t sums, int32_t wait);
void zr__write_reduce(zr__writer *w, int32_t unit, int32_t grad);

/* Give every transient buffer of a schedule its offset; *bytes: end of the highest. */
zr_status zr__pack(const zr_plan *plan, zr_schedule *schedule, int32_t (*clock)[ZR_STREAMS], int64_t *bytes);

/* Fill plan->memory, traffic, flops. */
zr_status zr__account(zr_plan *plan);

#endif
