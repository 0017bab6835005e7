/**
 * Text for people and files: numbers whatever the locale, nearest names, printable paths, and a string
 * that grows.
 */
#ifndef ZR_BASE_TEXT_H
#define ZR_BASE_TEXT_H

#include "zr/base.h"

/** A string that grows. Zero-initialise; the first failed allocation is kept in `failed` and the rest
 *  is dropped, so that writers check once, at the end. */
typedef struct zr__text {
    char *data; /* '\0'-terminated, NULL while empty; zr_free it */
    size_t length;
    int64_t room;
    bool failed;
} zr__text;

void zr__text_add(zr__text *text, const char *format, ...) ZR_PRINTF(2, 3);
/** The same of `n` bytes, whatever they are. */
void zr__text_append(zr__text *text, const char *bytes, size_t n);
/** Take the first `n` bytes away, whose room stays. */
void zr__text_drop(zr__text *text, size_t n);
/** Hand the string over, "" when empty; ZR_ERR_MEMORY when one allocation had failed. */
ZR_NODISCARD zr_status zr__text_take(zr__text *text, char **data);
void zr__text_clear(zr__text *text);

/** Room for any number in the forms below. */
#define ZR_NUMBER_BYTES 40

/** `x` as "%.9g" with a decimal point in every locale; "nan", "inf", "-inf". Returns `out`. */
const char *zr__text_g9(double x, char out[ZR_NUMBER_BYTES]);
/** The shortest digits that read back as `x`; integers up to 2^53 without exponent. Returns `out`. */
const char *zr__text_shortest(double x, char out[ZR_NUMBER_BYTES]);

#define ZR_SIZE_BYTES 32
/** An amount up to its unit, "1.23 T" or "12 ", in powers of 1000. Returns `out`. */
const char *zr__text_amount(double amount, char out[ZR_SIZE_BYTES]);
/** "1.23 GB": the one form in which people are told sizes; GB is 10^9 bytes, as in the papers and on data sheets.
 * Returns `out`. */
const char *zr__text_size(double bytes, char out[ZR_SIZE_BYTES]);
/** "2GiB", "32 GB", "80G" (10^9), "8gb", "1048576" as bytes; false when it is none of these or above 2^53. */
bool zr__text_bytes(const char *text, int64_t *bytes);

/** Insertions, deletions, replacements and swaps of neighbours that turn a into b; names up to 63
 *  bytes, longer ones count as far away. */
int zr__text_distance(const char *a, const char *b);
/** The name closest to `wanted` when close enough to be meant, or NULL. */
const char *zr__text_nearest(const char *wanted, const char *const *names, int n_names);

/** `text` with backslashes and all that zr__text_hidden tells of escaped, each byte as "\x1b", cut with "..." to `size`
 *  between two characters. Other bytes above ASCII stay. Returns `out`. */
const char *zr__text_escape(const char *text, char *out, size_t size);

/** Bytes of the UTF-8 character that begins at text, of which `bytes` are there; 0: none does. */
int64_t zr__text_utf8(const char *text, int64_t bytes);

/** Bytes of what begins at text, of which `bytes` are there, where a terminal would obey it and not show it: a control
 *  character, of ASCII or beyond, also as a byte alone, or one that sets the direction of text or ends a line or
 *  paragraph. 0: it is none. */
int64_t zr__text_hidden(const char *text, int64_t bytes);

#define ZR_JSON_ESCAPE_BYTES 8
/** Bytes at the beginning that stand in a JSON string as they are; `escape`: what stands for the *escaped bytes behind
 *  them, which JSON does not have in a string or zr__text_hidden tells of; "" at the end. A byte that is not UTF-8
 *  becomes U+FFFD. */
int64_t zr__text_json(const char *text, int64_t bytes, char escape[ZR_JSON_ESCAPE_BYTES], int64_t *escaped);
/** Add them as such a string, with its quotes. */
void zr__text_add_json(zr__text *text, const char *string, int64_t bytes);

#endif
