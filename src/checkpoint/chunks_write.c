/*
 * Writing ranges of a file in chunks: the caller fills and hashes one part (a buffer of the queue, zr__file_part) while
 * the queue writes the other part.
 *
 * A part holds a whole chunk, or a fraction of a chunk if many ranks of a process write at the same time. This saves
 * memory, which the plan does not count, and many small parts keep the disk as busy as a few large ones. If the bytes
 * belong to a slice, the part holds them row by row, and may continue across the end of a chunk.
 */
#include "checkpoint/chunks.h"

#include <string.h>
#include <xxhash.h>

enum { LEAST_PART_BYTES = 64 << 10 };

struct zr__chunk_writer {
    zr__file file;
    zr__file_queue queue;
    int64_t part_bytes; /* size of a part: a chunk, or a half, a quarter ... of a chunk */
    int filling;
    int64_t at;        /* file offset at which the last put ended */
    zr__slices slices; /* slices of the last put; row_bytes is 0 if the bytes of the put were contiguous */
    zr__chunk open;    /* the chunk being filled; its `bytes` is 0 if no chunk is open */
    XXH3_state_t *hash;
    bool ended;
    zr__chunk_list chunks;
    zr__slices_list sliced;
    zr__failure failed; /* first failure, after which nothing is written */
};

zr_status zr__chunk_writer_open(const char *path, int writers, zr__chunk_writer **writer)
{
    ZR_AUTO(zr__chunk_writer_close) zr__chunk_writer *w = zr_alloc(sizeof(*w));
    *writer = NULL;
    ZR_CHECK(w, ZR_ERR_MEMORY, "no memory for %zu bytes of a writer", sizeof(*w));
    w->file.fd = -1;
    w->part_bytes = ZR_CHUNK_BYTES;
    while (w->part_bytes * writers > 2 * ZR_CHUNK_BYTES && w->part_bytes > LEAST_PART_BYTES) w->part_bytes /= 2;
    ZR_TRY(zr__file_open(path, true, &w->file));
    ZR_TRY(zr__queue_open(&w->queue, &w->file, path, true, ZR__QUEUE_PARTS, w->part_bytes));
    w->hash = XXH3_createState();
    ZR_CHECK(w->hash, ZR_ERR_MEMORY, "no memory for a checksum of %s", w->file.name);
    *writer = ZR_TAKE(w);
    return ZR_OK;
}

/* Submit the current part to the queue unless it is empty, and wait for the other part. */
static void pass_on(zr__chunk_writer *w)
{
    if (w->failed.status != ZR_OK) w->queue.part[w->filling].n = 0; /* write nothing after a failure */
    if (w->queue.part[w->filling].n == 0) return;
    zr__queue_give(&w->queue, w->filling);
    w->filling = (w->filling + 1) % ZR__QUEUE_PARTS;
    zr__failure_note(&w->failed, zr__queue_take(&w->queue, w->filling));
    w->queue.part[w->filling].n = 0;
}

static void end_chunk(zr__chunk_writer *w)
{
    if (w->open.bytes == 0) return;
    w->open.hash = XXH3_64bits_digest(w->hash);
    zr__failure_note(&w->failed, zr__chunk_add(&w->chunks, w->open));
    w->open.bytes = 0;
}

/* End the current part and chunk, because the next bytes to write do not directly follow the last bytes. */
static void end_range(zr__chunk_writer *w)
{
    pass_on(w);
    end_chunk(w);
}

/* Set the slices of the next put. If they differ from the slices of the last put, end the last put's range first. */
static void take_slices(zr__chunk_writer *w, const zr__slices *slices)
{
    static const zr__slices none = {0};
    const zr__slices *next = slices ? slices : &none;
    if (memcmp(&w->slices, next, sizeof(*next)) == 0) return;
    end_range(w);
    w->slices = *next;
    if (slices) zr__failure_note(&w->failed, zr__slices_add(&w->sliced, slices));
}

/* Return how many contiguous bytes from `offset` on fit into the current part and chunk. */
static int64_t part_room(const zr__chunk_writer *w, int64_t offset)
{
    const int64_t limit = zr__chunk_limit(offset) - offset;
    if (!w->slices.row_bytes) return w->part_bytes - offset % w->part_bytes;
    int64_t left = w->part_bytes - w->queue.part[w->filling].n, run = zr__slice_run(&w->slices, offset);
    if (left > run) left = run;
    return left < limit ? left : limit;
}

/* Copy n bytes into the part, which must have space for them, and hash them. */
static void fill_part(zr__chunk_writer *w, int64_t offset, const unsigned char *from, int64_t n)
{
    zr__file_part *part = &w->queue.part[w->filling];
    if (part->n == 0) {
        part->offset = offset;
        part->stride = w->slices.row_bytes;
        part->width = w->slices.slice_bytes;
        part->first = part->stride ? zr__slice_run(&w->slices, offset) : 0;
    }
    if (w->open.bytes == 0) {
        w->open.offset = offset;
        XXH3_64bits_reset(w->hash);
    }
    unsigned char *to = zr__part_bytes(part) + part->n;
    memcpy(to, from, (size_t)n);
    XXH3_64bits_update(w->hash, to, (size_t)n);
    part->n += n;
    w->open.bytes += n;
}

/* Take the first of the n bytes, up to the end of the current part and chunk. Return the number taken. Without slices,
 * a part ends at a multiple of its size, so that the next part is aligned for direct I/O. */
static int64_t put_some(zr__chunk_writer *w, int64_t offset, const unsigned char *from, int64_t n)
{
    const bool sliced = w->slices.row_bytes > 0;
    const int64_t most = part_room(w, offset);
    if (n > most) n = most;
    fill_part(w, offset, from, n);
    w->at = sliced ? zr__slice_after(&w->slices, offset, n) : offset + n;
    if (sliced ? w->queue.part[w->filling].n == w->part_bytes : w->at % w->part_bytes == 0) pass_on(w);
    if (w->at >= zr__chunk_limit(w->open.offset)) end_chunk(w);
    return n;
}

static zr_status check_slices(const zr__chunk_writer *w, const zr__slices *s, int64_t offset, int64_t n)
{
    ZR_CHECK(zr__slices_good(s, w->file.bytes) && offset >= s->begin && offset < s->end &&
                 n <= zr__slice_bytes(s, offset, s->end),
             ZR_ERR_ARG,
             "%s: %lld bytes of a slice at byte %lld; slices of %lld bytes, of rows of %lld in bytes %lld .. %lld",
             w->file.name, (long long)n, (long long)offset, (long long)s->slice_bytes, (long long)s->row_bytes,
             (long long)s->begin, (long long)s->end);
    return ZR_OK;
}

zr_status zr__chunk_writer_put(zr__chunk_writer *w, const zr__slices *slices, int64_t offset, const void *bytes,
                               int64_t n)
{
    const unsigned char *from = bytes;
    ZR_CHECK(!w->ended, ZR_ERR_STATE, "%s: bytes were put after the end", w->file.name);
    ZR_CHECK(offset >= w->at && n >= 0 && offset <= w->file.bytes && n <= w->file.bytes - offset, ZR_ERR_ARG,
             "%s: %lld bytes at byte %lld; it has %lld, and %lld are behind this writer", w->file.name, (long long)n,
             (long long)offset, (long long)w->file.bytes, (long long)w->at);
    if (slices) ZR_TRY(check_slices(w, slices, offset, n));
    take_slices(w, slices);
    if (offset != w->at) end_range(w);
    w->at = offset;
    for (int64_t now; n > 0; from += now, n -= now) now = put_some(w, w->at, from, n);
    return zr__failure_tell(&w->failed);
}

zr_status zr__chunk_writer_end(zr__chunk_writer *w)
{
    ZR_CHECK(!w->ended, ZR_ERR_STATE, "%s: its writer has ended", w->file.name);
    end_range(w);
    for (int i = 0; i < ZR__QUEUE_PARTS; i++) zr__failure_note(&w->failed, zr__queue_take(&w->queue, i));
    if (w->failed.status == ZR_OK) zr__failure_note(&w->failed, zr__file_sync(&w->file));
    w->ended = w->failed.status == ZR_OK;
    return zr__failure_tell(&w->failed);
}

const zr__chunk *zr__chunk_writer_chunks(const zr__chunk_writer *w, int64_t *n)
{
    *n = w->ended ? w->chunks.n : 0;
    return w->ended ? w->chunks.chunk : NULL;
}

const zr__slices *zr__chunk_writer_slices(const zr__chunk_writer *w, int64_t *n)
{
    *n = w->ended ? w->sliced.n : 0;
    return w->ended ? w->sliced.slices : NULL;
}

void zr__chunk_writer_close(zr__chunk_writer **writer)
{
    zr__chunk_writer *w = *writer;
    if (!w) return;
    zr__queue_close(&w->queue);
    XXH3_freeState(w->hash);
    zr__file_close(&w->file);
    zr_free(w->chunks.chunk);
    zr_free(w->sliced.slices);
    zr_free(w);
    *writer = NULL;
}
