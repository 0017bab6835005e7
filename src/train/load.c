#include "train/load.h"

#include "train/family.h"
#include "train/host.h"
#include "train/run_dir.h"

#include <sys/stat.h>

static bool exists(const char *dir, const char *name)
{
    struct stat st;
    char path[PATH_MAX];
    return zr__path_join(path, dir, name) == ZR_OK && stat(path, &st) == 0;
}

/** A run that was stopped has its weights in checkpoints: the newest whole one's name. */
static zr_status newest_checkpoint(const char *dir, char name[ZR_CHECKPOINT_NAME_BYTES])
{
    char path[PATH_MAX];
    int64_t *step = NULL, n = 0;
    zr_manifest *manifest = NULL;
    ZR_TRY(zr_checkpoint_list(dir, &step, &n));
    for (int64_t i = 0; i < n && !manifest; i++) {
        zr_checkpoint_name(step[i], name);
        if (zr__path_join(path, dir, name) != ZR_OK || zr_manifest_read(path, &manifest) != ZR_OK) manifest = NULL;
    }
    zr_free(step);
    ZR_CHECK(manifest, ZR_ERR_NOT_FOUND,
             "%s is a run without saved weights: there is no model/ in it, which is written when a run ends, and no "
             "whole checkpoint",
             dir);
    zr_manifest_free(&manifest);
    return ZR_OK;
}

/** The directory that holds the weights; a run's configuration when `dir` is a run. */
static zr_status find_weights(const char *dir, zr__loaded *loaded, char weights[PATH_MAX])
{
    char path[PATH_MAX], name[ZR_CHECKPOINT_NAME_BYTES] = "model";
    struct stat st;
    ZR_CHECK(stat(dir, &st) == 0 && S_ISDIR(st.st_mode), ZR_ERR_NOT_FOUND,
             "%s is not a directory; give a run's output_dir or a Hugging Face directory", dir);
    bool saved = exists(dir, "model/model.safetensors") || exists(dir, "model/model.safetensors.index.json");
    if (!saved && !exists(dir, "metrics.jsonl")) return zr__path_join(weights, dir, ".");
    if (!saved) ZR_TRY(newest_checkpoint(dir, name));
    if (exists(dir, "config.json")) {
        ZR_TRY(zr__path_join(path, dir, "config.json"));
        ZR_CHECK(stat(path, &st) == 0 && S_ISREG(st.st_mode), ZR_ERR_NOT_FOUND, "%s: not a file, wanted a regular file",
                 path);
        ZR_TRY(zr_config_load(path, NULL, 0, &loaded->config));
    }
    ZR_TRY(zr__path_join(weights, dir, name));
    return ZR_OK;
}

static zr_status open_weights(const char *dir, zr__loaded *loaded)
{
    char weights[PATH_MAX];
    const zr_family *family = NULL;
    ZR_TRY(find_weights(dir, loaded, weights));
    ZR_TRY(zr__family_of_dir(weights, &family));
    ZR_TRY(zr__family_read(family, weights, &loaded->model));
    ZR_TRY(zr_weights_open(weights, family->names(), &loaded->weights));
    ZR_TRY(zr__weights_fit(loaded->weights, &loaded->model, NULL, 0));
    return ZR_OK;
}

zr_status zr__load_open(const char *dir, zr__loaded *loaded)
{
    *loaded = (zr__loaded){0};
    zr_status st = open_weights(dir, loaded);
    if (st != ZR_OK) zr__load_close(loaded);
    return st;
}

zr_status zr__load_start(zr__loaded *loaded, zr_layout *layout, int threads)
{
    zr_device_config device = {.threads = threads > 0 ? threads : zr_host_cores()};
    zr_model model = zr_family_builder(&loaded->model);
    layout->dtype = loaded->config ? zr_train_layout(loaded->config, 1).dtype : ZR_F32;
    layout->wire_dtype = layout->dtype;
    ZR_TRY(zr_device_create_cpu(&device, &loaded->device));
    ZR_TRY(zr_plan_create(&model, layout, &loaded->device->profile, &loaded->plan));
    ZR_TRY(zr_train_memory_check(loaded->plan, 0, 1, false));
    ZR_TRY(zr_host_room(zr_train_process_bytes(zr_memory_taken(&loaded->plan->memory), 1), device.threads - 1));
    ZR_TRY(zr_comm_create_self(&loaded->comm));
    ZR_TRY(zr_engine_create(loaded->plan, loaded->device, loaded->comm, 0, &loaded->engine));
    ZR_TRY(zr_engine_fill(loaded->engine, ZR_STATE_PARAM, zr__weights_fill, loaded->weights));
    return ZR_OK;
}

void zr__load_close(zr__loaded *loaded)
{
    zr_engine_destroy(&loaded->engine);
    zr_comm_destroy(&loaded->comm);
    zr_plan_destroy(&loaded->plan);
    zr_device_destroy(&loaded->device);
    zr_weights_close(&loaded->weights);
    zr_config_destroy(&loaded->config);
}
