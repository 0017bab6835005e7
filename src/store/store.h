/** store: files that hold the memory space DISK of one rank, with states that are stored neither on the device nor in
 * host memory (ZeRO-Infinity, Rajbhandari et al. 2021, section 5.2).
 *
 * A store is one file in each of its folders. Blocks of the space are assigned to the files in turn, so that several
 * disks work at the same time. Open files have no name. Therefore nothing remains on disk when the process ends or is
 * killed, no other run can use the files, and old contents are never read. Transfers bypass the page cache if the file
 * system supports it. Files are never mapped.
 *
 * Transfers are made by io_uring if zr was built with liburing and the kernel allows it, and otherwise by threads. The
 * environment variable ZR_STORE (io_uring or threads) overrides this choice. */
#ifndef ZR_STORE_STORE_H
#define ZR_STORE_STORE_H

#include "base/file/passing.h"
#include "zr/base.h"

/* Alignment in bytes of offsets in a store, and of memory that is transferred directly, not through the passing buffer.
 */
#define ZR_STORE_ALIGN 4096

typedef struct zr__store zr__store;

typedef struct zr__store_config {
    const char *const *folder; /* existing folders, one for each file */
    int n_folders;
    int64_t bytes; /* size of the space */
    /* bytes that go to one file before the next file follows; also the maximum of a single transfer. A multiple of
     * ZR_STORE_ALIGN, at most 2^30 */
    int64_t block_bytes;
    int depth; /* maximum number of transfers in flight in each direction */
    /* memory of zr__passing_bytes bytes, aligned to ZR_STORE_ALIGN; bytes pass through it if their address or length
     * does not allow a direct transfer */
    void *passing;
    const char *owner; /* owner of the states, for messages, such as "rank 3" */
} zr__store_config;

/* Maximum number of threads that a store starts for each direction. More threads do not make a disk faster. */
#define ZR_STORE_THREADS 3

/* Create the files and reserve all their bytes, which read as zeros until they are written. Not collective. Errors:
 * ZR_ERR_MEMORY if a folder has too little room (the message names the folder, the bytes wanted and the bytes free);
 * ZR_ERR_CREATE if a folder does not exist or cannot be written; ZR_ERR_CONFIG and ZR_ERR_UNSUPPORTED for a value of
 * ZR_STORE. */
ZR_NODISCARD zr_status zr__store_create(const zr__store_config *config, zr__store **store);
void zr__store_destroy(zr__store **store);

/* Register `memory` with the kernel until the store is destroyed, so that transfers from and to it need less processor
 * time. Call this at most once, before the first transfer. If the system refuses, for example because of the limit of
 * locked memory, do nothing and return false; transfers work without it. */
bool zr__store_pin(zr__store *store, void *memory, int64_t bytes);

/* Read or write `bytes` bytes at `offset`, which is a multiple of ZR_STORE_ALIGN. Return when all bytes have moved, or
 * after a failure when no transfer is in flight. A write may overwrite the rest of the last block of ZR_STORE_ALIGN
 * bytes. One thread may read while another thread writes. Threads that read at the same time take turns, and so do
 * threads that write. `what` names the contents for messages. Fail with ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__store_read(zr__store *store, int64_t offset, void *to, int64_t bytes, const char *what);
ZR_NODISCARD zr_status zr__store_write(zr__store *store, int64_t offset, const void *from, int64_t bytes,
                                       const char *what);

/* Properties of a store's transfers, and their bytes since the store was created. */
typedef struct zr__store_facts {
    const char *transfers;             /* "io_uring" or "threads" */
    bool direct;                       /* whether all files bypass the page cache */
    bool pinned;                       /* whether zr__store_pin succeeded */
    int64_t read_bytes, written_bytes; /* bytes that callers asked for, without padding */
} zr__store_facts;
zr__store_facts zr__store_facts_of(const zr__store *store);

/* Rates of sequential transfers from and to a folder, in bytes per second, measured with a store. */
typedef struct zr__store_rates {
    double read, write;    /* rates of one direction alone */
    double mixed;          /* sum of both directions, with equal bytes read and written */
    const char *transfers; /* "io_uring" or "threads" */
    /* whether the page cache was bypassed; if not, the rates may be those of memory instead of the disk */
    bool direct;
} zr__store_rates;

/* Measure the rates of a folder with a temporary store of `bytes` bytes, rounded up to a multiple of 2 x depth blocks.
 * A first pass writes all bytes. Then all bytes are moved once for each rate. Fail as zr__store_create, zr__store_read
 * and zr__store_write do. */
ZR_NODISCARD zr_status zr__store_measure(const char *folder, int64_t bytes, int64_t block_bytes, int depth,
                                         zr__store_rates *rates);

#endif
