#include "cli/draw/panel.h"

#include <stdio.h>
#include <math.h>

#define BAD "#b3261e"
#define MANY_POINTS 200 /* minimum number of points of a curve that is drawn as a moving mean */
#define FEW_POINTS 60   /* maximum number of points of a curve that has dots */

/* ---- axes ------------------------------------------------------------------------------------ */

void cli_series_widen(const curve_series *s, double *low, double *high)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->bucket[i].n) continue;
        cli_axes_widen(s->bucket[i].low, low, high);
        cli_axes_widen(s->bucket[i].high, low, high);
    }
}

void cli_panel_place(cli_panel *p, svg_box box)
{
    int64_t first = INT64_MAX, last = 2;
    double low = NAN, high = NAN;
    for (int i = 0; i < p->n; i++) {
        const cli_curve *c = p->curve[i];
        if (c->first_step && c->first_step < first) first = c->first_step;
        if (c->last_step > last) last = c->last_step;
        cli_series_widen(&c->series[p->quantity], &low, &high);
        if (p->quantity == CLI_LOSS) cli_series_widen(&c->series[CLI_VAL], &low, &high);
    }
    const bool late = first < INT64_MAX && first > last / 10 && first > 1;
    p->axes = (cli_axes){.box = box, .x0 = late ? (double)(first - 1) : 0, .x1 = (double)last};
    const cli_quantity *q = &cli_quantities[p->quantity];
    cli_axes_range(&p->axes, q->from_zero && low > 0 ? 0 : low, high, q->may_log);
}

const char *cli_step_text(double step, char text[32])
{
    if (step >= 1e6)
        snprintf(text, 32, "%.6gM", step / 1e6);
    else if (step >= 1e4)
        snprintf(text, 32, "%.6gk", step / 1e3);
    else
        snprintf(text, 32, "%.0f", step);
    return text;
}

/** Return whether a panel is as wide as a page. A narrower panel gets fewer numbers and smaller dots. */
static bool is_wide(const cli_panel *p)
{
    return p->axes.box.w >= 500;
}

/** Write the step number of a tick in short form (cli_step_text), or with all digits if the next tick could have
 * the same short form. */
static const char *tick_step_text(double step, double every, char text[32])
{
    if (step < 1e6 * every) return cli_step_text(step, text);
    snprintf(text, 32, "%.0f", step);
    return text;
}

void cli_panel_frame(const cli_panel *p, const char *name, bool steps)
{
    char text[32];
    const cli_axes *a = &p->axes;
    const double every = fmax(1, svg_nice_step((is_wide(p) ? 1 : 2) * (a->x1 - a->x0)));
    for (double at = ceil(a->x0 / every) * every; at <= a->x1; at += every)
        cli_axes_place(p->out, a, at, steps ? tick_step_text(at, every, text) : NULL);
    cli_axes_frame(p->out, a, name);
}

/* ---- curves ---------------------------------------------------------------------------------- */

/** The drawn points of a series. Each point covers at least one pixel of the x axis. */
typedef struct curve_points {
    curve_bucket at[CURVE_BUCKETS];
    int n, every; /* `every` is the number of buckets per point */
    /* number of points on each side of a point that enter its moving mean; 0 if the series is too short for means */
    int reach;
} curve_points;

/** Merge the buckets of a series into points. Leave out points that have neither values nor bad steps. */
static void gather_points(const cli_axes *axes, const curve_series *s, curve_points *to)
{
    to->every = 1 + s->n / (int)axes->box.w;
    to->n = 0;
    for (int i = 0; i < s->n; i += to->every) {
        curve_bucket all = {0};
        for (int j = i; j < i + to->every && j < s->n; j++) cli_curve_merge(&all, &s->bucket[j]);
        if (all.n || all.bad) to->at[to->n++] = all;
    }
    to->reach = to->n < MANY_POINTS ? 0 : to->n / 100;
}

static double value_of(const curve_points *p, int i)
{
    return p->at[i].sum / (double)p->at[i].n;
}

/** Return the value at point i of the line of least squares through the points from `first` on. Limit the result to the
 * range of the values of these points. */
static double line_at(const curve_points *p, int first, int i)
{
    double n = 0, x_mean = 0, mean = 0, xx = 0, xy = 0, low = NAN, high = NAN;
    /* Use means of means, not sums of values, because a sum of many very large values could overflow. */
    for (int j = first; j < p->n; j++) {
        if (!p->at[j].n) continue;
        n++;
        x_mean += (j - x_mean) / n;
        mean += (value_of(p, j) - mean) / n;
        cli_axes_widen(value_of(p, j), &low, &high);
    }
    for (int j = first; j < p->n; j++) {
        if (!p->at[j].n) continue;
        xx += (j - x_mean) * (j - x_mean);
        xy += (j - x_mean) * (value_of(p, j) - mean);
    }
    return n > 0 ? fmin(fmax(mean + (xx > 0 ? xy / xx * (i - x_mean) : 0), low), high) : NAN;
}

/** Return the mean of point i and of its `reach` neighbours on each side. Near the beginning use fewer neighbours, but
 * equally many on both sides, because losses fall steeply there. Near the end, where fewer neighbours would only show
 * the noise of the last steps, continue along the line through the last points. */
static double mean_at(const curve_points *p, int i, int reach)
{
    double sum = 0, n = 0;
    if (reach > i) reach = i;
    if (reach > p->n - 1 - i) return line_at(p, p->n - 1 - 2 * reach < 0 ? 0 : p->n - 1 - 2 * reach, i);
    for (int j = i - reach; j <= i + reach; j++) {
        /* Add means of points, not sums of values, because a sum of many very large values could overflow. */
        sum += p->at[j].n ? value_of(p, j) : 0;
        n += p->at[j].n ? 1 : 0;
    }
    return n > 0 ? sum / n : NAN;
}

static double point_x(const cli_axes *axes, const curve_bucket *point)
{
    return cli_axes_x(axes, point->step_sum / (double)point->n);
}

/** Draw a band behind the curve, from the lowest to the highest value of each point. */
static void draw_band(FILE *out, const cli_axes *axes, const curve_points *p, const char *color)
{
    bool pen = false;
    svg_shape_begin(out);
    for (int i = 0; i < p->n; i++) {
        const curve_bucket *at = &p->at[i];
        const double x = point_x(axes, at);
        svg_shape_point(out, &pen, x, at->n ? cli_axes_y(axes, at->low) : NAN);
        if (at->n && at->high > at->low) svg_shape_point(out, &pen, x, cli_axes_y(axes, at->high));
    }
    svg_shape_line_end(out, color, 1, NULL, 0.35, NULL);
}

static void draw_cross(FILE *out, double x, double y)
{
    svg_shape_line(out, x - 4, y - 4, x + 4, y + 4);
    svg_shape_line(out, x - 4, y + 4, x + 4, y - 4);
}

/** Draw crosses at the bottom of the panel for skipped steps, and for steps whose value is not finite. */
static void draw_bad(cli_panel *panel, const curve_series *s)
{
    double free_x = 0;
    bool begun = false;
    for (int i = 0; i < s->n; i++) {
        if (!s->bucket[i].bad) continue;
        double step = ((double)i + 0.5) * (double)s->per + 0.5, x = cli_axes_x(&panel->axes, step);
        if (x < free_x) continue;
        if (!begun) svg_shape_begin(panel->out);
        begun = true;
        draw_cross(panel->out, x, panel->axes.box.y + panel->axes.box.h - 8);
        free_x = x + 6;
    }
    if (begun) svg_shape_stroke(panel->out, BAD, 1.6);
    panel->any_bad |= begun;
}

/** Drawing style of a series. */
typedef struct curve_pen {
    const char *color, *dash; /* `dash` is NULL for a solid line */
    double width, dot;        /* `dot` is the radius of a dot */
    int dots;                 /* maximum number of points of a curve that has dots */
    bool mean;                /* whether to draw a moving mean if the curve has many points */
    const char *tip;
} curve_pen;

static void draw_series(cli_panel *panel, const curve_series *series, const curve_pen *pen)
{
    FILE *out = panel->out;
    const cli_axes *axes = &panel->axes;
    curve_points p;
    bool down = false;
    gather_points(axes, series, &p);
    const int reach = pen->mean ? p.reach : 0;
    if (reach > 0 && panel->n <= PANEL_BANDS) draw_band(out, axes, &p, pen->color);
    if (p.n) {
        svg_shape_begin(out); /* leave a gap at each point without a finite value */
        for (int i = 0; i < p.n; i++)
            svg_shape_point(out, &down, point_x(axes, &p.at[i]),
                            p.at[i].n ? cli_axes_y(axes, mean_at(&p, i, reach)) : NAN);
        svg_shape_line_end(out, pen->color, pen->width, pen->dash, 1, pen->tip);
    }
    for (int i = 0; i < p.n && p.n <= pen->dots; i++)
        if (p.at[i].n) svg_dot(out, point_x(axes, &p.at[i]), cli_axes_y(axes, mean_at(&p, i, 0)), pen->dot, pen->color);
    if (panel->quantity == CLI_LOSS) draw_bad(panel, series);
}

void cli_panel_run(cli_panel *p, int run)
{
    const bool one = p->n == 1;
    const char *color = cli_axes_color(one ? p->color : run);
    const curve_pen pen = {color,       cli_axes_dash(run), 1.8, 2.4, FEW_POINTS, cli_quantities[p->quantity].noisy,
                           p->name[run]};
    draw_series(p, &p->curve[run]->series[p->quantity], &pen);
    if (p->quantity != CLI_LOSS) return;
    const curve_pen val = {one ? cli_axes_color(1) : color,
                           one ? NULL : "1 4",
                           1.4,
                           is_wide(p) ? 4 : 3.6,
                           (is_wide(p) ? 2 : 1) * FEW_POINTS,
                           false,
                           p->name[run]};
    draw_series(p, &p->curve[run]->series[CLI_VAL], &val);
}

void cli_panel_explain(const cli_panel *panel, double x, double y)
{
    if (!panel->any_bad) return;
    svg_shape_begin(panel->out);
    draw_cross(panel->out, x + 4, y - 4);
    svg_shape_stroke(panel->out, BAD, 1.6);
    svg_text(panel->out, x + 14, y, (svg_font){.size = 12, .color = AXES_DARK}, "not finite, or nothing updated");
}

int64_t cli_panel_mean_steps(const cli_panel *panel)
{
    int64_t most = 1;
    for (int i = 0; i < panel->n; i++) {
        const curve_series *series = &panel->curve[i]->series[panel->quantity];
        curve_points p;
        gather_points(&panel->axes, series, &p);
        const int64_t steps = p.reach > 0 ? series->per * p.every * (2 * p.reach + 1) : 1;
        if (steps > most) most = steps;
    }
    return most;
}
