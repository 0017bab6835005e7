/** Curves of runs: the values of each step and evaluation, thinned while metrics.jsonl is read, and their drawing. A
 * curve's memory does not grow with the length of its run. */
#ifndef ZR_CLI_CURVE_H
#define ZR_CLI_CURVE_H

#include "zr/base.h"

#include <limits.h>

#define CURVE_BUCKETS 2048

/** A bucket: consecutive steps, merged. */
typedef struct curve_bucket {
    double step_sum, sum; /* sums of step numbers and of values, over the steps with finite values */
    double low, high;
    int64_t n;   /* number of finite values; if 0, `low` and `high` are not set */
    int64_t bad; /* number of steps that updated nothing or whose value is not finite */
} curve_bucket;

/** Values over steps. Bucket i holds the steps i * per + 1 to (i + 1) * per. */
typedef struct curve_series {
    curve_bucket bucket[CURVE_BUCKETS];
    int64_t per; /* steps per bucket, or 0 before the first step */
    int n;       /* number of buckets up to the last that is not empty */
    int64_t last_step;
    double last; /* the last finite value, or NAN */
    double best; /* the lowest value, or NAN */
    int64_t best_step;
} curve_series;

/** Quantities of metrics.jsonl. The validation loss is drawn with the training loss. */
enum { CLI_LOSS, CLI_NORM, CLI_LR, CLI_RATE, CLI_STEP_MS, CLI_NOISE, CLI_VAL, CLI_QUANTITIES };
typedef struct cli_quantity {
    const char *key, *title, *unit; /* `key` is the key in metrics.jsonl */
    bool may_log, from_zero;        /* whether the y axis may be logarithmic, and whether it begins at 0 */
    bool noisy;                     /* whether the mean is drawn if there are many steps */
} cli_quantity;
extern const cli_quantity cli_quantities[CLI_QUANTITIES];

typedef struct cli_curve {
    curve_series series[CLI_QUANTITIES];
    int64_t first_step, last_step; /* 0 before the first step */
    int64_t skipped;               /* number of skipped steps, read from the last line */
    int64_t bad_lines, first_bad;  /* number of lines that no run writes, and the line number of the first */
    /* Position in the file: bytes read, lines read, and the file's inode. */
    int64_t offset, lines, file;
} cli_curve;

void cli_curve_merge(curve_bucket *into, const curve_bucket *b);

/** Read the lines that were added to a metrics.jsonl since the last call, or all lines if the file was truncated or
 * replaced. An incomplete last line waits for the next call. With `to_end` the last line is counted unless it is a
 * truncated JSON object. Return the error of opening or reading the file. */
ZR_NODISCARD zr_status cli_curve_read(cli_curve *curve, const char *path, bool to_end);

/** Draw `n` runs as one page of SVG in *svg, which the caller releases with free(). `name` holds the runs' names. On
 * ZR_ERR_MEMORY *svg is NULL. */
ZR_NODISCARD zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg,
                                      size_t *bytes);

/* ---- a run's own picture --------------------------------------------------------------------- */

/** The drawing loss.svg of a run in progress, made from the run's metrics.jsonl. Zero-initialise. */
typedef struct cli_loss {
    cli_curve *curve; /* NULL before the start or if memory ran out */
    char name[PATH_MAX], metrics[PATH_MAX], svg[PATH_MAX];
    double next; /* end of the pause after the last drawing, by zr_clock_sec */
    bool failed; /* whether a failure was reported */
} cli_loss;

/** Start drawing. Call this when the run has its directory. */
void cli_loss_start(cli_loss *loss, const char *output_dir);
/** Draw again if enough time has passed since the last drawing. After an evaluation a shorter time is enough. Drawing
 * takes less than a hundredth of the time. Only the first failure is reported. */
void cli_loss_step(cli_loss *loss);
void cli_loss_eval(cli_loss *loss);
/** Draw for the last time, and free the curve. */
void cli_loss_end(cli_loss *loss);

#endif
