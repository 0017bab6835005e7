//TEST timeout=60
/* Tables 1 and 2 of the ZeRO paper from the planner: the model states of graphs with the tables' parameter counts. */
#include <math.h>
#include <stdio.h>

#include "support/chain.h"
#include "plan_make.h"

static const zr_profile profile = {.facts = {.name = "test", .threads = 1, .scratch_bytes = zr_device_cpu_scratch}};

static zr_layout layout_of(int stage, int ranks)
{
    zr_layout l = zr_layout_default();
    l.stage = stage;
    l.ranks = ranks;
    l.dtype = l.wire_dtype = ZR_BF16;
    l.states = ZR_STATES_PAPER;
    l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    return l;
}

static zr_plan *plan_of(const zr_model *model, const zr_layout *layout)
{
    return plan_make(model, layout, &profile);
}

/* Return the gigabytes (1e9) of a rank's model states; `tensor` ranks share each layer. */
static double states_gb(const chain_config *chain, int stage, int tensor, int ranks)
{
    zr_model model = chain_model(chain);
    zr_layout layout = layout_of(stage, ranks);
    layout.tensor = tensor;
    layout.reduce_bucket_elems = layout.gather_bucket_elems = chain->rows * chain->cols;
    zr_plan *plan = plan_of(&model, &layout);
    assert_int_equal(plan->params, chain->units * chain->rows * chain->cols);
    double gb = (double)plan->memory.states_bytes / 1e9;
    zr_plan_destroy(&plan);
    return gb;
}

/* ---- table 1 ---------------------------------------------------------------------------------- */

static const struct {
    double billion;
    chain_config chain;
} sizes[] = {{7.5, {75, 10000, 10000}}, {128, {125, 32000, 32000}}, {1000, {100, 100000, 100000}}};

/* Parameters in billions, ranks, gigabytes at stages 0 to 3: exact values, which the paper rounds or cuts off. Stage 0
 * does not depend on the ranks. */
static const struct {
    double billion;
    int ranks;
    double gb[4];
} table1[] = {
    {7.5, 1, {120, 120, 120, 120}},
    {7.5, 4, {120, 52.5, 41.25, 30}},
    {7.5, 16, {120, 35.625, 21.5625, 7.5}},
    {7.5, 64, {120, 31.40625, 16.640625, 1.875}},
    {7.5, 256, {120, 30.3515625, 15.4101562, 0.46875}},
    {7.5, 1024, {120, 30.0878906, 15.1025391, 0.1171875}},
    {128, 1, {2048, 2048, 2048, 2048}},
    {128, 4, {2048, 896, 704, 512}},
    {128, 16, {2048, 608, 368, 128}},
    {128, 64, {2048, 536, 284, 32}},
    {128, 256, {2048, 518, 263, 8}},
    {128, 1024, {2048, 513.5, 257.75, 2}},
    {1000, 1, {16000, 16000, 16000, 16000}},
    {1000, 4, {16000, 7000, 5500, 4000}},
    {1000, 16, {16000, 4750, 2875, 1000}},
    {1000, 64, {16000, 4187.5, 2218.75, 250}},
    {1000, 256, {16000, 4046.875, 2054.6875, 62.5}},
    {1000, 1024, {16000, 4011.71875, 2013.67188, 15.625}},
};

static void test_table1(void **state)
{
    (void)state;
    int cells = 0;
    for (size_t i = 0; i < sizeof table1 / sizeof *table1; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int stage = 0; sizes[k].billion == table1[i].billion && stage <= 3; stage++, cells++) {
                double want = table1[i].gb[stage], gb = states_gb(&sizes[k].chain, stage, 1, table1[i].ranks);
                if (fabs(gb / want - 1) > 0.005)
                    fail_msg("%gB, %d ranks, stage %d: %g GB, the paper %g", table1[i].billion, table1[i].ranks, stage,
                             gb, want);
            }
    assert_int_equal(cells, 3 * 6 * 4);
}

/* ---- table 2 ---------------------------------------------------------------------------------- */

/* Parameters, in billions, of the largest chain whose states fit 32 GB on each of 64 x M ranks, at stages 0 to 3.
 * Values are exact: the paper's rows above M = 1 are its rounded first row times M. */
static const struct {
    int tensor;
    double billion[4];
} table2[] = {
    {1, {2, 7.641791, 14.422535, 128}},       {2, {4, 15.283582, 28.845070, 256}},
    {4, {8, 30.567164, 57.690141, 512}},      {8, {16, 61.134328, 115.380282, 1024}},
    {16, {32, 122.268657, 230.760563, 2048}},
};

static double largest_billion(int stage, int tensor)
{
    chain_config chain = {.units = 20, .rows = 2000};
    int64_t low = 1, high = 10000000; /* low fits, high does not */
    while (high - low > 1) {
        const int64_t part = (low + high) / 2;
        chain.cols = part * tensor;
        *(states_gb(&chain, stage, tensor, 64) <= 32 ? &low : &high) = part;
    }
    return (double)(20 * 2000 * low * tensor) / 1e9;
}

static void test_table2(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table2 / sizeof *table2; i++)
        for (int stage = 0; stage <= 3; stage++) {
            const double want = table2[i].billion[stage], billion = largest_billion(stage, table2[i].tensor);
            if (fabs(billion / want - 1) > 0.005)
                fail_msg("M = %d, stage %d: %g billion parameters fit, the paper %g", table2[i].tensor, stage, billion,
                         want);
        }
}

/* ---- a trillion ------------------------------------------------------------------------------- */

static void test_trillion(void **state)
{
    (void)state;
    zr_gpt2_config config;
    assert_int_equal(zr_gpt2_preset("gpt-1t", &config), ZR_OK);
    zr_model model = zr_gpt2(&config);
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout layout = layout_of(stage, 1024);
        layout.seq = 1024;
        zr_plan *plan = plan_of(&model, &layout);
        char text[16];
        snprintf(text, sizeof text, "%.1f", (double)plan->memory.states_bytes / 1e9);
        if (stage == 3) assert_string_equal(text, "15.6");
        zr_plan_destroy(&plan);
    }
}

/* ---- the chain -------------------------------------------------------------------------------- */

static void refuse(chain_config chain, zr_mode mode, int64_t tensor, zr_status want)
{
    zr_graph_spec spec = {
        .mode = mode, .batch = 1, .seq = 1, .cache_len = mode == ZR_MODE_DECODE ? 8 : 0, .tensor = tensor};
    zr_graph *graph = NULL;
    zr_model model = chain_model(&chain);
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    model.build(graph, model.config);
    assert_int_equal(zr_graph_finish(graph), want);
    zr_graph_destroy(&graph);
}

static void test_chain_refuses(void **state)
{
    (void)state;
    refuse((chain_config){3, 4, 5}, ZR_MODE_TRAIN, 1, ZR_OK);
    refuse((chain_config){3, 4, 5}, ZR_MODE_EVAL, 1, ZR_OK);
    refuse((chain_config){3, 4, 5}, ZR_MODE_DECODE, 1, ZR_ERR_UNSUPPORTED);
    refuse((chain_config){0, 4, 5}, ZR_MODE_TRAIN, 1, ZR_ERR_CONFIG);
    refuse((chain_config){3, -4, 5}, ZR_MODE_TRAIN, 1, ZR_ERR_CONFIG);
    refuse((chain_config){3, 4, 0}, ZR_MODE_TRAIN, 1, ZR_ERR_CONFIG);
    refuse((chain_config){65537, 4, 5}, ZR_MODE_TRAIN, 1, ZR_ERR_CONFIG);
    refuse((chain_config){3, INT64_MAX / 4, 5}, ZR_MODE_TRAIN, 1, ZR_ERR_SHAPE);
    refuse((chain_config){4, 4, 6}, ZR_MODE_TRAIN, 2, ZR_OK);
    refuse((chain_config){4, 4, 6}, ZR_MODE_EVAL, 2, ZR_OK);
    refuse((chain_config){3, 4, 6}, ZR_MODE_TRAIN, 2, ZR_ERR_CONFIG);
    refuse((chain_config){4, 4, 6}, ZR_MODE_TRAIN, 4, ZR_ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table1),
        cmocka_unit_test(test_table2),
        cmocka_unit_test(test_trillion),
        cmocka_unit_test(test_chain_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
