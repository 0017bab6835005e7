/**
 * Data files named by a value of data.train or data.val. A value names one source, or several sources with weights:
 *
 *   text.txt                                       a file
 *   shards/train_*.bin                             a pattern (glob): every matching file, sorted by name
 *   ["a.txt", "more/b_*.txt"]                      a JSON list of files and patterns: one source, in this order
 *   [{"path": "a.txt", "weight": 0.7}, {"path": ["b.txt", "c.txt"], "weight": 0.3}]     several sources
 *
 * A value that is the name of an existing file means that file, even if it has characters of a pattern.
 */
#ifndef ZR_BASE_SHARDS_H
#define ZR_BASE_SHARDS_H

#include "base/json/json.h"

#include <limits.h>

typedef struct zr__source_shards {
    int64_t first, n; /* first: index of the source's first path in zr__shards.path; n: number of the source's paths */
    double weight;    /* weight of the source, above 0; 1 if the configured value has no weights */
} zr__source_shards;

typedef struct zr__shards {
    char **path; /* array of n paths */
    int64_t n, room;
    zr__source_shards *source; /* array of `sources` sources */
    int64_t sources;
    bool weighted; /* whether the configured value is a list with a weight for each source */
} zr__shards;

/** Find the files named by a value. Fail with ZR_ERR_NOT_FOUND if a pattern matches no file, or with ZR_ERR_CONFIG if a
 * list has the wrong form. Call zr__shards_free even after a failure; a zero-initialised struct may also be freed. */
ZR_NODISCARD zr_status zr__shards_find(const char *value, zr__shards *shards);
void zr__shards_free(zr__shards *shards);

/** Allowed forms of a value, as text for messages. */
#define ZR__SHARDS_WANTED "a path, a list of paths, or a list of {\"path\": PATH, \"weight\": NUMBER above 0}"

/** Return whether this JSON is a valid list or path of data files. If not, *element is the index of the wrong
 * element of the list, or -1 if the value itself is wrong. */
bool zr__shards_fit(const json_t *value, int64_t *element);

/** Return the JSON list that `value` contains, or NULL if `value` is not a JSON list, such as a path or a pattern. The
 * caller releases the list with json_decref. */
json_t *zr__shards_list(const char *value);

/** Return whether the path contains pattern (glob) characters. */
bool zr__shards_is_pattern(const char *path);

/** Replace each path or pattern in a value with the path that fn writes to `found`. *changed receives the new value,
 * which the caller releases with zr_free. Errors: ZR_ERR_MEMORY, and any error of fn. */
typedef zr_status (*zr__shards_fn)(void *arg, const char *path, char found[PATH_MAX]);
ZR_NODISCARD zr_status zr__shards_each(const char *value, zr__shards_fn fn, void *arg, char **changed);

#endif
