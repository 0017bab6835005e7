/**
 * Atomic creation of files and folders: they appear with all their bytes or not at all, even after a crash. Each is
 * written under a temporary name, synced, renamed, and its parent folder synced. zr__file_put writes a small file at
 * once, zr__new_file is written piece by piece, and zr__dir_commit renames a folder of synced files.
 */
#ifndef ZR_BASE_FILE_COMMIT_H
#define ZR_BASE_FILE_COMMIT_H

#include "base/file/file.h"

#include <limits.h>

/** A file being written under the temporary name path + ".tmp". */
typedef struct zr__new_file {
    zr__file file;
    char path[PATH_MAX], tmp[PATH_MAX]; /* final and temporary name */
} zr__new_file;

/** Create path + ".tmp", open for writing. With `anew`, first remove a file of that name left by a killed run. On
 * ZR_ERR_CREATE nothing was created. */
ZR_NODISCARD zr_status zr__new_file_begin(const char *path, bool anew, zr__new_file *made);
/** If `st`, the status of writing the file, is ZR_OK, sync the file and rename it to its final name. After any failure
 * the file is removed. Return `st` if it is a failure, or ZR_ERR_IO if syncing or renaming fails. */
ZR_NODISCARD zr_status zr__new_file_end(zr__new_file *made, zr_status st);

/** Write a whole small file atomically: create path + ".tmp" (removing an earlier leftover), sync it and rename it.
 * Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_put(const char *path, const void *bytes, int64_t n);

/** Create a file under its final name, write it and sync it. Used for files of a folder that zr__dir_commit renames
 * later. Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_write_new(const char *path, const void *bytes, int64_t n);

/** Rename file `tmp` to `final`, replacing an existing file, and sync the folder so that the new name survives a crash.
 * The file's content must already be synced, and `tmp` and `final` must lie in the same folder. Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_commit(const char *tmp, const char *final);

/** Commit a directory whose files are already synced: sync `tmp`, rename it to `final` (which must not exist or must be
 * empty), and sync the parent folder. If the call fails with ZR_ERR_IO and `tmp` is gone, `final` is complete and only
 * its survival of a crash is uncertain. */
ZR_NODISCARD zr_status zr__dir_commit(const char *tmp, const char *final);

#endif
