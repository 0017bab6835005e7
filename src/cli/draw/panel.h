/** A panel of curves: one quantity of runs over their steps, with its own axes. */
#ifndef ZR_CLI_PANEL_H
#define ZR_CLI_PANEL_H

#include "cli/draw/axes.h"
#include "cli/draw/curve.h"

/** Most runs whose single steps are drawn behind the mean. */
#define PANEL_BANDS 3

/** Everything but `axes` and `any_bad` is set by the caller. */
typedef struct cli_panel {
    FILE *out;
    int quantity;            /* index into cli_quantities */
    cli_curve *const *curve; /* (n) */
    const char *const *name; /* (n) */
    int n;
    int color; /* colour of the line where there is only one run */
    cli_axes axes;
    bool any_bad; /* a cross was drawn */
} cli_panel;

/** Place the panel, and set its axes to the steps and values of all runs. */
void cli_panel_place(cli_panel *panel, svg_box box);
/** Draw grid, numbers and axes. `name`: of the values, NULL: none; `steps`: numbers below the panel. */
void cli_panel_frame(const cli_panel *panel, const char *name, bool steps);
/** Draw the curve of a run; with the training loss also its validation loss. */
void cli_panel_run(cli_panel *panel, int run);
/** Explain the crosses, if any was drawn. */
void cli_panel_explain(const cli_panel *panel, double x, double y);
/** Return the number of steps averaged into a point of the mean, the most of all runs; 1: no mean is drawn. */
int64_t cli_panel_mean_steps(const cli_panel *panel);

/** Stretch a range (NAN: nothing yet) to the values of a series. */
void cli_series_widen(const curve_series *series, double *low, double *high);
/** Write a step's number in short, such as 20k or 1.5M. Returns text. */
const char *cli_step_text(double step, char text[32]);

#endif
