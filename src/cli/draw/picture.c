#include "base/text/text.h"
#include "cli/plan/table.h"
#include "cli/shell/message.h"
#include "cli/draw/picture.h"

#include <stdio.h>
#include <string.h>

#define PAGE_WIDTH 1400.0
#define PAGE_HEIGHT 894.0 /* height of the page without lanes and tiers */
#define TIER_HEIGHT 16.0
#define TIER_GAP 10.0
#define RIGHT 1184.0 /* x of the texts to the right of the memory map */

typedef enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } phase;

static const struct {
    const char *color, *name;
} phases[] = {[PHASE_FORWARD] = {"#dde4ec", "forward"},
              [PHASE_BACKWARD] = {"#c2ccd8", "backward"},
              [PHASE_UPDATE] = {"#cfe5d7", "update"}};

double cli_picture_x(const cli_picture *p, double moment)
{
    return p->map.x + p->map.w * moment / (p->span > 0 ? p->span : 1);
}

double cli_picture_y(const cli_picture *p, int64_t offset)
{
    double arena = (double)(p->plan->space_bytes[ZR_SPACE_DEVICE] > 0 ? p->plan->space_bytes[ZR_SPACE_DEVICE] : 1);
    return p->map.y + p->map.h * (1.0 - (double)offset / arena);
}

const char *cli_picture_unit(const cli_picture *p, int32_t unit)
{
    const zr_unit_info *info = zr_graph_unit_info(p->graph, unit);
    return info ? info->name : "";
}

const char *cli_picture_when(const cli_picture *p, int32_t first, int32_t last, zr_step_time time, char text[96])
{
    if (p->timed)
        snprintf(text, 96, "steps %d to %d, %s to %s", first, last, CLI_SECONDS(time.begin_sec),
                 CLI_SECONDS(time.end_sec));
    else
        snprintf(text, 96, "steps %d to %d", first, last);
    return text;
}

const char *cli_picture_words(const char *op)
{
    static const struct {
        const char *op, *words;
    } table[] = {{"embedding", "tokens' vectors"},
                 {"position", "tokens' vectors"},
                 {"layernorm", "norm"},
                 {"linear", "matrix product"},
                 {"gelu", "GELU"},
                 {"add", "residual sum"},
                 {"linear_cross_entropy", "head and losses"},
                 {"cross_entropy", "losses"},
                 {"layernorm_dx", "gradient at the norm"},
                 {"linear_dx", "gradient at a product"},
                 {"gelu_dx", "gradient at GELU"},
                 {"attention_dx", "gradient at attention"},
                 {"linear_cross_entropy_dx", "head"}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(op, table[i].op) == 0) return table[i].words;
    return op;
}

/* ---- above the map --------------------------------------------------------------------------- */

static void draw_picture_title(const cli_picture *p)
{
    const zr_plan *plan = p->plan;
    const zr_layout *layout = &plan->layout;
    char where[64] = "";
    if (plan->ranks > 1) snprintf(where, sizeof(where), " on each of %d ranks", plan->ranks);
    svg_text(p->out, 40, 40, (svg_font){.size = 20, .color = PICTURE_DARK, .bold = true},
             "One training step of %s%s: %s", p->model, where, ZR_SIZE((double)plan->memory.total_bytes));
    svg_text(
        p->out, 40, 62, (svg_font){.size = 13, .color = PICTURE_GREY},
        "ZeRO stage %d, layout %s, recompute %s, %s parameters, %s, %lld x %lld tokens a rank%s; of it %s model states",
        layout->stage, layout->states == ZR_STATES_LEAN ? "lean" : "paper",
        cli_recompute_name(layout->recompute, layout->recompute_every, (char[32]){0}), ZR_AMOUNT((double)plan->params),
        zr_dtype_name(layout->dtype), (long long)layout->batch, (long long)layout->seq,
        layout->accum > 1 ? " and micro-batch" : "", ZR_SIZE((double)plan->memory.states_bytes));
}

/** Return the bytes of model states of a category that are stored in a space other than the device, or the bytes of
 * checkpoints on disk. */
static int64_t away_bytes(const cli_picture *p, zr_space space, zr_category category)
{
    const zr_homes *home = &p->plan->layout.home;
    const zr_space at[ZR_CATEGORIES] = {[ZR_CATEGORY_PARAM] = home->param,
                                        [ZR_CATEGORY_GRAD] = home->grad,
                                        [ZR_CATEGORY_OPTIM] = home->optim,
                                        [ZR_CATEGORY_CHECKPOINT] =
                                            space == ZR_SPACE_DISK ? p->plan->checkpoint_home : ZR_SPACE_DEVICE};
    return at[category] == space && space != ZR_SPACE_DEVICE ? p->plan->memory.space[space].category_bytes[category]
                                                             : 0;
}

/** Return the bytes of model states that are stored in a space other than the device. */
static int64_t states_away(const cli_picture *p, zr_space space)
{
    return away_bytes(p, space, ZR_CATEGORY_PARAM) + away_bytes(p, space, ZR_CATEGORY_GRAD) +
           away_bytes(p, space, ZR_CATEGORY_OPTIM);
}

static int64_t tier_bytes(const cli_picture *p, zr_space space)
{
    return states_away(p, space) + away_bytes(p, space, ZR_CATEGORY_CHECKPOINT);
}

static const char *states_sentence(const cli_picture *p)
{
    static const char *const sentence[4] = {"Stage 0: every rank keeps all model states. Gradients are summed over the "
                                            "ranks, and all of them do the same update.",
                                            "Stage 1: a rank keeps its share of the optimizer states. It receives the "
                                            "summed gradient of that share, and updates that share of the parameters.",
                                            "Stage 2: a rank keeps its share of gradients and optimizer states. A "
                                            "unit's gradient goes to its owners as soon as it is complete.",
                                            "Stage 3: a rank keeps its share of all model states. A unit's parameters "
                                            "are gathered just before they are used (blue boxes) and dropped behind."};
    if (p->plan->layout.ranks == 1)
        return states_away(p, ZR_SPACE_HOST) + states_away(p, ZR_SPACE_DISK) > 0
                   ? "One rank. Model states that are not on the device are read where a step computes with them, "
                     "bucket by bucket, and written back."
               : p->plan->shards_param
                   ? "One rank: it keeps all model states. A unit's 16-bit parameters are cast from the fp32 ones just "
                     "before they are used (blue boxes) and dropped behind."
                   : "One rank: it keeps all model states; there is nobody to share them with.";
    return sentence[p->plan->layout.stage];
}

/** Return a sentence on how a rank gets the parameters that other ranks have updated. Return NULL for a single rank,
 * and at the stages 0 and 3. */
static const char *parameters_sentence(const cli_picture *p)
{
    const zr_layout *layout = &p->plan->layout;
    if (layout->ranks == 1 || (layout->stage != 1 && layout->stage != 2)) return NULL;
    for (int32_t i = 0; i < p->schedule->n_steps; i++)
        /* With ZR_WHEN_STALE, this training step gathers the parameters that the previous step's update changed. */
        if (p->schedule->step[i].when == ZR_WHEN_STALE)
            return "Parameters stay whole. Those that the previous step updated are gathered unit by unit, ahead of "
                   "their first use (blue cells of comm).";
    return "Parameters stay whole; those that other ranks have updated are gathered before the next step.";
}

static const char *activations_sentence(const cli_picture *p, char room[160])
{
    bool recomputed = false; /* whether any activation is recomputed because of the recompute policy */
    const zr_layout *layout = &p->plan->layout;
    for (int32_t i = 0; i < p->schedule->n_steps; i++) {
        const zr_step *step = &p->schedule->step[i];
        recomputed |= step->replay && zr_recomputes(p->plan->unit[step->unit].recompute);
    }
    if (!recomputed)
        return "Activations are kept until the backward pass has used them, except those that are cheap to recompute: "
               "the grey hill.";
    if (layout->recompute == ZR_RECOMPUTE_AUTO)
        return "Just enough activations are dropped, and recomputed in the backward pass, to stay within the limit.";
    if (layout->recompute == ZR_RECOMPUTE_SELECTIVE)
        return "The largest activations of each unit are dropped and recomputed in the backward pass: a lower hill.";
    if (layout->recompute_every == 1)
        return "Only the inputs of units are kept; the backward pass recomputes a unit's other activations.";
    snprintf(room, 160,
             "Only the input of every %lld units is kept; the backward pass recomputes their other activations.",
             (long long)layout->recompute_every);
    return room;
}

/** Write the sentences above the picture. They explain the model states, the parameters, the activations and the time
 * axis. */
static void draw_sentences(const cli_picture *p)
{
    const zr_plan *plan = p->plan;
    const svg_font font = {.size = 13, .color = PICTURE_DARK};
    char room[160], whole[96] = "", comm[96] = "", away[96] = "";
    double y = 88;
    const char *parameters = parameters_sentence(p);
    svg_text(p->out, 40, y, font, "%s", states_sentence(p));
    if (parameters) svg_text(p->out, 40, y += 19, font, "%s", parameters);
    svg_text(p->out, 40, y += 19, font, "%s%s", activations_sentence(p, room),
             plan->rounds > 1 ? " The part between the thick marks is repeated for each micro-batch." : "");
    if (p->whole_states_bytes > plan->memory.states_bytes)
        snprintf(whole, sizeof(whole), "%s %s %s",
                 states_away(p, ZR_SPACE_HOST) + states_away(p, ZR_SPACE_DISK) > 0 ? ";" : " here,",
                 ZR_SIZE((double)p->whole_states_bytes),
                 plan->layout.ranks > 1 ? "on every rank without ZeRO" : "at stage 0");
    const int64_t host_bytes = states_away(p, ZR_SPACE_HOST), disk_bytes = states_away(p, ZR_SPACE_DISK);
    if (host_bytes + disk_bytes > 0)
        snprintf(away, sizeof(away), " on the device, %s %s", ZR_SIZE((double)(host_bytes + disk_bytes)),
                 host_bytes == 0   ? "on disk"
                 : disk_bytes == 0 ? "in the host's memory"
                                   : "in the host's memory and on disk");
    svg_text(p->out, 40, y += 19, font, "Model states: %s%s%s.%s", ZR_SIZE((double)plan->memory.states_bytes), away,
             whole, plan->consume_grad ? " A unit's gradient is used up by its update at once." : "");
    y += 19;
    if (!p->timed) {
        svg_text(p->out, 40, y, font,
                 "Steps of the schedule, one after the other: the rates of this machine are not known. With --profile "
                 "NAME, or after `zr info --bench`, the axis is time.");
        return;
    }
    if (p->plans->n > 1)
        snprintf(comm, sizeof(comm), ", of which rank %d of the pipeline waits %s for other ranks",
                 p->times->price.role, CLI_SECONDS(p->times->price.bubble_sec));
    else if (plan->ranks > 1)
        snprintf(comm, sizeof(comm), ", communication %s, of which %s is not hidden",
                 CLI_SECONDS(p->times->price.comm_sec), CLI_SECONDS(p->times->price.exposed_sec));
    svg_text(p->out, 40, y, font, "Time as priced for %.47s: %s a step%s.", p->times->by,
             CLI_SECONDS(p->times->price.step_sec), comm);
}

static phase step_phase(const cli_picture *p, int32_t step)
{
    int32_t update = p->end_step >= 0 ? p->end_step : p->norm_step;
    if (update >= 0 && step >= update) return PHASE_UPDATE;
    return p->loss_step >= 0 && step > p->loss_step ? PHASE_BACKWARD : PHASE_FORWARD;
}

/** Return the time at which the compute stream begins a phase. If it has no step of this phase or of a later phase,
 * return the end of the training step. */
static double phase_begin(const cli_picture *p, phase which)
{
    if (which == PHASE_FORWARD) return 0;
    for (int32_t i = 0; i < p->schedule->n_steps; i++)
        if (p->schedule->step[i].stream == ZR_STREAM_COMPUTE && step_phase(p, i) >= which) return p->time[i].begin_sec;
    return p->span;
}

/** Draw the phases forward, backward and update. With several micro-batches, mark the begin and the end of the steps
 * that are repeated for each micro-batch. */
static void draw_phases(const cli_picture *p, double y)
{
    const double height = 20;
    for (int i = PHASE_FORWARD; i <= PHASE_UPDATE; i++) {
        double begin = phase_begin(p, (phase)i), end = i < PHASE_UPDATE ? phase_begin(p, (phase)(i + 1)) : p->span;
        double x = cli_picture_x(p, begin), w = cli_picture_x(p, end) - x;
        if (i > 0 && w <= 0 && i != PHASE_UPDATE) continue;
        const char *name = i == PHASE_BACKWARD && p->plan->layout.two_pass
                               ? "backward, twice: for the norm, for the updates"
                               : phases[i].name;
        svg_rect(p->out, (svg_box){x, y, w, height}, phases[i].color, NULL, name);
        if (i > 0) svg_line(p->out, x, y, x, p->map.y + p->map.h, PICTURE_PALE, 0.8);
        /* Write the name to the right of its phase if it does not fit inside. */
        bool fits = svg_text_width(name, 12) < w;
        svg_text(p->out, fits ? x + w / 2 : x + w + 4, y + 14,
                 (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = fits ? SVG_MIDDLE : SVG_START, .bold = true},
                 "%s", name);
    }
    if (p->plan->rounds == 1 || p->repeat_step < 0) return;
    const double first = cli_picture_x(p, p->time[p->repeat_step].begin_sec);
    const double end = cli_picture_x(p, p->time[p->end_step].begin_sec);
    svg_line(p->out, first, y - 6, first, y + height, PICTURE_DARK, 2.5);
    svg_line(p->out, end, y - 6, end, y + height, PICTURE_DARK, 2.5);
    svg_text(p->out, first + 6, y - 4, (svg_font){.size = 11, .color = PICTURE_DARK}, "%lld times",
             (long long)p->plan->rounds);
}

/** Draw a strip that shows which unit computes at each time. Write the name of a unit above its part of the strip if
 * there is room. */
static void draw_units(const cli_picture *p, double y)
{
    const zr_step *step = p->schedule->step;
    double free_x = 0;
    bool odd = false;
    for (int32_t i = 0, end = 0; i < p->schedule->n_steps; i = end) {
        end = i + 1;
        if (step[i].kind != ZR_STEP_RUN || step[i].unit < 0) continue;
        /* Find the last op of this unit before another unit computes. Steps of other streams may lie between the ops.
         * */
        for (int32_t j = end; j < p->schedule->n_steps; j++) {
            if (step[j].stream == ZR_STREAM_COMPUTE && step[j].unit != step[i].unit) break;
            if (step[j].kind == ZR_STEP_RUN) end = j + 1;
        }
        double x = cli_picture_x(p, p->time[i].begin_sec), w = cli_picture_x(p, p->time[end - 1].end_sec) - x;
        const char *name = cli_picture_unit(p, step[i].unit);
        svg_rect(p->out, (svg_box){x, y, w < PICTURE_LEAST ? PICTURE_LEAST : w, 5}, odd ? "#5f6c7b" : "#9aa7b4", NULL,
                 name);
        odd = !odd;
        /* Leave out a name that would extend over the next unit, because readers would take it for the next unit's
         * name. */
        double wide = svg_text_width(name, 10);
        if (x < free_x || wide > w + 6 || x + wide > p->map.x + p->map.w) continue;
        svg_text(p->out, x, y - 3, (svg_font){.size = 10, .color = PICTURE_GREY}, "%s", name);
        free_x = x + wide + 6;
    }
}

/* ---- beside the map -------------------------------------------------------------------------- */

typedef struct axis_unit {
    const char *name; /* NULL at the end of a list */
    double size;
} axis_unit;

/** Return the largest unit in which `most`, the end of an axis, is at least 1.5. `unit` is a list of units, beginning
 * with the largest. */
static const axis_unit *axis_unit_of(const axis_unit *unit, double most)
{
    while (unit[1].name && most < 1.5 * unit->size) unit++;
    return unit;
}

/** Draw the axis of memory addresses to the left of the map. */
static void draw_addresses(const cli_picture *p)
{
    static const axis_unit units[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"bytes", 1}, {0}};
    const double arena = (double)p->plan->space_bytes[ZR_SPACE_DEVICE];
    const axis_unit *unit = axis_unit_of(units, arena);
    const double every = svg_nice_step(arena / unit->size);
    for (double at = 0; arena > 0 && at * unit->size <= arena; at += every) {
        const double y = cli_picture_y(p, (int64_t)(at * unit->size));
        svg_line(p->out, p->map.x - 5, y, p->map.x, y, PICTURE_GREY, 1);
        svg_line(p->out, p->map.x, y, p->map.x + p->map.w, y, "#eceff3", 0.8);
        svg_text(p->out, p->map.x - 9, y + 4, (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = SVG_END}, "%g",
                 at);
    }
    svg_text(p->out, 34, p->map.y + p->map.h / 2,
             (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_MIDDLE, .up = true},
             "address in the arena, %s", unit->name);
}

/** Draw the time axis below the map. */
static void draw_moments(const cli_picture *p)
{
    static const axis_unit units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {0}};
    const axis_unit *unit = axis_unit_of(units, p->span);
    const double bottom = p->map.y + p->map.h, scale = p->timed ? unit->size : 1;
    double every = svg_nice_step(p->span / scale);
    if (!p->timed && every < 1) every = 1;
    for (double k = 0; k * every * scale <= p->span * (1 + 1e-9) && k < 50; k++) {
        const double x = cli_picture_x(p, k * every * scale);
        svg_line(p->out, x, bottom, x, bottom + 4, PICTURE_GREY, 1);
        svg_text(p->out, x, bottom + 16, (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = SVG_MIDDLE}, "%g",
                 k * every);
    }
    svg_text(p->out, p->map.x - 12, bottom + 16, (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_END},
             p->timed ? "time, %s" : "step%s", p->timed ? unit->name : "");
}

static void draw_bracket(const cli_picture *p, double top, double bottom, double text_y, const char *name,
                         const char *fate, int64_t bytes)
{
    const double x = p->map.x + p->map.w + 5;
    svg_line(p->out, x, top, x, bottom, PICTURE_DARK, 2);
    svg_line(p->out, x, (top + bottom) / 2, RIGHT - 6, text_y, PICTURE_PALE, 1);
    svg_text(p->out, RIGHT, text_y, (svg_font){.size = 12, .color = PICTURE_DARK, .bold = true}, "%s", name);
    svg_text(p->out, RIGHT, text_y + 15, (svg_font){.size = 12, .color = PICTURE_GREY}, "%s, %s",
             ZR_SIZE((double)bytes), fate);
}

/** Mark the parts of the memory map with brackets: model states, working memory and staging memory. */
static void draw_parts(const cli_picture *p)
{
    const zr_plan *plan = p->plan;
    double states = cli_picture_y(p, plan->persistent_bytes[ZR_SPACE_DEVICE]), bottom = p->map.y + p->map.h;
    double middle = (states + bottom) / 2, lowest = bottom - 16;
    draw_bracket(p, states + 1, bottom, middle < lowest ? middle : lowest, "model states", "stay",
                 plan->persistent_bytes[ZR_SPACE_DEVICE]);
    double above = (p->map.y + states) / 2, most = lowest - 60;
    draw_bracket(p, p->map.y, states - 1, above < most ? above : most, "working memory", "comes and goes",
                 plan->space_bytes[ZR_SPACE_DEVICE] - plan->persistent_bytes[ZR_SPACE_DEVICE]);
    if (plan->space_bytes[ZR_SPACE_STAGING] == 0) return;
    draw_bracket(p, p->stage_top, p->stage_top + p->stage_height, p->stage_top + 4, "staging", "others read it",
                 plan->space_bytes[ZR_SPACE_STAGING]);
}

static void draw_category_legend(const cli_picture *p, double y)
{
    char text[64];
    double x = p->map.x;
    svg_font font = {.size = 11, .color = PICTURE_DARK};
    svg_text(p->out, x - 8, y, (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_END}, "at most");
    for (int c = 0; c < ZR_CATEGORIES; c++) {
        int64_t bytes = p->plan->memory.category_bytes[c];
        if (bytes == 0) continue;
        snprintf(text, sizeof(text), "%s %s", cli_category_words((zr_category)c), ZR_SIZE((double)bytes));
        svg_rect(p->out, (svg_box){x, y - 10, 12, 12}, cli_category_color((zr_category)c), NULL, NULL);
        svg_text(p->out, x + 17, y, font, "%s", text);
        x += 36 + svg_text_width(text, font.size);
    }
}

/** Draw a bar of the model states and checkpoints that are stored in a tier below the device, and return the y below
 * it. */
static double draw_tier(const cli_picture *p, zr_space space, const char *name, double y)
{
    const int64_t all = tier_bytes(p, space);
    double x = p->map.x;
    char text[64];
    if (all == 0) return y;
    svg_text(p->out, x - 8, y + TIER_HEIGHT - 4, (svg_font){.size = 12, .color = PICTURE_DARK, .anchor = SVG_END}, "%s",
             name);
    for (int c = 0; c < ZR_CATEGORIES; c++) {
        const int64_t bytes = away_bytes(p, space, (zr_category)c);
        if (bytes == 0) continue;
        const double w = p->map.w * (double)bytes / (double)all;
        snprintf(text, sizeof(text), "%s %s", cli_category_words((zr_category)c), ZR_SIZE((double)bytes));
        svg_rect(p->out, (svg_box){x, y, w, TIER_HEIGHT}, cli_category_color((zr_category)c), "#ffffff", text);
        if (svg_text_width(text, 11) < w - 6)
            svg_text(p->out, x + 6, y + TIER_HEIGHT - 4,
                     (svg_font){.size = 11, .color = c == ZR_CATEGORY_GRAD ? PICTURE_DARK : "#ffffff"}, "%s", text);
        x += w;
    }
    svg_text(p->out, RIGHT, y + TIER_HEIGHT - 4, (svg_font){.size = 12, .color = PICTURE_GREY}, "%s a rank",
             ZR_SIZE((double)all));
    return y + TIER_HEIGHT + TIER_GAP;
}

static double tiers_height(const cli_picture *p)
{
    return (TIER_HEIGHT + TIER_GAP) * ((tier_bytes(p, ZR_SPACE_HOST) > 0) + (tier_bytes(p, ZR_SPACE_DISK) > 0));
}

static void draw_fullest(const cli_picture *p)
{
    double x = p->fullest_x, y = p->map.y + p->map.h + 34;
    bool left = x > p->map.x + p->map.w / 2;
    svg_dashed(p->out, x, p->map.y - 4, x, y - 10, PICTURE_DARK, 1);
    svg_text(p->out, left ? x - 4 : x + 4, y,
             (svg_font){.size = 11, .color = PICTURE_DARK, .anchor = left ? SVG_END : SVG_START},
             "fullest moment: %s in use", ZR_SIZE((double)p->fullest.live_bytes));
}

/* ---- page ------------------------------------------------------------------------------------ */

static void find_marks(cli_picture *p)
{
    p->loss_step = p->repeat_step = p->end_step = p->norm_step = -1;
    for (int32_t i = 0; i < p->schedule->n_steps; i++) {
        zr_step_kind kind = p->schedule->step[i].kind;
        /* If no LOSS step comes before the first backward op, this op also computes the losses. The forward pass then
         * ends before this op. With several loss terms, forward ops may follow a LOSS, so only the first backward op
         * tells the end. */
        bool back = kind == ZR_STEP_RUN && zr_graph_get_op(p->graph, p->schedule->step[i].op)->backward;
        if (((kind == ZR_STEP_LOSS && p->plan->terms == 1) || back) && p->loss_step < 0)
            p->loss_step = back ? i - 1 : i;
        if (kind == ZR_STEP_REPEAT && p->repeat_step < 0) p->repeat_step = i;
        if (kind == ZR_STEP_END) p->end_step = i;
        if (kind == ZR_STEP_NORM && p->norm_step < 0) p->norm_step = i;
    }
}

static zr_status draw_picture_page(FILE *out, void *arg)
{
    cli_picture *p = arg;
    p->out = out;
    find_marks(p);
    double total = (double)(p->plan->space_bytes[ZR_SPACE_DEVICE] + p->plan->space_bytes[ZR_SPACE_STAGING]);
    p->map = (svg_box){92, 242, 1070, 530};
    if (p->plan->space_bytes[ZR_SPACE_STAGING] > 0) {
        /* Draw the staging memory to scale, but at least 5 pixels high. */
        double height = p->map.h * (double)p->plan->space_bytes[ZR_SPACE_STAGING] / total;
        p->stage_top = p->map.y;
        p->stage_height = height < 5 ? 5 : height;
        p->map.y += p->stage_height + 5;
        p->map.h -= p->stage_height + 5;
    }
    svg_begin(p->out, PAGE_WIDTH,
              PAGE_HEIGHT + tiers_height(p) + cli_picture_find_lanes(p) + cli_picture_roles_height(p),
              "zr: memory map and schedule of one training step");
    draw_picture_title(p);
    draw_sentences(p);
    draw_phases(p, 190);
    draw_units(p, 226);
    draw_addresses(p);
    draw_moments(p);
    ZR_TRY(zr__plan_fullest(p->plan, &p->fullest));
    const zr_step_time fullest = p->time[p->fullest.step];
    p->fullest_x = cli_picture_x(p, (fullest.begin_sec + fullest.end_sec) / 2);
    ZR_TRY(cli_picture_map(p));
    draw_fullest(p);
    draw_parts(p);
    double y = p->map.y + p->map.h + 58;
    draw_category_legend(p, y);
    y = draw_tier(p, ZR_SPACE_HOST, "in host memory", y + 22);
    y = draw_tier(p, ZR_SPACE_DISK, "on disk", y);
    cli_picture_lanes(p, y + 6);
    cli_picture_roles(p, PAGE_HEIGHT + tiers_height(p) + cli_picture_find_lanes(p));
    svg_end(p->out);
    return ZR_OK;
}

/** Set the lifetime of each buffer, from the begin of its first use to the end of its last use. Compare times, not
 * positions in the schedule, because a later step on another stream may run earlier. */
static void set_lives(cli_picture *p)
{
    for (int32_t b = 0; b < p->schedule->n_buffers; b++) p->alive[b] = (zr_step_time){p->span, 0};
    for (int32_t i = 0; i < p->schedule->n_steps; i++) {
        const zr_step *step = &p->schedule->step[i];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
            int32_t b = p->schedule->use[u].buffer;
            if (b == ZR_NONE) continue;
            if (p->time[i].begin_sec < p->alive[b].begin_sec) p->alive[b].begin_sec = p->time[i].begin_sec;
            if (p->time[i].end_sec > p->alive[b].end_sec) p->alive[b].end_sec = p->time[i].end_sec;
        }
    }
}

/* ---- times and writing ----------------------------------------------------------------------- */

zr_status cli_picture_draw(const zr_plans *plans, const cli_times *times, const char *model, int64_t whole_states_bytes,
                           char **svg)
{
    size_t bytes;
    const zr_plan *plan = zr__fullest_role(plans);
    const zr_step_time *known = times->time[plan->layout.role];
    const zr_schedule *schedule = &plan->schedule[ZR_SCHEDULE_TRAIN];
    ZR_AUTO_FREE zr_step_time *time = zr_alloc(((size_t)schedule->n_steps + 1) * sizeof(*time)),
                              *alive = zr_alloc(((size_t)schedule->n_buffers + 1) * sizeof(*alive));
    cli_picture p = {.plans = plans,
                     .plan = plan,
                     .schedule = schedule,
                     .graph = plan->graph[ZR_SCHEDULE_TRAIN],
                     .times = times,
                     .timed = known,
                     .model = model,
                     .whole_states_bytes = whole_states_bytes,
                     .time = time,
                     .alive = alive};
    ZR_CHECK(time && alive, ZR_ERR_MEMORY, "no memory to draw %d steps", schedule->n_steps);
    for (int32_t i = 0; i < schedule->n_steps; i++) {
        p.time[i] = known ? known[i] : (zr_step_time){i, i + 1};
        if (p.time[i].end_sec > p.span) p.span = p.time[i].end_sec;
    }
    for (int32_t r = 0; r < plans->n && known; r++)
        for (int32_t i = 0; i < plans->role[r]->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++)
            if (times->time[r][i].end_sec > p.span) p.span = times->time[r][i].end_sec;
    set_lives(&p);
    return svg_page(draw_picture_page, &p, svg, &bytes);
}
