/* A report as JSON. */
#include "base/text/text.h"
#include "cli/shell/message.h"
#include "cli/report/report.h"

#include "base/json/json.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Return a JSON number, or null if `x` is not finite. */
static json_t *finite_json(double x)
{
    if (!isfinite(x)) return json_null();
    return x == floor(x) && fabs(x) < 0x1p53 ? json_integer((json_int_t)x) : json_real(x);
}

/** Return a JSON string. Replace bytes that are not UTF-8, which a path may have, by U+FFFD. */
static json_t *text_json(const char *text)
{
    ZR_AUTO(zr__text_clear) zr__text quoted = {0};
    zr__text_add_json(&quoted, text, (int64_t)strlen(text));
    return quoted.failed ? NULL : zr__json_loads(quoted.data, JSON_DECODE_ANY);
}

static json_t *series_json(const curve_series *s)
{
    json_t *points = json_array();
    for (int i = 0; i < s->n; i++) {
        const curve_bucket *b = &s->bucket[i];
        if (!b->n && !b->bad) continue;
        double n = (double)b->n;
        json_array_append_new(points,
                              json_pack("[o, o, o, o, I, I]", finite_json(b->n ? b->step_sum / n : NAN),
                                        finite_json(b->n ? b->sum / n : NAN), finite_json(b->n ? b->low : NAN),
                                        finite_json(b->n ? b->high : NAN), (json_int_t)b->n, (json_int_t)b->bad));
    }
    return json_pack("{s:I, s:o, s:o, s:o}", "steps_a_point", (json_int_t)s->per, "last",
                     finite_json(s->per ? s->last : NAN), "lowest", finite_json(s->per ? s->best : NAN), "points",
                     points);
}

static json_t *curves_json(const cli_curve *c)
{
    json_t *all = json_object();
    for (int i = 0; i < CLI_QUANTITIES; i++)
        json_object_set_new(all, cli_quantities[i].key, series_json(&c->series[i]));
    return all;
}

static json_t *facts_json(const cli_report_run *run)
{
    json_t *all = json_object();
    for (int i = 0; i < run->n_facts; i++) {
        const cli_fact *f = &run->fact[i];
        bool text = f->text[0] && !isfinite(f->value);
        json_object_set_new(all, f->key, text ? text_json(f->text) : finite_json(f->value));
    }
    return all;
}

static json_t *part_json(const cli_report_run *run, const char *key)
{
    json_t *part = json_object_get(run->facts, key);
    return part ? json_incref(part) : json_null();
}

static json_t *run_json(const cli_report_run *run)
{
    json_t *notes = json_array();
    for (int i = 0; i < run->n_notes; i++) json_array_append_new(notes, text_json(run->note[i]));
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:O}", "run", text_json(run->dir), "notes",
                     notes, "first_step", (json_int_t)run->curve->first_step, "last_step",
                     (json_int_t)run->curve->last_step, "left_out", (json_int_t)run->curve->bad_lines, "facts",
                     facts_json(run), "curves", curves_json(run->curve), "planned", part_json(run, "planned"),
                     "measured", part_json(run, "measured"), "timings", part_json(run, "timings"), "samples",
                     run->samples);
}

zr_status cli_report_json(FILE *out, const cli_report *report, const char *file)
{
    json_t *runs = json_array();
    int failed = 0;
    for (int i = 0; i < report->n; i++) failed |= json_array_append_new(runs, run_json(&report->run[i]));
    json_auto_t *root =
        json_pack("{s:o, s:o, s:O}", "file", text_json(file), "runs", runs, "different", report->different);
    char *text = root && !failed ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the figures of %d runs", report->n);
    zr__json_out shown = {0};
    cli_json_append_shown(&shown.text, text);
    free(text); /* allocated by jansson */
    return zr__json_write(&shown, out);
}
