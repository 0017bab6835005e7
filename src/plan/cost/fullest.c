/* Finds the step at which a rank's memory use peaks, and the memory use by category at that step. */
#include "plan/cost/cost.h"

zr_status zr__plan_fullest(const zr_plan *plan, zr__fullest *fullest)
{
    ZR_CHECK(plan->graph[ZR_SCHEDULE_TRAIN], ZR_ERR_STATE,
             "this plan has no training step to look through: set zr_layout.train");
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    *fullest = (zr__fullest){0};
    int64_t *change = zr_alloc(sizeof *change * ((size_t)s->n_steps + 1));
    ZR_CHECK(change, ZR_ERR_MEMORY, "no memory to look through %d steps", s->n_steps);
    for (int32_t i = plan->n_persistent; i < s->n_buffers; i++) {
        const zr_buffer *b = &s->buffer[i];
        if (b->space == ZR_SPACE_HOST || b->space == ZR_SPACE_DISK) continue;
        change[b->first_step] += b->bytes;
        change[b->last_step + 1] -= b->bytes;
    }
    int64_t live = 0, most = -1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        live += change[i];
        if (live <= most) continue;
        most = live;
        fullest->step = i;
    }
    zr_free(change);
    for (int32_t i = 0; i < s->n_buffers; i++) {
        const zr_buffer *b = &s->buffer[i];
        bool alive = b->persistent || (b->first_step <= fullest->step && fullest->step <= b->last_step);
        if (!alive || b->space == ZR_SPACE_HOST || b->space == ZR_SPACE_DISK) continue;
        fullest->category_bytes[b->category] += b->bytes;
        fullest->live_bytes += b->bytes;
    }
    return ZR_OK;
}
