/** The cluster of a target: a known cluster, a cluster from a file, or this machine with measured rates. */
#include "cli/plan/target.h"

#include "base/json/json.h"
#include "cli/plan/profile.h"
#include "simulate/simulate.h"
#include "train/host/device.h"
#include "train/host/limits.h"
#include "train/launch/launch.h"
#include "train/measure/measure.h"

#include <stdio.h>
#include <string.h>

void cli_cluster_profile(const zr_cluster *cluster, zr_profile *profile)
{
    const bool gpu = !cluster->processors;
    *profile = (zr_profile){.facts = {.threads = 1,
                                      .own_memory = gpu,
                                      .narrow_attention = gpu,
                                      .scratch_bytes = gpu ? zr_device_cuda_scratch : zr_device_cpu_scratch}};
    snprintf(profile->facts.name, sizeof(profile->facts.name), "%.40s", cluster->name);
    profile->facts.bf16_products = cluster->device.flops_bf16 > 0;
    profile->machine = cluster->device;
    for (int i = 0; i < cluster->n_links; i++) {
        const bool within = cluster->link[i].devices <= cluster->host_devices;
        profile->machine.link[within ? ZR_LINK_HOST : ZR_LINK_HOSTS].bytes_sec =
            within ? zr__through_host_rate(&cluster->device, cluster->link[i].bytes_sec) : cluster->link[i].bytes_sec;
    }
}

/* ---- this machine ------------------------------------------------------------------------------- */

/** Return the command that measures training steps on a transport, for a message. */
static const char *command_of(const char *transport)
{
    if (strcmp(transport, "threads") != 0) return "`zr info --bench` under the launcher that starts them";
    return zr_device_cuda_count(NULL) > 0 ? "`zr info --bench --device cpu`" : "`zr info --bench`";
}

static zr_status this_cluster(const char *wanted, const zr_config *config, cli_target *target)
{
    zr_profile *profile = &target->profile;
    const int ranks = target->ranks;
    const int given = (int)config->parallel.ranks_per_host, local = given > 0 && given < ranks ? given : ranks;
    const bool hosts = ranks > local, threads = wanted && strcmp(wanted, "threads") == 0;
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    zr_rates rates;
    ZR_CHECK(!hosts || !threads, ZR_ERR_CONFIG,
             "--transport threads works only on one host; use mpi for several hosts");
    ZR_TRY(zr__train_device(ZR_DEVICE_CPU, zr__train_threads(config, local), 0, &device));
    *profile = device->profile;
    zr_status st = zr__rates_recall(&profile->facts, &rates);
    if (st == ZR_ERR_NOT_FOUND)
        return ZR_FAIL(st, "--cluster this: this machine's processor has not been measured; run %s",
                       command_of("threads"));
    ZR_TRY(st);
    zr__rates_profile(&rates, profile->facts.bf16_products ? ZR_BF16 : ZR_F32, local, local, profile);
    zr__disk_profile(local, profile);
    zr_launch *launch = zr_alloc(sizeof(*launch));
    ZR_CHECK(launch, ZR_ERR_MEMORY, "no memory for measured steps");
    const char *transport = hosts ? "mpi" : wanted ? wanted : "threads";
    const int n_hosts = (ranks + local - 1) / local;
    st = zr__launch_recall(&profile->facts, transport, ranks, n_hosts, launch);
    if (st == ZR_OK)
        zr__launch_cluster(profile, launch, ranks, local, &target->cluster);
    else
        zr_free(launch);
    if (st == ZR_ERR_NOT_FOUND || st == ZR_ERR_DATA)
        return ZR_FAIL(
            st, "--cluster this: %s of %d rank%s of %s on %d host%s; run %s",
            st == ZR_ERR_DATA ? "the file is damaged that holds the measured steps" : "no training steps were measured",
            ranks, ranks == 1 ? "" : "s", transport, n_hosts, n_hosts == 1 ? "" : "s", command_of(transport));
    return st;
}

/* ---- any cluster -------------------------------------------------------------------------------- */

/** Return whether a cluster is named by its devices, so that its hosts and links are those that are usual. */
static bool is_by_devices(const char *name)
{
    zr_cluster usual;
    const char *const *listed = zr__cluster_names();
    while (*listed && strcmp(*listed, name) != 0) listed++;
    return !zr__json_is_file_name(name) && (!*listed || zr_cluster_of_device(name, &usual) == ZR_OK);
}

zr_status cli_target_cluster(const char *name, const char *transport, const zr_config *config, cli_target *target)
{
    zr_cluster *cluster = &target->cluster;
    *cluster = (zr_cluster){.name = CLI_CLUSTER_THIS};
    target->simulated = true;
    if (strcmp(name, CLI_CLUSTER_THIS) == 0) {
        if (config) ZR_TRY(this_cluster(transport, config, target));
    } else {
        ZR_TRY(zr_cluster_read(name, cluster));
        if (cluster->any_hosts) zr__cluster_widen(cluster, target->ranks);
        for (int disk = 0; disk < 2; disk++) zr__cluster_assumed(cluster, disk, target->assumed[disk]);
        target->host_bytes = zr__cluster_assume(cluster);
        cli_cluster_profile(cluster, &target->profile);
        if (is_by_devices(name)) zr__cluster_links(cluster, target->links);
    }
    target->chooser = target->profile;
    return ZR_OK;
}

void cli_target_clear(cli_target *target)
{
    zr_cluster *cluster = &target->cluster;
    if (!cluster->measured) return;
    zr__launch_clear((zr_launch *)cluster->measured); /* the cast is valid, because this_cluster allocated it */
    zr_free((zr_launch *)cluster->measured);
    cluster->measured = NULL;
}
