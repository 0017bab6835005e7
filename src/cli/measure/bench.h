/** cli/measure: the measurements of `zr info --bench`. bench.c measures and prints rates and matrix products.
 * launches.c measures and prints training steps by means of src/train/measure. This header: the benchmark. */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "cli/measure/launches.h"
#include "train/measure/measure.h"
#include "zr/device.h"

typedef struct cli_bench {
    const char *preset;
    int64_t batch, seq;   /* `seq` 0 stands for 1,024, or the model's positions if they are fewer */
    cli_launches_how how; /* options for training steps; `quiet` applies to the whole benchmark */
    bool bf16;            /* whether to measure bf16 even if its products are widened to fp32 */
    bool json;
    const char *processor;
    zr_rates rates;
    zr__products f32, narrow; /* `narrow` holds bf16 products; narrow.n is 0 if they were not measured */
    cli_launches launches;
} cli_bench;

/** Measure, print and remember the rates. Print a note if remembering fails. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** Write a machine's FLOP/s and bytes/s as one line into `text`. Return `text`. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
