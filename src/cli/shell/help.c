/* The text that `zr COMMAND --help` prints, and the part of it that words select. */
#include "base/text/text.h"
#include "cli/shell/reference.h"

#include <stdio.h>
#include <ctype.h>
#include <string.h>

static void print_option(const cli_option *o)
{
    char left[48];
    snprintf(left, sizeof(left), "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-24s %s\n", left, o->help);
}

/** Print a configuration key and its help text, wrapped between the columns FIRST and LAST. */
static void print_key(const zr_key *key)
{
    enum { FIRST = 47, LAST = 100 };
    int column = printf("  %-44s [%s]", key->path, key->standard && key->standard[0] ? key->standard : "-");
    char help[CLI_KEY_HELP_BYTES];
    for (const char *at = cli_key_help(key, help); *at;) {
        int length = (int)strcspn(at, " ");
        if (column + 1 + length > LAST) column = printf("\n%*s", FIRST - 1, "") - 1;
        column += printf(" %.*s", length, at);
        at += length;
        at += strspn(at, " ");
    }
    putchar('\n');
}

static cli_help_form *form_now;

void cli_help_as(cli_help_form *form)
{
    form_now = form;
}

/* ---- words ------------------------------------------------------------------------------------ */

/** Fold a letter for comparisons: to lower case, and '_' and '-' to a space, so that words match names too. */
static int folded(char c)
{
    return c == '_' || c == '-' ? ' ' : tolower((unsigned char)c);
}

/** Return whether a text has the word, anywhere or only where a word of the text begins. */
static bool has_word(const char *text, const char *word, bool anywhere)
{
    for (const char *at = text; *at; at++) {
        size_t n = 0;
        if (!anywhere && at > text && isalnum((unsigned char)at[-1])) continue;
        while (word[n] && folded(at[n]) == folded(word[n])) n++;
        if (!word[n]) return true;
    }
    return false;
}

/** Words that select options and keys. */
typedef struct topic_words {
    const char *const *word;
    int n;
    zr_key *keys; /* all keys, or NULL */
} topic_words;

static bool has_all(const topic_words *w, const char *name, const char *help, const char *values)
{
    for (int i = 0; i < w->n; i++)
        if (!has_word(name, w->word[i], true) && !has_word(help, w->word[i], false) &&
            !has_word(values, w->word[i], true))
            return false;
    return true;
}

/** Fail because no option or key has the words. Suggest the last part of a similar key's path, or a similar option. */
static zr_status fail_topic(const topic_words *w, const cli_option *options)
{
    enum { MOST = 1024 };
    const char *names[MOST];
    char words[128] = "", similar[160] = "";
    int n = 0;
    for (const zr_key *key = w->keys; key && key->path && n < MOST; key++) {
        const char *dot = strrchr(key->path, '.');
        names[n++] = dot ? dot + 1 : key->path;
    }
    for (const cli_option *o = options; o && o->name && n < MOST; o++) names[n++] = o->name;
    for (const cli_option *o = cli_common_options; options && o->name && n < MOST; o++) names[n++] = o->name;
    for (int i = 0; i < w->n; i++) {
        const size_t used = strlen(words);
        snprintf(words + used, sizeof(words) - used, "%s%s", i ? " " : "", w->word[i]);
    }
    const char *near = w->n == 1 ? zr__text_nearest(words, names, n) : NULL;
    if (near) snprintf(similar, sizeof(similar), "; did you mean \"%s\"?", near);
    return ZR_FAIL(ZR_ERR_ARG, "no %s%s%s has \"%s\" in its name or explanation%s", options ? "option" : "",
                   options && w->keys ? " or " : "", w->keys ? "key of the configuration" : "", words, similar);
}

/** Print the keys that have the words. Without words, leave out keys that have no effect. Return their number. */
static int print_keys(const topic_words *w)
{
    int n = 0;
    char values[256];
    for (const zr_key *key = w->keys; key && key->path; key++) {
        if (w->n == 0 ? key->state == ZR_KEY_NO_MEANING : !has_all(w, key->path, key->help, cli_key_words(key, values)))
            continue;
        if (n++ == 0)
            printf("Keys of CONFIG.json, with defaults in brackets; each can also be given as an option, "
                   "--key=value\n");
        print_key(key);
    }
    if (w->n == 0)
        printf("\nOther keys of DeepSpeed are accepted but have no effect; zr prints a note for each one that is "
               "given.\n");
    return n;
}

/** Print the options of a list that have the words. `found` counts the options. */
static void print_options(const topic_words *w, const char *command, const cli_option *list, int *found)
{
    for (const cli_option *o = list; o->name; o++) {
        if (!has_all(w, o->name, o->help, "")) continue;
        if ((*found)++ == 0) printf("Options of zr %s\n", command);
        print_option(o);
    }
}

/** Print the options that have the words and, if `keys` is set, the configuration keys that have them. `options` may be
 * NULL. */
static zr_status print_topic(const char *const *word, int n, const char *command, const cli_option *options, bool keys)
{
    ZR_AUTO_FREE zr_key *all = NULL;
    int found = 0;
    if (keys) ZR_TRY(zr_config_keys(&all));
    const topic_words w = {word, n, all};
    if (options) {
        print_options(&w, command, options, &found);
        print_options(&w, command, cli_common_options, &found);
    }
    if (found && keys) putchar('\n');
    found += print_keys(&w);
    return found ? ZR_OK : fail_topic(&w, options);
}

zr_status cli_help_keys(char **word, int n)
{
    for (int i = 0; i < n; i++)
        ZR_CHECK(word[i][0] != '-', ZR_ERR_ARG, "`zr help keys` takes words, not options such as %s", word[i]);
    return print_topic((const char *const *)word, n, NULL, NULL, true);
}

zr_status cli_help(const cli_command *command, const cli_args *args)
{
    if (form_now) {
        form_now(command, args->options, args->keys);
        return ZR_OK;
    }
    const bool keys = args->n_topics && args->keys && strcmp(args->topic[0], "keys") == 0;
    if (keys) return print_topic(args->topic + 1, args->n_topics - 1, NULL, NULL, true);
    if (args->n_topics) return print_topic(args->topic, args->n_topics, command->name, args->options, args->keys);
    printf("zr %s: %s\n\nExamples\n%s\nUsage\n  %s\n\nOptions\n", command->name, command->summary, command->examples,
           command->usage);
    for (const cli_option *o = args->options; o->name; o++) print_option(o);
    for (const cli_option *o = cli_common_options; strcmp(o->name, "help") != 0; o++) print_option(o);
    printf("  %-24s %s\n", "-h, --help [WORD...]", "show this help, or the part that has the words");
    if (args->keys)
        printf("\nAny key of CONFIG.json can also be given as an option, --key.path=value: --train.steps=500,\n"
               "--zero_optimization.stage=3. `zr %s -h keys` lists all keys with their defaults, and `zr help keys\n"
               "WORD` the keys about a word, such as warmup.\n",
               command->name);
    return ZR_OK;
}
