/**
 * base/file: files and folders. file.h reads and writes files by descriptor, file_queue.h reads and writes
 * asynchronously, commit.h creates files and folders atomically, and folder.h builds paths and creates folders.
 */
#ifndef ZR_BASE_FOLDER_H
#define ZR_BASE_FOLDER_H

#include "base/core/scope.h"

#include <dirent.h>
#include <limits.h>

/** Create a folder and its missing parents. Error: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__make_folders(const char *path);

/** Create a folder unless it exists. A symbolic link of that name is removed first: it could lead to a foreign folder,
 * whose files would then be overwritten. Error: ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__make_folder(const char *path);

/** Print a path (_format), or dir/name (_join), to `path`. Fail with ZR_ERR_CREATE if it is too long. */
ZR_NODISCARD zr_status zr__path_format(char path[PATH_MAX], const char *format, ...) ZR_PRINTF(2, 3);
ZR_NODISCARD zr_status zr__path_join(char path[PATH_MAX], const char *dir, const char *name);
/** Write the path of an input file, dir/name, to `path`. Fail with ZR_ERR_NOT_FOUND if it is too long. */
ZR_NODISCARD zr_status zr__path_of_input(char path[PATH_MAX], const char *dir, const char *name);
/** Write the folder part of a path to `parent`: everything before the last name, or "." for a bare name. */
void zr__path_parent(const char *path, char parent[PATH_MAX]);
/** Write the path itself if it exists, or else its nearest parent directory that exists. */
void zr__path_existing(const char *path, char there[PATH_MAX]);
/** Return whether dir/name exists. A dangling symbolic link does not count as existing. */
bool zr__path_is_in(const char *dir, const char *name);
/** Remove the file or symbolic link dir/name if possible. */
void zr__path_remove(const char *dir, const char *name);

/** Close a file descriptor (_fd) or the stream of a directory (_dir) at the end of a block (ZR_AUTO), unless it is -1
 * or NULL because it could not be opened. */
void zr__close_fd(const int *fd);
void zr__close_dir(DIR *const *dir);

/** Write the path of zr's folder in the user's cache directory to `folder`. A relative XDG_CACHE_HOME is ignored, as
 * the XDG Base Directory Specification demands. If the user has no cache directory, fail with ZR_ERR_NOT_FOUND; the
 * message says that `what` cannot be cached. */
ZR_NODISCARD zr_status zr__cache_folder(const char *what, char folder[PATH_MAX]);

#endif
