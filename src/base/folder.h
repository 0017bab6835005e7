/** Folders: paths in them, making them, the user's cache. */
#ifndef ZR_BASE_FOLDER_H
#define ZR_BASE_FOLDER_H

#include "zr/base.h"

#include <limits.h>

/** Make a folder and those that hold it, where they are not there. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__make_folders(const char *path);

/** Make one folder, or keep the one that is there. A symbolic link of that name is removed first: it may lead to files
 * of someone else, over which the files of the folder would be written. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status zr__make_folder(const char *path);

/** dir/name into `path`; ZR_ERR_CREATE when it is too long. */
ZR_NODISCARD zr_status zr__path_join(char path[PATH_MAX], const char *dir, const char *name);

/** The folder of zr's files in the user's cache (XDG Base Directory Specification: a relative path is ignored).
 *  ZR_ERR_NOT_FOUND: there is none, so that `what` cannot be kept. */
ZR_NODISCARD zr_status zr__cache_folder(const char *what, char folder[PATH_MAX]);

#endif
