/**
 * data/pairs: sentence pairs for encoders. pairs.c opens them and reads rows. ready.h reads ready rows from a
 * .safetensors file. corpus.h holds the sentences of texts, recipe.h makes samples of the sentences, and groups.h finds
 * the samples of each row.
 */
#ifndef ZR_DATA_PAIRS_H
#define ZR_DATA_PAIRS_H

#include "zr/data.h"

/** Read all files once, in parts, and check every token, like zr__data_check. */
ZR_NODISCARD zr_status zr__pairs_check(const zr_pairs *pairs, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Return whether a value of data.train or data.val names ready rows, and not texts. If no file is found, return false;
 * zr_pairs_open then fails with a message. */
bool zr__pairs_are_ready(const char *value);

#endif
