/* Writes the steps of all schedules, from the decisions of segments.c. */
#include "base/core/core.h"
#include "plan/write/write.h"

/* ---- reductions ------------------------------------------------------------------------------ */

/* Return the segment for a unit in the table `decided` (`due` or `consumed` of zr__decided), in the pass to which
 * `segment` belongs. */
static int32_t of_unit(const zr__writing *w, const int32_t *decided, int32_t unit, int32_t segment)
{
    return decided[(ptrdiff_t)w->decided.segment[segment].pass * w->list.plan->n_units + unit];
}

/* Return whether a segment belongs to a backward pass that only computes the gradient norm. */
static bool for_norm(const zr__writing *w, int32_t segment)
{
    return w->decided.segment[segment].pass + 1 < w->decided.program.passes;
}

/* Update the units whose gradients are consumed at the end of this segment (lean states). `reduced_now` selects the
 * units that are also reduced at the end of this segment. Otherwise update the units that were reduced at the end of an
 * earlier segment. */
static void consume_units(zr__writing *w, int32_t segment, bool reduced_now)
{
    const zr__decided *d = &w->decided;
    const zr__segment *its = &d->segment[segment];
    for (int32_t u = its->first_unit; u < its->end_unit; u++)
        if (of_unit(w, d->consumed, u, segment) == segment &&
            (of_unit(w, d->due, u, segment) == segment) == reduced_now)
            zr__write_consume(&w->list, u, w->now->grad_buffer[u], for_norm(w, segment));
}

/* Return the buffer of the accumulators to which a unit adds its micro-batches before ranks sum them
 * (zr_plan.reduces_early), or ZR_NONE if these are no transient buffer. */
static int32_t accumulators_of(zr__writing *w, int32_t unit)
{
    const int64_t elems = w->list.plan->unit[unit].padded_elems;
    if (w->list.plan->reduces_early && w->accumulators[unit] == ZR_NONE)
        w->accumulators[unit] = zr__list_buffer(&w->list, ZR_SPACE_DEVICE, ZR_CATEGORY_GRAD, unit,
                                                "gradient accumulators (fp32)", zr_dtype_span(ZR_F32, elems));
    return w->accumulators[unit];
}

static void reduce_units(zr__writing *w, int32_t segment)
{
    const zr__segment *its = &w->decided.segment[segment];
    /* Write updates before this segment's reductions. Otherwise their AGREE steps would wait for the reductions on the
     * comm stream. */
    consume_units(w, segment, false);
    for (int32_t u = its->first_unit; u < its->end_unit && w->list.status == ZR_OK; u++) {
        if (of_unit(w, w->decided.due, u, segment) != segment) continue;
        zr__write_reduce(&w->list, u, zr__unit_gradient(w, u), accumulators_of(w, u),
                         w->decided.segment[segment].pass > 0);
        /* Gather the other ranks' shards of the sums. A pass that only computes the norm does not need them. */
        if (!for_norm(w, segment)) zr__write_gather_sums(&w->list, u, w->now->grad_buffer[u], false);
        const bool last = w->now == &w->micro[w->decided.n_micros - 1]; /* the sums are complete */
        if (last && zr__squares_early(w->list.plan, u) && !zr__copies_grad_home(w->list.plan, u))
            zr__write_square(&w->list, u, &w->list.plan->unit[u].sums);
    }
    consume_units(w, segment, true);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Record instance number `instance` of a value, which the use `place` stores. */
static void now_at(zr__writing *w, zr_value value, int32_t instance, zr_use place)
{
    w->list.schedule->value[value] = place;
    w->now->place[instance] = place.buffer;
    w->now->instance[value] = instance;
}

/* Write the LOSS step of each term whose losses an op computes, once per micro-batch, after that op. The op may be a
 * forward or a backward op. */
static void write_losses(zr__writing *w, int32_t op)
{
    zr__list *l = &w->list;
    for (int t = 0; t < l->plan->terms; t++) {
        const zr_value losses = zr_graph_get_loss_term(l->graph, t);
        if (zr_graph_value(l->graph, losses)->producer != op) continue;
        const zr__id step = zr__list_step(l, ZR_STEP_LOSS, ZR_STREAM_COMPUTE, zr_graph_get_op(l->graph, op)->unit);
        zr__list_newest(l)->term = t;
        zr__list_use(l, step, zr__use_as(l->schedule->value[losses], true, false));
        zr__list_use(l, step, zr__use_all(l->plan->loss, true, true));
    }
}

static void write_run(zr__writing *w, int32_t run)
{
    zr__list *l = &w->list;
    const zr_op *op = zr__op_of(&w->decided, run);
    const zr__program *p = &w->decided.program;
    const bool replay = p->run[run].role == ZR__REPLAY;
    zr__id step = zr__list_step(l, ZR_STEP_RUN, ZR_STREAM_COMPUTE, op->unit);
    zr__list_newest(l)->op = p->run[run].op;
    zr__list_newest(l)->replay = replay;
    zr__list_pace(l, step, w->sent);
    w->sent = ZR_NONE;
    for (int j = 0; j < op->n_in && l->status == ZR_OK; j++) zr__list_use(l, step, zr__place_input(w, op->in[j]));
    zr_use made[ZR_OP_OUTS] = {0};
    for (int j = 0; j < op->n_out && l->status == ZR_OK; j++) {
        made[j] = zr__place_output(w, step, run, j);
        zr__list_use(l, step, made[j]);
    }
    for (int j = 0; j < op->n_out && l->status == ZR_OK; j++) now_at(w, op->out[j], w->decided.made[run] + j, made[j]);
    int64_t scratch = zr__device_facts_scratch(&l->plan->profile.facts, l->graph, op);
    if (scratch > 0) {
        int32_t buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_WORK, op->unit, "scratch", scratch);
        zr__list_use(l, step, zr__use_all(buffer, true, true));
    }
    if (op->def->reads_seeds && l->plan->terms > 1) zr__list_use(l, step, zr__use_all(l->plan->counted, true, false));
    if (!replay && run < p->pass_end[0] && w->kind != ZR_SCHEDULE_DECODE) write_losses(w, p->run[run].op);
}

/* ---- joins of tensor-parallel ranks ----------------------------------------------------------- */

/* Add a step in which the tensor-parallel ranks exchange pieces of an op's operand or output. */
static zr__id join_step(zr__writing *w, int32_t op, int32_t unit, zr_step_kind kind, int64_t piece)
{
    zr__list *l = &w->list;
    zr__id step = zr__list_step(l, kind, ZR_STREAM_COMM, unit);
    zr_step *made = zr__list_newest(l);
    made->op = op;
    made->group = ZR_GROUP_TENSOR;
    made->rounds = 1;
    made->range = (zr_range){.count = piece, .by = {piece, ZR_GROUP_TENSOR}};
    return step;
}

/* Return a use of this rank's piece of a value, or of all ranks' pieces if `each` is true. */
static zr_use piece_of(zr_use use, int64_t piece, bool each, bool reads, bool writes)
{
    use.range.count = piece;
    use.range.by = (zr_stride){piece, ZR_GROUP_TENSOR};
    use.each = each;
    return zr__use_as(use, reads, writes);
}

/* Write an all-gather of all ranks' pieces into `out`. `mine` is this rank's piece, or NULL if it is already in
 * `out`. */
static zr__id write_gather_pieces(zr__writing *w, int32_t op, int32_t unit, const zr_use *mine, zr_use out,
                                  int64_t piece)
{
    zr__list *l = &w->list;
    zr__id step = join_step(w, op, unit, ZR_STEP_GATHER, piece);
    zr__list_use(l, step, mine ? *mine : piece_of(out, piece, false, true, true));
    zr__list_use(l, step, piece_of(out, piece, true, !mine, true));
    zr__list_use(l, step, zr__use_all(zr_plan_staging(l->plan, ZR_GROUP_TENSOR), true, true));
    return step;
}

/* Write a reduce-scatter that sums the operands `in` of all ranks. With ZR_JOIN_SCATTER, this rank's piece of the sum
 * is the whole output. Otherwise the piece is written to its position in the output. Return the use of the output. */
static zr_use write_sum_pieces(zr__writing *w, int32_t run, zr_use in, int64_t piece)
{
    zr__list *l = &w->list;
    const zr_op *op = zr__op_of(&w->decided, run);
    const zr__run_of *of = &w->decided.program.run[run];
    zr__id step = join_step(w, of->op, op->unit, ZR_STEP_REDUCE_SCATTER, piece);
    zr__list_newest(l)->replay = of->role == ZR__REPLAY;
    const zr_use out = zr__place_output(w, step, run, 0);
    const bool in_place = in.buffer == out.buffer;
    zr__list_use(l, step, piece_of(in, piece, true, true, in_place));
    zr__list_use(l, step, zr__use_all(zr_plan_staging(l->plan, ZR_GROUP_TENSOR), true, true));
    zr__list_use(l, step, op->def->join == ZR_JOIN_SUM ? piece_of(out, piece, false, in_place, true) : out);
    return out;
}

/* Write the communication steps of an op that joins values of the tensor-parallel ranks. ZR_JOIN_SUM becomes a
 * reduce-scatter followed by a gather. */
static void write_join(zr__writing *w, int32_t run)
{
    const zr_op *op = zr__op_of(&w->decided, run);
    const zr__run_of *of = &w->decided.program.run[run];
    const bool gathers = op->def->join == ZR_JOIN_GATHER;
    const zr_use in = zr__place_input(w, op->in[0]);
    const int64_t piece = gathers ? in.range.count : in.range.count / zr__cut_ranks(w->list.plan);
    const zr_use out = gathers ? zr__place_output(w, ZR_NONE, run, 0) : write_sum_pieces(w, run, in, piece);
    if (op->def->join != ZR_JOIN_SCATTER) {
        (void)write_gather_pieces(w, of->op, op->unit, gathers ? &in : NULL, out, piece);
        zr__list_newest(&w->list)->replay = of->role == ZR__REPLAY;
    }
    now_at(w, op->out[0], w->decided.made[run], out);
}

/* ---- checkpoints ------------------------------------------------------------------------------ */

int64_t zr__piece_elems(const zr_plan *plan, const zr_value_info *value)
{
    const int64_t ranks = zr__cut_ranks(plan);
    return (zr_shape_elems(&value->type.shape) + ranks - 1) / ranks;
}

/* Return whether a checkpoint on disk passes through a separate buffer. On a device with its own memory it passes
 * through host memory. Otherwise it needs a buffer on the device only if a piece of the value is stored, because a
 * piece does not begin at a block of the disk. */
static bool passes(const zr_plan *plan, const zr__run_of *of)
{
    return plan->checkpoint_home == ZR_SPACE_DISK && (plan->profile.facts.own_memory || of->pieces);
}

/* Return a use of a new buffer through which a checkpoint on disk passes. `like` is a use of the checkpoint. */
static zr_use passing_use(zr__list *l, int32_t unit, zr_use like)
{
    const zr_space space = l->plan->profile.facts.own_memory ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    like.range = (zr_range){.count = like.range.count};
    like.buffer = zr__list_buffer(l, space, ZR_CATEGORY_CHECKPOINT, unit, "checkpoint in passing",
                                  zr_dtype_span(like.dtype, like.range.count));
    return like;
}

static zr_space space_of(const zr__list *l, const zr_use *use)
{
    return l->status == ZR_OK ? l->schedule->buffer[use->buffer].space : ZR_SPACE_DEVICE;
}

/* Write the copy of a forward value into the buffer of its checkpoint. If the checkpoint is stored in pieces, copy only
 * this rank's piece. */
static void write_keep(zr__writing *w, int32_t run)
{
    zr__list *l = &w->list;
    const zr__run_of *of = &w->decided.program.run[run];
    const zr_value_info *value = zr_graph_value(l->graph, of->value);
    const zr_space home = l->plan->checkpoint_home;
    zr_use from = zr__place_input(w, of->value), to = zr__use_value(l->graph, of->value, ZR_NONE, false, true);
    /* Compute no further checkpoint while two are being written to disk. Otherwise a slow disk could keep all these
     * values in memory at the same time. */
    if (home == ZR_SPACE_DISK) zr__list_pace(l, l->newest, w->stored[1]);
    if (of->pieces) {
        const int64_t piece = zr__piece_elems(l->plan, value), ranks = zr__cut_ranks(l->plan);
        zr_use padding = zr__use_as(from, false, true);
        padding.range.first += from.range.count;
        padding.range.count = piece * ranks - from.range.count;
        if (padding.range.count > 0)
            zr__list_use(l, zr__list_step(l, ZR_STEP_ZERO, ZR_STREAM_COMPUTE, of->unit), padding);
        from = piece_of(from, piece, false, true, false);
        to.range.count = piece;
    }
    if (passes(l->plan, of)) {
        const zr_use passed = passing_use(l, of->unit, to);
        const zr_stream stream = space_of(l, &passed) == ZR_SPACE_HOST ? ZR_STREAM_COPY : ZR_STREAM_COMPUTE;
        (void)zr__list_copy(l, stream, of->unit, (zr_range){0}, from, passed);
        from = passed;
    }
    to.buffer = w->now->kept[of->value] = zr__list_buffer(l, home, ZR_CATEGORY_CHECKPOINT, of->unit, "checkpoint",
                                                          zr_dtype_span(to.dtype, to.range.count));
    const zr_stream stream = home == ZR_SPACE_DEVICE ? ZR_STREAM_COMPUTE : zr__copy_stream(ZR_SPACE_DEVICE, home);
    const zr__id copy = zr__list_copy(l, stream, of->unit, (zr_range){0}, from, to);
    if (home != ZR_SPACE_DISK) return;
    w->stored[1] = w->stored[0];
    w->stored[0] = copy;
}

/* Write the steps that restore an activation checkpoint into a device buffer. A checkpoint on the host is copied from
 * there on the copy stream, and a checkpoint on disk is read on the fetch stream. A checkpoint in pieces is gathered
 * from the tensor-parallel ranks. */
static void write_restore(zr__writing *w, int32_t run)
{
    zr__list *l = &w->list;
    const zr__run_of *of = &w->decided.program.run[run];
    const zr_value_info *value = zr_graph_value(l->graph, of->value);
    /* Do not fetch a checkpoint before the previous segment computes. Otherwise all checkpoints could be on the device
     * at the same time. */
    const zr__id pace = w->ended[l->plan->layout.overlap];
    zr_use from = zr__use_value(l->graph, of->value, w->now->kept[of->value], true, false),
           to = zr__use_value(l->graph, of->value, ZR_NONE, false, true);
    const int64_t elems = to.range.count, piece = of->pieces ? zr__piece_elems(l->plan, value) : elems,
                  ranks = of->pieces ? zr__cut_ranks(l->plan) : 1;
    from.range.count = piece;
    if (passes(l->plan, of)) {
        const zr_use passed = passing_use(l, of->unit, from);
        zr__list_pace(l, zr__list_copy(l, ZR_STREAM_FETCH, of->unit, (zr_range){0}, from, passed), pace);
        from = zr__use_as(passed, true, false);
    }
    to.buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_ACT, of->unit, "fetched checkpoint",
                                zr_dtype_span(to.dtype, piece * ranks));
    const zr_space space = space_of(l, &from);
    const bool away = space != ZR_SPACE_DEVICE;
    zr__id step = ZR_NONE;
    if (away)
        step = zr__list_copy(l, zr__copy_stream(space, ZR_SPACE_DEVICE), of->unit, (zr_range){0}, from,
                             of->pieces ? piece_of(to, piece, false, false, true) : to);
    if (of->pieces) {
        const zr__id gather = write_gather_pieces(w, value->producer, of->unit, away ? NULL : &from, to, piece);
        zr__list_newest(l)->restores = true;
        if (!away) step = gather;
    }
    zr__list_pace(l, step, pace);
    now_at(w, of->value, w->decided.made[run], to);
}

/* ---- beginning and end of a micro-batch ------------------------------------------------------- */

/* Write the step BATCH. The caller fills the inputs in host memory, and BATCH copies them to the device. */
static void write_batch(zr__writing *w)
{
    zr__list *l = &w->list;
    const zr_layout *layout = &l->plan->layout;
    zr__id step = zr__list_step(l, ZR_STEP_BATCH, ZR_STREAM_COMPUTE, -1);
    zr__list_newest(l)->range = (zr_range){.count = layout->batch, .by = {layout->batch, ZR_GROUP_DATA}};
    for (int32_t i = 0; i < zr_graph_inputs(l->graph) && l->status == ZR_OK; i++) {
        zr_value input = zr_graph_input(l->graph, i);
        int64_t bytes = zr__value_bytes(zr_graph_value(l->graph, input));
        int32_t given = zr__list_buffer(l, ZR_SPACE_HOST, ZR_CATEGORY_ACT, -1, "input", bytes),
                place = zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_ACT, -1, "input", bytes);
        zr_use use = zr__use_value(l->graph, input, place, false, true);
        now_at(w, input, i, use);
        zr__list_use(l, step, use);
        use.buffer = given;
        zr__list_use(l, step, use);
    }
    if (w->kind != ZR_SCHEDULE_DECODE) zr__list_use(l, step, zr__use_all(l->plan->loss, true, true));
}

/* Write the gathers of parameters that the previous training step has updated (stages 1 and 2). The units are in the
 * order of their first use. */
static void refresh_units(zr__writing *w, bool *done)
{
    zr__list *l = &w->list;
    for (int32_t i = 0; i < w->decided.program.n; i++) {
        const zr_op *op = zr__op_of(&w->decided, i);
        for (int j = 0; op && j < op->n_in; j++) {
            int32_t unit = zr__param_unit(l->graph, op->in[j]);
            if (unit < 0 || done[unit]) continue;
            zr__write_refresh(l, unit, ZR_WHEN_STALE);
            done[unit] = true;
        }
    }
    for (int32_t u = 0; u < l->plan->n_units; u++) /* then the units whose parameters are read by no op */
        if (!done[u]) zr__write_refresh(l, u, ZR_WHEN_STALE);
}

/* Write the runs [run, end). If `restores` is true, write only the RESTOREs at the beginning of the range. Return the
 * first run that is not written. */
static int32_t write_runs(zr__writing *w, int32_t run, int32_t end, bool restores)
{
    for (; run < end; run++) {
        const zr_op *op = zr__op_of(&w->decided, run);
        const zr__role role = w->decided.program.run[run].role;
        if (restores && role != ZR__RESTORE) return run;
        if (role == ZR__SEND)
            zr__write_send(w, run);
        else if (role == ZR__RECV)
            now_at(w, w->decided.program.run[run].value, w->decided.made[run], zr__write_receive(w, run));
        else if (!op)
            (role == ZR__KEEP ? write_keep : write_restore)(w, run);
        else
            (op->def->join != ZR_JOIN_NONE ? write_join : write_run)(w, run);
    }
    return end;
}

/* Set the micro-batch of the round to which new steps belong. */
static void take_micro(zr__writing *w, int32_t micro)
{
    w->list.micro = micro;
    w->now = &w->micro[micro];
}

/* Set the cell to which new steps belong. Return whether this begins another action of a pipeline: a stage's cells of
 * a micro-batch that follow each other are one. */
static bool take_cell(zr__writing *w, const zr__cell *cell)
{
    const zr__segment *segment = &w->decided.segment[cell->segment];
    const int32_t micro = w->list.micro, stage = w->list.stage;
    const char action = w->list.action;
    take_micro(w, cell->micro);
    if (w->list.plan->layout.pipeline == 1) return false;
    w->list.stage = segment->stage;
    w->list.action = (w->decided.splits ? "FIW" : "FBB")[segment->phase];
    return micro != w->list.micro || stage != w->list.stage || action != w->list.action;
}

/* Return whether a cell is the first of its visit. */
static bool begins_visit(const zr__decided *d, int32_t cell)
{
    return cell == 0 || d->cell[cell - 1].visit != d->cell[cell].visit;
}

/* Return the pass of a cell, or -1 after the last cell. */
static int pass_of(const zr__decided *d, int32_t cell)
{
    return cell < d->n_cells ? d->segment[d->cell[cell].segment].pass : -1;
}

static void write_cell(zr__writing *w, int32_t index)
{
    const zr__decided *d = &w->decided;
    const zr__cell *cell = &d->cell[index], *next = cell + 1;
    if (take_cell(w, cell)) {
        w->acted[1] = w->acted[0];
        w->acted[0] = w->ended[0];
    }
    if (begins_visit(d, index)) zr__gathers_issue(&w->gathers, &w->list, cell->visit, w->ended[0]);
    if (!w->now->begun) write_batch(w); /* BATCH comes after the gathers, so that they overlap with it */
    w->now->begun = true;
    const int32_t first = d->segment[cell->segment].first;
    write_runs(w, w->now->restored > first ? w->now->restored : first, d->segment[cell->segment].end, false);
    w->now->restored = 0;
    w->ended[1] = w->ended[0];
    w->ended[0] = w->list.last[ZR_STREAM_COMPUTE];
    /* Restore the checkpoints of the next cell before this cell's reductions are written, since the checkpoints are
     * needed earlier than the sums. */
    if (w->list.plan->layout.overlap && pass_of(d, index + 1) == pass_of(d, index)) {
        (void)take_cell(w, next);
        const zr__segment *its = &d->segment[next->segment];
        w->now->restored = write_runs(w, its->first, its->end, true);
        (void)take_cell(w, cell);
    }
    if (w->kind == ZR_SCHEDULE_TRAIN) reduce_units(w, cell->segment);
}

static void write_cells(zr__writing *w)
{
    zr__list *l = &w->list;
    w->ended[0] = w->ended[1] = w->acted[0] = w->acted[1] = w->stored[0] = w->stored[1] = w->sent = ZR_NONE;
    for (int32_t c = 0; c < w->decided.n_cells && l->status == ZR_OK; c++) {
        /* Other roles take their copies at the beginning, so SENT does not wait here. A part that was brought for them
         * is then free. */
        if (c == 1) zr__write_all_sent(w, w->n_copies);
        /* with two passes there is only one micro-batch */
        if (c > 0 && pass_of(&w->decided, c) != pass_of(&w->decided, c - 1)) {
            zr__write_norm(l);
            for (int32_t u = 0; u < l->plan->n_units; u++) w->now->grad_buffer[u] = ZR_NONE;
        }
        write_cell(w, c);
    }
    take_micro(w, 0);
    zr__write_all_sent(w, w->n_channels);
    l->action = 0;
}

/* ---- whole schedules --------------------------------------------------------------------------- */

static zr_status alloc_tables(zr__writing *w)
{
    const zr_graph *g = w->list.graph;
    const size_t units = (size_t)w->list.plan->n_units, values = (size_t)zr_graph_values(g);
    const size_t instances = (size_t)zr_graph_inputs(g) + (size_t)w->decided.program.n * ZR_OP_OUTS;
    const size_t each = 2 * values + instances + units; /* number of entries in all tables of a micro-batch */
    w->accumulators = zr_alloc(sizeof *w->accumulators * (units + 1));
    const int32_t micros = w->decided.n_micros;
    w->micro = zr_alloc(sizeof *w->micro * (size_t)micros);
    w->list.schedule->value = zr_alloc(sizeof(zr_use) * (values + 1));
    int32_t *table = zr_alloc(sizeof *table * ((size_t)micros * each + 1));
    if (w->micro)
        w->micro->instance = table;
    else
        zr_free(table);
    ZR_CHECK(w->micro && table && w->accumulators && w->list.schedule->value, ZR_ERR_MEMORY,
             "no memory to plan %zu values", values);
    for (size_t u = 0; u < units; u++) w->accumulators[u] = ZR_NONE;
    for (int32_t m = 0; m < micros; m++, table += each) {
        zr__micro *micro = &w->micro[m];
        *micro = (zr__micro){table, table + values, table + 2 * values, table + 2 * values + instances, false, 0};
        for (size_t v = 0; v < values; v++) micro->instance[v] = -1;
        for (size_t u = 0; u < units; u++) micro->grad_buffer[u] = ZR_NONE;
    }
    for (size_t v = 0; v < values; v++) w->list.schedule->value[v] = zr__use_all(ZR_NONE, false, false);
    return ZR_OK;
}

static zr_status begin_writing(zr__writing *w, zr_plan *plan, zr_schedule_kind kind)
{
    w->kind = kind;
    ZR_TRY(zr__list_begin(&w->list, plan, plan->graph[kind], &plan->schedule[kind]));
    ZR_TRY(zr__decide(&w->decided, plan, kind));
    ZR_TRY(alloc_tables(w));
    const zr__decided *d = &w->decided;
    ZR_TRY(zr__gathers_begin(&w->gathers, plan, d->n_cells)); /* there are at most as many visits as cells */
    for (int32_t c = 0; c < d->n_cells; c++) {
        const zr__segment *segment = &d->segment[d->cell[c].segment];
        const bool again = !begins_visit(d, c) && d->cell[c].segment == d->cell[c - 1].segment;
        for (int32_t i = segment->first; !again && i < segment->end; i++) {
            const zr_op *op = zr__op_of(d, i);
            for (int j = 0; op && j < op->n_in; j++) {
                int32_t unit = zr__param_unit(w->list.graph, op->in[j]);
                if (unit >= 0) zr__gathers_add(&w->gathers, plan, d->cell[c].visit, unit);
            }
        }
    }
    /* The key-value caches of decoding were planned in the order of the values in the graph. */
    for (int32_t b = 0, v = 0; b < plan->n_persistent && kind == ZR_SCHEDULE_DECODE; b++) {
        if (plan->persistent[b].category != ZR_CATEGORY_ACT) continue;
        while (zr_graph_value(w->list.graph, v)->kind != ZR_VALUE_CACHE) v++;
        w->list.schedule->value[v] = zr__use_value(w->list.graph, v, b, true, true);
        v++;
    }
    return w->gathers.status;
}

static void end_writing(zr__writing *w)
{
    zr__list_end(&w->list);
    zr__decided_free(&w->decided);
    zr__gathers_end(&w->gathers);
    if (w->micro) zr_free(w->micro->instance); /* this allocation has the tables of all micro-batches */
    zr_free(w->micro);
    zr_free(w->accumulators);
    zr__end_channels(w);
}

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind)
{
    ZR_AUTO(end_writing) zr__writing w = {0};
    ZR_AUTO_FREE bool *refreshed = zr_alloc((size_t)plan->n_units + 1);
    ZR_CHECK(refreshed, ZR_ERR_MEMORY, "no memory to plan %d units", plan->n_units);
    ZR_TRY(begin_writing(&w, plan, kind));
    if (kind == ZR_SCHEDULE_TRAIN) {
        zr__list_step(&w.list, ZR_STEP_REPEAT, ZR_STREAM_COMPUTE, -1);
        zr__list_newest(&w.list)->rounds = plan->rounds;
        zr__write_copies(&w, ZR_WHEN_STALE);
        w.n_copies = w.n_channels;
        refresh_units(&w, refreshed);
        /* COUNT comes before the gathers that run in every round. If it came after, a wait for COUNT would also wait
         * for these gathers, but only in the first round. */
        zr__write_count(&w.list);
        zr__policies_round(&w.list);
    }
    write_cells(&w);
    const zr_value output = zr_graph_get_output(plan->graph[kind]);
    if (kind == ZR_SCHEDULE_DECODE && output != ZR_NONE && w.list.status == ZR_OK) { /* copy the output to the host */
        const zr_use from = w.list.schedule->value[output];
        zr_use to = from;
        to.range.first = 0;
        to.buffer = plan->output;
        (void)zr__list_copy(&w.list, ZR_STREAM_COMPUTE, -1, (zr_range){0}, from, to);
    }
    if (kind == ZR_SCHEDULE_TRAIN) {
        zr__list_step(&w.list, ZR_STEP_END, ZR_STREAM_COMPUTE, -1);
        zr__write_update(&w.list);
    }
    zr__policies_rewrite(&w.list);
    return zr__list_finish(&w.list);
}

/* Write the schedule FLUSH or FILL. It gathers the parameters that other ranks have updated or filled, for each unit
 * that is stored whole on every rank, and brings the copies of other roles up to date. */
zr_status zr__write_flush(zr_plan *plan, zr_schedule_kind kind)
{
    ZR_AUTO(end_writing) zr__writing w = {0};
    ZR_TRY(zr__list_begin(&w.list, plan, NULL, &plan->schedule[kind]));
    zr__write_copies(&w, ZR_WHEN_ALWAYS);
    for (int32_t u = 0; u < plan->n_units; u++) zr__write_refresh(&w.list, u, ZR_WHEN_ALWAYS);
    zr__write_all_sent(&w, w.n_channels);
    zr__policies_rewrite(&w.list);
    return zr__list_finish(&w.list);
}
