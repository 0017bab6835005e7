/** A plot of several lines over the same x values. */
#ifndef ZR_CLI_LINES_H
#define ZR_CLI_LINES_H

#include "zr/base.h"

/** The lines and axes of a plot. If all words in `x` are numbers, the words are placed at their values. Otherwise they
 * are evenly spaced. */
typedef struct cli_lines {
    const char *title, *x_name, *y_name;
    const char *const *x; /* `n_x` words below the x axis */
    int n_x;
    bool log_x;              /* whether the x axis is logarithmic even for a narrow range */
    const char *const *name; /* `n` names of the lines; not shown for a single line */
    int n;
    const double *y;    /* n * n_x values, line by line; NAN for a missing value */
    const bool *hollow; /* for each value: whether its dot is drawn hollow */
    const char *hollow_words;
} cli_lines;

/** Draw one page of SVG into the file `path`, which must not be one of `inputs` (see zr__output_open). Return
 * ZR_ERR_MEMORY, ZR_ERR_CREATE or ZR_ERR_IO on failure. */
ZR_NODISCARD zr_status cli_lines_write(const cli_lines *lines, const char *path, const char *const *inputs);

#endif
