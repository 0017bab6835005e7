#include "base/text/text.h"

#include "base/core/grow.h"

#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* buffer size for one escaped character: up to four escapes such as "\x1b" and the terminating zero */
enum { ESCAPED_BYTES = 4 * 4 + 1 };

/* Reserve capacity for `more` bytes and the terminating zero. If memory is short, set `failed` and return false. */
static bool reserve_text(zr__text *text, size_t more)
{
    void *data =
        more < PTRDIFF_MAX ? zr__enlarge(text->data, &text->room, (int64_t)(text->length + more + 1), 1) : NULL;
    if (data) text->data = data;
    text->failed = data == NULL;
    return data != NULL;
}

void zr__text_add(zr__text *text, const char *format, ...)
{
    if (text->failed) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve_text(text, (size_t)n)) {
        vsnprintf(text->data + text->length, (size_t)text->room - text->length, format, again);
        text->length += (size_t)n;
    } else {
        text->failed = true;
    }
    va_end(again);
    va_end(args);
}

void zr__text_append(zr__text *text, const char *bytes, size_t n)
{
    if (text->failed || !reserve_text(text, n)) return;
    if (n > 0) memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = '\0';
}

void zr__text_drop(zr__text *text, size_t n)
{
    if (n == 0) return;
    text->length -= n;
    memmove(text->data, text->data + n, text->length + 1);
}

zr_status zr__text_take(zr__text *text, char **data)
{
    if (!text->failed && !text->data) (void)reserve_text(text, 0);
    if (text->failed) {
        size_t length = text->length;
        zr__text_clear(text);
        return ZR_FAIL(ZR_ERR_MEMORY, "no memory for a text of more than %zu bytes", length);
    }
    *data = text->data;
    *text = (zr__text){0};
    return ZR_OK;
}

void zr__text_clear(zr__text *text)
{
    zr_free(text->data);
    *text = (zr__text){0};
}

/* Print a number with '.' as decimal point. printf uses the locale's decimal point, which may have several bytes. */
static const char *print_number(const char *format, int digits, double x, char out[ZR_NUMBER_BYTES])
{
    snprintf(out, ZR_NUMBER_BYTES, format, digits, x);
    const char *point = localeconv()->decimal_point;
    char *found = strcmp(point, ".") != 0 && *point ? strstr(out, point) : NULL;
    if (found) {
        size_t bytes = strlen(point);
        *found = '.';
        memmove(found + 1, found + bytes, strlen(found + bytes) + 1);
    }
    return out;
}

static const char *print_special(double x, char out[ZR_NUMBER_BYTES])
{
    snprintf(out, ZR_NUMBER_BYTES, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    return out;
}

const char *zr__text_g9(double x, char out[ZR_NUMBER_BYTES])
{
    return isfinite(x) ? print_number("%.*g", 9, x, out) : print_special(x, out);
}

const char *zr__text_shortest(double x, char out[ZR_NUMBER_BYTES])
{
    if (!isfinite(x)) return print_special(x, out);
    if (x == floor(x) && fabs(x) <= 0x1p53) return print_number("%.*f", 0, x, out);
    int digits = 1;
    do {
        char local[ZR_NUMBER_BYTES];
        /* Read the number back while it still has the locale's decimal point, because strtod expects that. */
        snprintf(local, sizeof(local), "%.*g", digits, x);
        if (strtod(local, NULL) == x) break;
    } while (++digits < 17);
    print_number("%.*g", digits, x, out);
    /* Shorten 1e-05 to 1e-5, as people write it. */
    char *zero = strstr(out, "e-0");
    if (zero) memmove(zero + 2, zero + 3, strlen(zero + 3) + 1);
    return out;
}

bool zr__text_bytes(const char *text, int64_t *bytes)
{
    const int64_t most = 1LL << 53;
    int64_t value = 0, part = 1, factor = 1;
    const char *at = text;
    if (*at < '0' || *at > '9') return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = 10 * value + (*at - '0');
        if (value > most) return false;
    }
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++) {
            if (part >= 1000) return false;
            value = 10 * value + (*at - '0');
            part *= 10;
        }
    while (*at == ' ') at++;
    const char *const prefixes = "KMGTkmgt", *prefix = *at ? strchr(prefixes, *at) : NULL;
    if (prefix) {
        const bool binary = at[1] == 'i' || at[1] == 'I';
        for (int64_t power = (prefix - prefixes) % 4; power >= 0; power--) factor *= binary ? 1024 : 1000;
        at += binary ? 2 : 1;
    }
    if (*at == 'B' || *at == 'b') at++;
    if (*at || value / part > most / factor) return false;
    *bytes = value / part * factor + value % part * factor / part;
    return *bytes <= most;
}

const char *zr__text_amount(double amount, char out[ZR_SIZE_BYTES])
{
    static const char *const unit[] = {" ", " k", " M", " G", " T", " P", " E", " Z", " Y"};
    int u = 0;
    for (; fabs(amount) >= 1000.0 && u < 8; u++) amount /= 1000.0;
    /* Whole numbers are exact counts. For other small numbers, three significant digits are enough. */
    const bool small = u == 0 && fabs(amount) < 100 && amount != floor(amount);
    snprintf(out, ZR_SIZE_BYTES, small ? "%#.3g%s" : u ? "%.2f%s" : "%.0f%s", amount, unit[u]);
    return out;
}

const char *zr__text_size(double bytes, char out[ZR_SIZE_BYTES])
{
    zr__text_amount(bytes, out);
    strcat(out, "B");
    return out;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

int zr__text_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    int n = (int)strnlen(a, LONGEST + 1), m = (int)strnlen(b, LONGEST + 1);
    if (n > LONGEST || m > LONGEST) return n > m ? n : m;
    int cost[3][LONGEST + 1]; /* rows i, i-1 and i-2 of the edit-distance table, used in rotation */
    for (int i = 0; i <= n; i++) {
        int *row = cost[i % 3], *up = cost[(i + 2) % 3], *up2 = cost[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            if (i == 0) {
                row[j] = j;
                continue;
            }
            row[j] = least(least(row[j - 1], up[j]) + 1, up[j - 1] + (small(a[i - 1]) != small(b[j - 1])));
            const bool swapped =
                i > 1 && j > 1 && small(a[i - 1]) == small(b[j - 2]) && small(a[i - 2]) == small(b[j - 1]);
            if (swapped) row[j] = least(row[j], up2[j - 2] + 1);
        }
    }
    return cost[n % 3][m];
}

const char *zr__text_nearest(const char *wanted, const char *const *names, int n_names)
{
    const char *best = NULL;
    /* Do not suggest a name if more than about a third of the letters differ. */
    const size_t length = strnlen(wanted, 64);
    int limit = (int)length / 3 + 1;
    for (int i = 0; i < n_names; i++) {
        int distance = zr__text_distance(wanted, names[i]);
        /* If `wanted` is the beginning of a name, count this as one error. */
        if (length >= 3 && distance > 1 && strncmp(names[i], wanted, length) == 0) distance = 1;
        if (distance >= limit + (best == NULL)) continue;
        best = names[i];
        limit = distance;
    }
    return best;
}

bool zr__text_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

zr_status zr__text_copy(const char *text, size_t n, char **copy)
{
    *copy = zr_alloc(n + 1);
    ZR_CHECK(*copy, ZR_ERR_MEMORY, "no memory for a text of %zu bytes", n);
    memcpy(*copy, text, n);
    return ZR_OK;
}

int64_t zr__text_utf8(const char *string, int64_t bytes)
{
    const unsigned char *text = (const unsigned char *)string;
    int64_t n = text[0] < 0x80                      ? 1
                : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                : (text[0] & 0xf0) == 0xe0          ? 3
                : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                    : 0;
    if (n == 0 || n > bytes) return 0;
    for (int64_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
    }
    bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool surrogate = text[0] == 0xed && text[1] > 0x9f;
    bool beyond = text[0] == 0xf4 && text[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : n;
}

/* Return whether a character of more than one byte must be escaped rather than shown. */
static bool is_hidden(uint32_t c)
{
    return (c >= 0x80 && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* Decode one UTF-8 character of n bytes, n at least 2. */
static uint32_t character_of(const char *string, int64_t n)
{
    const unsigned char *text = (const unsigned char *)string;
    uint32_t c = text[0] & 0x7fu >> n;
    for (int64_t i = 1; i < n; i++) c = c << 6 | (text[i] & 0x3fu);
    return c;
}

int64_t zr__text_hidden(const char *string, int64_t bytes)
{
    const unsigned char first = (unsigned char)string[0];
    const int64_t n = zr__text_utf8(string, bytes);
    if (n < 2) return first < 0x20 || (first >= 0x7f && first < 0xa0);
    return is_hidden(character_of(string, n)) ? n : 0;
}

/* Write the character at `text` to `piece`, escaped if hidden. A byte that is not valid UTF-8 is copied alone. Return
 * the number of bytes read. */
static int64_t escape_one(const char *text, char piece[ESCAPED_BYTES])
{
    const int64_t left = (int64_t)strnlen(text, 4), hidden = zr__text_hidden(text, left);
    const int64_t n = hidden > 0 ? hidden : zr__text_utf8(text, left);
    if (hidden > 0)
        for (int64_t i = 0; i < n; i++) snprintf(piece + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
    else
        snprintf(piece, ESCAPED_BYTES, *text == '\\' ? "\\\\" : "%.*s", n > 0 ? (int)n : 1, text);
    return n > 0 ? n : 1;
}

const char *zr__text_escape(const char *text, char *out, size_t size)
{
    size_t used = 0, cut = 0; /* cut: last position at which the text can be cut and "..." still fits */
    char piece[ESCAPED_BYTES];
    if (size == 0) return out;
    while (*text) {
        text += escape_one(text, piece);
        if (used + 4 <= size) cut = used;
        if (used + strlen(piece) >= size) {
            snprintf(out + cut, size - cut, "...");
            return out;
        }
        memcpy(out + used, piece, strlen(piece));
        used += strlen(piece);
    }
    out[used] = '\0';
    return out;
}

const char *zr__text_word(const char *path, char *out, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=@%:,";
    char shown[PATH_MAX];
    zr__text_escape(path, shown, sizeof(shown));
    const bool escaped = strcmp(shown, path) != 0 || strchr(path, '\'');
    const char *quote = escaped || !path[0] || path[strspn(path, plain)] ? "'" : "";
    size_t n = (size_t)snprintf(out, size, "%s%s", escaped ? "$" : "", quote);
    for (const char *at = shown; *at && n + 4 < size; at++) {
        if (*at == '\'') out[n++] = '\\';
        out[n++] = *at;
    }
    snprintf(out + n, size - n, "%s", quote);
    return out;
}

int64_t zr__text_json(const char *text, int64_t bytes, char escape[ZR_JSON_ESCAPE_BYTES], int64_t *escaped)
{
    int64_t plain = 0, n = 0;
    escape[0] = '\0';
    for (; plain < bytes; plain += n) {
        unsigned char c = (unsigned char)text[plain];
        n = zr__text_utf8(text + plain, bytes - plain);
        *escaped = n > 1 ? n : 1;
        if (n == 0) /* write U+FFFD itself rather than its escape, so that printing the text again changes nothing */
            snprintf(escape, ZR_JSON_ESCAPE_BYTES, "\xef\xbf\xbd");
        else if (c < 0x20 || c == 0x7f)
            snprintf(escape, ZR_JSON_ESCAPE_BYTES, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            snprintf(escape, ZR_JSON_ESCAPE_BYTES, "\\%c", c);
        else if (n > 1 && is_hidden(character_of(text + plain, n))) /* all hidden characters are below U+10000 */
            snprintf(escape, ZR_JSON_ESCAPE_BYTES, "\\u%04x", character_of(text + plain, n) & 0xffffu);
        if (escape[0]) break;
    }
    return plain;
}

/* Append unescaped runs of bytes at once, since strings may have megabytes. */
void zr__text_add_json(zr__text *text, const char *string, int64_t bytes)
{
    char escape[ZR_JSON_ESCAPE_BYTES];
    int64_t escaped = 0;
    zr__text_append(text, "\"", 1);
    for (;;) {
        const int64_t n = zr__text_json(string, bytes, escape, &escaped);
        zr__text_append(text, string, (size_t)n);
        zr__text_append(text, escape, strlen(escape));
        if (n == bytes) break;
        string += n + escaped;
        bytes -= n + escaped;
    }
    zr__text_append(text, "\"", 1);
}
