/* The program of one micro-batch: the ops that run, in order. Ops whose outputs are unused are left out. With
 * recompute, forward ops run again before the backward ops that read their outputs. If the gradient norm must be known
 * before lean updates (two_pass), the whole backward pass runs twice. Lifetimes, gathers and reductions are derived
 * from this list. */
#include "base/core/scope.h"
#include "plan/list/list.h"
#include "plan/program/program.h"

#include <string.h>

void zr__program_emit(zr__program *p, zr__run_of run)
{
    if (zr__grow(&p->status, (void **)&p->run, p->n, &p->room, sizeof *p->run)) p->run[p->n++] = run;
}

const zr_op *zr__program_op(const zr__program *p, const zr_graph *g, int32_t run)
{
    return p->run[run].op < 0 ? NULL : zr_graph_get_op(g, p->run[run].op);
}

static void emit_op(zr__program *p, const zr_graph *g, int32_t op, zr__role role)
{
    zr__program_emit(p, (zr__run_of){op, role, ZR_NONE, zr_graph_get_op(g, op)->unit, false});
}

/* Emit the replay of a forward op for a backward op. It runs with the parameters of its own unit if the policy replays
 * this unit. A cheap op that is replayed for another unit reads no parameter that has to be gathered, and runs in that
 * unit. */
static void emit_replay(zr__program *p, const zr_plan *plan, const zr_graph *g, int32_t op, const zr_op *reader)
{
    const int32_t own = zr_graph_get_op(g, op)->unit;
    const int32_t unit = zr_recomputes(plan->unit[own].recompute) ? own : reader->unit;
    zr__program_emit(p, (zr__run_of){op, ZR__REPLAY, ZR_NONE, unit, false});
}

/* Return the forward op that must be replayed to compute `value`. Return -1 if `value` is stored or its producer was
 * already replayed. */
static int32_t missing_producer(const zr_graph *g, const bool *dropped, const bool *present, zr_value value)
{
    if (value == ZR_NONE || !dropped[value]) return -1;
    int32_t producer = zr_graph_value(g, value)->producer;
    return present[producer] ? -1 : producer;
}

/* Emit replays of the dropped values that backward op `index` needs. Replays are in the order of the forward pass. A
 * replay's own operands may need replays too. With ZR_RECOMPUTE_PAPER, replay all forward ops of the unit. */
static void emit_replays(zr__program *p, const zr_plan *plan, const zr_graph *g, const bool *dropped, const bool *live,
                         bool *present, bool *wanted, int32_t index)
{
    const zr_op *op = zr_graph_get_op(g, index);
    int32_t high = -1, low = index;
    for (int j = 0; j < op->n_in; j++) {
        int32_t producer = missing_producer(g, dropped, present, op->in[j]);
        if (producer < 0) continue;
        wanted[producer] = true;
        if (producer > high) high = producer;
        if (producer < low) low = producer;
    }
    const bool all = high >= 0 && plan->unit[op->unit].recompute == ZR_RECOMPUTE_PAPER;
    for (int32_t i = 0; i < index && all; i++) {
        const zr_op *its = zr_graph_get_op(g, i);
        if (!live[i] || its->backward || its->unit != op->unit || present[i]) continue;
        wanted[i] = true;
        if (i > high) high = i;
        if (i < low) low = i;
    }
    for (int32_t i = high; i >= low; i--) { /* go backwards, because an op's operands are computed by earlier ops */
        if (!wanted[i]) continue;
        const zr_op *again = zr_graph_get_op(g, i);
        for (int j = 0; j < again->n_in; j++) {
            int32_t producer = missing_producer(g, dropped, present, again->in[j]);
            if (producer < 0) continue;
            wanted[producer] = true;
            if (producer < low) low = producer;
        }
    }
    for (int32_t i = low; i <= high; i++) {
        if (!wanted[i]) continue;
        emit_replay(p, plan, g, i, op);
        present[i] = true;
        wanted[i] = false;
    }
}

static void mark_producer(const zr_graph *g, bool *live, zr_value value)
{
    int32_t producer = value == ZR_NONE ? -1 : zr_graph_value(g, value)->producer;
    if (producer >= 0) live[producer] = true;
}

/* Emit the forward ops whose outputs are used by the losses, the output or a backward op. If a backward op computes the
 * losses itself, the forward op that computes only the losses is left out. */
static void emit_forward(zr__program *p, const zr_graph *g, bool *live)
{
    int32_t n = zr_graph_ops(g);
    for (int t = 0; t < zr_graph_loss_terms(g); t++) mark_producer(g, live, zr_graph_get_loss_term(g, t));
    mark_producer(g, live, zr_graph_get_output(g));
    for (int32_t i = n - 1; i >= 0; i--) { /* go backwards, because an op's operands are computed by earlier ops */
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in && (op->backward || live[i]); j++) mark_producer(g, live, op->in[j]);
    }
    for (int32_t i = 0; i < n; i++)
        if (live[i] && !zr_graph_get_op(g, i)->backward) emit_op(p, g, i, ZR__FORWARD);
}

zr_status zr__program_make(zr__program *p, const zr_plan *plan, zr_schedule_kind kind)
{
    const zr_graph *g = plan->graph[kind];
    size_t values = (size_t)zr_graph_values(g), ops = (size_t)zr_graph_ops(g);
    ZR_AUTO_FREE bool *dropped = zr_alloc(values + 3 * ops + 1);
    memset(p, 0, sizeof *p);
    ZR_CHECK(dropped, ZR_ERR_MEMORY, "no memory to plan %zu values", values);
    bool *live = dropped + values, *present = live + ops;
    if (kind == ZR_SCHEDULE_TRAIN) ZR_TRY(zr__find_dropped(plan, g, dropped));
    emit_forward(p, g, live);
    int passes = kind == ZR_SCHEDULE_TRAIN && plan->layout.two_pass ? 2 : 1;
    for (int pass = 0; pass < passes; pass++) {
        memset(present, 0, ops);
        for (int32_t i = 0; i < zr_graph_ops(g); i++) {
            if (!zr_graph_get_op(g, i)->backward) continue;
            emit_replays(p, plan, g, dropped, live, present, present + ops, i);
            emit_op(p, g, i, ZR__BACKWARD);
        }
        p->pass_end[p->passes++] = p->n;
    }
    ZR_TRY(p->status);
    const bool moves =
        plan->checkpoint_home != ZR_SPACE_DEVICE || (plan->partition_checkpoints && zr_plan_shares_layers(plan));
    return kind == ZR_SCHEDULE_TRAIN && moves ? zr__keep_checkpoints(p, plan, g) : ZR_OK;
}

void zr__program_free(zr__program *p)
{
    zr_free(p->run);
    p->run = NULL;
}
