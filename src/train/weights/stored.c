/* Where the weights of a path are: in a run's model/ or newest checkpoint, in a checkpoint, or in the directory itself.
 */
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "train/dir/run_dir.h"
#include "train/dir/run_files.h"
#include "train/family/inputs.h"
#include "train/weights/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(sizeof(((zr__stored *)0)->path) == PATH_MAX, "paths are of one size");

static bool has_weights(const char *dir)
{
    return zr__path_is_in(dir, "model.safetensors") || zr__path_is_in(dir, "model.safetensors.index.json") ||
           zr__adapter_is_in(dir);
}

static bool has_model(const char *run)
{
    char model[PATH_MAX];
    return zr__path_join(model, run, ZR_RUN_MODEL) == ZR_OK && zr__weights_in(model, "");
}

static bool is_run(const char *dir)
{
    return zr__path_is_in(dir, "metrics.jsonl") || has_model(dir) || zr__run_dir_has_checkpoint(dir);
}

/** Return whether `path` is a checkpoint. A directory with a manifest is a checkpoint. A directory with the name of a
 * checkpoint in a run's directory is a checkpoint too, but damaged if it has no manifest. */
static bool is_checkpoint(const char *path)
{
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    zr__path_parent(path, above);
    return zr__path_is_in(path, "manifest.json") ||
           (zr__checkpoint_step(name) >= 0 && zr__path_is_in(above, "metrics.jsonl"));
}

/** Set stored->run to the parent directory of the weights, if the parent is the directory of a run. */
static zr_status find_run_above(zr__stored *stored)
{
    char above[PATH_MAX];
    const char *slash = strrchr(stored->path, '/'), *name = slash ? slash + 1 : stored->path;
    zr__path_parent(stored->path, above);
    if (name[0] == '.') ZR_TRY(zr__path_join(above, stored->path, ".."));
    if (is_run(above)) snprintf(stored->run, sizeof(stored->run), "%s", above);
    return ZR_OK;
}

/** Find the newest complete checkpoint of stored->run. Set *found to whether one exists. */
static zr_status newest_checkpoint(zr__stored *stored, bool *found)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    ZR_AUTO_FREE int64_t *step = NULL;
    int64_t n = 0;
    *found = false;
    ZR_TRY(zr_checkpoint_list(stored->run, &step, &n));
    for (int64_t i = 0; i < n && !*found; i++) {
        ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
        zr_checkpoint_name(step[i], name);
        zr_status st = zr__path_join(stored->path, stored->run, name);
        if (st == ZR_OK) st = zr__manifest_read(stored->path, &manifest);
        /* After ZR_ERR_MEMORY the search ends, since it is unknown whether this checkpoint is complete. */
        if (st == ZR_ERR_MEMORY) return st;
        *found = st == ZR_OK;
        if (!*found && !stored->passed_over[0])
            snprintf(stored->passed_over, sizeof(stored->passed_over), "%s is skipped: %.440s", name,
                     zr_error_message());
    }
    return ZR_OK;
}

static bool stat_in(const char *dir, const char *name, struct stat *st)
{
    char path[PATH_MAX];
    return zr__path_join(path, dir, name) == ZR_OK && stat(path, st) == 0;
}

/** Return whether the checkpoint in stored->path was written after the weights in model/. This is the case if a
 * completed run was extended and then stopped. */
static bool is_newer_than_model(const zr__stored *stored)
{
    struct stat checkpoint, model;
    char dir[PATH_MAX];
    const char *name = zr__path_join(dir, stored->run, ZR_RUN_MODEL) == ZR_OK ? zr__weights_in(dir, "") : NULL;
    return stat_in(stored->path, "manifest.json", &checkpoint) && name && stat_in(dir, name, &model) &&
           (checkpoint.st_mtim.tv_sec > model.st_mtim.tv_sec ||
            (checkpoint.st_mtim.tv_sec == model.st_mtim.tv_sec && checkpoint.st_mtim.tv_nsec > model.st_mtim.tv_nsec));
}

static zr_status find_in_run(bool model_first, zr__stored *stored)
{
    bool checkpoint = false, model = has_model(stored->run);
    ZR_TRY(newest_checkpoint(stored, &checkpoint));
    if (checkpoint && model && model_first && !is_newer_than_model(stored)) {
        checkpoint = false;
        stored->passed_over[0] = '\0';
    }
    stored->kind = checkpoint ? ZR_STORED_CHECKPOINT : ZR_STORED_HF;
    if (checkpoint) return ZR_OK;
    ZR_CHECK(model, ZR_ERR_NOT_FOUND,
             "%s is a run without saved weights: there is no model/ in it, which is written when a run ends (unless "
             "train.save_model is false), and no whole checkpoint%s%s",
             ZR_SHOWN(stored->run), stored->passed_over[0] ? "; " : "", stored->passed_over);
    return zr__path_join(stored->path, stored->run, "model");
}

zr_status zr__stored_find(const char *path, bool model_first, zr__stored *stored)
{
    struct stat st, link;
    *stored = (zr__stored){.kind = ZR_STORED_FILE};
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    ZR_CHECK(n > 0 && n < PATH_MAX && stat(path, &st) == 0, ZR_ERR_NOT_FOUND, "%s is not there", ZR_SHOWN(path));
    snprintf(stored->path, sizeof(stored->path), "%.*s", (int)n, path);
    /* Resolve the user's path if it is a symbolic link, since checkpoints are opened without following links. */
    if (lstat(stored->path, &link) == 0 && S_ISLNK(link.st_mode) && !realpath(path, stored->path))
        return ZR_FAIL(ZR_ERR_NOT_FOUND, "%s is not there", ZR_SHOWN(path));
    if (!S_ISDIR(st.st_mode)) return ZR_OK;
    if (is_checkpoint(stored->path)) {
        stored->kind = ZR_STORED_CHECKPOINT;
        return find_run_above(stored);
    }
    if (is_run(path)) {
        snprintf(stored->run, sizeof(stored->run), "%s", stored->path);
        stored->from_run = true;
        return find_in_run(model_first, stored);
    }
    ZR_CHECK(has_weights(path) || !zr__config_is_own(path), ZR_ERR_NOT_FOUND,
             "%s is not a run: nothing was trained into it, and its config.json is a configuration of zr (`zr train "
             "%s/config.json` makes a run of it); give a run's output_dir, a checkpoint or a Hugging Face directory",
             ZR_SHOWN(stored->path), ZR_WORD(stored->path));
    ZR_CHECK(has_weights(path) || zr__path_is_in(path, "config.json"), ZR_ERR_NOT_FOUND,
             "%s is no run's directory, no checkpoint and no Hugging Face directory", ZR_SHOWN(path));
    stored->kind = ZR_STORED_HF;
    const char *slash = strrchr(stored->path, '/'), *name = slash ? slash + 1 : stored->path;
    return strcmp(name, ZR_RUN_BEST) == 0 ? find_run_above(stored) : ZR_OK;
}

zr_status zr__hf_check(const char *dir, char *note, size_t size)
{
    zr__family_model model;
    ZR_AUTO(zr_weights_close) zr_weights *weights = NULL;
    return zr__weights_of_dir(dir, &model, &weights, note, size);
}
