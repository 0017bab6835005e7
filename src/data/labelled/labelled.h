/**
 * data/labelled: labelled texts, and questions with their answers, for fine-tuning encoders. labelled.c opens them and
 * reads rows, list.h keeps their tokens, classes.h reads labelled texts, and questions.h reads questions. words.h
 * divides a text into words, and finds the words of an answer. answers.c finds the answers of a model, final.h their
 * texts, and score.c compares them with the reference answers.
 */
#ifndef ZR_DATA_LABELLED_H
#define ZR_DATA_LABELLED_H

#include "data/labelled/questions.h"

/** Like zr__data_check, read all files once. The hash covers the files and the samples made from the files. */
ZR_NODISCARD zr_status zr__labelled_check(const zr_labelled *labelled, uint64_t *hash, zr_progress_fn fn, void *arg);

/** Return the questions of an object, or NULL if it has labelled texts. */
const zr__questions *zr__labelled_questions(const zr_labelled *labelled);

/** Return the maximum number S of samples in a row. */
int64_t zr__labelled_row_samples(const zr_labelled *labelled);

/** Find the numbers of the samples of a row, in their order in the row. `found` has space for S numbers, *n receives
 * how many there are. Errors: as for zr_labelled_read. */
ZR_NODISCARD zr_status zr__labelled_samples(zr_labelled *labelled, int64_t row, int64_t *found, int64_t *n);

/** Answers that a model gives to questions, found as with compute_predictions_logits of transformers 4.57. */
typedef struct zr__answers zr__answers;

/** An answer, and the logits of its first and last token. */
typedef struct zr__answer {
    const char *text;   /* a part of the text that the question is about; "empty" if no token can be an answer */
    float start, end;   /* logits of the first and last token */
    double probability; /* softmax of start + end over the answers of the question */
} zr__answer;

/** Begin to collect answers. `questions` is an object of the kind ZR_LABELLED_ANSWERS, which must remain open. n_best
 * is the number of best first tokens and of best last tokens of a sample that are combined, and of the answers of a
 * question that are kept (0 for 20). max_answer_length is the maximum number of tokens of an answer (0 for 30). Errors:
 * ZR_ERR_ARG; ZR_ERR_DATA if two questions have the same id; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__answers_open(zr_labelled *questions, int64_t n_best, int64_t max_answer_length,
                                        zr__answers **answers);
void zr__answers_close(zr__answers **answers);

/** Add the logits (T, 2) of a row of `questions`. A token has two logits: as the first and as the last token of the
 * answer. Rows may come in any order. Only logits of the samples' own tokens are read, not the padding's. Errors: as
 * for zr_labelled_read, and ZR_ERR_DATA if a logit is not finite. */
ZR_NODISCARD zr_status zr__answers_add(zr__answers *answers, int64_t row, const float *logits);

/** Find the answers to a question, the best answer first, when the logits of all of its samples have been added. *id
 * receives the question's id, *list its answers and *n their number, from 1 to n_best. The pointers are valid until the
 * next call. Errors: ZR_ERR_ARG if `question` is out of range; ZR_ERR_STATE if logits are missing; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__answers_get(zr__answers *answers, int64_t question, const char **id, const zr__answer **list,
                                       int64_t *n);

/** Print the best answers as the JSON object {"ID": "ANSWER", ...} that SQuAD's evaluation script reads. Free *json
 * with zr_free. Errors: as for zr__answers_get. */
ZR_NODISCARD zr_status zr__answers_json(zr__answers *answers, char **json);

/** Result of SQuAD's evaluation, version 1.1. */
typedef struct zr__answers_scored {
    double exact, f1; /* percentage of answers that are exactly right; mean F1 score in percent */
    int64_t questions;
} zr__answers_scored;
/** Compare the best answers with the reference answers. Errors: as for zr__answers_get. */
ZR_NODISCARD zr_status zr__answers_score(zr__answers *answers, zr__answers_scored *scored);

#endif
