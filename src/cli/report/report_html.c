/* A report as one HTML page that needs no other file. */
#include "base/text/text.h"
#include "cli/shell/message.h"
#include "cli/report/report.h"

#include "base/json/json.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* Size of a panel in pixels. Narrow panels keep their text readable on a phone. */
#define PANEL_WIDTH 440.0
#define PANEL_HEIGHT 250.0
#define LEFT 66.0
#define TOP 12.0
#define RIGHT 14.0
#define BOTTOM 44.0
#define MOST_KINDS 16 /* maximum number of kinds of ops in a table */

const zr__output_kind cli_report_kind = {"report", REPORT_HEAD, true};

/* ---- curves ---------------------------------------------------------------------------------- */

static void put_line_key(FILE *out, const char *color, const char *dash, bool dot, const char *words)
{
    fputs("<span class=\"key\"><svg viewBox=\"0 0 26 14\" aria-hidden=\"true\">", out);
    cli_legend_line(out, 0, 11, color, dash, dot);
    page_escaped(out, "</svg><span>", words, "</span></span>");
}

/** Write a legend of the lines of training and validation loss, if any run has validation losses. */
static void put_kinds(FILE *out, const cli_report *r)
{
    const bool one = r->n == 1;
    bool any = false;
    for (int i = 0; i < r->n; i++) any |= r->curve[i]->series[CLI_VAL].n > 0;
    if (!any) return;
    fputs("<br>", out);
    put_line_key(out, one ? cli_axes_color(0) : AXES_GREY, NULL, false, "training");
    put_line_key(out, one ? cli_axes_color(1) : AXES_GREY, one ? NULL : "1 4", true, "validation");
}

/** Begin a figure. Its `data-` attributes let programs map positions in the picture back to values. */
static void put_place(FILE *out, const cli_panel *panel)
{
    const cli_axes *a = &panel->axes;
    fprintf(out, "<figure data-quantity=\"%s\" data-left=\"%g\" data-top=\"%g\" data-width=\"%g\" data-height=\"%g\"",
            cli_quantities[panel->quantity].key, a->box.x, a->box.y, a->box.w, a->box.h);
    fprintf(out, " data-x0=\"%s\" data-x1=\"%s\" data-y0=\"%s\" data-y1=\"%s\" data-log=\"%d\">\n", ZR_SHORTEST(a->x0),
            ZR_SHORTEST(a->x1), ZR_SHORTEST(a->y0), ZR_SHORTEST(a->y1), a->log);
}

static void put_caption(FILE *out, const cli_report *r, const cli_panel *panel)
{
    const cli_quantity *q = &cli_quantities[panel->quantity];
    const int64_t steps = cli_panel_mean_steps(panel);
    fprintf(out, "<figcaption><b>%s</b><span class=\"soft\">%s", q->title, q->unit);
    if (steps > 1 && q->noisy)
        fprintf(out, "%smean of %lld steps%s", *q->unit ? "; " : "", (long long)steps,
                r->n <= PANEL_BANDS ? ", pale: each step" : "");
    if (panel->axes.log) fputs("; log scale", out);
    fputs("</span>", out);
    if (panel->quantity == CLI_LOSS) put_kinds(out, r);
    fputs("</figcaption>\n", out);
}

/** Draw the panel of a quantity. Draw nothing if no run has values of the quantity. */
static void put_panel(FILE *out, const cli_report *r, int quantity)
{
    cli_panel panel = {out, quantity, r->curve, r->name, r->n, .color = 0};
    const double foot = PANEL_HEIGHT - 6;
    bool any = false;
    for (int i = 0; i < r->n; i++) any |= r->curve[i]->series[quantity].n > 0;
    if (!any) return;
    cli_panel_place(&panel, (svg_box){LEFT, TOP, PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM});
    put_place(out, &panel);
    put_caption(out, r, &panel);
    svg_begin(out, PANEL_WIDTH, PANEL_HEIGHT, cli_quantities[quantity].title);
    cli_panel_frame(&panel, NULL, true);
    for (int i = 0; i < r->n; i++) cli_panel_run(&panel, i);
    svg_text(out, PANEL_WIDTH - RIGHT, foot, (svg_font){.size = 12, .color = AXES_GREY, .anchor = SVG_END}, "step");
    cli_panel_explain(&panel, LEFT, foot);
    svg_end(out);
    fputs("</figure>\n", out);
}

/* ---- facts and differences ------------------------------------------------------------------- */

static void put_heads(FILE *out, const cli_report *r, const char *first)
{
    fprintf(out, "<div class=\"wide\"><table><tr><th>%s</th>", first);
    for (int i = 0; i < r->n; i++) page_escaped(out, "<th>", r->name[i], "</th>");
    fputs("</tr>\n", out);
}

static void put_comparison(FILE *out, const cli_report *r)
{
    fputs("<h2>Side by side</h2>\n", out);
    put_heads(out, r, "figure");
    for (int f = 0; f < r->run[0].n_facts; f++) {
        bool any = false;
        for (int i = 0; i < r->n; i++) any |= r->run[i].fact[f].text[0] != '\0';
        if (!any) continue;
        fprintf(out, "<tr><td>%s</td>", r->run[0].fact[f].label);
        for (int i = 0; i < r->n; i++) {
            fprintf(out, "<td data-run=\"%d\">", i);
            page_fact(out, &r->run[i].fact[f]);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n<h3>What differs in the configurations</h3>\n", out);
    if (json_object_size(r->different) == 0) {
        fputs("<p>Nothing but the directory.</p>\n", out);
        return;
    }
    const char *key;
    json_t *values;
    put_heads(out, r, "key");
    json_object_foreach(r->different, key, values)
    {
        page_escaped(out, "<tr><td>", key, "</td>");
        for (size_t i = 0; i < json_array_size(values); i++) {
            char shown[200];
            page_escaped(out, "<td>", zr__json_show(json_array_get(values, i), shown, sizeof(shown)), "</td>");
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void put_bytes_cell(FILE *out, const char *of, const cli_bytes_row *row, json_int_t bytes)
{
    char path[128];
    snprintf(path, sizeof(path), "%s.%s", of, row->path);
    fputs("<td class=\"n\">", out);
    if (bytes >= 0)
        page_data(out, path, (double)bytes, ZR_SIZE((double)bytes));
    else
        fputs("-", out);
    fputs("</td>", out);
}

/** Write a table of planned and measured bytes of memory, traffic or copies. Each row has a bar for the measured bytes,
 * and a mark on the bar for the planned bytes. */
static void put_table(FILE *out, const cli_report_run *run, const char *part, const char *title, const char *planned)
{
    cli_bytes_row row[REPORT_ROWS];
    int n = cli_report_rows(run, part, row);
    json_int_t most = 1;
    if (n == 0) return;
    for (int i = 0; i < n; i++) {
        if (row[i].planned > most) most = row[i].planned;
        if (row[i].measured > most) most = row[i].measured;
    }
    fprintf(out,
            "<div><h3>%s</h3><div class=\"wide\"><table><tr><th></th><th class=\"n\">%s</th><th class=\"n\">%s</th>"
            "<th></th></tr>\n",
            title, planned, strcmp(part, "memory") == 0 ? "measured" : "counted");
    for (int i = 0; i < n; i++) {
        if (row[i].planned <= 0 && row[i].measured <= 0 && !row[i].total) continue;
        fprintf(out, "<tr%s><td>", row[i].total ? " class=\"total\"" : "");
        page_escaped(out, "", row[i].words, "</td>");
        put_bytes_cell(out, "planned", &row[i], row[i].planned);
        put_bytes_cell(out, "measured", &row[i], row[i].measured);
        fputs("<td>", out);
        page_bar(out, row[i].measured > 0 ? (double)row[i].measured / (double)most : 0,
                 (double)row[i].planned / (double)most);
        fputs("</td></tr>\n", out);
    }
    fputs("</table></div><p class=\"soft\">Bars: what was used; marks: the plan.</p></div>\n", out);
}

static double timing_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void put_kind(FILE *out, const char *name, const char *calls, double ms, double step_ms, double of_peak)
{
    page_escaped(out, "<tr><td>", name, "</td>");
    fprintf(out, "<td class=\"n\">%s</td><td class=\"n\">", calls);
    page_data(out, "timings.ms", ms, cli_seconds(1e-3 * ms, (char[32]){0}));
    fputs("</td><td class=\"n\">", out);
    if (isfinite(of_peak)) fprintf(out, "%.0f %%", 100 * of_peak);
    fputs("</td><td>", out);
    page_bar(out, step_ms > 0 ? fmin(1, ms / step_ms) : 0, NAN);
    fputs("</td></tr>\n", out);
}

/** Write a table of a step's time by kind of op, if the run was started with --timings. */
static void put_timings(FILE *out, const cli_report_run *run)
{
    const json_t *timings = cli_json_at(run->facts, "timings"), *kinds = json_object_get(timings, "kinds");
    char step[32], compute[32], comm[32], idle[32], calls[32];
    double step_ms = timing_number(timings, "step_ms"), rest = 0;
    size_t n = json_array_size(kinds);
    if (n == 0) return;
    fprintf(out,
            "<div><h3>Where the time of a step goes</h3><p class=\"soft\">A step takes %s: %s of computing, %s that "
            "only communication takes, %s of neither.</p><div class=\"wide\"><table><tr><th></th><th class=\"n\">calls"
            "</th><th class=\"n\">time</th><th class=\"n\">of peak</th><th></th></tr>\n",
            cli_seconds(1e-3 * step_ms, step), cli_seconds(1e-3 * timing_number(timings, "compute_ms"), compute),
            cli_seconds(1e-3 * timing_number(timings, "exposed_ms"), comm),
            cli_seconds(1e-3 * timing_number(timings, "idle_ms"), idle));
    for (size_t i = 0; i < n; i++) {
        const json_t *kind = json_array_get(kinds, i);
        const char *name = json_string_value(json_object_get(kind, "kind"));
        double ms = timing_number(kind, "ms");
        if (!name || !isfinite(ms)) continue;
        if (i >= MOST_KINDS) {
            rest += ms;
            continue;
        }
        snprintf(calls, sizeof(calls), "%lld", (long long)json_integer_value(json_object_get(kind, "calls")));
        put_kind(out, name, calls, ms, step_ms, timing_number(kind, "of_peak"));
    }
    if (n > MOST_KINDS) put_kind(out, "all others", "", rest, step_ms, NAN);
    fputs("</table></div></div>\n", out);
}

static void put_sample(FILE *out, const json_t *sample)
{
    fprintf(out, "<p class=\"soft\">after step %lld</p>\n<pre class=\"sample\">",
            (long long)json_integer_value(json_object_get(sample, "step")));
    svg_escaped_lines(out, json_string_value(json_object_get(sample, "sample")));
    fputs("</pre>\n", out);
}

/** Show the newest sample text, and fold earlier texts away below it. */
static void put_samples(FILE *out, const cli_report_run *run)
{
    const size_t n = json_array_size(run->samples);
    if (n == 0) return;
    fputs("<h3>What the model writes</h3>\n", out);
    put_sample(out, json_array_get(run->samples, n - 1));
    if (n == 1) return;
    fprintf(out, "<details><summary>Earlier ones: %zu</summary>\n", n - 1);
    for (size_t i = n - 1; i > 0; i--) put_sample(out, json_array_get(run->samples, i - 1));
    fputs("</details>\n", out);
}

static void put_config(FILE *out, const cli_report_run *run)
{
    char *text = NULL;
    if (!run->config || zr__json_print(run->config, &text) != ZR_OK) return;
    fputs("<details><summary>The whole configuration, every default written out</summary>\n<pre>", out);
    svg_escaped_lines(out, text);
    fputs("</pre></details>\n", out);
    zr_free(text);
}

static void put_run(FILE *out, const cli_report *r, int index)
{
    const cli_report_run *run = &r->run[index];
    if (r->n > 1) page_escaped(out, "<h2>", r->name[index], "</h2>\n");
    fputs("<section>\n", out);
    for (int i = 0; i < run->n_notes; i++) page_escaped(out, "<p class=\"note\">", run->note[i], "</p>\n");
    if (r->n == 1) page_facts(out, run->fact, run->n_facts);
    fputs("<div class=\"sides\">\n", out);
    put_table(out, run, "memory", "Memory of a rank, at most", "planned");
    put_table(out, run, "traffic", "Traffic of a rank and step", "by the formula");
    put_table(out, run, "copied", "Copies between memories of a rank and step", "planned");
    put_timings(out, run);
    fputs("</div>\n", out);
    put_samples(out, run);
    put_config(out, run);
    fputs("</section>\n", out);
}

static zr_status put_page(FILE *out, void *arg)
{
    const cli_report *r = arg;
    char title[PATH_MAX + 24];
    if (r->n > 1)
        snprintf(title, sizeof(title), "%d runs", r->n);
    else
        snprintf(title, sizeof(title), "Run %s", r->name[0]);
    page_begin(out, REPORT_HEAD, title);
    if (r->n > 1) {
        fputs("<p>", out);
        for (int i = 0; i < r->n; i++) put_line_key(out, cli_axes_color(i), cli_axes_dash(i), false, r->name[i]);
        fputs("</p>\n", out);
    }
    fputs("<div class=\"panels\">\n", out);
    for (int i = 0; i < CLI_QUANTITIES; i++)
        if (i != CLI_VAL) put_panel(out, r, i);
    fputs("</div>\n", out);
    if (r->n > 1) put_comparison(out, r);
    for (int i = 0; i < r->n; i++) put_run(out, r, i);
    page_end(out, "metrics.jsonl, run.json and config.json");
    return ZR_OK;
}

zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes)
{
    return svg_page(put_page, (void *)report, html, bytes);
}

zr_status cli_report_write(const cli_report *report, const char *out, const char *const *inputs)
{
    ZR_AUTO(svg_page_free) char *html = NULL;
    size_t bytes = 0;
    ZR_TRY(cli_report_html(report, &html, &bytes));
    return zr__output_write(out, &cli_report_kind, inputs, html, bytes);
}
