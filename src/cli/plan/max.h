/** Search for the largest model or micro-batch that fits a memory limit (--max). For each size that the search tries,
 * train/choose tells whether it fits with any values of the free keys. */
#ifndef ZR_CLI_MAX_H
#define ZR_CLI_MAX_H

#include "base/json/json_write.h"
#include "cli/plan/target.h"
#include "zr/config.h"

typedef enum cli_max_what {
    CLI_MAX_NONE,
    CLI_MAX_MODEL,  /* find the largest model with the proportions of GPT families: its layers, width and stage */
    CLI_MAX_LAYERS, /* find the largest number of layers at the configured width and stage */
    CLI_MAX_BATCH
} cli_max_what;

typedef struct cli_shape {
    int64_t layers, width, heads;
} cli_shape;

typedef struct cli_max {
    cli_max_what what;
    /* the search writes each number of layers or samples that it tries into this configuration, and finally the result
     */
    zr_config *config;
    const cli_target *target;
    zr__question question; /* the question for each number tried; question.free has the free keys */
    bool away;             /* whether a disk may be assumed if nothing fits without one */
    zr__train_target where;
    zr_config asked;       /* the configuration with the result, before free keys are chosen */
    zr__choices *found;    /* gets the answer for the result */
    zr__tried best;        /* the candidate that this answer prefers */
    uint64_t failed;       /* homes of states with which a smaller number did not fit (zr__search_least) */
    zr_model_config start; /* for CLI_MAX_MODEL: the model's settings before the search */
    int64_t fewest;        /* smallest number of layers with which each pattern of model.frozen matches a parameter */
    cli_shape shape;       /* for CLI_MAX_MODEL: shape of the result */
    bool tile_stops;       /* for CLI_MAX_MODEL: whether wider models were not tried because of memory.tile_elems */
    int64_t n;             /* result: number of layers, or number of samples in a micro-batch */
    /* Bytes of memory and of disk that a rank needs at least with n + 1. `next_needs` is 0 if n + 1 was not tried. */
    int64_t next_needs, next_disk_bytes;
} cli_max;

/** Parse the value of --max: "model", "layers" or "batch". Return ZR_ERR_ARG for any other text. */
ZR_NODISCARD zr_status cli_max_parse(const char *text, cli_max_what *what);
/** Find the largest model, number of layers or micro-batch that fits with any values of the free keys, as max->what
 * selects. The caller also sets `config`, `target`, `question.free`, `away` and `found`. The search sets the other
 * fields. It writes the result into the configuration, with the keys that zr__search prefers or, with more than
 * CLI_MANY_LAYERS layers, with the keys that need least. Unless the search reached its upper limit, n + 1 does not fit
 * with any values that zr__search_least tries. With many layers, these values leave out policy auto, with which more
 * might fit. Return ZR_ERR_MEMORY if even the smallest number does not fit. */
ZR_NODISCARD zr_status cli_max_find(cli_max *max);
/** Print the result. */
void cli_max_print(FILE *out, const cli_max *max);
/** Add the member "max" to the open object. */
void cli_max_json(zr__json_out *out, const cli_max *max);
#endif
