/**
 * JSON from people's hands: strict (no duplicate keys, trailing commas, comments or NaN), bounded (16 MiB where
 * nothing else is said, 64 levels), with positions in messages. A byte order mark and CR LF are accepted. Parsing is
 * jansson's.
 */
#ifndef ZR_BASE_JSON_H
#define ZR_BASE_JSON_H

#include "zr/base.h"

#include <jansson.h>

#define ZR_JSON_MAX_BYTES (16 << 20)
#define ZR_JSON_MAX_DEPTH 64

/** Where a value stands: its key or index within its parent. The root has no parent. */
typedef struct zr__json_place {
    const struct zr__json_place *parent;
    const char *key; /* NULL: element `index` of an array */
    size_t index;
} zr__json_place;

/** Read a whole file, zr_free it. ZR_ERR_NOT_FOUND, ZR_ERR_CONFIG above the size limit, ZR_ERR_IO. A pipe is read to
 * its end: a path that a person has typed may be one. _file: nothing but a regular file, for paths inside directories.
 */
ZR_NODISCARD zr_status zr__json_read(const char *path, char **text, size_t *bytes);
ZR_NODISCARD zr_status zr__json_read_file(const char *path, char **text, size_t *bytes);
/** As _file, of up to `most` bytes. */
ZR_NODISCARD zr_status zr__json_read_most(const char *path, size_t most, char **text, size_t *bytes);

/** Parse an object or array; `name` stands for the file in messages. json_decref the root.
 *  ZR_ERR_CONFIG as "name:line:column: key.path: reason". */
ZR_NODISCARD zr_status zr__json_parse(const char *text, size_t bytes, const char *name, json_t **root);
/** Call json_loadb with its flags. *root NULL and ZR_OK: the text is no JSON, as *error says. ZR_ERR_MEMORY, which
 *  jansson reports as an error in the text: it is told apart where the allocator of the program (json_set_alloc_funcs)
 *  returns through zr__json_allocated, as the command's does. */
ZR_NODISCARD zr_status zr__json_load(const char *text, size_t bytes, size_t flags, const char *name, json_t **root,
                                     json_error_t *error);
/** Call json_loads with its flags: NULL where the text is no JSON, and without memory. */
json_t *zr__json_loads(const char *text, size_t flags);
/** Return `memory`; NULL ends the call of zr__json_load that runs on this thread, if one does. Where none does jansson
 *  may leave out a value: the program has to remember that it got no memory. */
void *zr__json_allocated(void *memory);
/** As zr__json_parse, of up to `most` bytes. */
ZR_NODISCARD zr_status zr__json_parse_most(const char *text, size_t bytes, size_t most, const char *name,
                                           json_t **root);

/** Put spaces in the place of comments, each from `//` to the end of its line: places stay what they are. */
void zr__json_blank_comments(char *text, size_t bytes);

/** Step over a byte order mark; positions count from behind it. */
void zr__json_skip_mark(const char **text, size_t *bytes);

/** Line and column (from 1, in characters) of the key, or of the array's element; where it is not
 *  found (then false), of the nearest parent that is. */
bool zr__json_find(const char *text, size_t bytes, const zr__json_place *place, int *line, int *column);

/** "a.b[1]" into out, cut to size. Returns `out`. */
const char *zr__json_path(const zr__json_place *place, char *out, size_t size);

/** Fail with "name:line:column: key.path: message". The text begins behind the byte order mark. */
zr_status zr__json_fail(const char *text, size_t bytes, const char *name, const zr__json_place *place, zr_status status,
                        const char *message);

/** Is this the name of a file, rather than of something that is known by name? It has a '/' or ends in ".json". */
bool zr__json_is_file_name(const char *name);

/** An amount of bytes: a whole number, or text as "80GB". False when it is neither, below 0 or above 2^53. */
bool zr__json_bytes(const json_t *json, int64_t *bytes);

/** A value as a short piece of a message. Returns `out`. */
const char *zr__json_show(const json_t *json, char *out, size_t size);

/** Indented text of a value, numbers in the fewest digits that read back the same; zr_free it. ZR_ERR_MEMORY, also of
 *  NULL, which is what jansson makes without memory. */
ZR_NODISCARD zr_status zr__json_print(const json_t *json, char **text);

#endif
