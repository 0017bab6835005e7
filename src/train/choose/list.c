/** The list of stages and recompute policies that `zr plan` shows. */
#include "train/choose/search.h"

#include "base/core/grow.h"

#define SPACINGS 64 /* maximum spacing of checkpoints in a list, in units */

zr_status zr__list_add(zr__choices *found, zr__tried *tried)
{
    for (int64_t i = 0; i < found->n_listed; i++)
        if (found->listed[i] == tried) return ZR_OK;
    ZR_GROW(found->listed, found->listed_room, found->n_listed + 1, "choices");
    found->listed[found->n_listed++] = tried;
    return ZR_OK;
}

int64_t zr__list_find(const zr__choices *found, const zr__way *way)
{
    for (int64_t i = 0; i < found->n_listed; i++)
        if (zr__way_alike(&found->listed[i]->way, way, ZR__ALIKE_ALL)) return i;
    return -1;
}

/** Plan a candidate. Set *fits, and list the candidate if it fits or if `anyhow` is set. */
static zr_status list_way(zr__searching *s, const zr__way *w, bool anyhow, bool *fits)
{
    zr__tried *t;
    ZR_TRY(zr__try_way(s, w, &t));
    *fits = t && t->fits;
    return t && (*fits || anyhow) ? zr__list_add(s->found, t) : ZR_OK;
}

/** For each candidate from index `first` on that does not fit, list a candidate with the same policy and the first
 * zr__light that fits. If not even recompute unit with ZR__LIGHT_BUCKETS fits, list none, because other policies store
 * more activations. */
static zr_status list_lighter(zr__searching *s, zr__way least, int64_t first)
{
    const int64_t end = s->found->n_listed;
    zr__tried *t;
    bool hope = false;
    for (int64_t i = first; i < end; i++)
        hope |= s->found->listed[i]->way.policy == ZR_RECOMPUTE_UNIT && s->found->listed[i]->fits;
    zr__way_least(&least, s->q->config);
    if (!hope) {
        ZR_TRY(zr__try_way(s, &least, &t));
        hope = t && t->fits; /* a milder zr__light may be enough */
        if (t && !hope && least.stage == 3) ZR_TRY(zr__list_add(s->found, t));
    }
    for (int64_t i = first; i < end && hope; i++) {
        const zr__tried *c = s->found->listed[i];
        bool fits = c->fits || c->way.policy == ZR_RECOMPUTE_AUTO || c->way.policy == ZR_RECOMPUTE_KEEP;
        for (int l = least.stage == 3 ? ZR__LIGHT_PREFETCH : ZR__LIGHT_OVERLAP; l < ZR__LIGHTS && !fits; l++) {
            zr__way w = c->way;
            zr__lighten(&w, (zr__light)l, s->q->config);
            ZR_TRY(list_way(s, &w, false, &fits));
        }
    }
    return ZR_OK;
}

/** List the candidates of a stage. Without tensor parallelism, take only the configured place of checkpoints. */
static zr_status list_stage(zr__searching *s, const zr__way base)
{
    static const struct {
        zr_recompute policy;
        bool pieces;
        zr_config_offload kept;
    } common[] = {{ZR_RECOMPUTE_NONE, false, ZR_OFFLOAD_NONE},      {ZR_RECOMPUTE_KEEP, false, ZR_OFFLOAD_NONE},
                  {ZR_RECOMPUTE_SELECTIVE, false, ZR_OFFLOAD_NONE}, {ZR_RECOMPUTE_SELECTIVE, true, ZR_OFFLOAD_NONE},
                  {ZR_RECOMPUTE_UNIT, false, ZR_OFFLOAD_NONE},      {ZR_RECOMPUTE_UNIT, true, ZR_OFFLOAD_NONE},
                  {ZR_RECOMPUTE_UNIT, true, ZR_OFFLOAD_HOST}};
    zr__way w = base;
    const int64_t first = s->found->n_listed;
    bool fits, any = false, short_of = false;
    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++) {
        if (common[i].pieces && w.tensor == 1) continue;
        if (common[i].policy == ZR_RECOMPUTE_KEEP && !s->rates.facts.own_memory) continue;
        w.policy = common[i].policy;
        w.every = 1;
        if (w.tensor > 1) w.pieces = common[i].pieces, w.kept = common[i].kept;
        ZR_TRY(list_way(s, &w, true, &fits));
        any |= fits;
        short_of |= !fits && (w.policy == ZR_RECOMPUTE_NONE || w.policy == ZR_RECOMPUTE_KEEP);
    }
    /* A mixture of policies can help if some policies fit, but not those that recompute nothing. */
    w = base;
    w.policy = ZR_RECOMPUTE_AUTO;
    w.every = 1;
    if (s->limit > 0 && any && short_of && base.policy != ZR_RECOMPUTE_AUTO) ZR_TRY(list_way(s, &w, true, &fits));
    if (s->limit > 0) ZR_TRY(list_lighter(s, base, first));
    return list_way(s, &base, true, &fits); /* the configured policy, if it is another */
}

zr_status zr__choices_list(const zr__question *question, bool own, bool spacings, zr__choices *found)
{
    zr__searching s;
    bool fits;
    zr__search_begin(&s, question, found);
    zr__way w = s.base;
    if (own) return list_way(&s, &w, true, &fits);
    for (w.stage = 0; w.stage < 4; w.stage++) ZR_TRY(list_stage(&s, w));
    w = s.base;
    w.policy = ZR_RECOMPUTE_UNIT;
    const int64_t layers = zr_config_sizes(question->config).layers;
    for (w.every = 2; spacings && w.every <= layers && w.every <= SPACINGS; w.every++)
        ZR_TRY(list_way(&s, &w, true, &fits));
    return ZR_OK;
}
