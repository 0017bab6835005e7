/* One configuration on one cluster, as `zr simulate` prices it. */
#include "cli/simulate.h"

#include <string.h>

/** Plans for devices that are not here: their kernels' scratch, and for policy auto their rates. */
static void profile_of(const zr_cluster *cluster, zr_profile *profile)
{
    *profile = (zr_profile){.facts = {.threads = 1, .apart = true, .scratch_bytes = zr_device_cuda_scratch}};
    snprintf(profile->facts.name, sizeof(profile->facts.name), "%.40s", cluster->name);
    profile->facts.bf16_products = cluster->device.flops_bf16 > 0;
    profile->machine = cluster->device;
    for (int i = 0; i < cluster->n_links; i++) {
        const bool within = cluster->link[i].devices <= cluster->host_devices;
        profile->machine.link[within ? ZR_LINK_HOST : ZR_LINK_HOSTS].bytes_sec = cluster->link[i].bytes_sec;
    }
}

zr_status cli_cluster(const char *name, int ranks, zr_cluster *cluster, zr_profile *profile)
{
    (void)ranks;
    ZR_TRY(zr_cluster_read(name, cluster));
    profile_of(cluster, profile);
    return ZR_OK;
}

static zr_status simulate(const zr_plan *plan, const zr_cluster *cluster, const zr_simulate_options *options,
                          cli_simulated *made)
{
    const int64_t there = cluster->device.memory_bytes;
    ZR_TRY(zr_simulate(plan, cluster, options, &made->simulation, NULL));
    made->report = zr_report_planned(plan);
    made->params = plan->params;
    made->fits = there == 0 || plan->memory.total_bytes <= there;
    return ZR_OK;
}

zr_status cli_simulate_one(const zr_config *config, int ranks, const zr_cluster *cluster, const zr_profile *profile,
                           const zr_simulate_options *options, cli_simulated *made, zr_plan **plan)
{
    zr_plan *own = NULL;
    ZR_TRY(zr_train_plan(config, ranks, -1, profile, &own));
    zr_status st = simulate(own, cluster, options, made);
    if (st == ZR_OK && plan)
        *plan = own;
    else
        zr_plan_destroy(&own);
    return st;
}
