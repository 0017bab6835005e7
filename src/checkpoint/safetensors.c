/* Opening, looking up and reading safetensors files. */
#include "checkpoint/safetensors.h"

#include "base/text/text.h"
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_AGAIN "copy the file again if it was cut short"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor bytes are read and written as they lie");

zr_status zr__safetensors_header_bytes(const char *name, const unsigned char prefix[ZR_SAFETENSORS_PREFIX_BYTES],
                                       int64_t file_bytes, int64_t *bytes)
{
    uint64_t n = 0;
    for (int i = ZR_SAFETENSORS_PREFIX_BYTES - 1; i >= 0; i--) n = n << 8 | prefix[i];
    ZR_CHECK(n >= 2 && n <= ZR_SAFETENSORS_HEADER_MAX, ZR_ERR_DATA,
             "%s: not a safetensors file: its header would have %llu bytes; expected 2 to %d; %s", name,
             (unsigned long long)n, ZR_SAFETENSORS_HEADER_MAX,
             zr__file_is_pointer(prefix, ZR_SAFETENSORS_PREFIX_BYTES) ? ZR_POINTER_REMEDY : COPY_AGAIN);
    ZR_CHECK((int64_t)n <= file_bytes - ZR_SAFETENSORS_PREFIX_BYTES, ZR_ERR_DATA,
             "%s: the header has %llu bytes, but the file only %lld; %s", name, (unsigned long long)n,
             (long long)file_bytes, COPY_AGAIN);
    *bytes = (int64_t)n;
    return ZR_OK;
}

static zr_status read_header(zr_safetensors *st)
{
    const zr__file *file = &st->file;
    unsigned char prefix[ZR_SAFETENSORS_PREFIX_BYTES];
    int64_t n = 0;
    ZR_CHECK(file->bytes >= ZR_SAFETENSORS_PREFIX_BYTES, ZR_ERR_DATA,
             "%s: not a safetensors file: it has %lld bytes, but needs at least %d; %s", file->name,
             (long long)file->bytes, ZR_SAFETENSORS_PREFIX_BYTES, COPY_AGAIN);
    ZR_TRY(zr__file_read(file, 0, prefix, sizeof(prefix), ZR_ERR_DATA));
    ZR_TRY(zr__safetensors_header_bytes(file->name, prefix, file->bytes, &n));
    ZR_AUTO_FREE char *text = zr_alloc((size_t)n);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for %lld bytes of the header of %s", (long long)n, file->name);
    ZR_TRY(zr__file_read(file, ZR_SAFETENSORS_PREFIX_BYTES, text, n, ZR_ERR_DATA));
    return zr__safetensors_parse(file->name, text, n, file->bytes, &st->header);
}

static zr_status open_safetensors(const char *path, bool writable, zr_safetensors **out)
{
    ZR_AUTO(zr_safetensors_close) zr_safetensors *st = zr_alloc(sizeof(*st));
    ZR_CHECK(st, ZR_ERR_MEMORY, "no memory for %zu bytes of a reader", sizeof(*st));
    *st = (zr_safetensors){.file = {.fd = -1}, .writable = writable};
    ZR_TRY(zr__text_copy(path, strlen(path), &st->path));
    ZR_TRY(zr__file_open(path, writable, &st->file));
    ZR_TRY(read_header(st));
    *out = ZR_TAKE(st);
    return ZR_OK;
}

zr_status zr_safetensors_open(const char *path, zr_safetensors **st)
{
    return open_safetensors(path, false, st);
}

zr_status zr__safetensors_attach(const char *path, zr_safetensors **st)
{
    return open_safetensors(path, true, st);
}

void zr_safetensors_close(zr_safetensors **st)
{
    if (!*st) return;
    zr__file_close(&(*st)->file);
    zr__safetensors_header_free(&(*st)->header);
    zr_free((*st)->path);
    zr_free(*st);
    *st = NULL;
}

bool zr__safetensors_has_shape(const zr_safetensors_tensor *tensor, const zr_shape *shape)
{
    bool same = tensor->ndim == shape->ndim;
    for (int d = 0; same && d < shape->ndim; d++) same = tensor->dim[d] == shape->dim[d];
    return same;
}

const char *zr__safetensors_print_dims(const zr_safetensors_tensor *tensor, char text[ZR_QUOTE_BYTES])
{
    if (tensor->ndim > ZR_MAX_DIMS) {
        snprintf(text, ZR_QUOTE_BYTES, "%d dimensions", tensor->ndim);
        return text;
    }
    zr_shape shape = {.ndim = tensor->ndim};
    if (tensor->ndim) memcpy(shape.dim, tensor->dim, (size_t)tensor->ndim * sizeof(shape.dim[0]));
    zr_shape_print(&shape, text, ZR_QUOTE_BYTES);
    return text;
}

const char *zr__safetensors_path(const zr_safetensors *st)
{
    return st->path;
}

int64_t zr_safetensors_count(const zr_safetensors *st)
{
    return st->header.count;
}

const zr_safetensors_tensor *zr_safetensors_get(const zr_safetensors *st, int64_t i)
{
    return &st->header.tensor[i];
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, (*(const zr_safetensors_tensor *const *)entry)->name);
}

const zr_safetensors_tensor *zr_safetensors_find(const zr_safetensors *st, const char *name)
{
    const zr_safetensors_tensor **found =
        bsearch(name, st->header.by_name, (size_t)st->header.count, sizeof(*st->header.by_name), compare_name);
    return found ? *found : NULL;
}

zr_status zr__safetensors_range(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n)
{
    ZR_CHECK(first >= 0 && n >= 0 && first <= tensor->elems && n <= tensor->elems - first, ZR_ERR_ARG,
             "%s: tensor %s: cannot read %lld elements from element %lld on: it has %lld", st->file.name,
             ZR_SHOWN(tensor->name), (long long)n, (long long)first, (long long)tensor->elems);
    return ZR_OK;
}

static zr_status read_widened(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n,
                              float *out)
{
    uint16_t narrow[ZR_WIDEN_ELEMS];
    bool bf16 = strcmp(tensor->dtype, "BF16") == 0;
    for (int64_t done = 0, now; done < n; done += now) {
        now = n - done < ZR_WIDEN_ELEMS ? n - done : ZR_WIDEN_ELEMS;
        ZR_TRY(zr__file_read(&st->file, tensor->offset + (first + done) * 2, narrow, now * 2, ZR_ERR_IO));
        for (int64_t i = 0; i < now; i++)
            out[done + i] = bf16 ? zr_f32_from_bf16(narrow[i]) : zr_f32_from_f16(narrow[i]);
    }
    return ZR_OK;
}

zr_status zr_safetensors_read_f32(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first,
                                  int64_t n, float *out)
{
    ZR_CHECK(tensor->loadable, ZR_ERR_DATA, "%s: tensor %s has type %s; expected F32, BF16 or F16", st->file.name,
             ZR_SHOWN(tensor->name), tensor->dtype);
    ZR_TRY(zr__safetensors_range(st, tensor, first, n));
    ZR_TRY(strcmp(tensor->dtype, "F32") == 0
               ? zr__file_read(&st->file, tensor->offset + first * 4, out, n * 4, ZR_ERR_IO)
               : read_widened(st, tensor, first, n, out));
    /* Do not check a file that is open for writing, because its own writer changes it. */
    return st->writable ? ZR_OK : zr__file_unchanged(&st->file);
}

/* Read elements of a tensor of the type I64. */
static zr_status read_narrowed(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n,
                               int32_t *out)
{
    int64_t wide[ZR_WIDEN_ELEMS];
    for (int64_t done = 0, now; done < n; done += now) {
        now = n - done < ZR_WIDEN_ELEMS ? n - done : ZR_WIDEN_ELEMS;
        ZR_TRY(zr__file_read(&st->file, tensor->offset + (first + done) * 8, wide, now * 8, ZR_ERR_IO));
        for (int64_t i = 0; i < now; i++) {
            ZR_CHECK(wide[i] >= INT32_MIN && wide[i] <= INT32_MAX, ZR_ERR_DATA,
                     "%s: tensor %s: element %lld is %lld, which does not fit into 32 bits", st->file.name,
                     ZR_SHOWN(tensor->name), (long long)(first + done + i), (long long)wide[i]);
            out[done + i] = (int32_t)wide[i];
        }
    }
    return ZR_OK;
}

zr_status zr_safetensors_read_i32(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first,
                                  int64_t n, int32_t *out)
{
    const bool narrow = strcmp(tensor->dtype, "I32") == 0;
    ZR_CHECK(narrow || strcmp(tensor->dtype, "I64") == 0, ZR_ERR_DATA, "%s: tensor %s has type %s; expected I32 or I64",
             st->file.name, ZR_SHOWN(tensor->name), tensor->dtype);
    ZR_TRY(zr__safetensors_range(st, tensor, first, n));
    ZR_TRY(narrow ? zr__file_read(&st->file, tensor->offset + first * 4, out, n * 4, ZR_ERR_IO)
                  : read_narrowed(st, tensor, first, n, out));
    return st->writable ? ZR_OK : zr__file_unchanged(&st->file);
}
