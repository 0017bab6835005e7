/** Measurement of the rates that the processor reaches. */
#ifndef ZR_DEVICE_CPU_PEAK_H
#define ZR_DEVICE_CPU_PEAK_H

#include "device/cpu/matmul.h"

/** Benchmark loops of a level (kernels/peak.c). The first two repeat an operation on registers and return its FLOPs;
 *  in: two operands that stay normal numbers, out: keeps the work from being optimised away. */
typedef struct zr__peak_ops {
    double (*fma_f32)(int64_t rounds, const float in[2], float *out);
    double (*dot_bf16)(int64_t rounds, const float in[2], float *out); /* NULL: the level has none */
    void (*triad)(float *restrict a, const float *restrict b, const float *restrict c, float s, int64_t n);
} zr__peak_ops;

/** Measure the FLOP/s of a level's matrix products of `dtype` with `threads` threads, 0 when they cannot run. Takes
 *  some 20 ms, and 2 MB while it runs. */
double zr__cpu_peak_flops(const zr__panel_ops *level, int threads, zr_dtype dtype);

/** FLOP/s of a loop between registers, NULL: 0. Takes some 60 ms. */
zr_rate zr__cpu_register_flops(double (*loop)(int64_t rounds, const float in[2], float *out), int threads);

/** Bytes/s of the triad, and of ranks that read each other's memory. Takes a second or two and 192 MiB, up to 768 where
 *  the last cache is large. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__cpu_bandwidth(const zr__peak_ops *ops, int threads, zr_rate *triad, zr_rate *link);

#endif
