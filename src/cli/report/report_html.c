#include "cli/draw/panel.h"
#include "cli/report/report.h"

#include "base/json/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Panels are as wide as a phone shows without small letters. */
#define PANEL_WIDTH 440.0
#define PANEL_HEIGHT 250.0
#define LEFT 66.0
#define TOP 12.0
#define RIGHT 14.0
#define BOTTOM 44.0
#define BANDS 3       /* most runs whose single steps are drawn behind the mean */
#define MOST_KINDS 16 /* most kinds of ops in a table */

typedef struct page {
    FILE *out;
    const cli_report *report;
    cli_points *points; /* scratch memory */
} page;

/* ---- text ------------------------------------------------------------------------------------ */

/** Write text escaped, so that nothing in a file is taken for markup. */
static void put_lines(FILE *out, char *text)
{
    for (char *end; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        svg_escaped(out, text);
        fputc('\n', out);
    }
    svg_escaped(out, text);
}

/** Write a figure: words for people, the number itself for programs. */
static void put_data(FILE *out, const char *key, double value, const char *words)
{
    char number[ZR_NUMBER_BYTES];
    fprintf(out, "<data data-key=\"%s\" value=\"%s\">", key, zr__text_shortest(value, number));
    svg_escaped(out, words);
    fputs("</data>", out);
}

/* In dark mode the style replaces the pictures' colours, which it selects by their light-mode values. */
static const char style[] =
    ":root{--ground:#fff;--text:#1f2933;--soft:#52606d;--line:#e4e8ed;--card:#f7f9fb;--bar:#0072b2;--mark:#d55e00}\n"
    "*{box-sizing:border-box}body{margin:0 auto;padding:16px 12px 40px;max-width:1400px;background:var(--ground);"
    "color:var(--text);font:15px/1.45 \"DejaVu Sans\",Verdana,Helvetica,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.45em;margin:0 0 4px}h2{font-size:1.2em;margin:34px 0 8px;padding-top:10px;"
    "border-top:1px solid var(--line)}h3{font-size:1em;margin:18px 0 6px}p{margin:4px 0}.soft{color:var(--soft)}\n"
    ".panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr));gap:14px;margin:14px 0}\n"
    "figure{margin:0;padding:8px 6px 4px;background:var(--card);border-radius:6px;min-width:0}"
    "figcaption{padding:0 6px 4px}figcaption b{margin-right:8px}svg{display:block;width:100%;height:auto}\n"
    ".key{display:inline-flex;align-items:center;margin-right:16px}.key svg{width:26px;height:14px;margin-right:6px;"
    "flex:none}.note{border-left:4px solid var(--mark);padding:2px 10px;margin:6px 0;background:var(--card)}\n"
    ".wide{overflow-x:auto;max-width:100%}table{border-collapse:collapse;font-size:.93em}"
    "th,td{text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--line);vertical-align:top;"
    "overflow-wrap:break-word;min-width:5.5em}td "
    "data{white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}tr.total td{font-weight:700}"
    ".facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,170px),1fr));gap:4px 20px;margin:8px 0}"
    ".facts div{border-bottom:1px solid var(--line);padding:3px 0}.facts span{display:block;color:var(--soft);"
    "font-size:.87em}\n"
    ".bar{position:relative;width:min(24vw,220px);height:12px;margin-top:5px;background:var(--line)}"
    ".bar i{position:absolute;left:0;top:0;bottom:0;background:var(--bar)}"
    ".bar b{position:absolute;top:-3px;bottom:-3px;width:3px;margin-left:-3px;background:var(--mark)}\n"
    ".sides{display:flex;flex-wrap:wrap;gap:0 50px}.sides>div{min-width:0;max-width:100%}"
    "summary{cursor:pointer;padding:4px 0}pre{overflow-x:auto;background:var(--card);padding:10px;font-size:.87em}"
    ".sample{white-space:pre-wrap;margin:2px 0 8px;max-width:80em}\n"
    "figure svg>rect{fill:none}\n"
    "@media(prefers-color-scheme:dark){:root{--ground:#14181d;--text:#e6e9ed;--soft:#a7b1bc;--line:#333b45;"
    "--card:#1c222a;--bar:#56b4e9}svg text{fill:#d5dae0}svg [stroke=\"#e4e8ed\"]{stroke:#333b45}"
    "svg [stroke=\"#52606d\"]{stroke:#8b96a3}svg [stroke=\"#000000\"]{stroke:#fff}svg [fill=\"#000000\"]{fill:#fff}"
    "svg [stroke=\"#0072b2\"]{stroke:#3fa0dd}svg [fill=\"#0072b2\"]{fill:#3fa0dd}"
    "svg [stroke=\"#b3261e\"]{stroke:#ff8a80}}\n";

/* ---- curves ---------------------------------------------------------------------------------- */

static void put_key(FILE *out, const char *color, const char *dash, bool dot, const char *words)
{
    fputs("<span class=\"key\"><svg viewBox=\"0 0 26 14\" aria-hidden=\"true\">", out);
    cli_axes_swatch(out, 0, 11, color, dash, dot);
    fputs("</svg><span>", out);
    svg_escaped(out, words);
    fputs("</span></span>", out);
}

static void put_names(const page *p)
{
    fputs("<p>", p->out);
    for (int i = 0; i < p->report->n; i++)
        put_key(p->out, cli_axes_color(i), cli_axes_dash(i), false, p->report->run[i].name);
    fputs("</p>\n", p->out);
}

static bool any_val(const cli_report *report)
{
    bool any = false;
    for (int i = 0; i < report->n; i++) any |= report->curve[i]->val.n > 0;
    return any;
}

/** Return whether a quantity is the training loss, which is drawn with the validation loss. */
static bool is_loss(const cli_quantity *q)
{
    return q->offset == offsetof(cli_curve, loss);
}

/** Set the axes of a quantity; return whether any run has it. */
static bool set_axes(const page *p, const cli_quantity *q, cli_axes *axes)
{
    double low = NAN, high = NAN;
    bool any = false;
    for (int i = 0; i < p->report->n; i++) {
        const cli_curve *c = p->report->curve[i];
        any |= cli_series_of(c, q)->n > 0;
        cli_panel_widen(cli_series_of(c, q), &low, &high);
        if (is_loss(q)) cli_panel_widen(&c->val, &low, &high);
    }
    axes->box = (svg_box){LEFT, TOP, PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM};
    cli_panel_steps(axes, p->report->curve, p->report->n);
    cli_axes_range(axes, q->from_zero && low > 0 ? 0 : low, high, q->may_log);
    return any;
}

static void draw_run(const page *p, const cli_quantity *q, cli_panel *panel, int run)
{
    const cli_report_run *r = &p->report->run[run];
    const bool one = p->report->n == 1, loss = is_loss(q);
    const char *color = cli_axes_color(run), *dash = cli_axes_dash(run);
    const cli_pen pen = {color, dash, 1.8, 2.4, PANEL_FEW, q->noisy, p->report->n <= BANDS, loss, r->name};
    const cli_pen val = {
        one ? cli_axes_color(1) : color, one ? NULL : "1 4", 1.4, 3.6, PANEL_FEW, false, false, true, r->name};
    cli_panel_draw(panel, cli_series_of(r->curve, q), &pen);
    if (loss) cli_panel_draw(panel, &r->curve->val, &val);
}

/** Explain the lines of the training and validation losses. */
static void put_kinds(const page *p)
{
    if (!any_val(p->report)) return;
    fputs("<br>", p->out);
    if (p->report->n > 1) {
        put_key(p->out, AXES_GREY, NULL, false, "training");
        put_key(p->out, AXES_GREY, "1 4", true, "validation");
        return;
    }
    put_key(p->out, cli_axes_color(0), NULL, false, "training");
    put_key(p->out, cli_axes_color(1), NULL, true, "validation");
}

/** Write a panel's `data-` attributes, which map places in the picture back to values. */
static void put_place(FILE *out, const cli_quantity *q, const cli_axes *a)
{
    static const char *const name[] = {"x0", "x1", "y0", "y1"};
    const double edge[] = {a->x0, a->x1, a->y0, a->y1};
    char number[ZR_NUMBER_BYTES];
    fprintf(out, "<figure data-quantity=\"%s\" data-left=\"%g\" data-top=\"%g\" data-width=\"%g\" data-height=\"%g\"",
            q->key, a->box.x, a->box.y, a->box.w, a->box.h);
    for (int i = 0; i < 4; i++) fprintf(out, " data-%s=\"%s\"", name[i], zr__text_shortest(edge[i], number));
    fprintf(out, " data-log=\"%d\">\n", a->log);
}

static void put_caption(const page *p, const cli_quantity *q, const cli_panel *panel)
{
    int64_t steps = 1;
    for (int i = 0; i < p->report->n; i++) {
        int64_t its = cli_panel_mean_steps(panel, cli_series_of(p->report->curve[i], q));
        if (its > steps) steps = its;
    }
    fprintf(p->out, "<figcaption><b>%s</b><span class=\"soft\">%s", q->title, q->unit);
    if (steps > 1 && q->noisy)
        fprintf(p->out, "%smean of %lld steps%s", *q->unit ? "; " : "", (long long)steps,
                p->report->n <= BANDS ? ", pale: each step" : "");
    if (panel->axes.log) fputs("; log scale", p->out);
    fputs("</span>", p->out);
    if (is_loss(q)) put_kinds(p);
    fputs("</figcaption>\n", p->out);
}

static void put_panel(const page *p, const cli_quantity *q)
{
    cli_panel panel = {.out = p->out, .points = p->points};
    const double foot = PANEL_HEIGHT - 6;
    if (!set_axes(p, q, &panel.axes)) return;
    put_place(p->out, q, &panel.axes);
    put_caption(p, q, &panel);
    svg_begin(p->out, PANEL_WIDTH, PANEL_HEIGHT, q->title);
    cli_panel_frame(&panel, NULL, true);
    for (int i = 0; i < p->report->n; i++) draw_run(p, q, &panel, i);
    svg_text(p->out, PANEL_WIDTH - RIGHT, foot, (svg_font){.size = 12, .color = AXES_GREY, .anchor = SVG_END}, "step");
    cli_panel_explain(&panel, LEFT, foot);
    svg_end(p->out);
    fputs("</figure>\n", p->out);
}

/* ---- facts and differences ------------------------------------------------------------------- */

static void put_fact(FILE *out, const cli_fact *f)
{
    if (!f->text[0])
        fputs("-", out);
    else if (isfinite(f->value))
        put_data(out, f->key, f->value, f->text);
    else
        svg_escaped(out, f->text);
}

static void put_facts(FILE *out, const cli_report_run *run)
{
    fputs("<div class=\"facts\">\n", out);
    for (int i = 0; i < run->n_facts; i++) {
        if (!run->fact[i].text[0]) continue;
        fprintf(out, "<div><span>%s</span>", run->fact[i].label);
        put_fact(out, &run->fact[i]);
        fputs("</div>\n", out);
    }
    fputs("</div>\n", out);
}

static void put_heads(const page *p, const char *first)
{
    fprintf(p->out, "<div class=\"wide\"><table><tr><th>%s</th>", first);
    for (int i = 0; i < p->report->n; i++) {
        fputs("<th>", p->out);
        svg_escaped(p->out, p->report->run[i].name);
        fputs("</th>", p->out);
    }
    fputs("</tr>\n", p->out);
}

static void put_comparison(const page *p)
{
    const cli_report *r = p->report;
    fputs("<h2>Side by side</h2>\n", p->out);
    put_heads(p, "figure");
    for (int f = 0; f < r->run[0].n_facts; f++) {
        bool any = false;
        for (int i = 0; i < r->n; i++) any |= r->run[i].fact[f].text[0] != '\0';
        if (!any) continue;
        fprintf(p->out, "<tr><td>%s</td>", r->run[0].fact[f].label);
        for (int i = 0; i < r->n; i++) {
            fprintf(p->out, "<td data-run=\"%d\">", i);
            put_fact(p->out, &r->run[i].fact[f]);
            fputs("</td>", p->out);
        }
        fputs("</tr>\n", p->out);
    }
    fputs("</table></div>\n<h3>What differs in the configurations</h3>\n", p->out);
    if (json_object_size(r->different) == 0) {
        fputs("<p>Nothing but the directory.</p>\n", p->out);
        return;
    }
    const char *key;
    json_t *values;
    put_heads(p, "key");
    json_object_foreach(r->different, key, values)
    {
        fputs("<tr><td>", p->out);
        svg_escaped(p->out, key);
        fputs("</td>", p->out);
        for (size_t i = 0; i < json_array_size(values); i++) {
            char shown[200];
            fputs("<td>", p->out);
            svg_escaped(p->out, zr__json_show(json_array_get(values, i), shown, sizeof(shown)));
            fputs("</td>", p->out);
        }
        fputs("</tr>\n", p->out);
    }
    fputs("</table></div>\n", p->out);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void put_bytes(FILE *out, const char *of, const cli_bytes_row *row, bool measured)
{
    char path[128], words[32];
    json_int_t bytes = measured ? row->measured : row->planned;
    snprintf(path, sizeof(path), "%s.%s", of, row->path);
    fputs("<td class=\"n\">", out);
    if (bytes >= 0)
        put_data(out, path, (double)bytes, cli_bytes((double)bytes, words));
    else
        fputs("-", out);
    fputs("</td>", out);
}

/** Write planned and measured bytes of memory or traffic; a bar is the measured value, its mark the plan. */
static void put_table(FILE *out, const cli_report_run *run, const char *part, const char *title, const char *planned)
{
    cli_bytes_row row[REPORT_ROWS];
    int n = cli_report_rows(run, part, row);
    json_int_t most = 1;
    for (int i = 0; i < n; i++) most = row[i].planned > most ? row[i].planned : most;
    for (int i = 0; i < n; i++) most = row[i].measured > most ? row[i].measured : most;
    if (n == 0) return;
    fprintf(out,
            "<div><h3>%s</h3><div class=\"wide\"><table><tr><th></th><th class=\"n\">%s</th><th class=\"n\">%s</th>"
            "<th></th></tr>\n",
            title, planned, strcmp(part, "memory") == 0 ? "measured" : "counted");
    for (int i = 0; i < n; i++) {
        if (row[i].planned <= 0 && row[i].measured <= 0 && !row[i].total) continue;
        fprintf(out, "<tr%s><td>", row[i].total ? " class=\"total\"" : "");
        svg_escaped(out, row[i].words);
        fputs("</td>", out);
        put_bytes(out, "planned", &row[i], false);
        put_bytes(out, "measured", &row[i], true);
        fprintf(out,
                "<td><div class=\"bar\"><i style=\"width:%.2f%%\"></i><b style=\"left:%.2f%%\"></b></div></td></tr>\n",
                row[i].measured > 0 ? 100.0 * (double)row[i].measured / (double)most : 0.0,
                100.0 * (double)row[i].planned / (double)most);
    }
    fputs("</table></div><p class=\"soft\">Bars: what was used; marks: the plan.</p></div>\n", out);
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void put_kind(FILE *out, const char *name, const char *calls, double ms, double step_ms, double of_peak)
{
    char words[32];
    fputs("<tr><td>", out);
    svg_escaped(out, name);
    fprintf(out, "</td><td class=\"n\">%s</td><td class=\"n\">", calls);
    put_data(out, "timings.ms", ms, cli_seconds(1e-3 * ms, words));
    fputs("</td><td class=\"n\">", out);
    if (isfinite(of_peak)) fprintf(out, "%.0f %%", 100 * of_peak);
    fprintf(out, "</td><td><div class=\"bar\"><i style=\"width:%.2f%%\"></i></div></td></tr>\n",
            step_ms > 0 ? fmin(100, 100 * ms / step_ms) : 0);
}

/** Write where the time of a step went, for a run with --timings. */
static void put_timings(FILE *out, const cli_report_run *run)
{
    const json_t *timings = cli_json_at(run->facts, "timings"), *kinds = json_object_get(timings, "kinds");
    char step[32], compute[32], comm[32], idle[32], calls[32];
    double step_ms = number_of(timings, "step_ms"), rest = 0;
    size_t n = json_array_size(kinds);
    if (n == 0) return;
    fprintf(out,
            "<div><h3>Where the time of a step goes</h3><p class=\"soft\">A step takes %s: %s of computing, %s that "
            "only communication takes, %s of neither.</p><div class=\"wide\"><table><tr><th></th><th class=\"n\">calls"
            "</th><th class=\"n\">time</th><th class=\"n\">of peak</th><th></th></tr>\n",
            cli_seconds(1e-3 * step_ms, step), cli_seconds(1e-3 * number_of(timings, "compute_ms"), compute),
            cli_seconds(1e-3 * number_of(timings, "exposed_ms"), comm),
            cli_seconds(1e-3 * number_of(timings, "idle_ms"), idle));
    for (size_t i = 0; i < n; i++) {
        const json_t *kind = json_array_get(kinds, i);
        const char *name = json_string_value(json_object_get(kind, "kind"));
        double ms = number_of(kind, "ms");
        if (!name || !isfinite(ms)) continue;
        if (i >= MOST_KINDS) {
            rest += ms;
            continue;
        }
        snprintf(calls, sizeof(calls), "%lld", (long long)json_integer_value(json_object_get(kind, "calls")));
        put_kind(out, name, calls, ms, step_ms, number_of(kind, "of_peak"));
    }
    if (n > MOST_KINDS) put_kind(out, "all others", "", rest, step_ms, NAN);
    fputs("</table></div></div>\n", out);
}

static void put_sample(FILE *out, const json_t *sample)
{
    const json_t *text = json_object_get(sample, "sample");
    char *lines = strdup(json_string_value(text));
    if (!lines) return;
    fprintf(out, "<p class=\"soft\">after step %lld</p>\n<pre class=\"sample\">",
            (long long)json_integer_value(json_object_get(sample, "step")));
    put_lines(out, lines);
    fputs("</pre>\n", out);
    free(lines);
}

/** Show the newest text; fold the earlier ones. */
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
    put_lines(out, text);
    fputs("</pre></details>\n", out);
    zr_free(text);
}

static void put_run(const page *p, const cli_report_run *run)
{
    bool one = p->report->n == 1;
    if (!one) {
        fputs("<h2>", p->out);
        svg_escaped(p->out, run->name);
        fputs("</h2>\n", p->out);
    }
    fputs("<section>\n", p->out);
    for (int i = 0; i < run->n_notes; i++) {
        fputs("<p class=\"note\">", p->out);
        svg_escaped(p->out, run->note[i]);
        fputs("</p>\n", p->out);
    }
    if (one) put_facts(p->out, run);
    fputs("<div class=\"sides\">\n", p->out);
    put_table(p->out, run, "memory", "Memory of a rank, at most", "planned");
    put_table(p->out, run, "traffic", "Traffic of a rank and step", "by the formula");
    put_timings(p->out, run);
    fputs("</div>\n", p->out);
    put_samples(p->out, run);
    put_config(p->out, run);
    fputs("</section>\n", p->out);
}

static void put_title(const page *p, const char *before)
{
    if (p->report->n > 1) {
        fprintf(p->out, "%s%d runs", before, p->report->n);
    } else {
        fprintf(p->out, "%sRun ", before);
        svg_escaped(p->out, p->report->run[0].name);
    }
}

static void put_page(const page *p)
{
    const cli_report *r = p->report;
    fputs(REPORT_HEAD "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          p->out);
    put_title(p, "zr: ");
    fprintf(p->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    put_title(p, "");
    fputs("</h1>\n", p->out);
    if (r->n > 1) put_names(p);
    fputs("<div class=\"panels\">\n", p->out);
    for (int i = 0; i < cli_n_quantities; i++) put_panel(p, &cli_quantities[i]);
    fputs("</div>\n", p->out);
    if (r->n > 1) put_comparison(p);
    for (int i = 0; i < r->n; i++) put_run(p, &r->run[i]);
    fprintf(p->out,
            "<p class=\"soft\">Written by zr %s from metrics.jsonl, run.json and config.json.</p>\n</body>\n"
            "</html>\n",
            zr_version());
}

zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes)
{
    page p = {.report = report, .points = zr_alloc(sizeof(*p.points))};
    ZR_CHECK(p.points, ZR_ERR_MEMORY, "no memory to write a report");
    p.out = open_memstream(html, bytes);
    if (p.out) put_page(&p);
    bool written = p.out && ferror(p.out) == 0;
    if (p.out && fclose(p.out) != 0) written = false;
    zr_free(p.points);
    ZR_CHECK(written, ZR_ERR_MEMORY, "no memory to write a report");
    return ZR_OK;
}
