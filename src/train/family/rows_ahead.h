/** Rows of the training batches that a thread reads ahead, so that a step does not wait for its samples. */
#ifndef ZR_TRAIN_ROWS_AHEAD_H
#define ZR_TRAIN_ROWS_AHEAD_H

#include "train/family/samples.h"

typedef struct zr__rows_ahead zr__rows_ahead;

/** Return how many rows of a plan's training step a thread should read ahead: a micro-batch, as far as
 * ZR_DATA_AHEAD_BYTES allows, or for a model of several loss terms all rows of this rank's step, since they are counted
 * before the step. Return 0 if these are too many. *bytes receives the memory that the rows take. */
int64_t zr__rows_ahead_room(const zr_plan *plan, int64_t *bytes);

/** Start the thread, with memory for `room` rows. After the first call of zr__rows_ahead_want, only this object may use
 * `samples`. `samples` and `plan` must outlive it. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__rows_ahead_create(zr__samples *samples, const zr_plan *plan, int64_t room,
                                             zr__rows_ahead **ahead);
void zr__rows_ahead_destroy(zr__rows_ahead **ahead);

/** Read ahead from sample `first` on, where a micro-batch of this rank begins. The micro-batches of all ranks together
 * have `stride` samples. */
void zr__rows_ahead_want(zr__rows_ahead *ahead, int64_t first, int64_t stride);

/** Read the row of sample `index` into row `row` of a micro-batch's inputs, as zr__samples_read does. */
ZR_NODISCARD zr_status zr__rows_ahead_read(zr__rows_ahead *ahead, int64_t index, int64_t row, void *const *input);
/** Subtract the losses of sample `index` that do not count from `counted`, as zr__samples_count does. */
ZR_NODISCARD zr_status zr__rows_ahead_count(zr__rows_ahead *ahead, int64_t index, int64_t *counted);

#endif
