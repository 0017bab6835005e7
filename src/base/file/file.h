/**
 * Files by descriptor. Reads use pread and writes use pwrite. Files are never memory-mapped: if another process
 * truncates a file, a read returns an error instead of raising SIGBUS. zr__file_unchanged detects changes by other
 * processes. Writes never go through a symbolic link.
 */
#ifndef ZR_BASE_FILE_H
#define ZR_BASE_FILE_H

#include "base/core/scope.h"

#include <time.h>

/** Buffer sizes in bytes: ZR_FILE_NAME_BYTES for the printable form of a path, ZR_QUOTE_BYTES for a name quoted from a
 * file. */
#define ZR_FILE_NAME_BYTES 256
#define ZR_QUOTE_BYTES 96

typedef struct zr__file {
    int fd; /* file descriptor, or -1 if closed */
    int64_t bytes;
    struct timespec modified;
    char name[ZR_FILE_NAME_BYTES]; /* printable form of the path, for messages */
} zr__file;

/** Fail for a file that could not be opened; `error` is the errno of open. Return ZR_ERR_IO for EMFILE, ENFILE and EIO,
 * otherwise ZR_ERR_NOT_FOUND. If a relative path does not exist, the message also names the current directory. */
zr_status zr__file_missing(const char *path, int error);

/** Open a regular file for reading, or for reading and writing if `writable`. If this is not possible, fail as
 * zr__file_missing does, with ZR_ERR_NOT_FOUND if the file is not a regular one. */
ZR_NODISCARD zr_status zr__file_open(const char *path, bool writable, zr__file *file);
/** Open a regular file in a directory for reading. Neither the file nor the directory may be a symbolic link. Errors:
 * ZR_ERR_NOT_FOUND if either does not exist; ZR_ERR_DATA if either is a link or of the wrong type; ZR_ERR_IO. The
 * message names path and reason. */
ZR_NODISCARD zr_status zr__file_open_in(const char *dir, const char *name, zr__file *file);
/** Create a file that must not exist yet. Error: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__file_create(const char *path, zr__file *file);
void zr__file_close(zr__file *file);

/** Return ZR_ERR_IO if the file's size or modification time has changed since it was opened. */
ZR_NODISCARD zr_status zr__file_unchanged(const zr__file *file);

/** Return whether these bytes begin like a pointer of Git LFS: a short text that a clone has in place of a large file.
 * Eight bytes are enough. Messages end with ZR_POINTER_REMEDY. */
bool zr__file_is_pointer(const void *bytes, size_t n);
#define ZR_POINTER_REMEDY "it is a pointer of Git LFS; get the file itself with `git lfs pull`, or download it"

/** Read exactly `bytes` bytes from `offset`. Fail with ZR_ERR_IO, or with `short_status` if the file ends too early. */
ZR_NODISCARD zr_status zr__file_read(const zr__file *file, int64_t offset, void *out, int64_t bytes,
                                     zr_status short_status);

/** Tell the system that these bytes will be read next, so that it may prefetch them. */
void zr__file_ahead(const zr__file *file, int64_t offset, int64_t bytes);

/** Read the whole file once, in pieces of ZR__FILE_PIECE_BYTES. Call fn for each piece with the piece's file offset
 * `at`, and stop if fn fails. The address of each piece is a multiple of 64 bytes. *hash receives the XXH3-64 hash of
 * all bytes. fn and hash may be NULL. */
#define ZR__FILE_PIECE_BYTES ((int64_t)1 << 20)
typedef zr_status (*zr__piece_fn)(void *arg, int64_t at, const void *piece, int64_t bytes);
ZR_NODISCARD zr_status zr__file_pass(const zr__file *file, zr__piece_fn fn, void *arg, uint64_t *hash);
/** Read the bytes from offset `first` to the end, as zr__file_pass reads the whole file. */
ZR_NODISCARD zr_status zr__file_pass_from(const zr__file *file, int64_t first, zr__piece_fn fn, void *arg,
                                          uint64_t *hash);

/** Combine two hashes into one. The result depends on their order. */
uint64_t zr__hash_join(uint64_t first, uint64_t second);

/** Write exactly `bytes` bytes at `offset` (_write), or sync all writes to the disk (_sync). Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_write(const zr__file *file, int64_t offset, const void *in, int64_t bytes);
ZR_NODISCARD zr_status zr__file_sync(const zr__file *file);

/** Set the file's size and allocate its disk space now, so that a full disk is found before writing begins. If the file
 * system cannot allocate, only check that its free space is large enough. Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_reserve(const zr__file *file, int64_t bytes);

#endif
