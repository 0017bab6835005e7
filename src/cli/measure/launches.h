/** Training steps measured on this machine by `zr info --bench`, used by `zr simulate --cluster this`. */
#ifndef ZR_CLI_LAUNCHES_H
#define ZR_CLI_LAUNCHES_H

#include "base/json/json_write.h"
#include "zr/comm.h"
#include "zr/device.h"
#include "zr/simulate.h"

/** CLI_LAUNCH_RANKS: maximum number of ranks that are threads. CLI_LAUNCHES: maximum number of measured launches.
 * Launches of 1, 2, 4, 8 ... ranks are measured, up to twice the number of cores and at most 16. */
enum { CLI_LAUNCH_RANKS = 16, CLI_LAUNCHES = 5 };

typedef struct cli_launches {
    zr_launch launch[CLI_LAUNCHES];
    int n;
} cli_launches;

/** Options for measuring training steps. */
typedef struct cli_launches_how {
    int64_t threads; /* threads of each rank, or 0 for an equal share of the cores */
    bool quick;      /* whether to measure less (see zr__launch_measure) and to use at most max(2, cores) ranks */
    bool quiet;      /* whether to print no progress */
} cli_launches_how;

/** Measure training steps. The ranks are threads of this process. */
ZR_NODISCARD zr_status cli_launches_threads(const cli_launches_how *how, cli_launches *launches);
/** Measure training steps on the ranks of `comm`, which a launcher such as mpirun started. Collective. */
ZR_NODISCARD zr_status cli_launches_world(const cli_launches_how *how, zr_comm *comm, cli_launches *launches);
void cli_launches_clear(cli_launches *launches);

/** Store the measured training steps for later commands. Print a note on failure. */
void cli_launches_remember(const cli_launches *launches, const zr_device_facts *facts);
void cli_launches_print(const cli_launches *launches);
/** Add the launches to the JSON output as an array of objects. */
void cli_launches_json(zr__json_out *json, const char *key, const cli_launches *launches);

/** Read the stored training steps of `ranks` ranks on `hosts` hosts. If ranks are threads and `ranks` was not measured,
 * read the steps of the largest measured power of two below `ranks`. Free the launch with zr__launch_clear. On
 * ZR_ERR_NOT_FOUND and ZR_ERR_DATA the message names the command that measures the launch. */
ZR_NODISCARD zr_status cli_launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                                         zr_launch *launch);
/** Read the stored rates of this machine's processor. On ZR_ERR_NOT_FOUND the message names the command that measures
 * the rates. Also return the other errors of zr__rates_recall. */
ZR_NODISCARD zr_status cli_rates_recall(const zr_device_facts *facts, zr_rates *rates);

#endif
