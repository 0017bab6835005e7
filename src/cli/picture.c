#include "cli/picture.h"

#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_WIDTH 1400.0
#define PAGE_HEIGHT 968.0
#define RIGHT 1184.0 /* what is said beside the map begins here */

typedef enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } phase;

static const struct {
    const char *color, *name;
} phases[] = {[PHASE_FORWARD] = {"#dde4ec", "forward"},
              [PHASE_BACKWARD] = {"#c2ccd8", "backward"},
              [PHASE_UPDATE] = {"#cfe5d7", "update"}};

double cli_picture_x(const cli_picture *p, int32_t step)
{
    return p->map.x + p->map.w * (double)step / (double)(p->schedule->n_steps > 0 ? p->schedule->n_steps : 1);
}

double cli_picture_y(const cli_picture *p, int64_t offset)
{
    double arena = (double)(p->plan->arena_bytes > 0 ? p->plan->arena_bytes : 1);
    return p->map.y + p->map.h * (1.0 - (double)offset / arena);
}

const char *cli_picture_unit(const cli_picture *p, int32_t unit)
{
    const zr_unit_info *info = zr_graph_unit_info(p->graph, unit);
    return info ? info->name : "";
}

/* ---- above the map --------------------------------------------------------------------------- */

static void draw_title(const cli_picture *p, const char *model)
{
    const zr_plan *plan = p->plan;
    const zr_layout *layout = &plan->layout;
    char params[32], total[32], states[32], policy[32], where[64] = "";
    if (layout->ranks > 1) snprintf(where, sizeof(where), " on each of %d ranks", layout->ranks);
    svg_text(p->out, 40, 40, (svg_font){.size = 20, .color = PICTURE_DARK, .bold = true},
             "One training step of %s%s: %s", model, where, cli_bytes((double)plan->memory.total_bytes, total));
    svg_text(
        p->out, 40, 62, (svg_font){.size = 13, .color = PICTURE_GREY},
        "ZeRO stage %d, layout %s, recompute %s, %s parameters, %s, %lld x %lld tokens a rank%s; of it %s model states",
        layout->stage, layout->states == ZR_STATES_LEAN ? "lean" : "paper",
        cli_recompute_name(layout->recompute, layout->recompute_every, policy),
        cli_amount((double)plan->params, params), zr_dtype_name(layout->dtype), (long long)layout->batch,
        (long long)layout->seq, layout->accum > 1 ? " and micro-batch" : "",
        cli_bytes((double)plan->memory.states_bytes, states));
}

static const char *states_sentence(const zr_plan *plan)
{
    static const char *const sentence[4] = {
        "Stage 0: every rank keeps all model states. Gradients are summed over the ranks, and all of them do the same "
        "update.",
        "Stage 1: a rank keeps its share of the optimizer states and updates that share of the parameters; the others' "
        "shares are gathered before the next step (not shown).",
        "Stage 2: a rank keeps its share of gradients and optimizer states. A unit's whole gradient goes to its owners "
        "at once; updated parameters are gathered before the next step (not shown).",
        "Stage 3: a rank keeps its share of all model states. A unit's parameters are gathered just before they are "
        "used (blue boxes) and dropped behind."};
    if (plan->layout.ranks == 1)
        return plan->shard_param ? "One rank: it keeps all model states. A unit's 16-bit parameters are cast from the "
                                   "fp32 ones just before they are used (blue boxes) and dropped behind."
                                 : "One rank: it keeps all model states; there is nobody to share them with.";
    return sentence[plan->layout.stage];
}

static const char *activations_sentence(const cli_picture *p, char room[160])
{
    bool again = false; /* by the policy */
    const zr_layout *layout = &p->plan->layout;
    for (int32_t i = 0; i < p->schedule->n_steps; i++) {
        const zr_step *step = &p->schedule->step[i];
        again |= step->replay && p->plan->unit[step->unit].recompute != ZR_RECOMPUTE_NONE;
    }
    if (!again)
        return "Activations, but what is cheap to compute again, are kept until the backward pass has used them: the "
               "grey hill.";
    if (layout->recompute == ZR_RECOMPUTE_AUTO)
        return "Just enough activations are dropped, and computed again in the backward pass, to stay within the "
               "limit.";
    if (layout->recompute == ZR_RECOMPUTE_SELECTIVE)
        return "The largest activations of each unit are dropped and computed again in the backward pass: a lower "
               "hill.";
    if (layout->recompute_every == 1)
        return "Of the activations only the inputs of units are kept; the backward pass computes a unit's others "
               "again.";
    snprintf(room, 160,
             "Of the activations only the input of every %lld units is kept; the backward pass computes their others "
             "again.",
             (long long)layout->recompute_every);
    return room;
}

static void draw_sentences(const cli_picture *p, int64_t whole_states_bytes)
{
    char whole[32], here[32], room[160];
    double y = 88;
    svg_font font = {.size = 13, .color = PICTURE_DARK};
    const zr_plan *plan = p->plan;
    svg_text(p->out, 40, y, font, "%s", states_sentence(plan));
    svg_text(p->out, 40, y += 19, font, "%s%s", activations_sentence(p, room),
             plan->layout.accum > 1 ? " What stands between the thick marks is repeated for each micro-batch." : "");
    const char *consumed = plan->consume_grad ? " A unit's gradient is used up by its update at once." : "";
    cli_bytes((double)plan->memory.states_bytes, here);
    cli_bytes((double)whole_states_bytes, whole);
    if (whole_states_bytes > plan->memory.states_bytes) {
        svg_text(p->out, 40, y + 19, font, "Model states: %s here, %s %s.%s", here, whole,
                 plan->layout.ranks > 1 ? "on every rank without ZeRO" : "at stage 0", consumed);
    } else {
        svg_text(p->out, 40, y + 19, font, "Model states: %s.%s", here, consumed);
    }
}

static phase phase_of(const cli_picture *p, int32_t step)
{
    int32_t update = p->end_step >= 0 ? p->end_step : p->norm_step;
    if (update >= 0 && step >= update) return PHASE_UPDATE;
    return p->loss_step >= 0 && step > p->loss_step ? PHASE_BACKWARD : PHASE_FORWARD;
}

static void draw_phases(const cli_picture *p, double y)
{
    const double height = 20;
    int32_t n = p->schedule->n_steps;
    for (int32_t i = 0, end = 0; i < n; i = end) {
        phase which = phase_of(p, i);
        for (end = i + 1; end < n && phase_of(p, end) == which; end++) continue;
        double x = cli_picture_x(p, i), w = cli_picture_x(p, end) - x;
        const char *name = which == PHASE_BACKWARD && p->plan->layout.two_pass
                               ? "backward, twice: for the norm, for the updates"
                               : phases[which].name;
        svg_rect(p->out, (svg_box){x, y, w, height}, phases[which].color, NULL, name);
        if (i > 0) svg_line(p->out, x, y, x, p->map.y + p->map.h, PICTURE_PALE, 0.8);
        /* A phase of few steps names itself beside the page's edge. */
        bool fits = svg_text_width(name, 12) < w;
        svg_text(p->out, fits ? x + w / 2 : x + w + 4, y + 14,
                 (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = fits ? SVG_MIDDLE : SVG_START, .bold = true},
                 "%s", name);
    }
    if (p->plan->layout.accum == 1 || p->repeat_step < 0) return;
    for (int i = 0; i < 2; i++) {
        double x = cli_picture_x(p, i ? p->end_step : p->repeat_step);
        svg_line(p->out, x, y - 6, x, y + height, PICTURE_DARK, 2.5);
    }
    svg_text(p->out, cli_picture_x(p, p->repeat_step) + 6, y - 4, (svg_font){.size = 11, .color = PICTURE_DARK},
             "%lld times", (long long)p->plan->layout.accum);
}

/** Which unit computes; a name where there is room for one. */
static void draw_units(const cli_picture *p, double y)
{
    const zr_step *step = p->schedule->step;
    double free_x = 0;
    bool odd = false;
    for (int32_t i = 0, end = 0; i < p->schedule->n_steps; i = end) {
        end = i + 1;
        if (step[i].kind != ZR_STEP_RUN || step[i].unit < 0) continue;
        /* What other streams do between its ops does not end a unit's turn. */
        for (int32_t j = end; j < p->schedule->n_steps; j++) {
            if (step[j].stream == ZR_STREAM_COMPUTE && step[j].unit != step[i].unit) break;
            if (step[j].kind == ZR_STEP_RUN) end = j + 1;
        }
        double x = cli_picture_x(p, i), w = cli_picture_x(p, end) - x;
        const char *name = cli_picture_unit(p, step[i].unit);
        svg_rect(p->out, (svg_box){x, y, w < PICTURE_LEAST ? PICTURE_LEAST : w, 5}, odd ? "#5f6c7b" : "#9aa7b4", NULL,
                 name);
        odd = !odd;
        if (x < free_x) continue;
        svg_text(p->out, x, y - 3, (svg_font){.size = 9.5, .color = PICTURE_GREY}, "%s", name);
        free_x = x + svg_text_width(name, 9.5) + 6;
    }
}

/* ---- beside the map -------------------------------------------------------------------------- */

static void draw_axis(const cli_picture *p)
{
    static const struct {
        const char *name;
        double bytes;
    } unit[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"bytes", 1}};
    double arena = (double)p->plan->arena_bytes;
    size_t u = 0;
    while (u < 4 && arena < 1.5 * unit[u].bytes) u++;
    double step = svg_nice_step(arena / unit[u].bytes);
    for (double at = 0; arena > 0 && at * unit[u].bytes <= arena; at += step) {
        double y = cli_picture_y(p, (int64_t)(at * unit[u].bytes));
        svg_line(p->out, p->map.x - 5, y, p->map.x, y, PICTURE_GREY, 1);
        svg_line(p->out, p->map.x, y, p->map.x + p->map.w, y, "#eceff3", 0.8);
        svg_text(p->out, p->map.x - 9, y + 4, (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = SVG_END}, "%g",
                 at);
    }
    char text[64];
    snprintf(text, sizeof(text), "address in the arena, %s", unit[u].name);
    svg_text_up(p->out, 34, p->map.y + p->map.h / 2,
                (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_MIDDLE}, text);
    double bottom = p->map.y + p->map.h, every = svg_nice_step(p->schedule->n_steps);
    for (double at = 0; at <= p->schedule->n_steps; at += every < 1 ? 1 : every) {
        double x = cli_picture_x(p, (int32_t)at);
        svg_line(p->out, x, bottom, x, bottom + 4, PICTURE_GREY, 1);
        svg_text(p->out, x, bottom + 16, (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = SVG_MIDDLE}, "%.0f",
                 at);
    }
    svg_text(p->out, p->map.x - 8, bottom + 16, (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_END},
             "step");
}

static void draw_bracket(const cli_picture *p, double top, double bottom, double text_y, const char *name,
                         const char *fate, int64_t bytes)
{
    char size[32];
    double x = p->map.x + p->map.w + 5;
    svg_line(p->out, x, top, x, bottom, PICTURE_DARK, 2);
    svg_line(p->out, x, (top + bottom) / 2, RIGHT - 6, text_y, PICTURE_PALE, 1);
    svg_text(p->out, RIGHT, text_y, (svg_font){.size = 12, .color = PICTURE_DARK, .bold = true}, "%s", name);
    svg_text(p->out, RIGHT, text_y + 15, (svg_font){.size = 12, .color = PICTURE_GREY}, "%s, %s",
             cli_bytes((double)bytes, size), fate);
}

/** What stays, what comes and goes, what others may read. */
static void draw_parts(const cli_picture *p)
{
    const zr_plan *plan = p->plan;
    double states = cli_picture_y(p, plan->persistent_bytes), bottom = p->map.y + p->map.h;
    double middle = (states + bottom) / 2, lowest = bottom - 16;
    draw_bracket(p, states + 1, bottom, middle < lowest ? middle : lowest, "model states", "stay",
                 plan->persistent_bytes);
    double above = (p->map.y + states) / 2, most = lowest - 60;
    draw_bracket(p, p->map.y, states - 1, above < most ? above : most, "working memory", "comes and goes",
                 plan->arena_bytes - plan->persistent_bytes);
    if (plan->stage_bytes == 0) return;
    draw_bracket(p, p->stage_top, p->stage_top + p->stage_height, p->stage_top + 4, "exchange stage", "others read it",
                 plan->stage_bytes);
}

static void draw_legend(const cli_picture *p, double y)
{
    char size[32], text[64];
    double x = p->map.x;
    svg_font font = {.size = 11, .color = PICTURE_DARK};
    svg_text(p->out, x - 8, y, (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_END}, "at most");
    for (int c = 0; c < ZR_CATEGORIES; c++) {
        int64_t bytes = p->plan->memory.category_bytes[c];
        if (bytes == 0) continue;
        snprintf(text, sizeof(text), "%s %s", cli_category_words((zr_category)c), cli_bytes((double)bytes, size));
        svg_rect(p->out, (svg_box){x, y - 10, 12, 12}, cli_category_color((zr_category)c), NULL, NULL);
        svg_text(p->out, x + 17, y, font, "%s", text);
        x += 36 + svg_text_width(text, font.size);
    }
}

static zr_status draw_fullest(const cli_picture *p)
{
    zr_fullest fullest;
    char live[32];
    ZR_TRY(zr_plan_fullest(p->plan, &fullest));
    double x = (cli_picture_x(p, fullest.step) + cli_picture_x(p, fullest.step + 1)) / 2;
    bool left = x > p->map.x + p->map.w / 2;
    double y = p->map.y + p->map.h + 34;
    svg_dashed(p->out, x, p->map.y - 4, x, y - 10, PICTURE_DARK, 1);
    svg_text(p->out, left ? x - 4 : x + 4, y,
             (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = left ? SVG_END : SVG_START},
             "fullest moment: %s in use", cli_bytes((double)fullest.live_bytes, live));
    return ZR_OK;
}

/* ---- page ------------------------------------------------------------------------------------ */

static void find_marks(cli_picture *p)
{
    p->loss_step = p->repeat_step = p->end_step = p->norm_step = -1;
    for (int32_t i = 0; i < p->schedule->n_steps; i++) {
        zr_step_kind kind = p->schedule->step[i].kind;
        if (kind == ZR_STEP_LOSS && p->loss_step < 0) p->loss_step = i;
        if (kind == ZR_STEP_REPEAT && p->repeat_step < 0) p->repeat_step = i;
        if (kind == ZR_STEP_END) p->end_step = i;
        if (kind == ZR_STEP_NORM && p->norm_step < 0) p->norm_step = i;
    }
}

static zr_status draw(cli_picture *p, const char *model, int64_t whole_states_bytes)
{
    find_marks(p);
    double total = (double)(p->plan->arena_bytes + p->plan->stage_bytes);
    p->map = (svg_box){92, 204, 1070, 530};
    if (p->plan->stage_bytes > 0) {
        /* Too small to be seen at its scale, it is still shown. */
        double height = p->map.h * (double)p->plan->stage_bytes / total;
        p->stage_top = p->map.y;
        p->stage_height = height < 5 ? 5 : height;
        p->map.y += p->stage_height + 5;
        p->map.h -= p->stage_height + 5;
    }
    svg_begin(p->out, PAGE_WIDTH, PAGE_HEIGHT, "zr: memory map and schedule of one training step");
    draw_title(p, model);
    draw_sentences(p, whole_states_bytes);
    draw_phases(p, 152);
    draw_units(p, 188);
    draw_axis(p);
    ZR_TRY(cli_picture_map(p));
    ZR_TRY(draw_fullest(p));
    draw_parts(p);
    double y = p->map.y + p->map.h + 58;
    draw_legend(p, y);
    cli_picture_lanes(p, y + 28);
    svg_end(p->out);
    return ZR_OK;
}

zr_status cli_picture_write(const char *path, const zr_plan *plan, const char *model, int64_t whole_states_bytes)
{
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    ZR_CHECK(out, ZR_ERR_MEMORY, "--svg: no memory to draw");
    cli_picture picture = {
        .out = out, .plan = plan, .schedule = &plan->schedule[ZR_TRAIN], .graph = plan->graph[ZR_TRAIN]};
    zr_status st = draw(&picture, model, whole_states_bytes);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (st == ZR_OK && failed) st = ZR_FAIL(ZR_ERR_MEMORY, "--svg: no memory to draw");
    if (st == ZR_OK) st = svg_save(path, page, bytes);
    free(page); /* the stream's own, not zr_alloc's */
    return st;
}
