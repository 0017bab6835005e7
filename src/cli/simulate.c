/* One configuration on one cluster, as `zr simulate` prices it. */
#include "cli/simulate.h"

#include "cli/launches.h"

#include <string.h>

/** Plans for devices that are not here: their kernels' scratch, and for policy auto their rates. */
static void profile_of(const zr_cluster *cluster, zr_profile *profile)
{
    *profile = (zr_profile){
        .facts = {.threads = 1, .apart = true, .narrow_attention = true, .scratch_bytes = zr_device_cuda_scratch}};
    snprintf(profile->facts.name, sizeof(profile->facts.name), "%.40s", cluster->name);
    profile->facts.bf16_products = cluster->device.flops_bf16 > 0;
    profile->machine = cluster->device;
    for (int i = 0; i < cluster->n_links; i++) {
        const bool within = cluster->link[i].devices <= cluster->host_devices;
        profile->machine.link[within ? ZR_LINK_HOST : ZR_LINK_HOSTS].bytes_sec = cluster->link[i].bytes_sec;
    }
}

/* ---- this machine ------------------------------------------------------------------------------- */

static void add_link(zr_cluster *cluster, const char *name, int32_t devices, double bytes_sec)
{
    zr_cluster_link *link = &cluster->link[cluster->n_links++];
    *link = (zr_cluster_link){.devices = devices, .bytes_sec = bytes_sec};
    snprintf(link->name, sizeof(link->name), "%s", name);
}

/** Ranks that are alike, as many as work. What steps were not measured is priced by the rates of `zr info`. */
static void cluster_of(const zr_profile *profile, const zr_launch *launch, int ranks, int local, zr_cluster *cluster)
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
                            .host_bytes_sec = machine->memory_bytes_sec / 2, /* read and written */
                            .algorithm = ZR_ALGORITHM_EXCHANGE,
                            .measured = launch};
    cluster->device.memory_bytes = zr_train_limit(profile, local, local);
    if (local > 1) add_link(cluster, "memory", local, machine->memory_bytes_sec / 2);
    if (hosts > 1) add_link(cluster, "network", hosts * local, launch->across_bytes_sec);
}

static zr_status this_cluster(const cli_simulate_options *o, const zr_config *config, int ranks, zr_cluster *cluster,
                              zr_profile *profile)
{
    const int given = (int)config->parallel.ranks_per_host, local = given > 0 && given < ranks ? given : ranks;
    const bool hosts = ranks > local, threads = o->transport && strcmp(o->transport, "threads") == 0;
    zr_device *device = NULL;
    zr_rates rates;
    ZR_CHECK(!hosts || !threads, ZR_ERR_CONFIG,
             "--transport threads: ranks of several hosts are no threads of one process");
    ZR_TRY(zr_train_device(ZR_DEVICE_CPU, zr_train_threads(config, local), 0, &device));
    *profile = device->profile;
    zr_device_destroy(&device);
    ZR_TRY(cli_rates_recall(&profile->facts, &rates));
    zr_rates_profile(&rates, profile->facts.bf16_products ? ZR_BF16 : ZR_F32, local, local, profile);
    zr_launch *launch = zr_alloc(sizeof(*launch));
    ZR_CHECK(launch, ZR_ERR_MEMORY, "no memory for measured steps");
    const char *transport = hosts ? "mpi" : o->transport ? o->transport : "threads";
    zr_status st = cli_launch_recall(&profile->facts, transport, ranks, (ranks + local - 1) / local, launch);
    if (st == ZR_OK)
        cluster_of(profile, launch, ranks, local, cluster);
    else
        zr_free(launch);
    return st;
}

/* ---- any cluster -------------------------------------------------------------------------------- */

zr_status cli_cluster(const cli_simulate_options *o, const zr_config *config, int ranks, zr_cluster *cluster,
                      zr_profile *profile)
{
    *cluster = (zr_cluster){.name = CLI_CLUSTER_THIS};
    if (strcmp(o->cluster, CLI_CLUSTER_THIS) == 0)
        return config ? this_cluster(o, config, ranks, cluster, profile) : ZR_OK;
    ZR_TRY(zr_cluster_read(o->cluster, cluster));
    if (cluster->any_hosts) zr_cluster_widen(cluster, ranks);
    profile_of(cluster, profile);
    return ZR_OK;
}

void cli_cluster_clear(zr_cluster *cluster)
{
    if (!cluster->measured) return;
    zr_launch_clear((zr_launch *)cluster->measured); /* which cli_cluster made */
    zr_free((zr_launch *)cluster->measured);
    cluster->measured = NULL;
}

void cli_cluster_settle(zr_config *config, int ranks, const zr_cluster *cluster)
{
    const int32_t host = cluster->host_devices;
    if (config->parallel.ranks_per_host == 0 && host < ranks && ranks % host == 0)
        config->parallel.ranks_per_host = host;
    if (config->recompute.policy == ZR_POLICY_AUTO && config->memory.limit_bytes == 0)
        config->memory.limit_bytes = cluster->device.memory_bytes;
}

zr_status cli_simulate_settle(zr_config *config, int ranks, const zr_cluster *cluster, const zr_profile *profile)
{
    char note[ZR_TRAIN_NOTE_BYTES];
    cli_cluster_settle(config, ranks, cluster);
    ZR_TRY(zr_train_choose(config, ranks, profile, (zr_train_kept){0}, note));
    if (note[0]) ZR_TRY(zr_config_add_note(config, note));
    return ZR_OK;
}

zr_simulate_options cli_simulate_options_of(const cli_simulate_options *o, const zr_config *config)
{
    return (zr_simulate_options){.ranks_per_host = (int32_t)config->parallel.ranks_per_host,
                                 .straggler = o->straggler,
                                 .jitter = o->jitter,
                                 .seed = o->seed > 0 ? (uint64_t)o->seed : 0};
}

bool cli_simulate_refused(zr_status st)
{
    return st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED || st == ZR_ERR_SHAPE || st == ZR_ERR_ARG;
}

/** What the ranks of a host take of its memory together. */
static int64_t host_bytes_of(const zr_plan *plan, const zr_cluster *cluster, const zr_simulate_options *options)
{
    const int32_t host = options->ranks_per_host > 0 ? options->ranks_per_host : cluster->host_devices;
    return plan->memory.space[ZR_SPACE_HOST].total_bytes * (plan->ranks < host ? plan->ranks : host);
}

static bool fits(const zr_config *config, const zr_cluster *cluster, const cli_simulated *made)
{
    const zr_memory *m = &made->report.memory;
    const int64_t device = cluster->device.memory_bytes, host = cluster->host_memory_bytes;
    const int64_t limit = zr_config_given(config, "memory.limit") ? config->memory.limit_bytes : 0;
    return (device == 0 || m->total_bytes <= device) && (host == 0 || made->host_bytes <= host) &&
           (limit == 0 || zr_train_process_bytes(zr_memory_taken(m), 1) <= limit);
}

static zr_status simulate(const zr_plan *plan, const zr_cluster *cluster, const zr_simulate_options *options,
                          cli_simulated *made, cli_times *times)
{
    *made = (cli_simulated){
        .report = zr_report_planned(plan), .params = plan->params, .host_bytes = host_bytes_of(plan, cluster, options)};
    zr_step_time *time = NULL;
    if (times) {
        time = times->time = zr_alloc(((size_t)plan->schedule[ZR_SCHEDULE_TRAIN].n_steps + 1) * sizeof(*time));
        ZR_CHECK(time, ZR_ERR_MEMORY, "no memory for the times of a plan's steps");
    }
    ZR_TRY(zr_simulate(plan, cluster, options, &made->simulation, time));
    if (times) times->price = made->simulation.price;
    return ZR_OK;
}

zr_status cli_simulate_one(const zr_config *config, int ranks, const zr_cluster *cluster, const zr_profile *profile,
                           const zr_simulate_options *options, cli_simulated *made, zr_plan **plan, cli_times *times)
{
    zr_plan *own = NULL;
    if (times) *times = (cli_times){.by = cluster->name};
    ZR_TRY(zr_train_plan(config, ranks, -1, profile, &own));
    zr_status st = simulate(own, cluster, options, made, times);
    made->fits = st == ZR_OK && fits(config, cluster, made);
    if (st == ZR_OK && times) {
        *plan = own;
        return ZR_OK;
    }
    if (times) cli_times_clear(times);
    zr_plan_destroy(&own);
    return st;
}
