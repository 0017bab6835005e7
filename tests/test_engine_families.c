//TEST timeout=120 long=more
/* Models of the Llama kind in fp32 against traces that transformers computed in float64: gradients, losses, norms and
 * final weights, over stages, ranks, micro-batches, tensor and sequence parallelism, and ways to recompute. */
#include "golden_trace.h"
#include "long.h"

static zr_llama_config config;

static int64_t integer(const json_t *root, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(root, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static double real(const json_t *root, const char *key, double fallback)
{
    const json_t *value = json_object_get(root, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static void read_config(const char *dir)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/model/config.json", dir);
    json_t *root = json_load_file(path, 0, NULL);
    if (!root) fail_msg("no %s", path);
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const bool qwen2 = strcmp(type, "qwen2") == 0, qwen3 = strcmp(type, "qwen3") == 0;
    zr_llama_config c = {.num_hidden_layers = integer(root, "num_hidden_layers", 0),
                         .num_attention_heads = integer(root, "num_attention_heads", 0),
                         .hidden_size = integer(root, "hidden_size", 0),
                         .intermediate_size = integer(root, "intermediate_size", 0),
                         .max_position_embeddings = integer(root, "max_position_embeddings", 0),
                         .vocab_size = integer(root, "vocab_size", 0),
                         .rms_norm_eps = real(root, "rms_norm_eps", 0),
                         .initializer_range = 0.02,
                         .sliding_window = integer(root, "sliding_window", 0),
                         .tie_word_embeddings = json_is_true(json_object_get(root, "tie_word_embeddings")),
                         .attention_bias = json_is_true(json_object_get(root, "attention_bias")),
                         .mlp_bias = json_is_true(json_object_get(root, "mlp_bias")),
                         .qkv_bias = qwen2,
                         .qk_norm = qwen3};
    c.num_key_value_heads = integer(root, "num_key_value_heads", c.num_attention_heads);
    c.head_dim = integer(root, "head_dim", c.hidden_size / c.num_attention_heads);
    if (qwen2 || qwen3) c.max_window_layers = integer(root, "max_window_layers", 0);
    const json_t *rope = json_object_get(root, "rope_parameters");
    const char *kind = json_string_value(json_object_get(rope, "rope_type"));
    static const char *const kinds[] = {"default", "linear", "dynamic", "llama3", "yarn"};
    c.rotary = (zr_rotary_spec){.width = c.head_dim,
                                .theta = real(rope, "rope_theta", 0),
                                .factor = real(rope, "factor", 0),
                                .original = integer(rope, "original_max_position_embeddings", c.max_position_embeddings),
                                .low_freq_factor = real(rope, "low_freq_factor", 0),
                                .high_freq_factor = real(rope, "high_freq_factor", 0),
                                .beta_fast = real(rope, "beta_fast", 32),
                                .beta_slow = real(rope, "beta_slow", 1),
                                .attention_factor = real(rope, "attention_factor", 0),
                                .truncate = !json_is_false(json_object_get(rope, "truncate"))};
    for (int i = 0; i < 5; i++)
        if (strcmp(kinds[i], kind) == 0) c.rotary.kind = (zr_rotary_kind)i;
    config = c;
    json_decref(root);
}

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
    read_config(dir);
    golden.model = zr_llama(&config);
    golden.noise = is_key_bias;
    golden_open(dir);
    zr_graph *g = golden_graph();
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks *= 2)
            for (int64_t accum = 1; ranks * accum <= GOLDEN_BATCH; accum *= 2) {
                if (!is_long_run() && turn++ % 4 > 0) continue;
                trainer run = golden_trainer(stage, ranks, accum);
                golden_check(&run, g);
            }
    for (int tensor = 2; tensor <= 3; tensor++) {
        if (config.num_attention_heads % tensor != 0) continue;
        for (int stage = 0; stage <= 3; stage++)
            if (is_long_run() || turn++ % 2 == 0) golden_check_tensor(tensor, stage, 1 + stage % 2, is_long_run(), g);
    }
    zr_graph_destroy(&g);
    golden_close();
}

static void test_traces(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-tiny", "qwen2-tiny", "llama-scaled", "llama-yarn", "llama-linear", "mistral-window", "mistral-wide", "mistral-dynamic", "qwen2-window", "qwen2-one", "qwen2-yarn", "qwen3-heads", "qwen3-biased", "qwen3-window"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char dir[4096];
        snprintf(dir, sizeof dir, "%s/%s", getenv("GOLD"), names[i]);
        if (access(dir, F_OK) != 0) continue;
        print_message("# %s\n", names[i]);
        check_trace(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
