/** What the files of `zr simulate` share. */
#ifndef ZR_CLI_SIMULATE_H
#define ZR_CLI_SIMULATE_H

#include "cli/brief.h"
#include "zr/simulate.h"

typedef struct cli_simulate_options {
    cli_brief brief;
    const char *cluster, *transport, *svg, *plot;
    int64_t ranks;
    int64_t seed; /* -1: not given */
    double straggler, jitter, tokens;
    bool paper;
    cli_list sweep;
    bool search;
} cli_simulate_options;

/** One configuration on one cluster. */
typedef struct cli_simulated {
    zr_report report;
    zr_simulation simulation;
    int64_t params;
    int64_t host_bytes; /* of a host, that its ranks take together */
    bool fits;          /* a device's memory, a host's, and memory.limit */
} cli_simulated;

/** The cluster that is this machine, as `zr info --bench` measured it. */
#define CLI_CLUSTER_THIS "this"

/** The cluster of a name or a file, and the profile that plans for its devices are made by. Of this machine they depend
 *  on the configuration; NULL: it is not known yet, and they are not made. To be cleared, also after a failure. */
ZR_NODISCARD zr_status cli_cluster(const cli_simulate_options *o, const zr_config *config, int ranks,
                                   zr_cluster *cluster, zr_profile *profile);
void cli_cluster_clear(zr_cluster *cluster);
/** Settle what a cluster answers of what a configuration leaves open: how many ranks a host has, where all of its hosts
 *  have as many, and the limit of policy auto. */
void cli_cluster_settle(zr_config *config, int ranks, const zr_cluster *cluster);
/** The same, and the split of a step's samples. */
ZR_NODISCARD zr_status cli_simulate_settle(zr_config *config, int ranks, const zr_cluster *cluster,
                                           const zr_profile *profile);
/** Those of the command line and of a configuration. */
zr_simulate_options cli_simulate_options_of(const cli_simulate_options *o, const zr_config *config);
/** Plan a settled configuration and price it. `times` (may be NULL): when its steps run, and *plan is kept, to be
 *  destroyed; cli_times_clear. */
ZR_NODISCARD zr_status cli_simulate_one(const zr_config *config, int ranks, const zr_cluster *cluster,
                                        const zr_profile *profile, const zr_simulate_options *options,
                                        cli_simulated *made, zr_plan **plan, cli_times *times);
/** What the ZeRO papers print beside zr's numbers; as aligned text or one JSON list, and one of their pictures. `o`
 *  may name a cluster, then all runs are on that. */
ZR_NODISCARD zr_status cli_simulate_papers(const cli_simulate_options *o, bool json);
/** What a planner, or the simulator, refuses is a combination that does not exist; other failures end the command. */
bool cli_simulate_refused(zr_status st);
/** Days that so many tokens take. */
double cli_simulated_days(const cli_simulated *made, double tokens);

/* ---- numbers by their names, as in CSV, JSON and --plot ----------------------------------------- */

/** Number i of a simulation, NULL at the end: its name, and what an axis is called that shows it. */
const char *cli_value_name(int i);
const char *cli_value_words(int i);
double cli_value_of(int i, const cli_simulated *made);
/** Members of a JSON object: all of these, what fits and what binds, and days where `tokens` is not 0. */
struct json_t;
void cli_simulated_json(struct json_t *object, const cli_simulated *made, double tokens);
/** Write a document as one line, and give it up. */
ZR_NODISCARD zr_status cli_json_put(FILE *out, struct json_t *document);

/* ---- several at once ---------------------------------------------------------------------------- */

/** Was this key given on the command line, by itself, by its section, or by a brief option? `typed`: the arguments as
 *  they were before the brief options became keys. */
bool cli_simulate_typed(const cli_args *typed, const cli_brief *brief, const char *key);
/** All combinations of --sweep. `args` has the keys of the brief options, `typed` does not. */
ZR_NODISCARD zr_status cli_sweep(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);
/** The fastest that fits, and what comes next. */
ZR_NODISCARD zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);

#endif
