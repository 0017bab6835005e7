/** The picture of a plan: what its files share. A page shows one training step: phases and units, the memory map below
 *  them, and the streams, all over the same time. Where the machine's rates are not known the steps of the schedule
 *  stand in the place of time, one after the other. */
#ifndef ZR_CLI_PICTURE_H
#define ZR_CLI_PICTURE_H

#include "cli/shell/cli.h"
#include "cli/draw/svg.h"
#include "zr/plan.h"

#define PICTURE_DARK "#1f2933"
#define PICTURE_GREY "#5f6c7b"
#define PICTURE_PALE "#c3ccd6"
#define PICTURE_LEAST 0.6 /* pixels; thinner is not seen */

typedef struct cli_picture {
    FILE *out;
    const zr_plan *plan;
    const zr_schedule *schedule; /* of training */
    const zr_graph *graph;
    const cli_times *times;
    bool timed;          /* in seconds; otherwise in steps */
    zr_step_time *time;  /* of each step */
    zr_step_time *alive; /* of each buffer */
    double span;         /* when the last ends */
    zr_fullest fullest;
    double fullest_x;                                    /* where it is marked */
    svg_box map;                                         /* of the arena */
    double stage_top, stage_height;                      /* of the staging memory, above it */
    int32_t loss_step, repeat_step, end_step, norm_step; /* -1: none */
    int lane[ZR_STREAMS];                                /* of each stream, from the top; -1: it has none */
} cli_picture;

/** A moment, in pixels. */
double cli_picture_x(const cli_picture *p, double moment);
/** An address of the arena, in pixels. */
double cli_picture_y(const cli_picture *p, int64_t offset);
const char *cli_picture_unit(const cli_picture *p, int32_t unit);
const char *cli_category_color(zr_category category);
/** "steps 3 to 5", with a time axis "steps 3 to 5, 1.2 ms to 3.4 ms"; returns text. */
const char *cli_picture_when(const cli_picture *p, int32_t first, int32_t last, zr_step_time time, char text[96]);
/** What an op makes, in a reader's words; the name of an op that has none. */
const char *cli_picture_words(const char *op);

/** All buffers at their addresses over their lifetimes. */
zr_status cli_picture_map(const cli_picture *p);
/** The streams as lanes below `top`; returns where they end. */
double cli_picture_lanes(cli_picture *p, double top);

#endif
