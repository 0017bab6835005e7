/** A file to which whole lines or records are appended: metrics.jsonl, or an event file for TensorBoard. A line that
 * cannot be written is buffered in memory and written before the next line. Lines are removed only when a run resumes
 * from an earlier step: the lines after that step. */
#ifndef ZR_TRAIN_METRICS_FILE_H
#define ZR_TRAIN_METRICS_FILE_H

#include "base/text/text.h"
#include "train/dir/run_files.h"

typedef struct zr__metrics_file {
    const char *name, *line; /* name of the file; word for one entry of it, "line" or "record" (for messages) */
    int fd;                  /* file descriptor; -1 if closed */
    bool torn;               /* whether a partial line follows the first `bytes` bytes of the file */
    int64_t bytes;           /* size of the file in bytes before the last write */
    zr__text kept;           /* buffered lines, in order, that wait for a successful write */
    int64_t n_kept;          /* number of lines in `kept` */
    int64_t n_lost;          /* number of lines dropped because `kept` was full */
    int error;               /* errno of the last write that failed */
    struct {
        bool now;               /* whether the outage continues, because the last line could not be written */
        int64_t n_late, n_lost; /* in this outage: number of lines written late; number of lines lost */
    } outage; /* the current outage (a series of failed writes), or the last outage if writes succeed again */
} zr__metrics_file;

#define ZR_METRICS_FILE_INIT                                                                                           \
    {                                                                                                                  \
        .name = ZR_RUN_METRICS, .line = "line", .fd = -1                                                               \
    }

/** Maximum total size of the buffered lines in bytes. */
#define ZR_METRICS_KEPT_BYTES (1 << 20)

/** Results that metrics.jsonl already has up to the step from which a run resumes. */
typedef struct zr__run_made {
    /* whether the file has an evaluation, and whether it has a sample, of the step from which the run resumes */
    bool evaluation, sample;
    double best_loss;  /* lowest val_loss; infinity without evaluations */
    int64_t last_step; /* last step with a training line; 0 without training lines */
    int64_t best_step; /* step of the weights in best/; 0 if unknown */
    double val_loss;   /* val_loss of the step from which the run resumes, if `evaluation`; NaN if not finite */
} zr__run_made;

/** Result of zr__metrics_write, which the caller may report to the user. */
typedef enum zr__metrics_news {
    ZR_METRICS_NO_NEWS,
    ZR_METRICS_KEPT, /* the first failed write of an outage; the line is buffered */
    ZR_METRICS_LOST, /* the first lost line of an outage; the buffer is full */
    ZR_METRICS_AGAIN /* the end of an outage; all buffered lines are now in the file */
} zr__metrics_news;

/** Create the file. Fail with ZR_ERR_CREATE if it exists or its path is a symbolic link. */
ZR_NODISCARD zr_status zr__metrics_create(zr__metrics_file *m, const char *path);

/** Open the file of an earlier run, or create it, and find the end of the lines of steps up to `step`. *made receives
 * the results in these lines. Refuse a symbolic link, a file with several hard links and anything but a regular file,
 * since a write might change another file. Errors: ZR_ERR_CREATE, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_continue(zr__metrics_file *m, const char *path, int64_t step, zr__run_made *made);

/** Truncate the file at the offset that zr__metrics_continue found. Call this before the first line is written. `path`
 * and `step` are used only in the error message. Errors: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__metrics_cut(const zr__metrics_file *m, const char *path, int64_t step);

/** Append one line, including its newline, after any buffered lines. If a write fails, buffer the line. */
zr__metrics_news zr__metrics_write(zr__metrics_file *m, const char *line, size_t bytes);

/** Write the buffered lines and sync the file to disk. Fail with ZR_ERR_IO if the sync fails, or if some lines cannot
 * be written now; these lines stay buffered. */
ZR_NODISCARD zr_status zr__metrics_sync(zr__metrics_file *m);

/** Write the buffered lines, sync the file to disk and close it. Fail with ZR_ERR_IO if the sync fails, or if lines are
 * lost. Lines are lost if they could not be written or if the file was removed. */
ZR_NODISCARD zr_status zr__metrics_end(zr__metrics_file *m);

/** Write the buffered lines if that is possible now, and close the file. */
void zr__metrics_close(zr__metrics_file *m);

#endif
