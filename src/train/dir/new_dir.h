/** Directories that a command makes: all of it under another name, which then becomes the one that was asked for. */
#ifndef ZR_TRAIN_NEW_DIR_H
#define ZR_TRAIN_NEW_DIR_H

#include "zr/base.h"

#include <limits.h>

/** Make the directory `to`.tmp and give back both names, without slashes at the end. ZR_ERR_CREATE; then nothing was
 * made, also where such a directory is there already: another command may be at it. */
ZR_NODISCARD zr_status zr__new_dir_begin(const char *to, char name[PATH_MAX], char tmp[PATH_MAX]);

#endif
