/* Stores rates of this machine as if `zr info --bench` had measured them. A training run that finds no rates measures
 * for a twentieth of a second, which is most of a small run's time. */
#ifndef ZR_TESTS_KNOWN_RATES_H
#define ZR_TESTS_KNOWN_RATES_H

#include <stdio.h>
#include <stdlib.h>

#include "zr/device.h"
#include "train/host/host.h"
#include "train/measure/measure.h"

/* Store the rates in the folder `cache`, where this process and its children then look for them. */
static inline int set_rates(const char *cache)
{
    static const zr_device_facts here = {.name = "this machine"};
    static const zr_rate flops = {50e9, 100e9}, bytes_sec = {10e9, 20e9};
    zr_rates rates = {.threads = zr__host_cores(), .n_levels = 1, .triad = bytes_sec, .link = bytes_sec};
    rates.level[0] = (zr_peak){.fma_f32 = flops, .dot_bf16 = flops};
    snprintf(rates.level[0].level, sizeof rates.level[0].level, "%s", zr_device_cpu_level());
    return setenv("XDG_CACHE_HOME", cache, 1) || zr__rates_remember(&here, &rates) != ZR_OK ? -1 : 0;
}

#endif
