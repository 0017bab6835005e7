/** The order of preference among candidates (zr__prefer), and texts that describe the choice. */
#include "train/choose/choose.h"

#include <math.h>

#define ALIKE 1e-3 /* times or bytes whose relative difference is smaller count as equal */

/* ---- the order ---------------------------------------------------------------------------------- */

enum { SEC, TRAFFIC, FURTHER, STAGE, RECOMPUTE, OFFLOAD, PLACE, MOVES, ACCUM, ROWS, MEASURES };

/** Return a candidate's value of a measure. Lower values are preferred. */
static double measure_of(const zr__tried *t, int measure)
{
    static const int recompute[] = {[ZR_RECOMPUTE_NONE] = 0, [ZR_RECOMPUTE_KEEP] = 1, [ZR_RECOMPUTE_SELECTIVE] = 2,
                                    [ZR_RECOMPUTE_UNIT] = 3, [ZR_RECOMPUTE_AUTO] = 4, [ZR_RECOMPUTE_PAPER] = 5};
    const zr__way *w = &t->way;
    const double of[MEASURES] = {[SEC] = t->sec,
                                 [TRAFFIC] = t->traffic,
                                 [FURTHER] = t->further,
                                 [STAGE] = (double)w->stage,
                                 [RECOMPUTE] = recompute[w->policy],
                                 [OFFLOAD] = w->device == ZR_HOME_NONE ? 0 : (double)w->offload,
                                 [PLACE] = 2 * (double)w->kept + w->pieces,
                                 [MOVES] = zr__light_of(w),
                                 [ACCUM] = (double)w->accum,
                                 [ROWS] = (double)w->rows};
    return of[measure];
}

void zr__prefer(zr__choices *found)
{
    double most[MEASURES]; /* for each measure: largest value with which a candidate is still considered */
    found->best = NULL;
    for (int m = SEC; m < MEASURES; m++) {
        double least = INFINITY;
        if (m == TRAFFIC && found->timed) {
            most[m] = INFINITY;
            continue;
        }
        for (int64_t i = 0; i < found->n; i++) {
            zr__tried *t = found->tried[i];
            bool left = t->fits;
            for (int k = SEC; k < m && left; k++) left = measure_of(t, k) <= most[k];
            if (!left || measure_of(t, m) >= least) continue;
            least = measure_of(t, m);
            found->best = t;
        }
        if (m == SEC) found->fastest = least;
        most[m] = least * (m == SEC || m == TRAFFIC ? ZR__TIE : 1);
    }
}

/* ---- ties --------------------------------------------------------------------------------------- */

bool zr__is_tie(const zr__choices *found, const zr__tried *t)
{
    return t->fits && t->sec <= ZR__TIE * found->fastest;
}

/** Return whether a candidate is named before another: it is faster or, if both are as fast, needs less memory. */
static bool is_before(const zr__tried *a, const zr__tried *b)
{
    if (a->sec != b->sec) return a->sec < b->sec;
    if (a->made.needs_bytes != b->made.needs_bytes) return a->made.needs_bytes < b->made.needs_bytes;
    return a->number < b->number;
}

/** Return whether `a` leaves no reason to take `b`: `b` is no faster and no smaller, or nearly the same. */
static bool is_enough(const zr__tried *a, const zr__tried *b)
{
    const double a_bytes = (double)a->made.needs_bytes, b_bytes = (double)b->made.needs_bytes;
    const bool same = fabs(a->sec - b->sec) < ALIKE * b->sec && fabs(a_bytes - b_bytes) < ALIKE * b_bytes;
    return same || (a->sec <= b->sec && a_bytes <= b_bytes);
}

/** Return whether a tie is worth naming beside the best candidate and all earlier ties. */
static bool is_named(const zr__choices *f, const zr__tried *t)
{
    if (t == f->best || !zr__is_tie(f, t)) return false;
    for (int64_t i = 0; i < f->n; i++) {
        const zr__tried *other = f->tried[i];
        if (other != f->best && (!zr__is_tie(f, other) || !is_before(other, t))) continue;
        const bool alike = other->way.stage == t->way.stage && other->way.policy == t->way.policy &&
                           other->way.tensor == t->way.tensor;
        if (alike || is_enough(other, t)) return false;
    }
    return true;
}

const zr__tried *zr__next_tie(const zr__choices *found, const zr__tried *last)
{
    const zr__tried *next = NULL;
    for (int64_t i = 0; found->best && i < found->n; i++) {
        const zr__tried *t = found->tried[i];
        if (last && !is_before(last, t)) continue;
        if ((!next || is_before(t, next)) && is_named(found, t)) next = t;
    }
    return next;
}

static void add_tie(const zr__tried *best, const zr__tried *t, zr__text *text)
{
    const double gain = 100 * (best->sec / t->sec - 1), bytes = (double)(t->made.needs_bytes - best->made.needs_bytes);
    zr__text_add(text, " stage %lld with recompute %s and %lld x %lld samples (%.1f %% %s, %s %s a rank%s)",
                 (long long)t->way.stage, zr__recompute_name(t->way.policy), (long long)t->way.rows,
                 (long long)t->way.accum, fabs(gain), gain < 0 ? "slower" : "faster", ZR_SIZE(fabs(bytes)),
                 bytes < 0 ? "less" : "more", t->further > best->further ? ", with further keys" : "");
}

void zr__add_ties(const zr__choices *found, const char *before, zr__text *text)
{
    enum { NAMED = 3 };
    int n = 0;
    for (const zr__tried *t = NULL; (t = zr__next_tie(found, t)); n++) {
        if (n >= NAMED) continue;
        zr__text_add(text, "%s%s", n ? "" : before, n ? "," : " within 2 %:");
        add_tie(found->best, t, text);
    }
    if (n > NAMED) zr__text_add(text, " and %d more", n - NAMED);
}

/* ---- words -------------------------------------------------------------------------------------- */

int zr__question_keys(const zr__question *question, const zr__way *way, const char *keys[ZR__FREE_KEYS])
{
    const zr__free *free = &question->free;
    const bool away = free->host || free->disk;
    const struct {
        bool free;
        const char *key;
    } all[] = {{free->stage, "zero_optimization.stage"},
               {free->policy, "activation_checkpointing.policy"},
               {free->pieces && (way->tensor > 1 || free->tensor), ZR__PIECES_KEY},
               {free->split || free->batch, "train_micro_batch_size_per_gpu"},
               {free->split || free->accum, "gradient_accumulation_steps"},
               {away, "zero_optimization.offload_optimizer"},
               {away, "zero_optimization.offload_param"},
               {away && free->kept, "activation_checkpointing.offload"},
               {free->places, ZR__PLACE_KEY},
               {free->tensor, "parallel.tensor"},
               {free->pipeline, "parallel.pipeline"},
               {free->schedule, "parallel.schedule"},
               {free->schedule, "parallel.chunks"},
               {free->groups, "zero_optimization.mics_shard_size"},
               {free->groups, "zero_optimization.zero_hpz_partition_size"},
               {free->every, "activation_checkpointing.every"},
               {free->lighter || free->buckets, "zero_optimization.reduce_bucket_size"},
               {free->lighter || free->buckets, "zero_optimization.allgather_bucket_size"},
               {free->lighter || free->prefetch, "zero_optimization.stage3_prefetch_bucket_size"},
               {free->lighter || free->overlap, "zero_optimization.overlap_comm"},
               {free->levels, "collectives.hierarchical"},
               {free->once, "gradient_reduction"}};
    int n = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i].free) keys[n++] = all[i].key;
    return n;
}

void zr__add_question(const zr__question *question, const zr__way *way, zr__text *text)
{
    const zr_config *c = question->config;
    const int64_t limit = zr__limit_of(question->target, c);
    const char *keys[ZR__FREE_KEYS];
    const int n = zr__question_keys(question, way, keys);
    zr__text_add(text, "%s a rank, %lld tokens a step", limit ? ZR_SIZE((double)limit) : "any memory",
                 (long long)zr__way_tokens(way, c, question->target->ranks));
    for (int i = 0; i < n; i++) zr__text_add(text, "%s%s", i ? ", " : "; free: ", keys[i]);
}

void zr__add_away(const zr__train_target *target, const zr__trial *made, zr__text *text)
{
    const double host = (double)made->report.memory.space[ZR_SPACE_HOST].total_bytes;
    const char *before = "";
    if (host > 0) {
        zr__text_add(text, "%s of host memory a rank, %s a host", ZR_SIZE(host), ZR_SIZE((double)made->host_bytes));
        if (target->host_bytes > 0) zr__text_add(text, " of %s", ZR_SIZE((double)target->host_bytes));
        before = ", ";
    }
    if (made->disk_bytes == 0) return;
    zr__text_add(text, "%s%s a rank on disk", before, ZR_SIZE((double)made->disk_bytes));
    if (target->disk_bytes == 0) zr__text_add(text, ", whose size is not known");
}
