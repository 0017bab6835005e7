/** Fuzz target: arbitrary bytes as a checkpoint's manifest, and again with a valid checksum appended, without which
 * almost no input would pass the first check. An accepted manifest must satisfy the rules that readers rely on, and its
 * printed text must mean the same. */
#include "checkpoint/chunks.h"
#include "checkpoint/manifest.h"
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* Check that the chunks of a region cover each of its bytes once; return the number of chunks. */
static int64_t check_region(const zr__manifest_file *file, const zr__region *region)
{
    int64_t bytes = 0, next = region->offset;
    for (int64_t i = region->first; i < region->first + region->n; i++) {
        const zr__chunk *chunk = &file->chunk[i];
        hold(zr__region_of(file, i).first == region->first, "a chunk is in its region");
        hold(chunk->offset == next && chunk->bytes > 0, "a chunk begins where one begins that it stands beside");
        next += region->slices ? zr__slice_run(region->slices, next) : chunk->bytes;
        bytes += chunk->bytes;
    }
    hold(bytes == region->end - region->offset, "chunks of a region have all of its bytes");
    return region->n;
}

static void check_file(const zr__manifest *m, const zr__manifest_file *file)
{
    int64_t at = 0;
    hold(zr__manifest_find(m, file->name) == file, "a file is found by its name");
    hold(!strchr(file->name, '/') && file->name[0] != '.', "a name stays in its directory");
    for (int64_t i = 0, n; i < file->n_chunks; i += n) {
        const zr__region region = zr__region_of(file, i);
        n = check_region(file, &region);
        hold(region.offset == at && region.first == i && region.n == n, "regions tile the file");
        at = region.end;
        hold(at <= zr__chunk_limit(region.offset), "no chunk passes a multiple of its size");
    }
    hold(at == file->bytes, "chunks end with the file");
}

/* Check that a manifest printed and read again prints the same. */
static void check_round_trip(const zr__manifest *m)
{
    char *once = NULL, *twice = NULL;
    size_t n = 0, again = 0;
    zr__manifest *copy = NULL;
    hold(zr__manifest_print(m, &once, &n) == ZR_OK, "what was read can be printed");
    hold(zr__manifest_parse("printed", once, n, &copy) == ZR_OK, "what was printed can be read");
    hold(zr__manifest_print(copy, &twice, &again) == ZR_OK && n == again && memcmp(once, twice, n) == 0,
         "it says the same");
    zr__manifest_free(&copy);
    zr_free(once);
    zr_free(twice);
}

static void parse(const char *text, size_t n)
{
    zr__manifest *m = NULL;
    zr_status st = zr__manifest_parse("fuzz", text, n, &m);
    hold((st == ZR_OK) == (m != NULL), "a manifest or a refusal");
    hold(st == ZR_OK || (st == ZR_ERR_DATA && zr_error_message()[0]), "a refusal is of bad data and says why");
    for (int i = 0; m && i < m->n_files; i++) check_file(m, &m->file[i]);
    if (m) check_round_trip(m);
    zr__manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    /* An exact-size allocation, so that a sanitizer sees reads past the end. */
    char *text = zr_alloc(n + ZR_MANIFEST_TAIL_BYTES), tail[ZR_MANIFEST_TAIL_BYTES + 1];
    hold(text != NULL, "there is memory");
    if (n) memcpy(text + ZR_MANIFEST_TAIL_BYTES, bytes, n);
    parse(text + ZR_MANIFEST_TAIL_BYTES, n);
    if (n) memcpy(text, bytes, n);
    snprintf(tail, sizeof(tail), "\"xxh3\": \"%016" PRIx64 "\"}\n", zr__chunk_hash(bytes, (int64_t)n));
    memcpy(text + n, tail, ZR_MANIFEST_TAIL_BYTES);
    parse(text, n + ZR_MANIFEST_TAIL_BYTES);
    zr_free(text);
    return 0;
}
