#include "cli/curve.h"
#include "cli/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_WIDTH 960.0
#define LEFT 88.0
#define PLOT_WIDTH 846.0
#define LOSS_HEIGHT 360.0
#define LR_HEIGHT 110.0
#define GAP 26.0 /* between the panels */
#define ROW 19.0 /* of the legend */
#define LEGEND_MOST 40
#define DARK "#1f2933"
#define GREY "#52606d"
#define GRID "#e4e8ed"
#define BAD "#b3261e"
#define MANY_POINTS 200 /* from which a mean is drawn */
#define FEW_POINTS 60   /* up to which each has a dot */
#define BANDS 3         /* runs up to which each step shows behind the mean */

/* Told apart by the colour-blind as well (Okabe and Ito's set, without its yellow). */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
enum { COLORS = sizeof(colors) / sizeof(colors[0]) };
static const char *const dashes[] = {NULL, "7 4", "2 3"};
enum { DASHES = sizeof(dashes) / sizeof(dashes[0]) };

/** Axes of a part of the page. */
typedef struct panel {
    svg_box box;
    double x0, x1, y0, y1;
    bool log;
} panel;

/** What is drawn of a series: columns that are at least a pixel wide. */
typedef struct points {
    curve_bucket at[CURVE_BUCKETS];
    int n;
} points;

typedef struct page {
    FILE *out;
    cli_curve *const *curve;
    const char *const *name;
    int n;
    points *points; /* room */
    panel loss, lr;
    bool any_bad, any_val;
} page;

static const char *color_of(int run)
{
    return colors[run % COLORS];
}

static const char *dash_of(int run)
{
    return dashes[run / COLORS % DASHES];
}

/* ---- axes ------------------------------------------------------------------------------------ */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void widen(const curve_series *s, double *low, double *high)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->bucket[i].n) continue;
        if (!(*low <= s->bucket[i].low)) *low = s->bucket[i].low;
        if (!(*high >= s->bucket[i].high)) *high = s->bucket[i].high;
    }
}

/** Room around what is there; a scale of powers where a linear one would show a single bend. */
static void set_range(panel *p, double low, double high, bool may_log)
{
    if (!(high >= low)) low = 0, high = 1;
    low = larger(low, -1e300);
    high = high < 1e300 ? high : 1e300;
    p->log = may_log && low > 1e-300 && high / low > 12;
    if (p->log) {
        double room = pow(high / low, 0.05);
        p->y0 = low / room;
        p->y1 = high * room;
        return;
    }
    double size = larger(fabs(low), fabs(high)), room = 0.05 * (high - low);
    if (room <= 1e-7 * size) room = size > 0 ? 0.1 * size : 1;
    p->y0 = low >= 0 ? larger(low - room, 0) : low - room;
    p->y1 = high + room;
}

static void set_axes(page *g, double top)
{
    double low = NAN, high = NAN, lr_low = NAN, lr_high = NAN;
    int64_t first = INT64_MAX, last = 2;
    for (int i = 0; i < g->n; i++) {
        const cli_curve *c = g->curve[i];
        widen(&c->loss, &low, &high);
        widen(&c->val, &low, &high);
        widen(&c->lr, &lr_low, &lr_high);
        if (c->first_step && c->first_step < first) first = c->first_step;
        if (c->last_step > last) last = c->last_step;
    }
    g->loss.box = (svg_box){LEFT, top, PLOT_WIDTH, LOSS_HEIGHT};
    g->lr.box = (svg_box){LEFT, top + LOSS_HEIGHT + GAP, PLOT_WIDTH, LR_HEIGHT};
    g->loss.x0 = first < INT64_MAX && first > last / 10 && first > 1 ? (double)(first - 1) : 0;
    g->loss.x1 = (double)last;
    g->lr.x0 = g->loss.x0;
    g->lr.x1 = g->loss.x1;
    set_range(&g->loss, low, high, true);
    set_range(&g->lr, lr_low > 0 ? 0 : lr_low, lr_high, false);
}

static double x_of(const panel *p, double step)
{
    return p->box.x + p->box.w * (step - p->x0) / (p->x1 - p->x0);
}

static double y_of(const panel *p, double value)
{
    double part = p->log ? log(value / p->y0) / log(p->y1 / p->y0) : (value - p->y0) / (p->y1 - p->y0);
    return p->box.y + p->box.h * (1 - part);
}

static void draw_tick(FILE *out, const panel *p, double value)
{
    char text[40];
    double y = y_of(p, value);
    if (y < p->box.y - 0.5 || y > p->box.y + p->box.h + 0.5) return;
    snprintf(text, sizeof(text), "%.6g", value);
    if (value == 0) snprintf(text, sizeof(text), "0"); /* not -0 */
    svg_line(out, p->box.x, y, p->box.x + p->box.w, y, GRID, 1);
    svg_text(out, p->box.x - 8, y + 4, (svg_font){.size = 12, .color = DARK, .anchor = SVG_END}, "%s", text);
}

static void draw_values(FILE *out, const panel *p)
{
    if (!p->log) {
        double step = svg_nice_step(p->y1 - p->y0);
        if (p->box.h < 200) step = svg_nice_step(2 * (p->y1 - p->y0));
        double first = ceil(p->y0 / step), last = floor(p->y1 / step);
        for (double k = first; k <= last && k - first < 50; k++) draw_tick(out, p, k * step);
        return;
    }
    double decades = log10(p->y1 / p->y0);
    int every = (int)(decades / 8) + 1;
    for (int d = (int)floor(log10(p->y0)); d <= (int)ceil(log10(p->y1)); d++) {
        if (d % every != 0) continue;
        draw_tick(out, p, pow(10, d));
        if (decades > 3) continue;
        draw_tick(out, p, 2 * pow(10, d));
        draw_tick(out, p, 5 * pow(10, d));
    }
}

/** 20k, 1.5M: steps are many. */
static const char *step_text(double step, char text[32])
{
    if (step >= 1e6)
        snprintf(text, 32, "%.6gM", step / 1e6);
    else if (step >= 1e4)
        snprintf(text, 32, "%.6gk", step / 1e3);
    else
        snprintf(text, 32, "%.0f", step);
    return text;
}

static void draw_steps(FILE *out, const panel *p, bool names)
{
    char text[32];
    double every = svg_nice_step(p->x1 - p->x0);
    if (every < 1) every = 1;
    for (double at = ceil(p->x0 / every) * every; at <= p->x1; at += every) {
        double x = x_of(p, at), bottom = p->box.y + p->box.h;
        svg_line(out, x, p->box.y, x, bottom, GRID, 1);
        if (!names) continue;
        svg_line(out, x, bottom, x, bottom + 5, GREY, 1);
        svg_text(out, x, bottom + 19, (svg_font){.size = 12, .color = DARK, .anchor = SVG_MIDDLE}, "%s",
                 step_text(at, text));
    }
}

static void draw_frame(FILE *out, const panel *p, const char *name, bool steps)
{
    draw_steps(out, p, steps);
    draw_values(out, p);
    svg_line(out, p->box.x, p->box.y, p->box.x, p->box.y + p->box.h, GREY, 1);
    svg_line(out, p->box.x, p->box.y + p->box.h, p->box.x + p->box.w, p->box.y + p->box.h, GREY, 1);
    svg_text_up(out, 22, p->box.y + p->box.h / 2, (svg_font){.size = 13, .color = DARK, .anchor = SVG_MIDDLE}, name);
}

/* ---- curves ---------------------------------------------------------------------------------- */

/** Those of a series that have values or are bad, merged to at most one a pixel. */
static void gather(const curve_series *s, points *to)
{
    int every = 1 + s->n / (int)PLOT_WIDTH;
    to->n = 0;
    for (int i = 0; i < s->n; i += every) {
        curve_bucket all = {0};
        for (int j = i; j < i + every && j < s->n; j++) cli_curve_merge(&all, &s->bucket[j]);
        if (all.n || all.bad) to->at[to->n++] = all;
    }
}

/** Points to either side that make the mean of a long run. */
static int reach_of(const points *p)
{
    return p->n < MANY_POINTS ? 0 : p->n / 100;
}

/** Mean over the points around one, as many to the left as to the right: the ends stay where they are. */
static double mean_at(const points *p, int i, int reach)
{
    double sum = 0, n = 0;
    if (reach > i) reach = i;
    if (reach > p->n - 1 - i) reach = p->n - 1 - i;
    for (int j = i - reach; j <= i + reach; j++) {
        /* Point by point: a plain sum of what is as large as a double overflows. */
        sum += p->at[j].n ? p->at[j].sum / (double)p->at[j].n : 0;
        n += p->at[j].n ? 1 : 0;
    }
    return n > 0 ? sum / n : NAN;
}

static double x_at(const panel *axes, const points *p, int i)
{
    return x_of(axes, p->at[i].step_sum / (double)p->at[i].n);
}

/** Through the points: their means or, with BAND for `reach`, each one from its lowest to its highest value. The line
 * is broken where nothing finite is. */
enum { BAND = -1 };
static void draw_through(FILE *out, const panel *axes, const points *p, int reach)
{
    bool pen = false;
    svg_shape_begin(out);
    for (int i = 0; i < p->n; i++) {
        const curve_bucket *at = &p->at[i];
        if (at->n) {
            double x = x_at(axes, p, i), y = reach == BAND ? at->low : mean_at(p, i, reach);
            (pen ? svg_shape_to : svg_shape_move)(out, x, y_of(axes, y));
            if (reach == BAND && at->high > at->low) svg_shape_to(out, x, y_of(axes, at->high));
        }
        pen = at->n > 0;
    }
}

static void draw_band(FILE *out, const panel *axes, const points *p, const char *color)
{
    draw_through(out, axes, p, BAND);
    svg_shape_line_end(out, color, 1, NULL, 0.35, NULL);
}

static void draw_line(FILE *out, const panel *axes, const points *p, int reach, const char *color, const char *dash,
                      double width, const char *tip)
{
    draw_through(out, axes, p, reach);
    svg_shape_line_end(out, color, width, dash, 1, tip);
}

static void draw_dots(FILE *out, const panel *axes, const points *p, const char *color, double radius)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i].n) svg_dot(out, x_at(axes, p, i), y_of(axes, p->at[i].sum / (double)p->at[i].n), radius, color);
}

static void draw_cross(FILE *out, double x, double y)
{
    svg_shape_line(out, x - 4, y - 4, x + 4, y + 4);
    svg_shape_line(out, x - 4, y + 4, x + 4, y - 4);
}

/** Crosses at the foot, where steps updated nothing or were not finite. */
static void draw_bad(page *g, const curve_series *s)
{
    double free_x = 0;
    bool begun = false;
    for (int i = 0; i < s->n; i++) {
        if (!s->bucket[i].bad) continue;
        double step = ((double)i + 0.5) * (double)s->per + 0.5, x = x_of(&g->loss, step);
        if (x < free_x) continue;
        if (!begun) svg_shape_begin(g->out);
        begun = true;
        draw_cross(g->out, x, g->loss.box.y + g->loss.box.h - 8);
        free_x = x + 6;
    }
    if (begun) svg_shape_stroke(g->out, BAD, 1.6);
    g->any_bad |= begun;
}

static void draw_run(page *g, int run)
{
    const cli_curve *c = g->curve[run];
    const char *color = color_of(run), *dash = dash_of(run), *val_color = g->n == 1 ? colors[1] : color;
    points *p = g->points;
    gather(&c->loss, p);
    int reach = reach_of(p);
    if (reach > 0 && g->n <= BANDS) draw_band(g->out, &g->loss, p, color);
    draw_line(g->out, &g->loss, p, reach, color, dash, 1.8, g->name[run]);
    if (p->n <= FEW_POINTS) draw_dots(g->out, &g->loss, p, color, 2.4);
    draw_bad(g, &c->loss);
    gather(&c->val, p);
    if (p->n) {
        g->any_val = true;
        draw_line(g->out, &g->loss, p, 0, val_color, g->n == 1 ? NULL : "1 4", 1.4, g->name[run]);
        if (p->n <= 2 * FEW_POINTS) draw_dots(g->out, &g->loss, p, val_color, 4);
        draw_bad(g, &c->val);
    }
    gather(&c->lr, p);
    draw_line(g->out, &g->lr, p, 0, g->n == 1 ? colors[2] : color, dash, 1.8, g->name[run]);
    if (p->n <= FEW_POINTS) draw_dots(g->out, &g->lr, p, g->n == 1 ? colors[2] : color, 2.4);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void draw_swatch(page *g, double x, double y, const char *color, const char *dash, bool dot)
{
    svg_shape_begin(g->out);
    svg_shape_move(g->out, x, y - 4);
    svg_shape_to(g->out, x + 26, y - 4);
    svg_shape_line_end(g->out, color, 2.2, dash, 1, NULL);
    if (dot) svg_dot(g->out, x + 13, y - 4, 4, color);
}

/** What the marks of a single run mean. */
static void draw_kinds(page *g, double y)
{
    static const svg_font font = {.size = 13, .color = DARK};
    const cli_curve *c = g->curve[0];
    char text[96];
    double x = LEFT;
    gather(&c->loss, g->points);
    int64_t per = c->loss.per * (1 + c->loss.n / (int)PLOT_WIDTH);
    int reach = reach_of(g->points);
    snprintf(text, sizeof(text), "training loss");
    if (reach > 0)
        snprintf(text, sizeof(text), "training loss, mean of %lld steps; pale: each step",
                 (long long)(per * (2 * reach + 1)));
    draw_swatch(g, x, y, colors[0], NULL, false);
    svg_text(g->out, x + 33, y, font, "%s", text);
    x += 60 + svg_text_width(text, 13);
    if (c->val.n) {
        draw_swatch(g, x, y, colors[1], NULL, true);
        svg_text(g->out, x + 33, y, font, "validation loss");
    }
}

static const char *loss_text(double loss, char text[32])
{
    if (isfinite(loss))
        snprintf(text, 32, "%.4g", loss);
    else
        snprintf(text, 32, "-");
    return text;
}

/** Columns of names, as wide as the longest needs. */
typedef struct legend {
    double name_width, width;
    int columns, rows, shown;
} legend;

static legend legend_of(const page *g)
{
    legend l = {.shown = g->n < LEGEND_MOST ? g->n : LEGEND_MOST};
    for (int i = 0; i < l.shown; i++) l.name_width = larger(l.name_width, svg_text_width(g->name[i], 13));
    if (l.name_width > 560) l.name_width = 560;
    l.width = 33 + l.name_width + 8 + 130;
    l.columns = (int)(PLOT_WIDTH / l.width);
    if (l.columns < 1) l.columns = 1;
    l.rows = (l.shown + l.columns - 1) / l.columns;
    return l;
}

static void draw_names(page *g, double y)
{
    legend l = legend_of(g);
    char name[SVG_TEXT_BYTES], loss[32], val[32];
    svg_text(g->out, LEFT, y, (svg_font){.size = 12, .color = GREY},
             "Lines: training loss%s. Behind each name: the last training loss%s.",
             g->any_val ? "; dots: validation loss" : "", g->any_val ? " / the lowest validation loss" : "");
    for (int i = 0; i < l.shown; i++) {
        double x = LEFT + l.width * (i / l.rows), at = y + 2 + ROW * (1 + i % l.rows);
        draw_swatch(g, x, at, color_of(i), dash_of(i), false);
        svg_text(g->out, x + 33, at, (svg_font){.size = 13, .color = DARK}, "%s",
                 svg_text_fit(g->name[i], 13, l.name_width, name));
        svg_text(g->out, x + 33 + l.name_width + 8, at, (svg_font){.size = 12, .color = GREY}, "%s%s%s",
                 g->curve[i]->last_step ? loss_text(g->curve[i]->loss.last, loss) : "no step yet",
                 g->curve[i]->val.n ? " / " : "", g->curve[i]->val.n ? loss_text(g->curve[i]->val.best, val) : "");
    }
    if (g->n > l.shown)
        svg_text(g->out, LEFT, y + 2 + ROW * (l.rows + 1), (svg_font){.size = 12, .color = GREY}, "and %d more",
                 g->n - l.shown);
}

static void draw_title(page *g)
{
    char name[SVG_TEXT_BYTES], first[32], last[32], loss[32], val[128] = "", skipped[96] = "";
    char text[96] = "no finite loss";
    svg_font title = {.size = 18, .color = DARK, .bold = true}, small = {.size = 13, .color = GREY};
    if (g->n > 1) {
        svg_text(g->out, LEFT, 34, title, "Loss of %d runs", g->n);
        return;
    }
    svg_text(g->out, LEFT, 34, title, "Loss of %s", svg_text_fit(g->name[0], 18, 700, name));
    const cli_curve *c = g->curve[0];
    if (!c->last_step) {
        svg_text(g->out, LEFT, 56, small, "no step yet");
        return;
    }
    if (isfinite(c->loss.last) && c->loss.per)
        snprintf(text, sizeof(text), "last training loss %s", loss_text(c->loss.last, loss));
    if (isfinite(c->val.best) && c->val.n)
        snprintf(val, sizeof(val), "; lowest validation loss %s, at step %s", loss_text(c->val.best, loss),
                 step_text((double)c->val.best_step, last));
    if (c->skipped)
        snprintf(skipped, sizeof(skipped), "; %lld step%s updated nothing", (long long)c->skipped,
                 c->skipped == 1 ? "" : "s");
    svg_text(g->out, LEFT, 56, small, "step %s to %s; %s%s%s", step_text((double)c->first_step, first),
             step_text((double)c->last_step, last), text, val, skipped);
}

static void draw_page(page *g)
{
    double legend_y = g->n == 1 ? 80 : 58, top = 98;
    if (g->n > 1) {
        legend l = legend_of(g);
        top = legend_y + ROW * (l.rows + 1 + (g->n > l.shown)) + 6;
    }
    set_axes(g, top);
    for (int i = 0; i < g->n; i++) g->any_val |= g->curve[i]->val.n > 0;
    double bottom = g->lr.box.y + LR_HEIGHT;
    svg_begin(g->out, PAGE_WIDTH, bottom + 52, "zr: loss, validation loss and learning rate");
    draw_title(g);
    if (g->n == 1)
        draw_kinds(g, legend_y);
    else
        draw_names(g, legend_y);
    draw_frame(g->out, &g->loss, g->loss.log ? "loss, nats a token, log scale" : "loss, nats a token", false);
    draw_frame(g->out, &g->lr, "learning rate", true);
    svg_text(g->out, LEFT + PLOT_WIDTH / 2, bottom + 40, (svg_font){.size = 13, .color = DARK, .anchor = SVG_MIDDLE},
             "training step");
    for (int i = 0; i < g->n; i++) draw_run(g, i);
    if (g->any_bad) {
        double x = LEFT, y = bottom + 40;
        svg_shape_begin(g->out);
        draw_cross(g->out, x + 4, y - 4);
        svg_shape_stroke(g->out, BAD, 1.6);
        svg_text(g->out, x + 14, y, (svg_font){.size = 12, .color = DARK}, "not finite, or nothing updated");
    }
    svg_end(g->out);
}

zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg, size_t *bytes)
{
    page g = {.curve = curve, .name = name, .n = n, .points = zr_alloc(sizeof(points))};
    ZR_CHECK(g.points, ZR_ERR_MEMORY, "no memory to draw");
    g.out = open_memstream(svg, bytes);
    if (g.out) draw_page(&g);
    bool drawn = g.out && ferror(g.out) == 0;
    if (g.out && fclose(g.out) != 0) drawn = false;
    zr_free(g.points);
    ZR_CHECK(drawn, ZR_ERR_MEMORY, "no memory to draw");
    return ZR_OK;
}
