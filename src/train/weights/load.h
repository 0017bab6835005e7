/** Loading of trained weights into an engine on one rank. The weights come from a run's directory, a checkpoint or a
 * Hugging Face directory. */
#ifndef ZR_TRAIN_LOAD_H
#define ZR_TRAIN_LOAD_H

#include "train/family/family.h"
#include "train/weights/weights.h"
#include "zr/engine.h"

#include <limits.h>

typedef struct zr__loaded {
    zr__stored stored; /* where the weights are stored: their kind, their path and the directory of their run */
    zr_config *config; /* configuration of the run; NULL if the weights belong to no run */
    char base[4096];   /* directory of the base of adapters; "" if the weights are a whole model */
    zr__family_model model;
    zr_weights *weights;
    zr_comm *comm;
    zr_device *device;
    zr_plan *plan;
    zr_engine *engine;
} zr__loaded;

/** Open and check a directory, without allocating memory of the model's size. Call zr__load_close even after a failure.
 */
ZR_NODISCARD zr_status zr__load_open(const char *dir, zr__loaded *loaded);

/** Check the whole configuration and all weights of a checkpoint against their checksums, before any of its files is
 * used. */
ZR_NODISCARD zr_status zr__load_check(const char *dir);

/** Open the weights of loaded->stored. If they are adapters, also find their base, which loaded->config or
 * adapter_config.json names. */
ZR_NODISCARD zr_status zr__load_weights(zr__loaded *loaded);

/** Read the run's configuration into loaded->config. If the weights belong to no run or the file is missing,
 * loaded->config stays NULL. */
ZR_NODISCARD zr_status zr__load_config(zr__loaded *loaded);

/** Find the tokenizer that belongs to the weights. *name receives a name or path for zr_tokenizer_open, or NULL if the
 * tokenizer is unknown. Use the first available tokenizer of this list: (1) "bytes", if the run's configuration names
 * it; (2) the tokenizer files beside the weights or in the run's model/; (3) the tokenizer with which the run was
 * trained; (4) the tokenizer files of the base of adapters; (5) "bytes", if the vocabulary has ZR__BYTES_VOCAB tokens.
 * `found` is a buffer for the path. Fail with ZR_ERR_NOT_FOUND if the run's tokenizer is missing or a path is too long.
 */
ZR_NODISCARD zr_status zr__load_tokenizer(const zr__loaded *loaded, char found[PATH_MAX], const char **name);

/** Create an engine and fill it with the weights. Set the dtype of `layout` to the run's dtype, or to F32 if the
 * weights belong to no run. */
ZR_NODISCARD zr_status zr__load_start(zr__loaded *loaded, zr_layout *layout, int threads);

void zr__load_close(zr__loaded *loaded);

#endif
