/** store: files on disk that hold the memory space DISK of one rank: states that are kept neither on the device nor in
 * host memory (ZeRO-Infinity, Rajbhandari et al. 2021, section 5.2).
 *
 * A store is one file in each of its folders. Blocks of the space go to the files in turn, so that several disks work
 * side by side. The files have no name once they are open: a process that ends, however it ends, leaves nothing behind,
 * no second run can use them, and old contents are never read. Transfers bypass the page cache where the file system can
 * do so. No file is ever mapped. */
#ifndef ZR_STORE_STORE_H
#define ZR_STORE_STORE_H

#include "zr/base.h"

/* Alignment of offsets in a store, and of memory that is transferred without a detour through the passing buffer, in
 * bytes. */
#define ZR_STORE_ALIGN 4096

typedef struct zr__store zr__store;

typedef struct zr__store_config {
    const char *const *folder; /* existing folders, one for each file */
    int n_folders;
    int64_t bytes;       /* size of the space */
    int64_t block_bytes; /* bytes that go to one file before the next file's turn, and largest single transfer; a
                            multiple of ZR_STORE_ALIGN */
    int depth;           /* maximum number of transfers in flight in each direction */
    void *passing; /* memory of zr__store_passing_bytes, aligned to ZR_STORE_ALIGN, through which bytes pass whose
                      address or length cannot be transferred directly */
    const char *owner; /* whose states these are, for messages, such as "rank 3" */
} zr__store_config;

/* Return the bytes of memory that a store needs besides its caller's memory. The plan contains them. */
int64_t zr__store_passing_bytes(int64_t block_bytes, int depth);

/* Create the files and reserve all their bytes. Fail with ZR_ERR_MEMORY if a folder has too little room: the
 * message names the folder, the bytes wanted and the bytes free. Not collective. */
zr_status zr__store_create(const zr__store_config *config, zr__store **store);
void zr__store_destroy(zr__store **store);

/* Read or write `bytes` bytes at `offset`, which is a multiple of ZR_STORE_ALIGN. Return when all bytes have moved. A
 * write may overwrite the rest of the last block of ZR_STORE_ALIGN bytes. One thread may read while another thread
 * writes. `what` names the contents for messages. Fail with ZR_ERR_IO. */
zr_status zr__store_read(zr__store *store, int64_t offset, void *to, int64_t bytes, const char *what);
zr_status zr__store_write(zr__store *store, int64_t offset, const void *from, int64_t bytes, const char *what);

/* How a store's transfers are made, and what they amount to since the store was created. */
typedef struct zr__store_facts {
    const char *transfers;            /* "io_uring" or "threads" */
    bool direct;                      /* whether all files bypass the page cache */
    int64_t read_bytes, written_bytes; /* bytes that callers asked for, without padding */
} zr__store_facts;
zr__store_facts zr__store_facts_of(const zr__store *store);

#endif
