#include "data/text/jsonl.h"

#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

static bool is_blank(const char *line, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (!strchr(" \t\r\n", line[i]) || line[i] == '\0') return false;
    return true;
}

zr_status zr__jsonl_object(const zr__table *table, const char *record, int64_t bytes, json_t **root,
                           char reason[ZR__REASON_BYTES])
{
    char what[2 * JSON_ERROR_TEXT_LENGTH], line_of[48] = "";
    json_error_t error;
    *root = NULL;
    reason[0] = '\0';
    if (is_blank(record, bytes)) return ZR_OK;
    if (table->separator) return zr__table_object(table, record, bytes, root, reason, ZR__REASON_BYTES);
    ZR_TRY(zr__json_load(record, (size_t)bytes, JSON_REJECT_DUPLICATES, "a line of JSON", root, &error));
    if (!*root && bytes > 1 && memchr(record, '\n', (size_t)bytes - 1))
        snprintf(line_of, sizeof(line_of), "line %d of the record, ", error.line);
    if (!*root)
        snprintf(reason, ZR__REASON_BYTES, "%scolumn %d: %.120s", line_of, error.column,
                 zr__text_escape(error.text, what, sizeof(what)));
    else if (!json_is_object(*root))
        snprintf(reason, ZR__REASON_BYTES, "the record is not a JSON object");
    return ZR_OK;
}

const char *zr__jsonl_members(const json_t *object, char *out, size_t size)
{
    enum { MOST = 6 }; /* number of members that are shown */
    int n = 0;
    size_t used = 0;
    const char *key;
    json_t *value;
    snprintf(out, size, "no members");
    json_object_foreach((json_t *)object, key, value)
    {
        char name[32];
        if (n++ == MOST || used >= size) break;
        used += (size_t)snprintf(out + used, size - used, "%s\"%s\"", n > 1 ? ", " : "",
                                 zr__text_escape(key, name, sizeof(name)));
    }
    if (n > MOST && used < size) snprintf(out + used, size - used, " ...");
    return out;
}
