/** The largest model or micro-batch that a memory limit allows, found by planning. */
#ifndef ZR_CLI_MAX_H
#define ZR_CLI_MAX_H

#include "cli/plan/largest.h"
#include "cli/plan/target.h"

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
    bool keep_stage;           /* of MODEL: the configured one is asked for; otherwise the best is found */
    int stage;                 /* at which it fits */
    cli_shape shape;           /* of MODEL, with n layers */
    double params;             /* likewise */
    int64_t n;                 /* layers, or rows of a rank's micro-batch */
    int64_t train_batch_size;  /* with so many rows */
    int64_t needs, next_needs; /* bytes of a process with n and n + 1; next_needs 0: more were not tried */
} cli_max;

/** "model", "layers" or "batch". ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_max_parse(const char *text, cli_max_what *what);
/** The key that varies. */
const char *cli_max_key(cli_max_what what);
/** Set max->what; fills the rest and leaves the configuration with what was found. n fits and n + 1 does not, by the
 *  rule by which `zr train` starts or refuses. ZR_ERR_MEMORY when 1 does not fit. */
ZR_NODISCARD zr_status cli_max_find(zr_config *config, const cli_target *target, cli_max *max);
/** Two lines. */
void cli_max_print(FILE *out, const cli_max *max, const cli_target *target);
/** Member "max" of a JSON object, behind a comma. */
void cli_max_json(FILE *out, const cli_max *max);

/* ---- what the search's files share ----------------------------------------------------------- */

typedef struct cli_max_search {
    zr_config *config;
    const cli_target *target;
    cli_max_what what;
    int64_t fewest; /* layers: with less a pattern of model.frozen matches nothing */
} cli_max_search;

/** Plan so many layers or rows, and say what a rank needs: more than the limit also where a host's memory is too small.
 *  arg: a cli_max_search, which keeps them. A cli_needs_of. */
ZR_NODISCARD zr_status cli_max_needs(void *arg, int64_t n, int64_t *bytes);
/** Width and heads; layers vary. */
void cli_max_set_shape(zr_config *config, const cli_shape *shape);
/** Find the most layers or rows that fit: cli_largest. */
ZR_NODISCARD zr_status cli_max_between(cli_max_search *s, int64_t guess, cli_point *fits, cli_point *fails);
/** The family's width, and the most layers that fit at it: fits->n 0 when none does; fails->n 0 when twice the family's
 *  layers fit. Sets the width. */
ZR_NODISCARD zr_status cli_family_find(cli_max_search *s, cli_shape *best, cli_point *fits, cli_point *fails);

#endif
