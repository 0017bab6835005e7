/** A panel of curves: one quantity of runs over their steps, with its own axes. */
#ifndef ZR_CLI_PANEL_H
#define ZR_CLI_PANEL_H

#include "cli/draw/axes.h"
#include "cli/draw/curve.h"

/** Most runs for which bands of the single steps are drawn behind the means. */
#define PANEL_BANDS 3

/** A panel. The caller sets every field except `axes` and `any_bad`. */
typedef struct cli_panel {
    FILE *out;
    int quantity;            /* index into cli_quantities */
    cli_curve *const *curve; /* (n) */
    const char *const *name; /* (n) */
    int n;
    int color; /* number of the line's colour if there is only one run */
    cli_axes axes;
    bool any_bad; /* whether a cross was drawn */
} cli_panel;

/** Set the panel's box, and fit its axes to the steps and values of all runs. */
void cli_panel_place(cli_panel *panel, svg_box box);
/** Draw grid, numbers and axes. `name` is the name of the y axis, or NULL. `steps` tells whether to write step numbers
 * below the panel. */
void cli_panel_frame(const cli_panel *panel, const char *name, bool steps);
/** Draw the curve of a run. In a panel of the training loss, draw the run's validation loss too. */
void cli_panel_run(cli_panel *panel, int run);
/** Explain the crosses if any were drawn. */
void cli_panel_explain(const cli_panel *panel, double x, double y);
/** Return the number of steps that are averaged into a point of the mean, the largest of all runs, or 1 if no mean is
 * drawn. */
int64_t cli_panel_mean_steps(const cli_panel *panel);

/** Widen the range from *low to *high to include the values of a series. An empty range is NAN to NAN. */
void cli_series_widen(const curve_series *series, double *low, double *high);
/** Write a step's number in short form, such as 20k or 1.5M, into `text`. Return `text`. */
const char *cli_step_text(double step, char text[32]);

#endif
