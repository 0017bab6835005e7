//TEST timeout=120 tsan=1 long=more
/* GPT-2 in fp32 against traces that PyTorch computed in float64: logits, gradients, losses, norms, final weights; every
 * stage, 1, 2 and 4 ranks, 1, 2 and 4 micro-batches as far as the batch of 4 allows. */
#include "golden_trace.h"
#include "support/long.h"

static zr_gpt2_config config;

/* Return whether an element is in the key third of c_attn.bias, which shifts all scores of a query alike. */
static bool is_key_bias(const char *name, int64_t i, int64_t n)
{
    size_t length = strlen(name);
    return length > 11 && strcmp(name + length - 11, "c_attn.bias") == 0 && i >= n / 3 && i < 2 * n / 3;
}

static void check_training(void)
{
    zr_graph *g = golden_graph();
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks *= 2)
            for (int64_t accum = 1; ranks * accum <= GOLDEN_BATCH; accum *= 2) {
                trainer run = golden_trainer(stage, ranks, accum);
                golden_check(&run, g);
            }
    for (int tensor = 2; tensor <= 4 && config.n_head % tensor == 0; tensor *= 2)
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = 1; ranks <= 2; ranks++) golden_check_tensor(tensor, stage, ranks, is_long_run(), g);
    zr_graph_destroy(&g);
}

/* Check the logits, computed here from the head's operand, since the evaluation schedule never stores all logits. */
static zr_status read_hidden(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    zr_batch batch = {0};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = run->layout.batch, .seq = golden.T};
    zr_graph *g = NULL;
    ZR_TRY(zr_graph_create(&spec, &g));
    golden.model.build(g, golden.model.config);
    ZR_TRY(zr_graph_finish(g));
    zr_value hidden = zr_graph_get_op(g, zr_graph_value(g, zr_graph_get_loss_term(g, 0))->producer)->in[0];
    zr_graph_destroy(&g);
    return zr_engine_value(engine, ZR_SCHEDULE_EVAL, hidden, run->arg);
}

static void check_logits(void)
{
    static float hidden[GOLDEN_LONGEST], table[GOLDEN_LONGEST];
    const int64_t V = config.vocab_size, T = golden.T, C = config.n_embd;
    const zr_safetensors_tensor *wte = zr_safetensors_find(golden.weights, "transformer.wte.weight");
    assert_int_equal(zr_safetensors_read_f32(golden.weights, wte, 0, V * C, table), ZR_OK);
    for (int stage = 0; stage <= 3; stage += 3) {
        trainer run = golden_trainer(stage, 1, 1);
        run.steps = 0;
        run.after = read_hidden;
        run.arg = hidden;
        trainer_run(&run);
        assert_int_equal(
            zr_safetensors_read_f32(golden.logits, zr_safetensors_get(golden.logits, 0), 0, T * V, golden_one), ZR_OK);
        for (int64_t i = 0; i < T * V; i++) {
            double got = 0;
            for (int64_t c = 0; c < C; c++) got += (double)hidden[i / V * C + c] * table[i % V * C + c];
            if (!(fabs(got - golden_one[i]) <= 1e-4))
                fail_msg("logit %lld: %.9g, wanted %.9g", (long long)i, got, (double)golden_one[i]);
        }
    }
}

static void check_trace(const char *dir)
{
    config = golden_load(dir).config;
    golden.model = zr_gpt2(&config);
    golden.noise = is_key_bias;
    golden_open(dir);
    check_logits();
    check_training();
    golden_close();
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
