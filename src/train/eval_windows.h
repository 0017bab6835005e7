/** Windows of a text or file of tokens for an evaluation: they may overlap, so that a token is told from more of what
 * stands before it. */
#ifndef ZR_TRAIN_EVAL_WINDOWS_H
#define ZR_TRAIN_EVAL_WINDOWS_H

#include "train/load.h"

/** Window i is tokens [iS, iS+T] of T = seq and S = stride. In the first all targets count, in each other the last S:
 *  every token but the text's first counts once, but for the end of the text that fills no S. */
typedef struct zr__eval_windows {
    zr_data_info info; /* of `data` */
    int64_t seq, stride;
    int64_t whole; /* targets in whole pieces */
    int64_t bytes; /* of the text of all targets that were read and count; -1: unknown */
    zr_data *data; /* in pieces of `piece` tokens: windows begin and end where pieces do */
    int64_t piece;
    zr_tokenizer *tokenizer; /* NULL: unknown */
} zr__eval_windows;

/** Open data (zr_data_args.path) for the weights of `loaded`; text goes through their own tokenizer. Close it after a
 *  failure too. ZR_ERR_ARG: no such stride; ZR_ERR_UNSUPPORTED: text, and the weights' tokenizer is not known; several
 *  sources and a stride below T. */
ZR_NODISCARD zr_status zr__eval_windows_open(const zr__loaded *loaded, const char *path, int64_t seq, int64_t stride,
                                             zr__eval_windows *windows);
void zr__eval_windows_close(zr__eval_windows *windows);

/** How many windows the first so many targets fill, at least T. */
int64_t zr__eval_windows_count(const zr__eval_windows *windows, int64_t targets);
/** Targets that count in the first so many windows, at least 1. */
int64_t zr__eval_windows_targets(const zr__eval_windows *windows, int64_t count);

/** A zr__data_fn; its source is a zr__eval_windows. */
zr_status zr__eval_windows_read(void *windows, int64_t window, int32_t *tokens, int32_t *targets);

#endif
