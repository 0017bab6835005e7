/**
 * Text as the tokenizers of BERT see it: the normalizer BertNormalizer and the pre-tokenizer BertPreTokenizer of the
 * package `tokenizers`. Categories of characters are the package's, from Unicode 8 to 9. Lower case follows Unicode
 * 17. Bytes that are not UTF-8 are treated like U+FFFD.
 */
#ifndef ZR_DATA_PIECES_BERT_H
#define ZR_DATA_PIECES_BERT_H

#include "base/text/text.h"
#include "data/pieces/classes.h"

/** Settings of the normalizer. */
typedef struct zr__bert_options {
    bool clean;         /* whether control characters are dropped, and white space becomes a space */
    bool chinese;       /* whether Chinese characters are put between spaces */
    bool strip_accents; /* whether text is decomposed (NFD) and its nonspacing marks are dropped */
    bool lowercase;
} zr__bert_options;

/** Tables of characters. They never change, so any number of threads may use them. */
typedef struct zr__bert zr__bert;

/** Create the tables. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bert_open(zr__bert_options options, zr__bert **bert);
void zr__bert_close(zr__bert **bert);

/** Return a number that identifies the options. */
int zr__bert_number(const zr__bert *bert);

/** Append the normalized text to `out`. The number of its characters is at most `bytes`. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__bert_add(const zr__bert *bert, const char *text, int64_t bytes, zr__text *out);

/** A word, or a punctuation character: text[from, to). */
typedef struct zr__bert_word {
    int64_t from, to;
} zr__bert_word;

/** Find the next word that begins at or after `word->to`, which is 0 at first. Return false after the last word. */
bool zr__bert_next(const zr__bert *bert, const char *text, int64_t bytes, zr__bert_word *word);

/** Return whether a character is punctuation. */
bool zr__bert_is_punctuation(const zr__bert *bert, uint32_t c);

#endif
