/** `zr simulate --search`: the types and functions that its files share. search.c finds, search_print.c shows. */
#ifndef ZR_CLI_SEARCH_H
#define ZR_CLI_SEARCH_H

#include "cli/simulate/simulate.h"

/** Keys of a way that change most ways little, and are varied last. */
typedef struct cli_variant {
    int64_t bucket_elems;             /* elements of a bucket of reductions and gathers; 0: as configured */
    int64_t prefetch_elems;           /* elements gathered ahead at stage 3; 0: as configured */
    zr_config_switch overlap, levels; /* zero_optimization.overlap_comm, collectives.hierarchical */
    bool once;                        /* gradient_reduction: step */
} cli_variant;

/** A way to train, at the batch with which it is the fastest. */
typedef struct cli_way {
    int64_t stage, tensor;
    zr_config_policy policy;
    int64_t every;     /* of ZR_POLICY_UNIT */
    bool pieces, host; /* place of checkpoints: P_a, P_a+cpu */
    int64_t mics, hpz; /* ranks of a group; -1 and 1: none */
    cli_variant in;
    int64_t batch, accum;
    cli_trial made;
    bool planned, fits;
    /** Smallest micro-batch that does not fit, with one micro-batch a step and with several; batch 0: none was tried.
     * For a way that never fits, cli_way's `made` is of its smallest. */
    struct {
        int64_t batch;
        cli_trial made;
    } more[2];
    bool states_fit;   /* the states alone fit */
    int64_t tried;     /* plans made */
    char refused[256]; /* reason of its first refused plan; empty: no plan was refused */
} cli_way;

typedef struct cli_searched {
    const cli_args *args;
    const cli_simulate_options *o;
    const zr_config *config;
    cli_target target;
    cli_way *way;
    int64_t n;
    const cli_way **best; /* (n_best) ways that fit, the fastest first */
    int64_t n_best;
    const cli_way **missed; /* (n_missed) for each kind of states with which no way fits, the way that needs least */
    int64_t n_missed;
    int64_t ways, tried; /* ways that can be planned; plans made */
} cli_searched;

/** Write the bytes that a trial needs of a device's memory, as "31.2 GB of a device's 32 GB", or of a host's where that
 * is short; return `text`. */
const char *cli_needs(const cli_searched *s, const cli_trial *made, char text[128]);
ZR_NODISCARD zr_status cli_searched_json(const cli_searched *s);
void cli_searched_print(const cli_searched *s);

#endif
