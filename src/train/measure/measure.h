/**
 * train/measure: measurements of this machine. machine.c stores the rates of kernels, memory and links in the user's
 * cache. products.c times the matrix products of a model. launch_measure.c times the steps of small models, and
 * launch_file.c stores these samples. timings.c reports where the time of a run goes. Prices and mfu depend on the
 * measurements. A plan depends on them only if keys are open or policy auto plans for tensor-parallel ranks.
 */
#ifndef ZR_TRAIN_MEASURE_MEASURE_H
#define ZR_TRAIN_MEASURE_MEASURE_H

#include "zr/comm.h"
#include "zr/device.h"
#include "zr/graph.h"
#include "zr/models.h"
#include "zr/simulate.h"

/* Rates measured by a device's bench are stored in ${XDG_CACHE_HOME:-$HOME/.cache}/zr/machine-<hash>.json. Each
 * combination of processor, number of cores, kernel level, and versions of zr and its matrix product library has a file
 * of its own; for GPUs, each GPU name. `facts` are the device's. The rates determine estimated times of plans and the
 * peak of which mfu is a share; no plan depends on them. */

/** Save the rates, atomically; of several writers the last wins. Fail with ZR_ERR_NOT_FOUND if there is no cache
 * directory (HOME is not set), ZR_ERR_ARG if a rate is not finite. Other errors: ZR_ERR_CREATE, ZR_ERR_IO,
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__rates_remember(const zr_device_facts *facts, const zr_rates *rates);

/** Load the saved rates. Fail with ZR_ERR_NOT_FOUND if no rates are saved, or ZR_ERR_DATA if the file is damaged or of
 * another machine. */
ZR_NODISCARD zr_status zr__rates_recall(const zr_device_facts *facts, zr_rates *rates);

/** Return the peak FLOP rate in F32 or BF16, of which all achieved rates are a fraction. It is the rate of a loop that
 * computes in registers, or the rate of a library's product if that was faster; *of_library is then true. (The library
 * may use instructions for which zr has no loop, or the machine was less busy.) The BF16 rate is 0 if the hardware has
 * no direct BF16 products. */
zr_rate zr__rates_peak(const zr_rates *rates, zr_dtype dtype, bool *of_library);

/** Fill in a profile's rates for one of `ranks` ranks. `local_ranks` ranks work on this host at the same time, each
 * with profile->facts.threads threads and values of `dtype`. Each rate is the rate of the rank's own threads, but at
 * most its share of the rate of all threads together. FLOP rates are the peaks and the measured rates of products, by
 * size. The rate of the link between threads (ZR_LINK_PROCESS) is known only if all ranks are on one host; there it is
 * a memory copy that cannot be overlapped. With several hosts it is 0. */
void zr__rates_profile(const zr_rates *rates, zr_dtype dtype, int ranks, int local_ranks, zr_profile *profile);

/* Measured steps of training runs, by which zr_cluster.measured estimates times of plans. They are stored in the same
 * folder, in a file steps-<hash>.json for each transport with its number of ranks and hosts. */

/** Train small models on the ranks of `comm` and record how long their steps took, as medians over training steps and
 * means over ranks. This takes 5 to 20 seconds, or a minute or two with more ranks than cores or slow links. `quick`
 * measures once, with the smallest models only, in a tenth of the time; steps of large models are then priced less
 * accurately. Collective; each rank passes its own device, and all get the same result. Clear it after success.
 * Errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__launch_measure(zr_comm *comm, zr_device *device, bool quick, zr_launch *launch);
void zr__launch_clear(zr_launch *launch);

/** Save and load measured steps. The errors are those of zr__rates_remember and zr__rates_recall. */
ZR_NODISCARD zr_status zr__launch_remember(const zr_device_facts *facts, const zr_launch *launch);
ZR_NODISCARD zr_status zr__launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                                         zr_launch *launch);

/** A matrix product C (m,n) = A (m,k) B (k,n) of a model's step. */
typedef struct zr__product_timing {
    char what[ZR_NAME_MAX + 16]; /* name of weight and pass, such as "h.*.mlp.c_fc forward"; passes: forward, dx, dw */
    zr_dtype dtype;
    int64_t m, n, k;
    int64_t count; /* number of runs in a micro-batch */
    double flops_per_sec;
    double part; /* fraction of the rows that was timed; if below 1, the rate is an estimate for all rows */
} zr__product_timing;

/** Matrix products of one micro-batch, forward and backward. An output head that does not store its logits computes its
 * products for one block of rows at a time. */
typedef struct zr__products {
    zr__product_timing *product;
    int n;
    double flops;
    double rest_flops; /* FLOPs of all other ops, mostly attention, masked pairs included */
    double bound_sec;  /* sum of FLOPs / rate over all products: a lower bound of a micro-batch's time with these
                          kernels, provided that the rates of partly timed products hold for all rows */
} zr__products;

/** Time each product of a model separately, with the device's kernels, as the best of some runs on operands in memory.
 * A product that would take more than a tenth of a second is timed on a part of its rows, at least 512. `dtype` is F32
 * or BF16. Each product takes at least three runs, a tenth of a second or two, and memory for its operands. Clear
 * `products` after success. */
ZR_NODISCARD zr_status zr__products_measure(const zr_model *model, int64_t batch, int64_t seq, zr_dtype dtype,
                                            zr_device *device, zr__products *products);
void zr__products_clear(zr__products *products);

/** Add the rates of products to `rates`, by size: for products of equal size the mean rate, weighted by time, and over
 * all products the best rate. Sizes beyond ZR_PRODUCT_RATES are dropped. */
void zr__rates_add_products(zr_rates *rates, const zr__products *products);

#endif
