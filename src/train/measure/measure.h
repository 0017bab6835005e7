/**
 * train/measure: measurements of this machine. machine.c keeps the rates of kernels, memory and links in the user's
 * cache; products.c times the matrix products of a model, launch_measure.c small training steps, whose samples
 * launch_file.c keeps; timings.c says where the time of a run goes. No plan depends on them; prices and mfu do.
 */
#ifndef ZR_TRAIN_MEASURE_MEASURE_H
#define ZR_TRAIN_MEASURE_MEASURE_H

#include "zr/comm.h"
#include "zr/device.h"
#include "zr/graph.h"
#include "zr/models.h"
#include "zr/simulate.h"

/* Rates measured by a device's bench are kept in ${XDG_CACHE_HOME:-$HOME/.cache}/zr/machine-<hash>.json, for this
 * processor, number of cores, kernel level and these versions of zr and its library of matrix products, or for GPUs of
 * this name; any other combination has a file of its own. `facts`: the device's. The rates price plans, and mfu is a
 * share of their peak; no plan depends on them. */

/** Save the rates, atomically; of several writers the last wins. ZR_ERR_NOT_FOUND: there is no cache directory (HOME is
 *  not set); ZR_ERR_ARG: a rate is not finite; ZR_ERR_CREATE, ZR_ERR_IO, ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__rates_remember(const zr_device_facts *facts, const zr_rates *rates);

/** Load the saved rates. ZR_ERR_NOT_FOUND: none are saved; ZR_ERR_DATA: the file is damaged, or another machine's. */
ZR_NODISCARD zr_status zr__rates_recall(const zr_device_facts *facts, zr_rates *rates);

/** Return the peak in F32 or BF16, against which every share is taken: the rate of a loop between registers; or, where
 *  a library's product ran faster (by instructions that zr has no loop for, or while the machine was less busy), the
 *  product's rate, and *of_library is true. BF16 is 0 where the hardware does not multiply it directly. */
zr_rate zr__rates_peak(const zr_rates *rates, zr_dtype dtype, bool *of_library);

/** Fill a profile's rates for one of `ranks` ranks. `local_ranks` ranks work on this host at once, each with
 *  profile->facts.threads threads and values of `dtype`: each rate is its threads' own rate, at most its share of
 *  the rate of all threads together. FLOP rates are the peaks and, by sizes, the measured rates of products. The link,
 *  between threads (ZR_LINK_PROCESS), is known within one host, where it is the memory and cannot be overlapped; with
 *  other hosts it is 0. */
void zr__rates_profile(const zr_rates *rates, zr_dtype dtype, int ranks, int local_ranks, zr_profile *profile);

/* Measured steps of training runs, by which a cluster's zr_cluster.measured prices plans: saved in the same way, for
 * each number of ranks and hosts of a transport in a file of its own, steps-<hash>.json. */

/** Train small models on the ranks of `comm` and record how long their steps took: medians over some training steps,
 *  means over the ranks. Takes 5 to 20 seconds; with more ranks than cores or slow links a minute or two. `quick`: once
 *  and the smallest models only, a tenth of the time; steps of large models are then priced less well. Collective, each
 *  rank with a device of its own; all get the same result, to be cleared after success. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__launch_measure(zr_comm *comm, zr_device *device, bool quick, zr_launch *launch);
void zr__launch_clear(zr_launch *launch);

/** Save and load measured steps, with the errors of zr__rates_remember and zr__rates_recall. */
ZR_NODISCARD zr_status zr__launch_remember(const zr_device_facts *facts, const zr_launch *launch);
ZR_NODISCARD zr_status zr__launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                                         zr_launch *launch);

/** A matrix product C (m,n) = A (m,k) B (k,n) of a model's step. */
typedef struct zr__product_timing {
    char what[ZR_NAME_MAX + 16]; /* weight and pass, "h.*.mlp.c_fc forward"; passes: forward, dx, dw */
    zr_dtype dtype;
    int64_t m, n, k;
    int64_t count; /* runs in a micro-batch */
    double flops_per_sec;
    double part; /* share of its rows that was timed; below 1 the rate is an estimate for all rows */
} zr__product_timing;

/** Matrix products of one micro-batch, forward and backward; a head that does not store its logits has its products for
 *  a block of rows at a time. */
typedef struct zr__products {
    zr__product_timing *product;
    int n;
    double flops;
    double rest_flops; /* FLOPs of ops that are no linear products: attention, masked pairs included */
    double bound_sec;  /* sum of FLOPs / rate over all products: a lower bound of a micro-batch's time with these
                          kernels, as far as the rates of the products timed in part hold for the whole */
} zr__products;

/** Time each product of a model by itself, through the device's kernels, best of some runs on operands in memory; a
 *  product that would take more than a tenth of a second is timed on a part of its rows, 512 at least. dtype: F32 or
 *  BF16. Takes three runs and a tenth of a second or two a product, and memory for its operands. Clear it after
 *  success. */
ZR_NODISCARD zr_status zr__products_measure(const zr_model *model, int64_t batch, int64_t seq, zr_dtype dtype,
                                            zr_device *device, zr__products *products);
void zr__products_clear(zr__products *products);

/** Add the rates of products to `rates`, by their sizes: of equal sizes the mean over their time, and the best
 *  rate. Sizes beyond ZR_PRODUCT_RATES are left out. BF16 products count only where they are multiplied as such. */
void zr__rates_add_products(zr_rates *rates, const zr__products *products);

#endif
