/** Writing a run's checkpoints. zr/checkpoint.h describes their format, and train/run/resume.h how a run resumes. */
#ifndef ZR_TRAIN_SAVE_H
#define ZR_TRAIN_SAVE_H

#include "train/run/run.h"
#include "zr/base.h"

/** Write the checkpoint of the last step, unless it already exists, and remove old checkpoints beyond train.keep_last.
 * If the write fails on all ranks, older checkpoints are unchanged. Fail with ZR_ERR_DIVERGED if a weight is not
 * finite. Other errors: ZR_ERR_IO, ZR_ERR_CREATE, ZR_ERR_NOT_FOUND. Collective. */
ZR_NODISCARD zr_status zr__run_checkpoint(zr__run *r);

/** Write a checkpoint during training, asynchronously if the plan does so and another step follows. If the checkpoint
 * cannot be written, report a warning, set `save_failure` for the end of the run, and return ZR_OK, so that training
 * continues. Fail only if ranks cannot agree. Collective. */
ZR_NODISCARD zr_status zr__run_save(zr__run *r);
/** Wait until the asynchronous checkpoint is written, if there is one, and finish it. Handle failures as zr__run_save
 * does. Collective. */
ZR_NODISCARD zr_status zr__run_save_end(zr__run *r);
/** Store the message of a failed save, if it is the first failure. The run returns the message as an error at its end.
 */
void zr__run_save_failed(zr__run *r, zr_status st, const char *why);
/** Free the state of an unfinished asynchronous checkpoint. Call this after the engine is destroyed. Not collective. */
void zr__run_save_drop(zr__run *r);

#endif
