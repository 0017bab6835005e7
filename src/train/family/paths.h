/** Search for the files that a run's configuration names. Their paths may be relative to the directory where the run
 * was started. Since then, the run may have moved, with or without these files. */
#ifndef ZR_TRAIN_PATHS_H
#define ZR_TRAIN_PATHS_H

#include "zr/config.h"

#include <limits.h>

/**
 * Find a file that a run's configuration names. The configuration has train.started_in, and the run is now in the
 * directory `run`. Use the first of these paths that exists: `path` relative to the directory where the run was
 * started; `path` relative to the directory where the run would have been started if output_dir and inputs moved
 * together; the file beside the run; `path` relative to the current directory. `found` receives an absolute path. If no
 * path exists, fail with ZR_ERR_NOT_FOUND, naming `key` and the directories searched.
 */
ZR_NODISCARD zr_status zr__run_path_find(const zr_config *config, const char *run, const char *key, const char *path,
                                         char found[PATH_MAX]);

/** Find the run's tokenizer by the search of zr__run_path_find. *tokenizer receives a built-in name such as "bytes",
 * the path in `found`, or NULL if the run has no tokenizer. */
ZR_NODISCARD zr_status zr__run_tokenizer_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                              const char **tokenizer);

/** Find the run's cache of tokens (data.cache_dir), if files can be created there. A relative path is tried from the
 * directory where the run was started, then from the directory where it would have been started if output_dir moved
 * with it. *cache receives the given path or `found`. It receives NULL, which selects the user's cache, if no folder
 * was given or none can be used. */
ZR_NODISCARD zr_status zr__run_cache_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                          const char **cache);

/** Make every input path of a run's configuration absolute, so that the configuration works from any directory. If a
 * file is not found, its path becomes absolute from the directory where the run was started, for error messages. If a
 * file is found at another path than before, add a note. A path from an override stays relative to the current
 * directory. A configuration that no run wrote is unchanged. */
ZR_NODISCARD zr_status zr__run_paths_settle(zr_config *config);

/** Set train.output_dir to the directory of the configuration's file, if a run wrote that file into its own directory
 * and no override gives train.output_dir. Otherwise change nothing. */
ZR_NODISCARD zr_status zr__train_own_dir(zr_config *config);

#endif
