/**
 * Asynchronous reads or writes of one file, with two buffers called parts: a thread reads or writes one part while the
 * caller uses the other. Without this overlap, a disk of 2 GB/s would be idle for a third of the time, while the caller
 * copies and hashes the bytes. Where the file system allows it, I/O bypasses the page cache (O_DIRECT).
 */
#ifndef ZR_BASE_FILE_QUEUE_H
#define ZR_BASE_FILE_QUEUE_H

#include "base/core/core.h"
#include "base/file/file.h"

#include <pthread.h>

/** Alignment of offsets and addresses for direct I/O; devices have blocks of 512 or 4096 bytes. */
#define ZR__BLOCK_BYTES 4096
#define ZR__QUEUE_PARTS 2

/** A buffer with some bytes of the file. The caller owns it, except between zr__queue_give and zr__queue_take. */
typedef struct zr__file_part {
    /* Memory of the part. For direct I/O, the byte at file offset b has an address equal to b modulo
     * ZR__BLOCK_BYTES. */
    unsigned char *bytes;
    int64_t offset, n; /* offset of the part in the file, and length of the part, both in bytes and set by the caller */
    /* Layout of the part in the file, set by the caller. With stride 0 the n bytes are contiguous. Otherwise (writes
     * only) the file has ranges of `width` bytes that begin `stride` bytes apart. The part begins at `offset` with the
     * last `first` bytes of one range, and goes on with the next ranges. */
    int64_t first, width, stride;
    bool given;
    zr__failure failed; /* failure of the last read or write */
    void *memory;
} zr__file_part;

typedef struct zr__file_queue {
    const zr__file *file;
    int direct; /* second descriptor of the file for direct I/O, or -1 if direct I/O is not available */
    bool writes;
    int n_parts;
    zr__file_part part[ZR__QUEUE_PARTS];
    bool started, locks, quit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} zr__file_queue;

/** Open a queue for writes (if `writes`) or for reads, with n_parts buffers of part_bytes each. With one part, no
 * thread is started, and zr__queue_take does the I/O. If a queue for reads gets no memory for a second part, or no
 * thread, it uses one part. `file` must stay open. `path` is the path by which it was opened; if NULL, all I/O uses the
 * page cache. Error: ZR_ERR_MEMORY. Call zr__queue_close even after a failure. */
ZR_NODISCARD zr_status zr__queue_open(zr__file_queue *queue, const zr__file *file, const char *path, bool writes,
                                      int n_parts, int64_t part_bytes);
/** Close a queue, and drop submitted parts whose I/O has not begun. A zero-initialised queue may be closed. */
void zr__queue_close(zr__file_queue *queue);

/** Return the address of the part's first byte. */
static inline unsigned char *zr__part_bytes(const zr__file_part *part)
{
    return part->bytes + part->offset % ZR__BLOCK_BYTES;
}

/** Start reading or writing the part. */
void zr__queue_give(zr__file_queue *queue, int part);
/** Wait until the part's read or write has ended, and return its result: ZR_OK, ZR_ERR_IO, or ZR_ERR_DATA if the file
 * ends too early. Afterwards the part belongs to the caller. A repeated call returns the same result. Before the first
 * zr__queue_give, return ZR_OK. */
ZR_NODISCARD zr_status zr__queue_take(zr__file_queue *queue, int part);

#endif
