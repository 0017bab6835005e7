/** Windows of a text or token file for an evaluation. Windows may overlap, to give each predicted token more context.
 */
#ifndef ZR_TRAIN_EVAL_WINDOWS_H
#define ZR_TRAIN_EVAL_WINDOWS_H

#include "train/weights/load.h"
#include "zr/data.h"
#include "zr/run.h"

/**
 * Window i holds the tokens [iS, iS+T], with T = seq and S = stride. In the first window all targets count. In each
 * later window, a target counts only if it was not in an earlier window.
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
    int64_t targets; /* total number of counted targets; at least T, unless the evaluation is limited */
    int64_t bytes;   /* text length in bytes of the targets counted so far; -1 if unknown */
    zr_data *data;
    int32_t *window;         /* buffer of T+1 tokens */
    zr_tokenizer *tokenizer; /* tokenizer of the text; NULL if unknown */
} zr__eval_windows;

/** Open data (zr_data_args.path) for the weights of `loaded`. Text is encoded with the tokenizer of the weights. `args`
 * has the stride, where 0 means that no stride is requested, and how the data are read. Close the windows even after a
 * failure. Fail with ZR_ERR_ARG if the stride is out of range. Fail with ZR_ERR_UNSUPPORTED for a text without a known
 * tokenizer, or for several sources with a stride. */
ZR_NODISCARD zr_status zr__eval_windows_open(const zr__loaded *loaded, const char *path, int64_t seq,
                                             const zr_eval_args *args, zr__eval_windows *windows);
void zr__eval_windows_close(zr__eval_windows *windows);

/** Return the number of windows. The last window may be shorter than the other windows. */
int64_t zr__eval_windows_count(const zr__eval_windows *windows);
/** Return the number of targets that count in the first `count` windows; `count` is at least 1. */
int64_t zr__eval_windows_targets(const zr__eval_windows *windows, int64_t count);

/** Read a window. This is a zr__data_fn whose source is a zr__eval_windows. */
zr_status zr__eval_windows_read(void *windows, int64_t window, const zr__row *row);

#endif
