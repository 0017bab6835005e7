/** Choice of values for the keys that a configuration leaves open (zr__config_open): ZeRO stage, recompute policy and
 * micro-batches, and the offload to disk. Each candidate is planned completely and priced. Policy auto itself creates
 * many plans, so it is tried only for candidates that may be the fastest. */
#include "train/setup/setup.h"

#include "base/core/core.h"
#include "base/text/text.h"
#include "config/config.h"
#include "train/host/limits.h"

#include <inttypes.h>
#include <stdio.h>

#define TRIED_MOST 4096
#define SPLITS_MOST 65536 /* maximum number of micro-batches of a training step */
#define BATCH_MOST 65536  /* maximum number of samples of a micro-batch */
/* Two candidates count as equally fast if their seconds per token differ at most by this factor. */
#define ALIKE 1.01
/* Larger micro-batches are tried only if they can save at least this fraction of the time per token. */
#define LEAST_GAIN 0.006
#define SLACK 0.02 /* assumed relative error of the estimated times of policy auto */

/* Rates assumed if the machine's rates are unknown. Only their ratios matter. */
#define USUAL_FLOPS_SEC 1e11
#define USUAL_FLOPS_BYTE 10             /* FLOPs per byte of memory traffic on a processor */
#define USUAL_FLOPS_BYTE_OWN_MEMORY 300 /* FLOPs per byte of memory traffic on a GPU */
#define USUAL_LINK_PART 0.25            /* rate of the link between ranks as a fraction of the memory rate */
#define USUAL_DISK_BYTES_SEC 2e9

typedef struct way {
    int stage;
    zr_recompute policy;
    int64_t rows, accum; /* samples of a micro-batch on each rank; micro-batches of a training step */
} way;

/** A candidate and the results of planning it. */
typedef struct tried {
    way way;
    bool fits, recomputes; /* whether the plan fits memory.limit; whether it recomputes any activations */
    double sec, traffic;   /* seconds per token (FLOPs per token if not search.timed); bytes of traffic per token */
    int64_t needs;         /* bytes of memory.limit that a rank needs (zr__rank_needs) */
    int64_t disk_bytes;    /* bytes of a rank on disk */
    zr__offload offload;
} tried;

typedef struct search {
    const zr_config *config;
    zr__config_open open;
    zr__offload offload; /* degree of offload that is tried */
    int ranks;
    zr_profile profile;
    const zr__train_target *target;
    /* `usual`: whether assumed rates replace unknown rates; `usual_disk`: the same for the rates of the disk; `timed`:
     * whether tried.sec is in seconds and not in FLOPs */
    bool usual, usual_disk, timed;
    int stages[2]; /* first and last stage to try */
    zr__train_kept kept;
    bool keeps; /* whether the plan fits with the micro-batches of the resumed checkpoint (`kept`) */
    int n, n_mixed;
    tried way[TRIED_MOST];
    way mixed[TRIED_MOST]; /* candidates for policy auto; `bound` has lower bounds of their times */
    double bound[TRIED_MOST], value[TRIED_MOST];
    bool left[TRIED_MOST];
    tried least;         /* planned candidate with the least memory; `needs` is 0 until a candidate is planned */
    zr__failure refused; /* status and message of the first candidate that could not be planned */
} search;

void zr__keep_least(int n, const double *value, double alike, bool *left)
{
    double least = -1;
    for (int i = 0; i < n; i++)
        if (left[i] && (least < 0 || value[i] < least)) least = value[i];
    for (int i = 0; i < n; i++) left[i] = left[i] && value[i] <= alike * least;
}

/* ---- one candidate ------------------------------------------------------------------------------ */

static void take_way(const search *s, zr__offload offload, const way *w, zr_config *config)
{
    if (s->open.offload) zr__train_set_offload(config, offload, ZR_HOME_NVME);
    config->zero.stage = w->stage;
    config->recompute.policy = w->policy;
    zr__train_set_batch(config, s->ranks, w->rows, w->accum);
}

static zr_status weigh_way(const search *s, const zr_plan *plan, const way *w, tried *t)
{
    const double tokens = (double)w->rows * (double)w->accum * (double)plan->layout.seq * plan->layout.ranks;
    zr_price price;
    *t = (tried){.way = *w, .needs = zr__rank_needs(&plan->memory, &plan->profile.facts), .offload = s->offload};
    for (int32_t u = 0; u < plan->n_units; u++) t->recomputes |= zr_recomputes(plan->unit[u].recompute);
    if (s->target->price)
        ZR_TRY(s->target->price(s->target->arg, plan, &price));
    else
        ZR_TRY(zr_plan_price(plan, &s->profile, &price));
    for (int i = 0; i < ZR_TRAFFIC_KINDS; i++) t->traffic += (double)plan->traffic.bytes[i] / tokens;
    t->sec = (s->timed ? price.step_sec : plan->flops_hardware) / tokens;
    t->disk_bytes = plan->memory.space[ZR_SPACE_DISK].total_bytes;
    const int64_t disk_bytes = s->target->disk_bytes;
    /* A share that is open may be reduced, which also reduces the bytes on disk. */
    const bool stored = disk_bytes == 0 || t->disk_bytes <= disk_bytes || s->open.optim_ratio || s->open.param_ratio;
    t->fits = t->needs <= s->config->memory.limit_bytes && stored;
    return ZR_OK;
}

/** Plan a candidate. If its sizes overflow or its settings exclude each other, set *planned to false and succeed. For
 * example, all-reduce excludes stage 3, and the noise scale excludes a single micro-batch. */
static zr_status plan_way(search *s, const way *w, tried *t, bool *planned)
{
    zr_config config = *s->config;
    zr_plan *plan = NULL;
    take_way(s, s->offload, w, &config);
    const bool alone = config.train.noise_scale && config.train_batch_size == w->rows;
    zr_status st = alone ? ZR_FAIL(ZR_ERR_CONFIG, "train.gradient_noise_scale with one micro-batch a step")
                         : zr__train_plan(&config, s->ranks, -1, &s->profile, &plan);
    *planned = st == ZR_OK;
    if (st == ZR_ERR_UNSUPPORTED || st == ZR_ERR_CONFIG) {
        zr__failure_note(&s->refused, st);
        return ZR_OK;
    }
    ZR_TRY(st);
    st = weigh_way(s, plan, w, t);
    zr_plan_destroy(&plan);
    if (st == ZR_OK && (s->least.needs == 0 || t->needs < s->least.needs)) s->least = *t;
    return st;
}

/* ---- the policies of a candidate ---------------------------------------------------------------- */

/** Return the estimated time per token of a plan in which some units use the policy `heavy` and all others the policy
 * `light`, which recomputes less. The number of units with `heavy` is the minimum that fits the memory limit. */
static double mixed_sec(const search *s, const tried *heavy, const tried *light)
{
    if (!heavy->fits || light->fits || light->needs <= heavy->needs) return heavy->sec;
    const double over = (double)(light->needs - s->config->memory.limit_bytes);
    return light->sec + (heavy->sec - light->sec) * over / (double)(light->needs - heavy->needs);
}

/** Remember a candidate for policy auto, with a lower bound of its time per token. */
static void note_bound(search *s, const way *w, double bound)
{
    if (s->n_mixed == TRIED_MOST) return;
    s->mixed[s->n_mixed] = *w;
    s->mixed[s->n_mixed].policy = ZR_RECOMPUTE_AUTO;
    s->bound[s->n_mixed++] = bound;
}

static void note_mixed(search *s, const way *w, const tried *none, const tried *selective, const tried *unit)
{
    double bound = mixed_sec(s, unit, none);
    const double others[] = {mixed_sec(s, selective, none), mixed_sec(s, unit, selective)};
    for (int i = 0; i < 2; i++)
        if (others[i] < bound && (i == 1 || selective->fits)) bound = others[i];
    note_bound(s, w, bound);
}

/** Result of trying the recompute policies for a stage and a division into micro-batches. */
typedef struct reached {
    bool planned, fits;
    bool all;   /* whether some plan fits without recompute */
    double sec; /* seconds per token with the first policy, which is "none" unless the user gives another */
} reached;

static zr_status try_policy(search *s, way *w, zr_recompute policy, tried *t, reached *r)
{
    w->policy = policy;
    ZR_TRY(plan_way(s, w, t, &r->planned));
    if (!r->planned) return ZR_OK;
    if (t->fits && s->n < TRIED_MOST) s->way[s->n++] = *t;
    r->fits |= t->fits;
    r->all |= t->fits && !t->recomputes;
    if (r->sec == 0) r->sec = t->sec;
    return ZR_OK;
}

/** Try to store even the outputs of cheap ops (policy keep), since the plan fits with policy none. This saves time only
 * on a device with its own memory. */
static zr_status try_keep(search *s, way w, const tried *none, reached *r)
{
    tried keep;
    ZR_TRY(try_policy(s, &w, ZR_RECOMPUTE_KEEP, &keep, r));
    const double mixed = mixed_sec(s, none, &keep);
    if (r->planned && !keep.fits && mixed * ALIKE < none->sec) note_bound(s, &w, mixed);
    return ZR_OK;
}

/** Try the recompute policies: none; if it fits, keep; else the policies that recompute more. With tensor-parallel
 * ranks, try policy auto second, since it also chooses how these ranks store activation checkpoints. */
static zr_status try_policies(search *s, way w, reached *r)
{
    const bool any = s->config->recompute.policy == ZR_RECOMPUTE_AUTO || s->open.policy;
    tried none, selective, unit;
    *r = (reached){.planned = false};
    ZR_TRY(try_policy(s, &w, any ? ZR_RECOMPUTE_NONE : s->config->recompute.policy, &none, r));
    if (!any || !r->planned) return ZR_OK;
    if (r->fits) return s->timed && s->profile.facts.own_memory ? try_keep(s, w, &none, r) : ZR_OK;
    if (s->config->parallel.tensor > 1) return try_policy(s, &w, ZR_RECOMPUTE_AUTO, &unit, r);
    ZR_TRY(try_policy(s, &w, ZR_RECOMPUTE_SELECTIVE, &selective, r));
    if (r->planned) ZR_TRY(try_policy(s, &w, ZR_RECOMPUTE_UNIT, &unit, r));
    if (r->planned && (double)unit.needs <= (1 + SLACK) * (double)s->config->memory.limit_bytes)
        note_mixed(s, &w, &none, &selective, &unit);
    return ZR_OK;
}

/* ---- micro-batches ------------------------------------------------------------------------------ */

/** Divide the samples of a training step into more and more micro-batches of equal size, until the plan recomputes
 * nothing. Even smaller micro-batches would only increase the traffic. */
static zr_status try_splits(search *s, int stage, int64_t rows)
{
    reached r = {.all = false};
    for (int64_t accum = 1; accum <= rows && accum <= SPLITS_MOST && !r.all; accum++)
        if (rows % accum == 0) ZR_TRY(try_policies(s, (way){stage, ZR_RECOMPUTE_NONE, rows / accum, accum}, &r));
    return ZR_OK;
}

/** Return the micro-batch size to try after `rows`. The sizes are 1, 2, 3 ... 8, 12, 16, 24, 32 ... */
static int64_t next_batch(int64_t rows)
{
    return rows < 8 ? rows + 1 : (rows & (rows - 1)) == 0 ? rows / 2 * 3 : rows / 3 * 4;
}

/** Try larger and larger micro-batches as long as they fit and save time. A larger micro-batch spreads the fixed work
 * of a training step over more samples. The time saved by the last increase bounds the time that all further increases
 * can save. If that is less than LEAST_GAIN of the time, stop. */
static zr_status try_batches(search *s, int stage)
{
    reached r = {.fits = true};
    double sec = 0;
    for (int64_t before = 0, rows = 1; rows <= BATCH_MOST && r.fits; before = rows, rows = next_batch(rows)) {
        ZR_TRY(try_policies(s, (way){stage, ZR_RECOMPUTE_NONE, rows, s->config->accumulation_steps}, &r));
        const double left = (sec - r.sec) * (double)before / (double)(rows - before);
        if (before > 0 && left < LEAST_GAIN * sec) return ZR_OK;
        sec = r.sec;
    }
    return ZR_OK;
}

/* ---- the search --------------------------------------------------------------------------------- */

static bool as_fast(const search *s, double sec)
{
    for (int i = 0; i < s->n; i++)
        if (s->way[i].sec <= sec) return true;
    return false;
}

/** Try policy auto on candidates in the order of the lower bounds of their times. Stop when no other candidate can be
 * faster than the fastest one so far. */
static zr_status try_mixed(search *s)
{
    for (int first = 0; first >= 0;) {
        reached r = {.planned = false};
        tried t;
        first = -1;
        for (int i = 0; i < s->n_mixed; i++)
            if (s->bound[i] > 0 && (first < 0 || s->bound[i] < s->bound[first])) first = i;
        if (first < 0 || as_fast(s, s->bound[first] / (1 + SLACK))) return ZR_OK;
        s->bound[first] = 0;
        ZR_TRY(try_policy(s, &s->mixed[first], ZR_RECOMPUTE_AUTO, &t, &r));
    }
    return ZR_OK;
}

/** Try policy auto if no candidate fits. This policy may find a smaller plan than the other policies: a plan in which
 * several units share a checkpoint. */
static zr_status try_least(search *s)
{
    const bool any = s->config->recompute.policy == ZR_RECOMPUTE_AUTO || s->open.policy;
    for (int stage = s->stages[0]; stage <= s->stages[1] && any && s->n == 0 && s->least.needs > 0; stage++) {
        way w = s->least.way;
        tried t;
        reached r = {.planned = false};
        w.stage = stage;
        ZR_TRY(try_policy(s, &w, ZR_RECOMPUTE_AUTO, &t, &r));
    }
    return ZR_OK;
}

/** Try the division into micro-batches of the resumed checkpoint. Keep this division if it fits. */
static zr_status try_kept(search *s)
{
    const int64_t rows = s->config->micro_batch_size * s->config->accumulation_steps;
    reached r;
    if (!s->open.split || s->kept.rows * s->kept.accum != rows) return ZR_OK;
    for (int stage = s->stages[0]; stage <= s->stages[1]; stage++)
        ZR_TRY(try_policies(s, (way){stage, ZR_RECOMPUTE_NONE, s->kept.rows, s->kept.accum}, &r));
    ZR_TRY(try_mixed(s));
    ZR_TRY(try_least(s));
    s->keeps = s->n > 0;
    return ZR_OK;
}

/** Return the best candidate that fits, or NULL. A candidate must be within a factor ALIKE of the least time. If times
 * are unknown, compare FLOPs instead, and then traffic. Among the candidates left, prefer the lowest stage, then the
 * fewest micro-batches, then the fewest samples. */
static const tried *pick_way(search *s)
{
    enum { SEC, TRAFFIC, STAGE, ACCUM, ROWS, MEASURES };
    for (int i = 0; i < s->n; i++) s->left[i] = true;
    for (int m = SEC; m < MEASURES; m++) {
        if (m == TRAFFIC && s->timed) continue;
        for (int i = 0; i < s->n; i++) {
            const tried *t = &s->way[i];
            const double of[MEASURES] = {t->sec, t->traffic, t->way.stage, (double)t->way.accum, (double)t->way.rows};
            s->value[i] = of[m];
        }
        zr__keep_least(s->n, s->value, m == SEC || m == TRAFFIC ? ALIKE : 1, s->left);
    }
    for (int i = 0; i < s->n; i++)
        if (s->left[i]) return &s->way[i];
    return NULL;
}

/** Replace unknown rates of the profile by assumed rates, if the choice depends on them. */
static void usual_rates(search *s)
{
    zr_machine *m = &s->profile.machine;
    const bool own_memory = s->profile.facts.own_memory, narrow = s->config->bf16 || s->config->fp16;
    double *products = narrow && m->flops_bf16 > 0 ? &m->flops_bf16 : &m->flops_f32;
    const bool alone = s->ranks == 1 || zr__machine_link(m).bytes_sec > 0;
    s->usual_disk = s->open.offload && !s->target->price && m->disk_read_bytes_sec == 0;
    if (s->usual_disk) m->disk_read_bytes_sec = m->disk_write_bytes_sec = USUAL_DISK_BYTES_SEC;
    s->timed = s->target->price || (*products > 0 && m->memory_bytes_sec > 0 && alone);
    if (s->timed || !(s->open.stage || s->open.policy || s->open.batch || s->open.offload)) return;
    s->timed = s->usual = true;
    if (*products == 0) *products = USUAL_FLOPS_SEC;
    if (m->memory_bytes_sec == 0)
        m->memory_bytes_sec = *products / (own_memory ? USUAL_FLOPS_BYTE_OWN_MEMORY : USUAL_FLOPS_BYTE);
    if (!alone) m->link[ZR_LINK_PROCESS].bytes_sec = USUAL_LINK_PART * m->memory_bytes_sec;
}

static void note_choice(const search *s, const tried *best, zr__text *text)
{
    const way *w = &best->way;
    char keys[ZR_OFFLOAD_KEYS_BYTES];
    if (s->open.stage || s->open.policy || s->open.batch || s->open.offload) {
        zr__text_add(text, "chosen for memory.limit %s:", ZR_SIZE((double)s->config->memory.limit_bytes));
        if (s->open.stage) zr__text_add(text, " zero_optimization.stage %d,", w->stage);
        if (s->open.policy) zr__text_add(text, " activation_checkpointing.policy %s,", zr__recompute_name(w->policy));
        if (s->open.split || s->open.batch)
            zr__text_add(text, " train_micro_batch_size_per_gpu %" PRId64 " x gradient_accumulation_steps %" PRId64 ",",
                         w->rows, w->accum);
        if (best->offload)
            zr__text_add(text, " %s (%s a rank on disk),", zr__train_offload_keys(best->offload, ZR_HOME_NVME, keys),
                         ZR_SIZE((double)best->disk_bytes));
        else if (s->open.offload)
            zr__text_add(text, " no offload,");
        const char *by = s->target->price ? "simulated times"
                         : s->usual       ? "usual rates (`zr info --bench` measures this machine's)"
                                          : "the machine's rates";
        if (best->fits)
            zr__text_add(text, " %s a rank: the fastest that fits by %s%s", ZR_SIZE((double)best->needs), by,
                         s->usual_disk && best->offload
                             ? ", with a usual disk (`zr info --bench --disk DIR` measures this one)"
                             : "");
        else
            zr__text_add(text, " which takes the least, %s a rank: nothing fits", ZR_SIZE((double)best->needs));
    } else {
        zr__text_add(text,
                     "gradient_accumulation_steps: auto, set to %" PRId64
                     ", and train_micro_batch_size_per_gpu as %" PRId64 ": %s",
                     w->accum, w->rows,
                     s->keeps           ? "as the checkpoint has it"
                     : !best->fits      ? "nothing fits memory.limit, and this needs the least"
                     : best->recomputes ? "the best of what fits memory.limit"
                                        : "the fewest that fit memory.limit with no activation recomputed");
    }
}

/** Try all candidates with the degree of offload s->offload. */
static zr_status try_all(search *s)
{
    const int64_t rows = s->config->micro_batch_size, accum = s->config->accumulation_steps;
    reached r;
    s->n = s->n_mixed = 0;
    ZR_TRY(try_kept(s));
    for (int stage = s->stages[0]; stage <= s->stages[1] && !s->keeps; stage++)
        ZR_TRY(s->open.split   ? try_splits(s, stage, rows * accum)
               : s->open.batch ? try_batches(s, stage)
                               : try_policies(s, (way){stage, ZR_RECOMPUTE_NONE, rows, accum}, &r));
    ZR_TRY(try_mixed(s));
    return try_least(s);
}

/** Try all candidates with each degree of offload that the configuration leaves open, until a candidate fits. */
static zr_status try_degrees(search *s)
{
    const bool recomputes = s->open.policy || (s->config->recompute.policy != ZR_RECOMPUTE_NONE &&
                                               s->config->recompute.policy != ZR_RECOMPUTE_KEEP);
    const int all = !s->open.offload ? 1 : recomputes ? zr__train_offload_degrees(s->config) : ZR__OFFLOAD_CHECKPOINTS;
    for (int offload = ZR__OFFLOAD_NONE; offload < all && s->n == 0; offload++) {
        if (zr__train_offload_states(offload) == ZR__OFFLOAD_PARAM && s->stages[1] < 3) continue;
        s->offload = offload;
        ZR_TRY(try_all(s));
    }
    return ZR_OK;
}

static zr_status choose_open_keys(search *s, zr_config *config, zr__text *text)
{
    ZR_TRY(try_degrees(s));
    if (s->least.needs == 0) return zr__failure_tell(&s->refused);
    const tried *best = pick_way(s);
    if (!best) best = &s->least;
    note_choice(s, best, text);
    way taken = best->way;
    if (!s->open.policy) taken.policy = config->recompute.policy;
    take_way(s, best->offload, &taken, config);
    return ZR_OK;
}

static zr_status choose_batch_and_more(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                                       zr__text *text)
{
    zr__config_open open = zr__config_get_open(config);
    if (open.batch && kept.accum > 0) {
        const bool given = zr__config_given(config, "gradient_accumulation_steps");
        zr__train_set_batch(config, target->ranks, kept.rows, given ? config->accumulation_steps : kept.accum);
        open.batch = false;
    }
    if (!open.stage && !open.policy && !open.split && !open.batch && !open.offload) return ZR_OK;
    search *s = zr_alloc(sizeof(*s));
    ZR_CHECK(s, ZR_ERR_MEMORY, "no memory to choose");
    s->config = config;
    s->open = open;
    s->ranks = target->ranks;
    s->profile = *target->profile;
    s->target = target;
    s->kept = kept;
    /* Only stage 3 has shards of parameters, which offload_param moves. */
    const bool shards = config->zero.param.device != ZR_HOME_NONE;
    s->stages[0] = !open.stage ? (int)config->zero.stage : shards ? 3 : 0;
    s->stages[1] = open.stage ? 3 : (int)config->zero.stage;
    usual_rates(s);
    const zr_status st = choose_open_keys(s, config, text);
    zr_free(s);
    return st;
}

zr_status zr__train_choose(zr_config *config, const zr__train_target *target, zr__train_kept kept,
                           char note[ZR_TRAIN_NOTE_BYTES])
{
    zr__text text = {0};
    zr_status st = choose_batch_and_more(config, target, kept, &text);
    if (st == ZR_OK) st = zr__train_choose_shares(config, target, &text);
    if (st == ZR_OK && text.failed) st = ZR_FAIL(ZR_ERR_MEMORY, "no memory to describe the choice");
    snprintf(note, ZR_TRAIN_NOTE_BYTES, "%s", st == ZR_OK && text.data ? text.data : "");
    zr__text_clear(&text);
    return st;
}
