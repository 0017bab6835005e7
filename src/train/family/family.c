#include "train/family/family.h"

#include "base/text/text.h"
#include "config/config.h"

#include <string.h>

/* ---- models ---------------------------------------------------------------------------------- */

zr_model zr__family_builder(const zr__family_model *model)
{
    zr_model built = zr_family_model(model->family, &model->config);
    built.frozen = model->frozen;
    built.lora = model->lora;
    return built;
}

zr_status zr__family_find_preset(const char *name, zr__family_model *model)
{
    *model = (zr__family_model){0};
    ZR_TRY(zr_family_find_preset(name, &model->family, &model->config));
    model->sizes = zr_family_sizes(model->family, &model->config);
    return ZR_OK;
}

zr_status zr__family_read(const char *dir, zr__family_model *model)
{
    const double none = 0;
    *model = (zr__family_model){0};
    ZR_TRY(zr_hf_read(dir, &model->family, &model->config));
    for (const zr_field *field = model->family->field; field->key; field++)
        if (field->role == ZR_FIELD_DROPOUT) memcpy(model->config.bytes + field->offset, &none, sizeof(none));
    model->sizes = zr_family_sizes(model->family, &model->config);
    return ZR_OK;
}

zr_status zr__train_model(const zr_config *config, zr__family_model *model)
{
    *model = (zr__family_model){.family = config->model.family,
                                .config = config->model.config,
                                .frozen = config->model.frozen,
                                .lora = config->model.lora};
    ZR_TRY(model->family->check(&model->config));
    model->sizes = zr_family_sizes(model->family, &model->config);
    ZR_CHECK(config->data.seq_length <= model->sizes.positions, ZR_ERR_CONFIG,
             "data.seq_length is %lld, but the model has only %lld positions; lower data.seq_length or raise %s",
             (long long)config->data.seq_length, (long long)model->sizes.positions,
             zr__config_key_of(config, "positions"));
    return ZR_OK;
}

/* ---- rows of a batch -------------------------------------------------------------------------- */

zr_status zr__data_sample(void *data, int64_t sample, const zr__row *row)
{
    ZR_TRY(zr_data_sample(data, sample, row->tokens, row->targets));
    return row->documents ? zr_data_documents(data, row->documents) : ZR_OK;
}

zr_status zr__data_window(void *data, int64_t window, const zr__row *row)
{
    ZR_TRY(zr_data_window(data, window, row->tokens, row->targets));
    return row->documents ? zr_data_documents(data, row->documents) : ZR_OK;
}

zr__row zr__row_at(const zr_layout *layout, int64_t row, void *const *input)
{
    int32_t *part[3] = {NULL};
    for (int i = 0; i < (layout->documents ? 3 : 2); i++) part[i] = (int32_t *)input[i] + row * layout->seq;
    return (zr__row){part[0], part[1], part[2]};
}

void zr__row_pad(int64_t seq, const zr__row *row)
{
    for (int64_t t = 0; t < seq; t++) {
        row->tokens[t] = 0;
        row->targets[t] = -1;
        if (row->documents) row->documents[t] = 0;
    }
}

int64_t zr__row_ignored(int64_t seq, const zr__row *row)
{
    int64_t n = 0;
    for (int64_t t = 0; t < seq; t++) n += row->targets[t] < 0;
    return n;
}
