/** Conversion of weights from one kind of directory to another. The new directory is created as TO.tmp and renamed when
 * it is complete. */
#include "train/weights/convert.h"

#include "base/core/core.h"
#include "base/file/folder.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"
#include "train/family/inputs.h"
#include "train/tokenizer/tokenize.h"
#include "train/weights/load.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Number of elements copied at a time. */
#define PIECE (ZR_CHUNK_BYTES / 4)

/* ---- the source ------------------------------------------------------------------------------- */

/** Open a checkpoint. Every byte of config.json and of the weights is checked against its checksum before it is used.
 */
static zr_status open_checkpoint(zr__convert *c)
{
    const char *dir = c->did->from.path;
    ZR_TRY(zr__manifest_read(dir, &c->manifest));
    ZR_TRY(zr__checkpoint_check_file(dir, c->manifest, "config.json"));
    ZR_TRY(zr__family_read(dir, &c->model));
    return zr__chunk_reader_open(dir, c->manifest, ZR_RUN_WEIGHTS, 1, &c->reader);
}

static zr_status check_shapes(const zr__convert *c)
{
    char wanted[96];
    const zr_safetensors *file = zr__chunk_reader_tensors(c->reader);
    for (int64_t i = 0; i < c->did->tensors; i++) {
        const zr_shape *shape = &c->specs[i].shape;
        const zr_safetensors_tensor *tensor = zr_safetensors_find(file, c->specs[i].name);
        zr_shape_print(shape, wanted, sizeof(wanted));
        ZR_CHECK(tensor && zr__safetensors_has_shape(tensor, shape), ZR_ERR_DATA,
                 "%s: tensor %s is missing, or not of the shape %s", c->did->from.path, c->specs[i].name, wanted);
    }
    return ZR_OK;
}

/** Open adapters and their base. The new directory gets the merged weights, so its model has no adapters. */
static zr_status open_adapters(zr__convert *c)
{
    const zr__stored *from = &c->did->from;
    ZR_AUTO(zr__load_close) zr__loaded loaded = {.stored = *from};
    if (from->kind == ZR_STORED_CHECKPOINT) ZR_TRY(zr__load_check(from->path));
    ZR_TRY(zr__load_config(&loaded));
    ZR_TRY(zr__load_weights(&loaded));
    c->weights = ZR_TAKE(loaded.weights);
    c->model = loaded.model;
    snprintf(c->base, sizeof(c->base), "%s", loaded.base);
    ZR_TRY(zr__param_graph(&c->model, &c->adapters));
    c->lora = c->model.lora;
    c->model.lora = (zr_lora){0};
    return ZR_OK;
}

/** Open a Hugging Face directory. Tensors that the model does not use are not converted, and did->note names them. */
static zr_status open_dir(zr__convert *c)
{
    char extra[400] = "";
    ZR_TRY(zr__weights_of_dir(c->did->from.path, &c->model, &c->weights, extra, sizeof(extra)));
    if (extra[0]) snprintf(c->did->note, sizeof(c->did->note), "not converted: %s", extra);
    return ZR_OK;
}

static zr_status open_source(zr__convert *c)
{
    ZR_AUTO(zr_weights_close) zr_weights *base = NULL;
    if (zr__adapter_is_in(c->did->from.path))
        ZR_TRY(open_adapters(c));
    else if (c->did->from.kind == ZR_STORED_CHECKPOINT)
        ZR_TRY(open_checkpoint(c));
    else
        ZR_TRY(open_dir(c));
    ZR_TRY(zr__param_graph(&c->model, &c->graph));
    ZR_TRY(zr__param_specs(c->graph, ZR_PARAMS_ALL, &c->specs, &c->did->tensors));
    for (int64_t i = 0; i < c->did->tensors; i++) c->did->elems += zr_shape_elems(&c->specs[i].shape);
    if (c->reader) ZR_TRY(check_shapes(c));
    if (!c->base[0]) return zr__hf_source_read(c->did->from.path, c->weights, &c->source);
    ZR_TRY(zr_weights_open(c->base, &c->model.family->names, &base));
    return zr__hf_source_read(c->base, base, &c->source);
}

static zr_status read_piece(const zr__convert *c, const char *name, int64_t first, int64_t n)
{
    ZR_TRY(c->reader ? zr__chunk_reader_f32(c->reader, name, first, n, c->piece)
                     : zr_weights_read(c->weights, name, first, n, c->piece));
    if (c->merge) zr__merge_piece(c, first, n);
    return zr__weights_finite(c->did->from.path, name, first, c->piece, n);
}

/* ---- the target ------------------------------------------------------------------------------- */

static zr_status write_piece(const zr__convert *c, int64_t tensor, int64_t first, int64_t n)
{
    if (c->to) return zr__weights_write(c->to, c->specs[tensor].name, first, n, c->piece);
    const zr_safetensors_tensor *to = zr_safetensors_find(c->layout, c->specs[tensor].name);
    ZR_ASSERT(to);
    return zr__chunk_writer_put(c->writer, NULL, to->offset + 4 * first, c->piece, 4 * n);
}

static zr_status copy_tensor(zr__convert *c, int64_t tensor)
{
    const zr__tensor_spec *spec = &c->specs[tensor];
    const int64_t elems = zr_shape_elems(&spec->shape);
    zr__merge_end(c);
    ZR_TRY(zr__merge_begin(c, spec->name));
    for (int64_t first = 0; first < elems; first += PIECE) {
        int64_t n = elems - first < PIECE ? elems - first : PIECE;
        ZR_TRY(read_piece(c, spec->name, first, n));
        ZR_TRY(write_piece(c, tensor, first, n));
        c->done += n;
        if (c->args->progress) c->args->progress(c->args->arg, c->done, c->did->elems);
    }
    return ZR_OK;
}

zr_status zr__convert_copy(zr__convert *c)
{
    c->piece = zr_alloc(PIECE * sizeof(*c->piece));
    ZR_CHECK(c->piece, ZR_ERR_MEMORY, "no memory for %lld numbers", (long long)PIECE);
    for (int64_t i = 0; i < c->did->tensors; i++) ZR_TRY(copy_tensor(c, i));
    return ZR_OK;
}

/* ---- the tokenizer ---------------------------------------------------------------------------- */

/** Find the tokenizer of the weights (zr__load_tokenizer). If the weights have no tokenizer, set *name to NULL. If the
 * tokenizer of a run is missing, did->note also receives the reason. */
static zr_status find_tokenizer(const zr__convert *c, char found[PATH_MAX], const char **name)
{
    ZR_AUTO(zr__load_close) zr__loaded loaded = {.stored = c->did->from, .model = c->model};
    snprintf(loaded.base, sizeof(loaded.base), "%s", c->base);
    *name = NULL;
    ZR_TRY(zr__load_config(&loaded));
    const zr_status st = zr__load_tokenizer(&loaded, found, name);
    if (st != ZR_ERR_NOT_FOUND) return st;
    *name = NULL;
    snprintf(c->did->note, sizeof(c->did->note), "no tokenizer goes along: %s", zr_error_message());
    return ZR_OK;
}

zr_status zr__convert_tokenizer(const zr__convert *c, const char *dir)
{
    char found[PATH_MAX];
    const char *name = NULL;
    const zr__stored *from = &c->did->from;
    const bool own = zr__tokenizer_files_any(from->path);
    if (from->kind == ZR_STORED_HF && (!from->run[0] || own)) {
        const char *place = own || !c->base[0] ? from->path : c->base;
        if (!zr__tokenizer_files_any(place)) return ZR_OK;
        ZR_TRY(zr__make_folder(dir));
        ZR_TRY(zr__tokenizer_files_take(place, dir));
        /* Report a tokenizer only if it was copied itself, since a directory may hold only the settings of a
         * tokenizer. */
        c->did->tokenizer = zr__tokenizer_is_in(dir);
        return ZR_OK;
    }
    ZR_TRY(find_tokenizer(c, found, &name));
    if (name) {
        ZR_TRY(zr__make_folder(dir));
        c->did->tokenizer = true;
        ZR_TRY(zr__tokenizer_files_copy(name, dir));
    }
    if (!from->run[0]) return ZR_OK;
    ZR_TRY(zr__path_join(found, from->run, "model")); /* the generation_config.json of a run is in model/ */
    return zr__tokenizer_files_add(found, dir, false);
}

/* ---- a Hugging Face directory ----------------------------------------------------------------- */

/** Set the dtype in the JSON of a config.json. Set *changed to true if this changed the JSON. The key is "dtype" since
 * version 5 of transformers, and "torch_dtype" in earlier versions. */
static zr_status set_type(json_t *root, zr_dtype dtype, bool *changed)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    const char *type = dtype == ZR_BF16 ? "bfloat16" : dtype == ZR_F16 ? "float16" : "float32";
    bool named = false;
    for (int i = 0; i < 2; i++) {
        const json_t *was = json_object_get(root, keys[i]);
        if (!was && (i == 0 || named)) continue;
        named = true;
        if (was && json_is_string(was) && strcmp(json_string_value(was), type) == 0) continue;
        ZR_CHECK(json_object_set_new(root, keys[i], json_string(type)) == 0, ZR_ERR_MEMORY,
                 "no memory for the type in config.json");
        *changed = true;
    }
    return ZR_OK;
}

/** Copy config.json. Change only the dtype, if the types of the weights may change, and leave out the record of the
 * files (zr__hf_source) that a checkpoint's config.json has. */
static zr_status copy_config(const zr__convert *c)
{
    char from[PATH_MAX], to[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *root = NULL;
    ZR_TRY(zr__path_join(from, c->base[0] ? c->base : c->did->from.path, "config.json"));
    ZR_TRY(zr__path_join(to, c->dir, "config.json"));
    ZR_TRY(zr__json_read_file(from, &text, &bytes));
    ZR_TRY(zr__json_parse(text, bytes, from, &root));
    bool changed = json_object_del(root, ZR_HF_FILES_KEY) == 0;
    if (c->reader || !c->args->same_types) ZR_TRY(set_type(root, c->did->dtype, &changed));
    return changed ? zr__json_put(to, root) : zr__file_put(to, text, (int64_t)bytes);
}

static zr_status make_hf(zr__convert *c)
{
    const zr_hf_names *names = &c->model.family->names;
    const zr__weights_form form = {.names = names,
                                   .source = c->source,
                                   .same_types = c->args->same_types,
                                   .dtype = c->args->dtype,
                                   .file_bytes = c->args->file_bytes};
    snprintf(c->dir, sizeof(c->dir), "%s", c->tmp);
    ZR_TRY(zr__weights_create(c->dir, &form, c->specs, c->did->tensors, &c->out));
    c->did->files = zr__weights_out_files(c->out);
    c->did->dtype = zr__weights_out_dtype(c->out);
    ZR_TRY(copy_config(c));
    ZR_TRY(zr__convert_tokenizer(c, c->dir));
    ZR_TRY(zr__weights_make(c->out, ""));
    ZR_TRY(zr__weights_attach(c->dir, names, "", &c->to));
    ZR_TRY(zr__convert_copy(c));
    return zr__weights_sync(c->to);
}

/* ---- conversion ------------------------------------------------------------------------------- */

/** Remove the files that the conversion created, and nothing else. */
static void remove_tmp(const zr__convert *c)
{
    static const char *const names[] = {"config.json",
                                        "config.json.tmp",
                                        "latest",
                                        "latest.tmp",
                                        "metrics.jsonl",
                                        "metrics.jsonl.tmp",
                                        "model.safetensors.index.json.tmp"};
    char path[PATH_MAX];
    (void)!zr__checkpoint_remove(c->tmp, 0);
    if (c->out) zr__weights_remove(c->tmp, "");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) zr__path_remove(c->tmp, names[i]);
    zr__tokenizer_files_remove(c->tmp, NULL);
    if (zr__path_join(path, c->tmp, "model") == ZR_OK) {
        zr__tokenizer_files_remove(path, NULL);
        rmdir(path);
    }
    rmdir(c->tmp);
}

static zr_status make_converted(zr__convert *c)
{
    struct stat info;
    char to[PATH_MAX];
    ZR_CHECK(lstat(c->args->to, &info) != 0, ZR_ERR_CREATE, "%s is there already; name another, or remove it",
             ZR_SHOWN(c->args->to));
    ZR_TRY(zr__new_dir_begin(c->args->to, to, c->tmp));
    zr_status st = c->did->kind == ZR_CONVERT_RUN ? zr__convert_run(c) : make_hf(c);
    if (st == ZR_OK) st = zr__dir_commit(c->tmp, to);
    if (st == ZR_OK || access(c->tmp, F_OK) != 0) return st;
    zr__failure failed = {0}; /* holds the error message of `st`, because remove_tmp may overwrite it */
    zr__failure_note(&failed, st);
    remove_tmp(c);
    return zr__failure_tell(&failed);
}

/** Choose the kind of the new directory. Fail if a directory of this kind cannot hold the weights. */
static zr_status choose_kind(zr__convert *c)
{
    const zr__convert_args *args = c->args;
    const zr__stored *from = &c->did->from;
    bool checkpoint = from->kind == ZR_STORED_CHECKPOINT;
    ZR_CHECK(from->kind != ZR_STORED_FILE, ZR_ERR_ARG,
             "%s is one file; give the directory, with the config.json that says what model it is", from->path);
    const bool adapter = zr__adapter_is_in(from->path);
    const bool run = checkpoint || from->from_run || adapter; /* a run without checkpoints also counts as a run */
    ZR_CHECK(args->kind != ZR_CONVERT_RUN || !adapter, ZR_ERR_ARG,
             "%s is an adapter: zr train continues it with model.init and model.lora.init; convert merges it into a "
             "Hugging Face directory (--to hf)",
             from->path);
    c->did->dtype = args->dtype;
    c->did->kind = args->kind != ZR_CONVERT_OTHER ? args->kind : run ? ZR_CONVERT_HF : ZR_CONVERT_RUN;
    ZR_CHECK(c->did->kind != ZR_CONVERT_RUN || !checkpoint, ZR_ERR_ARG,
             "%s is a checkpoint: it goes on with its own run (zr train --resume); copy the run's directory",
             from->path);
    ZR_CHECK(c->did->kind != ZR_CONVERT_RUN || args->dtype == ZR_F32, ZR_ERR_ARG,
             "a checkpoint holds fp32 weights, not %s", zr_dtype_name(args->dtype));
    ZR_CHECK(c->did->kind != ZR_CONVERT_RUN || args->file_bytes == 0, ZR_ERR_ARG,
             "a checkpoint's weights are in one file; only a Hugging Face directory's may be in several");
    return ZR_OK;
}

static void convert_close(zr__convert *c)
{
    zr_free(c->piece);
    zr__merge_end(c);
    zr_graph_destroy(&c->adapters);
    zr__chunk_writer_close(&c->writer);
    zr_safetensors_close(&c->layout);
    zr__weights_out_close(&c->out);
    zr_weights_close(&c->to);
    zr_weights_close(&c->weights);
    zr__hf_source_free(&c->source);
    zr__chunk_reader_close(&c->reader);
    zr__manifest_free(&c->manifest);
    zr_free(c->specs);
    zr_graph_destroy(&c->graph);
}

zr_status zr__convert_dir(const zr__convert_args *args, zr__converted *did)
{
    *did = (zr__converted){.kind = args->kind};
    ZR_AUTO(convert_close) zr__convert c = {.args = args, .did = did};
    ZR_TRY(zr__stored_find(args->from, false, &did->from));
    ZR_TRY(choose_kind(&c));
    ZR_TRY(open_source(&c));
    return make_converted(&c);
}
