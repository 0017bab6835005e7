/**
 * Resumption of a run from the newest intact checkpoint in its directory. The checkpoint may have been written with
 * another number of ranks, stage or layout. Call zr__resume_open before memory of the model's size is allocated. Call
 * zr__resume_fill when the engine exists, and zr__resume_announce afterwards. The first two functions are collective.
 */
#ifndef ZR_TRAIN_RESUME_H
#define ZR_TRAIN_RESUME_H

#include "train/run/run.h"
#include "zr/base.h"

/** Lock the directory and find the checkpoint. If the directory has no run or no checkpoint, the run begins at step 0.
 * Fail with ZR_ERR_CREATE if the directory cannot be used. Fail with ZR_ERR_IO if a checkpoint cannot be read now; it
 * is not skipped. Fail with ZR_ERR_DATA if no checkpoint is intact, or if the data or the tokenizer differs. Fail with
 * ZR_ERR_CONFIG if the model differs, or if train.steps is less than the number of completed steps. */
ZR_NODISCARD zr_status zr__resume_open(zr__run *r);

/** Fill the engine from the checkpoint. Each rank reads the elements that it owns and verifies their checksums. If the
 * checkpoint is damaged, use the next older checkpoint. Set r->result->steps to the step of the checkpoint used. */
ZR_NODISCARD zr_status zr__resume_fill(zr__run *r);

/** Return whether the checkpoint of the given step was skipped because it is damaged. Rank 0 only. */
bool zr__resume_passed_over(const zr__run *r, int64_t step);
/** Remove a step from the list of skipped checkpoints, since a new checkpoint of this step replaces the damaged
 * checkpoint. Rank 0 only. */
void zr__resume_forget(zr__run *r, int64_t step);

/** Remove unfinished checkpoints. Call this only after all checks that can refuse the run. Rank 0 only. */
void zr__resume_clean(const zr__run *r);

/** Report where the run resumes, and which keys of its configuration have changed since the checkpoint. */
void zr__resume_announce(zr__run *r);

void zr__resume_close(zr__run *r);

/** Check that train.output_dir is the same directory on all ranks. Every rank looks in it for the lock that rank 0
 * holds. If the directories differ, fail with ZR_ERR_CREATE, naming the hosts. Collective. */
ZR_NODISCARD zr_status zr__run_same_dir(zr__run *r);

#endif
