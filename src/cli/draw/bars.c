/* Table of choices for the terminal. A choice is a stage with a recompute policy. Each row shows a choice's memory as a
 * bar of characters. */
#include "cli/plan/choices.h"
#include "cli/plan/offload.h"
#include "train/host/limits.h"

#include <stdio.h>
#include <string.h>

/* Widths in characters, for lines of 80 columns. With tensor parallelism, the name of a choice is PA_COLUMNS wider, and
 * its bar is PA_COLUMNS shorter. */
#define BAR_CELLS 31
#define NAME_COLUMNS 11
#define PA_COLUMNS 3

/** Return by how many columns tensor parallelism widens the names and shortens the bars. */
static int wider(const cli_choices *choices)
{
    return choices->shares_layers ? PA_COLUMNS : 0;
}

static int bar_cells(const cli_choices *choices)
{
    return BAR_CELLS - wider(choices);
}

/* Letter and background colour of each memory category. Without colours, the letters alone distinguish the categories.
 * */
static const struct {
    char letter;
    const char *color;
} bar_category[ZR_CATEGORIES] = {
    [ZR_CATEGORY_PARAM] = {'P', "\033[30;44m"},      [ZR_CATEGORY_GRAD] = {'G', "\033[30;43m"},
    [ZR_CATEGORY_OPTIM] = {'O', "\033[30;42m"},      [ZR_CATEGORY_ACT] = {'A', "\033[30;47m"},
    [ZR_CATEGORY_CHECKPOINT] = {'C', "\033[30;45m"}, [ZR_CATEGORY_BUFFER] = {'B', "\033[30;41m"},
    [ZR_CATEGORY_WORK] = {'W', "\033[30;46m"},
};

/** Return how many bytes a full bar represents: the largest memory of any choice, but at most twice the memory limit.
 * */
static double scale_bytes(const cli_choices *choices)
{
    double most = 1;
    for (int i = 0; i < choices->n; i++) {
        double total = (double)choices->choice[i]->made.report.memory.total_bytes;
        if (total > most) most = total;
    }
    double twice = 2 * (double)choices->target.limit_bytes;
    return choices->target.limit_bytes && most > twice ? twice : most;
}

/** Return the index of the first bar cell that ends above the memory limit. Return -1 if there is no limit, or if all
 * cells of the longest possible bar end below the limit. */
static int limit_cell(const cli_choices *choices, double cell_bytes)
{
    for (int i = 0; choices->target.limit_bytes && i < bar_cells(choices); i++) {
        if (zr__rank_bytes((int64_t)((i + 1) * cell_bytes), &choices->target.profile.facts) >
            choices->target.limit_bytes)
            return i;
    }
    return -1;
}

/** Return the memory category at the position `bytes` of a bar. Return ZR_CATEGORIES for unused memory, or -1 beyond
 * the end of the arena. */
static int category_at(const cli_choice *c, double bytes)
{
    double end = 0;
    for (int i = 0; i < ZR_CATEGORIES; i++) {
        end += (double)c->made.fullest.category_bytes[i];
        if (bytes < end) return i;
    }
    return bytes < (double)c->made.report.memory.total_bytes ? ZR_CATEGORIES : -1;
}

static void print_bar(FILE *out, const cli_choice *c, int cells, double cell_bytes, int limit, bool color)
{
    int last = cells - 1;
    bool longer = (double)c->made.report.memory.total_bytes > 1.001 * cell_bytes * cells;
    while (last > limit && category_at(c, (last + 0.5) * cell_bytes) < 0) last--;
    const char *now = "";
    for (int i = 0; i <= last; i++) {
        const int at = category_at(c, (i + 0.5) * cell_bytes);
        const bool plain = at < 0 || at == ZR_CATEGORIES || i == limit;
        const char letter = at < 0 ? ' ' : at == ZR_CATEGORIES ? '.' : bar_category[at].letter;
        const char *wanted = !color ? "" : plain ? CLI_PLAIN : bar_category[at].color;
        if (strcmp(wanted, now) != 0) fputs(wanted, out);
        now = wanted;
        fputc(i == limit ? '|' : i == cells - 1 && longer ? '>' : letter, out);
    }
    if (color) fputs(CLI_PLAIN, out);
}

static void print_bars_line(FILE *out, const cli_choices *choices, const cli_choice *c, double cell_bytes, bool color)
{
    static const char *const light[ZR__LIGHTS] = {"", " a", " b", " c"};
    const zr_price *price = &c->made.simulation.price;
    const bool bold = color && choices->advised && c == choices->told;
    const char *fits = choices->target.limit_bytes == 0 ? "" : c->made.fits ? "yes" : "no";
    char kept[CLI_CHOICE_BYTES], name[64], time[32] = "?", exposed[32] = "?";
    if (choices->compute_known) cli_seconds(price->step_sec, time);
    const bool disk_known = !cli_offload_untimed(&c->made.report, price);
    if (choices->compute_known && choices->link_known && disk_known && price->step_sec > 0)
        snprintf(exposed, sizeof(exposed), "%.1f %%", 100 * price->exposed_sec / price->step_sec);
    snprintf(name, sizeof(name), "%s%s", cli_choice_name(c, choices->shares_layers, kept),
             cli_choice_differs(choices, c) ? " d" : light[zr__light_of(&c->way)]);
    fprintf(out, "%s%c%c%d %-*s%10s %-4s%10s%8s%s ", bold ? CLI_BOLD : "", c == choices->own ? '*' : ' ',
            c == choices->told ? '>' : ' ', (int)c->way.stage, NAME_COLUMNS + wider(choices), name,
            ZR_SIZE((double)c->made.report.memory.total_bytes), fits, time, exposed, bold ? CLI_PLAIN : "");
    print_bar(out, c, bar_cells(choices), cell_bytes, limit_cell(choices, cell_bytes), color);
    fputc('\n', out);
}

static void print_bars_legend(FILE *out, const cli_choices *choices, bool color)
{
    for (int i = 0; i < ZR_CATEGORIES; i++) {
        bool used = false;
        for (int c = 0; c < choices->n; c++) used |= choices->choice[c]->made.fullest.category_bytes[i] > 0;
        if (!used) continue;
        fprintf(out, "%s%s%c%s %s", i == ZR_CATEGORY_ACT ? "\n  " : "  ", color ? bar_category[i].color : "",
                bar_category[i].letter, color ? CLI_PLAIN : "", cli_category_words((zr_category)i));
    }
    fputs("  . not in use then\n", out);
}

void cli_bars_print(FILE *out, const cli_choices *choices, bool color)
{
    double cell_bytes = scale_bytes(choices) / bar_cells(choices);
    fprintf(out, "   stage, recompute%*s total %-5s     step waiting  the fullest moment\n", wider(choices), "",
            choices->target.limit_bytes ? "fits" : "");
    for (int i = 0; i < choices->n; i++) print_bars_line(out, choices, choices->choice[i], cell_bytes, color);
    print_bars_legend(out, choices, color);
    fprintf(out, "  * %s  > %s", choices->origin, choices->advised ? "advised" : "the nearest");
    if (limit_cell(choices, cell_bytes) >= 0)
        fprintf(out, "  | where %s end (%s aside)", ZR_SIZE((double)choices->target.limit_bytes),
                cli_beside(&choices->target.profile.facts));
    fputc('\n', out);
    if (choices->shares_layers)
        fputs("  Pa  with partition_activations, Pa+cpu with that and cpu_checkpointing\n", out);
    /* the explanation of b and c refers to the letter before, so explain all letters up to the highest one in the
     * table */
    zr__light most = ZR__LIGHT_NONE;
    bool differs = false;
    for (int i = 0; i < choices->n; i++) {
        const bool other = cli_choice_differs(choices, choices->choice[i]);
        const zr__light light = zr__light_of(&choices->choice[i]->way);
        differs |= other;
        if (!other && light > most) most = light;
    }
    if (most >= ZR__LIGHT_PREFETCH) fputs("  a  with stage3_prefetch_bucket_size 0\n", out);
    if (most >= ZR__LIGHT_OVERLAP) fputs("  b  with that and overlap_comm false\n", out);
    if (most >= ZR__LIGHT_BUCKETS)
        fprintf(out, "  c  as b, with buckets of %lld elements\n", (long long)zr__light_elems(choices->config));
    if (differs)
        fprintf(out, "  d  with the keys of the %s\n", choices->advised ? "advice" : "choice that comes nearest");
}
