/** Search for the largest model or micro-batch that fits a memory limit (--max). The search plans each number that it
 * tries. */
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
    zr_model_config start; /* for CLI_MAX_MODEL: the model's settings before the search */
    int64_t fewest;        /* smallest number of layers with which each pattern of model.frozen matches a parameter */
    bool keep_stage;       /* for CLI_MAX_MODEL: whether to keep the configured stage instead of choosing one */
    int stage;             /* stage of the result */
    cli_shape shape;       /* for CLI_MAX_MODEL: shape of the result */
    bool tile_stops;       /* for CLI_MAX_MODEL: whether wider models were not tried because of memory.tile_elems */
    double params;         /* number of the result's parameters */
    int64_t n;             /* result: number of layers, or number of samples in a micro-batch */
    int64_t train_batch_size; /* train_batch_size of the result */
    /* Bytes that a rank needs with n, and with n + 1. `next_needs` is 0 if n + 1 was not tried. */
    int64_t needs, next_needs;
    int64_t disk_bytes, next_disk_bytes; /* bytes on disk that a rank needs with n, and with n + 1 */
} cli_max;

/** Parse the value of --max: "model", "layers" or "batch". Return ZR_ERR_ARG for any other text. */
ZR_NODISCARD zr_status cli_max_parse(const char *text, cli_max_what *what);
/** Find the largest model, number of layers or micro-batch that fits, as max->what selects. The caller also sets
 * `config`, `target` and `keep_stage`. The search sets the other fields and the configuration to the result. A number
 * fits if `zr train` would start with it. n + 1 does not fit, unless the search reached its upper limit. Return
 * ZR_ERR_MEMORY if even the smallest number does not fit. */
ZR_NODISCARD zr_status cli_max_find(cli_max *max);
/** Print the result. */
void cli_max_print(FILE *out, const cli_max *max);
/** Add the member "max" to the open object. */
void cli_max_json(zr__json_out *out, const cli_max *max);
#endif
