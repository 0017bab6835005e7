#include "data/pieces/scan.h"

#include <string.h>

struct zr__scan {
    const char *expression;
    unsigned letters; /* classes of the characters of a word */
    unsigned others;  /* classes of the characters that are neither letters, numbers nor white space */
    int digits;       /* maximum number of digits in a piece */
    bool contracts;   /* whether contractions such as 's are pieces */
    bool cased;       /* whether a word ends where lower case is followed by upper case */
    bool suffix;      /* whether a contraction belongs to the word before it */
    bool slash;       /* whether "/" may follow punctuation like a line end does */
    bool spaced;      /* whether the expression is of GPT-2's form, where pieces begin with a space (spaced_end) */
};

#define MARKED (ZR__LETTERS | ZR__BIT(ZR__MARK))
#define OTHERS (ZR__BIT(ZR__OTHER) | ZR__BIT(ZR__WORD))
/* Sets of characters in Tekken's expression: characters that count as either case, at the beginning of a word, and at
 * the end of a word. */
#define EITHER (ZR__BIT(ZR__LETTER) | ZR__BIT(ZR__MARK))
#define HEAD (ZR__BIT(ZR__UPPER) | EITHER)
#define TAIL (ZR__BIT(ZR__LOWER) | EITHER)

static const zr__scan scans[] = {
    {ZR__SPLIT_GPT2, ZR__LETTERS, OTHERS | ZR__BIT(ZR__MARK), .spaced = true},
    {ZR__SPLIT_LLAMA3, ZR__LETTERS, OTHERS | ZR__BIT(ZR__MARK), .digits = 3, .contracts = true},
    {ZR__SPLIT_QWEN2, ZR__LETTERS, OTHERS | ZR__BIT(ZR__MARK), .digits = 1, .contracts = true},
    {ZR__SPLIT_QWEN35, MARKED, OTHERS, .digits = 1, .contracts = true},
    {ZR__SPLIT_TEKKEN, MARKED, OTHERS | ZR__BIT(ZR__MARK), .digits = 1, .cased = true, .slash = true},
    {ZR__SPLIT_GPT4O, MARKED, OTHERS | ZR__BIT(ZR__MARK), .digits = 3, .cased = true, .slash = true, .suffix = true},
};

const zr__scan *zr__scan_find(const char *expression)
{
    for (size_t i = 0; i < sizeof(scans) / sizeof(scans[0]); i++)
        if (strcmp(scans[i].expression, expression) == 0) return &scans[i];
    return NULL;
}

bool zr__scan_joins_lines(const zr__scan *scan)
{
    return !scan->spaced;
}

/* A text that is being cut. */
typedef struct scanner {
    const zr__scan *scan;
    const zr__classes *classes;
    const unsigned char *end;
} scanner;

typedef const unsigned char *place;

/* Return the class of the character at `at`, and its length. At the end of the text return ZR__SPACE with length 0. */
static inline unsigned look(const scanner *s, place at, int64_t *bytes)
{
    if (at == s->end) {
        *bytes = 0;
        return ZR__SPACE;
    }
    return zr__class_at(s->classes, at, bytes);
}

/* Skip up to `most` characters whose classes are in the set. */
static inline place skip(const scanner *s, place at, unsigned set, int64_t most)
{
    int64_t n = 0;
    for (; at < s->end && most > 0; at += n, most--)
        if (!(set >> zr__class_at(s->classes, at, &n) & 1)) break;
    return at;
}

static inline place skip_all(const scanner *s, place at, unsigned set)
{
    return skip(s, at, set, INT64_MAX);
}

static bool is_line_end(unsigned char c)
{
    return c == '\r' || c == '\n';
}

/* Return the length of a contraction at `at`, which is a "'", or 0. Upper and lower case match, and so does U+017F, a
 * form of "s". */
static int64_t contraction_bytes(const scanner *s, place at)
{
    const int64_t left = s->end - at;
    const unsigned char a = left > 1 ? at[1] | 0x20 : 0, b = left > 2 ? at[2] | 0x20 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (left > 2 && at[1] == 0xc5 && at[2] == 0xbf) return 3;
    return (a == 'l' && b == 'l') || ((a == 'r' || a == 'v') && b == 'e') ? 3 : 0;
}

/* Return the end of the word that begins at `at`, for an expression that distinguishes case, or `at` if there is no
 * word. Take all characters of HEAD. If lower case follows, take all characters of TAIL too. Otherwise end the word
 * after the last taken character of EITHER or, without such a character, after all of them. This word is the match of
 * HEAD* TAIL+ or, if there is none, of HEAD+ TAIL*. */
static place cased_end(const scanner *s, place at)
{
    place after_either = NULL;
    int64_t n = 0;
    unsigned its = look(s, at, &n);
    for (; HEAD >> its & 1; its = look(s, at, &n)) {
        at += n;
        if (its != ZR__UPPER) after_either = at;
    }
    if (its == ZR__LOWER) return skip_all(s, at, TAIL);
    return after_either ? after_either : at;
}

static inline place letters_end(const scanner *s, place at)
{
    return s->scan->cased ? cased_end(s, at) : skip_all(s, at, s->scan->letters);
}

/* Return the end of a word, including one character before the word if the expression allows it. Return NULL if there
 * is no word. */
static inline place word_end(const scanner *s, place at, unsigned its, int64_t n)
{
    if (s->scan->letters >> its & 1) return letters_end(s, at);
    if (ZR__NUMBERS >> its & 1 || is_line_end(*at)) return NULL;
    const place end = letters_end(s, at + n);
    return end > at + n ? end : NULL;
}

/* Return the end of the white space that begins at `at` without its last character, if more text follows and the white
 * space has other characters. */
static place all_but_last(const scanner *s, place at, place end)
{
    place last = end;
    if (end == s->end) return end;
    for (last--; (*last & 0xc0) == 0x80;) last--;
    return last > at ? last : end;
}

/* Return the end of a piece of white space. The piece ends after the last line end in the white space. Without a line
 * end it leaves the last character to the next piece, if more text follows and the piece has other characters. */
static place space_end(const scanner *s, place at)
{
    const place end = skip_all(s, at, ZR__BIT(ZR__SPACE));
    place last = end;
    while (last > at && !is_line_end(last[-1])) last--;
    return last > at ? last : all_but_last(s, at, end);
}

static place other_end(const scanner *s, place at)
{
    const place begin = *at == ' ' ? at + 1 : at;
    place end = skip_all(s, begin, s->scan->others);
    if (end == begin) return NULL;
    while (end < s->end && (is_line_end(*end) || (s->scan->slash && *end == '/'))) end++;
    return end;
}

/* Return the end of a piece by GPT-2's expression: a contraction in lower case, or characters of one kind, possibly
 * behind a space, or white space. */
static place spaced_end(const scanner *s, place at)
{
    const unsigned sets[] = {s->scan->letters, ZR__NUMBERS, s->scan->others};
    const int64_t contraction = *at == '\'' ? contraction_bytes(s, at) : 0;
    const place begin = *at == ' ' ? at + 1 : at;
    int64_t n = 0;
    if (contraction > 0 && at[1] >= 'a' && at[1] <= 'z' && at[contraction - 1] >= 'a') return at + contraction;
    const unsigned its = look(s, begin, &n);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (sets[i] >> its & 1) return skip_all(s, begin + n, sets[i]);
    return all_but_last(s, at, skip_all(s, at, ZR__BIT(ZR__SPACE)));
}

static inline place piece_end(const scanner *s, place at)
{
    int64_t n = 0;
    const unsigned its = look(s, at, &n);
    if (*at == '\'' && s->scan->contracts && contraction_bytes(s, at) > 0) return at + contraction_bytes(s, at);
    place end = word_end(s, at, its, n);
    if (end) return end < s->end && *end == '\'' && s->scan->suffix ? end + contraction_bytes(s, end) : end;
    if (ZR__NUMBERS >> its & 1) return skip(s, at, ZR__NUMBERS, s->scan->digits);
    end = other_end(s, at);
    return end ? end : space_end(s, at);
}

zr_status zr__scan_run(const zr__scan *scan, const zr__classes *classes, const char *text, int64_t bytes,
                       zr__split_fn fn, void *arg)
{
    place at = (place)text;
    const scanner s = {scan, classes, at + bytes};
    for (place end = at; scan->spaced && at < s.end; at = end) {
        end = spaced_end(&s, at);
        ZR_TRY(fn(arg, (const char *)at, end - at));
    }
    while (at < s.end) {
        const place end = piece_end(&s, at);
        ZR_TRY(fn(arg, (const char *)at, end - at));
        at = end;
    }
    return ZR_OK;
}
