/** trained.json, beside weights that a run leaves: the step after which they were written, and their evaluation loss.
 * A resumed run reads there which weights it would replace. */
#ifndef ZR_TRAIN_TRAINED_H
#define ZR_TRAIN_TRAINED_H

#include "train/dir/run_files.h"
#include "zr/base.h"

#include <stdint.h>

typedef struct zr__trained {
    int64_t step;    /* training step, from 1; -1: unknown */
    double val_loss; /* nats per token; infinity: unknown */
} zr__trained;

/** Write dir/trained.json without values, and reserve its disk space. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trained_reserve(const char *dir);

/** Write the values into the reserved space and sync the file. ZR_ERR_NOT_FOUND, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trained_write(const char *dir, const zr__trained *trained);

/** Read trained.json; values of a missing or malformed file are unknown. ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trained_read(const char *dir, zr__trained *trained);

#endif
