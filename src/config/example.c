/* Prints an example configuration: the keys that a first run needs, with their help texts from the table. */
#include "config/config.h"
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 100, PRESET_TOKENS = 2048 };

/* Keys in the order in which the file lists them. `value` is the value in the file: the table's default, or a value
 * with which a small model learns better. NULL stands for the recipe's value, or for a value that depends on the model.
 * A path without a dot is the meaning of a key of the model (zr_field.means). */
static const struct {
    const char *path, *value;
} shown[] = {
    {"model.type", NULL},
    {"model.preset", NULL},
    {"task", "\"pretraining\""},
    {"layers", "4"},
    {"heads", "4"},
    {"key/value heads", "2"},
    {"width", "128"},
    {"positions", "128"},
    {"dropout", "0.0"},
    {"attention dropout", "0.0"},
    {"data.train", "\"train.txt\""},
    {"data.val", "null"},
    {"data.tokenizer", "\"bytes\""},
    {"data.seq_length", NULL},
    {"data.max_predictions", "20"},
    {"data.max_samples", "1"},
    {"data.order", "\"shuffled\""},
    {"train_micro_batch_size_per_gpu", "8"},
    {"gradient_accumulation_steps", "1"},
    {"gradient_clipping", NULL},
    {"bf16.enabled", "true"},
    {"zero_optimization.stage", "2"},
    {"activation_checkpointing.policy", "\"none\""},
    {"memory.limit", "null"},
    {"optimizer.type", NULL},
    {"optimizer.params.lr", NULL},
    {"optimizer.params.betas", NULL},
    {"optimizer.params.weight_decay", NULL},
    {"scheduler.type", NULL},
    {"scheduler.params.warmup_num_steps", NULL},
    {"scheduler.params.warmup_type", NULL},
    {"scheduler.params.cos_min_ratio", NULL},
    {"train.steps", "1000"},
    {"train.seed", "1234"},
    {"train.eval_interval", "100"},
    {"train.save_interval", "0"},
    {"train.output_dir", "null"},
    {"steps_per_print", "10"},
};
enum { SHOWN = sizeof(shown) / sizeof(shown[0]) };

/* The model of the example: a small model of a family, or a preset. */
typedef struct example {
    const zr_family *family;
    const char *preset;   /* or NULL */
    zr_model_sizes sizes; /* of the preset */
} example;

static void add_comment(zr__text *out, int level, const char *words)
{
    char begin[32];
    snprintf(begin, sizeof(begin), "%*s//", 4 * level, "");
    zr__add_words(out, begin, begin, MOST_COLUMNS, words);
}

/* Return how many bytes at the beginning of two paths name the same objects. For a.b.c and a.b.d it is 4, the length of
 * "a.b.". */
static size_t shared_bytes(const char *a, const char *b)
{
    size_t shared = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '.') shared = i + 1;
    return shared;
}

static int dots_in(const char *path, size_t bytes)
{
    int n = 0;
    for (size_t i = 0; i < bytes; i++) n += path[i] == '.';
    return n;
}

/* Close the objects that hold the previous key but not this key, and open the objects that hold only this key. `before`
 * is the previous key's path, or "" for the first key. */
static void add_objects(zr__text *out, const char *before, const char *path)
{
    const size_t shared = shared_bytes(before, path), all = strlen(path);
    int level = dots_in(before, strlen(before));
    for (; level > dots_in(before, shared); level--) zr__text_add(out, "\n%*s}", 4 * level, "");
    if (path[0] && before[0]) zr__text_add(out, ",\n");
    for (size_t at = shared; at < all; level++) {
        size_t length = strcspn(path + at, ".");
        if (!path[at + length]) break;
        zr__text_add(out, "%*s\"%.*s\": {\n", 4 * (level + 1), "", (int)length, path + at);
        at += length + 1;
    }
}

static void add_example_key(zr__text *out, const zr_key *key, const char *value)
{
    char words[768];
    const char *dot = strrchr(key->path, '.');
    const int level = dots_in(key->path, strlen(key->path)) + 1;
    const char *choices = key->state == ZR_KEY_LIMITED ? key->built : key->choices;
    const char *last = choices ? strrchr(choices, '|') : NULL;
    /* List the choices, unless the help text contains the last choice and so probably the others too. */
    const bool list = last && !strstr(key->help, last + 1);
    snprintf(words, sizeof(words), "%s%s%s", key->help, list ? ": " : "", list ? ZR_CHOICES(choices) : "");
    add_comment(out, level, words);
    zr__text_add(out, "%*s\"%s\": %s", 4 * level, "", dot ? dot + 1 : key->path, value);
}

/* Return the key that a row of `shown` names, from the keys of the example's family. */
static const zr_key *shown_key(const zr_key *keys, const char *path)
{
    for (const zr_key *key = keys; key->path; key++)
        if (key->field && key->field->means && strcmp(key->field->means, path) == 0) return key;
    return zr__key_find(keys, path);
}

enum { VALUE_BYTES = 96 };

/* Return the JSON text of a row's value, or NULL if the example leaves out the key. Leave out sizes that a preset
 * determines. With a preset, limit the sequence length to PRESET_TOKENS, because long sequences need much memory.
 * `room` is memory for the text. */
static const char *value_of(const example *model, int row, const zr_key *key, char room[VALUE_BYTES])
{
    const char *path = key->path, *value = shown[row].value;
    const bool pairs = model->family->samples == ZR_SAMPLES_PAIRS;
    const bool preset = strcmp(path, "model.preset") == 0, seq = strcmp(path, "data.seq_length") == 0;
    room[0] = '\0';
    if (strcmp(path, "model.type") == 0) {
        if (!model->preset) snprintf(room, VALUE_BYTES, "\"%s\"", model->family->name);
    } else if (preset || seq) {
        const int64_t most = model->sizes.positions;
        if (model->preset && preset) snprintf(room, VALUE_BYTES, "\"%s\"", model->preset);
        if (model->preset && seq)
            snprintf(room, VALUE_BYTES, "%lld", (long long)(most < PRESET_TOKENS ? most : PRESET_TOKENS));
    } else if (model->preset && key->field) {
        return key->field->role == ZR_FIELD_SHAPE ? NULL : value;
    } else if (strcmp(path, "data.tokenizer") == 0 && (model->preset || pairs)) {
        return "null";
    } else if (!pairs && (strcmp(path, "data.max_predictions") == 0 || strcmp(path, "data.max_samples") == 0)) {
        return NULL;
    } else if (model->preset && strcmp(path, "train_micro_batch_size_per_gpu") == 0) {
        return "1";
    } else if (model->preset && strcmp(path, "optimizer.params.lr") == 0) {
        return zr__recipe_lr(model->preset, model->sizes);
    } else {
        return value ? value : zr__recipe_value(path);
    }
    return room[0] ? room : NULL;
}

static void add_example(zr__text *out, const zr_key *keys, const example *model)
{
    char room[VALUE_BYTES];
    const char *before = "";
    for (int i = 0; i < SHOWN; i++) {
        const zr_key *key = shown_key(keys, shown[i].path);
        const char *value = key ? value_of(model, i, key, room) : NULL; /* the family may lack this key */
        if (!value) continue;
        add_objects(out, before, key->path);
        add_example_key(out, key, value);
        before = key->path;
    }
    add_objects(out, before, "");
}

zr_status zr__config_example(const char *type, const char *preset, char **text)
{
    zr__text out = {0};
    ZR_AUTO_FREE zr_key *keys = NULL;
    zr_model_config settings;
    example model = {.family = type ? zr_family_find(type) : zr_family_at(0), .preset = preset};
    *text = NULL;
    ZR_CHECK(model.family, ZR_ERR_NOT_FOUND, "there is no model.type \"%s\"", type);
    if (preset) {
        ZR_TRY(zr_family_find_preset(preset, &model.family, &settings));
        model.preset = zr_family_preset_called(preset, &model.family)->name;
        model.sizes = zr_family_sizes(model.family, &settings);
    }
    ZR_TRY(zr__keys_make(model.family, &keys));
    add_comment(&out, 0,
                "A configuration of zr: JSON, in which // begins a comment. `zr plan` says what it needs, `zr "
                "train` runs it; any key is also --key.path=value on the command line.");
    add_comment(&out, 0,
                "Keys that DeepSpeed has keep its names. A key that is left out has its default; `zr train --help` "
                "and docs/config.md list all keys.");
    zr__text_add(&out, "{\n");
    add_example(&out, keys, &model);
    zr__text_add(&out, "\n}\n");
    return zr__text_take(&out, text);
}
