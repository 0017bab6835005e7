/** Names of the files and folders in a run's directory, except for checkpoints (zr_checkpoint_name) and event files
 * (zr__events_name). */
#ifndef ZR_TRAIN_RUN_FILES_H
#define ZR_TRAIN_RUN_FILES_H

#include "zr/base.h"

#include <limits.h>

#define ZR_RUN_CONFIG "config.json"    /* configuration of the run, or of the model in a directory of weights */
#define ZR_RUN_METRICS "metrics.jsonl" /* file with one line for each step, evaluation and sample */
#define ZR_RUN_REPORT "run.json"       /* planned and measured numbers of the run, written when it ends */
#define ZR_RUN_LOCK "lock"             /* lock file; exists while a process uses the directory */
#define ZR_RUN_LATEST "latest"         /* file that names the newest checkpoint, for other programs */
#define ZR_RUN_PICTURE "loss.svg"      /* the loss curve, drawn by an observer of the run */
#define ZR_RUN_MODEL "model"           /* folder of the final weights */
#define ZR_RUN_MODEL_NEW "model.tmp"   /* name of the folder `model` until its weights are complete */
#define ZR_RUN_MODEL_OLD                                                                                               \
    "model.old"            /* previous `model` while it is replaced; if it remains, it has files of the user */
#define ZR_RUN_BEST "best" /* folder of the weights with the lowest val_loss (train.keep_best) */
#define ZR_RUN_WEIGHTS "model.safetensors" /* name of the weights file in model, model.tmp, model.old and best */
#define ZR_RUN_WEIGHTS_INDEX ZR_RUN_WEIGHTS ".index.json" /* name of the index of several weights files */
#define ZR_TRAINED_NAME "trained.json"                    /* file with the step and loss of the weights (zr__trained) */

/** Return the name of the file that shows that a directory has weights: the weights file, the index of several weights
 * files, or the file of adapters. Look for each name with `suffix` appended; links count as files. Return NULL if there
 * is none. */
const char *zr__weights_in(const char *dir, const char *suffix);

/* ---- trained.json (trained.c) --------------------------------------------------------------------------------- */

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

/* ---- new directories (new_dir.c) ------------------------------------------------------------------------------ */

/** Create the directory `to`.tmp, which must not exist, since another command may be writing it. `name` receives the
 * path `to` without trailing slashes, and `tmp` the path of the new directory. Fail with ZR_ERR_CREATE if the directory
 * cannot be created. */
ZR_NODISCARD zr_status zr__new_dir_begin(const char *to, char name[PATH_MAX], char tmp[PATH_MAX]);

#endif
