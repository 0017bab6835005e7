/* The picture loss.svg in a run's directory, which shows the run's losses. It is redrawn from time to time during the
 * run. */
#include "base/file/commit.h"
#include "cli/shell/message.h"
#include "cli/draw/curve.h"
#include "cli/draw/svg.h"

#include <stdio.h>
#include <math.h>

#define LEAST_PART 100 /* minimum pause after a drawing, in multiples of the time that the drawing took */

static zr_status draw_loss(cli_loss *loss)
{
    ZR_AUTO(svg_page_free) char *svg = NULL;
    size_t bytes = 0;
    const char *name = loss->name;
    ZR_TRY(zr__output_check(loss->svg, &cli_svg_kind, NULL));
    ZR_TRY(cli_curve_read(loss->curve, loss->metrics, false));
    ZR_TRY(cli_curve_draw(&loss->curve, &name, 1, &svg, &bytes));
    return zr__file_put(loss->svg, svg, (int64_t)bytes);
}

void cli_loss_redraw(cli_loss *loss, double sec)
{
    const double begin = zr_clock_sec();
    if (!loss->curve || begin < loss->next + sec) return;
    if (draw_loss(loss) != ZR_OK && !loss->failed) {
        loss->failed = true;
        cli_say("note: the picture of the loss is not drawn: %s", zr_error_message());
    }
    const double now = zr_clock_sec();
    loss->next = now + LEAST_PART * (now - begin);
}

void cli_loss_start(cli_loss *loss, const char *output_dir)
{
    int n = snprintf(loss->metrics, PATH_MAX, "%s/metrics.jsonl", output_dir);
    snprintf(loss->svg, PATH_MAX, "%s/loss.svg", output_dir);
    snprintf(loss->name, PATH_MAX, "%s", output_dir);
    if (n < PATH_MAX) loss->curve = zr_alloc(sizeof(*loss->curve));
    loss->next = zr_clock_sec();
}

void cli_loss_end(cli_loss *loss)
{
    cli_loss_redraw(loss, -INFINITY);
    zr_free(loss->curve);
    loss->curve = NULL;
}
