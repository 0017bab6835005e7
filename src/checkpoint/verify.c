/* Verification of every byte of a checkpoint, with a list of all damage. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/chunks.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 64 };

typedef struct verifier {
    const char *dir;
    const zr__manifest *manifest;
    zr_progress_fn fn;
    void *arg;
    int64_t done, all;
    zr__text report;
    int64_t lines;
    zr__failure first; /* first damage that was found */
    /* The fields below describe the file being checked. */
    zr__checked_file file;
    zr_safetensors tensors;
    /* Range of bytes of consecutive damaged regions that are not reported yet. If both ends are equal, the range is
     * empty. */
    int64_t damaged_from, damaged_to;
} verifier;

/* Report the damage that the last error message describes. */
static void report_damage(verifier *v, zr_status status)
{
    zr__failure_note(&v->first, status);
    if (v->lines++ < LINES_MAX) zr__text_add(&v->report, "%s\n", zr_error_message());
}

/* Report the consecutive damaged regions, with the tensors in them. */
static void report_regions(verifier *v)
{
    const zr_safetensors_tensor *low = NULL, *high = NULL;
    const int64_t first = v->damaged_from, end = v->damaged_to;
    char whose[2 * ZR_QUOTE_BYTES + 16] = "", a[ZR_QUOTE_BYTES], b[ZR_QUOTE_BYTES];
    if (first == end) return;
    for (int64_t i = 0; i < v->tensors.header.count; i++) {
        const zr_safetensors_tensor *t = &v->tensors.header.tensor[i];
        if (t->offset >= end || t->offset + t->bytes <= first) continue;
        if (!low) low = t;
        high = t;
    }
    if (low)
        snprintf(whose, sizeof(whose), low == high ? " (tensor %s)" : " (tensors %s .. %s)",
                 zr__text_escape(low->name, a, sizeof(a)), zr__text_escape(high->name, b, sizeof(b)));
    report_damage(v, ZR_FAIL(ZR_ERR_DATA, "%s: bytes %lld .. %lld are damaged%s", v->file.file.name, (long long)first,
                             (long long)end - 1, whose));
    v->damaged_from = v->damaged_to = 0;
}

/* Check a region. If it is damaged, add it to the consecutive damaged regions. Otherwise report the damaged regions
 * that precede it. Return only errors that must end the whole check. */
static zr_status check_region(verifier *v, const zr__region *region)
{
    zr_status st = zr__checked_load(&v->file, region->first);
    if (st == ZR_ERR_MEMORY) return st;
    if (st == ZR_ERR_DATA) {
        if (v->damaged_from == v->damaged_to) v->damaged_from = region->offset;
        v->damaged_to = region->end;
    } else {
        zr__failure other = {0};
        zr__failure_note(&other, st);
        report_regions(v);
        if (st != ZR_OK) report_damage(v, zr__failure_tell(&other));
    }
    v->done += region->end - region->offset;
    if (v->fn) v->fn(v->arg, v->done, v->all);
    return ZR_OK;
}

static zr_status check_chunks(verifier *v)
{
    const char *name = v->file.listed->name, *dot = strrchr(name, '.');
    int64_t lines = v->lines;
    zr__failure tensors = {0};
    /* Read the tensors' names for the reports of damage. If the header cannot be read, its error is reported only if
     * the following check finds no damaged region. */
    if (dot && strcmp(dot, ".safetensors") == 0) zr__failure_note(&tensors, zr__checked_tensors(&v->file, &v->tensors));
    if (tensors.status == ZR_ERR_MEMORY) return ZR_ERR_MEMORY;
    if (tensors.status != ZR_OK) zr__safetensors_header_free(&v->tensors.header);
    for (int64_t i = 0; i < v->file.listed->n_chunks;) {
        const zr__region region = zr__region_of(v->file.listed, i);
        ZR_TRY(check_region(v, &region));
        i = region.first + region.n;
    }
    report_regions(v);
    if (tensors.status != ZR_OK && v->lines == lines) report_damage(v, zr__failure_tell(&tensors));
    return ZR_OK;
}

static zr_status check_file(verifier *v, const zr__manifest_file *listed)
{
    v->tensors = (zr_safetensors){.file = {.fd = -1}};
    zr_status st = zr__checked_open(v->dir, v->manifest, listed->name, 1, &v->file);
    if (st == ZR_OK) {
        st = check_chunks(v);
    } else if (st != ZR_ERR_MEMORY) {
        report_damage(v, st);
        v->done += listed->bytes;
        st = ZR_OK;
    }
    zr__safetensors_header_free(&v->tensors.header);
    zr__checked_close(&v->file);
    return st;
}

/* Report files that the manifest does not list. They are not an error; a user may have added them on purpose. */
static void name_foreign(verifier *v)
{
    ZR_AUTO(zr__close_dir) DIR *dir = opendir(v->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strcmp(entry->d_name, ZR_MANIFEST_NAME) == 0 || zr__manifest_find(v->manifest, entry->d_name))
            continue;
        if (v->lines++ < LINES_MAX)
            zr__text_add(&v->report, "%s/%s: the manifest does not list this file; zr ignores it\n", ZR_SHOWN(v->dir),
                         ZR_SHOWN(entry->d_name));
    }
}

zr_status zr_checkpoint_verify(const char *dir, zr_progress_fn fn, void *arg, char *report, size_t size)
{
    ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
    if (size) report[0] = '\0';
    zr_status st = zr__manifest_load(dir, &manifest);
    if (st != ZR_OK && size) snprintf(report, size, "%s\n", zr_error_message());
    ZR_TRY(st);
    verifier v = {.dir = dir, .manifest = manifest, .fn = fn, .arg = arg};
    for (int i = 0; i < manifest->n_files; i++) v.all += manifest->file[i].bytes;
    for (int i = 0; i < manifest->n_files && st == ZR_OK; i++) st = check_file(&v, &manifest->file[i]);
    if (st == ZR_OK) {
        name_foreign(&v);
        if (v.lines > LINES_MAX) zr__text_add(&v.report, "and %lld lines more\n", (long long)(v.lines - LINES_MAX));
        st = zr__failure_tell(&v.first);
    }
    if (size) snprintf(report, size, "%s", v.report.data ? v.report.data : "");
    zr__text_clear(&v.report);
    return st;
}
