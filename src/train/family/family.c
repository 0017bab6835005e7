#include "train/family/family.h"

#include "base/text/text.h"
#include "config/config.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

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
    struct stat info;
    const zr_family *family;
    const zr_preset *preset = zr_family_preset_called(name, &family);
    const bool own_name = preset && strcmp(preset->name, name) == 0;
    *model = (zr__family_model){0};
    ZR_CHECK(own_name || stat(name, &info) != 0 || !S_ISDIR(info.st_mode), ZR_ERR_NOT_FOUND,
             "%s is a directory, not the name of a preset; to start from its weights, give --model.init=%s",
             ZR_SHOWN(name), ZR_SHOWN(name));
    ZR_TRY(zr_family_find_preset(name, &model->family, &model->config));
    model->sizes = zr_family_sizes(model->family, &model->config);
    return ZR_OK;
}

zr_status zr__family_read(const char *dir, zr__family_model *model)
{
    *model = (zr__family_model){0};
    ZR_TRY(zr_hf_read(dir, &model->family, &model->config));
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

/* Numbers of elements that an array of a row can have (elems_of). */
typedef enum elems { WIDTH_TOKENS, WIDTH_PREDICTIONS, WIDTH_SAMPLES, WIDTH_ANSWERS } elems;
/* An array of a row: its offset in zr__row, its number of elements, and the loss term whose targets it holds, or -1. */
typedef struct member {
    size_t at;
    elems width;
    int term;
} member;

enum { TOKENS, TARGETS, SEGMENTS, MASKED, MASKED_TARGETS, FIRST, NEXT, LABEL, ANSWER, DOCUMENTS, MEMBERS };
static const member members[MEMBERS] = {
    [TOKENS] = {offsetof(zr__row, tokens), WIDTH_TOKENS, -1},
    [TARGETS] = {offsetof(zr__row, targets), WIDTH_TOKENS, 0},
    [SEGMENTS] = {offsetof(zr__row, segments), WIDTH_TOKENS, -1},
    [MASKED] = {offsetof(zr__row, masked), WIDTH_PREDICTIONS, -1},
    [MASKED_TARGETS] = {offsetof(zr__row, masked_targets), WIDTH_PREDICTIONS, 0},
    [FIRST] = {offsetof(zr__row, first), WIDTH_SAMPLES, -1},
    [NEXT] = {offsetof(zr__row, next), WIDTH_SAMPLES, 1},
    [LABEL] = {offsetof(zr__row, label), WIDTH_SAMPLES, 0},
    [ANSWER] = {offsetof(zr__row, answer), WIDTH_ANSWERS, 0},
    [DOCUMENTS] = {offsetof(zr__row, documents), WIDTH_TOKENS, -1},
};

/* The inputs of each kind of samples, in the order of zr_samples. Each list ends with the documents. */
static const int inputs[][MEMBERS] = {
    [ZR_SAMPLES_NEXT] = {TOKENS, TARGETS, DOCUMENTS},
    [ZR_SAMPLES_PAIRS] = {TOKENS, SEGMENTS, MASKED, MASKED_TARGETS, FIRST, NEXT, DOCUMENTS},
    [ZR_SAMPLES_LABELS] = {TOKENS, SEGMENTS, FIRST, LABEL, DOCUMENTS},
    [ZR_SAMPLES_ANSWERS] = {TOKENS, SEGMENTS, ANSWER, DOCUMENTS},
    [ZR_SAMPLES_MASKED] = {TOKENS, SEGMENTS, MASKED, MASKED_TARGETS, DOCUMENTS},
    [ZR_SAMPLES_TAGS] = {TOKENS, SEGMENTS, MASKED, MASKED_TARGETS, DOCUMENTS},
};

static int64_t elems_of(const zr_layout *l, elems width)
{
    const int64_t n[] = {[WIDTH_TOKENS] = l->seq,
                         [WIDTH_PREDICTIONS] = l->predictions,
                         [WIDTH_SAMPLES] = l->samples,
                         [WIDTH_ANSWERS] = 2 * l->samples};
    return n[width];
}

static int32_t **array_of(zr__row *row, int i)
{
    return (int32_t **)((char *)row + members[i].at);
}

zr_samples zr__family_samples(const zr__family_model *model)
{
    return zr_family_samples(model->family, &model->config);
}

int64_t zr__family_labels(const zr__family_model *model)
{
    const zr_field *field = zr_family_meaning(model->family, "labels");
    int64_t labels = 0;
    if (field) memcpy(&labels, model->config.bytes + field->offset, sizeof(labels));
    return labels;
}

zr__row zr__row_at(zr_samples kind, const zr_layout *l, int64_t row, void *const *input)
{
    zr__row r = {0};
    int i = 0;
    for (; inputs[kind][i] != DOCUMENTS; i++)
        *array_of(&r, inputs[kind][i]) = (int32_t *)input[i] + row * elems_of(l, members[inputs[kind][i]].width);
    if (l->documents) r.documents = (int32_t *)input[i] + row * l->seq;
    return r;
}

void zr__row_pad(const zr_layout *l, const zr__row *row)
{
    zr__row r = *row;
    for (int i = 0; i < MEMBERS; i++) {
        int32_t *x = *array_of(&r, i);
        for (int64_t k = 0; x && k < elems_of(l, members[i].width); k++) x[k] = members[i].term < 0 ? 0 : -1;
    }
}

void zr__row_losses(const zr_layout *l, const zr__row *row, int64_t *counted)
{
    zr__row r = *row;
    for (int i = 0; i < MEMBERS; i++)
        if (*array_of(&r, i) && members[i].term >= 0) counted[members[i].term] += elems_of(l, members[i].width);
}

void zr__row_count(const zr_layout *l, const zr__row *row, int64_t *counted)
{
    zr__row r = *row;
    for (int i = 0; i < MEMBERS; i++) {
        const int32_t *x = *array_of(&r, i);
        for (int64_t k = 0; x && members[i].term >= 0 && k < elems_of(l, members[i].width); k++)
            counted[members[i].term] -= x[k] < 0;
    }
}
