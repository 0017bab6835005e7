/*
 * device/cpu: the CPU device. This header declares the tables that each processor level exports, and the creation of a
 * device at a chosen level. Tests create a device at every level that the machine supports.
 *
 * Files: cpu.c implements zr_device_ops. processor.c chooses the level. matmul.c selects the code of a matrix product
 * (onednn.c or kernels/product.c). peak.c and bandwidth.c measure rates. *_blocks.h define layouts of scratch memory.
 * kernels/ has one file for each family of ops. Each file is compiled once for each level, with shared/level.h.
 */
#ifndef ZR_DEVICE_CPU_CPU_H
#define ZR_DEVICE_CPU_CPU_H

#include "device/cpu/peak.h"

/* Functions of kernels/shards.c for ZeRO's steps, such as sums of gradients. zr_device_ops documents each function. */
typedef struct zr__shards {
    void (*sum)(int threads, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces, int n_pieces,
                zr_dtype dtype, int64_t n);
    double (*square_sum)(int threads, const void *x, zr_dtype dtype, int64_t n);
    int64_t (*first_bad)(const void *x, zr_dtype dtype, int64_t n);
    void (*cast)(int threads, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                 const zr_casting *casting);
} zr__shards;

/* Maximum number of pieces that `sum` can add. The limit follows from the fixed depth of its summation tree. */
#define ZR_SUM_PIECES 4095

/* Function of kernels/exact.c: add the squares of n elements to *sum, without rounding. */
typedef void (*zr__square_exact)(int threads, const void *x, zr_dtype dtype, int64_t n, zr_exact *sum);

/* Function of kernels/normal.c: set out[i] to std * z[first + i] for i < n, where z is rng's sequence of standard
 * normal numbers. */
typedef void (*zr__normal_fn)(int threads, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);

/* Measure the rates of casts to and from records, on one thread and on all threads. The measurement takes about
 * half a second and 11 MB. Return ZR_ERR_MEMORY if the memory is not available. */
ZR_NODISCARD zr_status zr__cpu_coding(const zr__shards *shards, zr__normal_fn normal, int threads,
                                      zr_record_rates rates[ZR_RECORD_CODES]);

/* An optimizer's name and update rule, and its direction if it has trust ratios (zr_optimizer.direction). The table in
 * kernels/optimizer.c ends with an entry whose name is NULL. */
typedef struct zr__rule {
    const char *name;
    void (*update)(const zr_update_args *args);
    void (*direction)(const zr_update_args *args, float *out);
} zr__rule;

/* Return the names of the levels of this build, lowest first; the last entry is NULL. */
const char *const *zr__cpu_levels(void);
/* Return whether this processor has the level's instructions and this process may use them. */
bool zr__cpu_has(const char *level);
/* Return the matrix-product functions of a level. The build must include the level. */
const zr__panel_ops *zr__cpu_panels(const char *level);
/* Return the benchmark loops of a level. The build must include the level. */
const zr__peak_ops *zr__cpu_peaks(const char *level);
/* Create a CPU device at the given level, regardless of the environment variable ZR_KERNELS. Return an error if the
 * processor does not support the level. */
ZR_NODISCARD zr_status zr__device_create_cpu_level(const zr_device_config *config, const char *level,
                                                   zr_device **device);

#endif
