/* Walks through a schedule. One thread issues the steps to the queues of their streams. A mark, like a CUDA event,
 * completes when its step has ended. Before each step, the thread makes the queue wait for the marks of the steps on
 * which the step depends. */
#include "engine/walk.h"
#include "comm/comm.h"
#include "plan/cost/cost.h"
#include "plan/list/place.h"

#include <stdatomic.h>
#include <string.h>

char *zr__at(const zr__running *r, int use)
{
    zr_use its = r->use[use];
    if (its.range.count > 0) its.range.first += r->first;
    return zr__use_at(r->engine, r->bound->schedule, &its);
}

/* ---- what steps do ----------------------------------------------------------------------------- */

/* Check the beginnings of documents, which the kernels rely on: each token begins a document, or is in the document of
 * the token before. */
static zr_status check_documents(const zr_graph *g, void *const *input)
{
    const zr_value documents = zr_graph_get_documents(g);
    if (documents == ZR_NONE) return ZR_OK;
    const int32_t *begin = input[zr_graph_inputs(g) - 1];
    const int64_t *dim = zr_graph_value(g, documents)->type.shape.dim;
    for (int64_t i = 0; i < dim[0] * dim[1]; i++) {
        const int64_t t = i % dim[1];
        ZR_CHECK(begin[i] == t || (t > 0 && begin[i] == begin[i - 1]), ZR_ERR_ARG,
                 "the batch callback says that the document of token %lld of row %lld begins at token %d; it must be "
                 "this token, or where the document of the token before begins",
                 (long long)t, (long long)(i / dim[1]), begin[i]);
    }
    return ZR_OK;
}

/* Let all losses of a micro-batch count: set each term's number of losses that count to the number of its losses. */
static void count_all(zr_engine *e)
{
    const zr_graph *g = e->plan->graph[e->kind];
    for (int t = 0; t < ZR_LOSS_TERMS; t++) {
        const zr_value losses = zr_graph_get_loss_term(g, t);
        e->batch_counted[t] = losses == ZR_NONE ? 0 : zr_shape_elems(&zr_graph_value(g, losses)->type.shape);
    }
    e->batch.counted = e->batch_counted;
}

/* Check the numbers of losses that count in a micro-batch, and add them to `sum`. */
static zr_status add_counted(const zr_engine *e, int64_t sum[ZR_LOSS_TERMS])
{
    const zr_graph *g = e->plan->graph[e->kind];
    for (int t = 0; t < zr_graph_loss_terms(g); t++) {
        const int64_t all = zr_shape_elems(&zr_graph_value(g, zr_graph_get_loss_term(g, t))->type.shape);
        const char *name = e->plan->terms > 1 ? zr_graph_loss_name(g, t) : "";
        ZR_CHECK(e->batch_counted[t] >= 0 && e->batch_counted[t] <= all, ZR_ERR_ARG,
                 "the batch callback says that %lld losses%s%s of its micro-batch count; it must be 0 to %lld",
                 (long long)e->batch_counted[t], *name ? " " : "", name, (long long)all);
        sum[t] += e->batch_counted[t];
    }
    return ZR_OK;
}

/* After a training step's last micro-batch, check that as many losses counted as zr_step_args.count announced to COUNT.
 */
static zr_status check_announced(const zr_engine *e)
{
    const zr_graph *g = e->plan->graph[e->kind];
    if (e->kind != ZR_SCHEDULE_TRAIN || e->plan->terms == 1 || e->batch.micro + 1 < e->micros) return ZR_OK;
    for (int t = 0; t < e->plan->terms; t++)
        ZR_CHECK(e->counted[t] == e->announced[t], ZR_ERR_ARG,
                 "the batch callback says that %lld losses %s of this rank's micro-batches count, but "
                 "zr_step_args.count said %lld before the step; both must give the same number",
                 (long long)e->counted[t], zr_graph_loss_name(g, t), (long long)e->announced[t]);
    return ZR_OK;
}

/* Call the batch function for the micro-batch e->batch. For each term of the loss, add the number of counted losses to
 * e->counted. */
static zr_status fill_batch(zr_engine *e, void *const *input)
{
    if (e->kind == ZR_SCHEDULE_TRAIN) ZR_TRY(zr__failure_tell(&e->count_failed));
    count_all(e);
    ZR_TRY(e->batch_fn(e->batch_arg, &e->batch, input));
    ZR_TRY(check_documents(e->plan->graph[e->kind], input));
    ZR_TRY(add_counted(e, e->counted));
    return check_announced(e);
}

/* Return the number of micro-batches of a training step. Set *rows to the range of BATCH, which gives their rows. */
static int64_t find_micros(const zr_schedule *s, const zr_range **rows)
{
    int64_t rounds = 1, batches = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind == ZR_STEP_REPEAT) rounds = s->step[i].rounds;
        if (s->step[i].kind != ZR_STEP_BATCH) continue;
        *rows = &s->step[i].range;
        batches++;
    }
    return rounds * batches;
}

/* Return the first row of a micro-batch of a training step. `rows` is the range of BATCH. */
static int64_t first_row_of(const zr_engine *e, const zr_range *rows, int64_t micro)
{
    return zr__first(e, rows) + micro * e->plan->group[rows->by.group].size * rows->by.elems;
}

zr_status zr__count_ahead(zr_engine *e)
{
    const zr_range *rows = NULL;
    memset(e->announced, 0, sizeof e->announced);
    e->count_failed.status = ZR_OK;
    e->kind = ZR_SCHEDULE_TRAIN;
    e->walked = false;
    if (e->plan->terms == 1) return ZR_OK;
    e->micros = find_micros(&e->plan->schedule[ZR_SCHEDULE_TRAIN], &rows);
    for (int64_t m = 0; m < e->micros; m++) {
        e->batch.micro = m;
        e->batch.first_row = first_row_of(e, rows, m);
        count_all(e);
        zr_status st = e->step->count ? e->step->count(e->batch_arg, &e->batch) : ZR_OK;
        if (st == ZR_OK) st = add_counted(e, e->announced);
        zr__failure_note(&e->count_failed, st);
        if (st != ZR_OK)
            /* stop reading, but continue the step: this rank's micro-batches fail instead, because other ranks wait for
             * it */
            break;
    }
    return ZR_OK;
}

static zr_status run_batch(const zr__running *r)
{
    zr_engine *e = r->engine;
    const zr_range *rows = &r->step->range;
    const int32_t inputs = zr_graph_inputs(e->plan->graph[e->kind]);
    const zr_device_ops *ops = r->device->ops;
    /* Copies of the previous micro-batch may still read the inputs. Wait for other work only if it may use the same
     * memory. */
    ZR_TRY(r->bound->inputs_apart ? ops->reach(r->device) : ops->finish(r->device));
    e->batch.micro = r->micro;
    e->rows_apart = e->plan->group[rows->by.group].size * rows->by.elems;
    if (e->kind == ZR_SCHEDULE_TRAIN) e->batch.first_row = first_row_of(e, rows, r->micro);
    e->first_row = e->batch.first_row - r->micro * e->rows_apart;
    for (int32_t i = 0; i < inputs; i++) r->bound->input[i] = zr__at(r, 2 * i + 1);
    zr_status st = fill_batch(e, r->bound->input);
    zr__failure_note(&e->batch_failed, st);
    /* If the batch function failed, continue with zeros and a loss that is not finite. If this rank stopped instead,
     * the other ranks would wait for it. NORM or AGREE informs all ranks before any update. */
    if (st != ZR_OK && e->plan->loss != ZR_NONE) {
        ZR_TRY(ops->finish(r->device)); /* LOSS of the previous micro-batch may still add to the loss */
        ((zr_exact *)zr__result(e, e->plan->loss))->not_finite = true;
    }
    for (int32_t i = 0; i < inputs; i++) {
        const zr_use *place = &r->use[2 * i];
        int64_t bytes = zr_dtype_span(place->dtype, place->range.count);
        if (st != ZR_OK) memset(r->bound->input[i], 0, (size_t)bytes);
        ZR_TRY(ops->copy(r->device, zr__at(r, 2 * i), zr__at(r, 2 * i + 1), bytes));
    }
    return ops->note(r->device);
}

static zr_status run_op(const zr__running *r)
{
    const zr__run *run = &r->bound->run[r->bound->run_of[r->step - r->bound->schedule->step]];
    r->engine->runtime.first_row = r->engine->first_row + r->micro * r->engine->rows_apart;
    return run->kernel->run(&run->args);
}

static zr_status run_zero(const zr__running *r)
{
    return r->device->ops->fill(r->device, zr__at(r, 0), 0, zr_dtype_span(r->use->dtype, r->use->range.count));
}

static zr_status run_copy(const zr__running *r)
{
    const zr_schedule *s = r->bound->schedule;
    const zr_space from = s->buffer[r->use[0].buffer].space, to = s->buffer[r->use[1].buffer].space;
    const int64_t bytes = zr_dtype_span(r->use->dtype, r->use->range.count);
    if (r->step->kind == ZR_STEP_COPY && !zr_when_asked(r->step->when)) r->engine->copied[from][to] += bytes;
    if (from == ZR_SPACE_DISK || to == ZR_SPACE_DISK) return zr__disk_copy(r);
    return r->device->ops->copy(r->device, zr__at(r, 1), zr__at(r, 0), bytes);
}

static struct zr__channel *channel_of(const zr__running *r)
{
    return r->engine->channel[r->engine->kind][r->step->channel];
}

/* Begin a message. Other ranks that are threads read it in this rank's memory, so the device's work on it must be
 * finished, unless messages move in the order of the stream. */
static zr_status run_begin(const zr__running *r)
{
    const bool read_here = r->step->kind == ZR_STEP_SEND && !r->engine->in_stream;
    if (read_here && r->device->profile.facts.own_memory) ZR_TRY(r->device->ops->finish(r->device));
    return zr__channel_begin(channel_of(r), zr__at(r, 0));
}

static zr_status run_end(const zr__running *r)
{
    zr_engine *e = r->engine;
    if (r->step->kind == ZR_STEP_SENT) return zr__channel_end(channel_of(r));
    /* only RECEIVED steps change this sum, and all RECEIVED steps run on one queue */
    const int64_t *sum = &e->comm->traffic.bytes[ZR_TRAFFIC_PIPELINE], before = *sum;
    ZR_TRY(zr__channel_end(channel_of(r)));
    for (int b = 0; b < ZR_BORDERS; b++)
        if (zr__plan_peer_beyond(e->plan, e->comm->rank, r->step->peer, (zr_border)b))
            e->messages_across[b] += *sum - before;
    return ZR_OK;
}

static zr_status run_loss(const zr__running *r)
{
    zr_exact *loss = (zr_exact *)zr__at(r, 1) + r->step->term;
    return r->device->ops->total(r->device, (const float *)zr__at(r, 0), r->use->range.count, loss);
}

/* Functions that run the steps. REPEAT and END have none, since they are not issued (walk_list). SAVE has none, since
 * zr__engine_put runs it. */
static zr_status (*const run_kind[ZR_STEP_KINDS])(const zr__running *r) = {
    [ZR_STEP_BATCH] = run_batch,
    [ZR_STEP_RUN] = run_op,
    [ZR_STEP_ZERO] = run_zero,
    [ZR_STEP_CAST] = zr__cast,
    [ZR_STEP_COPY] = run_copy,
    [ZR_STEP_GATHER] = zr__gather,
    [ZR_STEP_LOSS] = run_loss,
    [ZR_STEP_GATHER_GRAD] = zr__gather,
    [ZR_STEP_SQUARE] = zr__square,
    [ZR_STEP_REDUCE_SCATTER] = zr__reduce,
    [ZR_STEP_AGREE] = zr__agree,
    [ZR_STEP_NORM] = zr__norm,
    [ZR_STEP_UPDATE] = zr__update,
    [ZR_STEP_SQUARE_MICRO] = zr__square,
    [ZR_STEP_COUNT] = zr__count,
    [ZR_STEP_TRUST] = zr__trust,
    [ZR_STEP_SEND] = run_begin,
    [ZR_STEP_SENT] = run_end,
    [ZR_STEP_RECV] = run_begin,
    [ZR_STEP_RECEIVED] = run_end,
    [ZR_STEP_SQUARE_UPDATE] = zr__square_update,
    [ZR_STEP_DIRECTION] = zr__direction,
    [ZR_STEP_ORTHO] = zr__ortho,
    [ZR_STEP_GATHER_DIRECTION] = zr__gather,
    [ZR_STEP_SCATTER_DIRECTION] = zr__reduce,
};

/* ---- one step ---------------------------------------------------------------------------------- */

/* Return the index of a task, which encodes step and round. */
static int64_t task_index(const zr__bound *b, int64_t round, int32_t step)
{
    return round * b->schedule->n_steps + step;
}

/* Return the micro-batch of a task. */
static int64_t micro_of(const zr_schedule *s, int64_t index)
{
    return index / s->n_steps + s->step[index % s->n_steps].micro;
}

/* In debug builds, fill with NaNs the buffers in memory whose lifetime begins at this step. A step that reads a buffer
 * before it is written then computes NaNs, which are noticed. */
static zr_status poison(const zr__running *r, int32_t step)
{
#ifdef ZR_DEBUG
    const zr__bound *b = r->bound;
    for (int32_t i = step ? b->take_end[step - 1] : 0; i < b->take_end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[b->take[i]];
        if (buffer->space == ZR_SPACE_DISK) continue;
        ZR_TRY(r->device->ops->fill(r->device, zr__buffer(r->engine, buffer), 0xff, buffer->bytes));
    }
#else
    (void)r, (void)step;
#endif
    return ZR_OK;
}

/* Append the step to a failure's message, as in "(step 12 of the schedule, gather of h.3)". For a RUN step, name the
 * op. */
static zr_status failed_in(const zr_engine *e, const zr_step *step, int32_t index, int64_t micro, zr_status status)
{
    const zr_graph *g = e->plan->graph[e->kind];
    bool told = status == ZR_ERR_DIVERGED || status == ZR_ERR_STOPPED;
    if (told) return zr_error_frame(status, __func__, __FILE__, __LINE__);
    const char *unit = step->unit >= 0 && g ? zr_graph_unit_info(g, step->unit)->name : NULL;
    const char *kind =
        step->kind == ZR_STEP_RUN && g ? zr_graph_get_op(g, step->op)->def->name : zr_step_kind_name(step->kind);
    char cell[ZR__CELL_BYTES];
    (void)zr__engine_cell(step->stage, step->action, micro, cell);
    return ZR_FAIL(status, "%s (step %d of the schedule, %s%s%s%s%s)", zr_error_message(), index, kind,
                   unit ? " of " : "", unit ? unit : "", step->action ? ", " : "", step->action ? cell : "");
}

/* Return whether SEND or RECV have a thread of their own, so that several threads use comm at the same time. */
static bool is_piped(const zr_engine *e)
{
    return zr_queues_apart(&e->queues, ZR_STREAM_SEND) || zr_queues_apart(&e->queues, ZR_STREAM_RECV);
}

/* After a failure of a step, end the communication of this rank's other threads, which may wait for what now never
 * comes. */
static void cut_walk(zr_engine *e, zr_status st)
{
    const bool together = st == ZR_ERR_DIVERGED || st == ZR_ERR_STOPPED; /* all ranks fail, and none waits */
    if (together || !is_piped(e) || atomic_exchange(&e->cut, true)) return;
    zr__failure_note(&e->cause, st);
    zr__comm_cancel(e->comm);
}

/* Run a step. A step that moves a unit runs bucket by bucket. */
static zr_status run_step(void *arg, zr_device *device, int64_t index)
{
    zr_engine *e = arg;
    const zr__bound *b = &e->bound[e->kind];
    const int32_t i = (int32_t)(index % b->schedule->n_steps);
    const zr_step *step = &b->schedule->step[i];
    zr__running r = {e, b, step, b->schedule->use + step->uses, device, micro_of(b->schedule, index), 0, 0};
    zr__show_step(e, step, r.micro, i, false);
    const int64_t all = step->range.count, each = step->bucket_elems > 0 ? step->bucket_elems : all;
    zr_status st = poison(&r, i);
    do {
        r.count = all - r.first < each ? all - r.first : each;
        if (st == ZR_OK) st = run_kind[step->kind](&r);
        r.first += r.count;
    } while (st == ZR_OK && r.first < all);
    if (e->debug_sync && st == ZR_OK) st = device->ops->finish(device);
    if (is_piped(e) && !e->watch) zr__show_step(e, step, r.micro, i, true);
    if (st == ZR_OK) return ZR_OK;
    st = failed_in(e, step, i, r.micro, st);
    cut_walk(e, st);
    return st;
}

/* ---- the first calls --------------------------------------------------------------------------- */

/* Kinds of calls for which a communicator may take memory at the first call. */
enum { GATHERS, EXCHANGES, SUMS, CALLS };

/* A step that makes the longest call of a kind in the communicator of a group. */
typedef struct first_call {
    zr_schedule_kind schedule;
    int32_t step;
    int64_t bytes;
} first_call;

/* Choose for each communicator the longest call of each kind. */
static void find_first_calls(const zr_engine *e, first_call call[ZR_GROUPS][CALLS])
{
    for (int k = 0; k < ZR_SCHEDULES; k++) {
        const zr_schedule *s = e->bound[k].schedule;
        for (int32_t i = 0; s && i < s->n_steps; i++) {
            const zr_step *step = &s->step[i];
            const zr_move move = zr_step_traits_of(step->kind).move;
            const int64_t bytes = zr__wire_bytes(e->plan, s, step);
            if ((move != ZR_MOVE_GATHER && move != ZR_MOVE_REDUCE) || step->stream != ZR_STREAM_COMM) continue;
            first_call *its = &call[e->plan->group[step->group].same][move == ZR_MOVE_GATHER ? GATHERS
                                                                      : step->nccl           ? SUMS
                                                                                             : EXCHANGES];
            if (bytes > its->bytes) *its = (first_call){(zr_schedule_kind)k, i, bytes};
        }
    }
}

zr_status zr__make_first_calls(zr_engine *e)
{
    const zr_device_ops *ops = e->device->ops;
    first_call call[ZR_GROUPS][CALLS] = {{{0}}};
    if (!e->in_stream) return ZR_OK;
    find_first_calls(e, call);
    for (int32_t i = 0; i < ZR_GROUPS * CALLS; i++) {
        const first_call *its = &call[i / CALLS][i % CALLS];
        if (its->bytes == 0) continue;
        e->kind = its->schedule;
        const zr_task task = {run_step, NULL, e, task_index(&e->bound[e->kind], 0, its->step)};
        ZR_TRY(ops->issue(e->queue[ZR_STREAM_COMM], &task));
        ZR_TRY(ops->sync(e->queue[ZR_STREAM_COMM]));
    }
    return ZR_OK;
}

static void step_ended(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec)
{
    zr_engine *e = arg;
    if (!e->watch) return; /* the watch may have been removed, since a task may end late after a failure */
    const zr_schedule *s = e->bound[e->kind].schedule;
    const int32_t i = (int32_t)(index % s->n_steps);
    zr_event event = {.schedule = e->kind,
                      .step = i,
                      .stream = s->step[i].stream,
                      .micro = micro_of(s, index),
                      .wait_sec = free_sec,
                      .begin_sec = begin_sec,
                      .end_sec = end_sec};
    e->watch(e->watch_arg, &event);
    if (is_piped(e))
        zr__show_step(e, &s->step[i], event.micro, i, true); /* the watch may have held up the step's end */
}

static void take_and_give(zr_engine *e, const zr__bound *b, int32_t step, bool take)
{
    const int32_t *list = take ? b->take : b->give, *end = take ? b->take_end : b->give_end;
    for (int32_t i = step ? end[step - 1] : 0; i < end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[list[i]];
        (take ? zr__ledger_take : zr__ledger_give)(&e->ledger[buffer->space], buffer->category, buffer->bytes);
    }
}

/* Make a step's queue wait for the marks of all steps on which the step depends. If `saves_alone`, wait only for
 * ZR_WHEN_SAVE steps, since all other steps have ended. */
static zr_status await_all(zr_engine *e, const zr__bound *b, const zr_step *step, int64_t micro, bool saves_alone)
{
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
        const zr_wait *wait = &b->schedule->wait[w];
        if (wait->before && micro == 0) continue;
        if (saves_alone && !zr_when_asked(b->schedule->step[wait->step].when)) continue;
        const zr_mark mark = b->mark[(micro - wait->before) & 1][b->awaited[wait->step]];
        zr_status st = e->device->ops->await(e->queue[step->stream], mark);
        e->failed_elsewhere = st != ZR_OK && mark.queue == e->queue[ZR_STREAM_COMM];
        ZR_TRY(st);
    }
    return ZR_OK;
}

/* Record the mark of a ZR_WHEN_SAVE step for both even and odd micro-batches. */
static void note_mark(const zr__bound *b, int32_t i, zr_mark mark)
{
    if (b->awaited[i] >= 0) b->mark[0][b->awaited[i]] = b->mark[1][b->awaited[i]] = mark;
}

zr_status zr__issue_saving(zr_engine *e, int32_t i, bool alone)
{
    const zr__bound *b = &e->bound[ZR_SCHEDULE_TRAIN];
    const zr_step *step = &b->schedule->step[i];
    const bool out = step->kind == ZR_STEP_SAVE;
    const zr_task task = {out ? zr__engine_put : run_step, !out && e->watch ? step_ended : NULL, e,
                          task_index(b, 0, i)};
    ZR_TRY(await_all(e, b, step, 0, alone));
    ZR_TRY(e->device->ops->issue(e->queue[step->stream], &task)); /* if this fails, the step will be issued again */
    e->saving.next = i + 1;
    note_mark(b, i, e->device->ops->mark(e->queue[step->stream]));
    return ZR_OK;
}

static zr_status issue_step(zr_engine *e, const zr__bound *b, int32_t i, int64_t micro)
{
    const zr_step *step = &b->schedule->step[i];
    const zr_device_ops *ops = e->device->ops;
    zr_queue *queue = e->queue[step->stream];
    const zr_task task = {run_step, e->watch ? step_ended : NULL, e, task_index(b, micro, i)};
    const zr_mark nothing = {NULL, 0};
    if (zr_when_asked(step->when)) {
        if (micro > 0) return ZR_OK;
        if (e->saving.now) return zr__issue_saving(e, i, false);
        note_mark(b, i, nothing); /* no step waits for the save of an earlier training step */
        return ZR_OK;
    }
    ZR_TRY(await_all(e, b, step, micro, false));
    const bool runs = zr_when_runs(step->when, micro, e->refresh, e->saving.now);
    if (runs) ZR_TRY(ops->issue(queue, &task));
    /* In the first micro-batch, a skipped step gets the mark of the step that runs in its place. In later
     * micro-batches, no step needs to wait for a skipped step. */
    if (b->awaited[i] >= 0) b->mark[micro & 1][b->awaited[i]] = runs || micro == 0 ? ops->mark(queue) : nothing;
    return ZR_OK;
}

/* ---- the list ---------------------------------------------------------------------------------- */

/* Between two rounds, agree with all ranks whether the training step goes on. If another thread may be using comm, go
 * on without asking. */
static zr_status agree_to_go_on(zr_engine *e)
{
    if (e->kind != ZR_SCHEDULE_TRAIN || !e->step->stop || !zr__engine_serial(e)) return ZR_OK;
    return zr_comm_agree(e->comm, e->step->stop(e->batch_arg));
}

static zr_status walk_list(zr_engine *e, const zr__bound *b)
{
    const zr_schedule *s = b->schedule;
    int32_t body = 0;
    int64_t micro = 0, rounds = 1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind == ZR_STEP_REPEAT) {
            body = i;
            rounds = step->rounds;
        } else if (step->kind == ZR_STEP_END) {
            if (micro + 1 == rounds) continue;
            ZR_TRY(agree_to_go_on(e));
            micro++;
            i = body;
        } else {
            take_and_give(e, b, i, true);
            ZR_TRY(issue_step(e, b, i, micro));
            take_and_give(e, b, i, false);
        }
    }
    return ZR_OK;
}

/* Wait for all queues except the queue of SAVE, and for the compute queue last. After a failure outside the comm queue,
 * cancel the comm queue and its collective. Report the message of the first failure. */
static zr_status join_queues(zr_engine *e, zr_status walked)
{
    const zr_device_ops *ops = e->device->ops;
    zr__failure first = {0};
    /* Do not record ZR_ERR_STOPPED as the first failure, since a failed collective may have caused it. */
    if (walked != ZR_ERR_STOPPED) zr__failure_note(&first, walked);
    if (walked != ZR_OK) cut_walk(e, walked);
    if (first.status != ZR_OK && !e->failed_elsewhere && !zr__engine_serial(e)) {
        e->stopped = true;
        ops->cancel(e->queue[ZR_STREAM_COMM]);
        zr__comm_cancel(e->comm); /* otherwise the collective might wait for a peer forever */
    }
    for (int i = 1; i <= ZR_STREAMS; i++) {
        const int s = i % ZR_STREAMS;
        if (e->queues.of[s] != s || s == ZR_STREAM_SAVE) continue;
        /* Cancel the queue's remaining tasks. They would only fail as a consequence of the first failure. */
        if (first.status != ZR_OK) ops->cancel(e->queue[s]);
        zr__failure_note(&first, ops->sync(e->queue[s]));
    }
    if (e->cut) return zr__failure_tell(&e->cause);
    return first.status == ZR_OK ? walked : zr__failure_tell(&first);
}

zr_status zr__lone(zr_engine *e, zr_status st)
{
    if (st == ZR_OK || st == ZR_ERR_DIVERGED || st == ZR_ERR_STOPPED) return st;
    e->failed = true;
    zr__comm_fail(e->comm);
    return zr_error_frame(st, __func__, __FILE__, __LINE__);
}

zr_status zr__walk(zr_engine *e, zr_schedule_kind kind)
{
    zr_ledger before[ZR_SPACES];
    memcpy(before, e->ledger, sizeof before);
    e->batch_failed.status = ZR_OK;
    e->failed_elsewhere = false;
    e->cut = false;
    e->cause.status = ZR_OK;
    e->kind = kind;
    e->walked = false;
    zr_status st = join_queues(e, walk_list(e, &e->bound[kind]));
    e->walked = st == ZR_OK && e->batch_failed.status == ZR_OK;
    if (st == ZR_ERR_PEER || st == ZR_ERR_COMM || e->cut) e->stopped = true;
    zr__show_nothing(e);
    /* A failed walk leaves buffers counted as live. Restore the counts. */
    for (int s = 0; s < ZR_SPACES && st != ZR_OK; s++)
        memcpy(e->ledger[s].live_bytes, before[s].live_bytes, sizeof before[s].live_bytes);
    return zr__lone(e, st);
}

zr_status zr__call(zr_engine *e, zr_status (*run)(void *arg, zr_device *device, int64_t index), void *arg)
{
    const zr_device_ops *ops = e->device->ops;
    const zr_task task = {run, NULL, arg, 0};
    zr_status st = ops->issue(e->queue[ZR_STREAM_COMPUTE], &task);
    if (st != ZR_OK) ops->cancel(e->queue[ZR_STREAM_COMPUTE]);
    zr_status later = ops->sync(e->queue[ZR_STREAM_COMPUTE]);
    return st != ZR_OK ? st : later;
}
