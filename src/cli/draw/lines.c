#include "cli/draw/lines.h"

#include "base/core/scope.h"
#include "cli/draw/axes.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>

#define PAGE_WIDTH 800.0
#define LEFT 88.0
#define PLOT_WIDTH 690.0
#define PLOT_HEIGHT 380.0
#define LOG_FROM 8.0 /* minimum ratio of the largest x to the smallest x for a logarithmic x axis */

typedef struct lines_page {
    FILE *out;
    const cli_lines *lines;
    double *x;   /* `n_x` x values */
    int *sorted; /* indices of the `n_x` x values, sorted from the smallest to the largest value */
    cli_axes axes;
} lines_page;

/* ---- places ------------------------------------------------------------------------------------- */

/** Set the x values, and sort them. If all words below the x axis are numbers, use these numbers. Otherwise use the
 * indices 0, 1, 2 ... of the words. Return whether all words are numbers. */
static bool find_places(lines_page *g)
{
    bool numbers = true;
    for (int i = 0; i < g->lines->n_x; i++) {
        char *end = NULL;
        g->x[i] = strtod(g->lines->x[i], &end);
        numbers &= end != g->lines->x[i] && !*end && isfinite(g->x[i]);
    }
    for (int i = 0; !numbers && i < g->lines->n_x; i++) g->x[i] = i;
    for (int i = 0; i < g->lines->n_x; i++) { /* insertion sort */
        int at = i;
        for (; at > 0 && g->x[g->sorted[at - 1]] > g->x[i]; at--) g->sorted[at] = g->sorted[at - 1];
        g->sorted[at] = i;
    }
    return numbers;
}

/** Set the range of the x axis. Add a margin at both ends, so that no dot lies on the y axis. */
static void set_x(lines_page *g, bool numbers)
{
    const int n = g->lines->n_x;
    const double low = g->x[g->sorted[0]], high = g->x[g->sorted[n - 1]];
    g->axes.log_x = numbers && low > 0 && (g->lines->log_x || high / low >= LOG_FROM);
    if (g->axes.log_x) {
        const double room = high > low ? pow(high / low, 0.04) : 2;
        g->axes.x0 = low / room;
        g->axes.x1 = high * room;
        return;
    }
    const double room = high > low ? 0.04 * (high - low) : 1;
    g->axes.x0 = low - room;
    g->axes.x1 = high + room;
}

static void set_y(lines_page *g)
{
    double low = NAN, high = NAN;
    for (int i = 0; i < g->lines->n * g->lines->n_x; i++)
        if (isfinite(g->lines->y[i])) cli_axes_widen(g->lines->y[i], &low, &high);
    /* Prefer a y axis that begins at 0, because readers can then compare heights as lengths. */
    cli_axes_range(&g->axes, low > 0 && high / low <= 12 ? 0 : low, high, true);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

/** Draw the words below the x axis. Leave out a word that would overlap the previous word. */
static void draw_places(const lines_page *g)
{
    double free_x = 0;
    for (int k = 0; k < g->lines->n_x; k++) {
        const int i = g->sorted[k];
        char word[SVG_TEXT_BYTES];
        const char *shown = svg_text_fit(g->lines->x[i], 12, PLOT_WIDTH / 4, word);
        const double half = svg_text_width(shown, 12) / 2, x = cli_axes_x(&g->axes, g->x[i]);
        const bool room = x - half >= free_x;
        cli_axes_place(g->out, &g->axes, g->x[i], room ? shown : NULL);
        if (room) free_x = x + half + 6;
    }
}

static bool is_covered(const lines_page *g, int line, int by)
{
    const double *mine = &g->lines->y[line * g->lines->n_x], *its = &g->lines->y[by * g->lines->n_x];
    bool any = false;
    for (int i = 0; i < g->lines->n_x; i++) {
        if (!isfinite(mine[i])) continue;
        if (!isfinite(its[i]) || fabs(cli_axes_y(&g->axes, mine[i]) - cli_axes_y(&g->axes, its[i])) > 1.5) return false;
        any = true;
    }
    return any;
}

/** Return the extra width of a line, in pixels. A line that later lines cover is drawn wider, so that its edges stay
 * visible. */
static double extra_width(const lines_page *g, int line)
{
    int n = 0;
    for (int i = line + 1; i < g->lines->n; i++) n += is_covered(g, line, i);
    return 3.0 * (n < 5 ? n : 5);
}

/** Draw a line, with a gap at each missing value. */
static void draw_line(const lines_page *g, int line)
{
    const double *y = &g->lines->y[line * g->lines->n_x];
    bool pen = false;
    svg_shape_begin(g->out);
    for (int k = 0; k < g->lines->n_x; k++) {
        const int i = g->sorted[k];
        svg_shape_point(g->out, &pen, cli_axes_x(&g->axes, g->x[i]), isfinite(y[i]) ? cli_axes_y(&g->axes, y[i]) : NAN);
    }
    svg_shape_line_end(g->out, cli_axes_color(line), 1.8 + extra_width(g, line), cli_axes_dash(line), 1,
                       g->lines->n > 1 ? g->lines->name[line] : NULL);
}

static void draw_dot(FILE *out, double x, double y, double radius, const char *color, bool hollow)
{
    svg_dot(out, x, y, hollow ? radius + 0.8 : radius, color);
    if (hollow) svg_dot(out, x, y, radius - 0.8, "#ffffff");
}

/** Draw the dots of a line. Return whether any dot is hollow. */
static bool draw_dots(const lines_page *g, int line)
{
    const double radius = 3.4 + 0.5 * extra_width(g, line);
    bool any = false;
    for (int i = 0; i < g->lines->n_x; i++) {
        const int at = line * g->lines->n_x + i;
        if (!isfinite(g->lines->y[at])) continue;
        draw_dot(g->out, cli_axes_x(&g->axes, g->x[i]), cli_axes_y(&g->axes, g->lines->y[at]), radius,
                 cli_axes_color(line), g->lines->hollow[at]);
        any |= g->lines->hollow[at];
    }
    return any;
}

static zr_status draw_lines_page(FILE *out, void *arg)
{
    lines_page *g = arg;
    const cli_lines *lines = g->lines;
    const cli_legend legend = cli_legend_of(lines->name, lines->n, PLOT_WIDTH, 18);
    const double legend_y = 58, top = lines->n > 1 ? legend_y + legend.height : 52, bottom = top + PLOT_HEIGHT;
    char title[SVG_TEXT_BYTES];
    bool hollow = false;
    g->out = out;
    g->axes.box = (svg_box){LEFT, top, PLOT_WIDTH, PLOT_HEIGHT};
    set_x(g, find_places(g));
    set_y(g);
    svg_begin(out, PAGE_WIDTH, bottom + 76, lines->title);
    svg_text(out, LEFT, 32, (svg_font){.size = 17, .color = AXES_DARK, .bold = true}, "%s",
             svg_text_fit(lines->title, 17, PLOT_WIDTH, title));
    if (lines->n > 1) cli_legend_draw(out, &legend, LEFT, legend_y);
    draw_places(g);
    cli_axes_frame(out, &g->axes, lines->y_name);
    for (int i = 0; i < lines->n; i++) draw_line(g, i);
    for (int i = 0; i < lines->n; i++) hollow |= draw_dots(g, i);
    svg_text(out, LEFT + PLOT_WIDTH / 2, bottom + 40, (svg_font){.size = 13, .color = AXES_DARK, .anchor = SVG_MIDDLE},
             "%s", lines->x_name);
    if (hollow) {
        draw_dot(out, LEFT + 4, bottom + 60, 3.4, AXES_DARK, true);
        svg_text(out, LEFT + 14, bottom + 64, (svg_font){.size = 12, .color = AXES_DARK}, "%s", lines->hollow_words);
    }
    svg_end(out);
    return ZR_OK;
}

zr_status cli_lines_write(const cli_lines *lines, const char *path, const char *const *inputs)
{
    ZR_AUTO_FREE double *x = zr_alloc((size_t)lines->n_x * sizeof(*x));
    ZR_AUTO_FREE int *sorted = zr_alloc((size_t)lines->n_x * sizeof(*sorted));
    lines_page g = {.lines = lines, .x = x, .sorted = sorted};
    ZR_CHECK(x && sorted, ZR_ERR_MEMORY, "no memory to draw");
    return svg_write(draw_lines_page, &g, path, inputs);
}
