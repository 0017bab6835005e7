#include "cli/runs/sweep.h"

#include "base/file/folder.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "cli/report/report.h"
#include "cli/shell/config.h"
#include "cli/shell/message.h"
#include "cli/shell/process.h"
#include "cli/simulate/swept.h"
#include "comm/comm.h"
#include "config/config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RUNS = CLI_MAX_OPERANDS, NAME_BYTES = 200, KEY_BYTES = 256, WHY_BYTES = 1024 };

/** One run of a sweep. */
typedef struct one_run {
    char name[NAME_BYTES]; /* values of the swept keys, such as "lr=1e-5,seed=2"; the name of its folder */
    char *dir;             /* override "train.output_dir=DIR" */
    bool finished;         /* whether the run ended before this command began */
    char *error;           /* why it failed, or NULL */
    zr_status status;
} one_run;

typedef struct sweep {
    const cli_sweeping *of;
    cli_swept axes;
    char base[PATH_MAX]; /* train.output_dir */
    one_run *run;
} sweep;

/** Return the folder of a run. */
static const char *dir_of(const one_run *run)
{
    return strchr(run->dir, '=') + 1;
}

/* ---- names ------------------------------------------------------------------------------------ */

/** Return whether two swept keys have the same last part, so that names need their whole paths. */
static bool is_ambiguous(const cli_swept *axes, int index)
{
    for (int i = 0; i < axes->n; i++)
        if (i != index && strcmp(cli_swept_word(&axes->axis[i]), cli_swept_word(&axes->axis[index])) == 0) return true;
    return false;
}

/** Name a run by its values. Characters that a shell or a file system could take for something else become '_'. */
static zr_status name_run(const cli_swept *axes, int64_t row, char name[NAME_BYTES])
{
    int n = 0;
    for (int i = 0; i < axes->n && n < NAME_BYTES; i++) {
        const cli_swept_key *a = &axes->axis[i];
        n += snprintf(name + n, NAME_BYTES - (size_t)n, "%s%s=%s", i ? "," : "",
                      is_ambiguous(axes, i) ? a->name : cli_swept_word(a), cli_swept_value(axes, row, i));
    }
    ZR_CHECK(n < NAME_BYTES, ZR_ERR_ARG, "--sweep: the values %.60s... are too long for the name of a run's folder",
             name);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("=,.+-_", *c)) *c = '_';
    return ZR_OK;
}

static zr_status name_runs(sweep *s)
{
    for (int64_t k = 0; k < s->axes.rows; k++) {
        one_run *run = &s->run[k];
        zr__text dir = {0};
        ZR_TRY(name_run(&s->axes, k, run->name));
        for (int64_t i = 0; i < k; i++)
            ZR_CHECK(
                strcmp(s->run[i].name, run->name) != 0, ZR_ERR_ARG,
                "--sweep: two runs would have the folder %s, since their values differ only in signs that names of "
                "folders lack",
                run->name);
        zr__text_add(&dir, "train.output_dir=%s/%s", s->base, run->name);
        ZR_TRY(zr__text_take(&dir, &run->dir));
    }
    return ZR_OK;
}

/* ---- checks before the first run -------------------------------------------------------------- */

/** Set the command line of a run, and its number of ranks. */
static zr_status args_of(const sweep *s, int64_t k, cli_args *args, int *ranks)
{
    *args = *s->of->args;
    args->json = false;
    *ranks = s->of->comm ? s->of->comm->size : s->of->ranks > 0 ? (int)s->of->ranks : 1;
    ZR_TRY(cli_swept_apply(&s->axes, k, args, ranks));
    if (!s->run[k].dir) return ZR_OK;
    ZR_CHECK(args->n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG, "more than %d --key=value", CLI_MAX_OVERRIDES);
    args->override[args->n_overrides++] = s->run[k].dir;
    return ZR_OK;
}

/** Load the configuration of a run. An error names its values. */
static zr_status config_of(const sweep *s, int64_t k, zr_config **config, bool *own_dir)
{
    cli_args args;
    int ranks;
    ZR_TRY(args_of(s, k, &args, &ranks));
    const zr_status st = cli_config(&args, ranks, s->of->unix_sec, config, own_dir);
    return st == ZR_OK || !s->run[k].name[0] ? st : ZR_FAIL(st, "--sweep %s: %s", s->run[k].name, zr_error_message());
}

static zr_status find_base(sweep *s)
{
    ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
    bool own_dir = false;
    ZR_TRY(name_run(&s->axes, 0, s->run[0].name));
    ZR_TRY(config_of(s, 0, &config, &own_dir));
    ZR_CHECK(!own_dir, ZR_ERR_ARG,
             "--sweep needs train.output_dir, in which each run gets a folder; give --train.output_dir=DIR");
    ZR_CHECK(snprintf(s->base, sizeof(s->base), "%s", config->train.output_dir) < PATH_MAX, ZR_ERR_CREATE,
             "train.output_dir is too long");
    for (size_t n = strlen(s->base); n > 1 && s->base[n - 1] == '/'; n--) s->base[n - 1] = '\0';
    return ZR_OK;
}

/** Return whether a key that differs between a finished run and this command changes the training. The run may have
 * chosen the values of other keys, such as a memory limit. */
static bool decides(const zr_config *config, const char *key)
{
    static const char *const sections[] = {"model.", "data.", "train.", "optimizer.", "scheduler."};
    static const char *const places[] = {"train.output_dir", "train.started_in", "train.threads",
                                         "train.accumulation_order", "data.cache_dir"};
    bool any = zr__config_given(config, key);
    for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++)
        any |= strncmp(key, sections[i], strlen(sections[i])) == 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) any &= strcmp(key, places[i]) != 0;
    return any;
}

/** Find the first key that changes the training and differs between two configurations as JSON. `path` is the path of
 * the given sections. Return whether a key was found; `key` receives its path, and *is its value in `now`. The
 * recursion is as deep as the table of keys. */
static bool find_other(const zr_config *config, const json_t *was, const json_t *now, const char *path,
                       char key[KEY_BYTES], const json_t **is)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)now, name, value)
    {
        char its[KEY_BYTES];
        const json_t *before = json_object_get(was, name);
        snprintf(its, sizeof(its), "%s%s%s", path, *path ? "." : "", name);
        if (json_is_object(value) && find_other(config, before, value, its, key, is)) return true;
        if (json_is_object(value) || !before || json_equal(before, value) || !decides(config, its)) continue;
        memcpy(key, its, KEY_BYTES);
        *is = value;
        return true;
    }
    return false;
}

/** Refuse a finished run that another configuration made. */
static zr_status check_same(const one_run *run, const char *path, const zr_config *config)
{
    ZR_AUTO_FREE char *text = NULL;
    json_auto_t *was = NULL, *now = NULL;
    char key[KEY_BYTES];
    const json_t *is = NULL;
    ZR_TRY(zr__json_load_data(path, &was));
    ZR_TRY(zr_config_to_json(config, &text));
    ZR_TRY(zr__json_parse(text, strlen(text), "the configuration", &now));
    ZR_CHECK(!find_other(config, was, now, "", key, &is), ZR_ERR_CONFIG,
             "--sweep %s: %s holds a finished run with another %s, which is now %s; give another train.output_dir, or "
             "remove that folder",
             run->name, ZR_SHOWN(dir_of(run)), key, ZR_JSON_SHOWN(is));
    return ZR_OK;
}

/** Find what an earlier command has left in the folder of a run. */
static zr_status look_at_run(one_run *run, const zr_config *config, bool resume)
{
    char metrics[PATH_MAX], report[PATH_MAX], written[PATH_MAX];
    json_auto_t *root = NULL;
    const char *dir = dir_of(run);
    ZR_TRY(zr__path_format(metrics, "%s/metrics.jsonl", dir));
    ZR_TRY(zr__path_format(report, "%s/run.json", dir));
    ZR_TRY(zr__path_format(written, "%s/config.json", dir));
    if (access(metrics, F_OK) != 0) return ZR_OK;
    ZR_CHECK(resume, ZR_ERR_CREATE,
             "--sweep %s: %s holds a run; go on with the sweep (--resume), give another train.output_dir, or remove it",
             run->name, ZR_SHOWN(dir));
    if (access(report, F_OK) != 0 || access(written, F_OK) != 0) return ZR_OK;
    ZR_TRY(zr__json_load_data(report, &root));
    const bool early = json_is_true(json_object_get(root, "stopped_early"));
    const json_int_t steps = json_integer_value(json_object_get(root, "steps"));
    run->finished = steps >= config->train.steps || early;
    return run->finished ? check_same(run, written, config) : ZR_OK;
}

static zr_status check_runs(sweep *s)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    char page[PATH_MAX];
    ZR_TRY(zr__path_format(page, "%s/report.html", s->base));
    for (int64_t k = 0; k < s->axes.rows; k++) {
        ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
        bool own_dir = false;
        ZR_TRY(config_of(s, k, &config, &own_dir));
        if (!s->of->comm || s->of->comm->rank == 0) ZR_TRY(look_at_run(&s->run[k], config, s->of->resume));
        zr__config_inputs(config, inputs);
        if (k == 0) ZR_TRY(zr__output_check(page, &cli_report_kind, inputs));
        if (k == 0) ZR_TRY(cli_check_stdout(inputs));
    }
    return ZR_OK;
}

/** Tell all ranks which runs rank 0 has found finished. */
static zr_status share_finished(sweep *s)
{
    for (int64_t k = 0; s->of->comm && k < s->axes.rows; k++) {
        double mine = s->run[k].finished;
        ZR_TRY(zr_comm_scalars(s->of->comm, &mine, 1, NULL));
        s->run[k].finished = s->of->comm->table[0] > 0;
    }
    return ZR_OK;
}

static zr_status prepare(sweep *s)
{
    static const char folder[] = "train.output_dir=";
    const cli_sweeping *of = s->of;
    for (int i = 0; i < of->sweep->n; i++)
        ZR_CHECK(strncmp(of->sweep->text[i], folder, strlen(folder)) != 0, ZR_ERR_ARG,
                 "--sweep train.output_dir: each run gets a folder of its own in train.output_dir; leave it out");
    ZR_TRY(cli_swept_read(of->sweep, of->typed, of->brief, of->ranks, MOST_RUNS, &s->axes));
    ZR_CHECK(!of->comm || s->axes.ranks < 0, ZR_ERR_ARG,
             "--sweep ranks: the launcher started %d ranks; leave it out, or sweep without a launcher",
             of->comm ? of->comm->size : 0);
    int most = 0;
    ZR_TRY(cli_swept_most_ranks(&s->axes, &most));
    s->run = zr_alloc((size_t)s->axes.rows * sizeof(*s->run));
    ZR_CHECK(s->run, ZR_ERR_MEMORY, "no memory for %lld runs", (long long)s->axes.rows);
    ZR_TRY(find_base(s));
    ZR_TRY(name_runs(s));
    return check_runs(s);
}

/* ---- the table and the page ------------------------------------------------------------------- */

/** Return the report of a run, or NULL if the run has not begun. */
static const cli_report_run *report_of(const cli_report *report, const one_run *run)
{
    for (int i = 0; i < report->n; i++)
        if (strcmp(report->run[i].dir, dir_of(run)) == 0) return &report->run[i];
    return NULL;
}

/** A column of the table. */
static const struct {
    const char *name, *fact; /* `fact`: key of a fact of the report, or NULL for the step of the lowest val_loss */
} columns[] = {{"steps", "last_step"},
               {"loss", "loss"},
               {"val_loss", "val_loss"},
               {"val_step", NULL},
               {"tokens_per_sec", "tokens_per_sec"},
               {"wall_sec", "wall_sec"}};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

/** Return the number of a column, or NAN. */
static double column_of(const cli_report_run *run, int column)
{
    for (int i = 0; run && columns[column].fact && i < run->n_facts; i++)
        if (strcmp(run->fact[i].key, columns[column].fact) == 0) return run->fact[i].value;
    const curve_series *val = run ? &run->curve->series[CLI_VAL] : NULL;
    return val && !columns[column].fact && val->per ? (double)val->best_step : NAN;
}

static void print_csv(const sweep *s, const cli_report *report)
{
    for (int i = 0; i < s->axes.n; i++) printf("%s,", s->axes.axis[i].name);
    for (int i = 0; i < COLUMNS; i++) printf("%s,", columns[i].name);
    puts("run,error");
    for (int64_t k = 0; k < s->axes.rows; k++) {
        const cli_report_run *run = report_of(report, &s->run[k]);
        for (int i = 0; i < s->axes.n; i++) {
            cli_csv_field(cli_swept_value(&s->axes, k, i), false);
            putchar(',');
        }
        for (int i = 0; i < COLUMNS; i++) cli_csv_number(column_of(run, i), isfinite(column_of(run, i)));
        cli_csv_field(dir_of(&s->run[k]), false);
        putchar(',');
        if (s->run[k].error) cli_csv_field(s->run[k].error, true);
        putchar('\n');
    }
}

static zr_status print_json(const sweep *s, const cli_report *report)
{
    zr__json_out json = {0};
    zr__json_open(&json, NULL, '[');
    for (int64_t k = 0; k < s->axes.rows; k++) {
        const cli_report_run *run = report_of(report, &s->run[k]);
        zr__json_break(&json, "\n ");
        zr__json_open(&json, NULL, '{');
        for (int i = 0; i < s->axes.n; i++) {
            const char *value = cli_swept_value(&s->axes, k, i);
            json_auto_t *number = zr__json_loads(value, JSON_DECODE_ANY);
            if (number)
                zr__json_add_json(&json, s->axes.axis[i].name, value);
            else
                zr__json_add(&json, s->axes.axis[i].name, value);
        }
        for (int i = 0; i < COLUMNS; i++) zr__json_add(&json, columns[i].name, column_of(run, i));
        zr__json_add(&json, "run", dir_of(&s->run[k]), "error", (const char *)s->run[k].error);
        zr__json_close(&json, '}');
    }
    zr__json_close(&json, ']');
    return zr__json_write(&json, stdout);
}

/** Write a page about all runs that have begun, and print the table. Only on the first rank. */
static zr_status show(const sweep *s)
{
    const char *dir[MOST_RUNS + 1] = {NULL}, *name[MOST_RUNS];
    char page[PATH_MAX], path[PATH_MAX];
    ZR_AUTO(cli_report_clear) cli_report report = {0};
    int n = 0;
    for (int64_t k = 0; k < s->axes.rows; k++) {
        ZR_TRY(zr__path_format(path, "%s/metrics.jsonl", dir_of(&s->run[k])));
        if (access(path, F_OK) != 0) continue;
        dir[n] = dir_of(&s->run[k]);
        name[n++] = s->run[k].name;
    }
    if (n > 0) ZR_TRY(cli_report_read(&report, dir, name, n));
    for (int64_t k = 0; k < s->axes.rows; k++) {
        cli_report_run *run = (cli_report_run *)report_of(&report, &s->run[k]);
        if (!run || !s->run[k].error || run->n_notes == REPORT_NOTES) continue;
        snprintf(run->note[run->n_notes++], sizeof(run->note[0]), "failed: %.480s", s->run[k].error);
    }
    ZR_TRY(zr__path_format(page, "%s/report.html", s->base));
    if (n > 0) ZR_TRY(cli_report_write(&report, page, dir));
    if (s->of->args->json)
        ZR_TRY(print_json(s, &report));
    else
        print_csv(s, &report);
    if (n > 0 && !s->of->args->quiet) cli_say("wrote %s", CLI_SHOWN(page));
    return ZR_OK;
}

/* ---- all runs --------------------------------------------------------------------------------- */

/** Return whether a failure ends the sweep, because it concerns more than one run. */
static bool ends_all(zr_status st)
{
    return st == ZR_ERR_STOPPED || st == ZR_ERR_HANG || st == ZR_ERR_PEER || st == ZR_ERR_COMM;
}

static zr_status train_one(const sweep *s, int64_t k)
{
    const zr_comm *comm = s->of->comm;
    const bool first = !comm || comm->rank == 0, says = first && !s->of->args->quiet;
    one_run *run = &s->run[k];
    cli_args args;
    int ranks;
    if (says)
        cli_say("run %lld of %lld, %s: %s", (long long)k + 1, (long long)s->axes.rows, run->name,
                run->finished ? "skipped, because it has finished" : CLI_SHOWN(dir_of(run)));
    if (run->finished) return ZR_OK;
    zr_status st = cli_signals_asked(NULL) ? ZR_FAIL(ZR_ERR_STOPPED, "asked to stop") : ZR_OK;
    if (comm) st = zr_comm_agree(s->of->comm, st);
    if (st == ZR_OK) st = args_of(s, k, &args, &ranks);
    if (st == ZR_OK) st = run->status = s->of->train(s->of->arg, &args, ranks);
    if (st == ZR_OK || ends_all(st)) return st;
    if (says) cli_say("%s failed: %s", run->name, zr_error_message());
    return zr__text_copy(zr_error_message(), strnlen(zr_error_message(), WHY_BYTES), &run->error);
}

/** Return the status of a sweep whose runs have all been tried. */
static zr_status judge(const sweep *s)
{
    const one_run *failed = NULL;
    int64_t n = 0;
    for (int64_t k = s->axes.rows - 1; k >= 0; k--) {
        if (!s->run[k].error) continue;
        failed = &s->run[k];
        n++;
    }
    if (n == 0) return ZR_OK;
    ZR_CHECK(n < s->axes.rows, failed->status, "none of the %lld runs has succeeded; the first: %s",
             (long long)s->axes.rows, failed->error);
    if (!s->of->comm || s->of->comm->rank == 0)
        cli_say("%lld of %lld runs failed, which the column error tells; --resume tries them again", (long long)n,
                (long long)s->axes.rows);
    return ZR_OK;
}

static zr_status train_all(sweep *s)
{
    zr_status st = prepare(s);
    if (s->of->comm) st = zr_comm_agree(s->of->comm, st);
    ZR_TRY(st);
    ZR_TRY(share_finished(s));
    for (int64_t k = 0; k < s->axes.rows; k++) {
        st = train_one(s, k);
        ZR_CHECK(st != ZR_ERR_STOPPED, st,
                 "the sweep was stopped in run %lld of %lld, %s; the same command with --resume goes on with it",
                 (long long)k + 1, (long long)s->axes.rows, s->run[k].name);
        ZR_TRY(st);
    }
    st = !s->of->comm || s->of->comm->rank == 0 ? show(s) : ZR_OK;
    if (s->of->comm) st = zr_comm_agree(s->of->comm, st);
    ZR_TRY(st);
    return judge(s);
}

static void clear_sweep(sweep *s)
{
    for (int64_t k = 0; s->run && k < s->axes.rows; k++) {
        zr_free(s->run[k].dir);
        zr_free(s->run[k].error);
    }
    zr_free(s->run);
    cli_swept_clear(&s->axes);
}

zr_status cli_sweep_train(const cli_sweeping *sweeping)
{
    ZR_AUTO(clear_sweep) sweep s = {.of = sweeping};
    return train_all(&s);
}
