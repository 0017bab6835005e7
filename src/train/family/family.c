#include "train/family/family.h"

#include "base/text/text.h"
#include "checkpoint/checkpoint.h"

#include <string.h>

static const zr__family *const table[] = {&zr__family_gpt2};
enum { FAMILIES = sizeof(table) / sizeof(table[0]) };

/* ---- choosing a family ----------------------------------------------------------------------- */

const zr__family *const *zr__families(int *n)
{
    *n = FAMILIES;
    return table;
}

zr_status zr__family_of(const zr_config *config, const zr__family **family)
{
    *family = NULL;
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(table[i]->name, config->model.type) == 0) *family = table[i];
    ZR_ASSERT(*family); /* never NULL, since the table of configuration keys accepts no other value of model.type */
    return ZR_OK;
}

zr_status zr__family_of_dir(const char *dir, const zr__family **family)
{
    const char *name[FAMILIES];
    int which = 0;
    for (int i = 0; i < FAMILIES; i++) name[i] = table[i]->name;
    ZR_TRY(zr__hf_model_type(dir, name, FAMILIES, &which));
    *family = table[which];
    return ZR_OK;
}

/* ---- models ---------------------------------------------------------------------------------- */

zr_model zr__family_builder(const zr__family_model *model)
{
    zr_model built = model->family->builder(&model->numbers);
    built.frozen = model->frozen;
    return built;
}

zr_status zr__family_preset(const zr__family *family, const char *name, zr__family_model *model)
{
    *model = (zr__family_model){.family = family};
    ZR_TRY(family->preset(name, &model->numbers));
    model->sizes = family->sizes(&model->numbers);
    return ZR_OK;
}

zr_status zr__family_read(const zr__family *family, const char *dir, zr__family_model *model)
{
    *model = (zr__family_model){.family = family};
    ZR_TRY(family->read(dir, &model->numbers));
    model->sizes = family->sizes(&model->numbers);
    if (family->check(&model->numbers) == ZR_OK) return ZR_OK;
    return ZR_FAIL(ZR_ERR_DATA, "%s/config.json: %s", ZR_SHOWN(dir), zr_error_message());
}

zr_status zr__train_model(const zr_config *config, zr__family_model *model)
{
    const zr__family *family = NULL;
    ZR_TRY(zr__family_of(config, &family));
    *model = (zr__family_model){.family = family, .frozen = config->model.frozen};
    family->configure(config, &model->numbers);
    ZR_TRY(family->check(&model->numbers));
    model->sizes = family->sizes(&model->numbers);
    ZR_CHECK(config->data.seq_length <= model->sizes.n_positions, ZR_ERR_CONFIG,
             "data.seq_length is %lld, but the model has only %lld positions; lower data.seq_length or raise "
             "model.n_positions",
             (long long)config->data.seq_length, (long long)model->sizes.n_positions);
    return ZR_OK;
}

/* ---- presets of all families ------------------------------------------------------------------ */

/** Return the name of preset `i` and set *family to its family. The presets of all families are numbered together, one
 * family after the other. Return NULL after the last preset. */
static const char *shape(int i, const zr__family **family)
{
    for (int f = 0; f < FAMILIES; f++)
        for (const char *const *name = table[f]->presets(); *name; name++) {
            *family = table[f];
            if (i-- == 0) return *name;
        }
    return NULL;
}

const char *zr__family_preset_name(int i)
{
    const zr__family *family;
    return shape(i, &family);
}

/** Find a preset of any family by name. For an unknown name, return the error of the first family in the table. */
zr_status zr__family_find_preset(const char *name, zr__family_model *model)
{
    const zr__family *family = NULL, *of = table[0];
    const char *one;
    for (int i = 0; (one = shape(i, &family)); i++)
        if (strcmp(one, name) == 0) of = family;
    return zr__family_preset(of, name, model);
}

/* ---- rows of a batch -------------------------------------------------------------------------- */

zr_status zr__data_sample(void *data, int64_t sample, int32_t *tokens, int32_t *targets)
{
    return zr_data_sample(data, sample, tokens, targets);
}

zr_status zr__data_window(void *data, int64_t window, int32_t *tokens, int32_t *targets)
{
    return zr_data_window(data, window, tokens, targets);
}

zr_status zr__next_token_fill(void *source, zr__data_fn read, int64_t index, int64_t seq, int64_t row,
                              void *const *input)
{
    return read(source, index, (int32_t *)input[0] + row * seq, (int32_t *)input[1] + row * seq);
}

void zr__next_token_pad(int64_t seq, int64_t row, void *const *input)
{
    int32_t *tokens = (int32_t *)input[0] + row * seq, *targets = (int32_t *)input[1] + row * seq;
    for (int64_t t = 0; t < seq; t++) {
        tokens[t] = 0;
        targets[t] = -1;
    }
}
