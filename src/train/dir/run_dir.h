/**
 * The directory of a run: made by rank 0, or continued, held by a lock file against other jobs, never over another
 * run. Small files appear whole; metrics.jsonl grows by whole lines, an event file by whole records.
 */
#ifndef ZR_TRAIN_RUN_DIR_H
#define ZR_TRAIN_RUN_DIR_H

#include "base/folder.h"
#include "train/dir/events.h"
#include "train/dir/lock.h"
#include "train/dir/metrics_file.h"

#include <limits.h>

typedef struct zr__run_dir {
    char path[PATH_MAX];
    int place; /* the directory itself, by whatever name; -1: not made */
    bool locked;
    uint64_t key;                    /* of the lock while it is held */
    char gone[ZR_LOCK_HOLDER_BYTES]; /* whose lock was left there and is taken over, "" */
    zr__metrics_file metrics;
    zr__metrics_file events; /* closed where none is wanted */
    char events_name[ZR_EVENTS_NAME_BYTES];
} zr__run_dir;

#define ZR_RUN_DIR_INIT                                                                                                \
    {                                                                                                                  \
        .place = -1, .metrics = ZR_METRICS_FILE_INIT, .events = {.fd = -1 }                                            \
    }

/** Could `path` become a run's directory? Looks, changes nothing. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_check(const char *path);

/** Would a run in `path` write over one of these files (up to a NULL), which it reads? ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_spares(const char *path, const char *const *inputs);

/** Make the directory (parents too), lock it, open metrics.jsonl and write config.json. ZR_ERR_CREATE, ZR_ERR_IO;
 *  then nothing is left behind but directories that were made. */
ZR_NODISCARD zr_status zr__run_dir_open(zr__run_dir *dir, const char *path, const char *config);

/** Open the directory of a run that is to be continued, and lock it. *there false: nothing of a run is in it, and
 * nothing was done; zr__run_dir_open is for it. ZR_ERR_CREATE, also when what is there is no run. */
ZR_NODISCARD zr_status zr__run_dir_reopen(zr__run_dir *dir, const char *path, bool *there);

/** Once nothing can refuse the run any more: cut metrics.jsonl behind `step` and write config.json anew. *made: what of
 *  that step is in it. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_dir_continue(zr__run_dir *dir, int64_t step, const char *config, zr__run_made *made);

/** Create a new event file in it; those of earlier starts stay as they are. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_add_events(zr__run_dir *dir);
/** Remove that file again, where the run cannot begin. */
void zr__run_dir_drop_events(zr__run_dir *dir);

/** Bring the files that grow to the disk. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__run_dir_sync(zr__run_dir *dir);
/** End and close them. ZR_ERR_IO where one lacks something (zr__metrics_end). */
ZR_NODISCARD zr_status zr__run_dir_end(zr__run_dir *dir);

/** The name in it of the latest weights that an earlier run completed; NULL: there are none. *step: after so many
 * steps, by their trained.json, and without that by run.json; ZR_STEP_UNKNOWN. ZR_ERR_IO, ZR_ERR_MEMORY. */
#define ZR_STEP_UNKNOWN INT64_MAX
ZR_NODISCARD zr_status zr__run_dir_weights(const zr__run_dir *dir, const char **name, int64_t *step);

/** The key of the lock in `path` (zr__lock_key). */
uint64_t zr__run_dir_key(const char *path);

/** As if it had not been opened: what was written in it goes. */
void zr__run_dir_undo(zr__run_dir *dir);

/** Write dir/name whole. */
ZR_NODISCARD zr_status zr__run_dir_write(const zr__run_dir *dir, const char *name, const char *text);

/** Is this the place, however it is spelled, of a file that the run writes in the open `dir`? */
bool zr__run_dir_writes(const zr__run_dir *dir, const char *path);

/** Where it is now, into dir->path: it may have been renamed while training. One that was removed is made again.
 *  ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__run_dir_find(zr__run_dir *dir);

/** Close and unlock. A lock that is another job's by now stays. */
void zr__run_dir_close(zr__run_dir *dir);

#endif
