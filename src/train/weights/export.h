/**
 * Atomic export of trained weights as a Hugging Face directory, written by all ranks in parallel.
 *
 * The directory is created as `dir`.tmp before training, with all the disk space that the weights will take. If the run
 * started from a Hugging Face directory, tensors have the names, types and files that they have there. The weights
 * file, or the index of several files, has a temporary name until all data is on disk. The export removes weights from
 * `dir`.tmp only if this file has the temporary name, so complete weights are not lost.
 */
#ifndef ZR_TRAIN_EXPORT_H
#define ZR_TRAIN_EXPORT_H

#include "checkpoint/checkpoint.h"
#include "train/dir/run_files.h"
#include "train/family/family.h"
#include "zr/engine.h"

#include <limits.h>

typedef struct zr__exported {
    const zr__family_model *model;
    const zr_plan *plan;
    const char *tokenizer;       /* the tokenizer (data.tokenizer), or NULL */
    const char *init;            /* Hugging Face directory from which the run started (model.init), or NULL */
    const zr__hf_source *source; /* record of `init`, in whose form the weights are written, or NULL; rank 0 only */
    zr__trained trained;         /* step and validation loss of the weights */
} zr__exported;

/** Complete the export of a run that was killed. If `dir`.tmp has complete weights, rename it to `dir`. An existing
 * `dir` is replaced only if its weights have a higher loss or, without recorded losses, an earlier step. If `dir`.tmp
 * has no complete weights and `dir` does not exist, rename `dir`.old with its weights back to `dir`. *from receives the
 * suffix of the renamed directory (".tmp" or ".old"), or NULL if nothing was renamed. `rest` receives a path, as in
 * zr__export. Call this on one rank. Errors: ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__export_complete(const char *dir, const char **from, char rest[PATH_MAX]);

/** Create `dir`.tmp with config.json and the tokenizer's files. Reserve disk space in it for the weights and
 * trained.json. Call this on one rank; it is not collective. On failure, leave no files. Fail with ZR_ERR_IO if there
 * is no space. Fail with ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the tokenizer has no usable files. */
ZR_NODISCARD zr_status zr__export_reserve(const char *dir, const zr__exported *what);

/** Remove the files that zr__export_reserve created, unless `dir`.tmp has complete weights. */
void zr__export_release(const char *dir);

/** Check that all weights are finite. If not, fail on all ranks with ZR_ERR_DIVERGED, naming the first tensor that is
 * not finite. Collective. */
ZR_NODISCARD zr_status zr__export_finite(const zr_plan *plan, zr_engine *engine, zr_comm *comm);

/**
 * Write the weights and rename `dir`.tmp to `dir`. All ranks return the same status.
 *
 * If `replace` is set, an existing `dir` comes from an earlier start of this run, and the files that zr wrote into it
 * are removed. If other files remain, the old directory is renamed to "dir.old" or, if that name is in use, to
 * "dir.old.2", "dir.old.3" and so on. On rank 0, `rest` receives this path, or "" if no files remain. If `dir` is a
 * symbolic link, only the link is removed.
 *
 * Reserved files that are missing are created again. After a disk failure the weights are written a second time. On
 * rank 0, `place` receives the path of the complete weights, even after a failure. The path is `dir`, or `dir`.tmp if
 * everything was written but the system does not confirm that it is on disk. The path is "" if there are no complete
 * weights. Errors: ZR_ERR_IO, ZR_ERR_CREATE. Collective.
 */
ZR_NODISCARD zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm,
                                  bool replace, char rest[PATH_MAX], char place[PATH_MAX]);

#endif
