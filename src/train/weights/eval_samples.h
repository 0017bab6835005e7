/** Evaluation of an encoder: its losses, and the quality of its labels or answers. */
#ifndef ZR_TRAIN_EVAL_SAMPLES_H
#define ZR_TRAIN_EVAL_SAMPLES_H

#include "train/weights/load.h"
#include "zr/run.h"

/** Evaluate an encoder on data of its task, in rows of `seq` tokens. Errors: as zr_eval_dir. */
ZR_NODISCARD zr_status zr__evaluate_samples(zr__loaded *loaded, const char *path, int64_t seq, const zr_eval_args *args,
                                            zr_eval_result *result);

#endif
