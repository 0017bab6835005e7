/** Mean loss over the windows of a file, which are distributed over the ranks. */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "train/family/family.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/plan.h"

/** Input of an evaluation: the first `windows` windows, which `read` reads from `source`. */
typedef struct zr__eval_text {
    zr_samples kind;
    void *source;
    zr__data_fn read;
    int64_t windows;
} zr__eval_text;

/** Result of one rank's part of an evaluation. */
typedef struct zr__eval_part {
    zr_exact sum[ZR_LOSS_TERMS];    /* exact sum of each term's losses, independent of how windows are distributed over
                                       ranks */
    int64_t counted[ZR_LOSS_TERMS]; /* number of losses of each term that count */
    zr_status data; /* status of the first failed read; the rank continues, since other ranks wait for it */
} zr__eval_part;

/** Callback after each batch. `windows` is the number of windows that all ranks have completed. If the callback fails,
 * the evaluation ends. The callback must then fail with the same status on all ranks. */
typedef struct zr__eval_watch {
    zr_status (*done)(void *arg, int64_t windows);
    void *arg;
} zr__eval_watch;

/** Evaluate this rank's part of the windows. `watch` may be NULL. Every rank evaluates the same number of batches. Rows
 * beyond the last window are padded with targets that do not count. Afterwards, the caller must agree with all ranks on
 * part->data. Collective. */
ZR_NODISCARD zr_status zr__evaluate(zr_engine *engine, const zr_comm *comm, const zr_layout *layout,
                                    const zr__eval_text *text, const zr__eval_watch *watch, zr__eval_part *part);

/** Result of an evaluation. */
typedef struct zr__eval_mean {
    double loss;                        /* sum of the losses of the terms; with one term, its mean loss */
    zr_term_result term[ZR_LOSS_TERMS]; /* mean loss of each term, or 0 if none of its losses counts */
} zr__eval_mean;

/** Compute the mean losses of the `terms` terms over the parts of all ranks. The result does not depend on the number
 * of ranks, provided that micro-batches have the same size. Collective. */
ZR_NODISCARD zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, int terms, zr__eval_mean *mean);

#endif
