/* manifest.json of a checkpoint: which files it has, and the checksum of every chunk of them and of the rest. */
#include "checkpoint/manifest.h"
#include "base/text.h"
#include "checkpoint/chunks.h"
#include "checkpoint/hf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool zr__manifest_file_name(const char *name, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (n == 0 || n > ZR_MANIFEST_NAME_MAX || strchr("._-", name[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!name[i] || !strchr(letters, name[i])) return false;
    return n != strlen(ZR_MANIFEST_NAME) || memcmp(name, ZR_MANIFEST_NAME, n) != 0;
}

const zr_manifest_file *zr_manifest_find(const zr_manifest *manifest, const char *name)
{
    for (int i = 0; i < manifest->n_files; i++)
        if (strcmp(manifest->file[i].name, name) == 0) return &manifest->file[i];
    return NULL;
}

void zr_manifest_free(zr_manifest **manifest)
{
    if (!*manifest) return;
    for (int i = 0; i < (*manifest)->n_files; i++) {
        zr_free((void *)(*manifest)->file[i].name);
        zr_free((void *)(*manifest)->file[i].chunk);
    }
    zr_free((void *)(*manifest)->file);
    zr_free((void *)(*manifest)->build);
    zr_free((void *)(*manifest)->run);
    zr_free(*manifest);
    *manifest = NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const zr_chunk *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static zr_status check_tiling(const zr_manifest_file *file, const zr_chunk *chunk)
{
    int64_t at = 0;
    for (int64_t i = 0; i < file->n_chunks; i++) {
        ZR_CHECK(chunk[i].offset == at && chunk[i].bytes > 0 && chunk[i].bytes <= zr__chunk_limit(at) - at,
                 ZR_ERR_INTERNAL, "%s: a chunk of %lld bytes at byte %lld, wanted one at %lld", file->name,
                 (long long)chunk[i].bytes, (long long)chunk[i].offset, (long long)at);
        at += chunk[i].bytes;
    }
    ZR_CHECK(at == file->bytes, ZR_ERR_INTERNAL, "%s: chunks of %lld bytes, it has %lld", file->name, (long long)at,
             (long long)file->bytes);
    return ZR_OK;
}

static void print_chunks(zr__text *text, const zr_manifest_file *file, const zr_chunk *chunk)
{
    const char *separator = "";
    zr__text_add(text, "{\"name\": \"%s\", \"bytes\": %" PRId64 ", \"ends\": [", file->name, file->bytes);
    for (int64_t i = 0; i + 1 < file->n_chunks; i++) {
        int64_t end = chunk[i].offset + chunk[i].bytes;
        if (end % ZR_CHUNK_BYTES == 0) continue;
        zr__text_add(text, "%s%" PRId64, separator, end);
        separator = ", ";
    }
    zr__text_add(text, "], \"xxh3\": \"");
    for (int64_t i = 0; i < file->n_chunks; i++) zr__text_add(text, "%s%016" PRIx64, i ? " " : "", chunk[i].hash);
    zr__text_add(text, "\"}");
}

static zr_status print_file(zr__text *text, const zr_manifest_file *file)
{
    ZR_CHECK(file->n_chunks >= 0 && file->n_chunks <= file->bytes, ZR_ERR_INTERNAL, "%s: %lld chunks of %lld bytes",
             file->name, (long long)file->n_chunks, (long long)file->bytes);
    zr_chunk *sorted = zr_alloc((size_t)file->n_chunks * sizeof(*sorted));
    ZR_CHECK(sorted, ZR_ERR_MEMORY, "no memory for %lld checksums", (long long)file->n_chunks);
    if (file->n_chunks) {
        memcpy(sorted, file->chunk, (size_t)file->n_chunks * sizeof(*sorted));
        qsort(sorted, (size_t)file->n_chunks, sizeof(*sorted), by_offset);
    }
    zr_status st = check_tiling(file, sorted);
    if (st == ZR_OK) print_chunks(text, file, sorted);
    zr_free(sorted);
    return st;
}

static zr_status print_members(zr__text *text, const zr_manifest *m)
{
    size_t run = strlen(m->run);
    while (run > 0 && strchr(" \t\r\n", m->run[run - 1])) run--;
    ZR_CHECK(run <= ZR_MANIFEST_RUN_MAX_BYTES, ZR_ERR_INTERNAL, "\"run\" of a manifest has %zu bytes", run);
    zr__text_add(text, "{\"format\": %d, \"build\": \"%s\", \"step\": %" PRId64 ",\n\"run\": %.*s,\n\"files\": [",
                 ZR_MANIFEST_FORMAT, m->build, m->step, (int)run, m->run);
    for (int i = 0; i < m->n_files; i++) {
        zr__text_add(text, i ? ",\n" : "\n");
        ZR_TRY(print_file(text, &m->file[i]));
    }
    zr__text_add(text, "],\n");
    if (text->failed) return ZR_OK;
    uint64_t hash = zr__chunk_hash(text->data, (int64_t)text->length);
    zr__text_add(text, "\"xxh3\": \"%016" PRIx64 "\"}\n", hash);
    return ZR_OK;
}

zr_status zr__manifest_print(const zr_manifest *manifest, char **text, size_t *bytes)
{
    zr__text out = {0};
    zr_status st = print_members(&out, manifest);
    *bytes = out.length;
    if (st == ZR_OK) st = zr__text_take(&out, text);
    zr__text_clear(&out);
    ZR_TRY(st);
    return ZR_OK;
}

/* The reader's rules hold for what is written. */
static zr_status check_text(const char *dir, const char *text, size_t bytes)
{
    zr_manifest *again = NULL;
    zr_status st = zr__manifest_parse(dir, text, bytes, &again);
    zr_manifest_free(&again);
    if (st == ZR_ERR_DATA) return ZR_FAIL(ZR_ERR_INTERNAL, "%s", zr_error_message());
    ZR_TRY(st);
    return ZR_OK;
}

static zr_status write_text(const char *path, const char *text, size_t bytes)
{
    zr__file file;
    zr_status st = ZR_OK;
    ZR_TRY(zr__file_create(path, &file));
    ZR_TRY_GOTO(st, zr__file_write(&file, 0, text, (int64_t)bytes), done);
    ZR_TRY_GOTO(st, zr__file_sync(&file), done);
done:
    zr__file_close(&file);
    return st;
}

zr_status zr_manifest_write(const char *dir, const zr_manifest *manifest)
{
    char *text = NULL, *path = NULL;
    size_t bytes = 0;
    zr_status st = ZR_OK;
    ZR_TRY_GOTO(st, zr__manifest_print(manifest, &text, &bytes), done);
    ZR_TRY_GOTO(st, check_text(dir, text, bytes), done);
    ZR_TRY_GOTO(st, zr__hf_path(dir, ZR_MANIFEST_NAME, &path), done);
    ZR_TRY_GOTO(st, write_text(path, text, bytes), done);
done:
    zr_free(text);
    zr_free(path);
    return st;
}
