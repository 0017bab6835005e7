/** Search for the files that a run's configuration names. Their paths may be relative to the directory where the run
 * was started. The run may have moved since then, with or without these files. */
#ifndef ZR_TRAIN_PATHS_H
#define ZR_TRAIN_PATHS_H

#include "zr/config.h"

#include <limits.h>

/**
 * Find a file that a run's configuration names. The configuration has train.started_in, the directory where the run was
 * started. `run` is the run's current directory. Use the first existing path of this list: (1) `path`, relative to
 * train.started_in; (2) `path`, relative to the directory that replaces train.started_in if output_dir and the inputs
 * moved together; (3) `path` or its file name, in `run` or up to two directories above; (4) `path`, relative to the
 * current directory. `found` receives an absolute path. If no path exists, fail with ZR_ERR_NOT_FOUND, naming `key` and
 * the directories searched.
 */
ZR_NODISCARD zr_status zr__run_path_find(const zr_config *config, const char *run, const char *key, const char *path,
                                         char found[PATH_MAX]);

/** Find the folder of the run's token cache (data.cache_dir), if files can be created in it. A relative path is tried
 * first in train.started_in, then in the directory that replaces it if the run has moved (see zr__run_path_find).
 * *cache receives the given path or `found`. Without a usable folder *cache receives NULL, which selects the user's
 * cache. */
ZR_NODISCARD zr_status zr__run_cache_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                          const char **cache);

/** Make the input paths of a run's configuration absolute, so that the configuration works from any directory. If a
 * file is not found, use its path in the directory where the run was started, for error messages. If a file is found at
 * another path than before, add a note. A path from an override stays relative to the current directory. A
 * configuration file that no run has written is left unchanged. */
ZR_NODISCARD zr_status zr__run_paths_settle(zr_config *config);

/** Set train.output_dir to the directory of the configuration file, if a run wrote the file into its own directory.
 * Change nothing if an override gives train.output_dir. */
ZR_NODISCARD zr_status zr__train_own_dir(zr_config *config);

#endif
