/* Measurement of schedule steps while small models are trained. The engine is the same as for large models. Therefore
 * caches, threads, links and waits for other ranks behave as in real training. */
#include "base/core/grow.h"
#include "engine/engine.h"
#include "plan/cost/cost.h"
#include "plan/list/place.h"
#include "simulate/simulate.h"
#include "train/host/host.h"
#include "train/launch/launch.h"
#include "train/measure/timings.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of passes over all models. The results are medians over the passes, since the machine may be busy during one
 * pass. */
enum { PASSES = 3 };
/* Numbers of training steps of one model: WARM_RUNS warm-up steps, then at least LEAST_RUNS and at most MOST_RUNS
 * measured steps. */
enum { WARM_RUNS = 1, LEAST_RUNS = 3, MOST_RUNS = 24 };
/* Maximum number of micro-batches of a training step, and of measured runs of a schedule step. */
enum { MOST_MICRO = 4, STEP_RUNS = MOST_MICRO * MOST_RUNS };
#define MODEL_SEC 0.1 /* seconds after which the measurement of a model ends, if it has LEAST_RUNS training steps */
/* maximum fraction of its speed that a stream loses through overlap; below 1, since it never stops */
#define MOST_LOST 0.9
/* Settings of a quick measurement: the maximum width of its models (QUICK_WIDTH), and its values in place of LEAST_RUNS
 * (QUICK_RUNS) and MODEL_SEC (QUICK_SEC). */
enum { QUICK_WIDTH = 128, QUICK_RUNS = 1 };
#define QUICK_SEC 0.02

/* Ways to divide a model over the ranks. LINKS divides it as STAGE3 does, but its model has so little compute that
 * exchanges run back to back. LINKS is measured only with several hosts. */
typedef enum division { STAGE0, STAGE1, STAGE2, STAGE3, TENSOR, GROUPS, LINKS } division;

/* Models to measure. The step of a user's model is priced by interpolation between measured steps of these models. The
 * operands of their matrix products range from sizes that fit in one cache to sizes that fit in no cache. Their
 * vocabulary sizes range from 256 (bytes) to 16384 (words). */
static const struct trial {
    int64_t width, heads, layers, vocabulary, batch, tokens, micro;
    division division;
    bool flat;      /* whether collectives have one level and not two (within hosts, and between hosts) */
    bool quantised; /* whether parameters pass as int8 and gradients as int4 (zr_layout.weight_records, grad_records) */
} trials[] = {
    {64, 1, 4, 256, 1, 64, 1, STAGE3, false, false},    {128, 2, 4, 256, 2, 128, 2, STAGE1, true, false},
    {128, 2, 4, 256, 2, 64, 4, STAGE2, false, false},   {128, 2, 4, 1024, 4, 128, 1, TENSOR, false, false},
    {256, 4, 4, 1024, 4, 128, 1, STAGE3, false, false}, {256, 4, 2, 256, 1, 512, 2, GROUPS, false, false},
    {512, 8, 1, 1024, 1, 256, 1, STAGE2, true, false},  {512, 8, 1, 256, 1, 128, 1, TENSOR, false, false},
    {768, 12, 1, 256, 1, 128, 1, STAGE3, false, false}, {256, 4, 1, 16384, 1, 128, 1, STAGE0, false, false},
    {256, 4, 4, 256, 1, 8, 1, LINKS, false, false},     {128, 2, 4, 256, 1, 64, 1, STAGE3, false, true},
    {768, 12, 1, 256, 1, 16, 1, STAGE3, false, true},
};
enum { TRIALS = sizeof(trials) / sizeof(trials[0]) };

/* Durations of all executions of one schedule step so far, in seconds. */
typedef struct step_runs {
    double sec[STEP_RUNS];
    int64_t n;
} step_runs;

/* A plan and its engine, which runs training steps. */
typedef struct runner {
    int64_t vocabulary, tokens; /* vocabulary size of the model; number of tokens in a micro-batch */
    zr_plan *plan;
    zr_engine *engine;
    zr__timings *timings;       /* NULL if not wanted */
    step_runs *runs;            /* array with one element for each schedule step */
    double wall_sec[MOST_RUNS]; /* duration of each training step in seconds */
    bool typical[MOST_RUNS];
    int n; /* number of completed training steps */
} runner;

/* Weighted least-squares fit of y = slope * x. Each model adds one point, with a weight of 1 / error^2. */
typedef struct slope {
    double xy, xx;
} slope;

typedef struct measuring {
    zr_comm *comm;
    zr_device *device;
    bool quick;        /* argument of zr__launch_measure */
    double around_sec; /* time of training steps outside their schedule steps, in seconds, summed over the models */
    int n_around;
    slope lost, late;  /* fits from which the fields `lost` and `late` of zr_launch are computed */
    double bytes, sec; /* bytes and seconds of the exchanges between hosts in the model with the division LINKS */
    /* Sums over the exchanges that move bytes. `squares`: squared deviations of durations from the mean duration of
     * their schedule step. `exchanges`: squares of these mean durations. */
    double squares, exchanges;
    zr_launch *launch;
    int64_t room; /* capacity of launch->sample */
} measuring;

static int ascending_sec(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sort `sec` in place and return its median. */
static double median(double *sec, int64_t n)
{
    qsort(sec, (size_t)n, sizeof(*sec), ascending_sec);
    return (sec[(n - 1) / 2] + sec[n / 2]) / 2;
}

static void slope_add(slope *s, double x, double y, double error)
{
    s->xy += x * y / (error * error);
    s->xx += x * x / (error * error);
}

static double slope_of(const slope *s)
{
    return s->xx > 0 ? fmax(s->xy / s->xx, 0) : 0;
}

/* ---- one model's training steps -------------------------------------------------------------- */

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const runner *r = arg;
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_SHUFFLE, .step = (uint32_t)batch->step};
    for (int i = 0; i < 2; i++)
        for (int64_t t = 0; t < r->tokens; t++)
            ((int32_t *)input[i])[t] =
                (int32_t)(zr_rng_u32(&rng, (uint64_t)(batch->first_row * r->tokens + t)) % (uint64_t)r->vocabulary);
    return ZR_OK;
}

static void record_run(void *arg, const zr_event *event)
{
    const runner *r = arg;
    step_runs *runs = &r->runs[event->step];
    if (event->schedule != ZR_SCHEDULE_TRAIN) return;
    if (r->timings) zr__timings_event(r->timings, event);
    if (runs->n == STEP_RUNS) return; /* this is never true, because a step has at most STEP_RUNS runs */
    runs->sec[runs->n++] = event->end_sec - event->begin_sec;
}

static void close_runners(runner (*two)[2])
{
    for (runner *r = *two; r < *two + 2; r++) {
        zr_engine_destroy(&r->engine);
        zr__timings_destroy(&r->timings);
        zr_free(r->runs);
        zr_plan_destroy(&r->plan);
    }
}

/* Allocate the arrays in which this rank records its steps. Not collective. */
static zr_status alloc_records(runner *r, bool timed)
{
    r->runs = zr_alloc((size_t)r->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps * sizeof(*r->runs));
    ZR_CHECK(r->runs, ZR_ERR_MEMORY, "no memory for measured steps");
    if (timed) ZR_TRY(zr__timings_create(&(zr_plans){.role = {r->plan}, .n = 1}, &r->timings));
    return ZR_OK;
}

/* Create the plan and the engine of a runner. On failure, the caller frees them with close_runners. */
static zr_status open_runner(const measuring *m, const zr_model *model, const zr_layout *layout, bool timed, runner *r)
{
    r->vocabulary = ((const zr_gpt2_config *)model->config)->vocab_size;
    r->tokens = layout->batch * layout->seq;
    ZR_TRY(zr_comm_agree(m->comm, zr_plan_create(model, layout, &m->device->profile, &r->plan)));
    ZR_TRY(zr_engine_create(r->plan, m->device, m->comm, 1, &r->engine));
    ZR_TRY(zr_comm_agree(m->comm, alloc_records(r, timed)));
    zr__engine_watch(r->engine, record_run, r);
    return zr_engine_fill(r->engine, ZR_STATE_PARAM, NULL, NULL);
}

/* Decide on rank 0 for all ranks whether enough time is left for another training step. */
static zr_status has_time(const measuring *m, int done, double sec, bool *more)
{
    ZR_TRY(zr_comm_scalars(m->comm, &sec, 1, NULL));
    const int least = m->quick ? QUICK_RUNS : LEAST_RUNS;
    *more = done < least || (done < MOST_RUNS && m->comm->table[0] < (m->quick ? QUICK_SEC : MODEL_SEC));
    return ZR_OK;
}

static zr_status run_step(runner *r, int number)
{
    const zr_step_args args = {.step = number, .lr = 1e-4, .batch = fill_batch, .arg = r};
    zr_step_result result;
    if (r->timings) zr__timings_begin(r->timings);
    const double from = zr_clock_sec();
    ZR_TRY(zr_engine_step(r->engine, &args, &result));
    r->wall_sec[r->n] = zr_clock_sec() - from;
    if (r->timings) zr__timings_end(r->timings, r->wall_sec[r->n]);
    r->n++;
    return ZR_OK;
}

/* Run training steps of all runners in turn, so that a slow period of the machine affects every runner. */
static zr_status run_steps(const measuring *m, runner *r, int n_runners)
{
    bool more = true;
    double begin_sec = 0;
    for (int step = 0; more; step++) {
        if (step == WARM_RUNS) begin_sec = zr_clock_sec();
        for (int i = 0; i < n_runners && step == WARM_RUNS; i++) { /* discard the records of the warm-up steps */
            memset(r[i].runs, 0, (size_t)r[i].plan->schedule[ZR_SCHEDULE_TRAIN].n_steps * sizeof(*r->runs));
            r[i].n = 0;
        }
        for (int i = 0; i < n_runners; i++) ZR_TRY(run_step(&r[i], step));
        if (step >= WARM_RUNS) ZR_TRY(has_time(m, r->n, (zr_clock_sec() - begin_sec) / n_runners, &more));
    }
    return ZR_OK;
}

/* ---- samples of its steps ---------------------------------------------------------------------- */

static bool same_step(const zr_step_sample *a, const zr_step_sample *b)
{
    const zr_step_cost *x = &a->cost, *y = &b->cost;
    return a->narrow == b->narrow && a->ranks == b->ranks && a->across == b->across && strcmp(a->kind, b->kind) == 0 &&
           x->flops == y->flops && x->memory_bytes == y->memory_bytes && x->wire_bytes == y->wire_bytes &&
           x->pairs == y->pairs && x->head == y->head && memcmp(&x->product, &y->product, sizeof(x->product)) == 0;
}

/* Add a sample of a schedule step. Equal schedule steps of one model become one sample with the mean of their times.
 * `first` is the index of the model's first sample. `times` has the number of schedule steps in each sample. */
static void add_sample(zr_launch *l, int32_t first, const zr_step_sample *sample, int32_t *times)
{
    int32_t i = first;
    while (i < l->n_samples && !same_step(&l->sample[i], sample)) i++;
    if (i == l->n_samples) l->sample[l->n_samples++] = *sample;
    const int32_t n = ++times[i - first];
    l->sample[i].sec += (sample->sec - l->sample[i].sec) / n;
}

static zr_status keep_steps(measuring *m, const runner *r, const double *sec)
{
    const zr_plan *plan = r->plan;
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const int32_t first = m->launch->n_samples;
    ZR_GROW(m->launch->sample, m->room, first + s->n_steps, "measured steps");
    ZR_AUTO_FREE int32_t *times = zr_alloc((size_t)s->n_steps * sizeof(*times));
    ZR_CHECK(times, ZR_ERR_MEMORY, "no memory for %d measured steps", s->n_steps);
    for (int32_t i = 0; i < s->n_steps; i++) {
        zr_step_sample sample = zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, i);
        sample.sec = fmax(sec[i] / sample.cost.calls, 1e-9); /* at least 1 ns, since a coarse clock may measure 0 */
        if (r->runs[i].n > 0) add_sample(m->launch, first, &sample, times);
    }
    return ZR_OK;
}

/* Mark the typical training steps: all except the fastest quarter and the slowest quarter. For example, one of three
 * training steps is typical. */
static void find_typical(const double *wall_sec, int n, bool *typical)
{
    for (int i = 0; i < n; i++) {
        int faster = 0;
        for (int j = 0; j < n; j++) faster += wall_sec[j] < wall_sec[i] || (wall_sec[j] == wall_sec[i] && j < i);
        typical[i] = faster >= (n + 1) / 4 && faster < n - (n + 1) / 4;
    }
}

/* Return the mean of x over typical training steps. x has one value for each of `runs` runs of a schedule step. Every
 * training step has the same number of runs. */
static double typical_mean(const double *x, int64_t runs, const runner *r)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < runs; k++) {
        if (!r->typical[k * r->n / runs]) continue;
        sum += x[k];
        n++;
    }
    return n > 0 ? sum / (double)n : 0;
}

/* Compute the duration of each schedule step. For exchanges, compute also the time spent waiting for other ranks. In
 * each exchange, the rank that arrives last does not wait. All times are means over typical training steps, so that
 * they add up to the time of one training step. */
static zr_status step_times(const measuring *m, runner *r, double *sec, double *wait_sec)
{
    const zr_plan *plan = r->plan;
    const int32_t n_steps = plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    ZR_AUTO_FREE double *x = zr_alloc(((size_t)n_steps * STEP_RUNS * 3 + 1) * sizeof(*x));
    int64_t n = 0;
    ZR_CHECK(x, ZR_ERR_MEMORY, "no memory for %d measured steps", n_steps);
    for (int32_t i = 0; i < n_steps; i++)
        for (int64_t k = 0; k < r->runs[i].n; k++) x[n++] = r->runs[i].sec[k];
    double *mean = x + n, *least = mean + n;
    ZR_TRY(zr__over_ranks(m->comm, r->wall_sec, r->n, r->wall_sec, NULL, NULL));
    ZR_TRY(zr__over_ranks(m->comm, x, n, mean, least, NULL));
    find_typical(r->wall_sec, r->n, r->typical);
    n = 0;
    for (int32_t i = 0; i < n_steps; i++) {
        const int64_t runs = r->runs[i].n;
        const bool meet = !m->launch->beside && zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, i).ranks > 1;
        for (int64_t k = n; k < n + runs && meet; k++) mean[k] -= least[k];
        wait_sec[i] = meet ? typical_mean(mean + n, runs, r) : 0;
        sec[i] = typical_mean((meet ? least : mean) + n, runs, r);
        n += runs;
    }
    return ZR_OK;
}

/* Record the time for which ranks wait for each other in a training step, as a share of the compute time. Also record
 * the mean compute time between two exchanges. */
static void keep_wait(const measuring *m, const runner *r, const double *sec, const double *wait_sec)
{
    zr_launch *l = m->launch;
    double computed = 0, waited = 0, exchanges = 0;
    for (int32_t i = 0; i < r->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++) {
        const double runs = (double)r->runs[i].n / r->n;
        const bool meet = zr__step_sample_of(r->plan, ZR_SCHEDULE_TRAIN, i).ranks > 1;
        computed += meet ? 0 : runs * sec[i];
        exchanges += meet ? runs : 0;
        waited += runs * wait_sec[i];
    }
    if (l->beside || exchanges == 0 || l->n_waits == ZR_LAUNCH_WAITS) return;
    l->wait[l->n_waits++] = (zr_wait_sample){.computed_sec = computed / exchanges, .share = waited / computed};
}

/* Record the samples of a model whose steps do not overlap. Also record the time of a training step outside its
 * schedule steps. */
static zr_status keep_model(measuring *m, runner *r)
{
    const int32_t n_steps = r->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    ZR_AUTO_FREE double *sec = zr_alloc((size_t)n_steps * 2 * sizeof(*sec));
    ZR_CHECK(sec, ZR_ERR_MEMORY, "no memory for %d measured steps", n_steps);
    double *wait_sec = sec + n_steps;
    ZR_TRY(step_times(m, r, sec, wait_sec));
    ZR_TRY(keep_steps(m, r, sec));
    double around = typical_mean(r->wall_sec, r->n, r);
    for (int32_t i = 0; i < n_steps; i++) around -= (double)r->runs[i].n / r->n * (sec[i] + wait_sec[i]);
    m->around_sec += fmax(around, 0);
    m->n_around++;
    keep_wait(m, r, sec, wait_sec);
    return ZR_OK;
}

/* ---- the models ------------------------------------------------------------------------------ */

/* Set the layout of a trial. Return false if the trial is impossible with this number of ranks and hosts. */
static bool layout_of(const struct trial *t, const zr_comm *comm, zr_dtype dtype, zr_layout *l)
{
    const int ranks = comm->size;
    *l = zr_layout_default();
    l->ranks = ranks;
    l->host_ranks = comm->local_size < ranks ? comm->local_size : 0;
    l->dtype = l->wire_dtype = dtype;
    l->batch = t->batch;
    l->seq = t->tokens;
    l->eval = false;
    l->states = ZR_STATES_LEAN;
    l->optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    l->stage = t->division <= STAGE3 ? (int)t->division : 3;
    l->accum = t->micro;
    if (t->quantised) {
        l->weight_records = ZR_I8X128;
        l->grad_records = ZR_I4X128;
    }
    if (t->division == LINKS && l->host_ranks == 0) return false;
    if (t->division == TENSOR && (ranks % 2 != 0 || t->heads % 2 != 0)) return false;
    if (t->division == TENSOR) {
        l->tensor = 2;
        l->ranks = ranks / 2;
    }
    const int shard = comm->local_size < ranks ? comm->local_size : ranks / 2;
    const bool divides = shard > 1 && ranks % shard == 0 && (shard & (shard - 1)) == 0;
    if (t->division == GROUPS && divides) l->shard_ranks = shard;
    l->hierarchical = l->host_ranks > 0 && l->tensor == 1 && divides && !t->flat;
    return true;
}

/* Record the variation of the durations of exchanges that move bytes, as measured by this rank. Long exchanges have a
 * high weight. */
static void keep_spread(measuring *m, const runner *r)
{
    for (int32_t i = 0; i < r->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++) {
        const zr_step_sample sample = zr__step_sample_of(r->plan, ZR_SCHEDULE_TRAIN, i);
        const int64_t n = r->runs[i].n;
        double sum = 0;
        if (sample.ranks < 2 || sample.cost.wire_bytes == 0 || n < 2) continue;
        for (int64_t k = 0; k < n; k++) sum += r->runs[i].sec[k];
        const double mean = sum / (double)n;
        for (int64_t k = 0; k < n; k++) m->squares += pow(r->runs[i].sec[k] - mean, 2);
        m->exchanges += (double)(n - 1) * mean * mean;
    }
}

/* Add up the bytes and seconds of exchanges between hosts, as measured by this rank. Their ratio is the sustained rate
 * of the links, since the exchanges are back to back. */
static void keep_rate(measuring *m, const runner *r)
{
    const zr_schedule *s = &r->plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++) {
        const int64_t bytes = (int64_t)zr__plan_step_cost(r->plan, ZR_SCHEDULE_TRAIN, i).wire_bytes,
                      across = zr__plan_across(r->plan, s->step[i].group, ZR_BORDER_HOST, 0, bytes);
        for (int64_t k = 0; k < r->runs[i].n && across > 0; k++) {
            m->bytes += (double)across;
            m->sec += r->runs[i].sec[k];
        }
    }
}

/* Measure a model on a transport whose exchanges can overlap with compute. r[0] runs without overlap and provides the
 * samples. r[1] runs with overlap. */
static zr_status measure_beside(measuring *m, division divided, runner r[2])
{
    zr_timings alone, both;
    ZR_TRY(run_steps(m, r, 2));
    ZR_TRY(keep_model(m, &r[0]));
    ZR_TRY(zr__timings_collect(r[0].timings, m->comm, &alone));
    ZR_TRY(zr__timings_collect(r[1].timings, m->comm, &both));
    /* Leave out LINKS, whose exchanges take longer with overlap only because the links then stay busy. */
    if (divided == LINKS) return ZR_OK;
    /* How much compute and exchanges slow each other down when they overlap. The weight of a model is low if it has
     * little overlap. It is also low if its times are long, since errors are assumed to grow with the time. */
    const double both_sec = both.comm_sec - both.exposed_sec;
    slope_add(&m->lost, both_sec, both.compute_sec - alone.compute_sec, alone.compute_sec);
    slope_add(&m->late, both_sec, both.comm_sec - alone.comm_sec, alone.comm_sec);
    keep_spread(m, &r[1]);
    return ZR_OK;
}

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
    ZR_AUTO(close_runners) runner r[2] = {{.n = 0}};
    zr_layout layout;
    if (!layout_of(t, m->comm, dtype, &layout)) return ZR_OK;
    layout.overlap = !beside;
    ZR_TRY(open_runner(m, &model, &layout, beside, &r[0]));
    if (beside) {
        layout.overlap = true;
        ZR_TRY(open_runner(m, &model, &layout, true, &r[1]));
        ZR_TRY(measure_beside(m, t->division, r));
    } else {
        ZR_TRY(run_steps(m, r, 1));
        ZR_TRY(keep_model(m, r));
    }
    if (t->division == LINKS) keep_rate(m, &r[beside]);
    return ZR_OK;
}

/* Count the hosts. All ranks get the same number. Fail with ZR_ERR_UNSUPPORTED unless each host has equally many ranks
 * with consecutive numbers, because plans assume this placement. */
static zr_status count_hosts(zr_comm *comm, int32_t *hosts)
{
    const double local[2] = {comm->local_size, comm->local_rank};
    bool alike = true;
    ZR_TRY(zr_comm_scalars(comm, local, 2, NULL));
    const int each = (int)comm->table[0];
    for (int r = 0; r < comm->size; r++)
        alike = alike && comm->table[2 * r] == each && comm->table[2 * r + 1] == r % each;
    ZR_CHECK(alike && comm->size % each == 0, ZR_ERR_UNSUPPORTED,
             "the ranks of a host are not neighbours, or hosts have different numbers of ranks: start the same number "
             "on each, one host after the other (mpirun -N)");
    *hosts = comm->size / each;
    return ZR_OK;
}

/* Replace the number at `offset` in the zr_launch of the first pass by its median over all passes. */
static void combine_number(zr_launch *pass, int passes, size_t offset)
{
    double x[PASSES];
    for (int p = 0; p < passes; p++) memcpy(&x[p], (const char *)&pass[p] + offset, sizeof(double));
    x[0] = median(x, passes);
    memcpy((char *)&pass[0] + offset, x, sizeof(double));
}

/* Combine the passes into `launch` by medians. All passes have samples of the same steps. */
static void combine(zr_launch *pass, int passes, zr_launch *launch)
{
    double x[PASSES];
    for (int i = 0; i < ZR__LAUNCH_NUMBERS; i++) combine_number(pass, passes, zr__launch_numbers[i].at);
    for (int32_t i = 0; i < pass->n_waits; i++) {
        combine_number(pass, passes, offsetof(zr_launch, wait[i].computed_sec));
        combine_number(pass, passes, offsetof(zr_launch, wait[i].share));
    }
    for (int32_t i = 0; i < pass->n_samples; i++) {
        for (int p = 0; p < passes; p++) x[p] = pass[p].sample[i].sec;
        pass->sample[i].sec = median(x, passes);
    }
    *launch = *pass;
    *pass = (zr_launch){.ranks = 0}; /* the samples belong to `launch` now */
}

static zr_status measure_pass(zr_comm *comm, zr_device *device, int32_t hosts, bool quick, zr_launch *launch)
{
    *launch = (zr_launch){.ranks = comm->size,
                          .hosts = hosts,
                          .threads = device->profile.facts.threads,
                          .cores = zr__host_cores(),
                          .beside = comm->concurrent};
    snprintf(launch->transport, sizeof(launch->transport), "%s", comm->size == 1 ? "threads" : comm->transport);
    measuring m = {.comm = comm, .device = device, .quick = quick, .launch = launch};
    for (int dtype = 0; dtype < 2; dtype++)
        for (int t = 0; t < TRIALS; t++)
            if (!quick || trials[t].width <= QUICK_WIDTH || trials[t].division == LINKS)
                ZR_TRY(measure_model(&m, &trials[t], dtype ? ZR_BF16 : ZR_F32));
    launch->around_sec = m.around_sec / m.n_around;
    const double lost = fmin(slope_of(&m.lost), MOST_LOST), late = fmin(slope_of(&m.late), MOST_LOST),
                 most = fmax(lost + late, 1); /* ensures that a step is no slower with overlap than without */
    launch->lost = lost / most;
    launch->late = late / most;
    const double own[2] = {m.exchanges > 0 ? sqrt(m.squares / m.exchanges) : 0, m.sec > 0 ? m.bytes / m.sec : 0};
    double mean[2];
    ZR_TRY(zr__over_ranks(comm, own, 2, mean, NULL, NULL));
    launch->spread = mean[0];
    launch->across_bytes_sec = mean[1];
    return ZR_OK;
}

zr_status zr__launch_measure(zr_comm *comm, zr_device *device, bool quick, zr_launch *launch)
{
    const int passes = quick ? 1 : PASSES;
    zr_launch pass[PASSES] = {{.ranks = 0}};
    int32_t hosts = 0;
    zr_status st = count_hosts(comm, &hosts);
    for (int p = 0; p < passes && st == ZR_OK; p++) st = measure_pass(comm, device, hosts, quick, &pass[p]);
    if (st == ZR_OK) combine(pass, passes, launch);
    for (int p = 0; p < passes; p++) zr__launch_clear(&pass[p]);
    return st;
}
