/** cli/measure: the measurements of `zr info --bench`. bench.c measures and prints rates and matrix products.
 * launches.c measures and prints training steps, with functions of src/train/measure. This header declares the
 * benchmark of bench.c. */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "cli/measure/launches.h"
#include "train/measure/measure.h"
#include "zr/device.h"

typedef struct cli_bench {
    const char *preset;
    int64_t batch, seq;   /* 0 stands for `seq` 1,024 or, if the model has fewer positions, for their number */
    cli_launches_how how; /* options for measuring training steps; `quiet` applies to the whole benchmark */
    bool bf16;            /* whether to measure bf16 products even if they are widened to fp32 */
    bool json;
    const char *processor;
    zr_rates rates;
    zr__products f32, narrow; /* `narrow` holds bf16 products; narrow.n is 0 if they were not measured */
    cli_launches launches;
} cli_bench;

/** Measure, print and remember the rates. If remembering fails, print a note. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** Write the rates of a machine in FLOP/s and bytes/s as one line into `text`. Return `text`. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
