/** The largest model or micro-batch that a memory limit allows, found by planning. */
#ifndef ZR_CLI_MAX_H
#define ZR_CLI_MAX_H

#include "base/json/json_write.h"
#include "cli/plan/largest.h"
#include "cli/plan/target.h"
#include "zr/config.h"

typedef enum cli_max_what {
    CLI_MAX_NONE,
    CLI_MAX_MODEL,  /* layers, width and stage, in the proportions of GPT families */
    CLI_MAX_LAYERS, /* layers at the width and stage that are configured */
    CLI_MAX_BATCH
} cli_max_what;

typedef struct cli_shape {
    int64_t n_layer, n_embd, n_head;
} cli_shape;

typedef struct cli_max {
    cli_max_what what;
    zr_config *config; /* has each number that is tried, and the result in the end */
    const cli_target *target;
    int64_t fewest;            /* fewest layers with which each pattern of model.frozen matches a parameter */
    bool keep_stage;           /* for MODEL: the stage is given; otherwise the best is found */
    int stage;                 /* stage at which it fits */
    cli_shape shape;           /* for MODEL, with n layers */
    double params;             /* parameters of the model */
    int64_t n;                 /* layers, or rows of a rank's micro-batch */
    int64_t train_batch_size;  /* with n rows */
    int64_t needs, next_needs; /* bytes of a process with n and n + 1; next_needs 0: n + 1 was not tried */
} cli_max;

/** Parse "model", "layers" or "batch". ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_max_parse(const char *text, cli_max_what *what);
/** Find the largest that fits for what, config, target and keep_stage; fill the rest and leave the configuration at the
 * result. n fits and n + 1 does not, by the rule by which `zr train` starts or refuses. ZR_ERR_MEMORY when the smallest
 * does not fit. */
ZR_NODISCARD zr_status cli_max_find(cli_max *max);
/** Print the result. */
void cli_max_print(FILE *out, const cli_max *max);
/** Add member "max" to the open object. */
void cli_max_json(zr__json_out *out, const cli_max *max);

/* ---- shared by the search's files ------------------------------------------------------------ */

/** Plan n layers or rows, and find the bytes of a rank: more than the limit also where a host's memory is too small.
 * arg: a cli_max, whose configuration keeps n. A cli_needs_of. */
ZR_NODISCARD zr_status cli_max_needs(void *arg, int64_t n, int64_t *bytes);
/** Find the most layers or rows that fit: cli_largest. */
ZR_NODISCARD zr_status cli_max_between(cli_max *max, int64_t guess, cli_point *fits, cli_point *fails);
/** Find the family's width, max->shape, and the most layers that fit at it: fits->n 0 when not even the fewest fit;
 * fails->n 0 when twice the family's layers fit. Sets the width. */
ZR_NODISCARD zr_status cli_family_find(cli_max *max, cli_point *fits, cli_point *fails);

#endif
