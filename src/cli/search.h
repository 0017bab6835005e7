/** `zr simulate --search`: what its files share. */
#ifndef ZR_CLI_SEARCH_H
#define ZR_CLI_SEARCH_H

#include "cli/simulate.h"

/** A way to train, at the batch with which it is the fastest. */
typedef struct cli_way {
    int64_t stage, tensor;
    zr_config_policy policy;
    int64_t every;     /* of ZR_POLICY_UNIT */
    bool pieces, host; /* how checkpoints are kept: P_a, P_a+cpu */
    int64_t mics, hpz; /* ranks of a group; -1 and 1: none */
    int64_t batch, accum;
    cli_simulated made;
    bool planned, fits;
    /** The smallest micro-batch that does not fit, with one micro-batch a step and with several; batch 0: none was
     *  tried. Of a way that never fits `made` is of its smallest. */
    struct {
        int64_t batch, bytes, host_bytes;
    } more[2];
    bool states_fit;   /* at least they, alone */
    int64_t tried;     /* plans */
    char refused[256]; /* why its first plan was; empty: it was not */
} cli_way;

typedef struct cli_searched {
    const cli_args *args;
    const cli_simulate_options *o;
    const zr_config *config;
    int ranks;
    zr_cluster cluster;
    zr_profile profile;
    cli_way *way;
    int64_t n;
    const cli_way **best; /* (n_best) those that fit, the fastest first */
    int64_t n_best;
    const cli_way **missed; /* (n_missed) of stages, degrees and groups with which none does the ways that need least */
    int64_t n_missed;
    int64_t ways, tried; /* that can be planned; plans */
} cli_searched;

/** "31.2 GB of a device's 32 GB", or what it needs of a host, where that does not fit; returns text. */
const char *cli_needs(const cli_searched *s, int64_t bytes, int64_t host_bytes, char text[128]);
/** Set a configuration to a way with some batch. */
void cli_way_set(zr_config *config, const cli_way *way, int64_t batch, int64_t accum, int ranks);
ZR_NODISCARD zr_status cli_searched_json(const cli_searched *s);
void cli_searched_print(const cli_searched *s);

#endif
