/**
 * cli/runs: what commands on runs and weights share: progress and hangs told while training, the directory that a run
 * makes for itself, the live picture of its loss (loss.c), tables of timings, and stored weights by name (stored.h).
 */
#ifndef ZR_CLI_RUNS_RUNS_H
#define ZR_CLI_RUNS_RUNS_H

#include "cli/shell/line.h"
#include "zr/comm.h"
#include "zr/run.h"

#include <stdio.h>

/** Make the directory of a run that was given none (zr_train_prepare names it): the first of name, name-2, name-3 ...
 * that does not exist; the configuration then names it. Collective, comm NULL: one process. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status cli_own_dir_make(zr_config *config, zr_comm *comm);

/** Remove the run's own directory, on the process that made it, if the run left nothing in it. */
void cli_own_dir_drop(const zr_config *config);

/** Print a table of where a step's time goes, at most 100 columns. */
void cli_timings_print(FILE *out, const zr_timings *timings);

typedef struct cli_progress {
    bool quiet, color, live;
    int64_t every;         /* steps between plain lines */
    double begin;          /* seconds */
    int64_t from;          /* steps that the run had done before */
    int64_t peak_bytes;    /* bytes of a rank as planned, and thus as measured */
    double shown;          /* time of the last write of the refreshing line */
    bool timed;            /* --timings was given */
    zr_timings timings;    /* set at the end of the run; .steps 0: not set */
    struct cli_loss *loss; /* the run's picture */
    zr_comm *comm;         /* under a launcher; NULL: one process */
} cli_progress;

/** Return callbacks that write a run's progress to stderr; `progress` is borrowed. */
zr_observer cli_progress_observer(cli_progress *progress);

/** End the refreshing line, if there is one. */
void cli_progress_end(const cli_progress *progress);

/** Report ranks that hang, as an observer's `hang`; arg: a cli_progress. Ends the job when the wait is over. */
void cli_hang(void *arg, zr_hang_event event, const char *line);

#endif
