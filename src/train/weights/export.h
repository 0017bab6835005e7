/**
 * Atomic export of trained weights as a Hugging Face directory, written by all ranks in parallel.
 *
 * The directory is created as `dir`.tmp before training, with all the disk space that the weights will take. The file
 * of weights has a temporary name until all of its data are on disk. The export removes a file of weights from
 * `dir`.tmp only if it has the temporary name, so complete weights are not lost.
 */
#ifndef ZR_TRAIN_EXPORT_H
#define ZR_TRAIN_EXPORT_H

#include "train/dir/trained.h"
#include "train/family/family.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/plan.h"

#include <limits.h>

typedef struct zr__exported {
    const zr__family_model *model;
    const zr_plan *plan;
    const char *tokenizer; /* value of data.tokenizer, or NULL */
    zr__trained trained;   /* step and validation loss of the weights (trained.h) */
} zr__exported;

/** Return whether `dir` has weights in the form that zr__export writes. */
bool zr__export_is_there(const char *dir);

/** Complete the export of a run that was killed. If `dir`.tmp has complete weights, rename it to `dir`, provided that
 * `dir` does not exist or has earlier weights (with a higher loss, if both record a loss). Otherwise, if `dir` does not
 * exist, rename `dir`.old with its weights back to `dir`. *from receives the suffix of the renamed directory (".tmp" or
 * ".old"), or NULL if nothing was done. `rest` is as in zr__export. Call this on one rank. Errors: ZR_ERR_IO,
 * ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__export_complete(const char *dir, const char **from, char rest[PATH_MAX]);

/** Create `dir`.tmp with config.json, the tokenizer's files, and reserved space for the weights and trained.json. Call
 * this on one rank; it is not collective. On failure, leave no files. Fail with ZR_ERR_IO if there is no space, or with
 * ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the tokenizer has no usable files. */
ZR_NODISCARD zr_status zr__export_reserve(const char *dir, const zr__exported *what);

/** Remove the files that zr__export_reserve created, unless `dir`.tmp has complete weights. */
void zr__export_release(const char *dir);

/** Check that all weights are finite. If not, fail with ZR_ERR_DIVERGED, naming the first tensor that is not finite,
 * with the same result on all ranks. Collective. */
ZR_NODISCARD zr_status zr__export_finite(const zr_plan *plan, zr_engine *engine, zr_comm *comm);

/** Write the weights and rename `dir`.tmp to `dir`. All ranks return the same status.\n\nIf `replace` is set, an
 * existing `dir` comes from an earlier end of this run, and the files that zr wrote into it are removed. If it holds
 * other files, it is renamed to "dir.old", or to "dir.old.2", "dir.old.3" ... if that name is in use. On rank 0, `rest`
 * receives this path, or "" if no files remain. If `dir` is a symbolic link, only the link is removed.\n\nReserved
 * files that are missing are created again. After a disk failure the weights are written a second time. On rank 0, even
 * after a failure, `place` receives the path of the complete weights: `dir`; or `dir`.tmp if everything was written but
 * the system does not confirm that it is on disk; or "" if there are no complete weights. Errors: ZR_ERR_IO,
 * ZR_ERR_CREATE. Collective. */
ZR_NODISCARD zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm,
                                  bool replace, char rest[PATH_MAX], char *place, size_t size);

#endif
