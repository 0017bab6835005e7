/**
 * train: joins configuration, data, weights and engine: training runs, evaluation, generation, learning rates, and the
 * numbers that a plan promises and a run measures.
 *
 * It does not print or exit: everything for the user goes through zr_observer.
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

/** Return the processors that this process may use, at least 1: its affinity, capped by the CPU quota of its control
 *  group. */
ZR_API int zr_host_cores(void);

/** Return the bytes that can still be allocated without swapping or being killed: the smaller of MemAvailable and the
 *  rest of the control groups' limits; -1 when neither is known. */
ZR_API int64_t zr_host_available_bytes(void);

/** Check that the system would give this process `bytes` more memory and `threads` more threads at once, by taking them
 *  and giving them back: libraries that fail to get a thread or memory end the program. ZR_ERR_MEMORY naming the
 *  resource that was refused, and by which limit. */
ZR_API ZR_NODISCARD zr_status zr_host_room(int64_t bytes, int threads);

/** Write the processor's model name as the system gives it, in printable ASCII; "unknown". */
ZR_API void zr_host_processor(char *name, size_t size);

/* Rates measured by a device's bench are kept in ${XDG_CACHE_HOME:-$HOME/.cache}/zr/machine-<hash>.json, for this
 * processor, number of cores, kernel level and these versions of zr and its library of matrix products, or for GPUs of
 * this name; any other combination has a file of its own. `facts`: the device's. The rates price plans, and mfu is a
 * share of their peak; no plan depends on them. */

/** Save the rates, atomically; of several writers the last wins. ZR_ERR_NOT_FOUND: there is no cache directory (HOME is
 *  not set); ZR_ERR_ARG: a rate is not finite; ZR_ERR_CREATE, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_rates_remember(const zr_device_facts *facts, const zr_rates *rates);
/** Load the saved rates. ZR_ERR_NOT_FOUND: none are saved; ZR_ERR_DATA: the file is damaged, or another machine's. */
ZR_API ZR_NODISCARD zr_status zr_rates_recall(const zr_device_facts *facts, zr_rates *rates);

/** Return the peak in F32 or BF16, against which every share is taken: the rate of a loop between registers; or, where
 *  a library's product ran faster (by instructions that zr has no loop for, or while the machine was less busy), the
 *  product's rate, and *of_library is true. BF16 is 0 where the hardware does not multiply it directly. */
ZR_API zr_rate zr_rates_peak(const zr_rates *rates, zr_dtype dtype, bool *of_library);

/** Fill a profile's rates for one of `ranks` ranks, of which `local_ranks` work on this host at once, each with
 *  profile->facts.threads threads and values of `dtype`: each rate is that of its threads alone, at most its share of
 *  the rate of all threads together. FLOP rates are the peaks and, by sizes, the measured rates of products. The link,
 *  between threads (ZR_LINK_PROCESS), is known within one host, where it is the memory and cannot be overlapped; with
 *  other hosts it is 0. */
ZR_API void zr_rates_profile(const zr_rates *rates, zr_dtype dtype, int ranks, int local_ranks, zr_profile *profile);

/* Measured steps of training runs, by which a cluster's zr_cluster.measured prices plans: saved in the same way, for
 * each number of ranks and hosts of a transport in a file of its own, steps-<hash>.json. */

/** Train small models on the ranks of `comm` and record how long their steps took: medians over some training steps,
 *  means over the ranks. Takes 5 to 20 seconds; with more ranks than cores or slow links a minute or two. `quick`: once
 *  and the smallest models only, a tenth of the time; steps of large models are then priced less well. Collective, each
 *  rank with a device of its own; all get the same result, to be cleared after success. ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_launch_measure(zr_comm *comm, zr_device *device, bool quick, zr_launch *launch);
ZR_API void zr_launch_clear(zr_launch *launch);
/** Save and load measured steps, with the errors of zr_rates_remember and zr_rates_recall. */
ZR_API ZR_NODISCARD zr_status zr_launch_remember(const zr_device_facts *facts, const zr_launch *launch);
ZR_API ZR_NODISCARD zr_status zr_launch_recall(const zr_device_facts *facts, const char *transport, int ranks,
                                               int hosts, zr_launch *launch);

/** A matrix product C (m,n) = A (m,k) B (k,n) of a model's step. */
typedef struct zr_product {
    char what[ZR_NAME_MAX + 16]; /* weight and pass, "h.*.mlp.c_fc forward"; passes: forward, dx, dw */
    zr_dtype dtype;
    int64_t m, n, k;
    int64_t count; /* runs in a micro-batch */
    double flops_per_sec;
    double part; /* share of its rows that was timed; below 1 the rate is an estimate for all rows */
} zr_product;

/** Matrix products of one micro-batch, forward and backward; a head that does not store its logits has its products for
 *  a block of rows at a time. */
typedef struct zr_products {
    zr_product *product;
    int n;
    double flops;
    double rest_flops; /* FLOPs of ops that are no linear products: attention, masked pairs included */
    double bound_sec;  /* sum of FLOPs / rate over all products: a lower bound of a micro-batch's time with these
                          kernels, as far as the rates of the products timed in part hold for the whole */
} zr_products;

/** Time each product of a model by itself, through the device's kernels, best of some runs on operands in memory; a
 *  product that would take more than a tenth of a second is timed on a part of its rows, 512 at least. dtype: F32 or
 *  BF16. Takes three runs and a tenth of a second or two a product, and memory for its operands. Clear it after
 *  success. */
ZR_API ZR_NODISCARD zr_status zr_products_measure(const zr_model *model, int64_t batch, int64_t seq, zr_dtype dtype,
                                                  zr_device *device, zr_products *products);
ZR_API void zr_products_clear(zr_products *products);
/** Add the rates of these products to `rates`, by their sizes: of equal sizes the mean over their time, and the best
 *  rate. Sizes beyond ZR_PRODUCT_RATES are left out. BF16 products count only where they are multiplied as such. */
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

/** Return the scaler of a resolved configuration: scale 1 and static without fp16. */
ZR_API zr_loss_scaler zr_loss_scaler_create(const zr_config *config);
/** Set the next step's scale after a step that used scaler->scale. overflow: its gradient was not finite, and the step
 *  was skipped. */
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
    int64_t steps;          /* steps in the averages */
} zr_noise_scale;

/** Add a step: `small_square` is the mean of |g|^2 over its micro-batches of `small` tokens each
 *  (zr_step_result.micro_square), `big_square` |g|^2 of the whole batch of `big` > `small` tokens. A step with a number
 *  that is not finite is ignored. */
ZR_API void zr_noise_scale_add(zr_noise_scale *noise, double small_square, double small, double big_square, double big);
/** Return the noise scale in tokens, where the sizes were. NaN: not known, before ZR_NOISE_SCALE_STEPS steps or while
 *  an average is not positive. */
ZR_API double zr_noise_scale_value(const zr_noise_scale *noise);
/** Write a line that compares the noise scale with the batch of a step, both in tokens; return `out`. A batch of B
 *  takes 1 + scale/B times the fewest steps that lead to a loss, and 1 + B/scale times the fewest tokens (section 2
 *  there). */
ZR_API char *zr_noise_scale_words(double scale, int64_t batch, char out[ZR_NOISE_SCALE_BYTES]);

/* ---- what a plan promises and a run measures ------------------------------------------------- */

/** Numbers of `zr plan --json` and of `planned`, `measured` in run.json: bytes of one rank, traffic of one rank and
 *  optimizer step, FLOPs of one step over all ranks. */
typedef struct zr_report {
    int64_t params, trained; /* parameters, and how many of them train */
    int ranks, stage;
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS]; /* part of the traffic that crosses each border (zr_plan.across) */
    double flops_model, flops_hardware;
} zr_report;

ZR_API zr_report zr_report_planned(const zr_plan *plan);

/** Return the part of a report's traffic that does not cross a border: the traffic within a group of neighbouring ranks
 *  (ZR_BORDER_GROUP), or ZeRO's own (ZR_BORDER_TENSOR). */
ZR_API zr_traffic zr_report_within(const zr_report *report, zr_border border);

/** Report the engine's counters. FLOPs are the plan's: the engine ran each of its steps, and does not count FLOPs.
 *  ZR_ERR_INTERNAL when the traffic is not a whole multiple of the steps. */
ZR_API ZR_NODISCARD zr_status zr_report_measured(const zr_plan *plan, const zr_measured *measured, zr_report *report);

/** Write a report as one JSON object; zr_free it. */
ZR_API ZR_NODISCARD zr_status zr_report_json(const zr_report *report, char **json);

/* ---- families of models ---------------------------------------------------------------------- */

/** A kind of model that a configuration can name (model.type). */
typedef struct zr_family zr_family;

#define ZR_FAMILY_BYTES 256

/** A model of some family: a plain value, which may be copied freely. */
typedef struct zr_family_model {
    const zr_family *family;
    zr_config_sizes sizes;
    const char *frozen; /* patterns as in zr_model.frozen; borrowed from the configuration */
    union {
        char bytes[ZR_FAMILY_BYTES];
        int64_t integer;
        double real;
    } numbers; /* the family's own: the argument of its builder */
} zr_family_model;

/** Return the builder of a model, for zr_plan_create and zr_products_measure. `model` is borrowed. */
ZR_API zr_model zr_family_builder(const zr_family_model *model);

/** Find a model by the name of its shape (model.preset), without dropout. ZR_ERR_NOT_FOUND naming the nearest ones. */
ZR_API ZR_NODISCARD zr_status zr_family_preset(const char *name, zr_family_model *model);
/** Return the i-th name of a shape; NULL after the last. */
ZR_API const char *zr_family_preset_name(int i);

/* ---- from configuration to plan -------------------------------------------------------------- */

/** Settle a loaded configuration for `ranks` ranks: sizes from preset or init directory, default output_dir
 *  runs/<model>-<time> (UTC of `unix_sec`; the same on every rank), zr_config_resolve. Errors: NOT_FOUND, DATA (init
 *  directory), CONFIG, UNSUPPORTED. */
ZR_API ZR_NODISCARD zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec);

/** Set train.output_dir to the directory of the configuration's file, for a configuration that a run wrote into its own
 *  directory, unless an override gives train.output_dir. Any other configuration is not changed. */
ZR_API ZR_NODISCARD zr_status zr_train_own_dir(zr_config *config);

/** Find the model of a resolved configuration. */
ZR_API ZR_NODISCARD zr_status zr_train_model(const zr_config *config, zr_family_model *model);

/** Return the layout of a resolved configuration. Its limit_bytes, for activation_checkpointing.policy auto and for the
 *  copy of an asynchronous save, is the part of memory.limit that is left for the arena; 0 without a memory.limit. */
ZR_API zr_layout zr_train_layout(const zr_config *config, int ranks);

/** Return whether checkpoints are written asynchronously, during the next steps (checkpoint.async,
 *  train.save_interval). */
ZR_API bool zr_train_saves_behind(const zr_config *config);

/** Rate of a slow disk, bytes/s, by which the time of a checkpoint is estimated before one was written. */
#define ZR_TRAIN_DISK_BYTES_SEC 2e8

/** Return the compute threads of a rank: train.threads, or auto = max(1, processors of this host / local_ranks). */
ZR_API int zr_train_threads(const zr_config *config, int local_ranks);

/** Plan the model of a resolved configuration with a layout derived from its zr_train_layout; the limit is computed
 *  anew for a device that has memory of its own. */
ZR_API ZR_NODISCARD zr_status zr_train_plan_layout(const zr_config *config, const zr_layout *layout,
                                                   const zr_profile *profile, zr_plan **plan);

/** Plan a resolved configuration. stage -1: the configuration's. */
ZR_API ZR_NODISCARD zr_status zr_train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile,
                                            zr_plan **plan);

/** Micro-batches of a resumed run; accum 0: the run is new. */
typedef struct zr_train_kept {
    int64_t rows, accum; /* samples of a micro-batch on each rank, micro-batches of a step */
} zr_train_kept;

/** Hardware that a configuration is to run on. */
typedef struct zr_train_target {
    int ranks;
    const zr_profile *profile; /* profile of the device that plans are made for */
    /** Price a plan for that device; NULL: zr_plan_price, by the profile's rates. */
    zr_status (*price)(void *arg, const zr_plan *plan, zr_price *price);
    void *arg;
} zr_train_target;

/** Settle the choices that a resolved configuration leaves open (zr_config_get_open): the ZeRO stage, recompute policy
 *  and micro-batches that fit memory.limit (zr_train_rank_bytes) and take the least time for each token, as the target
 *  prices it. Among candidates within 1 % of the best time the lowest stage is taken; among these the fewest
 *  micro-batches where the samples are given, else the fewest samples. Where nothing fits, the candidate with the least
 *  memory is taken. Where a profile lacks a rate that counts, usual proportions of products, memory and link stand for
 *  it; where micro-batches alone are open, the candidate with the fewest FLOPs is taken, then with the least traffic.
 *
 *  At most 65536 micro-batches are tried. The result depends on configuration and target alone, rates included. kept:
 *  stays where it fits, and always where the number of samples is open. `note` tells the choice, "" where nothing was
 *  open. Errors: of zr_train_plan, where nothing can be planned, and of `price`. */
#define ZR_TRAIN_NOTE_BYTES 320
ZR_API ZR_NODISCARD zr_status zr_train_choose(zr_config *config, const zr_train_target *target, zr_train_kept kept,
                                              char note[ZR_TRAIN_NOTE_BYTES]);

/** Return the bytes that a process of `ranks` ranks, each of total_bytes (zr_memory_taken), may take by the promise of
 *  the run report: 1.03 ranks x total + 48 MiB, and 384 KiB for each rank beyond the first. */
ZR_API int64_t zr_train_process_bytes(int64_t total_bytes, int ranks);
/** Return the bytes of memory.limit that a rank uses for a plan of limited_bytes (zr_memory_limited):
 *  zr_train_process_bytes; or, on a device with memory of its own, limited_bytes and 1 GiB for CUDA and its libraries.
 */
ZR_API int64_t zr_train_rank_bytes(int64_t limited_bytes, const zr_device_facts *facts);

/** Create the device that a rank computes on: the processor with `threads` threads, or the GPU assigned to it, in turn
 *  among the ranks of its host. auto: the processor where no GPU can be used. ZR_ERR_UNSUPPORTED: a GPU was asked for,
 *  and there is none. */
ZR_API ZR_NODISCARD zr_status zr_train_device(zr_config_device kind, int threads, int local_rank, zr_device **device);
/** Return the limit of a rank where memory.limit is not set: its share of this host's memory (zr_train_host_limit), or
 *  of a GPU that ranks of this process share; 0: not known. */
ZR_API int64_t zr_train_limit(const zr_profile *profile, int local_ranks, int in_process);

/** Return a memory.limit for each of local_ranks ranks on this host where none is given: nine tenths of the available
 *  memory, shared; the rest is for other programs. 0: unknown. */
ZR_API int64_t zr_train_host_limit(int local_ranks);

/** Check that a plan stays within memory.limit (limit_bytes per rank, 0: none) and within this host's available memory
 *  for local_ranks ranks, in one process (threads) or each in its own. ZR_ERR_MEMORY with the plan's numbers. */
ZR_API ZR_NODISCARD zr_status zr_train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks,
                                                    bool threads);

/* ---- training -------------------------------------------------------------------------------- */

/** Number of consecutive steps without an update after which the run ends with ZR_ERR_DIVERGED; a step that lowers
 *  fp16's loss scale is not counted. */
#define ZR_TRAIN_MAX_SKIPPED 20

/** Everything known when training starts; all borrowed. */
typedef struct zr_train_info {
    const zr_config *config;
    const zr_plan *plan;
    const zr_comm *comm;
    const char *output_dir;
    int threads;                      /* compute threads of each rank */
    int64_t from_step;                /* steps done before this run; above 0: it resumes from a checkpoint */
    int64_t train_tokens, val_tokens; /* tokens of the files; val 0: none */
} zr_train_info;

/** Size of the data above which a thread prefetches the samples of the next micro-batch; smaller data stay in the page
 *  cache. */
#define ZR_TRAIN_AHEAD_BYTES ((int64_t)64 << 20)

/** One step; tokens and rates of all ranks. */
typedef struct zr_train_step {
    int64_t step;  /* from 1 */
    int64_t steps; /* of the run */
    double loss, grad_norm, lr;
    int64_t tokens; /* of this step */
    double step_sec, tokens_per_sec, samples_per_sec;
    double data_wait_sec; /* part of step_sec in which rank 0 waited for its samples */
    double tflops;        /* per rank, hardware FLOPs */
    double mfu;           /* NaN: the peak is unknown */
    int64_t skipped;      /* steps without an update so far */
    double loss_scale;    /* loss scale of this step; 0 without fp16 */
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
    double sec;      /* time that training waited; a step's slow-down during an asynchronous save is not counted */
    const char *dir; /* the run's directory; the checkpoint's name in it is zr_checkpoint_name's */
} zr_train_save;

/** Most kinds of steps whose time is listed separately. With more, the rest of each stream is its kind "other". */
#define ZR_TIMING_KINDS 64
#define ZR_TIMING_NAME 48

/** Time of one kind of step in one optimizer step of one rank, sec as the mean over the ranks. A kind is an op of the
 *  graph by its name, a matrix product also by the shape of its weight, or a step without an op. Recomputed ops are
 *  included. */
typedef struct zr_timing {
    char name[ZR_TIMING_NAME]; /* "gelu_dx", "linear 768x3072", "gather" */
    zr_stream stream;
    bool in_f32; /* attention whose FLOPs are made in fp32 whatever the type of the graph: on processors */
    double calls;
    double replays;                         /* calls that recompute an activation */
    double sec, slowest_sec;                /* mean over the ranks, and the slowest rank's */
    double flops, memory_bytes, wire_bytes; /* as the plan counts them (zr_plan_step_cost) */
} zr_timing;

/** Time of a training step by its parts: means over the ranks and over the steps, without the first where there are
 *  more. step = compute + exposed + idle. */
typedef struct zr_timings {
    int ranks;
    int64_t steps; /* measured */
    bool left_out; /* the first step, cold and untypical, was left out */
    double step_sec;
    double compute_sec, comm_sec;      /* busy time of each stream; waiting for another rank is in comm_sec */
    double exposed_sec;                /* exposed communication: while nothing was computed */
    double idle_sec;                   /* neither */
    double peak_flops, peak_f32_flops; /* peaks of a rank in the type of its products, and in fp32; 0: not measured */
    double peak_memory_bytes_sec, peak_link_bytes_sec;
    zr_timing kind[ZR_TIMING_KINDS]; /* longest first */
    int n_kinds;
} zr_timings;

/** Rate that a kind achieves: FLOP/s when it has FLOPs, otherwise bytes/s, of the link or of memory. */
typedef struct zr_timing_rate {
    bool flops;
    double per_sec; /* NaN: it has no amount */
    double of_peak; /* NaN: the peak is not known */
} zr_timing_rate;
ZR_API zr_timing_rate zr_timing_rate_of(const zr_timings *timings, const zr_timing *kind);

/** Write timings as one JSON object, "timings" of run.json; zr_free it. */
ZR_API ZR_NODISCARD zr_status zr_timings_json(const zr_timings *timings, char **json);

/** A trace file written while training, in Chrome's trace event format: each step of the schedule on its stream, of all
 *  ranks; complete after each optimizer step. An older trace is replaced; any other existing file, or a file that the
 *  run reads or writes, is ZR_ERR_CREATE. */
typedef struct zr_trace {
    const char *path;              /* NULL: none; written by rank 0 */
    int64_t first_step, last_step; /* training steps in the trace, from 1 */
} zr_trace;

/** Events of the watch over hanging ranks. */
typedef enum zr_hang_event {
    ZR_HANG_WARNING, /* a rank has not moved for half of its limit */
    ZR_HANG_RANK,    /* place of a rank: a line for each, before one of the following */
    ZR_HANG_OVER,    /* a rank has not moved for all of its limit: the job is to be ended (82) */
    ZR_HANG_GONE     /* the process of a rank has ended: the job is to be ended (83) */
} zr_hang_event;

/** Callbacks of a training run. Any function may be NULL. All but `stop`, `save`, `hang` and `reached` are called on
 *  rank 0 only, but the same callbacks must be given on every rank. */
typedef struct zr_observer {
    void *arg;
    void (*start)(void *arg, const zr_train_info *info);
    void (*step)(void *arg, const zr_train_step *step);
    void (*eval)(void *arg, const zr_train_eval *eval);
    void (*saved)(void *arg, const zr_train_save *save);
    void (*note)(void *arg, const char *text); /* one line for the user */
    void (*warn)(void *arg, const char *text); /* one line on a file that could not be written; NULL: `note` gets it */
    /* Return true to end the run; one rank is enough. Called on every rank after each step, between the micro-batches
     * of a step (unless ranks of several hosts communicate at that time) and between the batches of an evaluation. */
    bool (*stop)(void *arg);
    /* Return true to write a checkpoint now and go on; one rank is enough. Called on every rank after each step; each
     * true asks for one checkpoint. */
    bool (*save)(void *arg);
    double end_sec; /* deadline by zr_clock_sec: ends as `stop` does, in time for the checkpoint; 0: no limit */
    void (*timings)(void *arg, const zr_timings *timings); /* at the end; NULL: no step is timed */
    zr_trace trace;
    /* Tell about a rank that hangs, from a thread beside the working ones. The library cannot end a process, and
     * waiting ranks cannot be interrupted, so the callback must end the job after ZR_HANG_OVER or ZR_HANG_GONE. One
     * process of a host calls it, within the limits of train.hang_timeout. NULL: hangs are not watched. */
    void (*hang)(void *arg, zr_hang_event event, const char *line);
    /* Tell that this rank has entered a phase of the run: "start", "evaluate", "save", "end"; and, after each step of
     * the schedule, "forward", "backward", "exchange", "update" or "gather". Called by the working thread, on every
     * rank; step: of training, from 1. For tests that let ranks die there. NULL: costs nothing. */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step);
} zr_observer;

/** Result of a run. Zero-initialise. Filled as far as the run came, also on failure. */
typedef struct zr_train_result {
    int64_t steps; /* steps done, including those before the checkpoint that it resumed from */
    int64_t skipped;
    double loss;        /* of the last step; NaN: no step */
    double val_loss;    /* NaN: no evaluation */
    double noise_scale; /* zr_noise_scale_value, in tokens; NaN: not known, or not asked for */
    double wall_sec;
    int64_t peak_rss_bytes;     /* highest of all processes; -1: unknown */
    int64_t promised_rss_bytes; /* limit for each process: zr_train_process_bytes */
    zr_report planned, measured;
    bool saved;           /* model/ is whole */
    char model_dir[4096]; /* path of model/, on rank 0: the run's directory may have been renamed */
    bool agreed;          /* every rank returns this status: no rank waits for another */
} zr_train_result;

/**
 * Train as a prepared configuration says. Inputs, memory and output directory are checked on all ranks before anything
 * is created; then: engine, initial weights, steps, evaluations, model/ and run.json.
 *
 * A step whose gradient or loss is not finite updates nothing; it is counted and noted. Where updates begin before the
 * whole gradient is known (layout lean, one micro-batch a step, neither clipping nor fp16 nor norm two_pass) such a
 * step ends the run instead.
 *
 * Disk space for the weights is reserved before the first step. However the run ends, as long as its ranks can agree,
 * the last good weights are saved, and the message says where they are: when data cannot be read, when training
 * diverges; when asked to stop, as a checkpoint from which zr_train_resume continues (as weights, where that cannot be
 * written). Weights are not saved when they are not finite, gave no finite loss twice, or were updated in part by a
 * step.
 *
 * Every train.save_interval steps, and after the last (train.save_end), a checkpoint is written: OUTPUT_DIR/step-N. A
 * checkpoint that cannot be written is noted, and the run goes on; it then ends with ZR_ERR_IO, unless it fails
 * otherwise. A failure of the last checkpoint, where train.save_interval is 0, does not fail the run. Lines of
 * metrics.jsonl that cannot be written are kept in memory, up to 1 MiB, and written when that is possible; where lines
 * are lost the run ends with ZR_ERR_IO.
 *
 * With activation_checkpointing.policy auto and no memory.limit the ranks agree on the least of zr_train_host_limit,
 * say so, and save it in the run's configuration.
 *
 * A rank that neither works nor waits for others ends the run through observer->hang, once it has stood in one place
 * for train.hang_timeout.
 *
 * Collective. Errors: ZR_ERR_STOPPED after `stop` (the checkpoint is written); ZR_ERR_DIVERGED, also when the last
 * loss or the weights are not finite; ZR_ERR_MEMORY; ZR_ERR_CREATE; ZR_ERR_IO; those of data, checkpoint, config,
 * engine, comm.
 */
ZR_API ZR_NODISCARD zr_status zr_train_run(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                           zr_train_result *result);

/**
 * Resume the run in train.output_dir from its newest whole checkpoint; damaged checkpoints are passed over, with a
 * note. Number of ranks, stage, layout, types, buckets and micro-batch may differ from before. With the same values
 * the run continues as if it had never ended: the same losses to the last bit; with others its state is the same to
 * the bit, and later results are as ARCHITECTURE.md, section 3, says. Where the configuration has changed the new one
 * counts, and each change is noted. metrics.jsonl is cut after the checkpoint's step; an existing model/ is replaced
 * when the run ends. In a directory without a run, or with a run without a checkpoint yet, training begins at step 0.
 *
 * Collective. Errors: as zr_train_run; ZR_ERR_CONFIG: the model is not the checkpoint's, or the checkpoint is beyond
 * train.steps; ZR_ERR_DATA: the data or the tokenizer differ, or no checkpoint is whole; ZR_ERR_CREATE: the directory
 * is another job's, holds no run, holds one that ended without a checkpoint, or holds weights of a step after that of
 * the newest checkpoint, which would be replaced.
 */
ZR_API ZR_NODISCARD zr_status zr_train_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                              zr_train_result *result);

/* ---- weights where they are ------------------------------------------------------------------- */

typedef enum zr_stored_kind {
    ZR_STORED_CHECKPOINT, /* with the optimizer's states, and a checksum of every byte */
    ZR_STORED_HF,         /* a Hugging Face directory */
    ZR_STORED_FILE        /* one safetensors file */
} zr_stored_kind;

/** Location of stored weights. */
typedef struct zr_stored {
    zr_stored_kind kind;
    char path[4096];       /* path of the directory, or of the file */
    char run[4096];        /* run that it belongs to; "": none */
    bool from_run;         /* the given path was the run's directory */
    char passed_over[512]; /* newer checkpoints of the run that are not whole, the first of them and why; "" */
} zr_stored;

/** Find the weights at a path: a safetensors file, a Hugging Face directory, a checkpoint, or the directory of a run,
 *  which stands for its newest whole checkpoint, and for its model/ where it has no checkpoint; with `model_first` the
 *  other way round, unless the checkpoint was written later. A whole checkpoint has all its files; their contents are
 *  not read. A link that `path` names is followed. ZR_ERR_NOT_FOUND. */
ZR_API ZR_NODISCARD zr_status zr_stored_find(const char *path, bool model_first, zr_stored *stored);

/** Check that a Hugging Face directory is a model that zr builds, with all of its tensors in their shapes. `note` (size
 *  bytes): tensors that the model does not use, or "". ZR_ERR_NOT_FOUND, ZR_ERR_DATA. */
ZR_API ZR_NODISCARD zr_status zr_hf_check(const char *dir, char *note, size_t size);

typedef enum zr_convert_to {
    ZR_CONVERT_OTHER, /* a checkpoint, or a run, becomes a Hugging Face directory, and a Hugging Face directory the
                         directory of a run */
    ZR_CONVERT_HF,
    ZR_CONVERT_RUN /* with a checkpoint of step 0, from which zr_train_resume goes on */
} zr_convert_to;

typedef struct zr_convert_args {
    const char *from; /* source, any path that zr_stored_find takes */
    const char *to;   /* target, which must not exist */
    zr_convert_to kind;
    zr_dtype dtype;          /* type of the weights of a Hugging Face directory: rounded to nearest */
    zr_progress_fn progress; /* of numbers; may be NULL */
    void *arg;
    int64_t file_bytes; /* most bytes of weights in a Hugging Face file (zr_weights_create); 0: one file */
} zr_convert_args;

/** Result of zr_convert. */
typedef struct zr_converted {
    zr_stored from;
    zr_convert_to kind; /* HF or RUN */
    int64_t tensors, elems;
    int64_t files;  /* of weights */
    bool tokenizer; /* the tokenizer's files were copied */
    char note[512]; /* why a run's tokenizer files were not copied; "" */
} zr_converted;

/** Convert one kind of directory of weights to another; `to` appears atomically. Every byte that comes from a
 *  checkpoint is checked. The files of the source's tokenizer are copied, beside the weights or into the run's model/.
 *  ZR_ERR_ARG: a checkpoint would be made of a checkpoint, or of a single file, or not in F32, or its weights in
 *  several files; ZR_ERR_CREATE: `to` exists; ZR_ERR_DATA: the source is damaged, not finite, or no model that zr
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
    const char *tokenizer;   /* name as in zr_tokenizer_open */
    const char *const *text; /* (n_texts) files: each a document, or of .jsonl each line (zr_texts) */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* zr_data_open reads it; with NANOGPT its name ends in ".bin" */
    zr_tokens_format format;
    bool eot;                /* ZR_END_OF_TEXT between documents; no other token is put in */
    int threads;             /* 1 .. ZR_TOKENIZE_THREADS; 0: as many as processors, no more than these */
    zr_progress_fn progress; /* of bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;  /* else they are errors */
} zr_tokenize_args;

/** Result of zr_tokenize. */
typedef struct zr_tokenized {
    int64_t bytes, tokens; /* bytes of the text of all documents; tokens, those between documents included */
    int64_t vocab;
    uint64_t hash; /* zr_tokenizer_hash */
    int token_bytes;
    char note[512];                   /* zr_texts_info's */
    int64_t documents, skipped_lines; /* documents with a text; bad lines of .jsonl files, left out */
} zr_tokenized;

/** Write the tokens of texts into a file, which appears atomically. The tokens are those of zr_tokenizer_encode on each
 *  whole document, for any number of threads; zr_texts_encode describes the reading and its memory. The file is written
 *  as `out`.tmp.
 *
 *  ZR_ERR_ARG sizes; ZR_ERR_CREATE `out` or `out`.tmp is one of the inputs, `out` exists and is no such file of tokens,
 *  or `out`.tmp exists; ZR_ERR_NOT_FOUND, ZR_ERR_DATA of tokenizer and texts; ZR_ERR_DATA too many tokens for the
 *  header, no ZR_END_OF_TEXT; ZR_ERR_MEMORY; ZR_ERR_IO also where a text changes. */
ZR_API ZR_NODISCARD zr_status zr_tokenize(const zr_tokenize_args *args, zr_tokenized *did);

typedef struct zr_tokenize_train_args {
    const char *const *text; /* (n_texts) files, as zr_tokenize's */
    int n_texts;             /* 1 .. ZR_TOKENIZE_TEXTS */
    const char *out;         /* a directory, new or empty; zr_tokenizer_open takes it */
    int64_t vocab;           /* tokens, from ZR_TOKENIZER_LEAST_VOCAB */
    zr_progress_fn progress; /* of bytes of files; may be NULL */
    void *arg;
    const char *text_key; /* key of the text in a line of .jsonl; NULL: "text" */
    bool skip_bad_lines;  /* else they are errors */
} zr_tokenize_train_args;

/** Learn a tokenizer from texts (zr_tokenizer_trainer_learn) and write it into a directory, which appears atomically:
 *  tokenizer.json, and tokenizer_config.json for the package transformers. Sets of *did: bytes, and the vocabulary and
 *  hash of the tokenizer, which has fewer tokens than `vocab` where the texts have no more pairs. Texts are read in
 *  parts (zr_texts). ZR_ERR_ARG sizes; ZR_ERR_CREATE `out` is not empty or cannot be made; ZR_ERR_NOT_FOUND,
 *  ZR_ERR_DATA of texts; ZR_ERR_MEMORY; ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_tokenize_train(const zr_tokenize_train_args *args, zr_tokenized *did);

/* ---- with trained weights -------------------------------------------------------------------- */

/** Result of `zr eval`. */
typedef struct zr_eval_result {
    double loss;          /* mean over tokens, natural logarithm */
    double perplexity;    /* e^loss */
    double bits_per_byte; /* loss divided by the bytes of its tokens' text; NaN: the text is unknown */
    int64_t tokens;       /* tokens whose losses count */
    int64_t params;
    char data[1024]; /* the file read */
    char note[512]; /* a line for the user about bad lines that were left out (data.bad_lines) and damaged tokens in the
                       cache; "" */
    int64_t bytes;  /* text bytes of these tokens; -1: unknown */
    int64_t seq, stride; /* of the windows, in tokens */
} zr_eval_result;

/** Options of zr_eval_dir; zero-initialise. */
typedef struct zr_eval_args {
    const char *data; /* a file; NULL: the run's own data.val */
    int threads;      /* 0: all processors */
    /** Number of batches, from the first on, of train_batch_size samples each as in the run's own evaluations (for a
     * Hugging Face directory, which has no batch, of one sample); 0: all of the file. */
    int64_t batches;
    void (*progress)(void *arg, int64_t tokens, int64_t of_tokens); /* after each batch; may be NULL */
    void *arg;
    /** S, 1 .. T: distance between the beginnings of the windows of T tokens (the run's data.seq_length, else
     * n_positions). In the first window all T losses count, in the others the last S, so that each token counts once,
     * after at least T-S others; the last window is shorter where the text ends in it. Takes T/S times as long. 0: T,
     * and the end of the text that fills no window is left out. */
    int64_t stride;
} zr_eval_args;

/** Compute the loss of the weights in `dir`, a run's directory, a checkpoint or a Hugging Face directory, on a text or
 *  a file of tokens. Text goes through the weights' own tokenizer: the run's; else the files beside the weights or in
 *  the run's model/; else bytes, where the model has 256 tokens. Its tokens are cached as zr_data_open_with says.
 *  ZR_ERR_ARG: stride; ZR_ERR_UNSUPPORTED: a text without tokenizer, a stride and several sources; ZR_ERR_DATA: the
 *  text is shorter than a window; ZR_ERR_DIVERGED: the loss is not finite. Not collective. Source: stride as in the
 *  guide "Perplexity of fixed-length models" of Hugging Face's transformers. */
ZR_API ZR_NODISCARD zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result);

/** A generated text. */
typedef struct zr_generated {
    int64_t sample; /* from 0 */
    uint64_t seed;
    int64_t tokens; /* tokens added, including those of the text that it stops at */
    bool stopped;   /* ended before a text of zr_generate_args.stop */
} zr_generated;

typedef struct zr_generate_args {
    const char *prompt;
    int64_t prompt_bytes;
    int64_t tokens;     /* number of tokens to add */
    double temperature; /* 0: the likeliest token each time */
    int64_t top_k;      /* draw from the k likeliest; 0: from all */
    uint64_t seed;
    int threads;  /* 0: all processors */
    double top_p; /* draw from the smallest set of these tokens with at least this share of their probability; 0 or 1:
                     from all */
    int64_t samples; /* number of texts, the i-th with the seed seed + i, as if it alone had been asked for; 0: one */
    const char *const *stop; /* (n_stop) texts: a sample ends before the first that occurs in the added text; text that
                                may be the beginning of one is held back until it is known not to be */
    int64_t n_stop;
    zr_status (*done)(void *arg, const zr_generated *text); /* called after each sample's last text; may be NULL */
} zr_generate_args;

/** Callback for the text of one token as it is made, or of several where it was held back. */
typedef zr_status (*zr_emit_fn)(void *arg, const char *text, int64_t bytes);

/** Continue a prompt with the weights in `dir`. Token i draws its uniform number from (seed, SAMPLE, i). Beyond
 *  n_positions tokens the last n_positions/2 of them are read again as the new context. An empty prompt starts from
 *  <|endoftext|>, or a newline. Among equally likely tokens, top_k and top_p keep those of lower number. ZR_ERR_ARG:
 *  sizes, a top_p outside 0 .. 1, an empty text to stop at. Not collective. Source of top_p: Holtzman et al. 2020, "The
 *  curious case of neural text degeneration". */
ZR_API ZR_NODISCARD zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg);

#ifdef __cplusplus
}
#endif
#endif
