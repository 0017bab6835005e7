/* The table of `zr train --timings`: the time that each kind of op takes in a step. */
#include "cli/runs/runs.h"
#include "cli/shell/message.h"
#include "train/measure/timings.h"
#include "zr/run.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* Optional columns of the table. `again`: whether to print how often ops are recomputed. `slowest`: whether to print
 * the time of the slowest rank. */
typedef struct optional_columns {
    bool again, slowest;
} optional_columns;

/* Write a time in milliseconds into `text`, such as 0.123, 12.30 or 1234. Return `text`. */
static const char *milliseconds(double sec, char text[32])
{
    double ms = 1e3 * sec;
    snprintf(text, 32, "%.*f", ms < 10.0 ? 3 : ms < 100.0 ? 2 : ms < 1000.0 ? 1 : 0, ms);
    return text;
}

static void add_cell(zr__text *out, bool shown, int wide, const char *text)
{
    if (shown) zr__text_add(out, " %*s", wide, text);
}

static void add_head(zr__text *out, optional_columns c)
{
    zr__text_add(out, "  %-23s %-7s", "kind of step", "stream");
    add_cell(out, true, 7, "calls");
    add_cell(out, c.again, 7, "again");
    add_cell(out, true, 9, "ms");
    add_cell(out, c.slowest, 9, "slowest");
    add_cell(out, true, 6, "share");
    add_cell(out, true, 14, "rate");
    add_cell(out, true, 7, "of peak");
    zr__text_add(out, "\n");
}

static void add_kind_row(zr__text *out, const zr_timings *t, const zr_timing *kind, optional_columns c)
{
    char cell[48];
    const zr__timing_rate rate = zr__timing_rate_of(t, kind);
    zr__text_add(out, "  %-23.23s %-7s", kind->name, zr_stream_name(kind->stream));
    snprintf(cell, sizeof(cell), "%.4g", kind->calls);
    add_cell(out, true, 7, cell);
    snprintf(cell, sizeof(cell), "%.4g", kind->replays);
    add_cell(out, c.again, 7, kind->replays > 0 ? cell : "-");
    add_cell(out, true, 9, milliseconds(kind->sec, cell));
    add_cell(out, c.slowest, 9, milliseconds(kind->slowest_sec, cell));
    snprintf(cell, sizeof(cell), "%.1f%%", 100.0 * kind->sec / t->step_sec);
    add_cell(out, true, 6, cell);
    snprintf(cell, sizeof(cell), "%s%s", ZR_AMOUNT(rate.per_sec), rate.flops ? "FLOP/s" : "B/s");
    add_cell(out, true, 14, isfinite(rate.per_sec) ? cell : "-");
    snprintf(cell, sizeof(cell), "%.0f%%", 100.0 * rate.of_peak);
    add_cell(out, true, 7, isfinite(rate.of_peak) ? cell : "-");
    zr__text_add(out, "\n");
}

static bool is_attention(const zr_timing *kind)
{
    return strncmp(kind->name, "attention", 9) == 0;
}

/* Add a row for each kind of op that takes at least a thousandth of the step. Add one more row for all other kinds
 * together. */
static void add_kind_rows(zr__text *out, const zr_timings *t, optional_columns c)
{
    int small = 0;
    bool attention = false;
    double sec = 0.0;
    for (int k = 0; k < t->n_kinds; k++) {
        bool shown = t->kind[k].sec >= 1e-3 * t->step_sec;
        if (shown) add_kind_row(out, t, &t->kind[k], c);
        attention |= shown && is_attention(&t->kind[k]);
        small += !shown && t->kind[k].calls > 0;
        sec += shown ? 0.0 : t->kind[k].sec;
    }
    if (small)
        zr__text_add(out, "  %d kinds below 0.1%% each take %s together; run.json has all\n", small, CLI_SECONDS(sec));
    if (attention)
        zr__text_add(out, "  attention is counted without its mask, as the papers count: half of it is skipped\n");
}

/* Add one line for all matrix products together, without the products of attention. Show their rate as a share of the
 * peak. */
static void add_products_line(zr__text *out, const zr_timings *t)
{
    zr_timing all = {0};
    char peak[48] = "";
    for (int k = 0; k < t->n_kinds; k++) {
        if (!(t->kind[k].flops > 0) || is_attention(&t->kind[k])) continue;
        all.sec += t->kind[k].sec;
        all.flops += t->kind[k].flops;
    }
    zr__timing_rate rate = zr__timing_rate_of(t, &all);
    if (!isfinite(rate.per_sec)) return;
    if (isfinite(rate.of_peak)) snprintf(peak, sizeof(peak), ", %.0f%% of the measured peak", 100.0 * rate.of_peak);
    zr__text_add(out, "  matrix products: %s (%.1f%%) at %sFLOP/s%s\n", CLI_SECONDS(all.sec),
                 100.0 * all.sec / t->step_sec, ZR_AMOUNT(rate.per_sec), peak);
}

static void add_whole_step(zr__text *out, const zr_timings *t)
{
    zr__text_add(out, "  a step takes %s: computation %s (%.1f%%), exposed communication %s (%.1f%%), ",
                 CLI_SECONDS(t->step_sec), CLI_SECONDS(t->compute_sec), 100.0 * t->compute_sec / t->step_sec,
                 CLI_SECONDS(t->exposed_sec), 100.0 * t->exposed_sec / t->step_sec);
    if (t->pipeline_sec > 0)
        zr__text_add(out, "values of pipeline ranks %s (%.1f%%), ", CLI_SECONDS(t->pipeline_sec),
                     100.0 * t->pipeline_sec / t->step_sec);
    if (t->disk_sec > 0)
        zr__text_add(out, "disk alone %s (%.1f%%), none of these %s\n", CLI_SECONDS(t->disk_sec),
                     100.0 * t->disk_sec / t->step_sec, CLI_SECONDS(t->idle_sec));
    else
        zr__text_add(out, "%s %s\n", t->pipeline_sec > 0 ? "none of these" : "neither", CLI_SECONDS(t->idle_sec));
    if (t->ranks > 1)
        zr__text_add(out, "  communication takes %s, of which %.0f%% is hidden behind computation\n",
                     CLI_SECONDS(t->comm_sec), 100.0 * (1.0 - t->exposed_sec / t->comm_sec));
}

void cli_timings_print(FILE *out, const zr_timings *t)
{
    zr__text text = {0};
    optional_columns c = {.slowest = t->ranks > 1};
    for (int k = 0; k < t->n_kinds; k++) c.again |= t->kind[k].replays > 0;
    ZR_AUTO_FREE char *table = NULL;
    char ranks[32];
    snprintf(ranks, sizeof(ranks), " and %d ranks", t->ranks);
    zr__text_add(&text, "where the time goes: mean of %lld step%s%s%s; bytes and FLOPs as planned\n",
                 (long long)t->steps, t->steps == 1 ? "" : "s", t->left_out ? " (the first is left out)" : "",
                 t->ranks > 1 ? ranks : "");
    add_head(&text, c);
    add_kind_rows(&text, t, c);
    add_products_line(&text, t);
    add_whole_step(&text, t);
    if (zr__text_take(&text, &table) == ZR_OK) fputs(table, out);
}
