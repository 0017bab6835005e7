/** What the files of `zr simulate` share. */
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

/** Make the target of the command line's --cluster for so many ranks; `config` as for cli_target_cluster. */
ZR_NODISCARD zr_status cli_simulate_target(const cli_simulate_options *o, const zr_config *config, int ranks,
                                           cli_target *target);
/** What the ZeRO papers print beside zr's numbers; as aligned text or one JSON list, and one of their pictures. `o`
 *  may name a cluster, then all runs are on that. */
ZR_NODISCARD zr_status cli_simulate_papers(const cli_simulate_options *o, bool json);
/** Days that so many tokens take. */
double cli_simulated_days(const cli_trial *made, double tokens);

/* ---- numbers by their names, as in CSV, JSON and --plot ----------------------------------------- */

/** Number i of a simulation, NULL at the end: its name, and what an axis is called that shows it. */
const char *cli_value_name(int i);
const char *cli_value_words(int i);
double cli_value_of(int i, const cli_trial *made);
/** Members of a JSON object: all of these, what fits and what binds, and days where `tokens` is not 0. */
struct json_t;
void cli_simulated_json(struct json_t *object, const cli_trial *made, double tokens);
/** Add a member "of": of whom each number of the object is, a "rank", a "host", or "all" ranks together. */
void cli_simulated_of(struct json_t *object);
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
