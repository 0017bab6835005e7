/** A part of a picture: values over the steps of runs, in axes of their own. */
#ifndef ZR_CLI_PANEL_H
#define ZR_CLI_PANEL_H

#include "cli/draw/axes.h"
#include "cli/draw/curve.h"

/** What is drawn of a series: columns that are at least a pixel wide. */
typedef struct cli_points {
    curve_bucket at[CURVE_BUCKETS];
    int n;
} cli_points;

typedef struct cli_panel {
    FILE *out;
    cli_axes axes;
    cli_points *points; /* room, which several panels may share */
    bool any_bad;       /* a cross was drawn */
} cli_panel;

/** How a series looks. */
typedef struct cli_pen {
    const char *color, *dash; /* dash NULL: whole */
    double width, dot;        /* dot: radius */
    int dots;                 /* points up to which each has a dot */
    bool mean;                /* many points: their mean is drawn */
    bool band;                /* and behind it each of them, paler */
    bool crosses;             /* at the foot, where steps updated nothing or were not finite */
    const char *tip;
} cli_pen;
/** Points of a short run, each of which has a dot. */
#define PANEL_FEW 60

/** The first and the last step that is drawn of runs. */
void cli_panel_steps(cli_axes *axes, cli_curve *const *curve, int n);
/** Stretch a range (NAN: nothing yet) to the values of a series. */
void cli_panel_widen(const curve_series *series, double *low, double *high);
/** Grid, numbers and axes. `name` of the values, NULL: none; `steps`: numbers below the panel. */
void cli_panel_frame(const cli_panel *panel, const char *name, bool steps);
void cli_panel_draw(cli_panel *panel, const curve_series *series, const cli_pen *pen);
/** What the crosses mean, where there are any. */
void cli_panel_explain(const cli_panel *panel, double x, double y);
/** So many steps make a point of the mean that is drawn; 1: each is drawn. */
int64_t cli_panel_mean_steps(const cli_panel *panel, const curve_series *series);

/** 20k, 1.5M: steps are many. Returns text. */
const char *cli_step_text(double step, char text[32]);

#endif
