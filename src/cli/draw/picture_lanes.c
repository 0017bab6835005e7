/* The lanes of a plan's picture: the steps of each stream over time, and the waits between streams. */
#include "cli/draw/picture.h"

#include <stdio.h>

#define LANE_HEIGHT 26.0
#define LANE_GAP 30.0      /* vertical gap between lanes, where waits are drawn */
#define MOST_WAITS 120     /* maximum number of waits to draw, so that lines do not hide the picture */
#define MOST_OWN_STEPS 600 /* maximum number of steps in a schedule whose cells get tooltips */

/* Kinds of work that have colours of their own. */
typedef enum work {
    WORK_OTHER, /* a step that is not drawn */
    WORK_FORWARD,
    WORK_BACKWARD,
    WORK_RECOMPUTE,
    WORK_CAST,
    WORK_GATHER,
    WORK_REDUCE,
    WORK_UPDATE,
    WORK_ORTHO,
    WORK_COPY,
    WORK_FETCH,
    WORK_STORE,
    WORK_MESSAGE,
    WORKS
} work;

static const struct {
    const char *color, *name;
} works[WORKS] = {
    [WORK_FORWARD] = {"#8da2b6", "forward"},
    [WORK_BACKWARD] = {"#48596b", "backward"},
    [WORK_RECOMPUTE] = {"#cc79a7", "computed again"},
    [WORK_CAST] = {"#7cc4ee", "cast to another type"},
    [WORK_GATHER] = {"#0072b2", "gather: parts become whole"},
    [WORK_REDUCE] = {"#e69f00", "reduce-scatter of gradients"},
    [WORK_UPDATE] = {"#009e73", "norm, update"},
    [WORK_ORTHO] = {"#66c2a5", "directions made orthogonal"},
    [WORK_COPY] = {"#f0e442", "copy to or from the host"},
    [WORK_FETCH] = {"#b8a03c", "read from disk"},
    [WORK_STORE] = {"#7a5c2e", "written to disk"},
    [WORK_MESSAGE] = {"#d55e00", "message of pipeline ranks, and wait for it"},
};

/** Kind of work of each step kind that moves no data between ranks. ZR_STEP_RUN is missing, because its kind of work
 * depends on its op. A step of any other missing kind is not drawn. */
static const work work_of_kind[ZR_STEP_KINDS] = {
    [ZR_STEP_CAST] = WORK_CAST,     [ZR_STEP_COPY] = WORK_COPY,        [ZR_STEP_SQUARE_MICRO] = WORK_UPDATE,
    [ZR_STEP_SQUARE] = WORK_UPDATE, [ZR_STEP_UPDATE] = WORK_UPDATE,    [ZR_STEP_SQUARE_UPDATE] = WORK_UPDATE,
    [ZR_STEP_SENT] = WORK_MESSAGE,  [ZR_STEP_DIRECTION] = WORK_UPDATE, [ZR_STEP_ORTHO] = WORK_ORTHO,
};

/** Return whether a step is drawn. The picture shows a training step without a save, so the steps of a save are not
 * drawn. */
static bool is_drawn(const cli_picture *p, int32_t index)
{
    return p->schedule->step[index].when != ZR_WHEN_SAVE;
}

static work step_work(const cli_picture *p, int32_t index)
{
    const zr_step *step = &p->schedule->step[index];
    if (!is_drawn(p, index)) return WORK_OTHER;
    switch (zr_step_traits_of(step->kind).move) {
    case ZR_MOVE_NONE:
        break;
    case ZR_MOVE_RECEIVE:
        return WORK_MESSAGE;
    case ZR_MOVE_GATHER:
        return WORK_GATHER;
    case ZR_MOVE_REDUCE:
        return WORK_REDUCE;
    case ZR_MOVE_SCALARS:
        return WORK_UPDATE;
    }
    if (step->kind == ZR_STEP_COPY && step->stream == ZR_STREAM_FETCH) return WORK_FETCH;
    if (step->kind == ZR_STEP_COPY && step->stream == ZR_STREAM_STORE) return WORK_STORE;
    if (step->kind != ZR_STEP_RUN) return work_of_kind[step->kind];
    if (zr_graph_get_op(p->graph, step->op)->backward) return WORK_BACKWARD;
    return step->replay ? WORK_RECOMPUTE : WORK_FORWARD;
}

/** Return the end (exclusive) of the cell that begins at step `first`. A cell joins consecutive steps of the same
 * stream, unit and kind of work, without pauses between them. */
static int32_t cell_end(const cli_picture *p, int32_t first)
{
    const zr_step *step = p->schedule->step;
    int32_t end = first + 1;
    while (end < p->schedule->n_steps && step[end].stream == step[first].stream && step[end].unit == step[first].unit &&
           step_work(p, end) == step_work(p, first) &&
           cli_picture_x(p, p->time[end].begin_sec) < cli_picture_x(p, p->time[end - 1].end_sec) + PICTURE_LEAST) {
        end++;
    }
    return end;
}

static double lane_top(const cli_picture *p, double top, zr_stream stream)
{
    return top + (LANE_HEIGHT + LANE_GAP) * p->lane[stream];
}

static svg_box cell_box(const cli_picture *p, double top, int32_t first, int32_t end)
{
    double x = cli_picture_x(p, p->time[first].begin_sec), w = cli_picture_x(p, p->time[end - 1].end_sec) - x;
    /* Leave a thin gap before the next cell. */
    if (w > 3) w -= 0.7;
    return (svg_box){x, lane_top(p, top, p->schedule->step[first].stream), w < PICTURE_LEAST ? PICTURE_LEAST : w,
                     LANE_HEIGHT};
}

/** Draw the cells of one kind of work. In a long schedule, merge cells that are less than a pixel apart. */
static void draw_cells(const cli_picture *p, double top, work kind)
{
    bool own = p->schedule->n_steps <= MOST_OWN_STEPS, begun = false;
    svg_box open[ZR_STREAMS] = {{0}};
    for (int32_t i = 0, end = 0; i < p->schedule->n_steps; i = end) {
        end = cell_end(p, i);
        if (step_work(p, i) != kind) continue;
        svg_box box = cell_box(p, top, i, end), *last = &open[p->schedule->step[i].stream];
        if (own) {
            char tip[224], when[96];
            const int32_t unit = p->schedule->step[i].unit;
            const zr_step_time time = {p->time[i].begin_sec, p->time[end - 1].end_sec};
            snprintf(tip, sizeof(tip), "%s %s, %s", works[kind].name, unit >= 0 ? cli_picture_unit(p, unit) : "",
                     cli_picture_when(p, i, end - 1, time, when));
            svg_rect(p->out, box, works[kind].color, NULL, tip);
            continue;
        }
        if (last->w > 0 && box.x < last->x + last->w + PICTURE_LEAST) {
            last->w = box.x + box.w - last->x;
            continue;
        }
        if (!begun) svg_shape_begin(p->out);
        begun = true;
        if (last->w > 0) svg_shape_box(p->out, *last);
        *last = box;
    }
    for (int k = 0; k < ZR_STREAMS; k++)
        if (open[k].w > 0) svg_shape_box(p->out, open[k]);
    if (begun) svg_shape_fill(p->out, works[kind].color);
}

/** Draw waits between streams as lines, from the end of the awaited step to the begin of the waiting step. If there are
 * more than about MOST_WAITS waits, draw only every n-th wait. */
static void draw_waits(const cli_picture *p, double top)
{
    const zr_schedule *s = p->schedule;
    const int32_t every = 1 + s->n_waits / MOST_WAITS;
    if (s->n_waits == 0) return;
    svg_shape_begin(p->out);
    for (int32_t to = 0; to < s->n_steps; to++) {
        for (int32_t w = s->step[to].waits; w < s->step[to].waits + s->step[to].n_waits; w++) {
            const int32_t from = s->wait[w].step;
            if (!is_drawn(p, to) || !is_drawn(p, from) || s->wait[w].before || w % every != 0) continue;
            const bool down = s->step[from].stream < s->step[to].stream;
            svg_shape_line(p->out, cli_picture_x(p, p->time[from].end_sec),
                           lane_top(p, top, s->step[from].stream) + (down ? LANE_HEIGHT : 0),
                           cli_picture_x(p, p->time[to].begin_sec),
                           lane_top(p, top, s->step[to].stream) + (down ? 0 : LANE_HEIGHT));
        }
    }
    svg_shape_stroke(p->out, PICTURE_GREY, 0.7);
}

static void draw_work_legend(const cli_picture *p, double y)
{
    bool present[WORKS] = {false};
    double x = p->map.x;
    svg_font font = {.size = 11, .color = PICTURE_DARK};
    for (int32_t i = 0; i < p->schedule->n_steps; i++) present[step_work(p, i)] = true;
    for (int k = WORK_OTHER + 1; k < WORKS; k++) {
        if (!present[k]) continue;
        svg_rect(p->out, (svg_box){x, y - 9, 11, 11}, works[k].color, NULL, NULL);
        svg_text(p->out, x + 16, y, font, "%s", works[k].name);
        x += 34 + svg_text_width(works[k].name, font.size);
    }
    if (p->schedule->n_waits > 0) {
        svg_line(p->out, x, y - 4, x + 12, y - 4, PICTURE_GREY, 1);
        svg_text(p->out, x + 17, y, font, "waits for");
    }
}

double cli_picture_find_lanes(cli_picture *p)
{
    /* compute and comm always have a lane; another stream has a lane only if one of its steps is drawn */
    bool has_lane[ZR_STREAMS] = {[ZR_STREAM_COMPUTE] = true, [ZR_STREAM_COMM] = true};
    int n = 0;
    for (int32_t i = 0; i < p->schedule->n_steps; i++)
        if (is_drawn(p, i)) has_lane[p->schedule->step[i].stream] = true;
    for (int s = 0; s < ZR_STREAMS; s++) p->lane[s] = has_lane[s] ? n++ : -1;
    return n * (LANE_HEIGHT + LANE_GAP);
}

void cli_picture_lanes(const cli_picture *p, double top)
{
    const svg_font font = {.size = 12, .color = PICTURE_DARK, .anchor = SVG_END};
    double bottom = top;
    for (int s = 0; s < ZR_STREAMS; s++) {
        if (p->lane[s] < 0) continue;
        const double y = lane_top(p, top, (zr_stream)s);
        svg_rect(p->out, (svg_box){p->map.x, y, p->map.w, LANE_HEIGHT}, "#f3f5f8", NULL, NULL);
        svg_text(p->out, p->map.x - 8, y + LANE_HEIGHT / 2 + 4, font, "%s", zr_stream_name((zr_stream)s));
        bottom = y + LANE_HEIGHT;
    }
    draw_waits(p, top);
    for (int k = WORK_OTHER + 1; k < WORKS; k++) draw_cells(p, top, (work)k);
    draw_work_legend(p, bottom + 24);
}
