/** The largest model or micro-batch that a memory limit allows, found by planning. */
#ifndef ZR_CLI_MAX_H
#define ZR_CLI_MAX_H

#include "cli/cli.h"

typedef enum cli_max_what { CLI_MAX_NONE, CLI_MAX_MODEL, CLI_MAX_BATCH } cli_max_what;

typedef struct cli_max {
    cli_max_what what;
    int64_t n;                 /* layers, or rows of a rank's micro-batch */
    int64_t train_batch_size;  /* with so many rows */
    int64_t needs, next_needs; /* bytes of a process with n and n + 1; next_needs 0: more were not tried */
} cli_max;

/** "model" or "batch". ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_max_parse(const char *text, cli_max_what *what);
/** The key that varies. */
const char *cli_max_key(cli_max_what what);
/** Set max->what; fills the rest and leaves the configuration with what was found. n fits and n + 1 does not, by the
 *  rule by which `zr train` starts or refuses. ZR_ERR_MEMORY when 1 does not fit. */
ZR_NODISCARD zr_status cli_max_find(zr_config *config, int ranks, const zr_profile *profile, int64_t limit_bytes,
                                    cli_max *max);
/** Two lines. */
void cli_max_print(FILE *out, const cli_max *max, int64_t limit_bytes);
/** Member "max" of a JSON object, behind a comma. */
void cli_max_json(FILE *out, const cli_max *max);

#endif
