/**
 * Trained weights as a Hugging Face directory, written by all ranks at once, there whole or not at all.
 *
 * It is made as `dir`.tmp, before training, with all the space that it will take. There the weights' file has a name of
 * its own until all of it is on the disk, and only a file of that name is ever removed: weights that are complete stay.
 */
#ifndef ZR_TRAIN_EXPORT_H
#define ZR_TRAIN_EXPORT_H

#include "train/dir/trained.h"
#include "zr/train.h"

#include <limits.h>

typedef struct zr__exported {
    const zr_family_model *model;
    const zr_plan *plan;
    const char *tokenizer; /* as data.tokenizer; NULL: none */
    zr__trained trained;   /* as it is when the weights are written */
} zr__exported;

/** Are there weights in `dir`, as zr__export leaves them? */
bool zr__export_is_there(const char *dir);

/** Complete what a run that was killed had begun: weights that are whole in `dir`.tmp become `dir`, where that is not
 * there or has earlier ones (of a higher loss, where both have one); else those in `dir`.old get their name back, where
 * `dir` is not there. *from: the suffix of the name that they had, NULL: there was nothing to do. `rest` as in
 * zr__export. For one rank. ZR_ERR_IO, ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__export_complete(const char *dir, const char **from, char rest[PATH_MAX]);

/** Make `dir`.tmp: config.json, the tokenizer's files and room for the weights and trained.json. For one rank, not
 * collective. ZR_ERR_IO: no room; ZR_ERR_NOT_FOUND, ZR_ERR_DATA: the tokenizer has no files; then nothing is left. */
ZR_NODISCARD zr_status zr__export_reserve(const char *dir, const zr__exported *what);

/** What zr__export_reserve made goes, if no weights have been completed in it. */
void zr__export_release(const char *dir);

/** Are all weights finite? ZR_ERR_DIVERGED names the first tensor that is not, the same on all ranks. Collective. */
ZR_NODISCARD zr_status zr__export_finite(const zr_plan *plan, zr_engine *engine, zr_comm *comm);

/** Write the weights and give `dir` its name. With `replace` a directory of that name is that of an earlier end of this
 *  run, and goes; what else was in it stays, as "dir.old" or, where that is taken, "dir.old.2", "dir.old.3" ...: `rest`
 *  says where on the first rank, "" there is none. A link goes as a link. What was reserved and is not there any more
 * is made again; a file that the disk fails to take is written a second time. All ranks return the same. `*place` says,
 * also on failure, where the complete weights are: "dir", "dir.tmp" when all was written but the system does not
 * confirm that it is on the disk, "" nowhere. ZR_ERR_IO, ZR_ERR_CREATE. Collective. */
ZR_NODISCARD zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm,
                                  bool replace, char rest[PATH_MAX], char *place, size_t size);

#endif
