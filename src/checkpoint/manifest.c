/* Writing of manifest.json: the files of a checkpoint, the checksum of every chunk, and a checksum of the text. */
#include "checkpoint/manifest.h"

#include "base/file/folder.h"
#include "base/json/json_write.h"
#include "checkpoint/chunks.h"

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

const zr__manifest_file *zr__manifest_find(const zr__manifest *manifest, const char *name)
{
    for (int i = 0; i < manifest->n_files; i++)
        if (strcmp(manifest->file[i].name, name) == 0) return &manifest->file[i];
    return NULL;
}

void zr__manifest_free(zr__manifest **manifest)
{
    if (!*manifest) return;
    for (int i = 0; i < (*manifest)->n_files; i++) {
        zr_free((void *)(*manifest)->file[i].name);
        zr_free((void *)(*manifest)->file[i].chunk);
        zr_free((void *)(*manifest)->file[i].slices);
    }
    zr_free((void *)(*manifest)->file);
    zr_free((void *)(*manifest)->build);
    zr_free((void *)(*manifest)->run);
    zr_free(*manifest);
    *manifest = NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Compare two chunks or two slices by their first member, the offset at which they begin. */
static int by_offset(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}
_Static_assert(offsetof(zr__chunk, offset) == 0 && offsetof(zr__slices, begin) == 0, "offsets are the first members");

static void print_ready(zr__json_out *out, const zr__manifest_file *file, int format)
{
    zr__json_break(out, "\n");
    zr__json_open(out, NULL, '{');
    zr__json_add(out, "name", file->name, "bytes", file->bytes);
    zr__json_open(out, "ends", '[');
    for (int64_t i = 0; i < file->n_chunks;) {
        const zr__region region = zr__region_of(file, i);
        i = region.first + region.n;
        if (region.end % ZR_CHUNK_BYTES != 0 && region.end != file->bytes) zr__json_add(out, NULL, region.end);
    }
    zr__json_close(out, ']');
    if (format > 1) {
        zr__json_open(out, "slices", '[');
        for (const zr__slices *s = file->slices; s < file->slices + file->n_slices; s++)
            zr__json_add_as(out, NULL, "[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", s->begin, s->end,
                            s->row_bytes, s->slice_bytes);
        zr__json_close(out, ']');
    }
    zr__json_add_json(out, "xxh3", "\""); /* begin a string, to which hashes are appended one by one */
    for (int64_t i = 0; i < file->n_chunks; i++)
        zr__text_add(&out->text, "%s%016" PRIx64, i ? " " : "", file->chunk[i].hash);
    zr__text_add(&out->text, "\"");
    zr__json_close(out, '}');
}

/* Remove duplicates from sorted slices. Duplicates arise because all ranks that write slices of the same matrix list
 * the same entry. */
static int64_t drop_doubles(zr__slices *slices, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (kept == 0 || memcmp(&slices[i], &slices[kept - 1], sizeof(*slices)) != 0) slices[kept++] = slices[i];
    return kept;
}

/* Return a sorted copy of n chunks or slices of `size` bytes, or NULL if memory is short or n is 0. */
static void *sorted(const void *from, int64_t n, size_t size)
{
    void *copy = n > 0 ? zr_alloc((size_t)n * size) : NULL;
    if (!copy) return NULL;
    memcpy(copy, from, (size_t)n * size);
    qsort(copy, (size_t)n, size, by_offset);
    return copy;
}

static zr_status print_file(zr__json_out *out, const zr__manifest_file *file, int format)
{
    ZR_CHECK(file->n_chunks >= 0 && file->n_chunks <= file->bytes && file->n_slices >= 0, ZR_ERR_INTERNAL,
             "%s: %lld chunks of %lld bytes", file->name, (long long)file->n_chunks, (long long)file->bytes);
    ZR_AUTO_FREE zr__chunk *chunk = sorted(file->chunk, file->n_chunks, sizeof(*chunk));
    ZR_AUTO_FREE zr__slices *slices = sorted(file->slices, file->n_slices, sizeof(*slices));
    zr__manifest_file ready = *file;
    ready.chunk = chunk;
    ready.slices = slices;
    ready.n_slices = slices ? drop_doubles(slices, file->n_slices) : 0;
    ZR_CHECK((chunk || file->n_chunks == 0) && (slices || file->n_slices == 0), ZR_ERR_MEMORY,
             "no memory for %lld checksums", (long long)file->n_chunks);
    for (int64_t i = 0; i < ready.n_slices; i++)
        ZR_CHECK(zr__slices_good(&slices[i], file->bytes), ZR_ERR_INTERNAL,
                 "%s: slices of %lld bytes at byte %lld that are none", file->name, (long long)slices[i].slice_bytes,
                 (long long)slices[i].begin);
    print_ready(out, &ready, format);
    return ZR_OK;
}

static zr_status print_members(zr__json_out *out, const zr__manifest *m)
{
    size_t run = strlen(m->run);
    int format = 1;
    for (int i = 0; i < m->n_files; i++)
        if (m->file[i].n_slices > 0) format = ZR_MANIFEST_FORMAT;
    while (run > 0 && strchr(" \t\r\n", m->run[run - 1])) run--;
    ZR_CHECK(run <= ZR_MANIFEST_RUN_MAX_BYTES, ZR_ERR_INTERNAL, "\"run\" of a manifest has %zu bytes", run);
    zr__json_open(out, NULL, '{');
    zr__json_add(out, "format", format, "build", m->build, "step", m->step);
    zr__json_break(out, "\n");
    zr__json_add_json(out, "run", "");
    zr__text_append(&out->text, m->run, run);
    zr__json_break(out, "\n");
    zr__json_open(out, "files", '[');
    for (int i = 0; i < m->n_files; i++) ZR_TRY(print_file(out, &m->file[i], format));
    zr__json_close(out, ']');
    zr__text_add(&out->text, ",\n");
    if (out->text.failed) return ZR_OK;
    const uint64_t hash = zr__chunk_hash(out->text.data, (int64_t)out->text.length); /* hash of the text so far */
    zr__text_add(&out->text, "\"xxh3\": \"%016" PRIx64 "\"}\n", hash);
    return ZR_OK;
}

zr_status zr__manifest_print(const zr__manifest *manifest, char **text, size_t *bytes)
{
    ZR_AUTO(zr__json_drop) zr__json_out out = {.spaced = true};
    ZR_TRY(print_members(&out, manifest));
    *bytes = out.text.length;
    return zr__text_take(&out.text, text);
}

/* Check that a reader of the printed text gets the chunks that were to be written. */
static zr_status check_read(const zr__manifest_file *file, const zr__manifest_file *read)
{
    ZR_AUTO_FREE zr__chunk *chunk = sorted(file->chunk, file->n_chunks, sizeof(*chunk));
    ZR_CHECK(chunk || file->n_chunks == 0, ZR_ERR_MEMORY, "no memory for %lld checksums", (long long)file->n_chunks);
    for (int64_t i = 0; i < file->n_chunks; i++)
        ZR_CHECK(memcmp(&chunk[i], &read->chunk[i], sizeof(*chunk)) == 0, ZR_ERR_INTERNAL,
                 "%s: a chunk of %lld bytes at byte %lld, wanted one of %lld at %lld", file->name,
                 (long long)chunk[i].bytes, (long long)chunk[i].offset, (long long)read->chunk[i].bytes,
                 (long long)read->chunk[i].offset);
    return ZR_OK;
}

zr_status zr__manifest_write(const char *dir, const zr__manifest *manifest)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    ZR_AUTO(zr__manifest_free) zr__manifest *again = NULL;
    ZR_TRY(zr__path_join(path, dir, ZR_MANIFEST_NAME));
    ZR_TRY(zr__manifest_print(manifest, &text, &bytes));
    /* Check the text by the reader's rules before it is written to a file. */
    const zr_status st = zr__manifest_parse(dir, text, bytes, &again);
    ZR_CHECK(st != ZR_ERR_DATA, ZR_ERR_INTERNAL, "%s", zr_error_message());
    ZR_TRY(st);
    for (int i = 0; i < manifest->n_files; i++) ZR_TRY(check_read(&manifest->file[i], &again->file[i]));
    return zr__file_write_new(path, text, (int64_t)bytes);
}
