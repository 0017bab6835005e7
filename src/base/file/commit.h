/**
 * Atomic creation of files and folders: after a crash, a file or folder is either complete or does not exist. A file is
 * written under a temporary name, synced and renamed; then its parent folder is synced. zr__file_put writes a small
 * file in one call. zr__new_file is for files that are written piece by piece. zr__dir_commit renames a folder of
 * synced files.
 */
#ifndef ZR_BASE_FILE_COMMIT_H
#define ZR_BASE_FILE_COMMIT_H

#include "base/file/file.h"

#include <limits.h>

/** A file being written under the temporary name path + ".tmp". */
typedef struct zr__new_file {
    zr__file file;
    char path[PATH_MAX], tmp[PATH_MAX]; /* final path and temporary path */
} zr__new_file;

/** Create path + ".tmp" and open it for writing. If `anew` is true, first remove an old file of that name, which a
 * killed run may have left. If the call fails with ZR_ERR_CREATE, no file was created. */
ZR_NODISCARD zr_status zr__new_file_begin(const char *path, bool anew, zr__new_file *made);
/** Finish a file; `st` is the status of writing it. If `st` is ZR_OK, sync the file and rename it to its final name.
 * After any failure, remove the file. Return `st` if it is a failure, or ZR_ERR_IO if syncing or renaming fails. */
ZR_NODISCARD zr_status zr__new_file_end(zr__new_file *made, zr_status st);

/** Write a whole small file atomically: remove an old path + ".tmp", create it anew, write it, sync it, and rename it.
 * Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_put(const char *path, const void *bytes, int64_t n);

/** Create a file under its final name, write it and sync it. Use this for the files of a folder that zr__dir_commit
 * will rename. Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_write_new(const char *path, const void *bytes, int64_t n);

/** Rename file `tmp` to `final`, replacing an existing file, and sync the folder so that the new name survives a crash.
 * The file's content must already be synced, and `tmp` and `final` must lie in the same folder. Error: ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__file_commit(const char *tmp, const char *final);

/** Commit a directory whose files are already synced: sync `tmp`, rename it to `final`, and sync the parent folder.
 * `final` must not exist or must be empty. If the call fails with ZR_ERR_IO and `tmp` no longer exists, `final` is
 * complete, but a crash may undo the rename. */
ZR_NODISCARD zr_status zr__dir_commit(const char *tmp, const char *final);

#endif
