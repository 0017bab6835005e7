/* The time of a run's step. zr's planner makes the schedule with the system's layout, and zr's simulator prices it on a
 * cluster whose software is the system's. bench/planner_steps.py compares the times with published ones. */
#include "systems/model.h"

#include <math.h>

/* Share of the peak that products reach on H100 with the kernels from which the generations' shares are measured
 * (hopper in src/simulate/clusters.c). */
#define HOPPER_SHARE 0.64

/* Lay out the run as zr's planner knows it: ranks of context parallelism are data-parallel ranks with parts of samples,
 * over which states are sharded all the same. */
static zr_status lay_out(const zr__run *run, const zr__speed *speed, zr_config *config)
{
    const zr__degrees d = zr__degrees_of(run);
    ZR_CHECK(config->data.seq_length % d.cp == 0, ZR_ERR_ARG,
             "%s %lld does not divide the %lld tokens of a sample (data.seq_length); the time needs equal parts",
             run->system->context_option, (long long)d.cp, (long long)config->data.seq_length);
    config->data.seq_length /= d.cp;
    config->zero.stage = run->stage;
    config->reduce_once = !speed->each_micro && run->stage < 3;
    config->zero.overlap_comm = speed->exposed ? ZR_SWITCH_OFF : ZR_SWITCH_ON;
    config->communication_dtype = speed->reduce_f32 || (!config->bf16 && !config->fp16) ? ZR_CONFIG_FP32
                                  : config->bf16                                        ? ZR_CONFIG_BF16
                                                                                        : ZR_CONFIG_FP16;
    config->parallel.sequence = d.tp > 1 && speed->sequence ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
    return ZR_OK;
}

/* Set the software of the cluster. */
static void set_software(const zr__run *run, const zr__speed *speed, zr_cluster *cluster)
{
    const zr__degrees d = zr__degrees_of(run);
    const double sustained = fmin(1, cluster->product_share / HOPPER_SHARE);
    if (speed->product_share > 0) cluster->product_share = speed->product_share * sustained;
    if (speed->attention_share > 0) cluster->attention_share = speed->attention_share * sustained;
    cluster->scores_bytes = speed->scores_bytes;
    cluster->pass_factor = speed->pass_factor;
    cluster->update_factor = speed->update_factor;
    cluster->cast_factor = speed->cast_factor;
    cluster->tensor_factor = speed->tensor_factor;
    cluster->reduce_factor = speed->reduce_factor;
    cluster->product_bits = speed->product_bits;
    cluster->context_ranks = d.cp > 1 ? (int32_t)d.cp : 0;
    /* In a ring that passes through hosts of several devices, only one hop of each host is between hosts. */
    if (cluster->n_links == 0 || cluster->devices <= cluster->host_devices) return;
    zr_cluster_link *network = &cluster->link[cluster->n_links - 1];
    network->latency_sec = speed->hop_sec > 0 ? speed->hop_sec : network->latency_sec / cluster->host_devices;
    if (speed->network_share > 0) network->share = speed->network_share;
}

zr_status zr__run_place(const zr__run *run, zr__speed *speed, zr_config *config, zr_cluster *cluster)
{
    zr__keeps keeps = {.context = zr__degrees_of(run).cp, .every = 1};
    zr__decoder room;
    ZR_TRY(run->system->keeps(run, &keeps, &room));
    ZR_CHECK(
        !keeps.other_weights, ZR_ERR_UNSUPPORTED,
        "options of %s such as ffn-hidden-size, swiglu or normalization describe a model that no family of zr has, "
        "so that its time is not known; leave them out, or leave out --cluster",
        run->system->title);
    *speed = (zr__speed){0};
    run->system->speed(run, speed);
    ZR_TRY(lay_out(run, speed, config));
    set_software(run, speed, cluster);
    return ZR_OK;
}

void zr__run_timed(const zr__speed *speed, int64_t micro_batches, zr_simulation *made)
{
    zr_price *price = &made->price;
    double *stage = &made->exposed_sec[ZR_CAUSE_STAGE];
    const double hidden = speed->hides_gather ? fmin(*stage, price->compute_sec / (double)micro_batches) : 0,
                 more = speed->extra_sec - hidden, slower = (price->step_sec + more) / price->step_sec;
    *stage += more;
    price->exposed_sec += more;
    price->step_sec += more;
    made->samples_sec /= slower;
    made->tokens_sec /= slower;
    made->flops_sec /= slower;
    made->mfu /= slower;
}
