/** Searches the tiers of memory, in the order in which they are tried. A tier is skipped if not even its candidate with
 * the least memory can fit. */
#include "train/choose/search.h"

#include "config/config.h"

enum { AUTO_LAYERS = 128 }; /* maximum number of layers for which zr__search_least also tries policy auto */

/** Give a way the keys that need the least memory at its stage: recompute unit, small micro-batches, and less
 * overlap. */
static void make_least(const zr__searching *s, zr__light light, zr__way *w)
{
    const int64_t data_ranks = s->q->target->ranks / (w->tensor * w->pipeline);
    const int64_t rows = s->q->free.split ? s->q->config->train_batch_size / data_ranks : 0;
    if (s->q->free.batch || rows > 0) w->rows = 1;
    if (rows > 0) w->accum = rows;
    if (s->q->free.policy || (s->any_policy && !s->alone)) w->policy = ZR_RECOMPUTE_UNIT, w->every = 1;
    if (s->q->free.pieces) w->pieces = w->tensor > 1;
    zr__lighten(w, light, s->q->config);
}

/** Find out whether any candidate with the homes of s->base may fit. For each tensor-parallel degree, until one may
 * fit, plan the candidate with the least memory, at the highest stage that can be planned. Set s->least to the last
 * candidate. */
static zr_status may_fit(zr__searching *s, zr__light light, bool *may)
{
    *may = false;
    zr__way degree = s->base;
    for (degree.tensor = zr__search_next_degree(s, &degree, 0); degree.tensor > 0 && !*may;
         degree.tensor = zr__search_next_degree(s, &degree, degree.tensor)) {
        const int64_t n = s->found->n;
        zr__way w = degree;
        make_least(s, light, &w);
        s->least = NULL;
        for (w.stage = s->stages[1]; w.stage >= s->stages[0] && !s->least; w.stage--)
            ZR_TRY(zr__try_way(s, &w, &s->least));
        *may = !s->least || zr__search_nearly_fits(s, s->least);
        if (s->found->n == n || !s->least->fits) continue;
        s->least->bound = true;
        s->least->fits = false;
    }
    return ZR_OK;
}

/** Try less overlap at the highest stage. Stop at the first zr__light that fits. */
static zr_status try_lighter(zr__searching *s)
{
    const zr__way base = s->base;
    const int64_t first = s->stages[0];
    bool may;
    ZR_TRY(may_fit(s, ZR__LIGHT_BUCKETS, &may));
    s->stages[0] = s->stages[1];
    for (int light = ZR__LIGHT_PREFETCH; light < ZR__LIGHTS && may && !zr__search_fits(s); light++) {
        zr__lighten(&s->base, (zr__light)light, s->q->config);
        ZR_TRY(zr__search_all(s));
        ZR_TRY(zr__search_mixed(s));
    }
    s->stages[0] = first;
    s->base = base;
    return ZR_OK;
}

/** Return whether two candidates need the same bytes of the device, of the host and of the disk. */
static bool same_memory(const zr__tried *a, const zr__tried *b)
{
    return a->made.needs_bytes == b->made.needs_bytes && a->made.host_bytes == b->made.host_bytes &&
           a->made.disk_bytes == b->made.disk_bytes;
}

/** Set the homes of s->base to a degree of offload, with the kinds `disk` (ZR__KINDS) of its states on disk and the
 * other kinds in host memory. Return false if such homes are impossible. Only a plan that may recompute has
 * checkpoints. */
static bool set_homes(zr__searching *s, zr__offload offload, unsigned disk)
{
    const zr__question *q = s->q;
    const unsigned kinds = zr__offload_kinds(offload);
    const bool recomputes = q->free.policy || zr_recomputes(q->config->recompute.policy);
    if (kinds & ZR__KIND_PARAM && s->stages[1] < 3) return false;
    if (kinds & ZR__KIND_CHECKPOINT && !(recomputes && q->free.kept)) return false;
    if (s->tiers && disk & ~kinds) return false;
    s->base.device = disk ? ZR_HOME_NVME : ZR_HOME_CPU;
    s->base.offload = offload;
    s->base.on_host = disk ? kinds & ~disk : 0;
    return true;
}

/** Try the degrees of offload that move the kinds `disk` of states to disk, and other kinds to the host's memory. */
static zr_status try_offload(zr__searching *s, unsigned disk)
{
    const bool whole = disk && !s->tiers; /* whether all states that a degree moves go to disk */
    const zr__tried *before = NULL;
    bool may = true;
    for (int offload = ZR__OFFLOAD_OPTIM; offload < ZR__OFFLOADS; offload++) {
        if (s->hopeless[offload] || !set_homes(s, offload, disk)) continue;
        if (!s->q->free.split) { /* fewer samples in more micro-batches may need more memory */
            ZR_TRY(may_fit(s, ZR__LIGHT_NONE, &may));
            /* whether this degree moves no more bytes than the previous one */
            const bool nothing = before && s->least && same_memory(before, s->least);
            s->hopeless[offload] =
                s->least && (nothing || (double)s->least->made.needs_bytes > (1 + ZR__SLACK) * (double)s->limit);
            before = s->least;
            may = may && !nothing;
        }
        if (!may) continue;
        ZR_TRY(zr__search_all(s));
        if (!whole) continue;
        ZR_TRY(zr__search_mixed(s));
        if (zr__search_fits(s)) return ZR_OK; /* more states on disk are slower */
    }
    return zr__search_mixed(s);
}

/** Try states on disk. If the other states can be in host memory, first try the kinds on disk that are moved least:
 * parameters, then checkpoints, then optimizer states. */
static zr_status try_disk(zr__searching *s)
{
    for (unsigned disk = s->tiers ? 1 : ZR__KINDS; disk <= ZR__KINDS && !zr__search_fits(s); disk++)
        ZR_TRY(try_offload(s, disk));
    return ZR_OK;
}

/** If nothing fits, plan the candidates that may come nearest to fitting. First put all possible states on disk, since
 * host memory may be too small for them. Then try policy auto, in which several units can share a checkpoint, so that
 * it may need less memory than other policies. */
static zr_status try_least(zr__searching *s)
{
    zr__tried *t;
    bool may;
    int offload = s->tiers && s->q->free.disk ? ZR__OFFLOADS - 1 : ZR__OFFLOAD_NONE;
    while (offload > ZR__OFFLOAD_NONE && !set_homes(s, (zr__offload)offload, zr__offload_kinds((zr__offload)offload)))
        offload--;
    if (offload > ZR__OFFLOAD_NONE) ZR_TRY(may_fit(s, ZR__LIGHT_NONE, &may));
    if (!s->found->least || !s->any_policy) return ZR_OK;
    zr__way w = s->found->least->way;
    w.policy = ZR_RECOMPUTE_UNIT;
    ZR_TRY(zr__try_way(s, &w, &t));
    w.policy = ZR_RECOMPUTE_AUTO;
    return zr__try_way(s, &w, &t);
}

static zr_status try_tiers(zr__searching *s)
{
    const zr__free *free = &s->q->free;
    zr__choices *f = s->found;
    for (f->tier = ZR__TIER_DEVICE; f->tier < ZR__TIERS; f->tier++) {
        if (f->tier == ZR__TIER_DEVICE) ZR_TRY(zr__search_all(s));
        ZR_TRY(zr__search_mixed(s));
        if (f->tier == ZR__TIER_LIGHTER && free->lighter) ZR_TRY(try_lighter(s));
        if (f->tier == ZR__TIER_HOST && s->tiers) ZR_TRY(try_offload(s, 0));
        if (f->tier == ZR__TIER_DISK && free->disk) ZR_TRY(try_disk(s));
        if (zr__search_fits(s)) return zr__search_refine(s);
    }
    return try_least(s);
}

/** Choose the preferred candidate. If the configuration gives the policy, the choice must have this policy, although
 * other policies were tried to find the micro-batches. Leave out candidates that do not fit with it. */
static zr_status prefer_given(zr__searching *s)
{
    const zr_recompute policy = s->q->config->recompute.policy;
    zr__choices *f = s->found;
    zr__tried *given = NULL;
    for (zr__prefer(f); f->best && !s->q->free.policy && f->best->way.policy != policy; zr__prefer(f)) {
        zr__way w = f->best->way;
        zr__tried *other = f->best;
        w.policy = policy;
        ZR_TRY(zr__try_way(s, &w, &given));
        if (given && given->fits) {
            f->best = given;
            return ZR_OK;
        }
        other->fits = false;
    }
    return ZR_OK;
}

zr_status zr__search(const zr__question *question, zr__choices *found)
{
    zr__searching s;
    zr__search_begin(&s, question, found);
    zr_status st = try_tiers(&s);
    if (st == ZR_OK) st = prefer_given(&s);
    for (int64_t i = 0; i < found->n; i++) found->tried[i]->fits |= found->tried[i]->bound;
    zr_free(s.mixed);
    return st;
}

/** Plan the candidate with the least memory and the homes of s->base, unless `failed` has these homes. Set *fits.
 * `home` is the bit of the homes in `failed`: (kinds on disk) * ZR__OFFLOADS + (degree of offload). For plans without
 * offload but with less overlap, it is a number that no offload has. */
static zr_status try_alone(zr__searching *s, zr__light light, int home, uint64_t *failed, bool *fits)
{
    const uint64_t bit = UINT64_C(1) << home;
    bool may;
    if (*failed & bit) return ZR_OK;
    ZR_TRY(may_fit(s, light, &may));
    if (s->least) s->least->fits |= s->least->bound;
    zr__tried *least = s->least;
    /* With policy auto several units can share a checkpoint. It makes many plans, which take too long for more layers.
     */
    const bool few = zr_config_sizes(s->q->config).layers <= AUTO_LAYERS;
    if (least && !least->fits && few && s->q->free.policy && least->made.needs_bytes <= 2 * s->limit) {
        zr__way w = least->way;
        w.policy = ZR_RECOMPUTE_AUTO;
        ZR_TRY(zr__try_way(s, &w, &least));
    }
    *fits = least && least->fits;
    if (!*fits) *failed |= bit;
    return ZR_OK;
}

zr_status zr__search_least(const zr__question *question, uint64_t *failed, zr__choices *found)
{
    zr__searching s;
    const zr__free *free = &question->free;
    bool fits = false;
    zr__search_begin(&s, question, found);
    s.alone = true;
    ZR_TRY(try_alone(&s, ZR__LIGHT_NONE, 0, failed, &fits));
    if (!fits && free->lighter) ZR_TRY(try_alone(&s, ZR__LIGHT_BUCKETS, ZR__OFFLOADS, failed, &fits));
    const unsigned first = s.tiers ? 0 : ZR__KINDS, last = free->disk ? ZR__KINDS : 0;
    for (unsigned disk = first; disk <= last && !fits; disk++)
        for (int offload = ZR__OFFLOAD_OPTIM; offload < ZR__OFFLOADS && !fits; offload++)
            if (set_homes(&s, offload, disk))
                ZR_TRY(try_alone(&s, ZR__LIGHT_NONE, (int)disk * ZR__OFFLOADS + offload, failed, &fits));
    zr__prefer(found);
    return ZR_OK;
}
