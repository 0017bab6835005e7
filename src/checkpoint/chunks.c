/* Chunks and slices of rows: their hashes, and the region of a file that a reader reads at once. */
#include "checkpoint/chunks.h"

#include "base/core/grow.h"
#include "base/file/folder.h"
#include "base/number/sorted.h"

#include <xxhash.h>

uint64_t zr__chunk_hash(const void *bytes, int64_t n)
{
    return XXH3_64bits(bytes, (size_t)n);
}

zr_status zr__chunk_add(zr__chunk_list *list, zr__chunk chunk)
{
    ZR_GROW(list->chunk, list->room, list->n + 1, "checksums");
    list->chunk[list->n++] = chunk;
    return ZR_OK;
}

static void free_chunks(zr__chunk_list *list)
{
    zr_free(list->chunk);
}

zr_status zr__chunks_of_file(const char *path, int64_t first, int64_t end, zr__chunk **chunk, int64_t *n)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    ZR_AUTO(free_chunks) zr__chunk_list list = {0};
    *chunk = NULL;
    *n = 0;
    ZR_TRY(zr__file_open(path, false, &file));
    if (end < 0) end = file.bytes;
    ZR_CHECK(first >= 0 && first <= end && end <= file.bytes, ZR_ERR_ARG,
             "%s: cannot read bytes %lld .. %lld: the file has %lld bytes", file.name, (long long)first, (long long)end,
             (long long)file.bytes);
    const int64_t room = end - first < ZR_CHUNK_BYTES ? end - first : ZR_CHUNK_BYTES;
    ZR_AUTO_FREE unsigned char *buffer = zr_alloc((size_t)room);
    ZR_CHECK(buffer, ZR_ERR_MEMORY, "no memory for %lld bytes to read %s", (long long)room, file.name);
    for (int64_t at = first, bytes; at < end; at += bytes) {
        const int64_t limit = zr__chunk_limit(at);
        bytes = (limit < end ? limit : end) - at;
        ZR_TRY(zr__file_read(&file, at, buffer, bytes, ZR_ERR_IO));
        ZR_TRY(zr__chunk_add(&list, (zr__chunk){at, bytes, zr__chunk_hash(buffer, bytes)}));
    }
    ZR_TRY(zr__file_unchanged(&file));
    *n = list.n;
    *chunk = ZR_TAKE(list.chunk);
    return ZR_OK;
}

zr_status zr__manifest_describe(const char *dir, const char *name, bool tensors, const zr__chunk *written, int64_t n,
                                zr__manifest_file *file)
{
    char path[PATH_MAX];
    ZR_AUTO(zr_safetensors_close) zr_safetensors *header = NULL;
    zr__chunk_list list = {0};
    *file = (zr__manifest_file){.name = name};
    ZR_TRY(zr__path_join(path, dir, name));
    if (tensors) ZR_TRY(zr_safetensors_open(path, &header));
    const int64_t end = header && zr_safetensors_count(header) > 0 ? zr_safetensors_get(header, 0)->offset : -1;
    ZR_TRY(zr__chunks_of_file(path, 0, end, &list.chunk, &list.n));
    list.room = list.n;
    zr_status st = ZR_OK;
    for (int64_t i = 0; i < n && st == ZR_OK; i++) st = zr__chunk_add(&list, written[i]);
    file->chunk = list.chunk;
    file->n_chunks = list.n;
    for (int64_t i = 0; i < list.n; i++) file->bytes += list.chunk[i].bytes;
    return st;
}

/* ---- slices of rows ------------------------------------------------------------------------------------------- */

bool zr__slices_good(const zr__slices *s, int64_t bytes)
{
    return s->begin >= 0 && s->begin < s->end && s->end <= bytes && s->slice_bytes > 0 &&
           s->row_bytes > s->slice_bytes && s->row_bytes % s->slice_bytes == 0 &&
           (s->end - s->begin) % s->row_bytes == 0;
}

int64_t zr__slices_limit(const zr__slices *s, int64_t offset)
{
    const int64_t limit = zr__chunk_limit(offset);
    return limit < s->end ? limit : s->end;
}

int64_t zr__slice_run(const zr__slices *s, int64_t offset)
{
    return s->slice_bytes - (offset - s->begin) % s->slice_bytes;
}

int64_t zr__slice_after(const zr__slices *s, int64_t offset, int64_t n)
{
    const int64_t next = offset + n + (n == zr__slice_run(s, offset) ? s->row_bytes - s->slice_bytes : 0);
    return next < s->end ? next : s->end;
}

/* Count the bytes in [s->begin, end) that belong to one slice. In each row, the slice begins at byte `column`. */
static int64_t bytes_before(const zr__slices *s, int64_t column, int64_t end)
{
    const int64_t past = (end - s->begin) % s->row_bytes - column;
    const int64_t last = past < 0 ? 0 : past < s->slice_bytes ? past : s->slice_bytes;
    return (end - s->begin) / s->row_bytes * s->slice_bytes + last;
}

int64_t zr__slice_bytes(const zr__slices *s, int64_t offset, int64_t end)
{
    const int64_t past = (offset - s->begin) % s->row_bytes, column = past - past % s->slice_bytes;
    return bytes_before(s, column, end) - bytes_before(s, column, offset);
}

zr_status zr__slice_hash(const zr__slices *s, int64_t offset, int64_t end, const unsigned char *bytes, uint64_t *hash)
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

zr_status zr__slices_add(zr__slices_list *list, const zr__slices *slices)
{
    ZR_GROW(list->slices, list->room, list->n + 1, "places of sliced rows");
    list->slices[list->n++] = *slices;
    return ZR_OK;
}

const zr__slices *zr__slices_from(const zr__manifest_file *file, int64_t offset)
{
    const int64_t i =
        zr__sorted_below(file->slices, file->n_slices, sizeof(zr__slices), offsetof(zr__slices, end), offset + 1);
    return i < file->n_slices ? &file->slices[i] : NULL;
}

zr__region zr__region_of(const zr__manifest_file *file, int64_t i)
{
    const zr__chunk *chunk = file->chunk;
    const zr__slices *s = zr__slices_from(file, chunk[i].offset);
    if (!s || s->begin > chunk[i].offset)
        return (zr__region){chunk[i].offset, chunk[i].offset + chunk[i].bytes, i, 1, NULL};
    const int64_t limit = zr__chunk_limit(chunk[i].offset), floor = limit - ZR_CHUNK_BYTES;
    zr__region region = {.offset = floor > s->begin ? floor : s->begin, .slices = s, .first = i, .n = 1};
    region.end = zr__slices_limit(s, region.offset);
    while (region.first > 0 && chunk[region.first - 1].offset >= region.offset) region.first--;
    region.n = i + 1 - region.first;
    while (region.first + region.n < file->n_chunks && chunk[region.first + region.n].offset < region.end) region.n++;
    return region;
}
