/** Measurement of the CPU's peak FLOP/s and memory bandwidth. */
#ifndef ZR_DEVICE_CPU_PEAK_H
#define ZR_DEVICE_CPU_PEAK_H

#include "device/cpu/matmul.h"

/** Benchmark loops of a level (kernels/peak.c). fma_f32 and dot_bf16 repeat an operation on registers and return the
 * number of FLOPs. The two operands `in` are chosen so that results stay normal numbers. A result is stored to `out`,
 * so that the compiler cannot remove the loop. */
typedef struct zr__peak_ops {
    double (*fma_f32)(int64_t rounds, const float in[2], float *out);
    double (*dot_bf16)(int64_t rounds, const float in[2], float *out); /* NULL if the level has no bf16 products */
    void (*triad)(float *restrict a, const float *restrict b, const float *restrict c, float s, int64_t n);
} zr__peak_ops;

/** Return the peak FLOP/s of a level's matrix products of `dtype`: the measured rate of one thread, times `threads`.
 * Return 0 if these products cannot run. The measurement takes about 20 ms and 2 MB. */
double zr__cpu_peak_flops(const zr__panel_ops *level, int threads, zr_dtype dtype);

/** Measure the FLOP/s of a loop that works in registers, on one thread and on all threads at once. The measurement
 * takes about 60 ms. Return zeros if `loop` is NULL. */
zr_rate zr__cpu_register_flops(double (*loop)(int64_t rounds, const float in[2], float *out), int threads);

/** Measure two bandwidths in bytes/s: of memory by the STREAM triad, and between ranks that read each other's memory.
 * The measurement takes one or two seconds. It needs 192 MiB of memory, or up to 768 MiB if the last-level cache is
 * large. Return ZR_ERR_MEMORY if the memory is not available. */
ZR_NODISCARD zr_status zr__cpu_bandwidth(const zr__peak_ops *ops, int threads, zr_rate *triad, zr_rate *link);

#endif
