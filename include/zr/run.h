/**
 * run: training runs from a configuration, as `zr train` performs them: prepare, train, resume, observe; and evaluation
 * and generation with trained weights.
 *
 * It does not print or exit: everything for the user goes through zr_observer.
 */
#ifndef ZR_RUN_H
#define ZR_RUN_H

#include "zr/comm.h"
#include "zr/config.h"
#include "zr/engine.h"
#include "zr/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a plan promises and a run measures ------------------------------------------------- */

/** Numbers that `zr plan --json` prints and that run.json has as `planned` and `measured`: memory of one rank, traffic
 * of one rank per optimizer step, FLOPs of one optimizer step over all ranks. */
typedef struct zr_report {
    int64_t params, trained; /* number of parameters, and number of trained parameters */
    int ranks, stage;
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS]; /* part of the traffic that crosses each border (zr_plan.across) */
    double flops_model, flops_hardware;
} zr_report;

/* ---- from configuration to plan -------------------------------------------------------------- */

/** Settle a loaded configuration for `ranks` ranks: take sizes from preset or init directory, set the default
 * output_dir runs/<model>-<time> (UTC of `unix_sec`, which must be the same on every rank), and call
 * zr_config_resolve. Errors: NOT_FOUND, DATA (init directory), CONFIG, UNSUPPORTED. */
ZR_API ZR_NODISCARD zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec);

/* ---- training -------------------------------------------------------------------------------- */

/** Number of consecutive steps without an update after which the run ends with ZR_ERR_DIVERGED. Steps that lower fp16's
 * loss scale are not counted. */
#define ZR_TRAIN_MAX_SKIPPED 20

/** Everything known when training starts. All pointers are borrowed. */
typedef struct zr_train_info {
    const zr_config *config;
    const zr_plan *plan;
    const zr_comm *comm;
    const char *output_dir;
    int threads;                      /* compute threads of each rank */
    int64_t from_step;                /* steps done before this run; above 0 if it resumes from a checkpoint */
    int64_t train_tokens, val_tokens; /* number of tokens for training and for evaluation; val_tokens is 0 without
                                         evaluation data */
} zr_train_info;

/** Size of the data in bytes above which a thread prefetches the samples of the next micro-batch. Smaller data stay in
 * the page cache. */
#define ZR_TRAIN_AHEAD_BYTES ((int64_t)64 << 20)

/** Report of one training step. Tokens and rates are totals over all ranks, unless a field's comment says otherwise. */
typedef struct zr_train_step {
    int64_t step;  /* number of the step, from 1 */
    int64_t steps; /* number of steps of the run */
    double loss, grad_norm, lr;
    int64_t tokens; /* number of tokens in this step */
    double step_sec, tokens_per_sec, samples_per_sec;
    double data_wait_sec; /* part of step_sec in which rank 0 waited for its samples */
    double tflops;        /* TFLOP/s per rank, counting all FLOPs that are executed */
    double mfu;           /* model FLOPs utilization, or NaN if the peak is unknown */
    int64_t skipped;      /* number of steps without an update so far */
    double loss_scale;    /* loss scale of this step, or 0 without fp16 */
    bool noise;           /* whether train.gradient_noise_scale is on */
    double noise_scale;   /* gradient noise scale in tokens if `noise` is set, or NaN if not known yet */
} zr_train_step;

typedef struct zr_train_eval {
    int64_t step;
    double val_loss;
    int64_t val_tokens;
} zr_train_eval;

/** Report of a checkpoint that was written. */
typedef struct zr_train_save {
    int64_t step, bytes;
    double sec;      /* seconds for which training waited; the slow-down of steps during an asynchronous save is not
                        counted */
    const char *dir; /* the run's directory; the checkpoint's name in it comes from zr_checkpoint_name */
} zr_train_save;

/** Maximum number of kinds of steps whose time is listed separately. The remaining kinds of a stream are listed
 * together as the stream's kind "other". */
#define ZR_TIMING_KINDS 64
#define ZR_TIMING_NAME 48

/** Time that one kind of the schedule's steps takes per optimizer step and rank. Steps that run an op form one kind if
 * the op's name is equal and, for matrix products, the weight's shape too. Other steps form a kind by their action,
 * such as "gather". Recomputed ops are included. */
typedef struct zr_timing {
    char name[ZR_TIMING_NAME]; /* name of the kind, such as "gelu_dx", "linear 768x3072" or "gather" */
    zr_stream stream;
    bool in_f32; /* whether it is attention that computes in fp32 whatever the type of the graph, as on processors */
    double calls;
    double replays;                         /* number of calls that recompute an activation */
    double sec, slowest_sec;                /* mean over the ranks, and time of the slowest rank */
    double flops, memory_bytes, wire_bytes; /* as counted by the plan */
} zr_timing;

/** Time of a training step by its parts: means over the ranks and over the steps, except the first step if there are
 * several. step = compute + exposed + idle. */
typedef struct zr_timings {
    int ranks;
    int64_t steps; /* number of steps measured */
    bool left_out; /* whether the first step, which is cold and untypical, was left out */
    double step_sec;
    double compute_sec, comm_sec;      /* busy time of each stream; comm_sec includes waiting for other ranks */
    double exposed_sec;                /* exposed communication: time in which nothing was computed */
    double idle_sec;                   /* time with neither computation nor communication */
    double peak_flops, peak_f32_flops; /* peak FLOP/s of a rank in the type of its products, and in fp32; 0 if not
                                          measured */
    double peak_memory_bytes_sec, peak_link_bytes_sec;
    zr_timing kind[ZR_TIMING_KINDS]; /* kinds of steps, longest time first */
    int n_kinds;
} zr_timings;

/** A trace file written while training, in Chrome's trace event format. The file has each step of the schedule on its
 * stream, for all ranks, and is complete after each optimizer step. An older trace is replaced. Any other existing
 * file, or a file that the run reads or writes, is refused with ZR_ERR_CREATE. */
typedef struct zr_trace {
    const char *path;              /* path of the file, which rank 0 writes; NULL for no trace */
    int64_t first_step, last_step; /* first and last training step in the trace, counted from 1 */
} zr_trace;

/** Events reported when ranks hang. */
typedef enum zr_hang_event {
    ZR_HANG_WARNING, /* a rank has made no progress for half of its limit */
    ZR_HANG_RANK,    /* the state of one rank: one line for each rank, before one of the following events */
    ZR_HANG_OVER,    /* a rank has made no progress for all of its limit; the job must be ended with exit code 82 */
    ZR_HANG_GONE     /* the process of a rank has ended; the job must be ended with exit code 83 */
} zr_hang_event;

/** Callbacks of a training run. Any of them may be NULL. The same callbacks must be given on every rank, but all except
 * `stop`, `save`, `hang` and `reached` are called on rank 0 only. */
typedef struct zr_observer {
    void *arg;
    void (*start)(void *arg, const zr_train_info *info);
    void (*step)(void *arg, const zr_train_step *step);
    void (*eval)(void *arg, const zr_train_eval *eval);
    void (*saved)(void *arg, const zr_train_save *save);
    void (*note)(void *arg, const char *text); /* gives one line for the user */
    void (*warn)(void *arg, const char *text); /* gives one line about a file that could not be written; if NULL,
                                                  `note` receives the line */
    /* Return true to end the run, which ends if any rank's callback returns true. Called on every rank after each step,
     * between the batches of an evaluation and, unless ranks of several hosts are communicating then, between the
     * micro-batches of a step. */
    bool (*stop)(void *arg);
    /* Return true to write a checkpoint now and continue; the checkpoint is written if any rank's callback returns
     * true. Called on every rank after each step. */
    bool (*save)(void *arg);
    double end_sec; /* deadline as a time of zr_clock_sec, or 0 for none; the run ends, as with `stop`, early enough to
                       write its checkpoint before the deadline */
    void (*timings)(void *arg, const zr_timings *timings); /* called at the end of the run; if NULL, steps are not
                                                              timed */
    zr_trace trace;
    /* Report a rank that hangs, on a thread beside the working threads. The library cannot end a process, and waiting
     * ranks cannot be interrupted, so the callback must end the job after ZR_HANG_OVER or ZR_HANG_GONE. One process per
     * host calls it, within the limits of train.hang_timeout. If NULL, hangs are not detected. */
    void (*hang)(void *arg, zr_hang_event event, const char *line);
    /* Report that this rank has entered a phase of the run: "start", "evaluate", "save" or "end", and after each step
     * of the schedule "forward", "backward", "exchange", "update" or "gather". `step` is the training step, from 1.
     * Called on every rank by the working thread. For tests that let ranks die in a phase; NULL costs nothing. */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step);
} zr_observer;

/** Result of a run. Zero-initialise. After a failure it is filled as far as the run got. */
typedef struct zr_train_result {
    int64_t steps; /* steps done, including those before the checkpoint from which the run resumed */
    int64_t skipped;
    double loss;        /* loss of the last step, or NaN if there was no step */
    double val_loss;    /* loss of the last evaluation, or NaN if there was none */
    double noise_scale; /* gradient noise scale in tokens, or NaN if not known or not requested */
    double wall_sec;
    int64_t peak_rss_bytes; /* peak resident memory in bytes of the process with the highest peak, or -1 if unknown */
    int64_t
        promised_rss_bytes; /* limit of resident memory for each process: 1.03 x its ranks' planned bytes + 48 MiB */
    zr_report planned, measured;
    bool saved;           /* whether model/ is complete */
    char model_dir[4096]; /* path of model/, on rank 0 (the run's directory may have been renamed) */
    bool agreed;          /* whether every rank returns this same status, so that no rank waits for another */
} zr_train_result;

/**
 * Train as a prepared configuration specifies. First check inputs, memory and output directory on all ranks, before
 * anything is created. Then create the engine, set initial weights, run steps and evaluations, and write model/ and
 * run.json.
 *
 * A step whose gradient or loss is not finite updates nothing; the step is counted as skipped, and a note reports it.
 * If updates begin before the whole gradient is known (layout lean, one micro-batch per step, neither clipping nor fp16
 * nor norm two_pass), such a step ends the run instead.
 *
 * Disk space for the weights is reserved before the first step. However the run ends, the last good weights are saved
 * if the ranks can still agree, and the message says where. For example, they are saved when data cannot be read or
 * training diverges. When the run is asked to stop, a checkpoint is saved from which zr_train_resume continues, or
 * plain weights if the checkpoint cannot be written. Weights are not saved if they are not finite, if neither the last
 * loss nor the loss on another batch is finite, or if a step updated only some of them.
 *
 * Every train.save_interval steps, and after the last step (train.save_end), a checkpoint OUTPUT_DIR/step-N is written.
 * If a checkpoint cannot be written, a note reports this and the run continues; at its end the run fails with
 * ZR_ERR_IO, unless it fails for another reason. With train.save_interval 0, a failure of the last checkpoint does not
 * fail the run. Lines of metrics.jsonl that cannot be written are kept in memory, up to 1 MiB, and written as soon as
 * writing succeeds again; if lines are lost, the run fails with ZR_ERR_IO at the end.
 *
 * With activation_checkpointing.policy auto and no memory.limit, each rank's limit is nine tenths of its share of the
 * available host memory, or its share of a GPU. The ranks agree on the lowest limit; a note reports it, and the run's
 * saved configuration has it.
 *
 * A rank that neither works nor waits for other ranks ends the run through observer->hang, after train.hang_timeout
 * without progress.
 *
 * Collective. Errors: ZR_ERR_STOPPED after `stop` (the checkpoint is written); ZR_ERR_DIVERGED, also if the last loss
 * or the weights are not finite; ZR_ERR_MEMORY; ZR_ERR_CREATE; ZR_ERR_IO; and those of data, checkpoint, config, engine
 * and comm.
 */
ZR_API ZR_NODISCARD zr_status zr_train_run(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                           zr_train_result *result);

/**
 * Resume the run in train.output_dir from its newest complete checkpoint. Damaged checkpoints are skipped with a note.
 * In a directory without a run, or with a run that has no checkpoint yet, training begins at step 0.
 *
 * Number of ranks, stage, layout, types, buckets and micro-batch may differ from the earlier run. If all of these are
 * equal, the run continues as if it had never ended, with the same losses to the last bit. Otherwise the resumed state
 * still has the same bits, and later results are as described in ARCHITECTURE.md, section 3. If other parts of the
 * configuration have changed, the new values are used, and a note reports each change. metrics.jsonl is truncated after
 * the checkpoint's step, and an existing model/ is replaced when the run ends.
 *
 * Collective. Errors: those of zr_train_run; ZR_ERR_CONFIG if the model is not the checkpoint's, or the checkpoint is
 * beyond train.steps; ZR_ERR_DATA if the data or the tokenizer differ, or no checkpoint is complete; ZR_ERR_CREATE if
 * the directory belongs to another job, has files of a run but neither metrics.jsonl nor a checkpoint, holds a run that
 * ended without a checkpoint, or holds weights of a step after the newest checkpoint, which would be replaced.
 */
ZR_API ZR_NODISCARD zr_status zr_train_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                              zr_train_result *result);

/* ---- with trained weights -------------------------------------------------------------------- */

/** Result of `zr eval`. */
typedef struct zr_eval_result {
    double loss;          /* mean over tokens, in natural logarithm */
    double perplexity;    /* e^loss */
    double bits_per_byte; /* bits per byte of the tokens' text, computed from the loss; NaN if the text is unknown */
    int64_t tokens;       /* number of tokens whose losses are included */
    int64_t params;
    char data[1024];     /* path of the file read */
    char note[512];      /* one line for the user about skipped bad lines (data.bad_lines) and damaged tokens in the
                            cache, or "" */
    int64_t bytes;       /* bytes of text that the counted tokens encode, or -1 if unknown */
    int64_t seq, stride; /* length and distance of the windows in tokens */
} zr_eval_result;

/** Options of zr_eval_dir; zero-initialise. */
typedef struct zr_eval_args {
    const char *data; /* path of a file, or NULL for the run's own data.val */
    int threads;      /* 0 for all processors */
    /** Number of batches to evaluate, from the first on, or 0 for the whole file. A batch has train_batch_size samples,
     * as in the run's own evaluations, or one sample for a Hugging Face directory, which has no batch size. */
    int64_t batches;
    void (*progress)(void *arg, int64_t tokens, int64_t of_tokens); /* called after each batch; may be NULL */
    void *arg;
    /** Stride S in 1 to T: distance between the beginnings of successive windows of T tokens (the run's
     * data.seq_length, or n_positions). In the first window all T losses count, in later windows the last S losses,
     * so that each token counts once and, after the first window, has at least T-S tokens before it. The last
     * window is shorter if the text ends in it. Takes T/S times as long. 0 means T, and tokens at the end of the
     * text that do not fill a window are left out. */
    int64_t stride;
} zr_eval_args;

/** Compute the loss of the weights in `dir` on a text or a token file. `dir` is a run's directory, a checkpoint or a
 * Hugging Face directory. A text is encoded with the run's tokenizer; else with the tokenizer beside the weights or in
 * the run's model/; else with bytes, if the model has 256 tokens. The tokens are cached as described at
 * zr_data_open_with. Not collective. Errors: ZR_ERR_ARG for the stride; ZR_ERR_UNSUPPORTED for a text without
 * tokenizer, or a stride with several sources; ZR_ERR_DATA if the text is shorter than a window; ZR_ERR_DIVERGED if the
 * loss is not finite. Source of the stride: "Perplexity of fixed-length models" in the guide of Hugging Face's
 * transformers. */
ZR_API ZR_NODISCARD zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result);

/** Report of a generated text. */
typedef struct zr_generated {
    int64_t sample; /* index of the sample, from 0 */
    uint64_t seed;
    int64_t tokens; /* number of tokens added, including the tokens of the stop text */
    bool stopped;   /* whether the sample ended at a stop text (zr_generate_args.stop) */
} zr_generated;

typedef struct zr_generate_args {
    const char *prompt;
    int64_t prompt_bytes;
    int64_t tokens;     /* number of tokens to add */
    double temperature; /* sampling temperature; 0 to always choose the most likely token */
    int64_t top_k;      /* draw from the k most likely tokens; 0 for all */
    uint64_t seed;
    int threads;     /* 0 for all processors */
    double top_p;    /* draw from the smallest set of the tokens left by top_k that has at least this share of their
                        probability; 0 or 1 for all */
    int64_t samples; /* number of texts; text i is generated with the seed seed + i, as if it were the only one; 0
                        means one */
    const char *const *stop; /* (n_stop) texts at which to stop: a sample ends before the first one that occurs in
                                the added text. Text that may be the beginning of a stop text is held back until that
                                is decided */
    int64_t n_stop;
    zr_status (*done)(void *arg, const zr_generated *text); /* called after a sample's last text; may be NULL */
} zr_generate_args;

/** Callback that receives generated text: the text of one token, or of several tokens if the text was held back. */
typedef zr_status (*zr_emit_fn)(void *arg, const char *text, int64_t bytes);

/** Continue a prompt with the weights in `dir`. Token i draws its uniform number from (seed, SAMPLE, i). When the text
 * exceeds n_positions tokens, its last n_positions/2 tokens are read again as the new context. An empty prompt is
 * replaced by <|endoftext|>, or a newline. Among equally likely tokens, top_k and top_p keep those with lower numbers.
 * Not collective. Fail with ZR_ERR_ARG for invalid sizes, a top_p outside [0, 1] or an empty stop text. Source of
 * top_p: Holtzman et al. 2020, "The curious case of neural text degeneration". */
ZR_API ZR_NODISCARD zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg);

#ifdef __cplusplus
}
#endif
#endif
