/** Reads ready rows from a .safetensors file, as zr_pairs_open describes. */
#ifndef ZR_DATA_PAIRS_READY_H
#define ZR_DATA_PAIRS_READY_H

#include "zr/checkpoint.h"
#include "zr/data.h"

typedef struct zr__ready {
    zr_safetensors *file;
    const zr_safetensors_tensor *ids, *labels;           /* both must be there */
    const zr_safetensors_tensor *segments, *mask, *next; /* each may be NULL */
    char name[256];                                      /* printable form of the path, for messages */
    int64_t rows, seq_length, predictions, samples, vocab_size;
    int64_t tokens, without_prediction; /* number of tokens without padding; number of rows without predicted token */
    int64_t *row, row_room;             /* numbers in the file of the rows of the part; NULL for all rows */
    int32_t *stage;                     /* buffer for the labels and the mask of a row */
} zr__ready;

/** Open a file and check all of its rows. Of args->path, only the file `path` is read. Call zr__ready_close even after
 * a failure. Errors: as zr_pairs_open. */
ZR_NODISCARD zr_status zr__ready_open(const zr_pairs_args *args, const char *path, zr__ready *ready);
void zr__ready_close(zr__ready *ready);

/** Read row number `row` of the file. */
ZR_NODISCARD zr_status zr__ready_read(const zr__ready *ready, int64_t row, const zr_pairs_row *out);

/** Read all bytes of the file, and store their XXH3-64 hash in *hash unless it is NULL. */
ZR_NODISCARD zr_status zr__ready_hash(const zr__ready *ready, uint64_t *hash, zr_progress_fn fn, void *arg);

#endif
