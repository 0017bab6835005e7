/** cli/simulate: the command `zr simulate`, for the targets of cli/plan. cmd_simulate.c simulates a single
 * configuration. sweep.c simulates the combinations of --sweep. search.h declares the search for the fastest
 * configuration (--search). simulated.c names the numbers of a simulation. */
#ifndef ZR_CLI_SIMULATE_H
#define ZR_CLI_SIMULATE_H

#include "cli/plan/brief.h"
#include "cli/plan/target.h"

typedef struct cli_simulate_options {
    cli_brief brief;
    const char *cluster, *transport, *svg, *plot;
    int64_t ranks;
    int64_t seed; /* -1 if not given */
    double straggler, jitter, tokens;
    const char *system; /* --system, whose options are `with` */
    cli_list with;
    cli_list sweep;
    bool search;
    int64_t step_tokens; /* for --search: maximum number of tokens in a step, over all ranks, or 0 if not given */
} cli_simulate_options;

/** Create the target of the options --cluster and --disk, for `ranks` ranks. `config` may be NULL, as for
 * cli_target_cluster. */
ZR_NODISCARD zr_status cli_simulate_target(const cli_simulate_options *o, const zr_config *config, int ranks,
                                           cli_target *target);
/** Settle the configuration for the target (cli_settle) or for the run of another system (--system). */
ZR_NODISCARD zr_status cli_simulate_settle(const cli_simulate_options *o, zr_config *config, cli_target *target);
/** Return the number of days that training on `tokens` tokens takes. */
double cli_simulated_days(const cli_trial *made, double tokens);

/* ---- numbers by their names, as in CSV, JSON and --plot ----------------------------------------- */

/** Return the name of number `i` of a simulation, such as "tflops", or its words, such as "TFLOP/s a device". Return
 * NULL if `i` is beyond the last number. */
const char *cli_value_name(int i);
const char *cli_value_words(int i);
double cli_value_of(int i, const cli_trial *made);
struct json_t;
/** Add to a JSON object all numbers of a simulation and the members "fits" and "bound_by". Unless `tokens` is 0, also
 * add "days". */
void cli_simulated_json(struct json_t *object, const cli_trial *made, double tokens);
/** Add a member "of" to an object. For each number of the object, "of" tells whether the number is for a "rank", for a
 * "host", or for "all" ranks together. */
void cli_simulated_of(struct json_t *object);
/** Set a member of an object, or set all members of another object. Take ownership of `value`. A lack of memory is
 * reported by cli_alloc_check at the end of the command. */
void cli_json_set(struct json_t *object, const char *key, struct json_t *value);
void cli_json_set_all(struct json_t *object, struct json_t *members);
/** Print a JSON document as indented text, with an empty line after it. */
ZR_NODISCARD zr_status cli_json_put(FILE *out, const struct json_t *document);

/* ---- several at once ---------------------------------------------------------------------------- */

/** Return whether the command line gives a key: as --key=value, as part of its section, or by a brief option such as
 * --stage. `typed` holds the arguments before brief options are turned into keys. */
bool cli_simulate_typed(const cli_args *typed, const cli_brief *brief, const char *key);
/** Simulate all combinations of --sweep. `args` includes the keys that brief options set; `typed` does not. */
ZR_NODISCARD zr_status cli_sweep(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);
/** Search for the fastest configuration that fits. Print it and the next fastest configurations. */
ZR_NODISCARD zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);

#endif
