/* A training run of a small model, by default GPT-2, on thread ranks, for the engine tests to vary. Every run checks
 * that planned bytes equal measured bytes. */
#ifndef TRAINER_H
#define TRAINER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zr.h>
#include "base/core/core.h"
#include "comm/comm.h"
#include "engine/engine.h"
#include "train/control/control.h"
#include "zr/comm.h"
#include "zr/device.h"
#include "zr/engine.h"
#include "zr/graph.h"
#include "zr/models.h"
#include "zr/plan.h"

#define TRAINER_STEPS 20

typedef struct trainer {
    zr_gpt2_config config;
    const zr_model *model; /* model, or NULL for GPT-2 of `config` */
    zr_batch_fn batch;     /* function that fills batches, with the trainer as argument; NULL: by `token` */
    zr_count_fn count;     /* zr_step_args.count */
    zr_layout layout;
    int steps, threads;
    bool lanes; /* whether the comm stream has its own thread, although these ranks do not need one */
    double lr, clip;
    zr__loss_scaler scaler; /* loss scaler of each rank; without a loss scale, `scale` is 0 */
    uint64_t seed;
    /* function that returns token t of row r of a step; its target is the next token; NULL: pseudo-random tokens */
    int32_t (*token)(void *arg, int64_t step, int64_t row, int64_t t);
    void *token_arg;
    zr_fill_fn fill; /* function that fills the parameters, or NULL for the model's initial values */
    void *fill_arg;
    const zr_kernel *kernels;
    /* function that creates the device, or NULL for the processor */
    zr_status (*device)(const zr_device_config *config, zr_device **device);
    void (*tune)(struct trainer *run, zr_device *device); /* changes to the device before the engine is created */
    const char *const *folder;                            /* folders for states on disk, or NULL for /tmp */
    int n_folders;
    /* function that every rank calls before the first step, when the parameters have been filled */
    zr_status (*before)(struct trainer *run, zr_engine *engine, zr_comm *comm);
    /* functions that every rank calls after the last step, and after the first step */
    zr_status (*after)(struct trainer *run, zr_engine *engine, zr_comm *comm);
    zr_status (*after_first)(struct trainer *run, zr_engine *engine, zr_comm *comm);
    void *arg;
    /* the following members are results of rank 0 */
    double loss[TRAINER_STEPS], norm[TRAINER_STEPS];
    double micro[TRAINER_STEPS]; /* zr_step_result.micro_square */
    double scale[TRAINER_STEPS];
    bool skipped[TRAINER_STEPS];
    int32_t bad_param[TRAINER_STEPS];
    int64_t counted[TRAINER_STEPS]; /* zr_step_result.counted */
    zr_term_result term[TRAINER_STEPS][ZR_LOSS_TERMS];
    zr_memory planned;
    zr_measured measured;
    zr_traffic traffic;
    uint64_t weights; /* hash over all fp32 masters, in the order of the model */
} trainer;

static inline zr_model trainer_model(const trainer *run)
{
    return run->model ? *run->model : zr_gpt2(&run->config);
}

static inline int32_t trainer_token(const trainer *run, int64_t step, int64_t row, int64_t t)
{
    if (run->token) return run->token(run->token_arg, step, row, t);
    zr_rng rng = {.seed = 7, .purpose = ZR_RNG_SHUFFLE, .stream = 99, .step = (uint32_t)step};
    return (int32_t)(zr_rng_u32(&rng, (uint64_t)(row * (run->layout.seq + 1) + t)) % (uint64_t)run->config.vocab_size);
}

static inline zr_status trainer_batch(void *arg, const zr_batch *batch, void *const *input)
{
    trainer *run = arg;
    int32_t *tokens = input[0], *targets = input[1];
    for (int64_t b = 0; b < run->layout.batch; b++)
        for (int64_t t = 0; t < run->layout.seq; t++) {
            tokens[b * run->layout.seq + t] = trainer_token(run, batch->step, batch->first_row + b, t);
            targets[b * run->layout.seq + t] = trainer_token(run, batch->step, batch->first_row + b, t + 1);
        }
    return ZR_OK;
}

/* Hash elements with their positions, so that the sum does not depend on their owners. */
static inline zr_status trainer_hash(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], 4);
        uint64_t x = ((uint64_t)(param->first + first + i) << 32 | bits) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
        sum += x ^ x >> 32;
    }
    *(uint64_t *)arg += sum;
    return ZR_OK;
}

/* ---- asynchronous saves ------------------------------------------------------------------------ */

/* The hash of the states that one rank should save, and of the states saved. */
typedef struct trainer_saving {
    uint64_t want, got;
    int64_t pause_ns; /* duration of each call of the sink */
    bool on_its_way, ended;
} trainer_saving;

static inline zr_status trainer_put(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n,
                                    const float *in)
{
    trainer_saving *s = arg;
    uint64_t sum = 0;
    nanosleep(&(struct timespec){.tv_nsec = s->pause_ns}, NULL);
    ZR_TRY(trainer_hash(&sum, param, first, n, in));
    s->got += sum * (2 * (uint64_t)state + 1);
    return ZR_OK;
}

static inline zr_status trainer_put_end(void *arg)
{
    ((trainer_saving *)arg)->ended = true;
    return ZR_OK;
}

/* Start a save of the current states during the next step, and note their hash. */
static inline zr_status trainer_save(const zr_plan *plan, zr_engine *engine, trainer_saving *s)
{
    const zr_sink sink = {trainer_put, trainer_put_end, NULL, s};
    *s = (trainer_saving){.on_its_way = true, .pause_ns = 20000};
    const zr_layout *l = &plan->layout;
    if (l->weight_differences) ZR_TRY(zr_engine_flush(engine));
    for (int state = 0; state < ZR_STATE_ERROR + ZR_ERROR_LEVELS; state++) {
        const bool slot = state >= ZR_STATE_SLOT && state < ZR_STATE_SLOT + plan->n_slots;
        if (state != ZR_STATE_PARAM && !slot && !(state == ZR_STATE_SENT && l->weight_differences) &&
            !(state >= ZR_STATE_ERROR && l->error_steps > 0))
            continue;
        uint64_t sum = 0;
        ZR_TRY(zr_engine_read(engine, state, trainer_hash, &sum));
        s->want += sum * (2 * (uint64_t)state + 1);
    }
    return zr_engine_save(engine, &sink);
}

static inline zr_status trainer_saved(zr_engine *engine, trainer_saving *s)
{
    if (!s->on_its_way) return ZR_OK;
    s->on_its_way = false;
    ZR_TRY(zr_engine_save_end(engine));
    ZR_CHECK(s->ended && zr_engine_saved(engine), ZR_ERR_INTERNAL, "what was to be saved has no end");
    ZR_CHECK(s->got == s->want, ZR_ERR_INTERNAL, "other states were saved than were there");
    return ZR_OK;
}

static inline zr_status trainer_accounts(trainer *run, const zr_plan *plan, zr_engine *engine, int rank)
{
    zr_measured m;
    zr_engine_measured(engine, &m);
    for (int c = 0; c < ZR_CATEGORIES; c++)
        ZR_CHECK(m.memory.category_bytes[c] == plan->memory.category_bytes[c], ZR_ERR_INTERNAL,
                 "%s: planned %lld, measured %lld", zr__category_name((zr_category)c),
                 (long long)plan->memory.category_bytes[c], (long long)m.memory.category_bytes[c]);
    for (int s = 0; s < ZR_SPACES; s++)
        for (int c = 0; c < ZR_CATEGORIES; c++)
            ZR_CHECK(m.memory.space[s].category_bytes[c] == plan->memory.space[s].category_bytes[c], ZR_ERR_INTERNAL,
                     "%s in space %s: planned %lld, measured %lld", zr__category_name((zr_category)c),
                     zr_space_name((zr_space)s), (long long)plan->memory.space[s].category_bytes[c],
                     (long long)m.memory.space[s].category_bytes[c]);
    ZR_CHECK(m.memory.states_bytes == plan->memory.states_bytes && m.memory.total_bytes == plan->memory.total_bytes,
             ZR_ERR_INTERNAL, "states or total: planned %lld and %lld, measured %lld and %lld",
             (long long)plan->memory.states_bytes, (long long)plan->memory.total_bytes,
             (long long)m.memory.states_bytes, (long long)m.memory.total_bytes);
    for (int s = 0; s < ZR_SPACES; s++)
        ZR_CHECK(s == ZR_SPACE_STAGING || m.memory.space[s].total_bytes == plan->memory.space[s].total_bytes,
                 ZR_ERR_INTERNAL, "space %s: planned %lld, measured %lld", zr_space_name((zr_space)s),
                 (long long)plan->memory.space[s].total_bytes, (long long)m.memory.space[s].total_bytes);
    for (int i = 0; i < ZR_SPACES * ZR_SPACES; i++) {
        const int from = i / ZR_SPACES, to = i % ZR_SPACES;
        ZR_CHECK(m.copied[from][to] == plan->copied[from][to] * m.steps, ZR_ERR_INTERNAL,
                 "copies from %s to %s: planned %lld a step, measured %lld in %lld", zr_space_name((zr_space)from),
                 zr_space_name((zr_space)to), (long long)plan->copied[from][to], (long long)m.copied[from][to],
                 (long long)m.steps);
    }
    for (int k = 0; k < ZR_TRAFFIC_KINDS; k++)
        ZR_CHECK(m.traffic.bytes[k] == plan->traffic.bytes[k] * m.steps, ZR_ERR_INTERNAL,
                 "traffic %d: planned %lld a step, measured %lld in %lld", k, (long long)plan->traffic.bytes[k],
                 (long long)m.traffic.bytes[k], (long long)m.steps);
    if (rank != 0) return ZR_OK;
    run->planned = plan->memory;
    run->traffic = plan->traffic;
    run->measured = m;
    return ZR_OK;
}

static inline zr_status trainer_steps(trainer *run, const zr_plan *plan, zr_engine *engine, zr_comm *comm)
{
    zr__loss_scaler scaler = run->scaler;
    trainer_saving saving = {0};
    for (int i = 0; i < run->steps; i++) {
        if (i % 2 && plan->save != ZR_SAVE_NONE) ZR_TRY(trainer_save(plan, engine, &saving));
        uint64_t bits;
        memcpy(&bits, &scaler.scale, sizeof bits);
        ZR_TRY(zr__comm_same(comm, "the loss scale", bits));
        zr_step_args args = {.step = i,
                             .lr = run->lr,
                             .clip = run->clip,
                             .loss_scale = scaler.scale,
                             .batch = run->batch ? run->batch : trainer_batch,
                             .arg = run,
                             .count = run->count};
        zr_step_result result;
        zr_status st = zr_engine_step(engine, &args, &result);
        if (comm->rank == 0 && st == ZR_ERR_DIVERGED) run->skipped[i] = result.skipped;
        ZR_TRY(st);
        if (comm->rank == 0) {
            run->scale[i] = scaler.scale;
            run->loss[i] = result.loss;
            run->norm[i] = result.grad_norm;
            run->micro[i] = result.micro_square;
            run->skipped[i] = result.skipped;
            run->bad_param[i] = result.bad_param;
            run->counted[i] = result.counted;
            memcpy(run->term[i], result.term, sizeof result.term);
        }
        if (scaler.scale > 0) zr__loss_scaler_update(&scaler, result.skipped);
        if (i == 0 && run->after_first) ZR_TRY(run->after_first(run, engine, comm));
        if (i % 2 == 0 || plan->save == ZR_SAVE_IN_PLACE) ZR_TRY(trainer_saved(engine, &saving));
    }
    ZR_TRY(trainer_saved(engine, &saving));
    ZR_TRY(zr_engine_flush(engine));
    if (run->after) ZR_TRY(run->after(run, engine, comm));
    uint64_t hash = 0, total = 0;
    zr_comm_board before = {0}, after = {0};
    zr__comm_look(comm, comm->rank, &before);
    ZR_TRY(zr_engine_read(engine, ZR_STATE_PARAM, trainer_hash, &hash));
    zr__comm_look(comm, comm->rank, &after);
    ZR_CHECK(comm->rank > 0 || after.shown[ZR_ENGINE_MOVED] > before.shown[ZR_ENGINE_MOVED], ZR_ERR_INTERNAL,
             "a state was read, and the board does not show that anything moved");
    double part[4], *all = malloc(sizeof part * (size_t)comm->size);
    for (int k = 0; k < 4; k++) part[k] = (double)(hash >> 16 * k & 0xffff);
    zr_status st = zr_comm_scalars(comm, part, 4, all);
    for (int r = 0; r < comm->size; r++)
        for (int k = 0; k < 4; k++) total += (uint64_t)all[4 * r + k] << 16 * k;
    free(all);
    ZR_TRY(st);
    if (comm->rank == 0) run->weights = total;
    return run->steps > 0 ? trainer_accounts(run, plan, engine, comm->rank) : ZR_OK;
}

static inline zr_status trainer_engine(const trainer *run, const zr_plan *plan, zr_device *device, zr_comm *comm,
                                       zr_engine **engine)
{
    static const char *const here[] = {"/tmp"};
    return zr_engine_create_on(plan, device, comm, run->seed, run->folder ? run->folder : here,
                               run->folder ? run->n_folders : 1, engine);
}

static inline zr_status trainer_rank(zr_comm *comm, void *arg)
{
    trainer *run = arg;
    zr_model model = trainer_model(run);
    zr_device_config wanted = {run->threads ? run->threads : 1, run->kernels, comm->rank % 2};
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_AUTO(zr_plan_destroy) zr_plan *plan = NULL;
    ZR_AUTO(zr_engine_destroy) zr_engine *engine = NULL;
    ZR_TRY((run->device ? run->device : zr_device_create_cpu)(&wanted, &device));
    if (run->tune) run->tune(run, device);
    comm->concurrent = run->lanes;
    zr_layout layout = run->layout;
    layout.role = comm->rank / (layout.ranks * layout.tensor) % layout.pipeline; /* the pipeline is the slowest axis */
    ZR_TRY(zr_plan_create(&model, &layout, &device->profile, &plan));
    /* the plan is the same on all ranks of a role */
    if (comm->rank % (layout.ranks * layout.tensor) == 0) ZR_TRY(zr_plan_check(plan));
    ZR_TRY(trainer_engine(run, plan, device, comm, &engine));
    ZR_TRY(zr_engine_fill(engine, ZR_STATE_PARAM, run->fill, run->fill_arg));
    if (run->before) ZR_TRY(run->before(run, engine, comm));
    return trainer_steps(run, plan, engine, comm);
}

/* Return a trainer of one step of a small model in buckets that hold almost nothing. */
static inline trainer trainer_small(const zr_model *model, int64_t batch, int64_t seq)
{
    trainer run = {.model = model, .layout = zr_layout_default(), .steps = 1, .lr = 1e-2, .clip = 1.0, .seed = 3};
    run.layout.batch = batch;
    run.layout.seq = seq;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 100;
    run.layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return run;
}

/* Run on thread ranks, the number the layout needs. */
static inline void trainer_run(trainer *run)
{
    const zr_layout *l = &run->layout;
    zr_status st = zr_comm_threads_run(l->ranks * l->tensor * l->pipeline, trainer_rank, run);
    if (st != ZR_OK)
        fail_msg("stage %d, %d ranks, %lld micro-batches: %s\n%s", run->layout.stage, run->layout.ranks,
                 (long long)run->layout.accum, zr_error_message(), zr_error_trace());
}

/* Return a trainer with sizes without common divisors: width 57, 3 heads, 131 tokens. */
static inline trainer trainer_odd(void)
{
    trainer run = {.config = {.n_layer = 2,
                              .n_head = 3,
                              .n_embd = 57,
                              .n_positions = 17,
                              .vocab_size = 131,
                              .layer_norm_epsilon = 1e-5,
                              .initializer_range = 0.02},
                   .layout = zr_layout_default(),
                   .steps = 4,
                   .lr = 1e-2,
                   .clip = 1.0,
                   .seed = 5};
    run.layout.batch = 2;
    run.layout.seq = 17;
    run.layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return run;
}

#endif
