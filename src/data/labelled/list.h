/** A list of labelled samples and their tokens. */
#ifndef ZR_DATA_LABELLED_LIST_H
#define ZR_DATA_LABELLED_LIST_H

#include "zr/data.h"

enum { ZR__NO_TEXT = -1 };

/** A sample: its texts, as ranges of the list's tokens, and its label or the place of its answer. */
typedef struct zr__labelled_sample {
    int64_t a, b;       /* index in the list of the first token of each text */
    int32_t a_n, b_n;   /* number of tokens of each text; b_n is ZR__NO_TEXT if there is no second text */
    int32_t label;      /* label, or -1 */
    int32_t begin, end; /* index in the sample of the answer's first and last token, or -1 */
    int64_t word;       /* index in the list of the first tagged word */
    int32_t words;      /* number of tagged words */
    bool cut;           /* whether a tagged sentence is longer than a row */
} zr__labelled_sample;

/** A tagged word: the index in its sample of its first token, and its tag. */
typedef struct zr__labelled_word {
    int32_t token, tag;
} zr__labelled_word;

typedef struct zr__labelled_list {
    const zr_tokenizer *tokenizer;
    int32_t cls, sep; /* tokens [CLS] and [SEP] */
    int32_t *token;
    int64_t tokens, token_room;
    zr__labelled_sample *sample;
    int64_t samples, sample_room;
    zr__labelled_word *word;
    int64_t words, word_room;
    int32_t *encoded; /* buffer for the tokens of a text */
    int64_t encoded_room;
} zr__labelled_list;

/** Set up a list. Call zr__labelled_list_free even after a failure. Error: ZR_ERR_CONFIG if the tokenizer lacks [CLS]
 * or [SEP]. */
ZR_NODISCARD zr_status zr__labelled_list_open(const zr_tokenizer *tokenizer, zr__labelled_list *list);
void zr__labelled_list_free(zr__labelled_list *list);
/** Return a hash of all tokens, labels and answers. It depends on the tokenizer and on the order of labels too. */
uint64_t zr__labelled_list_hash(const zr__labelled_list *list);
/** Return the bytes of memory that the list holds. */
int64_t zr__labelled_list_bytes(const zr__labelled_list *list);

/** Tokenize a text into list->encoded, which the next call overwrites. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__labelled_encode(zr__labelled_list *list, const char *text, int64_t bytes, int64_t *n);
/** Append tokens. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__labelled_add_tokens(zr__labelled_list *list, const int32_t *token, int64_t n);
/** Append a tagged word. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__labelled_add_word(zr__labelled_list *list, zr__labelled_word word);
/** Append a sample. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__labelled_add(zr__labelled_list *list, zr__labelled_sample sample);

/** Return the index in a sample of the first token of its second text. */
static inline int32_t zr__labelled_second(const zr__labelled_sample *sample)
{
    return sample->a_n + 2;
}

/** Return the number of tokens of a sample, with [CLS] and [SEP]. */
static inline int32_t zr__labelled_length(const zr__labelled_sample *sample)
{
    return zr__labelled_second(sample) + (sample->b_n == ZR__NO_TEXT ? 0 : sample->b_n + 1);
}

/** Write the tokens, segments and documents of a sample into a row from index `at` on. */
void zr__labelled_write(const zr__labelled_list *list, const zr__labelled_sample *sample, int64_t at,
                        const zr_labelled_row *row);

#endif
