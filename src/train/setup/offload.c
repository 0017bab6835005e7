/** Offload of model states and activation checkpoints: the degrees of offload, and the folders on disk that a
 * configuration names. */
#include "train/setup/setup.h"

#include "base/paths/shards.h"
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FOLDERS_MOST = 64 };

/** Check that files can be created in a folder. `key` is the configuration key that names it. */
static zr_status check_folder(const char *key, const char *path)
{
    struct stat info;
    ZR_CHECK(stat(path, &info) == 0, ZR_ERR_CREATE, "%s: %s: %s; make the folder, or name another on a fast local disk",
             key, ZR_SHOWN(path), strerror(errno));
    ZR_CHECK(S_ISDIR(info.st_mode), ZR_ERR_CREATE, "%s: %s is not a folder; name a folder on a fast local disk", key,
             ZR_SHOWN(path));
    ZR_CHECK(access(path, W_OK | X_OK) == 0, ZR_ERR_CREATE,
             "%s: in %s no file can be created: %s; name a folder that you may write to", key, ZR_SHOWN(path),
             strerror(errno));
    return ZR_OK;
}

static zr_status add_folder(zr__folders *folders, const char *key, const char *path)
{
    ZR_CHECK(folders->n < FOLDERS_MOST, ZR_ERR_CONFIG, "%s: the most is %d folders", key, FOLDERS_MOST);
    ZR_TRY(check_folder(key, path));
    return zr__text_copy(path, strlen(path), &folders->path[folders->n++]);
}

/** Add the folder that a value names, or each folder of its list. */
static zr_status add_folders(zr__folders *folders, const char *key, const char *value)
{
    json_auto_t *list = zr__shards_list(value);
    if (!list) return add_folder(folders, key, value);
    for (size_t i = 0; i < json_array_size(list); i++)
        ZR_TRY(add_folder(folders, key, json_string_value(json_array_get(list, i))));
    return ZR_OK;
}

zr_status zr__train_folders(const zr_config *config, zr__folders *folders)
{
    const zr_config_offloaded *optim = &config->zero.optim, *param = &config->zero.param;
    *folders = (zr__folders){0};
    const bool checkpoints = config->recompute.offload == ZR_OFFLOAD_DISK;
    if (optim->device != ZR_HOME_NVME && param->device != ZR_HOME_NVME && !checkpoints) return ZR_OK;
    const bool by_param = !optim->folders || (optim->device != ZR_HOME_NVME && param->folders);
    const char *value = by_param ? param->folders : optim->folders;
    const char *key =
        by_param ? "zero_optimization.offload_param.nvme_path" : "zero_optimization.offload_optimizer.nvme_path";
    ZR_CHECK(value, ZR_ERR_CONFIG, "%s: not given, but %s; name a folder on a fast local disk", key,
             checkpoints ? "activation_checkpointing.offload is disk" : "a device is nvme");
    folders->path = zr_alloc(FOLDERS_MOST * sizeof(*folders->path));
    ZR_CHECK(folders->path, ZR_ERR_MEMORY, "out of memory for the folders of %s", key);
    return add_folders(folders, key, value);
}

int64_t zr__folders_free_bytes(const zr__folders *folders)
{
    int64_t least = INT64_MAX;
    struct statvfs disk;
    for (int i = 0; i < folders->n; i++) {
        if (statvfs(folders->path[i], &disk) != 0 || disk.f_blocks == 0) return 0;
        const double bytes = (double)disk.f_bavail * (double)disk.f_frsize;
        if (bytes < (double)least) least = (int64_t)bytes;
    }
    if (folders->n == 0) return 0;
    return least < INT64_MAX / folders->n ? least * folders->n : INT64_MAX;
}

void zr__folders_free(zr__folders *folders)
{
    for (int i = 0; i < folders->n; i++) zr_free(folders->path[i]);
    zr_free(folders->path);
    *folders = (zr__folders){0};
}

void zr__train_offload_note(const zr_config *config, const zr_device_facts *facts, char note[ZR_OFFLOAD_NOTE_BYTES])
{
    const bool optim = config->zero.optim.device == ZR_HOME_CPU, param = config->zero.param.device == ZR_HOME_CPU;
    note[0] = '\0';
    if (facts->own_memory || !(optim || param)) return;
    snprintf(note, ZR_OFFLOAD_NOTE_BYTES,
             "zero_optimization: %s%s%s cpu moves nothing: ranks compute in the host's memory, so states are there "
             "anyway; nvme stores them on disk",
             optim ? "offload_optimizer.device" : "", optim && param ? " and " : "",
             param ? "offload_param.device" : "");
}

/** Append to `text` the names of the states stored in `space`, followed by `where`. Activation checkpoints are named
 * only for the disk. */
static void add_tier(zr__text *text, const zr_homes *home, const zr_memory *memory, zr_space space, const char *where)
{
    const struct {
        zr_space at;
        zr_category category;
        const char *name;
    } state[] = {{home->optim, ZR_CATEGORY_OPTIM, "optimizer states"},
                 {home->grad, ZR_CATEGORY_GRAD, "gradients"},
                 {home->param, ZR_CATEGORY_PARAM, "parameters"},
                 {ZR_SPACE_DISK, ZR_CATEGORY_CHECKPOINT, "activation checkpoints"}};
    const char *between = text->length > 0 ? "; " : "";
    bool any = false;
    for (int i = 0; i < 4; i++) {
        if (state[i].at != space || memory->space[space].category_bytes[state[i].category] == 0) continue;
        zr__text_add(text, "%s%s", between, state[i].name);
        between = ", ";
        any = true;
    }
    if (any) zr__text_add(text, " %s", where);
}

void zr__train_offload_words(const zr_homes *home, const zr_memory *memory, char words[ZR_OFFLOAD_NOTE_BYTES])
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    add_tier(&text, home, memory, ZR_SPACE_HOST, "in the host's memory");
    add_tier(&text, home, memory, ZR_SPACE_DISK, "on disk");
    snprintf(words, ZR_OFFLOAD_NOTE_BYTES, "%s", text.data && !text.failed ? text.data : "");
}

unsigned zr__offload_kinds(zr__offload offload)
{
    const zr__offload states = zr__train_offload_states(offload);
    return (states >= ZR__OFFLOAD_OPTIM ? ZR__KIND_OPTIM : 0) | (states >= ZR__OFFLOAD_PARAM ? ZR__KIND_PARAM : 0) |
           (offload >= ZR__OFFLOAD_CHECKPOINTS ? ZR__KIND_CHECKPOINT : 0);
}

/** Return the home of a kind that an offload moves. */
static zr_config_home home_of(zr_config_home device, unsigned on_host, unsigned kind)
{
    return on_host & kind ? ZR_HOME_CPU : device;
}

void zr__train_set_offload(zr_config *config, zr__offload offload, zr_config_home device, unsigned on_host)
{
    const unsigned kinds = zr__offload_kinds(offload);
    config->zero.optim.device = kinds & ZR__KIND_OPTIM ? home_of(device, on_host, ZR__KIND_OPTIM) : ZR_HOME_NONE;
    if (kinds & ZR__KIND_OPTIM) config->zero.offload_gradients = zr__train_offload_states(offload) >= ZR__OFFLOAD_GRAD;
    config->zero.param.device = kinds & ZR__KIND_PARAM ? home_of(device, on_host, ZR__KIND_PARAM) : ZR_HOME_NONE;
    if (kinds & ZR__KIND_CHECKPOINT)
        config->recompute.offload =
            home_of(device, on_host, ZR__KIND_CHECKPOINT) == ZR_HOME_NVME ? ZR_OFFLOAD_DISK : ZR_OFFLOAD_HOST;
}

zr__offload zr__train_offload_states(zr__offload offload)
{
    return offload % ZR__OFFLOAD_CHECKPOINTS;
}

const char *zr__train_offload_keys(zr__offload offload, zr_config_home device, unsigned on_host,
                                   char text[ZR_OFFLOAD_KEYS_BYTES])
{
    static const char *const name[] = {[ZR_HOME_NONE] = "none", [ZR_HOME_CPU] = "cpu", [ZR_HOME_NVME] = "nvme"};
    const zr__offload states = zr__train_offload_states(offload);
    const zr_config_home optim = home_of(device, on_host, ZR__KIND_OPTIM),
                         param = home_of(device, on_host, ZR__KIND_PARAM),
                         kept = home_of(device, on_host, ZR__KIND_CHECKPOINT);
    const bool moves_param = states == ZR__OFFLOAD_PARAM, together = moves_param && param == optim;
    int n = 0;
    text[0] = '\0';
    if (states)
        n = snprintf(text, ZR_OFFLOAD_KEYS_BYTES, "zero_optimization.offload_optimizer.device %s%s%s",
                     together ? "and offload_param.device " : "", name[optim],
                     states == ZR__OFFLOAD_OPTIM ? " with gradients false" : "");
    if (moves_param && !together)
        n += snprintf(text + n, ZR_OFFLOAD_KEYS_BYTES - (size_t)n, " and offload_param.device %s", name[param]);
    if (offload >= ZR__OFFLOAD_CHECKPOINTS)
        snprintf(text + n, ZR_OFFLOAD_KEYS_BYTES - (size_t)n, "%sactivation_checkpointing.offload %s",
                 states ? " and " : "", kept == ZR_HOME_NVME ? "disk" : "host");
    return text;
}

bool zr__train_offload_open(const zr_config *config)
{
    return !zr__config_given(config, "zero_optimization.offload_optimizer.device") &&
           !zr__config_given(config, "zero_optimization.offload_param.device");
}

int zr__train_offload_degrees(const zr_config *config)
{
    const bool given = zr__config_given(config, "activation_checkpointing.cpu_checkpointing") ||
                       zr__config_given(config, "activation_checkpointing.offload");
    return given ? ZR__OFFLOAD_CHECKPOINTS : ZR__OFFLOADS;
}
