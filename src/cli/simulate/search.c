/** `zr simulate --search`: ask train/choose for the fastest configuration that fits. All keys that the command line
 * does not give are free. */
#include "cli/plan/choices.h"
#include "cli/shell/config.h"
#include "cli/simulate/search.h"

#include "base/text/text.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- the question ------------------------------------------------------------------------------- */

/** Return the keys that stay free: those that the command line does not give. The number of micro-batches in a step is
 * free only with --step-tokens. train_batch_size is not free if the file gives it. */
static zr__free free_keys(const cli_searched *s, const cli_args *typed)
{
#define OPEN(key) (!cli_simulate_typed(typed, &s->o->brief, key))
#define ZERO(key) OPEN("zero_optimization." key)
    const bool batch = OPEN("train_micro_batch_size_per_gpu"), accum = OPEN("gradient_accumulation_steps"),
               samples = zr__config_given(s->config, "train_batch_size");
    const bool place = OPEN("activation_checkpointing.cpu_checkpointing") && OPEN("activation_checkpointing.offload") &&
                       s->config->recompute.offload != ZR_OFFLOAD_DISK,
               pieces = OPEN(ZR__PIECES_KEY);
    const bool homes = ZERO("offload_optimizer") && ZERO("offload_param") && zr__train_offload_open(s->config) &&
                       s->config->zero.optim.device == ZR_HOME_NONE;
    const zr_config *c = s->config;
    /* a schedule file or units fit one number of ranks, stages and micro-batches only */
    const bool whole = !c->parallel.units && !c->parallel.schedule_file,
               several = samples || (accum && s->o->step_tokens > 0) || c->accumulation_steps > 1,
               pipeline = OPEN("parallel.pipeline") && whole && several;
    return (zr__free){.stage = ZERO("stage"),
                      .policy = OPEN("activation_checkpointing.policy"),
                      .split = samples && batch && accum,
                      .batch = batch && !samples,
                      .pieces = pieces && place,
                      .host = homes,
                      .disk = homes,
                      .kept = place,
                      .lighter = ZERO("stage3_prefetch_bucket_size") && ZERO("overlap_comm"),
                      .tensor = OPEN("parallel.tensor"),
                      .pipeline = pipeline,
                      .schedule = OPEN("parallel.schedule") && OPEN("parallel.chunks") && whole &&
                                  (pipeline || c->parallel.pipeline > 1),
                      .groups = ZERO("mics_shard_size") && ZERO("zero_hpz_partition_size"),
                      .every = OPEN("activation_checkpointing.every"),
                      .places = place && pieces,
                      .accum = accum && !samples && s->o->step_tokens > 0,
                      .buckets = ZERO("reduce_bucket_size") && ZERO("allgather_bucket_size"),
                      .prefetch = ZERO("stage3_prefetch_bucket_size"),
                      .overlap = ZERO("overlap_comm"),
                      .levels = OPEN("collectives.hierarchical"),
                      .once = OPEN("gradient_reduction") && c->zero.quantized_gradients != ZR_SWITCH_ON};
#undef ZERO
#undef OPEN
}

/** Return whether another system can have a degree of tensor or pipeline parallelism, or with both 1 an offload, at any
 * stage. */
static bool can_have(zr__run run, int64_t tensor, int64_t pipeline)
{
    zr_config config = *run.config;
    const bool away = tensor * pipeline == 1;
    config.parallel.tensor = tensor;
    config.parallel.pipeline = pipeline;
    for (config.zero.stage = 0; config.zero.stage < 4; config.zero.stage++) {
        if (away) config.zero.optim.device = ZR_HOME_CPU;
        if (away && config.zero.stage == 3) config.zero.param.device = ZR_HOME_CPU;
        zr__run_follow(&run, &config);
        if (zr__run_possible(&run) == ZR_OK) return true;
    }
    return false;
}

/** Return whether another system can have any degree above 1. */
static bool can_divide(const zr__run *run, bool layers)
{
    for (int64_t degree = 2; degree <= run->ranks; degree++)
        if (run->ranks % degree == 0 && can_have(*run, layers ? 1 : degree, layers ? degree : 1)) return true;
    return false;
}

/** Return the free keys that another system has too, and does not give by options of its own. */
static zr__free other_keys(const zr__run *run, zr__free all)
{
    const zr__system *system = run->system;
    const bool away = can_have(*run, 1, 1), pipeline = all.pipeline && can_divide(run, true);
    return (zr__free){.stage = all.stage && (system->stages & (system->stages - 1)),
                      .policy = all.policy && !zr__with_given(run, system->recompute_option),
                      .split = all.split,
                      .batch = all.batch,
                      .host = all.host && away,
                      .disk = all.disk && away,
                      .tensor = all.tensor && can_divide(run, false),
                      .pipeline = pipeline,
                      .schedule = all.schedule && system->chunks_option &&
                                  !zr__with_given(run, system->chunks_option) &&
                                  (pipeline || run->config->parallel.pipeline > 1),
                      .accum = all.accum};
}

/* ---- what is printed ---------------------------------------------------------------------------- */

static int by_need(const void *a, const void *b)
{
    const zr__tried *x = *(const zr__tried *const *)a, *y = *(const zr__tried *const *)b;
    const int64_t more = x->made.needs_bytes - y->made.needs_bytes;
    return more > 0 ? 1 : more < 0 ? -1 : x->number < y->number ? -1 : 1;
}

static int by_speed(const void *a, const void *b)
{
    const zr__tried *x = *(const zr__tried *const *)a, *y = *(const zr__tried *const *)b;
    if (x->sec != y->sec) return x->sec < y->sec ? -1 : 1;
    return by_need(a, b);
}

/** Of candidates that are alike, keep only the first. Drop candidates that are like one of `others`. Return the number
 * left. */
static int64_t keep_first(const zr__tried **list, int64_t n, zr__likeness likeness, const zr__tried **others,
                          int64_t n_others)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        bool first = true;
        for (int64_t k = 0; k < kept + n_others && first; k++)
            first = !zr__way_alike(&(k < kept ? list[k] : others[k - kept])->way, &list[i]->way, likeness);
        if (first) list[kept++] = list[i];
    }
    return kept;
}

static zr_status rank_ways(cli_searched *s)
{
    const zr__choices *f = &s->found;
    const size_t bytes = (size_t)(f->n + 1) * sizeof(*s->best);
    s->best = zr_alloc(bytes);
    s->missed = zr_alloc(bytes);
    ZR_CHECK(s->best && s->missed, ZR_ERR_MEMORY, "no memory for %lld ways", (long long)f->n);
    if (f->best) s->best[s->n_best++] = f->best;
    for (int64_t i = 0; i < f->n; i++) {
        const zr__tried *t = f->tried[i];
        if (t->fits && t != f->best) s->best[s->n_best++] = t;
        if (!t->fits) s->missed[s->n_missed++] = t;
    }
    if (s->n_best > 1) qsort(s->best + 1, (size_t)s->n_best - 1, sizeof(*s->best), by_speed);
    qsort(s->missed, (size_t)s->n_missed, sizeof(*s->missed), by_need);
    s->n_best = keep_first(s->best, s->n_best, ZR__ALIKE_POLICY, NULL, 0);
    s->ways = s->n_best + keep_first(s->missed, s->n_missed, ZR__ALIKE_POLICY, s->best, s->n_best);
    s->n_missed = keep_first(s->missed, s->n_missed, ZR__ALIKE_STATES, s->best, s->n_best);
    return ZR_OK;
}

const char *cli_needs(const cli_searched *s, const cli_trial *made, char text[128])
{
    const cli_target *t = &s->target;
    const int64_t has = t->cluster.device.memory_bytes, limit = t->limit_bytes, host = s->where.host_bytes;
    char beside[48] = "for nvidia-smi";
    if (!t->other.system) snprintf(beside, sizeof(beside), "(%s aside included)", cli_beside(&t->profile.facts));
    if (made->needs_bytes > limit)
        snprintf(text, 128, "%s %s of %s %s", ZR_SIZE((double)made->needs_bytes), beside,
                 made->needs_bytes > has ? "a device's" : "memory.limit's",
                 ZR_SIZE((double)(made->needs_bytes > has ? has : limit)));
    else if (host > 0 && made->host_bytes > host)
        snprintf(text, 128, "%s of a host's %s", ZR_SIZE((double)made->host_bytes), ZR_SIZE((double)host));
    else
        snprintf(text, 128, "%s of --disk %s", ZR_SIZE((double)made->disk_bytes), ZR_SIZE((double)t->disk_bytes));
    return text;
}

static zr_status check_found(const cli_searched *s)
{
    const zr__choices *f = &s->found;
    ZR_AUTO(zr__text_clear) zr__text asked = {0};
    if (f->best) return ZR_OK;
    ZR_CHECK(f->least, ZR_ERR_CONFIG, "--search: none of the ways can be planned on %d ranks of %s; the first: %s",
             s->target.ranks, s->target.cluster.name,
             f->refused.status ? f->refused.message : "no micro-batch makes a step of train_batch_size samples");
    const zr__way *w = &f->least->way;
    char policy[CLI_CHOICE_BYTES], needs[128];
    zr__add_question(&s->question, w, &asked);
    return ZR_FAIL(ZR_ERR_MEMORY,
                   "--search: nothing fits; stage %lld with recompute %s and parallel.tensor %lld comes nearest, and "
                   "needs %s: use more ranks or a smaller model. Asked: %s",
                   (long long)w->stage, cli_choice_name(f->least, w->tensor > 1, policy), (long long)w->tensor,
                   cli_needs(s, &f->least->made, needs), asked.data ? asked.data : "");
}

static zr_status search_all(cli_searched *s, zr_config *config, const cli_args *typed)
{
    ZR_TRY(cli_check_outputs(config, NULL));
    ZR_TRY(cli_simulate_target(s->o, config, s->target.ranks, &s->target));
    ZR_CHECK(s->target.cluster.device.memory_bytes > 0, ZR_ERR_CONFIG,
             "--search: the memory of a device of %s is not known, so zr cannot tell what fits; give a cluster file "
             "with memory_bytes",
             s->target.cluster.name);
    ZR_TRY(cli_target_system(s->o->system, &s->o->with, config, &s->target));
    ZR_TRY(cli_settle_place(config, &s->target));
    ZR_CHECK(s->target.ranks <= s->target.cluster.devices, ZR_ERR_CONFIG,
             "%d ranks do not fit the %d devices of %s: use fewer ranks or a larger cluster", s->target.ranks,
             s->target.cluster.devices, s->target.cluster.name);
    s->where = cli_train_target(&s->target);
    s->question = (zr__question){
        .config = config, .target = &s->where, .free = free_keys(s, typed), .step_tokens = s->o->step_tokens};
    if (s->target.other.system) s->question.free = other_keys(&s->target.other, s->question.free);
    ZR_TRY(zr__search(&s->question, &s->found));
    ZR_TRY(rank_ways(s));
    ZR_TRY(check_found(s));
    if (s->args->json) return cli_searched_json(s);
    cli_searched_print(s);
    return ZR_OK;
}

static void clear_searched(cli_searched *s)
{
    zr__choices_clear(&s->found);
    zr_free(s->best);
    zr_free(s->missed);
    cli_target_clear(&s->target);
}

zr_status cli_search_fastest(const cli_args *args, const cli_args *typed, const cli_simulate_options *o)
{
    ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
    ZR_AUTO(clear_searched) cli_searched s = {.args = args, .o = o, .target = {.ranks = (int)o->ranks}};
    ZR_TRY(cli_config(args, s.target.ranks, (int64_t)time(NULL), &config, NULL));
    s.config = config;
    return search_all(&s, config, typed);
}
