/** train/measure: measurements of this machine. machine.c stores the rates of kernels, memory and links in the user's
 * cache, and disk.c the rates of a disk. products.c times the matrix products of a model. timings.c reports the time of
 * a run by kinds of steps. Estimated times of plans and the reported mfu use the measurements. Plans depend on the
 * measurements only if the configuration leaves keys open, or if policy auto plans for tensor-parallel ranks. */
#ifndef ZR_TRAIN_MEASURE_MEASURE_H
#define ZR_TRAIN_MEASURE_MEASURE_H

#include "zr/comm.h"
#include "zr/device.h"
#include "zr/simulate.h"

/* The rates that the benchmark of a device measures are stored in
 * ${XDG_CACHE_HOME:-$HOME/.cache}/zr/machine-<hash>.json. There is one file for each combination of processor, number
 * of cores, kernel level, and versions of zr and its matrix-product library. There is also one file for each GPU name.
 * The rates determine the estimated times of plans and the peak for mfu. `facts` are the facts of the device. */

/** Save the rates atomically. If several processes save rates, the last one wins. Fail with ZR_ERR_NOT_FOUND if there
 * is no cache directory (HOME is not set), or with ZR_ERR_ARG if a rate is not finite. Other errors: ZR_ERR_CREATE,
 * ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__rates_remember(const zr_device_facts *facts, const zr_rates *rates);

/** Load the saved rates. Fail with ZR_ERR_NOT_FOUND if no rates are saved, or with ZR_ERR_DATA if the file is damaged
 * or belongs to another machine. */
ZR_NODISCARD zr_status zr__rates_recall(const zr_device_facts *facts, zr_rates *rates);

/** Return the peak FLOP/s in F32 or BF16, the reference for achieved rates. It is the rate of a loop that computes in
 * registers. If a library's product was faster, return the rate of this product and set *of_library to true. A library
 * may use instructions for which zr has no loop, or may have run when the machine was less busy. The BF16 rate is 0 if
 * the hardware has no BF16 products. */
zr_rate zr__rates_peak(const zr_rates *rates, zr_dtype dtype, bool *of_library);

/** Set the rates of a profile for one of `ranks` ranks, of which local_ranks work at the same time on this host. Each
 * rank has profile->facts.threads threads, and values of `dtype`. Its rate is the rate of its own threads, but at most
 * an equal share of the host's rate. The FLOP/s are the peaks. The measured rates of matrix products by size are added
 * to the profile. If all ranks are on one host, the link between threads (ZR_LINK_PROCESS) has the rate of a memory
 * copy, which cannot overlap with compute. With several hosts the link's rate is 0, which means unknown. */
void zr__rates_profile(const zr_rates *rates, zr_dtype dtype, int ranks, int local_ranks, zr_profile *profile);

/** Rates of sequential transfers from and to a folder, in bytes per second. */
typedef struct zr__folder_rates {
    double read, write; /* rate of reading alone; of writing alone */
    double both;        /* rate of both directions together when they run at the same time */
    bool direct;        /* whether transfers bypassed the page cache; if not, the rates may be rates of memory */
    char folder[256];   /* the measured folder, in printable form */
    char transfers[16]; /* "io_uring" or "threads" */
} zr__folder_rates;

/** Measure the disk of a folder in which files can be created, by writing and reading some GB, or with `quick` a
 * sixteenth of that. Errors: as zr__store_measure. */
ZR_NODISCARD zr_status zr__disk_measure(const char *folder, bool quick, zr__folder_rates *rates);
/** Save and load the rates of the folder that was measured last. Errors are the same as in zr__rates_remember and
 * zr__rates_recall. */
ZR_NODISCARD zr_status zr__disk_remember(const zr__folder_rates *rates);
ZR_NODISCARD zr_status zr__disk_recall(zr__folder_rates *rates);
/** Set the disk rates of a profile for one of local_ranks ranks that share the disk, if the rates are known. */
void zr__disk_profile(int local_ranks, zr_profile *profile);

/** A matrix product C (m,n) = A (m,k) B (k,n) of a model's step. */
typedef struct zr__product_timing {
    char what[ZR_NAME_MAX + 16]; /* weight and pass ("forward", "dx" or "dw"), such as "h.*.mlp.c_fc dx" */
    zr_dtype dtype;
    int64_t m, n, k;
    int64_t count; /* number of products of this kind in a micro-batch */
    double flops_per_sec;
    double part; /* fraction of the rows that was timed; the rate is an estimate if it is below 1 */
} zr__product_timing;

/** Matrix products of the forward and backward passes of one micro-batch. A fused output head does not store its
 * logits, but computes its products for one block of rows at a time. */
typedef struct zr__products {
    zr__product_timing *product;
    int n;
    double flops;
    double rest_flops; /* FLOPs of all other ops. Most are in attention, where masked pairs count too. */
    /* sum over all products of FLOPs / rate, in seconds. It is a lower bound of the time of a micro-batch with these
     * kernels, if the rates of partly timed products are right */
    double bound_sec;
} zr__products;

/** Time each matrix product of a model separately with the device's kernels, on operands in memory. Record the time of
 * the fastest of several runs. A product that would take more than a tenth of a second is timed on only a part of its
 * rows, but on at least 512. `dtype` is F32 or BF16. A product takes at least three runs, usually 0.1 to 0.3 seconds,
 * and memory for its operands. Clear `products` even after a failure. */
ZR_NODISCARD zr_status zr__products_measure(const zr_model *model, int64_t batch, int64_t seq, zr_dtype dtype,
                                            zr_device *device, zr__products *products);
void zr__products_clear(zr__products *products);

/** Add the rates of products to `rates`, one rate for each size. The rate of a size is the mean over its products,
 * weighted by time. Record also the best rate of all products. If there are more sizes than ZR_PRODUCT_RATES, ignore
 * the last sizes. */
void zr__rates_add_products(zr_rates *rates, const zr__products *products);

#endif
