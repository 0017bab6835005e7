/** Mean loss over the windows of a file, which are distributed over the ranks. */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "train/family/family.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/plan.h"

/** Input of an evaluation, for a model of `family`: the first `windows` windows, which `read` reads from `source`. */
typedef struct zr__eval_text {
    const zr__family *family;
    void *source;
    zr__data_fn read;
    int64_t windows;
    int64_t stride;  /* number of targets that count in each window except the first, in which all count */
    int64_t lacking; /* number of targets missing in the last window, which reaches beyond the end of the text */
} zr__eval_text;

/** Result of one rank's part of an evaluation. */
typedef struct zr__eval_part {
    zr_exact sum; /* exact sum of the losses of tokens, whatever rank has which windows */
    int64_t tokens;
    zr_status data; /* first error in reading windows; the rank continues after it, since other ranks wait for it */
} zr__eval_part;

/** Callback after each batch. `windows` is the number of windows that all ranks have completed. If the callback fails,
 * it fails with the same status on all ranks, and the evaluation ends. */
typedef struct zr__eval_watch {
    zr_status (*done)(void *arg, int64_t windows);
    void *arg;
} zr__eval_watch;

/** Evaluate this rank's part of the windows. `watch` may be NULL. Every rank evaluates the same number of batches; rows
 * beyond the last window are padded with targets that do not count. Afterwards, the caller must agree with all ranks on
 * part->data. Collective. */
ZR_NODISCARD zr_status zr__evaluate(zr_engine *engine, const zr_comm *comm, const zr_layout *layout,
                                    const zr__eval_text *text, const zr__eval_watch *watch, zr__eval_part *part);

/** Compute the mean loss over the parts of all ranks. The result does not depend on the number of ranks if the size of
 * micro-batches is the same. Collective. */
ZR_NODISCARD zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, double *loss, int64_t *tokens);

#endif
