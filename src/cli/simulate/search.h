/** `zr simulate --search`: types and functions shared by search.c, which finds candidates, and search_print.c, which
 * prints them. */
#ifndef ZR_CLI_SEARCH_H
#define ZR_CLI_SEARCH_H

#include "cli/simulate/simulate.h"

/** Keys of a candidate that are varied last, because they change the speed of most candidates only a little. */
typedef struct cli_variant {
    int64_t bucket_elems;   /* bucket size in elements, or 0 to keep the configured sizes */
    int64_t prefetch_elems; /* elements prefetched at stage 3, or 0 to keep the configured number */
    /* `overlap`: value of zero_optimization.overlap_comm; `levels`: value of collectives.hierarchical */
    zr_config_switch overlap, levels;
    bool once; /* whether gradients are reduced once a step (gradient_reduction "step") */
} cli_variant;

/** A candidate: a training configuration, with the micro-batch at which it is fastest. */
typedef struct cli_way {
    int64_t stage, tensor;
    zr_recompute policy;
    int64_t every; /* checkpoint spacing in units, with ZR_RECOMPUTE_UNIT */
    /* `pieces`: whether checkpoints are partitioned (P_a); `host`: whether they are on the host (P_a+cpu) */
    bool pieces, host;
    /* `mics`: ranks of a MiCS group, or -1 for no groups; `hpz`: ranks of an hpZ group, or 1 for no groups */
    int64_t mics, hpz;
    cli_variant in;
    int64_t batch, accum;
    cli_trial made;
    bool planned, fits;
    /** Smallest tried micro-batch that does not fit, if the candidate fits with another micro-batch. more[0] is for one
     * micro-batch per step, more[1] for several. `batch` is 0 if every tried micro-batch fits. If no micro-batch fits,
     * the trial of the smallest micro-batch is cli_way.made. */
    struct {
        int64_t batch;
        cli_trial made;
    } more[2];
    bool states_fit;   /* whether the model states alone fit */
    int64_t tried;     /* number of plans made for this candidate */
    char refused[256]; /* reason why the first refused plan was refused, or "" if no plan was refused */
} cli_way;

typedef struct cli_searched {
    const cli_args *args;
    const cli_simulate_options *o;
    const zr_config *config;
    cli_target target;
    cli_way *way;
    int64_t n;
    const cli_way **best; /* the `n_best` candidates that fit, the fastest first */
    int64_t n_best;
    /** candidates that do not fit, n_missed in number: for each kind of states with which no candidate fits, the
     * candidate with the least memory */
    const cli_way **missed;
    int64_t n_missed;
    int64_t ways, tried; /* `ways`: number of candidates that can be planned; `tried`: number of plans made */
} cli_searched;

/** Write the bytes that a trial needs of a device's memory into `text`, such as "31.2 GB of a device's 32 GB". If only
 * a host's memory is too small, write the bytes of the host instead. Return `text`. */
const char *cli_needs(const cli_searched *s, const cli_trial *made, char text[128]);
ZR_NODISCARD zr_status cli_searched_json(const cli_searched *s);
void cli_searched_print(const cli_searched *s);

#endif
