#include "train/family/paths.h"

#include "base/file/folder.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Write dir/path to `joined`. Return false if the result is too long. If `path` is a pattern, escape special characters
 * in `dir`. */
static bool join(const char *dir, const char *path, char joined[PATH_MAX])
{
    const bool pattern = zr__shards_is_pattern(path);
    size_t n = 0;
    for (; *dir && n + 2 < PATH_MAX; dir++) {
        if (pattern && strchr("*?[\\", *dir)) joined[n++] = '\\';
        joined[n++] = *dir;
    }
    const int more = snprintf(joined + n, PATH_MAX - n, "/%s", path);
    return !*dir && more > 0 && n + (size_t)more < PATH_MAX;
}

/* Write the absolute form of a path to `found`. The path may be a pattern. Return false if no file matches. */
static bool resolve(const char *path, char found[PATH_MAX])
{
    ZR_AUTO(zr__shards_free) zr__shards matches = {0};
    char here[PATH_MAX];
    if (realpath(path, found)) return true;
    if (!zr__shards_is_pattern(path) || zr__shards_find(path, &matches) != ZR_OK) return false;
    if (path[0] != '/') return getcwd(here, sizeof(here)) && join(here, path, found);
    return snprintf(found, PATH_MAX, "%s", path) < PATH_MAX;
}

/* Write the absolute form of dir/path to `found`. The path may be a pattern. Return false if no file matches. */
static bool is_there(const char *dir, const char *path, char found[PATH_MAX])
{
    char joined[PATH_MAX];
    int n = snprintf(joined, sizeof(joined), "%s/%s", dir, path);
    if (n > 0 && n < PATH_MAX && realpath(joined, found)) return true;
    return zr__shards_is_pattern(path) && join(dir, path, joined) && resolve(joined, found);
}

/* Write the path `whole` without the relative path `end` at its end to `out`. Return false if `whole` does not end with
 * `end`. If `whole` is a run's directory and `end` its output_dir, the result is the directory to which output_dir is
 * relative. */
static bool cut_end(const char *whole, const char *end, char out[PATH_MAX])
{
    size_t n = strlen(whole), m = strlen(end);
    while (m > 0 && end[m - 1] == '/') m--;
    if (m == 0 || m >= n || whole[n - m - 1] != '/' || strncmp(whole + n - m, end, m) != 0) return false;
    snprintf(out, PATH_MAX, "%.*s", (int)(n - m - 1 > 0 ? n - m - 1 : 1), whole);
    return true;
}

/* Search for `path`, and for the file name at its end, in the run's directory and in the two directories above. A user
 * may have moved a run together with its inputs. */
static bool beside(const char *run, const char *path, char found[PATH_MAX])
{
    enum { UP = 3 };
    char dir[PATH_MAX];
    const char *name = strrchr(path, '/');
    snprintf(dir, sizeof(dir), "%s", run);
    for (int up = 0; up < UP; up++) {
        if (path[0] != '/' && is_there(dir, path, found)) return true;
        if (name && is_there(dir, name + 1, found)) return true;
        char *slash = strrchr(dir, '/');
        if (!slash || slash == dir) return false;
        *slash = '\0';
    }
    return false;
}

zr_status zr__run_path_find(const zr_config *config, const char *run, const char *key, const char *path,
                            char found[PATH_MAX])
{
    char real[PATH_MAX], base[PATH_MAX];
    const char *start = config->train.started_in, *output = config->train.output_dir;
    if (path[0] == '/' && resolve(path, found)) return ZR_OK;
    if (path[0] != '/' && start && is_there(start, path, found)) return ZR_OK;
    if (!realpath(run, real)) snprintf(real, sizeof(real), "%s", run);
    if (path[0] != '/' && output && cut_end(real, output, base) && is_there(base, path, found)) return ZR_OK;
    if (beside(real, path, found)) return ZR_OK;
    if (path[0] != '/' && is_there(".", path, found)) return ZR_OK;
    bool whole = path[0] == '/' || !start;
    return ZR_FAIL(ZR_ERR_NOT_FOUND,
                   "%s: %s%s%s does not exist, and neither does a copy beside the run in %s; was it moved?", key,
                   whole ? "" : ZR_SHOWN(start), whole ? "" : "/", ZR_SHOWN(path), ZR_SHOWN(real));
}

/* Return whether the tokenizer is given by a path instead of a built-in name. */
static bool is_tokenizer_path(const char *tokenizer)
{
    return tokenizer && strcmp(tokenizer, "bytes") != 0;
}

/* Return whether files can be created in `folder`. If the folder does not exist, test its nearest existing parent
 * directory, which must not lie above `within`. */
static bool is_usable(const char *folder, const char *within)
{
    struct stat info;
    char there[PATH_MAX];
    zr__path_existing(folder, there);
    return strlen(there) >= strlen(within) && stat(there, &info) == 0 && S_ISDIR(info.st_mode) &&
           access(there, W_OK) == 0;
}

zr_status zr__run_cache_find(const zr_config *config, const char *run, char found[PATH_MAX], const char **cache)
{
    char real[PATH_MAX], base[PATH_MAX];
    const char *start = config->train.started_in, *output = config->train.output_dir;
    const char *given = *cache = config->data.cache_dir;
    if (!given || !*given || !start || zr__config_overridden(config, "data.cache_dir")) return ZR_OK;
    if (*given == '/' && is_usable(given, given)) return ZR_OK;
    *cache = found;
    if (*given != '/') {
        ZR_TRY(zr__path_join(found, start, given));
        if (is_usable(found, start)) return ZR_OK;
        if (output && realpath(run, real) && cut_end(real, output, base)) {
            ZR_TRY(zr__path_join(found, base, given));
            if (is_usable(found, base)) return ZR_OK;
        }
    }
    *cache = NULL; /* NULL selects the user's cache, where the tokens are created again */
    return ZR_OK;
}

/* Add a note if the file is no longer at the path from which the run read it. The file found may be a different file
 * with the same name. */
static zr_status note_moved(zr_config *config, const char *key, const char *path, const char *found)
{
    char from[PATH_MAX];
    if (path[0] == '/' ? resolve(path, from) : is_there(config->train.started_in, path, from)) return ZR_OK;
    return zr__config_note(config, "%s: %s no longer exists where the run read it; using %s instead", key,
                           ZR_SHOWN(path), ZR_SHOWN(found));
}

/* Argument of resolve_path: the configuration key whose paths are resolved. */
typedef struct path_key {
    zr_config *config;
    const char *run, *key;
} path_key;

static zr_status resolve_path(void *arg, const char *path, char found[PATH_MAX])
{
    const path_key *s = arg;
    if (zr__run_path_find(s->config, s->run, s->key, path, found) == ZR_OK)
        return note_moved(s->config, s->key, path, found);
    if (path[0] != '/' && join(s->config->train.started_in, path, found)) return ZR_OK;
    snprintf(found, PATH_MAX, "%s", path);
    return ZR_OK;
}

/* Make the path of a folder absolute. Unlike an input file, a folder is not searched for elsewhere, since files will be
 * created in it. */
static zr_status resolve_folder(void *arg, const char *path, char found[PATH_MAX])
{
    const path_key *s = arg;
    if (path[0] != '/') return zr__path_join(found, s->config->train.started_in, path);
    return zr__path_format(found, "%s", path);
}

zr_status zr__run_paths_settle(zr_config *config)
{
    const struct {
        const char *key, *path;
        bool folder;
    } read[] = {{"data.train", config->data.train, false},
                {"data.val", zr__config_val_share(config) > 0 ? NULL : config->data.val, false},
                {"model.init", config->model.init, false},
                {"model.lora.init", config->model.lora_init, false},
                {"data.tokenizer", is_tokenizer_path(config->data.tokenizer) ? config->data.tokenizer : NULL, false},
                {"zero_optimization.offload_optimizer.nvme_path", config->zero.optim.folders, true},
                {"zero_optimization.offload_param.nvme_path", config->zero.param.folders, true}};
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    char run[PATH_MAX];
    if (!config->train.started_in) return ZR_OK;
    zr__config_inputs(config, inputs);
    zr__path_parent(inputs[0] ? inputs[0] : ".", run);
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++) {
        /* Leave a path from an override, such as --data.train=PATH, unchanged, since it is relative to the current
         * directory. */
        if (!read[i].path || zr__config_overridden(config, read[i].key)) continue;
        path_key s = {config, run, read[i].key};
        ZR_AUTO_FREE char *found = NULL;
        ZR_TRY(zr__shards_each(read[i].path, read[i].folder ? resolve_folder : resolve_path, &s, &found));
        ZR_TRY(zr_config_set(config, read[i].key, found));
    }
    const char *cache = NULL;
    char found[PATH_MAX];
    ZR_TRY(zr__run_cache_find(config, run, found, &cache));
    if (cache != config->data.cache_dir) ZR_TRY(zr_config_set(config, "data.cache_dir", cache ? cache : "null"));
    return zr_config_set(config, "train.started_in", "null");
}

zr_status zr__train_own_dir(zr_config *config)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    char dir[PATH_MAX], found[PATH_MAX];
    if (!config->train.started_in || !zr__config_from_file(config)) return ZR_OK;
    zr__config_inputs(config, inputs);
    const char *slash = strrchr(inputs[0], '/'), *name = slash ? slash + 1 : inputs[0];
    zr__path_parent(inputs[0], dir);
    bool own = strcmp(name, "config.json") == 0 && is_there(dir, "metrics.jsonl", found);
    if (!own || zr__config_overridden(config, "train.output_dir")) return ZR_OK;
    return zr_config_set(config, "train.output_dir", dir);
}
