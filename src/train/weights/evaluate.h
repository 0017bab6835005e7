/** Loss over windows of a file, distributed over the ranks. */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "train/family/family.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/plan.h"

/** Input of an evaluation: the first `windows` windows that `read` returns from `source`, for a model of `family`. */
typedef struct zr__eval_text {
    const zr__family *family;
    void *source;
    zr__data_fn read;
    int64_t windows;
    int64_t stride;  /* targets that count in each window after the first, which counts all T; T: no overlap */
    int64_t lacking; /* targets missing from the last window, which reaches beyond the end of the text */
} zr__eval_text;

/** One rank's part of an evaluation. */
typedef struct zr__eval_part {
    zr_exact sum; /* exact sum of its tokens' losses, whichever rank has which window */
    int64_t tokens;
    zr_status data; /* status of reading its windows; latched, since a rank that stopped would leave others waiting */
} zr__eval_part;

/** A callback after each batch, with the number of windows that all ranks have done. Its failure, the same on all
 * ranks, ends the evaluation. */
typedef struct zr__eval_watch {
    zr_status (*done)(void *arg, int64_t windows);
    void *arg;
} zr__eval_watch;

/** Evaluate this rank's part of the windows; watch NULL: no callback. Every rank makes the same number of calls; rows
 * beyond the last window are padded with targets that do not count. The caller agrees on part->data. Collective. */
ZR_NODISCARD zr_status zr__evaluate(zr_engine *engine, const zr_comm *comm, const zr_layout *layout,
                                    const zr__eval_text *text, const zr__eval_watch *watch, zr__eval_part *part);

/** Compute the mean over all parts: the same at any number of ranks as long as micro-batches keep their size.
 * Collective. */
ZR_NODISCARD zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, double *loss, int64_t *tokens);

#endif
