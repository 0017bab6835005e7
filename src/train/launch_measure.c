/*
 * How long steps of schedules take: training steps of small models, run by the engine that also runs large ones, so
 * that caches, threads, waits for other ranks and links are those of training.
 */
#include "train/timings.h"
#include "zr/models.h"
#include "zr/train.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 3 };                                    /* over all models: a machine is busy for a while at times */
enum { WARM_RUNS = 1, LEAST_RUNS = 2, MOST_RUNS = 24 }; /* training steps of one model */
enum { MOST_MICRO = 2, STEP_RUNS = MOST_MICRO * MOST_RUNS }; /* micro-batches of one, and so runs of a step */
#define MODEL_SEC 0.1                                        /* ... but no more of them beyond so long */

/* How ranks divide a model. */
typedef enum division { STAGE0, STAGE1, STAGE2, STAGE3, TENSOR, GROUPS } division;

/* From products that one cache holds to those that none does, from a head of bytes to one of words. Users' models are
 * not among them: their steps are priced by those that lie around them. */
static const struct trial {
    int64_t width, heads, layers, vocabulary, batch, tokens;
    division division;
} trials[] = {
    {64, 1, 2, 256, 1, 64, STAGE3},    {128, 2, 2, 256, 2, 128, STAGE1},  {128, 2, 2, 1024, 4, 128, TENSOR},
    {256, 4, 1, 1024, 4, 128, STAGE3}, {256, 4, 1, 256, 1, 512, GROUPS},  {512, 8, 1, 1024, 1, 256, STAGE2},
    {512, 8, 1, 256, 1, 128, TENSOR},  {768, 12, 1, 256, 1, 128, STAGE3}, {256, 4, 1, 16384, 1, 128, STAGE0},
};
enum { TRIALS = sizeof(trials) / sizeof(trials[0]) };

/* Runs of a step so far. */
typedef struct step_runs {
    double sec[STEP_RUNS];
    int64_t n;
} step_runs;

typedef struct measuring {
    zr_comm *comm;
    zr_device *device;
    int64_t vocabulary, tokens; /* of the model that runs, and of its micro-batch */
    step_runs *runs;            /* of each step of the schedule that runs */
    double wall_sec[MOST_RUNS];
    zr__timings *timings; /* NULL: not wanted */
    double around_sec;    /* sum over models */
    int n_around;
    /* Of streams that run at once, sums over models: what computing and exchanges lose; how long both run; exchanges.
     */
    double lost_sec, late_sec, both_sec, exchanges;
    zr_launch *launch;
} measuring;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static double median(double *sec, int64_t n)
{
    qsort(sec, (size_t)n, sizeof(*sec), ascending);
    return sec[n / 2];
}

/* ---- one model's training steps -------------------------------------------------------------- */

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const measuring *m = arg;
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_SHUFFLE, .step = (uint32_t)batch->step};
    for (int i = 0; i < 2; i++)
        for (int64_t t = 0; t < m->tokens; t++)
            ((int32_t *)input[i])[t] =
                (int32_t)(zr_rng_u32(&rng, (uint64_t)(batch->first_row * m->tokens + t)) % (uint64_t)m->vocabulary);
    return ZR_OK;
}

static void ran(void *arg, const zr_event *event)
{
    const measuring *m = arg;
    step_runs *runs = &m->runs[event->step];
    if (event->schedule != ZR_SCHEDULE_TRAIN) return;
    if (m->timings) zr__timings_event(m->timings, event);
    if (runs->n == STEP_RUNS) return; /* none of them has so many */
    runs->sec[runs->n++] = event->end_sec - event->begin_sec;
}

/* The first rank says whether there is time for one more. */
static zr_status goes_on(const measuring *m, int done, double begin_sec, bool *more)
{
    const double sec = zr_clock_sec() - begin_sec;
    ZR_TRY(zr_comm_scalars(m->comm, &sec, 1, m->comm->table));
    *more = done < LEAST_RUNS || (done < MOST_RUNS && m->comm->table[0] < MODEL_SEC);
    return ZR_OK;
}

static zr_status run_steps(measuring *m, const zr_plan *plan, zr_engine *engine, int *n)
{
    bool more = true;
    double begin_sec = zr_clock_sec();
    for (*n = -WARM_RUNS; more;) {
        const zr_step_args args = {.step = *n + WARM_RUNS, .lr = 1e-4, .batch = fill_batch, .arg = m};
        zr_step_result result;
        if (*n == 0) {
            memset(m->runs, 0, (size_t)plan->schedule[ZR_SCHEDULE_TRAIN].n_steps * sizeof(*m->runs));
            begin_sec = zr_clock_sec();
        }
        if (m->timings) zr__timings_begin(m->timings);
        const double from = zr_clock_sec();
        ZR_TRY(zr_engine_step(engine, &args, &result));
        const double sec = zr_clock_sec() - from;
        if (m->timings) zr__timings_end(m->timings, sec);
        if (*n >= 0) m->wall_sec[*n] = sec;
        (*n)++;
        ZR_TRY(goes_on(m, *n, begin_sec, &more));
    }
    return ZR_OK;
}

/* ---- what they leave ------------------------------------------------------------------------- */

static bool same_cost(const zr_step_cost *a, const zr_step_cost *b)
{
    return a->flops == b->flops && a->memory_bytes == b->memory_bytes && a->wire_bytes == b->wire_bytes &&
           a->pairs == b->pairs && a->head == b->head && memcmp(&a->product, &b->product, sizeof(a->product)) == 0;
}

static bool same_step(const zr_step_sample *a, const zr_step_sample *b)
{
    return a->narrow == b->narrow && a->ranks == b->ranks && a->across == b->across && strcmp(a->kind, b->kind) == 0 &&
           same_cost(&a->cost, &b->cost);
}

/* Of one model, whose first sample is `first`, equal steps are one sample: the mean over them. `times`, of each of its
 * samples: how often it came. */
static void keep(zr_launch *l, int32_t first, const zr_step_sample *sample, int32_t *times)
{
    int32_t i = first;
    while (i < l->n_samples && !same_step(&l->sample[i], sample)) i++;
    if (i == l->n_samples) l->sample[l->n_samples++] = *sample;
    const int32_t n = ++times[i - first];
    l->sample[i].sec += (sample->sec - l->sample[i].sec) / n;
}

static zr_status make_room(zr_launch *l, int32_t more)
{
    zr_step_sample *sample = zr_alloc((size_t)(l->n_samples + more) * sizeof(*sample));
    ZR_CHECK(sample, ZR_ERR_MEMORY, "no memory for %d measured steps", l->n_samples + more);
    if (l->n_samples > 0) memcpy(sample, l->sample, (size_t)l->n_samples * sizeof(*sample));
    zr_free(l->sample);
    l->sample = sample;
    return ZR_OK;
}

static zr_status keep_steps(measuring *m, const zr_plan *plan, const double *sec)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const int32_t first = m->launch->n_samples;
    int32_t *times = zr_alloc((size_t)s->n_steps * sizeof(*times));
    ZR_CHECK(times, ZR_ERR_MEMORY, "no memory for %d measured steps", s->n_steps);
    zr_status st = make_room(m->launch, s->n_steps);
    for (int32_t i = 0; i < s->n_steps && st == ZR_OK; i++) {
        zr_step_sample sample = zr_step_sample_of(plan, ZR_SCHEDULE_TRAIN, i);
        sample.sec = fmax(sec[i], 1e-9); /* a clock may stand still */
        if (m->runs[i].n > 0) keep(m->launch, first, &sample, times);
    }
    zr_free(times);
    return st;
}

/* Each step's seconds, and where ranks meet how long they wait: in one run, the last that comes waits for nobody. */
static zr_status settle(measuring *m, const zr_plan *plan, double *sec, double *wait_sec)
{
    const int32_t n_steps = plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    double *x = zr_alloc(((size_t)n_steps * STEP_RUNS * 3 + 1) * sizeof(*x));
    int64_t n = 0;
    ZR_CHECK(x, ZR_ERR_MEMORY, "no memory for %d measured steps", n_steps);
    for (int32_t i = 0; i < n_steps; i++)
        for (int64_t k = 0; k < m->runs[i].n; k++) x[n++] = m->runs[i].sec[k];
    double *mean = x + n, *least = mean + n;
    const zr_status st = zr__over_ranks(m->comm, x, n, mean, least, NULL);
    n = 0;
    for (int32_t i = 0; i < n_steps && st == ZR_OK; i++) {
        const int64_t runs = m->runs[i].n;
        const bool meet = !m->launch->beside && zr_step_sample_of(plan, ZR_SCHEDULE_TRAIN, i).ranks > 1;
        for (int64_t k = 0; k < runs && meet; k++) mean[n + k] -= least[n + k];
        wait_sec[i] = runs > 0 && meet ? median(mean + n, runs) : 0;
        sec[i] = runs > 0 ? median((meet ? least : mean) + n, runs) : 0;
        n += runs;
    }
    zr_free(x);
    return st;
}

/* What ranks waited between the exchanges of a training step. */
static void keep_wait(const measuring *m, const zr_plan *plan, const double *sec, const double *wait_sec, int n)
{
    zr_launch *l = m->launch;
    double computed = 0, waited = 0, exchanges = 0;
    for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++) {
        const double runs = (double)m->runs[i].n / n;
        const bool meet = zr_step_sample_of(plan, ZR_SCHEDULE_TRAIN, i).ranks > 1;
        computed += meet ? 0 : runs * sec[i];
        exchanges += meet ? runs : 0;
        waited += runs * wait_sec[i];
    }
    if (l->beside || exchanges == 0 || l->n_waits == ZR_LAUNCH_WAITS) return;
    l->wait[l->n_waits++] = (zr_wait_sample){.computed_sec = computed / exchanges, .share = waited / computed};
}

/* A model's steps, and what a training step takes beside them where one follows the other. */
static zr_status keep_model(measuring *m, const zr_plan *plan, int n)
{
    const int32_t n_steps = plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    double *sec = zr_alloc((size_t)n_steps * 2 * sizeof(*sec)), *wait_sec = sec + n_steps, around;
    zr_status st = ZR_OK;
    ZR_CHECK(sec, ZR_ERR_MEMORY, "no memory for %d measured steps", n_steps);
    ZR_TRY_GOTO(st, settle(m, plan, sec, wait_sec), done);
    around = median(m->wall_sec, n);
    for (int32_t i = 0; i < n_steps; i++) around -= (double)m->runs[i].n / n * (sec[i] + wait_sec[i]);
    ZR_TRY_GOTO(st, zr__over_ranks(m->comm, &around, 1, &around, NULL, NULL), done);
    m->around_sec += fmax(around, 0);
    m->n_around++;
    keep_wait(m, plan, sec, wait_sec, n);
    st = keep_steps(m, plan, sec);
done:
    zr_free(sec);
    return st;
}

/* ---- the models ------------------------------------------------------------------------------ */

/* false: so many ranks cannot be divided so. */
static bool layout_of(const struct trial *t, const zr_comm *comm, zr_dtype dtype, zr_layout *l)
{
    const int ranks = comm->size;
    *l = (zr_layout)ZR_LAYOUT_INIT;
    l->ranks = ranks;
    l->host_ranks = comm->local_size < ranks ? comm->local_size : 0;
    l->dtype = l->wire_dtype = dtype;
    l->batch = t->batch;
    l->seq = t->tokens;
    l->eval = false;
    l->states = ZR_STATES_LEAN;
    l->optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    l->stage = t->division <= STAGE3 ? (int)t->division : 3;
    if (t->division == STAGE1 || t->division == GROUPS) l->accum = MOST_MICRO;
    if (t->division == TENSOR && (ranks % 2 != 0 || t->heads % 2 != 0)) return false;
    if (t->division == TENSOR) {
        l->tensor = 2;
        l->ranks = ranks / 2;
    }
    const int shard = comm->local_size < ranks ? comm->local_size : ranks / 2;
    const bool divides = shard > 1 && ranks % shard == 0 && (shard & (shard - 1)) == 0;
    if (t->division == GROUPS && divides) l->shard_ranks = shard;
    return true;
}

/* Runs a plan's training steps. `keeps`: their steps are samples. `timings`, NULL or what all streams did. */
static zr_status measure_plan(measuring *m, const zr_plan *plan, bool keeps, zr_timings *timings)
{
    zr_engine *engine = NULL;
    zr_status st = ZR_OK;
    int n = 0;
    ZR_TRY(zr_engine_create(plan, m->device, m->comm, 1, &engine));
    zr_engine_watch(engine, ran, m);
    m->runs = zr_alloc((size_t)plan->schedule[ZR_SCHEDULE_TRAIN].n_steps * sizeof(*m->runs));
    st = m->runs ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for measured steps");
    if (st == ZR_OK && timings) st = zr__timings_create(plan, &m->timings);
    ZR_TRY_GOTO(st, zr_comm_agree(m->comm, st), done);
    ZR_TRY_GOTO(st, zr_engine_fill(engine, ZR_STATE_PARAM, NULL, NULL), done);
    ZR_TRY_GOTO(st, run_steps(m, plan, engine, &n), done);
    if (keeps) ZR_TRY_GOTO(st, keep_model(m, plan, n), done);
    if (timings) ZR_TRY_GOTO(st, zr__timings_collect(m->timings, m->comm, timings), done);
done:
    zr_engine_destroy(&engine);
    zr__timings_destroy(&m->timings);
    zr_free(m->runs);
    m->runs = NULL;
    return st;
}

static zr_status measure_layout(measuring *m, const zr_model *model, const zr_layout *layout, bool keeps,
                                zr_timings *timings)
{
    zr_plan *plan = NULL;
    zr_status st = zr_comm_agree(m->comm, zr_plan_create(model, layout, &m->device->profile, &plan));
    if (st == ZR_OK) st = measure_plan(m, plan, keeps, timings);
    zr_plan_destroy(&plan);
    return st;
}

/* Where exchanges run beside computing, samples are of steps that run alone; then both run, and what they lose to each
 * other is measured. */
static zr_status measure_model(measuring *m, const struct trial *t, zr_dtype dtype)
{
    const zr_gpt2_config sizes = {.n_layer = t->layers,
                                  .n_head = t->heads,
                                  .n_embd = t->width,
                                  .n_positions = t->tokens,
                                  .vocab_size = t->vocabulary,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    const zr_model model = zr_gpt2(&sizes);
    const bool beside = m->comm->concurrent;
    zr_layout layout;
    zr_timings alone, both;
    if (!layout_of(t, m->comm, dtype, &layout)) return ZR_OK;
    m->vocabulary = t->vocabulary;
    m->tokens = t->batch * t->tokens;
    layout.overlap = !beside;
    ZR_TRY(measure_layout(m, &model, &layout, true, beside ? &alone : NULL));
    if (!beside) return ZR_OK;
    layout.overlap = true;
    ZR_TRY(measure_layout(m, &model, &layout, false, &both));
    const double both_sec = both.comm_sec - both.exposed_sec;
    m->lost_sec += both.compute_sec - alone.compute_sec;
    m->late_sec += both.comm_sec - alone.comm_sec;
    m->both_sec += both_sec;
    for (int k = 0; k < both.n_kinds; k++)
        if (both.kind[k].stream == ZR_STREAM_COMM) m->exchanges += both.kind[k].calls * both_sec / both.comm_sec;
    return ZR_OK;
}

static zr_status measure_models(measuring *m)
{
    for (int dtype = 0; dtype < 2; dtype++)
        for (int t = 0; t < TRIALS; t++) ZR_TRY(measure_model(m, &trials[t], dtype ? ZR_BF16 : ZR_F32));
    return ZR_OK;
}

/* Ranks of a host stand side by side, as many on each: plans know no other hosts. All ranks find the same. */
static zr_status count_hosts(zr_comm *comm, int32_t *hosts)
{
    const double local[2] = {comm->local_size, comm->local_rank};
    bool alike = true;
    ZR_TRY(zr_comm_scalars(comm, local, 2, comm->table));
    const int each = (int)comm->table[0];
    for (int r = 0; r < comm->size; r++)
        alike = alike && comm->table[2 * r] == each && comm->table[2 * r + 1] == r % each;
    ZR_CHECK(alike && comm->size % each == 0, ZR_ERR_UNSUPPORTED,
             "the ranks of a host are not neighbours, or hosts have not the same number: start as many on each, one "
             "host after the other (mpirun -N)");
    *hosts = comm->size / each;
    return ZR_OK;
}

/* Of a number of each pass the median, in place of the first. */
static void combine_number(zr_launch *pass, size_t offset)
{
    double x[PASSES];
    for (int p = 0; p < PASSES; p++) memcpy(&x[p], (const char *)&pass[p] + offset, sizeof(double));
    x[0] = median(x, PASSES);
    memcpy((char *)&pass[0] + offset, x, sizeof(double));
}

/* All passes have the same samples. */
static void combine(zr_launch *pass, zr_launch *launch)
{
    double x[PASSES];
    combine_number(pass, offsetof(zr_launch, around_sec));
    combine_number(pass, offsetof(zr_launch, lost));
    combine_number(pass, offsetof(zr_launch, late_sec));
    for (int32_t i = 0; i < pass->n_waits; i++) {
        combine_number(pass, offsetof(zr_launch, wait[i].computed_sec));
        combine_number(pass, offsetof(zr_launch, wait[i].share));
    }
    for (int32_t i = 0; i < pass->n_samples; i++) {
        for (int p = 0; p < PASSES; p++) x[p] = pass[p].sample[i].sec;
        pass->sample[i].sec = median(x, PASSES);
    }
    *launch = *pass;
    *pass = (zr_launch){.ranks = 0}; /* its samples are the launch's */
}

static zr_status measure_pass(zr_comm *comm, zr_device *device, int32_t hosts, zr_launch *launch)
{
    *launch = (zr_launch){.ranks = comm->size,
                          .hosts = hosts,
                          .threads = device->profile.facts.threads,
                          .cores = zr_host_cores(),
                          .beside = comm->concurrent};
    snprintf(launch->transport, sizeof(launch->transport), "%s", comm->size == 1 ? "threads" : comm->transport);
    measuring m = {.comm = comm, .device = device, .launch = launch};
    ZR_TRY(measure_models(&m));
    launch->around_sec = m.around_sec / m.n_around;
    if (m.both_sec > 0) launch->lost = fmin(fmax(m.lost_sec / m.both_sec, 0), 1);
    if (m.exchanges > 0) launch->late_sec = fmax(m.late_sec / m.exchanges, 0);
    return ZR_OK;
}

zr_status zr_launch_measure(zr_comm *comm, zr_device *device, zr_launch *launch)
{
    zr_launch pass[PASSES] = {{.ranks = 0}};
    int32_t hosts = 0;
    zr_status st = count_hosts(comm, &hosts);
    for (int p = 0; p < PASSES && st == ZR_OK; p++) st = measure_pass(comm, device, hosts, &pass[p]);
    if (st == ZR_OK) combine(pass, launch);
    for (int p = 0; p < PASSES; p++) zr_launch_clear(&pass[p]);
    return st;
}
