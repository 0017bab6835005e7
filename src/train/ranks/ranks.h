/**
 * train/ranks: the ranks of a run. agree.c has the functions by which they agree between training steps on a status, on
 * rank 0's values, or on maxima. notes.c informs the observer, and shows progress to other ranks. same_inputs.c checks
 * that all ranks read the same files.
 *
 * All functions that communicate are collective, and call zr__run_agreed. For the exchange they use zr_comm_scalars,
 * which needs no staging memory.
 */
#ifndef ZR_TRAIN_RANKS_H
#define ZR_TRAIN_RANKS_H

#include "train/dir/checkpoint_run.h"
#include "train/family/inputs.h"
#include "train/watch/hang.h"

/** This rank of a run. */
typedef struct zr__ranks {
    zr_comm *comm;
    const zr_observer *observer;
    zr_train_result *result;  /* `steps` and `agreed` are current during the run */
    zr_engine *const *engine; /* points to the run's pointer to its engine, which is NULL at first */
} zr__ranks;

/* ---- agreement (agree.c) ----------------------------------------------------------------------- */

/** Return `st`, the result of a collective call. If the call failed on this rank alone (in the engine, by a lost peer
 * or transport, a hang, or an internal error), set result->agreed to false for the rest of the run: this rank then
 * makes no further collective call. Otherwise every rank has the same status. */
zr_status zr__run_agreed(const zr__ranks *r, zr_status st);

/** Return a status on which all ranks agree: ZR_OK only if `mine` is ZR_OK on every rank (zr_comm_agree). */
zr_status zr__run_agree(const zr__ranks *r, zr_status mine);

/** Copy `bytes` bytes of plain values (no pointers) from rank 0 to all ranks. */
ZR_NODISCARD zr_status zr__run_share(const zr__ranks *r, void *value, size_t bytes);
/** Copy a text from rank 0 to all ranks. The buffer of every rank must be large enough for it. */
ZR_NODISCARD zr_status zr__run_share_text(const zr__ranks *r, char *text);

/** Replace each of n <= ZR_COMM_SCALARS integers by its maximum over the ranks. */
ZR_NODISCARD zr_status zr__run_most(const zr__ranks *r, int64_t *number, int n);

/** Set *alike to whether `bytes` bytes at `value` are equal on all ranks. All ranks get the same result. `bytes` is at
 * most 8 * ZR_COMM_SCALARS. */
ZR_NODISCARD zr_status zr__run_alike(const zr__ranks *r, const void *value, size_t bytes, bool *alike);
/** Check that all ranks pass the same number (zr__comm_same). If they do not, fail with ZR_ERR_CONFIG, naming `what`
 * and the deviating ranks. */
ZR_NODISCARD zr_status zr__run_same(const zr__ranks *r, const char *what, uint64_t mine);

/** Send one number of every rank to all ranks. zr__run_gathered then returns the number of a given rank, until another
 * function of this header is called. */
ZR_NODISCARD zr_status zr__run_gather(const zr__ranks *r, uint64_t mine);
uint64_t zr__run_gathered(const zr__ranks *r, int rank);

/* ---- messages (notes.c) ------------------------------------------------------------------------ */

#define ZR__WHY_BYTES 2048
/** Copy the last error message into a buffer, since later calls may overwrite the message. The buffer lives until the
 * end of the enclosing block. */
#define ZR__WHY() zr__run_why((char[ZR__WHY_BYTES]){0})
const char *zr__run_why(char why[ZR__WHY_BYTES]);

/** Show on this rank's board (zr_comm_board) that a phase begins. Also inform the observer, unless the phase is
 * training. */
void zr__run_enter(const zr__ranks *r, zr__phase phase);

/** Pass a line of text to the observer on rank 0; do nothing on other ranks. */
void zr__run_note(const zr__ranks *r, const char *format, ...) ZR_PRINTF(2, 3);
/** Report a failed write to the observer on rank 0. If the observer has no function `warn`, use `note`. */
void zr__run_warn(const zr__ranks *r, const char *format, ...) ZR_PRINTF(2, 3);

/** Progress of long work before the first step. Initialise with zeros. */
typedef struct zr__progress {
    const zr__ranks *ranks;
    char what[512]; /* description of the work, such as "data.train: looking at all of x.txt" */
    /* earliest time of the next progress note (zr_clock_sec); 0 until zr__run_progress is first called */
    double next_news;
} zr__progress;
/** Show progress on the rank's board (zr_comm_board), and from time to time pass a note to the observer. This is a
 * zr_progress_fn whose `arg` is a zr__progress. */
void zr__run_progress(void *arg, int64_t done, int64_t all);

/* ---- the same files on all ranks (same_inputs.c) ------------------------------------------------- */

/** Check that token files and initial weights are the same on all ranks, and that each token is in the vocabulary. If
 * not, fail with ZR_ERR_DATA, naming the deviating rank or the token. `prints` is complete only on rank 0. Collective.
 */
ZR_NODISCARD zr_status zr__run_same_inputs(const zr__ranks *r, const zr_config *config, const zr__inputs *inputs,
                                           zr__input_prints *prints);

#endif
