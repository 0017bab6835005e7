/** `zr simulate --search`: search.c asks train/choose for the fastest configuration, search_print.c prints it. */
#ifndef ZR_CLI_SEARCH_H
#define ZR_CLI_SEARCH_H

#include "cli/simulate/simulate.h"

typedef struct cli_searched {
    const cli_args *args;
    const cli_simulate_options *o;
    const zr_config *config;
    cli_target target;
    zr__train_target where;
    zr__question question;
    zr__choices found;
    /** Candidates to print. `best`: the preferred candidate, then the other candidates that fit, the fastest first.
     * `missed`: for each stage, tensor-parallel degree and groups of ranks with which nothing fits, the candidate with
     * the least memory. */
    const zr__tried **best, **missed;
    int64_t n_best, n_missed;
    int64_t ways; /* number of planned candidates; those alike but for buckets, overlap and micro-batches count once */
} cli_searched;

/** Write how much a trial needs of the memory or disk that is too small for it, such as "31.2 GB of a device's 32 GB",
 * into `text`. Return `text`. */
const char *cli_needs(const cli_searched *s, const cli_trial *made, char text[128]);
ZR_NODISCARD zr_status cli_searched_json(const cli_searched *s);
void cli_searched_print(const cli_searched *s);

#endif
