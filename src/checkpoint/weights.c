/* Reading the weights of a Hugging Face directory as one set of tensors, from one safetensors file or several. */
#include "base/core/grow.h"
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/hf.h"
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <string.h>

/* Maximum number of tensors named in one message. */
enum { LINES_MAX = 8 };

static const char single_name[] = ZR_WEIGHTS_SINGLE, index_name[] = ZR_WEIGHTS_INDEX;

struct zr_weights {
    char dir[ZR_FILE_NAME_BYTES]; /* printable path, for messages */
    const zr_hf_names *names;
    bool writable;      /* whether the files are open for writing */
    const char *suffix; /* ending of the name of the single file or of the index (zr__weights_make) */
    zr_safetensors **file;
    int64_t files, room;
    char *targets; /* names of the layers of an adapter whose weights were added, or NULL */
};

/* ---- opening --------------------------------------------------------------------------------- */

static zr_status open_weights_file(zr_weights *weights, const char *dir, const char *name)
{
    char path[PATH_MAX];
    ZR_GROW(weights->file, weights->room, weights->files + 1, "files of weights");
    ZR_TRY(zr__path_of_input(path, dir, name));
    zr_safetensors **file = &weights->file[weights->files];
    ZR_TRY(weights->writable ? zr__safetensors_attach(path, file) : zr_safetensors_open(path, file));
    weights->files++;
    return ZR_OK;
}

bool zr__hf_stays_inside(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static zr_safetensors *file_named(const zr_weights *weights, const char *name)
{
    for (int64_t i = 0; i < weights->files; i++) {
        const char *slash = strrchr(zr__safetensors_path(weights->file[i]), '/');
        if (slash && strcmp(slash + 1, name) == 0) return weights->file[i];
    }
    return NULL;
}

/* Open the file of one entry "tensor": "file" of the index. */
static zr_status open_indexed(zr_weights *weights, const char *dir, const char *tensor, const json_t *value)
{
    const char *name = json_string_value(value);
    ZR_CHECK(name, ZR_ERR_DATA, "%s/%s: weight_map.%s is not a string", weights->dir, index_name, ZR_SHOWN(tensor));
    ZR_CHECK(zr__hf_stays_inside(name), ZR_ERR_DATA,
             "%s/%s: weight_map.%s names \"%s\", which is not the name of a file in the directory", weights->dir,
             index_name, ZR_SHOWN(tensor), ZR_SHOWN(name));
    if (!file_named(weights, name)) {
        ZR_CHECK(zr__path_is_in(dir, name), ZR_ERR_NOT_FOUND,
                 "%s: %s is missing, in which %s places tensors; copy it into the directory, too", weights->dir,
                 ZR_SHOWN(name), index_name);
        ZR_TRY(open_weights_file(weights, dir, name));
    }
    ZR_CHECK(zr_safetensors_find(file_named(weights, name), tensor), ZR_ERR_DATA,
             "%s/%s: weight_map places tensor %s in \"%s\", but that file does not hold it", weights->dir, index_name,
             ZR_SHOWN(tensor), ZR_SHOWN(name));
    return ZR_OK;
}

/* Fail if a tensor's name occurs in two files. */
static zr_status check_distinct(const zr_weights *weights)
{
    for (int64_t i = 1; i < weights->files; i++) {
        for (int64_t t = 0; t < zr_safetensors_count(weights->file[i]); t++) {
            const char *name = zr_safetensors_get(weights->file[i], t)->name;
            for (int64_t j = 0; j < i; j++)
                ZR_CHECK(!zr_safetensors_find(weights->file[j], name), ZR_ERR_DATA,
                         "%s: tensor %s is in two files, %s and %s", weights->dir, ZR_SHOWN(name),
                         weights->file[j]->file.name, weights->file[i]->file.name);
        }
    }
    return ZR_OK;
}

static zr_status read_index(const char *dir, const char *name, json_t **root)
{
    char path[PATH_MAX];
    *root = NULL;
    ZR_TRY(zr__path_of_input(path, dir, name));
    return zr__json_load_data(path, root);
}

static zr_status open_sharded(zr_weights *weights, const char *dir, const char *index)
{
    const char *tensor;
    json_auto_t *root = NULL;
    ZR_TRY(read_index(dir, index, &root));
    json_t *map = json_object_get(root, "weight_map"), *value;
    ZR_CHECK(json_object_size(map) > 0, ZR_ERR_DATA, "%s/%s: it has no \"weight_map\" with tensors", weights->dir,
             index_name);
    json_object_foreach(map, tensor, value) ZR_TRY(open_indexed(weights, dir, tensor, value));
    return check_distinct(weights);
}

/* Append a suffix to the name of a file. Return `out`. */
static const char *with_suffix(const char *name, const char *suffix, char out[ZR_FILE_NAME_BYTES])
{
    snprintf(out, ZR_FILE_NAME_BYTES, "%s%s", name, suffix);
    return out;
}

/* Return whether a directory has weights in the older format of PyTorch. */
static bool has_pickled(const char *dir)
{
    return zr__path_is_in(dir, "pytorch_model.bin") || zr__path_is_in(dir, "pytorch_model.bin.index.json");
}

static zr_status open_any(zr_weights *weights, const char *dir)
{
    char single[ZR_FILE_NAME_BYTES], index[ZR_FILE_NAME_BYTES], adapter[ZR_FILE_NAME_BYTES];
    with_suffix(single_name, weights->suffix, single);
    with_suffix(index_name, weights->suffix, index);
    with_suffix(ZR_ADAPTER_SINGLE, weights->suffix, adapter);
    if (zr__path_is_in(dir, single)) return open_weights_file(weights, dir, single);
    if (zr__path_is_in(dir, adapter)) return open_weights_file(weights, dir, adapter);
    ZR_CHECK(zr__path_is_in(dir, index), ZR_ERR_NOT_FOUND, "%s: it holds neither %s nor %s; %s", weights->dir, single,
             index,
             zr__path_is_in(dir, ZR_ADAPTER_PICKLED) ? ZR_ADAPTER_PICKLED_REMEDY
             : has_pickled(dir) ? "zr does not read pytorch_model.bin; save the model again with save_pretrained() of "
                                  "transformers, which writes safetensors"
                                : "copy all files of the model's weights into it, or give another directory");
    return open_sharded(weights, dir, index);
}

static zr_status open_weights(const char *dir, const zr_hf_names *names, const char *suffix, bool writable,
                              zr_weights **out)
{
    ZR_AUTO(zr_weights_close) zr_weights *weights = zr_alloc(sizeof(*weights));
    ZR_CHECK(weights, ZR_ERR_MEMORY, "no memory for %zu bytes of weights", sizeof(*weights));
    zr__text_escape(dir, weights->dir, sizeof(weights->dir));
    weights->names = names;
    weights->suffix = suffix;
    weights->writable = writable;
    ZR_TRY(open_any(weights, dir));
    *out = ZR_TAKE(weights);
    return ZR_OK;
}

zr_status zr_weights_open(const char *dir, const zr_hf_names *names, zr_weights **out)
{
    return open_weights(dir, names, "", false, out);
}

zr_status zr__weights_attach(const char *dir, const zr_hf_names *names, const char *suffix, zr_weights **out)
{
    return open_weights(dir, names, suffix, true, out);
}

void zr__weights_remove(const char *dir, const char *suffix)
{
    char single[ZR_FILE_NAME_BYTES], index[ZR_FILE_NAME_BYTES];
    const char *tensor;
    json_auto_t *root = NULL;
    json_t *file;
    zr__path_remove(dir, with_suffix(single_name, suffix, single));
    zr__path_remove(dir, with_suffix(ZR_ADAPTER_SINGLE, suffix, single));
    with_suffix(index_name, suffix, index);
    if (!zr__path_is_in(dir, index)) return;
    if (read_index(dir, index, &root) == ZR_OK) json_object_foreach(json_object_get(root, "weight_map"), tensor, file)
        {
            const char *name = json_string_value(file);
            if (name && zr__hf_stays_inside(name)) zr__path_remove(dir, name);
        }
    zr__path_remove(dir, index);
}

void zr_weights_close(zr_weights **weights)
{
    if (!*weights) return;
    for (int64_t i = 0; i < (*weights)->files; i++) zr_safetensors_close(&(*weights)->file[i]);
    zr_free((*weights)->file);
    zr_free((*weights)->targets);
    zr_free(*weights);
    *weights = NULL;
}

zr_status zr__weights_adapt(zr_weights *weights, const char *dir, zr__adapter *adapter)
{
    zr_free(weights->targets);
    weights->targets = adapter->targets;
    adapter->targets = NULL;
    ZR_TRY(open_weights_file(weights, dir, zr__adapter_weights(dir)));
    return check_distinct(weights);
}

int64_t zr__weights_files(const zr_weights *weights)
{
    return weights->files;
}

const zr_safetensors *zr__weights_file(const zr_weights *weights, int64_t i)
{
    return weights->file[i];
}

/* ---- all bytes ------------------------------------------------------------------------------- */

int64_t zr__weights_bytes(const zr_weights *weights, int64_t first, int64_t n)
{
    int64_t bytes = 0;
    for (int64_t i = first; i < first + n; i++) bytes += weights->file[i]->file.bytes;
    return bytes;
}

typedef struct watched {
    int64_t before, all;
    zr_progress_fn fn;
    void *arg;
} watched;

static zr_status tell_piece(void *arg, int64_t at, const void *piece, int64_t bytes)
{
    const watched *w = arg;
    (void)piece;
    if (w->fn) w->fn(w->arg, w->before + at + bytes, w->all);
    return ZR_OK;
}

zr_status zr__weights_hash(const zr_weights *weights, int64_t first, int64_t n, uint64_t *hash, zr_progress_fn fn,
                           void *arg)
{
    watched w = {.all = zr__weights_bytes(weights, first, n), .fn = fn, .arg = arg};
    *hash = 0;
    for (int64_t i = first; i < first + n; i++) {
        uint64_t one = 0;
        ZR_TRY(zr__file_pass(&weights->file[i]->file, tell_piece, &w, &one));
        *hash = zr__hash_join(*hash, one);
        w.before += weights->file[i]->file.bytes;
    }
    return ZR_OK;
}

/* ---- looking up ------------------------------------------------------------------------------ */

typedef struct place {
    const zr_weights *weights;
    const zr_safetensors *file;
    const zr_safetensors_tensor *tensor; /* the tensor, or NULL if it was not found */
} place;

static bool look_in_files(void *arg, const char *name)
{
    place *found = arg;
    for (int64_t i = 0; i < found->weights->files && !found->tensor; i++) {
        found->file = found->weights->file[i];
        found->tensor = zr_safetensors_find(found->file, name);
    }
    return found->tensor;
}

static place find_spelled(const zr_weights *weights, const char *name)
{
    place found = {.weights = weights};
    (void)zr__hf_look_as(weights->names, name, look_in_files, &found);
    return found;
}

static place find_tensor(const zr_weights *weights, const char *name)
{
    place found = {.weights = weights};
    (void)zr__hf_look_any(weights->names, name, look_in_files, &found);
    return found;
}

zr_status zr_weights_read(const zr_weights *weights, const char *name, int64_t first, int64_t n, float *out)
{
    place at = find_tensor(weights, name);
    ZR_CHECK(at.tensor, ZR_ERR_DATA, "%s: no tensor %s", weights->dir, name);
    return zr_safetensors_read_f32(at.file, at.tensor, first, n, out);
}

const char *zr__weights_file_of(const zr_weights *weights, const char *name)
{
    place at = find_tensor(weights, name);
    return at.tensor ? at.file->file.name : weights->dir;
}

zr_status zr__weights_write(const zr_weights *weights, const char *name, int64_t first, int64_t n, const float *in)
{
    place at = find_tensor(weights, name);
    ZR_CHECK(at.tensor, ZR_ERR_DATA, "%s: no tensor %s", weights->dir, name);
    return zr__safetensors_write(at.file, at.tensor, first, n, in);
}

zr_status zr__weights_sync(const zr_weights *weights)
{
    for (int64_t i = 0; i < weights->files; i++) ZR_TRY(zr__file_sync(&weights->file[i]->file));
    return ZR_OK;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Return whether a wanted tensor is missing or does not fit. If so, and if `show` is true, add a line about it. Set
 * *differs if the tensor is missing or has another shape. */
static bool misfit(const zr_weights *weights, const zr__tensor_spec *wanted, zr__text *lines, bool show, bool *differs)
{
    char have[ZR_QUOTE_BYTES], want[ZR_QUOTE_BYTES];
    const zr_safetensors_tensor *tensor = find_tensor(weights, wanted->name).tensor;
    if (tensor && tensor->loadable && zr__safetensors_has_shape(tensor, &wanted->shape)) return false;
    if (!tensor || tensor->loadable) *differs = true;
    if (!show) return true;
    zr_shape_print(&wanted->shape, want, sizeof(want));
    if (!tensor)
        zr__text_add(lines, "\n  %s: missing; expected shape %s", ZR_SHOWN(wanted->name), want);
    else if (!tensor->loadable)
        zr__text_add(lines, "\n  %s: dtype %s; expected F32, BF16 or F16; save the weights again in one of these",
                     ZR_SHOWN(wanted->name), tensor->dtype);
    else
        zr__text_add(lines, "\n  %s: shape %s; expected %s", ZR_SHOWN(wanted->name),
                     zr__safetensors_print_dims(tensor, have), want);
    return true;
}

static bool is_wanted_name(const char *name, const zr__tensor_spec *wanted, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(wanted[i].name, name) == 0) return true;
    return false;
}

#define TIE                                                                                                            \
    "\n  (if the head is tied to the table of tokens, set tie_word_embeddings to true in config.json; if it is not, "  \
    "the files lack it)"

#define DIFFER                                                                                                         \
    "\n  (config.json and the weights are not of the same model, or a file is incomplete; get both again from one "    \
    "place)"

#define WRAPPED                                                                                                        \
    "\n  (\"%s\" stands before the names in the files, and transformers does not load them either; save the model "    \
    "again "                                                                                                           \
    "without its wrapper, such as model._orig_mod of torch.compile or model.module of DataParallel, or rename the "    \
    "tensors)"

#define HEADLESS                                                                                                       \
    "\n  (the files have the body of the model, but not this head; with model.init they can begin a run of another "   \
    "model.task, which has a new head)"

/* Compare elements [first, first+n) of two tensors. `room` has space for n elements of each tensor. `remedy` ends the
 * message. */
static zr_status compare_piece(const zr_weights *weights, place a, place b, int64_t first, int64_t n, float *room,
                               const char *remedy)
{
    ZR_TRY(zr_safetensors_read_f32(a.file, a.tensor, first, n, room));
    ZR_TRY(zr_safetensors_read_f32(b.file, b.tensor, first, n, room + n));
    ZR_CHECK(memcmp(room, room + n, (size_t)n * sizeof(*room)) == 0, ZR_ERR_DATA,
             "%s: the tensors %s and %s differ, but in the model they are one; %s", weights->dir, a.tensor->name,
             b.tensor->name, remedy);
    return ZR_OK;
}

/* Check that two tensors have equal values, if the files have both. */
static zr_status check_equal(const zr_weights *weights, place a, place b, const char *remedy)
{
    enum { PIECE = 1 << 18 };
    if (!a.tensor || !b.tensor) return ZR_OK;
    ZR_CHECK(a.tensor->elems == b.tensor->elems && a.tensor->loadable && b.tensor->loadable, ZR_ERR_DATA,
             "%s: the tensors %s and %s do not have the same shape, but in the model they are one", weights->dir,
             a.tensor->name, b.tensor->name);
    ZR_AUTO_FREE float *room = zr_alloc(2 * PIECE * sizeof(*room));
    ZR_CHECK(room, ZR_ERR_MEMORY, "no memory to compare %s with %s", a.tensor->name, b.tensor->name);
    for (int64_t first = 0; first < a.tensor->elems; first += PIECE) {
        const int64_t rest = a.tensor->elems - first;
        ZR_TRY(compare_piece(weights, a, b, first, rest < PIECE ? rest : PIECE, room, remedy));
    }
    return ZR_OK;
}

/* If the files have a tensor for the head of a tied model, check that its values equal the table's. */
static zr_status check_tied(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n)
{
    const char *head = weights->names->head, *table = weights->names->table;
    if (!head || is_wanted_name(head, wanted, n)) return ZR_OK;
    return check_equal(weights, find_tensor(weights, head), find_tensor(weights, table),
                       "set tie_word_embeddings to false in config.json to keep both");
}

/* For each tensor that the files have in two spellings, check that the values are equal. */
static zr_status check_spelled(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n)
{
    char spelled[ZR_FILE_NAME_BYTES];
    for (int64_t k = 0; k < n; k++)
        for (int i = 1; zr__hf_spelling(weights->names, wanted[k].name, i, spelled); i++)
            ZR_TRY(check_equal(weights, find_spelled(weights, wanted[k].name), find_spelled(weights, spelled),
                               "keep the right one"));
    return ZR_OK;
}

/* Return whether a tensor is redundant: zr computes its contents itself, and only some files contain it. */
static bool redundant(const zr_hf_names *names, const char *name)
{
    if (names->head && strcmp(names->head, name) == 0) return true;
    for (const char *const *one = names->redundant; one && *one; one++)
        if ((*one)[0] == '.' ? zr__text_ends(name, *one) : strcmp(name, *one) == 0) return true;
    return false;
}

/* Return whether a name is spelled in a way that some files use, but zr does not. */
static bool is_respelled(const zr_hf_names *names, const char *name)
{
    for (const char *const(*pair)[2] = names->spelled; pair && (*pair)[0]; pair++)
        if (zr__text_ends(name, (*pair)[1])) return true;
    return false;
}

static bool is_wanted(const zr_weights *weights, const zr_safetensors_tensor *tensor, const zr__tensor_spec *wanted,
                      int64_t n)
{
    const bool respelled = is_respelled(weights->names, tensor->name);
    for (int64_t i = 0; i < n; i++) {
        if (!respelled && !zr__text_ends(tensor->name, wanted[i].name) && !zr__text_ends(wanted[i].name, tensor->name))
            continue;
        if (find_tensor(weights, wanted[i].name).tensor == tensor) return true;
    }
    return false;
}

/* Add the names of the first tensors in the files that the model does not have. Return the number of such tensors. */
static int64_t add_extras(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n, zr__text *text)
{
    int64_t extras = 0;
    for (int64_t i = 0; i < weights->files; i++) {
        for (int64_t t = 0; t < zr_safetensors_count(weights->file[i]); t++) {
            const zr_safetensors_tensor *tensor = zr_safetensors_get(weights->file[i], t);
            if (redundant(weights->names, tensor->name) || is_wanted(weights, tensor, wanted, n)) continue;
            if (extras++ < LINES_MAX) zr__text_add(text, "%s%s", extras > 1 ? ", " : "", ZR_SHOWN(tensor->name));
        }
    }
    if (extras > LINES_MAX) zr__text_add(text, " and %lld more", (long long)(extras - LINES_MAX));
    return extras;
}

/* Find the prefix, such as "_orig_mod.", that a wanted tensor's name has in the files. Call this if the files lack the
 * name without a prefix. Return whether there is a prefix. */
static bool find_wrapper(const zr_weights *weights, const zr__tensor_spec *wanted, char wrapper[ZR_FILE_NAME_BYTES])
{
    const size_t prefix = strlen(weights->names->prefix);
    const bool begins = strncmp(wanted->name, weights->names->prefix, prefix) == 0;
    const char *part[] = {wanted->name, wanted->name + (begins ? prefix : 0)};
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < weights->files; i++)
            for (int64_t t = 0; t < zr_safetensors_count(weights->file[i]); t++) {
                const char *name = zr_safetensors_get(weights->file[i], t)->name;
                const size_t n = strlen(name), its = strlen(part[p]);
                if (n <= its || name[n - its - 1] != '.' || strcmp(name + n - its, part[p]) != 0) continue;
                snprintf(wrapper, ZR_FILE_NAME_BYTES, "%.*s", (int)(n - its), name);
                return true;
            }
    return false;
}

/* Add advice about the weights as a whole. `first` is the first tensor that is missing or has another shape. `misfits`
 * is the number of tensors that do not fit, including `heads` missing tensors of a head. */
static void add_advice(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n, int64_t misfits,
                       int64_t heads, const zr__tensor_spec *first, zr__text *text)
{
    char wrapper[ZR_FILE_NAME_BYTES];
    ZR_AUTO(zr__text_clear) zr__text extras = {0};
    const char *head = weights->names->head;
    const bool missing = !find_tensor(weights, first->name).tensor,
               headless = head && is_wanted_name(head, wanted, n) && !find_tensor(weights, head).tensor;
    if (missing && find_wrapper(weights, first, wrapper))
        zr__text_add(text, WRAPPED, ZR_SHOWN(wrapper));
    else
        zr__text_add(text, "%s", heads == misfits ? HEADLESS : misfits == 1 && headless ? TIE : DIFFER);
    if (missing && add_extras(weights, wanted, n, &extras) > 0 && extras.data)
        zr__text_add(text, "\n  tensors in the files that the model does not have: %s", extras.data);
}

static zr_status check_wanted(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n)
{
    zr__text text = {0};
    ZR_AUTO_FREE char *lines = NULL;
    int64_t misfits = 0, heads = 0;
    const zr__tensor_spec *first = NULL;
    for (int64_t i = 0; i < n; i++) {
        bool differs = false;
        misfits += misfit(weights, &wanted[i], &text, misfits < LINES_MAX, &differs);
        if (differs && !first) first = &wanted[i];
        heads += zr__hf_is_of_head(weights->names, wanted[i].name) && !zr__weights_have(weights, wanted[i].name);
    }
    if (misfits > LINES_MAX) zr__text_add(&text, "\n  and %lld more", (long long)(misfits - LINES_MAX));
    if (first) add_advice(weights, wanted, n, misfits, heads, first, &text);
    ZR_TRY(zr__text_take(&text, &lines));
    ZR_CHECK(misfits == 0, ZR_ERR_DATA, "%s: %lld of %lld tensors do not fit the model of config.json:%s", weights->dir,
             (long long)misfits, (long long)n, lines);
    return ZR_OK;
}

static zr_status list_extras(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n, char *note,
                             size_t size)
{
    zr__text text = {0};
    ZR_AUTO_FREE char *lines = NULL;
    const int64_t extras = add_extras(weights, wanted, n, &text);
    ZR_TRY(zr__text_take(&text, &lines));
    if (extras)
        snprintf(note, size, "%s: tensors that the model does not have (%lld): %s; they are not used", weights->dir,
                 (long long)extras, lines);
    else if (size)
        note[0] = '\0';
    return ZR_OK;
}

zr_status zr__weights_check(const zr_weights *weights, const zr__tensor_spec *wanted, int64_t n, char *note,
                            size_t size)
{
    ZR_TRY(check_wanted(weights, wanted, n));
    ZR_TRY(check_tied(weights, wanted, n));
    ZR_TRY(check_spelled(weights, wanted, n));
    return note ? list_extras(weights, wanted, n, note, size) : ZR_OK;
}

bool zr__weights_have(const zr_weights *weights, const char *name)
{
    return find_tensor(weights, name).tensor != NULL;
}

bool zr__weights_share(const zr_weights *weights, const char *name)
{
    return !zr__hf_is_output(weights->names, name) && zr__weights_have(weights, name);
}
