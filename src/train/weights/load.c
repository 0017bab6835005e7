#include "train/weights/load.h"

#include "base/file/folder.h"
#include "checkpoint/checkpoint.h"
#include "data/tokenizer/tokenizer.h"
#include "train/family/adapter.h"
#include "train/family/inputs.h"
#include "train/family/paths.h"
#include "train/host/device.h"
#include "train/host/host.h"
#include "train/host/limits.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

zr_status zr__load_check(const char *dir)
{
    ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
    ZR_TRY(zr__manifest_read(dir, &manifest));
    ZR_TRY(zr__checkpoint_check_file(dir, manifest, "config.json"));
    ZR_TRY(zr__checkpoint_check_file(dir, manifest, "model.safetensors"));
    return zr__adapter_is_in(dir) ? zr__checkpoint_check_file(dir, manifest, ZR_ADAPTER_CONFIG) : ZR_OK;
}

zr_status zr__load_config(zr__loaded *loaded)
{
    char path[PATH_MAX];
    struct stat st;
    if (!loaded->stored.run[0]) return ZR_OK;
    ZR_TRY(zr__path_join(path, loaded->stored.run, "config.json"));
    if (stat(path, &st) != 0) return ZR_OK;
    ZR_CHECK(S_ISREG(st.st_mode), ZR_ERR_NOT_FOUND, "%s: it is not a regular file", path);
    return zr_config_load(path, NULL, 0, &loaded->config);
}

zr_status zr__load_weights(zr__loaded *loaded)
{
    const zr__stored *stored = &loaded->stored;
    const zr_config *c = loaded->config;
    if (!zr__adapter_is_in(stored->path))
        return zr__weights_of_dir(stored->path, &loaded->model, &loaded->weights, NULL, 0);
    const bool named = c && c->model.init;
    if (!named || zr__run_path_find(c, stored->run, "model.init", c->model.init, loaded->base) != ZR_OK)
        loaded->base[0] = '\0';
    return zr__adapter_open(stored->path, loaded->base, &loaded->model, &loaded->weights, NULL, 0);
}

zr_status zr__load_open(const char *dir, zr__loaded *loaded)
{
    struct stat st;
    const zr__stored *stored = &loaded->stored;
    *loaded = (zr__loaded){0};
    ZR_CHECK(stat(dir, &st) == 0 && S_ISDIR(st.st_mode), ZR_ERR_NOT_FOUND,
             "%s is not a directory; give a run's output_dir, a checkpoint or a Hugging Face directory", dir);
    ZR_TRY(zr__stored_find(dir, true, &loaded->stored));
    if (stored->kind == ZR_STORED_CHECKPOINT) ZR_TRY(zr__load_check(stored->path));
    ZR_TRY(zr__load_config(loaded));
    return zr__load_weights(loaded);
}

zr_status zr__load_tokenizer(const zr__loaded *loaded, char found[PATH_MAX], const char **name)
{
    const char *said = loaded->config ? loaded->config->data.tokenizer : NULL;
    *name = "bytes";
    if (said && strcmp(said, *name) == 0) return ZR_OK;
    *name = found;
    ZR_CHECK(snprintf(found, PATH_MAX, "%s", loaded->stored.path) < PATH_MAX, ZR_ERR_NOT_FOUND,
             "the path %.60s... is too long", loaded->stored.path);
    if (zr__tokenizer_is_in(found)) return ZR_OK;
    if (loaded->stored.run[0]) ZR_TRY(zr__path_join(found, loaded->stored.run, "model"));
    if (loaded->stored.run[0] && zr__tokenizer_is_in(found)) return ZR_OK;
    if (said) return zr__run_path_find(loaded->config, loaded->stored.run, "data.tokenizer", said, found);
    snprintf(found, PATH_MAX, "%s", loaded->base);
    if (found[0] && zr__tokenizer_is_in(found)) return ZR_OK;
    *name = loaded->model.sizes.vocabulary == ZR__BYTES_VOCAB ? "bytes" : NULL;
    return ZR_OK;
}

zr_status zr__load_start(zr__loaded *loaded, zr_layout *layout, int threads)
{
    /* Use an available GPU, unless the run's configuration names the processor. Weights that a GPU trained also run
     * without a GPU. */
    const bool processor = loaded->config && loaded->config->device == ZR_DEVICE_CPU;
    const zr_config_device kind = processor ? ZR_DEVICE_CPU : ZR_DEVICE_AUTO;
    zr_model model = zr__family_builder(&loaded->model);
    layout->dtype = loaded->config ? zr__train_layout(loaded->config, 1).dtype : ZR_F32;
    layout->wire_dtype = layout->dtype;
    ZR_TRY(zr__train_device(kind, threads > 0 ? threads : zr__host_cores(), 0, &loaded->device));
    ZR_TRY(zr_plan_create(&model, layout, &loaded->device->profile, &loaded->plan));
    ZR_TRY(zr__train_memory_check(loaded->plan, 0, 1, false, NULL));
    ZR_TRY(zr__host_room(zr__plan_process_bytes(loaded->plan, 1), loaded->device->profile.facts.threads - 1));
    ZR_TRY(zr_comm_create_self(&loaded->comm));
    ZR_TRY(zr_engine_create(loaded->plan, loaded->device, loaded->comm, 0, &loaded->engine));
    return zr_engine_fill(loaded->engine, ZR_STATE_PARAM, zr__weights_fill, loaded->weights);
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
