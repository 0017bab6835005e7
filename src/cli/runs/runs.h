/** The progress, the loss picture, the timings and the automatically named directory of a run. */
#ifndef ZR_CLI_RUNS_RUNS_H
#define ZR_CLI_RUNS_RUNS_H

#include "cli/shell/line.h"
#include "zr/comm.h"
#include "zr/run.h"

#include <stdio.h>

/** Create the directory of a run for which none was given, and set train.output_dir to it. zr_train_prepare chose the
 * name; the directory is the first of name, name-2, name-3 ... that does not exist. Collective; `comm` is NULL for a
 * single process. Return ZR_ERR_CREATE on failure. */
ZR_NODISCARD zr_status cli_own_dir_make(zr_config *config, zr_comm *comm);

/** Remove the directory that cli_own_dir_make created, if the run left nothing in it. Call this on the process that
 * created it. */
void cli_own_dir_drop(const zr_config *config);

/** Print a table of where the time of a step goes, in lines of at most 100 columns. */
void cli_timings_print(FILE *out, const zr_timings *timings);

typedef struct cli_progress {
    bool quiet, color, live;
    int64_t every;         /* a permanent line is printed each time this number of steps is done */
    double begin;          /* seconds */
    int64_t from;          /* number of steps that the run had done before this start */
    int64_t peak_bytes;    /* planned bytes of a rank, which equal the measured bytes */
    double shown;          /* time at which the redrawn line was last written */
    bool timed;            /* whether --timings was given */
    zr_timings timings;    /* set at the end of the run; `steps` is 0 if not set */
    struct cli_loss *loss; /* picture of the run's losses */
    zr_comm *comm;         /* ranks under a launcher, or NULL */
} cli_progress;

/** Return an observer that writes the progress of a run to stderr. `progress` is borrowed. */
zr_observer cli_progress_observer(cli_progress *progress);

/** End the redrawn line, if there is one. */
void cli_progress_end(const cli_progress *progress);

/** Report ranks that hang or are gone, as an observer's `hang`. `arg` is a cli_progress. When the wait for the ranks
 * is over, end the job. */
void cli_hang(void *arg, zr_hang_event event, const char *line);

#endif
