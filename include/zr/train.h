/**
 * train: joins configuration, data, weights and engine: training runs, evaluation, generation, learning
 * rates, and the numbers that a plan promises and a run measures.
 *
 * Nothing here prints or exits; what a user should see goes through zr_observer.
 */
#ifndef ZR_TRAIN_H
#define ZR_TRAIN_H

#include "zr/comm.h"
#include "zr/config.h"
#include "zr/device.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- this machine ---------------------------------------------------------------------------- */

/** Processors this process may use, at least 1: its affinity, capped by the CPU quota of its control group. */
ZR_API int zr_host_cores(void);

/** Bytes that can still be taken without swapping or being killed: the smaller of MemAvailable and what
 *  the control groups leave; -1 when neither is known. */
ZR_API int64_t zr_host_available_bytes(void);

/** Would the system give this process `bytes` more memory and `threads` more threads at once? They are taken and given
 *  back: libraries that fail to get a thread or memory end the program, so one asks before. ZR_ERR_MEMORY naming what
 *  was refused, and by which limit. */
ZR_API ZR_NODISCARD zr_status zr_host_room(int64_t bytes, int threads);

/** The processor's model as the system calls it, in printable ASCII; "unknown". */
ZR_API void zr_host_processor(char *name, size_t size);

/* What a device's bench measures is remembered in ${XDG_CACHE_HOME:-$HOME/.cache}/zr/machine-<hash>.json, for this
 * processor, number of cores, kernel level and these versions of zr and its matrix products, or for GPUs of this name;
 * anything else has a file of its own. `facts`: the device's. It prices plans and is what mfu is a share of; no plan
 * depends on it. */

/** Write them, whole or not at all; of several writers the last stays. ZR_ERR_NOT_FOUND: there is no cache directory
 *  (HOME is not set); ZR_ERR_ARG: a rate is not finite; ZR_ERR_CREATE, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_rates_remember(const zr_device_facts *facts, const zr_rates *rates);
/** ZR_ERR_NOT_FOUND: nothing is remembered; ZR_ERR_DATA: the file is damaged, or another machine's. */
ZR_API ZR_NODISCARD zr_status zr_rates_recall(const zr_device_facts *facts, zr_rates *rates);

/** The highest rate that was measured in F32 or BF16, which every share is a share of: that of a loop between
 * registers; or, where a library's product ran faster, by instructions that zr has no loop for or while the machine was
 * quieter, that product's, and *of_library is true. BF16 is 0 where it is not multiplied as such. */
ZR_API zr_rate zr_rates_peak(const zr_rates *rates, zr_dtype dtype, bool *of_library);

/** Fill a profile's rates for one of `ranks` ranks, of which `local_ranks` work on this host at once, each with
 *  profile->facts.threads threads and values of `dtype`: of each rate what its threads reach alone, at most its share
 *  of what all reach. FLOPs are the peaks and, by sizes, what products reach of them. The link, that of threads
 *  (ZR_LINK_PROCESS), is known within one host, where it is the memory and hides behind nothing; where there are others
 *  it is 0. */
ZR_API void zr_rates_profile(const zr_rates *rates, zr_dtype dtype, int ranks, int local_ranks, zr_profile *profile);

/* Steps of training runs, as a cluster's (zr_cluster.measured) prices plans by them: kept likewise, for each number of
 * ranks and hosts of a transport in a file of its own, steps-<hash>.json. */

/** Train small models on the ranks of `comm` and keep what their steps took: medians over some training steps, means
 *  over the ranks. Takes 5 to 20 seconds, where ranks outnumber cores or links are slow a minute or two. `quick`: once
 *  and the smallest models only, a tenth of the time; steps of large models are then priced less well. Collective, each
 *  rank with a device of its own; all get the same, to be cleared after success. ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_launch_measure(zr_comm *comm, zr_device *device, bool quick, zr_launch *launch);
ZR_API void zr_launch_clear(zr_launch *launch);
/** As zr_rates_remember and zr_rates_recall. */
ZR_API ZR_NODISCARD zr_status zr_launch_remember(const zr_device_facts *facts, const zr_launch *launch);
ZR_API ZR_NODISCARD zr_status zr_launch_recall(const zr_device_facts *facts, const char *transport, int ranks,
                                               int hosts, zr_launch *launch);

/** A matrix product C (m,n) = A (m,k) B (k,n) of a model's step. */
typedef struct zr_product {
    char what[ZR_NAME_MAX + 16]; /* weight and pass, "h.*.mlp.c_fc forward"; passes: forward, dx, dw */
    zr_dtype dtype;
    int64_t m, n, k;
    int64_t count; /* in a micro-batch */
    double flops_per_sec;
    double part; /* of its rows that was timed; below 1 the rate is an estimate: all rows are taken to run at it */
} zr_product;

/** The products of one micro-batch, forward and backward; those of a head that keeps its logits to itself as it makes
 *  them, for so many rows at a time. */
typedef struct zr_products {
    zr_product *product;
    int n;
    double flops;
    double rest_flops; /* of ops that are no linear products: attention, without regard to its mask */
    double bound_sec;  /* sum of FLOPs / rate over all products: no micro-batch is faster with these kernels, as far as
                        * the rates of those timed in part hold for the whole */
} zr_products;

/** Time each product of a model by itself, through the device's kernels, best of some runs on operands in memory; one
 *  that would take more than a tenth of a second on a part of its rows, 512 at least. dtype: F32 or BF16. Takes three
 *  runs and a tenth of a second or two a product, and memory for its operands. Clear it after success. */
ZR_API ZR_NODISCARD zr_status zr_products_measure(const zr_model *model, int64_t batch, int64_t seq, zr_dtype dtype,
                                                  zr_device *device, zr_products *products);
ZR_API void zr_products_clear(zr_products *products);
/** Have the rates of these products remembered by their sizes, of equal sizes the mean over their time, and the best;
 *  sizes beyond ZR_PRODUCT_RATES are left out. In BF16 only those that are multiplied as such. */
ZR_API void zr_rates_add_products(zr_rates *rates, const zr_products *products);

/* ---- learning rate --------------------------------------------------------------------------- */

/**
 * Learning rate of the next update, after `updates` updates were done (skipped steps do not count).
 *
 * DeepSpeed's schedules: the scheduler starts before its first iteration and moves on after each update, so
 * the update with number u (from 0) uses iteration i = u - 1, and u = 0 the value before the start:
 *
 *     gamma(i) = ln(i+1)/ln(W)  or  i/W               i < W = max(2, warmup_num_steps)
 *     WarmupLR:       min + (max - min) gamma(i), then max;                              before: min
 *     WarmupDecayLR:  the same, then min + (max - min) max(0, (S-i)/max(1, S-W));        before: min
 *     WarmupCosineLR: lr (r + (1-r) gamma(i)), then lr (c + (1-c)(1 + cos(pi p))/2),
 *                     p = min(1, (i-W+1)/max(1, S-W));                                   before: 0
 *
 * with S = total_num_steps, r = warmup_min_ratio, c = cos_min_ratio, lr = optimizer.params.lr.
 * `config` must be resolved.
 */
ZR_API double zr_lr(const zr_config *config, int64_t updates);

/* ---- loss scale ------------------------------------------------------------------------------ */

/**
 * fp16's scale of the loss, by DeepSpeed's rule. It starts at 2^initial_scale_power. After step s (from 0), skipped
 * ones counted:
 *
 *     overflow:  hysteresis_left > 1:  hysteresis_left -= 1
 *                otherwise:            scale = max(scale / 2, min_loss_scale)
 *     none:      (s - last step with an overflow, or -1) a multiple of loss_scale_window:
 *                                      scale *= 2 and hysteresis_left = hysteresis
 *                consecutive_hysteresis: hysteresis_left = hysteresis after every such step
 *
 * loss_scale not 0: that scale, never changed. Overflows are skipped either way.
 * Source: DeepSpeed's documentation of its configuration, "FP16 training options".
 */
typedef struct zr_loss_scaler {
    double scale;
    double min_scale;
    bool dynamic;
    bool consecutive_hysteresis;
    int64_t window, hysteresis;
    int64_t step, last_overflow, hysteresis_left;
} zr_loss_scaler;

/** scale 1 and static without fp16. `config` must be resolved. */
ZR_API zr_loss_scaler zr_loss_scaler_create(const zr_config *config);
/** After a step that used scaler->scale: did its gradient overflow (was it skipped)? Sets the next step's scale. */
ZR_API void zr_loss_scaler_update(zr_loss_scaler *scaler, bool overflow);

/* ---- gradient noise scale -------------------------------------------------------------------- */

/** Steps before the noise scale counts as known. */
#define ZR_NOISE_SCALE_STEPS 10
#define ZR_NOISE_SCALE_BYTES 320

/**
 * The simple noise scale tr(S) / |G|^2, with G the true gradient and S the covariance of one token's (or one sample's):
 * the batch up to which a larger one pays. Of a step with gradients of batches of two sizes b < B,
 *
 *     |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)        tr(S) ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
 *
 * Both estimates are unbiased and vary much, so each is averaged over steps (a new one counts a hundredth) before the
 * quotient is taken. Zero-initialise.
 * Source: McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", appendix A.1.
 */
typedef struct zr_noise_scale {
    double gradient, trace; /* the averages of |G|^2 and tr(S), too small by the same factor in the first steps */
    int64_t steps;          /* that are in them */
} zr_noise_scale;

/** A step: `small_square` the mean of |g|^2 over its micro-batches of `small` tokens each
 *  (zr_step_result.micro_square), `big_square` |g|^2 of the whole batch of `big` > `small` tokens. Numbers that are not
 *  finite count nowhere. */
ZR_API void zr_noise_scale_add(zr_noise_scale *noise, double small_square, double small, double big_square, double big);
/** In tokens, where the sizes were. NaN: not known, before ZR_NOISE_SCALE_STEPS steps or while an average is not
 *  positive. */
ZR_API double zr_noise_scale_value(const zr_noise_scale *noise);
/** A line that holds it against the batch of a step, both in tokens; returns `out`. A batch of B takes 1 + scale/B
 *  times the fewest steps that lead to a loss, and 1 + B/scale times the fewest tokens (section 2 there). */
ZR_API char *zr_noise_scale_words(double scale, int64_t batch, char out[ZR_NOISE_SCALE_BYTES]);

/* ---- what a plan promises and a run measures ------------------------------------------------- */

/** The numbers of `zr plan --json` and of `planned`, `measured` in run.json: bytes of one rank, traffic of
 *  one rank and optimizer step, FLOPs of one step over all ranks. */
typedef struct zr_report {
    int64_t params, trained; /* of all parameters those that train */
    int ranks, stage;
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS]; /* of it (zr_plan.across) */
    double flops_model, flops_hardware;
} zr_report;

ZR_API zr_report zr_report_planned(const zr_plan *plan);

/** What of a report's traffic does not cross a border: stays within a group of neighbouring ranks (ZR_BORDER_GROUP), is
 *  for ZeRO's sake (ZR_BORDER_TENSOR). */
ZR_API zr_traffic zr_report_within(const zr_report *report, zr_border border);

/** From the engine's counters. FLOPs are the plan's: the engine ran each of its steps, and counts none.
 *  ZR_ERR_INTERNAL when the traffic is not a whole multiple of the steps. */
ZR_API ZR_NODISCARD zr_status zr_report_measured(const zr_plan *plan, const zr_measured *measured, zr_report *report);

/** As one JSON object; zr_free it. */
ZR_API ZR_NODISCARD zr_status zr_report_json(const zr_report *report, char **json);

/* ---- families of models ---------------------------------------------------------------------- */

/** A kind of model that a configuration can name (model.type). */
typedef struct zr_family zr_family;

#define ZR_FAMILY_BYTES 256

/** A model of some family: a plain value, to be copied at will. */
typedef struct zr_family_model {
    const zr_family *family;
    zr_config_sizes sizes;
    const char *frozen; /* as zr_model.frozen; borrowed from the configuration */
    union {
        char bytes[ZR_FAMILY_BYTES];
        int64_t integer;
        double real;
    } numbers; /* the family's own: all that its builder is given */
} zr_family_model;

/** What it is built with: for zr_plan_create, zr_products_measure. `model` is borrowed. */
ZR_API zr_model zr_family_builder(const zr_family_model *model);

/** A model by the name of its shape (model.preset), without dropout. ZR_ERR_NOT_FOUND naming the nearest ones. */
ZR_API ZR_NODISCARD zr_status zr_family_preset(const char *name, zr_family_model *model);
/** The i-th of these names, NULL behind the last. */
ZR_API const char *zr_family_preset_name(int i);

/* ---- from configuration to plan -------------------------------------------------------------- */

/** Settle a loaded configuration for so many ranks: sizes from preset or init directory, default
 *  output_dir runs/<model>-<time> (UTC of `unix_sec`; the same on every rank), zr_config_resolve.
 *  Errors: NOT_FOUND, DATA (init directory), CONFIG, UNSUPPORTED. */
ZR_API ZR_NODISCARD zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec);

/** Of a loaded configuration that a run wrote into its own directory, with train.output_dir not given by an override:
 * the directory is the one in which it lies now. Of any other nothing changes. */
ZR_API ZR_NODISCARD zr_status zr_train_own_dir(zr_config *config);

/** The model of a resolved configuration. */
ZR_API ZR_NODISCARD zr_status zr_train_model(const zr_config *config, zr_family_model *model);

/** The layout of a resolved configuration. The limit of activation_checkpointing.policy auto, and of a copy that is
 *  saved, is what memory.limit leaves for the arena; without one there is none. */
ZR_API zr_layout zr_train_layout(const zr_config *config, int ranks);

/** Are checkpoints written behind the next steps (checkpoint.async, train.save_interval)? */
ZR_API bool zr_train_saves_behind(const zr_config *config);

/** What a slow disk takes, bytes/s: by this the time of a checkpoint is reckoned before one was written. */
#define ZR_TRAIN_DISK_BYTES_SEC 2e8

/** Compute threads of a rank: train.threads, or auto = max(1, processors of this host / local_ranks). */
ZR_API int zr_train_threads(const zr_config *config, int local_ranks);

/** Plan the model of a resolved configuration with a layout that began as its zr_train_layout; a limit is set anew for
 * a device that has memory of its own. */
ZR_API ZR_NODISCARD zr_status zr_train_plan_layout(const zr_config *config, const zr_layout *layout,
                                                   const zr_profile *profile, zr_plan **plan);

/** Plan a resolved configuration. stage -1: the configuration's. */
ZR_API ZR_NODISCARD zr_status zr_train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                            zr_plan **plan);

/** The micro-batches of a run that goes on; accum 0: none. */
typedef struct zr_train_kept {
    int64_t rows, accum; /* samples of a micro-batch on each rank, micro-batches of a step */
} zr_train_kept;

/** Where a configuration is to run. */
typedef struct zr_train_target {
    int ranks;
    const zr_profile *profile; /* profile of the device that plans are made for */
    /** Price a plan for that device; NULL: zr_plan_price, by the profile's rates. */
    zr_status (*price)(void *arg, const zr_plan *plan, zr_price *price);
    void *arg;
} zr_train_target;

/** Settle what a resolved configuration leaves to the memory (zr_config_get_open): ZeRO stage, recompute policy and
 * micro-batches that fit memory.limit (zr_train_rank_bytes) and take the least time for each token, as the target
 * prices it. Of what takes at most 1 % more the lowest stage is taken; of that the fewest micro-batches of samples that
 * are given, or the fewest samples. Where nothing fits: what takes the least memory. Where a profile lacks a rate that
 * counts, usual proportions of products, memory and link stand for it; where micro-batches alone are open, the least
 * FLOPs are taken, then the least traffic.
 *
 * At most 65536 micro-batches are tried. The same for the same configuration and target, rates included. kept: stays
 * where it fits, and where the number of samples is open in any case. `note` says what was taken, "" where nothing was
 * open. Errors: of zr_train_plan, where nothing can be planned, and of `price`. */
#define ZR_TRAIN_NOTE_BYTES 320
ZR_API ZR_NODISCARD zr_status zr_train_choose(zr_config *config, const zr_train_target *target, zr_train_kept kept,
                                              char note[ZR_TRAIN_NOTE_BYTES]);

/** What a process of `ranks` ranks, each of total_bytes (zr_memory_taken), may take by the promise of the run
 * report: 1.03 ranks x total + 48 MiB, and 384 KiB for each rank beyond the first. */
ZR_API int64_t zr_train_process_bytes(int64_t total_bytes, int ranks);
/** What a rank takes of memory.limit, of a plan that takes limited_bytes (zr_memory_limited): zr_train_process_bytes;
 * or, of a device with memory of its own, these and 1 GiB for CUDA and its libraries. */
ZR_API int64_t zr_train_rank_bytes(int64_t limited_bytes, const zr_device_facts *facts);

/** The device that a rank computes on: the processor with so many threads, or the GPU that is its turn among the ranks
 *  of its host. auto: the processor where no GPU can be used. ZR_ERR_UNSUPPORTED: a GPU was asked for, and there is
 * none. */
ZR_API ZR_NODISCARD zr_status zr_train_device(zr_config_device kind, int threads, int local_rank, zr_device **device);
/** What a rank may take where nobody has set memory.limit: of this host's memory (zr_train_host_limit), or of a GPU
 * that ranks of this process share; 0: not known. */
ZR_API int64_t zr_train_limit(const zr_profile *profile, int local_ranks, int in_process);

/** A memory.limit for each of so many ranks on this host where none is given: nine tenths of what is left, shared; the
 *  rest is for whatever else runs here. 0: unknown. */
ZR_API int64_t zr_train_host_limit(int local_ranks);

/** Does the plan stay within memory.limit (limit_bytes per rank, 0: none) and within what this host has
 *  left for local_ranks ranks in one process (threads) or each in its own? ZR_ERR_MEMORY with the plan's
 *  numbers. */
ZR_API ZR_NODISCARD zr_status zr_train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks,
                                                    bool threads);

/* ---- training -------------------------------------------------------------------------------- */

/** So many steps in a row without an update end the run with ZR_ERR_DIVERGED; one that lowers fp16's loss scale is not
 *  counted. */
#define ZR_TRAIN_MAX_SKIPPED 20

/** All that is known when training starts. Everything is borrowed. */
typedef struct zr_train_info {
    const zr_config *config;
    const zr_plan *plan;
    const zr_comm *comm;
    const char *output_dir;
    int threads;                      /* of each rank */
    int64_t from_step;                /* steps that were done before: the run goes on from a checkpoint; 0: it begins */
    int64_t train_tokens, val_tokens; /* of the files; val 0: none */
} zr_train_info;

/** Of larger data the samples of the next micro-batch are read by a thread meanwhile; less stays in the page cache. */
#define ZR_TRAIN_AHEAD_BYTES ((int64_t)64 << 20)

/** One step; tokens and rates of all ranks. */
typedef struct zr_train_step {
    int64_t step;  /* from 1 */
    int64_t steps; /* of the run */
    double loss, grad_norm, lr;
    int64_t tokens; /* of this step */
    double step_sec, tokens_per_sec, samples_per_sec;
    double data_wait_sec; /* of step_sec, that rank 0 waited for its samples */
    double tflops;        /* per rank, hardware FLOPs */
    double mfu;           /* NaN: the peak is unknown */
    int64_t skipped;      /* steps without an update so far */
    double loss_scale;    /* of this step; 0 without fp16 */
    bool noise;           /* train.gradient_noise_scale */
    double noise_scale;   /* then: in tokens; NaN: not known yet */
} zr_train_step;

typedef struct zr_train_eval {
    int64_t step;
    double val_loss;
    int64_t val_tokens;
} zr_train_eval;

/** A checkpoint that was written. */
typedef struct zr_train_save {
    int64_t step, bytes;
    double sec;      /* that training waited; what a step took longer meanwhile is not in it */
    const char *dir; /* of the run; the checkpoint's name in it is zr_checkpoint_name's */
} zr_train_save;

/** Of this many kinds the time is told apart. Where there are more, what is left of each stream is its kind "other". */
#define ZR_TIMING_KINDS 64
#define ZR_TIMING_NAME 48

/** One kind of step: an op of the graph by its name, a matrix product by the shape of its weight too, a step without an
 *  op by its kind. Of one optimizer step of one rank; sec is the mean over the ranks. Computations of an activation
 *  again are in it. */
typedef struct zr_timing {
    char name[ZR_TIMING_NAME]; /* "gelu_dx", "linear 768x3072", "gather" */
    zr_stream stream;
    bool in_f32; /* attention where its FLOPs are made in fp32 whatever the type of the graph: on processors */
    double calls;
    double replays;                         /* calls that compute an activation again */
    double sec, slowest_sec;                /* mean over the ranks, and of the rank that took longest for it */
    double flops, memory_bytes, wire_bytes; /* as the plan counts them (zr_plan_step_cost) */
} zr_timing;

/** Where the time of a training step goes: means over the steps, the first left out where there are more, and over the
 *  ranks. step = compute + exposed + idle. */
typedef struct zr_timings {
    int ranks;
    int64_t steps; /* measured */
    bool left_out; /* the first step, cold and untypical */
    double step_sec;
    double compute_sec, comm_sec; /* so long did steps of each stream run; waiting for another rank is in comm_sec */
    double exposed_sec;           /* communication while nothing was computed */
    double idle_sec;              /* neither */
    double peak_flops, peak_f32_flops; /* of a rank, 0: not measured; of the type of its products, and fp32's */
    double peak_memory_bytes_sec, peak_link_bytes_sec;
    zr_timing kind[ZR_TIMING_KINDS]; /* longest first */
    int n_kinds;
} zr_timings;

/** What a kind achieves: FLOP/s when it has FLOPs, otherwise bytes/s, of the link or of memory. */
typedef struct zr_timing_rate {
    bool flops;
    double per_sec; /* NaN: it has no amount */
    double of_peak; /* NaN: the peak is not known */
} zr_timing_rate;
ZR_API zr_timing_rate zr_timing_rate_of(const zr_timings *timings, const zr_timing *kind);

/** As one JSON object, "timings" of run.json; zr_free it. */
ZR_API ZR_NODISCARD zr_status zr_timings_json(const zr_timings *timings, char **json);

/** A file to write while training, in Chrome's trace event format: each step of the schedule on its stream, of all
 *  ranks; whole after each optimizer step. An older trace is replaced; another file, or one that the run reads or
 * writes, is ZR_ERR_CREATE. */
typedef struct zr_trace {
    const char *path;              /* NULL: none; written by rank 0 */
    int64_t first_step, last_step; /* training steps that are in it, from 1 */
} zr_trace;

/** What may be wrong with a rank. */
typedef enum zr_hang_event {
    ZR_HANG_WARNING, /* one has not moved for half of its limit */
    ZR_HANG_RANK,    /* where one is: a line for each, before one of the following */
    ZR_HANG_OVER,    /* one has not moved for all of it: the job is to be ended (82) */
    ZR_HANG_GONE     /* the process of one has ended: the job is to be ended (83) */
} zr_hang_event;

/** What is told while training. Any function may be NULL. All but `stop`, `save`, `hang` and `reached` are called on
 *  rank 0 only, but what is given must be the same on every rank. */
typedef struct zr_observer {
    void *arg;
    void (*start)(void *arg, const zr_train_info *info);
    void (*step)(void *arg, const zr_train_step *step);
    void (*eval)(void *arg, const zr_train_eval *eval);
    void (*saved)(void *arg, const zr_train_save *save);
    void (*note)(void *arg, const char *text); /* one line that a user should know of */
    void (*warn)(void *arg, const char *text); /* one line on what could not be written; NULL: `note` gets it */
    /* End here? One rank is enough. Asked on every rank after each step, between the micro-batches of one (where ranks
     * of several hosts do not communicate meanwhile) and between the batches of an evaluation. */
    bool (*stop)(void *arg);
    /* Write a checkpoint now, and go on? One rank is enough. Asked on every rank after each step; a question that was
     * answered with true is over. */
    bool (*save)(void *arg);
    double end_sec; /* by zr_clock_sec: end here as `stop` does, early enough for the checkpoint; 0: no limit */
    void (*timings)(void *arg, const zr_timings *timings); /* at the end; NULL: no step is timed */
    zr_trace trace;
    /* A line about a rank that hangs, by a thread beside those that work. The library can end no process, and ranks
     * that wait cannot be called back: who is told that it is over ends the job. One process of a host tells it, within
     * the limits of train.hang_timeout. NULL: nobody watches. */
    void (*hang)(void *arg, zr_hang_event event, const char *line);
    /* This rank is in a phase of the run: "start", "evaluate", "save", "end"; and behind each step of the schedule,
     * "forward", "backward", "exchange", "update" or "gather". By the thread that works, on every rank; step: of
     * training, from 1. For tests that let ranks die there. NULL: costs nothing. */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step);
} zr_observer;

/** How it went. Zero-initialise. Filled as far as it came, also on failure. */
typedef struct zr_train_result {
    int64_t steps; /* done, those before a checkpoint that it went on from too */
    int64_t skipped;
    double loss;        /* of the last step; NaN: no step */
    double val_loss;    /* NaN: no evaluation */
    double noise_scale; /* zr_noise_scale_value, in tokens; NaN: not known, or not asked for */
    double wall_sec;
    int64_t peak_rss_bytes;     /* highest of all processes; -1 unknown */
    int64_t promised_rss_bytes; /* what each of them may take: zr_train_process_bytes */
    zr_report planned, measured;
    bool saved;           /* model/ is whole */
    char model_dir[4096]; /* it, on rank 0: the run's directory may have been renamed */
    bool agreed;          /* every rank returns this status: none waits for another */
} zr_train_result;

/**
 * Train as a prepared configuration says. Inputs, memory and output directory are checked on all ranks before
 * anything is created; then: engine, initial weights, steps, evaluations, model/ and run.json.
 *
 * A step whose gradient or loss is not finite updates nothing; it is counted and noted. Where updates begin before the
 * whole gradient is known (layout lean, one micro-batch a step, neither clipping nor fp16 nor norm two_pass) such a
 * step ends the run instead.
 *
 * Room for the weights is taken before the first step. However the run ends, as long as its ranks can agree the last
 * good weights are saved, and the message says where they are: when data cannot be read, when training diverges; when
 * asked to stop, as a checkpoint, from which zr_train_resume goes on (as weights, where that cannot be written). Not
 * saved are weights that are not finite, that gave no finite loss twice, or of which a step updated some and not the
 * others.
 *
 * Every train.save_interval steps, and after the last (train.save_end), a checkpoint is written: OUTPUT_DIR/step-N. One
 * that cannot be written is noted, and the run goes on; it then ends with ZR_ERR_IO, unless with another failure. The
 * last one, where train.save_interval is 0, is no reason to fail. A line of metrics.jsonl that cannot be written is
 * kept in memory, up to 1 MiB of them, and written when that is possible; where lines are lost the run ends with
 * ZR_ERR_IO.
 *
 * With activation_checkpointing.policy auto and no memory.limit the ranks agree on the least of zr_train_host_limit,
 * say so, and save it in the run's configuration.
 *
 * A rank that neither works nor waits for others ends the run through observer->hang, once it has stood in one place
 * for train.hang_timeout.
 *
 * Collective. Errors: ZR_ERR_STOPPED after `stop` (the checkpoint is written); ZR_ERR_DIVERGED, also when the last loss
 * or the weights are not finite; ZR_ERR_MEMORY; ZR_ERR_CREATE; ZR_ERR_IO; those of data, checkpoint, config, engine,
 * comm.
 */
ZR_API ZR_NODISCARD zr_status zr_train_run(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                           zr_train_result *result);

/**
 * Go on with the run in train.output_dir from its newest whole checkpoint; those that are damaged are passed over, with
 * a note. Number of ranks, stage, layout, types, buckets and micro-batch may be others than before. With the same ones
 * the run goes on as if it had never ended: the same losses to the last bit; with others its state is the same to the
 * bit, and what follows from it is as ARCHITECTURE.md, section 3, says. Where the configuration is not what it was it
 * counts, and each change is noted. metrics.jsonl is cut behind the checkpoint's step; a model/ that is there is
 * replaced when the run ends. A directory without a run, or a run without a checkpoint yet, begins at step 0.
 *
 * Collective. Errors: as zr_train_run; ZR_ERR_CONFIG: the model is another than the checkpoint's, or it has done more
 * steps than train.steps; ZR_ERR_DATA: the data or the tokenizer are others, or no checkpoint is whole; ZR_ERR_CREATE:
 * the directory is another job's, holds no run, holds one that ended without a checkpoint, or holds weights of a step
 * after that of the newest checkpoint, which would be replaced.
 */
ZR_API ZR_NODISCARD zr_status zr_train_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                              zr_train_result *result);

/* ---- weights where they are ------------------------------------------------------------------- */

typedef enum zr_stored_kind {
    ZR_STORED_CHECKPOINT, /* with the optimizer's states, and a checksum of every byte */
    ZR_STORED_HF,         /* a Hugging Face directory */
    ZR_STORED_FILE        /* one safetensors file */
} zr_stored_kind;

/** What a path stands for. */
typedef struct zr_stored {
    zr_stored_kind kind;
    char path[4096];       /* of the directory, or of the file */
    char run[4096];        /* the run whose it is; "": none */
    bool from_run;         /* it was the run that was given */
    char passed_over[512]; /* newer checkpoints of the run that are not whole, the first of them and why; "" */
} zr_stored;

/** A safetensors file, a Hugging Face directory, a checkpoint, or the directory of a run: that stands for its newest
 * checkpoint that is whole, and for its model/ where it has none; with `model_first` the other way round, unless the
 * checkpoint was written later. A whole one is there with all its files; of their bytes nothing is looked at. A link
 * that `path` names is followed. ZR_ERR_NOT_FOUND. */
ZR_API ZR_NODISCARD zr_status zr_stored_find(const char *path, bool model_first, zr_stored *stored);

/** Is a Hugging Face directory a model that zr builds, with all of its tensors in their shapes? `note` (size bytes):
 *  tensors that the model does not use, "". ZR_ERR_NOT_FOUND, ZR_ERR_DATA. */
ZR_API ZR_NODISCARD zr_status zr_hf_check(const char *dir, char *note, size_t size);

typedef enum zr_convert_to {
    ZR_CONVERT_OTHER, /* a checkpoint, or a run, becomes a Hugging Face directory, and that the directory of a run */
    ZR_CONVERT_HF,
    ZR_CONVERT_RUN /* with a checkpoint of step 0, from which zr_train_resume goes on */
} zr_convert_to;

typedef struct zr_convert_args {
    const char *from; /* as zr_stored_find takes it */
    const char *to;   /* nothing is there yet */
    zr_convert_to kind;
    zr_dtype dtype;          /* of the weights of a Hugging Face directory: rounded to the nearest */
    zr_progress_fn progress; /* of numbers; may be NULL */
    void *arg;
    int64_t file_bytes; /* of a Hugging Face directory: most bytes of weights in a file (zr_weights_create); 0: one */
} zr_convert_args;

/** What zr_convert made. */
typedef struct zr_converted {
    zr_stored from;
    zr_convert_to kind; /* HF or RUN */
    int64_t tensors, elems;
    int64_t files;  /* of weights */
    bool tokenizer; /* its files went along */
    char note[512]; /* why those of a run did not; "" */
} zr_converted;

/** Make one kind of directory of weights from another; `to` is there whole, or not at all. Every byte that comes from a
 *  checkpoint is checked. The files of the source's tokenizer go along, beside the weights or into the run's model/.
 *  ZR_ERR_ARG: a checkpoint would be made of one, or of a single file, or not in F32, or its weights in several files;
 *  ZR_ERR_CREATE: something is there already; ZR_ERR_DATA: what is read is damaged, not finite, or no model that zr
 *  builds; ZR_ERR_DTYPE: a weight is beyond the type; ZR_ERR_NOT_FOUND; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_convert(const zr_convert_args *args, zr_converted *did);

/* ---- text to tokens -------------------------------------------------------------------------- */

typedef enum zr_tokens_format {
    ZR_TOKENS_LLMC,   /* llm.c's: 1024 bytes of header; uint16 up to 65536 tokens, else uint32 */
    ZR_TOKENS_NANOGPT /* nanoGPT's: uint16 without header */
} zr_tokens_format;

#define ZR_TOKENIZE_TEXTS 256
#define ZR_TOKENIZE_THREADS 256

typedef struct zr_tokenize_args {
    const char *tokenizer;   /* as zr_tokenizer_open takes it */
    const char *const *text; /* (n_texts) files: each a document, or of .jsonl each line (zr_texts) */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* zr_data_open reads it; with NANOGPT its name ends in ".bin" */
    zr_tokens_format format;
    bool eot;                /* ZR_END_OF_TEXT between documents; no other token is put in */
    int threads;             /* 1 .. ZR_TOKENIZE_THREADS; 0: as many as processors, no more than these */
    zr_progress_fn progress; /* of bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* of a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;  /* else they are errors */
} zr_tokenize_args;

/** What zr_tokenize made. */
typedef struct zr_tokenized {
    int64_t bytes, tokens; /* of the text of all documents; with those between them */
    int64_t vocab;
    uint64_t hash; /* zr_tokenizer_hash */
    int token_bytes;
    char note[512];                   /* zr_texts_info's */
    int64_t documents, skipped_lines; /* with a text; bad lines of .jsonl files, left out */
} zr_tokenized;

/** Write the tokens of texts into a file, which is there whole or not at all. The tokens are those of
 * zr_tokenizer_encode on each whole document, for any number of threads; how texts are read and what memory that takes
 * says zr_texts_encode. The file is made as `out`.tmp.
 *
 * ZR_ERR_ARG sizes; ZR_ERR_CREATE `out` or `out`.tmp is one of what is read, `out` is there and no such file of tokens,
 * or `out`.tmp is there; ZR_ERR_NOT_FOUND, ZR_ERR_DATA of tokenizer and texts; ZR_ERR_DATA too many tokens for the
 * header, no ZR_END_OF_TEXT; ZR_ERR_MEMORY; ZR_ERR_IO also where a text changes. */
ZR_API ZR_NODISCARD zr_status zr_tokenize(const zr_tokenize_args *args, zr_tokenized *did);

typedef struct zr_tokenize_train_args {
    const char *const *text; /* (n_texts) files, as zr_tokenize's */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* a directory, new or empty; zr_tokenizer_open takes it */
    int64_t vocab;           /* tokens, from ZR_TOKENIZER_LEAST_VOCAB */
    zr_progress_fn progress; /* of bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* of a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;  /* else they are errors */
} zr_tokenize_train_args;

/** Learn a tokenizer from texts (zr_tokenizer_trainer_learn) into a directory, which is there whole or not at all:
 * tokenizer.json, and tokenizer_config.json for the package transformers. Of *did: bytes, and the vocabulary and hash
 * of what was learned; fewer tokens than `vocab` where the texts have no more pairs. Texts are read in parts
 * (zr_texts). ZR_ERR_ARG sizes; ZR_ERR_CREATE `out` has something in it or cannot be made; ZR_ERR_NOT_FOUND,
 * ZR_ERR_DATA of texts; ZR_ERR_MEMORY; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_tokenize_train(const zr_tokenize_train_args *args, zr_tokenized *did);

/* ---- with trained weights -------------------------------------------------------------------- */

/** What `zr eval` finds. */
typedef struct zr_eval_result {
    double loss;          /* mean over tokens, natural logarithm */
    double perplexity;    /* e^loss */
    double bits_per_byte; /* loss over the text of its tokens; NaN: the text is unknown */
    int64_t tokens;       /* whose losses count */
    int64_t params;
    char data[1024];     /* the file read */
    char note[512];      /* of bad lines that were left out (data.bad_lines), of tokens that were damaged in the cache,
                            a line for the user; "" */
    int64_t bytes;       /* of text that these tokens stand for; -1: unknown */
    int64_t seq, stride; /* of the windows, in tokens */
} zr_eval_result;

/** What to evaluate on; zero-initialise. */
typedef struct zr_eval_args {
    const char *data; /* a file; NULL: the run's own data.val */
    int threads;      /* 0: all processors */
    int64_t batches;  /* the first so many batches, of train_batch_size samples each as in the run's own evaluations (a
                       * Hugging Face directory has none: of one sample); 0: all of the file */
    void (*progress)(void *arg, int64_t tokens, int64_t of_tokens); /* after each batch; may be NULL */
    void *arg;
    int64_t stride; /* S, 1 .. T: each window of T tokens (the run's data.seq_length, else n_positions) begins S
                     * further. In the first all T losses count, in the others those of the last S, so that each token
                     * counts once, behind at least T-S others; the last window is shorter where the text ends in it.
                     * Takes T/S times as long. 0: T, and the end of the text that fills no window is left out */
} zr_eval_args;

/** Loss of the weights in `dir`, a run's directory, a checkpoint or a Hugging Face directory, on a text or a file of
 * tokens. Text goes through the weights' own tokenizer: the run's; else the files beside them or in the run's model/;
 * else bytes, where the model has 256 tokens. Its
 * tokens are kept as zr_data_open_with says.
 * ZR_ERR_ARG: stride; ZR_ERR_UNSUPPORTED: a text without tokenizer, a stride and several sources; ZR_ERR_DATA: the text
 * is shorter than a window; ZR_ERR_DIVERGED: the loss is not finite. Not collective. Source: stride as in the guide
 * "Perplexity of fixed-length models" of Hugging Face's transformers. */
ZR_API ZR_NODISCARD zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result);

/** A text that has been generated. */
typedef struct zr_generated {
    int64_t sample; /* from 0 */
    uint64_t seed;
    int64_t tokens; /* added, those of a text that it stops at too */
    bool stopped;   /* before a text of zr_generate_args.stop */
} zr_generated;

typedef struct zr_generate_args {
    const char *prompt;
    int64_t prompt_bytes;
    int64_t tokens;     /* to add */
    double temperature; /* 0: the likeliest token each time */
    int64_t top_k;      /* draw from the k likeliest; 0: from all */
    uint64_t seed;
    int threads;     /* 0: all processors */
    double top_p;    /* draw from the fewest of these that have this share of their probability; 0 or 1: from all */
    int64_t samples; /* texts, the i-th with the seed seed + i, as if it alone had been asked for; 0: one */
    const char *const *stop; /* (n_stop) texts; a sample ends before the first that is in what is added, and what may be
                              * the beginning of one is told once it is none */
    int64_t n_stop;
    zr_status (*done)(void *arg, const zr_generated *text); /* behind each sample's last text; may be NULL */
} zr_generate_args;

/** Text of one token as it is made, or of several where it was held back. */
typedef zr_status (*zr_emit_fn)(void *arg, const char *text, int64_t bytes);

/** Continue a prompt with the weights in `dir`. Token i draws its uniform number from (seed, SAMPLE, i).
 *  Beyond n_positions tokens the last n_positions/2 of them are read again as the new context.
 *  An empty prompt starts from <|endoftext|>, or a newline. Of equals the first tokens stay, with top_k and top_p.
 *  ZR_ERR_ARG: sizes, a share that is none, an empty text to stop at. Not collective. Source of top_p: Holtzman et al.
 *  2020, "The curious case of neural text degeneration". */
ZR_API ZR_NODISCARD zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg);

#ifdef __cplusplus
}
#endif
#endif
