/** Curves of runs: the values of each step and evaluation from metrics.jsonl, thinned as they are read, and their
 * picture. A curve's memory does not depend on the length of its run. */
#ifndef ZR_CLI_CURVE_H
#define ZR_CLI_CURVE_H

#include "zr/base.h"

#include <limits.h>

#define CURVE_BUCKETS 2048

/** Consecutive steps, merged. */
typedef struct curve_bucket {
    double step_sum, sum; /* over finite values */
    double low, high;
    int64_t n;   /* finite values; 0: low and high are not set */
    int64_t bad; /* steps that were skipped (no update) or whose value is not finite */
} curve_bucket;

/** Values over steps: bucket i has the steps i * per + 1 to (i + 1) * per. */
typedef struct curve_series {
    curve_bucket bucket[CURVE_BUCKETS];
    int64_t per; /* steps of a bucket; 0: no step yet */
    int n;       /* buckets up to the last that is not empty */
    int64_t last_step;
    double last; /* the last value, NaN: none */
    double best; /* the lowest, NaN: none */
    int64_t best_step;
} curve_series;

/** Quantities of metrics.jsonl. The validation loss is drawn with the training loss. */
enum { CLI_LOSS, CLI_NORM, CLI_LR, CLI_RATE, CLI_STEP_MS, CLI_NOISE, CLI_VAL, CLI_QUANTITIES };
typedef struct cli_quantity {
    const char *key, *title, *unit; /* the key of metrics.jsonl */
    bool may_log, from_zero;        /* scale of the y axis */
    bool noisy;                     /* the mean is drawn if there are many steps */
} cli_quantity;
extern const cli_quantity cli_quantities[CLI_QUANTITIES];

typedef struct cli_curve {
    curve_series series[CLI_QUANTITIES];
    int64_t first_step, last_step; /* 0: no step yet */
    int64_t skipped;               /* skipped steps, by the last line */
    int64_t bad_lines, first_bad;  /* lines that no run writes; number of the first */
    /* Position in the file: bytes and lines read, inode. */
    int64_t offset, lines, file;
} cli_curve;

void cli_curve_merge(curve_bucket *into, const curve_bucket *b);

/** Read the lines that were added to a metrics.jsonl since the last call, or all lines if the file was cut or replaced.
 * An incomplete last line waits for the next call; with `to_end` it is counted unless it is a cut object. Errors of
 * opening and reading. */
ZR_NODISCARD zr_status cli_curve_read(cli_curve *curve, const char *path, bool to_end);

/** Draw runs as one page of SVG, which the caller frees (free). `name`: (n), the runs' names. *svg NULL and
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg,
                                      size_t *bytes);

/* ---- a run's own picture --------------------------------------------------------------------- */

/** loss.svg of a run in progress, drawn from its metrics.jsonl. Zero-initialise. */
typedef struct cli_loss {
    cli_curve *curve; /* NULL: not started, or no memory */
    char name[PATH_MAX], metrics[PATH_MAX], svg[PATH_MAX];
    double next; /* earliest time of the next drawing */
    bool failed; /* a failure was reported */
} cli_loss;

/** Start, once the run has its directory. */
void cli_loss_start(cli_loss *loss, const char *output_dir);
/** Redraw if the last drawing is long enough ago, after an evaluation sooner. A drawing takes less than a hundredth of
 * the time since the last. A failure is told once. */
void cli_loss_step(cli_loss *loss);
void cli_loss_eval(cli_loss *loss);
/** Draw for the last time. */
void cli_loss_end(cli_loss *loss);

#endif
