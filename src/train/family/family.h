/**
 * train/family: a model with its settings, and the rows of its batches. Families themselves are in zr/models.h, and the
 * code in train works for every family.
 *
 * inputs.h opens the data and the initial weights that a configuration names. paths.h finds the files of a run that has
 * moved.
 */
#ifndef ZR_TRAIN_FAMILY_H
#define ZR_TRAIN_FAMILY_H

#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/config.h"
#include "zr/plan.h"

/** A model with its sizes and settings. Copies are allowed, but `frozen` is borrowed. */
typedef struct zr__family_model {
    const zr_family *family;
    zr_model_sizes sizes;
    const char *frozen; /* name patterns of frozen parameters (see zr_model.frozen); borrowed from the configuration */
    zr_lora lora;       /* low-rank adapters (see zr_model.lora); its targets are borrowed like `frozen` */
    zr_model_config config; /* struct of the family, the argument of its builder */
} zr__family_model;

/** Return the builder of a model, for zr_plan_create and zr__products_measure. `model` is borrowed. */
zr_model zr__family_builder(const zr__family_model *model);

/** Find a model by the name of its preset (model.preset), without dropout. If the name is unknown, or if it is the path
 * of a directory, fail with ZR_ERR_NOT_FOUND. The message has the nearest names or, for a directory, the key for
 * directories. */
ZR_NODISCARD zr_status zr__family_find_preset(const char *name, zr__family_model *model);

/** A row of a batch, of T tokens with at most P predicted tokens and S samples (zr_samples). Members that the samples
 * do not have are NULL. The loss ignores targets, labels and answers of -1. */
typedef struct zr__row {
    int32_t *tokens, *targets;        /* (T) */
    int32_t *segments;                /* (T) */
    int32_t *masked, *masked_targets; /* (P); of tagged sentences, the words and their tags */
    int32_t *first, *next, *label;    /* (S) */
    int32_t *answer;                  /* (S,2) */
    /* (T) beginnings of documents (zr_data_documents), or NULL if rows have no documents */
    int32_t *documents;
} zr__row;

/** Function that reads sequence `index` from a source into a row. Examples are zr__samples_read and zr__samples_window
 * (samples.h). */
typedef zr_status (*zr__data_fn)(void *source, int64_t index, const zr__row *row);

/** Read the model in a directory's config.json. Errors: as zr_hf_read. */
ZR_NODISCARD zr_status zr__family_read(const char *dir, zr__family_model *model);

/** Return the samples on which a model is trained. */
zr_samples zr__family_samples(const zr__family_model *model);
/** Return the number of labels of a model's classification, or 0 if its family has no labels. */
int64_t zr__family_labels(const zr__family_model *model);

/** Return row `row` of a micro-batch's inputs, for samples of a kind. With layout->documents the row also has the
 * beginnings of its documents. */
zr__row zr__row_at(zr_samples kind, const zr_layout *layout, int64_t row, void *const *input);
/** Write a row that the loss ignores. */
void zr__row_pad(const zr_layout *layout, const zr__row *row);
/** Add a row's number of losses of each loss term to counted[term]. */
void zr__row_losses(const zr_layout *layout, const zr__row *row, int64_t *counted);
/** For each loss term, subtract the number of a row's targets that do not count from counted[term]. */
void zr__row_count(const zr_layout *layout, const zr__row *row, int64_t *counted);

/** Set *model from a resolved configuration, and check the model's sizes. */
ZR_NODISCARD zr_status zr__train_model(const zr_config *config, zr__family_model *model);

#endif
