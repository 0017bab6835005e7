/** cli/measure: the measurements of `zr info --bench`: rates and matrix products (train/measure), and training steps
 * (train/launch). */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "base/json/json_write.h"
#include "train/launch/launch.h"
#include "train/measure/measure.h"
#include "zr/device.h"

typedef struct cli_bench {
    const char *preset;
    /* Samples, and tokens per sample, of the timed matrix products. If `seq` is 0, a sample has 1,024 tokens or, if
     * fewer, the model's number of positions. */
    int64_t batch, seq;
    zr__launch_options how; /* options for measuring training steps */
    bool quiet;             /* whether to print no progress */
    bool bf16;              /* whether to measure bf16 products even if the processor widens them to fp32 */
    bool json;
    const char *processor;
    zr_rates rates;
    /* Timed matrix products: `f32` in fp32, `narrow` in bf16. If bf16 products were not timed, narrow.n is 0. */
    zr__products f32, narrow;
    zr__launches launches;
} cli_bench;

/** Measure, print and store the rates. If storing fails, print a note. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** Tell on stderr that a launch is being measured (zr__launch_options.begin). */
void cli_launches_begin(int ranks, bool processes);
/** Store the measured training steps for later commands. Print a note on failure. */
void cli_launches_remember(const zr__launches *launches, const zr_device_facts *facts);
void cli_launches_print(const zr__launches *launches);
/** Add the launches to the JSON output as an array of objects. */
void cli_launches_json(zr__json_out *json, const char *key, const zr__launches *launches);

/** Write the FLOP/s and bytes/s of a machine as one line into `text`. Return `text`. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
