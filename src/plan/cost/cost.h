/** plan/cost: computes numbers from a finished plan, and never changes the plan.
 *
 * account.c counts bytes of memory and traffic. walk.c, price.c and profiles.c compute the time of a step on a
 * machine's profile. queues.c assigns streams to queues. fullest.c finds the step with the peak of memory. layer.c
 * measures a layer: the bytes that it keeps, and its passes over memory. roles.c adds the numbers of several plans. */
#ifndef ZR_PLAN_COST_H
#define ZR_PLAN_COST_H

#include "zr/plan.h"

/** Return the queue of each stream, in a plan without steps on FETCH, STORE, HOST and RETURN. COMM, COPY and SAVE get
 * their own queue if `comm`, `copy` or `save` is true. All other streams share the queue of COMPUTE. */
zr_queues zr__queues_of(bool comm, bool copy, bool save);

/** Return the bytes that count against the memory limit: the total bytes on a device with its own memory
 * (facts.own_memory), otherwise zr__memory_taken. */
int64_t zr__memory_limited(const zr_memory *memory, const zr_device_facts *facts);

/** Compute the totals and the bytes by category as sums of device memory and staging memory. */
void zr__memory_sum(zr_memory *memory);

/** Numbers of a training step over the plans of all roles. */
typedef struct zr__totals {
    /* maxima over the roles, separately for each number, as a run measures them over its ranks */
    zr_memory memory;
    zr_traffic traffic, across[ZR_BORDERS];
    int64_t copied[ZR_SPACES][ZR_SPACES];
    double flops_model, flops_hardware; /* sums over the roles */
} zr__totals;
zr__totals zr__plans_total(const zr_plans *plans);

/** A list with one borrowed plan, to price it alone. */
#define ZR__ALONE(plan) ((zr_plans){.role = {(zr_plan *)(plan)}, .n = 1})

/** Return the plan of the role whose ranks need the most memory (zr__memory_limited). */
const zr_plan *zr__fullest_role(const zr_plans *plans);
/** Return the part of a training step in which a pipeline rank is idle by the formula of the schedule, if all passes
 * take the same time and messages none; or NAN where no formula holds. */
double zr__plan_bubble(const zr_plan *plan);
double zr__layout_bubble(const zr_layout *layout);
/** Return whether the schedule of a pipeline runs gradients of parameters apart from the rest of a backward pass. */
bool zr__plan_splits(const zr_plan *plan);
/** Prove that the lists of all roles fit together: the part of zr_plans_check that compares roles, which takes less
 * time than planning. Errors: ZR_ERR_INTERNAL. */
zr_status zr__plans_fit(const zr_plans *plans);
/** Destroy the plans. */
void zr__plans_clear(zr_plans *plans);

/** Return the queues on which an engine runs a plan's streams. SAVE, FETCH, STORE, HOST and RETURN have their own
 * queues. COPY has its own queue if the device has its own memory (facts.own_memory). COMM has its own queue with
 * zr_layout.overlap, if the exchanges between ranks can run at the same time as kernels (zr__comm_overlaps), and so
 * have SEND and RECV. A stream without steps gets no queue, except COMM. */
zr_queues zr__plan_queues(const zr_plan *plan, bool exchanges_overlap);

/** The schedule step at which a rank's memory use is highest. */
typedef struct zr__fullest {
    int32_t step;
    int64_t live_bytes;
    int64_t category_bytes[ZR_CATEGORIES];
} zr__fullest;

/** Measurements of a layer in the middle of the model, on one rank in a micro-batch: the bytes that it keeps, and the
 * bytes that its element-wise steps read and write. Arrays are activations and their gradients. Statistics of rows
 * count only in kept_bytes. */
typedef struct zr__layer {
    int32_t unit;         /* unit of the layer, or -1 if the model has no unit besides its ends; the rest is then 0 */
    int64_t input_bytes;  /* bytes of the layer's input, an array of the model's width */
    int64_t kept_bytes;   /* bytes that the layer's forward pass keeps for the backward pass, in device memory */
    int64_t passed_bytes; /* bytes of the arrays that element-wise steps and norms read and write */
    /* passed_bytes if all such steps between two products or exchanges ran as one step: each pass then reads an array
     * once, and an array is written once, and only if a later pass or a product reads it */
    int64_t least_bytes;
} zr__layer;

/** Measure a layer of a plan's training step. */
ZR_NODISCARD zr_status zr__plan_layer(const zr_plan *plan, zr__layer *layer);

/** Find the schedule step at which most bytes are in use. Return ZR_ERR_STATE if the plan has no training schedule. */
ZR_NODISCARD zr_status zr__plan_fullest(const zr_plan *plan, zr__fullest *fullest);
zr_step_cost zr__plan_step_cost(const zr_plan *plan, zr_schedule_kind kind, int32_t step);

/** Return whether attention multiplies 16-bit operands directly. Processors do so in bf16 only. */
static inline bool zr__plan_narrow_attention(const zr_plan *plan)
{
    const zr_device_facts *facts = &plan->profile.facts;
    return facts->narrow_attention && (facts->own_memory || plan->layout.dtype == ZR_BF16);
}

/** Return the seconds in which a step's kernels make and read records at the rates of a machine: a CAST, or a
 * reduction, which reads the records of all ranks. The result is 0 for other steps, and if the rate is unknown. */
double zr__plan_coding_sec(const zr_plan *plan, zr_schedule_kind kind, int32_t step, const zr_machine *machine);

/** Return the FLOP/s at which a machine computes an op's matrix products. The FLOP/s depend on the dtype in which the
 * plan's device (plan->profile.facts) multiplies. */
double zr__plan_op_flops_sec(const zr_plan *plan, const zr_op_def *def, const zr_machine *machine,
                             zr_product_sizes sizes);

/** Return the FLOP/s at which a machine computes the matrix products of the step ORTHO. */
double zr__plan_ortho_flops_sec(const zr_plan *plan, const zr_machine *machine, zr_product_sizes sizes);

/** Rates of the disk of one rank in bytes per second: of reads alone, of writes alone, and of both together. 0 means
 * unknown. */
typedef struct zr__disk_rates {
    double read, write, both;
} zr__disk_rates;

/** Return whether a step copies from or to a disk. */
static inline bool zr__is_disk_copy(const zr_step *step)
{
    return step->stream == ZR_STREAM_FETCH || step->stream == ZR_STREAM_STORE;
}

/** Return the time of a COPY step from or to disk in the training schedule. A plan that both reads and writes has the
 * rate `both` for the two directions together, so that each is slower. If this rate is unknown, the two directions take
 * turns. Copies in a direction with an unknown rate take no time. */
double zr__plan_disk_sec(const zr_plan *plan, int32_t step, zr__disk_rates rates);

/** Return how many times a step of a schedule runs in a training step without a save. Call this function for all steps
 * in order. *rounds must be 1 before the first call. The calls update *rounds at REPEAT and END. `stale`: whether no
 * flush came before the training step. */
static inline int64_t zr__step_runs(const zr_step *step, bool stale, int64_t *rounds)
{
    if (step->kind == ZR_STEP_REPEAT) *rounds = step->rounds;
    if (step->kind == ZR_STEP_END) *rounds = 1;
    return zr_when_rounds(step->when, *rounds, stale, false);
}

/** Return the bytes that a SAVE step writes to the checkpoint. */
int64_t zr__plan_saved_bytes(const zr_plan *plan, const zr_step *step);

/** A source of durations of schedule steps, such as a measurement. The price of a plan is the time of a walk through
 * its streams and waits with these durations. The duration of RECEIVED is the time that a message is on its way; SEND,
 * SENT and RECV take none. */
typedef struct zr__pricer {
    double (*step_sec)(const struct zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t step);
    /** Function that is called for each wait of the compute stream, or NULL. The compute stream waits `sec` seconds
     * before the step `waiting` (ZR_NONE: the end of the schedule), in total over all rounds. Meanwhile another stream
     * runs the step `awaited`: the step that is waited for, or an earlier step of its stream. If the other stream runs
     * several steps during a wait, there is one call for each. `roles`: whether the step `awaited` itself waits for
     * other roles (ZR_NONE: other roles end the training step later). */
    void (*waited)(const struct zr__pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t waiting,
                   int32_t awaited, bool roles, double sec);
    /* queue of each stream. A step occupies all streams of its queue. If all entries are 0, all streams share one
     * queue, so that one step runs at a time */
    zr_queues queues;
} zr__pricer;

/** Price the plans of all roles with a pricer. Return ZR_ERR_STATE if a plan has no training schedule, or
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__plans_price_by(const zr_plans *plans, const zr__pricer *pricer, zr_price *price);

/** Return whether a plan's bytes are within the memory limit of its layout. Without a limit (0), the result is false
 * for every plan. Then zr__plan_better prefers the plan with less memory, policy auto recomputes nothing, and
 * ZR_SAVE_AUTO saves in place. */
static inline bool zr__plan_fits(const zr_plan *plan)
{
    return zr__memory_limited(&plan->memory, &plan->profile.facts) <= plan->layout.limit_bytes;
}

/** Set *better to whether `plan` is better than `other`. Both have the same memory limit and number of samples per
 * step. A plan that fits is better than a plan that does not fit. If neither fits, the plan with less memory is
 * better. If both fit, the plan that takes less time at its profile's rates is better.
 *
 * A rate may be unknown: products, memory, or the link between several ranks. Then the plan with fewer FLOPs is
 * better, or with equal FLOPs the plan that moves fewer bytes. If the plans are equal, *better is false. Return
 * ZR_ERR_STATE if a plan has no training schedule. */
ZR_NODISCARD zr_status zr__plan_better(const zr_plan *plan, const zr_plan *other, bool *better);

/** Price a save from a profile's rates. disk_bytes_sec is the rate at which a rank's states are written. Return
 * ZR_ERR_STATE if the plan does not save. */
ZR_NODISCARD zr_status zr__plans_price_save(const zr_plans *plans, const zr_profile *profile, double disk_bytes_sec,
                                            zr_save_price *price);
ZR_NODISCARD zr_status zr__plans_price_save_by(const zr_plans *plans, const zr__pricer *pricer, zr_save_price *price);
ZR_NODISCARD zr_status zr__plans_times_by(const zr_plans *plans, const zr__pricer *pricer, zr_step_time *const *time);

/* Return the bytes that a rank receives in a step. */
int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *schedule, const zr_step *step);
/** Bytes that the rank of a copy (zr_plan_unit.copied) passes and receives: parts of gradients, to the owner in each
 * micro-batch, and parameters, from the owner in each step. */
typedef struct zr__copied_bytes {
    int64_t micro_bytes, step_bytes;
} zr__copied_bytes;
/** Return the bytes for all copies together. */
zr__copied_bytes zr__plans_copied(const zr_plans *plans);

/* Set *bytes to the bytes of staging memory that the messages to other roles take: for each channel on which the role
 * sends, room for all messages that may be on their way, and ZR__MESSAGES_HEAD. */
#define ZR__MESSAGES_HEAD 128
zr_status zr__messages_bytes(const zr_plan *plan, int64_t *bytes);
/* Return the number of exchanges of a step: one for each bucket of a step that moves data, several for TRUST if it has
 * many parameters, and 1 for any other step. */
int64_t zr__plan_calls(const zr_plan *plan, const zr_step *step);

/* Fill in plan->memory, plan->traffic and plan->flops. */
zr_status zr__account(zr_plan *plan);

/** Return the bytes of one rank's memory that grow with model and batch, for a device that uses host memory. The
 * result is total_bytes plus activation checkpoints, states and copies of states in host memory and, with states on
 * disk, the working memory there. */
int64_t zr__memory_taken(const zr_memory *memory);

/** Return the names of the profiles (zr_profile_named), ending with NULL. */
const char *const *zr__profile_names(void);
/** Return the name of the device that a profile's name means, such as "a100-80gb" for "a100". */
const char *zr__profile_device(const char *name);
/** Return the name of a device's generation, which src/simulate/clusters.c explains, or "" for a processor or an
 * unknown device. */
const char *zr__profile_generation(const char *name);
/** Return the rate at which devices receive from each other over a link of `bytes_sec` to their host. It is lower if
 * messages pass through the host's memory. */
double zr__through_host_rate(const zr_machine *machine, double bytes_sec);

#endif
