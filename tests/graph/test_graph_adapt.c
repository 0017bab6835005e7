//TEST timeout=60
/* Low-rank adapters in a graph: names of layers that patterns match, shapes and order of the parameters, frozen others,
 * the formula y + (alpha / rank) x A^T B^T, and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "graph_interp.h"
#include "zr/base.h"
#include "zr/models.h"

static const zr_gpt2_config gpt2 = {.n_layer = 3,
                                    .n_head = 2,
                                    .n_embd = 4,
                                    .n_positions = 4,
                                    .vocab_size = 7,
                                    .layer_norm_epsilon = 1e-5,
                                    .initializer_range = 0.02};
static const zr_llama_config llama = {.num_hidden_layers = 2,
                                      .num_attention_heads = 2,
                                      .num_key_value_heads = 1,
                                      .head_dim = 4,
                                      .hidden_size = 6,
                                      .intermediate_size = 10,
                                      .max_position_embeddings = 8,
                                      .vocab_size = 7,
                                      .rms_norm_eps = 1e-5,
                                      .initializer_range = 0.02,
                                      .rotary = {.width = 4, .theta = 10000, .factor = 1}};

static zr_status build(zr_mode mode, int family, zr_lora lora, zr_graph **graph)
{
    zr_graph_spec spec = {.mode = mode, .batch = 2, .seq = 3};
    zr_model model = family ? zr_llama(&llama) : zr_gpt2(&gpt2);
    if (mode == ZR_MODE_DECODE) spec = (zr_graph_spec){.mode = mode, .batch = 1, .seq = 1, .cache_len = 4};
    model.lora = lora;
    assert_int_equal(zr_graph_create(&spec, graph), ZR_OK);
    zr_model_build(&model, *graph);
    return zr_graph_finish(*graph);
}

static zr_graph *graph_of(zr_mode mode, int family, zr_lora lora)
{
    zr_graph *graph = NULL;
    if (build(mode, family, lora, &graph) != ZR_OK) fail_msg("%s", zr_error_message());
    return graph;
}

static const zr_param_info *named(const zr_graph *graph, const char *name)
{
    for (int32_t p = 0; p < zr_graph_params(graph); p++)
        if (strcmp(zr_graph_param(graph, p)->name, name) == 0) return zr_graph_param(graph, p);
    return NULL;
}

/* ---- names ------------------------------------------------------------------------------------- */

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        int family;
        const char *targets;
        int adapters;
    } row[] = {
        {0, NULL, 12},
        {1, NULL, 14},
        {0, "c_attn", 3},
        {0, "c_proj", 6},
        {0, "mlp.c_proj", 3},
        {0, "attn.*", 6},
        {0, "transformer.h.1.attn.c_attn", 1},
        {0, "transformer.h.1.attn.c_attn.weight", 1},
        {0, "h.[02].*", 8},
        {1, "q_proj\nv_proj", 4},
        {1, "layers.0.*\ndown_proj", 8},
        {1, "*.mlp.*", 6},
        {1, "0.*", 7},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int mode = ZR_MODE_TRAIN; mode <= ZR_MODE_DECODE; mode++) {
            const zr_lora lora = {.rank = 2, .alpha = 8, .targets = row[i].targets};
            zr_graph *graph = graph_of((zr_mode)mode, row[i].family, lora);
            int adapters = 0;
            for (int32_t p = 0; p < zr_graph_params(graph); p++) {
                const zr_param_info *param = zr_graph_param(graph, p);
                assert_true(param->frozen != param->adapter);
                assert_true(param->adapter == (strstr(param->name, ".lora_") != NULL));
                assert_true(mode != ZR_MODE_TRAIN || (param->grad != ZR_NONE) == param->adapter);
                adapters += param->adapter;
            }
            if (adapters != 2 * row[i].adapters)
                fail_msg("row %zu: %d factors, wanted %d", i, adapters, 2 * row[i].adapters);
            zr_graph_destroy(&graph);
        }
}

/* Check the shapes of adapters, and that the base keeps its random numbers. */
static void test_params(void **state)
{
    (void)state;
    for (int family = 0; family < 2; family++) {
        zr_graph *base = graph_of(ZR_MODE_TRAIN, family, (zr_lora){0});
        zr_graph *with = graph_of(ZR_MODE_TRAIN, family, (zr_lora){.rank = 3, .alpha = 8});
        for (int32_t p = 0; p < zr_graph_params(base); p++) {
            const zr_param_info *param = zr_graph_param(base, p), *same = named(with, param->name);
            assert_non_null(same);
            assert_true(same->first == param->first && same->frozen);
            assert_true(zr_shape_equal(&same->whole, &param->whole));
        }
        const zr_param_info *a = named(with, family ? "model.layers.1.mlp.down_proj.lora_A.weight"
                                                    : "transformer.h.1.attn.c_attn.lora_A.weight");
        const zr_param_info *b = named(with, family ? "model.layers.1.mlp.down_proj.lora_B.weight"
                                                    : "transformer.h.1.attn.c_attn.lora_B.weight");
        assert_true(a && b && a->whole.ndim == 2 && b->whole.ndim == 2);
        assert_true(a->whole.dim[0] == 3 && a->whole.dim[1] == (family ? 10 : 4));
        assert_true(b->whole.dim[0] == (family ? 6 : 12) && b->whole.dim[1] == 3);
        assert_true(a->first >= zr_graph_param_elems(base));
        zr_graph_destroy(&base);
        zr_graph_destroy(&with);
    }
}

/* ---- formula ----------------------------------------------------------------------------------- */

static void fill(interp *it)
{
    const zr_rng rng = {.seed = 5, .purpose = ZR_RNG_INIT};
    float value[1024];
    for (int32_t p = 0; p < zr_graph_params(it->graph); p++) {
        const zr_param_info *param = zr_graph_param(it->graph, p);
        const int64_t n = zr_shape_elems(&param->whole);
        assert_true(n <= 1024);
        zr_rng_normal(&rng, (uint64_t)param->first, n, value);
        for (int64_t i = 0; i < n; i++) it->data[param->value][i] = 0.3 * value[i];
    }
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < 6; i++) it->data[zr_graph_input(it->graph, k)][i] = (double)((5 * i + 3 * k) % 7);
}

/* Add factor * B A to the weight of the base, whose shape is (outputs, inputs), or (inputs, outputs) of GPT-2. */
static void merge(interp *base, const interp *with, const zr_param_info *a, bool transposed, double factor)
{
    char weight[ZR_NAME_MAX], other[ZR_NAME_MAX];
    const int length = (int)(strstr(a->name, ".lora_A.weight") - a->name);
    snprintf(weight, sizeof weight, "%.*s.weight", length, a->name);
    snprintf(other, sizeof other, "%.*s.lora_B.weight", length, a->name);
    const zr_param_info *b = named(with->graph, other), *w = named(base->graph, weight);
    assert_true(b && w);
    const int64_t rank = a->whole.dim[0], inputs = a->whole.dim[1], outputs = b->whole.dim[0];
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t r = 0; r < rank; r++)
                base->data[w->value][transposed ? o * inputs + i : i * outputs + o] +=
                    factor * with->data[b->value][o * rank + r] * with->data[a->value][r * inputs + i];
}

/* Check that the losses equal the losses of the base with the adapters merged into its weights. */
static void test_formula(void **state)
{
    (void)state;
    for (int family = 0; family < 2; family++)
        for (int k = 0; k < 2; k++) {
            const zr_lora all = {.rank = 2, .alpha = 3, .dropout = 0.3};
            const zr_lora one = {.rank = 2, .alpha = 2, .targets = family ? "up_proj" : "c_fc"};
            const zr_lora lora = k ? one : all;
            zr_graph *graph[2] = {graph_of(ZR_MODE_EVAL, family, (zr_lora){0}), graph_of(ZR_MODE_EVAL, family, lora)};
            interp it[2];
            for (int g = 0; g < 2; g++) {
                it[g] = interp_create(graph[g], NULL);
                fill(&it[g]);
            }
            for (int32_t p = 0; p < zr_graph_params(graph[1]); p++) {
                const zr_param_info *param = zr_graph_param(graph[1], p);
                if (strstr(param->name, ".lora_A.")) merge(&it[0], &it[1], param, family == 1, lora.alpha / 2);
            }
            for (int g = 0; g < 2; g++) assert_true(interp_run(&it[g]));
            const zr_value losses[] = {zr_graph_get_loss_term(graph[0], 0), zr_graph_get_loss_term(graph[1], 0)};
            for (int64_t i = 0; i < 6; i++)
                assert_float_equal(it[0].data[losses[0]][i], it[1].data[losses[1]][i], 1e-11);
            for (int g = 0; g < 2; g++) {
                interp_destroy(&it[g]);
                zr_graph_destroy(&graph[g]);
            }
        }
}

/* ---- refusals ---------------------------------------------------------------------------------- */

static void refused(int family, zr_lora lora, const char *why)
{
    zr_graph *graph = NULL;
    assert_int_not_equal(build(ZR_MODE_TRAIN, family, lora, &graph), ZR_OK);
    if (!strstr(zr_error_message(), why)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), why);
    zr_graph_destroy(&graph);
}

static void test_refusals(void **state)
{
    (void)state;
    refused(0, (zr_lora){.rank = 2, .alpha = 8, .targets = "q_proj"},
            "model.lora.targets: \"q_proj\" matches no linear layer; the first matrix is transformer.wte.weight");
    refused(1, (zr_lora){.rank = 2, .alpha = 8, .targets = "q_proj\nproj"}, "\"proj\" matches no linear layer");
    refused(1, (zr_lora){.rank = 2, .alpha = 8, .targets = "input_layernorm"}, "matches no linear layer");
    refused(1, (zr_lora){.rank = 2, .alpha = 8, .targets = "lm_head"}, "match lm_head.weight, the weights of the head");
    refused(1, (zr_lora){.rank = 2, .alpha = 8, .targets = "*"}, "match lm_head.weight");
    refused(0, (zr_lora){.rank = 2, .alpha = 8, .targets = "*"}, "match transformer.wte.weight");
    refused(0, (zr_lora){.rank = -1, .alpha = 8}, "model.lora.rank is -1");
    refused(0, (zr_lora){.rank = 1, .alpha = 0}, "model.lora.alpha is 0");
    refused(0, (zr_lora){.rank = 1, .alpha = 1, .dropout = 1}, "model.lora.dropout is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
