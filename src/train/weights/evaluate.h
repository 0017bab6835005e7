/** Loss over windows of a file, shared out over the ranks. */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "train/family/family.h"

/** What is evaluated: the first `windows` windows that `read` gives of a source, as inputs of a model of this family.
 */
typedef struct zr__eval_text {
    const zr_family *family;
    void *source;
    zr__data_fn read;
    int64_t windows;
    int64_t stride; /* targets that count in each window behind the first, in which all T do; T: windows side by side */
    int64_t lacking; /* so many fewer in the last window, which reaches beyond the end of the text */
} zr__eval_text;

/** One rank's part of an evaluation. */
typedef struct zr__eval_part {
    zr_exact sum; /* of its tokens' losses: the same whichever rank has which window */
    int64_t tokens;
    zr_status data; /* could its windows be read? Latched: a rank that stopped there would leave the others waiting */
} zr__eval_part;

/** Told after each batch how many windows of all ranks are done. Its failure, the same on all, ends the evaluation. */
typedef struct zr__eval_watch {
    zr_status (*done)(void *arg, int64_t windows);
    void *arg;
} zr__eval_watch;

/** This rank's part of the windows; watch NULL: nobody is told. Every rank makes the same number of calls; rows beyond
 * the last window are padded with targets that count for nothing. The caller agrees on part->data. Collective. */
ZR_NODISCARD zr_status zr__evaluate(zr_engine *engine, const zr_comm *comm, const zr_layout *layout,
                                    const zr__eval_text *text, const zr__eval_watch *watch, zr__eval_part *part);

/** Mean over all parts: the same at any number of ranks as long as micro-batches keep their size. Collective. */
ZR_NODISCARD zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, double *loss, int64_t *tokens);

#endif
