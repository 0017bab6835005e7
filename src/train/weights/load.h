/** Trained weights in one rank, ready to run: a run's directory, a checkpoint or a Hugging Face directory. */
#ifndef ZR_TRAIN_LOAD_H
#define ZR_TRAIN_LOAD_H

#include "train/family/inputs.h"

#include <limits.h>

/** What a model without a known tokenizer must have for its tokens to be bytes. */
#define ZR__BYTES_VOCAB 256

typedef struct zr__loaded {
    zr_stored stored;  /* what was found */
    zr_config *config; /* the run's; NULL for a Hugging Face directory */
    zr_family_model model;
    zr_weights *weights;
    zr_comm *comm;
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
} zr__loaded;

/** Open and check a directory; allocates nothing of the model's size. */
ZR_NODISCARD zr_status zr__load_open(const char *dir, zr__loaded *loaded);

/** Read the run's configuration; it stays NULL where the weights are no run's, or it is not there. */
ZR_NODISCARD zr_status zr__load_config(zr__loaded *loaded);

/** The name of the tokenizer that belongs to the weights, as zr_tokenizer_open takes it: "bytes", where the run says
 * so; or else the files beside the weights, or in the run's model/; what the run was trained with; or "bytes", where
 * the model has as many tokens; NULL: none is known. `found`: where a path lies. ZR_ERR_NOT_FOUND: the run's is not
 * there any more, or a path is too long. */
ZR_NODISCARD zr_status zr__load_tokenizer(const zr__loaded *loaded, char found[PATH_MAX], const char **name);

/** Plan, allocate and fill an engine. The layout's dtype is set here: the run's, F32 without one. */
ZR_NODISCARD zr_status zr__load_start(zr__loaded *loaded, zr_layout *layout, int threads);

void zr__load_close(zr__loaded *loaded);

#endif
