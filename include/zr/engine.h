/**
 * engine: executes a plan's schedules. It decides nothing and allocates nothing after start; by construction every rank
 * issues the same collectives in the same order.
 *
 * Engines share no state: any number may exist in one process. Each is created, used and destroyed on one thread.
 */
#ifndef ZR_ENGINE_H
#define ZR_ENGINE_H

#include "zr/comm.h"
#include "zr/device.h"
#include "zr/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_engine zr_engine;

/** Position of a micro-batch in the data. */
typedef struct zr_batch {
    int64_t step;      /* index of the optimizer step, from 0 */
    int64_t micro;     /* index of the micro-batch within the step, 0 to accum-1 */
    int64_t first_row; /* (micro * ranks + rank) * B: global index of the micro-batch's first row within the step */
} zr_batch;

/** Callback that fills a micro-batch: input[i] is the graph's i-th input, of that input's shape. It must reject tokens
 * outside the vocabulary. It must not call comm or MPI or read comm's counters, which another thread of the rank may be
 * using, unless zr_engine_serial returns true.
 *
 *  If it fails, the schedule runs to its end with zeros, so that the ranks stay in step. A training step then updates
 *  nothing on any rank, as if a loss were not finite; this rank's call returns the failure, and the ranks agree on it
 *  afterwards. ZR_ERR_STOPPED instead ends the step at once, as if it had not begun; every rank must return it for the
 *  same micro-batch. */
typedef zr_status (*zr_batch_fn)(void *arg, const zr_batch *batch, void *const *input);

typedef struct zr_step_args {
    int64_t step; /* index of the step, from 0 */
    double lr;
    double clip;       /* maximum global gradient norm, or 0 for no clipping; requires zr_layout.norm_first */
    double loss_scale; /* factor by which gradients are multiplied, and by which updates divide them again; 0 means 1. A
                          scale that may overflow also requires zr_layout.norm_first, since otherwise a step that
                          overflows cannot be skipped */
    zr_batch_fn batch;
    void *arg;
} zr_step_args;

typedef struct zr_step_result {
    double loss;         /* mean loss over the global batch, before the update */
    double grad_norm;    /* gradient norm before clipping */
    bool skipped;        /* whether nothing was updated on any rank because a gradient or the loss was not finite */
    int32_t bad_param;   /* index of the first parameter with a gradient that is not finite, or -1 if there is none */
    double micro_square; /* mean of |g|^2 over the gradients g of the step's N * k micro-batches, where g is the
                            gradient of the mean loss of the micro-batch's own rows, before clipping and without the
                            loss scale. 0 without zr_layout.micro_squares */
} zr_step_result;

/** Allocate the arena and all other memory. Parameters are zero until zr_engine_fill. `plan`, `device` and `comm` are
 * borrowed and must outlive the engine. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_create(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed,
                                               zr_engine **engine);
ZR_API void zr_engine_destroy(zr_engine **engine);

/** States of a parameter that can be filled or read, all as F32. */
enum {
    ZR_STATE_PARAM, /* the fp32 master, or the parameter itself if there is no master */
    ZR_STATE_GRAD,  /* the last step's gradient, before clipping and without the loss scale; read only */
    ZR_STATE_SLOT   /* first state of the optimizer; its other states follow */
};

/** Write elements [first, first+n) of a parameter's state into `out`, (n) F32. */
typedef zr_status (*zr_fill_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Set a state of all parameters. fn is called for the ranges that this rank updates and for the frozen ranges that it
 * keeps, with at most ZR_PASSING_ELEMS elements at a time; then parameters are rounded and gathered. If fn is NULL, use
 * the model's initial values (zr_init). Only trained parameters have states of the optimizer. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_fill(zr_engine *engine, int state, zr_fill_fn fn, void *arg);

/** Read a state. The calls of fn on all ranks together cover every element of every parameter once; for gradients and
 * states of the optimizer, of every trained parameter. Fail with ZR_ERR_STATE for gradients before the first step, or
 * if the layout lean has already consumed the gradient. Not collective. */
typedef zr_status (*zr_read_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in);
ZR_API ZR_NODISCARD zr_status zr_engine_read(zr_engine *engine, int state, zr_read_fn fn, void *arg);

/** Return the part of a parameter that this rank passes to the functions of zr_engine_read and zr_engine_save: elements
 * [*first, *first + *n) of the rank's own shape (zr_param_info.shape). zr_param_place gives their offsets in the whole
 * parameter. The numbers are equal on all tensor-parallel ranks. May be called on any thread. */
ZR_API void zr_engine_part(const zr_engine *engine, const zr_param_info *param, int64_t *first, int64_t *n);

/** One executed step of a schedule. Times are read from zr_clock_sec. */
typedef struct zr_event {
    zr_schedule_kind schedule;
    int32_t step;     /* index of the step in its schedule */
    zr_stream stream; /* stream of that step */
    int64_t micro;    /* micro-batch of the optimizer step, from 0 */
    double wait_sec;  /* time at which the step's queue became free; from this time to begin_sec the step waited for
                         other steps */
    double begin_sec, end_sec;
} zr_event;

/** Receiver of states that are saved asynchronously (zr_engine_save). Its functions are called on one thread other than
 * the engine's, and must call neither comm nor the engine, except zr_engine_part. */
typedef struct zr_sink {
    /** Receive elements [first, first+n) of a state of a parameter, at most ZR_PASSING_ELEMS at a time. States follow
     * one another; within a state, parameters are in the order of the model. */
    zr_status (*put)(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in);
    zr_status (*end)(void *arg); /* called after the last put */
    /** Called for each executed step that called put, also after a failure. NULL if no times are wanted. */
    void (*ran)(void *arg, const zr_event *event);
    void *arg;
} zr_sink;

/** Save the current states asynchronously, during the next training steps, as the plan provides (zr_layout.save). The
 * calls of `put` on all ranks together cover every element of every parameter and of every state of the optimizer once.
 * After the sink fails it is not called again, and training goes on. Not collective. Fail with ZR_ERR_STATE if the plan
 * has no save steps or a save is in progress. */
ZR_API ZR_NODISCARD zr_status zr_engine_save(zr_engine *engine, const zr_sink *sink);
/** Return whether no save is in progress: the last one has ended or failed, or there was none. */
ZR_API bool zr_engine_saved(const zr_engine *engine);
/** Wait until the save has ended. If no training step has run since zr_engine_save, the states are put now. Return the
 * sink's first failure. */
ZR_API ZR_NODISCARD zr_status zr_engine_save_end(zr_engine *engine);

/** Return the number of steps that updated weights: the optimizer's own count, which its bias correction uses. */
ZR_API int64_t zr_engine_updates(const zr_engine *engine);
/** Continue from a state that `updates` updates have produced, after zr_engine_fill has loaded it: the next update then
 * has the number `updates` + 1. Pass the same value on every rank; not collective. Fail with ZR_ERR_ARG if updates is
 * negative, or ZR_ERR_STATE after a step has run. */
ZR_API ZR_NODISCARD zr_status zr_engine_resume(zr_engine *engine, int64_t updates);

/** Run one optimizer step. Collective. If a gradient or the loss is not finite and the layout lean updates units before
 * this is known (without norm_first), fail with ZR_ERR_DIVERGED on all ranks. If result->skipped is set after this
 * failure, nothing was updated: the bad number was found before the first update, as a bad loss always is. Otherwise
 * only some units are updated, and the parameters are useless. After ZR_ERR_STOPPED (zr_batch_fn) nothing is updated.
 */
ZR_API ZR_NODISCARD zr_status zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Return whether one thread makes all calls of comm, in the order of the schedule. If so, batch callbacks may call
 * comm too, in the same way on every rank. The result is the same on every rank. */
ZR_API bool zr_engine_serial(const zr_engine *engine);

/** Bring all parameters up to date on this rank, with the gather that stages 1 and 2 leave to the next step. Evaluation
 * and the next step do this themselves. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_flush(zr_engine *engine);

/** Run the forward pass of one batch and add this rank's losses to *sum. Collective (stage 3 gathers). */
ZR_API ZR_NODISCARD zr_status zr_engine_eval(zr_engine *engine, const zr_batch *batch, zr_batch_fn fn, void *arg,
                                             zr_exact *sum);

/** Run one token at `position` through the decode schedule. *output is the graph's output (1, 1, V) in its dtype, valid
 * until the next call. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_decode(zr_engine *engine, int32_t token, int64_t position, zr_tensor *output);

/** Copy a value of the engine's last run into `out`, such as the logits of a prediction.
 *
 *      zr_engine_eval(engine, &batch, fill, arg, &sum);
 *      zr_value logits = zr_graph_get_output(plan->graph[ZR_SCHEDULE_EVAL]);
 *      zr_engine_value(engine, ZR_SCHEDULE_EVAL, logits, out);
 *
 *  kind: the schedule that the last engine call ran, which must have succeeded: ZR_SCHEDULE_EVAL after zr_engine_eval,
 *  DECODE after zr_engine_decode, TRAIN after zr_engine_step (whose last micro-batch is then read).
 *  value: a value of zr_plan.graph[kind]. The output that the model has named for evaluation or decoding
 * (zr_graph_output) is always available; any other value, such as the losses, only if its memory has not been reused.
 *  out: host memory for all elements of the value, row by row. Their number and type are in zr_graph_value(graph,
 *  value)->type; logits are (B, T, V) in zr_layout.dtype. The bits are copied without conversion.
 *
 *  Each rank has the rows of its own batch at every stage; if ranks share layers, it has its part of a cut value. Not
 *  collective: any rank may call. See examples/own_prediction.c. Errors: ZR_ERR_ARG if there is no such schedule or
 * value, or it is a parameter (use zr_engine_read); ZR_ERR_STATE if another schedule ran last or the memory was reused.
 */
ZR_API ZR_NODISCARD zr_status zr_engine_value(zr_engine *engine, zr_schedule_kind kind, zr_value value, void *out);

/** Measured memory and traffic: memory by category as the schedules were executed; the total of each space as actually
 * allocated (zr_alloc, a window's size); traffic of training steps (and their flush) only, counted by the transport
 * where bytes moved; and the number of steps done. */
typedef struct zr_measured {
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS]; /* traffic that this rank received across each border (zr_plan.across) */
    int64_t steps;
} zr_measured;
ZR_API void zr_engine_measured(const zr_engine *engine, zr_measured *measured);

#ifdef __cplusplus
}
#endif
#endif
