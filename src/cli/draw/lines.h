/** A plot of several lines over the same places of one axis. */
#ifndef ZR_CLI_LINES_H
#define ZR_CLI_LINES_H

#include "zr/base.h"

/** The axis has a scale where all its words are numbers, and places side by side where one is not. */
typedef struct cli_lines {
    const char *title, *x_name, *y_name;
    const char *const *x; /* (n_x) words below the axis */
    int n_x;
    bool log_x;              /* a scale of powers, also for a narrow range */
    bool from_zero;          /* values are drawn from nothing on, also for a wide range */
    const char *const *name; /* (n) of each line; one line needs none */
    int n;
    const double *y;    /* (n, n_x), NaN: nothing is there */
    const bool *hollow; /* (n, n_x) its dot is */
    const char *hollow_words;
} cli_lines;

/** Draw as one page of SVG, which the caller frees (free). ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_lines_draw(const cli_lines *lines, char **svg, size_t *bytes);

#endif
