/** The texts of answers, and their comparison. */
#ifndef ZR_DATA_LABELLED_FINAL_H
#define ZR_DATA_LABELLED_FINAL_H

#include "base/text/text.h"
#include "data/labelled/labelled.h"
#include "data/pieces/bert.h"

/** Append the part of `original` that corresponds to `said`, the text of an answer's tokens, like get_final_text of
 * transformers. `original` is the text of the words that contain the answer. If the two do not fit together, append all
 * of `original`. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__final_text(const zr__bert *bert, const char *said, const char *original, zr__text *out);

/** Tables for comparing answers. */
typedef struct zr__scorer {
    zr__classes *classes;
} zr__scorer;

/** Create the tables. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__scorer_open(zr__scorer *scorer);
void zr__scorer_close(zr__scorer *scorer);
/** Append a text as SQuAD's evaluation normalizes it: in lower case, without punctuation and articles, and with a
 * single space between two words. */
void zr__scorer_normalize(const zr__scorer *scorer, const char *text, zr__text *out);
/** Compare two answers, as zr__answer_compare does. */
ZR_NODISCARD zr_status zr__scorer_compare(const zr__scorer *scorer, const char *answer, const char *right, bool *exact,
                                          double *f1);

#endif
