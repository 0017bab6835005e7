/* Part of the proof of a plan: orthogonalised directions (zr_muon). A unit of hidden matrices must have the directions
 * of all its elements, from the gradient on which all ranks have agreed, before its matrices are iterated; each matrix
 * must be iterated by one of the ranks that share the work; and the results must reach the ranks that update with them.
 * All of this is in one buffer, so check_order.c proves that it happens in the order of the list. check_homes.c checks
 * that DIRECTION and UPDATE compute with the elements that they name. */
#include "plan/check/check.h"

/* Progress of a unit's directions. */
typedef struct progress {
    int32_t buffer;       /* buffer of the directions, or ZR_NONE */
    int64_t computed;     /* elements of directions that this rank has computed */
    int64_t known, moved; /* elements of the unit that a rank has; elements that the level in progress has moved */
    int32_t iterated;     /* number of iterations */
    int64_t summed;       /* ranks over which results have been summed */
} progress;

/* Check that each matrix of a unit is owned by a rank of the group, and that matrices fused in a parameter follow each
 * other, below or side by side. Matrices side by side must have one owner, which zeroes none (engine/ortho.c). */
static zr_status check_matrices(const zr__proof *p, int32_t unit)
{
    const zr_plan *plan = p->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    const zr_unit_info *info = zr_graph_unit_info(p->graph, unit);
    int64_t elems = 0, wanted = 0, first = 0;
    for (int32_t i = u->first_matrix; i < u->first_matrix + u->n_matrices; i++) {
        const zr_plan_matrix *m = &plan->matrix[i];
        const zr_param_info *param = zr_graph_param(p->graph, m->param);
        const zr_op *op = zr_graph_get_op(plan->ortho, m->op);
        const int64_t *dim = zr_graph_value(plan->ortho, op->in[0])->type.shape.dim;
        const bool same = i > u->first_matrix && m->param == m[-1].param;
        const bool beside = op->attr.i[1] > dim[1];
        const int64_t end = param->unit_offset + zr_shape_elems(&param->shape);
        first = same ? first + (beside ? dim[1] : dim[0] * dim[1]) : param->unit_offset;
        ZR_CHECK(param->unit == unit && m->first == first && op->attr.i[1] == param->shape.dim[1] &&
                     first + (dim[0] - 1) * op->attr.i[1] + dim[1] <= end &&
                     (same || i == u->first_matrix || m->param > m[-1].param),
                 ZR_ERR_INTERNAL, "a matrix of %s is not in its place", param->name);
        ZR_CHECK(m->owner >= 0 && m->owner < plan->group[u->ortho_group].size &&
                     (!same || !beside || m->owner == m[-1].owner),
                 ZR_ERR_INTERNAL, "a matrix of %s has no owner, or not that of the matrix beside it", param->name);
        elems += dim[0] * dim[1];
    }
    for (int32_t k = info->first_param; k < info->first_param + info->n_params; k++)
        if (zr_graph_param(p->graph, k)->grad != ZR_NONE) wanted += zr_shape_elems(&zr_graph_param(p->graph, k)->shape);
    ZR_CHECK(elems == wanted, ZR_ERR_INTERNAL, "the matrices of unit %d have %lld elements, not %lld", unit,
             (long long)elems, (long long)wanted);
    return ZR_OK;
}

/* Note a gather of directions, or check a gather of results: each level makes the ranges of a group's ranks known. */
static void note_gather(const zr__proof *p, const zr_step *step, progress *at)
{
    at->moved += step->range.count;
    if (at->moved < at->known) return;
    at->known *= p->plan->group[step->group].size;
    at->moved = 0;
}

/* Note a sum of results: each level divides the elements that a rank has among a group's ranks. */
static void note_scatter(const zr__proof *p, const zr_step *step, progress *at)
{
    const int size = p->plan->group[step->group].size;
    at->moved += step->range.count;
    if (at->moved * size < at->known) return;
    at->known /= size;
    at->summed *= size;
    at->moved = 0;
}

/* Check a step of a unit's directions. */
static zr_status check_step(const zr__proof *p, int32_t index, progress *at)
{
    const zr_step *step = &p->s->step[index];
    const zr_plan_unit *u = &p->plan->unit[step->unit];
    const zr_use *use = &p->s->use[step->uses], *last = use + step->n_uses - 1;
    const zr_step_kind kind = step->kind;
    const int ranks = p->plan->moves ? p->plan->group[u->ortho_group].size : 1;
    const bool shards = p->plan->shards_optim && p->plan->moves;
    if (kind == ZR_STEP_DIRECTION) {
        ZR_CHECK(at->iterated == 0 && zr__is_agreed(p, index) && (at->buffer == ZR_NONE || at->buffer == last->buffer),
                 ZR_ERR_INTERNAL,
                 "step %d computes directions of unit %d before all ranks have agreed on its gradient, or too late",
                 index, step->unit);
        at->buffer = last->buffer;
        at->known = at->computed += step->range.count;
        return ZR_OK;
    }
    const bool there = at->buffer != ZR_NONE && use->buffer == at->buffer && at->computed == u->update.count;
    if (kind == ZR_STEP_UPDATE)
        ZR_CHECK(there && at->iterated == 1 && at->summed == ranks && at->known == u->update.count, ZR_ERR_INTERNAL,
                 "step %d updates unit %d before the results of all matrices are there", index, step->unit);
    if (kind == ZR_STEP_GATHER_DIRECTION) {
        ZR_CHECK(there && (at->iterated == 0 ? shards : !shards && at->summed == ranks), ZR_ERR_INTERNAL,
                 "step %d gathers something else than the directions of unit %d", index, step->unit);
        note_gather(p, step, at);
    }
    if (kind == ZR_STEP_ORTHO) {
        const bool all = use->range.first == 0 && use->range.count == u->padded_elems && use->reads && use->writes;
        ZR_CHECK(there && all && at->iterated++ == 0 && at->known == u->padded_elems && step->group == u->ortho_group &&
                     last->buffer == u->verdict && last->reads,
                 ZR_ERR_INTERNAL, "step %d iterates matrices of unit %d, but not once from all directions", index,
                 step->unit);
    }
    if (kind == ZR_STEP_SCATTER_DIRECTION) {
        ZR_CHECK(there && at->iterated == 1 && at->summed < ranks && use[2].buffer == at->buffer, ZR_ERR_INTERNAL,
                 "step %d sums something else than the results of unit %d", index, step->unit);
        note_scatter(p, step, at);
    }
    return ZR_OK;
}

static bool is_of_directions(const zr_step *step)
{
    return step->kind == ZR_STEP_DIRECTION || step->kind == ZR_STEP_ORTHO || step->kind == ZR_STEP_GATHER_DIRECTION ||
           step->kind == ZR_STEP_SCATTER_DIRECTION;
}

zr_status zr__check_ortho(const zr__proof *p)
{
    for (int32_t i = 0; i < p->s->n_steps; i++)
        ZR_CHECK(!is_of_directions(&p->s->step[i]) ||
                     (p->kind == ZR_SCHEDULE_TRAIN && p->s->step[i].unit >= 0 &&
                      p->plan->unit[p->s->step[i].unit].orthogonal && p->s->step[i].when == ZR_WHEN_ALWAYS),
                 ZR_ERR_INTERNAL, "step %d is for hidden matrices, but of no unit with them", i);
    for (int32_t u = 0; u < p->plan->n_units && p->kind == ZR_SCHEDULE_TRAIN; u++) {
        progress at = {.buffer = ZR_NONE, .summed = 1};
        if (!p->plan->unit[u].orthogonal) continue;
        ZR_TRY(check_matrices(p, u));
        for (int32_t i = 0; i < p->s->n_steps; i++)
            if (p->s->step[i].unit == u) ZR_TRY(check_step(p, i, &at));
        ZR_CHECK(at.iterated == 1, ZR_ERR_INTERNAL, "the matrices of unit %d are not iterated", u);
    }
    return ZR_OK;
}
