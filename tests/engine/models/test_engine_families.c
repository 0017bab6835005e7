//TEST timeout=120 long=more
/* Models of the Llama kind in fp32 against traces that transformers computed in float64: gradients, losses, norms and
 * final weights, over stages, ranks, micro-batches, tensor and sequence parallelism, and ways to recompute. */
#include "golden_trace.h"
#include "support/long.h"

static const zr_family *family;
static zr_model_config config;

/* Return whether a parameter is a bias of keys. In pairs of columns that turn slowly with the position, it shifts all
 * scores of a query almost alike, so its gradient is almost 0. */
static bool is_key_bias(const char *name, int64_t i, int64_t n)
{
    (void)i, (void)n;
    return strstr(name, ".k_proj.bias") != NULL;
}

static void check_trace(const char *dir)
{
    static int turn;
    char model[5000];
    snprintf(model, sizeof model, "%s/model", dir);
    if (zr_hf_read(model, &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    golden.model = zr_family_model(family, &config);
    golden.noise = is_key_bias;
    golden.outliers = 1;
    golden_open(dir);
    zr_graph *g = golden_graph();
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks *= 2)
            for (int64_t accum = 1; ranks * accum <= GOLDEN_BATCH; accum *= 2) {
                if (!is_long_run() && turn++ % 7 > 0) continue;
                trainer run = golden_trainer(stage, ranks, accum);
                golden_check(&run, g);
            }
    for (int tensor = 2; tensor <= 3; tensor++) {
        if (zr_family_sizes(family, &config).heads % tensor != 0) continue;
        for (int stage = 0; stage <= 3; stage++)
            if (is_long_run() || turn++ % 3 == 0) golden_check_tensor(tensor, stage, 1 + stage % 2, is_long_run(), g);
    }
    zr_graph_destroy(&g);
    golden_close();
}

/* Check the traces. The project's own traces have losses and norms; the larger ones, where they are installed, also
 * gradients and final weights. */
static void test_traces(void **state)
{
    (void)state;
    static const char *const own[] = {"llama-scaled", "llama-yarn",      "llama-linear", "mistral-window",
                                      "mistral-wide", "mistral-dynamic", "qwen2-window", "qwen2-one",
                                      "qwen2-yarn",   "qwen3-heads",     "qwen3-biased", "qwen3-window"};
    static const char *const larger[] = {"llama-tiny", "qwen2-tiny"};
    char dir[4096];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) check_trace(golden_own_dir(own[i], dir));
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++)
        if (golden_larger_dir(larger[i], dir)) check_trace(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
