//TEST timeout=120 tsan=1 long=more
/* GPT-2 in fp32 against traces that PyTorch computed in float64: logits, gradients, losses, norms, final weights; every
 * stage, 1, 2 and 4 ranks, 1, 2 and 4 micro-batches as far as the batch of 4 allows. */
#include "golden.h"
#include "long.h"
#include "trainer.h"

#include <math.h>
#include <zr/checkpoint.h>

enum { B = GOLDEN_BATCH, STEPS = GOLDEN_STEPS, LONGEST = 64 * 1024 };

static struct {
    golden_expected expected;
    int64_t V, T, C;
    uint16_t token[STEPS * B * GOLDEN_MOST_SEQ + 1];
    zr_safetensors *weights, *grads, *last, *logits;
} golden;

static void open_file(const char *name, zr_safetensors **file)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", golden.expected.dir, name);
    if (zr_safetensors_open(path, file) != ZR_OK) fail_msg("%s", zr_error_message());
}

static void load(const char *dir)
{
    golden.expected = golden_load(dir);
    golden.V = golden.expected.config.vocab_size;
    golden.T = golden.expected.config.n_positions;
    golden.C = golden.expected.config.n_embd;
    char path[5000];
    snprintf(path, sizeof path, "%s/tokens.bin", dir);
    size_t tokens = (size_t)(STEPS * B * golden.T + 1);
    FILE *f = fopen(path, "rb");
    if (!f || fread(golden.token, 2, tokens, f) != tokens) fail_msg("%s is short", path);
    fclose(f);
    open_file("model/model.safetensors", &golden.weights);
    open_file("grads_step1.safetensors", &golden.grads);
    open_file("weights_step10.safetensors", &golden.last);
    open_file("logits_step1.safetensors", &golden.logits);
}

static void unload(void)
{
    zr_safetensors_close(&golden.weights);
    zr_safetensors_close(&golden.grads);
    zr_safetensors_close(&golden.last);
    zr_safetensors_close(&golden.logits);
}

static int32_t token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    return golden.token[(step * B + row) * golden.T + t];
}

static zr_status fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    (void)arg;
    const zr_safetensors_tensor *tensor = zr_safetensors_find(golden.weights, param->name);
    ZR_CHECK(tensor, ZR_ERR_DATA, "no %s", param->name);
    return zr_safetensors_read_f32(golden.weights, tensor, first, n, out);
}

/* Differences of whole tensors, gathered over ranks: each rank writes the elements it owns. */
typedef struct deltas {
    float value[160][LONGEST];
    int64_t seen[160];
} deltas;

/* Return a parameter's number, which is the same in every graph. */
static int64_t number_of(const zr_param_info *param)
{
    return zr_safetensors_find(golden.weights, param->name) - zr_safetensors_get(golden.weights, 0);
}

static zr_status collect(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    deltas *d = arg;
    const int64_t index = number_of(param);
    memcpy(d->value[index] + first, in, sizeof(float) * (size_t)n);
    __atomic_add_fetch(&d->seen[index], n, __ATOMIC_RELAXED);
    return ZR_OK;
}

static deltas gradients, weights;
static float one[LONGEST];

static zr_status read_gradients(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_GRAD, collect, &gradients);
}

static zr_status read_weights(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, collect, &weights);
}

/* Return whether an element is in the key third of c_attn.bias, which shifts all scores of a query alike: its exact
 * gradient is 0, and Adam amplifies the noise. */
static bool is_key_bias(const char *name, int64_t i, int64_t n)
{
    size_t length = strlen(name);
    return length > 11 && strcmp(name + length - 11, "c_attn.bias") == 0 && i >= n / 3 && i < 2 * n / 3;
}

static const float *whole(const deltas *d, const zr_param_info *param)
{
    assert_int_equal(d->seen[number_of(param)], zr_shape_elems(&param->shape));
    return d->value[number_of(param)];
}

static void check_gradients(const zr_graph *g)
{
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        int64_t n = zr_shape_elems(&param->shape);
        const float *got = whole(&gradients, param);
        assert_int_equal(
            zr_safetensors_read_f32(golden.grads, zr_safetensors_find(golden.grads, param->name), 0, n, one), ZR_OK);
        double largest = 0, worst = 0;
        for (int64_t i = 0; i < n; i++) {
            largest = fmax(largest, fabs(one[i]));
            worst = fmax(worst, fabs((double)one[i] - got[i]));
        }
        if (!(worst <= 1e-4 * largest)) fail_msg("gradient of %s: off by %g, largest %g", param->name, worst, largest);
    }
}

static void check_weights(const zr_graph *g)
{
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        int64_t n = zr_shape_elems(&param->shape), near = 0, counted = 0;
        const float *got = whole(&weights, param);
        assert_int_equal(zr_safetensors_read_f32(golden.last, zr_safetensors_find(golden.last, param->name), 0, n, one),
                         ZR_OK);
        for (int64_t i = 0; i < n; i++) {
            if (is_key_bias(param->name, i, n)) continue;
            double off = fabs((double)one[i] - got[i]);
            counted++;
            near += off <= 1e-5;
            if (!(off <= 1e-3)) fail_msg("%s[%lld] is off by %g after 10 updates", param->name, (long long)i, off);
        }
        if (near * 100 < counted * 99)
            fail_msg("%s: only %lld of %lld elements within 1e-5", param->name, (long long)near, (long long)counted);
    }
}

static trainer tiny(int stage, int ranks, int64_t accum)
{
    trainer run = {.config = golden.expected.config,
                   .layout = ZR_LAYOUT_INIT,
                   .steps = STEPS,
                   .lr = 1e-3,
                   .clip = 1.0,
                   .token = token,
                   .fill = fill,
                   .after_first = read_gradients,
                   .after = read_weights};
    run.layout.stage = stage;
    run.layout.ranks = ranks;
    run.layout.accum = accum;
    run.layout.batch = B / (ranks * accum);
    run.layout.seq = golden.T;
    run.layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return run;
}

static void check_run(const trainer *run, const zr_graph *g)
{
    const zr_layout *l = &run->layout;
    for (int i = 0; i < STEPS; i++) {
        double loss = golden.expected.loss[i], norm = golden.expected.norm[i];
        if (!(fabs(run->loss[i] - loss) <= 2e-5 * loss))
            fail_msg("stage %d, %d x %d ranks, step %d: loss %.9g, wanted %.9g", l->stage, l->ranks, l->tensor, i,
                     run->loss[i], loss);
        if (!(fabs(run->norm[i] - norm) <= 1e-4 * norm))
            fail_msg("stage %d, %d x %d ranks, step %d: norm %.9g, wanted %.9g", l->stage, l->ranks, l->tensor, i,
                     run->norm[i], norm);
    }
    check_gradients(g);
    check_weights(g);
}

/* Check every way to recompute, to keep checkpoints and to shard tokens; at one tensor-parallel degree, each way to
 * shard tokens has its own losses, to the last bit. A short run takes two ways: the first and another in turn. */
static void check_tensor(int tensor, int stage, int ranks, const zr_graph *g)
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
            if (w > 0 && w != also && !is_long_run()) continue;
            if (sequence == ZR_SEQUENCE_REGATHER && w > 0) continue; /* the first way covers it */
            memset(gradients.seen, 0, sizeof gradients.seen);
            memset(weights.seen, 0, sizeof weights.seen);
            trainer run = tiny(stage, ranks, 1 + stage % 2);
            run.layout.tensor = tensor;
            run.layout.sequence = (zr_sequence)sequence;
            run.layout.recompute = ways[w].recompute;
            run.layout.partition_checkpoints = ways[w].partition;
            run.layout.offload_checkpoints = ways[w].offload;
            trainer_run(&run);
            check_run(&run, g);
            if (w == 0) first = run;
            for (int i = 0; i < STEPS; i++) assert_true(run.loss[i] == first.loss[i] && run.norm[i] == first.norm[i]);
        }
    }
}

static void check_training(void)
{
    zr_gpt2_config config = golden.expected.config;
    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN, .batch = B, .seq = golden.T};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_gpt2(&config).build(g, &config);
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks *= 2)
            for (int64_t accum = 1; ranks * accum <= B; accum *= 2) {
                memset(gradients.seen, 0, sizeof gradients.seen);
                memset(weights.seen, 0, sizeof weights.seen);
                trainer run = tiny(stage, ranks, accum);
                trainer_run(&run);
                check_run(&run, g);
            }
    for (int tensor = 2; tensor <= 4 && config.n_head % tensor == 0; tensor *= 2)
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = 1; ranks <= 2; ranks++) check_tensor(tensor, stage, ranks, g);
    zr_graph_destroy(&g);
}

/* Check the logits. The evaluation schedule leaves the head's operand, and never holds its logits. */
static zr_status read_hidden(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    zr_batch batch = {0};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    zr_model model = zr_gpt2(&run->config);
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = run->layout.batch, .seq = golden.T};
    zr_graph *g = NULL;
    ZR_TRY(zr_graph_create(&spec, &g));
    model.build(g, model.config);
    ZR_TRY(zr_graph_finish(g));
    zr_value hidden = zr_graph_get_op(g, zr_graph_value(g, zr_graph_get_losses(g))->producer)->in[0];
    zr_graph_destroy(&g);
    return zr_engine_value(engine, ZR_SCHEDULE_EVAL, hidden, run->arg);
}

static void check_logits(void)
{
    static float hidden[LONGEST], table[LONGEST];
    const int64_t V = golden.V, T = golden.T, C = golden.C;
    const zr_safetensors_tensor *wte = zr_safetensors_find(golden.weights, "transformer.wte.weight");
    assert_int_equal(zr_safetensors_read_f32(golden.weights, wte, 0, V * C, table), ZR_OK);
    for (int stage = 0; stage <= 3; stage += 3) {
        trainer run = tiny(stage, 1, 1);
        run.steps = 0;
        run.after = read_hidden;
        run.arg = hidden;
        trainer_run(&run);
        assert_int_equal(zr_safetensors_read_f32(golden.logits, zr_safetensors_get(golden.logits, 0), 0, T * V, one),
                         ZR_OK);
        for (int64_t i = 0; i < T * V; i++) {
            double got = 0;
            for (int64_t c = 0; c < C; c++) got += (double)hidden[i / V * C + c] * table[i % V * C + c];
            if (!(fabs(got - one[i]) <= 1e-4))
                fail_msg("logit %lld: %.9g, wanted %.9g", (long long)i, got, (double)one[i]);
        }
    }
}

static void check_trace(const char *dir)
{
    load(dir);
    check_logits();
    check_training();
    unload();
}

static void test_traces(void **state)
{
    (void)state;
    check_trace(golden_own());
    const char *larger = golden_larger();
    if (larger) check_trace(larger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
