/* The picture loss.svg in a run's directory, which shows the run's losses. It is redrawn from time to time during the
 * run. */
#include "cli/shell/message.h"
#include "checkpoint/checkpoint.h"
#include "cli/draw/curve.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>

#define STEP_SEC 60.0  /* minimum seconds before a training step redraws */
#define EVAL_SEC 10.0  /* minimum seconds before an evaluation redraws */
#define LEAST_PART 100 /* minimum pause after a drawing, as a multiple of the drawing's time */

static zr_status draw_loss(cli_loss *loss)
{
    char *svg = NULL;
    size_t bytes = 0;
    const char *name = loss->name;
    ZR_TRY(zr__output_check(loss->svg, &cli_svg_kind, NULL));
    ZR_TRY(cli_curve_read(loss->curve, loss->metrics, false));
    zr_status st = cli_curve_draw(&loss->curve, &name, 1, &svg, &bytes);
    if (st == ZR_OK) st = zr__file_put(loss->svg, svg, (int64_t)bytes);
    free(svg); /* allocated by open_memstream, not by zr_alloc */
    return st;
}

/* Draw if the pause after the last drawing ended at least `sec` seconds ago. Report only the first failure, as a note.
 * */
static void draw_loss_after(cli_loss *loss, double sec)
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

void cli_loss_step(cli_loss *loss)
{
    draw_loss_after(loss, STEP_SEC);
}

void cli_loss_eval(cli_loss *loss)
{
    draw_loss_after(loss, EVAL_SEC);
}

void cli_loss_end(cli_loss *loss)
{
    draw_loss_after(loss, -INFINITY);
    zr_free(loss->curve);
    loss->curve = NULL;
}
