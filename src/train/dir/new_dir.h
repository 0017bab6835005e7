/** Support for commands that build a directory under a temporary name and rename it when it is complete. */
#ifndef ZR_TRAIN_NEW_DIR_H
#define ZR_TRAIN_NEW_DIR_H

#include "zr/base.h"

#include <limits.h>

/** Create the directory `to`.tmp, which must not exist, since another command may be writing it. `name` receives the
 * path `to` without trailing slashes, and `tmp` the path of the new directory. Fail with ZR_ERR_CREATE if the directory
 * cannot be created. */
ZR_NODISCARD zr_status zr__new_dir_begin(const char *to, char name[PATH_MAX], char tmp[PATH_MAX]);

#endif
