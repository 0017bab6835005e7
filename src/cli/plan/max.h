/** Search for the largest model or micro-batch that fits a memory limit, by planning. */
#ifndef ZR_CLI_MAX_H
#define ZR_CLI_MAX_H

#include "base/json/json_write.h"
#include "cli/plan/largest.h"
#include "cli/plan/target.h"
#include "zr/config.h"

typedef enum cli_max_what {
    CLI_MAX_NONE,
    CLI_MAX_MODEL,  /* layers, width and stage of a model in the proportions of GPT families */
    CLI_MAX_LAYERS, /* layers at the configured width and stage */
    CLI_MAX_BATCH
} cli_max_what;

typedef struct cli_shape {
    int64_t n_layer, n_embd, n_head;
} cli_shape;

typedef struct cli_max {
    cli_max_what what;
    zr_config *config; /* set to each number that is tried, and to the result in the end */
    const cli_target *target;
    int64_t fewest;            /* fewest layers with which each pattern of model.frozen matches a parameter */
    bool keep_stage;           /* for MODEL: whether the stage is given; otherwise the search chooses it */
    int stage;                 /* stage at which `n` fits */
    cli_shape shape;           /* for MODEL: the shape, with `n` layers */
    double params;             /* parameters of the model */
    int64_t n;                 /* layers, or rows of a rank's micro-batch */
    int64_t train_batch_size;  /* train_batch_size with `n` rows */
    int64_t needs, next_needs; /* bytes of a process with n and n + 1; next_needs is 0 if n + 1 was not tried */
} cli_max;

/** Parse "model", "layers" or "batch". Return ZR_ERR_ARG for another text. */
ZR_NODISCARD zr_status cli_max_parse(const char *text, cli_max_what *what);
/** Find the largest model, number of layers or micro-batch (`what`) that fits; `config`, `target` and `keep_stage` are
 * the other inputs. Set the remaining fields, and set the configuration to the result. The found number `n` fits and n
 * + 1 does not, by the rule by which `zr train` starts or refuses. Return ZR_ERR_MEMORY if the smallest number does not
 * fit. */
ZR_NODISCARD zr_status cli_max_find(cli_max *max);
/** Print the result. */
void cli_max_print(FILE *out, const cli_max *max);
/** Add the member "max" to the open object. */
void cli_max_json(zr__json_out *out, const cli_max *max);

/* ---- shared by the search's files ------------------------------------------------------------ */

/** Plan `n` layers or rows, and find the bytes of a rank. If a host's memory is too small, the bytes exceed the limit
 * too. `arg` is a cli_max, whose configuration is left at `n`. The function is a cli_needs_of. */
ZR_NODISCARD zr_status cli_max_needs(void *arg, int64_t n, int64_t *bytes);
/** Find the most layers or rows that fit, with cli_largest. */
ZR_NODISCARD zr_status cli_max_between(cli_max *max, int64_t guess, cli_point *fits, cli_point *fails);
/** Find the family's shape, max->shape, and the most layers that fit at its width, and set the width. fits->n is 0 if
 * not even the fewest layers fit. fails->n is 0 if twice the family's layers fit. */
ZR_NODISCARD zr_status cli_family_find(cli_max *max, cli_point *fits, cli_point *fails);

#endif
