/* Reading files of a checkpoint. A byte is returned only after its chunk's checksum has been checked. Files are read
 * and checked by regions: a region is one chunk, or several chunks whose bytes interleave. */
#include "base/number/sorted.h"
#include "base/text/text.h"
#include "checkpoint/chunks.h"
#include "checkpoint/safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- checked bytes --------------------------------------------------------------------------- */

zr_status zr__listed_open(const char *dir, const zr__manifest *manifest, const char *name, zr__file *file)
{
    const zr__manifest_file *listed = zr__manifest_find(manifest, name);
    *file = (zr__file){.fd = -1};
    ZR_CHECK(listed, ZR_ERR_DATA, "%s: the manifest does not list the file %s", ZR_SHOWN(dir), ZR_SHOWN(name));
    zr_status st = zr__file_open_in(dir, name, file);
    if (st == ZR_ERR_NOT_FOUND) return ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message());
    ZR_TRY(st);
    if (file->bytes != listed->bytes) zr__file_close(file);
    ZR_CHECK(file->bytes == listed->bytes, ZR_ERR_DATA,
             "%s: the file has %lld bytes, but %lld according to the manifest", file->name, (long long)file->bytes,
             (long long)listed->bytes);
    return ZR_OK;
}

zr_status zr__checked_open(const char *dir, const zr__manifest *manifest, const char *name, int readers,
                           zr__checked_file *file)
{
    char path[PATH_MAX];
    *file = (zr__checked_file){.file = {.fd = -1}, .ahead = ZR__NO_CHUNK};
    ZR_TRY(zr__listed_open(dir, manifest, name, &file->file));
    file->listed = zr__manifest_find(manifest, name);
    const bool small = file->listed->bytes <= ZR_CHUNK_BYTES;
    file->direct = readers == 1 || readers == 2;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return zr__queue_open(&file->queue, &file->file, file->direct ? path : NULL, false,
                          file->direct && !small ? ZR__QUEUE_PARTS : 1, small ? file->listed->bytes : ZR_CHUNK_BYTES);
}

void zr__checked_close(zr__checked_file *file)
{
    zr__queue_close(&file->queue);
    zr__file_close(&file->file);
}

static void give_region(zr__checked_file *file, int part, const zr__region *region)
{
    file->queue.part[part].offset = region->offset;
    file->queue.part[part].n = region->end - region->offset;
    zr__queue_give(&file->queue, part);
}

/* Read a region into the queue's other part, and make this part the current part. If the region is already being
 * prefetched, only wait for it. The region's bytes are not checked yet. */
static zr_status take_region(zr__checked_file *file, const zr__region *region)
{
    const int other = (file->part + 1) % file->queue.n_parts;
    zr_status st = zr__queue_take(&file->queue, other);
    if (file->ahead != region->first) {
        give_region(file, other, region);
        st = zr__queue_take(&file->queue, other);
    }
    file->part = other;
    file->ahead = ZR__NO_CHUNK;
    return st;
}

/* Begin to prefetch the next region into the other part. */
static void read_ahead(zr__checked_file *file, const zr__region *region)
{
    if (file->queue.n_parts == 1 || region->first + region->n == file->listed->n_chunks) return;
    const zr__region next = zr__region_of(file->listed, region->first + region->n);
    file->ahead = next.first;
    give_region(file, 1 - file->part, &next);
}

static zr_status check_chunk(const zr__checked_file *file, const zr__region *region, const zr__chunk *chunk)
{
    const unsigned char *bytes = zr__part_bytes(&file->queue.part[file->part]) + (chunk->offset - region->offset);
    uint64_t hash = 0;
    if (region->slices)
        ZR_TRY(zr__slice_hash(region->slices, chunk->offset, region->end, bytes, &hash));
    else
        hash = zr__chunk_hash(bytes, chunk->bytes);
    ZR_CHECK(hash == chunk->hash, ZR_ERR_DATA,
             "%s: bytes %lld .. %lld are damaged: their checksum differs from the manifest", file->file.name,
             (long long)region->offset, (long long)(region->end - 1));
    return ZR_OK;
}

zr_status zr__checked_load(zr__checked_file *file, int64_t i)
{
    const zr__region before = file->held;
    if (i >= before.first && i < before.first + before.n) return ZR_OK;
    const zr__region region = zr__region_of(file->listed, i);
    const bool in_a_row = before.n > 0 && before.first + before.n == region.first;
    file->held.n = 0;
    enum { AHEAD_BYTES = 16 << 20 };
    if (!file->direct) zr__file_ahead(&file->file, region.end, AHEAD_BYTES);
    ZR_TRY(take_region(file, &region));
    if (in_a_row) read_ahead(file, &region);
    for (int64_t c = region.first; c < region.first + region.n; c++)
        ZR_TRY(check_chunk(file, &region, &file->listed->chunk[c]));
    file->held = region;
    return ZR_OK;
}

zr_status zr__checked_read(zr__checked_file *file, int64_t offset, int64_t n, const char *tensor, void *out)
{
    char *to = out;
    ZR_CHECK(offset >= 0 && n >= 0 && offset <= file->listed->bytes && n <= file->listed->bytes - offset, ZR_ERR_DATA,
             "%s: cannot read %lld bytes from byte %lld on: there are %lld bytes", file->file.name, (long long)n,
             (long long)offset, (long long)file->listed->bytes);
    /* Find the last chunk that begins at or before `offset`. This chunk belongs to the region that contains the first
     * byte to read. */
    int64_t i = zr__sorted_below(file->listed->chunk, file->listed->n_chunks, sizeof(zr__chunk),
                                 offsetof(zr__chunk, offset), offset + 1) -
                1;
    for (int64_t now; n > 0; offset += now, to += now, n -= now) {
        const zr_status st = zr__checked_load(file, i);
        if (st != ZR_OK && tensor) return ZR_FAIL(st, "%s (tensor %s)", zr_error_message(), ZR_SHOWN(tensor));
        ZR_TRY(st);
        now = n < file->held.end - offset ? n : file->held.end - offset;
        memcpy(to, zr__part_bytes(&file->queue.part[file->part]) + (offset - file->held.offset), (size_t)now);
        i = file->held.first + file->held.n;
    }
    return ZR_OK;
}

zr_status zr__checkpoint_check_file(const char *dir, const zr__manifest *manifest, const char *name)
{
    ZR_AUTO(zr__checked_close) zr__checked_file file = {.file = {.fd = -1}};
    ZR_TRY(zr__checked_open(dir, manifest, name, 0, &file));
    for (int64_t i = 0; i < file.listed->n_chunks; i = file.held.first + file.held.n)
        ZR_TRY(zr__checked_load(&file, i));
    return ZR_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

zr_status zr__checked_tensors(zr__checked_file *file, zr_safetensors *tensors)
{
    unsigned char prefix[ZR_SAFETENSORS_PREFIX_BYTES];
    ZR_TRY(zr__checked_read(file, 0, sizeof(prefix), NULL, prefix));
    int64_t n = 0;
    ZR_TRY(zr__safetensors_header_bytes(file->file.name, prefix, file->file.bytes, &n));
    ZR_AUTO_FREE char *text = zr_alloc((size_t)n);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for %lld bytes of the header of %s", (long long)n, file->file.name);
    ZR_TRY(zr__checked_read(file, ZR_SAFETENSORS_PREFIX_BYTES, n, NULL, text));
    return zr__safetensors_parse(file->file.name, text, n, file->file.bytes, &tensors->header);
}

struct zr__chunk_reader {
    zr__checked_file file;
    zr_safetensors tensors; /* header of the file, without a descriptor, since only the tensors' names are used */
};

zr_status zr__chunk_reader_open(const char *dir, const zr__manifest *manifest, const char *name, int readers,
                                zr__chunk_reader **reader)
{
    ZR_AUTO(zr__chunk_reader_close) zr__chunk_reader *r = zr_alloc(sizeof(*r));
    *reader = NULL;
    ZR_CHECK(r, ZR_ERR_MEMORY, "no memory for %zu bytes of a reader", sizeof(*r));
    ZR_TRY(zr__checked_open(dir, manifest, name, readers, &r->file));
    r->tensors = (zr_safetensors){.path = r->file.file.name, .file = {.fd = -1}};
    memcpy(r->tensors.file.name, r->file.file.name, sizeof(r->tensors.file.name));
    ZR_TRY(zr__checked_tensors(&r->file, &r->tensors));
    *reader = ZR_TAKE(r);
    return ZR_OK;
}

zr_status zr__chunk_reader_f32(zr__chunk_reader *r, const char *tensor, int64_t first, int64_t n, float *out)
{
    const zr_safetensors_tensor *found = zr_safetensors_find(&r->tensors, tensor);
    ZR_CHECK(found, ZR_ERR_DATA, "%s: no tensor %s", r->file.file.name, ZR_SHOWN(tensor));
    ZR_CHECK(strcmp(found->dtype, "F32") == 0, ZR_ERR_DATA, "%s: tensor %s has type %s; expected F32",
             r->file.file.name, ZR_SHOWN(tensor), found->dtype);
    ZR_TRY(zr__safetensors_range(&r->tensors, found, first, n));
    return zr__checked_read(&r->file, found->offset + first * 4, n * 4, tensor, out);
}

const zr_safetensors *zr__chunk_reader_tensors(const zr__chunk_reader *reader)
{
    return &reader->tensors;
}

void zr__chunk_reader_close(zr__chunk_reader **reader)
{
    if (!*reader) return;
    zr__checked_close(&(*reader)->file);
    zr__safetensors_header_free(&(*reader)->tensors.header);
    zr_free(*reader);
    *reader = NULL;
}
