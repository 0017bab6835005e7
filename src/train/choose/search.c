/** Enumeration of candidates with given homes of states: pipelines, tensor-parallel degrees, stages, groups of ranks,
 * recompute policies with places of checkpoints, and micro-batches. Each candidate is planned completely and priced.
 * Rules leave out candidates that cannot fit or win:
 *
 * - Memory grows with the micro-batch, so larger ones are not tried after one that does not fit. If the model states
 *   alone do not fit, no policy makes them fit.
 * - A larger micro-batch spreads the fixed work of a step over more samples. The time that the last increase saved
 *   bounds the time that all further increases can save. Stop if this bound is too small, or too small to win.
 * - More offload is slower and takes more host memory. So if a candidate fits, or lacks memory of a host or disk, it is
 *   not tried with more offload.
 * - Less recompute is faster, so a policy that recomputes more is tried only if less does not fit.
 * - Policy auto itself creates many plans, so its candidates are tried in the order of lower bounds of their times.
 * - A pipeline is tried only with at least one micro-batch for each of its ranks, and only if its matrix products and
 * the bubble of its best schedule leave it a chance to win. Its schedule is varied last.
 * - Further keys change the speed of most candidates little, so they are varied last, for the fastest candidates. */
#include "train/choose/search.h"

#include "base/core/grow.h"

#include <math.h>

#define SPLITS_MOST 65536 /* maximum number of micro-batches of a training step */
#define BATCH_MOST 65536  /* maximum number of samples of a micro-batch */
/* Larger micro-batches are tried only if they can save at least this fraction of the time per token. */
#define LEAST_GAIN 0.006
#define KEEP_GAIN 0.05      /* upper bound of the time that policy keep saves, as a fraction */
#define REFINED 4           /* maximum number of candidates for which further keys are varied */
#define REFINED_SLOWER 1.15 /* candidates slower than the best by a larger factor are not varied */
/* Bucket sizes in elements. With large buckets, a whole unit fits one bucket. */
#define SMALL_BUCKET (1 << 22)
#define LARGE_BUCKET (INT64_C(1) << 30)

/* Rates assumed if the machine's rates are unknown. Only their ratios matter. */
#define USUAL_FLOPS_SEC 1e11
#define USUAL_FLOPS_BYTE 10             /* FLOPs per byte of memory traffic on a processor */
#define USUAL_FLOPS_BYTE_OWN_MEMORY 300 /* FLOPs per byte of memory traffic on a GPU */
#define USUAL_LINK_PART 0.25            /* rate of the link between ranks as a fraction of the memory rate */
#define USUAL_DISK_BYTES_SEC 2e9

/* ---- one candidate ------------------------------------------------------------------------------ */

static int64_t data_ranks(const zr__searching *s, const zr__way *w)
{
    return s->q->target->ranks / (w->tensor * w->pipeline);
}

static zr_status weigh(const zr__searching *s, const zr_plans *plans, zr__tried *t)
{
    const zr__question *q = s->q;
    const zr__way *w = &t->way;
    const double tokens = (double)zr__way_tokens(w, q->config, q->target->ranks);
    zr_price price = t->made.simulation.price;
    if (!q->target->cluster) ZR_TRY(zr_plans_price(plans, &s->rates, &price));
    for (int i = 0; i < ZR_TRAFFIC_KINDS; i++) t->traffic += (double)t->made.report.traffic.bytes[i] / tokens;
    t->sec = (s->found->timed ? price.step_sec : t->made.report.flops_hardware) / tokens;
    t->fits = t->made.fits;
    /* if shares are open, a smaller share may put fewer bytes on disk */
    if (q->shares && t->made.disk_bytes > q->target->disk_bytes)
        t->fits = s->limit == 0 || t->made.needs_bytes <= s->limit;
    t->further = zr__way_further(w, q->config, q->free.accum);
    return ZR_OK;
}

zr_status zr__try_way(zr__searching *s, const zr__way *w, zr__tried **tried)
{
    zr__choices *f = s->found;
    ZR_AUTO(zr__plans_clear) zr_plans plans = {0};
    zr_config config = *s->q->config;
    *tried = NULL;
    for (int64_t i = 0; i < f->n && !*tried; i++)
        if (zr__way_alike(&f->tried[i]->way, w, ZR__ALIKE_ALL)) *tried = f->tried[i];
    if (*tried) {
        (*tried)->fits |= (*tried)->bound;
        (*tried)->bound = false;
        return ZR_OK;
    }
    zr__way_set(w, s->q->target->ranks, &config);
    if (w->policy == ZR_RECOMPUTE_AUTO) config.memory.limit_bytes = s->limit;
    ZR_GROW(f->tried, f->room, f->n + 1, "candidates");
    ZR_AUTO_FREE zr__tried *t = zr_alloc(sizeof(*t));
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for a candidate");
    *t = (zr__tried){.way = *w, .number = f->n};
    const bool alone = config.train.noise_scale && data_ranks(s, w) * w->accum == 1;
    zr_status st = alone ? ZR_FAIL(ZR_ERR_CONFIG, "train.gradient_noise_scale with one micro-batch a step")
                         : zr__try(s->q->target, &config, &t->made, s->q->target->cluster ? NULL : &plans);
    if (st == ZR_OK) st = weigh(s, &plans, t);
    if (zr__refused(st)) zr__failure_note(&f->refused, st);
    if (st != ZR_OK) return zr__refused(st) ? ZR_OK : st;
    f->tried[f->n++] = *tried = ZR_TAKE(t);
    if (!f->least || (*tried)->made.share < f->least->made.share) f->least = *tried;
    return ZR_OK;
}

/** Return whether any candidate that fits takes at most `sec` seconds per token. */
static bool as_fast(const zr__searching *s, double sec)
{
    for (int64_t i = 0; i < s->found->n; i++)
        if (s->found->tried[i]->fits && s->found->tried[i]->sec <= sec) return true;
    return false;
}

bool zr__search_fits(const zr__searching *s)
{
    return as_fast(s, INFINITY);
}

/* ---- the policies of a candidate ---------------------------------------------------------------- */

/** Return the estimated time per token of a plan in which some units use the policy `heavy` and all others the policy
 * `light`, which recomputes less. The number of units with `heavy` is the minimum that fits the memory limit. */
static double mixed_sec(const zr__searching *s, const zr__tried *heavy, const zr__tried *light)
{
    const double over = (double)(light->made.needs_bytes - s->limit),
                 saved = (double)(light->made.needs_bytes - heavy->made.needs_bytes);
    if (!heavy->fits || light->fits || saved <= 0) return heavy->sec;
    return light->sec + (heavy->sec - light->sec) * over / saved;
}

/** Remember a candidate for policy auto, with a lower bound of its time per token. */
static zr_status note_bound(zr__searching *s, const zr__way *w, double bound)
{
    if (w->pipeline != s->base.pipeline) return ZR_OK; /* its many plans, for each pipeline rank, would take too long */
    ZR_GROW(s->mixed, s->mixed_room, s->n_mixed + 1, "candidates");
    s->mixed[s->n_mixed] = (struct zr__mixed){*w, bound};
    s->mixed[s->n_mixed++].way.policy = ZR_RECOMPUTE_AUTO;
    return ZR_OK;
}

/** Result of trying the recompute policies with given states and micro-batches. */
typedef struct reached {
    bool fits;
    bool all;   /* whether some plan fits without recompute */
    double sec; /* seconds per token with the first policy, which is "none" unless the user gives another */
} reached;

static bool lacks_room(const zr__searching *s, const zr__tried *t)
{
    const zr__train_target *target = s->q->target;
    return (target->host_bytes > 0 && t->made.host_bytes > target->host_bytes) ||
           (target->disk_bytes > 0 && !s->q->shares && t->made.disk_bytes > target->disk_bytes);
}

bool zr__search_nearly_fits(const zr__searching *s, const zr__tried *t)
{
    return !lacks_room(s, t) && (s->limit == 0 || (double)t->made.needs_bytes <= (1 + ZR__SLACK) * (double)s->limit);
}

/** Return a candidate whose result makes it needless to plan the way `w`, or NULL if there is none. `w` equals the
 * candidate's way, or offloads further kinds of states (zr__way_spares). If the candidate fits, `w` cannot win, since
 * it offloads at least as much and is no faster. If the candidate lacks host memory or space on disk, so does `w`. */
static zr__tried *stand_in(const zr__searching *s, const zr__way *w)
{
    for (int64_t i = 0; i < s->found->n; i++) {
        zr__tried *t = s->found->tried[i];
        if ((t->fits || lacks_room(s, t)) && zr__way_spares(&t->way, w)) return t;
    }
    return NULL;
}

/** Predict the results of a way that cannot fit, because it does not fit with a smaller micro-batch. Extrapolate from
 * the two largest smaller micro-batches, since bytes and seconds of a step grow linearly with the micro-batch. Return
 * NULL if the way must be planned. */
static zr__tried *predict(zr__searching *s, const zr__way *w)
{
    /* candidates with the two largest micro-batches below w->rows; that of `a` is the smaller one */
    const zr__tried *a = NULL, *b = NULL;
    for (int64_t i = 0; i < s->found->n; i++) {
        const zr__tried *t = s->found->tried[i];
        zr__way same = t->way;
        same.rows = w->rows;
        if (t->way.rows >= w->rows || !zr__way_alike(&same, w, ZR__ALIKE_ALL)) continue;
        if (!b || t->way.rows > b->way.rows)
            a = b, b = t;
        else if (!a || t->way.rows > a->way.rows)
            a = t;
    }
    if (!a || b->fits || (b->made.needs_bytes <= s->limit && !lacks_room(s, b))) return NULL;
    zr__tried *guess = &s->guess[w->policy];
    const double ra = (double)a->way.rows, rb = (double)b->way.rows, rows = (double)w->rows,
                 k = (rows - rb) / (rb - ra);
    *guess = *b;
    guess->way = *w;
    guess->made.needs_bytes += (int64_t)(k * (double)(b->made.needs_bytes - a->made.needs_bytes));
    guess->sec = (b->sec * rb + k * (b->sec * rb - a->sec * ra)) / rows;
    return guess;
}

/* Schedules to try if the schedule is free, the configuration's own aside. */
static const struct {
    zr_pipe_schedule schedule;
    int32_t chunks;
} schedules[] = {
    {ZR_PIPELINE_INTERLEAVED, 2}, {ZR_PIPELINE_INTERLEAVED, 4}, {ZR_PIPELINE_ZB_H1, 0}, {ZR_PIPELINE_BREADTH, 2}};
enum { SCHEDULES = sizeof(schedules) / sizeof(*schedules) };

/** Give a way a schedule. Return false if it cannot have it, or not gain by it. */
static bool set_schedule(const zr__searching *s, int i, zr__way *w)
{
    w->schedule = schedules[i].schedule;
    w->chunks = schedules[i].chunks;
    return (w->schedule != ZR_PIPELINE_INTERLEAVED || w->accum % w->pipeline == 0) &&
           (w->schedule != ZR_PIPELINE_BREADTH || w->stage == 3) &&
           w->pipeline * w->chunks <= zr_config_sizes(s->q->config).layers;
}

static double bubble_of(const zr__way *w)
{
    const zr_layout layout = {
        .pipeline = (int)w->pipeline, .pipeline_schedule = w->schedule, .chunks = (int)w->chunks, .accum = w->accum};
    return zr__layout_bubble(&layout);
}

/** Return the part of a step in which a rank is idle by the formula of the best schedule. */
static double least_bubble(const zr__searching *s, zr__way w)
{
    double bubble = bubble_of(&w);
    for (int i = 0; i < SCHEDULES && s->q->free.schedule; i++)
        if (set_schedule(s, i, &w)) bubble = fmin(bubble, bubble_of(&w));
    return isfinite(bubble) ? bubble : 0;
}

/** Plans of a pipeline are long. Plan only one and two micro-batches of a way: their difference and the bubble bound
 * the time per token, and the larger the memory. Set *t to these bounds if the way cannot fit or win. */
static zr_status look_ahead(zr__searching *s, const zr__way *w, zr__tried **t)
{
    const zr__train_target *target = s->q->target;
    zr__tried *guess = &s->guess[w->policy];
    double sec[3];
    *guess = (zr__tried){.way = *w};
    for (int k = 1; k <= 2; k++) {
        zr_config config = *s->q->config;
        zr__way few = *w;
        few.accum = k;
        zr__way_set(&few, target->ranks, &config);
        const zr_status st = zr__try(target, &config, &guess->made, NULL);
        if (zr__refused(st)) return ZR_OK; /* such as a schedule that needs more micro-batches */
        ZR_TRY(st);
        sec[k] = guess->made.simulation.price.compute_sec;
    }
    guess->sec = (sec[2] - sec[1]) / (double)(w->rows * data_ranks(s, w) * s->q->config->data.seq_length) /
                 (1 - least_bubble(s, *w));
    /* a pipeline is a further key, which must save more than a tie */
    if (!guess->made.fits || as_fast(s, ZR__TIE * guess->sec)) *t = guess;
    return ZR_OK;
}

static zr_status try_policy(zr__searching *s, zr__way w, zr_recompute policy, zr__tried **t, reached *r)
{
    w.policy = policy;
    if (!zr_recomputes(policy)) zr__way_drop_checkpoints(&w);
    *t = stand_in(s, &w);
    if (!*t && s->q->free.batch) *t = predict(s, &w);
    if (!*t && w.pipeline != s->base.pipeline) ZR_TRY(look_ahead(s, &w, t));
    if (!*t) ZR_TRY(zr__try_way(s, &w, t));
    if (!*t) return ZR_OK;
    r->fits |= (*t)->fits;
    r->all |= (*t)->fits && !(*t)->made.recomputes;
    if (r->sec == 0) r->sec = (*t)->sec;
    return ZR_OK;
}

/** Try a policy that recomputes, with whole checkpoints and, if that is free, with partitioned ones. Set *t to the last
 * of these that could be planned. */
static zr_status try_pieces(zr__searching *s, zr__way w, zr_recompute policy, zr__tried **t, reached *r)
{
    zr__tried *pieces = NULL;
    ZR_TRY(try_policy(s, w, policy, t, r));
    if (!s->q->free.pieces || w.tensor == 1 || w.pieces || !zr_recomputes(policy)) return ZR_OK;
    w.pieces = true;
    ZR_TRY(try_policy(s, w, policy, &pieces, r));
    if (pieces) *t = pieces;
    return ZR_OK;
}

/** Try to store even the outputs of cheap ops (policy keep), since the plan fits with policy none. This saves time only
 * on a device with its own memory. */
static zr_status try_keep(zr__searching *s, const zr__way *w, const zr__tried *none, reached *r)
{
    zr__tried *keep;
    ZR_TRY(try_policy(s, *w, ZR_RECOMPUTE_KEEP, &keep, r));
    if (!keep || keep->fits) return ZR_OK;
    const double mixed = mixed_sec(s, none, keep);
    return mixed * ZR__TIE < none->sec ? note_bound(s, w, mixed) : ZR_OK;
}

/** Try the recompute policies: none; if it fits, keep; else the policies that recompute more. */
static zr_status try_policies(zr__searching *s, const zr__way *w, reached *r)
{
    zr__tried *none, *selective, *unit = NULL;
    *r = (reached){.fits = false};
    if (!s->any_policy) return try_pieces(s, *w, w->policy, &none, r);
    ZR_TRY(try_policy(s, *w, ZR_RECOMPUTE_NONE, &none, r));
    if (!none || (s->limit > 0 && none->made.report.memory.states_bytes > s->limit)) return ZR_OK;
    const bool keeps = s->found->timed && s->rates.facts.own_memory && w->pipeline == s->base.pipeline;
    if (none->fits) return keeps ? try_keep(s, w, none, r) : ZR_OK;
    ZR_TRY(try_pieces(s, *w, ZR_RECOMPUTE_SELECTIVE, &selective, r));
    if (selective && selective->fits) return note_bound(s, w, mixed_sec(s, selective, none));
    ZR_TRY(try_pieces(s, *w, ZR_RECOMPUTE_UNIT, &unit, r)); /* other systems may lack the policy selective */
    if (!selective || !unit || !zr__search_nearly_fits(s, unit)) return ZR_OK;
    /* Policy auto knows only the limit of the device. It would choose a plan like `selective`, which is within this
     * limit but lacks memory of a host or disk. */
    if (lacks_room(s, selective) && selective->made.needs_bytes <= s->limit) return ZR_OK;
    const double bound = mixed_sec(s, unit, none), other = mixed_sec(s, unit, selective);
    return note_bound(s, w, bound < other ? bound : other);
}

/* ---- micro-batches ------------------------------------------------------------------------------ */

/** Divide the samples of a training step into more and more micro-batches of equal size, until the plan recomputes
 * nothing. Even smaller micro-batches would only increase the traffic. */
static zr_status try_splits(zr__searching *s, zr__way w, int64_t rows)
{
    reached r = {.all = false};
    for (w.accum = 1; w.accum <= rows && w.accum <= SPLITS_MOST && !r.all; w.accum++) {
        w.rows = rows / w.accum;
        if (rows % w.accum == 0 && w.rows <= BATCH_MOST) ZR_TRY(try_policies(s, &w, &r));
    }
    return ZR_OK;
}

/** Return the micro-batch size to try after `rows`. The sizes are 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 ... */
static int64_t next_batch(int64_t rows)
{
    return rows < 4 ? rows + 1 : (rows & (rows - 1)) == 0 ? rows / 2 * 3 : rows / 3 * 4;
}

/** Return whether a step of a way has at most the tokens that the question allows. */
static bool is_allowed(const zr__searching *s, const zr__way *w)
{
    const double tokens = (double)(w->rows * w->accum * data_ranks(s, w)) * (double)s->q->config->data.seq_length;
    return s->q->step_tokens == 0 || w->rows * w->accum == 1 || tokens <= (double)s->q->step_tokens;
}

/** Return the samples of a rank in a step. */
static int64_t rows_of_step(const zr__searching *s, const zr__way *w)
{
    return s->q->config->train_batch_size / data_ranks(s, w);
}

/** Set the micro-batches of a pipeline, if their number is free, to as many as a step may have: for an open step in
 * whole rounds of all pipeline ranks, and for train_batch_size with the next size that divides it. More of them shorten
 * the bubble. Return false if they are fewer than pipeline ranks. */
static bool fill_step(const zr__searching *s, zr__way *w)
{
    const zr__free *free = &s->q->free;
    if (w->pipeline == 1 || !(free->split || free->accum)) return true;
    if (free->split) {
        const int64_t rows = rows_of_step(s, w);
        while (w->rows <= rows && rows % w->rows != 0) w->rows = next_batch(w->rows);
        w->accum = rows / w->rows;
    } else {
        const int64_t most = s->q->step_tokens / (w->rows * data_ranks(s, w) * s->q->config->data.seq_length);
        w->accum = most / w->pipeline * w->pipeline;
    }
    return w->accum >= w->pipeline && w->accum <= SPLITS_MOST;
}

/** Try larger and larger micro-batches as long as they fit and save enough time. */
static zr_status try_batches(zr__searching *s, zr__way w)
{
    reached r = {.fits = true};
    double sec = 0;
    for (int64_t before = 0; w.rows <= BATCH_MOST && fill_step(s, &w) && is_allowed(s, &w);
         before = w.rows, w.rows = next_batch(w.rows)) {
        ZR_TRY(try_policies(s, &w, &r));
        if (!r.fits) return ZR_OK;
        const double left = (sec - r.sec) * (double)before / (double)(w.rows - before);
        if (sec > 0 && (left < LEAST_GAIN * sec || as_fast(s, (1 - KEEP_GAIN) * (r.sec - left)))) return ZR_OK;
        sec = r.sec;
    }
    return ZR_OK;
}

static zr_status try_states(zr__searching *s, zr__way w)
{
    reached r;
    if (s->q->free.split && w.pipeline == s->base.pipeline) return try_splits(s, w, rows_of_step(s, &w));
    if (!s->q->free.batch && !s->q->free.split) return fill_step(s, &w) ? try_policies(s, &w, &r) : ZR_OK;
    w.rows = 1;
    return try_batches(s, w);
}

/* ---- kinds of states ---------------------------------------------------------------------------- */

/** Return the size of a group that consists of the data-parallel ranks of one host. Return 0 if the data-parallel ranks
 * do not form several such groups of equal size. */
static int64_t host_group(const zr__searching *s, const zr__way *w)
{
    const int64_t host = s->q->target->host_ranks, group = host / w->tensor, all = data_ranks(s, w);
    return host % w->tensor == 0 && group > 1 && group < all && all % group == 0 ? group : 0;
}

/** Try a stage without groups of ranks. Then, if these keys are free, try groups of one host: MiCS groups and, at stage
 * 3, hpZ groups. */
static zr_status try_groups(zr__searching *s, zr__way w)
{
    const bool open = s->q->free.groups && w.pipeline == s->base.pipeline; /* a pipeline needs no such groups to fit */
    const int64_t host = open ? host_group(s, &w) : 0;
    ZR_TRY(try_states(s, w));
    if (host == 0) return ZR_OK;
    w.mics = host;
    if (w.stage > 0) ZR_TRY(try_states(s, w));
    w.mics = -1;
    w.hpz = host;
    return w.stage == 3 ? try_states(s, w) : ZR_OK;
}

static bool degree_works(const zr__searching *s, const zr__way *w, int64_t tensor)
{
    const zr_config *config = s->q->config;
    const int64_t ranks = s->q->target->ranks / w->pipeline;
    if (tensor == s->base.tensor && w->pipeline == s->base.pipeline) return true;
    return zr_config_sizes(config).heads % tensor == 0 && ranks % tensor == 0 &&
           (!s->q->free.split || config->train_batch_size % (ranks / tensor) == 0);
}

int64_t zr__search_next_degree(const zr__searching *s, const zr__way *w, int64_t tensor)
{
    const int64_t ranks = s->q->target->ranks / w->pipeline, host = s->q->target->host_ranks,
                  wide = w->pipeline == s->base.pipeline ? 2 * host : host,
                  most = host > 0 && wide < ranks ? wide : ranks;
    if (!s->q->free.tensor) return tensor == 0 && degree_works(s, w, s->base.tensor) ? s->base.tensor : 0;
    for (tensor++; tensor <= most; tensor++)
        if (degree_works(s, w, tensor)) return tensor;
    return 0;
}

/* ---- pipelines ---------------------------------------------------------------------------------- */

/** Return a lower bound of the time per token of a pipeline: the least time of computing that was found, without
 * recompute, and the bubble. */
static double pipeline_bound(const zr__searching *s, zr__way w)
{
    double sec = INFINITY;
    for (int64_t i = 0; i < s->found->n; i++) {
        const zr__tried *t = s->found->tried[i];
        const zr_report *report = &t->made.report;
        const double step_sec = t->made.simulation.price.step_sec;
        sec = fmin(sec, t->sec * t->made.simulation.price.compute_sec / step_sec * report->flops_model /
                            report->flops_hardware);
    }
    return isfinite(sec) ? sec / (1 - least_bubble(s, w)) : 0;
}

/** Return whether a pipeline has enough micro-batches and may be faster than what was found. */
static bool pipeline_works(const zr__searching *s, zr__way w)
{
    const zr__question *q = s->q;
    if (w.pipeline == s->base.pipeline) return true;
    if (q->free.batch || q->free.split) w.rows = 1;
    /* a pipeline is a further key, which must save more than a tie */
    return fill_step(s, &w) && w.accum >= w.pipeline && !as_fast(s, ZR__TIE * pipeline_bound(s, w));
}

/** Return the number of pipeline ranks to try after `pipeline`, or the first if this is 0. Return 0 after the last. */
static int64_t next_pipeline(const zr__searching *s, int64_t pipeline)
{
    const int64_t ranks = s->q->target->ranks, layers = zr_config_sizes(s->q->config).layers;
    if (!s->q->free.pipeline || s->found->tier > ZR__TIER_DEVICE) return pipeline == 0 ? s->base.pipeline : 0;
    for (pipeline++; pipeline <= ranks && pipeline <= layers && pipeline <= ZR_ROLES; pipeline++)
        if (ranks % pipeline == 0) return pipeline;
    return 0;
}

/** Try other schedules of a pipeline. Set *from to the fastest. */
static zr_status vary_schedule(zr__searching *s, const zr__tried **from)
{
    const zr__tried *best = *from;
    zr__tried *t;
    for (int i = 0; i < SCHEDULES && s->q->free.schedule && best->way.pipeline > 1; i++) {
        zr__way w = (*from)->way;
        if (!set_schedule(s, i, &w)) continue;
        ZR_TRY(zr__try_way(s, &w, &t));
        if (t && t->fits && t->sec < best->sec) best = t;
    }
    *from = best;
    return ZR_OK;
}

zr_status zr__search_mixed(zr__searching *s)
{
    for (struct zr__mixed *first;;) {
        zr__tried *t;
        first = NULL;
        for (struct zr__mixed *m = s->mixed; m < s->mixed + s->n_mixed; m++)
            if (m->bound > 0 && (!first || m->bound < first->bound)) first = m;
        if (!first || as_fast(s, first->bound / (1 + ZR__SLACK))) {
            s->n_mixed = 0;
            return ZR_OK;
        }
        first->bound = 0;
        ZR_TRY(zr__try_way(s, &first->way, &t));
    }
}

/** Try the division into micro-batches of the resumed checkpoint. Keep this division if it fits. */
static zr_status try_kept(zr__searching *s)
{
    const zr__train_kept *kept = &s->q->kept;
    zr__way w = s->base;
    reached r;
    if (!s->q->free.split || kept->rows * kept->accum != rows_of_step(s, &w)) return ZR_OK;
    w.rows = kept->rows;
    w.accum = kept->accum;
    for (w.stage = s->stages[0]; w.stage <= s->stages[1]; w.stage++) ZR_TRY(try_policies(s, &w, &r));
    ZR_TRY(zr__search_mixed(s));
    s->found->keeps = zr__search_fits(s);
    return ZR_OK;
}

/** Return the least time per token of what fits. */
static double least_sec(const zr__searching *s)
{
    double sec = INFINITY;
    for (int64_t i = 0; i < s->found->n; i++)
        if (s->found->tried[i]->fits) sec = fmin(sec, s->found->tried[i]->sec);
    return sec;
}

static zr_status try_degrees(zr__searching *s, zr__way w)
{
    for (w.tensor = zr__search_next_degree(s, &w, 0); w.tensor > 0;
         w.tensor = zr__search_next_degree(s, &w, w.tensor)) {
        if (!pipeline_works(s, w)) continue;
        for (w.stage = s->stages[0]; w.stage <= s->stages[1]; w.stage++)
            if (zr__train_offload_states(w.offload) != ZR__OFFLOAD_PARAM || w.stage == 3) ZR_TRY(try_groups(s, w));
    }
    return ZR_OK;
}

zr_status zr__search_all(zr__searching *s)
{
    zr__way w = s->base;
    ZR_TRY(try_kept(s));
    for (w.pipeline = next_pipeline(s, 0); w.pipeline > 0 && !s->found->keeps;
         w.pipeline = next_pipeline(s, w.pipeline)) {
        const double before = least_sec(s);
        ZR_TRY(try_degrees(s, w));
        /* a longer pipeline has a longer bubble, and must save more than a tie */
        if (w.pipeline > s->base.pipeline && isfinite(before) && ZR__TIE * least_sec(s) >= before) break;
    }
    return ZR_OK;
}

/* ---- further keys ------------------------------------------------------------------------------- */

/** Try a variant of a candidate, unless it changes a key that is not free. If it fits and `grows` is true, try larger
 * micro-batches too. */
static zr_status try_variant(zr__searching *s, const zr__tried *from, zr__way w, bool grows)
{
    const zr__free *free = &s->q->free;
    const zr__moves *a = &from->way.moves, *b = &w.moves;
    const bool closed =
        (!free->buckets && b->bucket_elems != a->bucket_elems) || (!free->overlap && b->overlap != a->overlap) ||
        (!free->prefetch && b->prefetch_elems != a->prefetch_elems) || (!free->levels && b->levels != a->levels) ||
        (b->once != a->once && (!free->once || data_ranks(s, &w) == 1));
    zr__tried *t;
    if (closed || !is_allowed(s, &w)) return ZR_OK;
    ZR_TRY(zr__try_way(s, &w, &t));
    for (double sec = 0; grows && s->q->free.batch && t && t->fits && w.rows < BATCH_MOST;) {
        if (sec > 0 && t->sec > (1 - LEAST_GAIN) * sec) return ZR_OK;
        sec = t->sec;
        w.rows = next_batch(w.rows);
        if (!is_allowed(s, &w)) return ZR_OK;
        ZR_TRY(zr__try_way(s, &w, &t));
    }
    return ZR_OK;
}

/** Vary buckets, prefetch, overlap, hierarchical collectives (`levels`), and reduction once per step (`once`). */
static zr_status vary_moves(zr__searching *s, const zr__tried *from)
{
    const zr_config_switch on = ZR_SWITCH_ON, off = ZR_SWITCH_OFF, levels = from->way.moves.levels,
                           both = from->way.tensor > 1 ? on : ZR_SWITCH_AUTO, /* with tensor ranks, auto means off */
        other = levels == off || (levels == ZR_SWITCH_AUTO && both == on) ? both : off, has = from->way.moves.overlap;
    const int64_t large = LARGE_BUCKET, small = SMALL_BUCKET;
    const bool had = from->way.moves.once;
    const zr__moves to[] = {
        {large, -1, has, levels, had},   {small, -1, has, levels, had},  {0, -1, off, levels, had},
        {small, -1, off, levels, had},   {0, -1, has, other, had},       {large, -1, has, other, had},
        {large, large, on, levels, had}, {large, large, on, other, had}, {0, large, on, levels, had},
        {0, -1, has, levels, !had},      {large, -1, has, levels, !had}, {0, -1, has, other, !had},
        {large, large, on, levels, !had}};
    for (size_t i = 0; i < sizeof(to) / sizeof(*to); i++) {
        zr__way w = from->way;
        w.moves = to[i];
        ZR_TRY(try_variant(s, from, w, to[i].bucket_elems == small || to[i].overlap == off));
    }
    return ZR_OK;
}

/** Vary spacings and places of checkpoints. With a spacing larger than twice the square
 * root of the number of layers, recomputation needs more memory than it saves. */
static zr_status vary_checkpoints(zr__searching *s, const zr__tried *from)
{
    const zr__free *free = &s->q->free;
    const int64_t layers = zr_config_sizes(s->q->config).layers;
    static const zr_recompute policies[] = {ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    for (int i = 0; i < 2; i++) {
        zr__way w = from->way;
        if (!free->policy && w.policy != policies[i]) continue;
        w.policy = policies[i];
        for (w.every = 1; free->every && i == 1 && w.every < layers && w.every * w.every <= layers;) {
            w.every *= 2;
            ZR_TRY(try_variant(s, from, w, true));
        }
        w.every = from->way.every;
        w.kept = ZR_OFFLOAD_HOST;
        w.pieces = free->pieces ? w.tensor > 1 : w.pieces;
        if (free->places && s->rates.facts.own_memory) ZR_TRY(try_variant(s, from, w, true));
    }
    return ZR_OK;
}

zr_status zr__search_refine(zr__searching *s)
{
    const zr__free *free = &s->q->free;
    const zr__choices *f = s->found;
    const zr__tried *from[REFINED];
    int n = 0;
    if (!(free->every || free->places || free->accum || free->buckets || free->prefetch || free->overlap ||
          free->levels || free->once || free->schedule))
        return ZR_OK;
    zr__prefer(s->found);
    for (; n < REFINED; n++) {
        from[n] = NULL;
        for (int64_t i = 0; i < f->n; i++) {
            const zr__tried *t = f->tried[i], *best = from[n];
            bool other = t->fits && t->sec < REFINED_SLOWER * f->best->sec;
            for (int k = 0; k < n; k++) other = other && !zr__way_alike(&from[k]->way, &t->way, ZR__ALIKE_HOMES);
            if (other &&
                (!best || t->sec < best->sec || (t->sec == best->sec && t->made.needs_bytes < best->made.needs_bytes)))
                from[n] = t;
        }
        if (!from[n]) break;
    }
    for (int k = 0; k < n; k++) {
        ZR_TRY(vary_schedule(s, &from[k]));
        for (int64_t accum = 2; free->accum && !free->split && from[k]->way.pipeline == 1 && accum <= 8; accum *= 2) {
            zr__way w = from[k]->way;
            w.accum = accum;
            ZR_TRY(try_variant(s, from[k], w, false));
        }
        if (free->accum && free->pipeline && !free->split && from[k]->way.pipeline == 1) {
            zr__way w = from[k]->way; /* a step as large as that of a pipeline */
            w.accum = s->q->step_tokens / (w.rows * data_ranks(s, &w) * s->q->config->data.seq_length);
            if (w.accum > 8 && w.accum <= SPLITS_MOST) ZR_TRY(try_variant(s, from[k], w, false));
        }
        /* With offload, transfers to host memory or disk determine the time; the variants below would not shorten it */
        if (f->tier > ZR__TIER_LIGHTER) continue;
        if (from[k]->way.pipeline != s->base.pipeline) continue; /* plans of pipelines are long */
        ZR_TRY(vary_checkpoints(s, from[k]));
        ZR_TRY(vary_moves(s, from[k]));
    }
    return ZR_OK;
}

/* ---- a question ---------------------------------------------------------------------------------- */

/** Replace unknown rates by assumed rates, if the choice depends on them. */
static void usual_rates(zr__searching *s)
{
    const zr__question *q = s->q;
    const zr__free *free = &q->free;
    zr__choices *f = s->found;
    zr_machine *m = &s->rates.machine;
    const bool own_memory = s->rates.facts.own_memory, narrow = q->config->bf16 || q->config->fp16;
    double *products = narrow && m->flops_bf16 > 0 ? &m->flops_bf16 : &m->flops_f32;
    const bool alone = q->target->ranks == 1 || zr__machine_link(m).bytes_sec > 0;
    f->usual_disk = free->disk && !q->target->cluster && m->disk_read_bytes_sec == 0;
    if (f->usual_disk) m->disk_read_bytes_sec = m->disk_write_bytes_sec = USUAL_DISK_BYTES_SEC;
    f->timed = q->target->cluster || (*products > 0 && m->memory_bytes_sec > 0 && alone);
    if (f->timed || !(free->stage || free->policy || free->batch || free->disk)) return;
    f->timed = f->usual = true;
    if (*products == 0) *products = USUAL_FLOPS_SEC;
    if (m->memory_bytes_sec == 0)
        m->memory_bytes_sec = *products / (own_memory ? USUAL_FLOPS_BYTE_OWN_MEMORY : USUAL_FLOPS_BYTE);
    if (!alone) m->link[ZR_LINK_PROCESS].bytes_sec = USUAL_LINK_PART * m->memory_bytes_sec;
}

void zr__search_begin(zr__searching *s, const zr__question *q, zr__choices *found)
{
    /* With offload_param try only stage 3, since only this stage has shards of parameters to move. Differences need
     * whole parameters. */
    const int64_t stage = q->config->zero.stage, first = q->config->zero.param.device != ZR_HOME_NONE ? 3 : 0,
                  last = q->config->zero.quantized_weights == ZR_SWITCH_ON && q->config->quantization.weight_differences
                             ? 2
                             : 3;
    *s = (zr__searching){.q = q,
                         .found = found,
                         .rates = q->target->rates ? *q->target->rates : *q->target->profile,
                         .base = zr__way_of(q->config),
                         .limit = zr__limit_of(q->target, q->config),
                         .any_policy = q->free.policy || q->config->recompute.policy == ZR_RECOMPUTE_AUTO,
                         .tiers = q->free.host && q->target->profile->facts.own_memory,
                         .stages = {q->free.stage ? first : stage, q->free.stage ? last : stage}};
    usual_rates(s);
}

void zr__choices_clear(zr__choices *found)
{
    for (int64_t i = 0; i < found->n; i++) zr_free(found->tried[i]);
    zr_free(found->tried);
    zr_free(found->listed);
    *found = (zr__choices){0};
}
