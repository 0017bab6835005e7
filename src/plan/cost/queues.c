/* Decides which streams share a queue. The engine, the prices and the simulator use this decision. */
#include "plan/cost/cost.h"

zr_queues zr__queues_of(bool comm, bool copy, bool save)
{
    zr_queues queues = {.of = {[ZR_STREAM_COMPUTE] = ZR_STREAM_COMPUTE}};
    if (comm) queues.of[ZR_STREAM_COMM] = ZR_STREAM_COMM;
    if (copy) queues.of[ZR_STREAM_COPY] = ZR_STREAM_COPY;
    if (save) queues.of[ZR_STREAM_SAVE] = ZR_STREAM_SAVE;
    return queues;
}

zr_queues zr__plan_queues(const zr_plan *plan, bool exchanges_overlap)
{
    /* Copies overlap with computation only on a device with its own memory. On a processor the same cores compute and
     * copy. */
    const bool own_memory = plan->profile.facts.own_memory;
    zr_queues queues = zr__queues_of(plan->side_by_side && exchanges_overlap,
                                     plan->has_stream[ZR_STREAM_COPY] && own_memory, plan->has_stream[ZR_STREAM_SAVE]);
    /* Disks transfer while every device computes. The host's processors compute at the same time as a device with its
     * own memory. */
    for (int s = ZR_STREAM_FETCH; s <= ZR_STREAM_RETURN; s++)
        if (plan->has_stream[s]) queues.of[s] = (int8_t)s;
    /* Values of pipelines move beside computation under the same condition as exchanges. */
    for (int s = ZR_STREAM_SEND; s <= ZR_STREAM_RECV; s++)
        if (plan->has_stream[s] && zr_queues_apart(&queues, ZR_STREAM_COMM)) queues.of[s] = (int8_t)s;
    return queues;
}
