/** Saving a run's checkpoints; zr/checkpoint.h describes their format, train/run/resume.h resuming from one. */
#ifndef ZR_TRAIN_SAVE_H
#define ZR_TRAIN_SAVE_H

#include "train/run/run.h"
#include "zr/base.h"

/** Write the checkpoint of the last step, unless it is written already, and remove checkpoints that are not to be kept.
 * After a failure that all ranks know of, older checkpoints are unchanged. Collective. ZR_ERR_IO, ZR_ERR_CREATE,
 * ZR_ERR_NOT_FOUND; ZR_ERR_DIVERGED: a weight is not finite. */
ZR_NODISCARD zr_status zr__run_checkpoint(zr__run *r);

/** Write a checkpoint during training, asynchronously if the plan says so and a step follows. Training goes on without
 * a checkpoint that cannot be written: a warning, and `save_failure` for the end. Fails only if ranks cannot agree.
 * Collective. */
ZR_NODISCARD zr_status zr__run_save(zr__run *r);
/** Wait for the asynchronous checkpoint, if one is in progress, and finish it. Failures are handled as by zr__run_save.
 * Collective. */
ZR_NODISCARD zr_status zr__run_save_end(zr__run *r);
/** Keep the message of the first save that failed, for the end of the run, which fails with it. */
void zr__run_save_failed(zr__run *r, zr_status st, const char *why);
/** Free an unfinished asynchronous checkpoint after the engine is destroyed; ranks need not agree on it. */
void zr__run_save_drop(zr__run *r);

/** Find the directory of this run's newest checkpoint. Rank 0. */
ZR_NODISCARD zr_status zr__run_checkpoint_dir(zr__run *r, char path[PATH_MAX]);

#endif
