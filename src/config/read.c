/* Reads a configuration: parses the text, applies the overrides, and walks the tree by the table of keys. */
#include "config/internal.h"
#include "base/file/folder.h"
#include "config/config.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 256 };

/* Return whether an override gave the value at `path`. The override's key is `path` or an object that contains `path`.
 * If the file lacks `path`, the key may also be inside `path`. */
static bool from_override(const zr__source *source, const char *path, bool in_file)
{
    size_t whole = strlen(path);
    for (int i = 0; i < source->n_overrides; i++) {
        size_t length;
        const char *value, *key = zr__override_key(source->overrides[i], &length, &value);
        if (strncmp(key, path, length) == 0 && strchr(".[", path[length])) return true;
        if (!in_file && strncmp(key, path, whole) == 0 && key[whole] == '.') return true;
    }
    return false;
}

zr_status zr__config_fail(const zr__source *source, const zr__json_place *place, zr_status status, const char *format,
                          ...)
{
    char message[512], path[PATH_BYTES];
    ZR_PRINT_ARGS(message, format);
    zr__json_path(place, path, sizeof(path));
    int line = 1, column = 1;
    bool in_file = source->text && zr__json_find(source->text, source->bytes, place, &line, &column);
    if (!source->text || from_override(source, path, in_file))
        return ZR_FAIL(status, "command line: %s: %s", path, message);
    return zr__json_fail(source->text, source->bytes, source->name, place, status, message);
}

/* Refuse a value that is not an object, at a path where the table has a section. If the value names a device, as in
 * "offload_optimizer": "cpu", the message shows the object to write instead. A text in place of the model is probably a
 * directory of weights. */
static zr_status no_object(const zr_key *keys, const zr__source *source, const zr__json_place *place, const char *path,
                           const json_t *value)
{
    char device[PATH_BYTES];
    snprintf(device, sizeof(device), "%.*s.device", PATH_BYTES - 8, path);
    const zr_key *key = zr__key_find(keys, device);
    const char *word = json_string_value(value);
    if (word && strcmp(path, "model") == 0)
        return zr__config_fail(source, place, ZR_ERR_CONFIG,
                               "wanted an object { ... } of keys; the directory of weights is model.init");
    if (json_is_boolean(value) && strcmp(path, "zero_optimization") == 0) /* an old form of DeepSpeed */
        return zr__config_fail(source, place, ZR_ERR_CONFIG, "found %s, wanted an object of keys: {\"stage\": %d}",
                               json_is_true(value) ? "true" : "false", json_is_true(value));
    if (!key || strcmp(key->path, device) != 0 || !word || zr__choice_index(key->choices, word, strlen(word)) < 0)
        return zr__config_fail(source, place, ZR_ERR_CONFIG, "wanted an object { ... } of keys");
    return zr__config_fail(source, place, ZR_ERR_CONFIG, "found \"%s\", wanted an object of keys: {\"device\": \"%s\"}",
                           word, word);
}

/* Return whether a key was already read under another name. A key such as "aio.*" stands for several keys, so it may be
 * read again. */
static bool is_twice(const zr_config *config, const zr_key *key)
{
    const zr__origin *origin = zr__origin_of(config, key);
    return (origin->given || origin->automatic) && key->path[strlen(key->path) - 1] != '*';
}

/* Record the name under which a key is given, unless it is zr's own name. */
static zr_status set_name(zr_config *config, const zr_key *key, const char *path)
{
    char own[PATH_BYTES];
    zr__origin *origin = zr__origin_of(config, key);
    if (strcmp(zr__key_own_name(path, own, sizeof(own)), path) == 0) return ZR_OK;
    origin->name = zr__config_keep(config, path);
    ZR_CHECK(origin->name, ZR_ERR_MEMORY, "out of memory for the configuration");
    return ZR_OK;
}

/* Read the keys of an object in the file, recursively. The depth is bounded, because only sections of the table are
 * entered. */
static zr_status walk_keys(zr_config *config, const json_t *object, const zr__source *source,
                           const zr__json_place *parent)
{
    const zr_key *keys = zr__keys_of(config);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        char path[PATH_BYTES], own[PATH_BYTES];
        zr__json_place place = {parent, name, 0};
        zr__json_path(&place, path, sizeof(path));
        const zr_key *key = zr__key_find(keys, zr__key_own_name(path, own, sizeof(own)));
        zr_status st = ZR_OK;
        bool unknown = false;
        if (strchr(name, '.')) {
            st =
                zr__config_fail(source, &place, ZR_ERR_CONFIG, "unknown key; in a file write nested objects, not dots");
        } else if (key && is_twice(config, key)) {
            st = zr__config_fail(source, &place, ZR_ERR_CONFIG, "it is also given as %s; leave out one of the two",
                                 zr__key_shown(config, key));
        } else if (key) {
            ZR_TRY(set_name(config, key, path));
            st = zr__value_set(config, key, value, source, &place);
        } else if (!zr__key_is_section(keys, own)) {
            unknown = true;
            st = zr__config_refuse_key(config, source, &place, path);
        } else if (json_is_object(value)) {
            ZR_TRY(walk_keys(config, value, source, &place));
        } else if (!json_is_null(value)) {
            st = no_object(keys, source, &place, path, value);
        }
        if (st != ZR_OK && st != ZR_ERR_CONFIG && st != ZR_ERR_UNSUPPORTED) return st;
        if (st != ZR_OK)
            ZR_TRY(zr__refusal_add(config, st, st == ZR_ERR_UNSUPPORTED ? key : NULL, unknown, path,
                                   ZR_JSON_SHOWN(value)));
    }
    return ZR_OK;
}

static bool writes_type(const json_t *root, const char *section)
{
    const char *type = json_string_value(json_object_get(json_object_get(root, section), "type"));
    return type && strcmp(type, "auto") != 0;
}

/* Record which sections the file itself has, before overrides change the tree. */
static void find_sections(zr_config *config, const json_t *root)
{
    config->state->writes_optimizer = writes_type(root, "optimizer");
    config->state->writes_scheduler = writes_type(root, "scheduler");
    config->state->is_deepspeeds = json_is_object(json_object_get(root, "optimizer")) ||
                                   json_is_object(json_object_get(root, "scheduler")) ||
                                   json_is_object(json_object_get(root, "zero_optimization"));
}

/* Read a configuration in stages, in the order of the code. Later, callers set the settings of a preset or directory
 * (zr__config_adopt), and zr_config_resolve sets the remaining values. */
static zr_status read_stages(zr_config *config, json_t *root, const zr__source *source)
{
    const zr__json_place top = {0};
    config->state->name = zr__config_keep(config, ZR_SHOWN(source->name));
    ZR_CHECK(config->state->name, ZR_ERR_MEMORY, "out of memory for the configuration");
    if (!json_is_object(root)) return zr__config_fail(source, &top, ZR_ERR_CONFIG, "wanted an object { ... } of keys");
    find_sections(config, root);
    for (int i = 0; i < source->n_overrides; i++) ZR_TRY(zr__override_apply(root, source->overrides[i]));
    /* the family determines the keys */
    config->model.family = zr__config_family(root, &config->state->family_is_guess);
    ZR_TRY(zr__keys_make(config->model.family, &config->state->keys));
    const zr_key *keys = zr__keys_of(config);
    for (const zr_key *key = keys; key->path; key++) ZR_TRY(zr__value_default(config, key));
    ZR_TRY(walk_keys(config, root, source, &top)); /* store valid values, and record other values as refused */
    ZR_TRY(zr__refusals_say(config));              /* fail with one message for all refused values */
    for (const zr_key *key = keys; key->path; key++)
        zr__origin_of(config, key)->overridden = from_override(source, zr__key_shown(config, key), true);
    config->model.type = config->model.family->name;
    ZR_TRY(zr__config_check(config, source)); /* fail for values that contradict each other */
    return ZR_OK;
}

static zr_status create_config(json_t *root, const zr__source *source, zr_config **config)
{
    ZR_AUTO(zr_config_destroy) zr_config *c = zr_alloc(sizeof(*c));
    ZR_CHECK(c, ZR_ERR_MEMORY, "out of memory for the configuration");
    c->state = zr_alloc(sizeof(*c->state));
    ZR_CHECK(c->state, ZR_ERR_MEMORY, "out of memory for the configuration");
    zr__source own = *source;
    own.config = c;
    ZR_TRY(read_stages(c, root, &own));
    *config = ZR_TAKE(c);
    return ZR_OK;
}

/** Fail if a text is not JSON at all, such as a text to train on. Text that begins with a comment is left to the
 * parser, which says that the comment is wrong. */
static zr_status check_begins(const char *text, size_t bytes, const char *name)
{
    zr__json_skip_mark(&text, &bytes);
    size_t at = 0;
    while (at < bytes && memchr(" \t\r\n", text[at], 4)) at++;
    ZR_CHECK(
        at < bytes && memchr("{[#/", text[at], 4), ZR_ERR_CONFIG,
        "%s: wanted an object { ... } of keys; a configuration is JSON, and a text to train on is given with --data",
        ZR_SHOWN(name));
    return ZR_OK;
}

zr_status zr_config_parse(const char *text, size_t bytes, const char *name, const char *const *overrides,
                          int n_overrides, zr_config **config)
{
    json_auto_t *root = NULL;
    *config = NULL;
    ZR_AUTO_FREE char *plain = zr_alloc(bytes + 1);
    ZR_CHECK(plain, ZR_ERR_MEMORY, "out of memory for the configuration");
    memcpy(plain, text, bytes);
    zr__json_blank_comments(plain, bytes);
    ZR_TRY(check_begins(plain, bytes, name));
    ZR_TRY(zr__json_parse(plain, bytes, name, &root));
    zr__source source = {name, plain, bytes, overrides, n_overrides, NULL};
    zr__json_skip_mark(&source.text, &source.bytes);
    return create_config(root, &source, config);
}

zr_status zr_config_load(const char *path, const char *const *overrides, int n_overrides, zr_config **config)
{
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes;
    *config = NULL;
    if (!path) return zr_config_parse("{}", 2, "command line", overrides, n_overrides, config);
    ZR_CHECK(!zr__path_is_in(path, "config.json"), ZR_ERR_NOT_FOUND,
             "%s is a directory; give the configuration in it, %s/config.json", ZR_SHOWN(path), ZR_SHOWN(path));
    ZR_TRY(zr__json_read(path, &text, &bytes));
    ZR_TRY(zr_config_parse(text, bytes, path, overrides, n_overrides, config));
    (*config)->state->path = zr__config_keep(*config, path);
    if ((*config)->state->path) return ZR_OK;
    zr_config_destroy(config);
    return ZR_FAIL(ZR_ERR_MEMORY, "out of memory for the configuration");
}

zr_status zr_config_set(zr_config *config, const char *path, const char *text)
{
    const zr__source source = {0};
    const zr__json_place top = {0}, whole = {&top, path, 0};
    zr__key_place place;
    const zr_key *key = zr__key_find(zr__keys_of(config), path);
    if (!key) return zr__config_refuse_key(config, &source, &whole, path);
    ZR_CHECK(strcmp(path, "model.type") != 0 || strcmp(text, config->model.type) == 0, ZR_ERR_CONFIG,
             "model.type: %s cannot replace %s, because it decides which keys there are; give it when loading",
             ZR_SHOWN(text), config->model.type);
    json_auto_t *value = zr__override_value(zr__key_is_text(key) && key->type != ZR_KEY_SHARE, text);
    ZR_CHECK(value, ZR_ERR_MEMORY, "out of memory for the value of %s", key->path);
    return zr__value_set(config, key, value, &source, zr__key_place_of(path, &place));
}

static bool has_own_keys(const json_t *root)
{
    ZR_AUTO_FREE zr_key *keys = NULL;
    const char *name;
    json_t *value;
    bool found = false;
    if (!json_is_object(root) || json_object_get(root, "model_type")) return false;
    if (zr__keys_make(zr_family_at(0), &keys) != ZR_OK) return false;
    json_object_foreach((json_t *)root, name, value) found |=
        zr__key_find(keys, name) || zr__key_is_section(keys, name);
    return found;
}

bool zr__config_is_own(const char *dir)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *root = NULL;
    if (zr__path_join(path, dir, "config.json") != ZR_OK || zr__json_read_file(path, &text, &bytes) != ZR_OK)
        return false;
    zr__json_blank_comments(text, bytes);
    return zr__json_parse(text, bytes, path, &root) == ZR_OK && has_own_keys(root);
}
