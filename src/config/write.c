/* Printing the resolved configuration as JSON, and its hash. */
#include "config/internal.h"
#include "config/config.h"

#include <string.h>
#include <xxhash.h>

/* Set a member by its dotted path, creating objects on the way. Steals `value`. */
static int put(json_t *object, const char *path, json_t *value)
{
    char part[64];
    for (size_t n = strcspn(path, "."); path[n]; n = strcspn(path, ".")) {
        if (n >= sizeof(part)) break;
        memcpy(part, path, n);
        part[n] = '\0';
        json_t *child = json_object_get(object, part);
        if (!child) {
            child = json_object();
            if (json_object_set_new(object, part, child) != 0) {
                json_decref(value);
                return -1;
            }
        }
        object = child;
        path += n + 1;
    }
    return json_object_set_new_nocheck(object, path, value);
}

static zr_status build(const zr_config *config, json_t *root)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    for (int i = 0; i < n; i++)
        if (key[i].state != ZR_KEY_NO_MEANING && zr__key_is_read(config, &key[i]))
            ZR_CHECK(put(root, key[i].path, zr__value_get(config, &key[i])) == 0, ZR_ERR_MEMORY,
                     "out of memory for the resolved configuration");
    return ZR_OK;
}

zr_status zr_config_to_json(const zr_config *config, char **json)
{
    *json = NULL;
    json_t *root = json_object();
    ZR_CHECK(root, ZR_ERR_MEMORY, "out of memory for the resolved configuration");
    zr_status st = build(config, root);
    if (st == ZR_OK) st = zr__json_print(root, json);
    json_decref(root);
    return st;
}

zr_status zr__config_hash(const zr_config *config, uint64_t *hash)
{
    char *json;
    ZR_TRY(zr_config_to_json(config, &json));
    *hash = XXH3_64bits_withSeed(json, strlen(json), XXH3_64bits(ZR_VERSION, strlen(ZR_VERSION)));
    zr_free(json);
    return ZR_OK;
}

zr_status zr__config_bytes(const char *text, int64_t *bytes)
{
    char shown[64];
    ZR_CHECK(zr__text_bytes(text, bytes), ZR_ERR_CONFIG, "%s: wanted bytes, such as 2000000000, 2GB, 2GiB or 80G",
             zr__text_escape(text, shown, sizeof(shown)));
    return ZR_OK;
}
