/**
 * BERT's recipe (Devlin et al. 2018): divides documents into samples, and masks their tokens. Random numbers depend on
 * the seed, the epoch, and the document or the sample.
 */
#ifndef ZR_DATA_PAIRS_RECIPE_H
#define ZR_DATA_PAIRS_RECIPE_H

#include "data/pairs/corpus.h"

/** A sample: its parts A and B, before they are shortened to fit. A single text has no B, and fits. */
typedef struct zr__sample {
    int64_t a, b;     /* index of the first token of A (of B) in the corpus */
    int64_t a_n, b_n; /* number of tokens of A (of B) */
    bool random;      /* whether B is from another document */
} zr__sample;

/** Samples of neighbouring documents. */
typedef struct zr__sample_list {
    zr__sample *sample;
    int64_t n, room;
} zr__sample_list;

typedef struct zr__recipe {
    zr__corpus *corpus;
    int64_t seq_length, predictions;
    double masked, shorter;   /* zr_pairs_args.masked_lm_prob and short_seq_prob */
    bool whole_words, single; /* as in zr_pairs_args */
    uint64_t seed;
    int32_t *candidate; /* buffer for seq_length + 1 indices */
    bool *chosen;       /* buffer for seq_length flags */
    unsigned char *stage;
} zr__recipe;

/** Set up the recipe. Call zr__recipe_close even after a failure. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__recipe_open(const zr_pairs_args *args, zr__corpus *corpus, zr__recipe *recipe);
void zr__recipe_close(zr__recipe *recipe);

/** Append the samples of a document. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__recipe_divide(const zr__recipe *recipe, uint32_t epoch, int64_t document,
                                         zr__sample_list *samples);

/** Compute the numbers of tokens of A and B that a sample keeps. */
void zr__recipe_parts(const zr__recipe *recipe, const zr__sample *sample, int64_t *a, int64_t *b);
/** Return the number of tokens of a sample, with [CLS] and [SEP]. */
int64_t zr__recipe_length(const zr__recipe *recipe, const zr__sample *sample);
/** Return the number of predicted tokens of a sample; with whole_words it may have fewer. */
int64_t zr__recipe_predictions(const zr__recipe *recipe, const zr__sample *sample);

/** Write a sample's tokens, segments and documents into a row from index `at` on, and its predicted tokens to masked
 * and masked_targets, whose first *n elements are in use. `number` is the sample's number in its epoch. Error:
 * ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__recipe_write(const zr__recipe *recipe, uint32_t epoch, int64_t number,
                                        const zr__sample *sample, int64_t at, const zr_pairs_row *row, int64_t *n);

#endif
