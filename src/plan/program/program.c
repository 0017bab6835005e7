/* The program of one micro-batch: the ops that run, in order. Ops whose outputs are unused are left out. With
 * recompute, forward ops run again before the backward ops that read their outputs. If the gradient norm must be known
 * before lean updates (two_pass), the whole backward pass runs twice. Lifetimes, gathers and reductions are derived
 * from this list. */
#include "base/core/scope.h"
#include "plan/list/list.h"
#include "plan/program/pipeline.h"
#include "plan/program/program.h"

#include <string.h>

void zr__program_emit(zr__program *p, zr__run_of run)
{
    if (!zr__grow(&p->status, (void **)&p->run, p->n, &p->room, sizeof *p->run)) return;
    run.stage = p->now.stage;
    run.phase = p->now.phase;
    p->run[p->n++] = run;
}

const zr_op *zr__program_op(const zr__program *p, const zr_graph *g, int32_t run)
{
    return p->run[run].op < 0 ? NULL : zr_graph_get_op(g, p->run[run].op);
}

static void emit_op(zr__program *p, const zr_graph *g, int32_t op, zr__role role)
{
    zr__program_emit(p, (zr__run_of){.op = op, .role = role, .value = ZR_NONE, .unit = zr_graph_get_op(g, op)->unit});
}

/* Emit the replay of a forward op for a backward op. It runs with the parameters of its own unit if the policy replays
 * this unit. A cheap op that is replayed for another unit reads no parameter that has to be gathered, and runs in that
 * unit. */
static void emit_replay(zr__program *p, const zr_plan *plan, const zr_graph *g, int32_t op, const zr_op *reader)
{
    const int32_t own = zr_graph_get_op(g, op)->unit;
    const int32_t unit = zr_recomputes(plan->unit[own].recompute) ? own : reader->unit;
    zr__program_emit(p, (zr__run_of){.op = op, .role = ZR__REPLAY, .value = ZR_NONE, .unit = unit});
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

/* Mark the ops that run: backward ops, and the forward ops whose outputs are used by the losses, the output or a
 * backward op. If a backward op computes the losses itself, the forward op that computes only the losses is left out.
 */
static void find_live(const zr_graph *g, bool *live)
{
    for (int t = 0; t < zr_graph_loss_terms(g); t++) mark_producer(g, live, zr_graph_get_loss_term(g, t));
    mark_producer(g, live, zr_graph_get_output(g));
    for (int32_t i = zr_graph_ops(g) - 1; i >= 0;
         i--) { /* backwards, because an op's operands are computed by earlier ops */
        const zr_op *op = zr_graph_get_op(g, i);
        live[i] |= op->backward;
        for (int j = 0; j < op->n_in && live[i]; j++) mark_producer(g, live, op->in[j]);
    }
}

/* ---- roles ------------------------------------------------------------------------------------ */

/* The part of a graph that a role runs. */
typedef struct part {
    const zr_plan *plan;
    const zr_graph *graph;
    zr_schedule_kind kind;
    bool *live;        /* for each op: whether a role runs it */
    bool *received;    /* for each value: whether this role has received it */
    uint64_t *readers; /* for each value: set of the roles whose ops read it */
    bool *waited;      /* for each value: whether another role waits for it, or for a value that is made from it */
} part;

static bool is_own(const part *t, int32_t op)
{
    return zr__op_role(t->plan, t->kind, op) == t->plan->layout.role;
}

_Static_assert(ZR_ROLES <= 64, "a role is a bit of a set");

static void find_readers(const part *t)
{
    for (int32_t i = 0; i < zr_graph_ops(t->graph); i++) {
        const zr_op *op = zr_graph_get_op(t->graph, i);
        for (int j = 0; j < op->n_in && t->live[i]; j++)
            if (op->in[j] != ZR_NONE) t->readers[op->in[j]] |= UINT64_C(1) << zr__op_role(t->plan, t->kind, i);
    }
}

/* Go backwards, because an op's operands are computed by earlier ops. */
static void find_waited(const part *t)
{
    for (int32_t i = zr_graph_ops(t->graph) - 1; i >= 0; i--) {
        const zr_op *op = zr_graph_get_op(t->graph, i);
        const uint64_t own = UINT64_C(1) << zr__op_role(t->plan, t->kind, i);
        bool waits = false;
        for (int j = 0; j < op->n_out && t->live[i]; j++) {
            t->waited[op->out[j]] |= (t->readers[op->out[j]] & ~own) != 0;
            waits |= t->waited[op->out[j]];
        }
        for (int j = 0; j < op->n_in && waits; j++)
            if (op->in[j] != ZR_NONE) t->waited[op->in[j]] = true;
    }
}

/* Emit RECV for each value that an op of the stage reads and another role makes, in the forward pass or in the backward
 * pass, according to the pass that makes it. */
static void emit_receives(zr__program *p, const part *t, int32_t stage, bool backward)
{
    const zr_graph *g = t->graph;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (!t->live[i] || t->plan->stage[t->kind][i] != stage) continue;
        for (int j = 0; j < op->n_in; j++) {
            const int32_t from = op->in[j] == ZR_NONE ? -1 : zr_graph_value(g, op->in[j])->producer;
            if (from < 0 || is_own(t, from) || t->received[op->in[j]]) continue;
            if (zr_graph_get_op(g, from)->backward != backward) continue;
            t->received[op->in[j]] = true;
            zr__program_emit(p, (zr__run_of){.op = -1,
                                             .role = ZR__RECV,
                                             .value = op->in[j],
                                             .unit = op->unit,
                                             .peer = zr__op_role(t->plan, t->kind, from),
                                             .peer_stage = t->plan->stage[t->kind][from]});
        }
    }
}

/* Return the stage of a role that first reads a value. */
static int32_t first_reader(const part *t, zr_value value, int32_t role)
{
    const zr_graph *g = t->graph;
    int32_t first = -1;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        const int32_t stage = t->plan->stage[t->kind][i];
        const bool backward = zr_graph_get_op(g, zr_graph_value(g, value)->producer)->backward;
        for (int j = 0; j < op->n_in && t->live[i] && zr__op_role(t->plan, t->kind, i) == role; j++)
            if (op->in[j] == value && (first < 0 || (backward ? stage > first : stage < first))) first = stage;
    }
    return first;
}

/* Emit SEND for each other role that reads an output of the op. */
static void emit_sends(zr__program *p, const part *t, int32_t index)
{
    const zr_op *op = zr_graph_get_op(t->graph, index);
    for (int j = 0; j < op->n_out && t->plan->stage[t->kind]; j++)
        for (int32_t role = 0; role < t->plan->layout.pipeline; role++)
            if (role != t->plan->layout.role && t->readers[op->out[j]] >> role & 1)
                zr__program_emit(p, (zr__run_of){.op = -1,
                                                 .role = ZR__SEND,
                                                 .value = op->out[j],
                                                 .unit = op->unit,
                                                 .peer = role,
                                                 .peer_stage = first_reader(t, op->out[j], role)});
}

/* Return the next own stage of a role in the order of the model, or -1 behind the last one. The first call passes -1.
 * The look-up of a tied table comes first. */
static int32_t next_stage(const part *t, int32_t stage)
{
    const zr_plan *plan = t->plan;
    const zr__pipe pipe = zr__pipe_of(&plan->layout);
    if (!plan->stage[t->kind]) return stage < 0 ? 0 : -1;
    if (stage < 0 && zr__pipe_rank(&pipe, plan->stages - 1) == plan->layout.role) return plan->stages;
    stage = stage == plan->stages ? 0 : stage + 1;
    while (stage < plan->stages && zr__pipe_rank(&pipe, stage) != plan->layout.role) stage++;
    return stage < plan->stages ? stage : -1;
}

static bool in_stage(const part *t, int32_t op, int32_t stage)
{
    return !t->plan->stage[t->kind] || t->plan->stage[t->kind][op] == stage;
}

static void emit_forward(zr__program *p, const part *t, int32_t stage)
{
    p->now.stage = stage;
    p->now.phase = ZR__PHASE_F;
    if (t->plan->stage[t->kind]) emit_receives(p, t, stage, false);
    for (int32_t i = 0; i < zr_graph_ops(t->graph); i++) {
        if (!t->live[i] || zr_graph_get_op(t->graph, i)->backward || !in_stage(t, i, stage)) continue;
        emit_op(p, t->graph, i, ZR__FORWARD);
        emit_sends(p, t, i);
    }
}

/* Return whether a backward op gives only gradients of parameters, or contributions to such gradients, and no other
 * role waits for one. */
static bool is_for_params(const part *t, const zr_op *op)
{
    for (int j = 0; j < op->n_out; j++)
        if (zr_graph_value(t->graph, op->out[j])->param < 0 || t->waited[op->out[j]]) return false;
    return true;
}

/* Emit the backward pass of a stage. If the schedule splits it, the ops that give only gradients of parameters follow
 * the others. */
static void emit_backward(zr__program *p, const part *t, int32_t stage, const bool *dropped, bool *present)
{
    const zr_graph *g = t->graph;
    const zr__pipe pipe = zr__pipe_of(&t->plan->layout);
    const bool splits = t->plan->stage[t->kind] && zr__pipe_splits(&pipe);
    /* without a pipeline all runs are in one phase, so that the head's forward and backward ops are one segment */
    const zr__phase phase = t->plan->stage[t->kind] ? ZR__PHASE_B : ZR__PHASE_F;
    p->now.stage = stage;
    p->now.phase = phase;
    if (t->plan->stage[t->kind]) emit_receives(p, t, stage, true);
    for (int apart = 0; apart <= splits; apart++) {
        p->now.phase = apart ? ZR__PHASE_W : phase;
        for (int32_t i = 0; i < zr_graph_ops(g); i++) {
            const zr_op *op = zr_graph_get_op(g, i);
            if (!op->backward || !in_stage(t, i, stage) || (splits && is_for_params(t, op) != apart)) continue;
            emit_replays(p, t->plan, g, dropped, t->live, present, present + zr_graph_ops(g), i);
            emit_op(p, g, i, ZR__BACKWARD);
            emit_sends(p, t, i);
        }
    }
}

zr_status zr__program_make(zr__program *p, const zr_plan *plan, zr_schedule_kind kind)
{
    const zr_graph *g = plan->graph[kind];
    size_t values = (size_t)zr_graph_values(g), ops = (size_t)zr_graph_ops(g);
    ZR_AUTO_FREE bool *dropped = zr_alloc(3 * values + 3 * ops + 1);
    ZR_AUTO_FREE uint64_t *readers = zr_alloc(sizeof *readers * (values + 1));
    memset(p, 0, sizeof *p);
    ZR_CHECK(dropped && readers, ZR_ERR_MEMORY, "no memory to plan %zu values", values);
    const part t = {plan,
                    g,
                    kind,
                    .received = dropped + values,
                    .waited = dropped + 2 * values,
                    .live = dropped + 3 * values,
                    .readers = readers};
    bool *present = t.live + ops;
    find_live(g, t.live);
    find_readers(&t);
    find_waited(&t);
    if (kind == ZR_SCHEDULE_TRAIN) ZR_TRY(zr__find_dropped(plan, g, dropped));
    int32_t own[ZR_CHUNKS + 1], n = 0;
    for (int32_t s = next_stage(&t, -1); s >= 0; s = next_stage(&t, s)) own[n++] = s;
    for (int32_t k = 0; k < n; k++) emit_forward(p, &t, own[k]);
    for (size_t v = 0; v < values; v++) dropped[v] &= !t.received[v]; /* its producer cannot run here */
    int passes = kind == ZR_SCHEDULE_TRAIN && plan->layout.two_pass ? 2 : 1;
    for (int pass = 0; pass < passes; pass++) {
        memset(present, 0, ops);
        for (int32_t k = n - 1; k >= 0; k--) emit_backward(p, &t, own[k], dropped, present);
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
