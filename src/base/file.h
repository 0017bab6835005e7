/**
 * Files by descriptor: read with pread and watched for changes, never mapped, so a file truncated by
 * someone else is an error here and not a SIGBUS; written with pwrite, never through a symbolic link.
 */
#ifndef ZR_BASE_FILE_H
#define ZR_BASE_FILE_H

#include "zr/base.h"

#include <time.h>

/** Room for the printable form of a path, and of a name that stands in a file. */
#define ZR_FILE_NAME_BYTES 256
#define ZR_QUOTE_BYTES 96

typedef struct zr__file {
    int fd; /* -1: closed */
    int64_t bytes;
    struct timespec modified;
    char name[ZR_FILE_NAME_BYTES]; /* the path as messages show it */
} zr__file;

/** ZR_ERR_NOT_FOUND for a file that could not be opened, `error` being errno: a relative path that is not there is
 * shown with the directory in which it was looked for. */
zr_status zr__file_missing(const char *path, int error);

/** Open a regular file to read, or to read and write. ZR_ERR_NOT_FOUND naming path and reason. */
ZR_NODISCARD zr_status zr__file_open(const char *path, bool writable, zr__file *file);
/** Open a regular file of a directory to read, neither through a symbolic link. ZR_ERR_NOT_FOUND naming path and
 * reason; ZR_ERR_DATA: something is there, but it is a link, or no directory, or no regular file. */
ZR_NODISCARD zr_status zr__file_open_in(const char *dir, const char *name, zr__file *file);
/** Make a file that is not there yet. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__file_create(const char *path, zr__file *file);
void zr__file_close(zr__file *file);

/** ZR_ERR_IO when size or modification time are no longer those of the opening. */
ZR_NODISCARD zr_status zr__file_unchanged(const zr__file *file);

/** Exactly `bytes` bytes from `offset`. ZR_ERR_IO; `short_status` when the file ends before. */
ZR_NODISCARD zr_status zr__file_read(const zr__file *file, int64_t offset, void *out, int64_t bytes,
                                     zr_status short_status);

/** These bytes are read next: the system may fetch them meanwhile. */
void zr__file_ahead(const zr__file *file, int64_t offset, int64_t bytes);

/** Read all of the file once, in pieces of ZR__FILE_PIECE_BYTES: fn (may be NULL) is given each, which begins at byte
 * `at` and lies at a multiple of 64, and may refuse it; *hash (may be NULL): XXH3-64 of all bytes. */
#define ZR__FILE_PIECE_BYTES ((int64_t)1 << 20)
typedef zr_status (*zr__piece_fn)(void *arg, int64_t at, const void *piece, int64_t bytes);
ZR_NODISCARD zr_status zr__file_pass(const zr__file *file, zr__piece_fn fn, void *arg, uint64_t *hash);
/** The same of what stands from byte `first` on. */
ZR_NODISCARD zr_status zr__file_pass_from(const zr__file *file, int64_t first, zr__piece_fn fn, void *arg,
                                          uint64_t *hash);

/** A hash of two hashes, in this order. */
uint64_t zr__hash_join(uint64_t first, uint64_t second);

/** Exactly `bytes` bytes at `offset`; all that was written, to the disk. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_write(const zr__file *file, int64_t offset, const void *in, int64_t bytes);
ZR_NODISCARD zr_status zr__file_sync(const zr__file *file);

/** Set the size, taking the space now: a full disk shows here rather than in the middle of writing. Where a file system
 *  cannot, it is asked what it has left. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_reserve(const zr__file *file, int64_t bytes);

#endif
