/* Rewrites the program so that activation checkpoints are stored from the forward pass until their unit's backward pass
 * (ZeRO section 6.1). If a checkpoint is identical on all tensor-parallel ranks, each rank may store only its own piece
 * (P_a). Checkpoints may also be stored in host memory (P_a+cpu) or on disk.
 *
 * A checkpoint is copied to its home after the op that writes it. It is copied back at the beginning of the segment
 * that recomputes from it. Lifetimes, buffers and waits of the value and of its copy follow from the program, as for
 * ops. */
#include "plan/program/program.h"

#include <string.h>

/* The activation checkpoints. Arrays are indexed by zr_value. `goes`: whether the value is copied to its checkpoint's
 * home until the backward pass. `pieces`: whether each rank stores only a piece of it. */
typedef struct checkpoints {
    int32_t *made; /* number of the forward run that writes the value, or -1 */
    bool *goes;
    bool *pieces;
} checkpoints;

/* Find the checkpoints. A checkpoint is a value of the forward pass that a replay under a recompute policy reads.
 * segments.c uses the same rule. */
static void find_checkpoints(const zr__program *p, const zr_plan *plan, const zr_graph *g, const checkpoints *c)
{
    for (int32_t v = 0; v < zr_graph_values(g); v++) c->made[v] = -1;
    for (int32_t i = 0; i < p->n; i++) {
        const zr_op *op = zr__program_op(p, g, i);
        bool by_policy = p->run[i].role == ZR__REPLAY && zr_recomputes(plan->unit[op->unit].recompute);
        for (int j = 0; by_policy && j < op->n_in; j++)
            if (op->in[j] != ZR_NONE && c->made[op->in[j]] >= 0) c->goes[op->in[j]] = true;
        if (!op && p->run[i].role == ZR__RECV && p->run[i].phase == ZR__PHASE_F) c->made[p->run[i].value] = i;
        for (int j = 0; op && j < op->n_out; j++) c->made[op->out[j]] = p->run[i].role == ZR__FORWARD ? i : -1;
    }
    /* Store a value in pieces only if it is identical on all tensor-parallel ranks. This excludes values split by
     * columns or tokens, and partial sums. */
    const bool pieces = plan->partition_checkpoints && zr_plan_shares_layers(plan);
    for (int32_t v = 0; v < zr_graph_values(g); v++)
        c->pieces[v] = pieces && !zr_graph_value(g, v)->cut && !zr_graph_value(g, v)->tokens;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (op->def->join != ZR_JOIN_NONE) c->pieces[op->in[0]] = false;
    }
    for (int32_t v = 0; v < zr_graph_values(g); v++)
        c->goes[v] &= c->pieces[v] || plan->checkpoint_home != ZR_SPACE_DEVICE;
}

static void emit_copy(zr__program *to, zr__role role, zr_value value, int32_t unit, bool pieces)
{
    zr__program_emit(to, (zr__run_of){.op = -1, .role = role, .value = value, .unit = unit, .pieces = pieces});
}

/* Emit one RESTORE for each checkpoint that the segment of runs [begin, end) reads in a replay or a backward op. */
static void emit_restores(zr__program *to, const zr__program *p, const zr_graph *g, const checkpoints *c, bool *fetched,
                          int32_t begin, int32_t end)
{
    for (int32_t i = begin; i < end; i++) {
        const zr_op *op = zr__program_op(p, g, i);
        for (int j = 0; op && j < op->n_in && p->run[i].role != ZR__FORWARD; j++) {
            zr_value v = op->in[j];
            if (v == ZR_NONE || !c->goes[v] || fetched[v]) continue;
            fetched[v] = true;
            emit_copy(to, ZR__RESTORE, v, p->run[begin].unit, c->pieces[v]);
        }
    }
}

static void emit_rewritten(zr__program *to, const zr__program *p, const zr_graph *g, const checkpoints *c,
                           bool *fetched)
{
    for (int32_t begin = 0, end, pass = 0; begin < p->n && to->status == ZR_OK; begin = end) {
        const zr__run_of *first = &p->run[begin];
        for (end = begin + 1; end < p->n && end != p->pass_end[0]; end++) /* to the end of the segment */
            if (p->run[end].unit != first->unit || p->run[end].stage != first->stage ||
                p->run[end].phase != first->phase)
                break;
        to->now = *first;
        emit_restores(to, p, g, c, fetched, begin, end);
        for (int32_t i = begin; i < end; i++) {
            const zr_op *op = zr__program_op(p, g, i);
            zr__program_emit(to, p->run[i]);
            for (int j = 0; op && j < op->n_out && p->run[i].role == ZR__FORWARD; j++)
                if (c->goes[op->out[j]]) emit_copy(to, ZR__KEEP, op->out[j], op->unit, c->pieces[op->out[j]]);
            if (p->run[i].role == ZR__RECV && c->made[p->run[i].value] == i && c->goes[p->run[i].value])
                emit_copy(to, ZR__KEEP, p->run[i].value, p->run[i].unit, c->pieces[p->run[i].value]);
        }
        if (end != p->pass_end[pass]) continue;
        to->pass_end[pass++] = to->n;
        memset(fetched, 0, (size_t)zr_graph_values(g)); /* the second backward pass fetches its checkpoints again */
    }
}

zr_status zr__keep_checkpoints(zr__program *p, const zr_plan *plan, const zr_graph *g)
{
    size_t values = (size_t)zr_graph_values(g);
    checkpoints c = {.made = zr_alloc(sizeof(int32_t) * (values + 1)), .goes = zr_alloc(3 * values + 1)};
    zr__program made = {.passes = p->passes};
    zr_status st = c.made && c.goes ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory to plan %zu values", values);
    if (st == ZR_OK) {
        c.pieces = c.goes + values;
        find_checkpoints(p, plan, g, &c);
        emit_rewritten(&made, p, g, &c, c.pieces + values);
        st = made.status;
    }
    zr_free(c.made);
    zr_free(c.goes);
    zr__program_free(st == ZR_OK ? p : &made);
    if (st == ZR_OK) *p = made;
    return st;
}
