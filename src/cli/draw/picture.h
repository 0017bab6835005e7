/** The picture of a plan: the types and functions that its files share. A page shows one training step: phases and
 * units, the memory map below them, and the streams, all over one time axis. Where the machine's rates are not known,
 * the axis counts steps of the schedule. */
#ifndef ZR_CLI_PICTURE_H
#define ZR_CLI_PICTURE_H

#include "zr/config.h"
#include "cli/draw/svg.h"
#include "cli/plan/target.h"
#include "plan/cost/cost.h"
#include "zr/graph.h"
#include "zr/plan.h"

#define PICTURE_DARK "#1f2933"
#define PICTURE_GREY "#5f6c7b"
#define PICTURE_PALE "#c3ccd6"
#define PICTURE_LEAST 0.6 /* pixels; a thinner shape is not seen */

/** Times of the steps of a plan, and their source. */
typedef struct cli_times {
    zr_step_time *time; /* times of each step of the training schedule; NULL: not known */
    zr_price price;
    const char *by; /* name of the machine or cluster whose rates were used */
} cli_times;

typedef struct cli_picture {
    FILE *out;
    const zr_plan *plan;
    const zr_schedule *schedule; /* of training */
    const zr_graph *graph;
    const cli_times *times;
    const char *model;
    int64_t whole_states_bytes; /* bytes of model states on a rank at stage 0; 0: not known */
    bool timed;                 /* the axis is in seconds; otherwise in steps */
    zr_step_time *time;         /* of each step */
    zr_step_time *alive;        /* of each buffer */
    double span;                /* end of the last step */
    zr__fullest fullest;
    double fullest_x;                                    /* x of the fullest moment */
    svg_box map;                                         /* place of the arena */
    double stage_top, stage_height;                      /* place of the staging memory, above the map */
    int32_t loss_step, repeat_step, end_step, norm_step; /* -1: not in the schedule */
    int lane[ZR_STREAMS];                                /* lane of each stream, from the top; -1: no lane */
} cli_picture;

/** Return the x of a moment, pixels. */
double cli_picture_x(const cli_picture *p, double moment);
/** Return the y of an offset in the arena, pixels. */
double cli_picture_y(const cli_picture *p, int64_t offset);
const char *cli_picture_unit(const cli_picture *p, int32_t unit);
const char *cli_category_color(zr_category category);
/** Write "steps 3 to 5", with a time axis "steps 3 to 5, 1.2 ms to 3.4 ms"; returns text. */
const char *cli_picture_when(const cli_picture *p, int32_t first, int32_t last, zr_step_time time, char text[96]);
/** Return a reader's words for an op's output; the op's name if it has no words. */
const char *cli_picture_words(const char *op);

/** Draw all buffers at their addresses over their lifetimes. */
zr_status cli_picture_map(const cli_picture *p);
/** Draw the streams as lanes below `top`, with a legend. */
void cli_picture_lanes(cli_picture *p, double top);

/** Price the steps by the rates of `profile`, if it has them. Free with cli_times_clear. */
ZR_NODISCARD zr_status cli_times_make(const zr_plan *plan, const zr_profile *profile, cli_times *times);
void cli_times_clear(cli_times *times);

/** Draw a training step (memory map, streams) as SVG into a file, over `times` where they are known. The file must not
 * be one of `inputs` (zr__output_open). ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status cli_picture_write(const char *path, const char *const *inputs, const zr_plan *plan,
                                         const cli_times *times, const char *model, int64_t whole_states_bytes);

/** Draw a training step of the plan, over the target's times where they are known. `model`: its name. */
ZR_NODISCARD zr_status cli_target_draw(const cli_target *target, const zr_config *config, const zr_plan *plan,
                                       const char *model, const char *svg);

#endif
