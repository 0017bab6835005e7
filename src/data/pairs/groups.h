/**
 * Rows of samples. Neighbouring documents form groups with similar numbers of tokens, so that the samples of a row are
 * found by dividing the documents of one group again, and no list of samples is in memory. Of an epoch, only the first
 * row and the first sample of each group are kept.
 */
#ifndef ZR_DATA_PAIRS_GROUPS_H
#define ZR_DATA_PAIRS_GROUPS_H

#include "data/pairs/recipe.h"

/** The first row and the first sample of a group in an epoch. */
typedef struct zr__group_begin {
    int64_t row, sample;
} zr__group_begin;

/** An epoch: where its groups begin. */
typedef struct zr__epoch {
    bool made;
    uint32_t number;
    uint64_t used;          /* value of zr__groups.clock at the last use */
    zr__group_begin *begin; /* array of groups + 1 */
    int64_t tokens;         /* number of tokens of all rows without padding */
} zr__epoch;

/** The group that was divided last. */
typedef struct zr__divided {
    bool made;
    uint32_t epoch;
    int64_t group;
    zr__sample_list samples;
    int32_t *order; /* numbers of the samples in the group, row by row */
    int32_t *first; /* array of rows + 1: place of each row's first sample in `order` */
    int64_t order_room, first_room, rows;
} zr__divided;

enum { ZR__EPOCHS_KEPT = 2 }; /* rows of two epochs may be read alternately where one ends */

typedef struct zr__groups {
    const zr__recipe *recipe;
    int64_t row_samples; /* maximum number of samples in a row */
    int64_t *first;      /* array of n + 1: first document of each group */
    int64_t n, room;
    zr__epoch epoch[ZR__EPOCHS_KEPT];
    uint64_t clock;
    int64_t *rows_before; /* array of epochs + 1: number of rows in all epochs before each known epoch */
    int64_t epochs, epochs_room;
    zr__divided divided;
} zr__groups;

/** Form groups, and divide all documents once, for epoch 0. Call zr__groups_close even after a failure. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__groups_open(const zr__recipe *recipe, int64_t row_samples, zr__groups *groups);
void zr__groups_close(zr__groups *groups);
/** Return the bytes of memory that the groups hold. */
int64_t zr__groups_bytes(const zr__groups *groups);

/** Find an epoch. The pointer is valid until the next call. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__groups_epoch(zr__groups *groups, uint32_t number, const zr__epoch **epoch);

/** Find the epoch of a row, and the number of the row in its epoch. Errors: ZR_ERR_ARG if the epoch reaches 2^32;
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__groups_find(zr__groups *groups, int64_t row, uint32_t *epoch, int64_t *own);

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
