/**
 * The files that a value of data.train or data.val names, of one source or of several with weights.
 *
 *   text.txt                                       a file
 *   shards/train_*.bin                             a pattern (glob): every file that matches, by name
 *   ["a.txt", "more/b_*.txt"]                      a list of files and patterns, as JSON: one source, in this order
 *   [{"path": "a.txt", "weight": 0.7}, {"path": ["b.txt", "c.txt"], "weight": 0.3}]     sources
 *
 * The name of an existing file is that file, even if it has characters of a pattern.
 */
#ifndef ZR_BASE_SHARDS_H
#define ZR_BASE_SHARDS_H

#include "base/json/json.h"

#include <limits.h>

typedef struct zr__source_shards {
    int64_t first, n; /* of `path` */
    double weight;    /* above 0; 1 where none is given */
} zr__source_shards;

typedef struct zr__shards {
    char **path; /* (n) */
    int64_t n, room;
    zr__source_shards *source; /* (sources) */
    int64_t sources;
    bool weighted; /* they came with weights */
} zr__shards;

/** Find the files. ZR_ERR_NOT_FOUND naming a pattern without a match; ZR_ERR_CONFIG: a list of another form than
 * above. Free it in either case; zeros are fine. */
ZR_NODISCARD zr_status zr__shards_find(const char *value, zr__shards *shards);
void zr__shards_free(zr__shards *shards);

/** Allowed forms of a value, for messages. */
#define ZR__SHARDS_WANTED "a path, a list of paths, or a list of {\"path\": PATH, \"weight\": NUMBER above 0}"

/** Return whether this JSON may stand in the place of a path. False: element *element of the list is wrong (-1: the
 * value itself). */
bool zr__shards_fit(const json_t *value, int64_t *element);

/** Return the list that a value is, json_decref it; NULL: it is a path or a pattern. */
json_t *zr__shards_list(const char *value);

/** Return whether the path has characters of a pattern. */
bool zr__shards_is_pattern(const char *path);

/** Call fn for each path or pattern of a value and replace it by the path that fn writes to `found`. *changed is the
 * new value, zr_free it. ZR_ERR_MEMORY, and the errors of fn. */
typedef zr_status (*zr__shards_fn)(void *arg, const char *path, char found[PATH_MAX]);
ZR_NODISCARD zr_status zr__shards_each(const char *value, zr__shards_fn fn, void *arg, char **changed);

#endif
