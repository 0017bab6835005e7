/* Writing safetensors files: first the header with all sizes, then ranges in any order, by any process. */
#include "base/json/json_write.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { DATA_ALIGN = 4096 };

/* Return whether a name needs no escapes. Names are written without escapes. */
static bool plain_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\') return false;
    return name[0] != '\0';
}

static zr_status tensor_bytes(const char *path, zr_dtype dtype, const zr__tensor_spec *spec, int64_t *bytes)
{
    char shape[96];
    ZR_CHECK(plain_name(spec->name), ZR_ERR_ARG, "%s: tensor name \"%s\" is not plain ASCII", path,
             ZR_SHOWN(spec->name));
    ZR_CHECK(spec->shape.ndim >= 0 && spec->shape.ndim <= ZR_MAX_DIMS, ZR_ERR_ARG, "%s: tensor %s has %d dimensions",
             path, ZR_SHOWN(spec->name), spec->shape.ndim);
    zr_shape_print(&spec->shape, shape, sizeof(shape));
    int64_t elems = 1;
    for (int d = 0; d < spec->shape.ndim; d++) {
        ZR_CHECK(spec->shape.dim[d] >= 0 && !__builtin_mul_overflow(elems, spec->shape.dim[d], &elems) &&
                     elems < ZR_SAFETENSORS_BYTES_MAX / 4, /* 4 bytes is the size of the widest type */
                 ZR_ERR_ARG, "%s: tensor %s has the impossible shape %s", path, ZR_SHOWN(spec->name), shape);
    }
    *bytes = elems * zr_dtype_bytes(dtype);
    return ZR_OK;
}

/* Print the beginning of the file: the header's length, the header, and spaces as padding up to the offset of the
 * data. If `dtype` is NULL, all tensors are F32. */
static zr_status print_header(const char *path, const zr_dtype *dtype, const zr__tensor_spec *spec, int64_t n,
                              zr__json_out *out, int64_t *data_bytes)
{
    *data_bytes = 0;
    zr__text_append(&out->text, (char[ZR_SAFETENSORS_PREFIX_BYTES]){0}, ZR_SAFETENSORS_PREFIX_BYTES);
    zr__json_open(out, NULL, '{');
    zr__json_add_json(out, "__metadata__", "{\"format\":\"pt\"}");
    for (int64_t i = 0, size = 0; i < n; i++, *data_bytes += size) {
        const zr_dtype its = dtype ? dtype[i] : ZR_F32;
        ZR_CHECK(zr_dtype_is_float(its), ZR_ERR_ARG, "%s: cannot write tensors of type %s", path, zr_dtype_name(its));
        ZR_TRY(tensor_bytes(path, its, &spec[i], &size));
        ZR_CHECK(*data_bytes + size <= ZR_SAFETENSORS_BYTES_MAX, ZR_ERR_ARG,
                 "%s: the file would have more than 2^48 bytes", path);
        zr__json_open(out, spec[i].name, '{');
        zr__json_add(out, "dtype", zr_dtype_name(its));
        zr__json_open(out, "shape", '[');
        for (int d = 0; d < spec[i].shape.ndim; d++) zr__json_add(out, NULL, spec[i].shape.dim[d]);
        zr__json_close(out, ']');
        zr__json_add_as(out, "data_offsets", "[%" PRId64 ",%" PRId64 "]", *data_bytes, *data_bytes + size);
        zr__json_close(out, '}');
    }
    zr__json_close(out, '}');
    zr__text_add(&out->text, "%*s", (int)(-out->text.length % DATA_ALIGN), "");
    ZR_CHECK(!out->text.failed, ZR_ERR_MEMORY, "no memory for the header of %s", path);
    const uint64_t length = out->text.length - ZR_SAFETENSORS_PREFIX_BYTES;
    for (int i = 0; i < ZR_SAFETENSORS_PREFIX_BYTES; i++) out->text.data[i] = (char)(length >> 8 * i);
    return ZR_OK;
}

static zr_status create_file(const char *path, const char *text, int64_t header_bytes, int64_t file_bytes)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    ZR_TRY(zr__file_create(path, &file));
    zr_status st = zr__file_reserve(&file, file_bytes);
    if (st == ZR_OK) st = zr__file_write(&file, 0, text, header_bytes);
    if (st == ZR_OK) st = zr__file_sync(&file);
    if (st != ZR_OK) unlink(path);
    return st;
}

zr_status zr__safetensors_create(const char *path, const zr_dtype *dtype, const zr__tensor_spec *spec, int64_t n)
{
    const char *shown = ZR_SHOWN(path);
    ZR_AUTO(zr__json_drop) zr__json_out out = {.tight = true};
    ZR_AUTO(zr__safetensors_header_free) zr__safetensors_header header = {0};
    int64_t data_bytes = 0;
    ZR_CHECK(n >= 0, ZR_ERR_ARG, "%s: %" PRId64 " tensors", shown, n);
    ZR_TRY(print_header(shown, dtype, spec, n, &out, &data_bytes));
    const int64_t bytes = (int64_t)out.text.length;
    /* Check the header by the reader's rules. Only two errors are still possible: a repeated name, and too many
     * tensors. */
    const zr_status st = zr__safetensors_parse(shown, out.text.data + ZR_SAFETENSORS_PREFIX_BYTES,
                                               bytes - ZR_SAFETENSORS_PREFIX_BYTES, bytes + data_bytes, &header);
    ZR_CHECK(st != ZR_ERR_DATA, ZR_ERR_ARG, "cannot be written: %s", zr_error_message());
    ZR_TRY(st);
    return create_file(path, out.text.data, bytes, bytes + data_bytes);
}

/* Round F32 elements to 16 bits in a stack buffer, and write them. */
static zr_status write_narrowed(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n,
                                const float *in)
{
    uint16_t narrow[ZR_WIDEN_ELEMS];
    bool bf16 = strcmp(tensor->dtype, "BF16") == 0;
    for (int64_t done = 0, now; done < n; done += now) {
        now = n - done < ZR_WIDEN_ELEMS ? n - done : ZR_WIDEN_ELEMS;
        for (int64_t i = 0; i < now; i++) {
            float x = in[done + i];
            narrow[i] = bf16 ? zr_bf16_from_f32(x) : zr_f16_from_f32(x);
            ZR_CHECK(!isfinite(x) || isfinite(bf16 ? zr_f32_from_bf16(narrow[i]) : zr_f32_from_f16(narrow[i])),
                     ZR_ERR_DTYPE, "%s: tensor %s: element %lld is %g, which %s cannot hold", st->file.name,
                     ZR_SHOWN(tensor->name), (long long)(first + done + i), (double)x, tensor->dtype);
        }
        ZR_TRY(zr__file_write(&st->file, tensor->offset + (first + done) * 2, narrow, now * 2));
    }
    return ZR_OK;
}

zr_status zr__safetensors_write(const zr_safetensors *st, const zr_safetensors_tensor *tensor, int64_t first, int64_t n,
                                const float *in)
{
    ZR_CHECK(st->writable, ZR_ERR_STATE, "%s was opened for reading; zr__safetensors_attach opens for writing",
             st->file.name);
    ZR_CHECK(tensor->loadable, ZR_ERR_DTYPE, "%s: the tensor is %s; only F32, BF16 and F16 can be written",
             st->file.name, tensor->dtype);
    ZR_TRY(zr__safetensors_range(st, tensor, first, n));
    if (strcmp(tensor->dtype, "F32") != 0) return write_narrowed(st, tensor, first, n, in);
    return zr__file_write(&st->file, tensor->offset + first * 4, in, n * 4);
}
