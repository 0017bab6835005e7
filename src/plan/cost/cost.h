/**
 * plan/cost: numbers that are read off a finished plan.
 * Bytes of memory and traffic (account.c), the time of a step on a machine's profile (price.c, profiles.c), the queues
 * on which its streams run (queues.c), the fullest moment of its memory (fullest.c). Nothing here changes a plan.
 */
#ifndef ZR_PLAN_COST_H
#define ZR_PLAN_COST_H

#include "zr/plan.h"

/** Return the table in which COMM, COPY and SAVE each have a queue of their own where the argument is true; all other
 *  streams share the queue of COMPUTE. */
zr_queues zr__queues_of(bool comm, bool copy, bool save);

/** Return the bytes that count against a limit: zr_memory_taken, or the total alone on a device with memory of its own
 * (facts.apart). */
int64_t zr__memory_limited(const zr_memory *memory, const zr_device_facts *facts);

/** Sum up the spaces: bytes of device and staging memory together. */
void zr__memory_sum(zr_memory *memory);

/** Return the queues by which an engine runs a plan's streams. COMM has its own queue only with zr_layout.overlap,
 *  where exchanges wait for a link (concurrent: zr_comm's) or are copies between the GPUs of one process's ranks
 *  (process_ranks is their number), which overlap with kernels; COPY where the device has memory of its own
 *  (facts.apart); SAVE always. A stream without steps has no queue of its own, except COMM. */
zr_queues zr__plan_queues(const zr_plan *plan, bool concurrent, int process_ranks);

/** Fullest moment: the step of training at which most bytes of a rank are in use. */
typedef struct zr__fullest {
    int32_t step;
    int64_t live_bytes;
    int64_t category_bytes[ZR_CATEGORIES];
} zr__fullest;

/** ZR_ERR_STATE when the plan has no training step. */
ZR_NODISCARD zr_status zr__plan_fullest(const zr_plan *plan, zr__fullest *fullest);
zr_step_cost zr__plan_step_cost(const zr_plan *plan, zr_schedule_kind kind, int32_t step);

/** FLOP/s at which a profile's rates price products of an op, in the type that it multiplies in on the device that the
 *  plan is for (plan->profile.facts). */
double zr__plan_op_flops_sec(const zr_plan *plan, const zr_op_def *def, const zr_machine *machine,
                             zr_product_sizes sizes);

/** Return the bytes that a SAVE writes out. */
int64_t zr__plan_saved_bytes(const zr_plan *plan, const zr_step *step);

/** Another source of step times, for the same walk over the same streams and waits. */
typedef struct zr__pricer {
    double (*step_sec)(const struct zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t step);
    /** Called for each wait of the compute stream: it waits `sec`, over all rounds, before the step `waiting` (ZR_NONE:
     *  at the end), while another stream is busy with the step `awaited`, which is the step waited for, or one queued
     *  before it; each has a call of its own. NULL: waits are not reported. */
    void (*waited)(const struct zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t waiting,
                   int32_t awaited, double sec);
    zr_queues queues; /* a step occupies all streams of its queue; zeros: all streams run in turn */
} zr__pricer;

/** ZR_ERR_STATE without a training step; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__plan_price_by(const zr_plan *plan, const zr__pricer *pricer, zr_price *price);

/** Return whether a plan's bytes are within its layout's limit. No plan fits a limit of 0, which means that there is no
 *  limit: then zr__plan_better takes the plan with less memory, policy auto recomputes nothing, and ZR_SAVE_AUTO
 *  saves in place. */
static inline bool zr__plan_fits(const zr_plan *plan)
{
    return zr__memory_limited(&plan->memory, &plan->profile.facts) <= plan->layout.limit_bytes;
}

/** Find whether `plan` is better than `other`, with the same limit and the same number of samples a step: a plan that
 *  fits is better than one that does not. If both fit, the plan that takes less time by the rates of its profile is
 *  better; where a rate that counts is not known (products, memory, between several ranks the link), the plan that
 *  computes less, or the same and moves less. If neither fits, the plan that takes less memory is better. Equal is not
 *  better. ZR_ERR_STATE without a training step. */
ZR_NODISCARD zr_status zr__plan_better(const zr_plan *plan, const zr_plan *other, bool *better);

/** Price a save by the same rates, with a rank's states written at disk_bytes_sec. ZR_ERR_STATE where the plan saves
 *  nothing. */
ZR_NODISCARD zr_status zr__plan_price_save(const zr_plan *plan, const zr_profile *profile, double disk_bytes_sec,
                                           zr_save_price *price);
ZR_NODISCARD zr_status zr__plan_price_save_by(const zr_plan *plan, const zr__pricer *pricer, zr_save_price *price);
ZR_NODISCARD zr_status zr__plan_times_by(const zr_plan *plan, const zr__pricer *pricer, zr_step_time *time);

/* Return the bytes that a step brings into one rank; for steps with an owner, into the owner (REDUCE) or into each
 * other rank (BROADCAST). */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *schedule, const zr_step *step);

/* Fill plan->memory, traffic, flops. */
zr_status zr__account(zr_plan *plan);

#endif
