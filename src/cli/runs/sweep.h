/** `zr train --sweep`: train with each combination of the values of some keys, one run after the other, each in its own
 * folder of train.output_dir, and compare the runs in one table and one page. */
#ifndef ZR_CLI_SWEEP_H
#define ZR_CLI_SWEEP_H

#include "cli/plan/brief.h"
#include "zr/comm.h"

typedef struct cli_sweeping {
    const cli_args *args;  /* command line, with the keys of brief options */
    const cli_args *typed; /* command line without the keys of brief options */
    const cli_brief *brief;
    const cli_list *sweep; /* texts of --sweep */
    int64_t ranks;         /* number of ranks, or 0 if --ranks is not given */
    bool resume;           /* whether to go on with runs that were begun, and to skip finished ones */
    zr_comm *comm;         /* communicator of the launcher's ranks, or NULL without a launcher */
    int64_t unix_sec;
    /** Train one run. Return its status, as zr_train_run does. */
    zr_status (*train)(void *arg, const cli_args *args, int ranks);
    void *arg;
} cli_sweeping;

/** Train all combinations. All are checked before the first run begins. A run that fails is recorded, and the next one
 * begins; a request to stop ends the sweep with ZR_ERR_STOPPED. Fail also if no run has succeeded. Collective. */
ZR_NODISCARD zr_status cli_sweep_train(const cli_sweeping *sweeping);

#endif
