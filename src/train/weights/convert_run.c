/** Conversion of a Hugging Face directory to the directory of a run that has not begun. The new run has a checkpoint of
 * step 0. */
#include "base/file/folder.h"
#include "base/json/json.h"
#include "config/config.h"
#include "train/dir/checkpoint_run.h"
#include "train/weights/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/** Return the model's configuration keys as JSON. A resumed run reads them from the checkpoint. */
static zr_status model_keys(const zr__convert *c, char **json)
{
    char text[128];
    zr_config *config = NULL;
    json_t *all = NULL, *keys = NULL;
    zr_status st = ZR_OK;
    int n = snprintf(text, sizeof(text), "{\"model\": {\"type\": \"%s\"}}", c->model.family->name);
    ZR_TRY(zr_config_parse(text, (size_t)n, "the model", NULL, 0, &config));
    config->model.config = c->model.config;
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

static zr_status describe_run(const zr__convert *c, char **json)
{
    zr_layout layout = zr_layout_default();
    zr__checkpoint_run run = {
        .loss = NAN, .scaler = {.scale = 1}, .train = {.bytes = -1}, .val = {.bytes = -1}, .base = {.bytes = -1}};
    ZR_TRY(model_keys(c, &run.config));
    zr_status st = zr__checkpoint_run_print(&run, &layout, json);
    zr__checkpoint_run_clear(&run);
    return st;
}

/** Collect the checksums of the weights file. Checksums of the header are computed from the file. All other checksums
 * were computed while the file was written. */
static zr_status weights_chunks(const zr__convert *c, zr_manifest_file *file)
{
    zr_chunk *head = NULL, *all = NULL;
    int64_t n_head = 0, n = 0, end = c->did->tensors > 0 ? zr_safetensors_get(c->layout, 0)->offset : -1;
    ZR_TRY(zr_chunks_of_file(c->file, 0, end, &head, &n_head));
    const zr_chunk *put = zr_chunk_writer_chunks(c->writer, &n);
    all = zr_alloc(sizeof(*all) * (size_t)(n_head + n + 1));
    if (all && n_head > 0) memcpy(all, head, sizeof(*all) * (size_t)n_head);
    if (all && n > 0) memcpy(all + n_head, put, sizeof(*all) * (size_t)n);
    zr_free(head);
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the checksums of %s", ZR_RUN_WEIGHTS);
    *file = (zr_manifest_file){.name = ZR_RUN_WEIGHTS, .chunk = all, .n_chunks = n_head + n};
    for (int64_t i = 0; i < n_head + n; i++) file->bytes += all[i].bytes;
    return ZR_OK;
}

static zr_status write_manifest(const zr__convert *c)
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

/** Write the model's config.json, and the record of the source. */
static zr_status write_config(const zr__convert *c)
{
    return zr__hf_write_like(c->dir, c->model.family, &c->model.config, c->source, ZR_F32, true);
}

static zr_status write_weights(zr__convert *c)
{
    ZR_TRY(zr_safetensors_create(c->file, c->specs, c->did->tensors));
    ZR_TRY(zr_safetensors_attach(c->file, &c->layout));
    ZR_TRY(zr_chunk_writer_open(c->file, 1, &c->writer));
    ZR_TRY(zr__convert_copy(c));
    return zr_chunk_writer_end(c->writer);
}

zr_status zr__convert_run(zr__convert *c)
{
    char path[PATH_MAX], name[ZR_CHECKPOINT_NAME_BYTES];
    c->did->files = 1;
    zr_checkpoint_name(0, name);
    ZR_TRY(zr_checkpoint_begin(c->tmp, 0));
    ZR_TRY(zr__path_format(c->dir, "%s/%s.tmp", c->tmp, name));
    ZR_TRY(zr__path_join(c->file, c->dir, ZR_RUN_WEIGHTS));
    ZR_TRY(write_config(c));
    ZR_TRY(write_weights(c));
    ZR_TRY(write_manifest(c));
    ZR_TRY(zr_checkpoint_commit(c->tmp, 0));
    ZR_TRY(zr__path_join(path, c->tmp, "metrics.jsonl"));
    ZR_TRY(zr__file_put(path, "", 0));
    /* Put the tokenizer into model/ of the run, where generate and eval look for it. */
    ZR_TRY(zr__path_join(path, c->tmp, "model"));
    return zr__convert_tokenizer(c, path);
}
