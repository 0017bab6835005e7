/** A panel of a picture: values over the steps of runs, with its own axes. */
#ifndef ZR_CLI_PANEL_H
#define ZR_CLI_PANEL_H

#include "cli/draw/axes.h"
#include "cli/draw/curve.h"

/** Points of a series as they are drawn, each at least a pixel wide. */
typedef struct cli_points {
    curve_bucket at[CURVE_BUCKETS];
    int n;
} cli_points;

typedef struct cli_panel {
    FILE *out;
    cli_axes axes;
    cli_points *points; /* scratch memory, which several panels may share */
    bool any_bad;       /* a cross was drawn */
} cli_panel;

/** Style of a series. */
typedef struct cli_pen {
    const char *color, *dash; /* dash NULL: solid */
    double width, dot;        /* dot: radius */
    int dots;                 /* most points that each get a dot */
    bool mean;                /* draw the mean if there are many points */
    bool band;                /* also draw each point behind the mean, paler */
    bool crosses;             /* mark steps that updated nothing or were not finite with crosses at the foot */
    const char *tip;
} cli_pen;
/** Most points of a short run; each gets a dot. */
#define PANEL_FEW 60

/** Set the x axis to the first and the last step of the runs. */
void cli_panel_steps(cli_axes *axes, cli_curve *const *curve, int n);
/** Stretch a range (NAN: nothing yet) to the values of a series. */
void cli_panel_widen(const curve_series *series, double *low, double *high);
/** Draw grid, numbers and axes. `name`: of the values, NULL: none; `steps`: numbers below the panel. */
void cli_panel_frame(const cli_panel *panel, const char *name, bool steps);
void cli_panel_draw(cli_panel *panel, const curve_series *series, const cli_pen *pen);
/** Explain the crosses, if any was drawn. */
void cli_panel_explain(const cli_panel *panel, double x, double y);
/** Return the number of steps averaged into a point of the mean; 1: no mean is drawn. */
int64_t cli_panel_mean_steps(const cli_panel *panel, const curve_series *series);

/** Write a step's number in short, such as 20k or 1.5M. Returns text. */
const char *cli_step_text(double step, char text[32]);

#endif
