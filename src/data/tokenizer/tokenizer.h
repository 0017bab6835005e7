/**
 * data/tokenizer: the tokenizers "bytes", BPE and WordPiece. tokenizer.c chooses between "bytes" and the others. bpe.h
 * encodes and decodes, with wordpiece.h for words of WordPiece. read.h reads a tokenizer from files, bpe_write.c prints
 * it, and bpe_train.c learns merges. added.h finds added tokens. data/pieces normalizes text and cuts it into pieces.
 */
#ifndef ZR_DATA_TOKENIZER_TOKENIZER_H
#define ZR_DATA_TOKENIZER_TOKENIZER_H

#include "zr/data.h"

/** Return whether a path names a tekken.json, possibly with a suffix in its name, such as "tekken_240718.json". */
bool zr__tokenizer_is_tekken(const char *path);

/** Return whether a directory has all files of a tokenizer. zr_tokenizer_open may still refuse the tokenizer's kind. */
bool zr__tokenizer_is_in(const char *dir);

/** Encode like zr_tokenizer_encode. If `continues`, the text continues an earlier text from a cut of zr__tokenizer_cut
 * on, so the tokenizer puts nothing before it. */
ZR_NODISCARD zr_status zr__tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, int64_t bytes,
                                            bool continues, int32_t *tokens, int64_t room, int64_t *n);

/** Return the token that separates documents; -1 if the tokenizer itself puts this token after each document;
 * ZR__NO_SEPARATOR if the tokenizer has no such token. */
int32_t zr__tokenizer_separator(const zr_tokenizer *tokenizer);
enum { ZR__NO_SEPARATOR = -2 };

/** Find a special token that the samples of an encoder need, such as "[CLS]". Error: ZR_ERR_CONFIG if the tokenizer
 * lacks it. */
ZR_NODISCARD zr_status zr__tokenizer_special(const zr_tokenizer *tokenizer, const char *name, int32_t *token);

/** Return the text of special added token i, from 0 on, or NULL after the last one. */
const char *zr__tokenizer_special_text(const zr_tokenizer *tokenizer, int64_t i);

/** Return the tables by which the tokenizer normalizes text and divides it into words, or NULL if it is not one of
 * BERT's. */
const struct zr__bert *zr__tokenizer_bert(const zr_tokenizer *tokenizer);

/** Return the last offset p, from <= p < bytes, at which the text may safely be cut, or 0 if none is known. A cut is
 * safe if both parts together have the same tokens as the whole, for every text that may follow. The second part is
 * then encoded as a continuation. Cuts are known only if the tokenizer's regular expression is GPT-2's or one of
 * data/pieces/scan.h, or if the tokenizer's merges keep words apart. Without a cut, a text must be encoded as a whole.
 */
int64_t zr__tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, int64_t from, int64_t bytes);

/** Write a tokenizer.json of the tokenizer "bytes", for programs that read only this format. Free *json with zr_free.
 * Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_bytes_json(char **json);

/**
 * Trainer of a byte-level BPE tokenizer (Sennrich et al. 2016). It learns the same merges as the trainer of the package
 * `tokenizers`. Texts are cut by GPT-2's regular expression. The most frequent pair of neighbouring tokens within
 * pieces becomes a token. Equally frequent pairs are merged in the order of their left tokens, then of their right
 * tokens. Memory grows with the distinct pieces, not with the texts. Only one thread at a time may use a trainer.
 */
typedef struct zr__tokenizer_trainer zr__tokenizer_trainer;

/** Create a trainer. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_open(zr__tokenizer_trainer **trainer);
void zr__tokenizer_trainer_close(zr__tokenizer_trainer **trainer);

/** Count the pieces of text[0, bytes). A text may be added in parts that end at cuts of zr__tokenizer_trainer_cut.
 * Errors: ZR_ERR_MEMORY; ZR_ERR_DATA if the regular expression exceeds its limits or there are 2^31 distinct pieces. */
ZR_NODISCARD zr_status zr__tokenizer_trainer_add(zr__tokenizer_trainer *trainer, const char *text, int64_t bytes);

/** Return the last safe cut, like zr__tokenizer_cut. */
int64_t zr__tokenizer_trainer_cut(const zr__tokenizer_trainer *trainer, const char *text, int64_t from, int64_t bytes);

/** Minimum vocabulary: one token for each byte, and ZR_END_OF_TEXT. */
#define ZR_TOKENIZER_LEAST_VOCAB 257

/** Learn the merges. *json receives the text of a tokenizer.json; free it with zr_free. Its tokens are the 256 bytes in
 * GPT-2's order, the results of merges, and ZR_END_OF_TEXT. *learned receives the number of tokens: `vocab`, or fewer
 * if no pairs are left. Errors: ZR_ERR_ARG if vocab is below ZR_TOKENIZER_LEAST_VOCAB or above 2^31 - 1; ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__tokenizer_trainer_learn(const zr__tokenizer_trainer *trainer, int64_t vocab, char **json,
                                                   int64_t *learned);

/** Vocabulary size of the tokenizer "bytes". If a model of this size has no known tokenizer, it is assumed to use
 * "bytes". */
#define ZR__BYTES_VOCAB 256

#endif
