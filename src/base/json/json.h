/**
 * base/json: JSON. json_write.h writes members one by one. json_scan.h finds tokens and their positions. This header
 * reads JSON that people have written, with jansson as parser. Duplicate keys, trailing commas, comments and NaN are
 * refused. The size limit is 16 MiB unless the caller gives another, and values may be nested 64 levels deep. Error
 * messages contain positions. A byte order mark and CR LF line ends are accepted.
 */
#ifndef ZR_BASE_JSON_H
#define ZR_BASE_JSON_H

#include "base/core/scope.h"

#include <jansson.h>

#define ZR_JSON_MAX_BYTES (16 << 20)
#define ZR_JSON_MAX_DEPTH 64

/** Location of a value in a document: its parent, and its key or index in the parent. The root has no parent. */
typedef struct zr__json_place {
    const struct zr__json_place *parent;
    const char *key; /* key, or NULL if the value is element `index` of an array */
    size_t index;
} zr__json_place;

/** Read a whole file into *text, which the caller releases with zr_free. zr__json_read is for paths that a person
 * types, and also reads a pipe to its end. zr__json_read_file is for paths inside directories, and accepts only regular
 * files. Errors: ZR_ERR_NOT_FOUND; ZR_ERR_IO; if the file exceeds the size limit, ZR_ERR_CONFIG (zr__json_read) or
 * ZR_ERR_DATA (zr__json_read_file). */
ZR_NODISCARD zr_status zr__json_read(const char *path, char **text, size_t *bytes);
ZR_NODISCARD zr_status zr__json_read_file(const char *path, char **text, size_t *bytes);
/** Read a file like zr__json_read_file, but with a limit of `most` bytes. */
ZR_NODISCARD zr_status zr__json_read_most(const char *path, size_t most, char **text, size_t *bytes);

/** Parse a text that is a JSON object or array. *root receives its value, which the caller releases with json_decref.
 * `name` is the file's name in messages. Fail with ZR_ERR_CONFIG and the message "name:line:column: key.path:
 * reason". */
ZR_NODISCARD zr_status zr__json_parse(const char *text, size_t bytes, const char *name, json_t **root);
/** Read and parse a file of a directory. The file counts as data, not as configuration. Release *root with json_decref.
 * Errors: ZR_ERR_NOT_FOUND; ZR_ERR_IO; ZR_ERR_MEMORY; ZR_ERR_DATA with the message of zr__json_parse. */
ZR_NODISCARD zr_status zr__json_load_data(const char *path, json_t **root);
/** Call json_loadb with `flags`. If the text is not JSON, return ZR_OK, set *root to NULL and store the reason in
 * *error. Return ZR_ERR_MEMORY if memory is short. jansson reports a lack of memory like a syntax error. To tell them
 * apart, the program's allocator (json_set_alloc_funcs) must pass its results through zr__json_allocated, as the
 * command's does. */
ZR_NODISCARD zr_status zr__json_load(const char *text, size_t bytes, size_t flags, const char *name, json_t **root,
                                     json_error_t *error);
/** Call json_loads with `flags`. Return NULL if the text is not JSON or memory is short. */
json_t *zr__json_loads(const char *text, size_t flags);
/** Return `memory`, the result of an allocation for jansson. If it is NULL and zr__json_load is running on this thread,
 * make zr__json_load fail at once. Outside zr__json_load, jansson may silently drop a value when an allocation fails,
 * so the program must record the failure. */
void *zr__json_allocated(void *memory);
/** Parse a text that counts as data, with a limit of `most` bytes. Fail like zr__json_parse, but with ZR_ERR_DATA. */
ZR_NODISCARD zr_status zr__json_parse_most(const char *text, size_t bytes, size_t most, const char *name,
                                           json_t **root);
/** Parse like zr__json_parse_most, but read integers as real numbers. transformers writes integers of more than 64 bits
 * into tokenizer_config.json (model_max_length). */
ZR_NODISCARD zr_status zr__json_parse_reals(const char *text, size_t bytes, size_t most, const char *name,
                                            json_t **root);

/** Replace each comment, from `//` to the end of its line, with spaces, so that later positions do not change. */
void zr__json_blank_comments(char *text, size_t bytes);

/** Skip a byte order mark by advancing *text; positions in messages do not count the mark. */
void zr__json_skip_mark(const char **text, size_t *bytes);

/** Find line and column of a key or array element, both from 1; columns count characters. If the text does not contain
 * it, return false with the position of its nearest ancestor in the text. */
bool zr__json_find(const char *text, size_t bytes, const zr__json_place *place, int *line, int *column);

/** Write the path of a value, such as "a.b[1]", to `out`, truncated to `size`. Return `out`. */
const char *zr__json_path(const zr__json_place *place, char *out, size_t size);

/** Fail with "name:line:column: key.path: message". `text` begins after the byte order mark. */
zr_status zr__json_fail(const char *text, size_t bytes, const char *name, const zr__json_place *place, zr_status status,
                        const char *message);

/** Return whether `name` is a file name, that is, contains '/' or ends in ".json". Any other name selects a built-in
 * item. */
bool zr__json_is_file_name(const char *name);

/** Read a number of bytes from an integer or from text such as "80GB". Return false if the value is of another form,
 * below 0 or above 2^53. */
bool zr__json_bytes(const json_t *json, int64_t *bytes);

/** Print a value in short form for a message. If `json` is NULL, print "missing". Return `out`. */
const char *zr__json_show(const json_t *json, char *out, size_t size);
#define ZR_JSON_SHOWN_BYTES 96
/** Short form of a value for a message, in a buffer that lives as long as the enclosing block. */
#define ZR_JSON_SHOWN(json) zr__json_show((json), (char[ZR_JSON_SHOWN_BYTES]){0}, ZR_JSON_SHOWN_BYTES)

/** Print a value as indented text, which the caller releases with zr_free. Numbers have the fewest digits that read
 * back as the same number. Error: ZR_ERR_MEMORY. It is also returned if `json` is NULL, as jansson returns NULL when
 * memory is short. */
ZR_NODISCARD zr_status zr__json_print(const json_t *json, char **text);
/** Write a value as zr__json_print prints it to a file, atomically. Errors: as zr__json_print and zr__file_put. */
ZR_NODISCARD zr_status zr__json_put(const char *path, const json_t *json);

#endif
