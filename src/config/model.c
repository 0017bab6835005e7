/* The model of a configuration: its family, and the settings of the family's struct. */
#include "config/internal.h"
#include "config/config.h"

#include "base/file/folder.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- the family ------------------------------------------------------------------------------ */

static const zr_family *family_called(const char *name)
{
    const zr_family *family;
    for (int f = 0; name && (family = zr_family_at(f)); f++)
        if (strcasecmp(family->name, name) == 0) return family;
    return NULL;
}

/* Return the family of a Hugging Face directory, or NULL if its config.json cannot be read or names no known family.
 * The function that reads the directory reports the error better. */
static const zr_family *family_of_dir(const char *dir)
{
    char path[PATH_MAX];
    json_auto_t *root = NULL;
    if (zr__path_join(path, dir, "config.json") != ZR_OK || zr__json_load_data(path, &root) != ZR_OK) return NULL;
    return family_called(json_string_value(json_object_get(root, "model_type")));
}

const zr_family *zr__config_family(const json_t *root, bool *guess)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    const char *init = json_string_value(json_object_get(model, "init"));
    const char *preset = json_string_value(json_object_get(model, "preset"));
    const zr_family *family = NULL;
    zr_model_config config;
    const bool typed = type && strcmp(type, "auto") != 0;
    if (typed)
        family = family_called(type);
    else if (init)
        family = family_of_dir(init);
    else if (preset && zr_family_find_preset(preset, &family, &config) != ZR_OK)
        family = NULL;
    *guess = !family && (typed || init || preset);
    return family ? family : zr_family_at(0);
}

/* Return the first field of a family whose key in CONFIG.json, without "model.", is `key` or lies in the object
 * `key`. */
static const zr_field *field_at(const zr_family *family, const char *key)
{
    const size_t n = strlen(key);
    for (const zr_field *field = family->field; field->key; field++) {
        const bool named = strncmp(field->key, key, n) == 0 && (field->key[n] == '\0' || field->key[n] == '.');
        if (named && field->place != ZR_FIELD_IN_HF) return field;
    }
    return NULL;
}

zr_status zr__config_refuse_key(const zr_config *config, const zr__source *source, const zr__json_place *place,
                                const char *path)
{
    const zr_family *own = config->model.family, *family, *first = NULL;
    const zr_field *field = NULL, *like = NULL;
    char names[256] = "";
    size_t used = 0;
    const bool model = strncmp(path, ZR_MODEL_SECTION, strlen(ZR_MODEL_SECTION)) == 0;
    for (int f = 0; model && (family = zr_family_at(f)); f++) {
        const zr_field *found = family == own ? NULL : field_at(family, path + strlen(ZR_MODEL_SECTION));
        if (!found) continue;
        if (!first) field = found;
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", first ? ", " : "", family->name);
        first = family;
    }
    if (!first && zr__config_instead(path))
        return zr__config_fail(source, place, ZR_ERR_CONFIG, "unknown key; in zr it is %s", zr__config_instead(path));
    if (!first && zr__key_nearest(zr__keys_of(config), path, names, sizeof(names)))
        return zr__config_fail(source, place, ZR_ERR_CONFIG, "unknown key; did you mean %s?", names);
    if (!first) return zr__config_fail(source, place, ZR_ERR_CONFIG, "unknown key; docs/config.md lists them all");
    if (config->state->family_is_guess)
        return zr__config_fail(source, place, ZR_ERR_CONFIG,
                               "this is a key of model.type %s, but the model that is given is none of those that zr "
                               "reads; without this key zr says why",
                               names);
    if (field->means) like = zr_family_meaning(own, field->means);
    if (!like)
        return zr__config_fail(source, place, ZR_ERR_CONFIG, "this is a key of model.type %s; %s has no such key",
                               names, own->name);
    return zr__config_fail(source, place, ZR_ERR_CONFIG,
                           "this is a key of model.type %s; with %s write " ZR_MODEL_SECTION "%s", names, own->name,
                           like->key);
}

/* ---- settings -------------------------------------------------------------------------------- */

zr_model_sizes zr_config_sizes(const zr_config *config)
{
    return zr_family_sizes(config->model.family, &config->model.config);
}

zr_samples zr__config_samples(const zr_config *config)
{
    return zr_family_samples(config->model.family, &config->model.config);
}

void zr__config_resize(zr_config *config, const zr_model_sizes *sizes)
{
    zr_family_resize(config->model.family, &config->model.config, sizes);
}

const char *zr__config_key_of(const zr_config *config, const char *means)
{
    for (const zr_key *key = zr__keys_of(config); key->path; key++)
        if (key->field && key->field->means && strcmp(key->field->means, means) == 0) return key->path;
    return "model";
}

const zr_field *zr__config_undivided(const zr_config *config, int64_t *value, int64_t *multiple)
{
    const zr_family *family = config->model.family;
    for (const zr_field *field = family->field; field->key; field++) {
        if (!field->divides) continue;
        memcpy(value, config->model.config.bytes + field->offset, sizeof(*value));
        memcpy(multiple, config->model.config.bytes + zr_family_field(family, field->divides)->offset,
               sizeof(*multiple));
        if (*value && *multiple && *multiple % *value != 0) return field;
    }
    return NULL;
}

static const zr_key *key_of_field(const zr_key *keys, const zr_field *field)
{
    for (const zr_key *key = keys; key->path; key++)
        if (key->field == field) return key;
    return NULL;
}

/* Refuse a setting of the file that differs from the setting that is taken from elsewhere. */
static zr_status check_given(const zr_config *config, const zr_config *from, const zr_key *key, const char *origin)
{
    json_auto_t *had = zr__value_get(config, key), *has = zr__value_get(from, key);
    if (json_equal(had, has)) return ZR_OK;
    return zr__config_refuse(config, "%s: %s differs from %s, which %s sets; leave it out", key->path,
                             ZR_JSON_SHOWN(had), ZR_JSON_SHOWN(has), origin);
}

bool zr__config_gives_dropout(const zr_config *config, const zr_field *field)
{
    const zr_key *keys = zr__keys_of(config);
    const zr_field *all = zr_family_meaning(config->model.family, "dropout");
    const zr_key *key = key_of_field(keys, field), *of_all = all ? key_of_field(keys, all) : NULL;
    if (key && zr__origin_of(config, key)->given) return true;
    return of_all && all->place == ZR_FIELD_IN_CONFIG && zr__origin_of(config, of_all)->given;
}

zr_status zr__config_adopt(zr_config *config, const zr_model_config *settings, const char *origin)
{
    zr_config from = *config;
    from.model.config = *settings;
    for (const zr_field *field = config->model.family->field; field->key; field++) {
        const zr_key *key = key_of_field(zr__keys_of(config), field);
        const bool given = key && zr__origin_of(config, key)->given;
        if (field->type == ZR_FIELD_FIXED) continue;
        if (field->role == ZR_FIELD_DROPOUT && (!config->model.init || zr__config_gives_dropout(config, field)))
            continue; /* presets give no dropout */
        if (given && field->role == ZR_FIELD_SHAPE) ZR_TRY(check_given(config, &from, key, origin));
        if (!given)
            memcpy(config->model.config.bytes + field->offset, settings->bytes + field->offset,
                   zr_field_bytes(field->type));
    }
    return ZR_OK;
}
