/** Inputs of a run: token files and initial weights. The inputs are opened and checked before the run creates any
 * output. */
#ifndef ZR_TRAIN_INPUTS_H
#define ZR_TRAIN_INPUTS_H

#include "checkpoint/checkpoint.h"
#include "train/family/samples.h"

typedef struct zr__inputs {
    zr__samples train;
    zr__samples val;     /* validation data, or not open */
    zr_weights *weights; /* initial weights, or NULL for random weights */
    char note[512];      /* names of tensors in the weights that the model does not use, or "" */
    char fresh[512];     /* names of parameters that the weights of another task do not have, or "" */
} zr__inputs;

/** Open the inputs. `first` is true on the rank that opens them before the other ranks of its host. Only this rank
 * checks cached tokens. `progress` is called while a text is tokenized, and may be NULL. Close the inputs even after a
 * failure. */
ZR_NODISCARD zr_status zr__inputs_open(const zr_config *config, bool first, zr_progress_fn progress, void *arg,
                                       zr__inputs *inputs);
void zr__inputs_close(zr__inputs *inputs);

/** Return whether a parameter gets random initial values although the run has initial weights, because these were
 * trained for another task and lack the parameter (zr_hf_names.heads). */
bool zr__inputs_lack(const zr__inputs *inputs, const char *param);

/** Copy the keys that all readers of data need into `args`: tokenizer, packing, chat template, text key, handling of
 * bad lines, and cache folder. args->documents is set if rows hold several documents, as zr_layout.documents. */
void zr__data_keys(const zr_config *config, zr_data_args *args);

/** Open the weights of a Hugging Face directory of any family, and check that they fit its config.json. `note` (of
 * `size` bytes) receives the names of tensors that the model does not use. Close *weights even after a failure. */
ZR_NODISCARD zr_status zr__weights_of_dir(const char *dir, zr__family_model *model, zr_weights **weights, char *note,
                                          size_t size);

/** Check that n elements x of a tensor, beginning at index `first`, are finite. If not, fail with ZR_ERR_DATA. The
 * message names `where` (unless it is ""), the tensor and the first bad element. */
ZR_NODISCARD zr_status zr__weights_finite(const char *where, const char *tensor, int64_t first, const float *x,
                                          int64_t n);
/** Read elements of a parameter from a weights file, and check that they are finite. This is a zr_fill_fn whose `arg`
 * is a zr_weights. */
zr_status zr__weights_fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Sets of parameters. */
typedef enum zr__params {
    ZR_PARAMS_ALL,
    ZR_PARAMS_BASE,    /* all but adapters */
    ZR_PARAMS_STORED,  /* parameters in the checkpoints of a run: adapters in a model with adapters, otherwise all */
    ZR_PARAMS_TRAINED, /* parameters with optimizer states */
    ZR_PARAMS_HIDDEN,  /* hidden matrices (zr_param_info.hidden) */
    ZR_PARAMS_REST     /* trained parameters that are not hidden matrices */
} zr__params;

/** Return the parameter of a graph with this name, or NULL. */
const zr_param_info *zr__param_named(const zr_graph *graph, const char *name);

/** Return whether a parameter is in a set. `adapters` says whether the model has adapters. */
bool zr__param_in(const zr_param_info *param, zr__params set, bool adapters);

/** List the names and shapes of a graph's parameters that are in a set, in order. The names are borrowed from `graph`;
 * zr_free the list. */
ZR_NODISCARD zr_status zr__param_specs(const zr_graph *graph, zr__params set, zr__tensor_spec **specs, int64_t *n);

/** Build the model's graph with one sequence of one token, only to list its parameters. Destroy the graph even after a
 * failure. */
ZR_NODISCARD zr_status zr__param_graph(const zr__family_model *model, zr_graph **graph);

#endif
