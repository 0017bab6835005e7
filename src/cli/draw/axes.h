/** Line colours, axes with ticks, and legend, shared by all plots. */
#ifndef ZR_CLI_AXES_H
#define ZR_CLI_AXES_H

#include "cli/draw/svg.h"

#define AXES_DARK "#1f2933"
#define AXES_GREY "#52606d"
#define AXES_GRID "#e4e8ed"
#define AXES_ROW 19.0 /* height of a row of the legend, pixels */

/** A plot area: its box on the page, and the values at the box's edges. */
typedef struct cli_axes {
    svg_box box;
    double x0, x1, y0, y1;
    bool log, log_x; /* whether the y axis and the x axis are logarithmic */
} cli_axes;

/** Widen the range from *low to *high to include `value`. If the range is empty, *low and *high are NAN. */
void cli_axes_widen(double value, double *low, double *high);
/** Set the range of the y axis to `low` to `high`, with a margin at both ends. With `may_log`, a wide range gets a
 * logarithmic scale. */
void cli_axes_range(cli_axes *axes, double low, double high, bool may_log);
double cli_axes_x(const cli_axes *axes, double x);
double cli_axes_y(const cli_axes *axes, double y);
/** Draw a vertical grid line at `x`. Unless `word` is NULL, write it below the x axis. */
void cli_axes_place(FILE *out, const cli_axes *axes, double x, const char *word);
/** Draw the x axis and the y axis, with the grid lines and numbers of the y axis. Unless `name` is NULL, write it as
 * the name of the y axis. */
void cli_axes_frame(FILE *out, const cli_axes *axes, const char *name);

/** Return the colour or the dash pattern of line number `line`. Colour-blind readers can tell the colours apart. When
 * all colours are used, they start again with another dash pattern. The dash pattern is NULL for a solid line. */
const char *cli_axes_color(int line);
const char *cli_axes_dash(int line);

#define LEGEND_MOST 40
typedef char legend_words[72];
/** A legend: the names of lines in columns that are as wide as the longest name. */
typedef struct cli_legend {
    const char *const *name; /* (n) */
    legend_words *behind;    /* (shown) words to write after each name, or NULL */
    int n, shown, columns, rows;
    double name_width, width, height; /* sizes in pixels; `height` is the height of all rows together */
} cli_legend;
/** Lay out a legend of `n` lines in `width` pixels. `behind` is the number of pixels to leave free after each name. */
cli_legend cli_legend_of(const char *const *name, int n, double width, double behind);
void cli_legend_draw(FILE *out, const cli_legend *legend, double x, double y);
/** Draw a short sample of a line for the legend. If `dot`, draw a dot in its middle. */
void cli_legend_line(FILE *out, double x, double y, const char *color, const char *dash, bool dot);

#endif
