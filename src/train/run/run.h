/** A training run as its parts see it: run_check.c looks, run.c begins it and makes the steps, save.c writes
 * checkpoints, resume.c goes on from one, finish.c ends it. */
#ifndef ZR_TRAIN_RUN_H
#define ZR_TRAIN_RUN_H

#include "train/dir/checkpoint_run.h"
#include "train/watch/hang.h"
#include "train/family/inputs.h"
#include "train/dir/run_dir.h"
#include "train/watch/watch.h"

/** The checkpoint that a run goes on from. */
typedef struct zr__resume {
    bool asked;
    bool there;   /* the directory holds a run */
    int64_t step; /* the checkpoint's, -1: there is none */
    bool anew;    /* it has not all states of this optimizer: they begin at zero */
    double read_sec;
    /* Rank 0's: all steps that have one, newest first, those before `next` passed over. What it says; of that the other
     * ranks have the numbers. */
    int64_t *steps, n, next;
    zr__checkpoint_run from;
} zr__resume;

typedef struct zr__run {
    const zr_config *config;
    zr_config settled;      /* a copy of it with what only a run can settle: a memory.limit, the ranks of a host */
    const zr_config *given; /* what it is a copy of; NULL: nothing was settled */
    zr_comm *comm;
    const zr_observer *observer;
    int64_t peak_before_bytes; /* of this process, when the run began */
    zr_train_result *result;
    zr_family_model model;
    zr__inputs inputs;
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
    zr__run_dir dir;           /* rank 0's */
    zr__file_print train, val; /* what was found in the files; rank 0's, others may differ */
    zr__resume resume;
    int64_t from_step, from_sample; /* done before this run, of steps and of samples; 0 where it does not go on */
    char chosen_note[ZR_TRAIN_NOTE_BYTES]; /* what was chosen of what was left open; "": nothing */
    zr__run_made made;                     /* before this run; best_loss: of the weights in best/, also its own */
    int64_t saved_step;                    /* of the newest checkpoint, -1: none */
    struct zr__save *behind;               /* the checkpoint on its way behind steps, NULL: none is */
    double step_sec, save_sec;             /* what one takes, by the last ones; 0: none was made */
    char save_failure[512];                /* the first one that could not be written, "" */
    zr_status save_failed;                 /* why: ZR_ERR_MEMORY, or ZR_ERR_IO for everything else */
    zr__watch watch;
    zr__hang *hang;     /* NULL: another rank of this process watches, or nobody does */
    zr_timings timings; /* at the end, if asked for */
    zr_train_info info;
    bool reads_ahead;       /* the next micro-batch, on a thread */
    int64_t ahead_bytes;    /* that this takes */
    double data_wait_sec;   /* of the training step that runs */
    zr_status batch_failed; /* this rank's data: the others know of it when they have agreed */
    bool reserved;          /* rank 0: room for the weights, not yet filled */
    bool suspect;           /* the last loss was not finite: it may be the batch, or the weights */
    bool out_of_time;       /* it stops for observer->end_sec, by what this rank knows */
    bool mixed;             /* some units are updated and some are not: no weights to keep */
    zr_loss_scaler scaler;
    zr_noise_scale noise;
    zr_tokenizer *tokenizer; /* rank 0's, where texts are written */
    int64_t skipped_in_row;  /* without those that lowered the loss scale */
} zr__run;

/** A phase begins on this rank: those who watch are shown it. */
void zr__run_enter(const zr__run *r, zr__phase phase);

/** Tell rank 0's observer; one line. */
void zr__run_note(const zr__run *r, const char *text);
/** Tell of something that could not be written: also those who want no notes. */
void zr__run_warn(const zr__run *r, const char *text);

/** `st` comes out of a call that agreed on it: every rank has it, unless it says that ranks cannot agree. */
zr_status zr__run_agreed(zr__run *r, zr_status st);
/** zr_comm_agree. Collective. */
zr_status zr__run_agree(zr__run *r, zr_status mine);
/** Each of n numbers becomes its highest over the ranks. Collective. */
ZR_NODISCARD zr_status zr__run_highest(zr__run *r, double *number, int n);

/** The report's bytes become the highest rank's: ranks with more threads take more scratch. Collective. */
ZR_NODISCARD zr_status zr__run_highest_report(zr__run *r, zr_report *report);

/** The configuration as it was given, with what was left open and is chosen. What it points to is not its own. */
zr_config zr__run_given(const zr__run *r);

/** The type that this rank's matrix products are made in: fp16 is always widened. */
zr_dtype zr__run_dtype(const zr__run *r);
/** Of those products; 0: not measured. */
double zr__run_peak_flops(const zr__run *r);

/** Long work before the first step; zero-initialise. */
typedef struct zr__progress {
    zr__run *run;
    char what[512];   /* "data.train: looking at all of x.txt" */
    double next_news; /* clock; 0: nothing was done yet */
} zr__progress;
/** A zr_progress_fn, arg is a zr__progress: it shows that the rank moves, and tells now and then how far it is. */
void zr__run_progress(void *arg, int64_t done, int64_t all);

/** Every rank's token files and initial weights hold the same; each token is in the vocabulary. ZR_ERR_DATA naming the
 *  odd rank, or the token. Collective. */
ZR_NODISCARD zr_status zr__run_same_inputs(zr__run *r);

/** Look at everything: inputs, configuration, plan, room; make the device and the plan. Collective. */
ZR_NODISCARD zr_status zr__run_check(zr__run *r);

/** Make room for the weights, before training. Rank 0. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_reserve(zr__run *r);
/** That room goes where no weights came of it. */
void zr__run_release(zr__run *r);

/** The end of a run whose training ended with `st`, and began when zr_clock_sec was `begin`: save the weights where
 * they are good, and what was measured; the status of the run, with where the weights are. Collective. */
ZR_NODISCARD zr_status zr__run_end(zr__run *r, zr_status st, double begin);

/** Write the weights as best/, in place of earlier ones; made.best_loss is theirs once all of them are written. A
 *  failure is told, and the run goes on: at its end it fails. Collective. */
ZR_NODISCARD zr_status zr__run_keep_best(zr__run *r);
/** Complete model/ and best/ where a run that was killed had begun to. Rank 0. ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_complete_weights(zr__run *r);
/** Find the loss of the weights in best/, into made.best_loss; infinity: there are none. Where they do not say it, it
 *  stays the lowest of metrics.jsonl. Rank 0. ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__run_know_best(zr__run *r);
/** Close metrics.jsonl where zr__run_end did not: lines that are lost are told. `st`, the run's status, keeps its
 *  message. */
void zr__run_tell_metrics(zr__run *r, zr_status st);

/** The first sample of a step (from 0). */
int64_t zr__run_sample(const zr__run *r, int64_t step);
/** Did any rank ask to stop, or is the time over? Within a step or an evaluation. ZR_ERR_STOPPED. Collective. */
ZR_NODISCARD zr_status zr__run_stop_asked(zr__run *r);
/** What was any rank asked, after a step? Another one may be too long for the time that is left: ZR_ERR_STOPPED then
 *  too. Saves. Collective. */
ZR_NODISCARD zr_status zr__run_asked(zr__run *r);

/** Events of a training step, to the trace; its news are told. Collective. */
ZR_NODISCARD zr_status zr__run_collect_trace(zr__run *r, int64_t step);

/** What a step is given; `batch` fills its inputs. */
zr_step_args zr__run_step_args(zr__run *r, int64_t step, zr_batch_fn batch);
/** The data of one micro-batch; a zr_batch_fn, arg is the run, which keeps a failure in `batch_failed`. */
zr_status zr__run_read(void *arg, const zr_batch *batch, void *const *input);

#endif
