/** cli/measure: the measurements of `zr info --bench`. bench.c measures and prints rates and matrix products, and is
 * declared here. launches.c measures and prints training steps, with functions of src/train/measure. */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "cli/measure/launches.h"
#include "train/measure/measure.h"
#include "zr/device.h"

typedef struct cli_bench {
    const char *preset;
    /* Samples, and tokens per sample, of the timed matrix products. If `seq` is 0, a sample has 1,024 tokens or, if
     * fewer, the model's number of positions. */
    int64_t batch, seq;
    cli_launches_how how; /* options for measuring training steps; `quiet` applies to the whole benchmark */
    bool bf16;            /* whether to measure bf16 products even if the processor widens them to fp32 */
    bool json;
    const char *processor;
    zr_rates rates;
    /* Timed matrix products: `f32` in fp32, `narrow` in bf16. If bf16 products were not timed, narrow.n is 0. */
    zr__products f32, narrow;
    cli_launches launches;
} cli_bench;

/** Measure, print and store the rates. If storing fails, print a note. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** Write the FLOP/s and bytes/s of a machine as one line into `text`. Return `text`. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
