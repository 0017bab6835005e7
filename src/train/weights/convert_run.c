/** Conversion of a Hugging Face directory to the directory of a run that has not begun. The new run has a checkpoint of
 * step 0. */
#include "base/file/folder.h"
#include "base/json/json.h"
#include "train/dir/checkpoint_run.h"
#include "train/weights/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/** Return the model's configuration keys as JSON. A resumed run reads them from the checkpoint. */
static zr_status model_keys(const zr__convert *c, char **json)
{
    char text[128];
    ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
    ZR_AUTO_FREE char *resolved = NULL;
    json_auto_t *all = NULL;
    int n = snprintf(text, sizeof(text), "{\"model\": {\"type\": \"%s\"}}", c->model.family->name);
    ZR_TRY(zr_config_parse(text, (size_t)n, "the model", NULL, 0, &config));
    config->model.config = c->model.config;
    ZR_TRY(zr_config_to_json(config, &resolved));
    ZR_TRY(zr__json_parse(resolved, strlen(resolved), "the model", &all));
    json_auto_t *keys = json_pack("{s:O}", "model", json_object_get(all, "model"));
    ZR_CHECK(keys, ZR_ERR_MEMORY, "no memory for the keys of a model");
    return zr__json_print(keys, json);
}

static zr_status describe_run(const zr__convert *c, char **json)
{
    zr_layout layout = zr_layout_default();
    ZR_AUTO(zr__checkpoint_run_clear)
    zr__checkpoint_run run = {
        .loss = NAN, .scaler = {.scale = 1}, .prints = {.train.bytes = -1, .val.bytes = -1, .base.bytes = -1}};
    ZR_TRY(model_keys(c, &run.config));
    return zr__checkpoint_run_print(&run, &layout, json);
}

static zr_status write_manifest(const zr__convert *c)
{
    ZR_AUTO_FREE char *run = NULL;
    int64_t n = 0;
    zr__manifest_file file[2] = {{0}};
    const zr__chunk *written = zr__chunk_writer_chunks(c->writer, &n);
    zr_status st = zr__manifest_describe(c->dir, "config.json", false, NULL, 0, &file[0]);
    if (st == ZR_OK) st = zr__manifest_describe(c->dir, ZR_RUN_WEIGHTS, true, written, n, &file[1]);
    if (st == ZR_OK) st = describe_run(c, &run);
    const zr__manifest manifest = {.build = zr_version(), .run = run, .file = file, .n_files = 2};
    if (st == ZR_OK) st = zr__manifest_write(c->dir, &manifest);
    for (int i = 0; i < 2; i++) zr_free((void *)file[i].chunk);
    return st;
}

static zr_status write_weights(zr__convert *c)
{
    ZR_TRY(zr__safetensors_create(c->file, NULL, c->specs, c->did->tensors));
    ZR_TRY(zr__safetensors_attach(c->file, &c->layout));
    ZR_TRY(zr__chunk_writer_open(c->file, 1, &c->writer));
    ZR_TRY(zr__convert_copy(c));
    return zr__chunk_writer_end(c->writer);
}

zr_status zr__convert_run(zr__convert *c)
{
    char path[PATH_MAX], name[ZR_CHECKPOINT_NAME_BYTES];
    c->did->files = 1;
    zr_checkpoint_name(0, name);
    ZR_TRY(zr__checkpoint_begin(c->tmp, 0));
    ZR_TRY(zr__path_format(c->dir, "%s/%s.tmp", c->tmp, name));
    ZR_TRY(zr__path_join(c->file, c->dir, ZR_RUN_WEIGHTS));
    ZR_TRY(zr__hf_write_like(c->dir, c->model.family, &c->model.config, c->source, ZR_F32, true));
    ZR_TRY(write_weights(c));
    ZR_TRY(write_manifest(c));
    ZR_TRY(zr__checkpoint_commit(c->tmp, 0));
    ZR_TRY(zr__path_join(path, c->tmp, "metrics.jsonl"));
    ZR_TRY(zr__file_put(path, "", 0));
    /* Put the tokenizer into model/ of the run, where generate and eval look for it. */
    ZR_TRY(zr__path_join(path, c->tmp, "model"));
    return zr__convert_tokenizer(c, path);
}
