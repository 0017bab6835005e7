/* A trace that PyTorch or transformers computed in float64, and the checks of a trainer's run against it: losses,
 * norms, gradients of the first step, and final weights. */
#ifndef GOLDEN_TRACE_H
#define GOLDEN_TRACE_H

#include "support/golden.h"
#include "support/long.h"
#include "engine/trainer.h"

#include <math.h>
#include <zr/checkpoint.h>

enum { GOLDEN_LONGEST = 64 * 1024, GOLDEN_MOST_PARAMS = 160 };

static struct {
    const char *dir;
    zr_model model;
    int64_t batch, T;             /* rows of a step, and tokens of a row */
    int64_t predictions, samples; /* zr_layout.predictions and samples; 0 for decoders */
    bool documents;               /* zr_layout.documents of a decoder; encoders always have documents */
    double loss[GOLDEN_STEPS], norm[GOLDEN_STEPS];
    uint16_t token[GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_MOST_SEQ + 1];
    zr_safetensors *weights, *grads, *last, *logits;
    zr_batch_fn fill; /* callbacks of the inputs; NULL for tokens and targets */
    zr_count_fn count;
    /* whether an element's exact gradient is 0, so that Adam amplifies the noise of its computed gradient; may be NULL
     */
    bool (*noise)(const char *param, int64_t i, int64_t n);
    bool (*vanishes)(const char *param); /* whether the exact gradient of a parameter is 0; may be NULL */
    /* number of elements of a tensor, besides 1 %, that Adam may move by more than 1e-5 from the wanted value, because
     * their gradient is almost 0 */
    int64_t outliers;
} golden;

/* Open a file of the trace. *file stays NULL for a file that the trace does not have. */
static inline void golden_open_file(const char *name, zr_safetensors **file)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", golden.dir, name);
    *file = NULL;
    if (access(path, F_OK) != 0) return;
    if (zr_safetensors_open(path, file) != ZR_OK) fail_msg("%s", zr_error_message());
}

/* Open the tensors and numbers of a trace. The caller sets golden.model and golden.noise. */
static inline void golden_open_tensors(const char *dir)
{
    golden.dir = dir;
    golden.batch = GOLDEN_BATCH;
    golden.T = golden_numbers(dir, golden.loss, golden.norm);
    golden_open_file("model/model.safetensors", &golden.weights);
    assert_non_null(golden.weights);
    golden_open_file("grads_step1.safetensors", &golden.grads);
    golden_open_file("weights_step10.safetensors", &golden.last);
    golden_open_file("logits_step1.safetensors", &golden.logits);
}

/* Open a trace of a decoder, with its tokens. */
static inline void golden_open(const char *dir)
{
    golden_open_tensors(dir);
    char path[5000];
    snprintf(path, sizeof path, "%s/tokens.bin", dir);
    size_t tokens = (size_t)(GOLDEN_STEPS * GOLDEN_BATCH * golden.T + 1);
    FILE *f = fopen(path, "rb");
    if (!f || fread(golden.token, 2, tokens, f) != tokens) fail_msg("%s is short", path);
    fclose(f);
}

static inline void golden_close(void)
{
    zr_safetensors_close(&golden.weights);
    zr_safetensors_close(&golden.grads);
    zr_safetensors_close(&golden.last);
    zr_safetensors_close(&golden.logits);
}

static inline int32_t golden_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    return golden.token[(step * GOLDEN_BATCH + row) * golden.T + t];
}

static inline zr_status golden_fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    (void)arg;
    const zr_safetensors_tensor *tensor = zr_safetensors_find(golden.weights, param->name);
    ZR_CHECK(tensor, ZR_ERR_DATA, "no %s", param->name);
    return zr_safetensors_read_f32(golden.weights, tensor, first, n, out);
}

/* Differences of whole tensors, gathered over ranks: each rank writes the elements it owns. */
typedef struct golden_tensors {
    float value[GOLDEN_MOST_PARAMS][GOLDEN_LONGEST];
    int64_t seen[GOLDEN_MOST_PARAMS];
} golden_tensors;

static golden_tensors golden_gradients, golden_weights;
static float golden_one[GOLDEN_LONGEST];

/* Return a parameter's number, which is the same in every graph. */
static inline int64_t golden_number(const zr_param_info *param)
{
    return zr_safetensors_find(golden.weights, param->name) - zr_safetensors_get(golden.weights, 0);
}

static inline zr_status golden_collect(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    golden_tensors *d = arg;
    const int64_t index = golden_number(param);
    memcpy(d->value[index] + first, in, sizeof(float) * (size_t)n);
    __atomic_add_fetch(&d->seen[index], n, __ATOMIC_RELAXED);
    return ZR_OK;
}

static inline zr_status golden_read_gradients(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_GRAD, golden_collect, &golden_gradients);
}

static inline zr_status golden_read_weights(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, golden_collect, &golden_weights);
}

static inline const float *golden_whole(const golden_tensors *d, const zr_param_info *param)
{
    assert_int_equal(d->seen[golden_number(param)], zr_shape_elems(&param->whole));
    return d->value[golden_number(param)];
}

/* Read a tensor from a file other than the weights into golden_one. */
static inline void golden_read(const zr_safetensors *file, const zr_param_info *param)
{
    const zr_safetensors_tensor *tensor = zr_safetensors_find(file, param->name);
    if (!tensor) fail_msg("no %s", param->name);
    assert_int_equal(zr_safetensors_read_f32(file, tensor, 0, zr_shape_elems(&param->whole), golden_one), ZR_OK);
}

static inline void golden_check_gradient(const zr_param_info *param)
{
    const float *got = golden_whole(&golden_gradients, param), *want = golden_one;
    golden_read(golden.grads, param);
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < zr_shape_elems(&param->whole); i++) {
        largest = fmax(largest, fabs(want[i]));
        worst = fmax(worst, fabs((double)want[i] - got[i]));
    }
    const bool vanishes = golden.vanishes && golden.vanishes(param->name);
    if (!(worst <= (vanishes ? 1e-6 : 1e-4 * largest)))
        fail_msg("gradient of %s: off by %g, largest %g", param->name, worst, largest);
}

static inline void golden_check_weight(const zr_param_info *param)
{
    const int64_t n = zr_shape_elems(&param->whole);
    int64_t near = 0, counted = 0;
    const float *got = golden_whole(&golden_weights, param), *want = golden_one;
    golden_read(golden.last, param);
    for (int64_t i = 0; i < n; i++) {
        if (golden.noise && golden.noise(param->name, i, n)) continue;
        double off = fabs((double)want[i] - got[i]);
        counted++;
        near += off <= 1e-5;
        if (!(off <= 1e-3)) fail_msg("%s[%lld] is off by %g after 10 updates", param->name, (long long)i, off);
    }
    if ((counted - near) * 100 > counted + 100 * golden.outliers)
        fail_msg("%s: only %lld of %lld elements within 1e-5", param->name, (long long)near, (long long)counted);
}

/* Return a trainer of the trace's ten steps. */
static inline trainer golden_trainer(int stage, int ranks, int64_t accum)
{
    trainer run = {.model = &golden.model,
                   .layout = zr_layout_default(),
                   .steps = GOLDEN_STEPS,
                   .lr = 1e-3,
                   .clip = 1.0,
                   .token = golden_token,
                   .batch = golden.fill,
                   .count = golden.count,
                   .fill = golden_fill,
                   .after_first = golden_read_gradients,
                   .after = golden_read_weights};
    run.layout.stage = stage;
    run.layout.ranks = ranks;
    run.layout.accum = accum;
    run.layout.batch = golden.batch / (ranks * accum);
    run.layout.seq = golden.T;
    run.layout.documents = golden.documents || golden.samples > 0;
    run.layout.predictions = golden.predictions;
    run.layout.samples = golden.samples;
    run.layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return run;
}

/* Build the training graph of the whole batch. */
static inline zr_graph *golden_graph(void)
{
    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN,
                          .batch = golden.batch,
                          .seq = golden.T,
                          .documents = golden.documents || golden.samples > 0,
                          .predictions = golden.predictions,
                          .samples = golden.samples};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    golden.model.build(g, golden.model.config);
    if (zr_graph_finish(g) != ZR_OK) fail_msg("%s", zr_error_message());
    return g;
}

/* Run the trainer, and check its results. g is the graph of golden_graph. */
static inline void golden_check(trainer *run, const zr_graph *g)
{
    const zr_layout *l = &run->layout;
    memset(golden_gradients.seen, 0, sizeof golden_gradients.seen);
    memset(golden_weights.seen, 0, sizeof golden_weights.seen);
    trainer_run(run);
    for (int i = 0; i < GOLDEN_STEPS; i++) {
        double loss = golden.loss[i], norm = golden.norm[i];
        if (!(fabs(run->loss[i] - loss) <= 2e-5 * loss))
            fail_msg("%s: stage %d, %d x %d ranks, step %d: loss %.9g, wanted %.9g", golden.dir, l->stage, l->ranks,
                     (int)l->tensor, i, run->loss[i], loss);
        if (!(fabs(run->norm[i] - norm) <= 1e-4 * norm))
            fail_msg("%s: stage %d, %d x %d ranks, step %d: norm %.9g, wanted %.9g", golden.dir, l->stage, l->ranks,
                     (int)l->tensor, i, run->norm[i], norm);
    }
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        if (golden.grads) golden_check_gradient(zr_graph_param(g, p));
        if (golden.last) golden_check_weight(zr_graph_param(g, p));
    }
}

/* ---- layouts of tensor-parallel ranks ----------------------------------------------------------- */

/* Check every way to recompute, to keep checkpoints and to shard tokens; at one tensor-parallel degree, all runs with
 * the same sharding of tokens have the same losses, to the last bit. A short run checks two ways: the first and,
 * alternating, one other. */
static inline void golden_check_tensor(int tensor, int stage, int ranks, bool all, const zr_graph *g)
{
    static const struct {
        zr_recompute recompute;
        bool partition, offload;
    } ways[] = {{ZR_RECOMPUTE_NONE, false, false},     {ZR_RECOMPUTE_UNIT, false, false},
                {ZR_RECOMPUTE_UNIT, true, false},      {ZR_RECOMPUTE_UNIT, true, true},
                {ZR_RECOMPUTE_SELECTIVE, true, false}, {ZR_RECOMPUTE_SELECTIVE, true, true},
                {ZR_RECOMPUTE_PAPER, true, false}};
    static size_t turn;
    for (int sequence = 0; sequence < 3; sequence++) {
        trainer first;
        const size_t n_ways = sizeof ways / sizeof *ways, also = 1 + turn++ % (n_ways - 1);
        for (size_t w = 0; w < n_ways; w++) {
            if (w > 0 && w != also && !all) continue;
            if (sequence == ZR_SEQUENCE_REGATHER && w > 0) continue; /* the first way covers it */
            trainer run = golden_trainer(stage, ranks, 1 + stage % 2);
            run.layout.tensor = tensor;
            run.layout.sequence = (zr_sequence)sequence;
            run.layout.recompute = ways[w].recompute;
            run.layout.partition_checkpoints = ways[w].partition;
            run.layout.checkpoint_home = ways[w].offload ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            golden_check(&run, g);
            if (w == 0) first = run;
            for (int i = 0; i < GOLDEN_STEPS; i++)
                assert_true(run.loss[i] == first.loss[i] && run.norm[i] == first.norm[i]);
        }
    }
}

/* Check a trace over stages, ranks, micro-batches and tensor-parallel ranks that divide `heads`; a short run
 * takes every fourth layout. `check` checks a run further; it may be NULL. */
static inline void golden_check_layouts(int64_t heads, void (*check)(const trainer *run))
{
    static int turn;
    zr_graph *g = golden_graph();
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= golden.batch; ranks *= 2)
            for (int64_t accum = 1; ranks * accum <= golden.batch; accum *= 2) {
                if (!is_long_run() && turn++ % 4 > 0) continue;
                trainer run = golden_trainer(stage, ranks, accum);
                golden_check(&run, g);
                if (check) check(&run);
            }
    for (int tensor = 2; tensor <= 3; tensor++) {
        if (heads % tensor != 0) continue;
        for (int stage = 0; stage <= 3; stage++)
            if (golden.batch % (1 + stage % 2) == 0 && (is_long_run() || turn++ % 4 == 0))
                golden_check_tensor(tensor, stage, 1, is_long_run(), g);
    }
    zr_graph_destroy(&g);
}

#endif
