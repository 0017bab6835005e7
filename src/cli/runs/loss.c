#include "cli/draw/curve.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

#include <stdlib.h>

#define STEP_SEC 60.0  /* seconds between drawings */
#define EVAL_SEC 10.0  /* seconds between drawings, at an evaluation */
#define LEAST_PART 100 /* least pause after a drawing, in multiples of its time */

static zr_status draw(cli_loss *loss)
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

static void draw_or_tell(cli_loss *loss)
{
    double begin = zr_clock_sec();
    if (draw(loss) != ZR_OK && !loss->failed) {
        loss->failed = true;
        cli_say("note: the picture of the loss is not drawn: %s", zr_error_message());
    }
    double now = zr_clock_sec();
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

static void draw_after(cli_loss *loss, double sec)
{
    if (loss->curve && zr_clock_sec() >= loss->next + sec) draw_or_tell(loss);
}

void cli_loss_step(cli_loss *loss)
{
    draw_after(loss, STEP_SEC);
}

void cli_loss_eval(cli_loss *loss)
{
    draw_after(loss, EVAL_SEC);
}

void cli_loss_end(cli_loss *loss)
{
    if (loss->curve) draw_or_tell(loss);
    zr_free(loss->curve);
    loss->curve = NULL;
}
