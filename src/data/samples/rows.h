/**
 * Rows of samples. Samples come in groups, which their source makes again when they are needed, so that no list of all
 * samples is in memory. The samples of a group are packed into rows. For an epoch, only the index of each group's first
 * row and the index of its first sample are stored.
 */
#ifndef ZR_DATA_ROWS_H
#define ZR_DATA_ROWS_H

#include "zr/data.h"

/** Source of samples, and the space of a row. */
typedef struct zr__rows_source {
    int64_t groups;                       /* number of groups */
    int64_t tokens, predictions, samples; /* maximum number of tokens, predicted tokens and samples in a row */
    /** Make the samples of a group in an epoch. *n receives their number. */
    zr_status (*divide)(void *arg, uint32_t epoch, int64_t group, int64_t *n);
    /** Store the number of tokens and of predicted tokens of sample i of the group that was divided last. */
    void (*measure)(void *arg, int64_t i, int64_t *tokens, int64_t *predictions);
    void *arg;
} zr__rows_source;

/** The first row and the first sample of a group in an epoch. */
typedef struct zr__group_begin {
    int64_t row, sample;
} zr__group_begin;

/** An epoch: where its groups begin. */
typedef struct zr__epoch {
    bool made;
    uint32_t number;
    uint64_t used;          /* value of zr__rows.clock at the last use */
    zr__group_begin *begin; /* array of groups + 1 */
    int64_t tokens;         /* number of tokens of all rows without padding */
} zr__epoch;

/** The group that was divided last. */
typedef struct zr__divided {
    bool made;
    uint32_t epoch;
    int64_t group;
    int64_t samples;
    int32_t *order; /* numbers of the samples in the group, row by row */
    int32_t *first; /* array of rows + 1: place of each row's first sample in `order` */
    int64_t order_room, first_room, rows;
} zr__divided;

/* Number of epochs that are kept. At the end of an epoch, its rows and rows of the next one may be read alternately. */
enum { ZR__EPOCHS_KEPT = 2 };

typedef struct zr__rows {
    zr__rows_source source;
    zr__epoch epoch[ZR__EPOCHS_KEPT];
    uint64_t clock;
    int64_t *rows_before; /* array of epochs + 1: number of rows in all epochs before each known epoch */
    int64_t epochs, epochs_room;
    zr__divided divided;
} zr__rows;

/** Divide all groups once, for epoch 0. Call zr__rows_close even after a failure. Errors: ZR_ERR_MEMORY, and any error
 * of the source. */
ZR_NODISCARD zr_status zr__rows_open(const zr__rows_source *source, zr__rows *rows);
void zr__rows_close(zr__rows *rows);
/** Return the bytes of memory that the rows hold. */
int64_t zr__rows_bytes(const zr__rows *rows);

/** Find an epoch. The pointer is valid until the next call. Errors: as zr__rows_open. */
ZR_NODISCARD zr_status zr__rows_epoch(zr__rows *rows, uint32_t number, const zr__epoch **epoch);

/** Find the epoch of a row, and the number of the row in its epoch. Rows are numbered from 0 through all epochs. In
 * sequential order all epochs are epoch 0; in shuffled order the rows of each epoch are permuted. Errors: ZR_ERR_ARG if
 * the row is negative or its epoch reaches 2^32; as zr__rows_open. */
ZR_NODISCARD zr_status zr__rows_find(zr__rows *rows, zr_data_order order, uint64_t seed, int64_t row, uint32_t *epoch,
                                     int64_t *own);

/** Find the samples of a row of an epoch, and divide their group. `found` has space for `samples` numbers of samples in
 * the group, in their order in the row; *n receives how many there are. *first receives the number of the group's first
 * sample in the epoch. Errors: as zr__rows_open. */
ZR_NODISCARD zr_status zr__rows_samples(zr__rows *rows, uint32_t epoch, int64_t row, int32_t *found, int64_t *n,
                                        int64_t *first);

#endif
