/* Divides a model into the stages of a pipeline. A stage consists of whole forward segments (consecutive ops of one
 * unit), with the backward ops of their adjoints. Stages are balanced by static costs, so that all ranks divide in the
 * same way.
 *
 * A table that the first and the last stage use (tied embeddings) is on one rank, whose update is the only one. If
 * these stages are on different ranks, the look-up runs beside the head, as an additional stage, and its output travels
 * to the first stage. With tied_apart the table is on both ranks (find_held in plan.c). */
#include "base/core/scope.h"
#include "plan/program/pipeline.h"
#include "plan/program/program.h"

#include <math.h>

/* Number of FLOPs that take the time of reading or writing one byte of memory, roughly, on a GPU. */
#define FLOPS_PER_BYTE 100

/* A graph divided into forward segments. */
typedef struct parts {
    int32_t *of;  /* for each op: its segment; a backward op is in the segment of its forward op */
    double *cost; /* for each segment: cost of its ops */
    int32_t n;
} parts;

static void find_parts(const zr_graph *g, parts *p)
{
    int32_t unit = -1;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (!op->backward && (p->n == 0 || op->unit != unit)) {
            p->cost[p->n++] = 0;
            unit = op->unit;
        }
        p->of[i] = op->backward ? p->of[op->of] : p->n - 1;
        const zr_cost cost = op->def->cost(g, op);
        p->cost[p->of[i]] += cost.flops + FLOPS_PER_BYTE * cost.bytes;
    }
}

/* Return whether ops of the first and of the last segment read parameters of the same unit. */
static bool ends_share(const zr_graph *g, const parts *p, bool *first)
{
    bool shares = false;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < zr_graph_ops(g); i++) {
            const zr_op *op = zr_graph_get_op(g, i);
            for (int j = 0; j < op->n_in && p->of[i] == (pass ? p->n - 1 : 0); j++) {
                const int32_t unit = zr__param_unit(g, op->in[j]);
                if (unit >= 0 && pass == 0) first[unit] = true;
                if (unit >= 0 && pass == 1) shares |= first[unit];
            }
        }
    return shares;
}

/* Divide the segments [first, n) into `stages` ranges, each of at least one segment, so that the highest cost of a
 * range is as low as possible. end[s] receives the end of range s. */
static void balance(const parts *p, int32_t first, int32_t stages, double *most, int32_t *from, int32_t *end)
{
    const int32_t n = p->n - first;
    const double *cost = p->cost + first;
    /* most[s * (n + 1) + k]: lowest possible highest cost of the first k segments in s ranges */
    for (int32_t k = 0; k <= n; k++) most[k] = k == 0 ? 0 : HUGE_VAL;
    for (int32_t s = 1; s <= stages; s++)
        for (int32_t k = 0; k <= n; k++) {
            double *best = &most[(ptrdiff_t)s * (n + 1) + k], range = 0;
            *best = HUGE_VAL;
            for (int32_t j = k - 1; j >= 0; j--) {
                range += cost[j];
                const double before = most[(ptrdiff_t)(s - 1) * (n + 1) + j], high = range > before ? range : before;
                if (high < *best) {
                    *best = high;
                    from[(ptrdiff_t)s * (n + 1) + k] = j;
                }
            }
        }
    for (int32_t s = stages, k = n; s > 0; s--) {
        end[s - 1] = first + k;
        k = from[(ptrdiff_t)s * (n + 1) + k];
    }
}

/* Give the stages the numbers of blocks that the user wants. Blocks are the segments between the first and the last
 * one. The first stage also has the first segment, unless it runs beside the head, and the last stage the last one. */
static zr_status by_hand(const zr_layout *l, int32_t blocks, int32_t stages, int32_t *end)
{
    ZR_CHECK(l->n_pipeline_units == stages, ZR_ERR_CONFIG,
             "parallel.pipeline_units has %d numbers: %d are wanted, one for each stage (parallel.pipeline %d times "
             "parallel.chunks %d)",
             l->n_pipeline_units, stages, l->pipeline, l->chunks);
    int64_t sum = 0;
    for (int32_t s = 0; s < stages; s++) {
        sum += l->pipeline_units[s];
        ZR_CHECK(l->pipeline_units[s] >= 1, ZR_ERR_CONFIG,
                 "parallel.pipeline_units gives %d blocks to stage %d: at least 1 is wanted", l->pipeline_units[s], s);
        end[s] = sum < blocks ? (int32_t)sum + 1 : blocks + 2;
    }
    ZR_CHECK(sum == blocks, ZR_ERR_CONFIG,
             "the numbers of parallel.pipeline_units add up to %lld blocks, but the model has %d; the embedding goes "
             "with the first blocks, the head with the last ones, and neither is counted",
             (long long)sum, blocks);
    return ZR_OK;
}

zr_status zr__plan_stages(zr_plan *plan, zr_schedule_kind kind, int32_t *end)
{
    const zr_graph *g = plan->graph[kind];
    const size_t ops = (size_t)zr_graph_ops(g);
    const zr__pipe pipe = zr__pipe_of(&plan->layout);
    const int32_t stages = pipe.ranks * pipe.chunks;
    ZR_AUTO_FREE double *cost = zr_alloc(sizeof *cost * (ops + 1));
    ZR_AUTO_FREE bool *first = zr_alloc((size_t)zr_graph_units(g) + 1);
    plan->stage[kind] = zr_alloc(sizeof(int32_t) * (ops + 1));
    ZR_CHECK(cost && first && plan->stage[kind], ZR_ERR_MEMORY, "no memory to divide %zu ops among stages", ops);
    parts p = {plan->stage[kind], cost, 0};
    find_parts(g, &p);
    const bool together = zr__pipe_rank(&pipe, 0) == zr__pipe_rank(&pipe, stages - 1);
    const int32_t front = ends_share(g, &p, first) && !together && !plan->layout.tied_apart;
    ZR_CHECK(p.n - front >= stages, ZR_ERR_CONFIG,
             "parallel.pipeline %d with %d chunks a rank: %d stages, but the model has only %d parts to divide (%s)",
             pipe.ranks, pipe.chunks, stages, p.n - front,
             front ? "embedding and head share a table, and stay together" : "blocks, embedding and head");
    if (end[stages - 1] == 0 && plan->layout.pipeline_units) {
        ZR_TRY(by_hand(&plan->layout, p.n - 2, stages, end));
    } else if (end[stages - 1] == 0) {
        const size_t room = (size_t)(stages + 1) * (size_t)(p.n - front + 1);
        ZR_AUTO_FREE double *most = zr_alloc(sizeof *most * room);
        ZR_AUTO_FREE int32_t *from = zr_alloc(sizeof *from * room);
        ZR_CHECK(most && from, ZR_ERR_MEMORY, "no memory to balance %d stages", stages);
        balance(&p, front, stages, most, from, end);
    }
    ZR_CHECK(end[stages - 1] == p.n, ZR_ERR_ARG, "the model runs its units in another order in another mode");
    for (size_t i = 0; i < ops; i++) {
        int32_t stage = 0;
        while (end[stage] <= p.of[i]) stage++;
        p.of[i] = p.of[i] < front ? stages : stage;
    }
    plan->stages = stages;
    return ZR_OK;
}

int32_t zr__op_role(const zr_plan *plan, zr_schedule_kind kind, int32_t op)
{
    if (!plan->stage[kind]) return 0;
    const zr__pipe pipe = zr__pipe_of(&plan->layout);
    const int32_t stage = plan->stage[kind][op];
    return zr__pipe_rank(&pipe, stage < plan->stages ? stage : plan->stages - 1);
}
