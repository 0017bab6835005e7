#include "base/file/file_queue.h"

#include "base/core/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a part ---------------------------------------------------------------------------------- */

static zr_status move_plain(const zr__file_queue *q, int64_t offset, unsigned char *bytes, int64_t n)
{
    return q->writes ? zr__file_write(q->file, offset, bytes, n)
                     : zr__file_read(q->file, offset, bytes, n, ZR_ERR_DATA);
}

/* Read or write whole blocks by direct I/O, which bypasses the page cache. *done receives the number of bytes moved, at
 * most n. If the file system refuses with EINVAL, direct I/O is not tried again. At the end of the file the loop stops,
 * and move_plain then reports the error. */
static zr_status move_direct(zr__file_queue *q, int64_t offset, unsigned char *bytes, int64_t n, int64_t *done)
{
    *done = 0;
    while (q->direct >= 0 && *done < n && *done % ZR__BLOCK_BYTES == 0) {
        ssize_t moved = q->writes ? pwrite(q->direct, bytes + *done, (size_t)(n - *done), offset + *done)
                                  : pread(q->direct, bytes + *done, (size_t)(n - *done), offset + *done);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0 && errno == EINVAL) {
            close(q->direct);
            q->direct = -1;
            return ZR_OK;
        }
        if (moved == 0 && !q->writes) return ZR_OK;
        ZR_CHECK(moved > 0, ZR_ERR_IO, "%s: cannot %s at byte %lld: %s", q->file->name, q->writes ? "write" : "read",
                 (long long)(offset + *done), moved < 0 ? strerror(errno) : "no byte was written");
        *done += moved;
    }
    return ZR_OK;
}

/* Read or write a part: whole blocks by direct I/O, and the bytes before and after them through the page cache. These
 * bytes may share a block with another writer's bytes, and the page cache keeps the bytes of both writers. */
static zr_status move_part(zr__file_queue *q, const zr__file_part *part)
{
    unsigned char *bytes = zr__part_bytes(part);
    int64_t head = (ZR__BLOCK_BYTES - part->offset % ZR__BLOCK_BYTES) % ZR__BLOCK_BYTES;
    if (head > part->n) head = part->n;
    ZR_TRY(move_plain(q, part->offset, bytes, head));
    const int64_t blocks = (part->n - head) / ZR__BLOCK_BYTES * ZR__BLOCK_BYTES;
    int64_t done = 0;
    ZR_TRY(move_direct(q, part->offset + head, bytes + head, blocks, &done));
    done += head;
    return move_plain(q, part->offset + done, bytes + done, part->n - done);
}

/* Write a part that consists of separate ranges. The ranges are short and share blocks with ranges of other writers.
 * Therefore they are written through the page cache, which combines them. */
static zr_status move_stretches(const zr__file_queue *q, const zr__file_part *part)
{
    unsigned char *bytes = zr__part_bytes(part);
    int64_t at = part->offset, n = part->first;
    for (int64_t done = 0; done < part->n; done += n, at += n - part->width + part->stride, n = part->width) {
        if (n > part->n - done) n = part->n - done;
        ZR_TRY(move_plain(q, at, bytes + done, n));
    }
    return ZR_OK;
}

static void move_and_tell(zr__file_queue *q, zr__file_part *part)
{
    part->failed.status = ZR_OK;
    zr__failure_note(&part->failed, part->stride > 0 ? move_stretches(q, part) : move_part(q, part));
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Return the part that was submitted first, or NULL if no part is submitted. Parts are usually submitted in turn, so
 * look first at the part after the previous one. (A reader that jumps within the file may submit the same part twice in
 * a row, while the other part is not submitted.) */
static zr__file_part *next_given(zr__file_queue *q, int *turn)
{
    for (int i = 0; i < q->n_parts; i++) {
        int at = (*turn + i) % q->n_parts;
        if (!q->part[at].given) continue;
        *turn = (at + 1) % q->n_parts;
        return &q->part[at];
    }
    return NULL;
}

static void *run_queue(void *arg)
{
    zr__file_queue *q = arg;
    int turn = 0;
    pthread_mutex_lock(&q->lock);
    while (!q->quit) {
        zr__file_part *part = next_given(q, &turn);
        if (!part) {
            pthread_cond_wait(&q->changed, &q->lock);
            continue;
        }
        pthread_mutex_unlock(&q->lock);
        move_and_tell(q, part);
        pthread_mutex_lock(&q->lock);
        part->given = false;
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- the caller ------------------------------------------------------------------------------ */

/* Open the file a second time for direct I/O. If the file system does not support direct I/O, return -1 without an
 * error message, because direct I/O only saves time. */
static int open_direct(const char *path, const zr__file *file, bool writes)
{
    struct stat mine, same;
    if (!path) return -1;
    /* With larger pages, a cached page at an end of a range could contain bytes that another writer writes by direct
     * I/O. */
    if (writes && sysconf(_SC_PAGESIZE) > ZR__BLOCK_BYTES) return -1;
    int fd = open(path, (writes ? O_WRONLY : O_RDONLY) | O_DIRECT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -1;
    if (fstat(fd, &mine) == 0 && fstat(file->fd, &same) == 0 && mine.st_dev == same.st_dev &&
        mine.st_ino == same.st_ino)
        return fd;
    close(fd);
    return -1;
}

static zr_status start_thread(zr__file_queue *q)
{
    q->locks = pthread_mutex_init(&q->lock, NULL) == 0 && pthread_cond_init(&q->changed, NULL) == 0;
    ZR_CHECK(q->locks, ZR_ERR_MEMORY, "no memory for a lock");
    int error = zr__thread_start(&q->thread, 0, run_queue, q);
    q->started = error == 0;
    ZR_CHECK(q->started, ZR_ERR_MEMORY, "cannot start a thread for %s: %s", q->file->name, strerror(error));
    return ZR_OK;
}

static zr_status take_part(zr__file_queue *q, int part, int64_t part_bytes)
{
    /* Add one block because the part may begin inside a block, and one block to align the buffer. */
    const int64_t room = part_bytes + 2 * ZR__BLOCK_BYTES;
    zr__file_part *p = &q->part[part];
    p->memory = zr_alloc((size_t)room);
    ZR_CHECK(p->memory, ZR_ERR_MEMORY, "no memory: %lld bytes to %s %s", (long long)room, q->writes ? "write" : "read",
             q->file->name);
    const uintptr_t past = (uintptr_t)p->memory % ZR__BLOCK_BYTES;
    p->bytes = (unsigned char *)p->memory + (past ? ZR__BLOCK_BYTES - past : 0);
    return ZR_OK;
}

zr_status zr__queue_open(zr__file_queue *q, const zr__file *file, const char *path, bool writes, int n_parts,
                         int64_t part_bytes)
{
    *q = (zr__file_queue){.file = file, .direct = -1, .writes = writes, .n_parts = n_parts};
    ZR_TRY(take_part(q, 0, part_bytes));
    q->direct = open_direct(path, file, writes);
    if (n_parts == 1) return ZR_OK;
    zr_status st = take_part(q, 1, part_bytes);
    if (st == ZR_OK) st = start_thread(q);
    if (!writes && st != ZR_OK) q->n_parts = 1;
    return writes ? st : ZR_OK;
}

void zr__queue_close(zr__file_queue *q)
{
    if (q->started) {
        pthread_mutex_lock(&q->lock);
        q->quit = true;
        pthread_cond_signal(&q->changed);
        pthread_mutex_unlock(&q->lock);
        pthread_join(q->thread, NULL);
    }
    if (q->locks) {
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->lock);
    }
    if (q->n_parts > 0 && q->direct >= 0) close(q->direct);
    for (int i = 0; i < ZR__QUEUE_PARTS; i++) zr_free(q->part[i].memory);
    *q = (zr__file_queue){0};
}

void zr__queue_give(zr__file_queue *q, int part)
{
    if (q->started) pthread_mutex_lock(&q->lock);
    q->part[part].given = true;
    if (!q->started) return;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

zr_status zr__queue_take(zr__file_queue *q, int part)
{
    zr__file_part *p = &q->part[part];
    if (q->started) {
        pthread_mutex_lock(&q->lock);
        while (p->given) pthread_cond_wait(&q->changed, &q->lock);
        pthread_mutex_unlock(&q->lock);
    } else if (p->given) {
        move_and_tell(q, p);
        p->given = false;
    }
    return zr__failure_tell(&p->failed);
}
