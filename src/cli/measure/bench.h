/** `zr info --bench`: what this machine reaches. */
#ifndef ZR_CLI_BENCH_H
#define ZR_CLI_BENCH_H

#include "cli/measure/launches.h"

typedef struct cli_bench {
    const char *preset;
    int64_t batch, seq;   /* seq 0: 1,024, at most the positions that the model has */
    cli_launches_how how; /* training steps are measured; quiet is the whole benchmark's */
    bool bf16;            /* also where bf16 is widened to fp32 for its products */
    bool json;
    const char *processor;
    zr_rates rates;
    zr_products f32, narrow; /* narrow.n 0: not measured */
    cli_launches launches;
} cli_bench;

/** Measure, print, remember. That the numbers cannot be remembered is a note. */
ZR_NODISCARD zr_status cli_bench_run(cli_bench *bench, zr_device *device);

/** FLOP/s and bytes/s of a machine as one line of text; `text` is returned. */
const char *cli_rates_line(const zr_rates *rates, char text[192]);

#endif
