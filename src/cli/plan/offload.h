/** Cost of an offload of model states, as `zr plan` and the first lines of a run print it. */
#ifndef ZR_CLI_PLAN_OFFLOAD_H
#define ZR_CLI_PLAN_OFFLOAD_H

#include "base/json/json_write.h"
#include "cli/plan/target.h"

/** Bytes and seconds that an offload to disk costs in a training step. Bytes are per rank. An unknown time or rate is
 * NAN. */
typedef struct cli_offload {
    int64_t read_bytes, written_bytes;
    double disk_sec; /* time in which the disk is busy, including time in which computation does not wait for it */
    /* number of tokens per step with which computation takes as long as the disk; NAN if checkpoints are on disk,
     * because their bytes grow with the tokens */
    double tokens;
    double day_bytes; /* bytes that all ranks of a host write to its disks in a day */
    bool outlasts;    /* whether the disk takes longer than computation */
} cli_offload;

/** Compute the cost. `step_tokens` is the number of tokens of a step over all ranks. */
cli_offload cli_offload_cost(const cli_target *target, const zr_report *report, const zr_price *price,
                             int64_t step_tokens);

/** Return whether a plan reads or writes a disk with unknown rates, so that its price lacks the disk's time. */
bool cli_offload_untimed(const zr_report *report, const zr_price *price);

/** Print a paragraph on the offload of a plan, or nothing without offload. */
void cli_offload_print(const cli_target *target, const zr_config *config, const cli_trial *made, int64_t step_tokens);
/** Add the members "disk_sec", "disk_tokens" and "disk_written_per_day" to the open object, if states are on disk. An
 * unknown member is null. */
void cli_offload_json(zr__json_out *out, const cli_offload *cost);

#endif
