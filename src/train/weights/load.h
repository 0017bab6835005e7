/** Loading of trained weights in one rank, ready to run: from a run's directory, a checkpoint or a Hugging Face
 * directory. */
#ifndef ZR_TRAIN_LOAD_H
#define ZR_TRAIN_LOAD_H

#include "train/family/family.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/device.h"
#include "zr/engine.h"
#include "zr/plan.h"

#include <limits.h>

typedef struct zr__loaded {
    zr__stored stored; /* kind and paths of the directory */
    zr_config *config; /* the run's; NULL where the weights are no run's */
    zr__family_model model;
    zr_weights *weights;
    zr_comm *comm;
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
} zr__loaded;

/** Open and check a directory; allocates nothing of the model's size. */
ZR_NODISCARD zr_status zr__load_open(const char *dir, zr__loaded *loaded);

/** Read the run's configuration; it stays NULL where the weights are no run's, or the file is missing. */
ZR_NODISCARD zr_status zr__load_config(zr__loaded *loaded);

/** Find the tokenizer that belongs to the weights; *name is as zr_tokenizer_open takes it. The first that exists, of:
 * "bytes", where the run says so; the files beside the weights, or in the run's model/; the tokenizer that the run was
 * trained with; "bytes", where the vocabulary has ZR__BYTES_VOCAB tokens; else NULL: unknown. `found`: the buffer of a
 * path. ZR_ERR_NOT_FOUND: the run's tokenizer is gone, or a path is too long. */
ZR_NODISCARD zr_status zr__load_tokenizer(const zr__loaded *loaded, char found[PATH_MAX], const char **name);

/** Plan, allocate and fill an engine. The layout's dtype is set here: the run's, or F32 without a run. */
ZR_NODISCARD zr_status zr__load_start(zr__loaded *loaded, zr_layout *layout, int threads);

void zr__load_close(zr__loaded *loaded);

#endif
