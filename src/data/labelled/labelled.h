/**
 * data/labelled: labelled texts, and questions with their answers, for fine-tuning encoders. labelled.c opens them and
 * reads rows, list.h keeps their tokens, classes.h reads labelled texts, tags.h tagged sentences, and questions.h
 * questions. names.h has the names of labels. words.h divides a text into words, and finds the words of an answer.
 * answers.c finds the answers of a model, final.h their texts, and score.c compares them with the reference answers.
 * entities.c compares tags.
 */
#ifndef ZR_DATA_LABELLED_H
#define ZR_DATA_LABELLED_H

#include "base/json/json.h"
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

/* ---- names of labels (names.c) ---------------------------------------------------------------------------------- */

/** Labels that data have. Set it to zeros. */
typedef struct zr__label_names {
    json_t *seen;      /* an object whose keys are the names */
    const char **name; /* the names in the order of their bytes; they belong to `seen` */
    int64_t n;
    int64_t most; /* largest label given as a number, or -1 */
} zr__label_names;

/** Collect the labels of data files (zr_labelled_args.path) of the kind CLASSES or TAGS. Call zr__label_names_free even
 * after a failure. Errors: as zr_labelled_open. */
ZR_NODISCARD zr_status zr__labelled_names(const char *path, zr_labelled_kind kind, bool skip_bad_lines,
                                          zr__label_names *names);
/** Note a label that data have: a name, or a number from 0 to 2^20. Ignore any other value. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__label_note(zr__label_names *names, const json_t *label);
/** Fill `name` and `n` from `seen`. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__label_names_sort(zr__label_names *names);
void zr__label_names_free(zr__label_names *names);

/* ---- entities of tagged sentences (entities.c) ------------------------------------------------------------------ */

/** Counts over tagged sentences. */
typedef struct zr__entities {
    int64_t right, found, both; /* number of entities in the data, in the model's tags, and in both */
    int64_t words, words_right;
} zr__entities;
/** Compare the tags that a model found in a sentence of n words with the right ones; both are indices of `names`. As in
 * seqeval, an entity is a run of tags such as B-PER I-PER, and is right if its words and its type are. */
void zr__entities_add(zr__entities *entities, const char *const *names, const int32_t *right, const int32_t *found,
                      int64_t n);
typedef struct zr__entities_scored {
    double precision, recall, f1; /* from 0 to 1, over the entities of all types */
} zr__entities_scored;
zr__entities_scored zr__entities_score(const zr__entities *entities);

/** Return a sample's tagged words. */
const zr__labelled_word *zr__labelled_words(const zr_labelled *labelled, int64_t sample, int64_t *n);

/* ---- answers to questions (answers.c) --------------------------------------------------------------------------- */

/** Answers that a model gives to questions, found as with compute_predictions_logits of transformers 4.57. */
typedef struct zr__answers zr__answers;

/** An answer, and the logits of its first and last token. */
typedef struct zr__answer {
    /* a part of the text that the question is about; "" for no answer, in data whose questions may lack one; "empty" if
     * no token can be an answer */
    const char *text;
    float start, end;   /* logits of the first and last token */
    double probability; /* softmax of start + end over the answers of the question */
} zr__answer;

/** Begin to collect answers. `questions` is an object of the kind ZR_LABELLED_ANSWERS, which must remain open. In
 * each sample, the n_best best first tokens are combined with the n_best best last tokens, and for each question the
 * n_best best answers are kept (0 for 20). max_answer_length is the maximum number of tokens of an answer (0 for 30).
 * Errors: ZR_ERR_ARG; ZR_ERR_DATA if two questions have the same id; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__answers_open(zr_labelled *questions, int64_t n_best, int64_t max_answer_length,
                                        zr__answers **answers);
void zr__answers_close(zr__answers **answers);

/** Add the logits (T, 2) of a row of `questions`. A token has two logits: as the first and as the last token of the
 * answer. Rows may come in any order. Only logits of the samples' own tokens are read, not the padding's. Errors: as
 * for zr_labelled_read, and ZR_ERR_DATA if a logit is not finite. */
ZR_NODISCARD zr_status zr__answers_add(zr__answers *answers, int64_t row, const float *logits);

/** Find the answers to a question, the best answer first, when the logits of all of its samples have been added. *id
 * receives the question's id, *list its answers and *n their number, from 1 to n_best; "" may be added. The pointers
 * are valid until the next call. Errors: ZR_ERR_ARG if `question` is out of range; ZR_ERR_STATE if logits are missing;
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__answers_get(zr__answers *answers, int64_t question, const char **id, const zr__answer **list,
                                       int64_t *n);

/** Set the threshold of no answer, by default 0. In data whose questions may lack an answer, the answer is "" if the
 * sum of [CLS]'s logits, in the window where it is least, exceeds the sum of the best other answer by more than
 * this. */
void zr__answers_threshold(zr__answers *answers, double threshold);

/** Print the best answers as the JSON object {"ID": "ANSWER", ...} that SQuAD's evaluation script reads. Free *json
 * with zr_free. Errors: as for zr__answers_get. */
ZR_NODISCARD zr_status zr__answers_json(zr__answers *answers, char **json);

/** Result of SQuAD's evaluation, version 1.1, or 2.0 for data whose questions may lack an answer. */
typedef struct zr__answers_scored {
    double exact, f1; /* percentage of answers that are exactly right; mean F1 score in percent */
    int64_t questions;
    /* Only of version 2.0; otherwise `lack` is -1: */
    int64_t lack;             /* number of questions without an answer */
    double has_exact, has_f1; /* scores of the other questions, or 0 if all lack an answer */
    double no_exact;          /* percentage of the questions without an answer that get "", or 0 */
    /* the largest F1 score of all thresholds, and a threshold that gives it, if each question got its best answer or ""
     */
    double best_f1, best_threshold;
} zr__answers_scored;
/** Compare the best answers with the reference answers. Errors: as for zr__answers_get. */
ZR_NODISCARD zr_status zr__answers_score(zr__answers *answers, zr__answers_scored *scored);

#endif
