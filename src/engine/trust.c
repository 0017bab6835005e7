/* Adds the squares of all ranks for trust ratios. Each rank has squared the parts of parameters that are in its shards
 * (zr__square_update). The order of the additions follows the shards, or the sums are exact. Therefore the norms have
 * the same bits at every stage, and do not depend on which rank has which shard. */
#include "base/number/exact.h"
#include "engine/walk.h"
#include "plan/list/place.h"
#include "zr/comm.h"

#include <math.h>

_Static_assert(ZR_TRUST_CALL <= ZR_COMM_SCALARS, "one call of TRUST passes at most ZR_COMM_SCALARS values");

/* Parameters whose squares are exchanged in one call. */
typedef struct some_params {
    const zr_trust *trust[ZR_TRUST_CALL];
    zr_norms *norms[ZR_TRUST_CALL];
    int n;
} some_params;

/* Write the values that this rank contributes for a parameter. */
static void pack(const zr_trust *trust, bool exact, double *out)
{
    if (exact) {
        zr__exact_pack(&trust->weight.exact, out);
        zr__exact_pack(&trust->direction.exact, out + ZR_EXACT_LIMBS);
    } else {
        out[0] = trust->weight.sum;
        out[1] = trust->direction.sum;
    }
}

/* Return the sum over all ranks of value `at`, or of the exact sum that begins at `at`. `all` has `each` values from
 * every rank. */
static double sum_all(const zr_plan *plan, const double *all, int each, int at, bool exact)
{
    zr_exact total = {0};
    double sum = 0;
    for (int i = 0; i < plan->ranks; i++) {
        const double *its = all + (ptrdiff_t)each * zr__plan_in_order(plan, i) + at;
        if (exact)
            zr__exact_unpack(&total, its);
        else
            sum += *its;
    }
    return exact ? zr__exact_value(&total) : sum;
}

static zr_status exchange(const zr__running *r, some_params *some)
{
    const zr_plan *plan = r->engine->plan;
    const bool exact = r->step->rank_free_sums;
    const int numbers = zr_trust_scalars(exact), each = numbers * some->n;
    double mine[ZR_TRUST_CALL], *all = (double *)zr__at(r, 0);
    if (some->n == 0) return ZR_OK;
    for (int i = 0; i < some->n; i++) pack(some->trust[i], exact, mine + (ptrdiff_t)i * numbers);
    ZR_TRY(zr_comm_scalars(r->engine->comm, mine, each, all));
    for (int i = 0; i < some->n; i++)
        *some->norms[i] = (zr_norms){
            .weight = sqrt(sum_all(plan, all, each, i * numbers, exact)),
            .direction = sqrt(sum_all(plan, all, each, i * numbers + numbers / 2, exact)),
        };
    some->n = 0;
    return ZR_OK;
}

zr_status zr__trust(const zr__running *r)
{
    const zr_graph *g = r->engine->plan->graph[ZR_SCHEDULE_TRAIN];
    const int most = ZR_TRUST_CALL / zr_trust_scalars(r->step->rank_free_sums);
    some_params some = {.n = 0};
    ZR_TRY(r->device->ops->finish(r->device));
    for (int32_t u = 1; u < r->step->n_uses; u += 2) {
        const int32_t unit = r->bound->schedule->buffer[r->use[u].buffer].unit;
        const zr_trust *trust = (const zr_trust *)zr__at(r, u);
        zr_norms *norms = (zr_norms *)zr__at(r, u + 1);
        for (int32_t i = 0; i < zr_graph_unit_info(g, unit)->n_params; i++) {
            some.trust[some.n] = &trust[i];
            some.norms[some.n++] = &norms[i];
            if (some.n == most) ZR_TRY(exchange(r, &some));
        }
    }
    return exchange(r, &some);
}
