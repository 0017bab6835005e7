/* The page of loss.svg and of `zr plot`: the losses of runs, and below them the learning rates. */
#include "cli/draw/panel.h"

#include <stdio.h>
#include <math.h>

#define PAGE_WIDTH 960.0
#define LEFT 104.0
#define PLOT_WIDTH 820.0
#define LOSS_HEIGHT 360.0
#define LR_HEIGHT 110.0
#define GAP 26.0           /* vertical gap between the panels, pixels */
#define VALUES_WIDTH 168.0 /* width in pixels of a run's losses, which follow its name in the legend */

typedef struct loss_page {
    cli_curve *const *curve;
    const char *const *name;
    int n;
    bool any_val;
} loss_page;

static const char *loss_words(double loss, char text[32])
{
    snprintf(text, 32, isfinite(loss) ? "%.4g" : "-", loss);
    return text;
}

/** Draw the legend for a single run: its training loss and validation loss. */
static void draw_loss_kinds(const cli_panel *loss, double y)
{
    static const svg_font font = {.size = 13, .color = AXES_DARK};
    char text[96] = "training loss";
    double x = LEFT;
    int64_t steps = cli_panel_mean_steps(loss);
    if (steps > 1) snprintf(text, sizeof(text), "training loss, mean of %lld steps; pale: each step", (long long)steps);
    cli_legend_line(loss->out, x, y, cli_axes_color(0), NULL, false);
    svg_text(loss->out, x + 33, y, font, "%s", text);
    if (!loss->curve[0]->series[CLI_VAL].n) return;
    x += 60 + svg_text_width(text, 13);
    cli_legend_line(loss->out, x, y, cli_axes_color(1), NULL, true);
    svg_text(loss->out, x + 33, y, font, "validation loss");
}

/** Draw the legend for several runs. Show the name, last training loss and lowest validation loss of each run. */
static void draw_loss_names(FILE *out, const loss_page *g, cli_legend *l, double y)
{
    legend_words losses[LEGEND_MOST];
    svg_text(out, LEFT, y, (svg_font){.size = 12, .color = AXES_GREY},
             "Lines: training loss%s. Behind each name: the last training loss%s.",
             g->any_val ? "; dots: validation loss" : "", g->any_val ? " / the lowest validation loss" : "");
    for (int i = 0; i < l->shown; i++) {
        const cli_curve *c = g->curve[i];
        const curve_series *loss = &c->series[CLI_LOSS], *val = &c->series[CLI_VAL];
        char last[32], best[32];
        snprintf(losses[i], sizeof(losses[i]), "%s%s%s", c->last_step ? loss_words(loss->last, last) : "no step yet",
                 val->n ? " / " : "", val->n ? loss_words(val->best, best) : "");
    }
    l->behind = losses;
    cli_legend_draw(out, l, LEFT, y + 2 + AXES_ROW);
}

static void draw_loss_title(FILE *out, const loss_page *g)
{
    char name[SVG_TEXT_BYTES], text[96] = "no finite loss", validated[128] = "", skipped[96] = "";
    svg_font title = {.size = 18, .color = AXES_DARK, .bold = true}, small = {.size = 13, .color = AXES_GREY};
    if (g->n > 1) {
        svg_text(out, LEFT, 34, title, "Loss of %d runs", g->n);
        return;
    }
    svg_text(out, LEFT, 34, title, "Loss of %s", svg_text_fit(g->name[0], 18, 700, name));
    const cli_curve *c = g->curve[0];
    if (!c->last_step) {
        svg_text(out, LEFT, 56, small, "no step yet");
        return;
    }
    const curve_series *loss = &c->series[CLI_LOSS], *val = &c->series[CLI_VAL];
    if (isfinite(loss->last) && loss->per)
        snprintf(text, sizeof(text), "last training loss %s", loss_words(loss->last, (char[32]){0}));
    if (isfinite(val->best) && val->n)
        snprintf(validated, sizeof(validated), "; lowest validation loss %s, at step %s",
                 loss_words(val->best, (char[32]){0}), cli_step_text((double)val->best_step, (char[32]){0}));
    if (c->skipped)
        snprintf(skipped, sizeof(skipped), "; %lld step%s updated nothing", (long long)c->skipped,
                 c->skipped == 1 ? "" : "s");
    svg_text(out, LEFT, 56, small, "step %s to %s; %s%s%s", cli_step_text((double)c->first_step, (char[32]){0}),
             cli_step_text((double)c->last_step, (char[32]){0}), text, validated, skipped);
}

static zr_status draw_loss_page(FILE *out, void *arg)
{
    loss_page *g = arg;
    cli_legend l = cli_legend_of(g->name, g->n, PLOT_WIDTH, VALUES_WIDTH);
    const double legend_y = g->n == 1 ? 80 : 58, top = g->n == 1 ? 98 : legend_y + AXES_ROW + l.height + 6;
    const double lr_top = top + LOSS_HEIGHT + GAP, bottom = lr_top + LR_HEIGHT;
    cli_panel loss = {out, CLI_LOSS, g->curve, g->name, g->n, .color = 0};
    cli_panel lr = {out, CLI_LR, g->curve, g->name, g->n, .color = 2};
    cli_panel_place(&loss, (svg_box){LEFT, top, PLOT_WIDTH, LOSS_HEIGHT});
    cli_panel_place(&lr, (svg_box){LEFT, lr_top, PLOT_WIDTH, LR_HEIGHT});
    for (int i = 0; i < g->n; i++) g->any_val |= g->curve[i]->series[CLI_VAL].n > 0;
    svg_begin(out, PAGE_WIDTH, bottom + 52, "zr: loss, validation loss and learning rate");
    draw_loss_title(out, g);
    if (g->n == 1)
        draw_loss_kinds(&loss, legend_y);
    else
        draw_loss_names(out, g, &l, legend_y);
    cli_panel_frame(&loss, loss.axes.log ? "loss, nats a token, log scale" : "loss, nats a token", false);
    cli_panel_frame(&lr, "learning rate", true);
    svg_text(out, LEFT + PLOT_WIDTH / 2, bottom + 40, (svg_font){.size = 13, .color = AXES_DARK, .anchor = SVG_MIDDLE},
             "training step");
    for (int i = 0; i < g->n; i++) {
        cli_panel_run(&loss, i);
        cli_panel_run(&lr, i);
    }
    cli_panel_explain(&loss, LEFT, bottom + 40);
    svg_end(out);
    return ZR_OK;
}

zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg, size_t *bytes)
{
    loss_page page = {.curve = curve, .name = name, .n = n};
    return svg_page(draw_loss_page, &page, svg, bytes);
}
