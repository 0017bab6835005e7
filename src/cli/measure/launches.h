/** Measured training steps of this machine, from `zr info --bench` for `zr simulate --cluster this`. */
#ifndef ZR_CLI_LAUNCHES_H
#define ZR_CLI_LAUNCHES_H

#include "base/json/json_write.h"
#include "zr/comm.h"
#include "zr/device.h"
#include "zr/simulate.h"

/** Numbers of thread ranks that are measured: powers of two up to twice the cores, at most 16. */
enum { CLI_LAUNCH_RANKS = 16, CLI_LAUNCHES = 5 };

typedef struct cli_launches {
    zr_launch launch[CLI_LAUNCHES];
    int n;
} cli_launches;

/** Options of a measurement. */
typedef struct cli_launches_how {
    int64_t threads; /* threads of each rank; 0: its share of the cores */
    bool quick;      /* passed to zr__launch_measure; also no more ranks than cores, but at least 2 */
    bool quiet;      /* print no line for each measurement */
} cli_launches_how;

/** Measure ranks that are threads of this process. */
ZR_NODISCARD zr_status cli_launches_threads(const cli_launches_how *how, cli_launches *launches);
/** Measure the ranks of a launcher. Collective. */
ZR_NODISCARD zr_status cli_launches_world(const cli_launches_how *how, zr_comm *comm, cli_launches *launches);
void cli_launches_clear(cli_launches *launches);

/** Remember the launches. A failure is a note. */
void cli_launches_remember(const cli_launches *launches, const zr_device_facts *facts);
void cli_launches_print(const cli_launches *launches);
/** Add the launches as a list of objects. */
void cli_launches_json(zr__json_out *json, const char *key, const cli_launches *launches);

/** Recall the launch with `ranks` ranks on `hosts` hosts; for thread ranks, otherwise, the largest power of two below.
 * Free it with zr__launch_clear. ZR_ERR_NOT_FOUND, ZR_ERR_DATA with the command that measures it. */
ZR_NODISCARD zr_status cli_launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                                         zr_launch *launch);
/** Recall the processor's own rates. ZR_ERR_NOT_FOUND with the command that measures them; other errors of
 * zr__rates_recall. */
ZR_NODISCARD zr_status cli_rates_recall(const zr_device_facts *facts, zr_rates *rates);

#endif
