/* A new directory under a temporary name. */
#include "train/dir/run_files.h"

#include "base/text/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Return how to mend a failure of mkdir, as the end of a message. */
static const char *remedy_of(int error)
{
    if (error == EEXIST) return "; another command is creating it, or was interrupted: then remove it";
    if (error == ENOENT) return "; make the folder above it first";
    return error == EACCES || error == EROFS ? "; name a directory in a folder in which you may write" : "";
}

zr_status zr__new_dir_begin(const char *to, char name[PATH_MAX], char tmp[PATH_MAX])
{
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/') n--;
    const char *shown = ZR_SHOWN(to);
    ZR_CHECK(n > 0 && n + sizeof(".tmp") <= PATH_MAX, ZR_ERR_CREATE, "the path \"%.60s\" is not usable", shown);
    snprintf(name, PATH_MAX, "%.*s", (int)n, to);
    snprintf(tmp, PATH_MAX, "%.*s.tmp", (int)n, to);
    ZR_CHECK(mkdir(tmp, 0777) == 0, ZR_ERR_CREATE, "cannot make the directory %s.tmp: %s%s", shown, strerror(errno),
             remedy_of(errno));
    return ZR_OK;
}
