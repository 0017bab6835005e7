#include "data/text/shape.h"

#include "base/core/grow.h"
#include "base/json/json_scan.h"
#include "data/files/stream.h"
#include "data/files/table.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Number of bytes to read first to find the shape of a file. It grows by a factor of 16, up to ZR__LINE_BYTES. */
enum { FIRST_BYTES = 1 << 8 };

/* Return whether the first n bytes of a path end in `end`. */
static bool ends(const char *path, size_t n, const char *end)
{
    const size_t length = strlen(end);
    return n >= length && strncasecmp(path + n - length, end, length) == 0;
}

bool zr__path_ends(const char *path, const char *end)
{
    const size_t n = strlen(path);
    return ends(path, n, end) || (ends(path, n, ".gz") && ends(path, n - 3, end)) ||
           (ends(path, n, ".zst") && ends(path, n - 4, end));
}

char zr__shape_separator(zr__shape shape)
{
    return shape == ZR__SHAPE_CSV ? ',' : shape == ZR__SHAPE_TSV ? '\t' : 0;
}

bool zr__shape_is_lines(const char *path)
{
    return zr__path_ends(path, ".jsonl") || zr__path_ends(path, ".ndjson");
}

int64_t zr__shape_mark(const char *text, int64_t n)
{
    static const char mark[] = "\xef\xbb\xbf";
    const int64_t bytes = sizeof(mark) - 1;
    return n >= bytes && memcmp(text, mark, (size_t)bytes) == 0 ? bytes : 0;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Return the offset of the first byte from `at` on that is not white space of JSON. */
static int64_t skip_blanks(const char *text, int64_t n, int64_t at)
{
    while (at < n && strchr(" \t\r\n", text[at]) && text[at]) at++;
    return at;
}

static zr__shape_found next_line(zr__shape_walk *w)
{
    w->begin = w->end;
    if (w->begin == w->n) return w->whole ? ZR__RECORD_NONE : ZR__RECORD_PART;
    const char *line = memchr(w->text + w->begin, '\n', (size_t)(w->n - w->begin));
    if (!line && !w->whole) return ZR__RECORD_PART;
    w->end = line ? line + 1 - w->text : w->n;
    return ZR__RECORD_FOUND;
}

static zr__shape_found next_row(zr__shape_walk *w)
{
    w->begin = w->end;
    if (w->begin == w->n) return w->whole ? ZR__RECORD_NONE : ZR__RECORD_PART;
    const int64_t end = zr__table_row_end(zr__shape_separator(w->shape), w->text, w->n, w->begin, w->whole);
    if (end < 0) w->reason = "a field in quotes does not end";
    if (end < 0) return w->whole ? ZR__RECORD_BROKEN : ZR__RECORD_PART;
    w->end = end;
    return ZR__RECORD_FOUND;
}

static zr__shape_found broken(zr__shape_walk *w, int64_t at, const char *reason)
{
    w->begin = at;
    w->reason = reason;
    return ZR__RECORD_BROKEN;
}

/* Skip the bracket before the first record of an array, or the comma before a later record. If the array ends here,
 * skip its end. *found receives ZR__RECORD_FOUND if a record follows at the offset that is returned. */
static int64_t skip_separator(zr__shape_walk *w, int64_t at, zr__shape_found *found)
{
    const char c = w->text[at];
    *found = ZR__RECORD_FOUND;
    if (w->first ? c != '[' : c != ',' && c != ']')
        *found = broken(w, at, "a comma is missing between two records of the array");
    if (*found != ZR__RECORD_FOUND) return at;
    const int64_t next = skip_blanks(w->text, w->n, at + 1);
    if (c == ']' && next < w->n) *found = broken(w, next, "there is text after the end of the array");
    if (c == ']' && next == w->n) *found = w->whole ? ZR__RECORD_NONE : ZR__RECORD_PART;
    if (c == ',' && next < w->n && w->text[next] == ']')
        *found = broken(w, at, "there is a comma before the end of the array");
    return next;
}

zr__shape_found zr__shape_next(zr__shape_walk *w)
{
    const bool array = w->shape == ZR__SHAPE_ARRAY;
    zr__shape_found found = ZR__RECORD_FOUND;
    if (w->shape == ZR__SHAPE_LINES) return next_line(w);
    if (zr__shape_separator(w->shape)) return next_row(w);
    int64_t at = skip_blanks(w->text, w->n, w->end);
    if (at < w->n && array) at = skip_separator(w, at, &found);
    if (found != ZR__RECORD_FOUND) return found;
    if (at == w->n && !w->whole) return ZR__RECORD_PART;
    if (at == w->n) return array ? broken(w, at, "the array does not end") : ZR__RECORD_NONE;
    if (!array && w->text[at] == ',')
        return broken(w, at, "there is a comma between records, which only an array [...] has");
    const int64_t end = zr__json_value_end(w->text, w->n, at, w->whole);
    if (end < 0) return w->whole ? broken(w, at, "the record does not end") : ZR__RECORD_PART;
    w->begin = at;
    w->end = end;
    w->first = false;
    return ZR__RECORD_FOUND;
}

/* ---- the shape of a file --------------------------------------------------------------------- */

/* Return whether the text begins like a JSON object with a member: {"key": */
static bool begins_object(const char *text, int64_t n, int64_t at)
{
    const zr__json_token key = zr__json_next(text, (size_t)n, (size_t)at + 1);
    return key.kind == '"' && zr__json_next(text, (size_t)n, key.end).kind == ':';
}

/* Set *is to whether the bytes are a JSON object. */
static zr_status is_object(const char *text, int64_t bytes, const char *name, bool *is)
{
    json_auto_t *root = NULL;
    json_error_t error;
    ZR_TRY(zr__json_load(text, (size_t)bytes, JSON_ALLOW_NUL, name, &root, &error));
    *is = json_is_object(root);
    return ZR_OK;
}

/* Return whether an object that begins at `begin` and ends at `end` is a line of its own. */
static bool is_line(const char *text, int64_t n, int64_t begin, int64_t end)
{
    while (end < n && strchr(" \t\r", text[end]) && text[end]) end++;
    return !memchr(text + begin, '\n', (size_t)(end - begin)) && (end == n || text[end] == '\n');
}

/* Find the shape from the first n bytes of a file. If `whole`, the file has only these bytes. If `most`, no more bytes
 * will be read. *more receives whether more bytes are needed. */
static zr_status look(const char *text, int64_t n, bool whole, bool most, const char *name, zr__shape *shape,
                      bool *more)
{
    int64_t at = skip_blanks(text, n, zr__shape_mark(text, n));
    bool object = false;
    const bool array = at < n && text[at] == '[';
    *shape = ZR__SHAPE_TEXT;
    *more = false;
    if (array) at = skip_blanks(text, n, at + 1);
    if (at == n) *more = !whole;
    if (at == n || text[at] != '{') return ZR_OK;
    const int64_t end = zr__json_value_end(text, n, at, whole);
    *more = end < 0 && !whole && !most;
    if (*more) return ZR_OK;
    if (end >= 0) ZR_TRY(is_object(text + at, end - at, name, &object));
    if (end < 0 && !whole) object = begins_object(text, n, at); /* the record is too long, and its reader will say so */
    if (!object) return ZR_OK;
    *shape = array ? ZR__SHAPE_ARRAY : end >= 0 && is_line(text, n, at, end) ? ZR__SHAPE_LINES : ZR__SHAPE_VALUES;
    return ZR_OK;
}

/* Look at longer and longer beginnings of a file until the shape is known. Most files show it at once. */
static zr_status look_at_file(const zr__file *file, zr__shape *shape)
{
    ZR_AUTO_FREE char *text = NULL;
    int64_t room = 0, got = 0;
    bool more = true;
    for (int64_t n = FIRST_BYTES; more && n <= ZR__LINE_BYTES; n *= 16) {
        ZR_GROW(text, room, n, "bytes of the first record of a file");
        ZR_TRY(zr__stream_head(file, text, n, &got));
        ZR_TRY(look(text, got, got < n, n == ZR__LINE_BYTES, file->name, shape, &more));
    }
    return ZR_OK;
}

zr_status zr__shape_find(const zr__file *file, const char *path, zr__shape *shape, char *note, size_t size)
{
    static const char *const records[] = {[ZR__SHAPE_LINES] = "an object on each line",
                                          [ZR__SHAPE_VALUES] = "objects one after the other",
                                          [ZR__SHAPE_ARRAY] = "an array of objects"};
    const bool lines = zr__shape_is_lines(path);
    if (note) note[0] = '\0';
    ZR_TRY(look_at_file(file, shape));
    if (*shape == ZR__SHAPE_TEXT && zr__path_ends(path, ".csv")) *shape = ZR__SHAPE_CSV;
    if (*shape == ZR__SHAPE_TEXT && zr__path_ends(path, ".tsv")) *shape = ZR__SHAPE_TSV;
    if (zr__shape_separator(*shape)) return ZR_OK;
    if (note && !lines && *shape != ZR__SHAPE_TEXT)
        snprintf(note, size, "%s: it is read as JSON records, %s; data.format \"text\" reads it as text", file->name,
                 records[*shape]);
    else if (note && zr__path_ends(path, ".json") && *shape == ZR__SHAPE_TEXT)
        snprintf(note, size,
                 "%s: it is read as text, although its name ends in .json: no JSON object or array of objects can be "
                 "read at its beginning",
                 file->name);
    if (lines && *shape == ZR__SHAPE_TEXT) *shape = ZR__SHAPE_LINES;
    return ZR_OK;
}
