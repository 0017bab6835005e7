/* The rows of a pipeline in a plan's picture: for each pipeline rank the passes of its stages over time, with the
 * numbers of their micro-batches. */
#include "cli/draw/picture.h"
#include "cli/shell/message.h"
#include "plan/cost/cost.h"

#include <stdio.h>

#define ROW_HEIGHT 20.0
#define ROW_GAP 4.0
#define MOST_PASSES 4000 /* maximum number of passes with tooltips */

/* A pass of a stage for a micro-batch: forward, backward, or a part of a backward pass. */
typedef struct pass {
    zr_pipe_kind kind;
    int32_t stage, micro, last; /* `last`: its last step */
    double begin_sec, end_sec;
} pass;

/* Colours of a pass, by the number of its chunk: odd, even. */
static const struct {
    const char *color[2], *name;
} passes[] = {[ZR_PIPE_F] = {{"#56b4e9", "#a9d8f4"}, "F: forward"},
              [ZR_PIPE_B] = {{"#e69f00", "#f5d184"}, "B: backward"},
              [ZR_PIPE_I] = {{"#e69f00", "#f5d184"}, "I: gradients of values"},
              [ZR_PIPE_W] = {{"#009e73", "#7fceb9"}, "W: gradients of parameters"}};

double cli_picture_roles_height(const cli_picture *p)
{
    return p->plans->n > 1 && p->timed ? 64 + p->plans->n * (ROW_HEIGHT + ROW_GAP) : 0;
}

static bool is_for_params(const zr_graph *g, const zr_op *op)
{
    for (int j = 0; j < op->n_out; j++)
        if (zr_graph_value(g, op->out[j])->param < 0) return false;
    return true;
}

/* Set *made to the pass of step i, with the following steps that belong to it. Return whether the step belongs to a
 * pass. */
static bool pass_at(const zr_plan *plan, const zr_step_time *time, int32_t i, pass *made)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    const bool splits = zr__plan_splits(plan);
    bool found = false;
    for (; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->stream != ZR_STREAM_COMPUTE) continue;
        if (step->kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(g, step->op);
        const bool back = op->backward || step->replay;
        const zr_pipe_kind kind = !back                                  ? ZR_PIPE_F
                                  : !splits                              ? ZR_PIPE_B
                                  : op->backward && is_for_params(g, op) ? ZR_PIPE_W
                                                                         : ZR_PIPE_I;
        const int32_t stage = plan->stage[ZR_SCHEDULE_TRAIN][step->op];
        if (found && (kind != made->kind || stage != made->stage || step->micro != made->micro)) break;
        if (!found) *made = (pass){kind, stage, step->micro, i, time[i].begin_sec, time[i].end_sec};
        found = true;
        made->last = i;
        made->end_sec = time[i].end_sec;
    }
    return found;
}

static void draw_pass(const cli_picture *p, double y, const pass *its, int32_t ranks, bool tips)
{
    const double x = cli_picture_x(p, its->begin_sec), end = cli_picture_x(p, its->end_sec),
                 w = end - x > 3 ? end - x - 0.7 : end - x;
    char tip[128], begin[32], number[16];
    cli_seconds(its->begin_sec, begin);
    snprintf(tip, sizeof(tip), "%s, stage %d, micro-batch %d: from %s, for %s", passes[its->kind].name, its->stage,
             its->micro, begin, CLI_SECONDS(its->end_sec - its->begin_sec));
    svg_rect(p->out, (svg_box){x, y, w < PICTURE_LEAST ? PICTURE_LEAST : w, ROW_HEIGHT},
             passes[its->kind].color[its->stage / ranks % 2], NULL, tips ? tip : NULL);
    snprintf(number, sizeof(number), "%d", its->micro);
    if (w > svg_text_width(number, 11) + 2)
        svg_text(p->out, x + w / 2, y + 14, (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = SVG_MIDDLE}, "%s",
                 number);
}

static void draw_legend(const cli_picture *p, double y)
{
    const bool splits = zr__plan_splits(p->plan);
    const svg_font font = {.size = 11, .color = PICTURE_DARK};
    double x = p->map.x;
    for (int k = 0; k <= ZR_PIPE_W; k++) {
        if (k != ZR_PIPE_F && (k == ZR_PIPE_B) == splits) continue;
        svg_rect(p->out, (svg_box){x, y - 9, 11, 11}, passes[k].color[0], NULL, NULL);
        svg_text(p->out, x + 16, y, font, "%s", passes[k].name);
        x += 34 + svg_text_width(passes[k].name, font.size);
    }
    if (p->plan->layout.chunks > 1) svg_text(p->out, x, y, font, "lighter: every second stage of a rank");
}

void cli_picture_roles(const cli_picture *p, double top)
{
    const svg_font head = {.size = 12, .color = PICTURE_DARK, .bold = true},
                   font = {.size = 12, .color = PICTURE_DARK, .anchor = SVG_END};
    if (cli_picture_roles_height(p) == 0) return;
    int64_t n = 0;
    for (int32_t r = 0; r < p->plans->n; r++)
        n += 3 * p->plans->role[r]->layout.chunks * p->plans->role[r]->layout.accum;
    svg_text(p->out, p->map.x, top + 12, head, "pipeline ranks");
    for (int32_t r = 0; r < p->plans->n; r++) {
        const zr_plan *plan = p->plans->role[r];
        const double y = top + 22 + r * (ROW_HEIGHT + ROW_GAP);
        svg_rect(p->out, (svg_box){p->map.x, y, p->map.w, ROW_HEIGHT}, "#f3f5f8", NULL, NULL);
        svg_text(p->out, p->map.x - 8, y + ROW_HEIGHT / 2 + 4, font, "%d", r);
        pass its;
        for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++)
            if (plan->schedule[ZR_SCHEDULE_TRAIN].step[i].kind == ZR_STEP_RUN &&
                pass_at(plan, p->times->time[r], i, &its)) {
                draw_pass(p, y, &its, plan->layout.pipeline, n <= MOST_PASSES);
                i = its.last;
            }
    }
    draw_legend(p, top + 22 + p->plans->n * (ROW_HEIGHT + ROW_GAP) + 14);
}
