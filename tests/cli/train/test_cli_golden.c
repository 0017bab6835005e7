//TEST timeout=300 tsan=1 mpi=1 long=more
/* A golden trace, the larger one where it is installed, reproduced through the command line over a pairwise cover of
 * stage, layout, transport and processor level. */
#include "support/cli_run.h"
#include "support/golden.h"
#include "support/known_rates.h"
#include "support/long.h"

#include <math.h>
#include <zr/checkpoint.h>

enum { LONGEST = 64 * 1024 };
static golden_expected golden;

/* Check that 99 % of each tensor is within 1e-5 and all of it within 1e-3, except the key third of c_attn.bias, whose
 * exact gradient is 0. */
static void check_weights(const char *run)
{
    static float a[LONGEST], b[LONGEST];
    char path[5000];
    zr_safetensors *got = NULL, *want = NULL;
    snprintf(path, sizeof path, "%s/%s/model/model.safetensors", cli_dir, run);
    if (zr_safetensors_open(path, &got) != ZR_OK) fail_msg("%s", zr_error_message());
    snprintf(path, sizeof path, "%s/weights_step10.safetensors", golden.dir);
    if (zr_safetensors_open(path, &want) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_safetensors_count(got), zr_safetensors_count(want));
    for (int64_t t = 0; t < zr_safetensors_count(want); t++) {
        const zr_safetensors_tensor *w = zr_safetensors_get(want, t), *g = zr_safetensors_find(got, w->name);
        if (!g || g->elems != w->elems) fail_msg("%s is missing or of another size", w->name);
        assert_int_equal(zr_safetensors_read_f32(want, w, 0, w->elems, a), ZR_OK);
        assert_int_equal(zr_safetensors_read_f32(got, g, 0, g->elems, b), ZR_OK);
        int64_t near = 0, counted = 0, third = w->elems / 3;
        bool qkv_bias = strstr(w->name, "c_attn.bias") != NULL;
        for (int64_t i = 0; i < w->elems; i++) {
            if (qkv_bias && i >= third && i < 2 * third) continue;
            counted++;
            near += fabsf(a[i] - b[i]) <= 1e-5f;
            if (!(fabsf(a[i] - b[i]) <= 1e-3f))
                fail_msg("%s[%lld]: %g, wanted %g", w->name, (long long)i, (double)b[i], (double)a[i]);
        }
        if (near * 100 < counted * 99)
            fail_msg("%s: %lld of %lld within 1e-5", w->name, (long long)near, (long long)counted);
    }
    zr_safetensors_close(&got);
    zr_safetensors_close(&want);
}

static void check_trace(const char *name)
{
    for (int i = 0; i < GOLDEN_STEPS; i++) {
        double loss = cli_metric(name, i, "loss"), norm = cli_metric(name, i, "grad_norm");
        if (!(fabs(loss - golden.loss[i]) <= 2e-5 * golden.loss[i]))
            fail_msg("%s step %d: loss %.9g, wanted %.9g", name, i, loss, golden.loss[i]);
        if (!(fabs(norm - golden.norm[i]) <= 1e-4 * golden.norm[i]))
            fail_msg("%s step %d: norm %.9g, wanted %.9g", name, i, norm, golden.norm[i]);
    }
    cli_check_accounts(name);
    check_weights(name);
}

static void check_run(int stage, int ranks, int accum, bool mpi, const char *level)
{
    char name[100];
    snprintf(name, sizeof name, "run-%d-%d-%d-%d-%s", stage, ranks, accum, mpi, level);
    int rc = cli_shell("ZR_KERNELS=%s %s %s train '%s/config.json' --quiet %s --zero_optimization.stage=%d "
                       "--gradient_accumulation_steps=%d "
                       "--train.output_dir='%s/%s'",
                       level, cli_launcher(mpi, ranks), cli_zr(), cli_dir, cli_ranks(mpi, ranks), stage, accum, cli_dir,
                       name);
    if (rc != 0) {
        cli_print_log();
        fail_msg("%s ended with %d", name, rc);
    }
    check_trace(name);
}

/* Check every pair of values of: tensor-parallel ranks, data-parallel ranks, stage, recompute policy, storage of
 * checkpoints, storage of token shards. Without a policy there are no checkpoints, and with one tensor-parallel rank no
 * tokens are sharded. In a short run most ranks are threads, which start faster. */
static void check_grid(bool with_mpi)
{
    static const struct {
        int tensor, data, stage;
        const char *policy, *kept, *sequence;
    } grid[] = {
        {1, 1, 1, "selective", "", "off"},
        {2, 1, 3, "paper", "host", "keep"},
        {2, 2, 1, "unit", "pieces", "regather"},
        {4, 2, 0, "paper", "", "regather"},
        {4, 1, 2, "unit", "host", "off"},
        {2, 2, 2, "selective", "", "keep"},
        {4, 1, 3, "selective", "pieces", "regather"},
        {2, 2, 3, "none", "", "off"},
        {1, 1, 0, "none", "", "off"},
        {4, 2, 1, "none", "", "keep"},
        {2, 2, 0, "unit", "pieces", "keep"},
        {2, 1, 2, "paper", "pieces", "off"},
        {2, 1, 0, "selective", "host", "regather"},
        {1, 1, 3, "unit", "", "off"},
        {1, 2, 2, "paper", "", "off"},
        {2, 1, 2, "none", "", "regather"},
        {2, 2, 1, "paper", "host", "regather"},
    };
    for (size_t i = 0; i < sizeof grid / sizeof *grid; i++) {
        char name[100];
        const int ranks = grid[i].tensor * grid[i].data;
        const bool mpi = with_mpi && (is_long_run() || i % 4 == 1);
        snprintf(name, sizeof name, "grid-%d-%d-%d-%s-%s-%s", grid[i].tensor, grid[i].data, grid[i].stage,
                 grid[i].policy, grid[i].kept, grid[i].sequence);
        if (golden.config.n_head % grid[i].tensor != 0) continue;
        int rc = cli_shell("%s %s train '%s/config.json' --quiet %s --parallel.tensor=%d --zero_optimization.stage=%d "
                           "--activation_checkpointing.policy=%s --parallel.sequence=%s "
                           "--activation_checkpointing.partition_activations=%s "
                           "--activation_checkpointing.cpu_checkpointing=%s --train.output_dir='%s/%s'",
                           cli_launcher(mpi, ranks), cli_zr(), cli_dir, cli_ranks(mpi, ranks), grid[i].tensor,
                           grid[i].stage, grid[i].policy, grid[i].sequence, grid[i].kept[0] ? "true" : "false",
                           grid[i].kept[0] == 'h' ? "true" : "false", cli_dir, name);
        if (rc != 0) {
            cli_print_log();
            fail_msg("%s ended with %d", name, rc);
        }
        check_trace(name);
    }
}

/* Store one level's rates for all runs of that level; "": of the default level. */
static void set_level(const char *level)
{
    char cache[300], kept[32];
    const char *forced = getenv("ZR_KERNELS");
    snprintf(cache, sizeof cache, "%s/cache", cli_dir);
    snprintf(kept, sizeof kept, "%s", forced ? forced : "");
    if (*level) setenv("ZR_KERNELS", level, 1);
    assert_int_equal(set_rates(cache), 0);
    setenv("ZR_KERNELS", kept, 1); /* empty: none */
}

static void test_golden(void **state)
{
    (void)state;
    const char *larger = golden_larger();
    golden = golden_load(larger ? larger : golden_own());
    char config[10000];
    snprintf(config, sizeof config,
             "{\"model\": {\"init\": \"%s/model\"}, \"data\": {\"train\": \"%s/tokens.bin\", \"seq_length\": %lld, "
             "\"order\": \"sequential\"},"
             " \"train_batch_size\": 4, \"gradient_clipping\": 1.0,"
             " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-3, \"betas\": [0.9, 0.95], \"eps\": 1e-8, "
             "\"weight_decay\": 0.1}},"
             " \"train\": {\"steps\": %d, \"threads\": 1}}",
             golden.dir, golden.dir, (long long)golden.config.n_positions, GOLDEN_STEPS);
    cli_write("config.json", config);
    enum { LEVELS = 5 };
    static const char *const level[LEVELS] = {"v4amx", "v4bf16", "v4", "v3", "v2"};
    static const int layout[][2] = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {4, 1}};
    bool mpirun = cli_have_mpirun();
    const char *highest = NULL;
    for (int k = 0; k < LEVELS && !highest; k++)
        if (cli_shell("ZR_KERNELS=%s %s info", level[k], cli_zr()) == 0) highest = level[k];
    if (!highest) highest = ""; /* the processor has another architecture, with only one level */
    int highest_index = 0;
    while (highest_index < LEVELS - 1 && level[highest_index] != highest) highest_index++;
    set_level("");
    for (int k = highest_index; *highest && k < LEVELS; k++) set_level(level[k]);
    for (int s = 0; s < 4; s++)
        for (int l = 0; l < 6; l++) {
            int k = (s + l) % LEVELS; /* each pair of stage, layout, transport and level occurs at least once */
            if ((s + l) % 2 && !is_long_run()) continue;
            check_run(s, layout[l][0], layout[l][1], mpirun && (l + s / 2) % 2,
                      *highest && k >= highest_index ? level[k] : highest);
        }
    check_grid(mpirun);
    if (!mpirun) print_message("# no mpirun: all runs on threads\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
