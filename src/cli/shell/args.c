/* Parser of command line options, operands and configuration keys. */
#include "base/text/text.h"
#include "zr/config.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "config/config.h"

#include <stdio.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HINT "; `zr %s --help` lists the options"

zr_status cli_word(const char *option, const char *given, const char *const *names, int *index)
{
    char wanted[128] = "";
    size_t used = 0;
    for (*index = 0; names[*index]; ++*index)
        if (strcmp(given, names[*index]) == 0) return ZR_OK;
    for (int i = 0; names[i] && used < sizeof(wanted); i++) {
        const char *before = i == 0 ? "" : names[i + 1] ? ", " : " or ";
        used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s%s", before, names[i]);
    }
    return ZR_FAIL(ZR_ERR_ARG, "--%s is \"%s\"; expected %s", option, given, wanted);
}

static zr_status read_value(const cli_args *args, const cli_option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    if (option->kind == CLI_INT) {
        long long value = strtoll(text, &end, 10);
        ZR_CHECK(*text && !*end && !errno && (double)value >= option->least, ZR_ERR_ARG,
                 "--%s is \"%s\"; expected a whole number of at least %g" HINT, option->name, text, option->least,
                 args->command);
        *(int64_t *)option->out = value;
    } else if (option->kind == CLI_REAL) {
        double value = strtod(text, &end);
        ZR_CHECK(*text && !*end && isfinite(value) && value >= option->least, ZR_ERR_ARG,
                 "--%s is \"%s\"; expected a number of at least %g" HINT, option->name, text, option->least,
                 args->command);
        *(double *)option->out = value;
    } else if (option->kind == CLI_TEXT) {
        *(const char **)option->out = text;
    } else {
        cli_list *list = option->out;
        ZR_ASSERT(option->kind == CLI_LIST);
        ZR_CHECK(list->n < CLI_LIST_MOST, ZR_ERR_ARG, "--%s is given more than %d times", option->name, CLI_LIST_MOST);
        list->text[list->n++] = text;
    }
    return ZR_OK;
}

/** Find the configuration key with the path `name`. Without an exact match, compare `name` with the last part of each
 * path: "stage" finds zero_optimization.stage. Write the path to `path`. Return false if no key matches. */
static bool key_called(const char *name, char path[128])
{
    ZR_AUTO_FREE zr_key *keys = NULL;
    const zr_key *found = NULL;
    if (zr_config_keys(&keys) != ZR_OK) return false;
    for (const zr_key *key = keys; key->path; key++) {
        const char *dot = strrchr(key->path, '.');
        const bool exact = strcmp(key->path, name) == 0;
        if (exact || (dot && strcmp(dot + 1, name) == 0 && !found)) found = key;
        if (exact) break;
    }
    if (found) snprintf(path, 128, "%s", found->path);
    return found != NULL;
}

/** Options that are now commands of bench/papers. */
static const struct {
    const char *command, *name, *instead;
} moved[] = {{"simulate", "paper", "runs"},
             {"plan", "table1", "table1"},
             {"plan", "table2", "table2"},
             {"plan", "configs", "configs"}};

static zr_status check_moved(const cli_args *args, const char *name)
{
    for (size_t i = 0; i < sizeof(moved) / sizeof(*moved); i++)
        ZR_CHECK(strcmp(args->command, moved[i].command) != 0 || strcmp(name, moved[i].name) != 0, ZR_ERR_ARG,
                 "--%s is no option of zr any more; in zr's source run: bench/papers/papers %s", name,
                 moved[i].instead);
    return ZR_OK;
}

static zr_status fail_unknown(const cli_args *args, const char *name, const char *next)
{
    const char *names[64] = {"help", "json", "quiet", "color"};
    int n = 4;
    for (const cli_option *o = args->options; o && o->name && n < 64; o++) names[n++] = o->name;
    char path[128];
    const char *near = zr__text_nearest(name, names, n);
    /* one edit away from an option: more likely a misspelled option than the last part of a key's path */
    const bool slip = near && zr__text_distance(name, near) == 1;
    if (args->keys && !slip && key_called(name, path))
        return ZR_FAIL(ZR_ERR_ARG, "--%s is a key of the configuration; give its value after an equals sign: --%s=%s",
                       name, path, next && next[0] != '-' ? next : "VALUE");
    const char *section = !args->keys                  ? NULL
                          : strcmp(name, "model") == 0 ? "a directory of weights is --model.init"
                          : strcmp(name, "data") == 0  ? "data to train on are --data.train"
                                                       : NULL;
    if (section)
        return ZR_FAIL(ZR_ERR_ARG, "--%s is a section of the configuration, not an option; %s=%s", name, section,
                       next && next[0] != '-' ? next : "PATH");
    if (args->keys && zr__config_instead(name))
        return ZR_FAIL(ZR_ERR_ARG, "unknown option --%s; in zr it is a key of the configuration: --%s", name,
                       zr__config_instead(name));
    if (near) return ZR_FAIL(ZR_ERR_ARG, "unknown option --%s; did you mean --%s?", name, near);
    return ZR_FAIL(ZR_ERR_ARG, "unknown option --%s" HINT "%s", name, args->command,
                   args->keys ? " (configuration keys are written --key.path=value)" : "");
}

static const cli_option *find_option(const cli_option *options, const char *name)
{
    for (const cli_option *o = options; o && o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

/** Add a word that selects a part of the help. */
static zr_status add_topic(cli_args *args, const char *word)
{
    ZR_CHECK(args->n_topics < CLI_MAX_TOPICS, ZR_ERR_ARG, "there are more than %d words after --help", CLI_MAX_TOPICS);
    args->topic[args->n_topics++] = word;
    return ZR_OK;
}

/** Parse an option in the form --name, --name value or --name=value. Set *used to the number of command line words that
 * it takes. */
static zr_status read_long(cli_args *args, const char *word, const char *next, int *used)
{
    char name[64];
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    *used = 1;

    const char *color = NULL;
    const cli_option common[] = {{.name = "help", .kind = CLI_FLAG, .out = &args->help},
                                 {.name = "json", .kind = CLI_FLAG, .out = &args->json},
                                 {.name = "quiet", .kind = CLI_FLAG, .out = &args->quiet},
                                 {.name = "color", .kind = CLI_TEXT, .out = &color},
                                 {0}};
    const cli_option *option = find_option(common, name);
    if (!option) option = find_option(args->options, name);
    if (!option) {
        ZR_TRY(check_moved(args, name));
        if (!args->keys || !equals) return fail_unknown(args, name, next);
        ZR_CHECK(args->n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG,
                 "there are more than %d options --key=value; put them into CONFIG.json", CLI_MAX_OVERRIDES);
        args->override[args->n_overrides++] = word;
        return ZR_OK;
    }
    if (option->kind == CLI_FLAG) {
        ZR_CHECK(!equals, ZR_ERR_ARG, "--%s takes no value, but \"%s\" was given", name, equals + 1);
        *(bool *)option->out = true;
        return ZR_OK;
    }
    if (args->help && !equals && !next) return add_topic(args, word);
    ZR_CHECK(equals || next, ZR_ERR_ARG, "--%s needs a value" HINT, name, args->command);
    *used = equals ? 1 : 2;
    ZR_TRY(read_value(args, option, equals ? equals + 1 : next));
    if (color) {
        int when = 0;
        ZR_TRY(cli_word("color", color, (const char *const[]){"auto", "always", "never", NULL}, &when));
        args->color = (cli_color)when;
    }
    return ZR_OK;
}

zr_status cli_parse(cli_args *args, int argc, char **argv)
{
    bool options = true;
    for (int i = 0; i < argc;) {
        const char *word = argv[i];
        int used = 1;
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && strcmp(word, "-h") == 0) {
            args->help = true;
        } else if (options && strncmp(word, "--", 2) == 0) {
            ZR_TRY(read_long(args, word + 2, i + 1 < argc ? argv[i + 1] : NULL, &used));
        } else if (options && strcmp(word, "-o") == 0 && find_option(args->options, "out")) {
            ZR_TRY(read_long(args, "out", i + 1 < argc ? argv[i + 1] : NULL, &used));
        } else if (options && word[0] == '-' && word[1]) {
            return ZR_FAIL(ZR_ERR_ARG, "unknown option %s" HINT " (a file of that name: ./%s)", word, args->command,
                           word);
        } else if (args->help) {
            ZR_TRY(add_topic(args, word));
        } else {
            ZR_CHECK(args->n_operands < args->max_operands, ZR_ERR_ARG, "\"%s\" is an unexpected argument" HINT, word,
                     args->command);
            args->operand[args->n_operands++] = word;
        }
        i += used;
    }
    return ZR_OK;
}

zr_status cli_parse_operands(cli_args *args, const cli_command *command, const char *what, int argc, char **argv)
{
    ZR_TRY(cli_parse(args, argc, argv));
    if (args->help) ZR_TRY(cli_help(command, args));
    const int least = args->max_operands < CLI_MAX_OPERANDS ? args->max_operands : 1;
    ZR_CHECK(args->help || !what || args->n_operands >= least, ZR_ERR_ARG,
             "zr %s needs %s; `zr %s --help` has examples", command->name, what, command->name);
    return ZR_OK;
}

zr_status cli_override(cli_args *args, char room[256], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(room, 256, format, list);
    va_end(list);
    ZR_CHECK(n >= 0 && n < 256 && args->n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG, "an option is too long: %s", room);
    memmove(args->override + 1, args->override, (size_t)args->n_overrides++ * sizeof(args->override[0]));
    args->override[0] = room;
    return ZR_OK;
}

/* Parse numbers with units, such as 1d12h. A larger unit must come before a smaller one, and each unit may occur once.
 * */
zr_status cli_duration(const char *option, const char *text, double *sec)
{
    static const struct {
        char name;
        double sec;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    enum { UNITS = sizeof(units) / sizeof(units[0]) };
    const char *at = text;
    size_t unit = 0;
    *sec = 0;
    while (*at >= '0' && *at <= '9') {
        char *end = NULL;
        double n = (double)strtoll(at, &end, 10);
        bool bare = at == text && !*end;
        while (!bare && unit < UNITS && units[unit].name != *end) unit++;
        if (!bare && unit == UNITS) break;
        *sec += bare ? n : n * units[unit++].sec;
        at = end + !bare;
    }
    ZR_CHECK(at != text && !*at && *sec > 0, ZR_ERR_ARG,
             "--%s is \"%s\"; expected a time in seconds, or such as 90m, 3h or 1d12h", option, text);
    return ZR_OK;
}
