/** Reads questions, texts and answers from SQuAD's files, and divides them into samples. */
#ifndef ZR_DATA_LABELLED_QUESTIONS_H
#define ZR_DATA_LABELLED_QUESTIONS_H

#include "base/text/text.h"
#include "data/labelled/list.h"

/** A question. Offsets are into zr__questions.strings. */
typedef struct zr__question {
    int64_t id, text; /* offsets of the question's id, and of the text that it is about */
    /* offset of the first answer, which the other answers follow; number of answers, 0 if the text does not answer it
     */
    int64_t answer, answers;
    int64_t token;           /* index in the list of the text's first token */
    int64_t sample, samples; /* index in the list of the question's first sample; number of its samples */
} zr__question;

typedef struct zr__questions {
    zr__labelled_list *list;
    int64_t seq_length, stride, most_query; /* T, zr_labelled_args.doc_stride and max_query_length */
    bool every;                             /* zr_labelled_args.every_question */
    zr_data_part part;
    int64_t paragraphs; /* number of paragraphs read, of all parts */
    zr__text strings;   /* texts, each terminated by '\0' */
    zr__question *question;
    int64_t n, room;
    int64_t read;      /* total bytes of the files that have been read */
    bool may_lack;     /* whether questions may have no answer: the files mark each question (SQuAD 2.0) */
    int64_t lost, cut; /* number of questions whose answer is not at answer_start; number of questions that were cut */
    char first_lost[128]; /* file and id of the first lost question */
} zr__questions;

/** Set up the reader. Call zr__questions_free even after a failure. Errors: ZR_ERR_CONFIG if doc_stride leaves gaps
 * between windows; ZR_ERR_UNSUPPORTED if the tokenizer is not one of BERT's. */
ZR_NODISCARD zr_status zr__questions_open(const zr_labelled_args *args, zr__labelled_list *list,
                                          zr__questions *questions);
void zr__questions_free(zr__questions *questions);
/** Return the bytes of memory that the questions hold, without the list. */
int64_t zr__questions_bytes(const zr__questions *questions);

/** Read a file. Errors: as zr_labelled_open. */
ZR_NODISCARD zr_status zr__questions_read(zr__questions *questions, const char *path);

#endif
