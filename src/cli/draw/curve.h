/** The curves of runs: what a metrics.jsonl has of each step and evaluation, thinned as it is read, and their picture.
 * A curve takes the same memory whatever the length of its run. */
#ifndef ZR_CLI_CURVE_H
#define ZR_CLI_CURVE_H

#include "cli/shell/cli.h"

#include <limits.h>

#define CURVE_BUCKETS 2048

/** Consecutive steps as one. */
typedef struct curve_bucket {
    double step_sum, sum; /* over what is finite */
    double low, high;
    int64_t n;   /* finite values; 0: the others mean nothing */
    int64_t bad; /* steps that updated nothing, or whose value is not finite */
} curve_bucket;

/** Values over steps: bucket i has the steps i * per + 1 to (i + 1) * per. */
typedef struct curve_series {
    curve_bucket bucket[CURVE_BUCKETS];
    int64_t per; /* 0: nothing yet */
    int n;       /* buckets up to the last that has something */
    int64_t last_step;
    double last; /* the last value, NaN: none */
    double best; /* the lowest, NaN: none */
    int64_t best_step;
} curve_series;

typedef struct cli_curve {
    curve_series loss, val, lr, norm, step_ms, rate; /* rate: tokens a second */
    curve_series noise;                              /* gradient noise scale, tokens */
    int64_t first_step, last_step;                   /* 0: nothing yet */
    int64_t skipped;                                 /* as the last line has it */
    int64_t bad_lines, first_bad;                    /* lines that are not a run's */
    /* How far the file is read. */
    int64_t offset, lines, file;
} cli_curve;

void cli_curve_merge(curve_bucket *into, const curve_bucket *b);

/** Read what a metrics.jsonl has more than at the last call; from its beginning when it was cut or replaced. Half a
 *  last line waits for its rest; with `to_end` it counts when it is whole. Errors: those of opening and reading. */
ZR_NODISCARD zr_status cli_curve_read(cli_curve *curve, const char *path, bool to_end);

/** Draw runs as one page of SVG, which the caller frees (free). `name`: what each is called. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_curve_draw(cli_curve *const *curve, const char *const *name, int n, char **svg,
                                      size_t *bytes);

/** A command line that names runs, one at least; where help was asked for it is printed, and args->help is set.
 *  ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_parse_runs(cli_args *args, const cli_command *command, int argc, char **argv);

/** What follows the last folder that all have in common, of each run without the slashes at its end; a single run is
 *  called what it was called. room: (n), where the names live. */
void cli_runs_name(const char *const *run, int n, char (*room)[PATH_MAX], const char **name);

/* ---- a run's own picture --------------------------------------------------------------------- */

/** loss.svg of a run that goes on, drawn from what its metrics.jsonl has. Zero-initialise. */
typedef struct cli_loss {
    cli_curve *curve; /* NULL: not started, or no memory */
    char name[PATH_MAX], metrics[PATH_MAX], svg[PATH_MAX];
    double next; /* time from which it may be drawn again */
    bool failed; /* told once */
} cli_loss;

/** The run has its directory. */
void cli_loss_start(cli_loss *loss, const char *output_dir);
/** Draw when the last time is long enough ago; an evaluation is worth it sooner. What a drawing takes is less than a
 *  hundredth of the time since the last. A failure is told once. */
void cli_loss_step(cli_loss *loss);
void cli_loss_eval(cli_loss *loss);
/** Draw the last time. */
void cli_loss_end(cli_loss *loss);

#endif
