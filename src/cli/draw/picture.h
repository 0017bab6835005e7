/** The picture of a plan: types and functions that the files picture*.c share. The picture shows one training step over
 * a time axis. From top to bottom it has the phases and units, the memory map, and the streams. If the machine's rates
 * are unknown, the axis counts the steps of the schedule instead. */
#ifndef ZR_CLI_PICTURE_H
#define ZR_CLI_PICTURE_H

#include "zr/config.h"
#include "cli/draw/svg.h"
#include "plan/cost/cost.h"
#include "zr/graph.h"
#include "zr/plan.h"

struct cli_target;

#define PICTURE_DARK "#1f2933"
#define PICTURE_GREY "#5f6c7b"
#define PICTURE_PALE "#c3ccd6"
#define PICTURE_LEAST 0.6 /* minimum width and height of a shape, pixels */

/** Times of a plan's steps, and the name of the machine whose rates the times are computed from. */
typedef struct cli_times {
    zr_step_time *time[ZR_ROLES]; /* for each role: begin and end of each step, or NULL if unknown */
    zr_price price;
    const char *by; /* name of the machine or of the cluster */
} cli_times;

typedef struct cli_picture {
    FILE *out;
    const zr_plans *plans;
    const zr_plan *plan;         /* plan of the fullest role, whose memory and streams are drawn */
    const zr_schedule *schedule; /* the training schedule */
    const zr_graph *graph;
    const cli_times *times;
    const char *model;
    int64_t whole_states_bytes; /* bytes of a rank's model states at stage 0, or 0 if unknown */
    bool timed;                 /* whether the x axis is in seconds; otherwise it counts steps */
    zr_step_time *time;         /* begin and end of each step, in seconds or steps */
    zr_step_time *alive;        /* lifetime of each buffer, in seconds or steps */
    double span;                /* end of the last step, of all roles, in seconds or steps */
    zr__fullest fullest;
    double fullest_x; /* x of the moment with the most memory in use */
    svg_box map;      /* box of the device's arena */
    /* Upper edge and height of the staging memory, which is drawn above `map`, in pixels. */
    double stage_top, stage_height;
    /* Indices of four steps in the schedule: the last step of the forward pass, the first REPEAT, the last END and the
     * first NORM. An index is -1 if the schedule lacks the step. */
    int32_t loss_step, repeat_step, end_step, norm_step;
    int lane[ZR_STREAMS]; /* lane of each stream, counted from the top; -1 without a lane */
} cli_picture;

/** Return the x coordinate of a time, in pixels. */
double cli_picture_x(const cli_picture *p, double moment);
/** Return the y coordinate of an offset in the arena, in pixels. */
double cli_picture_y(const cli_picture *p, int64_t offset);
const char *cli_picture_unit(const cli_picture *p, int32_t unit);
const char *cli_category_color(zr_category category);
/** Write a range of steps, such as "steps 3 to 5", into `text`. If times are known, add them: "steps 3 to 5, 1.2 ms to
 * 3.4 ms". Return `text`. */
const char *cli_picture_when(const cli_picture *p, int32_t first, int32_t last, zr_step_time time, char text[96]);
/** Return a readable name for the output of an op: "norm" for "layernorm". Return the op's own name if there is no
 * better one. */
const char *cli_picture_words(const char *op);

/** Draw the memory map. Each buffer is a box, with its addresses vertically and its lifetime horizontally. */
zr_status cli_picture_map(const cli_picture *p);
/** Set the lanes of the streams. Return their height together, in pixels. */
double cli_picture_find_lanes(cli_picture *p);
/** Draw the streams as horizontal lanes below `top`, with a legend. */
void cli_picture_lanes(const cli_picture *p, double top);

/** Return the height of the rows of a pipeline in pixels, or 0 without a pipeline or times. */
double cli_picture_roles_height(const cli_picture *p);
/** Draw a row for each pipeline rank below `top`, with a legend. */
void cli_picture_roles(const cli_picture *p, double top);

/** Compute the times of the steps of all roles from the rates of `profile`. If the rates are unknown, times->time has
 * only NULL. Free the times with cli_times_clear. */
ZR_NODISCARD zr_status cli_times_make(const zr_plans *plans, const zr_profile *profile, cli_times *times);
void cli_times_clear(cli_times *times);

/** Draw the memory map and streams of a training step of the fullest role as SVG into memory. The x axis is in seconds
 * if times->time is known, otherwise it counts steps. The caller releases *svg with svg_page_free. */
ZR_NODISCARD zr_status cli_picture_draw(const zr_plans *plans, const cli_times *times, const char *model,
                                        int64_t whole_states_bytes, char **svg);

/** Draw a training step of the plans into memory, or into the file `svg`. Use the target's times if they are known.
 * `model` is the name of the model. The caller releases *picture with svg_page_free. */
ZR_NODISCARD zr_status cli_target_picture(const struct cli_target *target, const zr_config *config,
                                          const zr_plans *plans, const char *model, char **picture);
ZR_NODISCARD zr_status cli_target_draw(const struct cli_target *target, const zr_config *config, const zr_plans *plans,
                                       const char *model, const char *svg);

#endif
