/**
 * engine: executes a plan's schedules. It decides nothing and allocates nothing after start; every rank issues the
 * same collectives in the same order by construction.
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
    int64_t step;      /* from 0 */
    int64_t micro;     /* 0 .. accum-1 */
    int64_t first_row; /* (micro * ranks + rank) * B: global index of its first row within the step */
} zr_batch;

/** Fill a micro-batch: input[i] is the graph's i-th input, of its shape. The callback must reject tokens outside the
 *  vocabulary. It may neither call comm or MPI nor read comm's counters, which another thread of the rank may be using,
 *  unless zr_engine_serial says that no other thread does.
 *
 *  When it fails, the schedule runs to its end, with zeros, so that the ranks stay in step. A training step then
 *  updates nothing, on any rank, as if a loss were not finite; this rank's call returns the failure, and the ranks
 *  agree on it afterwards. ZR_ERR_STOPPED instead ends the step at once, and every rank must return it for this
 *  micro-batch: the step is as if it had not begun. */
typedef zr_status (*zr_batch_fn)(void *arg, const zr_batch *batch, void *const *input);

typedef struct zr_step_args {
    int64_t step; /* from 0 */
    double lr;
    double clip;       /* largest global gradient norm; 0: no clipping. Requires zr_layout.norm_first */
    double loss_scale; /* factor of gradients, by which updates divide again; 0: 1. A scale that overflows at times
                          requires zr_layout.norm_first too: only then is such a step skipped */
    zr_batch_fn batch;
    void *arg;
} zr_step_args;

typedef struct zr_step_result {
    double loss;         /* mean over the global batch, before the update */
    double grad_norm;    /* before clipping */
    bool skipped;        /* nothing was updated, on any rank: a gradient or the loss was not finite */
    int32_t bad_param;   /* first parameter with a gradient that is not finite; -1: none */
    double micro_square; /* with zr_layout.micro_squares: the mean of |g|^2 over the gradients g of the step's N * k
                            micro-batches, each of the mean loss of its own rows; before clipping and without the loss
                            scale, as grad_norm. 0 without */
} zr_step_result;

/** Allocate the arena and all other memory; parameters are zero until zr_engine_fill. `plan`, `device`, `comm` are
 *  borrowed and must outlive the engine. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_create(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed,
                                               zr_engine **engine);
ZR_API void zr_engine_destroy(zr_engine **engine);

/** States of a parameter that are filled or read, all as F32. */
enum {
    ZR_STATE_PARAM, /* the fp32 master; without one the parameter itself */
    ZR_STATE_GRAD,  /* the last step's gradient, before clipping and without the loss scale; read only */
    ZR_STATE_SLOT   /* first state of the optimizer; the others follow */
};

/** Write elements [first, first+n) of a parameter's state into `out`, (n) F32. */
typedef zr_status (*zr_fill_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Set a state of all parameters: fn is called for the ranges that this rank updates, and for the frozen ranges that it
 *  keeps, at most ZR_PASSING_ELEMS elements at a time; then parameters are rounded and gathered. fn NULL: initial
 *  values of the model (zr_init). States of the optimizer exist for trained parameters only. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_fill(zr_engine *engine, int state, zr_fill_fn fn, void *arg);

/** Read a state: the calls of fn together, over all ranks, give every element of every parameter once; for gradients
 *  and states of the optimizer, of every parameter that trains. ZR_ERR_STATE for gradients before the first step, and
 *  where the layout lean has used the gradient up. Not collective. */
typedef zr_status (*zr_read_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in);
ZR_API ZR_NODISCARD zr_status zr_engine_read(zr_engine *engine, int state, zr_read_fn fn, void *arg);

/** Return the part of a parameter that this rank passes to the functions of zr_engine_read and zr_engine_save: elements
 *  [*first, *first + *n) of the rank's own shape (zr_param_info.shape); zr_param_place says where they stand in the
 *  whole from *first on. The numbers are equal on all tensor-parallel ranks. May be called on any thread. */
ZR_API void zr_engine_part(const zr_engine *engine, const zr_param_info *param, int64_t *first, int64_t *n);

/** One step of a schedule as it ran. Times are zr_clock_sec. */
typedef struct zr_event {
    zr_schedule_kind schedule;
    int32_t step;     /* stream of that step */
    zr_stream stream; /* that step's */
    int64_t micro;    /* micro-batch of the optimizer step, from 0 */
    double wait_sec;  /* when its queue was free: from then to begin_sec it waited for other steps */
    double begin_sec, end_sec;
} zr_event;

/** Receiver of states saved asynchronously (zr_engine_save). The functions are called on one thread that is not the
 *  engine's, and may call neither the engine, except zr_engine_part, nor comm. */
typedef struct zr_sink {
    /** Receive elements [first, first+n) of a state of a parameter, at most ZR_PASSING_ELEMS at a time: state by state,
     *  and within a state in the order of the model. */
    zr_status (*put)(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in);
    zr_status (*end)(void *arg); /* called after the last put */
    /** Called for each step that put something, as it ran; also after a failure. NULL: no times are wanted. */
    void (*ran)(void *arg, const zr_event *event);
    void *arg;
} zr_sink;

/** Save the present states asynchronously, during the next training steps, as the plan says (zr_layout.save): the calls
 *  of `put` together, over all ranks, give every element of every parameter and of every state of the optimizer once.
 *  After a failure of the sink it is not called any more, and training goes on. Not collective. ZR_ERR_STATE where the
 *  plan has no such steps, or while a save is in progress. */
ZR_API ZR_NODISCARD zr_status zr_engine_save(zr_engine *engine, const zr_sink *sink);
/** Return whether no save is in progress: the last one has ended or failed, or there was none. */
ZR_API bool zr_engine_saved(const zr_engine *engine);
/** Wait until the save has ended; where no step has come since, the states are put now. Return the sink's first
 *  failure. */
ZR_API ZR_NODISCARD zr_status zr_engine_save_end(zr_engine *engine);

/** Return the number of steps that updated weights: the optimizer's own count, on which its bias correction depends. */
ZR_API int64_t zr_engine_updates(const zr_engine *engine);
/** Continue from a state made by `updates` updates, after zr_engine_fill has loaded it: the next update counts as the
 *  one after them. The same on every rank; not collective. ZR_ERR_ARG: fewer than 0; ZR_ERR_STATE: after a step. */
ZR_API ZR_NODISCARD zr_status zr_engine_resume(zr_engine *engine, int64_t updates);

/** Run one optimizer step. Collective. ZR_ERR_DIVERGED on all ranks when a gradient or the loss is not finite and the
 *  layout lean updates units before it can know (no norm_first). With result->skipped this was found before the first
 *  update, as is always the case for a loss that is not finite; otherwise some units are updated and some are not, and
 *  the parameters are then useless. After ZR_ERR_STOPPED (zr_batch_fn) nothing is updated. */
ZR_API ZR_NODISCARD zr_status zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Return whether one thread makes all calls of comm, in the order of the schedule. Then batch callbacks may call it
 *  too, on every rank alike. The same on every rank. */
ZR_API bool zr_engine_serial(const zr_engine *engine);

/** Bring all parameters up to date on this rank (stages 1, 2: the gather that a step leaves to the next). Evaluation
 *  and the next step do so themselves. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_flush(zr_engine *engine);

/** Run the forward pass of one batch and add its losses to *sum, this rank's only. Collective (stage 3 gathers). */
ZR_API ZR_NODISCARD zr_status zr_engine_eval(zr_engine *engine, const zr_batch *batch, zr_batch_fn fn, void *arg,
                                             zr_exact *sum);

/** Run one token through the decode schedule at `position`; *output: the graph's output (1, 1, V) in its dtype, valid
 *  until the next call. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_decode(zr_engine *engine, int32_t token, int64_t position, zr_tensor *output);

/** Copy a value of the last walk into `out`, such as the logits of a prediction.
 *
 *      zr_engine_eval(engine, &batch, fill, arg, &sum);
 *      zr_value logits = zr_graph_get_output(plan->graph[ZR_SCHEDULE_EVAL]);
 *      zr_engine_value(engine, ZR_SCHEDULE_EVAL, logits, out);
 *
 *  kind: the schedule of the engine's last call, which succeeded: ZR_SCHEDULE_EVAL behind zr_engine_eval, DECODE behind
 *  zr_engine_decode, TRAIN behind zr_engine_step (then of its last micro-batch).
 *  value: of zr_plan.graph[kind]. The output that the model has named for evaluation or decoding (zr_graph_output) is
 *  there at the end of every such walk; any other, as the losses, only where nothing has taken its bytes.
 *  out: memory of the host, for all elements of the value, row by row: their number and type are zr_graph_value(graph,
 *  value)->type, of logits (B, T, V) in zr_layout.dtype. Bits are as computed: nothing is converted.
 *
 *  Each rank has the rows of its own batch, whatever the stage; where ranks share layers, its part of what is cut. Not
 *  collective: any rank may call it or not. examples/own_prediction.c does.
 *  ZR_ERR_ARG: no such schedule or value, or a parameter (zr_engine_read is for those); ZR_ERR_STATE: the last walk was
 *  another, or the bytes are taken. */
ZR_API ZR_NODISCARD zr_status zr_engine_value(zr_engine *engine, zr_schedule_kind kind, zr_value value, void *out);

/** Measured memory and traffic: memory by category as the schedule was executed; the total of each space as really
 *  allocated (zr_alloc, a window's size); traffic of training steps (and their flush) only, counted by the transport
 *  where bytes moved; steps done. */
typedef struct zr_measured {
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS]; /* traffic from beyond each border, of this rank (zr_plan.across) */
    int64_t steps;
} zr_measured;
ZR_API void zr_engine_measured(const zr_engine *engine, zr_measured *measured);

#ifdef __cplusplus
}
#endif
#endif
