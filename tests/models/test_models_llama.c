//TEST timeout=20
/* Models of the Llama kind, op by op: their parameters, units and inputs, what the keys change, the sizes that "auto"
 * means, and the configurations that they refuse. */
#include "config/config.h"
#include "model_text.h"
#include "models/families.h"

#include <math.h>

static const zr_graph_spec TRAIN = {
    .mode = ZR_MODE_TRAIN, .batch = 2, .seq = 8, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 2};
static const zr_graph_spec EVAL = {
    .mode = ZR_MODE_EVAL, .batch = 2, .seq = 8, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
static const zr_graph_spec DECODE = {
    .mode = ZR_MODE_DECODE, .batch = 1, .seq = 1, .cache_len = 8, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};

/* ---- ops -------------------------------------------------------------------------------------- */

/* Qwen3 with biases of attention, a window from the second layer on and scaled positions. */
static const char QWEN3[] = "\"type\":\"qwen3\",\"num_hidden_layers\":2,\"hidden_size\":16"
                            ",\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6"
                            ",\"vocab_size\":32,\"max_position_embeddings\":64,\"attention_bias\":true"
                            ",\"use_sliding_window\":true,\"sliding_window\":5,\"max_window_layers\":1"
                            ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}";

static void qwen3_is_what_its_keys_say(void **state)
{
    (void)state;
    zr_graph *graph = model_build(QWEN3, &EVAL, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8");
    EXPECT_LINES(model_params(graph, 0), "embedding: model.embed_tokens.weight (32, 16) normal 0.02",
                 "layers.0: model.layers.0.input_layernorm.weight (16) ones",
                 "layers.0: model.layers.0.self_attn.q_proj.weight (24, 16) normal 0.02",
                 "layers.0: model.layers.0.self_attn.q_proj.bias (24) zeros",
                 "layers.0: model.layers.0.self_attn.k_proj.weight (12, 16) normal 0.02",
                 "layers.0: model.layers.0.self_attn.k_proj.bias (12) zeros",
                 "layers.0: model.layers.0.self_attn.v_proj.weight (12, 16) normal 0.02",
                 "layers.0: model.layers.0.self_attn.v_proj.bias (12) zeros",
                 "layers.0: model.layers.0.self_attn.q_norm.weight (6) ones",
                 "layers.0: model.layers.0.self_attn.k_norm.weight (6) ones",
                 "layers.0: model.layers.0.self_attn.o_proj.weight (16, 24) normal 0.02",
                 "layers.0: model.layers.0.self_attn.o_proj.bias (16) zeros",
                 "layers.0: model.layers.0.post_attention_layernorm.weight (16) ones",
                 "layers.0: model.layers.0.mlp.gate_proj.weight (64, 16) normal 0.02",
                 "layers.0: model.layers.0.mlp.up_proj.weight (64, 16) normal 0.02",
                 "layers.0: model.layers.0.mlp.down_proj.weight (16, 64) normal 0.02",
                 "layers.1: model.layers.1.input_layernorm.weight (16) ones",
                 "layers.1: model.layers.1.self_attn.q_proj.weight (24, 16) normal 0.02",
                 "layers.1: model.layers.1.self_attn.q_proj.bias (24) zeros",
                 "layers.1: model.layers.1.self_attn.k_proj.weight (12, 16) normal 0.02",
                 "layers.1: model.layers.1.self_attn.k_proj.bias (12) zeros",
                 "layers.1: model.layers.1.self_attn.v_proj.weight (12, 16) normal 0.02",
                 "layers.1: model.layers.1.self_attn.v_proj.bias (12) zeros",
                 "layers.1: model.layers.1.self_attn.q_norm.weight (6) ones",
                 "layers.1: model.layers.1.self_attn.k_norm.weight (6) ones",
                 "layers.1: model.layers.1.self_attn.o_proj.weight (16, 24) normal 0.02",
                 "layers.1: model.layers.1.self_attn.o_proj.bias (16) zeros",
                 "layers.1: model.layers.1.post_attention_layernorm.weight (16) ones",
                 "layers.1: model.layers.1.mlp.gate_proj.weight (64, 16) normal 0.02",
                 "layers.1: model.layers.1.mlp.up_proj.weight (64, 16) normal 0.02",
                 "layers.1: model.layers.1.mlp.down_proj.weight (16, 64) normal 0.02",
                 "final: model.norm.weight (16) ones", "final: lm_head.weight (32, 16) normal 0.02");
    EXPECT_LINES(
        model_ops(graph, 0), "%0 embedding: embedding(in0, model.embed_tokens.weight)",
        "%1 layers.0: rmsnorm(%0, ~.input_layernorm.weight) 1 ; 1e-06",
        "%2 layers.0: linear(%1, ~.self_attn.q_proj.weight, ~.self_attn.q_proj.bias) 1",
        "%3 layers.0: linear(%1, ~.self_attn.k_proj.weight, ~.self_attn.k_proj.bias) 1",
        "%4 layers.0: linear(%1, ~.self_attn.v_proj.weight, ~.self_attn.v_proj.bias) 1",
        "%5 layers.0: rmsnorm(%2, ~.self_attn.q_norm.weight) 1 ; 1e-06",
        "%6 layers.0: rmsnorm(%3, ~.self_attn.k_norm.weight) 1 ; 1e-06",
        "%7 layers.0: rotary_table() 4 6 64 1 ; 10000 4 nan nan 32 1 1.13863", "%8 layers.0: rotary(%5, %7)",
        "%9 layers.0: rotary(%6, %7)", "%10 layers.0: attention(%8, %9, %4) 4 0 4 2 0 1 ; 0.408248",
        "%11 layers.0: linear(%10, ~.self_attn.o_proj.weight, ~.self_attn.o_proj.bias) 1",
        "%12 layers.0: add(%0, %11) -1", "%13 layers.0: rmsnorm(%12, ~.post_attention_layernorm.weight) 1 ; 1e-06",
        "%14 layers.0: linear(%13, ~.mlp.gate_proj.weight, -) 1",
        "%15 layers.0: linear(%13, ~.mlp.up_proj.weight, -) 1", "%16 layers.0: swiglu(%14, %15)",
        "%17 layers.0: linear(%16, ~.mlp.down_proj.weight, -) 1", "%18 layers.0: add(%12, %17) -1",
        "%19 layers.1: rmsnorm(%18, ~.input_layernorm.weight) 1 ; 1e-06",
        "%20 layers.1: linear(%19, ~.self_attn.q_proj.weight, ~.self_attn.q_proj.bias) 1",
        "%21 layers.1: linear(%19, ~.self_attn.k_proj.weight, ~.self_attn.k_proj.bias) 1",
        "%22 layers.1: linear(%19, ~.self_attn.v_proj.weight, ~.self_attn.v_proj.bias) 1",
        "%23 layers.1: rmsnorm(%20, ~.self_attn.q_norm.weight) 1 ; 1e-06",
        "%24 layers.1: rmsnorm(%21, ~.self_attn.k_norm.weight) 1 ; 1e-06",
        "%25 layers.1: rotary_table() 4 6 64 1 ; 10000 4 nan nan 32 1 1.13863", "%26 layers.1: rotary(%23, %25)",
        "%27 layers.1: rotary(%24, %25)", "%28 layers.1: attention(%26, %27, %22) 4 1 4 2 5 1 ; 0.408248",
        "%29 layers.1: linear(%28, ~.self_attn.o_proj.weight, ~.self_attn.o_proj.bias) 1",
        "%30 layers.1: add(%18, %29) -1", "%31 layers.1: rmsnorm(%30, ~.post_attention_layernorm.weight) 1 ; 1e-06",
        "%32 layers.1: linear(%31, ~.mlp.gate_proj.weight, -) 1",
        "%33 layers.1: linear(%31, ~.mlp.up_proj.weight, -) 1", "%34 layers.1: swiglu(%32, %33)",
        "%35 layers.1: linear(%34, ~.mlp.down_proj.weight, -) 1", "%36 layers.1: add(%30, %35) -1",
        "%37 final: rmsnorm(%36, model.norm.weight) 1 ; 1e-06",
        "%38 final: linear_cross_entropy(%37, lm_head.weight, in1) 16");
    assert_int_equal(zr_graph_units(graph), 4); /* each layer is a unit: ZeRO 3 gathers one at a time */
    assert_int_equal(zr_graph_get_output(graph), ZR_NONE);
    zr_graph_destroy(&graph);
}

/* Llama with biases of the MLP, a tied head and dropout, on two tensor-parallel ranks. */
static const char LLAMA[] = "\"type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":16"
                            ",\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":32"
                            ",\"max_position_embeddings\":64,\"mlp_bias\":true"
                            ",\"tie_word_embeddings\":true,\"rms_norm_eps\":0.001"
                            ",\"initializer_range\":0.5,\"attention_dropout\":0.25";

static void llama_is_what_its_keys_say(void **state)
{
    (void)state;
    zr_graph *graph = model_build(LLAMA, &TRAIN, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8");
    EXPECT_LINES(model_params(graph, 0), "embedding: model.embed_tokens.weight (32, 16) normal 0.5, cut 0/1",
                 "layers.0: model.layers.0.input_layernorm.weight (16) ones",
                 "layers.0: model.layers.0.self_attn.q_proj.weight (16, 16) normal 0.5, cut 0/1",
                 "layers.0: model.layers.0.self_attn.k_proj.weight (8, 16) normal 0.5, cut 0/1",
                 "layers.0: model.layers.0.self_attn.v_proj.weight (8, 16) normal 0.5, cut 0/1",
                 "layers.0: model.layers.0.self_attn.o_proj.weight (16, 16) normal 0.5, cut 1/1",
                 "layers.0: model.layers.0.post_attention_layernorm.weight (16) ones",
                 "layers.0: model.layers.0.mlp.gate_proj.weight (64, 16) normal 0.5, cut 0/1",
                 "layers.0: model.layers.0.mlp.gate_proj.bias (64) zeros, cut 0/1",
                 "layers.0: model.layers.0.mlp.up_proj.weight (64, 16) normal 0.5, cut 0/1",
                 "layers.0: model.layers.0.mlp.up_proj.bias (64) zeros, cut 0/1",
                 "layers.0: model.layers.0.mlp.down_proj.weight (16, 64) normal 0.5, cut 1/1",
                 "layers.0: model.layers.0.mlp.down_proj.bias (16) zeros",
                 "layers.1: model.layers.1.input_layernorm.weight (16) ones",
                 "layers.1: model.layers.1.self_attn.q_proj.weight (16, 16) normal 0.5, cut 0/1",
                 "layers.1: model.layers.1.self_attn.k_proj.weight (8, 16) normal 0.5, cut 0/1",
                 "layers.1: model.layers.1.self_attn.v_proj.weight (8, 16) normal 0.5, cut 0/1",
                 "layers.1: model.layers.1.self_attn.o_proj.weight (16, 16) normal 0.5, cut 1/1",
                 "layers.1: model.layers.1.post_attention_layernorm.weight (16) ones",
                 "layers.1: model.layers.1.mlp.gate_proj.weight (64, 16) normal 0.5, cut 0/1",
                 "layers.1: model.layers.1.mlp.gate_proj.bias (64) zeros, cut 0/1",
                 "layers.1: model.layers.1.mlp.up_proj.weight (64, 16) normal 0.5, cut 0/1",
                 "layers.1: model.layers.1.mlp.up_proj.bias (64) zeros, cut 0/1",
                 "layers.1: model.layers.1.mlp.down_proj.weight (16, 64) normal 0.5, cut 1/1",
                 "layers.1: model.layers.1.mlp.down_proj.bias (16) zeros", "final: model.norm.weight (16) ones");
    EXPECT_LINES(
        model_ops(graph, 0), "%0 embedding: embedding(in0, model.embed_tokens.weight) 32 16",
        "%1 embedding: tensor_sum(%0)", "%2 layers.0: rmsnorm(%1, ~.input_layernorm.weight) 1 ; 0.001",
        "%3 layers.0: linear(%2, ~.self_attn.q_proj.weight, -) 1",
        "%4 layers.0: linear(%2, ~.self_attn.k_proj.weight, -) 1",
        "%5 layers.0: linear(%2, ~.self_attn.v_proj.weight, -) 1",
        "%6 layers.0: rotary_table() 0 4 64 1 ; 10000 1 nan nan 32 1 1", "%7 layers.0: rotary(%3, %6)",
        "%8 layers.0: rotary(%4, %6)", "%9 layers.0: attention(%7, %8, %5) 2 0 4 2 0 1 ; 0.5 0.25",
        "%10 layers.0: linear(%9, ~.self_attn.o_proj.weight, -) 1", "%11 layers.0: tensor_sum(%10)",
        "%12 layers.0: add(%1, %11) -1", "%13 layers.0: rmsnorm(%12, ~.post_attention_layernorm.weight) 1 ; 0.001",
        "%14 layers.0: linear(%13, ~.mlp.gate_proj.weight, ~.mlp.gate_proj.bias) 1",
        "%15 layers.0: linear(%13, ~.mlp.up_proj.weight, ~.mlp.up_proj.bias) 1", "%16 layers.0: swiglu(%14, %15)",
        "%17 layers.0: linear(%16, ~.mlp.down_proj.weight, -) 1", "%18 layers.0: tensor_sum(%17)",
        "%19 layers.0: bias(%18, ~.mlp.down_proj.bias)", "%20 layers.0: add(%12, %19) -1",
        "%21 layers.1: rmsnorm(%20, ~.input_layernorm.weight) 1 ; 0.001",
        "%22 layers.1: linear(%21, ~.self_attn.q_proj.weight, -) 1",
        "%23 layers.1: linear(%21, ~.self_attn.k_proj.weight, -) 1",
        "%24 layers.1: linear(%21, ~.self_attn.v_proj.weight, -) 1",
        "%25 layers.1: rotary_table() 0 4 64 1 ; 10000 1 nan nan 32 1 1", "%26 layers.1: rotary(%22, %25)",
        "%27 layers.1: rotary(%23, %25)", "%28 layers.1: attention(%26, %27, %24) 2 1 4 2 0 1 ; 0.5 0.25",
        "%29 layers.1: linear(%28, ~.self_attn.o_proj.weight, -) 1", "%30 layers.1: tensor_sum(%29)",
        "%31 layers.1: add(%20, %30) -1", "%32 layers.1: rmsnorm(%31, ~.post_attention_layernorm.weight) 1 ; 0.001",
        "%33 layers.1: linear(%32, ~.mlp.gate_proj.weight, ~.mlp.gate_proj.bias) 1",
        "%34 layers.1: linear(%32, ~.mlp.up_proj.weight, ~.mlp.up_proj.bias) 1", "%35 layers.1: swiglu(%33, %34)",
        "%36 layers.1: linear(%35, ~.mlp.down_proj.weight, -) 1", "%37 layers.1: tensor_sum(%36)",
        "%38 layers.1: bias(%37, ~.mlp.down_proj.bias)", "%39 layers.1: add(%31, %38) -1",
        "%40 final: rmsnorm(%39, model.norm.weight) 1 ; 0.001",
        "%41 final: linear_cross_entropy_part(%40, model.embed_tokens.weight, in1) 16 32 0 16 0 0 1",
        "%42 final: tensor_gather(%41)",
        "%43 final: linear_cross_entropy_join(%42, %40, model.embed_tokens.weight, in1) 16 32 0 16 0 0 1");
    assert_int_equal(zr_graph_units(graph), 4);
    zr_graph_destroy(&graph);
}

/* Qwen2 has biases of queries, keys and values. Its one head of keys is on each rank. */
static const char QWEN2[] = "\"type\":\"qwen2\",\"num_hidden_layers\":1,\"hidden_size\":16"
                            ",\"num_attention_heads\":4,\"num_key_value_heads\":1,\"vocab_size\":32"
                            ",\"max_position_embeddings\":64";

static void qwen2_decodes(void **state)
{
    (void)state;
    zr_graph *graph = model_build(QWEN2, &DECODE, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 1 1");
    EXPECT_LINES(model_params(graph, 0), "embedding: model.embed_tokens.weight (32, 16) normal 0.02",
                 "layers.0: model.layers.0.input_layernorm.weight (16) ones",
                 "layers.0: model.layers.0.self_attn.q_proj.weight (16, 16) normal 0.02",
                 "layers.0: model.layers.0.self_attn.q_proj.bias (16) zeros",
                 "layers.0: model.layers.0.self_attn.k_proj.weight (4, 16) normal 0.02",
                 "layers.0: model.layers.0.self_attn.k_proj.bias (4) zeros",
                 "layers.0: model.layers.0.self_attn.v_proj.weight (4, 16) normal 0.02",
                 "layers.0: model.layers.0.self_attn.v_proj.bias (4) zeros",
                 "layers.0: model.layers.0.self_attn.o_proj.weight (16, 16) normal 0.02",
                 "layers.0: model.layers.0.post_attention_layernorm.weight (16) ones",
                 "layers.0: model.layers.0.mlp.gate_proj.weight (64, 16) normal 0.02",
                 "layers.0: model.layers.0.mlp.up_proj.weight (64, 16) normal 0.02",
                 "layers.0: model.layers.0.mlp.down_proj.weight (16, 64) normal 0.02",
                 "final: model.norm.weight (16) ones", "final: lm_head.weight (32, 16) normal 0.02");
    EXPECT_LINES(model_ops(graph, 0), "%0 embedding: embedding(in0, model.embed_tokens.weight)",
                 "%1 layers.0: rmsnorm(%0, ~.input_layernorm.weight) 1 ; 1e-06",
                 "%2 layers.0: linear(%1, ~.self_attn.q_proj.weight, ~.self_attn.q_proj.bias) 1",
                 "%3 layers.0: linear(%1, ~.self_attn.k_proj.weight, ~.self_attn.k_proj.bias) 1",
                 "%4 layers.0: linear(%1, ~.self_attn.v_proj.weight, ~.self_attn.v_proj.bias) 1",
                 "%5 layers.0: rotary_table() 0 4 64 1 ; 10000 1 nan nan 32 1 1", "%6 layers.0: rotary(%2, %5)",
                 "%7 layers.0: rotary(%3, %5)", "%8 layers.0: attention_cached(%6, %7, %4, cache) 4 0 4 1 0 1 ; 0.5",
                 "%9 layers.0: linear(%8, ~.self_attn.o_proj.weight, -) 1", "%10 layers.0: add(%0, %9) -1",
                 "%11 layers.0: rmsnorm(%10, ~.post_attention_layernorm.weight) 1 ; 1e-06",
                 "%12 layers.0: linear(%11, ~.mlp.gate_proj.weight, -) 1",
                 "%13 layers.0: linear(%11, ~.mlp.up_proj.weight, -) 1", "%14 layers.0: swiglu(%12, %13)",
                 "%15 layers.0: linear(%14, ~.mlp.down_proj.weight, -) 1", "%16 layers.0: add(%10, %15) -1",
                 "%17 final: rmsnorm(%16, model.norm.weight) 1 ; 1e-06", "%18 final: linear(%17, lm_head.weight, -) 1");
    const zr_shape logits = {3, {1, 1, 32}};
    assert_true(zr_shape_equal(&zr_graph_value(graph, zr_graph_get_output(graph))->type.shape, &logits));
    assert_int_equal(zr_graph_get_loss_term(graph, 0), ZR_NONE);
    zr_graph_destroy(&graph);
    graph = model_build(QWEN2, &TRAIN, ZR_OK);
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const zr_param_info *param = zr_graph_param(graph, p);
        const bool whole = strstr(param->name, "k_proj") || strstr(param->name, "v_proj");
        if (strstr(param->name, "_proj.")) assert_int_equal(param->cut.parts, whole ? 0 : 1);
    }
    zr_graph_destroy(&graph);
}

/* ---- keys of positions and windows --------------------------------------------------------------- */

/* Find the first op with a name, and check its attributes as model_ops shows them. */
static void expect_op(const char *members, const char *name, const char *wanted)
{
    char model[512];
    snprintf(model, sizeof model,
             "\"num_hidden_layers\": 1, \"hidden_size\": 16, \"num_attention_heads\": 4,"
             " \"vocab_size\": 32, \"max_position_embeddings\": 64, %s",
             members);
    zr_graph *graph = model_build(model, &EVAL, ZR_OK);
    char *list = model_ops(graph, 0), *at = strstr(list, name);
    assert_non_null(at);
    at = strchr(at, ')') + 1;
    *strchr(at, '\n') = '\0';
    if (strcmp(at, wanted) != 0) fail_msg("%s: %s has%s, wanted%s", members, name, at, wanted);
    zr_free(list);
    zr_graph_destroy(&graph);
}

/* Attributes of a table: kind, width, original length, truncate; theta, factor, the factors of llama3, the betas of
 * yarn, the factor of cosines and sines. */
static void rotary_positions_are_scaled(void **state)
{
    (void)state;
#define ROPE(members) "\"type\": \"llama\", \"rope_scaling\": {" members "}"
    expect_op(ROPE("\"rope_type\": \"default\""), "rotary_table", " 0 4 64 1 ; 10000 1 nan nan 32 1 1");
    expect_op(ROPE("\"rope_type\": \"linear\", \"factor\": 2"), "rotary_table", " 1 4 64 1 ; 10000 2 nan nan 32 1 1");
    expect_op(ROPE("\"rope_type\": \"dynamic\", \"factor\": 4, \"original_max_position_embeddings\": 16"),
              "rotary_table", " 2 4 64 1 ; 10000 4 nan nan 32 1 1");
    expect_op(ROPE("\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                   "\"original_max_position_embeddings\": 16"),
              "rotary_table", " 3 4 16 1 ; 10000 8 1 4 32 1 1");
    expect_op(ROPE("\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 2, \"high_freq_factor\": 3"),
              "rotary_table", " 3 4 64 1 ; 10000 8 2 3 32 1 1");
    expect_op(ROPE("\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16, \"beta_fast\": "
                   "8, \"beta_slow\": 2, \"truncate\": false"),
              "rotary_table", " 4 4 16 ; 10000 4 nan nan 8 2 1.13863");
    expect_op(ROPE("\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": 0.5"), "rotary_table",
              " 4 4 64 1 ; 10000 4 nan nan 32 1 0.5");
    expect_op("\"type\": \"llama\", \"rope_theta\": 500", "rotary_table", " 0 4 64 1 ; 500 1 nan nan 32 1 1");
}

static void windows_are_where_the_keys_put_them(void **state)
{
    (void)state;
    expect_op("\"type\": \"llama\"", "attention", " 4 0 4 4 0 1 ; 0.5");
    expect_op("\"type\": \"mistral\"", "attention", " 4 0 4 4 0 1 ; 0.5");
    expect_op("\"type\": \"mistral\", \"sliding_window\": 3", "attention", " 4 0 4 4 3 1 ; 0.5");
    expect_op("\"type\": \"qwen2\", \"use_sliding_window\": true, \"sliding_window\": 3, \"max_window_layers\": 0",
              "attention", " 4 0 4 4 3 1 ; 0.5");
    expect_op("\"type\": \"qwen2\", \"use_sliding_window\": true, \"sliding_window\": 3, \"max_window_layers\": 1",
              "attention", " 4 0 4 4 0 1 ; 0.5");
    expect_op("\"type\": \"qwen2\", \"sliding_window\": 3, \"max_window_layers\": 0", "attention",
              " 4 0 4 4 0 1 ; 0.5");
    expect_op("\"type\": \"qwen3\", \"head_dim\": 4, \"use_sliding_window\": true, \"sliding_window\": 3, "
              "\"max_window_layers\": 0",
              "attention", " 4 0 4 4 3 1 ; 0.5");
    expect_op("\"type\": \"qwen3\", \"head_dim\": 4, \"sliding_window\": 3, \"max_window_layers\": 0", "attention",
              " 4 0 4 4 0 1 ; 0.5");
}

/* ---- sizes ------------------------------------------------------------------------------------- */

static const zr_llama_config *llama(const zr_config *config)
{
    return (const zr_llama_config *)&config->model.config;
}

static void auto_is_the_smallest_smollm2(void **state)
{
    (void)state;
    zr_config *config = model_config("\"type\": \"llama\"");
    const zr_llama_config *c = llama(config);
    assert_int_equal(c->num_hidden_layers, 30);
    assert_int_equal(c->num_attention_heads, 9);
    assert_int_equal(c->num_key_value_heads, 9);
    assert_int_equal(c->hidden_size, 576);
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->intermediate_size, 1536);
    assert_int_equal(c->max_position_embeddings, 2048);
    assert_int_equal(c->vocab_size, 32000);
    zr_config_destroy(&config);
    config = model_config("\"type\": \"llama\", \"hidden_size\": 90, \"num_attention_heads\": 3");
    assert_int_equal(llama(config)->head_dim, 30);
    assert_int_equal(llama(config)->intermediate_size, 256); /* 240, rounded up to a multiple of 64 */
    zr_config_destroy(&config);
}

/* Check that a search keeps the number of query heads per key/value head and the ratio of the two widths. */
static void searches_keep_ratios(void **state)
{
    (void)state;
    zr_config *config = model_config("\"type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 8,"
                                     " \"num_key_value_heads\": 2, \"intermediate_size\": 192, \"head_dim\": 16");
    zr_model_sizes sizes = zr_config_sizes(config);
    sizes.layers = 7;
    zr__config_resize(config, &sizes);
    assert_true(llama(config)->num_hidden_layers == 7 && llama(config)->head_dim == 16);
    sizes.width = 128;
    sizes.heads = 16;
    zr__config_resize(config, &sizes);
    assert_int_equal(llama(config)->num_key_value_heads, 4);
    assert_int_equal(llama(config)->head_dim, 8);
    assert_int_equal(llama(config)->intermediate_size, 384);
    sizes.width = 81;
    sizes.heads = 9; /* no multiple of 4: each head has its own keys */
    zr__config_resize(config, &sizes);
    assert_int_equal(llama(config)->num_key_value_heads, 9);
    assert_int_equal(llama(config)->intermediate_size, 256); /* 243, rounded up */
    zr_config_destroy(&config);
}

/* ---- fields ------------------------------------------------------------------------------------ */

static void numbers_have_their_defaults_and_ranges(void **state)
{
    (void)state;
    EXPECT_LINES(
        model_fields("llama"), "num_hidden_layers: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_attention_heads: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_key_value_heads: \"auto\" | null, 1 to 9.00719925474e+15",
        "hidden_size: \"auto\" | 4096, 1 to 9.00719925474e+15", "head_dim: \"auto\" | null, 1 to 9.00719925474e+15",
        "intermediate_size: \"auto\" | 11008, 1 to 9.00719925474e+15",
        "max_position_embeddings: \"auto\" | 2048, 1 to 9.00719925474e+15",
        "vocab_size: \"auto\" | 32000, 1 to 9.00719925474e+15", "rms_norm_eps: 1e-6, 1e-12 to 1",
        "rope_theta: 10000.0, 1 to 1e+12", "rope_scaling.factor: null, 0 to 1000000000",
        "rope_scaling.low_freq_factor: null, 0 to 1000000000", "rope_scaling.high_freq_factor: null, 0 to 1000000000",
        "rope_scaling.original_max_position_embeddings: null, 1 to 9.00719925474e+15",
        "rope_scaling.beta_fast: 32.0, 0 to 1000000000", "rope_scaling.beta_slow: 1.0, 0 to 1000000000",
        "rope_scaling.attention_factor: null, 0 to 1000000000", "attention_dropout:, 0 to 0.999",
        "initializer_range: 0.02, 0 to 10");
    EXPECT_LINES(
        model_fields("mistral"), "num_hidden_layers: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_attention_heads: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_key_value_heads: \"auto\" | 8, 1 to 9.00719925474e+15",
        "hidden_size: \"auto\" | 4096, 1 to 9.00719925474e+15", "head_dim: \"auto\" | null, 1 to 9.00719925474e+15",
        "intermediate_size: \"auto\" | 14336, 1 to 9.00719925474e+15",
        "max_position_embeddings: \"auto\" | 131072, 1 to 9.00719925474e+15",
        "vocab_size: \"auto\" | 32000, 1 to 9.00719925474e+15", "rms_norm_eps: 1e-6, 1e-12 to 1",
        "rope_theta: 10000.0, 1 to 1e+12", "rope_scaling.factor: null, 0 to 1000000000",
        "rope_scaling.low_freq_factor: null, 0 to 1000000000", "rope_scaling.high_freq_factor: null, 0 to 1000000000",
        "rope_scaling.original_max_position_embeddings: null, 1 to 9.00719925474e+15",
        "rope_scaling.beta_fast: 32.0, 0 to 1000000000", "rope_scaling.beta_slow: 1.0, 0 to 1000000000",
        "rope_scaling.attention_factor: null, 0 to 1000000000", "attention_dropout:, 0 to 0.999",
        "initializer_range: 0.02, 0 to 10", "sliding_window: null | 4096, 1 to 9.00719925474e+15");
    EXPECT_LINES(
        model_fields("qwen2"), "num_hidden_layers: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_attention_heads: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_key_value_heads: \"auto\" | 32, 1 to 9.00719925474e+15",
        "hidden_size: \"auto\" | 4096, 1 to 9.00719925474e+15", "head_dim: \"auto\" | null, 1 to 9.00719925474e+15",
        "intermediate_size: \"auto\" | 22016, 1 to 9.00719925474e+15",
        "max_position_embeddings: \"auto\" | 32768, 1 to 9.00719925474e+15",
        "vocab_size: \"auto\" | 151936, 1 to 9.00719925474e+15", "rms_norm_eps: 1e-6, 1e-12 to 1",
        "rope_theta: 10000.0, 1 to 1e+12", "rope_scaling.factor: null, 0 to 1000000000",
        "rope_scaling.low_freq_factor: null, 0 to 1000000000", "rope_scaling.high_freq_factor: null, 0 to 1000000000",
        "rope_scaling.original_max_position_embeddings: null, 1 to 9.00719925474e+15",
        "rope_scaling.beta_fast: 32.0, 0 to 1000000000", "rope_scaling.beta_slow: 1.0, 0 to 1000000000",
        "rope_scaling.attention_factor: null, 0 to 1000000000", "attention_dropout:, 0 to 0.999",
        "initializer_range: 0.02, 0 to 10", "sliding_window: null | 4096, 1 to 9.00719925474e+15",
        "max_window_layers: 28, 0 to 9.00719925474e+15");
    EXPECT_LINES(
        model_fields("qwen3"), "num_hidden_layers: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_attention_heads: \"auto\" | 32, 1 to 9.00719925474e+15",
        "num_key_value_heads: \"auto\" | 32, 1 to 9.00719925474e+15",
        "hidden_size: \"auto\" | 4096, 1 to 9.00719925474e+15", "head_dim: \"auto\" | 128, 1 to 9.00719925474e+15",
        "intermediate_size: \"auto\" | 22016, 1 to 9.00719925474e+15",
        "max_position_embeddings: \"auto\" | 32768, 1 to 9.00719925474e+15",
        "vocab_size: \"auto\" | 151936, 1 to 9.00719925474e+15", "rms_norm_eps: 1e-6, 1e-12 to 1",
        "rope_theta: 10000.0, 1 to 1e+12", "rope_scaling.factor: null, 0 to 1000000000",
        "rope_scaling.low_freq_factor: null, 0 to 1000000000", "rope_scaling.high_freq_factor: null, 0 to 1000000000",
        "rope_scaling.original_max_position_embeddings: null, 1 to 9.00719925474e+15",
        "rope_scaling.beta_fast: 32.0, 0 to 1000000000", "rope_scaling.beta_slow: 1.0, 0 to 1000000000",
        "rope_scaling.attention_factor: null, 0 to 1000000000", "attention_dropout:, 0 to 0.999",
        "initializer_range: 0.02, 0 to 10", "sliding_window: null | 4096, 1 to 9.00719925474e+15",
        "max_window_layers: 28, 0 to 9.00719925474e+15");
}

/* Constants of presets that parameters do not show: rotary positions and epsilon, as in the models' config.json. */
static void presets_have_their_constants(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t positions;
        double theta, eps, factor; /* factor: 0 without scaling */
        const char *lr;
    } known[] = {
        {"smollm2-135m", 8192, 100000, 1e-5, 0, NULL},        {"smollm2-360m", 8192, 100000, 1e-5, 0, NULL},
        {"smollm2-1.7b", 8192, 130000, 1e-5, 0, NULL},        {"llama2-7b", 4096, 10000, 1e-5, 0, "3e-4"},
        {"llama2-13b", 4096, 10000, 1e-5, 0, "3e-4"},         {"llama2-70b", 4096, 10000, 1e-5, 0, "1.5e-4"},
        {"llama3-8b", 8192, 500000, 1e-5, 0, "3e-4"},         {"llama3-70b", 8192, 500000, 1e-5, 0, "1.5e-4"},
        {"llama3.1-8b", 131072, 500000, 1e-5, 8, "3e-4"},     {"llama3.1-70b", 131072, 500000, 1e-5, 8, "1.5e-4"},
        {"llama3.1-405b", 131072, 500000, 1e-5, 8, "8e-5"},   {"llama3.2-1b", 131072, 500000, 1e-5, 32, NULL},
        {"llama3.2-3b", 131072, 500000, 1e-5, 32, NULL},      {"mistral-7b", 32768, 1000000, 1e-5, 0, NULL},
        {"mistral-nemo-12b", 131072, 1000000, 1e-5, 0, NULL}, {"qwen2.5-0.5b", 32768, 1000000, 1e-6, 0, NULL},
        {"qwen2.5-1.5b", 32768, 1000000, 1e-6, 0, NULL},      {"qwen2.5-3b", 32768, 1000000, 1e-6, 0, NULL},
        {"qwen2.5-7b", 131072, 1000000, 1e-6, 0, NULL},       {"qwen2.5-14b", 131072, 1000000, 1e-5, 0, NULL},
        {"qwen2.5-32b", 131072, 1000000, 1e-5, 0, NULL},      {"qwen2.5-72b", 131072, 1000000, 1e-5, 0, NULL},
        {"qwen3-0.6b", 40960, 1000000, 1e-6, 0, NULL},        {"qwen3-1.7b", 40960, 1000000, 1e-6, 0, NULL},
        {"qwen3-4b", 40960, 1000000, 1e-6, 0, NULL},          {"qwen3-8b", 40960, 1000000, 1e-6, 0, NULL},
        {"qwen3-14b", 40960, 1000000, 1e-6, 0, NULL},         {"qwen3-32b", 40960, 1000000, 1e-6, 0, NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const zr_family *family = NULL;
        zr_model_config config;
        assert_int_equal(zr_family_find_preset(known[i].name, &family, &config), ZR_OK);
        const zr_llama_config *c = (const zr_llama_config *)&config;
        const zr_rotary_spec *r = &c->rotary;
        const bool scaled = known[i].factor != 0;
        if (c->max_position_embeddings != known[i].positions || r->theta != known[i].theta ||
            c->rms_norm_eps != known[i].eps || c->initializer_range != 0.02 ||
            r->kind != (scaled ? ZR_ROTARY_LLAMA3 : ZR_ROTARY_DEFAULT) || (scaled && r->factor != known[i].factor) ||
            (scaled && (r->original != 8192 || r->low_freq_factor != 1 || r->high_freq_factor != 4)))
            fail_msg("%s", known[i].name);
        const zr_preset *preset;
        for (int p = 0; (preset = zr_family_preset(p, &family)); p++) {
            if (strcmp(preset->name, known[i].name) != 0) continue;
            if (known[i].lr)
                assert_string_equal(preset->lr, known[i].lr);
            else
                assert_null(preset->lr);
        }
    }
}

/* ---- refusals ---------------------------------------------------------------------------------- */

static const zr_llama_config TINY = {.num_hidden_layers = 2,
                                     .num_attention_heads = 4,
                                     .num_key_value_heads = 2,
                                     .head_dim = 4,
                                     .hidden_size = 16,
                                     .intermediate_size = 24,
                                     .max_position_embeddings = 64,
                                     .vocab_size = 32,
                                     .rms_norm_eps = 1e-6,
                                     .initializer_range = 0.02,
                                     .rotary = {.width = 4, .theta = 10000}};

static void refuse(zr_llama_config config, const char *text)
{
    if (zr__llama_check(&config) != ZR_ERR_CONFIG) fail_msg("not refused: %s", text);
    if (!strstr(zr_error_message(), text)) fail_msg("%s: %s", text, zr_error_message());
    zr_graph *graph = NULL; /* the builder refuses it too */
    assert_int_equal(zr_graph_create(&EVAL, &graph), ZR_OK);
    zr_llama(&config).build(graph, &config);
    assert_int_equal(zr_graph_finish(graph), ZR_ERR_CONFIG);
    zr_graph_destroy(&graph);
}
#define REFUSE(field, value, text)                                                                                     \
    do {                                                                                                               \
        zr_llama_config config = TINY;                                                                                 \
        config.field = value;                                                                                          \
        refuse(config, text);                                                                                          \
    } while (0)

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    assert_int_equal(zr__llama_check(&TINY), ZR_OK);
    REFUSE(num_hidden_layers, 0, "num_hidden_layers is 0; wanted 1 to 65536");
    REFUSE(num_hidden_layers, 65537, "num_hidden_layers is 65537; wanted 1 to 65536");
    REFUSE(hidden_size, 0, "hidden_size is 0; wanted 1 to 2147483647");
    REFUSE(intermediate_size, 0, "intermediate_size is 0");
    REFUSE(intermediate_size, (int64_t)1 << 31, "intermediate_size is 2147483648");
    REFUSE(num_attention_heads, 0, "num_attention_heads is 0");
    REFUSE(num_key_value_heads, 0, "num_key_value_heads is 0");
    REFUSE(num_key_value_heads, 3, "num_key_value_heads 3 does not divide num_attention_heads 4");
    REFUSE(head_dim, 0, "head_dim is 0");
    REFUSE(head_dim, 3, "head_dim is 3; wanted an even number");
    REFUSE(max_position_embeddings, 0, "max_position_embeddings is 0");
    REFUSE(vocab_size, (int64_t)1 << 31, "vocab_size is 2147483648");
    REFUSE(sliding_window, -1, "sliding_window is -1; wanted 0 (no window) or more");
    REFUSE(max_window_layers, -1, "max_window_layers is -1");
    REFUSE(rms_norm_eps, 0, "rms_norm_eps is 0; wanted above 0");
    REFUSE(rms_norm_eps, INFINITY, "rms_norm_eps is inf");
    REFUSE(initializer_range, -0.1, "initializer_range is -0.1; wanted 0 or above");
    REFUSE(initializer_range, NAN, "initializer_range is nan");
    REFUSE(attention_dropout, 1, "attention_dropout is 1; wanted 0 <= p < 1");
    REFUSE(attention_dropout, -0.5, "attention_dropout is -0.5");
    zr_llama_config c = TINY;
    c.sliding_window = c.max_window_layers = 0;
    c.initializer_range = c.attention_dropout = 0;
    c.num_hidden_layers = 65536;
    assert_int_equal(zr__llama_check(&c), ZR_OK);
    c.hidden_size = c.intermediate_size = INT32_MAX;
    refuse(c, "these sizes give more parameters than 63 bits count");
    c = TINY;
    c.num_hidden_layers = 65536; /* 2^62: heads alone */
    c.num_attention_heads = c.num_key_value_heads = (int64_t)1 << 15;
    c.head_dim = (int64_t)1 << 16;
    c.hidden_size = 1 << 14;
    refuse(c, "these sizes give more parameters than 63 bits count");
    c.hidden_size = 1 << 12;
    assert_int_equal(zr__llama_check(&c), ZR_OK);
}

/* Check that CONFIG.json is refused with a message. */
static void refuse_keys(const char *members, const char *message)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof text, "{\"model\": {%s}}", members);
    zr_status st = zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config);
    if (st == ZR_OK) st = zr_config_resolve(config, 1);
    if (st != ZR_ERR_CONFIG || !strstr(zr_error_message(), message)) fail_msg("%s: %s", message, zr_error_message());
    zr_config_destroy(&config);
}

static void keys_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    refuse_keys("\"type\": \"llama\", \"hidden_size\": 90, \"num_attention_heads\": 4",
                "hidden_size 90 is not a multiple of num_attention_heads 4");
    refuse_keys("\"type\": \"llama\", \"rope_theta\": 1", "rope_theta is 1; wanted a number above 1");
    refuse_keys(ROPE("\"factor\": 2"), "rope_scaling.factor is 2, but rope_scaling.rope_type is \"default\"");
    refuse_keys(ROPE("\"rope_type\": \"linear\""), "rope_scaling.factor is missing or below 1");
    refuse_keys(ROPE("\"rope_type\": \"linear\", \"factor\": 0.5"), "rope_scaling.factor is missing or below 1");
    refuse_keys(ROPE("\"rope_type\": \"yarn\", \"factor\": 2, \"beta_slow\": 0"), "they are 0 and 32");
    refuse_keys(ROPE("\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1"), "they are 1 and 1");
    refuse_keys(ROPE("\"rope_type\": \"llama3\", \"factor\": 2, \"high_freq_factor\": 4"),
                "\"llama3\" needs low_freq_factor above 0 and a larger high_freq_factor");
    refuse_keys(ROPE("\"rope_type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4, \"high_freq_factor\": 4"),
                "\"llama3\" needs low_freq_factor above 0 and a larger high_freq_factor");
    zr_graph_spec spec = TRAIN;
    spec.tensor = 3;
    zr_graph *graph = model_build(LLAMA, &spec, ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "num_attention_heads 4 cannot be shared by 3 tensor-parallel ranks"));
    zr_graph_destroy(&graph);
    spec = TRAIN;
    spec.seq = 65;
    graph = model_build(LLAMA, &spec, ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "a sequence of 65 tokens is longer than max_position_embeddings, 64"));
    zr_graph_destroy(&graph);
    spec = DECODE;
    spec.cache_len = 65;
    graph = model_build(QWEN2, &spec, ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "a sequence of 65 tokens is longer than max_position_embeddings, 64"));
    zr_graph_destroy(&graph);
    spec.cache_len = 64;
    graph = model_build(QWEN2, &spec, ZR_OK);
    zr_graph_destroy(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_is_what_its_keys_say),
        cmocka_unit_test(llama_is_what_its_keys_say),
        cmocka_unit_test(qwen2_decodes),
        cmocka_unit_test(rotary_positions_are_scaled),
        cmocka_unit_test(windows_are_where_the_keys_put_them),
        cmocka_unit_test(auto_is_the_smallest_smollm2),
        cmocka_unit_test(searches_keep_ratios),
        cmocka_unit_test(numbers_have_their_defaults_and_ranges),
        cmocka_unit_test(presets_have_their_constants),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(keys_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
