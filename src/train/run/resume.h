/**
 * Resuming a run from the newest intact checkpoint of its directory, written with any number of ranks, stage and
 * layout. Order of calls: zr__resume_open, before anything of the model's size is allocated; zr__resume_fill, once the
 * engine exists; zr__resume_announce. The first two are collective.
 */
#ifndef ZR_TRAIN_RESUME_H
#define ZR_TRAIN_RESUME_H

#include "train/run/run.h"
#include "zr/base.h"

/** Lock the directory and find the checkpoint; refuse a checkpoint of another model, other data or another tokenizer.
 * If the directory holds no run or no checkpoint, the run begins at step 0. ZR_ERR_CREATE: the directory cannot be
 * used; ZR_ERR_IO: a checkpoint cannot be read now, and is not passed over for that; ZR_ERR_DATA: no checkpoint is
 * intact, or the data differ; ZR_ERR_CONFIG: another model, or fewer train.steps than were made. */
ZR_NODISCARD zr_status zr__resume_open(zr__run *r);

/** Fill the engine from the checkpoint: each rank reads the elements that it owns and verifies their checksums. A
 * damaged checkpoint is passed over for the next older one. Sets r->result->steps to the checkpoint's step. */
ZR_NODISCARD zr_status zr__resume_fill(zr__run *r);

/** Return whether the checkpoint of this step was passed over. Rank 0. */
bool zr__resume_passed_over(const zr__run *r, int64_t step);
/** Take a step off the list of passed-over checkpoints, as a new checkpoint takes its place. Rank 0. */
void zr__resume_forget(zr__run *r, int64_t step);

/** Remove unfinished checkpoints, once no check can refuse the run any more. Rank 0. */
void zr__resume_clean(const zr__run *r);

/** Report where the run resumes, and which keys of its configuration have changed. */
void zr__resume_announce(zr__run *r);

void zr__resume_close(zr__run *r);

/** Check that train.output_dir is the same directory on all ranks, by the lock that rank 0 holds in it. ZR_ERR_CREATE
 * naming the hosts. Collective. */
ZR_NODISCARD zr_status zr__run_same_dir(zr__run *r);

#endif
