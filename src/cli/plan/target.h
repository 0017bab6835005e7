/** cli/plan: the command `zr plan`, and functions that `zr simulate` shares. This header declares the target, which is
 * the machine for which a configuration is planned. `zr plan` and `zr simulate`, with its sweep and search, plan and
 * price only with these functions, so that their answers agree. choices.h compares stages and policies and gives
 * advice. grid.h plans what-ifs, target_system.c runs of other systems. max.h finds the largest model or batch. brief.h
 * has the options that set keys. cluster.c and profile.c read
 * --cluster and --profile. */
#ifndef ZR_CLI_TARGET_H
#define ZR_CLI_TARGET_H

#include "base/json/json_write.h"
#include "cli/shell/args.h"
#include "cli/shell/message.h"
#include "systems/systems.h"
#include "train/choose/choose.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"
#include "zr/simulate.h"

typedef struct cli_target {
    int ranks;
    /* Number of ranks on this host, and number of ranks in this process. Both are unused for a cluster. */
    int local_ranks, in_process;
    bool here;          /* whether the target is this machine, priced by its own rates */
    zr_profile profile; /* profile of the device for which plans are made */
    zr_profile chooser; /* profile for choosing missing keys, without rates that this command measured */
    double efficiency;  /* share of the peak FLOP/s that matrix products reach (--efficiency), or 0 if not given */
    bool simulated;     /* whether steps are priced by simulating `cluster`, not by the rates of `profile` */
    zr_cluster cluster;
    /* `assumed`: texts on the assumed values of the cluster (zr__cluster_assumed), or "". The second text has the
     * disk's rate too. `host_bytes`: memory of one of its hosts, given or assumed. An assumed memory limits only a
     * search. */
    char assumed[2][256];
    char links[256]; /* links of a cluster that is named by its devices, in words; else "" */
    int64_t host_bytes;
    zr_simulate_options options; /* options for the simulation of `cluster` */
    int64_t disk_bytes;          /* bytes of disk that a rank may use (--disk), or 0 if not given */
    int64_t limit_bytes;         /* memory limit of a rank, compared with zr__rank_needs; 0 for no limit */
    zr__run other;               /* run of another system with its options; its member `system` is NULL for zr */
    bool own_limit; /* whether limit_bytes is this machine's free memory, because policy auto needs a limit */
} cli_target;

typedef zr__trial cli_trial;

/** Name of the cluster that is this machine, with the rates that `zr info --bench` measured. */
#define CLI_CLUSTER_THIS "this"

/** Set the target to --cluster NAME|FILE, for target->ranks ranks. For the cluster "this", `config` gives the number of
 * ranks on a host. If `config` is NULL, only the name of the cluster "this" is set. `transport` is "threads", "mpi" or
 * NULL, and is used only for "this". Clear the target with cli_target_clear, even after a failure. Return the errors of
 * zr_cluster_read and zr__launch_recall. */
ZR_NODISCARD zr_status cli_target_cluster(const char *name, const char *transport, const zr_config *config,
                                          cli_target *target);
void cli_target_clear(cli_target *target);
/** Set the target's profile from --profile NAME|FILE, which describes one host. Return ZR_ERR_ARG if the host has fewer
 * devices than there are ranks. Also return the errors of cli_profile. */
ZR_NODISCARD zr_status cli_target_profile(const char *name, cli_target *target);
/** Multiply the FLOP/s of the target's profiles by `part` (--efficiency), because no matrix product reaches the peak of
 * a data sheet. */
void cli_target_efficiency(cli_target *target, double part);

/** Plan runs of the system `name` with the options `with` from now on, and set the keys that it decides
 * (zr__run_begin). With "zr" or NULL, do nothing. The caller has set the cluster or the profile. Its memory becomes
 * what a driver reports, which is what nvidia-smi is compared with. */
ZR_NODISCARD zr_status cli_target_system(const char *name, const cli_list *with, zr_config *config, cli_target *target);
/** zr__try for target->other, a zr__run. The report's memory is the system's, with what its tensors allocate as total;
 * traffic and FLOPs are of zr's plan with the system's layout. Without a cluster, find only the memory. */
zr__trying cli_try_other;
/** Return whether a name of --system is another system than zr. */
bool cli_other_system(const char *name);

/** Set a configuration's ranks per host and memory limit from the target. Add notes to the configuration. */
ZR_NODISCARD zr_status cli_settle_place(zr_config *config, cli_target *target);
/** Call cli_settle_place. Then choose the missing keys to fit the memory (zr__train_choose), and add a note on the
 * chosen keys. Unless `asked` is NULL, it receives a copy of the configuration before the choice, and `found` the
 * answer of zr__train_choose. */
ZR_NODISCARD zr_status cli_settle(zr_config *config, cli_target *target, zr_config *asked, zr__choices *found);

/** Convert to the target that train/choose needs. It points into `target`, which must outlive it. */
zr__train_target cli_train_target(const cli_target *target);
/** Plan and price a resolved configuration (zr__try). */
ZR_NODISCARD zr_status cli_try(const cli_target *target, const zr_config *config, cli_trial *made, zr_plans *plans);
/** With a pipeline, print the rank that needs the most memory and, if `timed`, the bubble. `head` begins the line. */
void cli_pipeline_print(const char *head, const cli_trial *made, bool timed);
/** With a pipeline, add the member "pipeline" to the JSON output. Without `timed`, the bubble is null. */
void cli_pipeline_json(zr__json_out *out, const cli_trial *made, bool timed);
/** Return the number of ranks on a full host. The last host may have fewer ranks. */
int32_t cli_host_ranks(const cli_target *target);
/** Return the days that training on `tokens` tokens takes. The last step counts as a whole step of `step_tokens`
 * tokens. */
double cli_days(double tokens, double step_tokens, double step_sec);
/** Remark on times of GPUs that were computed and not measured. */
#define CLI_GPU_REMARK "Times of GPUs are computed: zr has not yet run on a GPU."
/** Return whether the target's times are computed: it is a GPU, and no GPU was measured. If so, print CLI_GPU_REMARK
 * beside them. */
bool cli_target_computed(const cli_target *target);
/** Check before planning that the output does not overwrite a file that the configuration reads. The output is stdout
 * and, unless `svg` is NULL, the file `svg`. */
ZR_NODISCARD zr_status cli_check_outputs(const zr_config *config, const char *svg);

#endif
