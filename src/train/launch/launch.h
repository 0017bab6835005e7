/** train/launch: training steps of small models, measured on this machine. `zr info --bench` measures launches of
 * several numbers of ranks, and `zr simulate --cluster this` prices the steps of other models by them
 * (zr_cluster.measured). launch.c starts the ranks, measure.c trains the models on a launch's ranks, and file.c stores
 * the measured steps in the user's cache. */
#ifndef ZR_TRAIN_LAUNCH_LAUNCH_H
#define ZR_TRAIN_LAUNCH_LAUNCH_H

#include "zr/comm.h"
#include "zr/device.h"
#include "zr/simulate.h"

/** ZR__LAUNCH_RANKS: maximum number of ranks that are threads. ZR__LAUNCHES: maximum number of measured launches.
 * Launches of 1, 2, 4, 8 ... ranks are measured, up to twice the number of cores and at most 16. */
enum { ZR__LAUNCH_RANKS = 16, ZR__LAUNCHES = 5 };

typedef struct zr__launches {
    zr_launch launch[ZR__LAUNCHES];
    int n;
} zr__launches;

/** Options for measuring training steps. */
typedef struct zr__launch_options {
    int64_t threads; /* threads of each rank, or 0 for an equal share of the cores */
    bool quick;      /* whether to measure less (see zr__launch_measure) and to use at most max(2, cores) ranks */
    /* called before each launch, whose ranks are processes or threads; or NULL */
    void (*begin)(int ranks, bool process);
} zr__launch_options;

/** Measure training steps. If `comm` is NULL, measure launches whose ranks are threads of this process. If not, measure
 * the launch of `comm`, which a launcher such as mpirun started. Only rank 0 gets the launches. Clear them with
 * zr__launches_clear, even after a failure. Collective over `comm`. */
ZR_NODISCARD zr_status zr__launches_measure(const zr__launch_options *options, zr_comm *comm, zr__launches *launches);
void zr__launches_clear(zr__launches *launches);
/** Return the bandwidth into a rank, in bytes/s, of the largest all-gather measured within a host, or NAN if none was
 * measured. */
double zr__launch_gather_bytes_sec(const zr_launch *launch);

/** Train small models on the ranks of `comm` and record the durations of their steps. Durations are means over the
 * ranks and over the typical training steps, without the fastest quarter and the slowest quarter. All models are
 * measured three times, and the medians are recorded. The measurement takes 5 to 20 seconds, or one to two minutes with
 * more ranks than cores or with slow links. With `quick`, measure only once and only the smallest models. A quick
 * measurement takes a tenth of the time, but estimates for large models become less accurate than without `quick`. Each
 * rank passes its own device, and all ranks get the same result. Clear `launch` after success. Errors: ZR_ERR_MEMORY.
 * Collective. */
ZR_NODISCARD zr_status zr__launch_measure(zr_comm *comm, zr_device *device, bool quick, zr_launch *launch);
void zr__launch_clear(zr_launch *launch);

/** Save and load measured steps, in files steps-<hash>.json beside the machine's rates. Each combination of machine,
 * transport, number of ranks and number of hosts has its own file. If the ranks are threads and `ranks` was not
 * measured, load the steps of the largest measured power of two below `ranks`. Errors are the same as in
 * zr__rates_remember and zr__rates_recall. */
ZR_NODISCARD zr_status zr__launch_remember(const zr_device_facts *facts, const zr_launch *launch);
ZR_NODISCARD zr_status zr__launch_recall(const zr_device_facts *facts, const char *transport, int ranks, int hosts,
                                         zr_launch *launch);

/** Create a cluster for `ranks` ranks whose hosts are all like this host, with `local` ranks each. Steps are priced as
 * measured in `launch`, which is borrowed. Kinds of steps that were not measured are priced by the rates of
 * `profile`. */
void zr__launch_cluster(const zr_profile *profile, const zr_launch *launch, int ranks, int local, zr_cluster *cluster);

/** Numbers of a zr_launch that are measured once for all its steps: the key in the file and the member's offset. A
 * number of a valid file is at least 0 and less than `below`. */
#define ZR__LAUNCH_NUMBERS 5
typedef struct zr__launch_number {
    const char *key;
    size_t at;
    double below;
} zr__launch_number;
extern const zr__launch_number zr__launch_numbers[ZR__LAUNCH_NUMBERS];

#endif
