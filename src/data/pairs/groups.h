/**
 * Rows of sentence pairs. Neighbouring documents form groups with similar numbers of tokens, so that to find the
 * samples of a row, only the documents of one group must be divided again.
 */
#ifndef ZR_DATA_PAIRS_GROUPS_H
#define ZR_DATA_PAIRS_GROUPS_H

#include "data/pairs/recipe.h"
#include "data/samples/rows.h"

typedef struct zr__groups {
    const zr__recipe *recipe;
    int64_t *first; /* array of n + 1: first document of each group */
    int64_t n, room;
    zr__sample_list samples; /* samples of the group that was divided last */
    int32_t *found;          /* buffer for the samples of a row */
    zr__rows rows;
} zr__groups;

/** Form groups, and divide all documents once, for epoch 0. The object must not move. Call zr__groups_close even after
 * a failure. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__groups_open(const zr__recipe *recipe, int64_t row_samples, zr__groups *groups);
void zr__groups_close(zr__groups *groups);
/** Return the bytes of memory that the groups hold. */
int64_t zr__groups_bytes(const zr__groups *groups);

/** A sample of a row, and its number in its epoch. */
typedef struct zr__row_sample {
    const zr__sample *sample;
    int64_t number;
} zr__row_sample;

/** Find the samples of a row of an epoch. `found` has space for row_samples samples, *n receives their number. The
 * pointers are valid until the next call. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__groups_row(zr__groups *groups, uint32_t epoch, int64_t row, zr__row_sample *found,
                                      int64_t *n);

#endif
