/**
 * WordPiece (Schuster and Nakajima 2012), as in BERT. A word becomes the longest token that begins it, then the longest
 * token that continues it, and so on. Tokens that continue a word have names with a prefix. If no token fits, the whole
 * word is unknown.
 */
#ifndef ZR_DATA_TOKENIZER_WORDPIECE_H
#define ZR_DATA_TOKENIZER_WORDPIECE_H

#include "data/tokenizer/bpe.h"

/** The prefix of the names of tokens that continue a word. */
#define ZR__WORDPIECE_PREFIX "##"

/** Compute the lengths of tokens that encoding needs, after the vocabulary is read. */
void zr__wordpiece_finish(zr__bpe *bpe);

/** Compute the tokens of a word, as zr__bpe_merge_piece does. */
ZR_NODISCARD zr_status zr__wordpiece_word(const zr__bpe *bpe, const char *word, int64_t bytes, int32_t *tokens,
                                          int64_t *n);

/** Append the text of tokens to `out`, as the decoder WordPiece of the package `tokenizers` does. */
void zr__wordpiece_say(const zr__bpe *bpe, const int32_t *tokens, int64_t n, bool special, zr__text *out);

#endif
