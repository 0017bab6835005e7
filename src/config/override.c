/* Stores overrides of the command line, "key.path=value", in the JSON tree before the tree is checked. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

const char *zr__override_key(const char *override, size_t *length, const char **value)
{
    if (strncmp(override, "--", 2) == 0) override += 2;
    *length = strcspn(override, "=");
    *value = override[*length] == '=' ? override + *length + 1 : NULL;
    return override;
}

json_t *zr__override_value(bool text, const char *value)
{
    json_t *json;
    json_error_t error;
    if (zr__json_load(value, strlen(value), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, "the command line", &json,
                      &error) != ZR_OK)
        return NULL;
    /* If the key takes text, read a number or boolean as text, since a folder may have a name such as 2024. */
    bool word = text && (json_is_number(json) || json_is_boolean(json));
    if (json && !word) return json;
    json_decref(json);
    /* Do not check for UTF-8, since paths may contain any bytes. */
    return json_stringn_nocheck(value, strlen(value));
}

json_t *zr__member_object(json_t *root, const char *path, size_t length, const char **member)
{
    json_t *object = root;
    for (const char *dot; object && (dot = memchr(path, '.', length));) {
        char part[128];
        size_t n = (size_t)(dot - path);
        if (n >= sizeof(part)) return NULL;
        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        json_t *child = json_object_get(object, part);
        if (!child || json_is_null(child)) {
            child = json_object();
            if (json_object_set_new_nocheck(object, part, child) != 0) return NULL;
        }
        object = json_is_object(child) ? child : NULL;
        path = dot + 1;
        length -= n + 1;
    }
    *member = path;
    return object;
}

/* Return whether the values of a key are text, in every family that has it. The family may not be known yet. */
static bool takes_text(const char *path)
{
    const zr_family *family;
    for (int i = 0; i < zr__common_keys_n; i++)
        if (strcmp(zr__common_keys[i].path, path) == 0)
            return zr__key_is_text(&zr__common_keys[i]) && zr__common_keys[i].type != ZR_KEY_SHARE;
    if (strncmp(path, ZR_MODEL_SECTION, strlen(ZR_MODEL_SECTION)) != 0) return false;
    for (int f = 0; (family = zr_family_at(f)); f++) {
        const zr_field *field = zr_family_field(family, path + strlen(ZR_MODEL_SECTION));
        if (field && field->type == ZR_FIELD_FIXED && field->standard[0] == '"') return true;
    }
    return false;
}

zr_status zr__override_apply(json_t *root, const char *override)
{
    char name[128], path[128];
    const char *value, *member;
    size_t length;
    const char *key = zr__override_key(override, &length, &value);
    const char *shown = ZR_SHOWN(override);
    ZR_CHECK(value && length > 0, ZR_ERR_CONFIG, "command line: %s: expected --key.path=value", shown);
    json_t *object = zr__member_object(root, key, length, &member);
    ZR_CHECK(
        object, ZR_ERR_CONFIG,
        "command line: %s: part of this path is a key whose value is not an object, so it cannot have keys of its own",
        shown);
    size_t rest = length - (size_t)(member - key);
    ZR_CHECK(rest < sizeof(name), ZR_ERR_CONFIG, "command line: %s: unknown key", shown);
    snprintf(name, sizeof(name), "%.*s", (int)rest, member);
    snprintf(path, sizeof(path), "%.*s", (int)length, key);
    json_t *json = zr__override_value(length < sizeof(path) && takes_text(path), value);
    ZR_CHECK(json && json_object_set_new_nocheck(object, name, json) == 0, ZR_ERR_MEMORY,
             "command line: %s: out of memory", shown);
    zr__key_remove_others(root, path);
    return ZR_OK;
}
