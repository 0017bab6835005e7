/** A panel of curves: one quantity of one or several runs over the steps, with its own axes. */
#ifndef ZR_CLI_PANEL_H
#define ZR_CLI_PANEL_H

#include "cli/draw/axes.h"
#include "cli/draw/curve.h"

/** Maximum number of runs for which the range of the steps' values is drawn as a band behind the mean. */
#define PANEL_BANDS 3

/** A panel. The caller sets every field except `axes` and `any_bad`. */
typedef struct cli_panel {
    FILE *out;
    int quantity;            /* index into cli_quantities */
    cli_curve *const *curve; /* (n) */
    const char *const *name; /* (n) */
    int n;
    int color; /* colour number of the line if there is only one run */
    cli_axes axes;
    bool any_bad; /* whether any cross was drawn */
} cli_panel;

/** Set the panel's box, and fit the axes to the steps and values of all runs. */
void cli_panel_place(cli_panel *panel, svg_box box);
/** Draw the grid, numbers and axes. `name` is the name of the y axis, or NULL. If `steps`, write step numbers below
 * the panel. */
void cli_panel_frame(const cli_panel *panel, const char *name, bool steps);
/** Draw the curve of a run. If the panel shows the training loss, draw the run's validation loss too. */
void cli_panel_run(cli_panel *panel, int run);
/** Explain the crosses, if the panel has any. */
void cli_panel_explain(const cli_panel *panel, double x, double y);
/** Return the number of steps that a point of the moving mean averages: the maximum over all runs, or 1 if no mean is
 * drawn. */
int64_t cli_panel_mean_steps(const cli_panel *panel);

/** Widen the range from *low to *high to include the values of a series. If the range is empty, *low and *high are
 * NAN. */
void cli_series_widen(const curve_series *series, double *low, double *high);
/** Write a step number in short form, such as 20k or 1.5M, into `text`. Return `text`. */
const char *cli_step_text(double step, char text[32]);

#endif
