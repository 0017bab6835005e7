/**
 * cli/plan: `zr plan`, and what `zr simulate` shares with it. This header has the machine that a configuration is for:
 * `zr plan`, `zr simulate`, its sweep and its search settle, plan and price a configuration by these functions alone,
 * so that one question has one answer. choices.h compares stages and policies and advises, max.h finds the largest
 * model or batch, brief.h has the options that stand for keys; cluster.c and profile.c read --cluster and --profile.
 */
#ifndef ZR_CLI_TARGET_H
#define ZR_CLI_TARGET_H

#include "cli/shell/message.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"
#include "zr/simulate.h"

typedef struct cli_target {
    int ranks;
    int local_ranks, in_process; /* ranks of this host and of this process; of a cluster unused */
    bool here;                   /* the target is this machine, priced by its rates */
    zr_profile profile;          /* profile of the device that plans are made for */
    zr_profile chooser; /* the same, without rates that this call measured itself: `zr train` chooses by these */
    double efficiency;  /* share of the profile's FLOP/s at which products are priced; 0: all */
    bool simulated;     /* steps are priced by `cluster`, else by the rates of `profile` */
    zr_cluster cluster;
    zr_simulate_options options; /* of `cluster` */
    int64_t limit_bytes;         /* memory of a rank, compared with zr__rank_needs; 0: no limit */
    bool own_limit;              /* the limit was taken from this machine's free memory, for policy auto */
} cli_target;

/** A configuration that was planned and priced. */
typedef struct cli_trial {
    zr_report report;
    zr_simulation simulation; /* without a cluster only `price` is set */
    int64_t params;
    int64_t needs_bytes; /* bytes that a rank needs: zr__rank_needs */
    int64_t host_bytes;  /* bytes that all ranks of a host take of its memory */
    bool fits;           /* within limit_bytes and the memory of the cluster's hosts */
} cli_trial;

/** Name of the cluster that is this machine, as `zr info --bench` measured it. */
#define CLI_CLUSTER_THIS "this"

/** Make the target of --cluster NAME|FILE for target->ranks ranks. "this" depends on the configuration, which says how
 * many ranks a host has; with config NULL it is not made. `transport`: of "this", "threads", "mpi", or NULL. Clear with
 * cli_target_clear, also after a failure. Errors: of zr_cluster_read. */
ZR_NODISCARD zr_status cli_target_cluster(const char *name, const char *transport, const zr_config *config,
                                          cli_target *target);
void cli_target_clear(cli_target *target);
/** Take the profile of --profile NAME|FILE, which is one host. ZR_ERR_ARG where it has fewer devices than there are
 *  ranks; otherwise the errors of cli_profile. */
ZR_NODISCARD zr_status cli_target_profile(const char *name, cli_target *target);
/** Price products at a part of the profile's FLOP/s. */
void cli_target_efficiency(cli_target *target, double part);

/** Settle the ranks of a host and the limit from the target. Notes go to the configuration. */
ZR_NODISCARD zr_status cli_settle_place(zr_config *config, cli_target *target);
/** Settle also the keys that are left to the memory (zr__train_choose), with a note on them. */
ZR_NODISCARD zr_status cli_settle(zr_config *config, cli_target *target);

/** Plan a settled configuration and price it. `layout` NULL: its zr__train_layout. `plan` may be NULL; otherwise it
 * gets the plan, to be destroyed. Errors: of zr__train_plan_layout and zr_simulate. */
ZR_NODISCARD zr_status cli_try(const cli_target *target, const zr_config *config, const zr_layout *layout,
                               cli_trial *made, zr_plan **plan);
/** Return the bytes that a trial needs of a rank; where a device has room, but
 * a host has not, one byte more than the limit.
 */
int64_t cli_trial_bytes(const cli_target *target, const cli_trial *made);
/** Return whether a status is the planner's or the simulator's refusal of a combination. Other failures end a command.
 */
bool cli_refused(zr_status st);
/** Return how many ranks a full host has. */
int32_t cli_host_ranks(const cli_target *target);
/** Return the days that `tokens` take, in whole steps of `step_tokens` tokens of all ranks. */
double cli_days(double tokens, double step_tokens, double step_sec);
/** Print a line that explains why the seconds of a save on a cluster are not known. */
void cli_print_save_unknown(const cli_target *target);
/** Refuse, before anything is planned, a stdout or an SVG (NULL: none) that the configuration reads. */
ZR_NODISCARD zr_status cli_check_outputs(const zr_config *config, const char *svg);

#endif
