/** Traffic of tensor parallelism: bytes by purpose, and the ratio to the traffic of stage 3 without tensor parallelism
 * on the same ranks. The file also prints the parameters that are replicated on all tensor-parallel ranks. */
#include "cli/plan/choices.h"

#include "base/text/text.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

/** Return the ratio of the traffic between tensor-parallel ranks to the traffic of stage 3 without tensor parallelism.
 * For stage 3, plan the configured layout with stage 3 over all ranks instead of tensor parallelism. Return NAN if that
 * cannot be planned. */
static double tensor_to_stage3(const cli_choices *choices, const zr_plan *given)
{
    const int64_t *tensor = given->across[ZR_BORDER_TENSOR].bytes;
    ZR_AUTO(zr_plan_destroy) zr_plan *plan = NULL;
    zr_layout layout = zr__train_layout(choices->config, given->ranks);
    layout.tensor = 1;
    layout.ranks = given->ranks;
    layout.stage = 3;
    layout.eval = false;
    layout.save = ZR_SAVE_NONE;
    if (layout.reduce == ZR_REDUCE_ALL_REDUCE) layout.reduce = ZR_REDUCE_TO_SHARDS; /* stage 3 has no all-reduce */
    layout.weight_differences = false;                                              /* nor differences */
    /* Policy unit gathers the same bytes as auto. */
    if (layout.recompute == ZR_RECOMPUTE_AUTO) layout.recompute = ZR_RECOMPUTE_UNIT;
    if (zr__train_plan_layout(choices->config, &layout, &choices->target.profile, &plan) != ZR_OK) return NAN;
    const int64_t *stage3 = plan->traffic.bytes;
    return (double)(tensor[ZR_TRAFFIC_REDUCE_SCATTER] + tensor[ZR_TRAFFIC_ALL_GATHER]) /
           (double)(stage3[ZR_TRAFFIC_REDUCE_SCATTER] + stage3[ZR_TRAFFIC_ALL_GATHER]);
}

/* ---- by purpose ------------------------------------------------------------------------------- */

typedef enum purpose { FOR_LAYERS, FOR_LOSSES, FOR_GRADIENTS, FOR_CHECKPOINTS, PURPOSES } purpose;

/** Bytes that a rank receives from other tensor-parallel ranks in a training step. */
typedef struct within {
    int64_t *unit; /* for each unit: bytes received for its layers */
    int64_t bytes[PURPOSES];
} within;

static void clear_within(within *w)
{
    zr_free(w->unit);
}

static purpose purpose_of(const zr_graph *graph, const zr_schedule *s, int32_t i)
{
    const zr_step *step = &s->step[i];
    const zr_op *op = zr_graph_get_op(graph, step->op);
    if (step->restores) return FOR_CHECKPOINTS;
    if (zr_graph_value(graph, op->out[0])->kind == ZR_VALUE_GRAD) return FOR_GRADIENTS;
    /* tensor_gather gathers two numbers per token for the cross-entropy. */
    if (strcmp(op->def->name, "tensor_gather") == 0) return FOR_LOSSES;
    return FOR_LAYERS;
}

static zr_status find_within(const zr_plan *plan, within *w)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int64_t rounds = 1;
    w->unit = zr_alloc(sizeof *w->unit * (size_t)(plan->n_units + 1));
    ZR_CHECK(w->unit, ZR_ERR_MEMORY, "no memory to count the bytes of %d units", plan->n_units);
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind == ZR_STEP_REPEAT) rounds = step->rounds;
        if (step->kind == ZR_STEP_END) rounds = 1;
        if (step->op < 0 || step->kind == ZR_STEP_RUN) continue;
        const int64_t bytes = rounds * (int64_t)zr__plan_step_cost(plan, ZR_SCHEDULE_TRAIN, i).wire_bytes;
        const purpose what = purpose_of(plan->graph[ZR_SCHEDULE_TRAIN], s, i);
        w->bytes[what] += bytes;
        if (what == FOR_LAYERS) w->unit[step->unit] += bytes;
    }
    return ZR_OK;
}

/** Return the end of a range of similar units that begins at `first`. Similar units move the same number of bytes, and
 * their names differ only in a number, as "h.0" and "h.1". */
static int32_t alike_from(const zr_plan *plan, const within *w, int32_t first)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    int32_t end = first + 1;
    for (; end < plan->n_units && w->unit[end] == w->unit[first]; end++) {
        const char *a = zr_graph_unit_info(g, first)->name, *b = zr_graph_unit_info(g, end)->name;
        const size_t same = strcspn(a, "0123456789");
        if (a[same] == '\0' || strncmp(a, b, same) != 0 || !isdigit((unsigned char)b[same])) break;
    }
    return end;
}

/* ---- replicated parameters -------------------------------------------------------------------- */

/** Write a parameter's name with '*' in place of its numbers, so that a parameter has the same pattern in all blocks.
 */
static void pattern_of(const char *name, char out[ZR_NAME_MAX])
{
    size_t n = 0;
    for (const char *at = name; *at; at++) {
        const bool digit = isdigit((unsigned char)*at) && at > name && (at[-1] == '.' || out[n - 1] == '*');
        if (digit && out[n - 1] == '*') continue;
        out[n++] = digit ? '*' : *at;
    }
    out[n] = '\0';
}

/** Write the name pattern of a replicated parameter (pattern_of). Return whether the parameter is the first replicated
 * parameter with this pattern. */
static bool is_first_of_pattern(const zr_graph *g, int32_t param, char pattern[ZR_NAME_MAX])
{
    char before[ZR_NAME_MAX];
    pattern_of(zr_graph_param(g, param)->name, pattern);
    for (int32_t p = 0; p < param; p++) {
        if (zr_graph_param(g, p)->cut.parts > 0) continue;
        pattern_of(zr_graph_param(g, p)->name, before);
        if (strcmp(before, pattern) == 0) return false;
    }
    return true;
}

static int64_t replicated_elems(const zr_graph *g)
{
    int64_t elems = 0;
    for (int32_t p = 0; p < zr_graph_params(g); p++)
        if (zr_graph_param(g, p)->cut.parts == 0) elems += zr_shape_elems(&zr_graph_param(g, p)->whole);
    return elems;
}

/* ---- as text ----------------------------------------------------------------------------------- */

/** Print an item of a list, in lines of less than 80 columns: `begin` before the first item, and `between` before later
 * items. `column` is the current column, or 0 if no item has been printed. */
static void print_item(size_t *column, const char *begin, const char *between, const char *item)
{
    *column += (size_t)printf("%s%s", *column ? "" : "    ", *column ? between : begin);
    if (*column + 1 + strlen(item) > 79) *column = (size_t)printf("\n     ") - 1;
    *column += (size_t)printf(" %s", item);
}

static void print_units(const zr_plan *plan, const within *w)
{
    size_t column = 0;
    char item[ZR_NAME_MAX + 128];
    for (int32_t u = 0, end; u < plan->n_units; u = end) {
        end = alike_from(plan, w, u);
        const char *name = zr_graph_unit_info(plan->graph[ZR_SCHEDULE_TRAIN], u)->name;
        if (w->unit[u] == 0) continue;
        const char *each = ZR_SIZE((double)w->unit[u]);
        if (end - u > 1)
            snprintf(item, sizeof(item), "%d units from %s on %s (%s each)", end - u, name,
                     ZR_SIZE((double)w->unit[u] * (end - u)), each);
        else
            snprintf(item, sizeof(item), "%s %s", name, each);
        print_item(&column, "for", ",", item);
    }
    puts(column ? "" : "    for");
}

static void print_other_purposes(const within *w)
{
    static const char *const words[PURPOSES] = {[FOR_LOSSES] = "the cross-entropy",
                                                [FOR_GRADIENTS] = "gradients of replicated parameters",
                                                [FOR_CHECKPOINTS] = "checkpoints in pieces"};
    size_t column = 0;
    char item[96];
    for (int k = FOR_LOSSES; k < PURPOSES; k++) {
        if (w->bytes[k] == 0) continue;
        snprintf(item, sizeof(item), "%s %s", words[k], ZR_SIZE((double)w->bytes[k]));
        print_item(&column, "for", ",", item);
    }
    if (column) putchar('\n');
}

static void print_replicated(const zr_graph *g)
{
    size_t column = 0;
    char pattern[ZR_NAME_MAX];
    column = (size_t)printf("    on every tensor-parallel rank %s parameters:", ZR_AMOUNT((double)replicated_elems(g)));
    for (int32_t p = 0; p < zr_graph_params(g); p++)
        if (zr_graph_param(g, p)->cut.parts == 0 && is_first_of_pattern(g, p, pattern))
            print_item(&column, "", "", pattern);
    putchar('\n');
}

zr_status cli_within_print(const cli_choices *choices, const zr_plan *plan)
{
    const zr_config *config = choices->config;
    const double b = (double)config->micro_batch_size, s = (double)config->data.seq_length;
    ZR_AUTO(clear_within) within w = {0};
    if (config->parallel.tensor <= 1 || !plan->graph[ZR_SCHEDULE_TRAIN]) return ZR_OK;
    const double ratio = tensor_to_stage3(choices, plan);
    if (!isnan(ratio))
        printf("  within layers: %.3g x stage 3 alone on %d ranks (papers: b s / 3 h = %.3g)\n", ratio, plan->ranks,
               b * s / (3 * (double)zr_config_sizes(config).width));
    ZR_TRY(find_within(plan, &w));
    print_units(plan, &w);
    print_other_purposes(&w);
    print_replicated(plan->graph[ZR_SCHEDULE_TRAIN]);
    return ZR_OK;
}

/* ---- as JSON ----------------------------------------------------------------------------------- */

zr_status cli_within_json(zr__json_out *out, const cli_choices *choices, const zr_plan *plan)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    ZR_AUTO(clear_within) within w = {0};
    if (choices->config->parallel.tensor <= 1 || !g) return ZR_OK;
    ZR_TRY(find_within(plan, &w));
    zr__json_add(out, "tensor_to_stage3", tensor_to_stage3(choices, plan));
    zr__json_open(out, "within_layers", '{');
    zr__json_open(out, "units", '[');
    for (int32_t u = 0; u < plan->n_units; u++) {
        if (w.unit[u] == 0) continue;
        zr__json_open(out, NULL, '{');
        zr__json_add(out, "name", zr_graph_unit_info(g, u)->name, "bytes", w.unit[u]);
        zr__json_close(out, '}');
    }
    zr__json_close(out, ']');
    zr__json_add(out, "cross_entropy", w.bytes[FOR_LOSSES], "gradients", w.bytes[FOR_GRADIENTS], "checkpoints",
                 w.bytes[FOR_CHECKPOINTS]);
    zr__json_close(out, '}');
    zr__json_open(out, "replicated", '{');
    zr__json_add(out, "params", replicated_elems(g));
    zr__json_open(out, "names", '[');
    for (int32_t p = 0; p < zr_graph_params(g); p++)
        if (zr_graph_param(g, p)->cut.parts == 0) zr__json_add(out, NULL, zr_graph_param(g, p)->name);
    zr__json_close(out, ']');
    zr__json_close(out, '}');
    return ZR_OK;
}
