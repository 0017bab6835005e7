/**
 * run: training runs from a configuration, as `zr train` makes them: prepare, train, resume, observe; and evaluation
 * and generation from trained weights.
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

/* ---- from configuration to plan -------------------------------------------------------------- */

/** Settle a loaded configuration for `ranks` ranks: sizes from preset or init directory, default output_dir
 *  runs/<model>-<time> (UTC of `unix_sec`; the same on every rank), zr_config_resolve. Errors: NOT_FOUND, DATA (init
 *  directory), CONFIG, UNSUPPORTED. */
ZR_API ZR_NODISCARD zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec);

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
    double flops, memory_bytes, wire_bytes; /* as the plan counts them */
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
    double noise_scale; /* gradient noise scale in tokens; NaN: not known, or not asked for */
    double wall_sec;
    int64_t peak_rss_bytes;     /* highest of all processes; -1: unknown */
    int64_t promised_rss_bytes; /* limit for each process: 1.03 x its ranks' planned bytes + 48 MiB */
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
 * With activation_checkpointing.policy auto and no memory.limit each rank's limit is nine tenths of its share of the
 * available host memory, or its share of a GPU; the ranks agree on the lowest, a note names it, and the run's
 * configuration saves it.
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
