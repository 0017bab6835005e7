/* Reads the keys and values of --sweep. */
#include "cli/simulate/swept.h"

#include "base/text/text.h"
#include "cli/simulate/simulate.h"
#include "zr/config.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANKS "ranks"

static const struct {
    const char *name, *key;
} brief_names[] = {{RANKS, RANKS},
                   {"batch", "train_micro_batch_size_per_gpu"},
                   {"stage", "zero_optimization.stage"},
                   {"tensor", "parallel.tensor"},
                   {"seq", "data.seq_length"}};
enum { BRIEF_NAMES = sizeof(brief_names) / sizeof(brief_names[0]) };

/** Set *found to the key of a name: `name` itself if it is a key, or the key that a short name stands for. */
static zr_status find_swept_key(const char *name, const char **found)
{
    const char *names[512];
    int n = 0;
    ZR_AUTO_FREE zr_key *key = NULL;
    *found = NULL;
    ZR_TRY(zr_config_keys(&key));
    for (int i = 0; i < BRIEF_NAMES; i++) {
        names[n++] = brief_names[i].name;
        if (strcmp(name, brief_names[i].name) == 0) *found = brief_names[i].key;
    }
    for (int i = 0; key[i].path && n < 512; i++) {
        names[n++] = key[i].path;
        if (strcmp(name, key[i].path) == 0) *found = name;
    }
    const char *near = *found ? NULL : zr__text_nearest(name, names, n);
    ZR_CHECK(*found, ZR_ERR_ARG,
             "--sweep %s: unknown key%s%s; expected a key of the configuration such as zero_optimization.stage, or "
             "ranks, batch, stage, tensor, seq",
             name, near ? "; did you mean " : "", near ? near : "");
    return ZR_OK;
}

/** Return the end of a value in a list of values: the next comma that is not in brackets, or the end of the text. */
static const char *swept_value_end(const char *text)
{
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '[' || *text == '{') - (*text == ']' || *text == '}');
        if (*text == ',' && depth <= 0) break;
    }
    return text;
}

static zr_status read_axis(const char *given, cli_swept_key *a)
{
    const int length = (int)strcspn(given, "=");
    ZR_CHECK(given[length] && length > 0 && length < (int)sizeof(a->name), ZR_ERR_ARG,
             "--sweep is \"%s\"; expected KEY=a,b,c, e.g. stage=1,2,3", given);
    snprintf(a->name, sizeof(a->name), "%.*s", length, given);
    ZR_TRY(find_swept_key(a->name, &a->key));
    size_t most = 1;
    for (const char *c = given; *c; c++) most += *c == ',';
    a->value = zr_alloc(most * sizeof(*a->value));
    a->override = zr_alloc(most * sizeof(*a->override));
    ZR_CHECK(a->value && a->override, ZR_ERR_MEMORY, "no memory for the values of --sweep %s", a->name);
    for (const char *text = given + length + 1, *end;; text = end + 1) {
        end = swept_value_end(text);
        ZR_CHECK(end > text, ZR_ERR_ARG, "--sweep %s: a value is empty; expected KEY=a,b,c", given);
        char *override = a->override[a->n];
        const int bytes = snprintf(override, 256, "%s=%.*s", a->key, (int)(end - text), text);
        ZR_CHECK(bytes < 256, ZR_ERR_ARG, "--sweep %s: a value is too long: %.60s...", a->name, text);
        a->value[a->n] = override + strlen(a->key) + 1;
        for (int i = 0; i < a->n; i++)
            ZR_CHECK(strcmp(a->value[i], a->value[a->n]) != 0, ZR_ERR_ARG, "--sweep %s: the value %s is given twice",
                     a->name, a->value[i]);
        a->n++;
        if (!*end) return ZR_OK;
    }
}

static zr_status read_ranks(const char *value, int *ranks)
{
    char *end = NULL;
    const long long n = strtoll(value, &end, 10);
    ZR_CHECK(*value && !*end && n >= 1 && n <= INT32_MAX, ZR_ERR_ARG,
             "--sweep ranks: \"%s\"; a whole number from 1 to %d was wanted", value, INT32_MAX);
    *ranks = (int)n;
    return ZR_OK;
}

zr_status cli_swept_read(const cli_list *sweep, const cli_args *typed, const cli_brief *brief, int64_t ranks,
                         int64_t most, cli_swept *axes)
{
    *axes = (cli_swept){.ranks = -1, .rows = 1};
    for (int i = 0; i < sweep->n; i++) {
        cli_swept_key *a = &axes->axis[axes->n++];
        ZR_TRY(read_axis(sweep->text[i], a));
        const bool of_ranks = strcmp(a->key, RANKS) == 0;
        ZR_CHECK(of_ranks ? ranks == 0 : !cli_simulate_typed(typed, brief, a->key), ZR_ERR_ARG,
                 "%s is given, but --sweep varies it; leave out one of the two", a->name);
        for (int k = 0; k < i; k++)
            ZR_CHECK(strcmp(axes->axis[k].key, a->key) != 0, ZR_ERR_ARG, "--sweep gives values for %s twice", a->key);
        if (of_ranks) axes->ranks = i;
        axes->rows *= a->n;
        ZR_CHECK(axes->rows <= most || i + 1 < sweep->n, ZR_ERR_ARG,
                 "--sweep: there are %lld combinations; the most is %lld", (long long)axes->rows, (long long)most);
        if (axes->rows > INT32_MAX) axes->rows = INT32_MAX;
    }
    return ZR_OK;
}

void cli_swept_clear(cli_swept *axes)
{
    for (int i = 0; i < axes->n; i++) {
        zr_free(axes->axis[i].value);
        zr_free(axes->axis[i].override);
    }
    axes->n = 0;
}

int cli_swept_index(const cli_swept *axes, int64_t row, int index)
{
    for (int i = axes->n - 1; i > index; i--) row /= axes->axis[i].n;
    return (int)(row % axes->axis[index].n);
}

const char *cli_swept_value(const cli_swept *axes, int64_t row, int index)
{
    return axes->axis[index].value[cli_swept_index(axes, row, index)];
}

zr_status cli_swept_apply(const cli_swept *axes, int64_t row, cli_args *args, int *ranks)
{
    for (int i = 0; i < axes->n; i++) {
        if (i == axes->ranks) {
            ZR_TRY(read_ranks(cli_swept_value(axes, row, i), ranks));
            continue;
        }
        ZR_CHECK(args->n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG, "more than %d --key=value", CLI_MAX_OVERRIDES);
        args->override[args->n_overrides++] = axes->axis[i].override[cli_swept_index(axes, row, i)];
    }
    return ZR_OK;
}

zr_status cli_swept_most_ranks(const cli_swept *axes, int *most)
{
    const cli_swept_key *a = axes->ranks < 0 ? NULL : &axes->axis[axes->ranks];
    *most = 0;
    for (int i = 0; a && i < a->n; i++) {
        int ranks;
        ZR_TRY(read_ranks(a->value[i], &ranks));
        if (ranks > *most) *most = ranks;
    }
    return ZR_OK;
}

const char *cli_swept_word(const cli_swept_key *axis)
{
    const char *dot = strrchr(axis->name, '.');
    return dot ? dot + 1 : axis->name;
}

void cli_csv_field(const char *text, bool quotes)
{
    if (!quotes && !strpbrk(text, ",\"\n\r ")) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

void cli_csv_number(double x, bool known)
{
    const bool whole = x == floor(x);
    printf("%s,", !known ? "" : whole ? ZR_SHORTEST(x) : ZR_G9(x));
}
