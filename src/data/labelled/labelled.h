/**
 * data/labelled: labelled texts, and questions with their answers, for fine-tuning encoders. labelled.c opens them and
 * reads rows, list.h keeps their tokens, classes.h reads labelled texts, and questions.h reads questions. words.h
 * divides a text into words, and finds the words of an answer. answers.c finds the answers of a model, final.h their
 * texts, and score.c compares them with the reference answers.
 */
#ifndef ZR_DATA_LABELLED_H
#define ZR_DATA_LABELLED_H

#include "data/labelled/questions.h"

/** Read all files once and hash them, together with the samples made of them, like zr__data_check. */
ZR_NODISCARD zr_status zr__labelled_check(const zr_labelled *labelled, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Return the questions of an object, or NULL if it has labelled texts. */
const zr__questions *zr__labelled_questions(const zr_labelled *labelled);

/** Return the maximum number S of samples in a row. */
int64_t zr__labelled_row_samples(const zr_labelled *labelled);

/** Find the numbers of the samples of a row, in their order in the row. `found` has space for S numbers, *n receives
 * how many there are. Errors: as for zr_labelled_read. */
ZR_NODISCARD zr_status zr__labelled_samples(zr_labelled *labelled, int64_t row, int64_t *found, int64_t *n);

#endif
