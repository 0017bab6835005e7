/**
 * Files by descriptor: read with pread and watched for changes, never mapped, so a file truncated by
 * someone else is an error here and not a SIGBUS; written with pwrite, never through a symbolic link.
 */
#ifndef ZR_BASE_FILE_H
#define ZR_BASE_FILE_H

#include "zr/base.h"

#include <time.h>

/** Room for the printable form of a path, and of a quoted name from a file. */
#define ZR_FILE_NAME_BYTES 256
#define ZR_QUOTE_BYTES 96

typedef struct zr__file {
    int fd; /* -1: closed */
    int64_t bytes;
    struct timespec modified;
    char name[ZR_FILE_NAME_BYTES]; /* the path as messages show it */
} zr__file;

/** Fail with ZR_ERR_NOT_FOUND for a file that could not be opened, `error` being errno. The message of a relative
 * path that does not exist has the directory in which it was looked for. */
zr_status zr__file_missing(const char *path, int error);

/** Open a regular file to read, or to read and write. ZR_ERR_NOT_FOUND naming path and reason. */
ZR_NODISCARD zr_status zr__file_open(const char *path, bool writable, zr__file *file);
/** Open a regular file of a directory to read; neither of the two may be a symbolic link. ZR_ERR_NOT_FOUND naming
 * path and reason; ZR_ERR_DATA: it exists, but is a link, no directory, or no regular file. */
ZR_NODISCARD zr_status zr__file_open_in(const char *dir, const char *name, zr__file *file);
/** Create a file that does not exist yet. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__file_create(const char *path, zr__file *file);
void zr__file_close(zr__file *file);

/** Return ZR_ERR_IO when size or modification time have changed since the file was opened. */
ZR_NODISCARD zr_status zr__file_unchanged(const zr__file *file);

/** Read exactly `bytes` bytes from `offset`. ZR_ERR_IO; `short_status` when the file ends before. */
ZR_NODISCARD zr_status zr__file_read(const zr__file *file, int64_t offset, void *out, int64_t bytes,
                                     zr_status short_status);

/** Tell the system that these bytes are read next, so that it may prefetch them. */
void zr__file_ahead(const zr__file *file, int64_t offset, int64_t bytes);

/** Read the whole file once, in pieces of ZR__FILE_PIECE_BYTES. fn (may be NULL) is given each piece, at an address
 * that is a multiple of 64, and its first byte `at`; it may fail. *hash (may be NULL): XXH3-64 of all bytes. */
#define ZR__FILE_PIECE_BYTES ((int64_t)1 << 20)
typedef zr_status (*zr__piece_fn)(void *arg, int64_t at, const void *piece, int64_t bytes);
ZR_NODISCARD zr_status zr__file_pass(const zr__file *file, zr__piece_fn fn, void *arg, uint64_t *hash);
/** Do the same for the bytes from `first` to the end. */
ZR_NODISCARD zr_status zr__file_pass_from(const zr__file *file, int64_t first, zr__piece_fn fn, void *arg,
                                          uint64_t *hash);

/** Return a hash of two hashes, in this order. */
uint64_t zr__hash_join(uint64_t first, uint64_t second);

/** Write exactly `bytes` bytes at `offset` (_write); sync all writes to the disk (_sync). ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_write(const zr__file *file, int64_t offset, const void *in, int64_t bytes);
ZR_NODISCARD zr_status zr__file_sync(const zr__file *file);

/** Set the size and allocate the space now, so that a full disk is found before writing begins. Where a file system
 * cannot allocate, its free space is compared instead. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_reserve(const zr__file *file, int64_t bytes);

#endif
