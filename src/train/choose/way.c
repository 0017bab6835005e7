/** Ways (zr__way), the keys of candidates: comparison of two ways, and ways with less overlap. */
#include "train/choose/choose.h"

#include "base/json/json.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

/* Bucket sizes in elements. Small buckets need little staging memory. Each bucket is an exchange, so the size gives a
 * model at most about LIGHT_STEPS buckets. */
#define LIGHT_ELEMS (1 << 20)
#define LIGHT_STEPS 16384

static zr_config_offload place_of(const zr_config *config)
{
    return config->recompute.cpu && config->recompute.offload == ZR_OFFLOAD_NONE ? ZR_OFFLOAD_HOST
                                                                                 : config->recompute.offload;
}

zr__way zr__way_of(const zr_config *config)
{
    return (zr__way){.stage = config->zero.stage,
                     .tensor = config->parallel.tensor,
                     .pipeline = config->parallel.pipeline,
                     .schedule = config->parallel.schedule,
                     .chunks = config->parallel.chunks,
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
    if (way->device != ZR_HOME_NONE) zr__train_set_offload(config, way->offload, way->device, way->on_host);
    config->zero.stage = way->stage;
    config->parallel.tensor = way->tensor;
    config->parallel.pipeline = way->pipeline;
    config->parallel.schedule = way->schedule;
    config->parallel.chunks = way->chunks;
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

json_t *zr__way_keys(const zr__way *way, const zr_config *config, const zr_config *given, int ranks, bool usual)
{
    static const char *const names[] = {"zero_optimization.stage", "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps", "activation_checkpointing.policy"};
    const char *shown[8];
    int n = 0;
    for (int i = 0; usual && i < (int)(sizeof(names) / sizeof(names[0])); i++) shown[n++] = names[i];
    if (usual && way->tensor > 1) shown[n++] = "parallel.tensor";
    if (usual && way->pipeline > 1) shown[n++] = "parallel.pipeline";
    /* policy auto recomputes as much as the limit requires */
    if (usual && way->policy == ZR_RECOMPUTE_AUTO && config->memory.limit_bytes > 0) shown[n++] = "memory.limit";
    shown[n] = NULL;
    zr_config with = *config;
    zr__way_set(way, ranks, &with);
    return zr__config_changes(given, &with, shown);
}

void zr__way_options(const zr__way *way, const zr_config *config, const zr_config *given, int ranks, bool usual,
                     const char *before, zr__text *text)
{
    json_t *keys = zr__way_keys(way, config, given, ranks, usual), *value;
    const char *key;
    json_object_foreach(keys, key, value)
    {
        char *shown = json_dumps(value, JSON_ENCODE_ANY);
        const bool quoted = shown && shown[0] == '"';
        if (shown) zr__text_add(text, "%s--%s=%.*s", before, key, (int)strlen(shown) - 2 * quoted, shown + quoted);
        free(shown);
    }
    const zr_config_home home = way->device == ZR_HOME_NONE ? config->zero.optim.device : way->device;
    if (usual && home == ZR_HOME_NVME && !config->zero.optim.folders)
        zr__text_add(text, "%s--zero_optimization.offload_optimizer.nvme_path=DIR", before);
    if (!keys) text->failed = true;
    json_decref(keys);
}

int64_t zr__way_tokens(const zr__way *way, const zr_config *config, int ranks)
{
    return way->rows * way->accum * (ranks / (way->tensor * way->pipeline)) * config->data.seq_length;
}

/* ---- less overlap ------------------------------------------------------------------------------- */

int64_t zr__light_elems(const zr_config *config)
{
    const zr_model_sizes m = zr_config_sizes(config);
    const double params = 12.0 * (double)m.layers * (double)m.width * (double)m.width +
                          (double)(m.vocabulary + m.positions) * (double)m.width;
    const int64_t elems = (int64_t)(params / LIGHT_STEPS);
    return elems > LIGHT_ELEMS ? elems : LIGHT_ELEMS;
}

void zr__lighten(zr__way *way, zr__light light, const zr_config *config)
{
    const int64_t elems = zr__light_elems(config);
    if (light >= ZR__LIGHT_PREFETCH) way->moves.prefetch_elems = 0;
    if (light >= ZR__LIGHT_OVERLAP) way->moves.overlap = ZR_SWITCH_OFF;
    if (light >= ZR__LIGHT_BUCKETS &&
        (config->zero.reduce_bucket_elems > elems || config->zero.allgather_bucket_elems > elems))
        way->moves.bucket_elems = elems;
}

void zr__way_least(zr__way *way, const zr_config *config)
{
    way->policy = ZR_RECOMPUTE_UNIT;
    way->every = 1;
    way->pieces |= way->tensor > 1; /* partitioned checkpoints need the least memory */
    zr__lighten(way, ZR__LIGHT_BUCKETS, config);
}

zr__light zr__light_of(const zr__way *way)
{
    const zr__moves *m = &way->moves;
    return m->prefetch_elems != 0        ? ZR__LIGHT_NONE
           : m->bucket_elems > 0         ? ZR__LIGHT_BUCKETS
           : m->overlap == ZR_SWITCH_OFF ? ZR__LIGHT_OVERLAP
                                         : ZR__LIGHT_PREFETCH;
}

/* ---- comparisons -------------------------------------------------------------------------------- */

bool zr__way_alike(const zr__way *a, const zr__way *b, zr__likeness likeness)
{
    const zr__moves *m = &a->moves, *n = &b->moves;
    const bool states = a->stage == b->stage && a->tensor == b->tensor && a->pipeline == b->pipeline &&
                        a->mics == b->mics && a->hpz == b->hpz,
               homes = a->device == b->device && a->offload == b->offload && a->on_host == b->on_host,
               place = !zr_recomputes(a->policy) || (a->pieces == b->pieces && a->kept == b->kept),
               policy = a->policy == b->policy && (a->policy != ZR_RECOMPUTE_UNIT || a->every == b->every) && place,
               moves = m->bucket_elems == n->bucket_elems && m->prefetch_elems == n->prefetch_elems &&
                       m->overlap == n->overlap && m->levels == n->levels && m->once == n->once,
               batch = a->rows == b->rows && a->accum == b->accum,
               schedule = a->pipeline == 1 || (a->schedule == b->schedule && a->chunks == b->chunks);
    return states && (homes || likeness < ZR__ALIKE_HOMES) && (policy || likeness < ZR__ALIKE_POLICY) &&
           ((moves && batch && schedule) || likeness < ZR__ALIKE_ALL);
}

/** Return the kinds of states that a way puts on disk. */
static unsigned on_disk(const zr__way *w)
{
    return w->device == ZR_HOME_NVME ? zr__offload_kinds(w->offload) & ~w->on_host : 0;
}

bool zr__way_spares(const zr__way *a, const zr__way *b)
{
    zr__way same = *b;
    const unsigned kinds = zr__offload_kinds(a->offload);
    same.device = a->device;
    same.offload = a->offload;
    same.on_host = a->on_host;
    return zr__way_alike(a, &same, ZR__ALIKE_ALL) && (kinds & ~zr__offload_kinds(b->offload)) == 0 &&
           zr__train_offload_states(a->offload) <= zr__train_offload_states(b->offload) &&
           on_disk(a) == (on_disk(b) & kinds);
}

void zr__way_drop_checkpoints(zr__way *way)
{
    way->offload = zr__train_offload_states(way->offload);
    way->on_host &= zr__offload_kinds(way->offload);
    if (way->device == ZR_HOME_NVME && on_disk(way) == 0) way->device = ZR_HOME_CPU, way->on_host = 0;
    if (way->offload == ZR__OFFLOAD_NONE) way->device = ZR_HOME_NONE;
}

int zr__way_further(const zr__way *way, const zr_config *config, bool accum)
{
    const zr__way base = zr__way_of(config);
    const zr__moves *a = &way->moves, *b = &base.moves;
    const bool schedule = way->schedule != base.schedule || way->chunks != base.chunks;
    return (way->tensor != base.tensor) + (way->pipeline != base.pipeline) + (way->pipeline > 1 && schedule) +
           (way->mics != base.mics) + (way->hpz != base.hpz) +
           (way->policy == ZR_RECOMPUTE_UNIT && way->every != base.every && way->every > 1) +
           (zr_recomputes(way->policy) && way->kept != base.kept) + (accum && way->accum != base.accum) +
           (a->bucket_elems != b->bucket_elems) + (a->prefetch_elems != b->prefetch_elems) +
           (a->overlap != b->overlap) + (a->levels != b->levels) + (a->once != b->once);
}
