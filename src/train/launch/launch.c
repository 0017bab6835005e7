/* Starts the ranks of the launches whose training steps are measured. */
#include "base/core/scope.h"
#include "train/launch/launch.h"
#include "train/host/device.h"
#include "train/host/host.h"
#include "train/host/limits.h"

#include <math.h>
#include <string.h>

typedef struct launch_job {
    const zr__launch_options *options;
    zr_launch *launch; /* destination of the measured training steps; only rank 0 writes to it */
} launch_job;

/* Return the number of threads of each rank on a host with `local_size` ranks. */
static int threads_of(const zr__launch_options *options, int local_size)
{
    const int share = options->threads > 0 ? (int)options->threads : zr__host_cores() / local_size;
    return share > 1 ? share : 1;
}

static zr_status measure_rank(zr_comm *comm, void *arg)
{
    const launch_job *m = arg;
    zr_launch launch;
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_TRY(zr__train_device(ZR_DEVICE_CPU, threads_of(m->options, comm->local_size), comm->local_rank, &device));
    ZR_TRY(zr__launch_measure(comm, device, m->options->quick, &launch));
    if (comm->rank == 0)
        *m->launch = launch;
    else
        zr__launch_clear(&launch);
    return ZR_OK;
}

/* Run measure_rank on ranks that are threads of this process. */
static zr_status run_threads(int ranks, launch_job *job)
{
    ZR_AUTO(zr_comm_destroy) zr_comm *comm = NULL;
    ZR_TRY(zr__host_room(0, ranks * threads_of(job->options, ranks)));
    if (ranks > 1) return zr_comm_threads_run(ranks, measure_rank, job);
    ZR_TRY(zr_comm_create_self(&comm));
    return measure_rank(comm, job);
}

zr_status zr__launches_measure(const zr__launch_options *options, zr_comm *comm, zr__launches *launches)
{
    const int cores = zr__host_cores(), wanted = options->quick && cores > 1 ? cores : 2 * cores,
              most = wanted < ZR__LAUNCH_RANKS ? wanted : ZR__LAUNCH_RANKS;
    *launches = (zr__launches){.n = 0};
    launch_job job = {options, launches->launch};
    if (comm) {
        if (options->begin && comm->rank == 0) options->begin(comm->size, true);
        ZR_TRY(zr_comm_agree(comm, zr__host_room(0, threads_of(options, comm->local_size))));
        ZR_TRY(measure_rank(comm, &job));
        launches->n = comm->rank == 0;
        return ZR_OK;
    }
    for (int ranks = 1; ranks <= most; ranks *= 2) {
        if (options->begin) options->begin(ranks, false);
        ZR_TRY(run_threads(ranks, &job));
        job.launch = &launches->launch[++launches->n];
    }
    return ZR_OK;
}

void zr__launches_clear(zr__launches *launches)
{
    for (int i = 0; i < ZR__LAUNCHES; i++) zr__launch_clear(&launches->launch[i]);
    launches->n = 0;
}

double zr__launch_gather_bytes_sec(const zr_launch *launch)
{
    double bytes = 0, rate = NAN;
    for (int32_t i = 0; i < launch->n_samples; i++) {
        const zr_step_sample *s = &launch->sample[i];
        if (strcmp(s->kind, zr_step_kind_name(ZR_STEP_GATHER)) != 0 || s->across) continue;
        if (s->cost.wire_bytes <= bytes) continue;
        bytes = s->cost.wire_bytes;
        rate = bytes / s->sec;
    }
    return rate;
}

/* ---- a cluster like this machine ---------------------------------------------------------------- */

static void add_link(zr_cluster *cluster, const char *name, int32_t devices, double bytes_sec)
{
    zr_cluster_link *link = &cluster->link[cluster->n_links++];
    *link = (zr_cluster_link){.devices = devices, .bytes_sec = bytes_sec};
    snprintf(link->name, sizeof(link->name), "%s", name);
}

void zr__launch_cluster(const zr_profile *profile, const zr_launch *launch, int ranks, int local, zr_cluster *cluster)
{
    const zr_machine *machine = &profile->machine;
    const int hosts = (ranks + local - 1) / local;
    *cluster = (zr_cluster){.name = "this machine",
                            .device = *machine,
                            .product_share = 1,
                            .memory_share = 1,
                            .link_share = 1,
                            .devices = hosts * local,
                            .host_devices = local,
                            /* A copy reads and writes each byte, so its rate is half of the memory's bandwidth. */
                            .host_bytes_sec = machine->memory_bytes_sec / 2,
                            .algorithm = ZR_ALGORITHM_EXCHANGE,
                            .measured = launch};
    cluster->device.memory_bytes = zr__train_limit(profile, local, local);
    if (local > 1) add_link(cluster, "memory", local, machine->memory_bytes_sec / 2);
    if (hosts > 1) add_link(cluster, "network", hosts * local, launch->across_bytes_sec);
}
