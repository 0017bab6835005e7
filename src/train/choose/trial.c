/** One trial: plan a configuration and price it. With a pipeline and many micro-batches, zr__try extrapolates from two
 * plans with few of them. */
#include "train/choose/choose.h"

#include "simulate/simulate.h"
#include "train/dir/report.h"
#include "train/host/limits.h"

#include <math.h>

/* Micro-batches of the smaller plan, in multiples of the number of pipeline ranks. */
#define FEW_ROUNDS 2

int64_t zr__limit_of(const zr__train_target *target, const zr_config *config)
{
    return config->memory.limit_bytes > 0 ? config->memory.limit_bytes : target->memory_bytes;
}

bool zr__refused(zr_status st)
{
    return st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED || st == ZR_ERR_SHAPE || st == ZR_ERR_ARG;
}

static double share_of(int64_t needs, int64_t has)
{
    return has > 0 ? (double)needs / (double)has : 0;
}

/** A priced step. */
typedef struct priced {
    zr_plans plans;
    zr_simulation simulation;
} priced;

static void clear_priced(priced *p)
{
    zr__plans_clear(&p->plans);
}

static zr_status price(const zr__train_target *target, const zr_config *config, priced *p)
{
    ZR_TRY(zr__train_plans(config, target->ranks, -1, target->profile, &p->plans));
    return target->cluster ? zr_simulate(&p->plans, target->cluster, target->options, &p->simulation, NULL)
                           : zr_plans_price(&p->plans, target->profile, &p->simulation.price);
}

/* ---- many micro-batches ------------------------------------------------------------------------- */

/** Return the micro-batches of the smaller of two steps that tell what a step costs, or 0 to plan all. The larger step
 * has P more, with P pipeline ranks. From there on the lists repeat themselves: each P further micro-batches take the
 * same time and move the same bytes, and the memory stays as it is. Not so with schedules that keep the activations of
 * all micro-batches, with zb_v, which takes longer to repeat itself, nor with tables, which are for
 * one number of micro-batches. */
static int64_t few_micros(const zr_config *config)
{
    const int64_t ranks = config->parallel.pipeline, all = config->accumulation_steps,
                  few = FEW_ROUNDS * ranks + all % ranks;
    const zr_pipe_schedule schedule = config->parallel.schedule;
    const bool repeats =
        schedule == ZR_PIPELINE_1F1B || schedule == ZR_PIPELINE_INTERLEAVED || schedule == ZR_PIPELINE_ZB_H1;
    return ranks > 1 && repeats && !config->parallel.schedule_file && all > few + (few + ranks) ? few : 0;
}

static void extend(const double *a, double *b, size_t n, double rounds)
{
    for (size_t i = 0; i < n; i++) b[i] += rounds * (b[i] - a[i]);
}

static void extend_counts(const int64_t *a, int64_t *b, size_t n, int64_t rounds)
{
    for (size_t i = 0; i < n; i++) b[i] += rounds * (b[i] - a[i]);
}

/* Extend a member that consists of int64_t only. */
#define EXTEND_COUNTS(member)                                                                                          \
    extend_counts((const int64_t *)&a->member, (int64_t *)&b->member, sizeof(b->member) / (sizeof(int64_t)), rounds)

static void extend_plan(const zr_plan *a, zr_plan *b, int64_t rounds)
{
    EXTEND_COUNTS(layout.accum);
    EXTEND_COUNTS(traffic);
    EXTEND_COUNTS(across);
    EXTEND_COUNTS(copied);
    extend(&a->flops_model, &b->flops_model, 1, (double)rounds);
    extend(&a->flops_hardware, &b->flops_hardware, 1, (double)rounds);
}

static void extend_simulation(const zr_simulation *a, zr_simulation *b, double rounds)
{
    const zr_price *p = &a->price;
    zr_price *q = &b->price;
    const double *const from[] = {&p->compute_sec, &p->comm_sec,    &p->exposed_sec, &p->bubble_sec, &p->disk_sec,
                                  &p->host_sec,    &a->product_sec, &a->memory_sec,  &a->launch_sec},
                        *const rates[] = {&a->samples_sec, &a->tokens_sec, &a->flops_sec, &a->mfu};
    double *const to[] = {&q->compute_sec, &q->comm_sec,    &q->exposed_sec, &q->bubble_sec, &q->disk_sec,
                          &q->host_sec,    &b->product_sec, &b->memory_sec,  &b->launch_sec},
                  *const its_rates[] = {&b->samples_sec, &b->tokens_sec, &b->flops_sec, &b->mfu},
                  step_sec = q->step_sec;
    for (size_t i = 0; i < sizeof(to) / sizeof(*to); i++) extend(from[i], to[i], 1, rounds);
    extend(a->exposed_sec, b->exposed_sec, ZR_CAUSES, rounds);
    extend(&p->step_sec, &q->step_sec, 1, rounds);
    for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
        const double done = *rates[i] * p->step_sec; /* in a step, as samples or FLOPs, which can be extended */
        *its_rates[i] *= step_sec;
        extend(&done, its_rates[i], 1, rounds);
        *its_rates[i] /= q->step_sec;
    }
    b->bound_by = zr__bound_of(b);
}

/** Price a step by two steps with fewer micro-batches. Set *extended to whether this works. */
static zr_status price_by_few(const zr__train_target *target, const zr_config *config, int64_t few, priced *p,
                              bool *extended)
{
    const int64_t ranks = config->parallel.pipeline, rounds = (config->accumulation_steps - few) / ranks - 1;
    ZR_AUTO(clear_priced) priced less = {0};
    zr_config part = *config;
    zr__train_set_batch(&part, target->ranks, config->micro_batch_size, few);
    ZR_TRY(price(target, &part, &less));
    zr__train_set_batch(&part, target->ranks, config->micro_batch_size, few + ranks);
    ZR_TRY(price(target, &part, p));
    /* the times of different roles cannot be extended */
    *extended = less.simulation.price.role == p->simulation.price.role;
    if (!*extended) {
        zr__plans_clear(&p->plans);
        return ZR_OK;
    }
    for (int32_t r = 0; r < p->plans.n; r++) extend_plan(less.plans.role[r], p->plans.role[r], rounds);
    extend_simulation(&less.simulation, &p->simulation, (double)rounds);
    return ZR_OK;
}

/* ---- a trial ------------------------------------------------------------------------------------ */

void zr__trial_share(const zr__train_target *target, const zr_config *config, zr__trial *made)
{
    made->share = share_of(made->needs_bytes, zr__limit_of(target, config));
    made->share = fmax(made->share, share_of(made->host_bytes, target->host_bytes));
    made->share = fmax(made->share, share_of(made->disk_bytes, target->disk_bytes));
    made->fits = made->share <= 1;
}

int zr__ranks_on_host(const zr__train_target *target)
{
    return target->host_ranks > 0 && target->host_ranks < target->ranks ? target->host_ranks : target->ranks;
}

zr_status zr__try(const zr__train_target *target, const zr_config *config, zr__trial *made, zr_plans *kept)
{
    if (target->trying) return target->trying(target, config, made, kept);
    ZR_AUTO(clear_priced) priced p = {0};
    const int64_t few = kept ? 0 : few_micros(config);
    bool extended = false;
    if (few > 0) ZR_TRY(price_by_few(target, config, few, &p, &extended));
    if (!extended) ZR_TRY(price(target, config, &p));
    const zr_plans *plans = &p.plans;
    const zr_plan *one = plans->role[plans->own], *fullest = zr__fullest_role(plans);
    const zr_report report = zr__report_planned(plans);
    *made = (zr__trial){.report = report,
                        .simulation = p.simulation,
                        .params = one->params,
                        .disk_bytes = report.memory.space[ZR_SPACE_DISK].total_bytes,
                        .host_bytes = report.memory.space[ZR_SPACE_HOST].total_bytes * zr__ranks_on_host(target),
                        .needs_bytes = zr__rank_needs(&fullest->memory, &fullest->profile.facts),
                        .roles = plans->n,
                        .fullest_role = fullest->layout.role,
                        .formula_bubble = zr__plan_bubble(one),
                        .copied = zr__plans_copied(plans),
                        .pieces = one->partition_checkpoints,
                        .home = one->checkpoint_home};
    for (int32_t r = 0; r < plans->n; r++)
        for (int32_t u = 0; u < one->n_units; u++) made->recomputes |= zr_recomputes(plans->role[r]->unit[u].recompute);
    zr__trial_share(target, config, made);
    ZR_TRY(zr__plan_fullest(fullest, &made->fullest));
    if (!kept) return ZR_OK;
    *kept = p.plans;
    p.plans = (zr_plans){0};
    return ZR_OK;
}
