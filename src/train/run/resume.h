/**
 * A run that goes on from the newest whole checkpoint of its directory, whatever number of ranks, stage and layout
 * wrote it. Order of calls: zr__resume_open, before anything of the model's size is there; zr__resume_fill, when the
 * engine is; zr__resume_tell. All are collective.
 */
#ifndef ZR_TRAIN_RESUME_H
#define ZR_TRAIN_RESUME_H

#include "train/run/run.h"

/** Lock the directory and find the checkpoint; refuse one of another model, other data or another tokenizer. Where
 *  nothing of a run is in the directory, or no checkpoint, the run begins at step 0. ZR_ERR_CREATE the directory cannot
 *  be used; ZR_ERR_IO a checkpoint cannot be read now, which is not passed over; ZR_ERR_DATA no checkpoint is whole, or
 * other data; ZR_ERR_CONFIG another model. */
ZR_NODISCARD zr_status zr__resume_open(zr__run *r);

/** Fill the engine from it: each rank reads what it owns, every byte of it checked. One that turns out to be damaged is
 *  passed over for the one before. r->result has the steps that are done. */
ZR_NODISCARD zr_status zr__resume_fill(zr__run *r);

/** Rank 0: was the checkpoint of this step passed over? */
bool zr__resume_passed_over(const zr__run *r, int64_t step);
/** Rank 0: the checkpoint of this step is not the one that was passed over any more. */
void zr__resume_forget(zr__run *r, int64_t step);

/** Rank 0, once nothing refuses the run any more: checkpoints that were not finished go. */
void zr__resume_clean(const zr__run *r);

/** Say where the run goes on, and which keys of its configuration are not as they were. */
void zr__resume_tell(zr__run *r);

void zr__resume_close(zr__run *r);

/** Have all ranks the same directory under the name train.output_dir? Looks for the lock of rank 0, which holds it.
 *  ZR_ERR_CREATE naming the hosts. */
ZR_NODISCARD zr_status zr__run_same_dir(zr__run *r);

#endif
