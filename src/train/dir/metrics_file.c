#include "train/dir/metrics_file.h"

#include "base/core/core.h"
#include "base/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

zr_status zr__metrics_create(zr__metrics_file *m, const char *path)
{
    m->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    ZR_CHECK(m->fd >= 0, ZR_ERR_CREATE, "cannot create %s: %s", ZR_SHOWN(path), zr__error_text(errno));
    return ZR_OK;
}

/* ---- an existing file ------------------------------------------------------------------------- */

/** Take the results in a line. Set *later to whether it is of a step after `step`. */
static zr_status take_line(const char *text, size_t bytes, int64_t step, zr__run_made *made, bool *later)
{
    json_error_t error;
    json_auto_t *line = NULL;
    ZR_TRY(zr__json_load(text, bytes, JSON_ALLOW_NUL, "a line of metrics", &line, &error));
    const int64_t its = json_integer_value(json_object_get(line, "step"));
    const json_t *val_loss = json_object_get(line, "val_loss");
    *later = its > step;
    if (*later) return ZR_OK;
    made->evaluation |= its == step && val_loss;
    if (its == step && val_loss) made->val_loss = json_is_number(val_loss) ? json_number_value(val_loss) : NAN;
    made->sample |= its == step && json_object_get(line, "sample");
    if (json_object_get(line, "loss")) made->last_step = its;
    if (json_is_number(val_loss)) made->best_loss = fmin(made->best_loss, json_number_value(val_loss));
    return ZR_OK;
}

/** Set *end to the offset after the lines of steps up to `step`. *made receives the results that these lines contain.
 */
static zr_status find_end(FILE *file, int64_t step, zr__run_made *made, int64_t *end)
{
    char *line = NULL;
    size_t room = 0;
    bool later = false;
    zr_status st = ZR_OK;
    *end = 0;
    *made = (zr__run_made){.best_loss = INFINITY};
    for (ssize_t n; (n = getline(&line, &room, file)) > 0 && line[n - 1] == '\n'; *end += n) {
        st = take_line(line, (size_t)n, step, made, &later);
        if (st != ZR_OK || later) break;
    }
    free(line);
    ZR_TRY(st);
    ZR_CHECK(later || feof(file) || ferror(file), ZR_ERR_MEMORY, "no memory to read the lines of metrics");
    return ZR_OK;
}

zr_status zr__metrics_continue(zr__metrics_file *m, const char *path, int64_t step, zr__run_made *made)
{
    struct stat info;
    const char *shown = ZR_SHOWN(path);
    m->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    ZR_CHECK(m->fd >= 0, ZR_ERR_CREATE, "cannot open %s: %s", shown, zr__error_text(errno));
    ZR_CHECK(fstat(m->fd, &info) == 0 && S_ISREG(info.st_mode), ZR_ERR_CREATE, "%s is not a regular file", shown);
    ZR_CHECK(
        info.st_nlink == 1, ZR_ERR_CREATE,
        "%s has %llu hard links, and writing would change the file under each of these names; replace it with a copy",
        shown, (unsigned long long)info.st_nlink);
    const int copy = dup(m->fd);
    FILE *file = copy >= 0 ? fdopen(copy, "r") : NULL;
    if (!file && copy >= 0) close(copy);
    ZR_CHECK(file, ZR_ERR_IO, "cannot read %s: %s", shown, zr__error_text(errno));
    zr_status st = find_end(file, step, made, &m->bytes);
    const int error = ferror(file) ? errno : 0;
    fclose(file);
    ZR_TRY(st);
    ZR_CHECK(error == 0, ZR_ERR_IO, "cannot read %s: %s", shown, strerror(error));
    return ZR_OK;
}

zr_status zr__metrics_cut(const zr__metrics_file *m, const char *path, int64_t step)
{
    ZR_CHECK(ftruncate(m->fd, m->bytes) == 0, ZR_ERR_IO, "cannot cut %s after step %lld: %s", ZR_SHOWN(path),
             (long long)step, strerror(errno));
    return ZR_OK;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/** Set m->bytes to the offset of the next line. Remove the partial line that a failed write has left there, if any. */
static bool find_place(zr__metrics_file *m)
{
    struct stat st;
    if (fstat(m->fd, &st) != 0) return false;
    if (m->torn && st.st_size > m->bytes && ftruncate(m->fd, m->bytes) != 0) return false;
    /* Another process may have lengthened or shortened the file. */
    if (!m->torn || st.st_size < m->bytes) m->bytes = st.st_size;
    m->torn = false;
    return true;
}

/** Append all lines and return true. On failure, remove the part that was written, and return false. */
static bool append_lines(zr__metrics_file *m, const char *lines, size_t bytes)
{
    ssize_t n = -1;
    if (find_place(m)) do
            n = write(m->fd, lines, bytes);
        while (n < 0 && errno == EINTR);
    if (n == (ssize_t)bytes) return true;
    m->error = n < 0 ? errno : ENOSPC; /* a partial write means that the disk is full */
    /* If a partial line cannot be removed now, the next write removes it. */
    m->torn = m->torn || (n > 0 && ftruncate(m->fd, m->bytes) != 0);
    return false;
}

static bool append_kept(zr__metrics_file *m)
{
    if (m->n_kept > 0 && !append_lines(m, m->kept.data, m->kept.length)) return false;
    m->outage.n_late += m->n_kept;
    m->n_kept = 0;
    zr__text_clear(&m->kept);
    return true;
}

/** Buffer a line for a later write. Return false if the buffer is full or memory is short. */
static bool keep_line(zr__metrics_file *m, const char *line, size_t bytes)
{
    const size_t before = m->kept.length;
    if (before + bytes > ZR_METRICS_KEPT_BYTES) return false;
    zr__text_append(&m->kept, line, bytes);
    if (m->kept.failed) m->kept.failed = false;
    if (m->kept.length == before) return false;
    m->n_kept++;
    return true;
}

zr__metrics_news zr__metrics_write(zr__metrics_file *m, const char *line, size_t bytes)
{
    const bool waiting = m->outage.now;
    if (m->fd < 0) return ZR_METRICS_NO_NEWS;
    m->outage.now = !append_kept(m) || !append_lines(m, line, bytes);
    if (!m->outage.now) return waiting ? ZR_METRICS_AGAIN : ZR_METRICS_NO_NEWS;
    if (!waiting) m->outage.n_late = m->outage.n_lost = 0;
    if (keep_line(m, line, bytes)) return waiting ? ZR_METRICS_NO_NEWS : ZR_METRICS_KEPT;
    m->n_lost++;
    return m->outage.n_lost++ == 0 ? ZR_METRICS_LOST : ZR_METRICS_NO_NEWS;
}

/* ---- sync and close --------------------------------------------------------------------------- */

zr_status zr__metrics_sync(zr__metrics_file *m)
{
    if (m->fd < 0) return ZR_OK;
    ZR_CHECK(append_kept(m), ZR_ERR_IO, "the last %lld %s%s of %s up to it cannot be written yet: %s",
             (long long)m->n_kept, m->line, m->n_kept == 1 ? "" : "s", m->name, strerror(m->error));
    /* Ignore EINVAL, which file systems without fsync return. */
    ZR_CHECK(fsync(m->fd) == 0 || errno == EINVAL, ZR_ERR_IO, "%s may not be on the disk: fsync: %s", m->name,
             strerror(errno));
    return ZR_OK;
}

static zr_status finish_lines(zr__metrics_file *m)
{
    struct stat st;
    const bool written = append_kept(m);
    const int64_t lost = m->n_lost + m->n_kept;
    ZR_CHECK(written && lost == 0, ZR_ERR_IO, "%s lacks %lld %s%s that could not be written: %s", m->name,
             (long long)lost, m->line, lost == 1 ? "" : "s", strerror(m->error));
    ZR_CHECK(fstat(m->fd, &st) != 0 || st.st_nlink > 0, ZR_ERR_IO,
             "%s was removed while the run wrote it, and its %ss with it", m->name, m->line);
    return zr__metrics_sync(m);
}

zr_status zr__metrics_end(zr__metrics_file *m)
{
    zr_status st = m->fd >= 0 ? finish_lines(m) : ZR_OK;
    zr__metrics_close(m);
    return st;
}

void zr__metrics_close(zr__metrics_file *m)
{
    if (m->fd < 0) return;
    (void)append_kept(m);
    close(m->fd);
    m->fd = -1;
    m->n_kept = 0;
    zr__text_clear(&m->kept);
}
