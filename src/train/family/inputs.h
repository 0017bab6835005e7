/** What a run reads: token files, initial weights. Opened and checked before anything is created. */
#ifndef ZR_TRAIN_INPUTS_H
#define ZR_TRAIN_INPUTS_H

#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/train.h"

typedef struct zr__inputs {
    zr_data *train;
    zr_data *val;        /* NULL: none */
    zr_weights *weights; /* NULL: random initial weights */
    char note[512];      /* tensors of the weights that nothing wants, "" */
} zr__inputs;

/** `first`: no other rank of this host has opened them before, so that tokens in the cache are looked at. `progress`
 *  (may be NULL) is told how far a text is that must be tokenized first. */
ZR_NODISCARD zr_status zr__inputs_open(const zr_config *config, bool first, zr_progress_fn progress, void *arg,
                                       zr__inputs *inputs);
void zr__inputs_close(zr__inputs *inputs);

/** What the keys of data say to whoever opens it: tokenizer and texts. */
void zr__data_keys(const zr_config *config, zr_data_args *args);

/** Hold weights against a model's parameters. */
ZR_NODISCARD zr_status zr__weights_fit(const zr_weights *weights, const zr_family_model *model, char *note,
                                       size_t size);

/** Open a Hugging Face directory of any family, and hold its weights against its config.json. */
ZR_NODISCARD zr_status zr__weights_of_dir(const char *dir, zr_family_model *model, zr_weights **weights, char *note,
                                          size_t size);

/** ZR_ERR_DATA naming where (if not ""), the tensor and the first of its elements [first, first+n), x, not finite. */
ZR_NODISCARD zr_status zr__weights_finite(const char *where, const char *tensor, int64_t first, const float *x,
                                          int64_t n);
/** A zr_fill_fn; arg is a zr_weights. */
zr_status zr__weights_fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Names and shapes of a model's parameters, in order, or of those that train, for files. Names are borrowed from
 * `graph`. zr_free it. */
ZR_NODISCARD zr_status zr__param_specs(const zr_graph *graph, bool trained, zr_tensor_spec **specs, int64_t *n);

/** A graph of the model that is good for its parameters only. */
ZR_NODISCARD zr_status zr__param_graph(const zr_family_model *model, zr_graph **graph);

#endif
