/** cli/plan: `zr plan`, and functions that `zr simulate` shares with it. This header declares the target: the machine
 * for which a configuration is planned. `zr plan`, `zr simulate`, its sweep and its search resolve, plan and price
 * configurations only with these functions, so that their answers agree. choices.h compares stages and policies and
 * gives advice. max.h finds the largest model or batch. brief.h has the options that set keys. cluster.c and profile.c
 * read --cluster and --profile. */
#ifndef ZR_CLI_TARGET_H
#define ZR_CLI_TARGET_H

#include "cli/shell/message.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"
#include "zr/simulate.h"

typedef struct cli_target {
    int ranks;
    int local_ranks, in_process; /* number of ranks on this host, and in this process; not used for a cluster */
    bool here;                   /* whether the target is this machine, priced by its own rates */
    zr_profile profile;          /* profile of the device for which plans are made */
    zr_profile chooser;          /* profile that `zr train` uses: without rates that this command measured */
    double efficiency;           /* share of the profile's FLOP/s that products reach; 0 stands for the full FLOP/s */
    bool simulated; /* whether steps are priced by simulating `cluster`; otherwise they are priced by the rates of
                       `profile` */
    zr_cluster cluster;
    zr_simulate_options options; /* options for the simulation of `cluster` */
    int64_t limit_bytes;         /* memory limit of a rank, to compare with zr__rank_needs; 0 if there is no limit */
    bool own_limit; /* whether the limit is this machine's free memory, set only because policy auto needs a limit */
} cli_target;

/** A configuration that has been planned and priced. */
typedef struct cli_trial {
    zr_report report;
    zr_simulation simulation; /* if there is no cluster, only its `price` is set */
    int64_t params;
    int64_t needs_bytes; /* bytes that a rank needs (zr__rank_needs) */
    int64_t host_bytes;  /* bytes of a host's memory that all ranks of the host need together */
    bool fits;           /* whether the plan fits limit_bytes and the memory of the cluster's hosts */
} cli_trial;

/** Name of the cluster that consists of this machine, as `zr info --bench` measured it. */
#define CLI_CLUSTER_THIS "this"

/** Create the target of --cluster NAME|FILE for target->ranks ranks. The cluster "this" needs the configuration, which
 * gives the number of ranks on a host; if `config` is NULL, that cluster is not created. `transport` is "threads",
 * "mpi" or NULL, and matters only for "this". Clear the target with cli_target_clear, even after a failure. Return the
 * errors of zr_cluster_read and cli_launch_recall. */
ZR_NODISCARD zr_status cli_target_cluster(const char *name, const char *transport, const zr_config *config,
                                          cli_target *target);
void cli_target_clear(cli_target *target);
/** Set the target's profile from --profile NAME|FILE, which describes one host. Return ZR_ERR_ARG if the host has
 * fewer devices than there are ranks. Return the errors of cli_profile. */
ZR_NODISCARD zr_status cli_target_profile(const char *name, cli_target *target);
/** Price products with the share `part` of the profile's FLOP/s. */
void cli_target_efficiency(cli_target *target, double part);

/** Set the ranks of a host and the memory limit of a configuration from the target. Add notes to the configuration. */
ZR_NODISCARD zr_status cli_settle_place(zr_config *config, cli_target *target);
/** Do the work of cli_settle_place. Then choose the keys that are left open so that the configuration fits the memory
 * (zr__train_choose). Add a note on the chosen keys. */
ZR_NODISCARD zr_status cli_settle(zr_config *config, cli_target *target);

/** Plan and price a resolved configuration. If `layout` is NULL, use the layout of zr__train_layout. Unless `plan` is
 * NULL, set *plan to the plan, which the caller destroys. Return the errors of zr__train_plan_layout and
 * zr_simulate. */
ZR_NODISCARD zr_status cli_try(const cli_target *target, const zr_config *config, const zr_layout *layout,
                               cli_trial *made, zr_plan **plan);
/** Return the bytes that a rank needs in a trial. If the trial fits the device but not the host, return the limit plus
 * one byte. */
int64_t cli_trial_bytes(const cli_target *target, const cli_trial *made);
/** Return whether a status means that the planner or the simulator refuses a combination. All other failures end a
 * command. */
bool cli_refused(zr_status st);
/** Return the number of ranks on a host whose devices are all in use. */
int32_t cli_host_ranks(const cli_target *target);
/** Return the number of days that training on `tokens` tokens takes, rounded up to whole steps of `step_tokens`
 * tokens. */
double cli_days(double tokens, double step_tokens, double step_sec);
/** Print a line that explains why the time of a save on a cluster is unknown. */
void cli_print_save_unknown(const cli_target *target);
/** Check, before planning, that neither stdout nor the SVG file is a file that the configuration reads. `svg` may be
 * NULL. */
ZR_NODISCARD zr_status cli_check_outputs(const zr_config *config, const char *svg);

#endif
