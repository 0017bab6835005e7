#include "train/choose/choose.h"

#include "base/json/json.h"
#include "config/config.h"
#include "train/dir/report.h"
#include "train/host/limits.h"

#include <stdlib.h>
#include <string.h>

int64_t zr__limit_of(const zr__train_target *target, const zr_config *config)
{
    return config->memory.limit_bytes > 0 ? config->memory.limit_bytes : target->memory_bytes;
}

bool zr__refused(zr_status st)
{
    return st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED || st == ZR_ERR_SHAPE || st == ZR_ERR_ARG;
}

zr_status zr__try(const zr__train_target *target, const zr_config *config, zr__trial *made, zr_plan **plan)
{
    zr_plan *one = NULL;
    ZR_TRY(zr__train_plan(config, target->ranks, -1, target->profile, &one));
    const int64_t limit = zr__limit_of(target, config);
    const int on_host = target->host_ranks > 0 && target->host_ranks < one->ranks ? target->host_ranks : one->ranks;
    *made = (zr__trial){.report = zr__report_planned(one),
                        .params = one->params,
                        .disk_bytes = one->memory.space[ZR_SPACE_DISK].total_bytes,
                        .host_bytes = one->memory.space[ZR_SPACE_HOST].total_bytes * on_host,
                        .needs_bytes = zr__rank_needs(&one->memory, &one->profile.facts)};
    made->fits = (limit == 0 || made->needs_bytes <= limit) &&
                 (target->disk_bytes == 0 || made->disk_bytes <= target->disk_bytes) &&
                 (target->host_bytes == 0 || made->host_bytes <= target->host_bytes);
    made->pieces = one->partition_checkpoints;
    made->home = one->checkpoint_home;
    zr_status st = zr__plan_fullest(one, &made->fullest);
    if (st == ZR_OK)
        st = target->cluster ? zr_simulate(one, target->cluster, target->options, &made->simulation, NULL)
                             : zr_plan_price(one, target->profile, &made->simulation.price);
    if (st == ZR_OK && plan)
        *plan = one;
    else
        zr_plan_destroy(&one);
    return st;
}

/* ---- keys of a way ------------------------------------------------------------------------------ */

static zr_config_offload place_of(const zr_config *config)
{
    return config->recompute.cpu && config->recompute.offload == ZR_OFFLOAD_NONE ? ZR_OFFLOAD_HOST
                                                                                 : config->recompute.offload;
}

zr__way zr__way_of(const zr_config *config)
{
    return (zr__way){.stage = config->zero.stage,
                     .tensor = config->parallel.tensor,
                     .mics = config->zero.mics_shard_ranks,
                     .hpz = config->zero.hpz_partition_ranks,
                     .policy = config->recompute.policy,
                     .every = config->recompute.every,
                     .pieces = config->recompute.partition,
                     .kept = place_of(config),
                     .moves = {.prefetch_elems = -1,
                               .overlap = config->zero.overlap_comm,
                               .levels = config->collectives.hierarchical,
                               .once = config->reduce_once},
                     .rows = config->micro_batch_size,
                     .accum = config->accumulation_steps};
}

void zr__way_set(const zr__way *way, int ranks, zr_config *config)
{
    const zr__moves *moves = &way->moves;
    if (way->kept != place_of(config)) {
        config->recompute.cpu = way->kept == ZR_OFFLOAD_HOST;
        config->recompute.offload = way->kept == ZR_OFFLOAD_DISK ? ZR_OFFLOAD_DISK : ZR_OFFLOAD_NONE;
    }
    if (way->device != ZR_HOME_NONE) zr__train_set_offload(config, way->offload, way->device);
    config->zero.stage = way->stage;
    config->parallel.tensor = way->tensor;
    config->zero.mics_shard_ranks = way->mics;
    config->zero.hpz_partition_ranks = way->hpz;
    config->recompute.policy = way->policy;
    config->recompute.every = way->every;
    config->recompute.partition = way->pieces;
    if (moves->bucket_elems > 0) {
        config->zero.reduce_bucket_elems = moves->bucket_elems;
        config->zero.allgather_bucket_elems = moves->bucket_elems;
    }
    if (moves->prefetch_elems >= 0) config->zero.prefetch_bucket_elems = moves->prefetch_elems;
    config->zero.overlap_comm = moves->overlap;
    config->collectives.hierarchical = moves->levels;
    config->reduce_once = moves->once;
    zr__train_set_batch(config, ranks, way->rows, way->accum);
}

json_t *zr__way_keys(const zr__way *way, const zr_config *config, int ranks, bool usual)
{
    static const char *const shown[] = {"parallel.tensor",
                                        "zero_optimization.stage",
                                        "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps",
                                        "activation_checkpointing.policy",
                                        NULL};
    zr_config with = *config;
    zr__way_set(way, ranks, &with);
    return zr__config_changes(config, &with, shown + (!usual ? 5 : way->tensor > 1 ? 0 : 1));
}

void zr__way_options(const zr__way *way, const zr_config *config, int ranks, bool usual, const char *before,
                     zr__text *text)
{
    json_t *keys = zr__way_keys(way, config, ranks, usual), *value;
    const char *key;
    json_object_foreach(keys, key, value)
    {
        char *shown = json_dumps(value, JSON_ENCODE_ANY);
        const bool quoted = shown && shown[0] == '"';
        if (shown) zr__text_add(text, "%s--%s=%.*s", before, key, (int)strlen(shown) - 2 * quoted, shown + quoted);
        free(shown);
    }
    if (!keys) text->failed = true;
    json_decref(keys);
}
