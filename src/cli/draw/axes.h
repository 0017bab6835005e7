/** Line colours, axes and legends of all plots. */
#ifndef ZR_CLI_AXES_H
#define ZR_CLI_AXES_H

#include "cli/draw/svg.h"

#define AXES_DARK "#1f2933"
#define AXES_GREY "#52606d"
#define AXES_GRID "#e4e8ed"
#define AXES_ROW 19.0 /* height of a legend row, pixels */

/** The area of a plot: its box on the page, and the values of x and y at the edges of the box. */
typedef struct cli_axes {
    svg_box box;
    double x0, x1, y0, y1;
    bool log, log_x; /* `log`: whether the y axis is logarithmic; `log_x`: whether the x axis is logarithmic */
} cli_axes;

/** Widen the range from *low to *high to include `value`. NAN in *low and *high is an empty range. */
void cli_axes_widen(double value, double *low, double *high);
/** Set the y axis to the range from `low` to `high`, with a margin at both ends. If `may_log` is set, `low` is positive
 * and `high` is more than 12 times `low`, make the axis logarithmic. Otherwise make it linear. */
void cli_axes_range(cli_axes *axes, double low, double high, bool may_log);
double cli_axes_x(const cli_axes *axes, double x);
double cli_axes_y(const cli_axes *axes, double y);
/** Draw a vertical grid line at `x`. Unless `word` is NULL, write `word` at the lower end of the line. */
void cli_axes_place(FILE *out, const cli_axes *axes, double x, const char *word);
/** Draw the x axis, and the y axis with its grid lines and numbers. Unless `name` is NULL, write `name` beside the y
 * axis. */
void cli_axes_frame(FILE *out, const cli_axes *axes, const char *name);

/** Return the colour or the dash pattern of plot line `line`, counted from 0. Colour-blind readers can tell the colours
 * apart. After the last colour, the first colour is used again with another dash pattern. The pattern is NULL for a
 * solid line. */
const char *cli_axes_color(int line);
const char *cli_axes_dash(int line);

#define LEGEND_MOST 40
typedef char legend_words[72];
/** A legend: the names of plot lines in columns. Each column is as wide as the longest name. */
typedef struct cli_legend {
    const char *const *name; /* `n` names */
    legend_words *behind;    /* words after each of the first `shown` names, such as the last loss, or NULL */
    int n, shown, columns, rows;
    double name_width, width, height; /* sizes in pixels; `width`: a column's width; `height`: the legend's height */
} cli_legend;
/** Lay out a legend for `n` plot lines in `width` pixels. Leave `behind` pixels free after each name. */
cli_legend cli_legend_of(const char *const *name, int n, double width, double behind);
void cli_legend_draw(FILE *out, const cli_legend *legend, double x, double y);
/** Draw a short sample of a plot line for the legend. If `dot`, draw a dot in its middle. */
void cli_legend_line(FILE *out, double x, double y, const char *color, const char *dash, bool dot);

#endif
