/** The palette of lines, the axes of a plot with their ticks, and its legend, for all plots. */
#ifndef ZR_CLI_AXES_H
#define ZR_CLI_AXES_H

#include "cli/draw/svg.h"

#define AXES_DARK "#1f2933"
#define AXES_GREY "#52606d"
#define AXES_GRID "#e4e8ed"
#define AXES_ROW 19.0 /* height of a legend row, pixels */

/** A plot area: its place on the page, and the values at its edges. */
typedef struct cli_axes {
    svg_box box;
    double x0, x1, y0, y1;
    bool log, log_x; /* logarithmic scales */
} cli_axes;

/** Stretch a range (NAN: nothing yet) to a value. */
void cli_axes_widen(double value, double *low, double *high);
/** Set the y range: some room beyond the lowest and the highest value, and with `may_log` a logarithmic scale for a
 * wide range. */
void cli_axes_range(cli_axes *axes, double low, double high, bool may_log);
double cli_axes_x(const cli_axes *axes, double x);
double cli_axes_y(const cli_axes *axes, double y);
/** Draw a grid line at a place of the x axis, and a word below it (NULL: none). */
void cli_axes_place(FILE *out, const cli_axes *axes, double x, const char *word);
/** Draw the grid lines and numbers of the y axis, the two axes, and the name of the y axis (NULL: none). */
void cli_axes_frame(FILE *out, const cli_axes *axes, const char *name);

/** Return the colour and the dash of a line: colours that the colour-blind can tell apart, and dashes (NULL: solid)
 * once the colours are used up. */
const char *cli_axes_color(int line);
const char *cli_axes_dash(int line);

#define LEGEND_MOST 40
typedef char legend_words[72];
/** A legend: columns of names, as wide as the longest name. */
typedef struct cli_legend {
    const char *const *name; /* (n) */
    legend_words *behind;    /* (shown) words after each name; NULL: none */
    int n, shown, columns, rows;
    double name_width, width, height; /* pixels; height: all rows */
} cli_legend;
/** Lay out a legend of lines 0 to n. `behind`: room after each name, pixels. */
cli_legend cli_legend_of(const char *const *name, int n, double width, double behind);
void cli_legend_draw(FILE *out, const cli_legend *legend, double x, double y);
/** Draw a sample of a line, with `dot` also a dot in its middle. */
void cli_legend_line(FILE *out, double x, double y, const char *color, const char *dash, bool dot);

#endif
