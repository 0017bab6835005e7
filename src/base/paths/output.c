#include "base/paths/output.h"

#include "base/core/core.h"
#include "base/paths/shards.h"
#include "base/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_HEAD = 64 };

static bool same_file(const char *path, const struct stat *info)
{
    struct stat its;
    return stat(path, &its) == 0 && its.st_dev == info->st_dev && its.st_ino == info->st_ino;
}

/* Return whether zr reads files called `name` in the directory of a model or a run. Files of other names may be
 * outputs. */
static bool is_read(const char *name)
{
    static const char *const whole[] = {"config.json", "run.json", "metrics.jsonl", "merges.txt"};
    static const char *const begin[] = {"tokenizer", "vocab"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (strcmp(name, whole[i]) == 0) return true;
    for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0) return true;
    return zr__text_ends(name, ".safetensors") || zr__text_ends(name, ".safetensors.index.json");
}

/* Return whether the file lies in the directory `path` and has a name that zr reads there. */
static bool in_directory(const char *path, const struct stat *info)
{
    DIR *dir = opendir(path);
    char inner[PATH_MAX];
    bool found = false;
    if (!dir) return false;
    for (const struct dirent *e = readdir(dir); e && !found; e = readdir(dir)) {
        int n = snprintf(inner, sizeof(inner), "%s/%s", path, e->d_name);
        found = n > 0 && n < PATH_MAX && is_read(e->d_name) && same_file(inner, info);
    }
    closedir(dir);
    return found;
}

static bool is_input(const char *path, const struct stat *info)
{
    char model[PATH_MAX];
    int n = snprintf(model, sizeof(model), "%s/model", path);
    return same_file(path, info) || in_directory(path, info) || (n > 0 && n < PATH_MAX && in_directory(model, info));
}

/* Return whether `value`, a pattern or list of data files, includes the file. Return false for a malformed value,
 * because the function that reads the value reports the error. */
static bool is_shard(const char *value, const struct stat *info)
{
    ZR_AUTO(zr__shards_free) zr__shards shards = {0};
    if (zr__shards_find(value, &shards) != ZR_OK) return false;
    for (int64_t i = 0; i < shards.n; i++)
        if (same_file(shards.path[i], info)) return true;
    return false;
}

/* Return the first input that is this file or includes it, or NULL if the file is not an input. */
static const char *input_of(const char *const *inputs, const struct stat *info)
{
    for (; inputs && *inputs; inputs++)
        if (is_input(*inputs, info) || is_shard(*inputs, info)) return *inputs;
    return NULL;
}

/* Return whether the file is empty or an older output of the same kind. */
static bool is_kind(int fd, const struct stat *info, const char *head)
{
    char there[LONGEST_HEAD];
    size_t n = strlen(head);
    return info->st_size == 0 ||
           (n <= sizeof(there) && pread(fd, there, n, 0) == (ssize_t)n && !memcmp(there, head, n));
}

static zr_status check_output(const zr__file *file, const zr__output_kind *kind, const char *const *inputs)
{
    struct stat info;
    ZR_CHECK(fstat(file->fd, &info) == 0, ZR_ERR_CREATE, "the %s %s cannot be written: %s", kind->what, file->name,
             strerror(errno));
    const char *input = input_of(inputs, &info);
    ZR_CHECK(!input, ZR_ERR_CREATE, "the %s %s would overwrite an input: it is %s %s; name another file", kind->what,
             file->name, is_shard(input, &info) ? "the file" : "in the directory", ZR_SHOWN(input));
    const bool regular = S_ISREG(info.st_mode);
    ZR_CHECK(regular || (kind->streams && !S_ISDIR(info.st_mode)), ZR_ERR_CREATE,
             "the %s %s cannot be written: it exists and is not a regular file; name another file", kind->what,
             file->name);
    ZR_CHECK(!regular || is_kind(file->fd, &info, kind->head), ZR_ERR_CREATE,
             "%s exists and is not the expected kind of file (%s); zr overwrites only an older %s; name another file",
             file->name, kind->what, kind->what);
    return ZR_OK;
}

zr_status zr__output_open(const char *path, const zr__output_kind *kind, const char *const *inputs, zr__file *file)
{
    /* If the path is a special file, such as a pipe, and this kind of output can be streamed, open() may block until
     * the pipe has a reader. In all other cases O_NONBLOCK keeps open() from blocking, and check_output refuses special
     * files. */
    struct stat info;
    bool there = stat(path, &info) == 0, through = there && !S_ISREG(info.st_mode) && kind->streams;
    int flags = O_CLOEXEC | (through ? O_WRONLY : O_RDWR | O_NONBLOCK);
    *file = (zr__file){.fd = -1};
    zr__text_escape(path, file->name, sizeof(file->name));
    /* O_NOFOLLOW keeps open() from creating the target of a dangling link. */
    file->fd = open(path, there ? flags : flags | O_CREAT | O_NOFOLLOW, 0666);
    ZR_CHECK(file->fd >= 0, ZR_ERR_CREATE, "cannot create the %s %s: %s; name another file", kind->what, file->name,
             errno == ELOOP ? "it is a link to a file that does not exist" : zr__error_text(errno));
    zr_status st = check_output(file, kind, inputs);
    if (st != ZR_OK) zr__file_close(file);
    return st;
}

/* Write sequentially, since pwrite does not work on pipes. */
static zr_status write_through(const zr__file *file, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(file->fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        ZR_CHECK(n > 0, ZR_ERR_IO, "%s could not be written completely: %s", file->name,
                 n < 0 ? strerror(errno) : "no byte was written");
        data += n;
        bytes -= (size_t)n;
    }
    return ZR_OK;
}

zr_status zr__output_write(const char *path, const zr__output_kind *kind, const char *const *inputs, const char *data,
                           size_t bytes)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    struct stat info;
    ZR_TRY(zr__output_open(path, kind, inputs, &file));
    ZR_CHECK(fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || ftruncate(file.fd, 0) == 0, ZR_ERR_CREATE,
             "the %s %s cannot be overwritten: %s; name another file", kind->what, file.name, strerror(errno));
    return write_through(&file, data, bytes);
}

zr_status zr__output_check(const char *path, const zr__output_kind *kind, const char *const *inputs)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    struct stat info;
    /* Do not fail for a missing file. If it cannot be created, zr__output_open reports the error later. */
    if (stat(path, &info) != 0) return ZR_OK;
    zr__text_escape(path, file.name, sizeof(file.name));
    file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ZR_CHECK(file.fd >= 0, ZR_ERR_CREATE, "the %s %s exists but cannot be read: %s; name another file", kind->what,
             file.name, strerror(errno));
    return check_output(&file, kind, inputs);
}

zr_status zr__output_check_stream(int fd, const char *name, const char *const *inputs)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return ZR_OK;
    const char *input = input_of(inputs, &info);
    ZR_CHECK(!input, ZR_ERR_CREATE, "%s would overwrite an input: it is redirected to %s %s; write to another file",
             name, is_shard(input, &info) ? "the file" : "in the directory", ZR_SHOWN(input));
    return ZR_OK;
}
