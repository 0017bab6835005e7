/* Reads command lines and shell scripts into settings: options --NAME VALUE..., wherever they stand, and the variables
 * that the script sets itself, with simple arithmetic. What depends on a condition of the script is not known: options
 * in a branch are refused, and variables that a branch sets count as not set. So do unknown words behind the program's
 * name, which may be options. */
#include "systems/formats/formats.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLE_BYTES = 65536 }; /* limit of a variable, so that a script that doubles one ends */

/* A script being read. */
typedef struct reading {
    const char *at;
    const char *what;
    int line;
    int branches;          /* conditions (if, case) that are open */
    bool program;          /* whether the program's name was read in this command */
    bool bracket;          /* whether an array ( ... ) is open, in which lines do not end an option's values */
    zr__settings variable; /* variables that the script sets */
    zr__settings *list;
    /* the option whose values are being read */
    char option[128];
    int option_line;
    zr__text value;
} reading;

static void clear(reading *r)
{
    zr__settings_clear(&r->variable);
    zr__text_clear(&r->value);
}

/* ---- variables ------------------------------------------------------------------------------- */

/* Append the value of the variable reference at `text`, which begins with '$', to `out`. An unknown variable stays as
 * it is. Return the end of the reference. */
static const char *expand(const reading *r, const char *text, zr__text *out)
{
    char name[128];
    const bool braces = text[1] == '{';
    const char *begin = text + 1 + braces, *end = begin;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    snprintf(name, sizeof(name), "%.*s", (int)(end - begin), begin);
    const char *fallback = braces && end[0] == ':' && end[1] == '-' ? end + 2 : NULL;
    const char *close = braces ? begin + strcspn(begin, "}\n") : end, *fallback_end = close;
    if (fallback && strchr("\"'", *fallback) && close > fallback + 1 && close[-1] == *fallback) {
        fallback++;
        fallback_end--;
    }
    if (braces && *close == '}') close++;
    if (close == text + 1) close++; /* a lone dollar sign */
    const char *known = zr__settings_value(&r->variable, name);
    if (known)
        zr__text_add(out, "%s", known);
    else if (fallback)
        zr__text_append(out, fallback, (size_t)(fallback_end - fallback));
    else
        zr__text_append(out, text, (size_t)(close - text));
    return close;
}

/* Set a variable, also one that has a value already. */
static zr_status set_variable(reading *r, const char *name, const char *value)
{
    zr__setting *known = zr__settings_find(&r->variable, name);
    ZR_CHECK(strlen(value) < VARIABLE_BYTES, ZR_ERR_CONFIG, "%s:%d: the variable %s is longer than %d bytes", r->what,
             r->line, name, VARIABLE_BYTES);
    if (!known) return zr__settings_add(&r->variable, name, value, r->line);
    char *copy = NULL;
    ZR_TRY(zr__text_copy(value, strlen(value), &copy));
    zr_free(known->value);
    known->value = copy;
    return ZR_OK;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* An expression in $((...)) that is being computed. */
typedef struct sum {
    const reading *r;
    const char *at;
    bool failed;
} sum;

static double add(sum *s);

/* Return the value of a number, a variable, or an expression in parentheses. */
static double factor(sum *s)
{
    char name[128], *end;
    while (isspace((unsigned char)*s->at)) s->at++;
    if (*s->at == '-') return s->at++, -factor(s);
    if (*s->at == '(') {
        s->at++;
        const double value = add(s);
        s->failed |= *s->at != ')';
        s->at += *s->at == ')';
        return value;
    }
    s->at += *s->at == '$';
    const bool braces = *s->at == '{';
    const char *begin = s->at + braces, *text = begin;
    size_t n = 0;
    while (isalnum((unsigned char)begin[n]) || begin[n] == '_') n++;
    snprintf(name, sizeof(name), "%.*s", (int)n, begin);
    if (!isdigit((unsigned char)name[0])) text = zr__settings_value(&s->r->variable, name);
    const double value = text ? (double)strtoll(text, &end, 10) : 0;
    s->failed |= n == 0 || !text || end == text || (text == begin ? end != begin + n : *end != 0);
    s->at = begin + n + (braces && begin[n] == '}');
    return value;
}

static double multiply(sum *s)
{
    double value = factor(s);
    for (;;) {
        while (isspace((unsigned char)*s->at)) s->at++;
        const char op = *s->at;
        if (!op || !strchr("*/%", op) || s->failed) return value;
        s->at++;
        const double by = factor(s);
        s->failed |= op != '*' && by == 0;
        if (s->failed) return 0;
        value = op == '*' ? value * by : op == '/' ? trunc(value / by) : fmod(value, by);
    }
}

static double add(sum *s)
{
    double value = multiply(s);
    while (!s->failed && (*s->at == '+' || *s->at == '-')) {
        const bool plus = *s->at++ == '+';
        const double more = multiply(s);
        value += plus ? more : -more;
    }
    return value;
}

/* Append the value of the integer expression `text`, of n bytes, which is "$((...))". If it cannot be computed, append
 * it as it is: it is then refused where it is used. */
static void compute(const reading *r, const char *text, size_t n, zr__text *out)
{
    char inner[256];
    sum s = {.r = r, .at = inner};
    const bool fits = n > 5 && n - 5 < sizeof(inner) && text[n - 2] == ')';
    snprintf(inner, sizeof(inner), "%.*s", fits ? (int)(n - 5) : 0, text + 3);
    const double value = add(&s);
    if (!fits || s.failed || *s.at || fabs(value) > 0x1p53)
        zr__text_append(out, text, n);
    else
        zr__text_add(out, "%.0f", value);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Skip to the next word, over comments. Return whether a line ended on the way. */
static bool skip(reading *r)
{
    bool ended = false;
    for (;; r->at++) {
        if (r->at[0] == '\\' && (r->at[1] == '\n' || (r->at[1] == '\r' && r->at[2] == '\n'))) {
            r->at += r->at[1] == '\r';
            r->at++;
            r->line++;
        } else if (*r->at == '#') {
            r->at += strcspn(r->at, "\n");
            if (!*r->at) return true;
            r->line++;
            ended = true;
        } else if (*r->at == '\n' || *r->at == ';') {
            r->line += *r->at == '\n';
            ended = true;
        } else if (!*r->at || !isspace((unsigned char)*r->at)) {
            return ended;
        }
    }
}

/* Read one word into `out`, with its quotes removed and its variables replaced. */
static void read_word(reading *r, zr__text *out)
{
    char quote = 0;
    for (; *r->at && (quote || !(isspace((unsigned char)*r->at) || strchr("();", *r->at))); r->at++) {
        r->line += *r->at == '\n';
        if (quote ? *r->at == quote : *r->at == '"' || *r->at == '\'') {
            quote = quote ? 0 : *r->at;
        } else if (*r->at == '$' && r->at[1] == '(' && quote != '\'') { /* arithmetic, or a command: not computed */
            const char *begin = r->at++;
            int open = 0;
            do open += (*r->at == '(') - (*r->at == ')');
            while (*r->at++ && open > 0 && *r->at);
            if (begin[2] == '(')
                compute(r, begin, (size_t)(r->at - begin), out);
            else
                zr__text_append(out, begin, (size_t)(r->at - begin));
            r->at--;
        } else if (*r->at == '$' && quote != '\'') {
            r->at = expand(r, r->at, out) - 1;
        } else if (*r->at == '\\' && r->at[1] && quote != '\'') {
            if (*++r->at != '\n') zr__text_append(out, r->at, 1);
        } else {
            zr__text_append(out, r->at, 1);
        }
    }
}

/* ---- options --------------------------------------------------------------------------------- */

/* Add the option whose values were read, if there is one. */
static zr_status end_option(reading *r)
{
    if (!r->option[0]) return ZR_OK;
    ZR_CHECK(!r->value.failed, ZR_ERR_MEMORY, "no memory for the options of %s", r->what);
    ZR_TRY(zr__settings_add(r->list, r->option, r->value.length ? r->value.data : "true", r->option_line));
    r->option[0] = '\0';
    zr__text_clear(&r->value);
    return ZR_OK;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-' && isalpha((unsigned char)word[2]);
}

/* Return the length of NAME in a word NAME=VALUE or NAME+=VALUE, or 0. */
static size_t variable_length(const char *word)
{
    size_t n = 0;
    if (isdigit((unsigned char)word[0])) return 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_') n++;
    return word[n] == '=' || (word[n] == '+' && word[n + 1] == '=') ? n : 0;
}

static zr_status take_word(reading *r, const char *word, int line);

/* A quoted word may hold an option with its value, as in ARGS=("--split 99,1"). */
static zr_status take_words(reading *r, const char *text, int line)
{
    while (*text) {
        char word[512];
        const size_t n = strcspn(text, " \t\n");
        snprintf(word, sizeof(word), "%.*s", (int)n, text);
        if (n) ZR_TRY(take_word(r, word, line));
        text += n + strspn(text + n, " \t\n");
    }
    return ZR_OK;
}

/* Return whether a word ends the values of an option: an array, which was read where it was set, the arguments of the
 * script, or what a shell does with the output. */
static bool ends_values(const char *word)
{
    const size_t digits = strspn(word, "012");
    if (*word == '$') return strstr(word, "[@]") || strstr(word, "[*]") || word[1] == '@' || word[1] == '*';
    return word[digits] == '>' || strchr("|&<", *word);
}

static bool is_program(const char *word)
{
    return zr__text_ends(word, ".py") || strcmp(word, "torchtitan.train") == 0;
}

static zr_status take_word(reading *r, const char *word, int line)
{
    const size_t variable = variable_length(word);
    const char *equals = strchr(word, '=');
    if (is_option(word + strspn(word, " \t\n")) && strpbrk(word, " \t\n")) {
        ZR_TRY(end_option(r));
        return take_words(r, word, line);
    }
    if (is_option(word)) {
        ZR_CHECK(
            r->branches == 0, ZR_ERR_CONFIG,
            "%s:%d: %s is in a branch of an if or a case, and zr does not know which one is taken; give the script "
            "without the condition",
            r->what, line, ZR_SHOWN(word));
        ZR_TRY(end_option(r));
        snprintf(r->option, sizeof(r->option), "%.*s", (int)(equals ? (size_t)(equals - word) : strlen(word)) - 2,
                 word + 2);
        r->option_line = line;
        if (equals) zr__text_add(&r->value, "%s", equals + 1);
        return equals ? end_option(r) : ZR_OK;
    }
    if (strncmp(word, "activation", 10) == 0 && strchr(word, ':')) { /* a subcommand of torchtitan */
        ZR_TRY(end_option(r));
        return zr__settings_add(r->list, "activation-checkpoint", strchr(word, ':') + 1, line);
    }
    /* not "$@", the arguments of the script itself */
    if (*word == '$' && r->program && !r->option[0] && (isalpha((unsigned char)word[1]) || strchr("_{(", word[1])))
        return zr__settings_add(r->list, word, "not set in the text", line);
    if (is_program(word) || ends_values(word)) {
        r->program |= is_program(word);
        return end_option(r);
    }
    if (r->option[0]) {
        zr__text_add(&r->value, "%s%s", r->value.length ? "," : "", word);
    } else if (variable && word[variable] == '=') {
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)variable, word);
        ZR_AUTO(zr__text_clear) zr__text unknown = {0};
        zr__text_add(&unknown, "$%s", name);
        ZR_CHECK(!unknown.failed, ZR_ERR_MEMORY, "no memory for the variables of %s", r->what);
        return set_variable(r, name, r->branches > 0 ? unknown.data : word + variable + 1);
    } else if (variable && strchr(word, ' ')) {
        return take_words(r, word + variable + 2, line);
    }
    return ZR_OK;
}

/* Count the conditions that a word opens or closes, if it is the first of a command. Return whether it opens or closes
 * one.
 */
static bool is_branch(reading *r, const char *word)
{
    const bool opens = strcmp(word, "if") == 0 || strcmp(word, "case") == 0,
               closes = strcmp(word, "fi") == 0 || strcmp(word, "esac") == 0;
    r->branches += opens - (closes && r->branches > 0);
    return opens || closes;
}

static zr_status read_words(reading *r)
{
    for (bool first = true;;) {
        if (skip(r) && !r->bracket) {
            ZR_TRY(end_option(r));
            first = true;
            r->program = false;
        }
        if (!*r->at) return end_option(r);
        if (*r->at == '(' || *r->at == ')') {
            ZR_TRY(end_option(r));
            r->bracket = *r->at++ == '(';
            continue;
        }
        ZR_AUTO(zr__text_clear) zr__text word = {0};
        const int line = r->line;
        const bool nothing = (*r->at == '"' || *r->at == '\'') && r->at[1] == *r->at;
        read_word(r, &word);
        ZR_CHECK(!word.failed, ZR_ERR_MEMORY, "no memory for the words of %s", r->what);
        const bool branch = first && word.length && is_branch(r, word.data);
        first = word.length && first && (strcmp(word.data, "then") == 0 || strcmp(word.data, "else") == 0);
        if (word.length && !branch)
            ZR_TRY(take_word(r, word.data, line));
        else if (nothing && !r->value.length)
            r->option[0] = '\0'; /* --NAME "" is as good as no --NAME */
    }
}

zr_status zr__settings_read_flags(const char *text, size_t bytes, const char *what, zr__settings *list)
{
    (void)bytes;
    ZR_AUTO(clear) reading r = {.at = text, .what = what, .line = 1, .list = list};
    return read_words(&r);
}
