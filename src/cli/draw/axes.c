#include "cli/draw/axes.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* Colours of plot lines that colour-blind readers can tell apart: the palette of Okabe and Ito without yellow. */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
enum { COLORS = sizeof(colors) / sizeof(colors[0]) };
static const char *const dashes[] = {NULL, "7 4", "2 3"};
enum { DASHES = sizeof(dashes) / sizeof(dashes[0]) };

const char *cli_axes_color(int line)
{
    return colors[line % COLORS];
}

const char *cli_axes_dash(int line)
{
    return dashes[line / COLORS % DASHES];
}

void cli_axes_widen(double value, double *low, double *high)
{
    if (!(*low <= value)) *low = value;
    if (!(*high >= value)) *high = value;
}

void cli_axes_range(cli_axes *p, double low, double high, bool may_log)
{
    if (!(high >= low)) low = 0, high = 1;
    low = fmax(low, -1e300);
    high = high < 1e300 ? high : 1e300;
    p->log = may_log && low > 1e-300 && high / low > 12;
    if (p->log) {
        double room = pow(high / low, 0.05);
        p->y0 = low / room;
        p->y1 = high * room;
        return;
    }
    double size = fmax(fabs(low), fabs(high)), room = 0.05 * (high - low);
    if (room <= 1e-7 * size) room = size > 0 ? 0.1 * size : 1;
    p->y0 = low >= 0 ? fmax(low - room, 0) : low - room;
    p->y1 = high + room;
}

/** Return the position of `value` on an axis as a fraction of the axis's length: 0 at `from`, 1 at `to`. */
static double axis_part(double value, double from, double to, bool is_log)
{
    return is_log ? log(value / from) / log(to / from) : (value - from) / (to - from);
}

double cli_axes_x(const cli_axes *p, double x)
{
    return p->box.x + p->box.w * axis_part(x, p->x0, p->x1, p->log_x);
}

double cli_axes_y(const cli_axes *p, double value)
{
    return p->box.y + p->box.h * (1 - axis_part(value, p->y0, p->y1, p->log));
}

/** Write the number of a tick with the fewest digits that tell it from ticks at a distance of `step`, and with a short
 * exponent: 5e-5 instead of 5e-05. Return `text`. */
static const char *tick_text(double value, double step, char text[32])
{
    const double size = fabs(value), digits = size > 0 ? ceil(log10(size / step) + 1e-9) + 1 : 1;
    snprintf(text, 32, "%.*g", digits < 6 ? 6 : digits < 15 ? (int)digits : 15, value == 0 ? 0 : value); /* 0, not -0 */
    char *e = strchr(text, 'e'), *to = e ? e + 1 : NULL;
    if (!e) return text;
    if (*to == '-') to++;
    const char *from = e + 2;
    while (*from == '0') from++;
    memmove(to, from, strlen(from) + 1);
    return text;
}

static void draw_tick(FILE *out, const cli_axes *p, double value, double step)
{
    double y = cli_axes_y(p, value);
    if (y < p->box.y - 0.5 || y > p->box.y + p->box.h + 0.5) return;
    svg_line(out, p->box.x, y, p->box.x + p->box.w, y, AXES_GRID, 1);
    svg_text(out, p->box.x - 8, y + 4, (svg_font){.size = 12, .color = AXES_DARK, .anchor = SVG_END}, "%s",
             tick_text(value, step, (char[32]){0}));
}

static void draw_ticks(FILE *out, const cli_axes *p)
{
    if (!p->log) {
        double step = svg_nice_step((p->box.h < 200 ? 2 : 1) * (p->y1 - p->y0));
        double first = ceil(p->y0 / step), last = floor(p->y1 / step);
        for (double k = first; k <= last && k - first < 50; k++) draw_tick(out, p, k * step, step);
        return;
    }
    double decades = log10(p->y1 / p->y0);
    int every = (int)(decades / 8) + 1;
    for (int d = (int)floor(log10(p->y0)); d <= (int)ceil(log10(p->y1)); d++) {
        const double power = pow(10, d);
        if (d % every != 0) continue;
        draw_tick(out, p, power, power);
        if (decades > 3) continue;
        draw_tick(out, p, 2 * power, power);
        draw_tick(out, p, 5 * power, power);
    }
}

void cli_axes_place(FILE *out, const cli_axes *p, double x, const char *word)
{
    const double at = cli_axes_x(p, x), bottom = p->box.y + p->box.h;
    svg_line(out, at, p->box.y, at, bottom, AXES_GRID, 1);
    if (!word) return;
    svg_line(out, at, bottom, at, bottom + 5, AXES_GREY, 1);
    svg_text(out, at, bottom + 19, (svg_font){.size = 12, .color = AXES_DARK, .anchor = SVG_MIDDLE}, "%s", word);
}

void cli_axes_frame(FILE *out, const cli_axes *p, const char *name)
{
    draw_ticks(out, p);
    svg_line(out, p->box.x, p->box.y, p->box.x, p->box.y + p->box.h, AXES_GREY, 1);
    svg_line(out, p->box.x, p->box.y + p->box.h, p->box.x + p->box.w, p->box.y + p->box.h, AXES_GREY, 1);
    const svg_font font = {.size = 13, .color = AXES_DARK, .anchor = SVG_MIDDLE, .up = true};
    if (name) svg_text(out, 22, p->box.y + p->box.h / 2, font, "%s", name);
}

/* ---- legend ---------------------------------------------------------------------------------- */

cli_legend cli_legend_of(const char *const *name, int n, double width, double behind)
{
    cli_legend l = {.name = name, .n = n, .shown = n < LEGEND_MOST ? n : LEGEND_MOST};
    for (int i = 0; i < l.shown; i++) l.name_width = fmax(l.name_width, svg_text_width(name[i], 13));
    if (l.name_width > 560) l.name_width = 560;
    l.width = 33 + l.name_width + behind;
    l.columns = (int)(width / l.width);
    if (l.columns < 1) l.columns = 1;
    l.rows = (l.shown + l.columns - 1) / l.columns;
    l.height = AXES_ROW * (l.rows + (n > l.shown));
    return l;
}

void cli_legend_line(FILE *out, double x, double y, const char *color, const char *dash, bool dot)
{
    bool pen = false;
    svg_shape_begin(out);
    svg_shape_point(out, &pen, x, y - 4);
    svg_shape_point(out, &pen, x + 26, y - 4);
    svg_shape_line_end(out, color, 2.2, dash, 1, NULL);
    if (dot) svg_dot(out, x + 13, y - 4, 4, color);
}

void cli_legend_draw(FILE *out, const cli_legend *l, double x, double y)
{
    static const svg_font grey = {.size = 12, .color = AXES_GREY};
    char name[SVG_TEXT_BYTES];
    for (int i = 0; i < l->shown; i++) {
        const double left = x + l->width * (i / l->rows), at = y + AXES_ROW * (i % l->rows);
        cli_legend_line(out, left, at, cli_axes_color(i), cli_axes_dash(i), false);
        svg_text(out, left + 33, at, (svg_font){.size = 13, .color = AXES_DARK}, "%s",
                 svg_text_fit(l->name[i], 13, l->name_width, name));
        if (l->behind) svg_text(out, left + 33 + l->name_width + 8, at, grey, "%s", l->behind[i]);
    }
    if (l->n > l->shown) svg_text(out, x, y + AXES_ROW * l->rows, grey, "and %d more", l->n - l->shown);
}
