/**
 * Asynchronous reads or writes of one file: a thread moves one part while the caller fills or uses the other. Without
 * this overlap a disk of 2 GB/s is idle a third of the time during copies and checksums. Bytes bypass the page cache
 * (O_DIRECT) where the file system allows it.
 */
#ifndef ZR_BASE_FILE_QUEUE_H
#define ZR_BASE_FILE_QUEUE_H

#include "base/core/core.h"
#include "base/file/file.h"

#include <pthread.h>

/** Alignment of offsets and addresses for direct I/O; devices have blocks of 512 or 4096 bytes. */
#define ZR__BLOCK_BYTES 4096
#define ZR__QUEUE_PARTS 2

/** A buffer with part of the file's bytes. It belongs to the caller, except between zr__queue_give and
 * zr__queue_take. */
typedef struct zr__file_part {
    unsigned char *bytes; /* buffer; byte b of the file is at an address congruent to b modulo ZR__BLOCK_BYTES, for
                             direct I/O */
    int64_t offset, n;    /* file offset and length of the part in bytes, set by the caller */
    /* Layout of the part in the file, set by the caller. With stride 0 the n bytes are contiguous. Otherwise (writes
     * only) they form ranges of `width` bytes whose beginnings are `stride` bytes apart; `offset` lies in the first
     * range, of which only the last `first` bytes belong to the part. */
    int64_t first, width, stride;
    bool given;
    zr__failure failed; /* failure of the last read or write */
    void *memory;
} zr__file_part;

typedef struct zr__file_queue {
    const zr__file *file;
    int direct; /* second descriptor of the file, which bypasses the page cache, or -1 if not available */
    bool writes;
    int n_parts;
    zr__file_part part[ZR__QUEUE_PARTS];
    bool started, locks, quit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} zr__file_queue;

/** Open a queue of writes (`writes`) or of reads, with n_parts buffers of part_bytes each. With one part no thread is
 * started: zr__queue_take does the I/O. A queue of reads falls back to one part if memory for the second part or the
 * thread is not available. `file` is borrowed. `path` is the name it was opened by; if NULL, all bytes go through the
 * page cache. Error: ZR_ERR_MEMORY. Call zr__queue_close even after a failure. */
ZR_NODISCARD zr_status zr__queue_open(zr__file_queue *queue, const zr__file *file, const char *path, bool writes,
                                      int n_parts, int64_t part_bytes);
/** Close a queue and drop parts that were submitted but not begun. A zero-initialised queue may be closed. */
void zr__queue_close(zr__file_queue *queue);

/** Return the address of the part's first byte. */
static inline unsigned char *zr__part_bytes(const zr__file_part *part)
{
    return part->bytes + part->offset % ZR__BLOCK_BYTES;
}

/** Start reading or writing the part. */
void zr__queue_give(zr__file_queue *queue, int part);
/** Wait until the part belongs to the caller again and return the result of its read or write: ZR_OK, ZR_ERR_IO, or
 * ZR_ERR_DATA if the file ends too early. A repeated call returns the same result. Before the first zr__queue_give,
 * return ZR_OK. */
ZR_NODISCARD zr_status zr__queue_take(zr__file_queue *queue, int part);

#endif
