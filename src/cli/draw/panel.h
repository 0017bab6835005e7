/** A panel, which shows one quantity, such as the loss, over the steps of one or more runs. */
#ifndef ZR_CLI_PANEL_H
#define ZR_CLI_PANEL_H

#include "cli/draw/axes.h"
#include "cli/draw/curve.h"

/** Maximum number of runs in a panel that draws bands. A band behind the moving mean shows the range of the values. */
#define PANEL_BANDS 3

/** A panel. The caller sets all fields except `axes` and `any_bad`. */
typedef struct cli_panel {
    FILE *out;
    int quantity;            /* index into cli_quantities */
    cli_curve *const *curve; /* `n` curves, one for each run */
    const char *const *name; /* `n` names, one for each run */
    int n;
    /* colour number of the line if the panel has only one run; with several runs, each line has the number of its
     * run */
    int color;
    cli_axes axes;
    bool any_bad; /* whether any cross was drawn */
} cli_panel;

/** Set the panel's box, and fit its axes to the steps and values of all runs. */
void cli_panel_place(cli_panel *panel, svg_box box);
/** Draw the grid, the axes and their numbers. `name` is the name of the y axis, or NULL. If `steps` is set, write step
 * numbers below the panel. */
void cli_panel_frame(const cli_panel *panel, const char *name, bool steps);
/** Draw the curve of run number `run`. In a panel of the training loss, draw the validation loss too. */
void cli_panel_run(cli_panel *panel, int run);
/** Write what a cross means, if the panel has crosses. */
void cli_panel_explain(const cli_panel *panel, double x, double y);
/** Return how many steps a point of the moving mean averages: the maximum over all runs, or 1 without a moving mean. */
int64_t cli_panel_mean_steps(const cli_panel *panel);

/** Widen the range from *low to *high to include the values of a series. NAN in *low and *high is an empty range. */
void cli_series_widen(const curve_series *series, double *low, double *high);
/** Write a step number in short form, such as 20k or 1.5M, into `text`. Return `text`. */
const char *cli_step_text(double step, char text[32]);

#endif
