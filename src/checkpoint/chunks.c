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

static zr_status hash_range(const zr__file *file, int64_t first, int64_t end, unsigned char *buffer,
                            zr__chunk_list *list)
{
    for (int64_t at = first, bytes; at < end; at += bytes) {
        int64_t limit = zr__chunk_limit(at);
        bytes = (limit < end ? limit : end) - at;
        ZR_TRY(zr__file_read(file, at, buffer, bytes, ZR_ERR_IO));
        ZR_TRY(zr__chunk_add(list, (zr_chunk){at, bytes, zr__chunk_hash(buffer, bytes)}));
    }
    return zr__file_unchanged(file);
}

zr_status zr_chunks_of_file(const char *path, int64_t first, int64_t end, zr_chunk **chunk, int64_t *n)
{
    zr__file file;
    zr__chunk_list list = {0};
    unsigned char *buffer = NULL;
    zr_status st = ZR_OK;
    *chunk = NULL;
    *n = 0;
    ZR_TRY(zr__file_open(path, false, &file));
    if (end < 0) end = file.bytes;
    if (first < 0 || first > end || end > file.bytes) {
        st = ZR_FAIL(ZR_ERR_ARG, "%s: cannot read bytes %lld .. %lld: the file has %lld bytes", file.name,
                     (long long)first, (long long)end, (long long)file.bytes);
        goto done;
    }
    int64_t bytes = end - first < ZR_CHUNK_BYTES ? end - first : ZR_CHUNK_BYTES;
    buffer = zr_alloc((size_t)bytes);
    if (!buffer) {
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory for %lld bytes to read %s", (long long)bytes, file.name);
        goto done;
    }
    ZR_TRY_GOTO(st, hash_range(&file, first, end, buffer, &list), done);
    *chunk = list.chunk;
    *n = list.n;
    list.chunk = NULL;
done:
    zr_free(list.chunk);
    zr_free(buffer);
    zr__file_close(&file);
    return st;
}
