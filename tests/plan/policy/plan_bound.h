/* A lower bound for the arena of one schedule: the most bytes of its own buffers that are alive at once. */
#ifndef PLAN_BOUND_H
#define PLAN_BOUND_H

#include <stdlib.h>

#include <zr.h>

#include "zr/plan.h"

static inline int64_t plan_bound(const zr_plan *plan, zr_schedule_kind kind)
{
    const zr_schedule *s = &plan->schedule[kind];
    int64_t *change = calloc((size_t)s->n_steps + 1, sizeof *change), live = 0, most = 0;
    for (int32_t b = plan->n_persistent; b < s->n_buffers; b++) {
        if (s->buffer[b].space != ZR_SPACE_DEVICE) continue;
        change[s->buffer[b].first_step] += s->buffer[b].bytes;
        change[s->buffer[b].last_step + 1] -= s->buffer[b].bytes;
    }
    for (int32_t i = 0; i < s->n_steps; i++) {
        live += change[i];
        if (live > most) most = live;
    }
    free(change);
    return most;
}

#endif
