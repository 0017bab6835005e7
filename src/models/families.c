/* The table of families, and functions that read a family's declaration. */
#include "models/families.h"

#include <inttypes.h>
#include <string.h>

static const zr_family *const table[] = {&zr__family_gpt2,  &zr__family_llama, &zr__family_mistral,   &zr__family_qwen2,
                                         &zr__family_qwen3, &zr__family_bert,  &zr__family_bert_preln};
enum { FAMILIES = sizeof(table) / sizeof(table[0]) };

const zr_family *zr_family_at(int i)
{
    if (i < 0) return NULL;
    if (i < FAMILIES) return table[i];
    if (!zr_own_families) return NULL; /* the program defines no families */
    for (int own = FAMILIES; zr_own_families[own - FAMILIES]; own++)
        if (own == i) return zr_own_families[own - FAMILIES];
    return NULL;
}

const zr_family *zr_family_find(const char *name)
{
    const zr_family *family;
    for (int i = 0; (family = zr_family_at(i)); i++)
        if (strcmp(family->name, name) == 0) return family;
    return NULL;
}

zr_status zr__check_size(const char *model, const char *field, int64_t value, int64_t most)
{
    ZR_CHECK(value >= 1 && value <= most, ZR_ERR_CONFIG, "%s%s is %" PRId64 "; wanted 1 to %" PRId64, model, field,
             value, most);
    return ZR_OK;
}

zr_status zr__check_dropout(const char *model, const char *field, double value)
{
    ZR_CHECK(value >= 0 && value < 1, ZR_ERR_CONFIG, "%s%s is %g; wanted 0 <= p < 1", model, field, value);
    return ZR_OK;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Return a model's task if it is one of the family's further tasks (zr_family.task), or NULL for the first task. */
static const zr_family_task *task_of(const zr_family *family, const void *config)
{
    const zr_field *field = family->task ? zr_family_meaning(family, "task") : NULL;
    int task = 0;
    if (field) memcpy(&task, (const char *)config + field->offset, sizeof(task));
    return task > 0 ? &family->task[task - 1] : NULL;
}

zr_samples zr_family_samples(const zr_family *family, const void *config)
{
    const zr_family_task *task = task_of(family, config);
    return task ? task->samples : family->samples;
}

const char *zr_family_architecture(const zr_family *family, const void *config)
{
    const zr_family_task *task = task_of(family, config);
    return task ? task->architecture : family->architecture;
}

/* ---- fields ---------------------------------------------------------------------------------- */

const zr_field *zr_family_field(const zr_family *family, const char *key)
{
    for (const zr_field *field = family->field; field->key; field++)
        if (strcmp(field->key, key) == 0) return field;
    return NULL;
}

const zr_field *zr_family_meaning(const zr_family *family, const char *means)
{
    for (const zr_field *field = family->field; field->key; field++)
        if (field->means && strcmp(field->means, means) == 0) return field;
    return NULL;
}

/* The sizes that every family has, with their members of zr_model_sizes. */
static const struct {
    const char *means;
    size_t member;
} sizes[] = {{"layers", offsetof(zr_model_sizes, layers)},
             {"heads", offsetof(zr_model_sizes, heads)},
             {"width", offsetof(zr_model_sizes, width)},
             {"positions", offsetof(zr_model_sizes, positions)},
             {"vocabulary", offsetof(zr_model_sizes, vocabulary)}};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

zr_model_sizes zr_family_sizes(const zr_family *family, const void *config)
{
    zr_model_sizes out = {0};
    for (int i = 0; i < SIZES; i++)
        memcpy((char *)&out + sizes[i].member, (const char *)config + zr_family_meaning(family, sizes[i].means)->offset,
               sizeof(int64_t));
    return out;
}

void zr_family_resize(const zr_family *family, void *config, const zr_model_sizes *to)
{
    const zr_model_sizes from = zr_family_sizes(family, config);
    for (int i = 0; i < SIZES; i++)
        memcpy((char *)config + zr_family_meaning(family, sizes[i].means)->offset, (const char *)to + sizes[i].member,
               sizeof(int64_t));
    const bool other = from.width != to->width || from.heads != to->heads;
    if (other && family->resize) family->resize(config, &from);
    if (family->complete) family->complete(config);
}

void zr_model_build(const zr_model *model, zr_graph *graph)
{
    zr_graph_adapt(graph, &model->lora);
    model->build(graph, model->config);
    zr_graph_freeze(graph, model->frozen);
}

zr_model zr_family_model(const zr_family *family, const void *config)
{
    return (zr_model){.name = family->name, .build = family->build, .config = config};
}

/* ---- the declaration ------------------------------------------------------------------------- */

static zr_status check_field(const zr_family *family, const zr_field *field)
{
    const bool number = field->type == ZR_FIELD_INT || field->type == ZR_FIELD_REAL;
    ZR_CHECK(zr_family_field(family, field->key) == field, ZR_ERR_INTERNAL, "%s: two fields have the key %s",
             family->name, field->key);
    ZR_CHECK(field->standard, ZR_ERR_INTERNAL, "%s: the field %s has no default", family->name, field->key);
    ZR_CHECK(field->help || field->place == ZR_FIELD_IN_HF, ZR_ERR_INTERNAL, "%s: the field %s has no help text",
             family->name, field->key);
    ZR_CHECK(field->offset + zr_field_bytes(field->type) <= family->bytes, ZR_ERR_INTERNAL,
             "%s: the field %s is outside the struct", family->name, field->key);
    ZR_CHECK(!number || field->max > field->min, ZR_ERR_INTERNAL, "%s: the field %s has no range", family->name,
             field->key);
    ZR_CHECK(field->choices || field->type != ZR_FIELD_CHOICE, ZR_ERR_INTERNAL, "%s: the field %s has no choices",
             family->name, field->key);
    ZR_CHECK(!field->divides || zr_family_field(family, field->divides), ZR_ERR_INTERNAL,
             "%s: the field %s divides %s, which is no field", family->name, field->key, field->divides);
    return ZR_OK;
}

static zr_status check_samples(const zr_family *family, zr_samples samples)
{
    ZR_CHECK(samples >= ZR_SAMPLES_NEXT && samples <= ZR_SAMPLES_TAGS, ZR_ERR_INTERNAL, "%s: there are no samples %d",
             family->name, (int)samples);
    return ZR_OK;
}

static zr_status check_tasks(const zr_family *family)
{
    const zr_field *field = zr_family_meaning(family, "task");
    int words = 1, tasks = 1;
    for (const zr_family_task *task = family->task; task && task->architecture; task++, tasks++)
        ZR_TRY(check_samples(family, task->samples));
    for (const char *c = field ? field->choices : NULL; c && *c; c++) words += *c == '|';
    ZR_CHECK(words == tasks && (!field || field->type == ZR_FIELD_CHOICE), ZR_ERR_INTERNAL,
             "%s: a field of type CHOICE that means \"task\" needs a word for each of %d tasks, and has %d",
             family->name, tasks, words);
    return ZR_OK;
}

zr_status zr_family_check(const zr_family *family)
{
    ZR_CHECK(family->name && family->title && family->architecture && family->field && family->check && family->build,
             ZR_ERR_INTERNAL, "%s: a family needs a name, title, architecture, fields, check and build",
             family->name ? family->name : "a family");
    const zr_family *named = zr_family_find(family->name);
    ZR_CHECK(!named || named == family, ZR_ERR_INTERNAL, "%s: two families have this name", family->name);
    ZR_CHECK(family->bytes <= ZR_MODEL_CONFIG_BYTES, ZR_ERR_INTERNAL, "%s: the struct has %zu bytes; the most is %d",
             family->name, family->bytes, ZR_MODEL_CONFIG_BYTES);
    ZR_CHECK(family->names.prefix && !family->names.head == !family->names.table, ZR_ERR_INTERNAL,
             "%s: the names of tensors need a prefix, and both a head and a table or neither", family->name);
    ZR_TRY(check_samples(family, family->samples));
    ZR_TRY(check_tasks(family));
    for (const zr_field *field = family->field; field->key; field++) ZR_TRY(check_field(family, field));
    for (int i = 0; i < SIZES; i++) {
        const zr_field *field = zr_family_meaning(family, sizes[i].means);
        ZR_CHECK(field && field->type == ZR_FIELD_INT && field->role == ZR_FIELD_SHAPE, ZR_ERR_INTERNAL,
                 "%s: no field of type INT and role SHAPE means \"%s\"", family->name, sizes[i].means);
    }
    return ZR_OK;
}
