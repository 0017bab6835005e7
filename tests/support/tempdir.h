/* A temporary folder for one test, and files in it. */
#ifndef ZR_TESTS_TEMPDIR_H
#define ZR_TESTS_TEMPDIR_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char tempdir[64];

static int tempdir_make(void **state)
{
    (void)state;
    snprintf(tempdir, sizeof(tempdir), "/tmp/zr-test-XXXXXX");
    return mkdtemp(tempdir) ? 0 : -1;
}

static inline int tempdir_unlink(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}

static int tempdir_remove(void **state)
{
    (void)state;
    return nftw(tempdir, tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* Return the path of a name in the folder, in a static buffer that is reused by the sixteenth call from now. */
static inline const char *in_tempdir(const char *name)
{
    static char path[16][PATH_MAX];
    static int next;
    char *to = path[next++ % 16];
    snprintf(to, PATH_MAX, "%s/%s", tempdir, name);
    return to;
}

/* Write a file into the folder and return its path. */
static inline const char *put_file(const char *name, const void *bytes, size_t n)
{
    const char *path = in_tempdir(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file)) abort();
    return path;
}

#endif
