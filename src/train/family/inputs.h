/** Inputs of a run: token files and initial weights, opened and checked before anything is created. */
#ifndef ZR_TRAIN_INPUTS_H
#define ZR_TRAIN_INPUTS_H

#include "train/family/family.h"
#include "zr/checkpoint.h"
#include "zr/config.h"
#include "zr/data.h"
#include "zr/graph.h"

typedef struct zr__inputs {
    zr_data *train;
    zr_data *val;        /* NULL: none */
    zr_weights *weights; /* NULL: random initial weights */
    char note[512];      /* on tensors that the model does not use; "": none */
} zr__inputs;

/** Open the inputs. `first`: no other rank of this host has opened them before, so that cached tokens are checked.
 * `progress` (may be NULL) reports on a text that must be tokenized first. */
ZR_NODISCARD zr_status zr__inputs_open(const zr_config *config, bool first, zr_progress_fn progress, void *arg,
                                       zr__inputs *inputs);
void zr__inputs_close(zr__inputs *inputs);

/** Copy the keys of `data` that any reader of the data needs: tokenizer, texts and cache folder. */
void zr__data_keys(const zr_config *config, zr_data_args *args);

/** Open a Hugging Face directory of any family, and check its weights against its config.json. */
ZR_NODISCARD zr_status zr__weights_of_dir(const char *dir, zr__family_model *model, zr_weights **weights, char *note,
                                          size_t size);

/** Check that x, elements [first, first+n) of a tensor, is finite. ZR_ERR_DATA names `where` (if not ""), the tensor
 * and the first element that is not. */
ZR_NODISCARD zr_status zr__weights_finite(const char *where, const char *tensor, int64_t first, const float *x,
                                          int64_t n);
/** Read a parameter's elements from a file; a zr_fill_fn whose arg is a zr_weights. */
zr_status zr__weights_fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** List the names and shapes of a model's parameters for a file, in order; `trained`: without frozen parameters. Names
 * are borrowed from `graph`. zr_free the list. */
ZR_NODISCARD zr_status zr__param_specs(const zr_graph *graph, bool trained, zr_tensor_spec **specs, int64_t *n);

/** Build a graph of the model that is used for its parameters only. */
ZR_NODISCARD zr_status zr__param_graph(const zr__family_model *model, zr_graph **graph);

#endif
