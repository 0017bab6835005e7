#include "data/pieces/expression.h"

#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

/* White space as Unicode defines it. PCRE2's \s has one more character (U+180E). */
#define SPACE_SET "\\t-\\r\\x{85}\\p{Z}"

/* Translation of an expression from Oniguruma (Ruby), the syntax of tokenizer.json, to PCRE2. Only constructs with the
 * same meaning in both libraries are accepted. `bad` is the first construct that is not accepted. */
typedef struct translation {
    const char *at;
    zr__text out;
    int sets; /* number of sets around `at` */
    char bad[32];
} translation;

static void refuse_construct(translation *t, int length)
{
    snprintf(t->bad, sizeof(t->bad), "%.*s", length, t->at);
}

static void copy_construct(translation *t, int length)
{
    zr__text_add(&t->out, "%.*s", length, t->at);
    t->at += length;
}

/* Return the length of a property at `at` if it is a short general category such as \p{Lu}, otherwise 0. Scripts are
 * refused because they depend on PCRE2's version. Long names are refused because some exist in only one library. */
static int category_bytes(const char *at)
{
    static const char known[] =
        " C Cc Cf Cn Co Cs L L& Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs ";
    int begin = at[3] == '^' ? 4 : 3, n = (int)strcspn(at + begin, "} ");
    char name[8];
    if (n < 1 || n > 2 || at[begin + n] != '}') return 0;
    snprintf(name, sizeof(name), " %.*s ", n, at + begin);
    return strstr(known, name) ? begin + n + 1 : 0;
}

static void translate_escape(translation *t)
{
    const char c = t->at[1];
    if (c == 's' || (c == 'S' && t->sets == 0)) {
        zr__text_add(&t->out, t->sets ? "%s" : c == 's' ? "[%s]" : "[^%s]", SPACE_SET);
        t->at += 2;
    } else if ((c == 'p' || c == 'P') && t->at[2] == '{') {
        const int n = category_bytes(t->at);
        if (n > 0)
            copy_construct(t, n);
        else
            refuse_construct(t, (int)strcspn(t->at, "}") + 1);
    } else if (c && strchr("rnt", c)) {
        copy_construct(t, 2);
    } else if (c && (unsigned char)c < 0x80 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ", c)) {
        copy_construct(t, 2);
    } else {
        refuse_construct(t, 2);
    }
}

/* Translate a part of a set. A set within a set adds its characters to it, so its brackets are left out. Refuse
 * constructs whose meaning would then change: negated sets and names of classes, and hyphens at a bracket. Refuse
 * intersections, which PCRE2 does not have. */
static void translate_in_set(translation *t)
{
    const char c = *t->at;
    const bool hyphen = t->at[-1] == '-';
    if (c == '[' && t->sets == 1 && !hyphen && t->at[1] && !strchr("^:]-", t->at[1])) {
        t->sets++;
        t->at++;
    } else if (c == ']' && t->sets > 1 && !hyphen && t->at[1] != '-') {
        t->sets--;
        t->at++;
    } else if (c == '[' || (c == ']' && t->sets > 1)) {
        refuse_construct(t, 1);
    } else if (c == '&' && t->at[1] == '&') {
        refuse_construct(t, 2);
    } else {
        t->sets -= c == ']';
        copy_construct(t, 1);
    }
}

/* Return whether a caseless group is like the contractions in GPT-2's expression. Other groups are refused: in
 * Oniguruma alone, caseless "ss", "st", "ff", "fi" and "fl" also match a single character (U+00DF, U+FB06 ...). */
static bool is_plain_caseless(const char *at)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'|";
    size_t n = strspn(at, plain);
    for (size_t i = 0; i + 1 < n; i++) {
        int a = at[i] | 0x20, b = at[i + 1] | 0x20;
        if ((a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'))) return false;
    }
    return at[n] == ')';
}

static void translate_group(translation *t)
{
    static const char caseless[] = "(?i:";
    static const char *const known[] = {caseless, "(?:", "(?!", "(?="};
    if (strncmp(t->at, caseless, sizeof(caseless) - 1) == 0 && !is_plain_caseless(t->at + sizeof(caseless) - 1)) {
        refuse_construct(t, (int)strcspn(t->at, ")") + 1);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strncmp(t->at, known[i], strlen(known[i])) != 0) continue;
        copy_construct(t, (int)strlen(known[i]));
        return;
    }
    if (t->at[1] == '?' || t->at[1] == '*')
        refuse_construct(t, 4);
    else
        copy_construct(t, 1);
}

/* Return the length of a construct such as "{3}?" at `at`, or 0 if `at` begins with another construct. */
static int fixed_then_question(const char *at)
{
    int n = *at == '{' ? (int)strspn(at + 1, "0123456789") : 0;
    return n > 0 && at[n + 1] == '}' && at[n + 2] == '?' ? n + 3 : 0;
}

static void translate_outside(translation *t)
{
    if (*t->at == '[') {
        t->sets = 1;
        copy_construct(t, t->at[1] == '^' ? 2 : 1);
        if (*t->at == ']') refuse_construct(t, 1);
    } else if (*t->at == '(') {
        translate_group(t);
    } else if (*t->at == '^' || *t->at == '$') {
        /* Oniguruma matches the beginning or end of a line, PCRE2 the beginning or end of the text. */
        refuse_construct(t, 1);
    } else if ((t->at[0] == '}' && t->at[1] == '+') || (t->at[0] == '{' && t->at[1] == ',')) {
        /* The libraries differ: "}+" is either greedy or possessive, and "{," is either a count from 0 or plain text.
         */
        refuse_construct(t, 2);
    } else if (fixed_then_question(t->at) > 0) {
        /* In Oniguruma this is an optional repetition, in PCRE2 an exact repetition. */
        refuse_construct(t, fixed_then_question(t->at));
    } else {
        copy_construct(t, 1);
    }
}

zr_status zr__expression_translate(const char *expression, const char *where, char **out)
{
    translation t = {.at = expression};
    while (*t.at && !t.bad[0]) {
        if (*t.at == '\\')
            translate_escape(&t);
        else if (t.sets > 0)
            translate_in_set(&t);
        else
            translate_outside(&t);
    }
    if (t.bad[0]) {
        zr__text_clear(&t.out);
        return ZR_FAIL(ZR_ERR_DATA, "%s: \"%s\" in the regular expression \"%s\" is not supported", where,
                       ZR_SHOWN(t.bad), ZR_SHOWN(expression));
    }
    return zr__text_take(&t.out, out);
}
