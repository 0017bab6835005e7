/**
 * Families of models. A family's row of the table holds everything that configurations, directories and batches need to
 * know of one kind of model; the rest of this layer knows no kind. A row is a file of its own, family_<name>.c, beside
 * the builder in src/models, and a line of the table in family.c.
 */
#ifndef ZR_TRAIN_FAMILY_H
#define ZR_TRAIN_FAMILY_H

#include "zr/checkpoint.h"
#include "zr/data.h"
#include "zr/train.h"

/** A reader of tokens and targets number `index` of a source; a target of -1 does not count. For a zr_data:
 * zr__data_sample, zr__data_window. */
typedef zr_status (*zr__data_fn)(void *source, int64_t index, int32_t *tokens, int32_t *targets);
zr_status zr__data_sample(void *data, int64_t sample, int32_t *tokens, int32_t *targets);
zr_status zr__data_window(void *data, int64_t window, int32_t *tokens, int32_t *targets);

/** A row of the table. `numbers` is the family's own struct, in zr_family_model.numbers. */
struct zr_family {
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

extern const zr_family zr__family_gpt2;

/** Return the table; *n: its number of rows. */
const zr_family *const *zr__families(int *n);

/** Find the family of a configuration; of a directory's config.json (ZR_ERR_NOT_FOUND, ZR_ERR_DATA). */
ZR_NODISCARD zr_status zr__family_of(const zr_config *config, const zr_family **family);
ZR_NODISCARD zr_status zr__family_of_dir(const char *dir, const zr_family **family);

/** Look up a model of this family by the name of its shape. ZR_ERR_NOT_FOUND names the nearest shapes. */
ZR_NODISCARD zr_status zr__family_preset(const zr_family *family, const char *name, zr_family_model *model);

/** Read the model of a directory's config.json. ZR_ERR_DATA names the file when it is of another family, or its sizes
 * are beyond the limits of zr's builder. */
ZR_NODISCARD zr_status zr__family_read(const zr_family *family, const char *dir, zr_family_model *model);

/** Fill and pad rows of models that predict the next token: inputs are tokens and targets, (B,T) I32 each. */
ZR_NODISCARD zr_status zr__next_token_fill(void *source, zr__data_fn read, int64_t index, int64_t seq, int64_t row,
                                           void *const *input);
void zr__next_token_pad(int64_t seq, int64_t row, void *const *input);

#endif
