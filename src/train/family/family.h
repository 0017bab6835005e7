/**
 * train/family: the table of model families. A family's row has everything that configurations, directories and batches
 * need to know about one kind of model. All other code of this layer works for every kind. To add a family, write its
 * row in a new file family_<name>.c and its builder in src/models, and list the row in family.c.
 *
 * inputs.h opens the data and the initial weights that a configuration names. paths.h finds the files of a run that has
 * moved.
 */
#ifndef ZR_TRAIN_FAMILY_H
#define ZR_TRAIN_FAMILY_H

#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/config.h"
#include "zr/models.h"

/** A kind of model, selected by model.type in a configuration. */
typedef struct zr__family zr__family;

/** Maximum size of a family's configuration struct, in bytes. */
#define ZR_FAMILY_BYTES 256

/** A model of one family, with its sizes and settings. Copies are allowed, but `frozen` is borrowed. */
typedef struct zr__family_model {
    const zr__family *family;
    zr_config_sizes sizes;
    const char *frozen; /* name patterns of frozen parameters (see zr_model.frozen); borrowed from the configuration */
    union {
        char bytes[ZR_FAMILY_BYTES];
        int64_t integer;
        double real;
    } numbers; /* configuration struct of the family, the argument of its builder */
} zr__family_model;

/** Return the builder of a model, for zr_plan_create and zr__products_measure. `model` is borrowed. */
zr_model zr__family_builder(const zr__family_model *model);

/** Find a model by the name of its preset (model.preset), without dropout. If the name is unknown, fail with
 * ZR_ERR_NOT_FOUND and a message with the nearest names. */
ZR_NODISCARD zr_status zr__family_find_preset(const char *name, zr__family_model *model);

/** Return the i-th preset name, or NULL after the last name. */
const char *zr__family_preset_name(int i);

/** Function that reads the tokens and targets of sequence `index` from a source. The loss ignores targets of -1.
 * Examples are zr__data_sample and zr__data_window, whose source is a zr_data. */
typedef zr_status (*zr__data_fn)(void *source, int64_t index, int32_t *tokens, int32_t *targets);
zr_status zr__data_sample(void *data, int64_t sample, int32_t *tokens, int32_t *targets);
zr_status zr__data_window(void *data, int64_t window, int32_t *tokens, int32_t *targets);

/** A row of the table of families. In its functions, `numbers` points to the family's own struct in
 * zr__family_model.numbers. */
struct zr__family {
    const char *name; /* model.type in a configuration, and model_type in a directory's config.json */

    /* Functions for the sizes and settings `numbers`: list the presets, and fill `numbers` from a preset, from a
     * resolved configuration, or from a directory's config.json. */
    const char *const *(*presets)(void); /* returns the preset names, a list that ends with NULL */
    zr_status (*preset)(const char *name, void *numbers);
    void (*configure)(const zr_config *config, void *numbers);
    zr_status (*read)(const char *dir, void *numbers);

    zr_status (*check)(const void *numbers); /* checks the sizes; fails with ZR_ERR_CONFIG, naming the bad field */
    zr_config_sizes (*sizes)(const void *numbers);
    zr_model (*builder)(const void *numbers); /* `numbers` is borrowed */

    /* Functions for Hugging Face directories. `adopt` is called if a run starts from a directory. It copies the model's
     * settings other than the sizes into the configuration. `write` writes config.json. `names` returns the names of
     * tensors. */
    zr_status (*adopt)(const void *numbers, zr_config *config);
    zr_status (*tell)(const char *dir, zr_config *config); /* adds a note about settings that `adopt` does not copy */
    zr_status (*write)(const char *dir, const void *numbers);
    const zr_hf_names *(*names)(void);

    /* Functions that write row `row` of a micro-batch's inputs, with `seq` tokens per row. `fill` writes sequence
     * `index` of the source. `pad` writes a row that the loss ignores. */
    zr_status (*fill)(void *source, zr__data_fn read, int64_t index, int64_t seq, int64_t row, void *const *input);
    void (*pad)(int64_t seq, int64_t row, void *const *input);
};

extern const zr__family zr__family_gpt2;

/** Return the table of families; *n receives its number of rows. */
const zr__family *const *zr__families(int *n);

/** Find the family of a configuration (zr__family_of), or of a directory's config.json (zr__family_of_dir). The second
 * function fails with ZR_ERR_NOT_FOUND or ZR_ERR_DATA. */
ZR_NODISCARD zr_status zr__family_of(const zr_config *config, const zr__family **family);
ZR_NODISCARD zr_status zr__family_of_dir(const char *dir, const zr__family **family);

/** Find a preset of this family by name. If the name is unknown, fail with ZR_ERR_NOT_FOUND and a message with the
 * nearest names. */
ZR_NODISCARD zr_status zr__family_preset(const zr__family *family, const char *name, zr__family_model *model);

/** Read the model in a directory's config.json. Fail with ZR_ERR_DATA, naming the file, if the model is of another
 * family or its sizes are beyond the limits of zr's builder. */
ZR_NODISCARD zr_status zr__family_read(const zr__family *family, const char *dir, zr__family_model *model);

/** Fill or pad one row of the inputs of a next-token model. The inputs are tokens and targets, each (B,T) I32. */
ZR_NODISCARD zr_status zr__next_token_fill(void *source, zr__data_fn read, int64_t index, int64_t seq, int64_t row,
                                           void *const *input);
void zr__next_token_pad(int64_t seq, int64_t row, void *const *input);

/** Set *model from a resolved configuration, and check the model's sizes. */
ZR_NODISCARD zr_status zr__train_model(const zr_config *config, zr__family_model *model);

#endif
