/**
 * Reads or writes of one file, done by a thread while the caller fills or uses the other part: without the overlap a
 * disk of 2 GB/s is idle a third of the time, during copies and checksums. Bytes go past the page cache (O_DIRECT)
 * where the file system allows it.
 */
#ifndef ZR_BASE_FILE_QUEUE_H
#define ZR_BASE_FILE_QUEUE_H

#include "base/core/core.h"
#include "base/file/file.h"

#include <pthread.h>

/** Alignment of offsets and addresses for direct I/O. A device's block is 512 or 4096 bytes. */
#define ZR__BLOCK_BYTES 4096
#define ZR__QUEUE_PARTS 2

/** A part of the file in memory. It belongs to the caller, except from zr__queue_give to zr__queue_take. */
typedef struct zr__file_part {
    unsigned char *bytes; /* byte b of the file is at b modulo ZR__BLOCK_BYTES, as direct I/O needs it */
    int64_t offset, n;    /* the part's bytes of the file, set by the caller */
    /* Stretches of the part, set by the caller. stride 0: the n bytes are contiguous in the file. Else (writes only)
     * the first `first` bytes are at `offset`, at the end of a stretch of `width` bytes, and later stretches begin
     * `stride` bytes apart. */
    int64_t first, width, stride;
    bool given;
    zr__failure failed; /* failure of the last read or write */
    void *memory;
} zr__file_part;

typedef struct zr__file_queue {
    const zr__file *file;
    int direct; /* descriptor of the same file that bypasses the page cache; -1: not available */
    bool writes;
    int n_parts;
    zr__file_part part[ZR__QUEUE_PARTS];
    bool started, locks, quit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} zr__file_queue;

/** Open a queue of writes, or else of reads, with n_parts of part_bytes each. A single part needs no thread:
 * zr__queue_take moves it. A queue of reads falls back to one part if the second part or the thread cannot be had.
 * `file` is borrowed. `path`: the name that it was opened by; NULL: all bytes go through the page cache. ZR_ERR_MEMORY.
 * Close it in either case. */
ZR_NODISCARD zr_status zr__queue_open(zr__file_queue *queue, const zr__file *file, const char *path, bool writes,
                                      int n_parts, int64_t part_bytes);
/** Close a queue; a part that was given and not yet begun is dropped. A queue of zeros is fine. */
void zr__queue_close(zr__file_queue *queue);

/** Return the address of the part's first byte. */
static inline unsigned char *zr__part_bytes(const zr__file_part *part)
{
    return part->bytes + part->offset % ZR__BLOCK_BYTES;
}

/** Start to read or write the part. */
void zr__queue_give(zr__file_queue *queue, int part);
/** Wait until the part belongs to the caller again and return the result of its read or write: ZR_ERR_IO;
 * ZR_ERR_DATA: the file ends before. A repeated call returns the same result, a call before the first zr__queue_give
 * ZR_OK. */
ZR_NODISCARD zr_status zr__queue_take(zr__file_queue *queue, int part);

#endif
