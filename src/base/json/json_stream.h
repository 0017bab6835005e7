/** Reads a large JSON file value by value, so that memory does not grow with the file. The values are parsed by
 * jansson, as in json.h. */
#ifndef ZR_BASE_JSON_STREAM_H
#define ZR_BASE_JSON_STREAM_H

#include "base/file/file.h"
#include "base/json/json.h"

typedef struct zr__json_stream {
    zr__file file;
    char *text; /* text[at, n): bytes that have been read from the file but not used */
    int64_t room, n, at;
    int64_t read; /* bytes of the file that have been read */
    /* Whether a function failed because the file is not JSON. To get a message with reason and position, parse the
     * whole file with zr__json_parse_most. */
    bool broken;
} zr__json_stream;

/** Open a regular file. Call zr__json_stream_close even after a failure. Errors: as zr__file_open. */
ZR_NODISCARD zr_status zr__json_stream_open(const char *path, zr__json_stream *stream);
void zr__json_stream_close(zr__json_stream *stream);

/** Store the first character of the next value in *c, or '\0' at the end of the file. Error: ZR_ERR_IO, ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__json_stream_peek(zr__json_stream *stream, char *c);

/** Read the next value, which the caller releases with json_decref. Errors: ZR_ERR_DATA with stream->broken; ZR_ERR_IO;
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__json_stream_value(zr__json_stream *stream, json_t **value);

/** Function for a member or an element, which must read its value. `key` is NULL for element `index` of an array. */
typedef zr_status (*zr__json_stream_fn)(void *arg, zr__json_stream *stream, const char *key, size_t index);

/** Read the object ('{') or array ('[') that comes next, and call fn for each member or element. Fail with ZR_ERR_DATA
 * and stream->broken if it is damaged, or has a key twice; other errors: as zr__json_stream_value, and errors of fn. */
ZR_NODISCARD zr_status zr__json_stream_each(zr__json_stream *stream, char bracket, zr__json_stream_fn fn, void *arg);

/** Fail like zr__json_stream_value unless the file ends here. Error: also ZR_ERR_IO if the file has changed. */
ZR_NODISCARD zr_status zr__json_stream_end(zr__json_stream *stream);

#endif
