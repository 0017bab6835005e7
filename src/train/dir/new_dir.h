/** Directories that a command builds under a temporary name and renames to the requested one when they are complete. */
#ifndef ZR_TRAIN_NEW_DIR_H
#define ZR_TRAIN_NEW_DIR_H

#include "zr/base.h"

#include <limits.h>

/** Make the directory `to`.tmp and return both names, without trailing slashes. ZR_ERR_CREATE: nothing was made, also
 * when `to`.tmp exists already, since another command may be writing it. */
ZR_NODISCARD zr_status zr__new_dir_begin(const char *to, char name[PATH_MAX], char tmp[PATH_MAX]);

#endif
