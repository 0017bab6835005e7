/**
 * base/text: text for people and files: numbers independent of the locale, nearest names, printable paths, and a string
 * that grows.
 */
#ifndef ZR_BASE_TEXT_H
#define ZR_BASE_TEXT_H

#include "zr/base.h"

/** A string that grows. Zero-initialise. The first failed allocation sets `failed`, and later additions are dropped,
 * so that writers check once, at the end. */
typedef struct zr__text {
    char *data; /* '\0'-terminated, NULL while empty; zr_free it */
    size_t length;
    int64_t room;
    bool failed;
} zr__text;

void zr__text_add(zr__text *text, const char *format, ...) ZR_PRINTF(2, 3);
/** Append `n` bytes of any value. */
void zr__text_append(zr__text *text, const char *bytes, size_t n);
/** Remove the first `n` bytes; their room stays. */
void zr__text_drop(zr__text *text, size_t n);
/** Hand the string over, "" when empty; ZR_ERR_MEMORY when one allocation had failed. */
ZR_NODISCARD zr_status zr__text_take(zr__text *text, char **data);
void zr__text_clear(zr__text *text);

/** Room for any number in the forms below. */
#define ZR_NUMBER_BYTES 40

/** Print `x` as "%.9g" with a decimal point in every locale; "nan", "inf", "-inf". Returns `out`. */
const char *zr__text_g9(double x, char out[ZR_NUMBER_BYTES]);
/** Print the shortest digits that read back as `x`; integers up to 2^53 without exponent. Returns `out`. */
const char *zr__text_shortest(double x, char out[ZR_NUMBER_BYTES]);

#define ZR_SIZE_BYTES 32
/** Print an amount up to its unit, "1.23 T" or "12 ", in powers of 1000. Returns `out`. */
const char *zr__text_amount(double amount, char out[ZR_SIZE_BYTES]);
/** Print a size as "1.23 GB", the only form in messages; GB is 10^9 bytes, as in papers and on data sheets. Returns
 * `out`. */
const char *zr__text_size(double bytes, char out[ZR_SIZE_BYTES]);
/** Read "2GiB", "32 GB", "80G" (10^9), "8gb" or "1048576" as bytes; false: another form, or above 2^53. */
bool zr__text_bytes(const char *text, int64_t *bytes);

/** Count the insertions, deletions, replacements and swaps of neighbours that turn a into b. Names have up to 63
 * bytes; a longer one counts as far away. */
int zr__text_distance(const char *a, const char *b);
/** Return the name closest to `wanted` if it is close enough to be meant, or NULL. */
const char *zr__text_nearest(const char *wanted, const char *const *names, int n_names);

/** Write `text` with backslashes and the characters of zr__text_hidden escaped, each byte as "\x1b", and cut it with
 * "..." to `size` between two characters. Other bytes above ASCII stay. Returns `out`. */
const char *zr__text_escape(const char *text, char *out, size_t size);

/* Text for one message, in scratch of the enclosing block: no buffer needs a name.
 *     ZR_CHECK(fd >= 0, ZR_ERR_IO, "cannot write %s to %s", ZR_SIZE(bytes), ZR_SHOWN(path)); */
#define ZR_SHOWN_BYTES 512
/** A path, name or value for a message: zr__text_escape. */
#define ZR_SHOWN(text) zr__text_escape((text), (char[ZR_SHOWN_BYTES]){0}, ZR_SHOWN_BYTES)
/** An amount of bytes, "1.23 GB": zr__text_size. */
#define ZR_SIZE(bytes) zr__text_size((bytes), (char[ZR_SIZE_BYTES]){0})
/** An amount up to its unit, "1.23 M": zr__text_amount. */
#define ZR_AMOUNT(amount) zr__text_amount((amount), (char[ZR_SIZE_BYTES]){0})
/** A real number with nine digits, or in the fewest that read back as the same: zr__text_g9, zr__text_shortest. */
#define ZR_G9(x) zr__text_g9((x), (char[ZR_NUMBER_BYTES]){0})
#define ZR_SHORTEST(x) zr__text_shortest((x), (char[ZR_NUMBER_BYTES]){0})

/** Return whether `text` ends with `end`. */
bool zr__text_ends(const char *text, const char *end);
/** Copy n bytes to *copy and end them with '\0'; zr_free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__text_copy(const char *text, size_t n, char **copy);

/** Return the bytes of the UTF-8 character at the beginning of text[0, bytes); 0: none begins there. */
int64_t zr__text_utf8(const char *text, int64_t bytes);

/** Return the bytes of the character at the beginning of text[0, bytes) if a terminal would obey it rather than show
 * it: a control character, of ASCII or beyond, also as a single byte, or one that sets the direction of text or ends a
 * line or paragraph. 0: it is another character. */
int64_t zr__text_hidden(const char *text, int64_t bytes);

#define ZR_JSON_ESCAPE_BYTES 8
/** Return the number of bytes at the beginning that a JSON string holds unescaped. The next *escaped bytes are not
 * allowed in one, or are hidden (zr__text_hidden), and `escape` replaces them; "" at the end. A byte that is not UTF-8
 * becomes U+FFFD. */
int64_t zr__text_json(const char *text, int64_t bytes, char escape[ZR_JSON_ESCAPE_BYTES], int64_t *escaped);
/** Append the bytes as a JSON string with its quotes, escaped as zr__text_json does. */
void zr__text_add_json(zr__text *text, const char *string, int64_t bytes);

#endif
