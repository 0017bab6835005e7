/** Search for the files that a run's configuration names: it was written in some directory, and the run, alone or with
 * its inputs, may have moved since. */
#ifndef ZR_TRAIN_PATHS_H
#define ZR_TRAIN_PATHS_H

#include "zr/config.h"

#include <limits.h>

/**
 * Find a path of the configuration of a run (one with train.started_in), which lies in the directory `run`. The first
 * that exists, of: the path from where the run was started; from where it would have been started now, if the run's
 * output_dir moved together with its inputs; beside the run; from the current directory. `found` is absolute.
 * ZR_ERR_NOT_FOUND names `key` and the places looked at.
 */
ZR_NODISCARD zr_status zr__run_path_find(const zr_config *config, const char *run, const char *key, const char *path,
                                         char found[PATH_MAX]);

/** Find the run's tokenizer by the same search: *tokenizer is a name ("bytes"), NULL, or `found`, which is then the
 * path. */
ZR_NODISCARD zr_status zr__run_tokenizer_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                              const char **tokenizer);

/** Find the run's cache of tokens (data.cache_dir), if files can be made there: *cache is the given path, or `found`.
 * A relative path is from where the run was started, or else from where it would have been started now. NULL: neither
 * folder can be used, or none was given; the user's cache is used then. */
ZR_NODISCARD zr_status zr__run_cache_find(const zr_config *config, const char *run, char found[PATH_MAX],
                                          const char **cache);

/** Resolve every path that a run's configuration reads, so that it can be run from anywhere. A path that is not found
 * is named from where the run was started, for error messages; one that is found elsewhere is noted. A path that an
 * override gave is relative to the current directory. A configuration that no run wrote is not changed. */
ZR_NODISCARD zr_status zr__run_paths_settle(zr_config *config);

/** Set train.output_dir to the directory of the configuration's file, for a configuration that a run wrote into its own
 *  directory, unless an override gives train.output_dir. Any other configuration is not changed. */
ZR_NODISCARD zr_status zr__train_own_dir(zr_config *config);

#endif
