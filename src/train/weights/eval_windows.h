/** Windows of a text or file of tokens for an evaluation: they may overlap, so that a token is told from more of what
 * stands before it. */
#ifndef ZR_TRAIN_EVAL_WINDOWS_H
#define ZR_TRAIN_EVAL_WINDOWS_H

#include "train/weights/load.h"

/** Window i is tokens [iS, iS+T] of T = seq and S = stride. In the first all targets count, in each other those that
 *  did not count before. Where no stride was asked for, S is T and the end of the text that fills no window is left
 *  out, as in a run's own evaluations. Else the last window ends with the text, and every token but the first counts
 *  once. */
typedef struct zr__eval_windows {
    zr_data_info info; /* of `data` */
    int64_t seq, stride;
    bool strides;    /* a stride was asked for */
    int64_t targets; /* that count in all windows; at least T, fewer where not all are wanted */
    int64_t bytes;   /* of the text of all targets that were read and count; -1: unknown */
    zr_data *data;
    int32_t *window;         /* (T+1) */
    zr_tokenizer *tokenizer; /* NULL: unknown */
} zr__eval_windows;

/** Open data (zr_data_args.path), stride 0: none asked for, for the weights of `loaded`; text goes through their own
 * tokenizer. Close it after a failure too. ZR_ERR_ARG: no such stride; ZR_ERR_UNSUPPORTED: text, and the weights'
 * tokenizer is not known; several sources and a stride. */
ZR_NODISCARD zr_status zr__eval_windows_open(const zr__loaded *loaded, const char *path, int64_t seq, int64_t stride,
                                             zr__eval_windows *windows);
void zr__eval_windows_close(zr__eval_windows *windows);

/** How many windows these are, of which the last may be shorter. */
int64_t zr__eval_windows_count(const zr__eval_windows *windows);
/** Targets that count in the first so many windows, at least 1. */
int64_t zr__eval_windows_targets(const zr__eval_windows *windows, int64_t count);

/** A zr__data_fn; its source is a zr__eval_windows. */
zr_status zr__eval_windows_read(void *windows, int64_t window, int32_t *tokens, int32_t *targets);

#endif
