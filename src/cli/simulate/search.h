/** `zr simulate --search`: types and functions shared by search.c, which finds candidates, and search_print.c, which
 * prints them. */
#ifndef ZR_CLI_SEARCH_H
#define ZR_CLI_SEARCH_H

#include "cli/simulate/simulate.h"

/** Keys of a candidate that are varied last, because they change most candidates little. */
typedef struct cli_variant {
    int64_t bucket_elems;             /* elements of a bucket of reductions and gathers, or 0 if as configured */
    int64_t prefetch_elems;           /* elements gathered ahead at stage 3, or 0 if as configured */
    zr_config_switch overlap, levels; /* zero_optimization.overlap_comm, collectives.hierarchical */
    bool once;                        /* whether gradient_reduction is "step" */
} cli_variant;

/** A candidate: a training configuration, at the batch with which it is fastest. */
typedef struct cli_way {
    int64_t stage, tensor;
    zr_config_policy policy;
    int64_t every;     /* distance between kept inputs with ZR_POLICY_UNIT */
    bool pieces, host; /* whether checkpoints are partitioned (P_a), and whether they are on the host (P_a+cpu) */
    int64_t mics, hpz; /* ranks of a group; -1 for no `mics` group, 1 for no `hpz` group */
    cli_variant in;
    int64_t batch, accum;
    cli_trial made;
    bool planned, fits;
    /** Smallest micro-batch that does not fit, with one micro-batch a step and with several; `batch` is 0 if none was
     * tried. If the candidate never fits, its own `made` is the trial of its smallest micro-batch. */
    struct {
        int64_t batch;
        cli_trial made;
    } more[2];
    bool states_fit;   /* whether the states alone fit */
    int64_t tried;     /* number of plans made for it */
    char refused[256]; /* reason of the first refused plan, or "" if no plan was refused */
} cli_way;

typedef struct cli_searched {
    const cli_args *args;
    const cli_simulate_options *o;
    const zr_config *config;
    cli_target target;
    cli_way *way;
    int64_t n;
    const cli_way **best; /* (n_best) candidates that fit, the fastest first */
    int64_t n_best;
    const cli_way **missed; /* (n_missed) least need for each kind of states with which no candidate fits */
    int64_t n_missed;
    int64_t ways, tried; /* numbers of candidates that can be planned, and of plans made */
} cli_searched;

/** Write the bytes that a trial needs of a device's memory, such as "31.2 GB of a device's 32 GB", into `text`. If a
 * host's memory is too small, write the bytes that it needs of the host's memory. Return `text`. */
const char *cli_needs(const cli_searched *s, const cli_trial *made, char text[128]);
ZR_NODISCARD zr_status cli_searched_json(const cli_searched *s);
void cli_searched_print(const cli_searched *s);

#endif
