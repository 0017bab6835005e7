#include "checkpoint/chunks.h"

#include "base/core/grow.h"

#include <xxhash.h>

uint64_t zr__chunk_hash(const void *bytes, int64_t n)
{
    return XXH3_64bits(bytes, (size_t)n);
}

zr_status zr__chunk_add(zr__chunk_list *list, zr_chunk chunk)
{
    ZR_GROW(list->chunk, list->room, list->n + 1, "checksums");
    list->chunk[list->n++] = chunk;
    return ZR_OK;
}

static zr_status hash_range(const zr__file *file, int64_t first, int64_t end, zr__chunk_list *list)
{
    ZR_CHECK(first >= 0 && first <= end && end <= file->bytes, ZR_ERR_ARG,
             "%s: cannot read bytes %lld .. %lld: the file has %lld bytes", file->name, (long long)first,
             (long long)end, (long long)file->bytes);
    const int64_t room = end - first < ZR_CHUNK_BYTES ? end - first : ZR_CHUNK_BYTES;
    unsigned char *buffer = zr_alloc((size_t)room);
    ZR_CHECK(buffer, ZR_ERR_MEMORY, "no memory for %lld bytes to read %s", (long long)room, file->name);
    zr_status st = ZR_OK;
    for (int64_t at = first, bytes; st == ZR_OK && at < end; at += bytes) {
        int64_t limit = zr__chunk_limit(at);
        bytes = (limit < end ? limit : end) - at;
        st = zr__file_read(file, at, buffer, bytes, ZR_ERR_IO);
        if (st == ZR_OK) st = zr__chunk_add(list, (zr_chunk){at, bytes, zr__chunk_hash(buffer, bytes)});
    }
    zr_free(buffer);
    return st == ZR_OK ? zr__file_unchanged(file) : st;
}

zr_status zr_chunks_of_file(const char *path, int64_t first, int64_t end, zr_chunk **chunk, int64_t *n)
{
    zr__file file;
    zr__chunk_list list = {0};
    *chunk = NULL;
    *n = 0;
    ZR_TRY(zr__file_open(path, false, &file));
    zr_status st = hash_range(&file, first, end < 0 ? file.bytes : end, &list);
    zr__file_close(&file);
    if (st == ZR_OK) {
        *chunk = list.chunk;
        *n = list.n;
    } else {
        zr_free(list.chunk);
    }
    return st;
}
