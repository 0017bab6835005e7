/**
 * cli/measure: `zr info` (cmd_info.c) and its measurements of this machine: bench.c has rates and matrix products,
 * launches.c training steps, which train/measure takes and this room prints.
 * This header: the benchmark of `zr info --bench`.
 */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "cli/measure/launches.h"
#include "train/measure/measure.h"
#include "zr/device.h"

typedef struct cli_bench {
    const char *preset;
    int64_t batch, seq;   /* seq 0: 1,024, at most the positions that the model has */
    cli_launches_how how; /* for training steps; `quiet` holds for the whole benchmark */
    bool bf16;            /* measure bf16 also where it is widened to fp32 for its products */
    bool json;
    const char *processor;
    zr_rates rates;
    zr__products f32, narrow; /* narrow.n 0: not measured */
    cli_launches launches;
} cli_bench;

/** Measure, print and remember the rates. A failure to remember them is a note. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** Write a machine's FLOP/s and bytes/s as one line of text; return `text`. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
