#include "cli/axes.h"
#include "cli/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_WIDTH 960.0
#define LEFT 88.0
#define PLOT_WIDTH 846.0
#define LOSS_HEIGHT 360.0
#define LR_HEIGHT 110.0
#define GAP 26.0 /* between the panels */
#define BAD "#b3261e"
#define VALUES_WIDTH 138.0 /* of what stands behind a name in the legend */
#define MANY_POINTS 200    /* from which a mean is drawn */
#define FEW_POINTS 60      /* up to which each has a dot */
#define BANDS 3            /* runs up to which each step shows behind the mean */

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
    cli_axes loss, lr;
    bool any_bad, any_val;
} page;

/* ---- axes ------------------------------------------------------------------------------------ */

static void widen(const curve_series *s, double *low, double *high)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->bucket[i].n) continue;
        if (!(*low <= s->bucket[i].low)) *low = s->bucket[i].low;
        if (!(*high >= s->bucket[i].high)) *high = s->bucket[i].high;
    }
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
    cli_axes_range(&g->loss, low, high, true);
    cli_axes_range(&g->lr, lr_low > 0 ? 0 : lr_low, lr_high, false);
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

static void draw_steps(FILE *out, const cli_axes *p, bool names)
{
    char text[32];
    double every = svg_nice_step(p->x1 - p->x0);
    if (every < 1) every = 1;
    for (double at = ceil(p->x0 / every) * every; at <= p->x1; at += every) {
        cli_axes_place(out, p, at, names ? step_text(at, text) : NULL);
    }
}

static void draw_frame(FILE *out, const cli_axes *p, const char *name, bool steps)
{
    draw_steps(out, p, steps);
    cli_axes_values(out, p);
    cli_axes_frame(out, p, name);
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

static double x_at(const cli_axes *axes, const points *p, int i)
{
    return cli_axes_x(axes, p->at[i].step_sum / (double)p->at[i].n);
}

/** Through the points: their means or, with BAND for `reach`, each one from its lowest to its highest value. The line
 * is broken where nothing finite is. */
enum { BAND = -1 };
static void draw_through(FILE *out, const cli_axes *axes, const points *p, int reach)
{
    bool pen = false;
    svg_shape_begin(out);
    for (int i = 0; i < p->n; i++) {
        const curve_bucket *at = &p->at[i];
        if (at->n) {
            double x = x_at(axes, p, i), y = reach == BAND ? at->low : mean_at(p, i, reach);
            (pen ? svg_shape_to : svg_shape_move)(out, x, cli_axes_y(axes, y));
            if (reach == BAND && at->high > at->low) svg_shape_to(out, x, cli_axes_y(axes, at->high));
        }
        pen = at->n > 0;
    }
}

static void draw_band(FILE *out, const cli_axes *axes, const points *p, const char *color)
{
    draw_through(out, axes, p, BAND);
    svg_shape_line_end(out, color, 1, NULL, 0.35, NULL);
}

static void draw_line(FILE *out, const cli_axes *axes, const points *p, int reach, const char *color, const char *dash,
                      double width, const char *tip)
{
    draw_through(out, axes, p, reach);
    svg_shape_line_end(out, color, width, dash, 1, tip);
}

static void draw_dots(FILE *out, const cli_axes *axes, const points *p, const char *color, double radius)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i].n)
            svg_dot(out, x_at(axes, p, i), cli_axes_y(axes, p->at[i].sum / (double)p->at[i].n), radius, color);
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
        double step = ((double)i + 0.5) * (double)s->per + 0.5, x = cli_axes_x(&g->loss, step);
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
    const char *color = cli_axes_color(run), *dash = cli_axes_dash(run),
               *val_color = g->n == 1 ? cli_axes_color(1) : color;
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
    draw_line(g->out, &g->lr, p, 0, g->n == 1 ? cli_axes_color(2) : color, dash, 1.8, g->name[run]);
    if (p->n <= FEW_POINTS) draw_dots(g->out, &g->lr, p, g->n == 1 ? cli_axes_color(2) : color, 2.4);
}

/* ---- words ----------------------------------------------------------------------------------- */

/** What the marks of a single run mean. */
static void draw_kinds(page *g, double y)
{
    static const svg_font font = {.size = 13, .color = AXES_DARK};
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
    cli_axes_swatch(g->out, x, y, cli_axes_color(0), NULL, false);
    svg_text(g->out, x + 33, y, font, "%s", text);
    x += 60 + svg_text_width(text, 13);
    if (c->val.n) {
        cli_axes_swatch(g->out, x, y, cli_axes_color(1), NULL, true);
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

static void draw_names(page *g, double y)
{
    cli_legend l = cli_legend_of(g->name, g->n, PLOT_WIDTH, VALUES_WIDTH);
    char name[SVG_TEXT_BYTES], loss[32], val[32];
    svg_text(g->out, LEFT, y, (svg_font){.size = 12, .color = AXES_GREY},
             "Lines: training loss%s. Behind each name: the last training loss%s.",
             g->any_val ? "; dots: validation loss" : "", g->any_val ? " / the lowest validation loss" : "");
    for (int i = 0; i < l.shown; i++) {
        double x = LEFT + l.width * (i / l.rows), at = y + 2 + AXES_ROW * (1 + i % l.rows);
        cli_axes_swatch(g->out, x, at, cli_axes_color(i), cli_axes_dash(i), false);
        svg_text(g->out, x + 33, at, (svg_font){.size = 13, .color = AXES_DARK}, "%s",
                 svg_text_fit(g->name[i], 13, l.name_width, name));
        svg_text(g->out, x + 33 + l.name_width + 8, at, (svg_font){.size = 12, .color = AXES_GREY}, "%s%s%s",
                 g->curve[i]->last_step ? loss_text(g->curve[i]->loss.last, loss) : "no step yet",
                 g->curve[i]->val.n ? " / " : "", g->curve[i]->val.n ? loss_text(g->curve[i]->val.best, val) : "");
    }
    if (g->n > l.shown)
        svg_text(g->out, LEFT, y + 2 + AXES_ROW * (l.rows + 1), (svg_font){.size = 12, .color = AXES_GREY},
                 "and %d more", g->n - l.shown);
}

static void draw_title(page *g)
{
    char name[SVG_TEXT_BYTES], first[32], last[32], loss[32], val[128] = "", skipped[96] = "";
    char text[96] = "no finite loss";
    svg_font title = {.size = 18, .color = AXES_DARK, .bold = true}, small = {.size = 13, .color = AXES_GREY};
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
        cli_legend l = cli_legend_of(g->name, g->n, PLOT_WIDTH, VALUES_WIDTH);
        top = legend_y + AXES_ROW * (l.rows + 1 + (g->n > l.shown)) + 6;
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
    svg_text(g->out, LEFT + PLOT_WIDTH / 2, bottom + 40,
             (svg_font){.size = 13, .color = AXES_DARK, .anchor = SVG_MIDDLE}, "training step");
    for (int i = 0; i < g->n; i++) draw_run(g, i);
    if (g->any_bad) {
        double x = LEFT, y = bottom + 40;
        svg_shape_begin(g->out);
        draw_cross(g->out, x + 4, y - 4);
        svg_shape_stroke(g->out, BAD, 1.6);
        svg_text(g->out, x + 14, y, (svg_font){.size = 12, .color = AXES_DARK}, "not finite, or nothing updated");
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
