/* Makes the decisions that precede the writing of steps: segments, lifetimes of values, and when units are reduced.
 *
 * A segment is a sequence of consecutive runs of one unit. At stage 3 a segment gathers the units whose parameters it
 * reads. A unit's gradient is reduced at the end of the last segment that contributes to it. For example, GPT-2's
 * blocks are gathered twice (forward, backward) and its final norm once. Its embedding is gathered twice: for the
 * look-up, and for the head, whose forward and backward ops are one segment. */
#include "base/core/scope.h"
#include "plan/program/pipeline.h"
#include "plan/program/program.h"

#include <string.h>

const zr_op *zr__op_of(const zr__decided *d, int32_t run)
{
    return zr__program_op(&d->program, d->graph, run);
}

int32_t zr__param_unit(const zr_graph *g, zr_value value)
{
    const zr_value_info *v = value == ZR_NONE ? NULL : zr_graph_value(g, value);
    return v && v->kind == ZR_VALUE_PARAM ? zr_graph_param(g, v->param)->unit : -1;
}

static void find_segments(zr__decided *d)
{
    int pass = 0;
    for (int32_t i = 0; i < d->program.n; i++) {
        const zr__run_of *run = &d->program.run[i], *before = run - 1;
        bool turn = i == d->program.pass_end[pass];
        pass += turn;
        if (i == 0 || run->unit != before->unit || run->stage != before->stage || run->phase != before->phase || turn)
            d->segment[d->n_segments++] = (zr__segment){
                .first = i, .pass = pass, .stage = run->stage, .phase = run->phase, .first_unit = d->plan->n_units};
        d->segment[d->n_segments - 1].end = i + 1;
    }
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* Find the last use of each instance of a value, and the instances that are checkpoints. The inputs get the lowest
 * instance numbers. newest[value] is the value's newest instance so far. */
static void find_lifetimes(zr__decided *d, int32_t *newest)
{
    const zr_graph *g = d->graph;
    for (int32_t v = 0; v < zr_graph_values(g); v++) newest[v] = -1;
    for (int32_t i = 0; i < zr_graph_inputs(g); i++) {
        d->last_use[d->n_instances] = -1;
        newest[zr_graph_input(g, i)] = d->n_instances++;
    }
    const int32_t inputs = d->n_instances;
    /* one more than the highest instance that the forward pass writes; the inputs have lower numbers */
    int32_t forward = inputs;
    for (int32_t i = 0; i < d->program.n; i++) {
        const zr__run_of *run = &d->program.run[i];
        const zr_op *op = zr__op_of(d, i);
        d->made[i] = d->n_instances;
        if (run->role == ZR__KEEP || run->role == ZR__SEND) d->last_use[newest[run->value]] = i;
        if (run->role == ZR__RESTORE || run->role == ZR__RECV) {
            d->last_use[d->n_instances] = -1;
            newest[run->value] = d->n_instances++;
            if (run->phase == ZR__PHASE_F) forward = d->n_instances;
        }
        if (!op) continue;
        bool by_policy = run->role == ZR__REPLAY && zr_recomputes(d->plan->unit[op->unit].recompute);
        for (int j = 0; j < op->n_in; j++) {
            int32_t read = op->in[j] == ZR_NONE ? -1 : newest[op->in[j]];
            if (read < 0) continue;
            d->last_use[read] = i;
            if (by_policy && read >= inputs && read < forward) d->checkpoint[read] = true;
        }
        for (int j = 0; j < op->n_out; j++) {
            d->last_use[d->n_instances] = -1;
            newest[op->out[j]] = d->n_instances++;
        }
        if (run->role == ZR__FORWARD) forward = d->n_instances;
    }
    for (int t = 0; t < zr_graph_loss_terms(g); t++) {
        const zr_value losses = zr_graph_get_loss_term(g, t);
        if (newest[losses] >= 0) d->last_use[newest[losses]] = d->program.n;
    }
    const zr_value output = zr_graph_get_output(g);
    if (output != ZR_NONE && newest[output] >= 0) d->last_use[newest[output]] = d->program.n;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static void add_unit(zr__segment *segment, int32_t unit)
{
    if (unit < segment->first_unit) segment->first_unit = unit;
    if (unit >= segment->end_unit) segment->end_unit = unit + 1;
}

/* Find the segment at whose end each unit's gradient is reduced. Usually it is the last segment that contributes to the
 * gradient. If the unit's update consumes the gradient, the last segment that reads the unit's parameters counts as
 * well. */
static void find_due(const zr__decided *d, int pass)
{
    const zr_plan *plan = d->plan;
    const ptrdiff_t first = (ptrdiff_t)pass * plan->n_units;
    int32_t last = 0, *due = d->due + first, *consumed = d->consumed + first;
    for (int32_t u = 0; u < plan->n_units; u++) due[u] = -1;
    for (int32_t k = 0; k < d->n_segments && d->segment[k].pass <= pass; k++) {
        last = k;
        for (int32_t i = d->segment[k].first; d->segment[k].pass == pass && i < d->segment[k].end; i++) {
            const zr_op *op = zr__op_of(d, i);
            if (!op) continue;
            for (int j = 0; j < op->n_in && plan->consume_grad; j++) {
                int32_t unit = zr__param_unit(d->graph, op->in[j]);
                if (unit >= 0 && due[unit] >= 0) due[unit] = k;
            }
            for (int j = 0; j < op->n_out; j++) {
                const zr_value_info *v = zr_graph_value(d->graph, op->out[j]);
                if (v->kind == ZR_VALUE_GRAD) due[zr_graph_param(d->graph, v->param)->unit] = k;
            }
        }
    }
    for (int32_t u = 0; u < plan->n_units; u++) {
        if (!plan->unit[u].trains)
            due[u] = -1;
        else if (due[u] < 0)
            due[u] = last;
        /* With overlap, consume the gradient one segment later, so that the later segment computes while the gradient
         * is reduced. */
        const bool later = plan->layout.overlap && plan->moves && due[u] < last;
        consumed[u] = plan->consume_grad && due[u] >= 0 ? due[u] + later : -1;
        if (due[u] >= 0) add_unit(&d->segment[due[u]], u);
        if (consumed[u] >= 0) add_unit(&d->segment[consumed[u]], u);
    }
}

zr_status zr__decide(zr__decided *d, const zr_plan *plan, zr_schedule_kind kind)
{
    memset(d, 0, sizeof *d);
    d->plan = plan;
    d->graph = plan->graph[kind];
    ZR_TRY(zr__program_make(&d->program, plan, kind));
    size_t units = (size_t)plan->n_units, values = (size_t)zr_graph_values(d->graph), runs = (size_t)d->program.n;
    size_t instances = (size_t)zr_graph_inputs(d->graph) + runs * ZR_OP_OUTS;
    d->segment = zr_alloc(sizeof *d->segment * (runs + 1));
    d->last_use = zr_alloc(sizeof(int32_t) * (instances + 4 * units + 2 * runs + 1));
    d->checkpoint = zr_alloc(instances + 1);
    ZR_AUTO_FREE int32_t *newest = zr_alloc(sizeof *newest * (values + 1));
    ZR_CHECK(d->segment && d->last_use && d->checkpoint && newest, ZR_ERR_MEMORY, "no memory to plan %zu values",
             values);
    d->due = d->last_use + instances;
    d->consumed = d->due + 2 * units;
    d->made = d->consumed + 2 * units;
    d->depth = d->made + runs;
    const zr__pipe pipe = zr__pipe_of(&plan->layout);
    d->splits = plan->layout.pipeline > 1 && zr__pipe_splits(&pipe);
    find_segments(d);
    find_lifetimes(d, newest);
    for (int pass = 0; pass < d->program.passes; pass++) find_due(d, pass);
    return zr__make_cells(d, kind);
}

void zr__decided_free(zr__decided *d)
{
    zr__program_free(&d->program);
    zr_free(d->segment);
    zr_free(d->cell);
    zr_free(d->last_use);
    zr_free(d->checkpoint);
}
