/** `zr simulate --sweep`: simulate every combination of the values of some keys, and print a row for each combination.
 * The row of a combination that cannot be planned has the reason. */
#include "cli/shell/config.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "cli/draw/lines.h"
#include "cli/shell/many.h"
#include "cli/simulate/swept.h"
#include "cli/simulate/simulate.h"
#include "simulate/simulate.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_ROWS 10000
#define MOST_LINES 40 /* maximum number of lines in a picture */

typedef struct row {
    cli_trial made;
    char *error; /* reason why the combination could not be planned, or NULL */
} row;

typedef struct sweep {
    const cli_args *args;
    const cli_simulate_options *o;
    cli_swept axes;
    cli_target target;
    row *row;
    int64_t unix_sec;
    int plotted; /* index of the number that the picture shows */
} sweep;

/** Read the cluster, and check the swept numbers of ranks. A wrong number is an error of the command, not of a row. */
static zr_status check_axes(sweep *s)
{
    ZR_TRY(cli_simulate_target(s->o, NULL, (int)s->o->ranks, &s->target));
    int most = 0;
    ZR_TRY(cli_swept_most_ranks(&s->axes, &most));
    if (most > 0 && s->target.cluster.any_hosts) zr__cluster_widen(&s->target.cluster, most);
    return ZR_OK;
}

/* ---- one combination ---------------------------------------------------------------------------- */

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
    ZR_TRY(cli_swept_apply(&s->axes, index, &args, &target.ranks));
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

static void print_csv(const sweep *s)
{
    for (int i = 0; i < s->axes.n; i++) printf("%s,", s->axes.axis[i].name);
    for (int i = 0; cli_value_name(i); i++) printf("%s,", cli_value_name(i));
    printf("%sfits,bound_by,error\n", s->o->tokens > 0 ? "days," : "");
    for (int64_t k = 0; k < s->axes.rows; k++) {
        const row *r = &s->row[k];
        for (int i = 0; i < s->axes.n; i++) {
            cli_csv_field(cli_swept_value(&s->axes, k, i), false);
            putchar(',');
        }
        for (int i = 0; cli_value_name(i); i++) cli_csv_number(r->error ? 0 : cli_value_of(i, &r->made), !r->error);
        if (s->o->tokens > 0) cli_csv_number(r->error ? 0 : cli_simulated_days(&r->made, s->o->tokens), !r->error);
        printf("%s,%s,", r->error ? "" : r->made.fits ? "true" : "false", r->error ? "" : r->made.simulation.bound_by);
        if (r->error) cli_csv_field(r->error, true);
        putchar('\n');
    }
}

static zr_status print_rows_json(const sweep *s)
{
    json_auto_t *list = json_array();
    for (int64_t k = 0; k < s->axes.rows; k++) {
        const row *r = &s->row[k];
        json_t *object = json_object();
        for (int i = 0; i < s->axes.n; i++) {
            const char *value = cli_swept_value(&s->axes, k, i);
            json_t *json = zr__json_loads(value, JSON_DECODE_ANY); /* the value may be a number, true, an object ... */
            cli_json_set(object, s->axes.axis[i].name, json ? json : json_string(value));
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
    return s->axes.rows / s->axes.axis[0].n;
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
    for (int i = 1; i < s->axes.n && length < 255; i++) {
        const int n = snprintf(name + length, 256 - length, "%s%s %s", i > 1 ? ", " : "",
                               cli_swept_word(&s->axes.axis[i]), cli_swept_value(&s->axes, line, i));
        length += n > 0 ? (size_t)n : 0;
    }
    for (int64_t k = line; k < s->axes.rows; k += lines_of(s)) any |= !s->row[k].error;
    if (!any && length < 255) snprintf(name + length, 256 - length, ": impossible");
    return name;
}

static zr_status draw_sweep(const sweep *s)
{
    const int n = (int)lines_of(s), n_x = s->axes.axis[0].n;
    const char *name[MOST_LINES], *inputs[] = {s->args->n_operands ? s->args->operand[0] : NULL, NULL};
    char title[128], room[MOST_LINES][256];
    ZR_AUTO_FREE double *y = zr_alloc((size_t)s->axes.rows * sizeof(*y));
    ZR_AUTO_FREE bool *hollow = zr_alloc((size_t)s->axes.rows);
    ZR_CHECK(y && hollow, ZR_ERR_MEMORY, "no memory to draw");
    snprintf(title, sizeof(title), "%s on %.48s", cli_value_words(s->plotted), s->target.cluster.name);
    for (int i = 0; i < n; i++) name[i] = name_line(s, i, room[i]);
    for (int64_t k = 0; k < s->axes.rows; k++) {
        const row *r = &s->row[k];
        const int64_t at = k % n * n_x + k / n; /* row k is point k / n of line k % n */
        y[at] = r->error ? NAN : cli_value_of(s->plotted, &r->made);
        hollow[at] = !r->error && !r->made.fits;
    }
    const cli_lines lines = {.title = title,
                             .x_name = s->axes.axis[0].name,
                             .y_name = cli_value_words(s->plotted),
                             .x = s->axes.axis[0].value,
                             .n_x = n_x,
                             .log_x = s->axes.ranks == 0,
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
    ZR_TRY(cli_swept_read(&s->o->sweep, typed, &s->o->brief, s->o->ranks, MOST_ROWS, &s->axes));

    ZR_TRY(find_plotted(s));
    ZR_TRY(cli_check_stdout(inputs));
    if (s->o->svg) ZR_TRY(zr__output_check(s->o->svg, &cli_svg_kind, inputs));
    ZR_TRY(check_axes(s));
    s->row = zr_alloc((size_t)s->axes.rows * sizeof(*s->row));
    ZR_CHECK(s->row, ZR_ERR_MEMORY, "no memory for %lld rows", (long long)s->axes.rows);
    ZR_TRY(cli_many(s->axes.rows, make_row, s, s->args->quiet ? NULL : "combinations"));
    bool any = false;
    for (int64_t k = 0; k < s->axes.rows && !any; k++) any = !s->row[k].error;
    ZR_CHECK(any, ZR_ERR_CONFIG, "none of the %lld combinations can be planned; the first: %s", (long long)s->axes.rows,
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
    cli_swept_clear(&s->axes);
    for (int64_t k = 0; s->row && k < s->axes.rows; k++) zr_free(s->row[k].error);
    zr_free(s->row);
}

zr_status cli_sweep(const cli_args *args, const cli_args *typed, const cli_simulate_options *o)
{
    ZR_AUTO(clear_sweep) sweep s = {.args = args, .o = o, .unix_sec = (int64_t)time(NULL)};
    return run_sweep(&s, typed);
}
