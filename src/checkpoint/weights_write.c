/* Writing the weights of a Hugging Face directory: one safetensors file, or several files and their index. */
#include "base/file/folder.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct zr__weights_out {
    char *dir;
    zr_dtype dtype;
    const zr_tensor_spec *spec;
    int64_t n;
    int64_t *first; /* array of files + 1 entries: the index of each file's first tensor, then n */
    int64_t files, made;
    zr_safetensors *file; /* the file being written */
    int64_t at;           /* index of the file being written, or -1 before the first file */
};

/* Assign tensors to files. Each file takes at least one tensor, and then further tensors until the next one would make
 * it too large. */
static zr_status deal_out(zr__weights_out *out, int64_t file_bytes)
{
    int64_t bytes = 0;
    out->first = zr_alloc((size_t)(out->n + 2) * sizeof(*out->first));
    ZR_CHECK(out->first, ZR_ERR_MEMORY, "no memory for the names of %" PRId64 " tensors", out->n);
    out->files = 1;
    for (int64_t i = 0; i < out->n; i++) {
        int64_t more = zr_shape_elems(&out->spec[i].shape) * zr_dtype_bytes(out->dtype);
        if (bytes > 0 && file_bytes > 0 && bytes + more > file_bytes) {
            out->first[out->files++] = i;
            bytes = 0;
        }
        bytes += more;
    }
    out->first[out->files] = out->n;
    return ZR_OK;
}

static void name_file(const zr__weights_out *out, int64_t i, char name[ZR_WEIGHTS_NAME_BYTES])
{
    if (out->files == 1)
        snprintf(name, ZR_WEIGHTS_NAME_BYTES, "%s", ZR_WEIGHTS_SINGLE);
    else
        snprintf(name, ZR_WEIGHTS_NAME_BYTES, "model-%05" PRId64 "-of-%05" PRId64 ".safetensors", i + 1, out->files);
}

zr_status zr__weights_create(const char *dir, zr_dtype dtype, const zr_tensor_spec *spec, int64_t n, int64_t file_bytes,
                             zr__weights_out **made)
{
    zr__weights_out *out = zr_alloc(sizeof(*out));
    ZR_CHECK(out, ZR_ERR_MEMORY, "no memory for %zu bytes of weights", sizeof(*out));
    *out = (zr__weights_out){.dtype = dtype, .spec = spec, .n = n, .at = -1};
    zr_status st = zr__text_copy(dir, strlen(dir), &out->dir);
    if (st == ZR_OK) st = deal_out(out, file_bytes);
    if (st == ZR_OK)
        *made = out;
    else
        zr__weights_out_close(&out);
    return st;
}

int64_t zr__weights_out_files(const zr__weights_out *out)
{
    return out->files;
}

/* ---- one file after the other ---------------------------------------------------------------- */

static zr_status end_file(zr__weights_out *out)
{
    zr_status st = out->file ? zr_safetensors_sync(out->file) : ZR_OK;
    zr_safetensors_close(&out->file);
    return st;
}

static zr_status begin_file(zr__weights_out *out, int64_t i)
{
    char name[ZR_WEIGHTS_NAME_BYTES], path[PATH_MAX];
    ZR_TRY(end_file(out));
    name_file(out, i, name);
    ZR_TRY(zr__path_join(path, out->dir, name));
    const int64_t first = out->first[i], n = out->first[i + 1] - first;
    zr_status st = zr__safetensors_create_as(path, out->dtype, out->spec + first, n);
    if (st == ZR_OK) out->made = i + 1;
    if (st == ZR_OK) st = zr_safetensors_attach(path, &out->file);
    out->at = i;
    return st;
}

zr_status zr__weights_put(zr__weights_out *out, int64_t tensor, int64_t first, int64_t n, const float *in)
{
    ZR_CHECK(tensor >= 0 && tensor < out->n, ZR_ERR_ARG, "tensor %" PRId64 " of %" PRId64, tensor, out->n);
    while (out->at < 0 || tensor >= out->first[out->at + 1]) ZR_TRY(begin_file(out, out->at + 1));
    const zr_safetensors_tensor *to = zr_safetensors_find(out->file, out->spec[tensor].name);
    ZR_CHECK(to, ZR_ERR_STATE, "tensor %s comes after its file was written", out->spec[tensor].name);
    return zr_safetensors_write(out->file, to, first, n, in);
}

/* ---- the index ------------------------------------------------------------------------------- */

static zr_status make_map(const zr__weights_out *out, json_t *map, int64_t *elems)
{
    char name[ZR_WEIGHTS_NAME_BYTES];
    for (int64_t i = 0; i < out->files; i++) {
        name_file(out, i, name);
        for (int64_t t = out->first[i]; t < out->first[i + 1]; t++) {
            ZR_CHECK(json_object_set_new(map, out->spec[t].name, json_string(name)) == 0, ZR_ERR_MEMORY,
                     "no memory for the index of weights");
            *elems += zr_shape_elems(&out->spec[t].shape);
        }
    }
    return ZR_OK;
}

static zr_status write_index(const zr__weights_out *out, json_t *map)
{
    char path[PATH_MAX], *text = NULL;
    int64_t elems = 0;
    ZR_TRY(zr__path_join(path, out->dir, ZR_WEIGHTS_INDEX));
    ZR_TRY(make_map(out, map, &elems));
    json_t *root = json_pack("{s:{s:I,s:I},s:O}", "metadata", "total_parameters", (json_int_t)elems, "total_size",
                             (json_int_t)(elems * zr_dtype_bytes(out->dtype)), "weight_map", map);
    ZR_CHECK(root, ZR_ERR_MEMORY, "no memory for the index of weights");
    zr_status st = zr__json_print(root, &text);
    if (st == ZR_OK) st = zr__file_put(path, text, (int64_t)strlen(text));
    json_decref(root);
    zr_free(text);
    return st;
}

zr_status zr__weights_end(zr__weights_out *out)
{
    while (out->at + 1 < out->files) ZR_TRY(begin_file(out, out->at + 1));
    ZR_TRY(end_file(out));
    if (out->files == 1) return ZR_OK;
    json_t *map = json_object();
    ZR_CHECK(map, ZR_ERR_MEMORY, "no memory for the index of weights");
    zr_status st = write_index(out, map);
    json_decref(map);
    return st;
}

static void remove_one(const zr__weights_out *out, const char *name)
{
    char path[PATH_MAX];
    if (zr__path_join(path, out->dir, name) == ZR_OK) unlink(path);
}

void zr__weights_undo(zr__weights_out *out)
{
    char name[ZR_WEIGHTS_NAME_BYTES];
    zr_safetensors_close(&out->file);
    for (int64_t i = 0; i < out->made; i++) {
        name_file(out, i, name);
        remove_one(out, name);
    }
    if (out->files > 1) remove_one(out, ZR_WEIGHTS_INDEX);
    if (out->files > 1) remove_one(out, ZR_WEIGHTS_INDEX ".tmp");
}

void zr__weights_out_close(zr__weights_out **out)
{
    if (!*out) return;
    zr_safetensors_close(&(*out)->file);
    zr_free((*out)->first);
    zr_free((*out)->dir);
    zr_free(*out);
    *out = NULL;
}
