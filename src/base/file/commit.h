/**
 * Files and folders that appear atomically, with all their bytes, even if the machine stops: they are written under a
 * temporary name, synced and renamed, and the name is synced. zr__file_put writes a small file at once, a
 * zr__new_file grows piece by piece, and zr__dir_commit names a folder of synced files.
 */
#ifndef ZR_BASE_FILE_COMMIT_H
#define ZR_BASE_FILE_COMMIT_H

#include "base/file/file.h"

#include <limits.h>

/** A file that is being written as path + ".tmp". */
typedef struct zr__new_file {
    zr__file file;
    char path[PATH_MAX], tmp[PATH_MAX]; /* final and temporary name */
} zr__new_file;

/** Create path + ".tmp", open for writing; with `anew`, the rest of a killed run of that name is removed before.
 *  ZR_ERR_CREATE: nothing was made. */
ZR_NODISCARD zr_status zr__new_file_begin(const char *path, bool anew, zr__new_file *made);
/** Sync the file and give it its final name, unless `st`, the status of writing it, is a failure. After any failure
 *  the file is removed. Return `st`, or else ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__new_file_end(zr__new_file *made, zr_status st);

/** Write a whole small file: path + ".tmp" is created (an earlier leftover is removed), synced and committed.
 *  ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_put(const char *path, const void *bytes, int64_t n);

/** Create a file of its final name, write it and sync it, for a folder that is committed later. ZR_ERR_CREATE,
 *  ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_write_new(const char *path, const void *bytes, int64_t n);

/** Rename tmp to final (replacing it) and make the name durable (fsync of the folder). The content must have been
 *  synced; both names are in one folder. ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_commit(const char *tmp, const char *final);

/** Commit a directory in the same way; its files must have been synced. tmp is synced, renamed to final (which does not
 *  exist, or is empty), and the name made durable. ZR_ERR_IO: where tmp is gone, final has the name and is whole, and
 *  only its durability is unknown. */
ZR_NODISCARD zr_status zr__dir_commit(const char *tmp, const char *final);

#endif
