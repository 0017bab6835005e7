/** Checkpoints of a run: see zr/checkpoint.h for what one is, train/resume.h for how a run goes on from it. */
#ifndef ZR_TRAIN_SAVE_H
#define ZR_TRAIN_SAVE_H

#include "train/run/run.h"

/** Write the checkpoint of the step that was made last, if it is not written already, and remove those that are not to
 *  be kept. Where it fails, and all agree on that, the older ones are as they were. Collective. ZR_ERR_IO,
 *  ZR_ERR_CREATE, ZR_ERR_NOT_FOUND; ZR_ERR_DIVERGED: a weight is not finite. */
ZR_NODISCARD zr_status zr__run_checkpoint(zr__run *r);

/** The same while training, behind the next steps where the plan says so and one follows. Training goes on without a
 *  checkpoint that cannot be written: a note, and `save_failure` for the end. Fails only where the ranks cannot agree.
 *  Collective. */
ZR_NODISCARD zr_status zr__run_save(zr__run *r);
/** Wait for the checkpoint that is on its way behind steps, if one is, and finish it; what fails is told likewise.
 *  Collective. */
ZR_NODISCARD zr_status zr__run_save_end(zr__run *r);
/** One that is still on its way, where the engine is gone, and ranks cannot agree any more. */
void zr__run_save_drop(zr__run *r);

/** Where the newest checkpoint of this run is. Rank 0. */
ZR_NODISCARD zr_status zr__run_checkpoint_dir(zr__run *r, char path[PATH_MAX]);

#endif
