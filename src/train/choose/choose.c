/** Choice of values for the keys that a configuration leaves open (zr__config_open), and the offload that is advised
 * where nothing fits. */
#include "train/choose/choose.h"

#include "config/config.h"

#include <inttypes.h>
#include <stdio.h>

bool zr__place_is_free(const zr_config *config)
{
    return !zr__config_given(config, ZR__PIECES_KEY) && !zr__config_given(config, ZR__PLACE_KEY) &&
           !zr__config_given(config, "activation_checkpointing.offload");
}

zr__question zr__question_of(const zr_config *config, const zr__train_target *target)
{
    const zr__config_open open = zr__config_get_open(config);
    const bool own_memory = target->profile->facts.own_memory;
    return (zr__question){.config = config,
                          .target = target,
                          .free = {.stage = open.stage,
                                   .policy = open.policy,
                                   .split = open.split,
                                   .batch = open.batch,
                                   .pieces = open.policy && !zr__config_given(config, ZR__PIECES_KEY),
                                   .host = open.host && own_memory,
                                   .disk = open.offload || (open.host && target->any_disk),
                                   .kept = zr__train_offload_degrees(config) == ZR__OFFLOADS,
                                   .lighter = open.host && own_memory,
                                   .places = open.policy && own_memory && zr__place_is_free(config)},
                          .shares = open.optim_ratio || open.param_ratio};
}

/** Add why a candidate was chosen. */
static void add_reason(const zr__question *q, const zr__choices *f, const zr__tried *best, zr__text *text)
{
    const char *by = q->target->cluster ? "simulated times"
                     : f->usual         ? "usual rates (`zr info --bench` measures this machine's)"
                                        : "the machine's rates";
    if (!best->fits) {
        zr__text_add(text, "which comes nearest, %s a rank: nothing fits", ZR_SIZE((double)best->made.needs_bytes));
        return;
    }
    zr__text_add(text, "%s a rank: within 2 %% of the fastest that fits by %s%s",
                 ZR_SIZE((double)best->made.needs_bytes), by,
                 f->usual_disk && f->tier == ZR__TIER_DISK
                     ? ", with a usual disk (`zr info --bench --disk DIR` measures this one)"
                     : "");
    zr__text_add(text, "; ");
    const size_t length = text->length;
    zr__add_ties(f, "ties", text);
    zr__text_add(text, text->length > length ? "; asked: " : "asked: ");
    zr__add_question(q, &best->way, text);
}

static void note_choice(const zr__question *q, const zr__choices *f, const zr__tried *best, zr__text *text)
{
    const zr__way *w = &best->way;
    const zr__free *free = &q->free;
    char keys[ZR_OFFLOAD_KEYS_BYTES];
    if (!(free->stage || free->policy || free->batch || free->host || free->disk)) {
        zr__text_add(text,
                     "gradient_accumulation_steps: auto, set to %" PRId64
                     ", and train_micro_batch_size_per_gpu as %" PRId64 ": %s",
                     w->accum, w->rows,
                     f->keeps                ? "as the checkpoint has it"
                     : !best->fits           ? "nothing fits memory.limit, and this needs the least"
                     : best->made.recomputes ? "the best of what fits memory.limit"
                                             : "the fewest that fit memory.limit with no activation recomputed");
        return;
    }
    zr__text_add(text, "chosen for memory.limit %s:", ZR_SIZE((double)q->config->memory.limit_bytes));
    if (free->stage) zr__text_add(text, " zero_optimization.stage %" PRId64 ",", w->stage);
    if (free->policy) zr__text_add(text, " activation_checkpointing.policy %s,", zr__recompute_name(w->policy));
    if (w->pieces && !q->config->recompute.partition) zr__text_add(text, " " ZR__PIECES_KEY " true,");
    if (w->device == ZR_HOME_NONE && w->kept == ZR_OFFLOAD_HOST && !q->config->recompute.cpu &&
        zr_recomputes(w->policy)) {
        zr__text_add(text, " " ZR__PLACE_KEY " true (");
        zr__add_away(q->target, &best->made, text);
        zr__text_add(text, "),");
    }
    if (free->split || free->batch)
        zr__text_add(text, " train_micro_batch_size_per_gpu %" PRId64 " x gradient_accumulation_steps %" PRId64 ",",
                     w->rows, w->accum);
    if (zr__light_of(w) != ZR__LIGHT_NONE && f->tier == ZR__TIER_LIGHTER) {
        zr__way moved = zr__way_of(q->config);
        moved.moves = w->moves;
        zr__way_options(&moved, q->config, q->config, q->target->ranks, false, " ", text);
        zr__text_add(text, ",");
    }
    if (w->device != ZR_HOME_NONE) {
        zr__text_add(text, " %s (", zr__train_offload_keys(w->offload, w->device, w->on_host, keys));
        zr__add_away(q->target, &best->made, text);
        zr__text_add(text, "),");
    } else if (zr__config_get_open(q->config).offload) {
        zr__text_add(text, " no offload,");
    }
    zr__text_add(text, " ");
    add_reason(q, f, best, text);
}

static zr_status choose_keys(zr_config *config, const zr__train_target *target, zr__train_kept kept, zr__choices *found,
                             zr__text *text)
{
    zr__question q = zr__question_of(config, target);
    q.kept = kept;
    if (q.free.batch && kept.accum > 0) {
        const bool given = zr__config_given(config, "gradient_accumulation_steps");
        zr__train_set_batch(config, target->ranks, kept.rows, given ? config->accumulation_steps : kept.accum);
        q.free.batch = false;
    }
    if (!(q.free.stage || q.free.policy || q.free.split || q.free.batch || q.free.host || q.free.disk)) return ZR_OK;
    ZR_TRY(zr__search(&q, found));
    const zr__tried *best = found->best ? found->best : found->least;
    if (!best) return zr__failure_tell(&found->refused);
    zr__way taken = best->way;
    const bool any = q.free.stage || q.free.policy || q.free.split || q.free.batch || q.free.disk;
    if (any || (best->fits && found->tier > ZR__TIER_DEVICE)) note_choice(&q, found, best, text);
    if (!q.free.policy) taken.policy = config->recompute.policy;
    zr__way_set(&taken, target->ranks, config);
    return ZR_OK;
}

zr_status zr__train_choose(zr_config *config, const zr__train_target *target, zr__train_kept kept, zr__choices *found,
                           char note[ZR_TRAIN_NOTE_BYTES])
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    ZR_AUTO(zr__choices_clear) zr__choices own = {0};
    note[0] = '\0';
    ZR_TRY(choose_keys(config, target, kept, found ? found : &own, &text));
    ZR_TRY(zr__choose_quantised(config, target, kept, &text));
    ZR_TRY(zr__train_choose_shares(config, target, &text));
    ZR_CHECK(!text.failed, ZR_ERR_MEMORY, "no memory to describe the choice");
    if (text.data) snprintf(note, ZR_TRAIN_NOTE_BYTES, "%s", text.data);
    return ZR_OK;
}

void zr__train_offload_remedy(const zr_config *config, const zr__train_target *target, int64_t limit_bytes,
                              char remedy[ZR_OFFLOAD_REMEDY_BYTES])
{
    zr_config limited = *config;
    zr__question q = {.config = &limited, .target = target};
    ZR_AUTO(zr__choices_clear) zr__choices found = {0};
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    char keys[ZR_OFFLOAD_KEYS_BYTES];
    remedy[0] = '\0';
    if (!zr__train_offload_open(config) || config->zero.optim.device != ZR_HOME_NONE) return;
    limited.memory.limit_bytes = limit_bytes;
    q.free = (zr__free){.host = true, .disk = true, .kept = zr__train_offload_degrees(config) == ZR__OFFLOADS};
    if (zr__search(&q, &found) == ZR_OK && found.best && found.best->way.device != ZR_HOME_NONE) {
        const zr__tried *best = found.best;
        const bool disk = best->way.device == ZR_HOME_NVME;
        zr__text_add(&text, "%s%s (%s a rank, and ",
                     zr__train_offload_keys(best->way.offload, best->way.device, best->way.on_host, keys),
                     disk && !config->zero.optim.folders
                         ? ", and as zero_optimization.offload_optimizer.nvme_path a folder on a fast local disk"
                         : "",
                     ZR_SIZE((double)best->made.needs_bytes));
        zr__add_away(target, &best->made, &text);
        snprintf(remedy, ZR_OFFLOAD_REMEDY_BYTES, "%s)", text.data ? text.data : "");
    }
}
