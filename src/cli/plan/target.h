/** cli/plan: `zr plan`, and functions that `zr simulate` shares with it. This header: the machine that a configuration
 * is planned for. `zr plan`, `zr simulate`, its sweep and its search resolve, plan and price configurations only with
 * these functions, so that their answers agree. choices.h compares stages and policies and gives advice, max.h finds
 * the largest model or batch, brief.h has the options that set keys; cluster.c and profile.c read --cluster and
 * --profile. */
#ifndef ZR_CLI_TARGET_H
#define ZR_CLI_TARGET_H

#include "cli/shell/message.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"
#include "zr/simulate.h"

typedef struct cli_target {
    int ranks;
    int local_ranks, in_process; /* ranks of this host, and ranks of this process; not used for a cluster */
    bool here;                   /* whether the target is this machine, priced by its own rates */
    zr_profile profile;          /* profile of the device that plans are made for */
    zr_profile chooser;          /* profile without the rates that this call measured, as `zr train` uses */
    double efficiency; /* share of the profile's FLOP/s at which products are priced; 0 means the full FLOP/s */
    bool simulated;    /* whether steps are priced by `cluster`; otherwise by the rates of `profile` */
    zr_cluster cluster;
    zr_simulate_options options; /* options for simulating `cluster` */
    int64_t limit_bytes;         /* memory limit of a rank, compared with zr__rank_needs; 0 if there is no limit */
    bool own_limit;              /* whether the limit is this machine's free memory, as policy auto needs a limit */
} cli_target;

/** A configuration that was planned and priced. */
typedef struct cli_trial {
    zr_report report;
    zr_simulation simulation; /* without a cluster only its `price` is set */
    int64_t params;
    int64_t needs_bytes; /* bytes that a rank needs (zr__rank_needs) */
    int64_t host_bytes;  /* bytes of a host's memory that its ranks need together */
    bool fits;           /* whether the trial fits limit_bytes and the memory of the cluster's hosts */
} cli_trial;

/** Name for the cluster made of this machine, as `zr info --bench` measured it. */
#define CLI_CLUSTER_THIS "this"

/** Create the target of --cluster NAME|FILE for target->ranks ranks. The cluster "this" depends on the configuration,
 * which gives the ranks of a host; with `config` NULL that cluster is not created. `transport` is the transport of
 * "this": "threads", "mpi" or NULL. Clear the target with cli_target_clear, even after a failure. Return the errors of
 * zr_cluster_read and cli_launch_recall. */
ZR_NODISCARD zr_status cli_target_cluster(const char *name, const char *transport, const zr_config *config,
                                          cli_target *target);
void cli_target_clear(cli_target *target);
/** Set the profile of --profile NAME|FILE, which describes one host. Return ZR_ERR_ARG if the host has fewer devices
 * than there are ranks, or an error of cli_profile. */
ZR_NODISCARD zr_status cli_target_profile(const char *name, cli_target *target);
/** Price products at the share `part` of the profile's FLOP/s. */
void cli_target_efficiency(cli_target *target, double part);

/** Set the ranks of a host and the memory limit from the target. Notes are added to the configuration. */
ZR_NODISCARD zr_status cli_settle_place(zr_config *config, cli_target *target);
/** Do the work of cli_settle_place, then choose the keys that are left open to fit the memory (zr__train_choose). Add a
 * note on the chosen keys. */
ZR_NODISCARD zr_status cli_settle(zr_config *config, cli_target *target);

/** Plan and price a resolved configuration. If `layout` is NULL, zr__train_layout gives the layout. Unless `plan` is
 * NULL, *plan is the plan, which the caller destroys. Return the errors of zr__train_plan_layout and zr_simulate. */
ZR_NODISCARD zr_status cli_try(const cli_target *target, const zr_config *config, const zr_layout *layout,
                               cli_trial *made, zr_plan **plan);
/** Return the bytes that a rank needs in a trial. If the trial fits the device but not the host, return one byte more
 * than the limit. */
int64_t cli_trial_bytes(const cli_target *target, const cli_trial *made);
/** Return whether a status means that the planner or the simulator refuses a combination. Other failures end a command.
 * */
bool cli_refused(zr_status st);
/** Return the number of ranks on a full host. */
int32_t cli_host_ranks(const cli_target *target);
/** Return the days that training on `tokens` tokens takes, in whole steps of `step_tokens` tokens. */
double cli_days(double tokens, double step_tokens, double step_sec);
/** Print a line that explains why the seconds of a save on a cluster are not known. */
void cli_print_save_unknown(const cli_target *target);
/** Refuse, before planning, a stdout or an SVG file that is one of the files that the configuration reads. `svg` may be
 * NULL. */
ZR_NODISCARD zr_status cli_check_outputs(const zr_config *config, const char *svg);

#endif
