/**
 * train/family: families of models, and the inputs that a configuration names (inputs.h: data and initial weights;
 * paths.h: files of a run that has moved). A family's row of the table holds everything that configurations,
 * directories and batches need to know of one kind of model; the rest of this layer knows no kind. A row is a file of
 * its own, family_<name>.c, beside the builder in src/models, and a line of the table in family.c.
 */
#ifndef ZR_TRAIN_FAMILY_H
#define ZR_TRAIN_FAMILY_H

#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/config.h"
#include "zr/models.h"

/** A kind of model that a configuration can name (model.type). */
typedef struct zr__family zr__family;

/** Room for the numbers of any family, in bytes. */
#define ZR_FAMILY_BYTES 256

/** A model of some family: a plain value, which may be copied freely. */
typedef struct zr__family_model {
    const zr__family *family;
    zr_config_sizes sizes;
    const char *frozen; /* patterns as in zr_model.frozen; borrowed from the configuration */
    union {
        char bytes[ZR_FAMILY_BYTES];
        int64_t integer;
        double real;
    } numbers; /* numbers of the family, the argument of its builder */
} zr__family_model;

/** Return the builder of a model, for zr_plan_create and zr__products_measure. `model` is borrowed. */
zr_model zr__family_builder(const zr__family_model *model);

/** Find a model by the name of its shape (model.preset), without dropout. ZR_ERR_NOT_FOUND naming the nearest ones. */
ZR_NODISCARD zr_status zr__family_find_preset(const char *name, zr__family_model *model);

/** Return the i-th name of a shape; NULL after the last. */
const char *zr__family_preset_name(int i);

/** A reader of tokens and targets number `index` of a source; a target of -1 does not count. For a zr_data:
 * zr__data_sample, zr__data_window. */
typedef zr_status (*zr__data_fn)(void *source, int64_t index, int32_t *tokens, int32_t *targets);
zr_status zr__data_sample(void *data, int64_t sample, int32_t *tokens, int32_t *targets);
zr_status zr__data_window(void *data, int64_t window, int32_t *tokens, int32_t *targets);

/** A row of the table. `numbers` is the family's own struct, in zr__family_model.numbers. */
struct zr__family {
    const char *name; /* model.type, and model_type of a directory's config.json */

    /* The family's numbers: of a named shape, of a resolved configuration, of a directory's config.json. */
    const char *const *(*presets)(void); /* names, NULL at the end */
    zr_status (*preset)(const char *name, void *numbers);
    void (*configure)(const zr_config *config, void *numbers);
    zr_status (*read)(const char *dir, void *numbers);

    zr_status (*check)(const void *numbers); /* ZR_ERR_CONFIG with the field */
    zr_config_sizes (*sizes)(const void *numbers);
    zr_model (*builder)(const void *numbers); /* `numbers` is borrowed */

    /* Hugging Face directories: settings besides the sizes that the configuration of a run started from one adopts,
     * config.json, and the names of tensors. */
    zr_status (*adopt)(const void *numbers, zr_config *config);
    zr_status (*tell)(const char *dir, zr_config *config); /* add a note on settings that are not adopted */
    zr_status (*write)(const char *dir, const void *numbers);
    const zr_hf_names *(*names)(void);

    /* Row `row` of a micro-batch's inputs, for sequences of T = seq tokens: a sequence of the source, or one that does
     * not count. */
    zr_status (*fill)(void *source, zr__data_fn read, int64_t index, int64_t seq, int64_t row, void *const *input);
    void (*pad)(int64_t seq, int64_t row, void *const *input);
};

extern const zr__family zr__family_gpt2;

/** Return the table; *n: its number of rows. */
const zr__family *const *zr__families(int *n);

/** Find the family of a configuration; of a directory's config.json (ZR_ERR_NOT_FOUND, ZR_ERR_DATA). */
ZR_NODISCARD zr_status zr__family_of(const zr_config *config, const zr__family **family);
ZR_NODISCARD zr_status zr__family_of_dir(const char *dir, const zr__family **family);

/** Look up a model of this family by the name of its shape. ZR_ERR_NOT_FOUND names the nearest shapes. */
ZR_NODISCARD zr_status zr__family_preset(const zr__family *family, const char *name, zr__family_model *model);

/** Read the model of a directory's config.json. ZR_ERR_DATA names the file when it is of another family, or its sizes
 * are beyond the limits of zr's builder. */
ZR_NODISCARD zr_status zr__family_read(const zr__family *family, const char *dir, zr__family_model *model);

/** Fill and pad rows of models that predict the next token: inputs are tokens and targets, (B,T) I32 each. */
ZR_NODISCARD zr_status zr__next_token_fill(void *source, zr__data_fn read, int64_t index, int64_t seq, int64_t row,
                                           void *const *input);
void zr__next_token_pad(int64_t seq, int64_t row, void *const *input);

/** Find the model of a resolved configuration. */
ZR_NODISCARD zr_status zr__train_model(const zr_config *config, zr__family_model *model);

#endif
