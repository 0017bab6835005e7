/**
 * `zr simulate --search`: find the fastest training configuration that fits.
 *
 * A candidate (cli_way) is a stage, a tensor-parallel degree, a recompute policy, a place of checkpoints, groups of
 * ranks that share states (MiCS, hpZ) and a bucket size. Each candidate is rated at its best micro-batch.
 *
 * Usually the best micro-batch is the largest that fits, because a larger micro-batch is never slower per sample.
 * Matrix products get larger, more samples share ZeRO's traffic, and the critical path does not grow per sample. A few
 * plans find the largest micro-batch, because memory grows with the micro-batch.
 *
 * In three cases every micro-batch that fits is tried: steps are priced by measured rates, the policy changes with the
 * batch, or the number of samples in a step is given.
 *
 * Buckets, overlap, hierarchical collectives and reducing gradients once a step hardly change the speed of most
 * candidates. Therefore these keys are varied last, only for the fastest candidate of each kind of states and for the
 * candidates that came nearest to fitting.
 */
#include "cli/plan/choices.h"
#include "cli/shell/config.h"
#include "cli/simulate/search.h"

#include "base/core/grow.h"
#include "base/text/text.h"
#include "cli/plan/largest.h"
#include "cli/shell/many.h"
#include "config/config.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_BATCH (1 << 20) /* maximum number of samples in a micro-batch */
#define MOST_ACCUMS 4
#define REFINED 8             /* maximum number of candidates for which variants are tried */
#define LEAST_GAIN 0.005      /* minimum relative speedup for which a variant replaces its candidate */
#define STEP_TOKENS (1 << 24) /* maximum number of tokens in a step, unless --step-tokens gives another limit */
/* Bucket sizes of variants, in elements. Small buckets need little staging memory, with up to a few hundred buckets per
 * unit. With large buckets, a whole unit fits one bucket. */
#define SMALL_BUCKET (1 << 22)
#define LARGE_BUCKET (INT64_C(1) << 30)

/** Keys that the command line gives. The search does not change a given key. `kept` is the place of checkpoints, and
 * `global` is the number of samples in a step. */
typedef struct space {
    bool stage, tensor, policy, every, kept, groups, batch, accum, global;
    bool buckets, prefetch, overlap, levels, once;
    bool every_batch; /* whether every micro-batch that fits must be tried */
} space;

typedef struct search {
    cli_searched base;
    const cli_args *typed;
    space given;
    zr_config *config;
    int64_t room;         /* capacity of base.way */
    int64_t most_samples; /* maximum number of samples in a step, over all ranks */
    int64_t refined_from; /* index in base.way of the first variant; all later candidates are variants too */
} search;

/* ---- one plan ----------------------------------------------------------------------------------- */

/** Set the keys of a configuration from a candidate, its micro-batch and its number of micro-batches per step. */
static void configure_way(zr_config *config, const cli_way *w, int64_t batch, int64_t accum, int ranks)
{
    if (w->in.bucket_elems > 0) {
        config->zero.reduce_bucket_elems = w->in.bucket_elems;
        config->zero.allgather_bucket_elems = w->in.bucket_elems;
    }
    config->zero.overlap_comm = w->in.overlap;
    if (w->in.prefetch_elems > 0) config->zero.prefetch_bucket_elems = w->in.prefetch_elems;
    config->collectives.hierarchical = w->in.levels;
    config->reduce_once = w->in.once;
    config->zero.stage = w->stage;
    config->parallel.tensor = w->tensor;
    config->recompute.policy = w->policy;
    config->recompute.every = w->every;
    config->recompute.partition = w->pieces;
    config->recompute.cpu = w->host;
    if (config->recompute.offload == ZR_OFFLOAD_HOST) config->recompute.offload = ZR_OFFLOAD_NONE;
    config->zero.mics_shard_ranks = w->mics;
    config->zero.hpz_partition_ranks = w->hpz;
    zr__train_set_batch(config, ranks, batch, accum);
}

/** Plan and simulate a candidate, with micro-batch `batch` and `accum` micro-batches per step. If the plan is refused,
 * set *planned to false. */
static zr_status try_one(const search *s, cli_way *w, int64_t batch, int64_t accum, cli_trial *made, bool *planned)
{
    zr_config config = *s->config;
    configure_way(&config, w, batch, accum, s->base.target.ranks);
    w->tried++;
    const zr_status st = cli_try(&s->base.target, &config, NULL, made, NULL);
    *planned = st == ZR_OK;
    if (st != ZR_OK && !cli_refused(st)) return st;
    if (!*planned) *made = (cli_trial){.fits = false};
    if (!*planned && !w->refused[0]) snprintf(w->refused, sizeof(w->refused), "%s", zr_error_message());
    return ZR_OK;
}

/** Return whether trial `a` is faster than trial `b`. Ignore rounding errors, which occur because sums are computed in
 * different orders. */
static bool faster(const cli_trial *a, const cli_trial *b)
{
    return a->simulation.samples_sec > (1 + 1e-9) * b->simulation.samples_sec;
}

static void keep_better(cli_way *w, int64_t batch, int64_t accum, const cli_trial *made)
{
    if (w->fits && !(made->fits && faster(made, &w->made))) return;
    /* keep the first trial that does not fit, because its micro-batch is the smallest */
    if (w->planned && !made->fits) return;
    w->planned = true;
    w->fits = made->fits;
    w->batch = batch;
    w->accum = accum;
    w->made = *made;
}

/* ---- batches ------------------------------------------------------------------------------------ */

static int64_t way_data_ranks(const search *s, const cli_way *w)
{
    return s->base.target.ranks / w->tensor;
}

/** Return the micro-batch size to try after size `n`, or the first size if `n` is 0. Return 0 if no size is left. The
 * sizes are powers of two and numbers halfway between them. If the number of samples in a step is given, the sizes are
 * the divisors of a rank's number of samples. If the user gave the size, it is the only one. */
static int64_t next_batch(const search *s, const cli_way *w, int64_t n)
{
    const int64_t rows = s->config->train_batch_size / way_data_ranks(s, w);
    if (s->given.batch) return n == 0 ? s->config->micro_batch_size : 0;
    if (!s->given.global) {
        n = n < 4 ? n + 1 : (n & (n - 1)) == 0 ? n / 2 * 3 : n / 3 * 4; /* 1, 2, 3, 4, 6, 8, 12 ... */
        return n <= MOST_BATCH ? n : 0;
    }
    for (n++; n <= rows && n <= MOST_BATCH; n++)
        if (rows % n == 0) return n;
    return 0;
}

/** Return whether a step of `samples` samples may be tried: it has at most `most_samples` samples, or its micro-batch
 * is 1 or given by the user. */
static bool is_usual(const search *s, int64_t batch, int64_t samples)
{
    return s->given.batch || batch == 1 || samples <= s->most_samples;
}

/** List the accumulation counts (micro-batches per step) that a micro-batch may have: 1 or, with `several`, counts
 * above 1. All listed counts need the same memory. Return the length of the list. The length is 0 if no count gives the
 * required number of samples in a step. */
static int accums_of(const search *s, const cli_way *w, int64_t batch, bool several, int64_t accum[MOST_ACCUMS])
{
    static const int64_t some[] = {2, 4, 8};
    const int64_t samples = s->config->train_batch_size, each = batch * way_data_ranks(s, w);
    int n = 0;
    if (s->given.global) {
        accum[n] = samples % each == 0 ? samples / each : 0;
        if (s->given.accum && accum[n] != s->config->accumulation_steps) accum[n] = 0;
        return accum[n] > 0 && (accum[n] > 1) == several;
    }
    if (s->given.accum) {
        accum[n] = s->config->accumulation_steps;
        return (accum[n] > 1) == several && is_usual(s, batch, accum[n] * each);
    }
    if (!several && is_usual(s, batch, each)) accum[n++] = 1;
    for (int i = 0; several && i < 3; i++)
        if (some[i] * each <= s->most_samples) accum[n++] = some[i];
    return n;
}

/** Try a candidate with micro-batch `batch` and `accum` micro-batches per step. Keep the trial if it is the candidate's
 * best. Also record the smallest micro-batch that does not fit. If the plan is refused, keep and record nothing. */
static zr_status try_batch(const search *s, cli_way *w, int64_t batch, int64_t accum, bool several, cli_trial *made)
{
    bool planned = false;
    ZR_TRY(try_one(s, w, batch, accum, made, &planned));
    if (!planned) return ZR_OK;
    keep_better(w, batch, accum, made);
    if (made->fits || !w->fits || (w->more[several].batch > 0 && w->more[several].batch <= batch)) return ZR_OK;
    w->more[several].batch = batch;
    w->more[several].made = *made;
    return ZR_OK;
}

/** Try a micro-batch with the accumulation counts of accums_of, beginning at index `first`. Stop at a count that does
 * not fit. Set *fits to false if the count at index `first` was tried and does not fit, otherwise to true. */
static zr_status try_accums(const search *s, cli_way *w, int64_t batch, bool several, int first, bool *fits)
{
    int64_t accum[MOST_ACCUMS];
    const int n = accums_of(s, w, batch, several, accum);
    *fits = true;
    for (int k = first; k < n; k++) {
        cli_trial made;
        ZR_TRY(try_batch(s, w, batch, accum[k], several, &made));
        if (k == first) *fits = made.fits;
        if (!made.fits) return ZR_OK;
    }
    return ZR_OK;
}

/** Try increasing micro-batches until one does not fit. */
static zr_status try_every(const search *s, cli_way *w, bool several)
{
    bool fits = true;
    for (int64_t n = next_batch(s, w, 0); n > 0 && fits; n = next_batch(s, w, n))
        ZR_TRY(try_accums(s, w, n, several, 0, &fits));
    return ZR_OK;
}

/** State of the search for the largest micro-batch of a candidate. */
typedef struct growing {
    const search *s;
    cli_way *way;
    bool several; /* whether a step has more than one micro-batch */
} growing;

/** Find the bytes that a micro-batch needs with the smallest accumulation count. If the plan is refused, or needs too
 * much of a host's memory, set *bytes to one byte more than the limit. Callback of cli_largest. */
static zr_status needs_of_batch(void *arg, int64_t batch, int64_t *bytes)
{
    const growing *g = arg;
    int64_t accum[MOST_ACCUMS];
    cli_trial made = {.fits = false};
    const int n = accums_of(g->s, g->way, batch, g->several, accum);
    if (n > 0) ZR_TRY(try_batch(g->s, g->way, batch, accum[0], g->several, &made));
    *bytes = cli_trial_bytes(&g->s->base.target, &made);
    return ZR_OK;
}

/** Find the largest micro-batch that fits, and try it with all its accumulation counts. On entry *guess is a guess of
 * this micro-batch, or 0. On return *guess is the found micro-batch. */
static zr_status try_largest(const search *s, cli_way *w, bool several, int64_t *guess)
{
    const int64_t limit = s->base.target.limit_bytes;
    growing g = {s, w, several};
    cli_point fits = {.n = 1}, fails = {.n = MOST_BATCH};
    bool fit;
    ZR_TRY(needs_of_batch(&g, 1, &fits.needs));
    if (fits.needs > limit) return ZR_OK;
    ZR_TRY(cli_largest(needs_of_batch, &g, limit, *guess, &fits, &fails));
    *guess = fits.n;
    return try_accums(s, w, fits.n, several, 1, &fit);
}

static zr_status try_batches_of(void *arg, int64_t index)
{
    const search *s = arg;
    cli_way *w = &s->base.way[index];
    if (!w->states_fit) return ZR_OK;
    const bool every = s->given.every_batch || s->given.global || s->given.batch;
    int64_t guess = 0;
    for (int several = 0; several < 2; several++)
        ZR_TRY(every ? try_every(s, w, several) : try_largest(s, w, several, &guess));
    return ZR_OK;
}

/* ---- ways --------------------------------------------------------------------------------------- */

static zr_status add_way(search *s, const cli_way *way)
{
    cli_searched *b = &s->base;
    ZR_GROW(b->way, s->room, b->n + 1, "ways");
    b->way[b->n++] = *way;
    return ZR_OK;
}

static cli_way as_configured(const zr_config *config)
{
    return (cli_way){.stage = config->zero.stage,
                     .tensor = config->parallel.tensor,
                     .policy = config->recompute.policy,
                     .every = config->recompute.every,
                     .pieces = config->recompute.partition,
                     .host = config->recompute.cpu || config->recompute.offload == ZR_OFFLOAD_HOST,
                     .mics = config->zero.mics_shard_ranks,
                     .hpz = config->zero.hpz_partition_ranks,
                     .in = {.overlap = config->zero.overlap_comm,
                            .levels = config->collectives.hierarchical,
                            .once = config->reduce_once}};
}

/** Add a candidate for each place of checkpoints. Checkpoints can be whole on each rank. With tensor parallelism they
 * can be partitioned. If the cluster has a rate for host copies, they can be on the host. If they are configured to be
 * on disk, they stay there. */
static zr_status add_kept_ways(search *s, cli_way way)
{
    const bool host = s->base.target.cluster.host_bytes_sec > 0;
    if (s->given.kept || s->config->recompute.offload == ZR_OFFLOAD_DISK) {
        const cli_way given = as_configured(s->config);
        way.pieces = given.pieces;
        way.host = given.host;
        return add_way(s, &way);
    }
    ZR_TRY(add_way(s, &way));
    way.pieces = way.tensor > 1;
    if (way.pieces) ZR_TRY(add_way(s, &way));
    way.host = true;
    return host ? add_way(s, &way) : ZR_OK;
}

/** Add the candidates of a recompute policy. For policy unit, try checkpoint spacings of 1, 2, 4 ... units, up to twice
 * the square root of the number of layers. With a larger spacing, recomputation needs more memory than it saves. */
static zr_status add_policy_ways(search *s, cli_way way)
{
    const int64_t layers = zr_config_sizes(s->config).layers;
    const bool free = way.policy == ZR_RECOMPUTE_SELECTIVE || way.policy == ZR_RECOMPUTE_UNIT;
    if (!free) return add_way(s, &way); /* the policy has no checkpoints, or chooses their place */
    way.pieces = way.host = false;
    if (way.policy != ZR_RECOMPUTE_UNIT || s->given.every) return add_kept_ways(s, way);
    for (way.every = 1; way.every == 1 || (way.every < layers && way.every * way.every <= 4 * layers); way.every *= 2)
        ZR_TRY(add_kept_ways(s, way));
    return ZR_OK;
}

static zr_status add_policies_ways(search *s, cli_way way)
{
    static const zr_recompute all[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    if (s->given.policy) return add_policy_ways(s, way);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (all[i] == ZR_RECOMPUTE_NONE) way.pieces = way.host = false;
        if (!s->given.every) way.every = 1;
        way.policy = all[i];
        ZR_TRY(add_policy_ways(s, way));
    }
    return ZR_OK;
}

/** Return the size of a group that consists of the data-parallel ranks of one host. Return 0 if the data-parallel ranks
 * do not form several such groups of equal size. */
static int64_t host_group(const search *s, const cli_way *w)
{
    const int64_t host = cli_host_ranks(&s->base.target), group = host / w->tensor, all = way_data_ranks(s, w);
    return host % w->tensor == 0 && group > 1 && group < all && all % group == 0 ? group : 0;
}

/** Add candidates without groups of ranks. Then add candidates with groups of one host: MiCS groups and, at stage 3,
 * hpZ groups. */
static zr_status add_group_ways(search *s, cli_way way)
{
    const int64_t host = host_group(s, &way);
    ZR_TRY(add_policies_ways(s, way));
    if (s->given.groups || host == 0) return ZR_OK;
    way.mics = host;
    if (way.stage > 0) ZR_TRY(add_policies_ways(s, way));
    way.mics = -1;
    way.hpz = host;
    if (way.stage == 3) ZR_TRY(add_policies_ways(s, way));
    return ZR_OK;
}

static bool degree_works(const search *s, int64_t tensor)
{
    const int64_t host = s->base.target.cluster.host_devices;
    const bool shares =
        zr_config_sizes(s->config).heads % tensor == 0 && s->base.target.ranks % tensor == 0 && tensor <= 2 * host;
    return shares && (!s->given.global || s->config->train_batch_size % (s->base.target.ranks / tensor) == 0);
}

static zr_status add_ways(search *s)
{
    const space *given = &s->given;
    const int64_t most = given->tensor ? INT64_MAX : 2 * (int64_t)s->base.target.cluster.host_devices;
    for (int64_t tensor = 1; tensor <= s->base.target.ranks && tensor <= most; tensor++) {
        cli_way way = as_configured(s->config);
        if (given->tensor && tensor != way.tensor) continue;
        if (!given->tensor && !degree_works(s, tensor)) continue;
        way.tensor = tensor;
        if (!given->groups) way.mics = -1, way.hpz = 1;
        for (int64_t stage = 0; stage < 4; stage++) {
            if (given->stage && stage != s->config->zero.stage) continue;
            way.stage = stage;
            ZR_TRY(add_group_ways(s, way));
        }
    }
    return ZR_OK;
}

/* ---- ways whose states alone do not fit ---------------------------------------------------------- */

static bool same_states(const cli_way *a, const cli_way *b)
{
    return a->stage == b->stage && a->tensor == b->tensor && a->mics == b->mics && a->hpz == b->hpz;
}

/** Check whether the model states of a candidate fit. Plan only the first candidate of each kind of states, because
 * recomputation does not change the states. Plan the smallest micro-batch, because it needs the least memory. */
static zr_status try_states(void *arg, int64_t index)
{
    const search *s = arg;
    cli_way *w = &s->base.way[index];
    bool planned;
    cli_trial made;
    const int64_t batch = s->given.batch ? s->config->micro_batch_size : 1;
    w->states_fit = true;
    if (index > 0 && same_states(w, w - 1)) return ZR_OK;
    ZR_TRY(try_one(s, w, batch, 1, &made, &planned));
    if (!planned || made.report.memory.states_bytes <= s->base.target.limit_bytes) return ZR_OK;
    keep_better(w, batch, 1, &made); /* record the memory that the candidate needs */
    w->states_fit = false;
    return ZR_OK;
}

/** Remove candidates whose model states do not fit. Keep the first candidate of each kind of states, because its plan
 * shows how much memory the states need. */
static void drop_states(search *s)
{
    cli_searched *b = &s->base;
    cli_way first = {.stage = -1};
    int64_t n = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const cli_way w = b->way[i];
        const bool is_first = !same_states(&w, &first);
        if (is_first) first = w;
        if (is_first || first.states_fit) b->way[n++] = w;
    }
    b->n = n;
}

/* ---- all ---------------------------------------------------------------------------------------- */

static int by_need(const void *a, const void *b)
{
    const cli_way *x = *(const cli_way *const *)a, *y = *(const cli_way *const *)b;
    const int64_t mx = x->made.report.memory.total_bytes, my = y->made.report.memory.total_bytes;
    if (mx != my) return mx < my ? -1 : 1;
    return x < y ? -1 : x > y;
}

/** Compare two candidates by speed, for sorting. At equal speed, the candidate that needs less memory comes first. */
static int by_speed(const void *a, const void *b)
{
    const cli_way *x = *(const cli_way *const *)a, *y = *(const cli_way *const *)b;
    const double sx = x->made.simulation.samples_sec, sy = y->made.simulation.samples_sec;
    if (sx != sy) return sx > sy ? -1 : 1;
    return by_need(a, b);
}

/** Return whether two candidates have the same plan. Without checkpoints, candidates that differ only in the place of
 * checkpoints have the same plan. */
static bool same_plan(const cli_way *a, const cli_way *b)
{
    const cli_trial *x = &a->made, *y = &b->made;
    return same_states(a, b) && a->policy == b->policy && a->every == b->every && a->batch == b->batch &&
           a->accum == b->accum && x->host_bytes == y->host_bytes &&
           x->report.memory.total_bytes == y->report.memory.total_bytes &&
           x->simulation.price.step_sec == y->simulation.price.step_sec;
}

/** Return whether any of `n` candidates has states of the same kind as `w`. */
static bool has_states(const cli_way *const *ways, int64_t n, const cli_way *w)
{
    for (int64_t i = 0; i < n; i++)
        if (same_states(w, ways[i])) return true;
    return false;
}

/** Sort the candidates that fit by speed, into `best`. If all candidates of a kind of states fail to fit, put the
 * candidate of this kind with the least memory into `missed`. */
static zr_status rank_ways(search *s)
{
    cli_searched *b = &s->base;
    const size_t bytes = (size_t)(b->n + 1) * sizeof(*b->best);
    zr_free(b->best);
    zr_free(b->missed);
    b->n_best = b->n_missed = b->tried = 0;
    b->best = zr_alloc(bytes);
    b->missed = zr_alloc(bytes);
    ZR_CHECK(b->best && b->missed, ZR_ERR_MEMORY, "no memory for %lld ways", (long long)b->n);
    for (int64_t i = 0; i < b->n; i++) {
        const cli_way *w = &b->way[i];
        b->tried += w->tried;
        if (w->fits) b->best[b->n_best++] = w;
        if (w->planned && !w->fits) b->missed[b->n_missed++] = w;
    }
    qsort(b->best, (size_t)b->n_best, sizeof(*b->best), by_speed);
    qsort(b->missed, (size_t)b->n_missed, sizeof(*b->missed), by_need);
    int64_t n = 0;
    for (int64_t i = 0; i < b->n_best; i++)
        if (n == 0 || !same_plan(b->best[n - 1], b->best[i])) b->best[n++] = b->best[i];
    b->n_best = n;
    b->ways = b->n_best + b->n_missed;
    n = 0;
    for (int64_t i = 0; i < b->n_missed; i++) {
        const cli_way *w = b->missed[i];
        if (!has_states(b->best, b->n_best, w) && !has_states(b->missed, n, w)) b->missed[n++] = w;
    }
    b->n_missed = n;
    return ZR_OK;
}

const char *cli_needs(const cli_searched *s, const cli_trial *made, char text[128])
{
    const cli_target *t = &s->target;
    const int64_t has = t->cluster.device.memory_bytes, host = t->cluster.host_memory_bytes;
    const bool device = has > 0 && made->needs_bytes > has, limit = !device && made->needs_bytes > t->limit_bytes;
    if (device || limit)
        snprintf(text, 128, "%s (%s aside included) of %s %s", ZR_SIZE((double)made->needs_bytes),
                 cli_beside(&t->profile.facts), limit ? "memory.limit's" : "a device's",
                 ZR_SIZE((double)(limit ? t->limit_bytes : has)));
    else
        snprintf(text, 128, "%s of a host's %s",
                 ZR_SIZE((double)(host > 0 && made->host_bytes > host ? made->host_bytes : made->needs_bytes)),
                 ZR_SIZE((double)host));
    return text;
}

static zr_status check_found(const cli_searched *b)
{
    const char *cluster = b->target.cluster.name, *refused = NULL;
    if (b->n_best) return ZR_OK;
    ZR_CHECK(b->n, ZR_ERR_CONFIG, "--search: there is no way to share the model on %d ranks of %s", b->target.ranks,
             cluster);
    for (int64_t i = b->n - 1; i >= 0; i--)
        if (b->way[i].refused[0]) refused = b->way[i].refused;
    ZR_CHECK(b->n_missed, ZR_ERR_CONFIG, "--search: none of the ways can be planned on %d ranks of %s; the first: %s",
             b->target.ranks, cluster, refused ? refused : "no micro-batch makes a step of train_batch_size samples");
    return ZR_FAIL(ZR_ERR_MEMORY,
                   "--search: nothing fits; stage %lld with parallel.tensor %lld comes nearest and needs %s: use more "
                   "ranks or a smaller model",
                   (long long)b->missed[0]->stage, (long long)b->missed[0]->tensor,
                   cli_needs(b, &b->missed[0]->made, (char[128]){0}));
}

/* ---- buckets, overlap, levels, reduction once a step ---------------------------------------------- */

/** Return whether a variant of a candidate may be tried. A variant must not change a key that the command line gives.
 */
static bool is_open_variant(const search *s, const cli_way *way, const cli_variant *to)
{
    const space *given = &s->given;
    const cli_variant *from = &way->in;
    if (given->buckets && to->bucket_elems != from->bucket_elems) return false;
    if (given->overlap && to->overlap != from->overlap) return false;
    if (given->prefetch && to->prefetch_elems != from->prefetch_elems) return false;
    if (given->levels && to->levels != from->levels) return false;
    return to->once == from->once ||
           !(given->once || way_data_ranks(s, way) == 1); /* with one data-parallel rank, no gradients are reduced */
}

static zr_status add_variants(search *s, const cli_way *from)
{
    const zr_config_switch on = ZR_SWITCH_ON, off = ZR_SWITCH_OFF, levels = from->in.levels,
                           both = from->tensor > 1 ? on : ZR_SWITCH_AUTO, /* with tensor parallelism, auto means off */
        other = levels == off || (levels == ZR_SWITCH_AUTO && both == on) ? both : off, overlap = from->in.overlap;
    const int64_t large = LARGE_BUCKET, small = SMALL_BUCKET;
    const bool had = from->in.once;
    const cli_variant to[] = {
        {large, 0, overlap, levels, had}, {small, 0, overlap, levels, had},  {0, 0, off, levels, had},
        {small, 0, off, levels, had},     {0, 0, overlap, other, had},       {large, 0, overlap, other, had},
        {large, large, on, levels, had},  {large, large, on, other, had},    {0, large, on, levels, had},
        {0, 0, overlap, levels, !had},    {large, 0, overlap, levels, !had}, {0, 0, overlap, other, !had},
        {large, large, on, levels, !had}};
    for (size_t i = 0; i < sizeof(to) / sizeof(*to); i++) {
        cli_way w = *from; /* the results are reset in the lines below */
        w.in = to[i];
        w.planned = w.fits = false;
        w.tried = w.more[0].batch = w.more[1].batch = 0;
        w.refused[0] = '\0';
        w.states_fit = true;
        if (is_open_variant(s, from, &to[i])) ZR_TRY(add_way(s, &w));
    }
    return ZR_OK;
}

static zr_status try_variant(void *arg, int64_t index)
{
    return try_batches_of(arg, ((const search *)arg)->refined_from + index);
}

/** Replace a candidate by its fastest variant, if the speedup is above LEAST_GAIN. */
static void take_fastest(cli_way *way, const cli_way *variant, int64_t n)
{
    const cli_way *best = NULL;
    int64_t tried = way->tried;
    for (const cli_way *v = variant; v < variant + n; v++) {
        tried += v->tried;
        if (v->fits && (!best || faster(&v->made, &best->made))) best = v;
    }
    const double gain = best && way->fits ? best->made.simulation.samples_sec / way->made.simulation.samples_sec : 2;
    if (best && gain > 1 + LEAST_GAIN) *way = *best;
    way->tried = tried;
}

/** Try variants of the fastest candidate of each kind of states, then of the candidates that came nearest to
 * fitting. */
static zr_status refine_ways(search *s, const char *shown)
{
    cli_searched *b = &s->base;
    const cli_way *way[REFINED];
    int64_t index[REFINED], first[REFINED + 1];
    int n = 0;
    for (int64_t i = 0; i < b->n_best + b->n_missed && n < REFINED; i++) {
        way[n] = i < b->n_best ? b->best[i] : b->missed[i - b->n_best];
        if (!has_states(way, n, way[n])) n++;
    }
    /* Keep indices instead of pointers, because add_variants may move b->way. */
    for (int i = 0; i < n; i++) index[i] = way[i] - b->way;
    s->refined_from = b->n;
    for (int i = 0; i < n; i++) {
        const cli_way from = b->way[index[i]];
        first[i] = b->n;
        ZR_TRY(add_variants(s, &from));
    }
    first[n] = b->n;
    ZR_TRY(cli_many(b->n - s->refined_from, try_variant, s, shown));
    for (int i = 0; i < n; i++) take_fastest(&b->way[index[i]], &b->way[first[i]], first[i + 1] - first[i]);
    b->n = s->refined_from;
    return rank_ways(s);
}

static zr_status find_ways(search *s)
{
    const char *shown = s->base.args->quiet ? NULL : "ways";
    ZR_TRY(add_ways(s));
    ZR_TRY(cli_many(s->base.n, try_states, s, NULL));
    drop_states(s);
    ZR_TRY(cli_many(s->base.n, try_batches_of, s, shown));
    ZR_TRY(rank_ways(s));
    ZR_TRY(refine_ways(s, shown));
    return check_found(&s->base);
}

/** Return whether the command line gives `key` or `other`. `other` may be NULL. */
static bool is_typed(const search *s, const char *key, const char *other)
{
    const cli_brief *brief = &s->base.o->brief;
    return cli_simulate_typed(s->typed, brief, key) || (other && cli_simulate_typed(s->typed, brief, other));
}

static space space_of(const search *s)
{
    space given = {
        .stage = is_typed(s, "zero_optimization.stage", NULL),
        .tensor = is_typed(s, "parallel.tensor", NULL),
        .batch = is_typed(s, "train_micro_batch_size_per_gpu", NULL),
        .accum = is_typed(s, "gradient_accumulation_steps", NULL),
        .policy = is_typed(s, "activation_checkpointing.policy", NULL),
        .every = is_typed(s, "activation_checkpointing.every", NULL),
        .kept = is_typed(s, "activation_checkpointing.partition_activations",
                         "activation_checkpointing.cpu_checkpointing") ||
                is_typed(s, "activation_checkpointing.offload", NULL),
        .groups = is_typed(s, "zero_optimization.mics_shard_size", "zero_optimization.zero_hpz_partition_size"),
        .global = zr__config_given(s->config, "train_batch_size"),
        .buckets = is_typed(s, "zero_optimization.reduce_bucket_size", "zero_optimization.allgather_bucket_size"),
        .prefetch = is_typed(s, "zero_optimization.stage3_prefetch_bucket_size", NULL),
        .overlap = is_typed(s, "zero_optimization.overlap_comm", NULL),
        .levels = is_typed(s, "collectives.hierarchical", NULL),
        .once = is_typed(s, "gradient_reduction", NULL)};
    given.every_batch = s->base.target.cluster.device.n_products > 0 ||
                        (given.policy && s->config->recompute.policy == ZR_RECOMPUTE_AUTO);
    return given;
}

static zr_status search_all(search *s)
{
    cli_searched *b = &s->base;
    ZR_TRY(cli_check_outputs(s->config, NULL));
    ZR_TRY(cli_simulate_target(b->o, s->config, b->target.ranks, &b->target));
    ZR_CHECK(b->target.cluster.device.memory_bytes > 0, ZR_ERR_CONFIG,
             "--search: the memory of a device of %s is not known, so zr cannot tell what fits; give a cluster file "
             "with memory_bytes",
             b->target.cluster.name);
    ZR_TRY(cli_settle_place(s->config, &b->target));
    const int64_t tokens = b->o->step_tokens > 0 ? b->o->step_tokens : STEP_TOKENS;
    s->most_samples = tokens / s->config->data.seq_length;
    ZR_CHECK(b->target.ranks <= b->target.cluster.devices, ZR_ERR_CONFIG,
             "%d ranks do not fit the %d devices of %s: use fewer ranks or a larger cluster", b->target.ranks,
             b->target.cluster.devices, b->target.cluster.name);
    s->given = space_of(s);
    ZR_TRY(find_ways(s));
    if (b->args->json) return cli_searched_json(b);
    cli_searched_print(b);
    return ZR_OK;
}

zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o)
{
    search *s = zr_alloc(sizeof(*s));
    ZR_CHECK(s, ZR_ERR_MEMORY, "no memory to search");
    *s = (search){.typed = typed, .base = {.args = args, .o = o, .target = {.ranks = (int)o->ranks}}};
    zr_status st = cli_config(args, s->base.target.ranks, (int64_t)time(NULL), &s->config, NULL);
    s->base.config = s->config;
    if (st == ZR_OK) st = search_all(s);
    zr_free(s->base.way);
    zr_free(s->base.best);
    zr_free(s->base.missed);
    cli_target_clear(&s->base.target);
    zr_config_destroy(&s->config);
    zr_free(s);
    return st;
}
