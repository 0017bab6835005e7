/* Finding keys in the table, and texts about them. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const zr_key *zr__key_find(const char *path)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(key[i].path, path) == 0) return &key[i];
    for (int i = 0; i < n; i++) {
        size_t length = strlen(key[i].path);
        /* "aio.*": the star itself is not part of the name. */
        if (key[i].path[length - 1] == '*' && strncmp(key[i].path, path, length - 1) == 0) return &key[i];
    }
    return NULL;
}

bool zr__key_is_section(const char *path)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    size_t length = strlen(path);
    for (int i = 0; i < n; i++)
        if (strncmp(key[i].path, path, length) == 0 && key[i].path[length] == '.') return true;
    return false;
}

bool zr__key_is_read(const zr_config *config, const zr_key *key)
{
    if (strncmp(key->path, "fp16.", 5) == 0) return config->fp16 || strcmp(key->path, "fp16.enabled") == 0;
    bool optimizer = strncmp(key->path, "optimizer.", strlen("optimizer.")) == 0;
    unsigned type = optimizer ? (unsigned)config->optimizer.type : (unsigned)config->scheduler.type;
    return !key->only || (key->only & 1u << type);
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Update `best` and its distance by one candidate, compared by its whole path, or by its last part alone (a key in
 * the wrong section) at a cost of one more letter. */
static void consider(const char *wanted, const char *candidate, size_t length, char *best, size_t size, int *limit)
{
    char name[128];
    if (length >= sizeof(name) || candidate[length - 1] == '*') return;
    snprintf(name, sizeof(name), "%.*s", (int)length, candidate);
    int whole = zr__text_distance(wanted, name);
    int part = zr__text_distance(last_part(wanted), last_part(name)) + 1;
    int distance = whole < part ? whole : part;
    if (distance >= *limit) return;
    *limit = distance;
    snprintf(best, size, "%s", name);
}

const char *zr__key_nearest(const char *path, char *out, size_t size)
{
    int n;
    const zr_key *key = zr_config_keys(&n);
    int limit = (int)strnlen(last_part(path), 64) / 3 + 2;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        const char *end = key[i].path;
        do {
            end += strcspn(end, ".");
            consider(path, key[i].path, (size_t)(end - key[i].path), out, size, &limit);
        } while (*end++);
    }
    return out[0] ? out : NULL;
}

static void range_text(const zr_key *key, const char *what, char *out, size_t size)
{
    char min[ZR_NUMBER_BYTES], max[ZR_NUMBER_BYTES];
    zr__text_shortest(key->min, min);
    if (key->max == ZR_CONFIG_MAX_INT)
        snprintf(out, size, "%s from %s to 2^53", what, min);
    else
        snprintf(out, size, "%s from %s to %s", what, min, zr__text_shortest(key->max, max));
}

const char *zr__choice_list(const char *choices, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = choices; *at && used + 3 < size; at++)
        used += (size_t)(*at == '|' ? snprintf(out + used, size - used, ", ")
                                    : snprintf(out + used, size - used, "%c", *at));
    return out;
}

const char *zr__key_wanted(const zr_key *key, char *out, size_t size)
{
    char list[160];
    switch (key->type) {
    case ZR_KEY_BOOL:
        snprintf(out, size, "true or false");
        break;
    case ZR_KEY_SWITCH:
        snprintf(out, size, "true, false or \"auto\"");
        break;
    case ZR_KEY_INT:
        range_text(key, "an integer", out, size);
        break;
    case ZR_KEY_NUMBER:
        range_text(key, "a number", out, size);
        break;
    case ZR_KEY_BYTES:
        snprintf(out, size, "bytes, such as 2000000000, \"2GB\" or \"2GiB\"");
        break;
    case ZR_KEY_PAIR:
        snprintf(out, size, "two numbers from 0 to below 1");
        break;
    case ZR_KEY_NAMES:
        snprintf(out, size, "a pattern of names, a list of one or more, or null for none");
        break;
    case ZR_KEY_PATHS:
        snprintf(out, size, "%s", ZR__SHARDS_WANTED);
        break;
    case ZR_KEY_ANY:
        snprintf(out, size, "any value");
        break;
    case ZR_KEY_STRING:
    case ZR_KEY_CHOICE:
    case ZR_KEY_EITHER:
        if (key->choices)
            snprintf(out, size, "one of %s", zr__choice_list(key->choices, list, sizeof(list)));
        else
            snprintf(out, size, "a string");
        break;
    }
    return out;
}

int zr__choice_index(const char *choices, const char *word, size_t length)
{
    int index = 0;
    for (const char *at = choices;; index++) {
        size_t n = strcspn(at, "|");
        if (n == length && strncasecmp(at, word, n) == 0) return index;
        if (!at[n]) return -1;
        at += n + 1;
    }
}
