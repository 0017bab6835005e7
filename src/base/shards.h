/**
 * What the value of data.train or data.val names: files, of one source or of several with weights.
 *
 *   text.txt                                       a file
 *   shards/train_*.bin                             a pattern (glob): every file that matches, by name
 *   ["a.txt", "more/b_*.txt"]                      a list of these, as JSON: one source, in this order
 *   [{"path": "a.txt", "weight": 0.7}, {"path": ["b.txt", "c.txt"], "weight": 0.3}]     sources
 *
 * A name that is there is that file, whatever characters it has.
 */
#ifndef ZR_BASE_SHARDS_H
#define ZR_BASE_SHARDS_H

#include "base/json.h"

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

/** The files. ZR_ERR_NOT_FOUND naming a pattern that nothing matches; ZR_ERR_CONFIG a list that is none of the above.
 *  Free it in either case; zeros are fine. */
ZR_NODISCARD zr_status zr__shards_find(const char *value, zr__shards *shards);
void zr__shards_free(zr__shards *shards);

/** What a value may be, for messages. */
#define ZR__SHARDS_WANTED "a path, a list of paths, or a list of {\"path\": PATH, \"weight\": NUMBER above 0}"

/** May this JSON stand in the place of a path? Where not, *element of the list is wrong (-1: the value itself). */
bool zr__shards_fit(const json_t *value, int64_t *element);

/** The list that a value is, json_decref it; NULL: it is a path or a pattern. */
json_t *zr__shards_list(const char *value);

/** Has it characters of a pattern? */
bool zr__shards_is_pattern(const char *path);

/** Call fn for each path or pattern of a value and put what it leaves in `found` in its place; *changed, zr_free it, is
 *  the value then. ZR_ERR_MEMORY, and what fn returns. */
typedef zr_status (*zr__shards_fn)(void *arg, const char *path, char found[PATH_MAX]);
ZR_NODISCARD zr_status zr__shards_each(const char *value, zr__shards_fn fn, void *arg, char **changed);

#endif
