/**
 * base/json: JSON. json_write.h prints members one by one, json_scan.h finds tokens and their places. This header reads
 * JSON written by people: strict (no duplicate keys, trailing commas, comments or NaN), bounded (16 MiB unless given,
 * 64 levels), with positions in messages. A byte order mark and CR LF are accepted. jansson does the parsing.
 */
#ifndef ZR_BASE_JSON_H
#define ZR_BASE_JSON_H

#include "zr/base.h"

#include <jansson.h>

#define ZR_JSON_MAX_BYTES (16 << 20)
#define ZR_JSON_MAX_DEPTH 64

/** Place of a value: its key or index within its parent. The root has no parent. */
typedef struct zr__json_place {
    const struct zr__json_place *parent;
    const char *key; /* NULL: element `index` of an array */
    size_t index;
} zr__json_place;

/** Read a whole file; zr_free the text. ZR_ERR_NOT_FOUND, ZR_ERR_CONFIG above the size limit, ZR_ERR_IO. _read also
 * reads a pipe to its end, as a path that a person has typed may be one; _read_file reads regular files only, for paths
 * inside directories. */
ZR_NODISCARD zr_status zr__json_read(const char *path, char **text, size_t *bytes);
ZR_NODISCARD zr_status zr__json_read_file(const char *path, char **text, size_t *bytes);
/** Read as zr__json_read_file does, with a limit of `most` bytes. */
ZR_NODISCARD zr_status zr__json_read_most(const char *path, size_t most, char **text, size_t *bytes);

/** Parse an object or array; `name` stands for the file in messages. json_decref the root.
 *  ZR_ERR_CONFIG as "name:line:column: key.path: reason". */
ZR_NODISCARD zr_status zr__json_parse(const char *text, size_t bytes, const char *name, json_t **root);
/** Call json_loadb with its flags. *root NULL and ZR_OK: the text is no JSON, as *error says. ZR_ERR_MEMORY: jansson
 * reports lack of memory as an error in the text, so it is recognised only if the program's allocator
 * (json_set_alloc_funcs) returns through zr__json_allocated, as the command's does. */
ZR_NODISCARD zr_status zr__json_load(const char *text, size_t bytes, size_t flags, const char *name, json_t **root,
                                     json_error_t *error);
/** Call json_loads with its flags. NULL: the text is no JSON, or no memory. */
json_t *zr__json_loads(const char *text, size_t flags);
/** Return `memory`. NULL ends the call of zr__json_load that runs on this thread. Outside of that call jansson may
 * leave out a value, so the program has to remember that an allocation failed. */
void *zr__json_allocated(void *memory);
/** Parse as zr__json_parse does, with a limit of `most` bytes. */
ZR_NODISCARD zr_status zr__json_parse_most(const char *text, size_t bytes, size_t most, const char *name,
                                           json_t **root);

/** Replace each comment, from `//` to the end of its line, by spaces, so that positions stay the same. */
void zr__json_blank_comments(char *text, size_t bytes);

/** Step over a byte order mark; positions count from after it. */
void zr__json_skip_mark(const char **text, size_t *bytes);

/** Find line and column (from 1, in characters) of the key, or of the array's element. False: it is not found, and
 * the place is its nearest parent's that is found. */
bool zr__json_find(const char *text, size_t bytes, const zr__json_place *place, int *line, int *column);

/** Write "a.b[1]" to `out`, cut to size. Returns `out`. */
const char *zr__json_path(const zr__json_place *place, char *out, size_t size);

/** Fail with "name:line:column: key.path: message". The text begins after the byte order mark. */
zr_status zr__json_fail(const char *text, size_t bytes, const char *name, const zr__json_place *place, zr_status status,
                        const char *message);

/** Return whether `name` is a file's, that is, has a '/' or ends in ".json", rather than the name of something built
 * in. */
bool zr__json_is_file_name(const char *name);

/** Read an amount of bytes: a whole number, or text such as "80GB". False: it is neither, below 0 or above 2^53. */
bool zr__json_bytes(const json_t *json, int64_t *bytes);

/** Print a value in short, for a message; NULL: "missing". Returns `out`. */
const char *zr__json_show(const json_t *json, char *out, size_t size);
#define ZR_JSON_SHOWN_BYTES 96
/** A value for a message, in scratch of the enclosing block. */
#define ZR_JSON_SHOWN(json) zr__json_show((json), (char[ZR_JSON_SHOWN_BYTES]){0}, ZR_JSON_SHOWN_BYTES)

/** Print a value as indented text, numbers in the fewest digits that read back the same; zr_free it. ZR_ERR_MEMORY,
 * also for NULL, which jansson returns without memory. */
ZR_NODISCARD zr_status zr__json_print(const json_t *json, char **text);

#endif
