/** A plot of several lines over the same places of one axis. */
#ifndef ZR_CLI_LINES_H
#define ZR_CLI_LINES_H

#include "zr/base.h"

/** Lines and their axes. The x axis is a scale if all its words are numbers, otherwise evenly spaced places. */
typedef struct cli_lines {
    const char *title, *x_name, *y_name;
    const char *const *x; /* (n_x) words below the axis */
    int n_x;
    bool log_x;              /* a logarithmic scale, also for a narrow range */
    bool from_zero;          /* values are drawn from zero on, also for a wide range */
    const char *const *name; /* (n) names of the lines; a single line needs no name */
    int n;
    const double *y;    /* (n, n_x), NaN: no value */
    const bool *hollow; /* (n, n_x), whether a value's dot is hollow */
    const char *hollow_words;
} cli_lines;

/** Draw as one page of SVG into a file, which must not be one of `inputs` (zr__output_open). ZR_ERR_MEMORY,
 * ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status cli_lines_write(const cli_lines *lines, const char *path, const char *const *inputs);

#endif
