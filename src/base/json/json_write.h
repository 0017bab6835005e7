/**
 * Writing of compact JSON, member by member: commas, quotes, escapes and numbers that are not finite are this file's
 * affair. Outputs differ in their spaces and line breaks, which others rely on, so those are chosen by the caller.
 * (Values that jansson holds are printed by zr__json_print.)
 */
#ifndef ZR_BASE_JSON_WRITE_H
#define ZR_BASE_JSON_WRITE_H

#include "base/text/text.h"

#include <stdio.h>

/** A document under construction. Zero-initialise. As in zr__text, a failed allocation is latched. */
typedef struct zr__json_out {
    zr__text text;
    bool spaced;    /* "key": value; otherwise "key":value */
    bool tight;     /* no blank after a comma */
    bool more;      /* the open object or array has a member already */
    const char *at; /* written before the next member in place of ", " (after the first one: ","), as "\n  " */
} zr__json_out;

/** Add a member of the open object; key NULL: an element of the open array. Booleans have a function of their own,
 * since a comparison is an int. Real numbers are written as "%.9g", null where they are not finite; text NULL is null.
 */
void zr__json_add_int(zr__json_out *out, const char *key, int64_t value);
void zr__json_add_real(zr__json_out *out, const char *key, double value);
void zr__json_add_bool(zr__json_out *out, const char *key, bool value);
void zr__json_add_text(zr__json_out *out, const char *key, const char *value);
#define ZR__JSON_1(out, key, value)                                                                                    \
    _Generic((value),                                                                                                  \
        int: zr__json_add_int,                                                                                         \
        unsigned: zr__json_add_int,                                                                                    \
        long: zr__json_add_int,                                                                                        \
        long long: zr__json_add_int,                                                                                   \
        double: zr__json_add_real,                                                                                     \
        char *: zr__json_add_text,                                                                                     \
        const char *: zr__json_add_text)(out, key, value)
#define ZR__JSON_2(out, key, value, ...) ZR__JSON_1(out, key, value), ZR__JSON_1(out, __VA_ARGS__)
#define ZR__JSON_3(out, key, value, ...) ZR__JSON_1(out, key, value), ZR__JSON_2(out, __VA_ARGS__)
#define ZR__JSON_4(out, key, value, ...) ZR__JSON_1(out, key, value), ZR__JSON_3(out, __VA_ARGS__)
#define ZR__JSON_5(out, key, value, ...) ZR__JSON_1(out, key, value), ZR__JSON_4(out, __VA_ARGS__)
#define ZR__JSON_6(out, key, value, ...) ZR__JSON_1(out, key, value), ZR__JSON_5(out, __VA_ARGS__)
#define ZR__JSON_OF(a, b, c, d, e, f, g, h, i, j, k, l, of, ...) of
/** Add up to six members, each by the type of its value: zr__json_add(&out, "step", step, "loss", loss). */
#define zr__json_add(out, ...)                                                                                         \
    ZR__JSON_OF(__VA_ARGS__, ZR__JSON_6, 0, ZR__JSON_5, 0, ZR__JSON_4, 0, ZR__JSON_3, 0, ZR__JSON_2, 0, ZR__JSON_1, 0) \
    (out, __VA_ARGS__)

/** Add a real number in the shortest digits that read back as the same, null where it is not finite. */
void zr__json_add_exact(zr__json_out *out, const char *key, double value);
/** Add bytes as a string, which may hold '\0'. */
void zr__json_add_bytes(zr__json_out *out, const char *key, const char *bytes, int64_t n);
/** Add a value that is JSON already; NULL is null. */
void zr__json_add_json(zr__json_out *out, const char *key, const char *json);
/** Add a value that is printed by a format, and is JSON. */
void zr__json_add_as(zr__json_out *out, const char *key, const char *format, ...) ZR_PRINTF(3, 4);

/** Begin an object or array, a member of the open one (key NULL: an element, or the document). */
void zr__json_open(zr__json_out *out, const char *key, char bracket);
/** End it, with '}' or ']'. */
void zr__json_close(zr__json_out *out, char bracket);
/** Put the next member on a new line: `at` is written before it, as "\n  ". */
void zr__json_break(zr__json_out *out, const char *at);

/** Write the document and a line's end to a stream, and free it. ZR_ERR_MEMORY. A failed write shows on the stream. */
ZR_NODISCARD zr_status zr__json_write(zr__json_out *out, FILE *to);

#endif
