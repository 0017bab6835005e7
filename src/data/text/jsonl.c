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

zr_status zr__jsonl_object(const char *line, int64_t bytes, const char *wanted, json_t **root, bool *blank,
                           char reason[ZR__REASON_BYTES])
{
    char what[2 * JSON_ERROR_TEXT_LENGTH], line_of[48] = "";
    json_error_t error;
    *root = NULL;
    reason[0] = '\0';
    *blank = is_blank(line, bytes);
    if (*blank) return ZR_OK;
    ZR_TRY(zr__json_load(line, (size_t)bytes, JSON_REJECT_DUPLICATES, "a line of JSON", root, &error));
    if (!*root && bytes > 1 && memchr(line, '\n', (size_t)bytes - 1))
        snprintf(line_of, sizeof(line_of), "line %d of the record, ", error.line);
    if (!*root)
        snprintf(reason, ZR__REASON_BYTES, "%scolumn %d: %.120s", line_of, error.column,
                 zr__text_escape(error.text, what, sizeof(what)));
    else if (!json_is_object(*root))
        snprintf(reason, ZR__REASON_BYTES, "the line is not an object %s", wanted);
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

zr_status zr__jsonl_text(const char *line, int64_t bytes, const char *key, const char *key_named, const char *forms,
                         json_t **root, const char **text, int64_t *text_bytes, char reason[ZR__REASON_BYTES])
{
    char shown[64], wanted[96], members[160];
    bool blank = false;
    *text_bytes = 0;
    snprintf(wanted, sizeof(wanted), "{\"%s\": TEXT}", zr__text_escape(key, shown, sizeof(shown)));
    *text = NULL;
    ZR_TRY(zr__jsonl_object(line, bytes, wanted, root, &blank, reason));
    if (blank) *text = "";
    if (blank || reason[0]) return ZR_OK;
    const json_t *value = json_object_get(*root, key);
    if (json_is_string(value)) {
        *text_bytes = (int64_t)json_string_length(value);
        *text = json_string_value(value);
        return ZR_OK;
    }
    const int n = snprintf(reason, ZR__REASON_BYTES, "\"%s\" is %s; expected a text (%s sets the name)", shown,
                           value ? "not a string" : "missing", key_named);
    if (!value && n > 0 && n < ZR__REASON_BYTES)
        snprintf(reason + n, (size_t)(ZR__REASON_BYTES - n),
                 "; the record has %s, and zr reads %s, so rename its members",
                 zr__jsonl_members(*root, members, sizeof(members)), forms ? forms : wanted);
    return ZR_OK;
}
