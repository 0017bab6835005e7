#include "train/measure/timings.h"
#include "base/json/json_write.h"
#include "plan/cost/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* name of the kind that collects all further kinds when the table of kinds is full */
#define OTHER "other"

/* Kind of a schedule step, and the cost of one execution of the step. */
typedef struct site {
    int kind;
    bool replay;
    zr_step_cost cost;
} site;

/* Sums of one rank, one for each kind of step. Threads of several streams may add at the same time, but never to the
 * same sum, since each kind belongs to one stream. */
typedef struct sums {
    zr_timing kind[ZR_TIMING_KINDS];
    double wall_sec, exposed_sec, disk_sec, pipeline_sec, idle_sec;
    double busy_sec[ZR_STREAMS];
    int64_t steps;
} sums;

/* Begin and end of one execution of a schedule step, in seconds. */
typedef struct span {
    double begin, end;
} span;

struct zr__timings {
    site *site; /* array with one site for each step of the training schedule, the only schedule that is timed */
    int n_kinds;
    sums sums;
    /* Spans of the current optimizer step, one array for each stream. A stream's thread writes only to its own array.
     */
    span *span[ZR_STREAMS];
    int64_t room[ZR_STREAMS], n[ZR_STREAMS];
    int n_streams;    /* number of streams of the plan that are timed */
    bool copies_hold; /* whether copies run on the queue of compute */
    bool warm;        /* whether the first optimizer step was dropped */
    sums before;      /* sums before the current optimizer step, restored if the step is aborted */
    bool warm_before;
};

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Return the shape of the parameter matrix that an op reads, or whose gradient it computes. Return NULL if the op has
 * no parameter matrix. */
static const zr_shape *matrix_of(const zr_graph *graph, const zr_op *op)
{
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        zr_value value = i < op->n_in ? op->in[i] : op->out[i - op->n_in];
        const zr_value_info *info = value != ZR_NONE ? zr_graph_value(graph, value) : NULL;
        if (info && info->param >= 0 && info->type.shape.ndim == 2) return &info->type.shape;
    }
    return NULL;
}

/* Write the name of a step's kind. A matrix product's name includes the shape of its weight, since products of
 * different shapes run at different rates. */
static void name_of(const zr_graph *graph, const zr_step *step, const zr_op *op, char name[ZR_TIMING_NAME])
{
    const zr_shape *w = op && op->def->cost(graph, op).flops > 0 ? matrix_of(graph, op) : NULL;
    snprintf(name, ZR_TIMING_NAME, "%s", op ? op->def->name : zr_step_kind_name(step->kind));
    size_t used = strlen(name);
    if (w) snprintf(name + used, ZR_TIMING_NAME - used, " %lldx%lld", (long long)w->dim[0], (long long)w->dim[1]);
}

/* Return the kind with this name on this stream, and create it if necessary. If the table is full, return the stream's
 * kind OTHER. Two streams never share a kind, since their threads may add to it at the same time. */
static int kind_of(zr__timings *t, const char *name, zr_stream stream, bool in_f32)
{
    int k = 0;
    while (k < t->n_kinds && (t->sums.kind[k].stream != stream || strcmp(t->sums.kind[k].name, name) != 0)) k++;
    if (k < t->n_kinds) return k;
    bool room = k < ZR_TIMING_KINDS - t->n_streams;
    if (!room && strcmp(name, OTHER) != 0) return kind_of(t, OTHER, stream, false);
    zr_timing *kind = &t->sums.kind[t->n_kinds++];
    snprintf(kind->name, sizeof(kind->name), "%s", name);
    kind->stream = stream;
    kind->in_f32 = in_f32;
    return k;
}

/* Find the kinds of a plan's steps. If `own`, it is the plan of this rank, whose sites are set too. */
static void find_kinds(zr__timings *t, const zr_plan *plan, bool own)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
    char name[ZR_TIMING_NAME];
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind == ZR_STEP_REPEAT || step->kind == ZR_STEP_END || step->stream == ZR_STREAM_SAVE) continue;
        const zr_op *op = step->kind == ZR_STEP_RUN ? zr_graph_get_op(graph, step->op) : NULL;
        const bool in_f32 = op && op->def->in_f32 && !zr__plan_narrow_attention(plan);
        name_of(graph, step, op, name);
        const int kind = kind_of(t, name, step->stream, in_f32);
        if (own)
            t->site[i] =
                (site){.kind = kind, .replay = step->replay, .cost = zr__plan_step_cost(plan, ZR_SCHEDULE_TRAIN, i)};
    }
}

/* Allocate the sites and the spans. A schedule step runs at most once per round. */
static zr_status alloc_sites(zr__timings *t, const zr_plan *plan)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    t->site = zr_alloc((size_t)s->n_steps * sizeof *t->site);
    ZR_CHECK(t->site, ZR_ERR_MEMORY, "no memory for the timings of %d steps", (int)s->n_steps);
    for (int32_t i = 0; i < s->n_steps; i++) t->room[s->step[i].stream] += plan->rounds;
    for (int k = 0; k < ZR_STREAMS; k++) {
        if (k == ZR_STREAM_SAVE) continue; /* saves are not timed */
        t->span[k] = zr_alloc((size_t)t->room[k] * sizeof(span));
        ZR_CHECK(t->span[k] || t->room[k] == 0, ZR_ERR_MEMORY, "no memory for the timings of %lld steps",
                 (long long)t->room[k]);
    }
    return ZR_OK;
}

zr_status zr__timings_create(const zr_plans *plans, zr__timings **timings)
{
    const zr_plan *plan = plans->role[plans->own];
    zr__timings *t = *timings = zr_alloc(sizeof *t);
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for timings");
    for (int s = 0; s < ZR_STREAMS; s++) {
        bool some = false;
        for (int32_t r = 0; r < plans->n; r++) some |= plans->role[r]->has_stream[s];
        t->n_streams += some && s != ZR_STREAM_SAVE;
    }
    const zr_queues queues = zr__plan_queues(plan, false);
    t->copies_hold = !zr_queues_apart(&queues, ZR_STREAM_COPY);
    ZR_TRY(alloc_sites(t, plan));
    /* all ranks have the same table of kinds, so that zr__timings_collect can add them */
    for (int32_t r = 0; r < plans->n; r++) find_kinds(t, plans->role[r], r == plans->own);
    return ZR_OK;
}

void zr__timings_destroy(zr__timings **timings)
{
    if (!*timings) return;
    zr_free((*timings)->site);
    for (int s = 0; s < ZR_STREAMS; s++) zr_free((*timings)->span[s]);
    zr_free(*timings);
    *timings = NULL;
}

/* ---- while a rank trains ---------------------------------------------------------------------- */

/* Drop the first optimizer step when the second one begins. In the first step, caches are cold and memory is
 * untouched. */
void zr__timings_begin(zr__timings *t)
{
    t->before = t->sums;
    t->warm_before = t->warm;
    if (t->sums.steps != 1 || t->warm) return;
    sums fresh = {0};
    for (int k = 0; k < t->n_kinds; k++) {
        const zr_timing *cold = &t->sums.kind[k];
        memcpy(fresh.kind[k].name, cold->name, sizeof(fresh.kind[k].name));
        fresh.kind[k].stream = cold->stream;
        fresh.kind[k].in_f32 = cold->in_f32;
    }
    t->sums = fresh;
    t->warm = true;
}

void zr__timings_event(zr__timings *t, const zr_event *event)
{
    const site *at = &t->site[event->step];
    zr_timing *kind = &t->sums.kind[at->kind];
    double sec = event->end_sec - event->begin_sec;
    kind->sec += sec;
    kind->calls += at->cost.calls;
    kind->replays += at->replay;
    kind->flops += at->cost.flops;
    kind->memory_bytes += at->cost.memory_bytes;
    kind->wire_bytes += at->cost.wire_bytes;
    int64_t i = t->n[event->stream];
    if (i == t->room[event->stream]) return;
    t->span[event->stream][i] = (span){event->begin_sec, event->end_sec};
    t->n[event->stream] = i + 1;
}

static double length_of(const zr__timings *t, zr_stream stream)
{
    double sec = 0.0;
    for (int64_t i = 0; i < t->n[stream]; i++) sec += t->span[stream][i].end - t->span[stream][i].begin;
    return sec;
}

/* Spans of a stream from the first one that may still overlap. */
typedef struct rest {
    const span *at, *end;
} rest;

static rest rest_of(const zr__timings *t, zr_stream stream)
{
    return t->n[stream] > 0 ? (rest){t->span[stream], t->span[stream] + t->n[stream]} : (rest){0};
}

/* Return the next time after `now` at which the stream starts or ends a span. *runs receives whether a span covers the
 * time from `now` until then. */
static double next_change(rest *r, double now, bool *runs)
{
    while (r->at < r->end && r->at->end <= now) r->at++;
    *runs = r->at < r->end && r->at->begin <= now;
    return r->at == r->end ? INFINITY : *runs ? r->at->end : r->at->begin;
}

/* Times of a step during which certain streams run. */
typedef struct overlap {
    double both;     /* computation and communication run at the same time */
    double disk;     /* states are read from or written to disk; nothing is computed or communicated */
    double pipeline; /* values pass from or to other pipeline ranks, or are waited for; nothing else happens */
} overlap;

/* Find these times. Each stream's spans are ordered and disjoint. */
static overlap find_overlap(const zr__timings *t)
{
    enum { FETCH, STORE, COMPUTE, COMM, SEND, RECV, N };
    static const zr_stream of[N] = {ZR_STREAM_FETCH, ZR_STREAM_STORE, ZR_STREAM_COMPUTE,
                                    ZR_STREAM_COMM,  ZR_STREAM_SEND,  ZR_STREAM_RECV};
    overlap found = {0};
    rest r[N];
    double now = -INFINITY;
    for (int s = 0; s < N; s++) r[s] = rest_of(t, of[s]);
    for (;;) {
        bool runs[N];
        double next = INFINITY;
        for (int s = 0; s < N; s++) next = fmin(next, next_change(&r[s], now, &runs[s]));
        if (next == INFINITY) return found;
        const bool busy = runs[COMPUTE] || runs[COMM], disk = runs[FETCH] || runs[STORE];
        if (runs[COMPUTE] && runs[COMM]) found.both += next - now;
        if (disk && !busy) found.disk += next - now;
        if ((runs[SEND] || runs[RECV]) && !busy && !disk) found.pipeline += next - now;
        now = next;
    }
}

void zr__timings_end(zr__timings *t, double wall_sec)
{
    double compute_sec = length_of(t, ZR_STREAM_COMPUTE), comm_sec = length_of(t, ZR_STREAM_COMM);
    const overlap found = find_overlap(t);
    if (t->copies_hold) compute_sec += length_of(t, ZR_STREAM_COPY);
    const double exposed = fmax(comm_sec - found.both, 0.0);
    t->sums.wall_sec += wall_sec;
    t->sums.busy_sec[ZR_STREAM_COMPUTE] += compute_sec;
    t->sums.busy_sec[ZR_STREAM_COMM] += comm_sec;
    t->sums.exposed_sec += exposed;
    t->sums.disk_sec += found.disk;
    t->sums.pipeline_sec += found.pipeline;
    t->sums.idle_sec += fmax(wall_sec - compute_sec - exposed - found.disk - found.pipeline, 0.0);
    for (int s = 0; s < ZR_STREAMS; s++) t->n[s] = 0;
    t->sums.steps++;
}

void zr__timings_drop(zr__timings *t)
{
    t->sums = t->before;
    t->warm = t->warm_before;
}

/* ---- what all ranks make of it ---------------------------------------------------------------- */

zr_status zr__over_ranks(zr_comm *comm, const double *mine, int64_t n, double *mean, double *least, double *most)
{
    for (int64_t first = 0; first < n; first += ZR_COMM_SCALARS) {
        const int some = (int)(n - first < ZR_COMM_SCALARS ? n - first : ZR_COMM_SCALARS);
        ZR_TRY(zr_comm_scalars(comm, mine + first, some, NULL));
        for (int i = 0; i < some; i++) {
            double sum = 0.0, low = INFINITY, high = -INFINITY;
            for (int r = 0; r < comm->size; r++) {
                const double x = comm->table[r * some + i];
                sum += x;
                low = fmin(low, x);
                high = fmax(high, x);
            }
            mean[first + i] = sum / comm->size;
            if (least) least[first + i] = low;
            if (most) most[first + i] = high;
        }
    }
    return ZR_OK;
}

static int longest_first(const void *a, const void *b)
{
    double x = ((const zr_timing *)a)->sec, y = ((const zr_timing *)b)->sec;
    return (x < y) - (x > y);
}

zr_status zr__timings_collect(const zr__timings *t, zr_comm *comm, zr_timings *out)
{
    enum { WHOLE = 7, EACH = 6, N = WHOLE + EACH * ZR_TIMING_KINDS };
    const sums *s = &t->sums;
    const int n = WHOLE + EACH * t->n_kinds;
    double mean[N], most[N], steps = s->steps > 0 ? (double)s->steps : 1.0;
    double mine[N] = {s->wall_sec,
                      s->busy_sec[ZR_STREAM_COMPUTE],
                      s->busy_sec[ZR_STREAM_COMM],
                      s->exposed_sec,
                      s->idle_sec,
                      s->disk_sec,
                      s->pipeline_sec};
    for (int k = 0; k < t->n_kinds; k++) {
        const zr_timing *kind = &s->kind[k];
        const double its[EACH] = {kind->sec,   kind->calls,        kind->replays,
                                  kind->flops, kind->memory_bytes, kind->wire_bytes};
        memcpy(mine + WHOLE + EACH * k, its, sizeof its);
    }
    for (int i = 0; i < n; i++) mine[i] /= steps;
    ZR_TRY(zr__over_ranks(comm, mine, n, mean, NULL, most));
    *out = (zr_timings){.ranks = comm->size,
                        .steps = s->steps,
                        .left_out = t->warm,
                        .step_sec = mean[0],
                        .compute_sec = mean[1],
                        .comm_sec = mean[2],
                        .exposed_sec = mean[3],
                        .idle_sec = mean[4],
                        .disk_sec = mean[5],
                        .pipeline_sec = mean[6],
                        .n_kinds = t->n_kinds};
    for (int k = 0; k < t->n_kinds; k++) {
        zr_timing *kind = &out->kind[k];
        *kind = s->kind[k];
        const double *its = mean + WHOLE + EACH * k;
        kind->sec = its[0];
        kind->slowest_sec = most[WHOLE + EACH * k];
        kind->calls = its[1];
        kind->replays = its[2];
        kind->flops = its[3];
        kind->memory_bytes = its[4];
        kind->wire_bytes = its[5];
    }
    qsort(out->kind, (size_t)out->n_kinds, sizeof(out->kind[0]), longest_first);
    return ZR_OK;
}

/* ---- for people and files --------------------------------------------------------------------- */

double zr__share_of_peak(double rate, double peak)
{
    return peak > 0.0 && rate <= peak ? rate / peak : NAN;
}

zr__timing_rate zr__timing_rate_of(const zr_timings *timings, const zr_timing *kind)
{
    bool wire = kind->wire_bytes > 0.0, computes = kind->flops > 0.0;
    double amount = computes ? kind->flops : wire ? kind->wire_bytes : kind->memory_bytes;
    double flops = kind->in_f32 ? timings->peak_f32_flops : timings->peak_flops;
    double peak = computes ? flops : wire ? timings->peak_link_bytes_sec : timings->peak_memory_bytes_sec;
    if (kind->stream == ZR_STREAM_FETCH) peak = timings->peak_disk_read_bytes_sec;
    if (kind->stream == ZR_STREAM_STORE) peak = timings->peak_disk_write_bytes_sec;
    double per_sec = amount > 0.0 && kind->sec > 0.0 ? amount / kind->sec : NAN;
    return (zr__timing_rate){.flops = computes, .per_sec = per_sec, .of_peak = zr__share_of_peak(per_sec, peak)};
}

static void add_kind_json(zr__json_out *json, const zr_timings *timings, const zr_timing *kind)
{
    zr__timing_rate rate = zr__timing_rate_of(timings, kind);
    zr__json_open(json, NULL, '{');
    zr__json_add(json, "kind", kind->name, "stream", zr_stream_name(kind->stream), "calls", kind->calls, "replays",
                 kind->replays, "ms", 1e3 * kind->sec, "slowest_ms", 1e3 * kind->slowest_sec);
    zr__json_add(json, "flops", kind->flops, "memory_bytes", kind->memory_bytes, "wire_bytes", kind->wire_bytes);
    zr__json_add(json, rate.flops ? "flops_per_sec" : "bytes_per_sec", rate.per_sec);
    zr__json_add(json, "of_peak", rate.of_peak);
    zr__json_close(json, '}');
}

/* Add a peak rate, or null if it is unknown. */
static void add_peak_json(zr__json_out *json, const char *key, double peak)
{
    zr__json_add(json, key, peak > 0.0 ? peak : NAN);
}

zr_status zr__timings_json(const zr_timings *t, char **text)
{
    zr__json_out json = {0};
    zr__json_open(&json, NULL, '{');
    zr__json_add(&json, "ranks", t->ranks, "steps", t->steps, "step_ms", 1e3 * t->step_sec, "compute_ms",
                 1e3 * t->compute_sec, "comm_ms", 1e3 * t->comm_sec, "exposed_ms", 1e3 * t->exposed_sec);
    zr__json_add(&json, "idle_ms", 1e3 * t->idle_sec);
    if (t->pipeline_sec > 0) zr__json_add(&json, "pipeline_ms", 1e3 * t->pipeline_sec);
    add_peak_json(&json, "peak_flops_per_sec", t->peak_flops);
    add_peak_json(&json, "peak_f32_flops_per_sec", t->peak_f32_flops);
    add_peak_json(&json, "peak_memory_bytes_per_sec", t->peak_memory_bytes_sec);
    add_peak_json(&json, "peak_link_bytes_per_sec", t->peak_link_bytes_sec);
    if (t->disk_sec > 0) {
        zr__json_add(&json, "disk_ms", 1e3 * t->disk_sec);
        add_peak_json(&json, "peak_disk_read_bytes_per_sec", t->peak_disk_read_bytes_sec);
        add_peak_json(&json, "peak_disk_write_bytes_per_sec", t->peak_disk_write_bytes_sec);
    }
    zr__json_open(&json, "kinds", '[');
    for (int k = 0; k < t->n_kinds; k++) {
        zr__json_break(&json, "\n  ");
        add_kind_json(&json, t, &t->kind[k]);
    }
    zr__json_close(&json, ']');
    zr__json_close(&json, '}');
    return zr__text_take(&json.text, text);
}
