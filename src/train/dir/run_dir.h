/**
 * train/dir: the directory of a run. Rank 0 creates it, or reopens it to resume. A lock file protects it against other
 * jobs. A run never overwrites another run.
 *
 * The other headers of this folder define the files in the directory. run_files.h has the names of files, lock.h the
 * lock file, and metrics.h the lines of metrics.jsonl and run.json. metrics_file.h defines a file that grows by whole
 * lines, events.h the records for TensorBoard, and report.h the planned and measured numbers. run_files.h also
 * has trained.json, and checkpoint_run.h a checkpoint's record of its run.
 */
#ifndef ZR_TRAIN_RUN_DIR_H
#define ZR_TRAIN_RUN_DIR_H

#include "base/file/folder.h"
#include "train/dir/events.h"
#include "train/dir/lock.h"
#include "train/dir/metrics_file.h"

#include <limits.h>

typedef struct zr__run_dir {
    char path[PATH_MAX];
    int place; /* descriptor of the directory, valid even after a rename; -1 before the directory is opened */
    bool locked;
    uint64_t key;                    /* key of the lock, while the run holds the lock */
    char gone[ZR_LOCK_HOLDER_BYTES]; /* text of the lock that this run took over, or "" */
    zr__metrics_file metrics;
    zr__metrics_file events; /* event file; closed if the run writes no events */
    char events_name[ZR_EVENTS_NAME_BYTES];
} zr__run_dir;

#define ZR_RUN_DIR_INIT                                                                                                \
    {                                                                                                                  \
        .place = -1, .metrics = ZR_METRICS_FILE_INIT, .events = {.fd = -1 }                                            \
    }

/** Check that `path` can become a run's directory. Change nothing. Errors: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_check(const char *path);

/** Check that a run in `path` would not overwrite its input files. `inputs` is a list of paths that ends with NULL.
 * Errors: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_spares(const char *path, const char *const *inputs);

/** Create the directory and its parents, lock it, open metrics.jsonl and write config.json. Fail with ZR_ERR_CREATE or
 * ZR_ERR_IO. On failure, remove the files, but not new directories. */
ZR_NODISCARD zr_status zr__run_dir_open(zr__run_dir *dir, const char *path, const char *config);

/** Open and lock the directory of a run that is to be resumed. If it has no trace of a run, only set *there to false;
 * the caller then uses zr__run_dir_open. Fail with ZR_ERR_CREATE if the directory cannot be used. Fail with
 * ZR_ERR_CREATE also if it has other traces of a run, but neither metrics.jsonl nor a checkpoint. */
ZR_NODISCARD zr_status zr__run_dir_reopen(zr__run_dir *dir, const char *path, bool *there);

/** Truncate metrics.jsonl after `step` and rewrite config.json. *made receives the results up to `step`. Call this only
 * after all checks that can refuse the run. Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_dir_continue(zr__run_dir *dir, int64_t step, const char *config, zr__run_made *made);

/** Create a new event file in the directory. Event files of earlier starts are unchanged. Errors: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_add_events(zr__run_dir *dir);
/** Remove the event file that zr__run_dir_add_events created, because the run cannot begin. */
void zr__run_dir_drop_events(zr__run_dir *dir);

/** Sync metrics.jsonl and the event file to disk. Errors: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_dir_sync(zr__run_dir *dir);
/** Write the buffered lines of metrics.jsonl and the event file, and close both files. Fail with ZR_ERR_IO if lines are
 * lost (zr__metrics_end). */
ZR_NODISCARD zr_status zr__run_dir_end(zr__run_dir *dir);

/** Find the latest complete weights that an earlier run left in the directory. *name receives the name of their file or
 * folder, or NULL if there are no weights. *step receives the step after which the weights were written, from
 * trained.json or else from run.json. If neither file tells the step, *step is ZR_STEP_UNKNOWN. Errors: ZR_ERR_IO,
 * ZR_ERR_MEMORY. */
#define ZR_STEP_UNKNOWN INT64_MAX
ZR_NODISCARD zr_status zr__run_dir_weights(const zr__run_dir *dir, const char **name, int64_t *step);

/** Write the path of a step's checkpoint in the directory run_dir to `path`. Fail with ZR_ERR_CREATE if the path is too
 * long. */
ZR_NODISCARD zr_status zr__checkpoint_path(char path[PATH_MAX], const char *run_dir, int64_t step);

/** Return whether the directory has checkpoints, which may be copied from another run. */
bool zr__run_dir_has_checkpoint(const char *path);

/** Return the key of the lock in the directory `path` (zr__lock_key). */
uint64_t zr__run_dir_key(const char *path);

/** Undo zr__run_dir_open: remove the event file, metrics.jsonl and config.json, and close the directory. */
void zr__run_dir_undo(zr__run_dir *dir);

/** Write `text` atomically to the file `name` in the directory. */
ZR_NODISCARD zr_status zr__run_dir_write(const zr__run_dir *dir, const char *name, const char *text);

/** Return whether `path` is a file that a run writes in the directory `dir`. The folder of `path` is compared by inode,
 * so its spelling does not matter. */
bool zr__run_dir_writes(const char *dir, const char *path);

/** Set dir->path to the directory's current path, which changes if a user renames the directory during training. If the
 * directory was removed, create it again. Errors: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_find(zr__run_dir *dir);

/** Close and unlock the directory. Do not remove the lock if another job has taken it over. */
void zr__run_dir_close(zr__run_dir *dir);

#endif
