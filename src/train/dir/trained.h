/** trained.json, beside weights that a run leaves: after how many steps, and with what loss of an evaluation. A run
 * that goes on reads there which weights it would replace. */
#ifndef ZR_TRAIN_TRAINED_H
#define ZR_TRAIN_TRAINED_H

#include "zr/base.h"

#include <stdint.h>

#define ZR_TRAINED_NAME "trained.json"

typedef struct zr__trained {
    int64_t step;    /* of training, from 1; -1: not known */
    double val_loss; /* nats a token; infinity: not known */
} zr__trained;

/** Make dir/trained.json with nothing known in it, and take its space. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trained_reserve(const char *dir);

/** Write it in the space that it has, and bring it to the disk. ZR_ERR_NOT_FOUND, ZR_ERR_IO. */
ZR_NODISCARD zr_status zr__trained_write(const char *dir, const zr__trained *trained);

/** Read it; a file that is missing or says something else makes nothing known. ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__trained_read(const char *dir, zr__trained *trained);

#endif
