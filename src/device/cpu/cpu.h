/* device/cpu, internal: the tables that each processor level exports, and creation at a level of choice (tests run
 * every level that the machine has). cpu.c is the table of operations, processor.c chooses the level, matmul.c the code
 * of a matrix product (onednn.c or kernels/product.c), peak.c and bandwidth.c measure; *_blocks.h lay out scratch.
 * kernels/ has a file for each family of ops, compiled once for each level, over shared/level.h. */
#ifndef ZR_DEVICE_CPU_CPU_H
#define ZR_DEVICE_CPU_CPU_H

#include "device/cpu/peak.h"

/* kernels/shards.c: the steps of ZeRO that compute. See zr_device_ops for what each does. */
typedef struct zr__shards {
    void (*sum)(int threads, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces, int n_pieces,
                zr_dtype dtype, int64_t n);
    double (*square_sum)(int threads, const void *x, zr_dtype dtype, int64_t n);
    int64_t (*first_bad)(const void *x, zr_dtype dtype, int64_t n);
    void (*cast)(int threads, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n);
} zr__shards;

/* Most pieces that sum takes: its tree has a fixed depth. */
#define ZR_SUM_PIECES 4095

/* kernels/exact.c: *sum += the squares of (n) elements, without rounding. */
typedef void (*zr__square_exact)(int threads, const void *x, zr_dtype dtype, int64_t n, zr_exact *sum);

/* kernels/normal.c: out[i] = std times element first + i of the standard normal sequence. */
typedef void (*zr__normal_fn)(int threads, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);

/* kernels/optimizer.c: rules by name, name NULL last. */
typedef struct zr__rule {
    const char *name;
    void (*update)(const zr_update_args *args);
} zr__rule;

/* The levels of this build, lowest first; name NULL last. */
const char *const *zr__cpu_levels(void);
/* Return whether this processor has the level, and may use it here. */
bool zr__cpu_has(const char *level);
/* Return the functions of a level of this build for matrix products, and for measuring its peaks. */
const zr__panel_ops *zr__cpu_panels(const char *level);
const zr__peak_ops *zr__cpu_peaks(const char *level);
/* Create a device as zr_device_create_cpu does, at a level that the processor has, whatever ZR_KERNELS says. */
ZR_NODISCARD zr_status zr__device_create_cpu_level(const zr_device_config *config, const char *level,
                                                   zr_device **device);

#endif
