#include "data/files/table.h"

#include "base/core/grow.h"
#include "base/text/text.h"
#include "data/files/stream.h"

#include <stdio.h>
#include <string.h>

/* Bytes to read to find the row of names, at first and at most. */
enum { LOOK_BYTES = 1 << 12, MOST_BYTES = 1 << 20 };

#define NO_TEXT "not UTF-8, or has a NUL; make the file UTF-8 (iconv -f WINDOWS-1252 -t UTF-8)"

/* ---- fields ---------------------------------------------------------------------------------- */

/* Return the end of the field that begins at `at`: the offset of the separator or line end behind it, or n; or -1 if
 * the text ends within quotes. */
static int64_t field_end(char separator, const char *text, int64_t n, int64_t at)
{
    if (at < n && text[at] == '"') {
        do {
            const char *quote = memchr(text + at + 1, '"', (size_t)(n - at - 1));
            if (!quote) return -1;
            at = quote + 1 - text;
        } while (at < n && text[at] == '"'); /* two quotes are one quote of the field */
    }
    while (at < n && text[at] != separator && text[at] != '\n') at++;
    return at;
}

int64_t zr__table_row_end(char separator, const char *text, int64_t n, int64_t at, bool whole)
{
    while (true) {
        const int64_t end = field_end(separator, text, n, at);
        if (end < 0) return -1;
        if (end == n) return whole ? n : -1;
        if (text[end] == '\n') return end + 1;
        at = end + 1;
    }
}

/* Make a string of a field. Quotes around it are removed, and doubled quotes within are replaced by one. A field that
 * is not UTF-8, or has a NUL, has no string, and *string receives NULL. */
static zr_status make_string(const char *field, int64_t bytes, json_t **string)
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    bool quoted = bytes > 0 && field[0] == '"';
    *string = NULL;
    if (memchr(field, '\0', (size_t)bytes)) return ZR_OK;
    if (!quoted) {
        *string = json_stringn(field, (size_t)bytes);
        return ZR_OK;
    }
    for (int64_t at = 1; at < bytes;) {
        const char *quote = quoted ? memchr(field + at, '"', (size_t)(bytes - at)) : NULL;
        const int64_t end = quote ? quote - field : bytes;
        zr__text_append(&text, field + at, (size_t)(end - at));
        quoted = quote && end + 1 < bytes && field[end + 1] == '"';
        if (quoted) zr__text_append(&text, quote, 1);
        at = end + 1 + quoted;
    }
    ZR_CHECK(!text.failed, ZR_ERR_MEMORY, "no memory for a field of a table");
    *string = json_stringn(text.data ? text.data : "", text.length);
    return ZR_OK;
}

/* Call make_string for each field of a row. *fields receives an array, in which null stands for a field without a
 * string. */
static zr_status read_fields(char separator, const char *row, int64_t bytes, json_t **fields)
{
    *fields = json_array();
    ZR_CHECK(*fields, ZR_ERR_MEMORY, "no memory for the fields of a table");
    if (bytes > 0 && row[bytes - 1] == '\n') bytes--;
    if (bytes > 0 && row[bytes - 1] == '\r') bytes--;
    for (int64_t at = 0, end; at <= bytes; at = end + 1) {
        json_t *string = NULL;
        end = field_end(separator, row, bytes, at);
        if (end < 0) end = bytes;
        ZR_TRY(make_string(row + at, end - at, &string));
        ZR_CHECK(json_array_append_new(*fields, string ? string : json_null()) == 0, ZR_ERR_MEMORY,
                 "no memory for the fields of a table");
    }
    return ZR_OK;
}

zr_status zr__table_object(const zr__table *table, const char *row, int64_t bytes, json_t **object, char *reason,
                           size_t size)
{
    json_auto_t *fields = NULL, *made = NULL;
    const size_t columns = json_array_size(table->column);
    *object = NULL;
    reason[0] = '\0';
    ZR_TRY(read_fields(table->separator, row, bytes, &fields));
    if (json_array_size(fields) != columns) {
        snprintf(reason, size,
                 "the row has %zu field%s, and the first row has %zu; put fields with a separator or a line end into "
                 "quotes",
                 json_array_size(fields), json_array_size(fields) == 1 ? "" : "s", columns);
        return ZR_OK;
    }
    made = json_object();
    ZR_CHECK(made, ZR_ERR_MEMORY, "no memory for a row of a table");
    for (size_t i = 0; i < columns; i++) {
        const char *name = json_string_value(json_array_get(table->column, i));
        json_t *field = json_array_get(fields, i);
        if (!json_is_string(field)) {
            snprintf(reason, size, "the field of column \"%s\" is " NO_TEXT, ZR_SHOWN(name));
            return ZR_OK;
        }
        ZR_CHECK(json_object_set(made, name, field) == 0, ZR_ERR_MEMORY, "no memory for a row of a table");
    }
    *object = ZR_TAKE(made);
    return ZR_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Check the separators of a file's rows and columns, by the names of the columns. */
static zr_status check_form(const zr__file *file, const zr__table *table)
{
    const size_t columns = json_array_size(table->column);
    const char *first = json_string_value(json_array_get(table->column, 0));
    const char *other = columns == 1 && first ? strpbrk(first, table->separator == ',' ? ";\t" : ";,") : NULL;
    ZR_CHECK(columns > 1 || !first || first[0], ZR_ERR_DATA,
             "%s:1: the first row is empty; the first row of a table names its columns", file->name);
    ZR_CHECK(!other, ZR_ERR_DATA,
             "%s:1: the only column is \"%s\"; the columns of %s must be separated by %s: write the table again%s",
             file->name, ZR_SHOWN(first), table->separator == ',' ? ".csv" : ".tsv",
             table->separator == ',' ? "commas" : "tabs",
             other && *other == '\t'  ? ", or name it .tsv"
             : other && *other == ',' ? ", or name it .csv"
                                      : "");
    for (size_t i = 0; i < columns; i++) {
        const char *name = json_string_value(json_array_get(table->column, i));
        const char *end = name ? strchr(name, '\r') : NULL;
        ZR_CHECK(!end || end[1] == '\n', ZR_ERR_DATA,
                 "%s:1: a line ends with CR alone; rows must end with LF or CR LF (tr '\\r' '\\n' makes it LF)",
                 file->name);
    }
    return ZR_OK;
}

/* Check that no two columns have the same name. Columns without names, such as the row numbers that pandas writes, are
 * not read. */
static zr_status check_columns(const zr__file *file, const json_t *column)
{
    json_auto_t *seen = json_object();
    ZR_CHECK(seen, ZR_ERR_MEMORY, "no memory for the columns of a table");
    for (size_t i = 0; i < json_array_size(column); i++) {
        const char *name = json_string_value(json_array_get(column, i));
        ZR_CHECK(name, ZR_ERR_DATA, "%s:1: the name of column %zu is " NO_TEXT, file->name, i + 1);
        ZR_CHECK(!name[0] || !json_object_get(seen, name), ZR_ERR_DATA,
                 "%s:1: two columns have the name \"%s\"; rename one", file->name, ZR_SHOWN(name));
        ZR_CHECK(json_object_set_new(seen, name, json_true()) == 0, ZR_ERR_MEMORY,
                 "no memory for the columns of a table");
    }
    return ZR_OK;
}

zr_status zr__table_open(const zr__file *file, char separator, zr__table *table)
{
    ZR_AUTO_FREE char *text = NULL;
    int64_t room = 0, got = 0, end = -1, mark = 0;
    table->separator = separator;
    for (int64_t n = LOOK_BYTES; end < 0 && n <= MOST_BYTES; n *= 4) {
        ZR_GROW(text, room, n, "bytes of the first row of a table");
        ZR_TRY(zr__stream_head(file, text, n, &got));
        mark = got >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        end = zr__table_row_end(separator, text, got, mark, got < n);
    }
    ZR_CHECK(end >= 0, ZR_ERR_DATA,
             "%s:1: the first row of the table, which names its columns, does not end within %d bytes", file->name,
             MOST_BYTES);
    table->bytes = end;
    ZR_TRY(read_fields(separator, text + mark, end - mark, &table->column));
    ZR_TRY(check_form(file, table));
    return check_columns(file, table->column);
}

void zr__table_close(zr__table *table)
{
    json_decref(table->column);
    *table = (zr__table){0};
}
