/* Writing safetensors: first the header with all sizes, then ranges in any order, by any process. */
#include "checkpoint/safetensors.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ENTRY_BYTES: the longest text of an entry without its name: 4 dimensions and 2 offsets of 20 digits, and the
 * words. */
enum { ENTRY_BYTES = 200, DATA_ALIGN = 4096 };

static const char header_start[] = "{\"__metadata__\":{\"format\":\"pt\"}";

/* Return whether a name needs no escapes; names are written without. */
static bool plain_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\') return false;
    return name[0] != '\0';
}

static zr_status tensor_bytes(const char *path, zr_dtype dtype, const zr_tensor_spec *spec, int64_t *bytes)
{
    char quoted[ZR_QUOTE_BYTES], shape[96];
    zr__text_escape(spec->name, quoted, sizeof(quoted));
    ZR_CHECK(plain_name(spec->name), ZR_ERR_ARG, "%s: tensor name \"%s\" is not plain ASCII", path, quoted);
    ZR_CHECK(spec->shape.ndim >= 0 && spec->shape.ndim <= ZR_MAX_DIMS, ZR_ERR_ARG, "%s: tensor %s has %d dimensions",
             path, quoted, spec->shape.ndim);
    zr_shape_print(&spec->shape, shape, sizeof(shape));
    int64_t elems = 1;
    for (int d = 0; d < spec->shape.ndim; d++) {
        ZR_CHECK(spec->shape.dim[d] >= 0 && !__builtin_mul_overflow(elems, spec->shape.dim[d], &elems) &&
                     elems < ZR_SAFETENSORS_BYTES_MAX / 4, /* / 4: bytes of the widest dtype */
                 ZR_ERR_ARG, "%s: tensor %s has the impossible shape %s", path, quoted, shape);
    }
    *bytes = elems * zr_dtype_bytes(dtype);
    return ZR_OK;
}

/* Print the start of the file with prefix and padding: *text (*bytes), zr_free it. */
static zr_status header_text(const char *path, zr_dtype dtype, const zr_tensor_spec *spec, int64_t n, char **text,
                             int64_t *bytes, int64_t *data_bytes)
{
    size_t room = ZR_SAFETENSORS_PREFIX_BYTES + sizeof(header_start) + 1 + DATA_ALIGN;
    for (int64_t i = 0; i < n; i++) room += strlen(spec[i].name) + ENTRY_BYTES;
    *text = zr_alloc(room);
    ZR_CHECK(*text, ZR_ERR_MEMORY, "%zu bytes for the header of %s", room, path);
    char *at = *text + ZR_SAFETENSORS_PREFIX_BYTES, *end = *text + room;
    at += snprintf(at, (size_t)(end - at), "%s", header_start);
    int64_t offset = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = 0;
        ZR_TRY(tensor_bytes(path, dtype, &spec[i], &size));
        ZR_CHECK(offset + size <= ZR_SAFETENSORS_BYTES_MAX, ZR_ERR_ARG, "%s: more than 2^48 bytes", path);
        at += snprintf(at, (size_t)(end - at), ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", spec[i].name,
                       zr_dtype_name(dtype));
        for (int d = 0; d < spec[i].shape.ndim; d++)
            at += snprintf(at, (size_t)(end - at), "%s%" PRId64, d ? "," : "", spec[i].shape.dim[d]);
        at += snprintf(at, (size_t)(end - at), "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", offset, offset + size);
        offset += size;
    }
    *at++ = '}';
    while ((at - *text) % DATA_ALIGN) *at++ = ' ';
    uint64_t length = (uint64_t)(at - *text - ZR_SAFETENSORS_PREFIX_BYTES);
    for (int i = 0; i < ZR_SAFETENSORS_PREFIX_BYTES; i++) (*text)[i] = (char)(length >> 8 * i);
    *bytes = at - *text;
    *data_bytes = offset;
    return ZR_OK;
}

static zr_status create_file(const char *path, const char *text, int64_t header_bytes, int64_t file_bytes)
{
    zr__file file;
    zr_status st = ZR_OK;
    ZR_TRY(zr__file_create(path, &file));
    ZR_TRY_GOTO(st, zr__file_reserve(&file, file_bytes), done);
    ZR_TRY_GOTO(st, zr__file_write(&file, 0, text, header_bytes), done);
    ZR_TRY_GOTO(st, zr__file_sync(&file), done);
done:
    zr__file_close(&file);
    if (st != ZR_OK) unlink(path);
    return st;
}

zr_status zr__safetensors_create_as(const char *path, zr_dtype dtype, const zr_tensor_spec *spec, int64_t n)
{
    char shown[ZR_FILE_NAME_BYTES], *text = NULL;
    zr__text_escape(path, shown, sizeof(shown));
    ZR_CHECK(zr_dtype_is_float(dtype), ZR_ERR_ARG, "%s: tensors of the type %s are not written", shown,
             zr_dtype_name(dtype));
    ZR_CHECK(n >= 0, ZR_ERR_ARG, "%s: %" PRId64 " tensors", shown, n);
    int64_t bytes = 0, data_bytes = 0;
    zr__safetensors_header header = {0};
    zr_status st = ZR_OK;
    ZR_TRY_GOTO(st, header_text(shown, dtype, spec, n, &text, &bytes, &data_bytes), done);
    /* Check the header by the reader's own rules; only a repeated name, or too many tensors, can still break them
     * here. */
    st = zr__safetensors_parse(shown, text + ZR_SAFETENSORS_PREFIX_BYTES, bytes - ZR_SAFETENSORS_PREFIX_BYTES,
                               bytes + data_bytes, &header);
    if (st == ZR_ERR_DATA) st = ZR_FAIL(ZR_ERR_ARG, "cannot be written: %s", zr_error_message());
    if (st != ZR_OK) goto done;
    ZR_TRY_GOTO(st, create_file(path, text, bytes, bytes + data_bytes), done);
done:
    zr__safetensors_header_free(&header);
    zr_free(text);
    return st;
}

zr_status zr_safetensors_create(const char *path, const zr_tensor_spec *spec, int64_t n)
{
    ZR_TRY(zr__safetensors_create_as(path, ZR_F32, spec, n));
    return ZR_OK;
}

/* Write 16-bit elements through a buffer on the stack, as reading does. */
static zr_status write_narrowed(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n,
                                const float *in)
{
    uint16_t narrow[ZR_WIDEN_ELEMS];
    char quoted[ZR_QUOTE_BYTES];
    bool bf16 = strcmp(tensor->dtype, "BF16") == 0;
    for (int64_t done = 0; done < n;) {
        int64_t now = n - done < ZR_WIDEN_ELEMS ? n - done : ZR_WIDEN_ELEMS;
        for (int64_t i = 0; i < now; i++) {
            float x = in[done + i];
            narrow[i] = bf16 ? zr_bf16_from_f32(x) : zr_f16_from_f32(x);
            ZR_CHECK(!isfinite(x) || isfinite(bf16 ? zr_f32_from_bf16(narrow[i]) : zr_f32_from_f16(narrow[i])),
                     ZR_ERR_DTYPE, "%s: tensor %s: element %lld is %g, which %s cannot hold", st->file.name,
                     zr__text_escape(tensor->name, quoted, sizeof(quoted)), (long long)(first + done + i), (double)x,
                     tensor->dtype);
        }
        ZR_TRY(zr__file_write(&st->file, tensor->offset + (first + done) * 2, narrow, now * 2));
        done += now;
    }
    return ZR_OK;
}

zr_status zr_safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n,
                               const float *in)
{
    ZR_CHECK(st->writable, ZR_ERR_STATE, "%s was opened for reading; zr__safetensors_attach opens for writing",
             st->file.name);
    ZR_CHECK(tensor->loadable, ZR_ERR_DTYPE, "%s: tensor is %s, only F32, BF16 and F16 are written", st->file.name,
             tensor->dtype);
    ZR_TRY(zr__safetensors_range(st, tensor, first, n));
    if (strcmp(tensor->dtype, "F32") != 0) return write_narrowed(st, tensor, first, n, in);
    ZR_TRY(zr__file_write(&st->file, tensor->offset + first * 4, in, n * 4));
    return ZR_OK;
}

zr_status zr__safetensors_sync(const zr_safetensors *st)
{
    ZR_TRY(zr__file_sync(&st->file));
    return ZR_OK;
}
