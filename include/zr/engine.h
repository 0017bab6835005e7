/**
 * engine: walks a plan's schedules. It decides nothing and allocates nothing after start; every
 * rank issues the same collectives in the same order by construction.
 *
 * Engines share no state: any number live in one process. Each is created, used and destroyed on one thread.
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

/** Where a micro-batch stands. */
typedef struct zr_batch {
    int64_t step;      /* from 0 */
    int64_t micro;     /* 0 .. accum-1 */
    int64_t first_row; /* (micro * ranks + rank) * B: global index of its first row within the step */
} zr_batch;

/** Fill a micro-batch: input[i] is the graph's i-th input, of its shape. Tokens outside the vocabulary
 *  are the callback's to refuse. It may neither call comm or MPI nor read comm's counters, which another thread of the
 *  rank may be using, but where zr_engine_serial says that none is.
 *
 *  When it fails the walk goes on to its end, with zeros: the ranks stay in step. Of a training step nothing is then
 *  updated, on any rank, as if a loss were not finite; this rank's call returns the failure, and
 *  the ranks agree on it afterwards. ZR_ERR_STOPPED instead breaks off at once, and must be what every rank gives for
 *  this micro-batch: the step is as if it had not begun. */
typedef zr_status (*zr_batch_fn)(void *arg, const zr_batch *batch, void *const *input);

typedef struct zr_step_args {
    int64_t step; /* from 0 */
    double lr;
    double clip;       /* largest global gradient norm; 0: no clipping. Wants zr_layout.norm_first */
    double loss_scale; /* gradients are computed times this and updates divide by it; 0: 1. A scale that overflows
                          at times wants zr_layout.norm_first too: only then is such a step skipped */
    zr_batch_fn batch;
    void *arg;
} zr_step_args;

typedef struct zr_step_result {
    double loss;         /* mean over the global batch, before the update */
    double grad_norm;    /* before clipping */
    bool skipped;        /* nothing was updated, on any rank: a gradient or the loss was not finite */
    int32_t bad_param;   /* first parameter with such a gradient, -1 */
    double micro_square; /* with zr_layout.micro_squares: the mean of |g|^2 over the gradients g of the step's N * k
                            micro-batches, each of the mean loss of its own rows; before clipping and without the loss
                            scale, as grad_norm. 0 without */
} zr_step_result;

/** Allocate the arena and everything else; parameters are zero until zr_engine_fill.
 *  `plan`, `device`, `comm` are borrowed and must outlive the engine. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_create(const zr_plan *plan, zr_device *device, zr_comm *comm, uint64_t seed,
                                               zr_engine **engine);
ZR_API void zr_engine_destroy(zr_engine **engine);

/** What of a tensor is filled or read, all as F32. */
enum {
    ZR_STATE_PARAM, /* the fp32 master; where there is none the parameter itself */
    ZR_STATE_GRAD,  /* of the last step, before clipping and without the loss scale; it is only read */
    ZR_STATE_SLOT   /* and on: states of the optimizer */
};

/** Give elements [first, first+n) of a parameter's state: into `out`, (n) F32. */
typedef zr_status (*zr_fill_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Set a state of all parameters: fn is called for the ranges that this rank updates, and for those
 *  that it keeps of what does not train, at most ZR_PASSING_ELEMS elements at a time; then parameters are rounded and
 *  gathered. fn NULL: parameters as the model says (zr_init). States of the optimizer are of what trains. Collective.
 */
ZR_API ZR_NODISCARD zr_status zr_engine_fill(zr_engine *engine, int state, zr_fill_fn fn, void *arg);

/** Read a state: the calls of fn together, over all ranks, give every element of every parameter once; of gradients and
 *  states of the optimizer, of every one that trains.
 *  ZR_ERR_STATE for gradients before the first step, and where the layout lean has used the gradient up.
 *  Not collective. */
typedef zr_status (*zr_read_fn)(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in);
ZR_API ZR_NODISCARD zr_status zr_engine_read(zr_engine *engine, int state, zr_read_fn fn, void *arg);

/** Elements [*first, *first + *n) of what this rank has of a parameter (zr_param_info.shape) are those that it passes
 *  to the functions of zr_engine_read and zr_engine_save: from *first on, zr_param_place says where they stand in the
 *  whole. The same numbers on all ranks that share a parameter's layers. On any thread. */
ZR_API void zr_engine_part(const zr_engine *engine, const zr_param_info *param, int64_t *first, int64_t *n);

/** One step of a schedule as it ran. Times are zr_clock_sec. */
typedef struct zr_event {
    zr_schedule_kind schedule;
    int32_t step;     /* in plan->schedule[schedule].step */
    zr_stream stream; /* that step's */
    int64_t micro;    /* micro-batch of the optimizer step, from 0 */
    double wait_sec;  /* when its queue was free: from here to begin_sec it waited for other steps */
    double begin_sec, end_sec;
} zr_event;

/** Where states go behind a step (zr_engine_save). The functions are called on one thread that is not the engine's, and
 *  may call neither the engine, but zr_engine_part, nor comm. */
typedef struct zr_sink {
    /** Elements [first, first+n) of a state of a parameter, at most ZR_PASSING_ELEMS at a time: state by state, and of
     *  each in the order of the model. */
    zr_status (*put)(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in);
    zr_status (*end)(void *arg); /* once all were put */
    /** NULL: no times are wanted. Each step that put something, as it ran; also after a failure. */
    void (*ran)(void *arg, const zr_event *event);
    void *arg;
} zr_sink;

/** Have the states as they are now go out behind the next training step, as the plan says (zr_layout.save): the calls
 *  of `put` together, over all ranks, give every element of every parameter and of every state of the optimizer once.
 *  After a failure of the sink it is called no more, and training goes on. Not collective. ZR_ERR_STATE where the plan
 *  has no such steps, or while states are on their way. */
ZR_API ZR_NODISCARD zr_status zr_engine_save(zr_engine *engine, const zr_sink *sink);
/** Have they all gone, or failed to? True also where none were on their way. */
ZR_API bool zr_engine_saved(const zr_engine *engine);
/** Wait until they have; where no step has come since, they go now. The sink's first failure. */
ZR_API ZR_NODISCARD zr_status zr_engine_save_end(zr_engine *engine);

/** The steps so far that updated weights: the optimizer's own count, of which its bias correction is a function. */
ZR_API int64_t zr_engine_updates(const zr_engine *engine);
/** Go on from a state that so many updates made, once zr_engine_fill has put it here: the next one is the update after
 *  them. The same on every rank; not collective. ZR_ERR_ARG: fewer than 0; ZR_ERR_STATE: after a step. */
ZR_API ZR_NODISCARD zr_status zr_engine_resume(zr_engine *engine, int64_t updates);

/** One optimizer step. Collective. ZR_ERR_DIVERGED on all ranks when a gradient or the loss is not finite and the
 * layout lean updates units before it can know (no norm_first). With result->skipped it was found before the first
 * update, as a loss that is not finite always is; otherwise some units are updated and some are not: the parameters are
 * then of no use. After ZR_ERR_STOPPED (zr_batch_fn) nothing is updated. */
ZR_API ZR_NODISCARD zr_status zr_engine_step(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** The loss and gradient norm that a step would find, and no update. It is in no count. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Does one thread make all calls of comm, in the order of the schedule? Then batch callbacks may call it too, on every
 *  rank alike. The same on every rank. */
ZR_API bool zr_engine_serial(const zr_engine *engine);

/** Bring all parameters up to date on this rank (stages 1, 2: the gather that a step leaves to the next).
 *  Done by evaluation and by the next step themselves. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_flush(zr_engine *engine);

/** Forward pass of one batch: its losses are added to *sum, this rank's only. Collective (stage 3 gathers). */
ZR_API ZR_NODISCARD zr_status zr_engine_eval(zr_engine *engine, const zr_batch *batch, zr_batch_fn fn, void *arg,
                                             zr_exact *sum);

/** One token through the decode schedule at `position`; *output: the graph's output (1, 1, V) in its dtype,
 *  valid until the next call. Collective. */
ZR_API ZR_NODISCARD zr_status zr_engine_decode(zr_engine *engine, int32_t token, int64_t position, zr_tensor *output);

/** Copy a value of the last walk into `out`, such as the logits of a prediction.
 *
 *      zr_engine_eval(engine, &batch, fill, arg, &sum);
 *      zr_value logits = zr_graph_get_output(plan->graph[ZR_SCHEDULE_EVAL]);
 *      zr_engine_value(engine, ZR_SCHEDULE_EVAL, logits, out);
 *
 *  kind: the schedule of the engine's last call, which succeeded: ZR_SCHEDULE_EVAL behind zr_engine_eval, DECODE behind
 *  zr_engine_decode, TRAIN behind zr_engine_step and zr_engine_probe (then of its last micro-batch).
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

/** What was taken and moved: memory by category as the schedule was walked; the total of each space as its allocation
 *  really took (zr_alloc, a window's size); traffic of training steps (and their flush) only,
 *  counted by the transport where bytes moved; steps done. */
typedef struct zr_measured {
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS]; /* of the traffic, as zr_plan.across, but of this rank */
    int64_t steps;
} zr_measured;
ZR_API void zr_engine_measured(const zr_engine *engine, zr_measured *measured);

/** Call fn after every step of every schedule, NULL: no more. The queue that ran the step calls it: calls for
 *  one stream come in order, those for different streams may come at once. fn must be quick, and may call
 *  neither the engine nor comm or MPI, nor read comm's counters, which another thread may be writing. Without one no
 *  clock is read. */
typedef void (*zr_watch_fn)(void *arg, const zr_event *event);
ZR_API void zr_engine_watch(zr_engine *engine, zr_watch_fn fn, void *arg);

/** Where the walk is: each step that begins is shown on the communicator's board (zr_comm_show), as number
 *  ZR_ENGINE_SHOWN of what computes and, where calls between ranks run beside, the next number for those. */
#define ZR_ENGINE_SHOWN 0
/** Number of the board that changes whenever a part of a state was filled or read, so that long ones are seen to move;
 *  others may count on it between calls of the engine. */
#define ZR_ENGINE_MOVED 3
typedef struct zr_engine_at {
    bool walks; /* false: in no schedule */
    zr_schedule_kind schedule;
    int32_t step;  /* in plan->schedule[schedule].step */
    int64_t micro; /* micro-batch, from 0 */
} zr_engine_at;
ZR_API zr_engine_at zr_engine_shown(uint64_t number);

/** The arena itself, for tests that poison it. */
ZR_API void zr_engine_arena(const zr_engine *engine, void **arena, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
