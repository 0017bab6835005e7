/*
 * Writing ranges of a file in chunks. The caller fills and hashes one buffer while a thread writes the other: copying
 * and hashing would otherwise take a third of the time on a disk that writes 2 GB/s.
 *
 * A buffer holds a chunk or a part of one: where all ranks of a process write at once their buffers are smaller, since
 * these are in no plan, and the disk has as much to do. Byte b of the file stands at b modulo ALIGN_BYTES in it, so
 * that what lies between multiples of ALIGN_BYTES can go to the disk from there. The rest, at the ends of a range,
 * shares its block with another writer's bytes and goes through the page cache, which keeps the two apart.
 */
#include "checkpoint/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* What direct I/O asks of offsets and addresses is the block of the device: 512 or 4096. */
enum { ALIGN_BYTES = 4096, BUFFERS = 2, LEAST_PART_BYTES = 64 << 10, MESSAGE_BYTES = 512 };

/* A part of a chunk on its way. */
typedef struct chunk_buffer {
    unsigned char *bytes; /* aligned, part_bytes */
    void *memory;
    int64_t offset, n;
    bool full; /* the thread's */
} chunk_buffer;

struct zr_chunk_writer {
    zr__file file;
    int64_t part_bytes; /* of a buffer: a chunk, or its half, quarter ... */
    int direct;         /* the same file once more, past the page cache; -1: not here. The thread's */
    chunk_buffer buffer[BUFFERS];
    int filling;
    int64_t at;    /* where the last put ended */
    zr_chunk open; /* the chunk that is being filled; bytes 0: none is */
    XXH3_state_t *hash;
    bool started, locks, ended;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool quit;
    zr__chunk_list chunks;
    zr_status failed; /* the first failure, which stays */
    char message[MESSAGE_BYTES];
};

/* ---- the thread ------------------------------------------------------------------------------ */

/* Bytes between multiples of ALIGN_BYTES. *done: as many as went; a file system that refuses gets none any more. */
static zr_status write_direct(zr_chunk_writer *w, const unsigned char *from, int64_t offset, int64_t n, int64_t *done)
{
    *done = 0;
    while (*done < n && *done % ALIGN_BYTES == 0) {
        ssize_t put = pwrite(w->direct, from + *done, (size_t)(n - *done), offset + *done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EINVAL) {
            close(w->direct);
            w->direct = -1;
            return ZR_OK;
        }
        ZR_CHECK(put > 0, ZR_ERR_IO, "%s: cannot write at byte %lld: %s", w->file.name, (long long)(offset + *done),
                 put < 0 ? strerror(errno) : "nothing was taken");
        *done += put;
    }
    return ZR_OK;
}

static zr_status write_chunk(zr_chunk_writer *w, const chunk_buffer *b)
{
    const unsigned char *from = b->bytes + b->offset % ALIGN_BYTES;
    int64_t head = (ALIGN_BYTES - b->offset % ALIGN_BYTES) % ALIGN_BYTES, direct = 0;
    if (head > b->n) head = b->n;
    ZR_TRY(zr__file_write(&w->file, b->offset, from, head));
    int64_t middle = (b->n - head) / ALIGN_BYTES * ALIGN_BYTES;
    if (w->direct >= 0) ZR_TRY(write_direct(w, from + head, b->offset + head, middle, &direct));
    int64_t begun = head + direct;
    ZR_TRY(zr__file_write(&w->file, b->offset + begun, from + begun, b->n - begun));
    return ZR_OK;
}

static void fail(zr_chunk_writer *w, zr_status status)
{
    w->failed = status;
    snprintf(w->message, sizeof(w->message), "%s", zr_error_message());
}

static void *run_writer(void *arg)
{
    zr_chunk_writer *w = arg;
    pthread_mutex_lock(&w->lock);
    for (int next = 0;; next = (next + 1) % BUFFERS) {
        chunk_buffer *b = &w->buffer[next];
        while (!b->full && !w->quit) pthread_cond_wait(&w->changed, &w->lock);
        if (!b->full) break;
        if (w->failed == ZR_OK) {
            pthread_mutex_unlock(&w->lock);
            zr_status st = write_chunk(w, b);
            pthread_mutex_lock(&w->lock);
            if (st != ZR_OK) fail(w, st);
        }
        b->full = false;
        b->n = 0;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the caller ------------------------------------------------------------------------------ */

/* Direct I/O is a matter of speed: where the file system has none, nothing is said. */
static int open_direct(const char *path, const zr__file *file)
{
    struct stat mine, same;
    /* On larger pages the ends of a range would share theirs with what another writer sends past the cache. */
    if (sysconf(_SC_PAGESIZE) > ALIGN_BYTES) return -1;
    int fd = open(path, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, &mine) == 0 && fstat(file->fd, &same) == 0 && mine.st_dev == same.st_dev &&
        mine.st_ino == same.st_ino)
        return fd;
    close(fd);
    return -1;
}

static zr_status start(zr_chunk_writer *w)
{
    for (int i = 0; i < BUFFERS; i++) {
        w->buffer[i].memory = zr_alloc((size_t)w->part_bytes + ALIGN_BYTES);
        ZR_CHECK(w->buffer[i].memory, ZR_ERR_MEMORY, "%lld bytes to write %s", (long long)w->part_bytes + ALIGN_BYTES,
                 w->file.name);
        uintptr_t past = (uintptr_t)w->buffer[i].memory % ALIGN_BYTES;
        w->buffer[i].bytes = (unsigned char *)w->buffer[i].memory + (past ? ALIGN_BYTES - past : 0);
    }
    w->hash = XXH3_createState();
    ZR_CHECK(w->hash, ZR_ERR_MEMORY, "no memory for a checksum of %s", w->file.name);
    w->locks = pthread_mutex_init(&w->lock, NULL) == 0 && pthread_cond_init(&w->changed, NULL) == 0;
    ZR_CHECK(w->locks, ZR_ERR_MEMORY, "no memory for a lock");
    sigset_t all, before; /* signals are for the threads that know them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&w->thread, NULL, run_writer, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->started = error == 0;
    ZR_CHECK(w->started, ZR_ERR_MEMORY, "cannot start a thread to write %s: %s", w->file.name, strerror(error));
    return ZR_OK;
}

zr_status zr_chunk_writer_open(const char *path, int writers, zr_chunk_writer **writer)
{
    zr_status st = ZR_OK;
    zr_chunk_writer *w = zr_alloc(sizeof(*w));
    *writer = NULL;
    ZR_CHECK(w, ZR_ERR_MEMORY, "%zu bytes for a writer", sizeof(*w));
    w->file.fd = w->direct = -1;
    w->part_bytes = ZR_CHUNK_BYTES;
    while (w->part_bytes * writers > 2 * ZR_CHUNK_BYTES && w->part_bytes > LEAST_PART_BYTES) w->part_bytes /= 2;
    ZR_TRY_GOTO(st, zr__file_open(path, true, &w->file), failed);
    w->direct = open_direct(path, &w->file);
    ZR_TRY_GOTO(st, start(w), failed);
    *writer = w;
    return ZR_OK;
failed:
    zr_chunk_writer_close(&w);
    return st;
}

/* The failure of an earlier call or of the thread, in this thread's words; the lock is held. */
static zr_status failure(zr_chunk_writer *w)
{
    return w->failed == ZR_OK ? ZR_OK : ZR_FAIL(w->failed, "%s", w->message);
}

/* Hand the buffer over, where anything is in it, and take the other when it is free. */
static void pass_on(zr_chunk_writer *w)
{
    chunk_buffer *b = &w->buffer[w->filling];
    if (b->n == 0) return;
    pthread_mutex_lock(&w->lock);
    b->full = true;
    pthread_cond_signal(&w->changed);
    w->filling = (w->filling + 1) % BUFFERS;
    while (w->buffer[w->filling].full) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* The chunk ends here. */
static void end_chunk(zr_chunk_writer *w)
{
    pass_on(w);
    if (w->open.bytes == 0) return;
    w->open.hash = XXH3_64bits_digest(w->hash);
    zr_status kept = zr__chunk_add(&w->chunks, w->open);
    w->open.bytes = 0;
    pthread_mutex_lock(&w->lock);
    if (kept != ZR_OK && w->failed == ZR_OK) fail(w, kept);
    pthread_mutex_unlock(&w->lock);
}

/* As many bytes as the buffer takes; how many. */
static int64_t fill(zr_chunk_writer *w, int64_t offset, const unsigned char *from, int64_t n)
{
    chunk_buffer *b = &w->buffer[w->filling];
    const int64_t left = w->part_bytes - offset % w->part_bytes;
    if (n > left) n = left;
    if (b->n == 0) b->offset = offset;
    if (w->open.bytes == 0) {
        w->open.offset = offset;
        XXH3_64bits_reset(w->hash);
    }
    unsigned char *to = b->bytes + b->offset % ALIGN_BYTES + b->n;
    memcpy(to, from, (size_t)n);
    XXH3_64bits_update(w->hash, to, (size_t)n);
    b->n += n;
    w->open.bytes += n;
    return n;
}

zr_status zr_chunk_writer_put(zr_chunk_writer *w, int64_t offset, const void *bytes, int64_t n)
{
    const unsigned char *from = bytes;
    ZR_CHECK(!w->ended, ZR_ERR_STATE, "%s: bytes were put after the end", w->file.name);
    ZR_CHECK(offset >= w->at && n >= 0 && offset <= w->file.bytes && n <= w->file.bytes - offset, ZR_ERR_ARG,
             "%s: %lld bytes at byte %lld; it has %lld, and %lld are behind this writer", w->file.name, (long long)n,
             (long long)offset, (long long)w->file.bytes, (long long)w->at);
    if (offset != w->at) end_chunk(w);
    for (int64_t now; n > 0; from += now, n -= now) {
        now = fill(w, offset, from, n);
        offset += now;
        if (offset % w->part_bytes == 0) pass_on(w);
        if (offset % ZR_CHUNK_BYTES == 0) end_chunk(w);
    }
    w->at = offset;
    pthread_mutex_lock(&w->lock);
    zr_status st = failure(w);
    pthread_mutex_unlock(&w->lock);
    return st;
}

zr_status zr_chunk_writer_end(zr_chunk_writer *w)
{
    ZR_CHECK(!w->ended, ZR_ERR_STATE, "%s: its writer has ended", w->file.name);
    end_chunk(w);
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < BUFFERS; i++)
        while (w->buffer[i].full) pthread_cond_wait(&w->changed, &w->lock);
    if (w->failed == ZR_OK) {
        zr_status synced = zr__file_sync(&w->file);
        if (synced != ZR_OK) fail(w, synced);
        w->ended = synced == ZR_OK;
    }
    zr_status st = failure(w);
    pthread_mutex_unlock(&w->lock);
    return st;
}

const zr_chunk *zr_chunk_writer_chunks(const zr_chunk_writer *w, int64_t *n)
{
    *n = w->ended ? w->chunks.n : 0;
    return w->ended ? w->chunks.chunk : NULL;
}

void zr_chunk_writer_close(zr_chunk_writer **writer)
{
    zr_chunk_writer *w = *writer;
    if (!w) return;
    if (w->started) {
        pthread_mutex_lock(&w->lock);
        w->quit = true;
        pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    if (w->locks) {
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
    }
    for (int i = 0; i < BUFFERS; i++) zr_free(w->buffer[i].memory);
    XXH3_freeState(w->hash);
    if (w->direct >= 0) close(w->direct);
    zr__file_close(&w->file);
    zr_free(w->chunks.chunk);
    zr_free(w);
    *writer = NULL;
}
