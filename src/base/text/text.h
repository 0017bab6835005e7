/**
 * base/text: text for people and files: numbers printed independently of the locale, nearest names, printable paths,
 * and a growing string.
 */
#ifndef ZR_BASE_TEXT_H
#define ZR_BASE_TEXT_H

#include "base/core/scope.h"

/** A growing string. Set it to zeros before the first use. The first failed allocation sets `failed`, and later
 * additions are dropped, so a writer needs to check only once, at the end. */
typedef struct zr__text {
    char *data; /* the string, terminated by '\0', or NULL while the string is empty; released with zr_free */
    size_t length;
    int64_t room;
    bool failed;
} zr__text;

void zr__text_add(zr__text *text, const char *format, ...) ZR_PRINTF(2, 3);
/** Append `n` bytes, which may have any values, including 0. */
void zr__text_append(zr__text *text, const char *bytes, size_t n);
/** Remove the first `n` bytes; the capacity does not change. */
void zr__text_drop(zr__text *text, size_t n);
/** Move the string, or "" if it is empty, to *data, which the caller releases with zr_free. Fail with ZR_ERR_MEMORY if
 * an earlier allocation failed. */
ZR_NODISCARD zr_status zr__text_take(zr__text *text, char **data);
void zr__text_clear(zr__text *text);

/** Buffer size for any number printed by the functions below. */
#define ZR_NUMBER_BYTES 40

/** Print `x` as "%.9g" with '.' as decimal point in every locale, or as "nan", "inf" or "-inf". Return `out`. */
const char *zr__text_g9(double x, char out[ZR_NUMBER_BYTES]);
/** Print the fewest digits that read back as `x`; integers up to 2^53 have no exponent. Return `out`. */
const char *zr__text_shortest(double x, char out[ZR_NUMBER_BYTES]);

#define ZR_SIZE_BYTES 32
/** Print an amount with a prefix for a power of 1000, such as "1.23 T" or "12 ". The caller appends the unit. Return
 * `out`. */
const char *zr__text_amount(double amount, char out[ZR_SIZE_BYTES]);
/** Print a size as "1.23 GB", the only form used in messages. GB means 10^9 bytes, as in papers and on data sheets.
 * Return `out`. */
const char *zr__text_size(double bytes, char out[ZR_SIZE_BYTES]);
/** Read "2GiB", "32 GB", "80G" (10^9), "8gb" or "1048576" as a number of bytes. Return false if the text has another
 * form or is above 2^53. */
bool zr__text_bytes(const char *text, int64_t *bytes);

/** Return the minimum number of insertions, deletions, replacements and swaps of neighbouring characters that turns a
 * into b, without regard to small and capital letters. A name longer than 63 bytes has a large distance from every
 * other name. */
int zr__text_distance(const char *a, const char *b);
/** Return the name closest to `wanted`, or NULL if no name is close enough for a suggestion. */
const char *zr__text_nearest(const char *wanted, const char *const *names, int n_names);

/** Write `text` to `out` in printable form. Each byte of a hidden character (zr__text_hidden) is written as in "\x1b",
 * and a backslash is doubled. Other bytes are unchanged. If the text needs more than `size` bytes, it is cut between
 * two characters and ends with "...". Return `out`. */
const char *zr__text_escape(const char *text, char *out, size_t size);

/** Write a path as a word of a shell's command line, in printable form. Quote it if the shell would change or divide
 * it, and write $'...' around quotes, backslashes and hidden characters. Return `out`. */
const char *zr__text_word(const char *path, char *out, size_t size);

/* Text for one message, in a buffer that lives as long as the enclosing block, so that callers declare no buffers:
 *     ZR_CHECK(fd >= 0, ZR_ERR_IO, "cannot write %s to %s", ZR_SIZE(bytes), ZR_SHOWN(path)); */
#define ZR_SHOWN_BYTES 256
/** Printable form of a path, name or value for a message; see zr__text_escape. */
#define ZR_SHOWN(text) zr__text_escape((text), (char[ZR_SHOWN_BYTES]){0}, ZR_SHOWN_BYTES)
#define ZR_WORD_BYTES 4352 /* a path and its quotes */
/** A path in a command that a message gives; see zr__text_word. */
#define ZR_WORD(path) zr__text_word((path), (char[ZR_WORD_BYTES]){0}, ZR_WORD_BYTES)
/** An amount of bytes as "1.23 GB"; see zr__text_size. */
#define ZR_SIZE(bytes) zr__text_size((bytes), (char[ZR_SIZE_BYTES]){0})
/** An amount with its prefix, such as "1.23 M"; see zr__text_amount. */
#define ZR_AMOUNT(amount) zr__text_amount((amount), (char[ZR_SIZE_BYTES]){0})
/** A real number with nine digits (zr__text_g9), or with the fewest digits that read back as the same number
 * (zr__text_shortest). */
#define ZR_G9(x) zr__text_g9((x), (char[ZR_NUMBER_BYTES]){0})
#define ZR_SHORTEST(x) zr__text_shortest((x), (char[ZR_NUMBER_BYTES]){0})

/** Return whether `text` ends with `end`. */
bool zr__text_ends(const char *text, const char *end);
/** Copy n bytes to *copy and append '\0'. The caller releases the copy with zr_free. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__text_copy(const char *text, size_t n, char **copy);

/** Return the number of bytes of the UTF-8 character at the beginning of text[0, bytes), or 0 if none begins there. */
int64_t zr__text_utf8(const char *text, int64_t bytes);

/** Return the number of bytes of the hidden character with which text[0, bytes) begins, or 0 if it begins with another
 * character. A terminal would obey a hidden character instead of showing it. Hidden characters are control characters
 * (ASCII or not, also as a single byte), and characters that set the direction of text or end a line or paragraph. */
int64_t zr__text_hidden(const char *text, int64_t bytes);

#define ZR_JSON_ESCAPE_BYTES 8
/** Return the number of leading bytes that a JSON string can contain unescaped. `escape` receives the text that
 * replaces the next *escaped bytes: a quote, a backslash, a hidden character (zr__text_hidden), or a byte that is not
 * UTF-8, which becomes U+FFFD. At the end of the text, `escape` is "". */
int64_t zr__text_json(const char *text, int64_t bytes, char escape[ZR_JSON_ESCAPE_BYTES], int64_t *escaped);
/** Append the bytes as a JSON string in quotes, escaped as zr__text_json does. */
void zr__text_add_json(zr__text *text, const char *string, int64_t bytes);

#endif
