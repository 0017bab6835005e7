/* Plans the hidden matrices, whose directions are made orthogonal (zr_muon): lists them, and gives each to a rank. An
 * iteration needs a whole matrix. Ranks share this work matrix by matrix: between two exchanges of directions they
 * iterate the matrices of several units, so that each rank has about the same number of FLOPs. */
#include "base/core/core.h"
#include "base/core/grow.h"
#include "base/core/scope.h"
#include "graph/graph.h"
#include "plan/list/list.h"

/* Maximum number of units that are iterated between two exchanges, which bounds the memory of their directions. */
enum { BATCH_UNITS = 8 };
/* A batch has more units if its busiest rank has more than this many times the mean FLOPs of a rank. */
#define UNEVEN 1.1

static double flops_of(const zr_plan *plan, const zr_plan_matrix *matrix)
{
    const zr_op *op = zr_graph_get_op(plan->ortho, matrix->op);
    return op->def->cost(plan->ortho, op).flops;
}

/* Return the op for matrices of the given sizes. Add it if it is missing. */
static int32_t op_of(zr_plan *plan, int64_t rows, int64_t cols, int64_t apart)
{
    for (int32_t i = 0; i < zr_graph_ops(plan->ortho); i++) {
        const zr_op *op = zr_graph_get_op(plan->ortho, i);
        const int64_t *dim = zr_graph_value(plan->ortho, op->in[0])->type.shape.dim;
        if (dim[0] == rows && dim[1] == cols && op->attr.i[1] == apart) return i;
    }
    return zr__orthogonalize(plan->ortho, &plan->optimizer.ortho, rows, cols, apart);
}

/* Add the matrices of a parameter. Several matrices that are fused in it are apart: below each other (dimension 0) or
 * side by side (1). */
static zr_status add_matrices(zr_plan *plan, zr_plan_unit *u, int32_t index, const zr_param_info *param, int64_t *room)
{
    const int64_t parts = param->fused.parts > 1 ? param->fused.parts : 1, apart = param->shape.dim[1];
    int64_t size[2] = {param->shape.dim[0], param->shape.dim[1]};
    const int32_t dim = parts > 1 ? param->fused.dim : 0;
    ZR_CHECK(dim < 2 && size[dim] % parts == 0, ZR_ERR_CONFIG,
             "parameter %s consists of %lld matrices, which do not have equal sizes", param->name, (long long)parts);
    size[dim] /= parts;
    const int64_t outputs = size[param->inputs_first], inputs = size[!param->inputs_first];
    const int32_t op = op_of(plan, size[0], size[1], apart);
    for (int64_t i = 0; i < parts; i++) {
        ZR_GROW(plan->matrix, *room, (int64_t)plan->n_matrices + 1, "hidden matrices");
        plan->matrix[plan->n_matrices++] =
            (zr_plan_matrix){.param = index,
                             .op = op,
                             .first = param->unit_offset + i * size[dim] * (dim == 0 ? apart : 1),
                             .scale = zr__muon_factor(plan->optimizer.ortho.scale, outputs, inputs)};
        u->n_matrices++;
    }
    return ZR_OK;
}

/* Return the end of the matrices that begin with matrix i and have one owner: matrices that lie side by side in a
 * parameter, so that a rank has all elements of its range or none. */
static int32_t task_end(const zr_plan *plan, int32_t i, int32_t end)
{
    const zr_plan_matrix *m = plan->matrix;
    const zr_op *op = zr_graph_get_op(plan->ortho, m[i].op);
    const bool beside = op->attr.i[1] > zr_graph_value(plan->ortho, op->in[0])->type.shape.dim[1];
    int32_t next = i + 1;
    while (beside && next < end && m[next].param == m[i].param) next++;
    return next;
}

/* Give each matrix of [begin, end) an owner: in descending order of FLOPs, the rank with the fewest so far. Return the
 * FLOPs of the busiest rank, and set *all to the sum over all ranks. */
static double share_out(zr_plan *plan, int32_t begin, int32_t end, int ranks, double *load, double *all)
{
    double most = 0;
    *all = 0;
    for (int r = 0; r < ranks; r++) load[r] = 0;
    for (int32_t i = begin; i < end; i++) plan->matrix[i].owner = -1;
    for (;;) {
        double flops = -1;
        int32_t first = -1;
        for (int32_t i = begin, next; i < end; i = next) {
            next = task_end(plan, i, end);
            const double its = flops_of(plan, &plan->matrix[i]) * (next - i);
            if (plan->matrix[i].owner < 0 && its > flops) flops = its, first = i;
        }
        if (first < 0) return most;
        int owner = 0;
        for (int r = 1; r < ranks; r++)
            if (load[r] < load[owner]) owner = r;
        for (int32_t i = first; i < task_end(plan, first, end); i++) plan->matrix[i].owner = owner;
        load[owner] += flops;
        *all += flops;
        if (load[owner] > most) most = load[owner];
    }
}

/* Return the next orthogonal unit from `unit` on, or n_units. */
static int32_t next_unit(const zr_plan *plan, int32_t unit)
{
    while (unit < plan->n_units && !plan->unit[unit].orthogonal) unit++;
    return unit;
}

/* Divide the units into batches, each with enough units to give all ranks about the same work. With lean states, in
 * which a unit's update follows its backward pass, a batch is a unit. */
static zr_status make_batches(zr_plan *plan)
{
    int32_t batch = 0;
    for (int32_t first = next_unit(plan, 0); first < plan->n_units; batch++) {
        const int ranks = plan->group[plan->unit[first].ortho_group].size;
        const int32_t begin = plan->unit[first].first_matrix;
        ZR_AUTO_FREE double *load = zr_alloc(sizeof *load * (size_t)ranks);
        ZR_CHECK(load, ZR_ERR_MEMORY, "no memory to share matrices among %d ranks", ranks);
        int32_t last = first, units = 1;
        double most, all;
        for (;; units++) {
            const int32_t end = plan->unit[last].first_matrix + plan->unit[last].n_matrices;
            const int32_t next = next_unit(plan, last + 1);
            most = share_out(plan, begin, end, ranks, load, &all);
            if (most * ranks <= UNEVEN * all || units == BATCH_UNITS || next == plan->n_units || plan->consume_grad)
                break;
            last = next;
        }
        for (int32_t u = first; u <= last; u++) {
            plan->unit[u].ortho_batch = batch;
            plan->unit[u].ortho_share = all > 0 ? most / all : 0;
        }
        first = next_unit(plan, last + 1);
    }
    return ZR_OK;
}

zr_status zr__plan_matrices(zr_plan *plan, const zr_graph *graph)
{
    if (!plan->layout.train || plan->optimizer.ortho.steps == 0) return ZR_OK;
    const zr_graph_spec spec = {
        .mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = plan->optimizer.ortho.dtype, .grad_dtype = ZR_F32};
    int64_t room = 0;
    ZR_TRY(zr_graph_create(&spec, &plan->ortho));
    zr_graph_unit(plan->ortho, "matrices");
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        const zr_unit_info *info = zr_graph_unit_info(graph, i);
        const zr_range *part = plan->shards_optim ? &u->update : &u->own;
        if (!u->orthogonal) continue;
        u->first_matrix = plan->n_matrices;
        u->ortho_group = part->by.group | part->outer.group;
        for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
            if (zr_graph_param(graph, p)->grad != ZR_NONE)
                ZR_TRY(add_matrices(plan, u, p, zr_graph_param(graph, p), &room));
    }
    ZR_TRY(zr_graph_finish(plan->ortho));
    for (int32_t i = 0; i < zr_graph_ops(plan->ortho); i++) {
        const int64_t bytes =
            zr__device_facts_scratch(&plan->profile.facts, plan->ortho, zr_graph_get_op(plan->ortho, i));
        if (bytes > plan->ortho_scratch_bytes) plan->ortho_scratch_bytes = bytes;
    }
    return make_batches(plan);
}
