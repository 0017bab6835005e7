/* The figures of a run, read from the files in its directory. Damaged or missing files become notes. */
#include "base/core/core.h"
#include "base/text/text.h"
#include "cli/plan/table.h"
#include "cli/shell/message.h"
#include "cli/report/report.h"

#include "base/json/json.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const json_t *cli_json_at(const json_t *object, const char *path)
{
    char key[64];
    while (object && *path) {
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof(key), "%.*s", (int)length, path);
        object = json_object_get(object, key);
        path += length + (path[length] == '.');
    }
    return object;
}

/* ---- notes and facts ------------------------------------------------------------------------- */

static void add_note(cli_report_run *run, const char *format, ...) ZR_PRINTF(2, 3);
static void add_note(cli_report_run *run, const char *format, ...)
{
    if (run->n_notes == REPORT_NOTES) return;
    ZR_PRINT_ARGS(run->note[run->n_notes++], format);
}

static void add_fact(cli_report_run *run, const char *key, const char *label, double value, const char *format, ...)
    ZR_PRINTF(5, 6);
static void add_fact(cli_report_run *run, const char *key, const char *label, double value, const char *format, ...)
{
    cli_fact *f = &run->fact[run->n_facts++];
    *f = (cli_fact){.key = key, .label = label, .value = value};
    ZR_PRINT_ARGS(f->text, format);
}

/** Add a fact: the number or text that run.json or config.json has at `path`. `words` formats a number. */
static void fact_at(cli_report_run *run, const char *key, const char *label, const json_t *file, const char *path,
                    const char *(*words)(double, char[32]))
{
    char text[ZR_NUMBER_BYTES];
    const json_t *value = cli_json_at(file, path);
    const double x = json_is_number(value) ? json_number_value(value) : NAN;
    if (json_is_number(value))
        add_fact(run, key, label, x, "%s", words ? words(x, text) : zr__text_shortest(x, text));
    else
        add_fact(run, key, label, x, "%s", json_is_string(value) ? json_string_value(value) : "");
}

static double mean_of(const curve_series *s)
{
    double sum = 0;
    int64_t n = 0;
    for (int i = 0; i < s->n; i++) {
        sum += s->bucket[i].sum;
        n += s->bucket[i].n;
    }
    return n > 0 ? sum / (double)n : NAN;
}

static void fact_value(cli_report_run *run, const char *key, const char *label, double value,
                       const char *(*words)(double, char[32]))
{
    const bool known = isfinite(value);
    add_fact(run, key, label, known ? value : NAN, "%s", known ? words(value, (char[32]){0}) : "");
}

static const char *number_type(const json_t *config)
{
    if (!config) return "";
    if (json_is_true(cli_json_at(config, "bf16.enabled"))) return "bf16";
    return json_is_true(cli_json_at(config, "fp16.enabled")) ? "fp16" : "fp32";
}

static const char *loss_digits(double loss, char text[32])
{
    snprintf(text, 32, "%.5g", loss);
    return text;
}

static const char *ms_words(double ms, char text[32])
{
    return cli_seconds(1e-3 * ms, text);
}

static void find_facts(cli_report_run *run)
{
    const cli_curve *c = run->curve;
    const curve_series *loss = &c->series[CLI_LOSS], *val = &c->series[CLI_VAL];
    const json_t *steps = cli_json_at(run->config, "train.steps");
    add_fact(run, "last_step", "Steps", (double)c->last_step, "%s", cli_step_text((double)c->last_step, (char[32]){0}));
    if (json_is_integer(steps))
        snprintf(run->fact[0].text, sizeof(run->fact[0].text), "%lld of %lld%s", (long long)c->last_step,
                 (long long)json_integer_value(steps),
                 json_is_true(cli_json_at(run->facts, "stopped_early")) ? ", stopped early" : "");
    fact_value(run, "loss", "Last training loss", loss->per ? loss->last : NAN, loss_digits);
    fact_value(run, "val_loss", "Lowest validation loss", val->per ? val->best : NAN, loss_digits);
    if (run->fact[2].text[0]) {
        size_t length = strlen(run->fact[2].text);
        snprintf(run->fact[2].text + length, sizeof(run->fact[2].text) - length, ", at step %lld",
                 (long long)val->best_step);
    }
    fact_value(run, "step_ms", "Mean time of a step", mean_of(&c->series[CLI_STEP_MS]), ms_words);
    fact_value(run, "tokens_per_sec", "Mean tokens a second", mean_of(&c->series[CLI_RATE]), zr__text_amount);
    add_fact(run, "skipped", "Steps that updated nothing", (double)c->skipped, "%lld", (long long)c->skipped);
    fact_at(run, "noise_scale_tokens", "Noise scale, in tokens", run->facts, "noise_scale_tokens", zr__text_amount);
    fact_at(run, "params", "Parameters", run->facts, "params", zr__text_amount);
    fact_at(run, "ranks", "Ranks", run->facts, "ranks", NULL);
    fact_at(run, "stage", "ZeRO stage", run->facts, "planned.stage", NULL);
    add_fact(run, "type", "Numbers", NAN, "%s", number_type(run->config));
    fact_at(run, "layout", "Layout", run->config, "memory.layout", NULL);
    fact_at(run, "optimizer", "Optimizer", run->config, "optimizer.type", NULL);
    fact_at(run, "policy", "Recompute", run->config, "activation_checkpointing.policy", NULL);
    fact_at(run, "memory", "Memory of a rank", run->facts, "measured.memory.total", zr__text_size);
    fact_at(run, "traffic", "Traffic of a rank and step", run->facts, "measured.traffic.total", zr__text_size);
    fact_at(run, "peak_rss_bytes", "Peak of a process", run->facts, "peak_rss_bytes", zr__text_size);
    fact_at(run, "promised_rss_bytes", "... at most, as promised", run->facts, "promised_rss_bytes", zr__text_size);
    fact_at(run, "wall_sec", "Time of the whole run", run->facts, "wall_sec", cli_seconds);
    fact_at(run, "transport", "Transport", run->facts, "transport", NULL);
    fact_at(run, "threads", "Threads of a rank", run->facts, "threads", NULL);
    fact_at(run, "build", "Made by", run->facts, "build", NULL);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/** Write the label of a number at the top level of "copied", such as "disk to device" for "disk_to_device". */
static void copied_words(const char *key, char words[96])
{
    snprintf(words, 96, "%s", key);
    for (char *at = words; *at; at++)
        if (*at == '_') *at = ' ';
}

/** Write the label of the number at `path`, such as "parameters" for "memory.param". */
static void row_words(const char *path, char words[96])
{
    static const char *const names[][2] = {{"reduce_scatter", "gradients, reduced"},
                                           {"all_gather", "parameters, gathered"},
                                           {"all_reduce", "norm, loss and flags"},
                                           {"states", "model states"},
                                           {"total", "total"}};
    const char *last = strrchr(path, '.') + 1, *word = last;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(last, names[i][0]) == 0) word = names[i][1];
    for (int i = 0; i < ZR_CATEGORIES; i++)
        if (strcmp(last, zr__category_name((zr_category)i)) == 0) word = cli_category_words((zr_category)i);
    const char *from = strchr(path, '.') + 1;
    if (strncmp(path, "copied.", 7) == 0) {
        copied_words(last, words);
        return;
    }
    if (strncmp(from, "spaces.", 7) == 0) from += 7;
    if (from < last)
        snprintf(words, 96, "%.*s: %s", (int)(last - from - 1), from, word);
    else
        snprintf(words, 96, "%s", word);
}

/** Add a row for each number in an object and in the objects nested in it. Skip the object "device", because its
 * numbers repeat the numbers of the top level. Return the new number of rows. */
static int add_byte_rows(const json_t *planned, const json_t *measured, const char *path, cli_bytes_row *row, int n)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)planned, key, value)
    {
        char inner[96];
        const json_t *other = json_object_get(measured, key);
        if (n == REPORT_ROWS || strcmp(key, "device") == 0) continue;
        if (snprintf(inner, sizeof(inner), "%s.%s", path, key) >= (int)sizeof(inner)) continue;
        if (json_is_object(value) && strlen(path) < 32) {
            n = add_byte_rows(value, other, inner, row, n);
        } else if (json_is_integer(value)) {
            cli_bytes_row *r = &row[n++];
            snprintf(r->path, sizeof(r->path), "%s", inner);
            row_words(inner, r->words);
            r->planned = json_integer_value(value);
            r->measured = json_is_integer(other) ? json_integer_value(other) : -1;
            r->total = strcmp(key, "total") == 0;
        }
    }
    return n;
}

int cli_report_rows(const cli_report_run *run, const char *part, cli_bytes_row row[REPORT_ROWS])
{
    return add_byte_rows(json_object_get(cli_json_at(run->facts, "planned"), part),
                         json_object_get(cli_json_at(run->facts, "measured"), part), part, row, 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

/** Write the path of a file in the run's directory. Return whether the file exists. */
static bool find_file(const cli_report_run *run, const char *file, char path[PATH_MAX])
{
    struct stat info;
    const int n = snprintf(path, PATH_MAX, "%s/%s", run->dir, file);
    return n > 0 && n < PATH_MAX && stat(path, &info) == 0;
}

/** Read a JSON object from a file in the run's directory. If the file is missing, return NULL. If the file is damaged,
 * add a note and return NULL. */
static json_t *read_run_json(cli_report_run *run, const char *file)
{
    char path[PATH_MAX];
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    json_auto_t *root = NULL;
    if (!find_file(run, file, path)) return NULL;
    zr_status st = zr__json_read_file(path, &text, &bytes);
    if (st == ZR_OK) st = zr__json_parse(text, bytes, file, &root);
    if (json_is_object(root)) return json_incref(root);
    if (st == ZR_OK)
        add_note(run, "%s is not an object of JSON", file);
    else
        add_note(run, "%s cannot be read: %s", file, zr_error_message());
    return NULL;
}

static void read_metrics(cli_report_run *run)
{
    cli_curve *c = run->curve;
    char path[PATH_MAX];
    struct stat info;
    if (!find_file(run, "metrics.jsonl", path)) {
        add_note(run, "there is no metrics.jsonl: no step has ended yet");
        return;
    }
    if (cli_curve_read(c, path, true) != ZR_OK) add_note(run, "metrics.jsonl cannot be read: %s", zr_error_message());
    if (!c->last_step) add_note(run, "no step has ended yet");
    if (c->bad_lines)
        add_note(run, "metrics.jsonl: %lld line%s left out, the first of them line %lld", (long long)c->bad_lines,
                 c->bad_lines == 1 ? "" : "s", (long long)c->first_bad);
    if (stat(path, &info) == 0 && info.st_size > c->offset)
        add_note(run, "metrics.jsonl: its last line is not whole, and left out");
}

static json_int_t sample_step(const json_t *line)
{
    return json_integer_value(json_object_get(line, "step"));
}

/** Append a sample text. First remove the texts of the same step and of later steps. They exist if the run was
 * continued from an earlier step. */
static void keep_sample(json_t *samples, json_t *line)
{
    size_t n = json_array_size(samples);
    if (!json_is_integer(json_object_get(line, "step")) || !json_is_string(json_object_get(line, "sample"))) return;
    for (; n > 0 && sample_step(json_array_get(samples, n - 1)) >= sample_step(line); n--)
        json_array_remove(samples, n - 1);
    if (n == REPORT_SAMPLES) json_array_remove(samples, 0);
    json_array_append(samples, line);
}

static void read_samples(cli_report_run *run)
{
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    run->samples = json_array();
    FILE *file = find_file(run, "metrics.jsonl", path) ? fopen(path, "re") : NULL;
    if (!file) return; /* read_metrics has already noted that the file is missing */
    for (ssize_t n; (n = getline(&line, &room, file)) > 0;) {
        json_t *root = NULL;
        if (!strstr(line, "\"sample\"") || zr__json_parse(line, (size_t)n, path, &root) != ZR_OK) continue;
        keep_sample(run->samples, root);
        json_decref(root);
    }
    free(line);
    fclose(file);
}

/** Add notes on unusual facts that the reader should know before reading the figures. */
static void note_oddities(cli_report_run *run)
{
    const cli_curve *c = run->curve;
    const json_t *steps = cli_json_at(run->facts, "steps");
    char path[PATH_MAX];
    if (!find_file(run, "run.json", path))
        add_note(run, "there is no run.json, which a run writes at its end: %s; memory, traffic and times are in it",
                 find_file(run, "lock", path) ? "this run is still training, or was killed"
                                              : "this one was stopped, or is not of zr train");
    if (!find_file(run, "config.json", path)) add_note(run, "there is no config.json");
    if (json_is_integer(steps) && json_integer_value(steps) < c->last_step)
        add_note(run, "run.json is of step %lld; the metrics go on to step %lld", (long long)json_integer_value(steps),
                 (long long)c->last_step);
    if (run->facts && !json_equal(json_object_get(run->facts, "planned"), json_object_get(run->facts, "measured")))
        add_note(run, "what was measured is not what was planned");
    const curve_series *loss = &c->series[CLI_LOSS];
    if (loss->per && !isfinite(loss->last)) add_note(run, "no training loss is finite");
}

static zr_status read_report_run(cli_report_run *run)
{
    char path[PATH_MAX];
    run->config = read_run_json(run, "config.json");
    run->facts = read_run_json(run, "run.json");
    /* A run writes the member "started_in" into its config.json. */
    if (!find_file(run, "metrics.jsonl", path) && !cli_json_at(run->facts, "planned") &&
        !cli_json_at(run->config, "train.started_in"))
        return cli_refuse_run(run->dir);
    run->curve = zr_alloc(sizeof(*run->curve));
    ZR_CHECK(run->curve, ZR_ERR_MEMORY, "no memory for the curves of %s", run->dir);
    read_metrics(run);
    ZR_CHECK(run->facts || run->curve->last_step || run->curve->bad_lines == 0, ZR_ERR_DATA,
             "%s is not the directory of a run: line %lld of its metrics.jsonl holds no metrics", ZR_SHOWN(run->dir),
             (long long)run->curve->first_bad);
    read_samples(run);
    note_oddities(run);
    find_facts(run);
    return ZR_OK;
}

/* ---- differences ----------------------------------------------------------------------------- */

/** Add every value of the configuration of run number `run` to `all`. For each key, `all` has an array with one value
 * for each of `n` runs. Return 0, or another number if memory is lacking. */
static int spread_config(json_t *all, const json_t *object, const char *path, int run, int n)
{
    const char *key;
    json_t *value;
    int failed = 0;
    json_object_foreach((json_t *)object, key, value)
    {
        char inner[256];
        if (snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key) >= (int)sizeof(inner)) continue;
        if (json_is_object(value)) {
            /* the JSON reader limits the depth of this recursion */
            failed |= spread_config(all, value, inner, run, n);
            continue;
        }
        json_t *values = json_object_get(all, inner);
        if (!values) {
            values = json_array();
            for (int i = 0; i < n; i++) failed |= json_array_append_new(values, json_null());
            failed |= json_object_set_new(all, inner, values);
        }
        failed |= json_array_set(values, (size_t)run, value);
    }
    return failed;
}

/** Return whether the values are equal in all runs that have a configuration. */
static bool all_equal(const cli_report *report, const json_t *values)
{
    const json_t *first = NULL;
    for (int i = 0; i < report->n; i++) {
        const json_t *value = json_array_get(values, (size_t)i);
        if (!report->run[i].config) continue;
        if (first && !json_equal(first, value)) return false;
        first = value;
    }
    return true;
}

static zr_status find_differences(cli_report *report)
{
    const char *key;
    json_t *values;
    void *next;
    int failed = 0;
    report->different = json_object();
    for (int i = 0; i < report->n; i++)
        failed |= spread_config(report->different, report->run[i].config, "", i, report->n);
    ZR_CHECK(report->different && !failed, ZR_ERR_MEMORY, "no memory for %d configurations", report->n);
    json_object_foreach_safe(report->different, next, key, values)
    {
        bool place = strcmp(key, "train.output_dir") == 0 || strcmp(key, "train.started_in") == 0;
        if (place || all_equal(report, values)) json_object_del(report->different, key);
    }
    return ZR_OK;
}

zr_status cli_report_read(cli_report *report, const char *const *dir, const char *const *name, int n)
{
    *report = (cli_report){.run = zr_alloc(sizeof(*report->run) * (size_t)n),
                           .curve = zr_alloc(sizeof(*report->curve) * (size_t)n),
                           .name = name};
    ZR_CHECK(report->run && report->curve, ZR_ERR_MEMORY, "no memory for %d runs", n);
    report->n = n;
    for (int i = 0; i < n; i++) {
        report->run[i].dir = dir[i];
        ZR_TRY(read_report_run(&report->run[i]));
        report->curve[i] = report->run[i].curve;
    }
    return find_differences(report);
}

void cli_report_clear(cli_report *report)
{
    for (int i = 0; i < report->n; i++) {
        json_decref(report->run[i].config);
        json_decref(report->run[i].facts);
        json_decref(report->run[i].samples);
        zr_free(report->run[i].curve);
    }
    json_decref(report->different);
    zr_free(report->run);
    zr_free(report->curve);
}
