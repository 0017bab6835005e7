/**
 * The state of a training run, shared by the files of this room, which holds all that a run does: run_check.c and
 * same_inputs.c check before anything is created, run.c starts the run and makes its steps, asked.c answers requests,
 * save.c and save_files.c write checkpoints, resume.c continues from one, sample.c writes texts, finish.c ends the run.
 * agree.h: ranks agree; tell.h: the observer is told.
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

/** The checkpoint that a run resumes from. */
typedef struct zr__resume {
    bool asked;
    bool there;   /* the directory holds a run */
    int64_t step; /* step of the checkpoint, -1: no checkpoint */
    bool anew;    /* the checkpoint lacks states of this optimizer, which begin at zero */
    double read_sec;
    /* Rank 0: steps of all n checkpoints, newest first; steps before index `next` were passed over. `from`: the chosen
     * checkpoint's record of its run; other ranks lack its configuration. */
    int64_t *steps, n, next;
    zr__checkpoint_run from;
} zr__resume;

typedef struct zr__run {
    const zr_config *config;
    zr_config settled; /* copy of `given` with what only a run can settle: memory.limit, ranks of a host, open keys */
    const zr_config *given; /* the caller's configuration; NULL: nothing was settled, `config` is the caller's */
    zr_comm *comm;
    const zr_observer *observer;
    int64_t peak_before_bytes; /* peak memory of this process when the run began */
    zr_train_result *result;
    zr__family_model model;
    zr__inputs inputs;
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
    zr__run_dir dir;           /* rank 0's */
    zr__file_print train, val; /* size and hash of the data files, complete on rank 0 only */
    zr__resume resume;
    int64_t from_step, from_sample;        /* steps and samples done before this run; 0 unless it resumes */
    char chosen_note[ZR_TRAIN_NOTE_BYTES]; /* choices made for open keys; "": no key was open */
    zr__run_made made;                     /* results from before this run; best_loss is kept up to date with best/ */
    int64_t saved_step;                    /* step of the newest checkpoint, -1: no checkpoint */
    struct zr__save *saving;               /* the asynchronous checkpoint in progress, or NULL */
    double step_sec, save_sec;             /* seconds of recent steps and of the last checkpoint; 0: not known yet */
    char save_failure[512];                /* message of the first save that failed, or "" */
    zr_status save_failed;                 /* its status: ZR_ERR_MEMORY, or ZR_ERR_IO for every other cause */
    zr__watch watch;
    zr__hang *hang;     /* NULL: another rank of this process watches, or nobody does */
    zr_timings timings; /* filled at the end, if asked for */
    zr_train_info info;
    bool reads_ahead;       /* a thread prefetches the next micro-batch */
    int64_t ahead_bytes;    /* memory of this prefetch */
    double data_wait_sec;   /* seconds of the current training step spent reading data */
    zr_status batch_failed; /* failure of this rank to read data, which other ranks learn of when they agree */
    bool reserved;          /* rank 0: disk space is reserved for the weights and not yet filled */
    bool suspect;           /* the last loss was not finite; the cause may be the batch or the weights */
    bool out_of_time;       /* the run stops because of observer->end_sec, as far as this rank knows */
    bool mixed;             /* only some units were updated, so the weights are not kept */
    zr__loss_scaler scaler;
    zr__noise_scale noise;
    zr_tokenizer *tokenizer; /* rank 0, where sample texts are written */
    int64_t skipped_in_row;  /* skipped steps in a row, except steps that lowered the loss scale */
} zr__run;

/** Replace the report's bytes by their maxima over the ranks, since ranks with more threads take more scratch.
 * Collective. */
ZR_NODISCARD zr_status zr__run_highest_report(zr__run *r, zr_report *report);

/** Return the given configuration with the choices for its open keys. Its pointers are borrowed. */
zr_config zr__run_given(const zr__run *r);

/** Return the peak FLOP/s that this rank's matrix products are compared with; 0: not measured. */
double zr__run_peak_flops(const zr__run *r);

/** Check that token files and initial weights are the same on all ranks, and each token is in the vocabulary.
 * ZR_ERR_DATA naming the odd rank, or the token. Collective. */
ZR_NODISCARD zr_status zr__run_same_inputs(zr__run *r);

/** Check inputs, configuration, plan and available memory; create the device and the plan. Collective. */
ZR_NODISCARD zr_status zr__run_check(zr__run *r);

/** Reserve disk space for the weights, before training. Rank 0. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_reserve(zr__run *r);
/** Free this space, if no weights have been completed in it. */
void zr__run_release(zr__run *r);

/** End a run whose training ended with `st` and began at `begin` (zr_clock_sec): save the weights if they are good, and
 * the measurements. Return the run's status; the message of an error says where the weights are. Collective. */
ZR_NODISCARD zr_status zr__run_end(zr__run *r, zr_status st, double begin);

/** Write the weights as best/, replacing earlier weights; made.best_loss becomes their loss once they are complete. A
 * failure is reported and the run goes on, to fail at its end. Collective. */
ZR_NODISCARD zr_status zr__run_keep_best(zr__run *r);
/** Complete model/ and best/ if a killed run left them unfinished. Rank 0. ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_complete_weights(zr__run *r);
/** Set made.best_loss to the loss of the weights in best/, or to infinity without such weights. If they do not record a
 * loss, the lowest loss of metrics.jsonl stays. Rank 0. ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__run_know_best(zr__run *r);
/** Close metrics.jsonl, unless zr__run_end did, and report lost lines. Keeps the message of `st`, the run's status. */
void zr__run_tell_metrics(zr__run *r, zr_status st);

/** Return the first sample of a step (from 0). */
int64_t zr__run_sample(const zr__run *r, int64_t step);
/** Within a step or evaluation, return ZR_ERR_STOPPED if any rank was asked to stop or is out of time. Collective. */
ZR_NODISCARD zr_status zr__run_stop_asked(zr__run *r);
/** Handle requests to any rank after a step: write a checkpoint, or return ZR_ERR_STOPPED to stop, also if another step
 * and its checkpoint would take longer than the time that is left. Collective. */
ZR_NODISCARD zr_status zr__run_asked(zr__run *r);

/** Write a training step's events to the trace, and report its messages. Collective. */
ZR_NODISCARD zr_status zr__run_collect_trace(zr__run *r, int64_t step);

/** Return the arguments of a step; `batch` fills its inputs. */
zr_step_args zr__run_step_args(zr__run *r, int64_t step, zr_batch_fn batch);
/** Read the data of one micro-batch. A zr_batch_fn; arg is the run, which keeps a failure in `batch_failed`. */
zr_status zr__run_read(void *arg, const zr_batch *batch, void *const *input);

#endif
