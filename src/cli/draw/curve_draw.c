#include "cli/draw/panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_WIDTH 960.0
#define LEFT 88.0
#define PLOT_WIDTH 846.0
#define LOSS_HEIGHT 360.0
#define LR_HEIGHT 110.0
#define GAP 26.0           /* between the panels */
#define VALUES_WIDTH 138.0 /* width of the values after a name in the legend */
#define BANDS 3            /* most runs whose single steps are drawn behind the mean */

typedef struct page {
    FILE *out;
    cli_curve *const *curve;
    const char *const *name;
    int n;
    cli_panel loss, lr;
    bool any_val;
} page;

static void set_axes(page *g, double top)
{
    double low = NAN, high = NAN, lr_low = NAN, lr_high = NAN;
    cli_axes *loss = &g->loss.axes, *lr = &g->lr.axes;
    for (int i = 0; i < g->n; i++) {
        cli_panel_widen(&g->curve[i]->loss, &low, &high);
        cli_panel_widen(&g->curve[i]->val, &low, &high);
        cli_panel_widen(&g->curve[i]->lr, &lr_low, &lr_high);
    }
    loss->box = (svg_box){LEFT, top, PLOT_WIDTH, LOSS_HEIGHT};
    lr->box = (svg_box){LEFT, top + LOSS_HEIGHT + GAP, PLOT_WIDTH, LR_HEIGHT};
    cli_panel_steps(loss, g->curve, g->n);
    cli_panel_steps(lr, g->curve, g->n);
    cli_axes_range(loss, low, high, true);
    cli_axes_range(lr, lr_low > 0 ? 0 : lr_low, lr_high, false);
}

static void draw_run(page *g, int run)
{
    const cli_curve *c = g->curve[run];
    bool one = g->n == 1;
    const char *color = cli_axes_color(run), *dash = cli_axes_dash(run), *name = g->name[run];
    const cli_pen
        loss = {color, dash, 1.8, 2.4, PANEL_FEW, true, g->n <= BANDS, true, name},
        val = {one ? cli_axes_color(1) : color, one ? NULL : "1 4", 1.4, 4, 2 * PANEL_FEW, false, false, true, name},
        lr = {one ? cli_axes_color(2) : color, dash, 1.8, 2.4, PANEL_FEW, false, false, false, name};
    cli_panel_draw(&g->loss, &c->loss, &loss);
    cli_panel_draw(&g->loss, &c->val, &val);
    cli_panel_draw(&g->lr, &c->lr, &lr);
}

/* ---- words ----------------------------------------------------------------------------------- */

/** Explain the lines and dots of a single run. */
static void draw_kinds(page *g, double y)
{
    static const svg_font font = {.size = 13, .color = AXES_DARK};
    const cli_curve *c = g->curve[0];
    char text[96];
    double x = LEFT;
    int64_t steps = cli_panel_mean_steps(&g->loss, &c->loss);
    snprintf(text, sizeof(text), "training loss");
    if (steps > 1) snprintf(text, sizeof(text), "training loss, mean of %lld steps; pale: each step", (long long)steps);
    cli_axes_swatch(g->out, x, y, cli_axes_color(0), NULL, false);
    svg_text(g->out, x + 33, y, font, "%s", text);
    x += 60 + svg_text_width(text, 13);
    if (c->val.n) {
        cli_axes_swatch(g->out, x, y, cli_axes_color(1), NULL, true);
        svg_text(g->out, x + 33, y, font, "validation loss");
    }
}

static const char *loss_text(double loss, char text[32])
{
    if (isfinite(loss))
        snprintf(text, 32, "%.4g", loss);
    else
        snprintf(text, 32, "-");
    return text;
}

static void draw_names(page *g, double y)
{
    cli_legend l = cli_legend_of(g->name, g->n, PLOT_WIDTH, VALUES_WIDTH);
    char name[SVG_TEXT_BYTES], loss[32], val[32];
    svg_text(g->out, LEFT, y, (svg_font){.size = 12, .color = AXES_GREY},
             "Lines: training loss%s. Behind each name: the last training loss%s.",
             g->any_val ? "; dots: validation loss" : "", g->any_val ? " / the lowest validation loss" : "");
    for (int i = 0; i < l.shown; i++) {
        double x = LEFT + l.width * (i / l.rows), at = y + 2 + AXES_ROW * (1 + i % l.rows);
        cli_axes_swatch(g->out, x, at, cli_axes_color(i), cli_axes_dash(i), false);
        svg_text(g->out, x + 33, at, (svg_font){.size = 13, .color = AXES_DARK}, "%s",
                 svg_text_fit(g->name[i], 13, l.name_width, name));
        svg_text(g->out, x + 33 + l.name_width + 8, at, (svg_font){.size = 12, .color = AXES_GREY}, "%s%s%s",
                 g->curve[i]->last_step ? loss_text(g->curve[i]->loss.last, loss) : "no step yet",
                 g->curve[i]->val.n ? " / " : "", g->curve[i]->val.n ? loss_text(g->curve[i]->val.best, val) : "");
    }
    if (g->n > l.shown)
        svg_text(g->out, LEFT, y + 2 + AXES_ROW * (l.rows + 1), (svg_font){.size = 12, .color = AXES_GREY},
                 "and %d more", g->n - l.shown);
}

static void draw_title(page *g)
{
    char name[SVG_TEXT_BYTES], first[32], last[32], loss[32], val[128] = "", skipped[96] = "";
    char text[96] = "no finite loss";
    svg_font title = {.size = 18, .color = AXES_DARK, .bold = true}, small = {.size = 13, .color = AXES_GREY};
    if (g->n > 1) {
        svg_text(g->out, LEFT, 34, title, "Loss of %d runs", g->n);
        return;
    }
    svg_text(g->out, LEFT, 34, title, "Loss of %s", svg_text_fit(g->name[0], 18, 700, name));
    const cli_curve *c = g->curve[0];
    if (!c->last_step) {
        svg_text(g->out, LEFT, 56, small, "no step yet");
        return;
    }
    if (isfinite(c->loss.last) && c->loss.per)
        snprintf(text, sizeof(text), "last training loss %s", loss_text(c->loss.last, loss));
    if (isfinite(c->val.best) && c->val.n)
        snprintf(val, sizeof(val), "; lowest validation loss %s, at step %s", loss_text(c->val.best, loss),
                 cli_step_text((double)c->val.best_step, last));
    if (c->skipped)
        snprintf(skipped, sizeof(skipped), "; %lld step%s updated nothing", (long long)c->skipped,
                 c->skipped == 1 ? "" : "s");
    svg_text(g->out, LEFT, 56, small, "step %s to %s; %s%s%s", cli_step_text((double)c->first_step, first),
             cli_step_text((double)c->last_step, last), text, val, skipped);
}

static void draw_page(page *g)
{
    double legend_y = g->n == 1 ? 80 : 58, top = 98;
    if (g->n > 1) {
        cli_legend l = cli_legend_of(g->name, g->n, PLOT_WIDTH, VALUES_WIDTH);
        top = legend_y + AXES_ROW * (l.rows + 1 + (g->n > l.shown)) + 6;
    }
    set_axes(g, top);
    for (int i = 0; i < g->n; i++) g->any_val |= g->curve[i]->val.n > 0;
    double bottom = g->lr.axes.box.y + LR_HEIGHT;
    svg_begin(g->out, PAGE_WIDTH, bottom + 52, "zr: loss, validation loss and learning rate");
    draw_title(g);
    if (g->n == 1)
        draw_kinds(g, legend_y);
    else
        draw_names(g, legend_y);
    cli_panel_frame(&g->loss, g->loss.axes.log ? "loss, nats a token, log scale" : "loss, nats a token", false);
    cli_panel_frame(&g->lr, "learning rate", true);
    svg_text(g->out, LEFT + PLOT_WIDTH / 2, bottom + 40,
             (svg_font){.size = 13, .color = AXES_DARK, .anchor = SVG_MIDDLE}, "training step");
    for (int i = 0; i < g->n; i++) draw_run(g, i);
    cli_panel_explain(&g->loss, LEFT, bottom + 40);
    svg_end(g->out);
}

zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg, size_t *bytes)
{
    page g = {.curve = curve, .name = name, .n = n};
    cli_points *points = zr_alloc(sizeof(*points));
    ZR_CHECK(points, ZR_ERR_MEMORY, "no memory to draw");
    g.out = open_memstream(svg, bytes);
    g.loss = g.lr = (cli_panel){.out = g.out, .points = points};
    if (g.out) draw_page(&g);
    bool drawn = g.out && ferror(g.out) == 0;
    if (g.out && fclose(g.out) != 0) drawn = false;
    zr_free(points);
    ZR_CHECK(drawn, ZR_ERR_MEMORY, "no memory to draw");
    return ZR_OK;
}
