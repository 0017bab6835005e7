/**
 * data/samples: order and mixture of samples from files of tokens. data.c opens the sources and finds each sample's
 * window, order.h permutes windows, and ahead.h prefetches them. rows.h packs the samples of encoders into rows.
 */
#ifndef ZR_DATA_SAMPLES_SAMPLES_H
#define ZR_DATA_SAMPLES_SAMPLES_H

#include "zr/data.h"

/** Check arguments that all kinds of samples have. A sample has at least `least` tokens. Error: ZR_ERR_ARG. */
ZR_NODISCARD zr_status zr__data_args_check(const char *path, int64_t vocab_size, int64_t seq_length, int64_t least,
                                           zr_data_order order);

/** Set *text to whether any file that `path` names (as in zr_data_args.path) is a text. No text is tokenized. `note`
 * (may be NULL) receives a remark about the first suspicious file, or "". */
ZR_NODISCARD zr_status zr__data_look(const char *path, bool as_text, bool *text, char *note, size_t size);

/**
 * Read all files once, in parts, and check that every token is below vocab_size. fn (may be NULL) is called with the
 * progress.
 *
 * *hash (unless NULL) receives a hash of the data. For one file, this is the XXH3-64 of the file's bytes; for a text
 * with cached tokens, of the tokens' bytes. For several files, *hash combines the hashes of all files, the source of
 * each file and the mixture of the sources.
 *
 * A file is not read if no hash is wanted and every value of its token type is valid. Cached tokens are read only if
 * zr_data_open_with has not read them (cache_is_whole).
 *
 * Errors: ZR_ERR_DATA naming file, position and token, or if cached tokens are damaged; ZR_ERR_IO as from
 * zr_data_sample.
 */
ZR_NODISCARD zr_status zr__data_check(const zr_data *data, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Read a document of the files of records into the growing array *tokens, with *n tokens and capacity *room.
 * ZR__IGNORED marks tokens that the loss does not count. Fail with ZR_ERR_ARG if the document does not exist. */
ZR_NODISCARD zr_status zr__data_document(const zr_data *data, int64_t document, int32_t **tokens, int64_t *room,
                                         int64_t *n);
/** Return the bytes of memory of the list of held-out records, or of the list of the other records. */
int64_t zr__data_memory_bytes(const zr_data *data);

/** Find the index of a sample's first token. Samples are counted from 0 over all ranks and steps, and tokens from 0
 * over all sources. Fail with ZR_ERR_ARG if the sample is negative, or if its epoch or block reaches 2^32. */
ZR_NODISCARD zr_status zr__data_locate(const zr_data *data, int64_t sample, int64_t *first_token);

#endif
