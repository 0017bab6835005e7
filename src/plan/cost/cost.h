/** plan/cost: computes numbers from a finished plan, and never changes the plan.
 *
 * account.c counts bytes of memory and traffic; price.c and profiles.c compute the time of a step on a machine's
 * profile; queues.c finds the queues on which the streams run, and fullest.c the step at which most memory is in
 * use. */
#ifndef ZR_PLAN_COST_H
#define ZR_PLAN_COST_H

#include "zr/plan.h"

/** Return the queues of the streams. COMM, COPY and SAVE each have a queue of their own if `comm`, `copy` or `save` is
 * true; all other streams share the queue of COMPUTE. */
zr_queues zr__queues_of(bool comm, bool copy, bool save);

/** Return the bytes that count against the memory limit: zr_memory_taken, or only the total on a device with memory of
 * its own (facts.apart). */
int64_t zr__memory_limited(const zr_memory *memory, const zr_device_facts *facts);

/** Compute the total over the memory spaces: device bytes plus staging bytes. */
void zr__memory_sum(zr_memory *memory);

/** Return the queues on which an engine runs a plan's streams. COMM has its own queue only with zr_layout.overlap, and
 * only if its exchanges overlap with kernels: because they wait for a link (`concurrent`, from zr_comm), or because
 * they are copies between the GPUs of one process's ranks (process_ranks is the number of these ranks). COPY has its
 * own queue if the device has memory of its own (facts.apart); SAVE always has one. A stream without steps has no queue
 * of its own, except COMM. */
zr_queues zr__plan_queues(const zr_plan *plan, bool concurrent, int process_ranks);

/** The training step's moment of highest memory use: the step at which most bytes of a rank are in use. */
typedef struct zr__fullest {
    int32_t step;
    int64_t live_bytes;
    int64_t category_bytes[ZR_CATEGORIES];
} zr__fullest;

/** Find the step at which most bytes are in use. Return ZR_ERR_STATE if the plan has no training schedule. */
ZR_NODISCARD zr_status zr__plan_fullest(const zr_plan *plan, zr__fullest *fullest);
zr_step_cost zr__plan_step_cost(const zr_plan *plan, zr_schedule_kind kind, int32_t step);

/** Return the FLOP/s of an op's products from a profile's rates, for the type in which the plan's device
 * (plan->profile.facts) multiplies. */
double zr__plan_op_flops_sec(const zr_plan *plan, const zr_op_def *def, const zr_machine *machine,
                             zr_product_sizes sizes);

/** Return the bytes that a SAVE step writes to the checkpoint. */
int64_t zr__plan_saved_bytes(const zr_plan *plan, const zr_step *step);

/** A source of step durations, such as a measurement, for pricing a plan over its streams and waits. */
typedef struct zr__pricer {
    double (*step_sec)(const struct zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t step);
    /** Report a wait of the compute stream. This member is NULL if waits are not to be reported. The stream waits
     * `sec`, in total over all rounds, before the step `waiting` (ZR_NONE for the end of the schedule). During this
     * time another stream is busy with the step `awaited`: the step for which the compute stream waits, or a step
     * queued before that step. There is one call for each busy step. */
    void (*waited)(const struct zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t waiting,
                   int32_t awaited, double sec);
    zr_queues queues; /* queue of each stream; a step occupies all streams of its queue. All zeros mean that streams run
                         in turn. */
} zr__pricer;

/** Price a plan with a pricer. Return ZR_ERR_STATE if the plan has no training schedule, or ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__plan_price_by(const zr_plan *plan, const zr__pricer *pricer, zr_price *price);

/** Return whether a plan's bytes are within the memory limit of its layout. A limit of 0 means that there is no limit;
 * the result is then false for every plan. In that case zr__plan_better prefers the plan with less memory, policy auto
 * recomputes nothing, and ZR_SAVE_AUTO saves in place. */
static inline bool zr__plan_fits(const zr_plan *plan)
{
    return zr__memory_limited(&plan->memory, &plan->profile.facts) <= plan->layout.limit_bytes;
}

/** Set *better to whether `plan` is better than `other`, a plan with the same limit and number of samples per step. A
 * plan that fits is better than a plan that does not fit. If both fit, the plan that takes less time at its profile's
 * rates is better. If a rate that matters is unknown (products, memory, or the link between several ranks), the plan
 * with fewer FLOPs is better, or with equal FLOPs the plan that moves fewer bytes. If neither fits, the plan with less
 * memory is better. *better is false if the plans are equal. Return ZR_ERR_STATE if a plan has no training schedule. */
ZR_NODISCARD zr_status zr__plan_better(const zr_plan *plan, const zr_plan *other, bool *better);

/** Price a save from a profile's rates; disk_bytes_sec is the rate at which a rank's states are written. Return
 * ZR_ERR_STATE if the plan saves nothing. */
ZR_NODISCARD zr_status zr__plan_price_save(const zr_plan *plan, const zr_profile *profile, double disk_bytes_sec,
                                           zr_save_price *price);
ZR_NODISCARD zr_status zr__plan_price_save_by(const zr_plan *plan, const zr__pricer *pricer, zr_save_price *price);
ZR_NODISCARD zr_status zr__plan_times_by(const zr_plan *plan, const zr__pricer *pricer, zr_step_time *time);

/* Return the bytes that a rank receives in a step. For a step with an owner, return the bytes that the owner receives
 * (REDUCE) or that each other rank receives (BROADCAST). */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *schedule, const zr_step *step);

/* Fill in plan->memory, plan->traffic and plan->flops. */
zr_status zr__account(zr_plan *plan);

#endif
