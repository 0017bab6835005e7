/** The order of preference among candidates (zr__prefer), and its words. */
#include "train/choose/choose.h"

#include "config/config.h"

#include <math.h>

/* ---- the order ---------------------------------------------------------------------------------- */

enum { SEC, TRAFFIC, FURTHER, STAGE, RECOMPUTE, OFFLOAD, PLACE, MOVES, ACCUM, ROWS, MEASURES };

/** Return a candidate's measure. The less, the better. */
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

/** Return whether a candidate may be chosen: it fits, its further keys are as asked for, and it is faster than `sec`.
 */
static bool is_choice(const zr__tried *t, bool further, double sec)
{
    return t->fits && (further || t->further == 0) && (sec == 0 || t->sec * ZR__TIE < sec);
}

/** Return the candidate that is preferred among those of is_choice, or NULL. */
static zr__tried *prefer(const zr__choices *f, bool further, double sec)
{
    zr__tried *best = NULL;
    double most[MEASURES]; /* largest value of each measure so far that is left in the choice */
    for (int m = SEC; m < MEASURES; m++) {
        double least = INFINITY;
        if (m == TRAFFIC && f->timed) {
            most[m] = INFINITY;
            continue;
        }
        for (int64_t i = 0; i < f->n; i++) {
            zr__tried *t = f->tried[i];
            bool left = is_choice(t, further, sec);
            for (int k = SEC; k < m && left; k++) left = measure_of(t, k) <= most[k];
            if (!left || measure_of(t, m) >= least) continue;
            least = measure_of(t, m);
            best = t;
        }
        most[m] = least * (m == SEC || m == TRAFFIC ? ZR__TIE : 1);
    }
    return best;
}

void zr__prefer(zr__choices *found)
{
    double fastest = 0; /* of the candidates without further keys */
    for (int64_t i = 0; i < found->n; i++) {
        const zr__tried *t = found->tried[i];
        if (is_choice(t, false, 0) && (fastest == 0 || t->sec < fastest)) fastest = t->sec;
    }
    zr__tried *usual = prefer(found, false, 0), *further = prefer(found, true, fastest);
    found->best = further ? further : usual;
}

/* ---- words -------------------------------------------------------------------------------------- */

static bool is_tie(const zr__tried *best, const zr__tried *t)
{
    return t->fits && t != best && t->sec <= ZR__TIE * best->sec && t->sec * ZR__TIE >= best->sec;
}

/** Return whether a tie is the first of its stage, so that each stage and policy is named once. */
static bool is_named(const zr__choices *f, int64_t index)
{
    const zr__way *w = &f->tried[index]->way, *best = &f->best->way;
    if (w->stage == best->stage && w->policy == best->policy && w->tensor == best->tensor) return false;
    for (int64_t i = 0; i < f->n; i++) {
        const zr__tried *t = f->tried[i];
        const bool same = t->way.stage == w->stage && t->way.policy == w->policy && is_tie(f->best, t);
        if (same && (t->sec < f->tried[index]->sec || (t->sec == f->tried[index]->sec && i < index))) return false;
    }
    return true;
}

void zr__add_ties(const zr__choices *found, const char *before, zr__text *text)
{
    enum { NAMED = 3 };
    int n = 0, more = 0;
    const zr__tried *best = found->best;
    for (int64_t i = 0; best && i < found->n; i++) {
        const zr__tried *t = found->tried[i];
        if (!is_tie(best, t) || !is_named(found, i)) continue;
        if (n == NAMED) {
            more++;
            continue;
        }
        const double gain = 100 * (best->sec / t->sec - 1),
                     bytes = (double)(t->made.needs_bytes - best->made.needs_bytes);
        zr__text_add(text, "%s%s stage %lld with recompute %s and %lld x %lld samples (%.1f %% %s, %s %s a rank)",
                     n ? "" : before, n ? "," : " within 2 %:", (long long)t->way.stage,
                     zr__recompute_name(t->way.policy), (long long)t->way.rows, (long long)t->way.accum, fabs(gain),
                     gain < 0 ? "slower" : "faster", ZR_SIZE(fabs(bytes)), bytes < 0 ? "less" : "more");
        n++;
    }
    if (more) zr__text_add(text, " and %d more", more);
}

bool zr__is_told_tie(const zr__choices *found, int64_t index)
{
    return found->best && is_tie(found->best, found->tried[index]) && is_named(found, index);
}

int zr__question_keys(const zr__question *question, const zr__way *way, const char *keys[ZR__FREE_KEYS])
{
    const zr__free *free = &question->free;
    const struct {
        bool free;
        const char *key;
    } all[] = {{free->stage, "zero_optimization.stage"},
               {free->policy, "activation_checkpointing.policy"},
               {free->pieces && (way->tensor > 1 || free->tensor), ZR__PIECES_KEY},
               {free->split || free->batch, "train_micro_batch_size_per_gpu"},
               {free->split || free->accum, "gradient_accumulation_steps"},
               {free->host || free->disk, "zero_optimization.offload_*"},
               {free->places, ZR__PLACE_KEY},
               {free->tensor, "parallel.tensor"},
               {free->groups, "zero_optimization.mics_shard_size"},
               {free->groups, "zero_optimization.zero_hpz_partition_size"},
               {free->every, "activation_checkpointing.every"},
               {free->buckets, "zero_optimization.reduce_bucket_size"},
               {free->buckets, "zero_optimization.allgather_bucket_size"},
               {free->prefetch, "zero_optimization.stage3_prefetch_bucket_size"},
               {free->overlap, "zero_optimization.overlap_comm"},
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
    if (made->disk_bytes > 0) zr__text_add(text, "%s%s a rank on disk", before, ZR_SIZE((double)made->disk_bytes));
}
