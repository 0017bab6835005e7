/**
 * cli/simulate: `zr simulate`, on the targets of cli/plan. cmd_simulate.c has the command and one simulation, sweep.c
 * all combinations of --sweep, search.h the fastest way that --search finds; simulated.c names the numbers of a
 * simulation, which papers print too.
 */
#ifndef ZR_CLI_SIMULATE_H
#define ZR_CLI_SIMULATE_H

#include "cli/plan/brief.h"
#include "cli/plan/target.h"

typedef struct cli_simulate_options {
    cli_brief brief;
    const char *cluster, *transport, *svg, *plot;
    int64_t ranks;
    int64_t seed; /* -1: not given */
    double straggler, jitter, tokens;
    bool paper;
    cli_list sweep;
    bool search;
    int64_t step_tokens; /* most tokens of a step that --search finds, of all ranks; 0: not given */
} cli_simulate_options;

/** Make the target of the command line's --cluster for `ranks` ranks; `config` as for cli_target_cluster. */
ZR_NODISCARD zr_status cli_simulate_target(const cli_simulate_options *o, const zr_config *config, int ranks,
                                           cli_target *target);
/** Print the ZeRO papers' numbers beside zr's, as aligned text or one JSON list, and draw one of their pictures. `o`
 * may name a cluster, then all runs are on it. */
ZR_NODISCARD zr_status cli_simulate_papers(const cli_simulate_options *o, bool json);
/** Return the days that `tokens` take. */
double cli_simulated_days(const cli_trial *made, double tokens);

/* ---- numbers by their names, as in CSV, JSON and --plot ----------------------------------------- */

/** Return the name of number i of a simulation, and the words for its axis; NULL at the end. */
const char *cli_value_name(int i);
const char *cli_value_words(int i);
double cli_value_of(int i, const cli_trial *made);
/** Add members to a JSON object: all these numbers, "fits", "bound_by" and, where `tokens` is not 0, "days". */
struct json_t;
void cli_simulated_json(struct json_t *object, const cli_trial *made, double tokens);
/** Add a member "of" that tells for each number of the object whether it is of a "rank", a "host", or "all" ranks
 * together. */
void cli_simulated_of(struct json_t *object);
/** Set a member of an object, which takes over the value. Lack of memory is found at the end, by cli_alloc_check. */
void cli_json_set(struct json_t *object, const char *key, struct json_t *value);
/** Write a document as one line, and release it. */
ZR_NODISCARD zr_status cli_json_put(FILE *out, struct json_t *document);

/* ---- several at once ---------------------------------------------------------------------------- */

/** Return whether a key was given on the command line, by itself, by its section, or by a brief option. `typed`: the
 * arguments before the brief options became keys. */
bool cli_simulate_typed(const cli_args *typed, const cli_brief *brief, const char *key);
/** Simulate all combinations of --sweep. `args` has the keys of the brief options, `typed` does not. */
ZR_NODISCARD zr_status cli_sweep(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);
/** Search the fastest way that fits, and print it with the next ones. */
ZR_NODISCARD zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o);

#endif
