/* The expected results of a step of a trainer's model: the whole batch on one rank, computed by the double-precision
 * interpreter. */
#ifndef ENGINE_TRUTH_H
#define ENGINE_TRUTH_H

#include "graph/graph_interp.h"
#include "trainer.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/graph.h"
#include "zr/models.h"

typedef struct truth {
    zr_graph *graph; /* the graph for the whole batch */
    interp it;
    int64_t counted[ZR_LOSS_TERMS]; /* numbers of losses that count */
    double loss, norm, term[ZR_LOSS_TERMS];
    float *got; /* an engine's gradients, in the order of the model */
} truth;

/* Set the interpreter's weights to the trainer's values, or to the model's initial values. */
static inline void truth_weights(truth *t, const trainer *run)
{
    zr_rng rng = {.seed = run->seed, .purpose = ZR_RNG_INIT};
    for (int32_t p = 0; p < zr_graph_params(t->graph); p++) {
        const zr_param_info *param = zr_graph_param(t->graph, p);
        int64_t n = zr_shape_elems(&param->shape);
        if (run->fill) {
            assert_int_equal(run->fill(run->fill_arg, param, 0, n, t->got), ZR_OK);
            for (int64_t i = 0; i < n; i++) t->it.data[param->value][i] = t->got[i];
            continue;
        }
        zr_rng_normal(&rng, (uint64_t)param->first, n, t->got);
        for (int64_t i = 0; i < n; i++)
            t->it.data[param->value][i] = param->init.kind == ZR_INIT_NORMAL ? t->got[i] * (float)param->init.std
                                                                             : param->init.kind == ZR_INIT_ONE;
    }
}

/* Fill the inputs from the step's first row on, as the trainer's callback does. */
static inline void truth_inputs(truth *t, const trainer *run, int64_t rows)
{
    trainer all = *run;
    all.layout.batch = rows;
    int32_t n = zr_graph_inputs(t->graph);
    void *input[8];
    assert_true(n <= 8);
    for (int32_t i = 0; i < n; i++) input[i] = calloc((size_t)interp_elems(&t->it, zr_graph_input(t->graph, i)), 4);
    for (int k = 0; k < zr_graph_loss_terms(t->graph); k++)
        t->counted[k] = interp_elems(&t->it, zr_graph_get_loss_term(t->graph, k));
    zr_batch batch = {.counted = t->counted};
    assert_int_equal((run->batch ? run->batch : trainer_batch)(&all, &batch, input), ZR_OK);
    for (int32_t i = 0; i < n; i++) {
        zr_value value = zr_graph_input(t->graph, i);
        bool ids = zr_graph_value(t->graph, value)->type.dtype == ZR_I32;
        for (int64_t k = 0; k < interp_elems(&t->it, value); k++)
            t->it.data[value][k] = ids ? ((int32_t *)input[i])[k] : (double)((float *)input[i])[k];
        free(input[i]);
    }
}

static inline truth truth_make(const trainer *run, int64_t rows)
{
    truth t = {0};
    zr_model model = trainer_model(run);
    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN,
                          .batch = rows,
                          .seq = run->layout.seq,
                          .documents = run->layout.documents,
                          .predictions = run->layout.predictions,
                          .samples = run->layout.samples};
    assert_int_equal(zr_graph_create(&spec, &t.graph), ZR_OK);
    zr_model_build(&model, t.graph);
    if (zr_graph_finish(t.graph) != ZR_OK) fail_msg("%s: %s", model.name, zr_error_message());
    t.got = calloc((size_t)zr_graph_param_elems(t.graph), sizeof *t.got);
    t.it = interp_create(t.graph, NULL);
    t.it.seed = run->seed;
    truth_weights(&t, run);
    truth_inputs(&t, run, rows);
    t.it.counted = t.counted;
    assert_true(interp_run(&t.it));
    for (int k = 0; k < zr_graph_loss_terms(t.graph); k++) {
        const zr_value losses = zr_graph_get_loss_term(t.graph, k);
        for (int64_t i = 0; i < interp_elems(&t.it, losses) && t.counted[k] > 0; i++)
            t.term[k] += t.it.data[losses][i] / (double)t.counted[k];
        t.loss += t.term[k];
    }
    for (int32_t p = 0; p < zr_graph_params(t.graph); p++) {
        const zr_param_info *param = zr_graph_param(t.graph, p);
        for (int64_t i = 0; param->grad != ZR_NONE && i < zr_shape_elems(&param->shape); i++)
            t.norm += pow(t.it.data[param->grad][i], 2);
    }
    t.norm = sqrt(t.norm);
    return t;
}

static inline void truth_free(truth *t)
{
    interp_destroy(&t->it);
    zr_graph_destroy(&t->graph);
    free(t->got);
}

static inline zr_status truth_keep(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    memcpy(((truth *)arg)->got + param->first + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static inline zr_status truth_keep_gradients(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_GRAD, truth_keep, run->arg);
}

/* Run the trainer and check its first step against the expected results. */
static inline void truth_check(truth *t, trainer *run)
{
    run->after_first = truth_keep_gradients;
    run->arg = t;
    memset(t->got, 0xff, sizeof *t->got * (size_t)zr_graph_param_elems(t->graph));
    trainer_run(run);
    assert_float_equal(run->loss[0], t->loss, 2e-6 * t->loss);
    assert_float_equal(run->norm[0], t->norm, 1e-5 * t->norm);
    for (int k = 0; k < zr_graph_loss_terms(t->graph); k++) {
        assert_float_equal(run->term[0][k].loss, t->term[k], 2e-6 * t->loss);
        assert_int_equal(run->term[0][k].counted, t->counted[k]);
    }
    for (int32_t p = 0; p < zr_graph_params(t->graph); p++) {
        const zr_param_info *param = zr_graph_param(t->graph, p);
        if (param->frozen) continue; /* it has no gradient */
        const double *want = param->grad == ZR_NONE ? NULL : t->it.data[param->grad];
        double largest = 0, worst = 0;
        for (int64_t i = 0; i < zr_shape_elems(&param->shape); i++) {
            double error = fabs((want ? want[i] : 0) - t->got[param->first + i]);
            largest = fmax(largest, want ? fabs(want[i]) : 0);
            if (!(error <= worst)) worst = error;
        }
        if (!(worst <= 2e-5 * largest))
            fail_msg("%s, stage %d, %d ranks: gradient of %s off by %g of %g", trainer_model(run).name,
                     run->layout.stage, run->layout.ranks, param->name, worst, largest);
    }
}

typedef struct truth_cut {
    int ranks, accum, batch; /* batch: rows of one micro-batch of one rank */
} truth_cut;

/* Check a run's first step with the same batch split in each of n ways, at every stage. */
static inline void truth_check_cuts(trainer *run, const truth_cut *cut, size_t n)
{
    int64_t rows = (int64_t)cut[0].ranks * cut[0].accum * cut[0].batch;
    truth t = truth_make(run, rows);
    for (size_t c = 0; c < n; c++)
        for (int stage = 0; stage <= 3; stage++) {
            assert_int_equal((int64_t)cut[c].ranks * cut[c].accum * cut[c].batch, rows);
            run->layout.ranks = cut[c].ranks;
            run->layout.accum = cut[c].accum;
            run->layout.batch = cut[c].batch;
            run->layout.stage = stage;
            run->layout.prefetch_elems = c & 1;
            truth_check(&t, run);
        }
    truth_free(&t);
}

#endif
