/* A report, and curves, in characters on the terminal. */
#include "base/text/text.h"
#include "cli/report/report.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

#define COLUMNS 64
#define ROWS 10

/** A curve drawn in characters. */
typedef struct terminal_curve {
    char at[ROWS][COLUMNS];
    cli_axes axes; /* axes of the curve, with coordinates in characters */
} terminal_curve;

static int clamp(int at, int n)
{
    return at < 0 ? 0 : at >= n ? n - 1 : at;
}

/** Draw a series. Each column shows the mean of the points in it. */
static void terminal_series(terminal_curve *c, const curve_series *s, char letter)
{
    double sum[COLUMNS] = {0}, n[COLUMNS] = {0};
    for (int i = 0; i < s->n; i++) {
        const curve_bucket *b = &s->bucket[i];
        if (!b->n) continue;
        const int x = clamp((int)cli_axes_x(&c->axes, b->step_sum / (double)b->n), COLUMNS);
        sum[x] += b->sum / (double)b->n;
        n[x] += 1;
    }
    for (int x = 0; x < COLUMNS; x++) {
        if (n[x] == 0) continue;
        const int y = clamp((int)cli_axes_y(&c->axes, sum[x] / n[x]), ROWS);
        c->at[y][x] = letter;
    }
}

static void print_terminal_curve(FILE *out, const cli_curve *curve)
{
    terminal_curve c = {.axes = {.box = {0, 0, COLUMNS, ROWS}, .x0 = 0, .x1 = (double)curve->last_step}};
    const curve_series *loss = &curve->series[CLI_LOSS], *val = &curve->series[CLI_VAL];
    double low = NAN, high = NAN;
    cli_series_widen(loss, &low, &high);
    cli_series_widen(val, &low, &high);
    if (!isfinite(low)) return;
    memset(c.at, ' ', sizeof(c.at));
    cli_axes_range(&c.axes, low, high, true);
    terminal_series(&c, loss, '*');
    terminal_series(&c, val, 'o');
    for (int y = 0; y < ROWS; y++) {
        int length = COLUMNS;
        while (length > 0 && c.at[y][length - 1] == ' ') length--;
        if (y == 0 || y == ROWS - 1)
            fprintf(out, "  %8.4g |%.*s\n", y == 0 ? c.axes.y1 : c.axes.y0, length, c.at[y]);
        else
            fprintf(out, "  %8s |%.*s\n", "", length, c.at[y]);
    }
    fprintf(out, "  %8s  step 1 to %lld; * training loss%s%s\n\n", "", (long long)curve->last_step,
            val->n ? ", o validation loss" : "", c.axes.log ? "; log scale" : "");
}

/** Print the newest sample text, if the run has one. */
static void print_newest_sample(FILE *out, const json_t *samples)
{
    char line[512], shown[1024];
    const json_t *newest = json_array_get(samples, json_array_size(samples) - 1);
    const char *text = json_string_value(json_object_get(newest, "sample"));
    if (!text) return;
    fprintf(out, "\n  what the model writes after step %lld:\n",
            (long long)json_integer_value(json_object_get(newest, "step")));
    for (const char *end = text; end; text = end + 1) {
        end = strchr(text, '\n');
        snprintf(line, sizeof(line), "%.*s", end ? (int)(end - text) : (int)strlen(text), text);
        fprintf(out, "    %s\n", zr__text_escape(line, shown, sizeof(shown)));
    }
}

void cli_report_terminal(FILE *out, const cli_report *report)
{
    char shown[1024];
    for (int i = 0; i < report->n; i++) {
        const cli_report_run *run = &report->run[i];
        fprintf(out, "%s%s\n", i ? "\n" : "", zr__text_escape(run->dir, shown, sizeof(shown)));
        for (int n = 0; n < run->n_notes; n++)
            fprintf(out, "  note: %s\n", zr__text_escape(run->note[n], shown, sizeof(shown)));
        print_terminal_curve(out, run->curve);
        for (int f = 0; f < run->n_facts; f++)
            if (run->fact[f].text[0]) fprintf(out, "  %-28s%s\n", run->fact[f].label, ZR_SHOWN(run->fact[f].text));
        print_newest_sample(out, run->samples);
    }
}
