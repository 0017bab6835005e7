/** Checkpoints of a run: see zr/checkpoint.h for what one is, train/resume.h for how a run goes on from it. */
#ifndef ZR_TRAIN_SAVE_H
#define ZR_TRAIN_SAVE_H

#include "train/run.h"

/** The states that are saved: parameters, and as many of the optimizer as there may be. */
#define ZR_CHECKPOINT_STATES 5

/** The file of the state number `state`: 0 parameters, from 1 on the optimizer's. */
ZR_NODISCARD zr_status zr__state_file(const zr_plan *plan, int state, char *name, size_t size);

/** Write the checkpoint of the step that was made last, if it is not written already, and remove those that are not to
 *  be kept. Where it fails, and all agree on that, the older ones are as they were. Collective. ZR_ERR_IO,
 *  ZR_ERR_CREATE, ZR_ERR_NOT_FOUND; ZR_ERR_DIVERGED: a weight is not finite. */
ZR_NODISCARD zr_status zr__run_checkpoint(zr__run *r);

/** The same while training, which goes on without it: a note, and `save_failure` for the end. Fails only where the
 *  ranks cannot agree. Collective. */
ZR_NODISCARD zr_status zr__run_save(zr__run *r);

/** Where the newest checkpoint of this run is. Rank 0. */
ZR_NODISCARD zr_status zr__run_checkpoint_dir(zr__run *r, char path[PATH_MAX]);

#endif
