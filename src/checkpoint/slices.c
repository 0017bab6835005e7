/* Slices of rows. Finds the offsets at which a slice's bytes lie in a file, and the region of a chunk. A region is the
 * range of bytes that a reader reads at once: one chunk, or several chunks of slices. */
#include "base/core/grow.h"
#include "base/number/sorted.h"
#include "checkpoint/chunks.h"

#include <xxhash.h>

bool zr__slices_good(const zr_slices *s, int64_t bytes)
{
    return s->begin >= 0 && s->begin < s->end && s->end <= bytes && s->slice_bytes > 0 &&
           s->row_bytes > s->slice_bytes && s->row_bytes % s->slice_bytes == 0 &&
           (s->end - s->begin) % s->row_bytes == 0;
}

int64_t zr__slices_limit(const zr_slices *s, int64_t offset)
{
    const int64_t limit = zr__chunk_limit(offset);
    return limit < s->end ? limit : s->end;
}

int64_t zr__slice_run(const zr_slices *s, int64_t offset)
{
    return s->slice_bytes - (offset - s->begin) % s->slice_bytes;
}

int64_t zr__slice_after(const zr_slices *s, int64_t offset, int64_t n)
{
    const int64_t next = offset + n + (n == zr__slice_run(s, offset) ? s->row_bytes - s->slice_bytes : 0);
    return next < s->end ? next : s->end;
}

/* Count the bytes in [s->begin, end) of the slice that begins `column` bytes after the start of each row. */
static int64_t bytes_before(const zr_slices *s, int64_t column, int64_t end)
{
    const int64_t past = (end - s->begin) % s->row_bytes - column;
    const int64_t last = past < 0 ? 0 : past < s->slice_bytes ? past : s->slice_bytes;
    return (end - s->begin) / s->row_bytes * s->slice_bytes + last;
}

int64_t zr__slice_bytes(const zr_slices *s, int64_t offset, int64_t end)
{
    const int64_t past = (offset - s->begin) % s->row_bytes, column = past - past % s->slice_bytes;
    return bytes_before(s, column, end) - bytes_before(s, column, offset);
}

zr_status zr__slice_hash(const zr_slices *s, int64_t offset, int64_t end, const unsigned char *bytes, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    ZR_CHECK(state, ZR_ERR_MEMORY, "no memory for a checksum");
    XXH3_64bits_reset(state);
    for (int64_t at = offset, n; at < end; at = zr__slice_after(s, at, n)) {
        n = zr__slice_run(s, at);
        if (n > end - at) n = end - at;
        XXH3_64bits_update(state, bytes + (at - offset), (size_t)n);
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return ZR_OK;
}

zr_status zr__slices_add(zr__slices_list *list, const zr_slices *slices)
{
    ZR_GROW(list->slices, list->room, list->n + 1, "places of sliced rows");
    list->slices[list->n++] = *slices;
    return ZR_OK;
}

const zr_slices *zr__slices_from(const zr_manifest_file *file, int64_t offset)
{
    const int64_t i =
        zr__sorted_below(file->slices, file->n_slices, sizeof(zr_slices), offsetof(zr_slices, end), offset + 1);
    return i < file->n_slices ? &file->slices[i] : NULL;
}

const zr_slices *zr__slices_at(const zr_manifest_file *file, int64_t offset)
{
    const zr_slices *s = zr__slices_from(file, offset);
    return s && s->begin <= offset ? s : NULL;
}

zr__region zr__region_of(const zr_manifest_file *file, int64_t i)
{
    const zr_chunk *chunk = file->chunk;
    const zr_slices *s = zr__slices_at(file, chunk[i].offset);
    if (!s) return (zr__region){chunk[i].offset, chunk[i].offset + chunk[i].bytes, i, 1, NULL};
    const int64_t limit = zr__chunk_limit(chunk[i].offset), floor = limit - ZR_CHUNK_BYTES;
    zr__region region = {.offset = floor > s->begin ? floor : s->begin, .slices = s, .first = i, .n = 1};
    region.end = zr__slices_limit(s, region.offset);
    while (region.first > 0 && chunk[region.first - 1].offset >= region.offset) region.first--;
    region.n = i + 1 - region.first;
    while (region.first + region.n < file->n_chunks && chunk[region.first + region.n].offset < region.end) region.n++;
    return region;
}
