/** Windows of a text or token file for an evaluation: they may overlap, so that more context precedes each predicted
 * token. */
#ifndef ZR_TRAIN_EVAL_WINDOWS_H
#define ZR_TRAIN_EVAL_WINDOWS_H

#include "train/weights/load.h"
#include "zr/data.h"

/** Window i is tokens [iS, iS+T] of T = seq and S = stride. All targets of the first window count, in each later
 * window only targets that did not count before. Without a stride asked for, S is T, and the end of the text that
 * fills no window is left out, as in a run's own evaluations. With one, the last window ends with the text, and every
 * token but the first counts once. */
typedef struct zr__eval_windows {
    zr_data_info info; /* of `data` */
    int64_t seq, stride;
    bool strides;    /* a stride was asked for */
    int64_t targets; /* targets that count in all windows; at least T, less if limited */
    int64_t bytes;   /* bytes of text of the targets read and counted so far; -1: unknown */
    zr_data *data;
    int32_t *window;         /* (T+1) */
    zr_tokenizer *tokenizer; /* NULL: unknown */
} zr__eval_windows;

/** Open data (zr_data_args.path) for the weights of `loaded`; their own tokenizer encodes text. stride 0: no stride
 * was asked for. Close the windows after a failure too. ZR_ERR_ARG: the stride is out of range; ZR_ERR_UNSUPPORTED:
 * text without a known tokenizer, or several sources with a stride. */
ZR_NODISCARD zr_status zr__eval_windows_open(const zr__loaded *loaded, const char *path, int64_t seq, int64_t stride,
                                             zr__eval_windows *windows);
void zr__eval_windows_close(zr__eval_windows *windows);

/** Return the number of windows; the last one may be shorter. */
int64_t zr__eval_windows_count(const zr__eval_windows *windows);
/** Return the number of targets that count in the first `count` windows; count is at least 1. */
int64_t zr__eval_windows_targets(const zr__eval_windows *windows, int64_t count);

/** Read a window; a zr__data_fn whose source is a zr__eval_windows. */
zr_status zr__eval_windows_read(void *windows, int64_t window, int32_t *tokens, int32_t *targets);

#endif
