/**
 * Functions by which the ranks of a run agree between training steps on a status, on rank 0's values, or on maxima. All
 * functions that communicate are collective, and call zr__run_agreed. For the exchange they use
 * zr_comm_scalars, which needs no staging memory.
 */
#ifndef ZR_TRAIN_AGREE_H
#define ZR_TRAIN_AGREE_H

#include "train/run/run.h"

/** Return `st`, the result of a collective call. If the call failed on this rank alone (in the engine, by a lost peer
 * or transport, a hang, or an internal error), set result->agreed to false for the rest of the run: this rank then
 * makes no further collective call. Otherwise every rank has the same status. */
zr_status zr__run_agreed(zr__run *r, zr_status st);

/** Return a status on which all ranks agree: ZR_OK only if `mine` is ZR_OK on every rank (zr_comm_agree). */
zr_status zr__run_agree(zr__run *r, zr_status mine);

/** Copy `bytes` bytes of plain values (no pointers) from rank 0 to all ranks. */
ZR_NODISCARD zr_status zr__run_share(zr__run *r, void *value, size_t bytes);
/** Copy a text from rank 0 to all ranks. The buffer of every rank must be large enough for it. */
ZR_NODISCARD zr_status zr__run_share_text(zr__run *r, char *text);

/** Replace each of n <= ZR_COMM_SCALARS integers by its maximum over the ranks. */
ZR_NODISCARD zr_status zr__run_most(zr__run *r, int64_t *number, int n);

/** Set *alike to whether `bytes` bytes at `value` are equal on all ranks. All ranks get the same result. `bytes` is at
 * most 8 * ZR_COMM_SCALARS. */
ZR_NODISCARD zr_status zr__run_alike(zr__run *r, const void *value, size_t bytes, bool *alike);
/** Check that all ranks pass the same number (zr__comm_same). If they do not, fail with ZR_ERR_CONFIG, naming `what`
 * and the deviating ranks. */
ZR_NODISCARD zr_status zr__run_same(zr__run *r, const char *what, uint64_t mine);

/** Send one number of every rank to all ranks. zr__run_gathered then returns the number of a given rank, until another
 * function of this header is called. */
ZR_NODISCARD zr_status zr__run_gather(zr__run *r, uint64_t mine);
uint64_t zr__run_gathered(const zr__run *r, int rank);

#endif
