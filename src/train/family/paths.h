/** Where the files are that a run's configuration names: it was written in some directory, and the run, or all of it,
 * may have moved since. */
#ifndef ZR_TRAIN_PATHS_H
#define ZR_TRAIN_PATHS_H

#include "zr/config.h"

#include <limits.h>

/**
 * Find a path of the configuration of a run (one with train.started_in), which lies in the directory `run`. The first
 * that is there, of: the path from where the run was started; from where the run's output_dir would have been started
 * now, when it moved together with what it read; beside the run; from here. `found` is absolute.
 * ZR_ERR_NOT_FOUND names `key` and the places looked at.
 */
ZR_NODISCARD zr_status zr__run_path_find(const zr_config *config, const char *run, const char *key, const char *path,
                                         char found[PATH_MAX]);

/** The same of its tokenizer: *tokenizer is a name ("bytes"), NULL, or `found`, which is then the path. */
ZR_NODISCARD zr_status zr__run_tokenizer_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                              const char **tokenizer);

/** Its folder of tokens (data.cache_dir), where files can be made: *cache is as it was given, or `found`. A relative
 * one is from where the run was started, or else from where it would have been started now. NULL: neither can be used,
 * or none was given; the user's cache then. */
ZR_NODISCARD zr_status zr__run_cache_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                          const char **cache);

/** Do that for everything that the configuration of a run would read: then it can be run from anywhere. What is not
 * found is named from where the run was started, for whoever misses it; what is found elsewhere is noted. A path that
 * an override gave is from here. Of one that no run wrote nothing changes. */
ZR_NODISCARD zr_status zr__run_paths_settle(zr_config *config);

#endif
