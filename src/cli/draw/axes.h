/** Line colours, axes with ticks, and legend, shared by all plots. */
#ifndef ZR_CLI_AXES_H
#define ZR_CLI_AXES_H

#include "cli/draw/svg.h"

#define AXES_DARK "#1f2933"
#define AXES_GREY "#52606d"
#define AXES_GRID "#e4e8ed"
#define AXES_ROW 19.0 /* height of a legend row, pixels */

/** A plot area: its box on the page, and the values at its edges. */
typedef struct cli_axes {
    svg_box box;
    double x0, x1, y0, y1;
    bool log, log_x; /* whether the y axis and the x axis are logarithmic */
} cli_axes;

/** Widen the range from *low to *high to include `value`. An empty range is NAN to NAN. */
void cli_axes_widen(double value, double *low, double *high);
/** Set the y range with a margin below the lowest and above the highest value. With `may_log` a wide range gets a
 * logarithmic scale. */
void cli_axes_range(cli_axes *axes, double low, double high, bool may_log);
double cli_axes_x(const cli_axes *axes, double x);
double cli_axes_y(const cli_axes *axes, double y);
/** Draw a vertical grid line at `x` and, unless `word` is NULL, the word below the x axis. */
void cli_axes_place(FILE *out, const cli_axes *axes, double x, const char *word);
/** Draw the grid lines and numbers of the y axis, the two axes and, unless `name` is NULL, the name of the y axis. */
void cli_axes_frame(FILE *out, const cli_axes *axes, const char *name);

/** Return the colour and the dash pattern of a line, given its number. Colour-blind readers can tell the colours apart.
 * The dash pattern is NULL for a solid line; it changes each time the colours start again. */
const char *cli_axes_color(int line);
const char *cli_axes_dash(int line);

#define LEGEND_MOST 40
typedef char legend_words[72];
/** A legend: names of lines in columns, each column as wide as the longest name. */
typedef struct cli_legend {
    const char *const *name; /* (n) */
    legend_words *behind;    /* (shown) words after each name, or NULL */
    int n, shown, columns, rows;
    double name_width, width, height; /* pixels; `height` is the height of all rows */
} cli_legend;
/** Lay out a legend of `n` lines in `width` pixels. `behind` is the space after each name, pixels. */
cli_legend cli_legend_of(const char *const *name, int n, double width, double behind);
void cli_legend_draw(FILE *out, const cli_legend *legend, double x, double y);
/** Draw a sample of a line, with a dot in its middle if `dot`. */
void cli_legend_line(FILE *out, double x, double y, const char *color, const char *dash, bool dot);

#endif
