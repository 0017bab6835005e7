//TEST timeout=100
/* Idle time of pipelines that really train: each rank records the order in which its threads run the steps. Then all
 * ranks' steps are timed in this order, with equal times of F, I and W and messages that take none. The ranks are idle
 * as long as the formulas of the schedules say. */
#include "engine/trainer.h"
#include "engine/walk.h"

#include <math.h>
#include <pthread.h>

enum { RANKS = 4, STAGES = RANKS * 4, MICROS = 12, THREADS = ZR_STREAMS + 1 };

/* ---- records ----------------------------------------------------------------------------------- */

/* The steps of a rank. A step that did not run ends at NAN, a step that has no time yet at -1. */
static struct record {
    pthread_mutex_t lock;
    const zr_schedule *s;
    double *end;                       /* of each step of the schedule */
    int32_t *list[THREADS];            /* for each thread: its steps, in the order in which it ran them */
    int32_t n[THREADS], next[THREADS]; /* numbers of its steps, and of those that have a time */
    pthread_t thread[THREADS];
    int threads, again;                       /* number of threads, and of steps that ran twice */
    int32_t ops[STAGES][4][MICROS];           /* number of ops in each cell, with actions F, B, I and W */
    double clock[THREADS], busy, first, last; /* `first`, `last`: when the first op begins and the last one ends */
} record[RANKS];
static double length; /* of the training step */

static void note(void *arg, const zr_event *event)
{
    struct record *r = arg;
    pthread_mutex_lock(&r->lock);
    int t = 0;
    while (t < r->threads && !pthread_equal(r->thread[t], pthread_self())) t++;
    if (t == r->threads) r->thread[r->threads++] = pthread_self();
    r->again += !isnan(r->end[event->step]);
    if (isnan(r->end[event->step])) r->list[t][r->n[t]++] = event->step;
    r->end[event->step] = -1;
    pthread_mutex_unlock(&r->lock);
}

static zr_status begin(trainer *run, zr_engine *engine, zr_comm *comm)
{
    struct record *r = &record[comm->rank];
    (void)run;
    *r = (struct record){
        .lock = PTHREAD_MUTEX_INITIALIZER, .s = &engine->plan->schedule[ZR_SCHEDULE_TRAIN], .first = INFINITY};
    const size_t n = (size_t)r->s->n_steps;
    r->end = malloc(n * sizeof *r->end);
    for (int t = 0; t < THREADS; t++) r->list[t] = malloc(n * sizeof **r->list);
    for (size_t i = 0; i < n; i++) r->end[i] = NAN;
    zr__engine_watch(engine, note, r);
    return ZR_OK;
}

/* ---- times ------------------------------------------------------------------------------------- */

/* Return the number of ops in a step's cell, or NULL if no time passes in the step. Ops that run again take none: they
 * need no message, and may therefore run before their cell's message comes. */
static int32_t *ops_of(struct record *r, const zr_step *step, int stages)
{
    return step->kind == ZR_STEP_RUN && !step->replay && step->action && step->stage < stages
               ? &r->ops[step->stage][strchr("FBIW", step->action) - "FBIW"][step->micro]
               : NULL;
}

/* Return the end of the step at the other end of a channel that a RECEIVED or SENT waits for: the peer's SEND or
 * RECEIVED of the same message. */
static double peer_end(int rank, const zr_step *step)
{
    const struct record *peer = &record[step->peer];
    const zr_step_kind kind = step->kind == ZR_STEP_RECEIVED ? ZR_STEP_SEND : ZR_STEP_RECEIVED;
    for (int32_t i = 0; i < peer->s->n_steps; i++) {
        const zr_step *its = &peer->s->step[i];
        if (its->kind == kind && its->peer == rank && its->value == step->value && its->micro == step->micro)
            return peer->end[i];
    }
    return NAN;
}

/* Return when a thread's next step begins, or -1 if a step that it waits for has no time yet. */
static double ready(const struct record *r, int t)
{
    const zr_step *step = &r->s->step[r->list[t][r->next[t]]];
    double at = r->clock[t];
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
        const double end = r->s->wait[w].before ? NAN : r->end[r->s->wait[w].step];
        if (end < 0) return -1;
        at = fmax(at, end); /* which ignores NAN */
    }
    if (step->kind != ZR_STEP_RECEIVED && step->kind != ZR_STEP_SENT) return at;
    const double end = peer_end((int)(r - record), step);
    return end >= 0 ? fmax(at, end) : -1;
}

/* Give times to the next steps of a thread, as far as they are known. Return their number. */
static int32_t advance(struct record *r, int t, int stages)
{
    const int32_t before = r->next[t];
    for (; r->next[t] < r->n[t]; r->next[t]++) {
        const int32_t i = r->list[t][r->next[t]];
        const zr_step *step = &r->s->step[i];
        const int32_t *ops = ops_of(r, step, stages);
        const double at = ready(r, t), takes = ops ? (step->action == 'B' ? 2.0 : 1.0) / *ops : 0;
        if (at < 0) break;
        r->clock[t] = r->end[i] = at + takes;
        r->busy += takes;
        if (ops) r->first = fmin(r->first, at);
        if (ops) r->last = fmax(r->last, r->end[i]);
        length = fmax(length, r->end[i]);
    }
    return r->next[t] - before;
}

static zr_status find_times(const zr_layout *l)
{
    const int stages = l->pipeline * l->chunks;
    length = 0;
    for (int k = 0; k < l->pipeline; k++)
        for (int32_t i = 0; i < record[k].s->n_steps; i++) {
            int32_t *ops = ops_of(&record[k], &record[k].s->step[i], stages);
            if (ops) ++*ops;
        }
    for (int32_t moved = 1; moved > 0;) {
        moved = 0;
        for (int k = 0; k < l->pipeline; k++)
            for (int t = 0; t < record[k].threads; t++) moved += advance(&record[k], t, stages);
    }
    for (int k = 0; k < l->pipeline; k++) {
        ZR_CHECK(!record[k].again, ZR_ERR_INTERNAL, "rank %d ran %d steps twice", k, record[k].again);
        for (int t = 0; t < record[k].threads; t++)
            ZR_CHECK(record[k].next[t] == record[k].n[t], ZR_ERR_INTERNAL, "rank %d: step %d waits forever", k,
                     record[k].list[t][record[k].next[t]]);
    }
    return ZR_OK;
}

/* Find the times when all ranks have trained, while their plans are there. */
static zr_status end(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr__engine_watch(engine, NULL, NULL);
    ZR_TRY(zr_comm_barrier(comm));
    const zr_status st = comm->rank == 0 ? find_times(&run->layout) : ZR_OK;
    ZR_TRY(zr_comm_barrier(comm));
    free(record[comm->rank].end);
    for (int t = 0; t < THREADS; t++) free(record[comm->rank].list[t]);
    return st;
}

/* ---- formulas ---------------------------------------------------------------------------------- */

static void close_to(const zr_layout *l, int rank, const char *what, double have, double want)
{
    if (fabs(have - want) > 1e-9)
        fail_msg("schedule %d, %d ranks of %d chunks, %d micro-batches, rank %d: %s is %.6g, not %.6g",
                 l->pipeline_schedule, l->pipeline, l->chunks, (int)l->accum, rank, what, have, want);
}

/* Train one step, and compare the times with the formulas. Their unit is a forward pass of a chunk. */
static void check_times(zr_pipe_schedule schedule, int ranks, int chunks, int micros, int stage, bool lanes)
{
    trainer run = trainer_odd();
    zr_layout *l = &run.layout;
    run.config.n_layer = ranks * chunks;
    run.config.n_embd = 21;
    l->batch = 1;
    l->seq = 5;
    l->stage = stage;
    l->eval = false;
    l->overlap = lanes;
    l->pipeline = ranks;
    l->chunks = chunks;
    l->accum = micros;
    l->pipeline_schedule = schedule;
    run.lanes = lanes;
    run.steps = 1;
    run.before = begin;
    run.after = end;
    trainer_run(&run);
    const bool splits = schedule == ZR_PIPELINE_ZB_H1 || schedule == ZR_PIPELINE_ZB_V;
    const double work = 3.0 * micros * chunks, idle = (splits ? 1.0 : 3.0) * (ranks - 1);
    for (int k = 0; k < ranks; k++) {
        assert_true(lanes ? record[k].threads > 1 : record[k].threads == 1);
        close_to(l, k, "work", record[k].busy, work);
        close_to(l, k, "idle time", length - record[k].busy, idle);
        /* in ZB-V a rank waits only before its first op, and for the norm of all ranks after its last one */
        if (schedule == ZR_PIPELINE_ZB_V) close_to(l, k, "work with pauses", record[k].last - record[k].first, work);
    }
}

static void test_formulas(void **state)
{
    (void)state;
    static const struct {
        zr_pipe_schedule schedule;
        int chunks, least; /* least: number of micro-batches for each rank from which on the formula holds */
    } way[] = {{ZR_PIPELINE_GPIPE, 1, 1},       {ZR_PIPELINE_1F1B, 1, 1},    {ZR_PIPELINE_INTERLEAVED, 2, 1},
               {ZR_PIPELINE_INTERLEAVED, 4, 1}, {ZR_PIPELINE_BREADTH, 2, 1}, {ZR_PIPELINE_BREADTH, 4, 1},
               {ZR_PIPELINE_ZB_H1, 1, 1},       {ZR_PIPELINE_ZB_V, 2, 2}};
    int tried = 0;
    for (size_t i = 0; i < sizeof way / sizeof *way; i++)
        for (int ranks = 2; ranks <= RANKS; ranks++)
            for (int lanes = 0; lanes < 2; lanes++) {
                const bool divides = way[i].schedule == ZR_PIPELINE_INTERLEAVED;
                const int micros = way[i].least * ranks + (divides ? ranks * lanes : lanes);
                check_times(way[i].schedule, ranks, way[i].chunks, micros, tried++ % 4, lanes);
            }
    printf("# %d pipelines\n", tried);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
