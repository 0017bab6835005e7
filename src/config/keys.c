/* Finds keys in the table, and describes the values that keys take. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const zr_key *zr__key_find(const zr_key *keys, const char *path)
{
    for (const zr_key *key = keys; key->path; key++)
        if (strcmp(key->path, path) == 0) return key;
    for (const zr_key *key = keys; key->path; key++) {
        size_t length = strlen(key->path);
        /* In a key such as "aio.*", the star is not part of the name. */
        if (key->path[length - 1] == '*' && strncmp(key->path, path, length - 1) == 0) return key;
    }
    return NULL;
}

bool zr__key_is_text(const zr_key *key)
{
    return key->type == ZR_KEY_STRING || key->type == ZR_KEY_PATHS || key->type == ZR_KEY_SHARE ||
           key->type == ZR_KEY_FOLDERS || key->type == ZR_KEY_NAMES || key->type == ZR_KEY_OBJECT;
}

const zr__json_place *zr__key_place_of(const char *path, zr__key_place *out)
{
    enum { PARTS = sizeof(out->part) / sizeof(out->part[0]) };
    int i = 0;
    out->place[0] = (zr__json_place){0};
    for (const char *dot = path; dot; i++) {
        dot = i + 1 < PARTS ? strchr(path, '.') : NULL;
        snprintf(out->part[i], sizeof(out->part[i]), "%.*s", (int)(dot ? (size_t)(dot - path) : strlen(path)), path);
        out->place[i + 1] = (zr__json_place){&out->place[i], out->part[i], 0};
        if (dot) path = dot + 1;
    }
    return &out->place[i];
}

bool zr__key_is_section(const zr_key *keys, const char *path)
{
    size_t length = strlen(path);
    for (const zr_key *key = keys; key->path; key++)
        if (strncmp(key->path, path, length) == 0 && key->path[length] == '.') return true;
    return false;
}

bool zr__key_is_read(const zr_config *config, const zr_key *key)
{
    if (strncmp(key->path, "fp16.", 5) == 0) return config->fp16 || strcmp(key->path, "fp16.enabled") == 0;
    bool optimizer = strncmp(key->path, "optimizer.", strlen("optimizer.")) == 0;
    unsigned type = optimizer ? (unsigned)config->optimizer.type : (unsigned)config->scheduler.type;
    return !key->only || (key->only & 1u << type);
}

const char *zr__key_in_section(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot ? dot + 1 : path;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* If the candidate is nearer to `wanted` than *limit, store it in `best` and its distance in *limit. The distance is
 * the smaller of two numbers: the distance between the whole names, and the distance between their last parts plus 1.
 * The second number finds a key that was written in the wrong section. */
static void consider_name(const char *wanted, const char *candidate, size_t length, char *best, size_t size, int *limit)
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

const char *zr__key_nearest(const zr_key *keys, const char *path, char *out, size_t size)
{
    int limit = (int)strnlen(last_part(path), 64) / 3 + 2;
    out[0] = '\0';
    for (const zr_key *key = keys; key->path; key++) {
        const char *end = key->path;
        do {
            end += strcspn(end, ".");
            consider_name(path, key->path, (size_t)(end - key->path), out, size, &limit);
        } while (*end++);
    }
    return out[0] ? out : NULL;
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
    static const char *const wanted[] = {
        [ZR_KEY_BOOL] = "true or false",
        [ZR_KEY_SWITCH] = "true, false or \"auto\"",
        [ZR_KEY_INT] = "an integer",
        [ZR_KEY_NUMBER] = "a number",
        [ZR_KEY_BYTES] = "bytes, such as 2000000000, \"2GB\" or \"2GiB\"",
        [ZR_KEY_PAIR] = "two numbers, each at least 0 and below 1",
        [ZR_KEY_TRIPLE] = "three numbers, each",
        [ZR_KEY_NAMES] = "a pattern of names, a list of one or more, or null for none",
        [ZR_KEY_PATHS] = ZR__SHARDS_WANTED,
        [ZR_KEY_SHARE] = "a number above 0 and below 1, a path, or a list of paths",
        [ZR_KEY_FOLDERS] = "a folder, or a list of one or more",
        [ZR_KEY_OBJECT] = "an object, or null for none",
        [ZR_KEY_STRING] = "a string",
        [ZR_KEY_CHOICE] = "",
        [ZR_KEY_EITHER] = "",
        [ZR_KEY_IDS] = "a token id, a list of up to 16, or null for none",
        [ZR_KEY_ANY] = "any value",
    };
    if (key->choices)
        snprintf(out, size, "one of %s%s", ZR_CHOICES(key->choices), key->chosen ? ", auto" : "");
    else if (key->type == ZR_KEY_INT || key->type == ZR_KEY_NUMBER || key->type == ZR_KEY_TRIPLE)
        snprintf(out, size, "%s from %s to %s%s", wanted[key->type], ZR_SHORTEST(key->min),
                 key->max == ZR_CONFIG_MAX_INT ? "2^53" : ZR_SHORTEST(key->max), key->chosen ? ", or \"auto\"" : "");
    else
        snprintf(out, size, "%s", wanted[key->type]);
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

void zr__add_words(zr__text *out, const char *begin, const char *next, int columns, const char *words)
{
    int column = (int)strlen(begin);
    zr__text_add(out, "%s", begin);
    while (*words) {
        int length = (int)strcspn(words, " ");
        if (column + 1 + length > columns) {
            column = (int)strlen(next);
            zr__text_add(out, "\n%s", next);
        }
        column += 1 + length;
        zr__text_add(out, " %.*s", length, words);
        words += length;
        words += strspn(words, " ");
    }
    zr__text_add(out, "\n");
}
