#include "cli/draw/panel.h"

#include <math.h>

#define BAD "#b3261e"
#define MANY_POINTS 200 /* number of points from which a mean is drawn */

/* ---- axes ------------------------------------------------------------------------------------ */

void cli_panel_widen(const curve_series *s, double *low, double *high)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->bucket[i].n) continue;
        if (!(*low <= s->bucket[i].low)) *low = s->bucket[i].low;
        if (!(*high >= s->bucket[i].high)) *high = s->bucket[i].high;
    }
}

void cli_panel_steps(cli_axes *axes, cli_curve *const *curve, int n)
{
    int64_t first = INT64_MAX, last = 2;
    for (int i = 0; i < n; i++) {
        const cli_curve *c = curve[i];
        if (c->first_step && c->first_step < first) first = c->first_step;
        if (c->last_step > last) last = c->last_step;
    }
    axes->x0 = first < INT64_MAX && first > last / 10 && first > 1 ? (double)(first - 1) : 0;
    axes->x1 = (double)last;
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

static void draw_steps(FILE *out, const cli_axes *p, bool names)
{
    char text[32];
    double every = svg_nice_step((p->box.w < 500 ? 2 : 1) * (p->x1 - p->x0));
    if (every < 1) every = 1;
    for (double at = ceil(p->x0 / every) * every; at <= p->x1; at += every) {
        cli_axes_place(out, p, at, names ? cli_step_text(at, text) : NULL);
    }
}

void cli_panel_frame(const cli_panel *p, const char *name, bool steps)
{
    draw_steps(p->out, &p->axes, steps);
    cli_axes_values(p->out, &p->axes);
    cli_axes_frame(p->out, &p->axes, name);
}

/* ---- curves ---------------------------------------------------------------------------------- */

/** Return the number of buckets that are merged into a point. */
static int every_of(const cli_axes *axes, const curve_series *s)
{
    return 1 + s->n / (int)axes->box.w;
}

/** Gather the buckets of a series that have values or bad steps, merged to at most one point a pixel. */
static void gather(const cli_axes *axes, const curve_series *s, cli_points *to)
{
    int every = every_of(axes, s);
    to->n = 0;
    for (int i = 0; i < s->n; i += every) {
        curve_bucket all = {0};
        for (int j = i; j < i + every && j < s->n; j++) cli_curve_merge(&all, &s->bucket[j]);
        if (all.n || all.bad) to->at[to->n++] = all;
    }
}

/** Return the number of points on either side that are averaged, 0 for a short run. */
static int reach_of(const cli_points *p)
{
    return p->n < MANY_POINTS ? 0 : p->n / 100;
}

/** Average the points around point i, equally many to its left and right so that the ends stay in place. */
static double mean_at(const cli_points *p, int i, int reach)
{
    double sum = 0, n = 0;
    if (reach > i) reach = i;
    if (reach > p->n - 1 - i) reach = p->n - 1 - i;
    for (int j = i - reach; j <= i + reach; j++) {
        /* Average point by point: a sum over all steps could overflow for very large values. */
        sum += p->at[j].n ? p->at[j].sum / (double)p->at[j].n : 0;
        n += p->at[j].n ? 1 : 0;
    }
    return n > 0 ? sum / n : NAN;
}

static double x_at(const cli_axes *axes, const cli_points *p, int i)
{
    return cli_axes_x(axes, p->at[i].step_sum / (double)p->at[i].n);
}

/** Draw through the points: their means or, with BAND for `reach`, each point from its lowest to its highest value. The
 * line is broken where there is no finite value. */
enum { BAND = -1 };
static void draw_through(FILE *out, const cli_axes *axes, const cli_points *p, int reach)
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

static void draw_band(FILE *out, const cli_axes *axes, const cli_points *p, const char *color)
{
    draw_through(out, axes, p, BAND);
    svg_shape_line_end(out, color, 1, NULL, 0.35, NULL);
}

static void draw_line(FILE *out, const cli_axes *axes, const cli_points *p, int reach, const char *color,
                      const char *dash, double width, const char *tip)
{
    draw_through(out, axes, p, reach);
    svg_shape_line_end(out, color, width, dash, 1, tip);
}

static void draw_dots(FILE *out, const cli_axes *axes, const cli_points *p, const char *color, double radius)
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

/** Draw crosses at the foot for steps that updated nothing or were not finite. */
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

void cli_panel_draw(cli_panel *panel, const curve_series *series, const cli_pen *pen)
{
    cli_points *p = panel->points;
    gather(&panel->axes, series, p);
    int reach = pen->mean ? reach_of(p) : 0;
    if (reach > 0 && pen->band) draw_band(panel->out, &panel->axes, p, pen->color);
    if (p->n) draw_line(panel->out, &panel->axes, p, reach, pen->color, pen->dash, pen->width, pen->tip);
    if (p->n <= pen->dots) draw_dots(panel->out, &panel->axes, p, pen->color, pen->dot);
    if (pen->crosses) draw_bad(panel, series);
}

void cli_panel_explain(const cli_panel *panel, double x, double y)
{
    if (!panel->any_bad) return;
    svg_shape_begin(panel->out);
    draw_cross(panel->out, x + 4, y - 4);
    svg_shape_stroke(panel->out, BAD, 1.6);
    svg_text(panel->out, x + 14, y, (svg_font){.size = 12, .color = AXES_DARK}, "not finite, or nothing updated");
}

int64_t cli_panel_mean_steps(const cli_panel *panel, const curve_series *series)
{
    gather(&panel->axes, series, panel->points);
    int reach = reach_of(panel->points);
    return reach > 0 ? series->per * every_of(&panel->axes, series) * (2 * reach + 1) : 1;
}
