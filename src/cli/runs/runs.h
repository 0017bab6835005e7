/** The progress and timings of a run, and its directory if zr chooses the name. */
#ifndef ZR_CLI_RUNS_RUNS_H
#define ZR_CLI_RUNS_RUNS_H

#include "zr/comm.h"
#include "zr/run.h"

#include <stdio.h>

/** Create the run's directory if the user gave no directory, and set train.output_dir to it. zr_train_prepare has
 * already chosen a name. If a directory of this name exists, use name-2, name-3 and so on. Collective; `comm` is NULL
 * for a single process. Return ZR_ERR_CREATE on failure. */
ZR_NODISCARD zr_status cli_own_dir_make(zr_config *config, zr_comm *comm);

/** Remove the directory that cli_own_dir_make created, if it is empty. Call this function only on the process that
 * created the directory. */
void cli_own_dir_drop(const zr_config *config);

/** Print the commands that can follow a completed run, such as `zr generate` for a decoder with a tokenizer. */
void cli_next_say(const zr_config *config, const zr_train_result *result);

/** Print a table of the time that each kind of op takes in a step. Lines have at most 100 columns. */
void cli_timings_print(FILE *out, const zr_timings *timings);

typedef struct cli_progress {
    bool quiet, color, live;
    int64_t every;       /* number of steps per permanent line */
    double begin;        /* time at which the run started, in seconds by zr_clock_sec */
    int64_t from;        /* number of steps done before the run was resumed */
    const char *counted; /* plural name of the losses that an evaluation counts, such as "tokens" */
    int64_t peak_bytes;  /* planned peak memory of a rank in bytes; the measured peak is the same */
    double shown;        /* time of the last redraw, in seconds by zr_clock_sec */
    bool timed;          /* whether --timings was given */
    zr_timings timings;  /* timings, filled at the end of the run; until then `steps` is 0 */
    struct cli_loss *loss;
    zr_comm *comm; /* communicator of the launcher's ranks, or NULL without a launcher */
} cli_progress;

/** Return an observer that writes the progress of a run to stderr. `progress` is borrowed. */
zr_observer cli_progress_observer(cli_progress *progress);

/** Clear the redrawn line, if the progress has one. */
void cli_progress_end(const cli_progress *progress);

/** Report ranks that hang or have died. Callback for an observer's `hang`; `arg` is a cli_progress. End the job if a
 * rank has died, or if it hangs beyond the time limit. */
void cli_hang(void *arg, zr_hang_event event, const char *line);

#endif
