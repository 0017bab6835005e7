/* Checks that a plan can be priced on a cluster. Numbers of a cluster from a file are already within bounds, but a
 * program may fill in a cluster with any numbers. */
#include "simulate/simulate.h"

#include <math.h>

static zr_status check_numbers(const zr_plan *plan, const zr_cluster *c)
{
    const bool measured = c->device.n_products > 0; /* product_share is not needed if rates of products were measured */
    const struct {
        const char *key;
        double value;
        bool zero; /* whether 0 is allowed */
    } numbers[] = {{"device.flops_f32_per_sec", zr__peak_of(plan, &c->device), false},
                   {"device.memory_bytes_per_sec", c->device.memory_bytes_sec, false},
                   {"device.product_share", c->product_share, measured},
                   {"device.product_half_size", c->product_half, true},
                   {"device.attention_share", c->attention_share, true},
                   {"device.memory_share", c->memory_share, false},
                   {"software.scores_bytes", c->scores_bytes, true},
                   {"device.launch_sec", c->launch_sec, true},
                   {"devices", c->devices, false},
                   {"host.devices", c->host_devices, false},
                   {"host.device_bytes_per_sec", c->host_bytes_sec, true},
                   {"host.memory_bytes_per_sec", c->device.host_memory_bytes_sec, true},
                   {"host.disk_bytes_per_sec", c->disk_bytes_sec, true},
                   {"link_share", c->link_share, c->n_links == 0},
                   {"collective_sec", c->step_sec, true}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const double value = numbers[i].value;
        ZR_CHECK(isfinite(value) && (value > 0 || (value == 0 && numbers[i].zero)), ZR_ERR_CONFIG,
                 "%s of the cluster %s is %g; a number %s 0 was wanted", numbers[i].key, c->name, value,
                 numbers[i].zero ? "from" : "above");
    }
    return ZR_OK;
}

/* Check that the device has products of operands of so few bits. */
static zr_status check_bits(const zr_cluster *c)
{
    const int32_t bits = c->product_bits;
    ZR_CHECK(bits == 0 || bits == 4 || bits == 8, ZR_ERR_CONFIG,
             "software.product_bits of the cluster %s is %d; 8 or 4 was wanted", c->name, bits);
    ZR_CHECK(bits == 0 || (bits == 8 ? c->device.flops_fp8 : c->device.flops_fp4) > 0, ZR_ERR_CONFIG,
             "a device of %s has no products of %d bits (device.flops_fp%d_per_sec): leave out software.product_bits",
             c->name, bits, bits);
    return ZR_OK;
}

static zr_status check_links(const zr_cluster *c)
{
    ZR_CHECK(c->n_links >= 0 && c->n_links <= ZR_CLUSTER_LINKS, ZR_ERR_CONFIG,
             "links of the cluster %s: %d levels; 0 to %d were wanted", c->name, c->n_links, ZR_CLUSTER_LINKS);
    for (int i = 0; i < c->n_links; i++) {
        const zr_cluster_link *link = &c->link[i];
        const int32_t below = i ? link[-1].devices : 1;
        ZR_CHECK(link->devices > below && link->devices % below == 0, ZR_ERR_CONFIG,
                 "links[%d].devices of the cluster %s is %d; a larger multiple of the %d of the level below was wanted",
                 i, c->name, link->devices, below);
        const double numbers[] = {link->bytes_sec, link->shared_bytes_sec, link->latency_sec, link->share};
        static const char *const keys[] = {"bytes_per_sec", "shared_bytes_per_sec", "latency_sec", "share"};
        for (int k = 0; k < 4; k++)
            ZR_CHECK(isfinite(numbers[k]) && (numbers[k] > 0 || (numbers[k] == 0 && k > 0)), ZR_ERR_CONFIG,
                     "links[%d].%s of the cluster %s is %g; a number %s 0 was wanted", i, keys[k], c->name, numbers[k],
                     k > 0 ? "from" : "above");
    }
    const int32_t all = c->n_links ? c->link[c->n_links - 1].devices : 1;
    ZR_CHECK(all >= c->devices, ZR_ERR_CONFIG, "links of the cluster %s connect %d of its %d devices; all were wanted",
             c->name, all, c->devices);
    return ZR_OK;
}

bool zr__copies_to_host(const zr_plan *plan, bool saves)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if ((s->step[i].when == ZR_WHEN_SAVE) == saves && zr__is_host_copy(plan, ZR_SCHEDULE_TRAIN, &s->step[i]))
            return true;
    return false;
}

zr_status zr__simulate_room(const zr_cluster *cluster, int32_t ranks_per_host, int32_t ranks)
{
    ZR_CHECK(ranks_per_host <= cluster->host_devices, ZR_ERR_CONFIG,
             "%d ranks on a host of %s, which has %d devices: lower parallel.ranks_per_host", ranks_per_host,
             cluster->name, cluster->host_devices);
    const int64_t last = zr__device_of(cluster, ranks_per_host, ranks - 1);
    ZR_CHECK(last < cluster->devices, ZR_ERR_CONFIG,
             "%d ranks, %d on a host, do not fit the %d devices of %s: use fewer ranks or a larger cluster", ranks,
             ranks_per_host, cluster->devices, cluster->name);
    return ZR_OK;
}

zr_status zr__simulate_check(const zr_plan *plan, const zr_cluster *cluster, int32_t ranks_per_host)
{
    ZR_CHECK(plan->graph[ZR_SCHEDULE_TRAIN], ZR_ERR_STATE,
             "this plan has no training step to simulate: set zr_layout.train");
    ZR_TRY(check_numbers(plan, cluster));
    ZR_TRY(check_bits(cluster));
    ZR_TRY(check_links(cluster));
    ZR_TRY(zr__simulate_room(cluster, ranks_per_host, plan->ranks));
    ZR_CHECK(cluster->host_bytes_sec > 0 || !zr__copies_to_host(plan, false), ZR_ERR_CONFIG,
             "the plan copies to the host's memory, and host.device_bytes_per_sec of %s is not known", cluster->name);
    ZR_CHECK(cluster->device.host_memory_bytes_sec > 0 || !plan->has_stream[ZR_STREAM_HOST], ZR_ERR_CONFIG,
             "the host's processors update states, and host.memory_bytes_per_sec of %s is not known; give it in a file "
             "for --cluster that includes %s",
             cluster->name, cluster->name);
    return ZR_OK;
}
