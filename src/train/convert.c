/** One kind of directory of weights from another. All of it is made in TO.tmp, which then gets its name. */
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "train/checkpoint_run.h"
#include "train/family.h"
#include "train/inputs.h"
#include "train/new_dir.h"
#include "train/run_dir.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers that are on their way at a time. */
#define PIECE (ZR_CHUNK_BYTES / 4)

static const char weights_name[] = "model.safetensors";

typedef struct convert {
    const zr_convert_args *args;
    zr_converted *did;
    char tmp[PATH_MAX];  /* of the directory that is made, */
    char dir[PATH_MAX];  /* and in it, where the weights go */
    char file[PATH_MAX]; /* they themselves */
    zr_family_model model;
    zr_graph *graph;
    zr_tensor_spec *specs;
    zr_manifest *manifest; /* from a checkpoint: */
    zr_chunk_reader *reader;
    zr_weights *weights; /* or from a Hugging Face directory */
    /* to: */
    zr_safetensors *layout;
    zr_chunk_writer *writer; /* a checkpoint's */
    float *piece;
    int64_t done;
} convert;

/* ---- from ------------------------------------------------------------------------------------- */

/** Every byte of the model's numbers and of the weights is checked before it is used. */
static zr_status open_checkpoint(convert *c)
{
    const char *dir = c->did->from.path;
    const zr_family *family = NULL;
    ZR_TRY(zr_manifest_read(dir, &c->manifest));
    ZR_TRY(zr_checkpoint_check_file(dir, c->manifest, "config.json"));
    ZR_TRY(zr__family_of_dir(dir, &family));
    ZR_TRY(zr__family_read(family, dir, &c->model));
    ZR_TRY(zr_chunk_reader_open(dir, c->manifest, weights_name, 1, &c->reader));
    return ZR_OK;
}

static zr_status find_tensors(convert *c)
{
    ZR_TRY(zr__param_graph(&c->model, &c->graph));
    ZR_TRY(zr__param_specs(c->graph, &c->specs, &c->did->tensors));
    for (int64_t i = 0; i < c->did->tensors; i++) c->did->elems += zr_shape_elems(&c->specs[i].shape);
    return ZR_OK;
}

static zr_status check_shapes(const convert *c)
{
    char wanted[96];
    const zr_safetensors *file = zr_chunk_reader_tensors(c->reader);
    for (int64_t i = 0; i < c->did->tensors; i++) {
        const zr_shape *shape = &c->specs[i].shape;
        const zr_safetensors_tensor *tensor = zr_safetensors_find(file, c->specs[i].name);
        bool same = tensor && tensor->ndim == shape->ndim;
        for (int d = 0; same && d < shape->ndim; d++) same = tensor->dim[d] == shape->dim[d];
        zr_shape_print(shape, wanted, sizeof(wanted));
        ZR_CHECK(same, ZR_ERR_DATA, "%s: tensor %s is missing, or not of the shape %s", c->did->from.path,
                 c->specs[i].name, wanted);
    }
    return ZR_OK;
}

static zr_status open_source(convert *c)
{
    if (c->did->from.kind == ZR_STORED_CHECKPOINT)
        ZR_TRY(open_checkpoint(c));
    else
        ZR_TRY(zr__weights_of_dir(c->did->from.path, &c->model, &c->weights, NULL, 0));
    ZR_TRY(find_tensors(c));
    if (c->reader) ZR_TRY(check_shapes(c));
    return ZR_OK;
}

static zr_status read_piece(const convert *c, const char *name, int64_t first, int64_t n)
{
    if (c->reader)
        ZR_TRY(zr_chunk_reader_f32(c->reader, name, first, n, c->piece));
    else
        ZR_TRY(zr_weights_read(c->weights, name, first, n, c->piece));
    return zr__weights_finite(c->did->from.path, name, first, c->piece, n);
}

/* ---- to --------------------------------------------------------------------------------------- */

static zr_status write_piece(const convert *c, const zr_safetensors_tensor *tensor, int64_t first, int64_t n)
{
    if (c->writer)
        ZR_TRY(zr_chunk_writer_put(c->writer, tensor->offset + 4 * first, c->piece, 4 * n));
    else
        ZR_TRY(zr_safetensors_write(c->layout, tensor, first, n, c->piece));
    return ZR_OK;
}

static zr_status copy_tensor(convert *c, const zr_tensor_spec *spec)
{
    const zr_safetensors_tensor *to = zr_safetensors_find(c->layout, spec->name);
    ZR_ASSERT(to);
    for (int64_t first = 0; first < to->elems; first += PIECE) {
        int64_t n = to->elems - first < PIECE ? to->elems - first : PIECE;
        ZR_TRY(read_piece(c, spec->name, first, n));
        ZR_TRY(write_piece(c, to, first, n));
        c->done += n;
        if (c->args->progress) c->args->progress(c->args->arg, c->done, c->did->elems);
    }
    return ZR_OK;
}

static zr_status copy_tensors(convert *c)
{
    bool run = c->did->kind == ZR_CONVERT_RUN;
    ZR_TRY(zr_safetensors_create_as(c->file, c->args->dtype, c->specs, c->did->tensors));
    ZR_TRY(zr_safetensors_attach(c->file, &c->layout));
    if (run) ZR_TRY(zr_chunk_writer_open(c->file, 1, &c->writer));
    c->piece = zr_alloc(PIECE * sizeof(*c->piece));
    ZR_CHECK(c->piece, ZR_ERR_MEMORY, "no memory for %lld numbers", (long long)PIECE);
    for (int64_t i = 0; i < c->did->tensors; i++) ZR_TRY(copy_tensor(c, &c->specs[i]));
    if (run)
        ZR_TRY(zr_chunk_writer_end(c->writer));
    else
        ZR_TRY(zr_safetensors_sync(c->layout));
    return ZR_OK;
}

static const char *torch_name(zr_dtype dtype)
{
    return dtype == ZR_BF16 ? "bfloat16" : dtype == ZR_F16 ? "float16" : "float32";
}

/** As it was, but for the type. */
static zr_status copy_config(const convert *c)
{
    char from[PATH_MAX], to[PATH_MAX], *text = NULL, *written = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    zr_status st = ZR_OK;
    ZR_TRY(zr__path_join(from, c->did->from.path, "config.json"));
    ZR_TRY(zr__path_join(to, c->dir, "config.json"));
    ZR_TRY_GOTO(st, zr__json_read_file(from, &text, &bytes), done);
    ZR_TRY_GOTO(st, zr__json_parse(text, bytes, from, &root), done);
    const char *type = json_string_value(json_object_get(root, "torch_dtype"));
    if (type && strcmp(type, torch_name(c->args->dtype)) == 0) {
        ZR_TRY_GOTO(st, zr_file_write(to, text, (int64_t)bytes), done);
    } else {
        json_object_set_new(root, "torch_dtype", json_string(torch_name(c->args->dtype)));
        ZR_TRY_GOTO(st, zr__json_print(root, &written), done);
        ZR_TRY_GOTO(st, zr_file_write(to, written, (int64_t)strlen(written)), done);
    }
done:
    json_decref(root);
    zr_free(text);
    zr_free(written);
    return st;
}

/* ---- a checkpoint of step 0 ------------------------------------------------------------------- */

/** The keys of the model, which a run that goes on must have. */
static zr_status model_keys(const convert *c, char **json)
{
    char text[128];
    zr_config *config = NULL;
    json_t *all = NULL, *keys = NULL;
    const zr_family *family = c->model.family;
    zr_status st = ZR_OK;
    int n = snprintf(text, sizeof(text), "{\"model\": {\"type\": \"%s\"}}", family->name);
    ZR_TRY(zr_config_parse(text, (size_t)n, "the model", NULL, 0, &config));
    ZR_TRY_GOTO(st, zr_config_set_sizes(config, &c->model.sizes, c->did->from.path), done);
    ZR_TRY_GOTO(st, family->adopt(&c->model.numbers, config), done);
    ZR_TRY_GOTO(st, zr_config_to_json(config, json), done);
    ZR_TRY_GOTO(st, zr__json_parse(*json, strlen(*json), "the model", &all), done);
    zr_free(*json);
    *json = NULL;
    keys = json_pack("{s:O}", "model", json_object_get(all, "model"));
    st = keys ? zr__json_print(keys, json) : ZR_FAIL(ZR_ERR_MEMORY, "no memory for the keys of a model");
done:
    json_decref(keys);
    json_decref(all);
    zr_config_destroy(&config);
    return st;
}

static zr_status describe_run(const convert *c, char **json)
{
    zr_layout layout = ZR_LAYOUT_INIT;
    zr__checkpoint_run run = {.loss = NAN, .scaler = {.scale = 1}, .train = {.bytes = -1}, .val = {.bytes = -1}};
    ZR_TRY(model_keys(c, &run.config));
    zr_status st = zr__checkpoint_run_print(&run, &layout, json);
    zr__checkpoint_run_clear(&run);
    return st;
}

/** All chunks of the weights: the header's, which is read back, and those that were written. */
static zr_status weights_chunks(const convert *c, zr_manifest_file *file)
{
    zr_chunk *head = NULL, *all = NULL;
    int64_t n_head = 0, n = 0, end = c->did->tensors > 0 ? zr_safetensors_get(c->layout, 0)->offset : -1;
    ZR_TRY(zr_chunks_of_file(c->file, 0, end, &head, &n_head));
    const zr_chunk *put = zr_chunk_writer_chunks(c->writer, &n);
    all = zr_alloc(sizeof(*all) * (size_t)(n_head + n + 1));
    if (all && n_head > 0) memcpy(all, head, sizeof(*all) * (size_t)n_head);
    if (all && n > 0) memcpy(all + n_head, put, sizeof(*all) * (size_t)n);
    zr_free(head);
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the checksums of %s", weights_name);
    *file = (zr_manifest_file){.name = weights_name, .chunk = all, .n_chunks = n_head + n};
    for (int64_t i = 0; i < n_head + n; i++) file->bytes += all[i].bytes;
    return ZR_OK;
}

static zr_status write_manifest(const convert *c)
{
    char path[PATH_MAX], *run = NULL;
    zr_chunk *config = NULL;
    zr_status st = ZR_OK;
    zr_manifest_file file[2] = {{.name = "config.json"}};
    ZR_TRY(zr__path_join(path, c->dir, "config.json"));
    ZR_TRY(zr_chunks_of_file(path, 0, -1, &config, &file[0].n_chunks));
    file[0].chunk = config;
    for (int64_t i = 0; i < file[0].n_chunks; i++) file[0].bytes += config[i].bytes;
    ZR_TRY_GOTO(st, weights_chunks(c, &file[1]), done);
    ZR_TRY_GOTO(st, describe_run(c, &run), done);
    const zr_manifest manifest = {.build = zr_version(), .run = run, .file = file, .n_files = 2};
    ZR_TRY_GOTO(st, zr_manifest_write(c->dir, &manifest), done);
done:
    zr_free(run);
    zr_free(config);
    zr_free((void *)file[1].chunk);
    return st;
}

/** The directory of a run that has not begun: what tells one, and its checkpoint. */
static zr_status make_run(convert *c)
{
    char path[PATH_MAX], name[ZR_CHECKPOINT_NAME_BYTES];
    zr_checkpoint_name(0, name);
    ZR_TRY(zr_checkpoint_begin(c->tmp, 0));
    int n = snprintf(c->dir, sizeof(c->dir), "%s/%s.tmp", c->tmp, name);
    ZR_CHECK(n > 0 && n < PATH_MAX, ZR_ERR_CREATE, "the path %.60s... is too long; choose a shorter one", c->tmp);
    ZR_TRY(zr__path_join(c->file, c->dir, weights_name));
    ZR_TRY(c->model.family->write(c->dir, &c->model.numbers));
    ZR_TRY(copy_tensors(c));
    ZR_TRY(write_manifest(c));
    ZR_TRY(zr_checkpoint_commit(c->tmp, 0));
    ZR_TRY(zr__path_join(path, c->tmp, "metrics.jsonl"));
    ZR_TRY(zr_file_write(path, "", 0));
    return ZR_OK;
}

static zr_status make_hf(convert *c)
{
    snprintf(c->dir, sizeof(c->dir), "%s", c->tmp);
    ZR_TRY(zr__path_join(c->file, c->dir, weights_name));
    ZR_TRY(copy_config(c));
    ZR_TRY(copy_tensors(c));
    return ZR_OK;
}

/* ---- all of it -------------------------------------------------------------------------------- */

/** What was made of it goes, and nothing else. */
static void remove_tmp(const convert *c)
{
    static const char *const names[] = {"config.json", "config.json.tmp", weights_name,       "latest",
                                        "latest.tmp",  "metrics.jsonl",   "metrics.jsonl.tmp"};
    char path[PATH_MAX], why[1024];
    snprintf(why, sizeof(why), "%s", zr_error_message());
    zr_status first = zr_checkpoint_remove(c->tmp, 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (zr__path_join(path, c->tmp, names[i]) == ZR_OK) unlink(path);
    rmdir(c->tmp);
    if (first != ZR_OK) (void)ZR_FAIL(first, "%s", why);
}

static zr_status make(convert *c)
{
    struct stat info;
    char to[PATH_MAX], shown[ZR_FILE_NAME_BYTES];
    zr__text_escape(c->args->to, shown, sizeof(shown));
    ZR_CHECK(lstat(c->args->to, &info) != 0, ZR_ERR_CREATE, "%s is there already; name another, or remove it", shown);
    ZR_TRY(zr__new_dir_begin(c->args->to, to, c->tmp));
    zr_status st = c->did->kind == ZR_CONVERT_RUN ? make_run(c) : make_hf(c);
    if (st == ZR_OK) st = zr_dir_commit(c->tmp, to);
    if (st != ZR_OK && access(c->tmp, F_OK) == 0) remove_tmp(c);
    return st;
}

static zr_status settle(convert *c)
{
    const zr_convert_args *args = c->args;
    const zr_stored *from = &c->did->from;
    bool checkpoint = from->kind == ZR_STORED_CHECKPOINT;
    ZR_CHECK(from->kind != ZR_STORED_FILE, ZR_ERR_ARG,
             "%s is one file; give the directory, with the config.json that says what model it is", from->path);
    c->did->kind = args->kind != ZR_CONVERT_OTHER ? args->kind : checkpoint ? ZR_CONVERT_HF : ZR_CONVERT_RUN;
    ZR_CHECK(c->did->kind != ZR_CONVERT_RUN || !checkpoint, ZR_ERR_ARG,
             "%s is a checkpoint: it goes on with its own run (zr train --resume); copy the run's directory",
             from->path);
    ZR_CHECK(c->did->kind != ZR_CONVERT_RUN || args->dtype == ZR_F32, ZR_ERR_ARG,
             "a checkpoint holds fp32 weights, not %s", zr_dtype_name(args->dtype));
    return ZR_OK;
}

zr_status zr_convert(const zr_convert_args *args, zr_converted *did)
{
    ZR_CHECK(args && args->from && args->to && did, ZR_ERR_ARG, "zr_convert was given a NULL pointer");
    *did = (zr_converted){.kind = args->kind};
    convert c = {.args = args, .did = did};
    ZR_TRY(zr_stored_find(args->from, false, &did->from));
    ZR_TRY(settle(&c));
    zr_status st = open_source(&c);
    if (st == ZR_OK) st = make(&c);
    zr_free(c.piece);
    zr_chunk_writer_close(&c.writer);
    zr_safetensors_close(&c.layout);
    zr_weights_close(&c.weights);
    zr_chunk_reader_close(&c.reader);
    zr_manifest_free(&c.manifest);
    zr_free(c.specs);
    zr_graph_destroy(&c.graph);
    return st;
}
