#include "cli/report/report.h"

#include "cli/draw/panel.h"

#include <math.h>
#include <string.h>

#define COLUMNS 64
#define ROWS 10

/** Picture of characters. */
typedef struct canvas {
    char at[ROWS][COLUMNS];
    cli_axes axes; /* axes, in characters */
} canvas;

static void mark(canvas *c, double step, double value, char letter)
{
    int x = (int)cli_axes_x(&c->axes, step), y = (int)cli_axes_y(&c->axes, value);
    x = x < 0 ? 0 : x >= COLUMNS ? COLUMNS - 1 : x;
    y = y < 0 ? 0 : y >= ROWS ? ROWS - 1 : y;
    c->at[y][x] = letter;
}

/** Draw the mean of the points in each column. */
static void draw(canvas *c, const curve_series *s, char letter)
{
    double sum[COLUMNS] = {0}, n[COLUMNS] = {0}, at[COLUMNS] = {0};
    for (int i = 0; i < s->n; i++) {
        const curve_bucket *b = &s->bucket[i];
        if (!b->n) continue;
        double step = b->step_sum / (double)b->n;
        int x = (int)cli_axes_x(&c->axes, step);
        x = x < 0 ? 0 : x >= COLUMNS ? COLUMNS - 1 : x;
        sum[x] += b->sum / (double)b->n;
        n[x] += 1;
        at[x] = step;
    }
    for (int x = 0; x < COLUMNS; x++)
        if (n[x] > 0) mark(c, at[x], sum[x] / n[x], letter);
}

static void print_losses(FILE *out, const cli_curve *curve)
{
    canvas c;
    double low = NAN, high = NAN;
    cli_panel_widen(&curve->loss, &low, &high);
    cli_panel_widen(&curve->val, &low, &high);
    if (!isfinite(low)) return;
    memset(c.at, ' ', sizeof(c.at));
    c.axes = (cli_axes){.box = {0, 0, COLUMNS, ROWS}, .x0 = 0, .x1 = (double)curve->last_step};
    cli_axes_range(&c.axes, low, high, true);
    draw(&c, &curve->loss, '*');
    draw(&c, &curve->val, 'o');
    for (int y = 0; y < ROWS; y++) {
        int length = COLUMNS;
        while (length > 0 && c.at[y][length - 1] == ' ') length--;
        if (y == 0 || y == ROWS - 1)
            fprintf(out, "  %8.4g |%.*s\n", y == 0 ? c.axes.y1 : c.axes.y0, length, c.at[y]);
        else
            fprintf(out, "  %8s |%.*s\n", "", length, c.at[y]);
    }
    fprintf(out, "  %8s  step 1 to %lld; * training loss%s%s\n\n", "", (long long)curve->last_step,
            curve->val.n ? ", o validation loss" : "", c.axes.log ? "; log scale" : "");
}

/** Print the newest text, on lines of its own. */
static void print_sample(FILE *out, const cli_report_run *run)
{
    char shown[1024];
    const json_t *newest = json_array_get(run->samples, json_array_size(run->samples) - 1);
    const char *text = json_string_value(json_object_get(newest, "sample"));
    if (!text) return;
    fprintf(out, "\n  what the model writes after step %lld:\n",
            (long long)json_integer_value(json_object_get(newest, "step")));
    for (const char *end = text; end; text = end + 1) {
        char line[512];
        end = strchr(text, '\n');
        snprintf(line, sizeof(line), "%.*s", end ? (int)(end - text) : (int)strlen(text), text);
        fprintf(out, "    %s\n", zr__text_escape(line, shown, sizeof(shown)));
    }
}

void cli_report_text(FILE *out, const cli_report *report)
{
    char shown[1024];
    for (int i = 0; i < report->n; i++) {
        const cli_report_run *run = &report->run[i];
        fprintf(out, "%s%s\n", i ? "\n" : "", zr__text_escape(run->dir, shown, sizeof(shown)));
        for (int n = 0; n < run->n_notes; n++)
            fprintf(out, "  note: %s\n", zr__text_escape(run->note[n], shown, sizeof(shown)));
        print_losses(out, run->curve);
        for (int f = 0; f < run->n_facts; f++) {
            const cli_fact *fact = &run->fact[f];
            if (fact->text[0])
                fprintf(out, "  %-28s%s\n", fact->label, zr__text_escape(fact->text, shown, sizeof(shown)));
        }
        print_sample(out, run);
    }
}
