//TEST timeout=120 long=more
/* Ten steps of Muon against traces that transformers computed in float64 (make_muon.py), where they are installed:
 * GPT-2, whose weights are stored transposed and whose queries, keys and values are fused, and Llama; with both scales,
 * iterated in fp32 and in bf16, over stages, ranks, micro-batches, recompute, homes and pipelines. */
#include "golden_trace.h"
#include "support/long.h"

typedef struct muon_trace {
    char weights[128];
    double after; /* loss of the first batch after ten steps */
    double lr, momentum, decay, adam_lr;
} muon_trace;

static const zr_family *family;
static zr_model_config config;

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Open a trace of one scale. */
static muon_trace open_trace(const char *dir, const char *scale)
{
    char path[5000];
    muon_trace trace = {.after = 0};
    json_t *expected = golden_read_expected(dir);
    const json_t *run = json_object_get(json_object_get(expected, "runs"), scale);
    const json_t *optimizer = json_object_get(expected, "optimizer");
    golden.dir = dir;
    golden.batch = golden_size(expected, "batch");
    golden.T = golden_size(expected, "seq_length");
    assert_int_equal(golden.batch, GOLDEN_BATCH);
    for (size_t i = 0; i < GOLDEN_STEPS; i++) {
        golden.loss[i] = json_real_value(json_array_get(json_object_get(run, "losses"), i));
        golden.norm[i] = json_real_value(json_array_get(json_object_get(run, "grad_norms"), i));
        assert_true(golden.loss[i] > 0 && golden.norm[i] > 0);
    }
    trace.lr = number(run, "muon_lr");
    trace.after = number(run, "loss_batch1_after");
    trace.momentum = number(optimizer, "momentum");
    trace.decay = number(optimizer, "weight_decay");
    trace.adam_lr = number(json_object_get(optimizer, "adam"), "lr");
    snprintf(trace.weights, sizeof trace.weights, "%s", json_string_value(json_object_get(run, "weights")));
    json_decref(expected);
    golden_open_file("model/model.safetensors", &golden.weights);
    golden_open_file(trace.weights, &golden.last);
    assert_true(golden.weights && golden.last);
    snprintf(path, sizeof path, "%s/tokens.bin", dir);
    const size_t tokens = (size_t)(GOLDEN_STEPS * GOLDEN_BATCH * golden.T + 1);
    FILE *f = fopen(path, "rb");
    if (!f || fread(golden.token, 2, tokens, f) != tokens) fail_msg("%s is short", path);
    fclose(f);
    return trace;
}

static trainer muon_run(const muon_trace *trace, zr_muon_scale scale, zr_dtype ortho, int stage, int ranks,
                        int64_t accum)
{
    trainer run = golden_trainer(stage, ranks, accum);
    zr_muon_args muon = zr_muon_defaults();
    muon.momentum = trace->momentum;
    muon.weight_decay = trace->decay;
    muon.ortho.scale = scale;
    muon.ortho.dtype = ortho;
    run.after_first = NULL;
    run.lr = trace->lr;
    run.layout.rest = run.layout.optimizer;
    run.layout.rest.lr_factor = trace->adam_lr / trace->lr;
    run.layout.optimizer = zr_muon(&muon);
    return run;
}

static void check_run(trainer *run, const zr_graph *g)
{
    const zr_layout *l = &run->layout;
    const bool narrow = l->optimizer.ortho.dtype == ZR_BF16;
    const double most = narrow ? 3e-4 : 2e-5, most_norm = narrow ? 1e-2 : 1e-4, most_weight = narrow ? 1e-2 : 1e-3;
    memset(golden_weights.seen, 0, sizeof golden_weights.seen);
    trainer_run(run);
    for (int i = 0; i < GOLDEN_STEPS; i++) {
        const double loss = fabs(run->loss[i] - golden.loss[i]) / golden.loss[i];
        const double norm = fabs(run->norm[i] - golden.norm[i]) / golden.norm[i];
        if (!(loss <= most && norm <= most_norm))
            fail_msg("%s, lr %g: stage %d, %d ranks, step %d: loss off by %g, norm by %g", golden.dir, run->lr,
                     l->stage, l->ranks, i, loss, norm);
    }
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        const float *got = golden_whole(&golden_weights, param);
        golden_read(golden.last, param);
        for (int64_t i = 0; i < zr_shape_elems(&param->whole); i++)
            if (!(fabs((double)golden_one[i] - got[i]) <= most_weight))
                fail_msg("%s[%lld] is off by %g", param->name, (long long)i, golden_one[i] - got[i]);
    }
}

static void check_trace(const char *dir, const char *name, zr_muon_scale scale)
{
    const muon_trace trace = open_trace(dir, name);
    zr_graph *g = golden_graph();
    static int turn;
    for (int narrow = 0; narrow < 2; narrow++) {
        trainer first;
        const zr_dtype ortho = narrow ? ZR_BF16 : ZR_F32;
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = 1; ranks <= 4; ranks *= 2) {
                if (!is_long_run() && turn++ % 5 > 0) continue;
                trainer run = muon_run(&trace, scale, ortho, stage, ranks, ranks == 1 ? 2 : 1);
                run.layout.recompute = stage % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
                run.layout.home.optim = stage == 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
                check_run(&run, g);
            }
        first = muon_run(&trace, scale, ortho, 1, 2, 2);
        check_run(&first, g);
        first = muon_run(&trace, scale, ortho, 1, 1, 2);
        first.layout.pipeline = 2;
        first.layout.pipeline_schedule = ZR_PIPELINE_1F1B;
        check_run(&first, g);
    }
    zr_graph_destroy(&g);
    golden_close();
}

static void test_traces(void **state)
{
    (void)state;
    static const char *const names[] = {"muon-gpt2", "muon-llama"};
    for (int i = 0; i < 2; i++) {
        char dir[GOLDEN_DIR_BYTES], model[5000];
        if (!golden_larger_dir(names[i], dir)) continue;
        snprintf(model, sizeof model, "%s/model", dir);
        if (zr_hf_read(model, &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
        golden.model = zr_family_model(family, &config);
        check_trace(dir, "original", ZR_MUON_ORIGINAL);
        check_trace(dir, "match_rms_adamw", ZR_MUON_MATCH_RMS_ADAMW);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
