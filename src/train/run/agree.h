/**
 * Functions by which the ranks of a run agree outside its training steps: on a status, on rank 0's values, or on the
 * maximum of numbers. Every call is collective, uses zr_comm_scalars, which needs no staging memory, and sets
 * result->agreed (zr__run_agreed).
 */
#ifndef ZR_TRAIN_AGREE_H
#define ZR_TRAIN_AGREE_H

#include "train/run/run.h"

/** Return `st`, the result of a call in which all ranks agree. Set result->agreed to whether every rank has the same
 * result: true, unless `st` is an error that keeps ranks from agreeing (a lost peer or transport, a hang, an internal
 * error). */
zr_status zr__run_agreed(zr__run *r, zr_status st);

/** Agree with all ranks on a status (zr_comm_agree). */
zr_status zr__run_agree(zr__run *r, zr_status mine);

/** Replace `bytes` bytes of plain values (no pointers) by the bytes of rank 0. */
ZR_NODISCARD zr_status zr__run_share(zr__run *r, void *value, size_t bytes);
/** Replace a text by rank 0's text. Every rank's buffer must be large enough for it. */
ZR_NODISCARD zr_status zr__run_share_text(zr__run *r, char *text);

/** Replace each of n <= ZR_COMM_SCALARS integers by its maximum over the ranks. */
ZR_NODISCARD zr_status zr__run_most(zr__run *r, int64_t *number, int n);

/** Set *alike, identically on all ranks, to whether `bytes` bytes (at most 8 * ZR_COMM_SCALARS) are equal on all ranks.
 */
ZR_NODISCARD zr_status zr__run_alike(zr__run *r, const void *value, size_t bytes, bool *alike);
/** Fail with ZR_ERR_CONFIG, naming `what` and the deviating ranks, unless all ranks pass the same number
 * (zr__comm_same). */
ZR_NODISCARD zr_status zr__run_same(zr__run *r, const char *what, uint64_t mine);

/** Send every rank's number to all ranks. Then zr__run_gathered returns the number of one rank, until the next call of
 * a function of this header. */
ZR_NODISCARD zr_status zr__run_gather(zr__run *r, uint64_t mine);
uint64_t zr__run_gathered(const zr__run *r, int rank);

#endif
