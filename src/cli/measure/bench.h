/** cli/measure: the measurements of `zr info --bench`. bench.c measures and prints rates and matrix products, and is
 * declared here. launches.c measures and prints training steps, with functions of src/train/measure. */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "cli/measure/launches.h"
#include "train/measure/measure.h"
#include "zr/device.h"

typedef struct cli_bench {
    const char *preset;
    int64_t batch, seq;   /* for `seq` 0, the sequence length is 1,024 or, if smaller, the model's positions */
    cli_launches_how how; /* options for measuring training steps; `quiet` applies to the whole benchmark */
    bool bf16;            /* whether to measure bf16 products even if the processor widens them to fp32 */
    bool json;
    const char *processor;
    zr_rates rates;
    zr__products f32, narrow; /* `narrow` holds bf16 products; narrow.n is 0 without measured bf16 products */
    cli_launches launches;
} cli_bench;

/** Measure, print and store the rates. If storing fails, print a note. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** Write the FLOP/s and bytes/s of a machine as one line into `text`. Return `text`. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
