/** One trial: plan a configuration and price it. */
#include "train/choose/choose.h"

#include "train/dir/report.h"
#include "train/host/limits.h"

#include <math.h>

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

zr_status zr__try(const zr__train_target *target, const zr_config *config, zr__trial *made, zr_plans *kept)
{
    ZR_AUTO(zr__plans_clear) zr_plans plans = {0};
    ZR_TRY(zr__train_plans(config, target->ranks, -1, target->profile, &plans));
    const zr_plan *one = plans.role[plans.own];
    const zr_plan *fullest = zr__fullest_role(&plans);
    const int64_t limit = zr__limit_of(target, config);
    const int on_host = target->host_ranks > 0 && target->host_ranks < one->ranks ? target->host_ranks : one->ranks;
    const zr_report report = zr__report_planned(&plans);
    *made = (zr__trial){.report = report,
                        .params = one->params,
                        .disk_bytes = report.memory.space[ZR_SPACE_DISK].total_bytes,
                        .host_bytes = report.memory.space[ZR_SPACE_HOST].total_bytes * on_host,
                        .needs_bytes = zr__rank_needs(&fullest->memory, &fullest->profile.facts),
                        .roles = plans.n,
                        .fullest_role = fullest->layout.role,
                        .formula_bubble = zr__plan_bubble(one),
                        .pieces = one->partition_checkpoints,
                        .home = one->checkpoint_home};
    made->share = share_of(made->needs_bytes, limit);
    made->share = fmax(made->share, share_of(made->host_bytes, target->host_bytes));
    made->share = fmax(made->share, share_of(made->disk_bytes, target->disk_bytes));
    made->fits = made->share <= 1;
    ZR_TRY(zr__plan_fullest(fullest, &made->fullest));
    ZR_TRY(target->cluster ? zr_simulate(&plans, target->cluster, target->options, &made->simulation, NULL)
                           : zr_plans_price(&plans, target->profile, &made->simulation.price));
    if (!kept) return ZR_OK;
    *kept = plans;
    plans = (zr_plans){0};
    return ZR_OK;
}
