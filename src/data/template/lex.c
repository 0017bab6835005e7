/* Divides a template into tokens, as Jinja2 does with trim_blocks and lstrip_blocks. */
#include "data/template/tree.h"

#include "base/text/text.h"
#include "data/pieces/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BALANCE = 256 };

/* A template that is being divided. */
typedef struct lexer {
    zr__template *t;
    const char *text; /* with \n as line ends, ended by '\0' */
    int64_t n, at;
    int line;
    bool line_begins; /* whether the text at `at` follows a line end that belongs to a tag */
    char open[MOST_BALANCE];
    int opens;
} lexer;

static zr_status add_token(lexer *x, zr__token token)
{
    zr__template *t = x->t;
    if (t->n == t->room) {
        zr__token *more = NULL;
        const int64_t room = 2 * t->room + 64;
        ZR_TRY(zr__pool_take(&t->pool, room * (int64_t)sizeof(*more), &more));
        if (t->n > 0) memcpy(more, t->token, (size_t)t->n * sizeof(*more));
        t->token = more;
        t->room = room;
    }
    token.line = token.line ? token.line : x->line;
    t->token[t->n++] = token;
    return ZR_OK;
}

/* Return the bytes of the white space character at `at`, or 0. */
static int64_t space_at(const lexer *x, int64_t at)
{
    int64_t n = 0;
    if (at >= x->n) return 0;
    return zr__is_python_space(zr__character_at((const unsigned char *)x->text + at, &n)) ? n : 0;
}

/* Go on to `at`, counting lines. */
static void go_to(lexer *x, int64_t at)
{
    for (; x->at < at; x->at++) x->line += x->text[x->at] == '\n';
}

static void skip_space(lexer *x)
{
    for (int64_t n; (n = space_at(x, x->at)) > 0;) go_to(x, x->at + n);
}

static bool begins(const lexer *x, const char *what)
{
    return strncmp(x->text + x->at, what, strlen(what)) == 0; /* the text ends with '\0' */
}

/* ---- text between tags ----------------------------------------------------------------------- */

/* Return the end of text[from, to) without white space at its end. */
static int64_t without_space(const lexer *x, int64_t from, int64_t to)
{
    while (to > from) {
        int64_t at = to - 1;
        while (at > from && ((unsigned char)x->text[at] & 0xc0) == 0x80) at--;
        if (space_at(x, at) == 0) break;
        to = at;
    }
    return to;
}

/* Return the end of the text [from, to) before a block or comment: without white space that begins its line. */
static int64_t without_indent(const lexer *x, int64_t from, int64_t to)
{
    int64_t line = to;
    while (line > from && x->text[line - 1] != '\n') line--;
    if (line == from && !x->line_begins) return to;
    for (int64_t at = line, n; at < to; at += n)
        if ((n = space_at(x, at)) == 0) return to;
    return line;
}

/* Read the text up to the next tag, and the tag's beginning. *tag receives '{', '%', '#' or, at the end, '\0'. */
static zr_status read_data(lexer *x, char *tag)
{
    const int64_t from = x->at;
    int64_t to = from;
    for (; to < x->n; to++)
        if (x->text[to] == '{' && x->text[to + 1] && strchr("{%#", x->text[to + 1])) break;
    *tag = to < x->n ? x->text[to + 1] : '\0';
    const char sign = to < x->n ? x->text[to + 2] : '\0';
    int64_t end = to;
    if (*tag && sign == '-') end = without_space(x, from, to);
    if (*tag && *tag != '{' && sign != '-' && sign != '+') end = without_indent(x, from, to);
    const int line = x->line;
    char *text = NULL;
    if (end > from) {
        ZR_TRY(zr__pool_take(&x->t->pool, end - from + 1, &text));
        memcpy(text, x->text + from, (size_t)(end - from));
        ZR_TRY(add_token(x, (zr__token){.kind = ZR__T_DATA, .text = text, .bytes = end - from, .line = line}));
    }
    go_to(x, *tag ? to + 2 + (sign == '-' || sign == '+') : to);
    return ZR_OK;
}

/* Skip the end of a tag, `end` ("%}", "}}" or "#}") with its sign, and white space that belongs to it. */
static void skip_end(lexer *x, bool block)
{
    const bool strips = x->text[x->at] == '-';
    const int64_t from = x->at;
    go_to(x, x->at + 2 + (strips || x->text[x->at] == '+'));
    if (strips)
        skip_space(x);
    else if (block && x->text[from] != '+' && x->text[x->at] == '\n')
        go_to(x, x->at + 1);
    x->line_begins = x->text[x->at - 1] == '\n';
}

static zr_status skip_comment(lexer *x)
{
    const int line = x->line;
    const char *end = strstr(x->text + x->at, "#}");
    if (!end) return zr__template_wrong(x->t, line, ZR_ERR_DATA, "the comment has no end (#})");
    int64_t at = end - x->text;
    if (at > x->at && (end[-1] == '-' || end[-1] == '+')) at--;
    go_to(x, at);
    skip_end(x, true);
    return ZR_OK;
}

/* ---- inside tags ----------------------------------------------------------------------------- */

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

/* Read the escape at `at`, after the backslash. Write its bytes, at most 4, to `out`. Return its length, or 0 if it is
 * bad. */
static int read_escape(const char *at, char out[4], int64_t *n)
{
    static const char letters[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0, used = 1;
    const int base = digits ? 16 : 8;
    uint32_t c = 0;
    *n = 0;
    if (*at == '\n') return 1;
    if (letter) {
        out[(*n)++] = bytes[letter - letters];
        return 1;
    }
    if (!digits && digit_of(*at) >= 8) { /* no escape */
        out[(*n)++] = '\\';
        return *at == 'N' ? 0 : -1;
    }
    if (!digits) used = 0;
    for (int i = 0; i < (digits ? digits : 3); i++) {
        if (digit_of(at[used]) >= base) {
            if (digits) return 0;
            break;
        }
        c = c * (uint32_t)base + (uint32_t)digit_of(at[used++]);
    }
    if (c >= ZR__CHARACTERS || (c >= 0xd800 && c < 0xe000)) return 0;
    *n = zr__character_put((int32_t)c, out);
    return used;
}

static zr_status read_string(lexer *x)
{
    const char quote = x->text[x->at], *from = x->text + x->at + 1, *end = from;
    char *text = NULL;
    int64_t bytes = 0;
    while (*end && *end != quote) end += 1 + (*end == '\\' && end[1]);
    if (!*end) return zr__template_wrong(x->t, x->line, ZR_ERR_DATA, "a text in quotes has no end");
    ZR_TRY(zr__pool_take(&x->t->pool, end - from + 1, &text));
    for (const char *at = from; at < end;) {
        int64_t n = 1;
        if (*at != '\\') {
            text[bytes++] = *at++;
            continue;
        }
        const int used = read_escape(at + 1, text + bytes, &n);
        if (used == 0)
            return zr__template_wrong(x->t, x->line, ZR_ERR_UNSUPPORTED, "the escape \\%.10s is not supported", at + 1);
        bytes += n;
        at += 1 + (used > 0 ? used : 0);
    }
    ZR_TRY(add_token(x, (zr__token){.kind = ZR__T_STRING, .text = text, .bytes = bytes}));
    go_to(x, end + 1 - x->text);
    return ZR_OK;
}

/* Copy digits, which "_" may separate, to `out`. Return the offset after them. */
static int64_t take_digits(const lexer *x, int64_t at, char *out, int *n)
{
    for (; digit_of(x->text[at]) < 10 || (x->text[at] == '_' && digit_of(x->text[at + 1]) < 10); at++)
        if (x->text[at] != '_' && *n < 60) out[(*n)++] = x->text[at];
    return at;
}

static zr_status read_number(lexer *x)
{
    char digits[70] = "";
    int n = 0;
    zr__token token = {.kind = ZR__T_INT};
    const bool after_point = x->at > 0 && x->text[x->at - 1] == '.'; /* a.0.1 */
    int64_t at = take_digits(x, x->at, digits, &n);
    const int whole = n;
    if (!after_point && x->text[at] == '.' && digit_of(x->text[at + 1]) < 10) {
        digits[n++] = '.';
        at = take_digits(x, at + 1, digits, &n);
        token.kind = ZR__T_REAL;
    }
    const int64_t sign = at + 1 + (x->text[at] && (x->text[at + 1] == '-' || x->text[at + 1] == '+'));
    if (!after_point && (x->text[at] == 'e' || x->text[at] == 'E') && digit_of(x->text[sign]) < 10) {
        digits[n++] = 'e';
        if (sign == at + 2) digits[n++] = x->text[at + 1];
        at = take_digits(x, sign, digits, &n);
        token.kind = ZR__T_REAL;
    }
    if (n > 40 || (token.kind == ZR__T_INT && (whole > 18 || (whole > 1 && digits[0] == '0'))))
        return zr__template_wrong(x->t, x->line, ZR_ERR_UNSUPPORTED, "the number %s is not supported", digits);
    if (whole == 1 && digits[0] == '0' && x->text[at] && strchr("xXoObB", x->text[at]) &&
        digit_of(x->text[at + 1]) < 16) {
        for (n = 3; n < 20 && digit_of(x->text[x->at + n]) < 16;) n++;
        return zr__template_wrong(x->t, x->line, ZR_ERR_UNSUPPORTED,
                                  "the number %.*s is not supported; write it with decimal digits", n, x->text + x->at);
    }
    token.real = strtod(digits, NULL);
    token.number = strtoll(digits, NULL, 10);
    go_to(x, at);
    return add_token(x, token);
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static zr_status read_name(lexer *x)
{
    int64_t end = x->at;
    zr__token token = {.kind = ZR__T_NAME};
    while (is_name_byte(x->text[end])) end++;
    token.bytes = end - x->at;
    ZR_TRY(zr__name_add(x->t, x->text + x->at, token.bytes, &token.text));
    go_to(x, end);
    return add_token(x, token);
}

/* Keep the balance of brackets: inside brackets, no tag ends. */
static zr_status balance(lexer *x, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *open = strchr(opening, c), *close = strchr(closing, c);
    if (open && x->opens == MOST_BALANCE)
        return zr__template_wrong(x->t, x->line, ZR_ERR_UNSUPPORTED, "more than %d brackets are open", MOST_BALANCE);
    if (open) x->open[x->opens++] = c;
    if (close && (x->opens == 0 || x->open[--x->opens] != opening[close - closing]))
        return zr__template_wrong(x->t, x->line, ZR_ERR_DATA, "unexpected \"%c\"", c);
    return ZR_OK;
}

static zr_status read_operator(lexer *x)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", NULL};
    int i = 0;
    while (operators[i] && !begins(x, operators[i])) i++;
    if (!operators[i])
        return zr__template_wrong(x->t, x->line, ZR_ERR_DATA, "unexpected character: \"%s\"",
                                  ZR_SHOWN(x->text + x->at));
    ZR_TRY(balance(x, operators[i][0]));
    ZR_TRY(add_token(x, (zr__token){.kind = ZR__T_OPERATOR, .text = operators[i]}));
    go_to(x, x->at + (int64_t)strlen(operators[i]));
    return ZR_OK;
}

/* Read a tag to its end. */
static zr_status read_tag(lexer *x, bool block)
{
    const char *end = block ? "%}" : "}}";
    const int line = x->line;
    ZR_TRY(add_token(x, (zr__token){.kind = block ? ZR__T_BLOCK_BEGIN : ZR__T_PRINT_BEGIN}));
    x->opens = 0;
    for (;;) {
        skip_space(x);
        const char c = x->text[x->at];
        if (x->at == x->n) return zr__template_wrong(x->t, line, ZR_ERR_DATA, "the tag has no end (%s)", end);
        if (x->opens == 0 &&
            (begins(x, end) || ((c == '-' || (block && c == '+')) && strncmp(x->text + x->at + 1, end, 2) == 0))) {
            ZR_TRY(add_token(x, (zr__token){.kind = block ? ZR__T_BLOCK_END : ZR__T_PRINT_END}));
            skip_end(x, block);
            return ZR_OK;
        }
        if (c == '\'' || c == '"')
            ZR_TRY(read_string(x));
        else if (c >= '0' && c <= '9')
            ZR_TRY(read_number(x));
        else if (is_name_byte(c))
            ZR_TRY(read_name(x));
        else
            ZR_TRY(read_operator(x));
    }
}

/* Copy the text with \n as line ends, and without a line end at its end. */
static zr_status copy_text(lexer *x, const char *text, int64_t bytes)
{
    char *copy = NULL;
    ZR_TRY(zr__pool_take(&x->t->pool, bytes + 4, &copy)); /* read_data looks ahead */
    for (int64_t i = 0; i < bytes; i++) {
        copy[x->n++] = text[i] == '\r' ? '\n' : text[i];
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') i++;
    }
    if (x->n > 0 && copy[x->n - 1] == '\n') copy[--x->n] = '\0';
    x->text = copy;
    for (int64_t at = 0, n; at < x->n; at += n) {
        n = zr__text_utf8(x->text + at, x->n - at);
        if (n == 0 || !x->text[at]) {
            go_to(x, at);
            return zr__template_wrong(x->t, x->line, ZR_ERR_DATA, "a byte is %s", n == 0 ? "not UTF-8" : "NUL");
        }
    }
    return ZR_OK;
}

zr_status zr__template_lex(zr__template *t, const char *text, int64_t bytes)
{
    lexer x = {.t = t, .line = 1, .line_begins = true};
    char tag = '\0';
    ZR_TRY(copy_text(&x, text, bytes));
    do {
        ZR_TRY(read_data(&x, &tag));
        if (tag == '#') ZR_TRY(skip_comment(&x));
        if (tag == '{' || tag == '%') ZR_TRY(read_tag(&x, tag == '%'));
    } while (tag);
    return add_token(&x, (zr__token){.kind = ZR__T_END});
}
