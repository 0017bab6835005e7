/**
 * data/tokenizer: the tokenizers "bytes" and byte-level BPE. tokenizer.c chooses between the two kinds. bpe.h encodes,
 * bpe_read.c reads a BPE tokenizer from files, and bpe_write.c prints it; split.h cuts text into pieces by regular
 * expressions; bpe_train.c learns merges.
 */
#ifndef ZR_DATA_TOKENIZER_TOKENIZER_H
#define ZR_DATA_TOKENIZER_TOKENIZER_H

#include "zr/data.h"

/** Return whether this directory has all files of a tokenizer. Whether the tokenizer's kind is supported is found by
 * zr_tokenizer_open. */
bool zr__tokenizer_is_in(const char *dir);

/** Return the last offset p, from <= p < bytes, at which a text with this beginning may safely be cut: the two parts
 * have the same tokens as the whole, whatever follows after `bytes`. Return 0 if there is no safe offset, or if none
 * can be known because the tokenizer's regular expressions are not GPT-2's; a text must then be encoded as a whole. */
int64_t zr__tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, int64_t from, int64_t bytes);

/** Write the text of a tokenizer.json with the tokens of "bytes", for programs that read only such files; zr_free it.
 * Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_bytes_json(char **json);

/**
 * Trainer of a byte-level BPE tokenizer (Sennrich et al. 2016). It learns the same merges as the trainer of the package
 * `tokenizers`: texts are cut by GPT-2's regular expression, and the most frequent pair of neighbouring tokens within
 * pieces becomes a token. Equally frequent pairs are merged in the order of their left tokens, then of their right
 * tokens. Memory grows with the distinct pieces, not with the texts. Not for several threads at once.
 */
typedef struct zr__tokenizer_trainer zr__tokenizer_trainer;

/** Create a trainer. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_open(zr__tokenizer_trainer **trainer);
void zr__tokenizer_trainer_close(zr__tokenizer_trainer **trainer);

/** Count the pieces of text[0, bytes). A text may be added in parts, cut where zr__tokenizer_trainer_cut allows.
 * Errors: ZR_ERR_MEMORY; ZR_ERR_DATA if the regular expression exceeds its limits or there are 2^31 distinct
 * pieces. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_add(zr__tokenizer_trainer *trainer, const char *text, int64_t bytes);

/** Return the last safe cut, like zr__tokenizer_cut. */
int64_t zr__tokenizer_trainer_cut(const zr__tokenizer_trainer *trainer, const char *text, int64_t from, int64_t bytes);

/** Minimum vocabulary: one token for each byte, and ZR_END_OF_TEXT. */
#define ZR_TOKENIZER_LEAST_VOCAB 257

/** Learn the merges. *json receives the text of a tokenizer.json; zr_free it. Its tokens are the 256 bytes in GPT-2's
 * order, the results of merges, and ZR_END_OF_TEXT. *learned receives the number of tokens: `vocab`, or fewer if no
 * pairs are left. Errors: ZR_ERR_ARG if vocab is below ZR_TOKENIZER_LEAST_VOCAB or above 2^31 - 1; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_learn(const zr__tokenizer_trainer *trainer, int64_t vocab, char **json,
                                                   int64_t *learned);

/** Vocabulary size of the tokenizer "bytes". A model of this size whose tokenizer is unknown is assumed to use
 * bytes. */
#define ZR__BYTES_VOCAB 256

#endif
