/**
 * The directory of a run: rank 0 creates it, or reopens it to resume, and holds it by a lock file against other jobs; a
 * run never overwrites another. This room holds the formats of the files in it: run_files.h their names, lock.h,
 * metrics.h lines of metrics.jsonl and run.json, metrics_file.h a file that grows by whole lines, events.h records for
 * TensorBoard, report.h, trained.h, checkpoint_run.h a checkpoint's record of its run.
 */
#ifndef ZR_TRAIN_RUN_DIR_H
#define ZR_TRAIN_RUN_DIR_H

#include "base/file/folder.h"
#include "train/dir/events.h"
#include "train/dir/lock.h"
#include "train/dir/metrics_file.h"
#include "zr/base.h"

#include <limits.h>

typedef struct zr__run_dir {
    char path[PATH_MAX];
    int place; /* open directory, which a rename does not change; -1: not made */
    bool locked;
    uint64_t key;                    /* key of the lock while it is held */
    char gone[ZR_LOCK_HOLDER_BYTES]; /* earlier holder of a lock that was taken over; "": none */
    zr__metrics_file metrics;
    zr__metrics_file events; /* closed where the run writes no events */
    char events_name[ZR_EVENTS_NAME_BYTES];
} zr__run_dir;

#define ZR_RUN_DIR_INIT                                                                                                \
    {                                                                                                                  \
        .place = -1, .metrics = ZR_METRICS_FILE_INIT, .events = {.fd = -1 }                                            \
    }

/** Check that `path` could become a run's directory; change nothing. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_check(const char *path);

/** Check that a run in `path` would overwrite no file of `inputs`, its NULL-terminated input files. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_spares(const char *path, const char *const *inputs);

/** Make the directory (parents too), lock it, open metrics.jsonl and write config.json. ZR_ERR_CREATE, ZR_ERR_IO: only
 * directories that were made are left behind. */
ZR_NODISCARD zr_status zr__run_dir_open(zr__run_dir *dir, const char *path, const char *config);

/** Open and lock the directory of a run that is to be resumed. *there false: the directory holds no trace of a run,
 * and nothing was done; use zr__run_dir_open. ZR_ERR_CREATE, also when the traces are of no run to resume. */
ZR_NODISCARD zr_status zr__run_dir_reopen(zr__run_dir *dir, const char *path, bool *there);

/** Truncate metrics.jsonl after `step` and rewrite config.json; to be called once no check can refuse the run any
 * more. *made: the results up to that step. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_dir_continue(zr__run_dir *dir, int64_t step, const char *config, zr__run_made *made);

/** Create a new event file in the directory; event files of earlier starts stay as they are. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_add_events(zr__run_dir *dir);
/** Remove that event file again, when the run cannot begin. */
void zr__run_dir_drop_events(zr__run_dir *dir);

/** Sync metrics.jsonl and the event file to disk. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_dir_sync(zr__run_dir *dir);
/** End and close both files. ZR_ERR_IO where lines are lost (zr__metrics_end). */
ZR_NODISCARD zr_status zr__run_dir_end(zr__run_dir *dir);

/** Find the latest complete weights of an earlier run: *name is their name in the directory, NULL: no weights; *step
 * is the step after which they were written, from their trained.json, else from run.json, else ZR_STEP_UNKNOWN.
 * ZR_ERR_IO, ZR_ERR_MEMORY. */
#define ZR_STEP_UNKNOWN INT64_MAX
ZR_NODISCARD zr_status zr__run_dir_weights(const zr__run_dir *dir, const char **name, int64_t *step);

/** Write the path of a step's checkpoint in a run's directory; ZR_ERR_CREATE when it is too long. */
ZR_NODISCARD zr_status zr__checkpoint_path(char path[PATH_MAX], const char *run_dir, int64_t step);

/** Return the key of the lock in `path` (zr__lock_key). */
uint64_t zr__run_dir_key(const char *path);

/** Undo zr__run_dir_open: remove the event file, metrics.jsonl and config.json, and close the directory. */
void zr__run_dir_undo(zr__run_dir *dir);

/** Write dir/name atomically. */
ZR_NODISCARD zr_status zr__run_dir_write(const zr__run_dir *dir, const char *name, const char *text);

/** Return whether `path`, however it is spelled, is a file that the run writes in the open `dir`. */
bool zr__run_dir_writes(const zr__run_dir *dir, const char *path);

/** Set dir->path to the directory's current path: it may have been renamed while training. A directory that was
 * removed is made again. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_find(zr__run_dir *dir);

/** Close and unlock the directory. A lock that is another job's by now stays. */
void zr__run_dir_close(zr__run_dir *dir);

#endif
