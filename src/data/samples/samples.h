/**
 * data/samples: order and mixture of samples from files of tokens. data.c opens the sources and finds each sample's
 * window, order.h permutes windows, and ahead.h prefetches them.
 */
#ifndef ZR_DATA_SAMPLES_SAMPLES_H
#define ZR_DATA_SAMPLES_SAMPLES_H

#include "zr/data.h"

/** Find whether a path, as in zr_data_args, is text, without tokenizing it. note (may be NULL): a remark on a
 *  suspicious file, or "". */
ZR_NODISCARD zr_status zr__data_look(const char *path, bool *text, char *note, size_t size);

/** Read all files once, in parts: every token must lie below vocab_size, or ZR_ERR_DATA naming file, position and
 *  token. *hash (may be NULL): XXH3-64 of the file's bytes, for a text in the cache of its tokens' bytes; for several
 *  files one hash of all, of the source of each and of the way in which sources are mixed. fn (may be NULL) is called
 *  with the progress. A file is not read where no hash is wanted and every value of a token's type is valid. Tokens of
 *  the cache are read where zr_data_open_with has not done so (cache_is_whole): ZR_ERR_DATA where they are damaged.
 *  ZR_ERR_IO as zr_data_sample. */
ZR_NODISCARD zr_status zr__data_check(const zr_data *data, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Find where sample g (0, 1, 2 ... over all ranks and steps) begins, in tokens from the first source's first on.
 *  ZR_ERR_ARG when g is negative or its epoch or block reaches 2^32. */
ZR_NODISCARD zr_status zr__data_locate(const zr_data *data, int64_t sample, int64_t *first_token);

#endif
