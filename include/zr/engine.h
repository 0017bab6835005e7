/**
 * engine: executes a plan's schedules. The engine makes no decisions, and allocates no memory after start. Every rank
 * issues the same collectives in the same order, because this order is part of the plan.
 *
 * Engines share no state, so a process may have several engines. An engine must be created, used and destroyed on one
 * thread.
 *
 * Failures. zr_engine_create and zr_engine_fill fail on all ranks together. In other collective calls a rank may fail
 * alone, for example if it cannot read its disk, while its peers still wait for it. All ranks fail together only with
 * ZR_ERR_DIVERGED and ZR_ERR_STOPPED; for failures of the batch callback, see zr_batch_fn. After any other failure this
 * rank may call only zr_engine_destroy, zr_comm_destroy and zr_comm_abort, and none of them waits for other ranks.
 * Report the failure and call zr_comm_abort, because under MPI the peers may wait until then.
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
    int64_t step;  /* index of the training step, from 0 */
    int64_t micro; /* index of the micro-batch within the step, from 0 to accum-1 */
    /* index of the micro-batch's first row among all rows of the step: (micro * N + place) * B, where place is this
     * rank's place in the group DATA of its N data-parallel ranks */
    int64_t first_row;
    /* for each loss term: number of the micro-batch's losses on this rank that count. When the callback begins, it is
     * the number of all losses */
    int64_t *counted;
} zr_batch;

/** Callback that fills a micro-batch. input[i] is memory for the graph's i-th input, in that input's shape. With
 * zr_layout.documents the last input has the beginnings of documents (zr_graph_spec.documents). Each token must begin a
 * document or belong to the document of the token before; otherwise the step fails with ZR_ERR_ARG. The callback must
 * reject tokens outside the vocabulary. It must not call comm or MPI, nor read comm's counters, since another
 * thread of the rank may be using them. With pipelines it may run on another thread than the engine's caller.
 *
 * In a training step the callback must reduce batch->counted[t] by the number of losses of term t that do not count,
 * such as those of targets of -1, which cross-entropy ignores. The value of a term is the sum of its losses in the
 * global batch divided by the number of losses that count, or 0 if that number is 0. The step's loss is the sum of the
 * terms, and the gradient is the gradient of this sum. If the callback does not change a number, all losses of the term
 * count. Tensor-parallel ranks have the same micro-batch, and must give the same numbers. zr_engine_eval ignores the
 * numbers.
 *
 * If the callback fails, the schedule still runs to its end with zeros as input, because the other ranks need this
 * rank's part in collectives. A training step then updates nothing on any rank, as if a loss were not finite. The
 * engine's function returns the failure on this rank. Afterwards the caller must make the ranks agree on it. */
typedef zr_status (*zr_batch_fn)(void *arg, const zr_batch *batch, void *const *input);

/** Callback that counts the losses of a micro-batch without filling its inputs: it reduces batch->counted[t] by the
 * number of losses of term t that do not count, as the batch callback will for the same micro-batch. If it fails, the
 * micro-batches of the step fail with its failure. */
typedef zr_status (*zr_count_fn)(void *arg, const zr_batch *batch);

typedef struct zr_step_args {
    int64_t step; /* index of the training step, from 0 */
    double lr;
    double clip; /* maximum norm of the whole gradient; 0 for no clipping. Clipping requires zr_layout.norm_first */
    /* loss scale: gradients are multiplied by this factor, and the update divides them by it again; 0 means 1. A scale
     * that may cause an overflow requires zr_layout.norm_first, because otherwise a step with an overflow cannot be
     * skipped */
    double loss_scale;
    zr_batch_fn batch;
    void *arg; /* argument of `batch`, `count` and `stop` */
    /* callback that counts losses, for models with several loss terms (zr_graph_loss_term). It is called for each of
     * this rank's micro-batches before the step reads the first. If `batch` later counts a different number, the step
     * fails with ZR_ERR_ARG and updates nothing. NULL if all losses count. Not called for models with one term */
    zr_count_fn count;
    /* callback that returns ZR_ERR_STOPPED if this rank is asked to stop, otherwise ZR_OK. NULL on all ranks if no rank
     * is ever asked to stop. The callback is called between two rounds of the schedule, unless another thread of the
     * rank may be communicating then. If any rank is asked to stop, the step ends on all ranks with ZR_ERR_STOPPED, as
     * if it had not begun */
    zr_status (*stop)(void *arg);
} zr_step_args;

/** Result of one loss term. */
typedef struct zr_term_result {
    double loss;     /* mean over the losses of the global batch that count, before the update; 0 if no loss counts */
    int64_t counted; /* number of losses of the global batch that count (zr_batch) */
} zr_term_result;

typedef struct zr_step_result {
    /* sum of the terms before the update; with one term, the mean over the losses of the global batch that count; 0 if
     * no loss counts */
    double loss;
    double grad_norm; /* norm of this loss's gradient, before clipping */
    /* whether no rank updated anything, because a gradient or the loss was not finite, or because all losses were
     * excluded */
    bool skipped;
    int32_t bad_param; /* index of the first parameter whose gradient is not finite, or -1 */
    /* mean square norm of the gradients of the step's N * k micro-batches. A micro-batch's gradient is the gradient of
     * the mean loss of its own rows, before clipping and without the loss scale. If some losses do not count, the sum
     * of a micro-batch's losses is divided by the mean number of losses that count in a micro-batch, so that the mean
     * of the gradients is the step's gradient. 0 without zr_layout.micro_squares */
    double micro_square;
    /* number of losses of the global batch that count (zr_batch), summed over the terms */
    int64_t counted;
    zr_term_result term[ZR_LOSS_TERMS]; /* results of the terms, in the order of zr_graph_loss_term */
} zr_step_result;

/** Create an engine and allocate all its memory. Parameters are zero until zr_engine_fill. `plan`, `device` and `comm`
 * are borrowed and must outlive the engine. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_create(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed,
                                               zr_engine **engine);
/** Create an engine like zr_engine_create, for a plan that stores states or checkpoints on disk (zr_layout.home,
 * zr_layout.checkpoint_home). The engine reserves zr_plan.space_bytes[ZR_SPACE_DISK] bytes in files without a name, one
 * in each folder. The folders exist, and should be on different disks. They may differ between ranks, and ranks may
 * share them. Fail with ZR_ERR_ARG if the plan stores anything on disk and n_folders is 0. Fail on all ranks with
 * ZR_ERR_MEMORY if a rank's folder has too little room, and with ZR_ERR_CREATE if it cannot be written. If a transfer
 * fails later, the call of the engine fails with ZR_ERR_IO. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_create_on(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed,
                                                  const char *const *folder, int n_folders, zr_engine **engine);
/** Destroy an engine. Collective, unless this rank has failed alone. */
ZR_API void zr_engine_destroy(zr_engine **engine);

/** States of a parameter that can be filled or read. All are passed as F32. */
enum {
    ZR_STATE_PARAM, /* fp32 master of the parameter, or the parameter itself if it has no master */
    ZR_STATE_GRAD,  /* gradient of the last step, before clipping and without the loss scale; cannot be filled */
    /* first state of the optimizer; its other states have the next numbers, and the states of zr_layout.rest follow. A
     * unit has the states of its own optimizer only */
    ZR_STATE_SLOT,
    /* with zr_layout.weight_differences: parameters that ops read, to which the next differences are added. To be
     * filled after ZR_STATE_PARAM, which sets them to the rounded master */
    ZR_STATE_SENT = ZR_STATE_SLOT + ZR_SLOT_SENT,
    /* with error feedback (zr_layout.error_steps): errors of whole gradients; the next number: errors of partial sums
     * (zr_plan_unit.error). Each rank of the level has its own errors. A parameter of n elements therefore has n errors
     * of the first rank, then n of the second, and so on. Errors are 0 after a skipped step, and until they are filled.
     * Only matrices that are cast to records have errors */
    ZR_STATE_ERROR = ZR_STATE_SLOT + ZR_SLOT_ERROR
};

/** Callback that writes elements [first, first+n) of a parameter's state into `out` (n). */
typedef zr_status (*zr_fill_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Set a state of all parameters. fn is called for the ranges that this rank updates, and for the frozen ranges that it
 * stores. Each call of fn asks for at most ZR_PASSING_ELEMS elements. Afterwards parameters are rounded and gathered.
 * If fn is NULL, parameters get the model's initial values (zr_init). Only trained parameters have optimizer states,
 * and only quantised matrices are sent in another form than they have (ZR_STATE_SENT). Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_fill(zr_engine *engine, int state, zr_fill_fn fn, void *arg);

/** Read a state. The calls of fn on all ranks together pass every element of every parameter once. For gradients and
 * optimizer states, they pass the elements of trained parameters only. Fail with ZR_ERR_STATE if gradients are read
 * before the first step, or after layout lean has freed them in the update, or if ZR_STATE_SENT is read after a step
 * and not after zr_engine_flush. Not collective. */
typedef zr_status (*zr_read_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in);
ZR_API ZR_NODISCARD zr_status zr_engine_read(zr_engine *engine, int state, zr_read_fn fn, void *arg);

/** Record of one executed step of a schedule. Times are in seconds of the clock zr_clock_sec. */
typedef struct zr_event {
    zr_schedule_kind schedule;
    int32_t step;     /* index of the step in its schedule */
    zr_stream stream; /* stream of the step */
    int64_t micro;    /* index of the micro-batch within the training step, from 0 */
    /* time at which the step's queue became free; from then until begin_sec the step waited for other steps */
    double wait_sec;
    double begin_sec, end_sec;
} zr_event;

/** Receiver of states that are saved asynchronously (zr_engine_save). All its functions are called on one thread,
 * which is not the engine's. They must not call comm, nor any function of the engine. */
typedef struct zr_sink {
    /** Receive elements [first, first+n) of a state of a parameter, at most ZR_PASSING_ELEMS in one call. States come
     * one after another, and each state has the parameters in the model's order. */
    zr_status (*put)(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in);
    zr_status (*end)(void *arg); /* callback after the last put */
    /** Callback after each executed step of the schedule that called put, even if put failed. NULL if the times are not
     * needed. */
    void (*ran)(void *arg, const zr_event *event);
    void *arg;
} zr_sink;

/** Save the current states asynchronously, during the next training steps. The plan must have save steps
 * (zr_layout.save). The calls of `put` on all ranks together pass every element of every parameter, of every optimizer
 * state, of the parameters as they are sent and of the errors of gradients once. If a function of the sink fails, the
 * sink is not called again, and training continues. Not collective. Fail with ZR_ERR_STATE if the plan has no save
 * steps, or if a save is in progress, or with zr_layout.weight_differences if zr_engine_flush has not been called since
 * the last step. */
ZR_API ZR_NODISCARD zr_status zr_engine_save(zr_engine *engine, const zr_sink *sink);
/** Return whether no save is in progress. The result is true if no save has begun yet, or if the last save has ended
 * or failed. */
ZR_API bool zr_engine_saved(const zr_engine *engine);
/** Wait until the current save has ended, and return the sink's first failure. If no training step has run since
 * zr_engine_save, this call itself passes the states to the sink. */
ZR_API ZR_NODISCARD zr_status zr_engine_save_end(zr_engine *engine);

/** Return the number of training steps that have updated weights. The optimizer's bias correction uses this number. */
ZR_API int64_t zr_engine_updates(const zr_engine *engine);
/** Set the number of earlier updates, to resume training after zr_engine_fill has loaded the states. The next update
 * gets the number `updates` + 1. Collective: pass the same value on every rank. Fail with ZR_ERR_ARG if `updates` is
 * negative, or with ZR_ERR_STATE if a step has already run. */
ZR_API ZR_NODISCARD zr_status zr_engine_resume(zr_engine *engine, int64_t updates);

/** Run one training step. Collective. If a gradient or the loss is not finite, no rank updates anything, and
 * result->skipped is set. The same happens, at every layout, if no loss of the global batch counts; result->counted is
 * then 0.
 *
 * The layout lean without norm_first is an exception: it updates units before the whole gradient is known. If a
 * gradient or the loss is not finite with this layout, the call fails with ZR_ERR_DIVERGED on all ranks. If
 * result->skipped is also set, the bad value was found before the first update, and nothing was updated. If it is not
 * set, only some units were updated, and the parameters are useless. A loss that is not finite is always found before
 * the first update. After ZR_ERR_STOPPED (zr_step_args.stop) nothing is updated. */
ZR_API ZR_NODISCARD zr_status zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Gather the parameters that the last training step updated, so that this rank has all current parameters. Stages 1
 * and 2 postpone this gather to the next training step. Evaluation and decoding make this call themselves.
 * Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_flush(zr_engine *engine);

/** Run the forward pass of one batch, and add this rank's losses of term t to sum[t]. Collective, because stage 3
 * gathers parameters. */
ZR_API ZR_NODISCARD zr_status zr_engine_eval(zr_engine *engine, const zr_batch *batch, zr_batch_fn fn, void *arg,
                                             zr_exact *sum);

/** Run the decode schedule for one token at `position`. *output is the graph's output (1, 1, V) in its own dtype,
 * valid until the next call. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_decode(zr_engine *engine, int32_t token, int64_t position, zr_tensor *output);

/** Copy a value of the engine's last run into `out`, for example the logits of an evaluation:
 *
 *     zr_engine_eval(engine, &batch, fill, arg, &sum);
 *     zr_value logits = zr_graph_get_output(plan->graph[ZR_SCHEDULE_EVAL]);
 *     zr_engine_value(engine, ZR_SCHEDULE_EVAL, logits, out);
 *
 * kind:  the schedule of the last engine call, which must have succeeded: ZR_SCHEDULE_EVAL after zr_engine_eval,
 *        ZR_SCHEDULE_DECODE after zr_engine_decode, ZR_SCHEDULE_TRAIN after zr_engine_step. After a training step
 *        the value is from the last micro-batch.
 * value: a value of zr_plan.graph[kind]. The model's declared output for evaluation or decoding (zr_graph_output) is
 *        always available. Other values, such as the losses, are available if their memory has not been reused.
 * out:   host memory for all elements of the value, row by row. zr_graph_value(graph, value)->type gives their number
 *        and type. For example, logits are (B, T, V) in zr_layout.dtype. The bits are copied without conversion.
 *
 * Each rank has the rows of its own batch, at every stage. With tensor parallelism, a rank has only its own part of a
 * value that is cut. Not collective: a single rank may call this function. See examples/own_prediction.c. Errors:
 * ZR_ERR_ARG if the schedule or the value does not exist, or if the value is a parameter (use zr_engine_read);
 * ZR_ERR_STATE if another schedule ran last, or if the memory has been reused. */
ZR_API ZR_NODISCARD zr_status zr_engine_value(zr_engine *engine, zr_schedule_kind kind, zr_value value, void *out);

/** Measured memory and traffic of an engine. `memory` has the bytes of each category while schedules were executed,
 * and the total of each space as allocated. `traffic` is counted by the transport, for training steps and their flush
 * only. `steps` is the number of training steps done. */
typedef struct zr_measured {
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS];        /* received traffic that crossed each border (zr_plan.across) */
    int64_t copied[ZR_SPACES][ZR_SPACES]; /* bytes copied between spaces in training steps (zr_plan.copied) */
    int64_t steps;
} zr_measured;
ZR_API void zr_engine_measured(const zr_engine *engine, zr_measured *measured);

#ifdef __cplusplus
}
#endif
#endif
