/**
 * Writing of compact JSON, member by member. The functions take care of commas, quotes, escapes and non-finite numbers.
 * The caller chooses spaces and line breaks, because programs that read zr's outputs rely on them. To print a jansson
 * value, use zr__json_print instead.
 */
#ifndef ZR_BASE_JSON_WRITE_H
#define ZR_BASE_JSON_WRITE_H

#include "base/text/text.h"

#include <stdio.h>

/** A JSON document being written. Set it to zeros before the first use. A failed allocation is recorded, and reported
 * at the end, as with zr__text. If the first call adds a member with a key, the document is an object, which
 * zr__json_write ends. */
typedef struct zr__json_out {
    zr__text text;
    bool spaced; /* whether to write "key": value, with a space, rather than "key":value */
    bool tight;  /* whether to leave out the space after a comma */
    bool more;   /* whether the open object or array has a member already */
    bool object; /* whether the document is an object that zr__json_write must end */
    /* Whitespace to write before the next member, such as "\n ", in place of a space. If the member is not the first, a
     * comma is written before this text. */
    const char *at;
} zr__json_out;

/** Add a member to the open object, or an element to the open array if key is NULL. For booleans call
 * zr__json_add_bool, because the result of a comparison has type int. Real numbers are written as "%.9g", or as null if
 * not finite. NULL text is written as null. */
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

/** Add bytes as a string; they may include '\0'. */
void zr__json_add_bytes(zr__json_out *out, const char *key, const char *bytes, int64_t n);
/** Add a value that is already JSON text. If `json` is NULL, add null. */
void zr__json_add_json(zr__json_out *out, const char *key, const char *json);
/** Add a value printed with a printf format. The printed text must be JSON. */
void zr__json_add_as(zr__json_out *out, const char *key, const char *format, ...) ZR_PRINTF(3, 4);

/** Begin an object ('{') or an array ('[') inside the open object or array, or begin the document. key is NULL for an
 * element of an array, and for the document itself. */
void zr__json_open(zr__json_out *out, const char *key, char bracket);
/** End the open object or array; bracket is '}' or ']'. */
void zr__json_close(zr__json_out *out, char bracket);
/** Put the next member on a new line by writing `at`, such as "\n  ", before it. */
void zr__json_break(zr__json_out *out, const char *at);

/** Write the document and a newline to a stream, then free the document. Error: ZR_ERR_MEMORY. A failed write sets the
 * stream's error indicator. */
ZR_NODISCARD zr_status zr__json_write(zr__json_out *out, FILE *to);
/** Free a document that was not written. */
void zr__json_drop(zr__json_out *out);

#endif
