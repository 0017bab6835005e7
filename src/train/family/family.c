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

static int32_t *row_of(void *input, int64_t row, int64_t elems)
{
    return (int32_t *)input + row * elems;
}

zr__row zr__row_at(const zr_layout *l, int64_t row, void *const *input)
{
    if (l->predictions == 0)
        return (zr__row){.tokens = row_of(input[0], row, l->seq),
                         .targets = row_of(input[1], row, l->seq),
                         .documents = l->documents ? row_of(input[2], row, l->seq) : NULL};
    return (zr__row){.pairs = {.tokens = row_of(input[0], row, l->seq),
                               .segments = row_of(input[1], row, l->seq),
                               .masked = row_of(input[2], row, l->predictions),
                               .masked_targets = row_of(input[3], row, l->predictions),
                               .first = row_of(input[4], row, l->samples),
                               .next = row_of(input[5], row, l->samples),
                               .documents = row_of(input[6], row, l->seq)}};
}

static void fill(int32_t *x, int64_t n, int32_t value)
{
    for (int64_t i = 0; x && i < n; i++) x[i] = value;
}

void zr__row_pad(const zr_layout *l, const zr__row *row)
{
    const zr_pairs_row *pairs = &row->pairs;
    fill(row->tokens, l->seq, 0);
    fill(row->targets, l->seq, -1);
    fill(row->documents, l->seq, 0);
    fill(pairs->tokens, l->seq, 0);
    fill(pairs->segments, l->seq, 0);
    fill(pairs->documents, l->seq, 0);
    fill(pairs->masked, l->predictions, 0);
    fill(pairs->masked_targets, l->predictions, -1);
    fill(pairs->first, l->samples, 0);
    fill(pairs->next, l->samples, -1);
}

static int64_t ignored(const int32_t *targets, int64_t n)
{
    int64_t none = 0;
    for (int64_t i = 0; i < n; i++) none += targets[i] < 0;
    return none;
}

void zr__row_count(const zr_layout *l, const zr__row *row, int64_t *counted)
{
    if (l->predictions == 0) {
        counted[0] -= ignored(row->targets, l->seq);
        return;
    }
    counted[0] -= ignored(row->pairs.masked_targets, l->predictions);
    counted[1] -= ignored(row->pairs.next, l->samples);
}
