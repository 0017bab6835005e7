/*
 * Times training steps of several layouts of one model in turn, in one process on thread ranks, so that changes in the
 * machine's load affect all layouts alike. The results are medians over rounds.
 */
#ifndef STEP_TIMER_H
#define STEP_TIMER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zr.h>

#include "base/core/scope.h"
#include "zr/comm.h"
#include "zr/device.h"
#include "zr/engine.h"
#include "zr/graph.h"
#include "zr/models.h"
#include "zr/plan.h"

enum { TIMER_VARIANTS = 16, TIMER_ROUNDS = 9 };

typedef struct timer_variant {
    const char *name;
    zr_layout layout;
    /* results */
    zr_memory memory;
    zr_traffic traffic;
    double flops_ratio;                            /* hardware FLOPs divided by model FLOPs */
    double sec[TIMER_ROUNDS], ratio[TIMER_ROUNDS]; /* ratio: time relative to the first variant in the same round */
} timer_variant;

typedef struct timer {
    zr_gpt2_config model;
    int ranks, threads; /* threads: number per rank */
    int steps;          /* number of training steps in a round */
    timer_variant variant[TIMER_VARIANTS];
    int n;
} timer;

static inline zr_status timer_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const timer *t = arg;
    const zr_layout *l = &t->variant[0].layout;
    zr_rng rng = {.seed = 3, .purpose = ZR_RNG_SHUFFLE, .step = (uint32_t)batch->step};
    for (int i = 0; i < 2; i++)
        for (int64_t at = 0; at < l->batch * l->seq; at++)
            ((int32_t *)input[i])[at] =
                (int32_t)(zr_rng_u32(&rng, (uint64_t)(batch->first_row * l->seq + at)) % (uint64_t)t->model.vocab_size);
    return ZR_OK;
}

static inline zr_status timer_steps(timer *t, zr_engine *engine, zr_comm *comm, int64_t first, double *sec)
{
    ZR_TRY(zr_comm_barrier(comm));
    double begin = zr_clock_sec();
    for (int s = 0; s < t->steps; s++) {
        zr_step_args args = {.step = first + s, .lr = 1e-4, .batch = timer_batch, .arg = t};
        zr_step_result result;
        ZR_TRY(zr_engine_step(engine, &args, &result));
    }
    ZR_TRY(zr_engine_flush(engine));
    ZR_TRY(zr_comm_barrier(comm));
    *sec = (zr_clock_sec() - begin) / t->steps;
    return ZR_OK;
}

static inline zr_status timer_rounds(timer *t, zr_engine **engine, zr_comm *comm)
{
    for (int round = -1; round < TIMER_ROUNDS; round++) /* round -1 is the warm-up */
        for (int v = 0; v < t->n; v++) {
            double sec = 0;
            ZR_TRY(timer_steps(t, engine[v], comm, (round + 1) * t->steps, &sec));
            if (comm->rank != 0 || round < 0) continue;
            t->variant[v].sec[round] = sec;
            t->variant[v].ratio[round] = sec / t->variant[0].sec[round];
        }
    return ZR_OK;
}

static inline void timer_plans_destroy(zr_plan *(*plan)[TIMER_VARIANTS])
{
    for (int v = 0; v < TIMER_VARIANTS; v++) zr_plan_destroy(&(*plan)[v]);
}

static inline void timer_engines_destroy(zr_engine *(*engine)[TIMER_VARIANTS])
{
    for (int v = 0; v < TIMER_VARIANTS; v++) zr_engine_destroy(&(*engine)[v]);
}

static inline zr_status timer_rank(zr_comm *comm, void *arg)
{
    timer *t = arg;
    zr_device_config wanted = {.threads = t->threads};
    ZR_AUTO(zr_device_destroy) zr_device *device = NULL;
    ZR_AUTO(timer_plans_destroy) zr_plan *plan[TIMER_VARIANTS] = {0};
    ZR_AUTO(timer_engines_destroy) zr_engine *engine[TIMER_VARIANTS] = {0};
    zr_model model = zr_gpt2(&t->model);
    ZR_TRY(zr_device_create_cpu(&wanted, &device));
    for (int v = 0; v < t->n; v++) {
        ZR_TRY(zr_plan_create(&model, &t->variant[v].layout, &device->profile, &plan[v]));
        ZR_TRY(zr_engine_create(plan[v], device, comm, 1, &engine[v]));
        ZR_TRY(zr_engine_fill(engine[v], ZR_STATE_PARAM, NULL, NULL));
        if (comm->rank != 0) continue;
        t->variant[v].memory = plan[v]->memory;
        t->variant[v].traffic = plan[v]->traffic;
        t->variant[v].flops_ratio = plan[v]->flops_hardware / plan[v]->flops_model;
    }
    return timer_rounds(t, engine, comm);
}

static inline int timer_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double timer_median(const double *x)
{
    double sorted[TIMER_ROUNDS];
    memcpy(sorted, x, sizeof sorted);
    qsort(sorted, TIMER_ROUNDS, sizeof *sorted, timer_compare);
    return sorted[TIMER_ROUNDS / 2];
}

static inline zr_layout timer_layout(int ranks, int stage)
{
    zr_layout l = zr_layout_default();
    l.ranks = ranks;
    l.stage = stage;
    l.eval = false;
    l.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return l;
}

static inline void timer_add(timer *t, const char *name, zr_layout layout)
{
    t->variant[t->n++] = (timer_variant){.name = name, .layout = layout};
}

#endif
