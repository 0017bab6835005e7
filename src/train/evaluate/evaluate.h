/**
 * train/evaluate: the loss of weights on data. evaluate.c computes mean losses over the windows of a file, which are
 * distributed over the ranks; a run uses it too. eval_dir.c evaluates the weights of a directory: eval_windows.c has
 * the windows of a text, and eval_samples.c evaluates an encoder on samples of its task.
 */
#ifndef ZR_TRAIN_EVALUATE_H
#define ZR_TRAIN_EVALUATE_H

#include "train/weights/load.h"
#include "zr/run.h"

/** Input of an evaluation: the first `windows` windows, which `read` reads from `source`. */
typedef struct zr__eval_text {
    zr_samples kind;
    void *source;
    zr__data_fn read;
    int64_t windows;
} zr__eval_text;

/** Result of one rank's part of an evaluation. */
typedef struct zr__eval_part {
    /* exact sum of each term's losses, independent of how windows are distributed over ranks */
    zr_exact sum[ZR_LOSS_TERMS];
    int64_t counted[ZR_LOSS_TERMS]; /* number of losses of each term that count */
    zr_status data; /* status of the first failed read; the rank continues, since other ranks wait for it */
} zr__eval_part;

/** Callback after each batch. `windows` is the number of windows that all ranks have completed. If the callback fails
 * on any rank, the evaluation ends on all ranks. */
typedef struct zr__eval_watch {
    zr_status (*done)(void *arg, int64_t windows);
    void *arg;
} zr__eval_watch;

/** Evaluate this rank's part of the windows. `watch` may be NULL. Every rank evaluates the same number of batches. Rows
 * beyond the last window are padded with targets that do not count. Afterwards, the caller must agree with all ranks on
 * part->data. Collective. */
ZR_NODISCARD zr_status zr__evaluate(zr_engine *engine, zr_comm *comm, const zr_plan *plan, const zr__eval_text *text,
                                    const zr__eval_watch *watch, zr__eval_part *part);

/** Result of an evaluation. */
typedef struct zr__eval_mean {
    double loss;                        /* sum of the losses of the terms; with one term, its mean loss */
    zr_term_result term[ZR_LOSS_TERMS]; /* mean loss of each term, or 0 if none of its losses counts */
} zr__eval_mean;

/** Compute the mean losses of the `terms` terms over the parts of all ranks. The result does not depend on the number
 * of ranks, provided that micro-batches have the same size. Collective. */
ZR_NODISCARD zr_status zr__evaluate_mean(zr_comm *comm, const zr__eval_part *part, int terms, zr__eval_mean *mean);

/* ---- stored weights, on a file of any kind ------------------------------------------------------------------------
 */

/** Data to evaluate on: the path, and the part if the run held out a share of its data.train. */
typedef struct zr__eval_data {
    const char *path;
    zr_data_part part;
} zr__eval_data;

/** Add a text to the note of a result, unless the text is "". */
void zr__eval_note(zr_eval_result *result, const char *text);

/** Return the number of rows of `seq` tokens in a batch of an evaluation. */
int64_t zr__eval_batch_rows(int64_t seq);

/** Create the engine of `loaded`, evaluate on a text, and set the results that all kinds of samples have. `watch` may
 * be NULL. Errors: as zr_eval_dir. */
ZR_NODISCARD zr_status zr__evaluate_text(zr__loaded *loaded, zr_layout *layout, const zr__eval_text *text,
                                         const zr__eval_watch *watch, int threads, const char *path,
                                         zr_eval_result *result);

/* ---- encoders (eval_samples.c) ---------------------------------------------------------------------------------- */

/** Evaluate an encoder on data of its task, in rows of `seq` tokens. Errors: as zr_eval_dir. */
ZR_NODISCARD zr_status zr__evaluate_samples(zr__loaded *loaded, const zr__eval_data *data, int64_t seq,
                                            const zr_eval_args *args, zr_eval_result *result);

/* ---- windows of a text (eval_windows.c) ------------------------------------------------------------------------- */

/**
 * Windows of a text or token file. Windows may overlap, to give each predicted token more context. Window i holds the
 * tokens [iS, iS+T], with T = seq and S = stride. In the first window all targets count. In each later window, a target
 * counts only if it was not in an earlier window.
 *
 * If no stride is requested, S is T, and tokens at the end that do not fill a window are left out, as in evaluations
 * during training. If a stride is requested, the last window ends with the text, and every token except the first
 * counts exactly once.
 */
typedef struct zr__eval_windows {
    zr_data_info info; /* facts about `data` */
    int64_t seq, stride;
    bool strides;    /* whether a stride was requested */
    bool documents;  /* whether windows hold several documents (zr_layout.documents) */
    int64_t targets; /* number of targets that count, in all windows or in the limited evaluation */
    int64_t bytes;   /* text length in bytes of the targets counted so far; -1 if unknown */
    zr_data *data;
    int32_t *window;         /* buffer of T+1 tokens */
    zr_tokenizer *tokenizer; /* tokenizer of the text; NULL if unknown */
} zr__eval_windows;

/** Open data for the weights of `loaded`. Text is encoded with the tokenizer of the weights. `args`
 * has the stride, where 0 means that no stride is requested, and how the data are read. Close the windows even after a
 * failure. Fail with ZR_ERR_ARG if the stride is out of range. Fail with ZR_ERR_UNSUPPORTED for a text without a known
 * tokenizer, or for several sources with a stride. */
ZR_NODISCARD zr_status zr__eval_windows_open(const zr__loaded *loaded, const zr__eval_data *data, int64_t seq,
                                             const zr_eval_args *args, zr__eval_windows *windows);
void zr__eval_windows_close(zr__eval_windows *windows);

/** Return the number of windows. The last window may be shorter than the other windows. */
int64_t zr__eval_windows_count(const zr__eval_windows *windows);
/** Return the number of targets that count in the first `count` windows; `count` is at least 1. */
int64_t zr__eval_windows_targets(const zr__eval_windows *windows, int64_t count);

/** Read a window. This is a zr__data_fn whose source is a zr__eval_windows. */
zr_status zr__eval_windows_read(void *windows, int64_t window, const zr__row *row);

#endif
