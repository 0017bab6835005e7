#include "base/file/folder.h"

#include "base/text/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

zr_status zr__path_format(char path[PATH_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, PATH_MAX, format, args);
    va_end(args);
    ZR_CHECK(n >= 0 && n < PATH_MAX, ZR_ERR_CREATE, "the path %.60s... is longer than %d bytes; choose a shorter one",
             path, PATH_MAX - 1);
    return ZR_OK;
}

zr_status zr__path_join(char path[PATH_MAX], const char *dir, const char *name)
{
    return zr__path_format(path, "%s/%s", dir, name);
}

zr_status zr__path_of_input(char path[PATH_MAX], const char *dir, const char *name)
{
    ZR_CHECK(zr__path_join(path, dir, name) == ZR_OK, ZR_ERR_NOT_FOUND, "%s/%s: the path is longer than %d bytes",
             ZR_SHOWN(dir), name, PATH_MAX - 1);
    return ZR_OK;
}

void zr__close_fd(const int *fd)
{
    if (*fd >= 0) close(*fd);
}

void zr__close_dir(DIR *const *dir)
{
    if (*dir) closedir(*dir);
}

void zr__path_parent(const char *path, char parent[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const int n = slash && slash != path ? (int)(slash - path) : 1;
    snprintf(parent, PATH_MAX, "%.*s", n, slash ? path : ".");
}

void zr__path_existing(const char *path, char there[PATH_MAX])
{
    struct stat info;
    snprintf(there, PATH_MAX, "%s", path);
    while (stat(there, &info) != 0) {
        char *slash = strrchr(there, '/');
        if (!slash) {
            strcpy(there, ".");
            return;
        }
        slash[slash == there ? 1 : 0] = '\0';
    }
}

bool zr__path_is_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    return zr__path_join(path, dir, name) == ZR_OK && stat(path, &info) == 0;
}

void zr__path_remove(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (zr__path_join(path, dir, name) == ZR_OK) unlink(path);
}

zr_status zr__make_folders(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof(part), "%s", path);
    for (char *c = part + 1;; c++) {
        if (*c != '/' && *c != '\0') continue;
        char keep = *c;
        *c = '\0';
        ZR_CHECK(mkdir(part, 0777) == 0 || errno == EEXIST, ZR_ERR_CREATE, "cannot make the directory %s: %s",
                 ZR_SHOWN(part), strerror(errno));
        *c = keep;
        if (!keep) return ZR_OK;
    }
}

zr_status zr__make_folder(const char *path)
{
    struct stat st;
    bool there = lstat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) return ZR_OK;
    if (there && S_ISLNK(st.st_mode)) unlink(path);
    ZR_CHECK(mkdir(path, 0777) == 0, ZR_ERR_CREATE, "cannot make the directory %s: %s", ZR_SHOWN(path),
             strerror(errno));
    return ZR_OK;
}

zr_status zr__cache_folder(const char *what, char folder[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') return zr__path_join(folder, cache, "zr");
    ZR_CHECK(home && home[0] == '/', ZR_ERR_NOT_FOUND,
             "neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them, so that zr can store %s", what);
    return zr__path_join(folder, home, ".cache/zr");
}
