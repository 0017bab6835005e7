#include "base/paths/shards.h"

#include "base/core/grow.h"
#include "base/text/text.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- values ---------------------------------------------------------------------------------- */

bool zr__shards_is_pattern(const char *path)
{
    return strpbrk(path, "*?[") != NULL;
}

json_t *zr__shards_list(const char *value)
{
    json_auto_t *list = value[0] == '[' ? zr__json_loads(value, JSON_REJECT_DUPLICATES) : NULL;
    return json_is_array(list) ? json_incref(list) : NULL;
}

static bool is_path(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) > 0;
}

static bool are_paths(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is_path(json_array_get(list, i))) return false;
    return json_array_size(list) > 0;
}

static bool is_source(const json_t *value)
{
    const json_t *path = json_object_get(value, "path"), *weight = json_object_get(value, "weight");
    return json_object_size(value) == 2 && (is_path(path) || are_paths(path)) && json_is_number(weight) &&
           json_number_value(weight) > 0;
}

bool zr__shards_fit(const json_t *value, int64_t *element)
{
    *element = -1;
    if (is_path(value)) return true;
    const size_t n = json_array_size(value);
    const bool sources = n > 0 && json_is_object(json_array_get(value, 0));
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(value, i);
        if (sources ? is_source(one) : is_path(one)) continue;
        *element = (int64_t)i;
        return false;
    }
    return n > 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static zr_status add_path(zr__shards *s, const char *path)
{
    ZR_GROW(s->path, s->room, s->n + 1, "names of files");
    ZR_TRY(zr__text_copy(path, strlen(path), &s->path[s->n]));
    s->n++;
    return ZR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Add the files that match a pattern, sorted by the bytes of their names, independently of the locale. */
static zr_status add_matches(zr__shards *s, const char *pattern)
{
    glob_t found = {0};
    zr_status st = ZR_OK;
    const int failed = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (failed == GLOB_NOSPACE)
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory for the names that match %s", ZR_SHOWN(pattern));
    else if (failed)
        st = ZR_FAIL(ZR_ERR_NOT_FOUND, "%s: %s", ZR_SHOWN(pattern),
                     failed == GLOB_NOMATCH ? "no file matches this pattern"
                                            : "a directory in the pattern cannot be read");
    else
        qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), by_name);
    for (size_t i = 0; st == ZR_OK && i < found.gl_pathc; i++) st = add_path(s, found.gl_pathv[i]);
    globfree(&found);
    return st;
}

static zr_status add_name(zr__shards *s, const char *name)
{
    if (zr__shards_is_pattern(name) && access(name, F_OK) != 0) return add_matches(s, name);
    return add_path(s, name);
}

static zr_status add_names(zr__shards *s, const json_t *names)
{
    if (json_is_string(names)) return add_name(s, json_string_value(names));
    for (size_t i = 0; i < json_array_size(names); i++)
        ZR_TRY(add_name(s, json_string_value(json_array_get(names, i))));
    return ZR_OK;
}

static zr_status add_sources(zr__shards *s, const json_t *list)
{
    int64_t element;
    ZR_CHECK(zr__shards_fit(list, &element), ZR_ERR_CONFIG, "list of data files, element %lld: expected %s",
             (long long)element, ZR__SHARDS_WANTED);
    s->weighted = json_is_object(json_array_get(list, 0));
    const size_t n = s->weighted ? json_array_size(list) : 1;
    s->source = zr_alloc(n * sizeof(*s->source));
    ZR_CHECK(s->source, ZR_ERR_MEMORY, "no memory for %zu sources of data", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = s->weighted ? json_array_get(list, i) : NULL;
        const int64_t first = s->n;
        ZR_TRY(add_names(s, one ? json_object_get(one, "path") : list));
        const double weight = one ? json_number_value(json_object_get(one, "weight")) : 1;
        s->source[s->sources++] = (zr__source_shards){first, s->n - first, weight};
    }
    return ZR_OK;
}

static zr_status add_single(zr__shards *s, const char *name)
{
    s->source = zr_alloc(sizeof(*s->source));
    ZR_CHECK(s->source, ZR_ERR_MEMORY, "no memory for a source of data");
    ZR_TRY(add_name(s, name));
    s->source[s->sources++] = (zr__source_shards){0, s->n, 1};
    return ZR_OK;
}

zr_status zr__shards_find(const char *value, zr__shards *shards)
{
    json_auto_t *list = zr__shards_list(value);
    *shards = (zr__shards){0};
    return list ? add_sources(shards, list) : add_single(shards, value);
}

void zr__shards_free(zr__shards *s)
{
    for (int64_t i = 0; i < s->n; i++) zr_free(s->path[i]);
    zr_free(s->path);
    zr_free(s->source);
    *s = (zr__shards){0};
}

/* ---- other places ---------------------------------------------------------------------------- */

/* Replace a JSON string with the path that fn writes. */
static zr_status change_one(json_t *name, zr__shards_fn fn, void *arg)
{
    char found[PATH_MAX];
    ZR_TRY(fn(arg, json_string_value(name), found));
    ZR_CHECK(json_string_set_nocheck(name, found) == 0, ZR_ERR_MEMORY, "no memory for a path");
    return ZR_OK;
}

static zr_status change_all(json_t *value, zr__shards_fn fn, void *arg)
{
    if (json_is_string(value)) return change_one(value, fn, arg);
    if (json_is_object(value)) return change_all(json_object_get(value, "path"), fn, arg);
    for (size_t i = 0; i < json_array_size(value); i++) ZR_TRY(change_all(json_array_get(value, i), fn, arg));
    return ZR_OK;
}

zr_status zr__shards_each(const char *value, zr__shards_fn fn, void *arg, char **changed)
{
    json_auto_t *list = zr__shards_list(value);
    char found[PATH_MAX];
    *changed = NULL;
    ZR_TRY(list ? change_all(list, fn, arg) : fn(arg, value, found));
    if (!list) return zr__text_copy(found, strlen(found), changed);
    char *dumped = json_dumps(list, JSON_COMPACT);
    ZR_CHECK(dumped, ZR_ERR_MEMORY, "no memory for the names of files");
    const zr_status st = zr__text_copy(dumped, strlen(dumped), changed);
    free(dumped); /* jansson allocated the text, so zr_free cannot free it */
    return st;
}
