/** Curves of runs: read the values of each step and evaluation from metrics.jsonl, and draw them. Neighbouring steps
 * are merged, so that a curve's memory does not grow with the length of its run. */
#ifndef ZR_CLI_CURVE_H
#define ZR_CLI_CURVE_H

#include "zr/base.h"

#include <limits.h>

#define CURVE_BUCKETS 2048

/** A bucket: the merged values of consecutive steps. */
typedef struct curve_bucket {
    double step_sum, sum; /* sum of the step numbers and sum of the values; both only over steps with finite values */
    double low, high;
    int64_t n;   /* number of finite values; if 0, `low` and `high` are not set */
    int64_t bad; /* number of steps that were skipped or whose value is not finite */
} curve_bucket;

/** The values of a quantity over the steps. Bucket i holds the steps from i * per + 1 to (i + 1) * per. */
typedef struct curve_series {
    curve_bucket bucket[CURVE_BUCKETS];
    int64_t per; /* steps per bucket, or 0 before the first step */
    int n;       /* number of buckets, without the empty buckets at the end */
    int64_t last_step;
    double last; /* last finite value, or NAN before any finite value */
    double best; /* lowest finite value, or NAN before any finite value */
    int64_t best_step;
} curve_series;

/** Quantities of metrics.jsonl. CLI_VAL, the validation loss, is drawn in the panel of the training loss. */
enum { CLI_LOSS, CLI_NORM, CLI_LR, CLI_RATE, CLI_STEP_MS, CLI_NOISE, CLI_VAL, CLI_QUANTITIES };
typedef struct cli_quantity {
    const char *key, *title, *unit; /* `key` is the key in metrics.jsonl */
    bool may_log, from_zero;        /* whether the y axis may be logarithmic; whether the y axis begins at 0 */
    bool noisy; /* whether the values vary so much from step to step that a long curve is drawn as a moving mean */
} cli_quantity;
extern const cli_quantity cli_quantities[CLI_QUANTITIES];

typedef struct cli_curve {
    curve_series series[CLI_QUANTITIES];
    int64_t first_step, last_step; /* 0 before the first step */
    int64_t skipped;               /* number of skipped steps, read from the last line */
    int64_t bad_lines, first_bad;  /* number of lines that no run would write; line number of the first */
    /* Position in metrics.jsonl: bytes read and lines read so far. `file` is the file's inode. */
    int64_t offset, lines, file;
} cli_curve;

void cli_curve_merge(curve_bucket *into, const curve_bucket *b);

/** Read the lines that were added to a metrics.jsonl since the last call. If the file was truncated or replaced, read
 * all its lines. Leave an incomplete last line for the next call; with `to_end`, leave only a truncated JSON object.
 * Return the error of opening or reading the file. */
ZR_NODISCARD zr_status cli_curve_read(cli_curve *curve, const char *path, bool to_end);

/** Draw `n` runs as one page of SVG in *svg, which the caller releases with free(). `name` holds the names of the
 * runs. On ZR_ERR_MEMORY, *svg is NULL. */
ZR_NODISCARD zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg,
                                      size_t *bytes);

/* ---- a run's own picture --------------------------------------------------------------------- */

/** The picture loss.svg of a run in progress, drawn from the run's metrics.jsonl. Zero-initialise. */
typedef struct cli_loss {
    cli_curve *curve; /* NULL before cli_loss_start or if memory ran out */
    char name[PATH_MAX], metrics[PATH_MAX], svg[PATH_MAX];
    double next; /* end of the pause after the last drawing, in seconds by zr_clock_sec */
    bool failed; /* whether a failure has already been reported */
} cli_loss;

/** Start drawing. Call this function once the run's directory exists. */
void cli_loss_start(cli_loss *loss, const char *output_dir);
/** Draw again if enough time has passed since the last drawing. cli_loss_step is called after a step, cli_loss_eval
 * after an evaluation, when a shorter time is enough. Drawing takes less than 1 % of a run's time. Only the first
 * failure is reported. */
void cli_loss_step(cli_loss *loss);
void cli_loss_eval(cli_loss *loss);
/** Draw for the last time, and free the curve. */
void cli_loss_end(cli_loss *loss);

#endif
