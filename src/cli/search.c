/*
 * `zr simulate --search`: the fastest way to train that fits. A way is a stage, a tensor degree, what is computed
 * again, where checkpoints are and how states are grouped. Each is taken at its best micro-batch.
 *
 * Within one schedule no step takes longer for each sample when there are more of them: products get larger, and what
 * moves for ZeRO is shared by more. Nor does then the longest path through the schedule. So the largest micro-batch
 * that fits is the best one, and it is found in a few plans, as memory grows with it. Where steps follow measured
 * rates, or a policy changes with the batch, or the samples of a step are given, every micro-batch that fits is tried
 * instead.
 */
#include "cli/search.h"

#include "base/grow.h"
#include "cli/many.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BATCHES 512
#define MOST_BATCH (1 << 20)
#define MOST_ACCUMS 4

/** What may vary: where the command line gives a key, the one value that it gives. */
typedef struct space {
    bool stage, tensor, policy, kept, groups, batch, accum, global; /* given; `kept`: how checkpoints are; `global`: the
                                                                       samples of a step */
    bool every_batch;                                               /* must be tried */
} space;

typedef struct search {
    cli_searched base;
    space given;
    zr_config *config;
    int64_t room; /* of ways */
} search;

/* ---- one plan ----------------------------------------------------------------------------------- */

void cli_way_set(zr_config *config, const cli_way *w, int64_t batch, int64_t accum, int ranks)
{
    config->zero.stage = w->stage;
    config->parallel.tensor = w->tensor;
    config->recompute.policy = w->policy;
    config->recompute.every = w->every;
    config->recompute.partition = w->pieces;
    config->recompute.cpu = w->host;
    if (config->recompute.offload == ZR_OFFLOAD_HOST) config->recompute.offload = ZR_OFFLOAD_NONE;
    config->zero.mics_shard_ranks = w->mics;
    config->zero.hpz_partition_ranks = w->hpz;
    config->micro_batch_size = batch;
    config->accumulation_steps = accum;
    config->train_batch_size = batch * accum * (ranks / w->tensor);
}

/** *planned false: such a plan is refused. */
static zr_status try_one(const search *s, cli_way *w, int64_t batch, int64_t accum, cli_simulated *made, bool *planned)
{
    zr_config config = *s->config;
    const cli_searched *b = &s->base;
    cli_way_set(&config, w, batch, accum, b->ranks);
    const zr_simulate_options options = cli_simulate_options_of(b->o, &config);
    const bool first = w->tried++ == 0;
    const zr_status st = cli_simulate_one(&config, b->ranks, &b->cluster, &b->profile, &options, made, NULL, NULL);
    *planned = st == ZR_OK;
    if (!cli_simulate_refused(st)) return st;
    if (first) snprintf(w->refused, sizeof(w->refused), "%s", zr_error_message());
    return ZR_OK;
}

/** Sums that were added in another order differ in their last bits. */
static bool faster(const cli_simulated *a, const cli_simulated *b)
{
    return a->simulation.samples_sec > (1 + 1e-9) * b->simulation.samples_sec;
}

static void keep(cli_way *w, int64_t batch, int64_t accum, const cli_simulated *made)
{
    if (w->fits && !(made->fits && faster(made, &w->made))) return;
    if (w->planned && !made->fits) return; /* of what does not fit the first, which is the smallest */
    w->planned = true;
    w->fits = made->fits;
    w->batch = batch;
    w->accum = accum;
    w->made = *made;
}

/* ---- batches ------------------------------------------------------------------------------------ */

/** Micro-batches of a way, ascending. */
typedef struct batches {
    int64_t batch[MOST_BATCHES];
    int n;
} batches;

static int64_t data_ranks(const search *s, const cli_way *w)
{
    return s->base.ranks / w->tensor;
}

/** Powers of two and what lies between them; where a step's samples are given, divisors of a rank's share. */
static batches batches_of(const search *s, const cli_way *w)
{
    batches b = {.n = 0};
    const int64_t rows = s->config->train_batch_size / data_ranks(s, w);
    if (s->given.batch) {
        b.batch[b.n++] = s->config->micro_batch_size;
        return b;
    }
    if (s->given.global) {
        for (int64_t n = 1; n <= rows && n <= MOST_BATCH && b.n < MOST_BATCHES; n++)
            if (rows % n == 0) b.batch[b.n++] = n;
        return b;
    }
    for (int64_t n = 1; n <= MOST_BATCH; n *= 2) {
        b.batch[b.n++] = n;
        if (n > 1) b.batch[b.n++] = n / 2 * 3;
    }
    return b;
}

/** Micro-batches of a step that take the same memory; 0: such a micro-batch does not make a step. */
static int accums_of(const search *s, const cli_way *w, int64_t batch, bool several, int64_t accum[MOST_ACCUMS])
{
    static const int64_t some[] = {2, 4, 8};
    const int64_t samples = s->config->train_batch_size, each = batch * data_ranks(s, w);
    int n = 0;
    if (s->given.global) {
        accum[n] = samples % each == 0 ? samples / each : 0;
        if (s->given.accum && accum[n] != s->config->accumulation_steps) accum[n] = 0;
        return accum[n] > 0 && (accum[n] > 1) == several;
    }
    if (s->given.accum) {
        accum[n] = s->config->accumulation_steps;
        return (accum[n] > 1) == several;
    }
    if (!several) accum[n++] = 1;
    for (int i = 0; several && i < 3; i++) accum[n++] = some[i];
    return n;
}

static void note_larger(cli_way *w, int64_t batch, bool several, const cli_simulated *made)
{
    if (!w->fits || (w->more[several].batch > 0 && w->more[several].batch <= batch)) return;
    w->more[several].batch = batch;
    w->more[several].bytes = made->report.memory.total_bytes;
    w->more[several].host_bytes = made->host_bytes;
}

/** Try micro-batch number i with number k of `accum`; made->params 0: it makes no plan. */
static zr_status try_batch(const search *s, cli_way *w, const batches *b, int i, bool several, int k,
                           cli_simulated *made)
{
    int64_t accum[MOST_ACCUMS];
    bool planned = false;
    *made = (cli_simulated){.fits = false};
    if (k >= accums_of(s, w, b->batch[i], several, accum)) return ZR_OK;
    ZR_TRY(try_one(s, w, b->batch[i], accum[k], made, &planned));
    if (!planned) *made = (cli_simulated){.fits = false};
    if (planned) keep(w, b->batch[i], accum[k], made);
    if (planned && !made->fits) note_larger(w, b->batch[i], several, made);
    return ZR_OK;
}

/** With all numbers of micro-batches a step but the first. */
static zr_status try_accums(const search *s, cli_way *w, const batches *b, int i, bool several)
{
    int64_t accum[MOST_ACCUMS];
    cli_simulated made;
    const int n = accums_of(s, w, b->batch[i], several, accum);
    for (int k = 1; k < n; k++) ZR_TRY(try_batch(s, w, b, i, several, k, &made));
    return ZR_OK;
}

/** Each in turn, up to the first that does not fit. */
static zr_status try_every(const search *s, cli_way *w, const batches *b, bool several)
{
    int64_t accum[MOST_ACCUMS];
    for (int i = 0; i < b->n; i++) {
        cli_simulated made;
        if (accums_of(s, w, b->batch[i], several, accum) == 0) continue;
        ZR_TRY(try_batch(s, w, b, i, several, 0, &made));
        if (!made.fits) return ZR_OK;
        ZR_TRY(try_accums(s, w, b, i, several));
    }
    return ZR_OK;
}

/** A micro-batch that was planned. */
typedef struct point {
    double batch, bytes;
} point;

static point point_of(const batches *b, int i, const cli_simulated *made)
{
    return (point){(double)b->batch[i], (double)made->report.memory.total_bytes};
}

/** Where the line through two points meets the device's memory. */
static int last_below(const search *s, const batches *b, point p, point q)
{
    const double bytes_sample = fmax((q.bytes - p.bytes) / (q.batch - p.batch), 1);
    const double most = p.batch + ((double)s->base.cluster.device.memory_bytes - p.bytes) / bytes_sample;
    int last = 0;
    while (last + 1 < b->n && (double)b->batch[last + 1] <= most) last++;
    return last;
}

/** The largest that fits: from *first on, which is what fitted with other micro-batches a step, along that line until
 *  two neighbours are known. Each third is a bisection, so that what else may not fit (a host's memory, memory.limit)
 *  makes it no slower. */
static zr_status try_largest(const search *s, cli_way *w, const batches *b, bool several, int *first)
{
    cli_simulated made;
    int in = 0, out = b->n;
    ZR_TRY(try_batch(s, w, b, 0, several, 0, &made));
    if (!made.fits) return ZR_OK;
    point low = point_of(b, 0, &made);
    for (int next = *first, round = 1; out - in > 1; round++) {
        if (round % 3 == 0) next = in + (out - in) / 2;
        if (next <= in) next = in + 1;
        if (next >= out) next = out - 1;
        ZR_TRY(try_batch(s, w, b, next, several, 0, &made));
        const point now = point_of(b, next, &made);
        const int last = made.params > 0 ? last_below(s, b, low, now) : in;
        if (made.fits) low = now;
        if (made.fits) in = next;
        if (!made.fits) out = next;
        next = last;
    }
    *first = in;
    ZR_TRY(try_accums(s, w, b, in, several));
    return ZR_OK;
}

static zr_status try_way(void *arg, int64_t index)
{
    const search *s = arg;
    cli_way *w = &s->base.way[index];
    const batches b = batches_of(s, w);
    if (!w->states_fit) return ZR_OK;
    const bool every = s->given.every_batch || s->given.global || s->given.batch;
    int first = 1;
    for (int several = 0; several < 2; several++) {
        int64_t accum[MOST_ACCUMS];
        if (!every && accums_of(s, w, 1, several, accum) == 0) continue;
        ZR_TRY(every ? try_every(s, w, &b, several) : try_largest(s, w, &b, several, &first));
    }
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
                     .hpz = config->zero.hpz_partition_ranks};
}

/** Checkpoints whole, in pieces where ranks share layers, and on the host, where it can be reached. */
static zr_status add_kept(search *s, cli_way way)
{
    const bool host = s->base.cluster.host_bytes_sec > 0;
    if (s->given.kept) {
        const cli_way given = as_configured(s->config);
        way.pieces = given.pieces;
        way.host = given.host;
    }
    ZR_TRY(add_way(s, &way));
    if (s->given.kept) return ZR_OK;
    way.pieces = way.tensor > 1;
    if (way.pieces) ZR_TRY(add_way(s, &way));
    way.host = true;
    if (host) ZR_TRY(add_way(s, &way));
    return ZR_OK;
}

/** Of unit, spacings up to twice the root of the layers: beyond it what is computed again takes more than it saves. */
static zr_status add_policies(search *s, cli_way way)
{
    const int64_t layers = s->config->model.sizes.n_layer;
    if (s->given.policy) {
        ZR_TRY(add_way(s, &way));
        return ZR_OK;
    }
    way.pieces = way.host = false;
    way.every = 1;
    way.policy = ZR_POLICY_NONE;
    ZR_TRY(add_way(s, &way));
    way.policy = ZR_POLICY_SELECTIVE;
    ZR_TRY(add_kept(s, way));
    way.policy = ZR_POLICY_UNIT;
    for (; way.every == 1 || (way.every < layers && way.every * way.every <= 4 * layers); way.every *= 2)
        ZR_TRY(add_kept(s, way));
    return ZR_OK;
}

/** Ranks of a host, where they are a part of those that the states may be shared by; 0: they are not. */
static int64_t host_group(const search *s)
{
    const int64_t given = s->config->parallel.ranks_per_host, host = given > 0 ? given : s->base.cluster.host_devices;
    return host > 1 && host < s->base.ranks && s->base.ranks % host == 0 ? host : 0;
}

/** Groups of a host's ranks; ranks that share layers have none. */
static zr_status add_groups(search *s, cli_way way)
{
    const int64_t host = host_group(s);
    ZR_TRY(add_policies(s, way));
    if (s->given.groups || way.tensor > 1 || host == 0) return ZR_OK;
    way.mics = host;
    if (way.stage > 0) ZR_TRY(add_policies(s, way));
    way.mics = -1;
    way.hpz = host;
    if (way.stage == 3) ZR_TRY(add_policies(s, way));
    return ZR_OK;
}

static bool degree_works(const search *s, int64_t tensor)
{
    const int64_t host = s->base.cluster.host_devices;
    const bool shares =
        s->config->model.sizes.n_head % tensor == 0 && s->base.ranks % tensor == 0 && tensor <= 2 * host;
    return shares && (!s->given.global || s->config->train_batch_size % (s->base.ranks / tensor) == 0);
}

static zr_status add_ways(search *s)
{
    const space *given = &s->given;
    const int64_t most = given->tensor ? INT64_MAX : 2 * (int64_t)s->base.cluster.host_devices;
    for (int64_t tensor = 1; tensor <= s->base.ranks && tensor <= most; tensor++) {
        cli_way way = as_configured(s->config);
        if (given->tensor && tensor != way.tensor) continue;
        if (!given->tensor && !degree_works(s, tensor)) continue;
        way.tensor = tensor;
        if (!given->groups) way.mics = -1, way.hpz = 1;
        for (int64_t stage = 0; stage < 4; stage++) {
            if (given->stage && stage != s->config->zero.stage) continue;
            way.stage = stage;
            ZR_TRY(add_groups(s, way));
        }
    }
    return ZR_OK;
}

/* ---- those whose states alone do not fit --------------------------------------------------------- */

static bool same_states(const cli_way *a, const cli_way *b)
{
    return a->stage == b->stage && a->tensor == b->tensor && a->mics == b->mics && a->hpz == b->hpz;
}

/** The first way of each kind of states is planned at one sample; what is computed again changes no state, and one
 *  micro-batch a step keeps the fewest. */
static zr_status try_states(void *arg, int64_t index)
{
    const search *s = arg;
    cli_way *w = &s->base.way[index];
    bool planned;
    cli_simulated made;
    const int64_t batch = s->given.batch ? s->config->micro_batch_size : 1;
    w->states_fit = true;
    if (index > 0 && same_states(w, w - 1)) return ZR_OK;
    ZR_TRY(try_one(s, w, batch, 1, &made, &planned));
    if (!planned || made.report.memory.states_bytes <= s->base.cluster.device.memory_bytes) return ZR_OK;
    keep(w, batch, 1, &made); /* what it would need */
    w->states_fit = false;
    return ZR_OK;
}

/** Leave out all ways of a kind but the first where that one's states do not fit. */
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

static int by_speed(const void *a, const void *b)
{
    const cli_way *x = *(const cli_way *const *)a, *y = *(const cli_way *const *)b;
    const double sx = x->made.simulation.samples_sec, sy = y->made.simulation.samples_sec;
    const int64_t mx = x->made.report.memory.total_bytes, my = y->made.report.memory.total_bytes;
    if (sx != sy) return sx > sy ? -1 : 1;
    if (mx != my) return mx < my ? -1 : 1; /* of the same speed, what takes less */
    return x < y ? -1 : x > y;
}

/** The same plan under two names: checkpoints may be none, and then it does not matter how they are kept. */
static bool same_plan(const cli_way *a, const cli_way *b)
{
    const cli_simulated *x = &a->made, *y = &b->made;
    return same_states(a, b) && a->policy == b->policy && a->every == b->every && a->batch == b->batch &&
           a->accum == b->accum && x->host_bytes == y->host_bytes &&
           x->report.memory.total_bytes == y->report.memory.total_bytes &&
           x->simulation.price.step_sec == y->simulation.price.step_sec;
}

static void drop_same(cli_searched *b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->n_best; i++)
        if (n == 0 || !same_plan(b->best[n - 1], b->best[i])) b->best[n++] = b->best[i];
    b->n_best = n;
}

static int by_need(const void *a, const void *b)
{
    const cli_way *x = *(const cli_way *const *)a, *y = *(const cli_way *const *)b;
    const int64_t mx = x->made.report.memory.total_bytes, my = y->made.report.memory.total_bytes;
    if (mx != my) return mx < my ? -1 : 1;
    return x < y ? -1 : x > y;
}

/** Of each kind of states of which no way fits, what needs least. */
static void keep_kinds(cli_searched *b)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->n_missed; i++) {
        const cli_way *w = b->missed[i];
        bool known = false;
        for (int64_t k = 0; k < b->n_best && !known; k++) known = same_states(w, b->best[k]);
        for (int64_t k = 0; k < n && !known; k++) known = same_states(w, b->missed[k]);
        if (!known) b->missed[n++] = w;
    }
    b->n_missed = n;
}

static zr_status rank(search *s)
{
    cli_searched *b = &s->base;
    const size_t bytes = (size_t)(b->n + 1) * sizeof(*b->best);
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
    drop_same(b);
    b->ways = b->n_best + b->n_missed;
    keep_kinds(b);
    return ZR_OK;
}

const char *cli_needs(const cli_searched *s, int64_t bytes, int64_t host_bytes, char text[128])
{
    char needs[32], there[32];
    const bool device = bytes > s->cluster.device.memory_bytes;
    const bool host = !device && s->cluster.host_memory_bytes > 0 && host_bytes > s->cluster.host_memory_bytes;
    cli_bytes((double)(host ? host_bytes : bytes), needs);
    cli_bytes((double)(host ? s->cluster.host_memory_bytes : s->cluster.device.memory_bytes), there);
    snprintf(text, 128, "%s of a %s %s%s", needs, host ? "host's" : "device's", there,
             device || host ? "" : ", more than memory.limit allows");
    return text;
}

static const char *first_refusal(const cli_searched *b)
{
    for (int64_t i = 0; i < b->n; i++)
        if (b->way[i].refused[0]) return b->way[i].refused;
    return "no micro-batch makes a step of train_batch_size samples";
}

static zr_status check_found(const cli_searched *b)
{
    char needs[128];
    if (b->n_best) return ZR_OK;
    ZR_CHECK(b->n, ZR_ERR_CONFIG, "--search: there is no way to share the model on %d ranks of %s", b->ranks,
             b->cluster.name);
    ZR_CHECK(b->n_missed, ZR_ERR_CONFIG, "--search: none of the ways can be planned on %d ranks of %s; the first: %s",
             b->ranks, b->cluster.name, first_refusal(b));
    const cli_simulated *least = &b->missed[0]->made;
    return ZR_FAIL(ZR_ERR_MEMORY,
                   "--search: nothing fits; stage %lld with parallel.tensor %lld comes nearest and needs %s: use more "
                   "ranks or a smaller model",
                   (long long)b->missed[0]->stage, (long long)b->missed[0]->tensor,
                   cli_needs(b, least->report.memory.total_bytes, least->host_bytes, needs));
}

static zr_status find(search *s)
{
    const char *shown = s->base.args->quiet ? NULL : "ways";
    ZR_TRY(add_ways(s));
    ZR_TRY(cli_many(s->base.n, try_states, s, NULL));
    drop_states(s);
    ZR_TRY(cli_many(s->base.n, try_way, s, shown));
    ZR_TRY(rank(s));
    ZR_TRY(check_found(&s->base));
    return ZR_OK;
}

static space space_of(const search *s, const cli_args *typed)
{
    const cli_brief *brief = &s->base.o->brief;
    space given = {.stage = cli_simulate_typed(typed, brief, "zero_optimization.stage"),
                   .tensor = cli_simulate_typed(typed, brief, "parallel.tensor"),
                   .batch = cli_simulate_typed(typed, brief, "train_micro_batch_size_per_gpu"),
                   .accum = cli_simulate_typed(typed, brief, "gradient_accumulation_steps"),
                   .policy = cli_simulate_typed(typed, brief, "activation_checkpointing.policy"),
                   .kept = cli_simulate_typed(typed, brief, "activation_checkpointing.partition_activations") ||
                           cli_simulate_typed(typed, brief, "activation_checkpointing.cpu_checkpointing") ||
                           cli_simulate_typed(typed, brief, "activation_checkpointing.offload"),
                   .groups = cli_simulate_typed(typed, brief, "zero_optimization.mics_shard_size") ||
                             cli_simulate_typed(typed, brief, "zero_optimization.zero_hpz_partition_size"),
                   .global = zr_config_given(s->config, "train_batch_size")};
    given.every_batch =
        s->base.cluster.device.n_products > 0 || (given.policy && s->config->recompute.policy == ZR_POLICY_AUTO);
    return given;
}

static zr_status search_all(search *s, const cli_args *typed)
{
    cli_searched *b = &s->base;
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    zr_config_inputs(s->config, inputs);
    ZR_TRY(cli_check_stdout(inputs));
    ZR_TRY(cli_cluster(b->o, s->config, b->ranks, &b->cluster, &b->profile));
    ZR_CHECK(b->cluster.device.memory_bytes > 0, ZR_ERR_CONFIG,
             "--search: the memory of a device of %s is not known, and so not what fits it", b->cluster.name);
    cli_cluster_settle(s->config, b->ranks, &b->cluster);
    ZR_CHECK(b->ranks <= b->cluster.devices, ZR_ERR_CONFIG,
             "%d ranks do not fit the %d devices of %s: use fewer ranks or a larger cluster", b->ranks,
             b->cluster.devices, b->cluster.name);
    s->given = space_of(s, typed);
    ZR_TRY(find(s));
    if (b->args->json) ZR_TRY(cli_searched_json(b));
    if (!b->args->json) cli_searched_print(b);
    return ZR_OK;
}

zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o)
{
    search *s = zr_alloc(sizeof(*s));
    ZR_CHECK(s, ZR_ERR_MEMORY, "no memory to search");
    *s = (search){.base = {.args = args, .o = o, .ranks = (int)o->ranks}};
    zr_status st = cli_config(args, s->base.ranks, (int64_t)time(NULL), &s->config, NULL);
    s->base.config = s->config;
    if (st == ZR_OK) st = search_all(s, typed);
    zr_free(s->base.way);
    zr_free(s->base.best);
    zr_free(s->base.missed);
    cli_cluster_clear(&s->base.cluster);
    zr_config_destroy(&s->config);
    zr_free(s);
    return st;
}
