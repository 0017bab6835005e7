/** The texts of answers, and their comparison. */
#ifndef ZR_DATA_LABELLED_FINAL_H
#define ZR_DATA_LABELLED_FINAL_H

#include "base/text/text.h"
#include "data/pieces/bert.h"
#include "data/pieces/classes.h"

/** Append the part of `original` that corresponds to `said`, the text of an answer's tokens, like get_final_text of
 * transformers. `original` is the text of the words that contain the answer. If `said` does not fit to `original`,
 * append all of `original`. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__final_text(const zr__bert *bert, const char *said, const char *original, zr__text *out);

/** Compare an answer with a reference answer as SQuAD's evaluation 1.1 does: in lower case, without ASCII punctuation
 * and the words a, an and the. Both are valid UTF-8. *exact receives whether both are equal, *f1 the F1 score of their
 * words, from 0 to 1. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__answer_compare(const zr__classes *classes, const char *answer, const char *right,
                                          bool *exact, double *f1);

#endif
