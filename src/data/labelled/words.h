/**
 * The words of a text that questions are about, as squad_convert_examples_to_features of transformers sees them: words
 * are separated by spaces, tabs, line ends and U+202F, and each word is tokenized by itself.
 */
#ifndef ZR_DATA_LABELLED_WORDS_H
#define ZR_DATA_LABELLED_WORDS_H

#include "base/text/text.h"
#include "data/labelled/list.h"

/** A word: text[from, to), and the index of its first token in the text. */
typedef struct zr__word {
    int32_t from, to, token;
} zr__word;

/** The words of a text. Set it to zeros before the first use. */
typedef struct zr__words {
    const char *text;
    zr__word *word; /* array of n + 1; the last element has only `token`, the number of tokens */
    int64_t n, word_room;
    int32_t *token; /* tokens of all words */
    int64_t token_room;
} zr__words;

/** Divide a text, which must not change while `words` is in use. The memory of an earlier text is used again. Errors:
 * ZR_ERR_DATA if the text has 2^31 bytes or more; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__words_divide(zr__words *words, zr__labelled_list *list, const char *text);
void zr__words_free(zr__words *words);
/** Return the number of tokens. */
int64_t zr__words_tokens(const zr__words *words);

/** Return the index of the word to which a token belongs. */
int64_t zr__words_of_token(const zr__words *words, int64_t token);

/** Append the words [from, to), separated by single spaces. */
void zr__words_join(const zr__words *words, int64_t from, int64_t to, zr__text *out);

/** Find the first and the last token of an answer that begins at character `start` of the text. *found receives whether
 * the words there contain the answer. The range has all tokens of these words or, if the tokens of the answer alone
 * occur in it, only these. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__words_answer(const zr__words *words, zr__labelled_list *list, const char *answer,
                                        int64_t start, bool *found, int64_t *first, int64_t *last);

/** Append a text without the white space at its ends, and with one space for each inner run of white space. */
void zr__join_split(const char *text, zr__text *out);

#endif
