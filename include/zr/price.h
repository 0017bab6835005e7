/**
 * price: costs of the steps of a plan, estimated times by the rates of a machine, and the rates of known machines.
 */
#ifndef ZR_PRICE_H
#define ZR_PRICE_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_plans zr_plans; /* zr/plan.h */

/** Cost of one step of a schedule on one rank. A RUN has the cost of its op. A step that moves data has the bytes that
 * a receiving rank gets from other ranks. Any other step, and also NORM and AGREE, has the bytes of memory that it
 * reads and writes. REPEAT and END cost nothing. */
typedef struct zr_step_cost {
    double flops;
    zr_product_sizes product; /* sizes of the matrix product that performs the FLOPs; zeros if there is no product */
    double pairs;             /* number of query-key pairs of attention, as in zr_cost */
    int64_t head;
    double memory_bytes;
    double wire_bytes;
    /* number of exchanges, which together move wire_bytes: one per bucket for a step that moves data, one or more for
     * TRUST, and 1 for any other step */
    double calls;
} zr_step_cost;

/** Estimated time of one training step, by the rates of a profile. A step of the schedule takes as long as its FLOPs
 * or its bytes, whichever takes longer. Streams run in parallel and observe waits. Matrix products run at the
 * machine's rate for their sizes and operand type. Bytes between ranks move at the rate of the slowest link. Work
 * with an unknown rate (0) takes no time. The step ends when all roles have ended it. The other times are those of the
 * role that computes longest. */
typedef struct zr_price {
    double step_sec;
    double compute_sec; /* busy time of the compute stream */
    double comm_sec;    /* busy time of the comm, copy, return and recv streams */
    double exposed_sec; /* exposed communication time: step_sec - compute_sec */
    double bubble_sec;  /* part of exposed_sec in which the role waits for other roles */
    double disk_sec;    /* busy time of the fetch stream or of the store stream, whichever is longer */
    double host_sec;    /* busy time of the host stream */
    double ortho_sec;   /* part of compute_sec in which directions are made orthogonal (zr_muon) */
    int32_t role;       /* the role that computes longest */
} zr_price;
/** Price the plans of all roles together. If only one of several roles is given, it is priced as if the others never
 * made it wait. */
ZR_API ZR_NODISCARD zr_status zr_plans_price(const zr_plans *plans, const zr_profile *profile, zr_price *price);

/** Cost of an asynchronous save on one rank. */
typedef struct zr_save_price {
    int64_t bytes;    /* number of bytes that are written to files */
    double write_sec; /* time to write `bytes` to files */
    double stall_sec; /* time by which the save prolongs the training step in which it begins */
} zr_save_price;

/** Estimated times at which a step of the schedule begins and ends, by the same rates as zr_price. */
typedef struct zr_step_time {
    double begin_sec, end_sec;
} zr_step_time;
/** Estimate the begin and the end of each step of the training schedules. time[role] has an entry for each step of the
 * role, or is NULL. With several micro-batches in rounds (REPEAT), only the first round is timed. The steps after all
 * rounds are timed as if there were only this one. Fail with ZR_ERR_STATE if a plan has no training schedule. */
ZR_API ZR_NODISCARD zr_status zr_plans_times(const zr_plans *plans, const zr_profile *profile,
                                             zr_step_time *const *time);

/** Find the profile of a machine by its name, such as "h100". Its rates are from data sheets, for products
 * without sparsity. For a GPU, facts.own_memory is true. Facts about kernels are not known: the profile has one thread,
 * no packed operands, and facts.scratch_bytes NULL. The caller sets scratch_bytes to the device's function
 * (zr_device_cuda_scratch, zr_device_cpu_scratch). For an unknown name fail with ZR_ERR_NOT_FOUND and the known names
 * in the message. */
ZR_API ZR_NODISCARD zr_status zr_profile_named(const char *name, zr_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
