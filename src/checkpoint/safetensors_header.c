/** The header of a safetensors file, which is checked completely before it is used. jansson checks that it is JSON
 * without duplicate names; this file checks each tensor, and that the tensors together cover the data. */
#include "base/json/json.h"
#include "base/text/text.h"
#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* Types of the format and their size in bits, since some types are smaller than a byte. */
static const struct {
    char name[8];
    int bits;
} dtypes[] = {
    {"F32", 32},    {"BF16", 16},   {"F16", 16},    {"F64", 64}, {"C64", 64},    {"I64", 64},    {"I32", 32},
    {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32}, {"U16", 16},    {"U8", 8},      {"BOOL", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

/* LOADABLE is the number of types that zr can load. These types come first in the table. */
enum { LOADABLE = 3, DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

typedef struct parser {
    const char *file;
    int64_t data_start, data_bytes;
    zr__safetensors_header *header;
    size_t names_used;
    int64_t dims_used;
    char quoted[ZR_QUOTE_BYTES]; /* quoted name of the current tensor, for messages */
} parser;

#define REFUSE_UNLESS(cond, p, ...)                                                                                    \
    do {                                                                                                               \
        if (!(cond)) return refuse_tensor((p), __VA_ARGS__);                                                           \
    } while (0)

static zr_status refuse_tensor(const parser *p, const char *format, ...) ZR_PRINTF(2, 3);

static zr_status refuse_tensor(const parser *p, const char *format, ...)
{
    char reason[640];
    ZR_PRINT_ARGS(reason, format);
    return ZR_FAIL(ZR_ERR_DATA, "%s: tensor \"%s\": %s", p->file, p->quoted, reason);
}

/* ---- one tensor ------------------------------------------------------------------------------ */

static zr_status read_dtype(const parser *p, const json_t *entry, zr_safetensors_tensor *tensor, int *bits)
{
    const json_t *value = json_object_get(entry, "dtype");
    REFUSE_UNLESS(json_is_string(value), p, "\"dtype\" must be a string");
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(json_string_value(value), dtypes[i].name) != 0) continue;
        tensor->dtype = dtypes[i].name;
        *bits = dtypes[i].bits;
        tensor->loadable = i < LOADABLE;
        return ZR_OK;
    }
    return refuse_tensor(p, "unknown dtype \"%s\"", ZR_SHOWN(json_string_value(value)));
}

static zr_status read_shape(parser *p, const json_t *entry, zr_safetensors_tensor *tensor)
{
    const json_t *value = json_object_get(entry, "shape");
    REFUSE_UNLESS(json_is_array(value), p, "\"shape\" must be an array");
    int64_t *dim = p->header->dims + p->dims_used;
    int n = (int)json_array_size(value);
    tensor->elems = 1;
    for (int d = 0; d < n; d++) {
        const json_t *size = json_array_get(value, (size_t)d);
        REFUSE_UNLESS(json_is_integer(size), p, "\"shape\" element %d is not an integer", d);
        dim[d] = json_integer_value(size);
        REFUSE_UNLESS(dim[d] >= 0 && dim[d] <= ZR_SAFETENSORS_BYTES_MAX, p, "dimension %d is %lld, wanted 0 .. 2^48", d,
                      (long long)dim[d]);
        REFUSE_UNLESS(!__builtin_mul_overflow(tensor->elems, dim[d], &tensor->elems) &&
                          tensor->elems <= ZR_SAFETENSORS_BYTES_MAX,
                      p, "the product of its shape passes 2^48 elements");
    }
    tensor->ndim = n;
    tensor->dim = dim;
    p->dims_used += n;
    return ZR_OK;
}

static zr_status read_offsets(const parser *p, const json_t *entry, int bits, zr_safetensors_tensor *tensor)
{
    const json_t *value = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, 1);
    REFUSE_UNLESS(json_array_size(value) == 2 && json_is_integer(first) && json_is_integer(last), p,
                  "\"data_offsets\" must be two integers");
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    REFUSE_UNLESS(begin >= 0 && begin <= end && end <= p->data_bytes, p,
                  "data_offsets [%lld, %lld], wanted 0 <= begin <= end <= %lld, the bytes after the header%s",
                  (long long)begin, (long long)end, (long long)p->data_bytes,
                  begin >= 0 && begin <= end ? "; copy the file again if it was cut short" : "");
    int64_t wanted_bits = tensor->elems * bits; /* at most 2^54, so it does not overflow */
    REFUSE_UNLESS(wanted_bits % 8 == 0, p, "%lld elements of %d bits do not fill whole bytes", (long long)tensor->elems,
                  bits);
    REFUSE_UNLESS(wanted_bits / 8 <= ZR_SAFETENSORS_BYTES_MAX, p, "%lld bytes, wanted at most 2^48",
                  (long long)(wanted_bits / 8));
    REFUSE_UNLESS(end - begin == wanted_bits / 8, p,
                  "data_offsets span %lld bytes, but its shape and dtype %s need %lld", (long long)(end - begin),
                  tensor->dtype, (long long)(wanted_bits / 8));
    tensor->offset = p->data_start + begin;
    tensor->bytes = end - begin;
    return ZR_OK;
}

static zr_status read_tensor(parser *p, const json_t *entry, const char *name)
{
    zr_safetensors_tensor tensor = {.name = name};
    int bits = 0;
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    for (int i = 0; i < 3; i++) REFUSE_UNLESS(json_object_get(entry, fields[i]), p, "\"%s\" is missing", fields[i]);
    REFUSE_UNLESS(json_object_size(entry) == 3, p, "has fields other than dtype, shape and data_offsets");
    ZR_TRY(read_dtype(p, entry, &tensor, &bits));
    ZR_TRY(read_shape(p, entry, &tensor));
    ZR_TRY(read_offsets(p, entry, bits, &tensor));
    p->header->tensor[p->header->count++] = tensor;
    return ZR_OK;
}

static zr_status check_metadata(const parser *p, const json_t *entry)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)entry, key, value)
    {
        ZR_CHECK(json_is_string(value), ZR_ERR_DATA, "%s: __metadata__: \"%s\" is not a string", p->file,
                 ZR_SHOWN(key));
    }
    return ZR_OK;
}

static zr_status read_entries(parser *p, const json_t *root)
{
    const char *name;
    json_t *entry;
    json_object_foreach((json_t *)root, name, entry)
    {
        const size_t bytes = strlen(name) + 1;
        char *kept = p->header->names + p->names_used;
        zr__text_escape(name, p->quoted, sizeof(p->quoted));
        REFUSE_UNLESS(json_is_object(entry), p, "its entry is not an object");
        memcpy(kept, name, bytes);
        p->names_used += bytes;
        ZR_TRY(strcmp(name, "__metadata__") == 0 ? check_metadata(p, entry) : read_tensor(p, entry, kept));
    }
    return ZR_OK;
}

static zr_status read_header(parser *p, const char *text, size_t bytes)
{
    json_auto_t *root = NULL;
    zr__safetensors_header *header = p->header;
    ZR_CHECK(bytes > 0 && text[0] == '{', ZR_ERR_DATA, "%s: the header does not begin with '{'", p->file);
    zr_status st = zr__json_parse_most(text, bytes, ZR_SAFETENSORS_HEADER_MAX, "the header", &root);
    if (st == ZR_ERR_DATA) st = ZR_FAIL(ZR_ERR_DATA, "%s: %.640s", p->file, zr_error_message());
    ZR_TRY(st);
    /* Set upper bounds from the length of the text. Each dimension takes at least two bytes, a digit and a comma. */
    const size_t tensors = json_object_size(root) + 1;
    *header = (zr__safetensors_header){.tensor = zr_alloc(tensors * sizeof(header->tensor[0])),
                                       .by_name = zr_alloc(tensors * sizeof(header->by_name[0])),
                                       .names = zr_alloc(bytes),
                                       .dims = zr_alloc((bytes / 2 + 1) * sizeof(header->dims[0]))};
    ZR_CHECK(header->tensor && header->by_name && header->names && header->dims, ZR_ERR_MEMORY,
             "%s: no memory for a header of %zu bytes", p->file, bytes);
    return read_entries(p, root);
}

/* ---- all tensors together -------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const zr_safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const zr_safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Check that the sorted tensors cover the data exactly. Each tensor must begin where the previous tensor ends, without
 * gaps or overlaps. Two tensors at the same offset are refused even if both are empty. */
static zr_status check_tiling(parser *p)
{
    zr__safetensors_header *header = p->header;
    if (header->count) qsort(header->tensor, (size_t)header->count, sizeof(header->tensor[0]), by_offset);
    int64_t at = p->data_start;
    for (int64_t i = 0; i < header->count; i++) {
        const zr_safetensors_tensor *tensor = &header->tensor[i];
        zr__text_escape(tensor->name, p->quoted, sizeof(p->quoted));
        REFUSE_UNLESS(tensor->offset == at, p, "begins at byte %lld of the data, %s at byte %lld",
                      (long long)(tensor->offset - p->data_start),
                      tensor->offset < at ? "overlaps: the one before ends" : "leaves a hole: the one before ends",
                      (long long)(at - p->data_start));
        REFUSE_UNLESS(tensor->bytes || i == 0 || tensor[-1].bytes || tensor[-1].offset != at, p,
                      "is empty and reuses the place of \"%s\"", ZR_SHOWN(tensor[-1].name));
        at += tensor->bytes;
    }
    ZR_CHECK(at == p->data_start + p->data_bytes, ZR_ERR_DATA,
             "%s: the file has %lld bytes of data, but its tensors fill %lld; copy the file again", p->file,
             (long long)p->data_bytes, (long long)(at - p->data_start));
    return ZR_OK;
}

zr_status zr__safetensors_parse(const char *name, const char *text, int64_t bytes, int64_t file_bytes,
                                zr__safetensors_header *header)
{
    ZR_CHECK(bytes <= ZR_SAFETENSORS_HEADER_MAX, ZR_ERR_DATA, "%s: the header has %lld bytes; the limit is %d", name,
             (long long)bytes, ZR_SAFETENSORS_HEADER_MAX);
    int64_t data_start = ZR_SAFETENSORS_PREFIX_BYTES + bytes;
    parser p = {.file = name, .data_start = data_start, .data_bytes = file_bytes - data_start, .header = header};
    *header = (zr__safetensors_header){0};
    ZR_TRY(read_header(&p, text, (size_t)bytes));
    ZR_TRY(check_tiling(&p));
    for (int64_t i = 0; i < header->count; i++) header->by_name[i] = &header->tensor[i];
    if (header->count) qsort(header->by_name, (size_t)header->count, sizeof(header->by_name[0]), by_name);
    return ZR_OK;
}

void zr__safetensors_header_free(zr__safetensors_header *header)
{
    zr_free(header->tensor);
    zr_free(header->by_name);
    zr_free(header->names);
    zr_free(header->dims);
    *header = (zr__safetensors_header){0};
}
