/**
 * run: training runs from a configuration, as `zr train` performs them. Its functions prepare, run and resume training,
 * evaluate trained weights, and generate text with trained weights.
 *
 * This layer neither prints nor exits. The caller receives all messages through zr_observer.
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

/* ---- planned and measured numbers of a run --------------------------------------------------- */

/** Planned or measured numbers of a run. `zr plan --json` prints the planned numbers. run.json has both, as `planned`
 * and `measured`. Memory and traffic are per rank, FLOPs are totals over all ranks. Traffic and FLOPs are per
 * optimizer step. */
typedef struct zr_report {
    int64_t params, trained; /* number of parameters, and number of trained parameters */
    int ranks, stage;
    zr_memory memory;
    zr_traffic traffic;
    zr_traffic across[ZR_BORDERS];        /* traffic that crosses each border (zr_plan.across) */
    zr_homes home;                        /* offload */
    int64_t copied[ZR_SPACES][ZR_SPACES]; /* bytes copied from one memory space to another (zr_plan.copied) */
    double flops_model, flops_hardware;
} zr_report;

/* ---- from configuration to plan -------------------------------------------------------------- */

/** Complete a loaded configuration for a run with `ranks` ranks. Take the model sizes from the preset or the init
 * directory, set the default output_dir, and call zr_config_resolve. The default is runs/<model>-<time> with the time
 * `unix_sec` in UTC, which must be the same on every rank. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_DATA for the init
 * directory; ZR_ERR_CONFIG; ZR_ERR_UNSUPPORTED. */
ZR_API ZR_NODISCARD zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec);

/* ---- training -------------------------------------------------------------------------------- */

/** Number of consecutive skipped steps after which the run ends with ZR_ERR_DIVERGED. Skipped steps that lower the loss
 * scale of fp16 do not count. */
#define ZR_TRAIN_MAX_SKIPPED 20

/** Facts about a run that are known when training starts. All pointers are borrowed. */
typedef struct zr_train_info {
    const zr_config *config;
    const zr_plans *plans;
    const zr_plan *plan; /* plan of this rank's role */
    const zr_comm *comm;
    const char *output_dir;
    int threads;       /* compute threads of each rank */
    int64_t from_step; /* number of steps completed before this run; positive if the run resumes from a checkpoint */
    /* number of tokens of the training data and of the evaluation data; 0 without evaluation data, and for samples of
     * the program (zr_source) */
    int64_t train_tokens, val_tokens;
} zr_train_info;

/** Size in bytes above which training data are prefetched, by a thread that reads the samples of the next micro-batch.
 * Smaller data stay in the page cache. */
#define ZR_TRAIN_AHEAD_BYTES ((int64_t)64 << 20)

/** Result of one loss term of a model with several terms (zr_graph_loss_term). */
typedef struct zr_train_term {
    const char *name; /* name of the term, such as "masked_lm" */
    double loss;      /* mean over the losses of the term that count; NaN if no loss counts */
    int64_t counted;  /* number of losses of the term that count */
} zr_train_term;

/** Report of one training step. Tokens and rates are totals over all ranks, unless a field's comment says otherwise. */
typedef struct zr_train_step {
    int64_t step;  /* number of the step, from 1 */
    int64_t steps; /* total number of steps of the run */
    double loss;   /* mean over the targets of the step that count, before the update; NaN if no target counts */
    double grad_norm, lr;
    int64_t tokens; /* number of tokens in this step, including tokens whose targets are excluded from the loss */
    double step_sec, tokens_per_sec, samples_per_sec;
    double data_wait_sec; /* time for which rank 0 waited for its samples; included in step_sec */
    double tflops;        /* TFLOP/s per rank, including recomputation */
    double mfu;           /* model FLOPs utilization, or NaN if the peak rate is unknown */
    int64_t skipped;      /* number of skipped steps so far */
    double loss_scale;    /* loss scale of this step; 0 without fp16 */
    bool noise;           /* whether the gradient noise scale is measured (train.gradient_noise_scale) */
    double noise_scale;   /* gradient noise scale in tokens, or NaN if not known yet; valid if `noise` is true */
    bool muon;            /* whether Muon trains the hidden matrices; `lr` is then theirs */
    double adamw_lr;      /* learning rate of the other parameters; valid if `muon` is true */
    int terms;            /* number of loss terms, or 0 if the model has only one */
    zr_train_term term[ZR_LOSS_TERMS];
} zr_train_step;

typedef struct zr_train_eval {
    int64_t step;
    double val_loss;    /* mean over the targets that count; with several terms, the sum of the terms */
    int64_t val_tokens; /* number of targets that count; with several terms, targets of the first term */
    int terms;          /* number of loss terms, or 0 if the model has only one */
    zr_train_term term[ZR_LOSS_TERMS];
} zr_train_eval;

/** Report of a checkpoint that was written. */
typedef struct zr_train_save {
    int64_t step, bytes;
    /* time for which training waited for the save. An asynchronous save also slows down training steps; this is not
     * included */
    double sec;
    const char *dir; /* directory of the run; zr_checkpoint_name gives the name of the checkpoint in it */
} zr_train_save;

/** Maximum number of kinds of steps that are timed separately. The other kinds of each stream are added up under the
 * name "other". */
#define ZR_TIMING_KINDS 64
#define ZR_TIMING_NAME 48

/** Time of one kind of the schedule's steps, per optimizer step and rank. Runs of ops are of one kind if the ops have
 * the same name and, for matrix products, the same weight shape. Other steps are of one kind if they have the same
 * action, such as "gather". Runs that recompute activations are included. */
typedef struct zr_timing {
    char name[ZR_TIMING_NAME]; /* name of the kind, such as "gelu_dx", "linear 768x3072" or "gather" */
    zr_stream stream;
    /* whether the kind is attention that computes in fp32 even if the graph's dtype has 16 bits, as on processors */
    bool in_f32;
    double calls;
    double replays;                         /* number of calls, out of `calls`, that recompute activations */
    double sec, slowest_sec;                /* mean time over the ranks, and time of the slowest rank */
    double flops, memory_bytes, wire_bytes; /* FLOPs and bytes according to the plan */
} zr_timing;

/** Time of a training step and of its parts, averaged over ranks and steps. The first step is left out if there are
 * several. step_sec = compute_sec + exposed_sec + disk_sec + pipeline_sec + idle_sec. */
typedef struct zr_timings {
    int ranks;
    int64_t steps; /* number of measured steps */
    bool left_out; /* whether the first step was left out, because its time is not typical */
    double step_sec;
    double compute_sec, comm_sec; /* busy time of computation, and of communication including waits for other ranks */
    double exposed_sec;           /* exposed communication time, in which nothing is computed */
    /* time in which states are read from or written to disk while nothing is computed or communicated */
    double disk_sec;
    double pipeline_sec; /* time in which only values of other pipeline ranks move or are waited for */
    double idle_sec;     /* idle time: the rest of step_sec */
    /* peak FLOP/s of one rank, in the type of its matrix products and in fp32; 0 if not measured */
    double peak_flops, peak_f32_flops;
    double peak_memory_bytes_sec, peak_link_bytes_sec, peak_disk_read_bytes_sec, peak_disk_write_bytes_sec;
    zr_timing kind[ZR_TIMING_KINDS]; /* times of the kinds of steps, longest time first */
    int n_kinds;
} zr_timings;

/** Trace file of training, in Chrome's trace event format. The file shows each step of the schedule on its stream, for
 * all ranks. The file is complete and readable after each optimizer step. An older trace at the path is replaced. Any
 * other existing file is refused with ZR_ERR_CREATE, and so is a file that the run itself reads or writes. */
typedef struct zr_trace {
    const char *path;              /* path of the file, which rank 0 writes; NULL for no trace */
    int64_t first_step, last_step; /* first and last training step in the trace, counted from 1 */
} zr_trace;

/** Events that are reported when ranks hang. "Limit" means train.hang_timeout. */
typedef enum zr_hang_event {
    ZR_HANG_WARNING, /* warning: a rank has made no progress for half of its limit */
    /* information: the state of one rank, in one line; reported for every rank before ZR_HANG_OVER or ZR_HANG_GONE */
    ZR_HANG_RANK,
    /* failure: a rank has made no progress for its whole limit; the callback must end the job with exit code 82 */
    ZR_HANG_OVER,
    ZR_HANG_GONE /* failure: the process of a rank has ended; the callback must end the job with exit code 83 */
} zr_hang_event;

/** Callbacks of a training run. Each may be NULL. The same callbacks must be given on every rank, but most are called
 * only on rank 0. `stop`, `save`, `hang` and `reached` are called on other ranks too. */
typedef struct zr_observer {
    void *arg;
    void (*start)(void *arg, const zr_train_info *info);
    void (*step)(void *arg, const zr_train_step *step);
    void (*eval)(void *arg, const zr_train_eval *eval);
    void (*saved)(void *arg, const zr_train_save *save);
    void (*note)(void *arg, const char *text); /* message for the user in one line */
    /* warning in one line about a file that cannot be written; if NULL, `note` receives the line */
    void (*warn)(void *arg, const char *text);
    /* Return true to end the run. A result of true on any rank is enough. Called on every rank after each training step
     * and between the batches of an evaluation. Also called between the micro-batches of a step, unless ranks of
     * several hosts are communicating then. */
    bool (*stop)(void *arg);
    /* Return true to write a checkpoint now and continue. A result of true on any rank is enough. Called on every rank
     * after each training step. */
    bool (*save)(void *arg);
    /* deadline in seconds of the clock zr_clock_sec, or 0 for none. The run stops, as if `stop` had returned true,
     * early enough to write its checkpoint before the deadline */
    double end_sec;
    /* callback at the end of the run with times of the steps; if NULL, steps are not timed */
    void (*timings)(void *arg, const zr_timings *timings);
    zr_trace trace;
    /* Report ranks that hang. Called on a separate thread, in one process per host, within the limits of
     * train.hang_timeout. The callback must end the job after ZR_HANG_OVER and after ZR_HANG_GONE: the library cannot
     * end a process, and waiting ranks cannot be interrupted. If NULL, hangs are not detected. */
    void (*hang)(void *arg, zr_hang_event event, const char *line);
    /* Report a phase of the run. This rank reports "start", "evaluate", "save" or "end" when it enters the phase;
     * `step` is then the number of training steps done. It reports "forward", "backward", "exchange", "update" or
     * "gather" after each step of the schedule that belongs to this phase, and in a pipeline the step's cell, such as
     * "cell 1B3" for the backward pass of stage 1 for micro-batch 3; `step` is then the number of the current training
     * step, from 1. Called on every rank by the working thread. Tests use this callback to let ranks die in a phase.
     * NULL costs no time. */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step);
} zr_observer;

/** Result of a training run. Zero-initialise. After a failure, the fields that the run reached are filled. */
typedef struct zr_train_result {
    int64_t steps; /* number of steps, including the steps before the checkpoint from which the run resumed */
    int64_t skipped;
    double loss;     /* loss of the last step with a target that counts, or NaN if no step has one */
    double val_loss; /* loss of the last evaluation, or NaN if there was none */
    double
        best_val_loss; /* with train.keep_best: loss of the weights in best/, of step best_step, which is 0 if none */
    int64_t best_step;
    bool stopped_early; /* whether the run ended before train.steps, because of train.early_stopping_patience */
    double noise_scale; /* gradient noise scale in tokens, or NaN if not known or not requested */
    double wall_sec;
    int64_t peak_rss_bytes; /* peak resident memory in bytes, maximum over the processes, or -1 if unknown */
    /* limit in bytes of a process's resident memory: 1.03 x planned bytes of its ranks + 48 MiB */
    int64_t promised_rss_bytes;
    zr_report planned, measured;
    bool saved; /* whether this run has written model/, the directory with the final weights */
    /* path of model/ on rank 0, or "" if it was not written; it may be outside output_dir, because the run's directory
     * may have been renamed during the run */
    char model_dir[4096];
    /* whether all ranks return the same status. If false, this rank has failed alone: report the failure, and then call
     * zr_comm_abort, because other ranks may wait until then */
    bool agreed;
} zr_train_result;

/**
 * Train with a prepared configuration. First check inputs, memory and the output directory on all ranks, before any
 * file is created. Then create the engine, set the initial weights, and run training steps and evaluations. Finally
 * write model/ and run.json.
 *
 * Targets. The loss ignores targets of -1 (zr/data.h). The loss of a step is the mean over the other targets of the
 * global batch, and the gradient is the gradient of this mean. A step without any such target updates nothing. It is
 * counted as skipped, its loss is NaN, and a note reports the first of these steps.
 *
 * Steps that are not finite. A step updates nothing if its gradient or loss is not finite. The step is counted as
 * skipped, and a note reports this. A step that is not finite ends the run if updates begin before the whole gradient
 * is known. Updates begin that early only with layout lean and one micro-batch per step, and only without clipping,
 * fp16 and the norm two_pass.
 *
 * End of the run. Disk space for the weights is reserved before the first step. The current weights are saved whenever
 * the run ends, for example even if data cannot be read. The final message says where the weights are. With
 * train.save_model false the run writes no weights except its checkpoints. Weights are also not saved if the ranks can
 * no longer communicate with each other, or if the run fails before its first update. If the run is asked to stop, it
 * saves a checkpoint from which zr_train_resume continues. If the checkpoint cannot be written, it saves weights only.
 * Weights are also not saved if they are not finite, or if a step has updated only some of them. If the last loss is
 * not finite, weights are saved only if the loss on another batch is finite.
 *
 * Checkpoints. OUTPUT_DIR/step-N is written every train.save_interval steps, and after the last step
 * (train.save_end). If a checkpoint cannot be written, a note reports this and the run continues. At its end it then
 * fails with ZR_ERR_IO, unless it fails for another reason. With train.save_interval 0, a failure of the last
 * checkpoint does not fail the run. Lines of metrics.jsonl that cannot be written are stored in memory, up to 1 MiB,
 * until writing succeeds again. If lines are lost, the run fails with ZR_ERR_IO at the end.
 *
 * Memory limit. With activation_checkpointing.policy auto and no memory.limit, the limit of each rank is nine tenths
 * of its share of the available host memory, or its share of a GPU. The ranks agree on the lowest limit. A note
 * reports it, and the saved configuration of the run has it.
 *
 * Hangs. If a rank neither works nor waits for other ranks, observer->hang is called to end the job after
 * train.hang_timeout without progress.
 *
 * Failures of one rank. Most failures are agreed on, so that all ranks return the same status. If a rank fails alone,
 * for example because it cannot read its offloaded states during a step, result->agreed is false on this rank. It has
 * then freed the run without waiting for other ranks, and only zr_comm_abort and zr_comm_destroy may be called.
 *
 * Collective. Errors: ZR_ERR_STOPPED after `stop` (the checkpoint has been written); ZR_ERR_DIVERGED, also if the
 * last loss or the weights are not finite; ZR_ERR_MEMORY; ZR_ERR_CREATE; ZR_ERR_IO; and the errors of the layers
 * data, checkpoint, config, engine and comm.
 */
ZR_API ZR_NODISCARD zr_status zr_train_run(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                           zr_train_result *result);

/**
 * Resume the run in train.output_dir from its newest complete checkpoint. Damaged checkpoints are skipped with a
 * note. If the directory has no run, or a run that has no checkpoint yet, training begins at step 0.
 *
 * The number of ranks, the stage, layout, types, bucket sizes and micro-batch size may differ from the earlier run.
 * If all of these are equal, training continues as if it had never ended, with the same losses to the last bit.
 * Otherwise the resumed state still has the same bits. docs/reproducibility.md describes how later results may then
 * differ. If other parts of the configuration have changed, the new values are used, and a note reports each
 * change. Lines of metrics.jsonl after the checkpoint's step are removed. An existing model/ is replaced when the run
 * ends.
 *
 * Collective. Errors:
 * - the errors of zr_train_run
 * - ZR_ERR_CONFIG if the checkpoint has another model, or a step after train.steps
 * - ZR_ERR_DATA if the data or the tokenizer differ, or if no checkpoint is complete
 * - ZR_ERR_CREATE if the directory belongs to another job
 * - ZR_ERR_CREATE if it has files of a run, but neither metrics.jsonl nor a checkpoint
 * - ZR_ERR_CREATE if its run has ended without a checkpoint
 * - ZR_ERR_CREATE if it has weights of a later step than the newest checkpoint, because they would be replaced
 */
ZR_API ZR_NODISCARD zr_status zr_train_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer,
                                              zr_train_result *result);

/* ---- runs on threads, with texts in place of structs: for other languages ---------------------- */

/** Maximum number of ranks that can run as threads of a process. */
#define ZR_TRAIN_MOST_THREADS 1024

/** Flags of zr_train_config, joined by |. */
enum {
    ZR_TRAIN_RESUMES =
        1, /* like `zr train --resume`: keep the run's optimizer and train_batch_size (zr_train_resume) */
    ZR_TRAIN_CHOOSES = 2, /* like the option --memory: choose stage, recompute and micro-batch, if they are not given */
    ZR_TRAIN_PLAIN = 4    /* leave out the recipe */
};

/** Load a configuration and complete it for a run with `ranks` ranks, as `zr train` does: zr_config_load, the recipe of
 * a model's size for optimizer and scheduler if they are not given, and zr_train_prepare. `how` has flags. With
 * ZR_TRAIN_RESUMES, the config.json in a run's directory is a path that gives train.output_dir too. `train` and `val`
 * give samples in place of the files data.train and data.val; they are borrowed, and may be NULL. Errors: ZR_ERR_ARG
 * for ranks, or if a run to resume is not named; and those of zr_config_load and zr_train_prepare. */
ZR_API ZR_NODISCARD zr_status zr_train_config(const char *path, const char *const *overrides, int n_overrides,
                                              int ranks, unsigned how, int64_t unix_sec, const zr_source *train,
                                              const zr_source *val, zr_config **config);

/** Receiver of a run's events. `kind` is "start", "step", "eval", "saved", "note" or "warn". `text` is a JSON object,
 * or for "note" and "warn" one line for the user. A step or an evaluation has the object that metrics.jsonl gets. */
typedef void (*zr_train_event_fn)(void *arg, const char *kind, const char *text);

/** Train as zr_train_run does, or with `resume` as zr_train_resume does, with `ranks` threads of this process as ranks.
 * Events are reported on the thread of rank 0. The run reads *asked while it trains: bit 0 asks it to stop with a
 * checkpoint, and bit 1 to write a checkpoint after each step until the caller clears it. `event` and `asked` may be
 * NULL. After success and after ZR_ERR_STOPPED, *json receives the results as `zr train --json` prints them; free it
 * with zr_free. Otherwise *json is NULL. Errors: as those of zr_train_run, with the message of rank 0. */
ZR_API ZR_NODISCARD zr_status zr_train_threads(const zr_config *config, int ranks, bool resume, zr_train_event_fn event,
                                               void *arg, const int *asked, char **json);

/** Arguments of zr_train_reference. Zero-initialise. */
typedef struct zr_reference {
    int64_t steps;    /* number of training steps */
    zr_source source; /* samples; those of a step are asked for at once */
    /* number of earlier updates; if it is positive, `fill` gives the optimizer's states too */
    int64_t updates;
    /** Write elements [first, first+n) of a state of parameter `name` before the first step to `out`: the state
     * "weight", or the name of an optimizer's state, such as "exp_avg". `elems` is the number of the parameter's
     * elements. If NULL, parameters get the model's own initial values. */
    zr_status (*fill)(void *arg, const char *state, const char *name, int64_t elems, int64_t first, int64_t n,
                      float *out);
    /** Receive elements [first, first+n) of a state of parameter `name` after the last step: a state that `fill` gives,
     * or "grad". */
    zr_status (*read)(void *arg, const char *state, const char *name, int64_t elems, int64_t first, int64_t n,
                      const float *in);
    void *arg; /* argument of `fill` and `read` */
} zr_reference;

/** Perform training steps with given weights and samples, with `ranks` threads of this process as ranks, at any stage
 * and layout, and write no files. The results are those with which another implementation is compared: losses, norms,
 * gradients, new weights and optimizer states. Callbacks are called on the threads of ranks, which may call them at the
 * same time for different elements. Gradients are those of the last step, before clipping; they are not passed if the
 * layout has freed them (zr_engine_read). *json receives an object with the lists "loss", "grad_norm", "lr" and
 * "skipped" of the steps, with null for a number that is not finite, and "shapes", the shape of each parameter; free it
 * with zr_free. `config` is prepared for these ranks (zr_train_config). Errors: those of the callbacks; ZR_ERR_ARG for
 * `updates`; ZR_ERR_UNSUPPORTED for models other than decoders, and for earlier updates if the layout has further
 * states (ZR_STATE_SENT, ZR_STATE_ERROR); ZR_ERR_DATA for a token outside the vocabulary; ZR_ERR_DIVERGED; and the
 * errors of engine and plan. */
ZR_API ZR_NODISCARD zr_status zr_train_reference(const zr_config *config, int ranks, const zr_reference *args,
                                                 char **json);

/* ---- with trained weights -------------------------------------------------------------------- */

/** Result of evaluating trained weights (`zr eval`). */
typedef struct zr_eval_result {
    double loss;       /* mean of the losses that count, in nats (natural logarithms); with several terms, their sum */
    double perplexity; /* e^loss; with several terms, e to the loss of the first term */
    double bits_per_byte; /* loss in bits per byte of text; NaN if the number of bytes is unknown */
    int64_t tokens;       /* number of tokens whose losses are included; with several terms, tokens of the first term */
    int terms;            /* number of loss terms, or 0 for a decoder with only one */
    struct {
        char name[ZR_NAME_MAX];
        double loss; /* as in zr_train_term */
        int64_t counted;
    } term[ZR_LOSS_TERMS];
    int64_t params;
    char data[1024]; /* path of the evaluated file */
    /* one line for the user about skipped bad lines, damaged tokens in the cache and a length of windows that zr has
     * chosen, or "" */
    char note[1024];
    int64_t bytes;       /* bytes of the text that the counted tokens encode, or -1 if unknown */
    int64_t seq, stride; /* length of the windows in tokens, and distance between their beginnings */
    /* sequence and token classification: share of samples or words whose label has the largest logit, or NAN */
    double accuracy;
    /* question answering: scores of SQuAD's evaluation in percent; token classification: F1 of entities as seqeval
     * counts them, from 0 to 1; or NAN */
    double exact, f1;
    double precision, recall; /* token classification: of entities, from 0 to 1, or NAN */
    int64_t samples;          /* number of samples, words or questions in accuracy, exact and f1 */
    int64_t entities;         /* token classification: number of entities in the data */
    /* SQuAD 2.0: the number of questions without an answer, or -1 for other data; the scores of questions with an
     * answer (has_) and without (no_), in percent; the best F1 score of all thresholds, and a threshold that gives it
     */
    int64_t lack;
    double has_exact, has_f1, no_exact, best_f1, best_threshold;
    /* with zr_eval_args.answers: the answers as a JSON object {"ID": "ANSWER", ...}; free it with zr_free */
    char *answers;
    double masked_lm_accuracy; /* share of masked tokens whose original token has the largest logit, or NAN */
} zr_eval_result;

/** Maximum length in tokens of a window for the evaluation of a Hugging Face directory, if the user gives no length.
 * Many models have more positions, but the time and the activations of attention grow with the length. */
#define ZR_EVAL_SEQ 2048

/** Options of zr_eval_dir. Zero-initialise. */
typedef struct zr_eval_args {
    const char *data; /* path of the data, or NULL for the run's own data.val */
    int threads;      /* compute threads; 0 for all processors */
    /** Number of batches to evaluate, from the beginning of the data; 0 for all. A batch has train_batch_size samples,
     * as in the run's own evaluations. A Hugging Face directory has no batch size, so a batch is one sample. */
    int64_t batches;
    void (*progress)(void *arg, int64_t tokens, int64_t of_tokens); /* callback after each batch; may be NULL */
    void *arg;
    /** Length T of a window in tokens, at most the model's positions. 0 for the run's data.seq_length, or for a Hugging
     * Face directory the smaller of ZR_EVAL_SEQ and the model's positions. */
    int64_t seq;
    /** Stride S in tokens between the beginnings of successive windows. S is at least 1 and at most T. All T losses of
     * the first window are counted, but only the last S losses of later windows. Thus each token counts once, and after
     * the first window it has a context of at least T-S tokens. The last window is shorter if the text ends in it. A
     * smaller S takes more time: T/S times as long as S = T. A stride of 0 means S = T, but leaves out tokens at the
     * end that do not fill a window. */
    int64_t stride;
    double null_threshold; /* question answering: give no answer if its logits exceed the best answer's by more */
    bool answers;          /* question answering: whether to return zr_eval_result.answers; requires `batches` 0 */
    bool as_text;          /* whether the data are read as plain text, as with data.format "text" */
    int64_t token_bytes;   /* data.token_bytes, 2 or 4; 0 for the run's value */
    /* data.columns and data.chat_template; NULL for the run's values */
    const char *columns, *chat_template;
} zr_eval_args;

/** Compute the loss of trained weights on a text or a token file. For text classification and question answering, also
 * compute scores. `dir` is a run's directory, a checkpoint or a Hugging Face directory. A text is encoded with the
 * first tokenizer that exists: the run's tokenizer, the tokenizer beside the weights, the tokenizer in the run's
 * model/, or "bytes" if the model has 256 tokens. The tokens are cached as described at zr_data_open_with. Not
 * collective. Errors: ZR_ERR_ARG for an invalid length or stride; ZR_ERR_UNSUPPORTED for a text without a tokenizer, or
 * a stride with several sources; ZR_ERR_DATA if the text is shorter than a window; ZR_ERR_DIVERGED if the loss is not
 * finite. Source of the stride: "Perplexity of fixed-length models" in the guide of Hugging Face transformers. */
ZR_API ZR_NODISCARD zr_status zr_eval_dir(const char *dir, const zr_eval_args *args, zr_eval_result *result);

/** Report of a generated text. */
typedef struct zr_generated {
    int64_t sample; /* index of the generated text, from 0 */
    uint64_t seed;
    int64_t tokens; /* number of generated tokens, including the tokens of the stop text */
    bool stopped;   /* whether the text ended at a stop text (zr_generate_args.stop) or at a token that ends a text */
} zr_generated;

typedef struct zr_generate_args {
    const char *prompt;
    int64_t prompt_bytes;
    int64_t tokens;     /* number of tokens to generate */
    double temperature; /* sampling temperature; 0 to always choose the most likely token */
    int64_t top_k;      /* number k of most likely tokens among which the next token is drawn; 0 for all tokens */
    uint64_t seed;
    int threads; /* compute threads; 0 for all processors */
    /* probability for nucleus sampling: after top_k, the next token is drawn from the smallest set of most likely
     * tokens whose share of the remaining probability is at least top_p; 0 or 1 for all tokens */
    double top_p;
    /* number of texts to generate; 0 means one. Text i uses the seed `seed` + i, and does not depend on the other texts
     */
    int64_t samples;
    /* array of n_stop stop texts. A generated text ends before the first stop text in it. Text that may be the
     * beginning of a stop text is held back until later tokens decide this */
    const char *const *stop;
    int64_t n_stop;
    bool past_end; /* whether to go on after a token that ends a text */
    /* whether the prompt is the message of a user, which the chat template of the weights' tokenizer turns into a text;
     * the generated text is the answer */
    bool chat;
    const char *system; /* with `chat`: system prompt, or NULL */
    /* with `chat`: name of the template's form; NULL for the run's data.chat_template, or the template in the
     * tokenizer's directory */
    const char *chat_template;
    zr_status (*done)(void *arg, const zr_generated *text); /* callback after the end of each text; may be NULL */
} zr_generate_args;

/** Callback that receives generated text, usually of one token. One call receives the text of several tokens if text
 * was held back because of a stop text. */
typedef zr_status (*zr_emit_fn)(void *arg, const char *text, int64_t bytes);

/** Sampling settings, with the meaning of the members of zr_generate_args. */
typedef struct zr_sampling {
    double temperature;
    int64_t top_k;
    double top_p;
} zr_sampling;

/** Read the sampling settings in the generation_config.json of a directory. As in transformers, do_sample is false
 * unless the file sets it; the temperature is then 0. Fail with ZR_ERR_NOT_FOUND if the directory lacks the file, and
 * with ZR_ERR_DATA if its values are not valid. */
ZR_API ZR_NODISCARD zr_status zr_sampling_of_dir(const char *dir, zr_sampling *sampling);

/** Generate text that continues a prompt, with the weights in `dir`. A text ends at a token that eos_token_id of
 * generation_config.json or config.json names, unless past_end is set; this token has no text. Token i is chosen by the
 * uniform random number (seed, SAMPLE, i). The key-value cache has room for the prompt and the generated tokens, but at
 * most for n_positions tokens. When the text exceeds n_positions tokens, its last n_positions/2 tokens become the new
 * context. A prompt begins with the tokens that the tokenizer's post_processor puts at the beginning of a text. If it
 * puts none, an empty prompt is replaced by the token that separates documents, or by a newline. Among equally likely
 * tokens, top_k and top_p prefer tokens with lower numbers. Not collective. Fail with ZR_ERR_ARG for invalid sizes, a
 * top_p outside [0, 1] or an empty stop text. Fail with ZR_ERR_UNSUPPORTED if `chat` is set and there is no chat
 * template that zr can use. Source of top_p: Holtzman et al. 2020, "The curious case of neural text degeneration". */
ZR_API ZR_NODISCARD zr_status zr_generate(const char *dir, const zr_generate_args *args, zr_emit_fn emit, void *arg);

#ifdef __cplusplus
}
#endif
#endif
