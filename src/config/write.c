/* Prints the resolved configuration as JSON, and hashes it. */
#include "config/internal.h"
#include "config/config.h"

#include <string.h>
#include <xxhash.h>

static zr_status add_members(const zr_config *config, json_t *root)
{
    for (const zr_key *key = zr__keys_of(config); key->path; key++) {
        const char *member = NULL;
        if (key->state == ZR_KEY_NO_MEANING || !zr__key_is_read(config, key)) continue;
        json_t *object = zr__member_object(root, key->path, strlen(key->path), &member);
        ZR_CHECK(json_object_set_new_nocheck(object, member, zr__value_get(config, key)) == 0, ZR_ERR_MEMORY,
                 "out of memory for the resolved configuration");
    }
    return ZR_OK;
}

zr_status zr_config_to_json(const zr_config *config, char **json)
{
    *json = NULL;
    json_auto_t *root = json_object();
    ZR_CHECK(root, ZR_ERR_MEMORY, "out of memory for the resolved configuration");
    ZR_TRY(add_members(config, root));
    return zr__json_print(root, json);
}

json_t *zr__config_changes(const zr_config *from, const zr_config *to, const char *const *shown)
{
    json_t *changes = json_object();
    for (const zr_key *key = zr__keys_of(to); changes && key->path; key++) {
        if (key->state == ZR_KEY_NO_MEANING || strcmp(key->path, "train_batch_size") == 0) continue;
        json_auto_t *before = zr__value_get(from, key), *after = zr__value_get(to, key);
        bool show = !json_equal(before, after);
        for (const char *const *name = shown; *name; name++) show |= strcmp(*name, key->path) == 0;
        if (show && json_object_set(changes, key->path, after) != 0) json_decref(changes), changes = NULL;
    }
    return changes;
}

zr_status zr__config_hash(const zr_config *config, uint64_t *hash)
{
    ZR_AUTO_FREE char *json = NULL;
    ZR_TRY(zr_config_to_json(config, &json));
    *hash = XXH3_64bits_withSeed(json, strlen(json), XXH3_64bits(ZR_VERSION, strlen(ZR_VERSION)));
    return ZR_OK;
}
