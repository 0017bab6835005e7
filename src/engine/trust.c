/* Computes the norms of whole parameters for trust ratios. Each rank has summed the squares of the parts of parameters
 * that are in its shards (zr__square_update). A part's sum is a double or a zr_exact. The sums of all ranks are added
 * exactly. Therefore the norms have the same bits at every stage, and do not depend on which rank has which shard. */
#include "base/number/exact.h"
#include "engine/walk.h"
#include "zr/comm.h"

#include <math.h>

_Static_assert(ZR_TRUST_CALL <= ZR_COMM_SCALARS, "one call of TRUST passes at most ZR_COMM_SCALARS values");

/* Parameters whose squares are exchanged in one call. */
typedef struct some_params {
    const zr_trust *trust[ZR_TRUST_CALL];
    zr_norms *norms[ZR_TRUST_CALL];
    int n;
} some_params;

/* Write the values that this rank contributes for a sum of squares. */
static void pack(const zr_square *square, bool exact, double *out)
{
    if (exact)
        zr__exact_pack(&square->exact, out);
    else
        *out = square->sum;
}

/* Return the root of the sum of all ranks' squares. `all` points to the values of rank 0; the values of each next rank
 * are `each` doubles further on. */
static double norm_of(int ranks, const double *all, int each, bool exact)
{
    zr_exact sum = {0};
    for (int i = 0; i < ranks; i++, all += each)
        if (exact)
            zr__exact_unpack(&sum, all);
        else
            zr__exact_add_double(&sum, *all);
    return sqrt(zr__exact_value(&sum));
}

static zr_status exchange(const zr__running *r, some_params *some)
{
    const int ranks = zr__comm_of(r)->size;
    const bool exact = r->step->rank_free_sums;
    const int numbers = zr_trust_scalars(exact), each = numbers * some->n;
    double mine[ZR_TRUST_CALL], *all = (double *)zr__at(r, 0);
    if (some->n == 0) return ZR_OK;
    for (int i = 0; i < some->n; i++) {
        pack(&some->trust[i]->weight, exact, mine + (ptrdiff_t)i * numbers);
        pack(&some->trust[i]->direction, exact, mine + (ptrdiff_t)i * numbers + numbers / 2);
    }
    ZR_TRY(zr_comm_scalars(zr__comm_of(r), mine, each, all));
    for (int i = 0; i < some->n; i++, all += numbers)
        *some->norms[i] = (zr_norms){norm_of(ranks, all, each, exact), norm_of(ranks, all + numbers / 2, each, exact)};
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
