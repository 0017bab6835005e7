/**
 * train/run: a training run, from its checks to the final weights. run.c has the order of a run. run_check.c and
 * settle.c check everything and choose open keys before the run creates anything. start.c starts it, and announce.c
 * tells its choices. step.c performs a training step on the rows of the data, validate.c evaluates, and sample.c
 * generates texts. requests.c handles requests, save.c writes checkpoints, resume.c continues from a checkpoint, and
 * finish.c ends the run. log.c writes metrics. threads.c runs all ranks as threads, for other languages, and
 * reference.c performs steps with given weights.
 *
 * The state of a run consists of several structs, each of which owns different things. A function that needs only one
 * of these structs takes only this struct.
 */
#ifndef ZR_TRAIN_RUN_H
#define ZR_TRAIN_RUN_H

#include "train/ranks/ranks.h"
#include "train/choose/choose.h"
#include "train/watch/watch.h"

/** The keys that a run sets. */
typedef struct zr__settled {
    zr_config config;       /* copy of the caller's configuration in which the run sets keys such as memory.limit */
    const zr_config *given; /* the caller's configuration; NULL as long as the run uses it and not the copy */
    /* description of the values chosen for keys that the configuration left open, or "" */
    char note[ZR_TRAIN_NOTE_BYTES];
} zr__settled;

/** The data and the initial weights. */
typedef struct zr__run_data {
    zr__inputs inputs;
    zr__input_prints prints; /* complete only on rank 0 */
    int64_t ahead_rows;      /* number of rows that a thread reads ahead; 0: none */
    int64_t ahead_bytes;     /* memory of the data and of the rows that are read ahead, in bytes */
    zr__rows_ahead *ahead;   /* rows of training batches */
    double wait_sec;         /* seconds for which the current training step has read data */
    zr_status failed;        /* status of this rank's first failed read, which other ranks get at the next agreement */
} zr__run_data;

/** Earlier starts of the run, and the checkpoint from which it resumes. */
typedef struct zr__resume {
    bool asked;
    bool there;       /* whether the directory already belongs to a run */
    int64_t step;     /* step of the checkpoint from which the run resumes; -1 without a checkpoint */
    bool anew;        /* whether the checkpoint lacks states of this optimizer, so that they begin at zero */
    bool errors_anew; /* whether the checkpoint lacks errors of gradients for this run, so that they begin at zero */
    bool unsent;      /* whether the checkpoint lacks the parameters as sent, which then begin as rounded ones */
    double read_sec;
    /* `steps` lists the steps of all n checkpoints in the directory, newest first, on rank 0. The checkpoints before
     * index `next` were skipped because they are damaged. `from` is the chosen checkpoint's record of its run. Only
     * rank 0 has the configuration in this record. */
    int64_t *steps, n, next;
    zr__checkpoint_run from;
    /* numbers of steps and samples that earlier starts of the run completed; 0 unless it resumes */
    int64_t from_step, from_sample;
    /* results of earlier starts of this run; best_loss is updated whenever weights with a lower loss are written to
     * best/ */
    zr__run_made made;
} zr__resume;

/** State that the training steps change, besides the model states in the engine. */
typedef struct zr__training {
    zr__loss_scaler scaler;
    zr__noise_scale noise;
    zr__early_stop early;
    double step_sec;   /* estimated seconds of a training step, or 0 if unknown */
    double highest_lr; /* highest learning rate of the steps of this process */
    /* number of consecutive skipped steps, without steps that lowered the loss scale and steps in which no target
     * counts */
    int64_t skipped_in_row;
    int64_t uncounted; /* number of steps of this process in which no target counts */
    bool suspect;      /* whether the last loss was not finite; the cause may be a bad batch or bad weights */
    bool mixed;        /* whether an update failed after it had updated some units; such weights are not saved */
    bool out_of_time;  /* whether the run stops at observer->end_sec, as far as this rank knows */
} zr__training;

/** Checkpoints and weights that the run writes. */
typedef struct zr__saving {
    int64_t step;         /* step of the newest checkpoint; -1 without a checkpoint */
    struct zr__save *now; /* the asynchronous checkpoint that is being written, or NULL */
    double sec;           /* seconds that the last checkpoint took; 0 if unknown */
    char failure[512];    /* message of the first save that failed, or "" */
    zr_status failed;     /* status of the first save that failed: ZR_ERR_MEMORY or ZR_ERR_IO */
    bool reserved;        /* whether disk space is reserved for the weights and still unused; rank 0 only */
} zr__saving;

/** What observes the run. */
typedef struct zr__watching {
    zr__watch watch;
    zr__hang *hang;     /* watcher for hangs; NULL if another rank of this process watches, or if watching is off */
    zr_timings timings; /* times of steps, set at the end of the run if requested */
    int64_t peak_before_bytes; /* peak memory of this process in bytes when the run began */
} zr__watching;

typedef struct zr__run {
    zr__ranks ranks;
    const zr_config *config; /* the caller's configuration, or settled.config */
    zr__settled settled;
    zr__family_model model;
    zr__hf_source *source; /* record of the directory that the weights come from, or NULL; rank 0 only */
    zr_device *device;
    zr_plans plans;
    const zr_plan *plan; /* plan of this rank's role */
    zr_engine *engine;
    zr__run_dir dir; /* directory of the run; rank 0 only */
    zr_train_info info;
    zr__run_data data;
    zr__resume resume;
    zr__training training;
    zr__saving saving;
    zr__watching watching;
    zr_tokenizer *tokenizer; /* tokenizer of sample texts, on rank 0 */
} zr__run;

/** Replace the byte counts of a report by their maxima over the ranks. Ranks with more threads need more scratch
 * memory, so the counts differ. Collective. */
ZR_NODISCARD zr_status zr__run_highest_report(const zr__ranks *ranks, zr_report *report);

/** Return the caller's configuration, with the values that the run chose for open keys. Pointers in it are borrowed. */
zr_config zr__run_given(const zr__run *r);
/** Choose values for keys whose values depend on ranks, hosts and rates, equal on all ranks, before the run is planned.
 * Collective. */
ZR_NODISCARD zr_status zr__run_settle(zr__run *r);
/** Return the bytes of memory.limit that hold the samples of the data, and are therefore not for the plan. On a GPU the
 * limit is for its own memory, which holds no samples. */
int64_t zr__run_held_bytes(const zr__run *r);

/** Return the peak FLOP/s that is the reference for matrix products of this dtype on a device, or 0 if it is unknown.
 */
double zr__run_peak_flops(const zr_device *device, zr_dtype dtype);

/** Check inputs, configuration, plan and available memory, and create the device and the plan. Collective. */
ZR_NODISCARD zr_status zr__run_check(zr__run *r);

/** Allocate memory, fill the states and create the outputs. Allocate first, so that a run with too little memory
 * creates no directory. Collective. */
ZR_NODISCARD zr_status zr__run_start(zr__run *r);
/** Inform the observer that the run starts, and report the choices that the configuration left to zr. */
void zr__run_announce(const zr__run *r);

/** Reserve disk space for the weights, before training. Rank 0 only. Errors: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_reserve(zr__run *r);
/** Free the disk space reserved for the weights, unless it holds complete weights. */
void zr__run_release(zr__run *r);

/** End a run. Save the weights if they are finite and give a finite loss, and write the measurements. `st` is the
 * status of training, and `begin` is the time when the run began (zr_clock_sec). Return the run's status, with a
 * message that tells where the weights are. Collective. */
ZR_NODISCARD zr_status zr__run_end(zr__run *r, zr_status st, double begin);

/** Write the weights as best/, replacing earlier weights. When they are complete, set made.best_loss to their loss.
 * After a failure, report it and continue; the run then fails at its end. Collective. */
ZR_NODISCARD zr_status zr__run_keep_best(zr__run *r);
/** Complete model/ and best/ if a killed run left them unfinished. Rank 0 only. Errors: ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_complete_weights(const zr__ranks *ranks, const zr__run_dir *dir);
/** Set made.best_loss to the recorded loss of the weights in best/. If best/ has no weights, set made.best_loss to
 * infinity. If trained.json in best/ has no values, leave made.best_loss at the lowest loss in metrics.jsonl. Rank 0
 * only. Errors: ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__run_set_best(zr__run *r);

/** Return whether the run has done its last step: train.steps, or the step at which it ends early. */
bool zr__run_is_last(const zr__run *r);
/** Return the index in data.train of a step's first sample. Steps and samples count from 0. */
int64_t zr__run_sample(const zr__run *r, int64_t step);
/** Return ZR_ERR_STOPPED if this rank was asked to stop or has no time left. The caller agrees on it with all ranks.
 * `run` is a zr__run. */
ZR_NODISCARD zr_status zr__run_stop_asked(void *run);
/** Handle the requests of all ranks after a step. Write a checkpoint if a rank requests it. Return ZR_ERR_STOPPED if a
 * rank was asked to stop, or if too little time is left for another step and its checkpoint. Collective. */
ZR_NODISCARD zr_status zr__run_asked(zr__run *r);

/** Perform the next training step and report it. Fail with ZR_ERR_DIVERGED after too many steps in a row without a
 * finite gradient. Collective. */
ZR_NODISCARD zr_status zr__run_step(zr__run *r);
/** Evaluate the model on data.val after the current step and report the loss. If it is the lowest so far and
 * train.keep_best is set, write the weights as best/. Collective. */
ZR_NODISCARD zr_status zr__run_validate(zr__run *r);

/** Write the events of a training step to the trace, and pass a message of the trace, if any, to the observer.
 * Collective. */
ZR_NODISCARD zr_status zr__run_collect_trace(const zr__ranks *ranks, zr__trace *trace, int64_t step);

/** Return the arguments of a training step that reads the run's data and is not asked to stop. */
zr_step_args zr__run_step_args(zr__run *r, int64_t step);

/* ---- the log (log.c) ------------------------------------------------------------------------------------------ */

/* The lines of metrics.jsonl, and the records of the event file. If a file cannot be written, its lines are kept in
 * memory, and a warning is given. A file that is not open, as on all ranks but 0, gets no lines. */

/** Begin the event file. For a run that resumes after step `resumed_step` (-1 for a new run), also record its first
 * step. TensorBoard then drops the data that earlier event files have for this step and later steps. */
void zr__run_log_begin(const zr__ranks *ranks, zr__run_dir *dir, int64_t resumed_step);
/** Write the scalars of the current step into metrics.jsonl and the event file, and pass them to the observer. Rank 0
 * only. */
void zr__run_log_step(const zr__ranks *ranks, zr__run_dir *dir, const zr_train_step *line);
/** Write the scalars of an evaluation after the current step, and pass them to the observer. Rank 0 only. */
void zr__run_log_eval(const zr__ranks *ranks, zr__run_dir *dir, const zr_train_eval *line);
/** Write a line of metrics.jsonl, which ends with a newline. */
void zr__run_log_text(const zr__ranks *ranks, zr__run_dir *dir, const char *line);

/** For a model with several loss terms, name the results of the terms, and return the number of terms. Return 0 for a
 * model with one term. */
int zr__run_name_terms(const zr_plan *plan, const zr_term_result *result, zr_train_term *term);

/* ---- checkpoints (save.c) ------------------------------------------------------------------------------------- */

/** Write the checkpoint of the last step, unless it already exists, and remove old checkpoints beyond train.keep_last.
 * If the write fails on all ranks, older checkpoints are unchanged. Fail with ZR_ERR_DIVERGED if a weight is not
 * finite. Other errors: ZR_ERR_IO, ZR_ERR_CREATE, ZR_ERR_NOT_FOUND. Collective. */
ZR_NODISCARD zr_status zr__run_checkpoint(zr__run *r);

/** Write a checkpoint during training, asynchronously if the plan does so and another step follows. If the checkpoint
 * cannot be written, report a warning, set `failure` for the end of the run, and return ZR_OK, so that training
 * continues. Fail only if ranks cannot agree. Collective. */
ZR_NODISCARD zr_status zr__run_save(zr__run *r);
/** Wait until the asynchronous checkpoint is written, if there is one, and finish it. Handle failures as zr__run_save
 * does. Collective. */
ZR_NODISCARD zr_status zr__run_save_end(zr__run *r);
/** Store the message of a failed save, if it is the first failure. The run returns the message as an error at its end.
 */
void zr__run_save_failed(zr__saving *saving, zr_status st, const char *why);
/** Free the state of an unfinished asynchronous checkpoint. Call this after the engine is destroyed. Not collective. */
void zr__run_save_drop(struct zr__save **save);

/* ---- resuming (resume.c) -------------------------------------------------------------------------------------- */

/* A run resumes from the newest intact checkpoint in its directory. The checkpoint may have been written with another
 * number of ranks, stage or layout. Call zr__resume_open before memory of the model's size is allocated. Call
 * zr__resume_fill when the engine exists, and zr__resume_announce afterwards. The first two functions are collective.
 */

/** Lock the directory and find the checkpoint. If the directory has no run or no checkpoint, the run begins at step 0.
 * Fail with ZR_ERR_CREATE if the directory cannot be used. Fail with ZR_ERR_IO if a checkpoint cannot be read now; it
 * is not skipped. Fail with ZR_ERR_DATA if no checkpoint is intact, or if the data or the tokenizer differs. Fail with
 * ZR_ERR_CONFIG if the model differs, or if train.steps is less than the number of completed steps. */
ZR_NODISCARD zr_status zr__resume_open(zr__run *r);

/** Fail with ZR_ERR_CONFIG if quantised gradients would be summed on other ranks than the checkpoint's, unless
 * quantization.any_ranks allows it. Call this when the plan exists. Not collective. */
ZR_NODISCARD zr_status zr__resume_check_sums(zr__run *r);

/** Fill the engine from the checkpoint. Each rank reads the elements that it owns and verifies their checksums. If the
 * checkpoint is damaged, use the next older checkpoint. Set result->steps to the step of the checkpoint used. */
ZR_NODISCARD zr_status zr__resume_fill(zr__run *r);

/** Return a pointer to `step` among the first n entries of the list of checkpoints, or NULL if it is not among them.
 * With n = resume->next these are the checkpoints that were skipped because they are damaged. Rank 0 only. */
int64_t *zr__resume_find(const zr__resume *resume, int64_t n, int64_t step);

/** Remove unfinished checkpoints. Call this only after all checks that can refuse the run. Rank 0 only. */
void zr__resume_clean(const zr__resume *resume, const zr__ranks *ranks, const char *run_dir);

/** Report where the run resumes, and which keys of its configuration have changed since the checkpoint. */
void zr__resume_announce(const zr__run *r);

void zr__resume_close(zr__resume *resume);

/** Check that train.output_dir is the same directory on all ranks. Every rank looks in it for the lock that rank 0
 * holds. If the directories differ, fail with ZR_ERR_CREATE, naming the hosts. Collective. */
ZR_NODISCARD zr_status zr__run_same_dir(const zr__ranks *ranks, const zr__run_dir *dir, const char *path);

/* ---- texts that the model generates during training (sample.c) ------------------------------------------------ */

/** Maximum bytes of a prompt (PROMPT), and of the stored part of a sample with its prompt (SAMPLE). */
#define ZR__PROMPT_BYTES 1024
#define ZR__SAMPLE_BYTES 8192

/** Open the tokenizer and check the prompt on rank 0, which writes the text. The other ranks only take part in
 * decoding. Collective. */
ZR_NODISCARD zr_status zr__sample_open(zr__run *run);
/** Generate a sample after the current step, and write it into metrics.jsonl. If the weights have diverged, write
 * nothing. Fail with ZR_ERR_STOPPED if the run is asked to stop. Collective. */
ZR_NODISCARD zr_status zr__sample_write(zr__run *run);

#endif
