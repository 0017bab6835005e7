/** A file that grows by whole lines or records: metrics.jsonl, and an event file for TensorBoard. A line that cannot be
 * written is kept in memory and written in front of a later one. Of what the file holds already only a run that goes on
 * removes a part: the lines behind the step that it begins with. */
#ifndef ZR_TRAIN_METRICS_FILE_H
#define ZR_TRAIN_METRICS_FILE_H

#include "base/text.h"

typedef struct zr__metrics_file {
    const char *name, *line; /* the file's name and what it grows by, in messages */
    int fd;                  /* -1: closed */
    bool torn;               /* a part of a line stands behind the first `bytes` */
    int64_t bytes;           /* size of the file before the last write */
    zr__text kept;           /* lines that wait for a write that succeeds, in their order */
    int64_t n_kept;          /* lines in it */
    int64_t n_lost;          /* lines for which it had no room */
    int error;               /* errno of the last write that failed */
    struct {
        bool now;               /* the last line was not written */
        int64_t n_late, n_lost; /* lines that were kept and are in the file by now, and lines that are lost */
    } outage;                   /* the writes that have failed in a row, the last ones or those before they succeeded */
} zr__metrics_file;

#define ZR_METRICS_FILE_INIT                                                                                           \
    {                                                                                                                  \
        .name = "metrics.jsonl", .line = "line", .fd = -1                                                              \
    }

/** Bytes of lines that are kept at most. */
#define ZR_METRICS_KEPT_BYTES (1 << 20)

/** Results of the step that a run goes on from and of earlier ones, as metrics.jsonl has them. */
typedef struct zr__run_made {
    bool evaluation, sample; /* of that step */
    double best_loss;        /* lowest val_loss up to that step; infinity: no evaluation */
    int64_t last_step;       /* the last one up to that step that has a line; 0: none */
} zr__run_made;

/** News of a write, for the user. */
typedef enum zr__metrics_news {
    ZR_METRICS_NO_NEWS,
    ZR_METRICS_KEPT, /* the first line of an outage: it could not be written */
    ZR_METRICS_LOST, /* the first line of an outage that found no room among the kept ones either */
    ZR_METRICS_AGAIN /* the outage is over: all lines that had been kept are in the file now */
} zr__metrics_news;

/** Create the file; one that is there already is not opened, nor a symbolic link followed. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__metrics_create(zr__metrics_file *m, const char *path);

/** Open the file of an earlier run, or create it, and find the end of the lines of the steps up to `step`; *made: what
 * stands in them. A symbolic link, a file with a second name (a hard link) and anything but a regular file are
 * refused: another file would be changed. ZR_ERR_CREATE, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__metrics_continue(zr__metrics_file *m, const char *path, int64_t step, zr__run_made *made);

/** Cut it there, before the first line is written; path and step are for the message. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__metrics_cut(const zr__metrics_file *m, const char *path, int64_t step);

/** Append one line (with its newline), behind those that are kept. */
zr__metrics_news zr__metrics_write(zr__metrics_file *m, const char *line, size_t bytes);

/** Write the lines that are kept and bring the file to the disk. ZR_ERR_IO: some cannot be written yet, and stay kept;
 * or the disk does not confirm it. */
ZR_NODISCARD zr_status zr__metrics_sync(zr__metrics_file *m);

/** Write the lines that are kept, bring the file to the disk and close it. ZR_ERR_IO where lines are lost: some could
 * not be written, or the file was removed. */
ZR_NODISCARD zr_status zr__metrics_end(zr__metrics_file *m);

/** Write the lines that are kept, if that is possible now, and close. */
void zr__metrics_close(zr__metrics_file *m);

#endif
