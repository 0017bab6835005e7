/* Values as Python prints them, and as JSON. */
#include "data/template/values.h"

#include "base/text/text.h"
#include "data/pieces/classes.h"
#include "data/pieces/nfc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zr_status print_int(zr__run *r, zr__builder *b, int64_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, number);
    return zr__build_text(r, b, text);
}

/* Write the fewest digits that read back as x, without a point, and its decimal exponent. */
static int digits_of(double x, char digits[20], int *exponent)
{
    char text[40];
    int n = 0;
    for (int precision = 0; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, x);
        if (strtod(text, NULL) == x) break;
    }
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') digits[n++] = *at;
    digits[n] = '\0';
    *exponent = (int)strtol(at + 1, NULL, 10);
    return n;
}

/* Print a number as Python's repr() does; as JSON, other names stand for numbers that are not finite. */
static zr_status print_real(zr__run *r, zr__builder *b, double x, bool json)
{
    char digits[20], text[64];
    int exponent = 0, used = 0;
    if (isnan(x)) return zr__build_text(r, b, json ? "NaN" : "nan");
    if (signbit(x)) ZR_TRY(zr__build_text(r, b, "-"));
    if (isinf(x)) return zr__build_text(r, b, json ? "Infinity" : "inf");
    const int n = digits_of(fabs(x), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, sizeof(text), "%.1s%s%se%c%02d", digits, n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
        return zr__build_text(r, b, text);
    }
    for (int i = exponent < 0 ? exponent : 0; i < n || i <= exponent + 1; i++) { /* i: index of the digit */
        if (i == exponent + 1) text[used++] = '.';
        text[used++] = i >= 0 && i < n ? digits[i] : '0';
    }
    return zr__build_bytes(r, b, text, used, ZR__FROM_TEMPLATE);
}

static zr_status print_quoted(zr__run *r, zr__builder *b, const zr__string *s)
{
    const bool doubles =
        s->bytes > 0 && memchr(s->text, '\'', (size_t)s->bytes) && !memchr(s->text, '"', (size_t)s->bytes);
    const char quote = doubles ? '"' : '\'';
    int64_t from = 0, n = 0;
    ZR_TRY(zr__run_work(r, s->bytes / 4));
    ZR_TRY(zr__build_bytes(r, b, &quote, 1, ZR__FROM_TEMPLATE));
    for (int64_t at = 0; at < s->bytes; at += n) {
        char text[16] = "";
        const uint32_t c = zr__character_at((const unsigned char *)s->text + at, &n);
        if (c == (unsigned char)quote || c == '\\')
            snprintf(text, sizeof(text), "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(text, sizeof(text), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!zr__is_printable((int32_t)c))
            snprintf(text, sizeof(text), c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (!text[0]) continue;
        if (at > from) ZR_TRY(zr__build_slice(r, b, s, from, at));
        ZR_TRY(zr__build_instead(r, b, s, at, text, (int64_t)strlen(text)));
        from = at + n;
    }
    if (from < s->bytes || s->bytes == 0) ZR_TRY(zr__build_slice(r, b, s, from, s->bytes));
    return zr__build_bytes(r, b, &quote, 1, ZR__FROM_TEMPLATE);
}

static zr_status print_inside(zr__run *r, zr__builder *b, const zr__value *v);

static zr_status print_list(zr__run *r, zr__builder *b, const zr__list *list)
{
    const bool tuple = list->kind == ZR__A_TUPLE;
    if (list->kind > ZR__A_TUPLE) return zr__run_bad(r, "printing an iterator is not supported; use the filter list");
    ZR_TRY(zr__build_text(r, b, tuple ? "(" : "["));
    for (int64_t i = 0; i < list->n; i++) {
        if (i > 0) ZR_TRY(zr__build_text(r, b, ", "));
        ZR_TRY(print_inside(r, b, &list->item[i]));
    }
    return zr__build_text(r, b, !tuple ? "]" : list->n == 1 ? ",)" : ")");
}

static zr_status print_dict(zr__run *r, zr__builder *b, const zr__dict *dict)
{
    ZR_TRY(zr__build_text(r, b, "{"));
    for (int64_t i = 0; i < dict->n; i++) {
        if (i > 0) ZR_TRY(zr__build_text(r, b, ", "));
        ZR_TRY(print_inside(r, b, &dict->pair[i].key));
        ZR_TRY(zr__build_text(r, b, ": "));
        ZR_TRY(print_inside(r, b, &dict->pair[i].value));
    }
    return zr__build_text(r, b, "}");
}

/* Append a value as repr() prints it. */
static zr_status print_inside(zr__run *r, zr__builder *b, const zr__value *v)
{
    ZR_TRY(zr__run_work(r, 1));
    switch (v->kind) {
    case ZR__UNDEFINED:
        return zr__build_text(r, b, "Undefined");
    case ZR__NONE:
        return zr__build_text(r, b, "None");
    case ZR__BOOL:
        return zr__build_text(r, b, v->truth ? "True" : "False");
    case ZR__INT:
        return print_int(r, b, v->number);
    case ZR__REAL:
        return print_real(r, b, v->real, false);
    case ZR__STRING:
        return print_quoted(r, b, v->string);
    case ZR__LIST:
        return print_list(r, b, v->list);
    case ZR__DICT:
        return print_dict(r, b, v->dict);
    default:
        return zr__run_bad(r, "printing a %s is not supported", zr__type_name(v));
    }
}

zr_status zr__print(zr__run *r, zr__builder *b, const zr__value *v)
{
    ZR_TRY(zr__run_work(r, 1));
    if (v->kind == ZR__UNDEFINED) return ZR_OK;
    return v->kind == ZR__STRING ? zr__build_string(r, b, v->string) : print_inside(r, b, v);
}

zr_status zr__to_string(zr__run *r, const zr__value *v, zr__value *out)
{
    zr__builder b = {0};
    *out = *v;
    if (v->kind == ZR__STRING) return ZR_OK;
    ZR_TRY(zr__print(r, &b, v));
    return zr__build_done(r, &b, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static zr_status string_as_json(zr__run *r, zr__builder *b, const zr__string *s, bool ascii)
{
    static const char from_letter[] = "\"\\\n\r\t\b\f", to_letter[] = "\"\\nrtbf";
    int64_t from = 0, n = 0;
    ZR_TRY(zr__run_work(r, s->bytes / 4));
    ZR_TRY(zr__build_text(r, b, "\""));
    for (int64_t at = 0; at < s->bytes; at += n) {
        char text[16] = "";
        const uint32_t c = zr__character_at((const unsigned char *)s->text + at, &n);
        const char *letter = c && c < 0x80 ? strchr(from_letter, (int)c) : NULL;
        if (letter)
            snprintf(text, sizeof(text), "\\%c", to_letter[letter - from_letter]);
        else if (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000 && c != 0x7f))
            snprintf(text, sizeof(text), "\\u%04x", c);
        else if (ascii && c >= 0x10000)
            snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
        if (!text[0]) continue;
        if (at > from) ZR_TRY(zr__build_slice(r, b, s, from, at));
        ZR_TRY(zr__build_instead(r, b, s, at, text, (int64_t)strlen(text)));
        from = at + n;
    }
    if (from < s->bytes || s->bytes == 0) ZR_TRY(zr__build_slice(r, b, s, from, s->bytes));
    return zr__build_text(r, b, "\"");
}

/* Begin a new line with `level` indents, if the style has lines. */
static zr_status line_as_json(zr__run *r, zr__builder *b, const zr__json_style *style, int64_t level)
{
    if (style->indent < 0) return ZR_OK;
    ZR_TRY(zr__build_text(r, b, "\n"));
    for (int64_t i = 0; i < style->indent * level; i++) ZR_TRY(zr__build_text(r, b, " "));
    return ZR_OK;
}

static zr_status list_as_json(zr__run *r, zr__builder *b, const zr__list *list, const zr__json_style *style,
                              int64_t level)
{
    if (list->kind > ZR__A_TUPLE) return zr__run_bad(r, "an iterator is not JSON; use the filter list before tojson");
    ZR_TRY(zr__build_text(r, b, "["));
    for (int64_t i = 0; i < list->n; i++) {
        if (i > 0) ZR_TRY(zr__build_string(r, b, style->comma));
        ZR_TRY(line_as_json(r, b, style, level + 1));
        ZR_TRY(zr__print_json(r, b, &list->item[i], style, level + 1));
    }
    if (list->n > 0) ZR_TRY(line_as_json(r, b, style, level));
    return zr__build_text(r, b, "]");
}

/* Return the next pair in the order of keys, after `last`, or the first. */
static zr_status next_sorted(zr__run *r, const zr__dict *dict, const zr__pair *last, const zr__pair **next)
{
    *next = NULL;
    for (int64_t i = 0; i < dict->n; i++) {
        int order = 1, less = -1;
        if (last) ZR_TRY(zr__order(r, &dict->pair[i].key, &last->key, &order));
        if (*next) ZR_TRY(zr__order(r, &dict->pair[i].key, &(*next)->key, &less));
        if (order > 0 && less < 0) *next = &dict->pair[i];
    }
    return zr__run_work(r, dict->n);
}

static zr_status key_as_json(zr__run *r, zr__builder *b, const zr__value *key, const zr__json_style *style)
{
    if (key->kind == ZR__STRING) return string_as_json(r, b, key->string, style->ascii);
    if (!zr__is_number(key) && key->kind != ZR__NONE)
        return zr__run_bad(r, "a %s cannot be a key in JSON", zr__type_name(key));
    ZR_TRY(zr__build_text(r, b, "\""));
    ZR_TRY(zr__print_json(r, b, key, style, 0));
    return zr__build_text(r, b, "\"");
}

static zr_status dict_as_json(zr__run *r, zr__builder *b, const zr__dict *dict, const zr__json_style *style,
                              int64_t level)
{
    const zr__pair *pair = NULL;
    ZR_TRY(zr__build_text(r, b, "{"));
    for (int64_t i = 0; i < dict->n; i++) {
        if (i > 0) ZR_TRY(zr__build_string(r, b, style->comma));
        if (style->sorted)
            ZR_TRY(next_sorted(r, dict, pair, &pair));
        else
            pair = &dict->pair[i];
        if (!pair) return zr__run_bad(r, "keys of JSON have no order");
        ZR_TRY(line_as_json(r, b, style, level + 1));
        ZR_TRY(key_as_json(r, b, &pair->key, style));
        ZR_TRY(zr__build_string(r, b, style->colon));
        ZR_TRY(zr__print_json(r, b, &pair->value, style, level + 1));
    }
    if (dict->n > 0) ZR_TRY(line_as_json(r, b, style, level));
    return zr__build_text(r, b, "}");
}

zr_status zr__print_json(zr__run *r, zr__builder *b, const zr__value *v, const zr__json_style *style, int64_t level)
{
    ZR_TRY(zr__run_work(r, 1));
    switch (v->kind) {
    case ZR__NONE:
        return zr__build_text(r, b, "null");
    case ZR__BOOL:
        return zr__build_text(r, b, v->truth ? "true" : "false");
    case ZR__INT:
        return print_int(r, b, v->number);
    case ZR__REAL:
        return print_real(r, b, v->real, true);
    case ZR__STRING:
        return string_as_json(r, b, v->string, style->ascii);
    case ZR__LIST:
        return list_as_json(r, b, v->list, style, level);
    case ZR__DICT:
        return dict_as_json(r, b, v->dict, style, level);
    default:
        return zr__run_bad(r, "%s cannot be written as JSON", zr__type_name(v));
    }
}
