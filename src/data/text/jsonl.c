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
    char what[2 * JSON_ERROR_TEXT_LENGTH];
    json_error_t error;
    *root = NULL;
    reason[0] = '\0';
    *blank = is_blank(line, bytes);
    if (*blank) return ZR_OK;
    ZR_TRY(zr__json_load(line, (size_t)bytes, JSON_REJECT_DUPLICATES, "a line of JSON", root, &error));
    if (!*root)
        snprintf(reason, ZR__REASON_BYTES, "column %d: %.120s", error.column,
                 zr__text_escape(error.text, what, sizeof(what)));
    else if (!json_is_object(*root))
        snprintf(reason, ZR__REASON_BYTES, "the line is not an object %s", wanted);
    return ZR_OK;
}

zr_status zr__jsonl_text(const char *line, int64_t bytes, const char *key, const char *key_named, json_t **root,
                         const char **text, int64_t *text_bytes, char reason[ZR__REASON_BYTES])
{
    char shown[64], wanted[96];
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
    snprintf(reason, ZR__REASON_BYTES, "\"%s\" is %s; expected a text (%s sets the name)", shown,
             value ? "not a string" : "missing", key_named);
    return ZR_OK;
}
