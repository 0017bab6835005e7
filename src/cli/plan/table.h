/** Tables of a plan, as `zr plan` prints them. */
#ifndef ZR_CLI_PLAN_TABLE_H
#define ZR_CLI_PLAN_TABLE_H

#include "zr/plan.h"
#include "zr/run.h"
#include "zr/config.h"

#include <stdio.h>

/** Memory by category, traffic and FLOPs of stages 0 to 3. */
typedef struct cli_table {
    zr_report report[4];
    bool planned[4];
    const char *fits[4];  /* words for the row "fits in" */
    int chosen;           /* stage whose column is marked in the output */
    int64_t memory_bytes; /* available memory of a rank, for the row "fits in"; 0 if not given */
} cli_table;

/** Return the readable name of a memory category, such as "optimizer states". */
const char *cli_category_words(zr_category category);

/** Write the name of a recompute policy, such as "none" or "unit/4", into `text`. Return `text`. */
const char *cli_recompute_name(zr_recompute recompute, int64_t every, char text[32]);

/** Return the bytes of a rank's traffic in a step, summed over all kinds of traffic. */
double cli_traffic_bytes(zr_traffic traffic);

/** Return the bytes that a rank reads from disk, or writes to it, in a step. */
int64_t cli_read_from_disk(const zr_report *report);
int64_t cli_written_to_disk(const zr_report *report);

/** Fill in the reports of stages 0 to 3 for a resolved configuration. `chosen` has the plans of the configured
 * stage. Leave out stages that cannot be planned. */
void cli_table_fill(cli_table *table, const zr_config *config, const zr_plans *chosen);
void cli_table_print(FILE *out, const cli_table *table, bool color);

/** Print the training schedule, one step per line. */
void cli_schedule_print(FILE *out, const zr_plan *plan);

#endif
