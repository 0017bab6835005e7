/**
 * Atomic export of trained weights as a Hugging Face directory, written by all ranks in parallel.
 *
 * The directory is made as `dir`.tmp, before training, with all the disk space that it will take. The weights' file has
 * a temporary name until all of it is on disk, and only a file of that name is ever removed: complete weights stay.
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
    const char *tokenizer; /* value of data.tokenizer; NULL: none */
    zr__trained trained;   /* training progress when the weights are written */
} zr__exported;

/** Return whether `dir` has weights as zr__export leaves them. */
bool zr__export_is_there(const char *dir);

/** Complete the export of a run that was killed: complete weights in `dir`.tmp become `dir`, if that does not exist or
 * has earlier ones (of a higher loss, where both have one); otherwise weights in `dir`.old get their name back, if
 * `dir` does not exist. *from: the suffix of the name that they had, NULL: nothing was done. `rest` as in zr__export.
 * For one rank. ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__export_complete(const char *dir, const char **from, char rest[PATH_MAX]);

/** Make `dir`.tmp: config.json, the tokenizer's files, and space for the weights and trained.json. For one rank, not
 * collective. ZR_ERR_IO: no space; ZR_ERR_NOT_FOUND, ZR_ERR_DATA: the tokenizer has no files. After a failure nothing
 * is left. */
ZR_NODISCARD zr_status zr__export_reserve(const char *dir, const zr__exported *what);

/** Remove the files that zr__export_reserve made, unless weights have been completed among them. */
void zr__export_release(const char *dir);

/** Check that all weights are finite. ZR_ERR_DIVERGED names the first tensor that is not, the same on all ranks.
 * Collective. */
ZR_NODISCARD zr_status zr__export_finite(const zr_plan *plan, zr_engine *engine, zr_comm *comm);

/** Write the weights and rename the directory to `dir`. With `replace`, an existing `dir` is of an earlier end of this
 * run, and its files are removed; other files in it stay, in "dir.old" or, where that is taken, "dir.old.2",
 * "dir.old.3" ...: `rest` is that path on the first rank, "" if nothing stays. Of a symbolic link only the link is
 * removed. Reserved files that are gone are made again; after a disk failure the weights are written a second time.
 * All ranks return the same. `*place` says, also on failure, where the complete weights are: "dir"; "dir.tmp" when all
 * was written but the system does not confirm that it is on disk; "" nowhere. ZR_ERR_IO, ZR_ERR_CREATE. Collective. */
ZR_NODISCARD zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm,
                                  bool replace, char rest[PATH_MAX], char *place, size_t size);

#endif
