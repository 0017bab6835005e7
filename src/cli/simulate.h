/** What the files of `zr simulate` share. */
#ifndef ZR_CLI_SIMULATE_H
#define ZR_CLI_SIMULATE_H

#include "cli/brief.h"
#include "zr/simulate.h"

typedef struct cli_simulate_options {
    cli_brief brief;
    const char *cluster;
    int64_t ranks;
    double straggler, tokens;
    bool paper;
} cli_simulate_options;

/** One configuration on one cluster. */
typedef struct cli_simulated {
    zr_report report;
    zr_simulation simulation;
    int64_t params;
    bool fits; /* a device's memory */
} cli_simulated;

/** The cluster of a name or a file; "this": what `zr info --bench` remembers of this machine. */
ZR_NODISCARD zr_status cli_cluster(const char *name, int ranks, zr_cluster *cluster, zr_profile *profile);
/** Plan a settled configuration and price it. *plan (may be NULL) is kept, to be destroyed. */
ZR_NODISCARD zr_status cli_simulate_one(const zr_config *config, int ranks, const zr_cluster *cluster,
                                        const zr_profile *profile, const zr_simulate_options *options,
                                        cli_simulated *made, zr_plan **plan);
/** What the ZeRO papers measured beside what is simulated; as aligned text or one JSON list. */
ZR_NODISCARD zr_status cli_simulate_papers(FILE *out, bool json);

#endif
