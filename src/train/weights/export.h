/**
 * Atomic export of trained weights as a Hugging Face directory, written by all ranks in parallel.
 *
 * The directory is created as `dir`.tmp before training, with all the disk space that the weights will take. The
 * weights' file has a temporary name until all of its data are on disk. Only a file with the temporary name is ever
 * removed from `dir`.tmp, so complete weights are not lost.
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
    zr__trained trained;   /* training progress when the weights are written */
} zr__exported;

/** Return whether `dir` has weights in the form that zr__export writes. */
bool zr__export_is_there(const char *dir);

/** Complete the export of a run that was killed. Complete weights in `dir`.tmp become `dir`, if `dir` does not exist or
 * has earlier weights (with a higher loss, if both record a loss). Otherwise, if `dir` does not exist, weights in
 * `dir`.old are renamed back to `dir`. *from receives the suffix of their earlier name (".tmp" or ".old"), or NULL if
 * nothing was done. `rest` is as in zr__export. Call this on one rank. Errors: ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__export_complete(const char *dir, const char **from, char rest[PATH_MAX]);

/** Create `dir`.tmp with config.json, the tokenizer's files, and reserved space for the weights and trained.json. Call
 * this on one rank; it is not collective. Leave nothing behind on failure. Fail with ZR_ERR_IO if there is no space, or
 * ZR_ERR_NOT_FOUND or ZR_ERR_DATA if the tokenizer has no usable files. */
ZR_NODISCARD zr_status zr__export_reserve(const char *dir, const zr__exported *what);

/** Remove the files that zr__export_reserve created, unless the directory contains completed weights. */
void zr__export_release(const char *dir);

/** Check that all weights are finite. Fail with ZR_ERR_DIVERGED, naming the first tensor that is not finite, with the
 * same result on all ranks. Collective. */
ZR_NODISCARD zr_status zr__export_finite(const zr_plan *plan, zr_engine *engine, zr_comm *comm);

/** Write the weights and rename the directory to `dir`. With `replace`, an existing `dir` comes from an earlier end of
 * this run, and the files that zr wrote into it are removed. Other files in it are kept in "dir.old", or if that name
 * is taken in "dir.old.2", "dir.old.3" ...; on rank 0, `rest` receives this path, or "" if no files are kept. If `dir`
 * is a symbolic link, only the link is removed. Missing reserved files are created again. After a disk failure the
 * weights are written a second time. `place` receives on rank 0, also on failure, the path of the complete weights:
 * `dir`; or `dir`.tmp if everything was written but the system does not confirm that it is on disk; or "" if they are
 * nowhere. All ranks return the same status. Errors: ZR_ERR_IO, ZR_ERR_CREATE. Collective. */
ZR_NODISCARD zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm,
                                  bool replace, char rest[PATH_MAX], char *place, size_t size);

#endif
