/* Planning and creating the weight files of a Hugging Face directory: one safetensors file, or several files and their
 * index. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A tensor to be written. */
typedef struct tensor {
    const char *name; /* name in the file; borrowed from the source (zr__hf_source) or from the list of tensors */
    zr_dtype dtype;
    int64_t file; /* index of its file */
} tensor;

struct zr__weights_out {
    char *dir;
    const zr__tensor_spec *spec;
    tensor *tensor;
    int64_t n;
    const char **own; /* names of the source's files, borrowed; NULL if zr names the files */
    int64_t files;
};

/* ---- planning -------------------------------------------------------------------------------- */

static int64_t bytes_of(const zr__weights_out *out, int64_t i)
{
    return zr_shape_elems(&out->spec[i].shape) * zr_dtype_bytes(out->tensor[i].dtype);
}

/* Assign tensors to files. Each file takes at least one tensor, and then further tensors until the next one would make
 * it too large. */
static void deal_out(zr__weights_out *out, int64_t file_bytes)
{
    int64_t bytes = 0;
    out->files = 1;
    for (int64_t i = 0; i < out->n; i++) {
        const int64_t more = bytes_of(out, i);
        if (bytes > 0 && file_bytes > 0 && bytes + more > file_bytes) {
            out->files++;
            bytes = 0;
        }
        bytes += more;
        out->tensor[i].file = out->files - 1;
    }
}

/* Return the index of one of the source's files, and add the file if it is new. */
static int64_t own_file(zr__weights_out *out, const char *name)
{
    for (int64_t i = 0; i < out->files; i++)
        if (strcmp(out->own[i], name) == 0) return i;
    out->own[out->files] = name;
    return out->files++;
}

/* Take the names, types and files of the tensors from the source. Change nothing if the source lacks a tensor. */
static void keep_source(zr__weights_out *out, const zr__weights_form *form)
{
    zr__hf_place place;
    if (!form->source) return;
    for (int64_t i = 0; i < out->n; i++)
        if (!zr__hf_source_find(form->source, form->names, out->spec[i].name, &place)) return;
    for (int64_t i = 0; i < out->n; i++) {
        (void)zr__hf_source_find(form->source, form->names, out->spec[i].name, &place);
        out->tensor[i].name = place.name;
        out->tensor[i].file = own_file(out, place.file);
        if (form->same_types) out->tensor[i].dtype = place.dtype;
    }
}

static zr_status plan_files(zr__weights_out *out, const zr__weights_form *form)
{
    out->tensor = zr_alloc((size_t)(out->n + 1) * sizeof(*out->tensor));
    out->own = zr_alloc((size_t)(out->n + 1) * sizeof(*out->own));
    ZR_CHECK(out->tensor && out->own, ZR_ERR_MEMORY, "no memory for the names of %" PRId64 " tensors", out->n);
    for (int64_t i = 0; i < out->n; i++) out->tensor[i] = (tensor){out->spec[i].name, form->dtype, 0};
    keep_source(out, form);
    if (out->files > 0 && form->file_bytes == 0) return ZR_OK;
    zr_free(out->own);
    out->own = NULL;
    deal_out(out, form->file_bytes);
    return ZR_OK;
}

zr_status zr__weights_create(const char *dir, const zr__weights_form *form, const zr__tensor_spec *spec, int64_t n,
                             zr__weights_out **made)
{
    ZR_AUTO(zr__weights_out_close) zr__weights_out *out = zr_alloc(sizeof(*out));
    ZR_CHECK(out, ZR_ERR_MEMORY, "no memory for %zu bytes of weights", sizeof(*out));
    *out = (zr__weights_out){.spec = spec, .n = n};
    ZR_TRY(zr__text_copy(dir, strlen(dir), &out->dir));
    ZR_TRY(plan_files(out, form));
    *made = ZR_TAKE(out);
    return ZR_OK;
}

void zr__weights_out_close(zr__weights_out **out)
{
    if (!*out) return;
    zr_free((*out)->tensor);
    zr_free((void *)(*out)->own);
    zr_free((*out)->dir);
    zr_free(*out);
    *out = NULL;
}

int64_t zr__weights_out_files(const zr__weights_out *out)
{
    return out->files;
}

zr_dtype zr__weights_out_dtype(const zr__weights_out *out)
{
    static const zr_dtype types[] = {ZR_F32, ZR_BF16, ZR_F16};
    int64_t most = -1;
    zr_dtype dtype = ZR_F32;
    for (int k = 0; k < 3; k++) {
        int64_t elems = 0;
        for (int64_t i = 0; i < out->n; i++)
            if (out->tensor[i].dtype == types[k]) elems += zr_shape_elems(&out->spec[i].shape);
        if (elems > most) dtype = types[k];
        if (elems > most) most = elems;
    }
    return dtype;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void name_file(const zr__weights_out *out, int64_t i, char name[ZR_FILE_NAME_BYTES])
{
    if (out->own)
        snprintf(name, ZR_FILE_NAME_BYTES, "%s", out->own[i]);
    else if (out->files == 1)
        snprintf(name, ZR_FILE_NAME_BYTES, "%s", ZR_WEIGHTS_SINGLE);
    else
        snprintf(name, ZR_FILE_NAME_BYTES, "model-%05" PRId64 "-of-%05" PRId64 ".safetensors", i + 1, out->files);
}

static bool is_single(const zr__weights_out *out)
{
    return out->files == 1 && (!out->own || strcmp(out->own[0], ZR_WEIGHTS_SINGLE) == 0);
}

static zr_status make_file(const zr__weights_out *out, int64_t i, const char *suffix, zr__tensor_spec *specs,
                           zr_dtype *dtypes)
{
    char name[ZR_FILE_NAME_BYTES], path[PATH_MAX];
    int64_t n = 0;
    name_file(out, i, name);
    ZR_TRY(zr__path_format(path, "%s/%s%s", out->dir, name, is_single(out) ? suffix : ""));
    for (int64_t t = 0; t < out->n; t++) {
        if (out->tensor[t].file != i) continue;
        specs[n] = (zr__tensor_spec){out->tensor[t].name, out->spec[t].shape};
        dtypes[n++] = out->tensor[t].dtype;
    }
    return zr__safetensors_create(path, dtypes, specs, n);
}

static zr_status make_files(const zr__weights_out *out, const char *suffix)
{
    ZR_AUTO_FREE zr__tensor_spec *specs = zr_alloc((size_t)(out->n + 1) * sizeof(*specs));
    ZR_AUTO_FREE zr_dtype *dtypes = zr_alloc((size_t)(out->n + 1) * sizeof(*dtypes));
    ZR_CHECK(specs && dtypes, ZR_ERR_MEMORY, "no memory for the names of %" PRId64 " tensors", out->n);
    for (int64_t i = 0; i < out->files; i++) ZR_TRY(make_file(out, i, suffix, specs, dtypes));
    return ZR_OK;
}

/* ---- the index ------------------------------------------------------------------------------- */

static zr_status make_index(const zr__weights_out *out, const char *suffix)
{
    char path[PATH_MAX], name[ZR_FILE_NAME_BYTES];
    int64_t elems = 0, bytes = 0;
    json_auto_t *map = json_object();
    ZR_TRY(zr__path_format(path, "%s/" ZR_WEIGHTS_INDEX "%s", out->dir, suffix));
    for (int64_t i = 0; i < out->n; i++) {
        name_file(out, out->tensor[i].file, name);
        ZR_CHECK(json_object_set_new(map, out->tensor[i].name, json_string(name)) == 0, ZR_ERR_MEMORY,
                 "no memory for the index of weights");
        elems += zr_shape_elems(&out->spec[i].shape);
        bytes += bytes_of(out, i);
    }
    json_auto_t *root = json_pack("{s:{s:I,s:I},s:O}", "metadata", "total_parameters", (json_int_t)elems, "total_size",
                                  (json_int_t)bytes, "weight_map", map);
    ZR_CHECK(root, ZR_ERR_MEMORY, "no memory for the index of weights");
    return zr__json_put(path, root);
}

zr_status zr__weights_make(const zr__weights_out *out, const char *suffix)
{
    /* Write the index first, so that zr__weights_remove finds the names of all files. */
    if (!is_single(out)) ZR_TRY(make_index(out, suffix));
    return make_files(out, suffix);
}
