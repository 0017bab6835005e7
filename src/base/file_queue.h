/**
 * Reads or writes of one file, worked off by a thread while the caller fills or uses another part of it: without that a
 * disk of 2 GB/s waits a third of the time for copies and checksums. Bytes go past the page cache (O_DIRECT) where the
 * file system allows it.
 */
#ifndef ZR_BASE_FILE_QUEUE_H
#define ZR_BASE_FILE_QUEUE_H

#include "base/file.h"

#include <pthread.h>

/** What direct I/O asks of offsets and addresses is the block of the device: 512 or 4096. */
#define ZR__BLOCK_BYTES 4096
#define ZR__QUEUE_PARTS 2

/** A part of the file in memory: the caller's, or after zr__queue_give the queue's until zr__queue_take. */
typedef struct zr__file_part {
    unsigned char
        *bytes;        /* byte b of the file stands at b modulo ZR__BLOCK_BYTES, so that direct I/O finds it aligned */
    int64_t offset, n; /* of the file; the caller's to set */
    /* stride 0: the n bytes are one stretch of the file. Else the first `first` of them stand at `offset`, and where a
     * stretch ends the next one of `width` bytes begins `stride` bytes behind the beginning of a whole one. Writes
     * only; the caller's to set. */
    int64_t first, width, stride;
    bool given;
    zr_status status; /* of what was done last */
    void *memory;
    char message[512];
} zr__file_part;

typedef struct zr__file_queue {
    const zr__file *file;
    int direct; /* the same file once more, past the page cache; -1: not here */
    bool writes;
    int n_parts;
    zr__file_part part[ZR__QUEUE_PARTS];
    bool started, locks, quit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} zr__file_queue;

/** A queue of writes, or else of reads, with n_parts of part_bytes each; a single part needs no thread: zr__queue_take
 *  moves it. A queue of reads whose second part or thread cannot be had does with one. `file` is borrowed; `path`: the
 *  name it was opened by, NULL: all goes through the page cache. ZR_ERR_MEMORY. Close it in either case. */
ZR_NODISCARD zr_status zr__queue_open(zr__file_queue *queue, const zr__file *file, const char *path, bool writes,
                                      int n_parts, int64_t part_bytes);
/** Ended or not: what was given and not yet begun is not done. A queue of zeros is fine. */
void zr__queue_close(zr__file_queue *queue);

/** Where the part's first byte stands. */
static inline unsigned char *zr__part_bytes(const zr__file_part *part)
{
    return part->bytes + part->offset % ZR__BLOCK_BYTES;
}

/** Read or write the part's bytes of the file from now on. */
void zr__queue_give(zr__file_queue *queue, int part);
/** Wait until part is the caller's, and say what came of it: ZR_ERR_IO; ZR_ERR_DATA a file that ends before. Once more,
 *  or before anything was given: the same again, ZR_OK. */
ZR_NODISCARD zr_status zr__queue_take(zr__file_queue *queue, int part);

#endif
