/** trained.json, a file beside the weights of a run. The file records the step after which the weights were written,
 * and their validation loss. A resumed run reads it to know which weights it would replace. */
#ifndef ZR_TRAIN_TRAINED_H
#define ZR_TRAIN_TRAINED_H

#include "train/dir/run_files.h"
#include "zr/base.h"

#include <stdint.h>

typedef struct zr__trained {
    int64_t step;    /* training step, from 1; -1 if unknown */
    double val_loss; /* validation loss in nats per token; infinity if unknown */
} zr__trained;

/** Write trained.json without values into `dir`, to reserve its disk space. Errors: ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trained_reserve(const char *dir);

/** Write the values into the reserved trained.json, and sync the file. Errors: ZR_ERR_NOT_FOUND, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trained_write(const char *dir, const zr__trained *trained);

/** Read trained.json. If the file is missing or malformed, set the values that mean "unknown". Errors: ZR_ERR_IO,
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trained_read(const char *dir, zr__trained *trained);

#endif
