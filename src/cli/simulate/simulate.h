/** cli/simulate: `zr simulate`, for the targets of cli/plan. cmd_simulate.c has the command and simulates a single
 * configuration. sweep.c simulates the combinations of --sweep. search.h declares the search for the fastest
 * configuration (--search). simulated.c names the numbers of a simulation, which cli/papers prints too. */
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
    bool paper;
    cli_list sweep;
    bool search;
    int64_t step_tokens; /* maximum number of tokens in a step of all ranks for --search, or 0 if not given */
} cli_simulate_options;

/** Create the target that the option --cluster names, for `ranks` ranks. `config` may be NULL, as for
 * cli_target_cluster. */
ZR_NODISCARD zr_status cli_simulate_target(const cli_simulate_options *o, const zr_config *config, int ranks,
                                           cli_target *target);
/** Print the numbers of the ZeRO papers beside zr's numbers, as aligned text or as one JSON list. If `o` asks for one
 * of the papers' pictures, draw it. If `o` names a cluster, simulate all runs on that cluster. */
ZR_NODISCARD zr_status cli_simulate_papers(const cli_simulate_options *o, bool json);
/** Return the number of days that training on `tokens` tokens takes. */
double cli_simulated_days(const cli_trial *made, double tokens);

/* ---- numbers by their names, as in CSV, JSON and --plot ----------------------------------------- */

/** Return the name of number `i` of a simulation (cli_value_name), or the words for its axis (cli_value_words). Return
 * NULL if `i` is beyond the last number. */
const char *cli_value_name(int i);
const char *cli_value_words(int i);
double cli_value_of(int i, const cli_trial *made);
/** Add to a JSON object all numbers of a simulation and the members "fits" and "bound_by". Unless `tokens` is 0, also
 * add "days". */
struct json_t;
void cli_simulated_json(struct json_t *object, const cli_trial *made, double tokens);
/** Add a member "of" to an object. For each number of the object, "of" tells whether the number is for a "rank", for a
 * "host", or for "all" ranks together. */
void cli_simulated_of(struct json_t *object);
/** Set a member of an object, which takes ownership of the value. A lack of memory is reported only at the end, by
 * cli_alloc_check. */
void cli_json_set(struct json_t *object, const char *key, struct json_t *value);
/** Print a JSON document as one line, and release it. */
ZR_NODISCARD zr_status cli_json_put(FILE *out, struct json_t *document);

/* ---- several at once ---------------------------------------------------------------------------- */

/** Return whether the command line gives a key: directly, by its section, or by a brief option. `typed` holds the
 * arguments from before the brief options were turned into keys. */
bool cli_simulate_typed(const cli_args *typed, const cli_brief *brief, const char *key);
/** Simulate all combinations of --sweep. `args` includes the keys that brief options set; `typed` does not. */
ZR_NODISCARD zr_status cli_sweep(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);
/** Search for the fastest configuration that fits. Print this configuration and the next fastest ones. */
ZR_NODISCARD zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);

#endif
