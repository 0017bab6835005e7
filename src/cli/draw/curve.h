/** Curves of runs: read the values of steps and evaluations from metrics.jsonl, and draw them. Neighbouring steps are
 * merged, so that the memory of a curve does not grow with the length of its run. */
#ifndef ZR_CLI_CURVE_H
#define ZR_CLI_CURVE_H

#include "zr/base.h"

#include <limits.h>

#define CURVE_BUCKETS 2048

/** A bucket: the merged values of consecutive steps. */
typedef struct curve_bucket {
    /* `step_sum`: sum of the step numbers; `sum`: sum of the values; both over the steps with a finite value */
    double step_sum, sum;
    double low, high;
    int64_t n;   /* number of finite values; if it is 0, `low` and `high` are not set */
    int64_t bad; /* number of steps that were skipped or have a value that is not finite */
} curve_bucket;

/** The values of a quantity, such as the loss, over the steps. Bucket i holds the steps from i * per + 1 to (i + 1) *
 * per. */
typedef struct curve_series {
    curve_bucket bucket[CURVE_BUCKETS];
    int64_t per; /* number of steps per bucket, or 0 before the first step */
    int n;       /* number of buckets in use */
    int64_t last_step;
    double last; /* last finite value, or NAN before any finite value */
    double best; /* lowest finite value, or NAN before any finite value */
    int64_t best_step;
} curve_series;

/** Quantities in metrics.jsonl. The validation loss, CLI_VAL, is drawn in the panel of the training loss. */
enum { CLI_LOSS, CLI_NORM, CLI_LR, CLI_RATE, CLI_STEP_MS, CLI_NOISE, CLI_VAL, CLI_QUANTITIES };
typedef struct cli_quantity {
    const char *key, *title, *unit; /* `key` is the key in metrics.jsonl */
    /* `may_log`: whether the y axis may be logarithmic; `from_zero`: whether the y axis begins at 0 */
    bool may_log, from_zero;
    bool noisy; /* whether a long curve is drawn as a moving mean, because values vary much between steps */
} cli_quantity;
extern const cli_quantity cli_quantities[CLI_QUANTITIES];

typedef struct cli_curve {
    curve_series series[CLI_QUANTITIES];
    int64_t first_step, last_step; /* 0 before the first step */
    int64_t skipped;               /* number of skipped steps, read from the newest line of a training step */
    /* `bad_lines`: number of invalid lines; `first_bad`: line number of the first invalid line */
    int64_t bad_lines, first_bad;
    /* `offset` and `lines`: number of bytes and lines of metrics.jsonl read so far; `file`: inode number of the file */
    int64_t offset, lines, file;
} cli_curve;

void cli_curve_merge(curve_bucket *into, const curve_bucket *b);

/** Read the lines that were appended to a metrics.jsonl since the last call. If the file was truncated or replaced,
 * read it again from the start. Leave an incomplete last line for the next call. With `to_end`, read the last line even
 * without a newline, unless it is a truncated JSON object. Return an error if the file cannot be opened or read. */
ZR_NODISCARD zr_status cli_curve_read(cli_curve *curve, const char *path, bool to_end);

/** Draw `n` runs as one SVG page in *svg. The caller releases *svg with free(). `name` lists the names of the runs. On
 * ZR_ERR_MEMORY, *svg is NULL. */
ZR_NODISCARD zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg,
                                      size_t *bytes);

/* ---- a run's own picture --------------------------------------------------------------------- */

/** The picture loss.svg of a run in progress, drawn from the run's metrics.jsonl. Zero-initialise. */
typedef struct cli_loss {
    cli_curve *curve; /* curve of the run; NULL before cli_loss_start, or if memory ran out */
    char name[PATH_MAX], metrics[PATH_MAX], svg[PATH_MAX];
    double next; /* end of the pause after the last drawing, in seconds by zr_clock_sec */
    bool failed; /* whether a failure has already been reported */
} cli_loss;

/** Start drawing. Call this function once the run's directory exists. */
void cli_loss_start(cli_loss *loss, const char *output_dir);
/** Draw again, unless less than `sec` seconds have passed since the end of the pause. After each drawing there is a
 * pause of 100 times the time that the drawing took, so that drawing takes less than 1 % of a run's time. Report only
 * the first failure, as a note. */
void cli_loss_redraw(cli_loss *loss, double sec);
/** Draw for the last time, and free the curve. */
void cli_loss_end(cli_loss *loss);

#endif
