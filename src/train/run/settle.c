/** Values of keys that depend on ranks, hosts and measured rates, or that the configuration leaves open. All ranks must
 * get the same values. */
#include "train/run/run.h"

#include "comm/comm.h"
#include "config/config.h"
#include "train/host/host.h"
#include "train/host/limits.h"
#include "train/launch/launch.h"
#include "train/measure/measure.h"

#include <string.h>

/** Return the run's own copy of the configuration, in which the run may set keys. The first call creates the copy. */
static zr_config *own_config(zr__run *r)
{
    if (!r->settled.given) {
        r->settled.given = r->config;
        r->settled.config = *r->config;
        r->config = &r->settled.config;
    }
    return &r->settled.config;
}

/** The keys that zr__train_choose may set, as members of zr_config. */
#define CHOSEN(member)                                                                                                 \
    {                                                                                                                  \
        offsetof(zr_config, member), sizeof(((zr_config *)0)->member)                                                  \
    }
static const struct {
    size_t offset, bytes;
} chosen[] = {CHOSEN(zero.stage),
              CHOSEN(recompute.policy),
              CHOSEN(recompute.offload),
              CHOSEN(micro_batch_size),
              CHOSEN(accumulation_steps),
              CHOSEN(train_batch_size),
              CHOSEN(train.layer_major),
              CHOSEN(zero.optim.device),
              CHOSEN(zero.optim.ratio),
              CHOSEN(zero.param.device),
              CHOSEN(zero.param.ratio),
              CHOSEN(zero.offload_gradients),
              CHOSEN(recompute.partition),
              CHOSEN(zero.prefetch_bucket_elems),
              CHOSEN(zero.overlap_comm),
              CHOSEN(zero.reduce_bucket_elems),
              CHOSEN(zero.allgather_bucket_elems),
              CHOSEN(zero.quantized_weights),
              CHOSEN(zero.quantized_gradients),
              CHOSEN(reduce_once)};
enum { CHOSEN_KEYS = sizeof(chosen) / sizeof(chosen[0]) };

zr_config zr__run_given(const zr__run *r)
{
    zr_config given = r->settled.given ? *r->settled.given : *r->config;
    for (int i = 0; i < CHOSEN_KEYS; i++)
        memcpy((char *)&given + chosen[i].offset, (const char *)r->config + chosen[i].offset, chosen[i].bytes);
    return given;
}

/** If recompute policy auto is used without memory.limit, set memory.limit to the minimum of its defaults over the
 * ranks. The limit decides how much is recomputed, and all ranks must have the same plan. */
static zr_status settle_limit(zr__run *r)
{
    if (!zr__train_lacks_limit(r->config)) return ZR_OK;
    int64_t below =
        -zr__train_limit(&r->device->profile, r->ranks.comm->local_size, zr__comm_process_ranks(r->ranks.comm));
    ZR_TRY(zr__run_most(&r->ranks, &below, 1));
    own_config(r)->memory.limit_bytes = -below;
    return ZR_OK;
}

/** Set the number of ranks per host, if it is the same for all hosts and the ranks of a host are consecutive.
 * Hierarchical collectives and the report of inter-host traffic need this number. */
static zr_status settle_hosts(zr__run *r)
{
    const zr_comm *c = r->ranks.comm;
    const zr_config_switch wanted = r->config->collectives.hierarchical;
    const bool in_a_row = c->size % c->local_size == 0 && c->rank % c->local_size == c->local_rank;
    const int ranks = in_a_row ? c->local_size : 0;
    bool alike = false;
    if (r->config->parallel.ranks_per_host > 0) return ZR_OK;
    ZR_TRY(zr__run_alike(&r->ranks, &ranks, sizeof(ranks), &alike));
    alike = alike && ranks > 0;
    ZR_CHECK(alike || wanted != ZR_SWITCH_ON, ZR_ERR_CONFIG,
             "collectives.hierarchical: the hosts have different numbers of ranks, or those of a host are not next to "
             "each other; start as many on each (mpirun -N), in a row, or write \"auto\"");
    if (!alike && wanted == ZR_SWITCH_AUTO)
        zr__run_note(&r->ranks, "collectives.hierarchical auto: gathers and reductions are flat, since the hosts have "
                                "different numbers of ranks, or those of a host are not next to each other");
    if (alike && c->local_size < c->size) own_config(r)->parallel.ranks_per_host = c->local_size;
    return ZR_OK;
}

int64_t zr__run_held_bytes(const zr__run *r)
{
    if (r->config->memory.limit_bytes == 0 || r->device->profile.facts.own_memory) return 0;
    return zr__samples_memory_bytes(&r->data.inputs.train) + zr__samples_memory_bytes(&r->data.inputs.val);
}

/** Check that memory.limit has room for more than the samples of the data. */
static zr_status check_held(const zr__run *r)
{
    const int64_t held = zr__run_held_bytes(r), limit = r->config->memory.limit_bytes;
    ZR_CHECK(held == 0 || held < limit, ZR_ERR_MEMORY,
             "the samples of data.train and data.val take %s of memory, but memory.limit is %s; give a higher limit or "
             "fewer samples",
             ZR_SIZE((double)held), ZR_SIZE((double)limit));
    if (held > 0 && zr__config_is_open(r->config))
        zr__run_note(&r->ranks,
                     "memory.limit: %s of it hold the samples of data.train and data.val, the rest is for the plan",
                     ZR_SIZE((double)held));
    return ZR_OK;
}

/** Use the rates that `zr info --bench` recorded on each host, if they are the same on all ranks. Otherwise plan
 * without measured rates, since all ranks must have the same plan. */
static zr_status settle_rates(const zr__ranks *r, const zr_config *config, zr_device *device)
{
    zr_rates rates;
    bool alike;
    zr_profile mine = device->profile;
    const bool narrow = config->bf16 && mine.facts.bf16_products;
    const bool mixes = config->recompute.policy == ZR_RECOMPUTE_AUTO && config->parallel.tensor > 1;
    if (!mixes && !zr__config_is_open(config)) return ZR_OK; /* the plan does not depend on rates */
    if (zr__rates_recall(&device->profile.facts, &rates) == ZR_OK)
        zr__rates_profile(&rates, narrow ? ZR_BF16 : ZR_F32, r->comm->size, r->comm->local_size, &mine);
    zr__disk_profile(r->comm->local_size, &mine);
    const zr_machine *m = &mine.machine;
    struct {
        double products, number[7];
        zr_record_rate records[ZR_RECORD_CODES];
    } known = {.number = {m->flops_f32, m->flops_bf16, m->memory_bytes_sec, zr__machine_link(m).bytes_sec,
                          m->disk_read_bytes_sec, m->disk_write_bytes_sec, m->disk_both_bytes_sec}};
    for (int i = 0; i < m->n_products; i++) known.products += (i + 1) * m->product[i].flops;
    memcpy(known.records, m->records, sizeof(known.records));
    ZR_TRY(zr__run_alike(r, &known, sizeof(known), &alike));
    if (alike) device->profile.machine = *m;
    return ZR_OK;
}

/** Find the bytes on disk that a rank may use if the configuration leaves the offload open: the value of --disk, or
 * otherwise its share of the free space in the folders. All ranks use the minimum over the ranks. */
static zr_status settle_disk(const zr__ranks *r, const zr_config *config, int64_t *disk_bytes)
{
    const int64_t given = zr__config_disk_bytes(config);
    *disk_bytes = given;
    if (!zr__config_get_open(config).offload) return ZR_OK;
    ZR_AUTO(zr__folders_free) zr__folders folders = {0};
    zr_config with = *config;
    with.zero.optim.device = ZR_HOME_NVME;
    zr_status st = ZR_OK;
    if (!with.zero.optim.folders && !with.zero.param.folders)
        st = ZR_FAIL(
            ZR_ERR_CONFIG,
            "--disk needs a folder on a fast local disk; name it: --zero_optimization.offload_optimizer.nvme_path=DIR");
    if (st == ZR_OK) st = zr__train_folders(&with, &folders);
    int64_t below = -(zr__folders_free_bytes(&folders) / r->comm->local_size);
    ZR_TRY(zr__run_agree(r, st));
    ZR_TRY(zr__run_most(r, &below, 1));
    if (given == 0) *disk_bytes = -below;
    return ZR_OK;
}

/** Set *host_bytes to the least memory that is available on any host, or to 0 if it is unknown or if ranks compute in
 * host memory. */
static zr_status settle_host(const zr__run *r, int64_t *host_bytes)
{
    int64_t below = r->device->profile.facts.own_memory ? -zr__host_available_bytes() : 0;
    ZR_TRY(zr__run_most(&r->ranks, &below, 1));
    *host_bytes = below < 0 ? -below : 0;
    return ZR_OK;
}

/** Data with which rank 0 times a step on this launch. */
typedef struct known_times {
    zr_profile profile;
    zr_launch launch;
    zr_cluster cluster;
    zr_simulate_options options;
} known_times;

static void clear_times(known_times *known)
{
    zr__launch_clear(&known->launch);
}

/** Let a target's steps be timed by the results of `zr info --bench`: by steps of a launch like this, or by the rates
 * of this machine. The links between GPUs were not measured. */
static void find_times(const zr__run *r, zr__train_target *target, known_times *known)
{
    const zr_comm *c = r->ranks.comm;
    zr_profile *profile = &known->profile;
    zr_rates rates;
    *profile = r->device->profile;
    target->rates = profile;
    const bool narrow = r->config->bf16 && profile->facts.bf16_products, hosts = c->local_size < c->size;
    if (profile->facts.own_memory && c->size > 1)
        for (int i = 0; i < ZR_LINK_LEVELS; i++) profile->machine.link[i].bytes_sec = 0;
    if (zr__rates_recall(&profile->facts, &rates) != ZR_OK) return;
    if (!profile->facts.own_memory)
        zr__rates_profile(&rates, narrow ? ZR_BF16 : ZR_F32, c->size, c->local_size, profile);
    if (profile->facts.own_memory || (hosts && r->config->parallel.ranks_per_host != c->local_size) ||
        zr__launch_recall(&profile->facts, c->transport, c->size, c->size / c->local_size, &known->launch) != ZR_OK)
        return;
    zr_profile each = *profile; /* profile of a host alone, as in `zr simulate --cluster this` */
    if (hosts) zr__rates_profile(&rates, narrow ? ZR_BF16 : ZR_F32, c->local_size, c->local_size, &each);
    zr__launch_cluster(&each, &known->launch, c->size, c->local_size, &known->cluster);
    known->options = (zr_simulate_options){.ranks_per_host = c->local_size};
    target->cluster = &known->cluster;
    target->options = &known->options;
}

/** Note on rank 0 if quantised exchanges that the configuration asks for make a step longer. If the steps cannot be
 * planned, there is no note. */
static zr_status note_quantised(zr__run *r)
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    ZR_AUTO(clear_times) known_times known = {.launch = {.ranks = 0}};
    zr__train_target target = {
        .ranks = r->ranks.comm->size, .host_ranks = r->ranks.comm->local_size, .profile = &r->device->profile};
    const bool any =
        r->config->zero.quantized_weights == ZR_SWITCH_ON || r->config->zero.quantized_gradients == ZR_SWITCH_ON;
    if (!any || r->ranks.comm->rank != 0 || r->ranks.comm->size == 1) return ZR_OK;
    find_times(r, &target, &known);
    if (r->settled.note[0]) zr__text_add(&text, "%s", r->settled.note);
    const zr_status st = zr__note_quantised(r->config, &target, &text);
    if (st != ZR_OK) return st == ZR_ERR_INTERNAL ? st : ZR_OK;
    if (text.data && !text.failed) snprintf(r->settled.note, sizeof(r->settled.note), "%s", text.data);
    return ZR_OK;
}

/** Choose values for open keys by a search on rank 0, so that all ranks get the same plan. A resumed run keeps the size
 * of its micro-batches, since another size would change the last bits of gradient sums. */
static zr_status settle_open(zr__run *r)
{
    const zr__checkpoint_run *from = &r->resume.from;
    zr_status st = ZR_OK;
    if (!zr__config_is_open(r->config)) return ZR_OK;
    zr_config *config = own_config(r);
    const zr__train_kept kept = {
        from->micro_batch_size, from->accumulation_steps, {from->quantised[0], from->quantised[1]}};
    ZR_AUTO(clear_times) known_times known = {.launch = {.ranks = 0}};
    zr__train_target target = {.ranks = r->ranks.comm->size,
                               .host_ranks = r->ranks.comm->local_size,
                               .memory_bytes = zr__train_limit(&r->device->profile, r->ranks.comm->local_size,
                                                               zr__comm_process_ranks(r->ranks.comm)),
                               .profile = &r->device->profile};
    ZR_TRY(settle_disk(&r->ranks, r->config, &target.disk_bytes));
    ZR_TRY(settle_host(r, &target.host_bytes));
    const zr__config_open open = zr__config_get_open(config);
    if (r->ranks.comm->rank == 0 && (open.weights || open.gradients)) find_times(r, &target, &known);
    const int64_t limit = config->memory.limit_bytes;
    config->memory.limit_bytes -= zr__run_held_bytes(r);
    if (r->ranks.comm->rank == 0) st = zr__train_choose(config, &target, kept, NULL, r->settled.note);
    config->memory.limit_bytes = limit;
    ZR_TRY(zr__run_agree(&r->ranks, st));
    for (int i = 0; i < CHOSEN_KEYS; i++)
        ZR_TRY(zr__run_share(&r->ranks, (char *)config + chosen[i].offset, chosen[i].bytes));
    return ZR_OK;
}

zr_status zr__run_settle(zr__run *r)
{
    ZR_TRY(settle_limit(r));
    ZR_TRY(settle_hosts(r));
    ZR_TRY(settle_rates(&r->ranks, r->config, r->device));
    ZR_TRY(zr__run_agree(&r->ranks, check_held(r)));
    ZR_TRY(settle_open(r));
    return zr__run_agree(&r->ranks, note_quantised(r));
}
