/**
 * base/file: files and folders. file.h reads and writes files by descriptor, file_queue.h does so in a thread beside
 * the caller, commit.h lets files and folders appear atomically, and folder.h has paths and makes folders.
 */
#ifndef ZR_BASE_FOLDER_H
#define ZR_BASE_FOLDER_H

#include "zr/base.h"

#include <limits.h>

/** Create a folder and its missing parents. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__make_folders(const char *path);

/** Create one folder, or keep an existing one. A symbolic link of that name is removed first: it may lead to
 * somebody else's folder, whose files would be overwritten. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__make_folder(const char *path);

/** Print a path (_format), or dir/name (_join), to `path`. ZR_ERR_CREATE: it is too long. */
ZR_NODISCARD zr_status zr__path_format(char path[PATH_MAX], const char *format, ...) ZR_PRINTF(2, 3);
ZR_NODISCARD zr_status zr__path_join(char path[PATH_MAX], const char *dir, const char *name);
/** Write the folder of a path to `parent`: "." for a bare name. */
void zr__path_parent(const char *path, char parent[PATH_MAX]);
/** Return whether dir/name exists; a link that leads nowhere does not. */
bool zr__path_is_in(const char *dir, const char *name);

/** Write the path of zr's folder in the user's cache to `folder` (XDG Base Directory Specification: a relative path
 * is ignored). ZR_ERR_NOT_FOUND: the user has no cache folder; `what` names the thing to be kept, for the message. */
ZR_NODISCARD zr_status zr__cache_folder(const char *what, char folder[PATH_MAX]);

#endif
