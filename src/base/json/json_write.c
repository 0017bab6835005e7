#include "base/json/json_write.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/** Write everything that comes before a member's value: a comma, whitespace and the key. */
static void begin_member(zr__json_out *out, const char *key)
{
    if (key && out->text.length == 0) {
        zr__text_append(&out->text, "{", 1);
        out->object = true;
    }
    if (out->more) zr__text_append(&out->text, ", ", out->at || out->tight ? 1 : 2);
    if (out->at) zr__text_append(&out->text, out->at, strlen(out->at));
    out->more = true;
    out->at = NULL;
    if (!key) return;
    zr__text_add_json(&out->text, key, (int64_t)strlen(key));
    zr__text_append(&out->text, ": ", out->spaced ? 2 : 1);
}

void zr__json_add_json(zr__json_out *out, const char *key, const char *json)
{
    if (!json) json = "null";
    begin_member(out, key);
    zr__text_append(&out->text, json, strlen(json));
}

void zr__json_add_int(zr__json_out *out, const char *key, int64_t value)
{
    zr__json_add_as(out, key, "%lld", (long long)value);
}

void zr__json_add_real(zr__json_out *out, const char *key, double value)
{
    zr__json_add_json(out, key, isfinite(value) ? ZR_G9(value) : NULL);
}

void zr__json_add_bool(zr__json_out *out, const char *key, bool value)
{
    zr__json_add_json(out, key, value ? "true" : "false");
}

void zr__json_add_bytes(zr__json_out *out, const char *key, const char *bytes, int64_t n)
{
    begin_member(out, key);
    zr__text_add_json(&out->text, bytes, n);
}

void zr__json_add_text(zr__json_out *out, const char *key, const char *value)
{
    if (value)
        zr__json_add_bytes(out, key, value, (int64_t)strlen(value));
    else
        zr__json_add_json(out, key, NULL);
}

void zr__json_add_as(zr__json_out *out, const char *key, const char *format, ...)
{
    char value[128];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof(value)) out->text.failed = true;
    zr__json_add_json(out, key, value);
}

void zr__json_open(zr__json_out *out, const char *key, char bracket)
{
    begin_member(out, key);
    zr__text_append(&out->text, &bracket, 1);
    out->more = false;
}

void zr__json_close(zr__json_out *out, char bracket)
{
    zr__text_append(&out->text, &bracket, 1);
    out->more = true;
    out->at = NULL;
}

void zr__json_break(zr__json_out *out, const char *at)
{
    out->at = at;
}

zr_status zr__json_write(zr__json_out *out, FILE *to)
{
    ZR_AUTO_FREE char *text = NULL;
    zr__text_append(&out->text, out->object ? "}\n" : "\n", out->object ? 2 : 1);
    ZR_TRY(zr__text_take(&out->text, &text));
    fputs(text, to);
    return ZR_OK;
}

void zr__json_drop(zr__json_out *out)
{
    zr__text_clear(&out->text);
}
