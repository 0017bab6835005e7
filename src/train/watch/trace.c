#include "train/watch/trace.h"

#include "base/json/json_write.h"
#include "base/paths/output.h"
#include "comm/comm.h"
#include "config/config.h"
#include "plan/cost/cost.h"
#include "plan/list/place.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    ROOM_MOST = 32768, /* maximum number of events of a stream in a training step; the buffer for them takes 1 MiB */
    TEXT_BYTES = 1 << 20,
    CLOCK_ROUNDS = 8,
    TIMES = 3,           /* number of time stamps of an event: begin of waiting, begin, end */
    NUMBERS = 2 + TIMES, /* of an event that ranks exchange: step, micro-batch, time stamps */
    EVENTS_A_CALL = ZR_COMM_SCALARS / NUMBERS
};
#define HEAD "{\"displayTimeUnit\":\"ms\", \"traceEvents\":["
#define TAIL "\n]}\n"

typedef struct record {
    int32_t step;
    int32_t micro;
    double time[TIMES];
} record;

struct zr__trace {
    const zr_plans *plans;
    zr_trace wanted;
    record *record[ZR_STREAMS]; /* event buffers, one for each stream, filled by the thread of the stream */
    int64_t room[ZR_STREAMS], n[ZR_STREAMS];
    bool lost[ZR_STREAMS]; /* whether events were dropped because the buffer was full */
    bool cut;              /* whether the user was informed of dropped events */
    /* fields used on rank 0 only */
    zr__file file;
    int64_t end_bytes; /* length of the file in bytes, without TAIL */
    zr__json_out out;  /* pending text, to be written at offset end_bytes */
    double *start_sec; /* array with the trace's time zero on the clock of each rank, in seconds */
    bool failed;
    bool torn; /* whether the file may be invalid JSON */
    char note[512];
    bool news; /* whether `note` has a message that was not reported yet */
};

/* ---- events of one rank ----------------------------------------------------------------------- */

/* Return the plan of a rank's role. */
static const zr_plan *plan_of(const zr__trace *t, int rank)
{
    return t->plans->role[zr__plan_place(t->plans->role[0], ZR_GROUP_PIPELINE, rank)];
}

zr_status zr__trace_create(const zr_plans *plans, const zr_trace *wanted, zr__trace **trace)
{
    const zr_plan *plan = plans->role[plans->own];
    int64_t steps[ZR_STREAMS] = {0};
    const zr_schedule *train = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr__trace *t = *trace = zr_alloc(sizeof *t);
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for a trace");
    *t = (zr__trace){.plans = plans, .wanted = *wanted, .file.fd = -1};
    for (int32_t i = 0; i < train->n_steps; i++) steps[train->step[i].stream]++;
    for (int s = 0; s < ZR_STREAMS; s++) {
        bool many = steps[s] > ROOM_MOST / plan->rounds;
        t->room[s] = many ? ROOM_MOST : steps[s] * plan->rounds;
        if (t->room[s] == 0) continue;
        t->record[s] = zr_alloc((size_t)t->room[s] * sizeof(record));
        ZR_CHECK(t->record[s], ZR_ERR_MEMORY, "no memory for a trace of %lld steps", (long long)t->room[s]);
    }
    t->start_sec = zr_alloc((size_t)plan->ranks * sizeof(double));
    ZR_CHECK(t->start_sec, ZR_ERR_MEMORY, "no memory for a trace of %d ranks", plan->ranks);
    return ZR_OK;
}

void zr__trace_destroy(zr__trace **trace)
{
    zr__trace *t = *trace;
    if (!t) return;
    zr__file_close(&t->file);
    zr__text_clear(&t->out.text);
    for (int s = 0; s < ZR_STREAMS; s++) zr_free(t->record[s]);
    zr_free(t->start_sec);
    zr_free(t);
    *trace = NULL;
}

bool zr__trace_wants(const zr__trace *t, int64_t step)
{
    return step + 1 >= t->wanted.first_step && step + 1 <= t->wanted.last_step;
}

void zr__trace_event(zr__trace *t, const zr_event *e)
{
    int64_t i = t->n[e->stream];
    t->lost[e->stream] |= i == t->room[e->stream];
    if (i == t->room[e->stream]) return;
    t->record[e->stream][i] =
        (record){.step = e->step, .micro = (int32_t)e->micro, .time = {e->wait_sec, e->begin_sec, e->end_sec}};
    t->n[e->stream] = i + 1;
}

void zr__trace_drop(zr__trace *t)
{
    for (int s = 0; s < ZR_STREAMS; s++) t->n[s] = 0;
}

/* ---- clocks ----------------------------------------------------------------------------------- */

/* Determine the trace's time zero on the clock of each rank, since clocks of different hosts are unrelated. No rank
 * leaves an exchange before all ranks have entered it. Therefore the times of an exchange give an upper and a lower
 * bound of the difference between this rank's clock and rank 0's. Ranks of one host read the same clock, so the
 * difference 0 is used if it is within the bounds. */
zr_status zr__trace_align(zr__trace *t, zr_comm *comm)
{
    double bound[2] = {-HUGE_VAL, HUGE_VAL}; /* bounds of this rank's clock minus rank 0's, in seconds */
    double begin = 0.0;
    for (int round = 0; round < CLOCK_ROUNDS; round++) {
        double mine[2] = {zr_clock_sec(), 0.0};
        ZR_TRY(zr_comm_scalars(comm, mine, 1, NULL));
        double left = zr_clock_sec(), entered_0 = comm->table[0];
        mine[1] = left;
        ZR_TRY(zr_comm_scalars(comm, mine, 2, NULL));
        bound[0] = fmax(bound[0], mine[0] - comm->table[1]);
        bound[1] = fmin(bound[1], left - entered_0);
        begin = comm->table[0];
    }
    bool same = bound[0] <= 0.0 && bound[1] >= 0.0;
    double start = begin + (same ? 0.0 : 0.5 * (bound[0] + bound[1]));
    ZR_TRY(zr_comm_scalars(comm, &start, 1, NULL));
    memcpy(t->start_sec, comm->table, (size_t)comm->size * sizeof(double));
    return ZR_OK;
}

/* ---- the file --------------------------------------------------------------------------------- */

/* Write the pending text and a new tail over the old tail of the file. If this fails, drop the pending text and restore
 * the old tail. */
static zr_status write_pending(zr__trace *t)
{
    ZR_AUTO_FREE char *text = NULL;
    int64_t events = (int64_t)t->out.text.length;
    zr__text_add(&t->out.text, "%s", TAIL);
    ZR_TRY(zr__text_take(&t->out.text, &text));
    zr_status st = zr__file_write(&t->file, t->end_bytes, text, events + (int64_t)strlen(TAIL));
    if (st == ZR_OK) {
        t->end_bytes += events;
        return ZR_OK;
    }
    /* Restore the old tail, which needs no further disk space. A file without a head stays empty. */
    t->torn = ftruncate(t->file.fd, t->end_bytes) != 0 || t->end_bytes == 0 ||
              pwrite(t->file.fd, TAIL, strlen(TAIL), t->end_bytes) != (ssize_t)strlen(TAIL);
    return st;
}

/* Write the pending text. If this fails, end the trace, but not the training. */
static void flush_pending(zr__trace *t)
{
    if (t->failed || write_pending(t) == ZR_OK) return;
    t->failed = t->news = true;
    snprintf(t->note, sizeof(t->note), "the trace ends early%s: %.400s", t->torn ? " and may be no valid JSON" : "",
             zr_error_message());
}

/* Begin an event on a new line. `phase` is "M" for an event that names a rank or stream, or "X" for a span of time. */
static void open_event(zr__json_out *out, const char *phase, const char *name)
{
    zr__json_break(out, "\n");
    zr__json_open(out, NULL, '{');
    zr__json_add(out, "ph", phase, "name", name);
}

static void close_event(zr__json_out *out)
{
    zr__json_close(out, '}');
    zr__json_close(out, '}');
}

/* Begin an event that names a rank, or one of its streams if `stream` is not -1. In the trace, a rank is a process and
 * a stream is a thread. The caller adds the arguments of the event. */
static void open_name(zr__json_out *out, const char *kind, int rank, int stream)
{
    open_event(out, "M", kind);
    zr__json_add(out, "pid", rank);
    if (stream >= 0) zr__json_add(out, "tid", stream);
    zr__json_open(out, "args", '{');
}

static void add_names(zr__trace *t)
{
    zr__json_out *out = &t->out;
    zr__text_add(&out->text, HEAD);
    for (int r = 0; r < t->plans->role[0]->ranks; r++) {
        open_name(out, "process_name", r, -1);
        zr__json_add_as(out, "name", "\"rank %d\"", r);
        close_event(out);
        open_name(out, "process_sort_index", r, -1);
        zr__json_add(out, "sort_index", r);
        close_event(out);
        for (int s = 0; s < ZR_STREAMS; s++) {
            if (!plan_of(t, r)->has_stream[s]) continue;
            open_name(out, "thread_name", r, s);
            zr__json_add(out, "name", zr_stream_name((zr_stream)s));
            close_event(out);
        }
    }
}

zr_status zr__trace_open(zr__trace *t, const zr__run_dir *dir, const zr_config *config)
{
    static const zr__output_kind trace = {"trace", HEAD, false};
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    ZR_CHECK(!zr__run_dir_writes(dir->path, t->wanted.path), ZR_ERR_CREATE,
             "the trace %s is where the run writes a file of its own; name another file", ZR_SHOWN(t->wanted.path));
    zr__config_inputs(config, inputs);
    ZR_TRY(zr__output_open(t->wanted.path, &trace, inputs, &t->file));
    ZR_CHECK(ftruncate(t->file.fd, 0) == 0, ZR_ERR_CREATE, "the trace %s cannot be overwritten: %s; name another file",
             t->file.name, strerror(errno));
    add_names(t);
    return write_pending(t);
}

/* ---- events of all ranks ---------------------------------------------------------------------- */

/* Add a time in microseconds. Print it from integers, since JSON needs a decimal point, but the locale may have a
 * comma. */
static void add_microseconds(zr__json_out *out, const char *key, double sec)
{
    long long ns = llround(fmax(sec, 0.0) * 1e9);
    zr__json_add_as(out, key, "%lld.%03lld", ns / 1000, ns % 1000);
}

/* Begin the event of a step with its title and category. */
static void open_step(zr__trace *t, const zr_plan *plan, const zr_step *step)
{
    char title[512];
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
    const char *unit = step->unit >= 0 ? zr_graph_unit_info(graph, step->unit)->name : "";
    const char *kind = zr_step_kind_name(step->kind), *space = unit[0] ? " " : "";
    const zr_op *op = step->op >= 0 ? zr_graph_get_op(graph, step->op) : NULL;
    const bool runs = step->kind == ZR_STEP_RUN;
    if (runs)
        snprintf(title, sizeof(title), "%s%s%s%s", unit, space, op->def->name, step->replay ? " again" : "");
    else
        snprintf(title, sizeof(title), "%s%s%s%s%s", kind, space, unit, op ? " " : "", op ? op->def->name : "");
    open_event(&t->out, "X", title);
    zr__json_add(&t->out, "cat", !runs ? kind : step->replay ? "replay" : op->backward ? "backward" : "forward");
}

/* Add the arguments of an event: its training step, its schedule step, its FLOPs or bytes, and its waiting time. */
static void add_args(zr__trace *t, const zr_plan *plan, const record *r, int64_t step, double wait_sec)
{
    zr__json_out *out = &t->out;
    zr_step_cost cost = zr__plan_step_cost(plan, ZR_SCHEDULE_TRAIN, r->step);
    double bytes = cost.memory_bytes + cost.wire_bytes;
    zr__json_open(out, "args", '{');
    zr__json_add(out, "training_step", step + 1, "schedule", "train", "step", r->step, "micro", r->micro);
    if (cost.flops > 0) zr__json_add_as(out, "flops", "%.0f", cost.flops);
    if (bytes > 0) zr__json_add_as(out, cost.wire_bytes > 0 ? "wire_bytes" : "memory_bytes", "%.0f", bytes);
    add_microseconds(out, "wait_us", wait_sec);
}

static void add_step_event(zr__trace *t, int rank, zr_stream stream, const record *r, int64_t step)
{
    const zr_plan *plan = plan_of(t, rank);
    const double *time = r->time;
    open_step(t, plan, &plan->schedule[ZR_SCHEDULE_TRAIN].step[r->step]);
    zr__json_add(&t->out, "pid", rank, "tid", (int)stream);
    add_microseconds(&t->out, "ts", time[1] - t->start_sec[rank]);
    add_microseconds(&t->out, "dur", time[2] - time[1]);
    add_args(t, plan, r, step, time[1] - time[0]);
    close_event(&t->out);
    if (t->out.text.length >= TEXT_BYTES) flush_pending(t);
}

/* Gather the events of one stream from all ranks and write them on rank 0. Each exchange moves at most EVENTS_A_CALL
 * events of a rank. Ranks of different roles have different numbers of events: the shorter lists end with the step -1.
 */
static zr_status collect_stream(zr__trace *t, zr_comm *comm, zr_stream stream, int64_t step)
{
    double mine[ZR_COMM_SCALARS], own = (double)t->n[stream];
    int64_t most = 0;
    ZR_TRY(zr_comm_scalars(comm, &own, 1, NULL));
    for (int r = 0; r < comm->size; r++) most = comm->table[r] > (double)most ? (int64_t)comm->table[r] : most;
    for (int64_t first = 0; first < most; first += EVENTS_A_CALL) {
        const int some = (int)(most - first < EVENTS_A_CALL ? most - first : EVENTS_A_CALL);
        for (int i = 0; i < some; i++) {
            const record none = {.step = -1}, *r = first + i < t->n[stream] ? &t->record[stream][first + i] : &none;
            const double event[NUMBERS] = {r->step, r->micro, r->time[0], r->time[1], r->time[2]};
            memcpy(mine + NUMBERS * i, event, sizeof event);
        }
        ZR_TRY(zr_comm_scalars(comm, mine, NUMBERS * some, NULL));
        for (int rank = 0; comm->rank == 0 && !t->failed && rank < comm->size; rank++)
            for (int i = 0; i < some; i++) {
                const double *x = comm->table + (ptrdiff_t)NUMBERS * (rank * some + i);
                const record r = {(int32_t)x[0], (int32_t)x[1], {x[2], x[3], x[4]}};
                if (r.step >= 0) add_step_event(t, rank, stream, &r, step);
            }
    }
    return ZR_OK;
}

zr_status zr__trace_collect(zr__trace *t, zr_comm *comm, int64_t step)
{
    for (int s = 0; s < ZR_STREAMS; s++) {
        ZR_TRY(collect_stream(t, comm, (zr_stream)s, step));
        if (t->lost[s] && !t->cut) {
            t->cut = t->news = true;
            snprintf(t->note, sizeof(t->note), "the trace has room for %d steps of a stream: later ones are not in it",
                     ROOM_MOST);
        }
        t->n[s] = 0;
    }
    if (comm->rank == 0) flush_pending(t);
    return ZR_OK;
}

const char *zr__trace_note(zr__trace *t)
{
    bool news = t->news;
    t->news = false;
    return news ? t->note : NULL;
}
