/** The axes of a plot, and the lines of its legend. */
#ifndef ZR_CLI_AXES_H
#define ZR_CLI_AXES_H

#include "cli/draw/svg.h"

#define AXES_DARK "#1f2933"
#define AXES_GREY "#52606d"
#define AXES_GRID "#e4e8ed"
#define AXES_ROW 19.0 /* of the legend */

/** A part of the page: where it is, and which values its edges are. */
typedef struct cli_axes {
    svg_box box;
    double x0, x1, y0, y1;
    bool log, log_x; /* scales of powers */
} cli_axes;

/** Which values the lower and the upper edge are: room around what is there, and a scale of powers where a linear one
 *  would show a single bend. */
void cli_axes_range(cli_axes *axes, double low, double high, bool may_log);
double cli_axes_x(const cli_axes *axes, double x);
double cli_axes_y(const cli_axes *axes, double y);
/** Grid lines and numbers of the values. */
void cli_axes_values(FILE *out, const cli_axes *axes);
/** A grid line at a place of the x axis, and a word below it (NULL: none). */
void cli_axes_place(FILE *out, const cli_axes *axes, double x, const char *word);
/** The two axes and the name of the values (NULL: none). */
void cli_axes_frame(FILE *out, const cli_axes *axes, const char *name);

/** Of line i: told apart by the colour-blind as well, the dash (NULL: whole) once the colours are used up. */
const char *cli_axes_color(int line);
const char *cli_axes_dash(int line);

/** Columns of names, as wide as the longest needs. */
typedef struct cli_legend {
    double name_width, width;
    int columns, rows, shown;
} cli_legend;
/** `behind`: room behind each name. */
cli_legend cli_legend_of(const char *const *name, int n, double width, double behind);
/** A line as it looks, and in its middle a dot. */
void cli_axes_swatch(FILE *out, double x, double y, const char *color, const char *dash, bool dot);

#endif
