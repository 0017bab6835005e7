/**
 * The state of a training run, shared by the files of this folder. run_check.c and same_inputs.c check everything
 * before anything is created. run.c starts the run and performs its steps, asked.c handles requests, save.c and
 * save_files.c write checkpoints, resume.c continues from a checkpoint, sample.c generates texts, and finish.c ends the
 * run. agree.h has the functions by which ranks agree, tell.h the functions that inform the observer.
 */
#ifndef ZR_TRAIN_RUN_H
#define ZR_TRAIN_RUN_H

#include "train/dir/checkpoint_run.h"
#include "train/watch/hang.h"
#include "train/family/inputs.h"
#include "train/dir/run_dir.h"
#include "train/watch/watch.h"
#include "train/family/family.h"
#include "train/control/control.h"
#include "train/setup/setup.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/data.h"
#include "zr/device.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

/** State of resuming: the checkpoint that a run resumes from. */
typedef struct zr__resume {
    bool asked;
    bool there;   /* whether the directory holds a run */
    int64_t step; /* step of the checkpoint; -1 if there is no checkpoint */
    bool anew;    /* whether the checkpoint lacks states of this optimizer, which then begin at zero */
    double read_sec;
    /* Rank 0 has the steps of all n checkpoints, newest first; checkpoints before index `next` were skipped as damaged.
     * `from` is the chosen checkpoint's record of its run; only rank 0 has its configuration. */
    int64_t *steps, n, next;
    zr__checkpoint_run from;
} zr__resume;

typedef struct zr__run {
    const zr_config *config;
    zr_config settled;      /* copy of `given` with keys settled by the run: memory.limit, ranks of a host, open keys */
    const zr_config *given; /* the caller's configuration; NULL if nothing was settled and `config` is the caller's */
    zr_comm *comm;
    const zr_observer *observer;
    int64_t peak_before_bytes; /* peak memory of this process when the run began */
    zr_train_result *result;
    zr__family_model model;
    zr__inputs inputs;
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
    zr__run_dir dir;           /* used on rank 0 only */
    zr__file_print train, val; /* size and hash of the data files, complete only on rank 0 */
    zr__resume resume;
    int64_t from_step, from_sample;        /* steps and samples done before this run; 0 unless it resumes */
    char chosen_note[ZR_TRAIN_NOTE_BYTES]; /* choices made for open keys; "" if no key was open */
    zr__run_made made; /* results from before this run; best_loss is lowered when better weights are written to best/ */
    int64_t saved_step;        /* step of the newest checkpoint; -1 if there is no checkpoint */
    struct zr__save *saving;   /* the asynchronous checkpoint in progress, or NULL */
    double step_sec, save_sec; /* seconds of recent steps and of the last checkpoint; 0 if unknown */
    char save_failure[512];    /* message of the first save that failed, or "" */
    zr_status save_failed;     /* status of that save: ZR_ERR_MEMORY, or ZR_ERR_IO for any other cause */
    zr__watch watch;
    zr__hang *hang;     /* NULL if another rank of this process watches, or nothing does */
    zr_timings timings; /* filled at the end, if requested */
    zr_train_info info;
    bool reads_ahead;       /* whether a thread prefetches the next micro-batch */
    int64_t ahead_bytes;    /* memory that prefetching takes */
    double data_wait_sec;   /* seconds of the current training step spent reading data */
    zr_status batch_failed; /* failure of this rank to read data; other ranks learn of it at the next agreement */
    bool reserved;          /* rank 0: whether disk space is reserved for the weights and not yet filled */
    bool suspect;           /* whether the last loss was not finite, because of the batch or of the weights */
    bool out_of_time;       /* whether the run stops because of observer->end_sec, as far as this rank knows */
    bool mixed;             /* whether an update reached only some units; the weights are then not saved */
    zr__loss_scaler scaler;
    zr__noise_scale noise;
    zr_tokenizer *tokenizer; /* for sample texts, on rank 0 */
    int64_t skipped_in_row;  /* consecutive skipped steps, without steps that lowered the loss scale */
} zr__run;

/** Replace the report's byte counts by their maxima over the ranks, since ranks with more threads need more scratch.
 * Collective. */
ZR_NODISCARD zr_status zr__run_highest_report(zr__run *r, zr_report *report);

/** Return the given configuration with the choices made for its open keys. Its pointers are borrowed. */
zr_config zr__run_given(const zr__run *r);

/** Return the peak FLOP/s that this rank's matrix products are compared with, or 0 if it was not measured. */
double zr__run_peak_flops(const zr__run *r);

/** Check that token files and initial weights are the same on all ranks, and that each token is in the vocabulary. Fail
 * with ZR_ERR_DATA, naming the deviating rank or the token, if not. Collective. */
ZR_NODISCARD zr_status zr__run_same_inputs(zr__run *r);

/** Check inputs, configuration, plan and available memory, and create the device and the plan. Collective. */
ZR_NODISCARD zr_status zr__run_check(zr__run *r);

/** Reserve disk space for the weights, before training. Rank 0 only. Errors: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_reserve(zr__run *r);
/** Free the reserved disk space, unless complete weights were written into it. */
void zr__run_release(zr__run *r);

/** End a run whose training ended with status `st` and began at time `begin` (zr_clock_sec). Save the weights if they
 * are good, and write the measurements. Return the run's status; an error message tells where the weights are.
 * Collective. */
ZR_NODISCARD zr_status zr__run_end(zr__run *r, zr_status st, double begin);

/** Write the weights as best/, replacing earlier weights there. Set made.best_loss to their loss once they are
 * complete. A failure is reported and the run continues, but returns an error at its end. Collective. */
ZR_NODISCARD zr_status zr__run_keep_best(zr__run *r);
/** Complete model/ and best/ if a killed run left them unfinished. Rank 0 only. Errors: ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_complete_weights(zr__run *r);
/** Set made.best_loss to the recorded loss of the weights in best/, or to infinity if best/ has no weights. If the
 * weights record no loss, keep the lowest loss of metrics.jsonl. Rank 0 only. Errors: ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__run_know_best(zr__run *r);
/** Close metrics.jsonl, unless zr__run_end did so, and report lost lines. Preserve the error message of `st`, the run's
 * status. */
void zr__run_tell_metrics(zr__run *r, zr_status st);

/** Return the index of the first sample of a step (from 0). */
int64_t zr__run_sample(const zr__run *r, int64_t step);
/** Return ZR_ERR_STOPPED if any rank was asked to stop or is out of time. Called within a step or an evaluation.
 * Collective. */
ZR_NODISCARD zr_status zr__run_stop_asked(zr__run *r);
/** Handle requests to any rank after a step. Write a checkpoint if requested. Return ZR_ERR_STOPPED if the run must
 * stop, also if the remaining time is too short for another step and its checkpoint. Collective. */
ZR_NODISCARD zr_status zr__run_asked(zr__run *r);

/** Write a training step's events to the trace, and report the trace's messages. Collective. */
ZR_NODISCARD zr_status zr__run_collect_trace(zr__run *r, int64_t step);

/** Return the arguments of a training step; `batch` is the function that fills its inputs. */
zr_step_args zr__run_step_args(zr__run *r, int64_t step, zr_batch_fn batch);
/** Read the data of one micro-batch. This is a zr_batch_fn whose `arg` is the run; a failure is stored in
 * `batch_failed`. */
zr_status zr__run_read(void *arg, const zr_batch *batch, void *const *input);

#endif
