/* The record of a Hugging Face directory from which weights come: the keys of its config.json, and the file and the
 * type of each tensor. Weights are written again in the same form. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/hf.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    zr_dtype dtype;
} types[] = {{"F32", ZR_F32}, {"BF16", ZR_BF16}, {"F16", ZR_F16}};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static bool find_type(const char *name, zr_dtype *dtype)
{
    for (int i = 0; name && i < TYPES; i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        *dtype = types[i].dtype;
        return true;
    }
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Add a file, with the types of its loadable tensors, to the record. Return nonzero on failure. */
static int add_file(json_t *files, const zr_safetensors *file)
{
    const char *path = zr__safetensors_path(file), *slash = strrchr(path, '/');
    json_t *tensors = json_object();
    int failed = json_object_set_new(files, slash ? slash + 1 : path, tensors);
    for (int64_t i = 0; i < zr_safetensors_count(file) && !failed; i++) {
        const zr_safetensors_tensor *tensor = zr_safetensors_get(file, i);
        if (tensor->loadable) failed |= json_object_set_new(tensors, tensor->name, json_string(tensor->dtype));
    }
    return failed;
}

/* Return whether the record in a checkpoint's config.json is valid. */
static bool is_record(json_t *files)
{
    const char *name, *tensor;
    json_t *tensors, *type;
    zr_dtype dtype;
    if (!json_is_object(files)) return false;
    json_object_foreach(files, name, tensors)
    {
        if (!zr__hf_stays_inside(name) || !json_is_object(tensors)) return false;
        json_object_foreach(tensors, tensor, type) if (!find_type(json_string_value(type), &dtype)) return false;
    }
    return true;
}

/* Take the record out of config.json, or make it from the weights. */
static zr_status take_files(zr__hf_source *source, const char *dir, const zr_weights *weights)
{
    json_t *record = json_object_get(source->keys, ZR_HF_FILES_KEY);
    ZR_CHECK(!record || is_record(record), ZR_ERR_DATA,
             "%s/config.json: " ZR_HF_FILES_KEY " is damaged; remove this key to write the weights into one fp32 file",
             ZR_SHOWN(dir));
    source->files = record ? json_incref(record) : json_object();
    int failed = !source->files;
    if (record) failed |= json_object_del(source->keys, ZR_HF_FILES_KEY);
    for (int64_t i = 0; weights && !record && !failed && i < zr__weights_files(weights); i++)
        failed |= add_file(source->files, zr__weights_file(weights, i));
    ZR_CHECK(!failed, ZR_ERR_MEMORY, "no memory for the names of tensors in %s", ZR_SHOWN(dir));
    return ZR_OK;
}

zr_status zr__hf_source_read(const char *dir, const zr_weights *weights, zr__hf_source **out)
{
    char path[PATH_MAX];
    ZR_AUTO(zr__hf_source_free) zr__hf_source *source = zr_alloc(sizeof(*source));
    ZR_CHECK(source, ZR_ERR_MEMORY, "no memory for the record of %s", ZR_SHOWN(dir));
    ZR_TRY(zr__path_of_input(path, dir, "config.json"));
    ZR_TRY(zr__json_load_data(path, &source->keys));
    ZR_TRY(take_files(source, dir, weights));
    *out = ZR_TAKE(source);
    return ZR_OK;
}

/* Add the names of labels to the keys of config.json. Return nonzero on failure. */
static int set_labels(json_t *keys, const char *names)
{
    json_t *id2label = json_object(), *label2id = json_object();
    int failed = !id2label || !label2id;
    for (int64_t i = 0; *names && !failed; i++) {
        const size_t n = strcspn(names, "\n");
        json_auto_t *name = json_stringn(names, n);
        char id[32];
        snprintf(id, sizeof(id), "%lld", (long long)i);
        failed |= json_object_set(id2label, id, name) |
                  json_object_set_new(label2id, json_string_value(name), json_integer(i));
        names += n + (names[n] != '\0');
    }
    (void)json_object_del(keys, "num_labels");
    return failed | json_object_set_new(keys, "id2label", id2label) | json_object_set_new(keys, "label2id", label2id);
}

zr_status zr__hf_source_label(zr__hf_source **source, const char *names)
{
    if (!*source) {
        ZR_AUTO(zr__hf_source_free) zr__hf_source *made = zr_alloc(sizeof(*made));
        ZR_CHECK(made, ZR_ERR_MEMORY, "no memory for the names of labels");
        *made = (zr__hf_source){.keys = json_object(), .files = json_object()};
        ZR_CHECK(made->keys && made->files, ZR_ERR_MEMORY, "no memory for the names of labels");
        *source = ZR_TAKE(made);
    }
    ZR_CHECK(!set_labels((*source)->keys, names), ZR_ERR_MEMORY, "no memory for the names of labels");
    return ZR_OK;
}

void zr__hf_source_free(zr__hf_source **source)
{
    if (!*source) return;
    json_decref((*source)->keys);
    json_decref((*source)->files);
    zr_free(*source);
    *source = NULL;
}

/* ---- looking up ------------------------------------------------------------------------------ */

bool zr__hf_source_has(const zr__hf_source *source, const char *key)
{
    const json_t *value = json_object_get(source->keys, key);
    return value && !json_is_null(value);
}

typedef struct looking {
    const zr__hf_source *source;
    zr__hf_place *place;
} looking;

static bool look_in_source(void *arg, const char *tensor)
{
    const looking *in = arg;
    const char *file;
    json_t *tensors;
    json_object_foreach(in->source->files, file, tensors)
    {
        const char *type = json_string_value(json_object_get(tensors, tensor));
        if (!find_type(type, &in->place->dtype)) continue;
        in->place->file = file;
        in->place->name = json_object_iter_key(json_object_iter_at(tensors, tensor));
        return true;
    }
    return false;
}

bool zr__hf_spelling(const zr_hf_names *names, const char *tensor, int i, char out[ZR_FILE_NAME_BYTES])
{
    if (i == 0) return snprintf(out, ZR_FILE_NAME_BYTES, "%s", tensor) < ZR_FILE_NAME_BYTES;
    for (const char *const(*pair)[2] = names->spelled; pair && (*pair)[0]; pair++) {
        if (!zr__text_ends(tensor, (*pair)[0]) || --i > 0) continue;
        const int before = (int)(strlen(tensor) - strlen((*pair)[0]));
        return snprintf(out, ZR_FILE_NAME_BYTES, "%.*s%s", before, tensor, (*pair)[1]) < ZR_FILE_NAME_BYTES;
    }
    return false;
}

static bool look_behind(const char *prefix, const char *name, zr__hf_look_fn look, void *arg)
{
    char longer[ZR_FILE_NAME_BYTES];
    return snprintf(longer, sizeof(longer), "%s%s", prefix, name) < (int)sizeof(longer) && look(arg, longer);
}

bool zr__hf_look_as(const zr_hf_names *names, const char *name, zr__hf_look_fn look, void *arg)
{
    const size_t n = strlen(names->prefix);
    if (look(arg, name)) return true;
    if (strstr(name, ".lora_") && look_behind(ZR_ADAPTER_PREFIX, name, look, arg)) return true;
    return strncmp(name, names->prefix, n) == 0 ? look(arg, name + n) : look_behind(names->prefix, name, look, arg);
}

bool zr__hf_look_any(const zr_hf_names *names, const char *tensor, zr__hf_look_fn look, void *arg)
{
    char name[ZR_FILE_NAME_BYTES];
    for (int i = 0; zr__hf_spelling(names, tensor, i, name); i++)
        if (zr__hf_look_as(names, name, look, arg)) return true;
    return false;
}

static bool begins_with_one(const char *const *begin, const char *tensor)
{
    for (; begin && *begin; begin++)
        if (strncmp(tensor, *begin, strlen(*begin)) == 0) return true;
    return false;
}

bool zr__hf_is_of_head(const zr_hf_names *names, const char *tensor)
{
    return begins_with_one(names->heads, tensor);
}

bool zr__hf_is_output(const zr_hf_names *names, const char *tensor)
{
    return begins_with_one(names->outputs, tensor);
}

bool zr__hf_source_find(const zr__hf_source *source, const zr_hf_names *names, const char *tensor, zr__hf_place *place)
{
    looking in = {source, place};
    return zr__hf_look_any(names, tensor, look_in_source, &in);
}
