#include "base/json/json_stream.h"

#include "base/core/grow.h"
#include "base/json/json_scan.h"

#include <string.h>

enum { PIECE_BYTES = 1 << 16 };

zr_status zr__json_stream_open(const char *path, zr__json_stream *s)
{
    *s = (zr__json_stream){.file = {.fd = -1}};
    return zr__file_open(path, false, &s->file);
}

void zr__json_stream_close(zr__json_stream *s)
{
    zr__file_close(&s->file);
    zr_free(s->text);
    s->text = NULL;
}

static zr_status broken(zr__json_stream *s)
{
    s->broken = true;
    return ZR_FAIL(ZR_ERR_DATA, "%s: the file is not JSON", s->file.name);
}

/* Drop the bytes that have been used. Read as many new bytes as there are unused ones, but at least PIECE_BYTES. */
static zr_status read_more(zr__json_stream *s)
{
    const int64_t left = s->n - s->at, rest = s->file.bytes - s->read;
    int64_t more = left > PIECE_BYTES ? left : PIECE_BYTES;
    if (more > rest) more = rest;
    if (left > 0 && s->at > 0) memmove(s->text, s->text + s->at, (size_t)left);
    s->at = 0;
    s->n = left;
    ZR_GROW(s->text, s->room, left + more, "bytes of JSON");
    ZR_TRY(zr__file_read(&s->file, s->read, s->text + left, more, ZR_ERR_IO));
    if (s->read == 0) {
        const char *text = s->text;
        size_t bytes = (size_t)more;
        zr__json_skip_mark(&text, &bytes);
        s->at = text - s->text;
    }
    s->read += more;
    s->n += more;
    return ZR_OK;
}

zr_status zr__json_stream_peek(zr__json_stream *s, char *c)
{
    for (;;) {
        const zr__json_token token = zr__json_next(s->text, (size_t)s->n, (size_t)s->at);
        s->at = (int64_t)token.begin;
        *c = token.kind ? s->text[s->at] : '\0';
        if (token.kind || s->read == s->file.bytes) return ZR_OK;
        ZR_TRY(read_more(s));
    }
}

zr_status zr__json_stream_value(zr__json_stream *s, json_t **value)
{
    json_error_t error;
    char c = '\0';
    int64_t end = -1;
    *value = NULL;
    ZR_TRY(zr__json_stream_peek(s, &c));
    for (;;) {
        const bool whole = s->read == s->file.bytes;
        end = c ? zr__json_value_end(s->text, s->n, s->at, whole) : -1;
        if (end >= 0 || whole) break;
        ZR_TRY(read_more(s));
    }
    if (end < 0) return broken(s);
    ZR_TRY(zr__json_load(s->text + s->at, (size_t)(end - s->at), JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, s->file.name,
                         value, &error));
    s->at = end;
    return *value ? ZR_OK : broken(s);
}

/* Read the character that must come next. */
static zr_status expect(zr__json_stream *s, char wanted)
{
    char c = '\0';
    ZR_TRY(zr__json_stream_peek(s, &c));
    if (c != wanted) return broken(s);
    s->at++;
    return ZR_OK;
}

/* Read a key and its colon, and note it in `keys`. The caller releases *key. */
static zr_status read_key(zr__json_stream *s, json_t *keys, json_t **key)
{
    ZR_TRY(zr__json_stream_value(s, key));
    const char *name = json_string_value(*key);
    if (!name || json_object_get(keys, name)) return broken(s);
    ZR_CHECK(json_object_set_new(keys, name, json_null()) == 0, ZR_ERR_MEMORY, "no memory for a key of %s",
             s->file.name);
    return expect(s, ':');
}

static zr_status read_each(zr__json_stream *s, char bracket, json_t *keys, zr__json_stream_fn fn, void *arg)
{
    const char close = bracket == '{' ? '}' : ']';
    char c = '\0';
    ZR_TRY(expect(s, bracket));
    ZR_TRY(zr__json_stream_peek(s, &c));
    for (size_t index = 0; c != close; index++) {
        json_auto_t *key = NULL;
        if (index > 0) ZR_TRY(expect(s, ','));
        if (keys) ZR_TRY(read_key(s, keys, &key));
        ZR_TRY(fn(arg, s, json_string_value(key), index));
        ZR_TRY(zr__json_stream_peek(s, &c));
    }
    return expect(s, close);
}

zr_status zr__json_stream_each(zr__json_stream *s, char bracket, zr__json_stream_fn fn, void *arg)
{
    json_auto_t *keys = bracket == '{' ? json_object() : NULL;
    return read_each(s, bracket, keys, fn, arg);
}

zr_status zr__json_stream_end(zr__json_stream *s)
{
    char c = '\0';
    ZR_TRY(zr__json_stream_peek(s, &c));
    return c ? broken(s) : zr__file_unchanged(&s->file);
}
