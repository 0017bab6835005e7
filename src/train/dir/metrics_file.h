/** A file that grows by whole lines or records: metrics.jsonl, or an event file for TensorBoard. A line that cannot be
 * written is kept in memory and written before a later one. Only a resumed run removes existing lines: those after the
 * step that it resumes from. */
#ifndef ZR_TRAIN_METRICS_FILE_H
#define ZR_TRAIN_METRICS_FILE_H

#include "base/text/text.h"
#include "train/dir/run_files.h"
#include "zr/base.h"

typedef struct zr__metrics_file {
    const char *name, *line; /* for messages: the file's name, and its unit ("line", "record") */
    int fd;                  /* -1: closed */
    bool torn;               /* a partial line stands after the first `bytes` */
    int64_t bytes;           /* size of the file before the last write */
    zr__text kept;           /* lines that wait for a successful write, in their order */
    int64_t n_kept;          /* lines in `kept` */
    int64_t n_lost;          /* lines for which `kept` had no room */
    int error;               /* errno of the last write that failed */
    struct {
        bool now;               /* the last line was not written */
        int64_t n_late, n_lost; /* lines that were kept and then written, and lines that were lost */
    } outage;                   /* the current series of failed writes, or the last one if it is over */
} zr__metrics_file;

#define ZR_METRICS_FILE_INIT                                                                                           \
    {                                                                                                                  \
        .name = ZR_RUN_METRICS, .line = "line", .fd = -1                                                               \
    }

/** Maximum bytes of kept lines. */
#define ZR_METRICS_KEPT_BYTES (1 << 20)

/** Results in metrics.jsonl of the step that a run resumes from, and of earlier steps. */
typedef struct zr__run_made {
    bool evaluation, sample; /* whether there is one of that very step */
    double best_loss;        /* lowest val_loss up to that step; infinity: no evaluation */
    int64_t last_step;       /* last training step up to that step with a line; 0: none */
} zr__run_made;

/** News of a write, to be reported to the user. */
typedef enum zr__metrics_news {
    ZR_METRICS_NO_NEWS,
    ZR_METRICS_KEPT, /* the first line of an outage: it could not be written */
    ZR_METRICS_LOST, /* the first line of an outage that found no room among the kept ones either */
    ZR_METRICS_AGAIN /* the outage is over: all lines that had been kept are in the file now */
} zr__metrics_news;

/** Create the file; one that is there already is not opened, nor a symbolic link followed. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__metrics_create(zr__metrics_file *m, const char *path);

/** Open the file of an earlier run, or create it, and find the end of the lines of the steps up to `step`; *made: the
 * results in these lines. A symbolic link, a file with a second name (a hard link) and anything but a regular file are
 * refused: another file would be changed. ZR_ERR_CREATE, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_continue(zr__metrics_file *m, const char *path, int64_t step, zr__run_made *made);

/** Truncate the file at the end that zr__metrics_continue found, before the first line is written; path and step are
 * for the message. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__metrics_cut(const zr__metrics_file *m, const char *path, int64_t step);

/** Append one line (with its newline), after the kept ones. */
zr__metrics_news zr__metrics_write(zr__metrics_file *m, const char *line, size_t bytes);

/** Write the kept lines and sync the file to disk. ZR_ERR_IO: some lines cannot be written yet and stay kept, or the
 * disk does not confirm the sync. */
ZR_NODISCARD zr_status zr__metrics_sync(zr__metrics_file *m);

/** Write the kept lines, sync the file to disk and close it. ZR_ERR_IO where lines are lost: some could not be
 * written, or the file was removed. */
ZR_NODISCARD zr_status zr__metrics_end(zr__metrics_file *m);

/** Write the kept lines, if that is possible now, and close the file. */
void zr__metrics_close(zr__metrics_file *m);

#endif
