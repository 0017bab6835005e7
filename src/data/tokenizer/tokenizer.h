/**
 * data/tokenizer: tokenizers "bytes" and byte-level BPE. tokenizer.c chooses between the two kinds; bpe.h encodes, and
 * is read from files by bpe_read.c and printed by bpe_write.c; split.h cuts text into pieces by regular expressions;
 * bpe_train.c learns merges.
 */
#ifndef ZR_DATA_TOKENIZER_TOKENIZER_H
#define ZR_DATA_TOKENIZER_TOKENIZER_H

#include "zr/data.h"

/** Return whether this directory has all files of a tokenizer; zr_tokenizer_open tells whether their kind is supported.
 */
bool zr__tokenizer_is_in(const char *dir);

/** Return the last place p, from <= p < bytes, at which a text that begins so may safely be cut: both parts
 *  together have the tokens of the whole, whatever follows after `bytes`. 0: there is no safe place, or none can be
 * known for this tokenizer (its regular expressions are not GPT-2's), which must then encode a text as a whole. */
int64_t zr__tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, int64_t from, int64_t bytes);

/** Write the text of a tokenizer.json with the tokens of "bytes", for programs that read only such files; zr_free it.
 *  ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_bytes_json(char **json);

/**
 * Trainer of a byte-level BPE tokenizer (Sennrich et al. 2016). It learns the same merges as the trainer of the
 * package tokenizers: texts are cut by GPT-2's regular expression, and the most frequent pair of neighbouring tokens
 * within pieces becomes a token; equally frequent pairs merge in the order of their left tokens, then of their right
 * tokens. Memory grows with the distinct pieces, not with the texts. Not for several threads at once.
 */
typedef struct zr__tokenizer_trainer zr__tokenizer_trainer;

/** Create a trainer. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_open(zr__tokenizer_trainer **trainer);
void zr__tokenizer_trainer_close(zr__tokenizer_trainer **trainer);

/** Count the pieces of text[0, bytes). A text may come in parts, cut where zr__tokenizer_trainer_cut says.
 *  ZR_ERR_MEMORY; ZR_ERR_DATA: the regular expression gives up on this text, or there are 2^31 distinct pieces. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_add(zr__tokenizer_trainer *trainer, const char *text, int64_t bytes);

/** Return the last safe cut, as zr__tokenizer_cut does. */
int64_t zr__tokenizer_trainer_cut(const zr__tokenizer_trainer *trainer, const char *text, int64_t from, int64_t bytes);

/** The fewest tokens: one for each byte, and ZR_END_OF_TEXT. */
#define ZR_TOKENIZER_LEAST_VOCAB 257

/** Learn the merges. *json is the text of a tokenizer.json, to be freed with zr_free: 256 bytes in GPT-2's order, the
 *  merges' tokens, and ZR_END_OF_TEXT as the last. *learned: number of tokens, `vocab`, or fewer where no pair is left.
 *  ZR_ERR_ARG: vocab is below ZR_TOKENIZER_LEAST_VOCAB or above 2^31 - 1. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_learn(const zr__tokenizer_trainer *trainer, int64_t vocab, char **json,
                                                   int64_t *learned);

/** Vocabulary of the tokenizer "bytes"; a model of this size whose tokenizer is not known is taken for a byte model. */
#define ZR__BYTES_VOCAB 256

#endif
