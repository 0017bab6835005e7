/**
 * The state of a training run, shared by the files of this folder. run_check.c and same_inputs.c check everything
 * before the run creates anything. run.c has the order of a run. start.c starts it, and announce.c tells its choices.
 * step.c performs a training step on the rows of batch.c, validate.c evaluates, and sample.c generates texts.
 * requests.c handles requests, save.c and save_files.c write checkpoints, resume.c continues from a checkpoint, and
 * finish.c ends the run. agree.h has the functions by which ranks agree, notes.h the functions that inform the
 * observer, and log.h the functions that write metrics.
 */
#ifndef ZR_TRAIN_RUN_H
#define ZR_TRAIN_RUN_H

#include "checkpoint/checkpoint.h"
#include "train/dir/checkpoint_run.h"
#include "train/watch/hang.h"
#include "train/family/inputs.h"
#include "train/family/rows_ahead.h"
#include "train/dir/run_dir.h"
#include "train/watch/watch.h"
#include "train/family/family.h"
#include "train/control/control.h"
#include "train/choose/choose.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/data.h"
#include "zr/device.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

/** The checkpoint from which a run resumes, and the other checkpoints in its directory. */
typedef struct zr__resume {
    bool asked;
    bool there;   /* whether the directory already belongs to a run */
    int64_t step; /* step of the checkpoint from which the run resumes; -1 without a checkpoint */
    bool anew;    /* whether the checkpoint lacks states of this optimizer, so that they begin at zero */
    double read_sec;
    /* `steps` lists the steps of all n checkpoints in the directory, newest first, on rank 0. The checkpoints before
     * index `next` were skipped because they are damaged. `from` is the chosen checkpoint's record of its run. Only
     * rank 0 has the configuration in this record. */
    int64_t *steps, n, next;
    zr__checkpoint_run from;
} zr__resume;

typedef struct zr__run {
    const zr_config *config;
    zr_config settled;      /* copy of the caller's configuration in which the run sets keys such as memory.limit */
    const zr_config *given; /* the caller's configuration; NULL as long as `config` points to it */
    zr_comm *comm;
    const zr_observer *observer;
    int64_t peak_before_bytes; /* peak memory of this process in bytes when the run began */
    zr_train_result *result;
    zr__family_model model;
    zr__inputs inputs;
    zr__hf_source *source; /* record of the directory that the weights come from, or NULL; rank 0 only */
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
    zr__run_dir dir; /* directory of the run; rank 0 only */
    /* size and hash of the data, and of the base of adapters; complete only on rank 0 */
    zr__file_print train, val, base;
    zr__resume resume;
    /* numbers of steps and samples that earlier starts of the run completed; 0 unless it resumes */
    int64_t from_step, from_sample;
    char chosen_note[ZR_TRAIN_NOTE_BYTES]; /* description of the values chosen for keys that the configuration left
                                              open, or "" */
    zr__run_made made; /* results of earlier starts of this run; best_loss is updated whenever weights with a lower loss
                          are written to best/ */
    int64_t saved_step;      /* step of the newest checkpoint; -1 without a checkpoint */
    struct zr__save *saving; /* the asynchronous checkpoint that is being written, or NULL */
    /* estimated seconds of a training step; seconds that the last checkpoint took; 0 if unknown */
    double step_sec, save_sec;
    char save_failure[512]; /* message of the first save that failed, or "" */
    zr_status save_failed;  /* status of the first save that failed: ZR_ERR_MEMORY or ZR_ERR_IO */
    zr__watch watch;
    zr__hang *hang;     /* watcher for hangs; NULL if another rank of this process watches, or if watching is off */
    zr_timings timings; /* times of steps, set at the end of the run if requested */
    zr_train_info info;
    int64_t rows_ahead;     /* number of rows that a thread reads ahead; 0: none */
    int64_t ahead_bytes;    /* memory of the data and of the rows that are read ahead, in bytes */
    zr__rows_ahead *ahead;  /* rows that are read ahead, or NULL */
    double data_wait_sec;   /* seconds for which the current training step has read data */
    zr_status batch_failed; /* status of this rank's first failed read, which other ranks get at the next agreement */
    bool reserved;          /* whether disk space is reserved for the weights and still unused; rank 0 only */
    bool suspect;           /* whether the last loss was not finite; the cause may be a bad batch or bad weights */
    bool out_of_time;       /* whether the run stops at observer->end_sec, as far as this rank knows */
    bool mixed;             /* whether an update failed after it had updated some units; such weights are not saved */
    zr__loss_scaler scaler;
    zr__noise_scale noise;
    zr_tokenizer *tokenizer; /* tokenizer of sample texts, on rank 0 */
    double highest_lr;       /* highest learning rate of the steps of this process */
    int64_t skipped_in_row;  /* number of consecutive skipped steps, without steps that lowered the loss scale and steps
                                in which no target counts */
    int64_t uncounted;       /* number of steps of this process in which no target counts */
} zr__run;

/** Replace the byte counts of a report by their maxima over the ranks. Ranks with more threads need more scratch
 * memory, so the counts differ. Collective. */
ZR_NODISCARD zr_status zr__run_highest_report(zr__run *r, zr_report *report);

/** Return the caller's configuration, with the values that the run chose for open keys. Pointers in it are borrowed. */
zr_config zr__run_given(const zr__run *r);

/** Return the peak FLOP/s that is the reference for this rank's matrix products, or 0 if it is unknown. */
double zr__run_peak_flops(const zr__run *r);
/** Set the peak FLOP/s. Read the peak that `zr info --bench` has recorded. If it has not, measure the peak in a few
 * milliseconds, while the other ranks wait and do not disturb the measurement. Rank 0 only. */
void zr__run_know_peak(zr__run *r);

/** Check that token files and initial weights are the same on all ranks, and that each token is in the vocabulary. If
 * not, fail with ZR_ERR_DATA, naming the deviating rank or the token. Collective. */
ZR_NODISCARD zr_status zr__run_same_inputs(zr__run *r);

/** Check inputs, configuration, plan and available memory, and create the device and the plan. Collective. */
ZR_NODISCARD zr_status zr__run_check(zr__run *r);

/** Allocate memory, fill the states and create the outputs. Allocate first, so that a run with too little memory
 * creates no directory. Collective. */
ZR_NODISCARD zr_status zr__run_start(zr__run *r);
/** Inform the observer that the run starts, and report the choices that the configuration left to zr. */
void zr__run_announce(zr__run *r);

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
ZR_NODISCARD zr_status zr__run_complete_weights(zr__run *r);
/** Set made.best_loss to the recorded loss of the weights in best/. If best/ has no weights, set made.best_loss to
 * infinity. If trained.json in best/ has no values, leave made.best_loss at the lowest loss in metrics.jsonl. Rank 0
 * only. Errors: ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__run_know_best(zr__run *r);
/** Close metrics.jsonl, unless zr__run_end has closed it, and report lost lines. */
void zr__run_tell_metrics(zr__run *r);

/** Return the index in data.train of a step's first sample. Steps and samples count from 0. */
int64_t zr__run_sample(const zr__run *r, int64_t step);
/** Return ZR_ERR_STOPPED if any rank was asked to stop or has no time left. Call this within a step or an evaluation.
 * Collective. */
ZR_NODISCARD zr_status zr__run_stop_asked(zr__run *r);
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
ZR_NODISCARD zr_status zr__run_collect_trace(zr__run *r, int64_t step);

/** Return the arguments of a training step. `batch` is the function that fills the inputs of a micro-batch. */
zr_step_args zr__run_step_args(zr__run *r, int64_t step, zr_batch_fn batch);
/** Read the data of one micro-batch. This is a zr_batch_fn whose `arg` is the run. On failure, also store the status in
 * `batch_failed`. */
zr_status zr__run_read(void *arg, const zr_batch *batch, void *const *input);
/** Count the losses in a micro-batch of a model with several loss terms, before the step reads the micro-batch. This is
 * a zr_count_fn; it treats failures like zr__run_read. */
zr_status zr__run_count(void *arg, const zr_batch *batch);

#endif
