#include "cli/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Make a JSON number, null if it is not finite. */
static json_t *number(double x)
{
    if (!isfinite(x)) return json_null();
    return x == floor(x) && fabs(x) < 0x1p53 ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *series_of(const curve_series *s)
{
    json_t *points = json_array();
    for (int i = 0; i < s->n; i++) {
        const curve_bucket *b = &s->bucket[i];
        if (!b->n && !b->bad) continue;
        double n = (double)b->n;
        json_array_append_new(points, json_pack("[o, o, o, o, I, I]", number(b->n ? b->step_sum / n : NAN),
                                                number(b->n ? b->sum / n : NAN), number(b->n ? b->low : NAN),
                                                number(b->n ? b->high : NAN), (json_int_t)b->n, (json_int_t)b->bad));
    }
    return json_pack("{s:I, s:o, s:o, s:o}", "steps_a_point", (json_int_t)s->per, "last",
                     number(s->per ? s->last : NAN), "lowest", number(s->per ? s->best : NAN), "points", points);
}

static json_t *curves_of(const cli_curve *c)
{
    json_t *all = json_object();
    for (int i = 0; i < cli_n_quantities; i++)
        json_object_set_new(all, cli_quantities[i].key, series_of(cli_series_of(c, &cli_quantities[i])));
    json_object_set_new(all, "val_loss", series_of(&c->val));
    return all;
}

static json_t *facts_of(const cli_report_run *run)
{
    json_t *all = json_object();
    for (int i = 0; i < run->n_facts; i++) {
        const cli_fact *f = &run->fact[i];
        bool text = f->text[0] && !isfinite(f->value);
        json_object_set_new(all, f->key, text ? json_string(f->text) : number(f->value));
    }
    return all;
}

static json_t *part_of(const cli_report_run *run, const char *key)
{
    json_t *part = json_object_get(run->facts, key);
    return part ? json_incref(part) : json_null();
}

static json_t *run_of(const cli_report_run *run)
{
    json_t *notes = json_array();
    for (int i = 0; i < run->n_notes; i++) json_array_append_new(notes, json_string(run->note[i]));
    return json_pack("{s:s%, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:O}", "run", run->dir, strlen(run->dir),
                     "notes", notes, "first_step", (json_int_t)run->curve->first_step, "last_step",
                     (json_int_t)run->curve->last_step, "left_out", (json_int_t)run->curve->bad_lines, "facts",
                     facts_of(run), "curves", curves_of(run->curve), "planned", part_of(run, "planned"), "measured",
                     part_of(run, "measured"), "timings", part_of(run, "timings"), "samples", run->samples);
}

zr_status cli_report_json(FILE *out, const cli_report *report, const char *file)
{
    json_t *runs = json_array();
    for (int i = 0; i < report->n; i++) json_array_append_new(runs, run_of(&report->run[i]));
    json_t *root = json_pack("{s:s, s:o, s:O}", "file", file, "runs", runs, "different", report->different);
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the figures of %d runs", report->n);
    cli_json_put_text(out, text);
    fputc('\n', out);
    free(text); /* allocated by jansson */
    return ZR_OK;
}
