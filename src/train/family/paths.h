/** Search for the files that a run's configuration names. Their paths may be relative to the directory where the run
 * was started, and the run may have moved since, with or without its inputs. */
#ifndef ZR_TRAIN_PATHS_H
#define ZR_TRAIN_PATHS_H

#include "zr/config.h"

#include <limits.h>

/**
 * Find a file that a run's configuration names. The configuration has train.started_in, and the run lies in the
 * directory `run`. Try these locations and take the first that exists: relative to the directory where the run was
 * started; relative to the directory where it would have been started if output_dir and inputs moved together; beside
 * the run; relative to the current directory. `found` is absolute. Fail with ZR_ERR_NOT_FOUND, naming `key` and the
 * directories searched.
 */
ZR_NODISCARD zr_status zr__run_path_find(const zr_config *config, const char *run, const char *key, const char *path,
                                         char found[PATH_MAX]);

/** Find the run's tokenizer by the search of zr__run_path_find. *tokenizer is a built-in name ("bytes"), NULL, or the
 * path in `found`. */
ZR_NODISCARD zr_status zr__run_tokenizer_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                              const char **tokenizer);

/** Find the run's cache of tokens (data.cache_dir), if files can be created there. *cache is the given path, `found`,
 * or NULL. A relative path is tried from the directory where the run was started, then from the directory where it
 * would have been started now. NULL means that neither folder can be used or none was given, and that the user's cache
 * applies. */
ZR_NODISCARD zr_status zr__run_cache_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                          const char **cache);

/** Make every input path of a run's configuration absolute, so that the configuration works from any directory. A path
 * that is not found is completed with the directory where the run was started, for error messages. A path found
 * elsewhere gets a note. A path that an override gave stays relative to the current directory. Do not change a
 * configuration that no run wrote. */
ZR_NODISCARD zr_status zr__run_paths_settle(zr_config *config);

/** Set train.output_dir to the directory of the configuration's file, if a run wrote that file into its own directory
 * and no override gives train.output_dir. Do not change any other configuration. */
ZR_NODISCARD zr_status zr__train_own_dir(zr_config *config);

#endif
