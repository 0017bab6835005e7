/** `zr simulate --sweep`: simulate every combination of the values of some keys, and print a row for each combination.
 * The row of a combination that cannot be planned has the reason. */
#include "cli/shell/config.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "cli/draw/lines.h"
#include "cli/shell/many.h"
#include "cli/simulate/simulate.h"
#include "simulate/simulate.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_ROWS 10000
#define MOST_LINES 40 /* maximum number of lines in a picture */
#define RANKS "ranks"

/** A swept key and its values. */
typedef struct axis {
    char name[96];         /* name on the command line, such as "batch" */
    const char *key;       /* the swept key of the configuration, or RANKS */
    const char **value;    /* the axis's `n` values, which point into `override` */
    char (*override)[256]; /* `n` texts of the form "key=value" */
    int n;
} axis;

typedef struct row {
    cli_trial made;
    char *error; /* reason why the combination could not be planned, or NULL */
} row;

typedef struct sweep {
    const cli_args *args;
    const cli_simulate_options *o;
    axis axis[CLI_LIST_MOST];
    int n_axes;
    int ranks_axis; /* index of the axis that varies the number of ranks, or -1 if --ranks applies to all rows */
    cli_target target;
    row *row;
    int64_t n_rows;
    int64_t unix_sec;
    int plotted; /* index of the number that the picture shows */
} sweep;

/* ---- keys and values ------------------------------------------------------------------------------ */

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

static zr_status read_axis(const char *given, axis *a)
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

static zr_status read_axes(sweep *s, const cli_args *typed)
{
    s->n_rows = 1;
    s->ranks_axis = -1;
    for (int i = 0; i < s->o->sweep.n; i++) {
        axis *a = &s->axis[s->n_axes++];
        ZR_TRY(read_axis(s->o->sweep.text[i], a));
        const bool ranks = strcmp(a->key, RANKS) == 0;
        ZR_CHECK(ranks ? s->o->ranks == 0 : !cli_simulate_typed(typed, &s->o->brief, a->key), ZR_ERR_ARG,
                 "%s is given, but --sweep varies it; leave out one of the two", a->name);
        for (int k = 0; k < i; k++)
            ZR_CHECK(strcmp(s->axis[k].key, a->key) != 0, ZR_ERR_ARG, "--sweep gives values for %s twice", a->key);
        if (ranks) s->ranks_axis = i;
        s->n_rows *= a->n;
        ZR_CHECK(s->n_rows <= MOST_ROWS || i + 1 < s->o->sweep.n, ZR_ERR_ARG,
                 "--sweep: there are %lld combinations; the most is %d", (long long)s->n_rows, MOST_ROWS);
        if (s->n_rows > INT32_MAX) s->n_rows = INT32_MAX;
    }
    return ZR_OK;
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

/** Read the cluster, and check the swept numbers of ranks. A wrong number is an error of the command, not of a row. */
static zr_status check_axes(sweep *s)
{
    ZR_TRY(cli_simulate_target(s->o, NULL, (int)s->o->ranks, &s->target));
    const axis *a = s->ranks_axis < 0 ? NULL : &s->axis[s->ranks_axis];
    for (int i = 0; a && i < a->n; i++) {
        int ranks;
        ZR_TRY(read_ranks(a->value[i], &ranks));
        if (s->target.cluster.any_hosts) zr__cluster_widen(&s->target.cluster, ranks);
    }
    return ZR_OK;
}

/* ---- one combination ---------------------------------------------------------------------------- */

/** Return the index of the value that row `number` has on axis `index`. The value on the last axis changes from row to
 * row. */
static int value_index(const sweep *s, int64_t number, int index)
{
    for (int i = s->n_axes - 1; i > index; i--) number /= s->axis[i].n;
    return (int)(number % s->axis[index].n);
}

/** Create the target of a row if the option is `--cluster this`. For any other cluster, keep the target that all rows
 * share. If the row's number of ranks was not measured, return ZR_ERR_UNSUPPORTED, so that only the row is refused. */
static zr_status this_target(const sweep *s, const zr_config *config, cli_target *target)
{
    if (strcmp(s->o->cluster, CLI_CLUSTER_THIS) != 0) return ZR_OK;
    const zr_status st = cli_simulate_target(s->o, config, target->ranks, target);
    return st == ZR_ERR_NOT_FOUND ? ZR_FAIL(ZR_ERR_UNSUPPORTED, "%s", zr_error_message()) : st;
}

static zr_status simulate_row(const sweep *s, int64_t index, cli_trial *made)
{
    cli_args args = *s->args;
    ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
    ZR_AUTO(cli_target_clear) cli_target target = s->target;
    for (int i = 0; i < s->n_axes; i++) {
        const int v = value_index(s, index, i);
        if (i == s->ranks_axis) {
            ZR_TRY(read_ranks(s->axis[i].value[v], &target.ranks));
            continue;
        }
        ZR_CHECK(args.n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG, "more than %d --key=value", CLI_MAX_OVERRIDES);
        args.override[args.n_overrides++] = s->axis[i].override[v];
    }
    ZR_TRY(cli_config(&args, target.ranks, s->unix_sec, &config, NULL));
    ZR_TRY(this_target(s, config, &target));
    ZR_TRY(cli_simulate_settle(s->o, config, &target));
    return cli_try(&target, config, made, NULL);
}

static zr_status make_row(void *arg, int64_t index)
{
    sweep *s = arg;
    row *r = &s->row[index];
    const zr_status st = simulate_row(s, index, &r->made);
    if (!zr__refused(st)) return st;
    char shown[1024]; /* long enough for most messages */
    zr__text_escape(zr_error_message(), shown, sizeof(shown));
    return zr__text_copy(shown, strlen(shown), &r->error);
}

/* ---- CSV and JSON ------------------------------------------------------------------------------- */

/** Print a field of CSV, in quotes if `quotes` is set or if the text needs quotes. */
static void print_field(const char *text, bool quotes)
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

static void print_cell(const row *r, double x)
{
    const bool whole = x == floor(x); /* a whole number, such as bytes, is printed with all its digits */
    printf("%s,", r->error ? "" : whole ? ZR_SHORTEST(x) : ZR_G9(x));
}

static void print_csv(const sweep *s)
{
    for (int i = 0; i < s->n_axes; i++) printf("%s,", s->axis[i].name);
    for (int i = 0; cli_value_name(i); i++) printf("%s,", cli_value_name(i));
    printf("%sfits,bound_by,error\n", s->o->tokens > 0 ? "days," : "");
    for (int64_t k = 0; k < s->n_rows; k++) {
        const row *r = &s->row[k];
        for (int i = 0; i < s->n_axes; i++) {
            print_field(s->axis[i].value[value_index(s, k, i)], false);
            putchar(',');
        }
        for (int i = 0; cli_value_name(i); i++) print_cell(r, r->error ? 0 : cli_value_of(i, &r->made));
        if (s->o->tokens > 0) print_cell(r, r->error ? 0 : cli_simulated_days(&r->made, s->o->tokens));
        printf("%s,%s,", r->error ? "" : r->made.fits ? "true" : "false", r->error ? "" : r->made.simulation.bound_by);
        if (r->error) print_field(r->error, true);
        putchar('\n');
    }
}

static zr_status print_rows_json(const sweep *s)
{
    json_auto_t *list = json_array();
    for (int64_t k = 0; k < s->n_rows; k++) {
        const row *r = &s->row[k];
        json_t *object = json_object();
        for (int i = 0; i < s->n_axes; i++) {
            const char *value = s->axis[i].value[value_index(s, k, i)];
            json_t *json = zr__json_loads(value, JSON_DECODE_ANY); /* the value may be a number, true, an object ... */
            cli_json_set(object, s->axis[i].name, json ? json : json_string(value));
        }
        if (!r->error) cli_simulated_json(object, &r->made, s->o->tokens);
        cli_json_set(object, "error", r->error ? json_string(r->error) : json_null());
        (void)json_array_append_new(list, object);
    }
    return cli_json_put(stdout, list);
}

/* ---- the picture -------------------------------------------------------------------------------- */

static int64_t lines_of(const sweep *s)
{
    return s->n_rows / s->axis[0].n;
}

static zr_status find_plotted(sweep *s)
{
    const char *names[32], *wanted = s->o->plot ? s->o->plot : "tflops";
    int n = 0;
    s->plotted = -1;
    for (; cli_value_name(n) && n < 32; n++) {
        names[n] = cli_value_name(n);
        if (strcmp(names[n], wanted) == 0) s->plotted = n;
    }
    const char *near = zr__text_nearest(wanted, names, n);
    ZR_CHECK(s->plotted >= 0, ZR_ERR_ARG, "--plot %s: no such column; %s was wanted", wanted,
             near ? near : "tflops, samples_per_sec, tokens_per_sec, mfu, step_sec, exposed_sec or memory_bytes");
    ZR_CHECK(!s->o->svg || lines_of(s) <= MOST_LINES, ZR_ERR_ARG,
             "--svg: %lld lines (a combination of all keys but the first is one); at most %d can be told apart",
             (long long)lines_of(s), MOST_LINES);
    return ZR_OK;
}

/** Write the name of a line into `name`, such as "stage 2, tensor 4". The name has the values of all keys except the
 * first. Return `name`. */
static const char *name_line(const sweep *s, int64_t line, char name[256])
{
    size_t length = 0;
    bool any = false;
    name[0] = '\0';
    for (int i = 1; i < s->n_axes && length < 255; i++) {
        const char *dot = strrchr(s->axis[i].name, '.');
        const int n = snprintf(name + length, 256 - length, "%s%s %s", i > 1 ? ", " : "",
                               dot ? dot + 1 : s->axis[i].name, s->axis[i].value[value_index(s, line, i)]);
        length += n > 0 ? (size_t)n : 0;
    }
    for (int64_t k = line; k < s->n_rows; k += lines_of(s)) any |= !s->row[k].error;
    if (!any && length < 255) snprintf(name + length, 256 - length, ": impossible");
    return name;
}

static zr_status draw_sweep(const sweep *s)
{
    const int n = (int)lines_of(s), n_x = s->axis[0].n;
    const char *name[MOST_LINES], *inputs[] = {s->args->n_operands ? s->args->operand[0] : NULL, NULL};
    char title[128], room[MOST_LINES][256];
    ZR_AUTO_FREE double *y = zr_alloc((size_t)s->n_rows * sizeof(*y));
    ZR_AUTO_FREE bool *hollow = zr_alloc((size_t)s->n_rows);
    ZR_CHECK(y && hollow, ZR_ERR_MEMORY, "no memory to draw");
    snprintf(title, sizeof(title), "%s on %.48s", cli_value_words(s->plotted), s->target.cluster.name);
    for (int i = 0; i < n; i++) name[i] = name_line(s, i, room[i]);
    for (int64_t k = 0; k < s->n_rows; k++) {
        const row *r = &s->row[k];
        const int64_t at = k % n * n_x + k / n; /* row k is point k / n of line k % n */
        y[at] = r->error ? NAN : cli_value_of(s->plotted, &r->made);
        hollow[at] = !r->error && !r->made.fits;
    }
    const cli_lines lines = {.title = title,
                             .x_name = s->axis[0].name,
                             .y_name = cli_value_words(s->plotted),
                             .x = s->axis[0].value,
                             .n_x = n_x,
                             .log_x = s->ranks_axis == 0,
                             .name = name,
                             .n = n,
                             .y = y,
                             .hollow = hollow,
                             .hollow_words = "hollow: does not fit the memory"};
    return cli_lines_write(&lines, s->o->svg, inputs);
}

/* ---- all ---------------------------------------------------------------------------------------- */

static zr_status run_sweep(sweep *s, const cli_args *typed)
{
    const char *inputs[] = {s->args->n_operands ? s->args->operand[0] : NULL, NULL};
    ZR_TRY(read_axes(s, typed));
    ZR_TRY(find_plotted(s));
    ZR_TRY(cli_check_stdout(inputs));
    if (s->o->svg) ZR_TRY(zr__output_check(s->o->svg, &cli_svg_kind, inputs));
    ZR_TRY(check_axes(s));
    s->row = zr_alloc((size_t)s->n_rows * sizeof(*s->row));
    ZR_CHECK(s->row, ZR_ERR_MEMORY, "no memory for %lld rows", (long long)s->n_rows);
    ZR_TRY(cli_many(s->n_rows, make_row, s, s->args->quiet ? NULL : "combinations"));
    bool any = false;
    for (int64_t k = 0; k < s->n_rows && !any; k++) any = !s->row[k].error;
    ZR_CHECK(any, ZR_ERR_CONFIG, "none of the %lld combinations can be planned; the first: %s", (long long)s->n_rows,
             s->row[0].error);
    if (s->args->json)
        ZR_TRY(print_rows_json(s));
    else
        print_csv(s);
    if (cli_target_computed(&s->target) && !s->args->quiet) cli_say("note: %s", CLI_GPU_REMARK);
    return s->o->svg ? draw_sweep(s) : ZR_OK;
}

static void clear_sweep(sweep *s)
{
    for (int i = 0; i < s->n_axes; i++) {
        zr_free(s->axis[i].value);
        zr_free(s->axis[i].override);
    }
    for (int64_t k = 0; s->row && k < s->n_rows; k++) zr_free(s->row[k].error);
    zr_free(s->row);
}

zr_status cli_sweep(const cli_args *args, const cli_args *typed, const cli_simulate_options *o)
{
    ZR_AUTO(clear_sweep) sweep s = {.args = args, .o = o, .unix_sec = (int64_t)time(NULL)};
    return run_sweep(&s, typed);
}
