//TEST timeout=20
/* BERT op by op, for each task: its parameters, units, inputs and outputs, the sizes that "auto" means, and the
 * configurations that it refuses. And the chain of matrices. */
#include "config/config.h"
#include "support/chain.h"
#include "model_text.h"
#include "models/families.h"

#include <math.h>

static const zr_graph_spec TRAIN = {.mode = ZR_MODE_TRAIN,
                                    .batch = 2,
                                    .seq = 8,
                                    .dtype = ZR_F32,
                                    .grad_dtype = ZR_F32,
                                    .tensor = 1,
                                    .documents = true,
                                    .predictions = 2,
                                    .samples = 3};

static zr_graph_spec spec_of(zr_mode mode, int64_t tensor, bool sequence)
{
    zr_graph_spec spec = TRAIN;
    spec.mode = mode;
    spec.tensor = tensor;
    spec.sequence = sequence;
    return spec;
}

/* ---- ops -------------------------------------------------------------------------------------- */

static const char PRELN[] = "\"type\":\"bert-preln\",\"num_hidden_layers\":2,\"hidden_size\":16"
                            ",\"num_attention_heads\":4,\"vocab_size\":32,\"max_position_embeddings\":64"
                            ",\"hidden_dropout_prob\":0.25,\"attention_probs_dropout_prob\":0.125"
                            ",\"initializer_range\":0.5,\"layer_norm_eps\":0.001";

static void pretraining_with_norms_before(void **state)
{
    (void)state;
    zr_graph *graph = model_build(PRELN, &TRAIN, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8", "in2: 2 2", "in3: 2 2", "in4: 2 3", "in5: 2 3",
                 "in6: 2 8");
    EXPECT_LINES(
        model_params(graph, 0), "embedding: bert.embeddings.word_embeddings.weight (32, 16) normal 0.5",
        "embedding: bert.embeddings.position_embeddings.weight (64, 16) normal 0.5",
        "embedding: bert.embeddings.token_type_embeddings.weight (2, 16) normal 0.5",
        "embedding: bert.embeddings.LayerNorm.weight (16) ones", "embedding: bert.embeddings.LayerNorm.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.PreAttentionLayerNorm.weight (16) ones",
        "layer.0: bert.encoder.layer.0.PreAttentionLayerNorm.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.attention.self.query.weight (16, 16) normal 0.5",
        "layer.0: bert.encoder.layer.0.attention.self.query.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.attention.self.key.weight (16, 16) normal 0.5",
        "layer.0: bert.encoder.layer.0.attention.self.key.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.attention.self.value.weight (16, 16) normal 0.5",
        "layer.0: bert.encoder.layer.0.attention.self.value.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.attention.output.dense.weight (16, 16) normal 0.25",
        "layer.0: bert.encoder.layer.0.attention.output.dense.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.PostAttentionLayerNorm.weight (16) ones",
        "layer.0: bert.encoder.layer.0.PostAttentionLayerNorm.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.intermediate.dense.weight (64, 16) normal 0.5",
        "layer.0: bert.encoder.layer.0.intermediate.dense.bias (64) zeros",
        "layer.0: bert.encoder.layer.0.output.dense.weight (16, 64) normal 0.25",
        "layer.0: bert.encoder.layer.0.output.dense.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.PreAttentionLayerNorm.weight (16) ones",
        "layer.1: bert.encoder.layer.1.PreAttentionLayerNorm.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.attention.self.query.weight (16, 16) normal 0.5",
        "layer.1: bert.encoder.layer.1.attention.self.query.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.attention.self.key.weight (16, 16) normal 0.5",
        "layer.1: bert.encoder.layer.1.attention.self.key.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.attention.self.value.weight (16, 16) normal 0.5",
        "layer.1: bert.encoder.layer.1.attention.self.value.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.attention.output.dense.weight (16, 16) normal 0.25",
        "layer.1: bert.encoder.layer.1.attention.output.dense.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.PostAttentionLayerNorm.weight (16) ones",
        "layer.1: bert.encoder.layer.1.PostAttentionLayerNorm.bias (16) zeros",
        "layer.1: bert.encoder.layer.1.intermediate.dense.weight (64, 16) normal 0.5",
        "layer.1: bert.encoder.layer.1.intermediate.dense.bias (64) zeros",
        "layer.1: bert.encoder.layer.1.output.dense.weight (16, 64) normal 0.25",
        "layer.1: bert.encoder.layer.1.output.dense.bias (16) zeros",
        "heads: bert.encoder.FinalLayerNorm.weight (16) ones", "heads: bert.encoder.FinalLayerNorm.bias (16) zeros",
        "heads: cls.predictions.transform.dense.weight (16, 16) normal 0.5",
        "heads: cls.predictions.transform.dense.bias (16) zeros",
        "heads: cls.predictions.transform.LayerNorm.weight (16) ones",
        "heads: cls.predictions.transform.LayerNorm.bias (16) zeros", "heads: cls.predictions.bias (32) zeros",
        "heads: bert.pooler.dense.weight (16, 16) normal 0.5", "heads: bert.pooler.dense.bias (16) zeros",
        "heads: cls.seq_relationship.weight (2, 16) normal 0.5", "heads: cls.seq_relationship.bias (2) zeros");
    char *list = model_ops(graph, 0); /* the look-ups whose sum is op 2 may be in either order */
    assert_non_null(strstr(list, "embedding: embedding(in0, bert.embeddings.word_embeddings.weight)\n"));
    assert_non_null(strstr(list, "embedding: embedding(in1, bert.embeddings.token_type_embeddings.weight)\n"));
    assert_non_null(strstr(list, "%2 embedding: add(%"));
    zr_free(list);
    EXPECT_LINES(
        model_ops(graph, 3), "%3 embedding: position(%2, bert.embeddings.position_embeddings.weight, in6)",
        "%4 embedding: layernorm(%3, bert.embeddings.LayerNorm.weight, bert.embeddings.LayerNorm.bias) ; 0.001",
        "%5 embedding: dropout(%4) ; 0.25",
        "%6 layer.0: layernorm(%5, ~.PreAttentionLayerNorm.weight, ~.PreAttentionLayerNorm.bias) ; 0.001",
        "%7 layer.0: linear(%6, ~.attention.self.query.weight, ~.attention.self.query.bias) 1",
        "%8 layer.0: linear(%6, ~.attention.self.key.weight, ~.attention.self.key.bias) 1",
        "%9 layer.0: linear(%6, ~.attention.self.value.weight, ~.attention.self.value.bias) 1",
        "%10 layer.0: attention(%7, %8, %9, in6) 4 1 4 4 ; 0.5 0.125",
        "%11 layer.0: linear(%10, ~.attention.output.dense.weight, ~.attention.output.dense.bias) 1",
        "%12 layer.0: dropout(%11) 2 ; 0.25", "%13 layer.0: add(%5, %12) -1",
        "%14 layer.0: layernorm(%13, ~.PostAttentionLayerNorm.weight, ~.PostAttentionLayerNorm.bias) ; 0.001",
        "%15 layer.0: linear(%14, ~.intermediate.dense.weight, ~.intermediate.dense.bias) 1",
        "%16 layer.0: gelu_erf(%15)", "%17 layer.0: linear(%16, ~.output.dense.weight, ~.output.dense.bias) 1",
        "%18 layer.0: dropout(%17) 3 ; 0.25", "%19 layer.0: add(%13, %18) -1",
        "%20 layer.1: layernorm(%19, ~.PreAttentionLayerNorm.weight, ~.PreAttentionLayerNorm.bias) ; 0.001",
        "%21 layer.1: linear(%20, ~.attention.self.query.weight, ~.attention.self.query.bias) 1",
        "%22 layer.1: linear(%20, ~.attention.self.key.weight, ~.attention.self.key.bias) 1",
        "%23 layer.1: linear(%20, ~.attention.self.value.weight, ~.attention.self.value.bias) 1",
        "%24 layer.1: attention(%21, %22, %23, in6) 4 4 4 4 ; 0.5 0.125",
        "%25 layer.1: linear(%24, ~.attention.output.dense.weight, ~.attention.output.dense.bias) 1",
        "%26 layer.1: dropout(%25) 5 ; 0.25", "%27 layer.1: add(%19, %26) -1",
        "%28 layer.1: layernorm(%27, ~.PostAttentionLayerNorm.weight, ~.PostAttentionLayerNorm.bias) ; 0.001",
        "%29 layer.1: linear(%28, ~.intermediate.dense.weight, ~.intermediate.dense.bias) 1",
        "%30 layer.1: gelu_erf(%29)", "%31 layer.1: linear(%30, ~.output.dense.weight, ~.output.dense.bias) 1",
        "%32 layer.1: dropout(%31) 6 ; 0.25", "%33 layer.1: add(%27, %32) -1",
        "%34 heads: layernorm(%33, bert.encoder.FinalLayerNorm.weight, bert.encoder.FinalLayerNorm.bias) ; 0.001",
        "%35 heads: rows(in2, %34)",
        "%36 heads: linear(%35, cls.predictions.transform.dense.weight, cls.predictions.transform.dense.bias) 1",
        "%37 heads: gelu_erf(%36)",
        "%38 heads: layernorm(%37, cls.predictions.transform.LayerNorm.weight, "
        "cls.predictions.transform.LayerNorm.bias) ; 0.001",
        "%39 heads: linear_cross_entropy(%38, bert.embeddings.word_embeddings.weight, in3, cls.predictions.bias) 4 0 1",
        "%40 heads: rows(in4, %34)", "%41 heads: linear(%40, bert.pooler.dense.weight, bert.pooler.dense.bias) 1",
        "%42 heads: tanh(%41)", "%43 heads: linear(%42, cls.seq_relationship.weight, cls.seq_relationship.bias) 1",
        "%44 heads: cross_entropy(%43, in5)");
    assert_int_equal(zr_graph_units(graph), 4); /* each layer is a unit: ZeRO 3 gathers one at a time */
    assert_int_equal(zr_graph_loss_terms(graph), 2);
    assert_string_equal(zr_graph_loss_name(graph, 0), "masked_lm");
    assert_string_equal(zr_graph_loss_name(graph, 1), "next_sentence");
    assert_int_equal(zr_graph_get_output(graph), ZR_NONE);
    zr_graph_destroy(&graph);
}

#define SIZES                                                                                                          \
    "\"type\":\"bert\",\"num_hidden_layers\":1,\"hidden_size\":16,\"num_attention_heads\":4,\"vocab_size\":32,\"max_"  \
    "position_embeddings\":64,\"type_vocab_size\":3"

/* Norms after additions, on two tensor-parallel ranks that divide the tokens. */
static void pretraining_with_norms_after(void **state)
{
    (void)state;
    const zr_graph_spec spec = spec_of(ZR_MODE_EVAL, 2, true);
    zr_graph *graph = model_build(SIZES, &spec, ZR_OK);
    EXPECT_LINES(
        model_params(graph, 0), "embedding: bert.embeddings.word_embeddings.weight (32, 16) normal 0.02, cut 0/1",
        "embedding: bert.embeddings.position_embeddings.weight (64, 16) normal 0.02",
        "embedding: bert.embeddings.token_type_embeddings.weight (3, 16) normal 0.02, cut 0/1",
        "embedding: bert.embeddings.LayerNorm.weight (16) ones", "embedding: bert.embeddings.LayerNorm.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.attention.self.query.weight (16, 16) normal 0.02, cut 0/1",
        "layer.0: bert.encoder.layer.0.attention.self.query.bias (16) zeros, cut 0/1",
        "layer.0: bert.encoder.layer.0.attention.self.key.weight (16, 16) normal 0.02, cut 0/1",
        "layer.0: bert.encoder.layer.0.attention.self.key.bias (16) zeros, cut 0/1",
        "layer.0: bert.encoder.layer.0.attention.self.value.weight (16, 16) normal 0.02, cut 0/1",
        "layer.0: bert.encoder.layer.0.attention.self.value.bias (16) zeros, cut 0/1",
        "layer.0: bert.encoder.layer.0.attention.output.dense.weight (16, 16) normal 0.02, cut 1/1",
        "layer.0: bert.encoder.layer.0.attention.output.dense.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.attention.output.LayerNorm.weight (16) ones",
        "layer.0: bert.encoder.layer.0.attention.output.LayerNorm.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.intermediate.dense.weight (64, 16) normal 0.02, cut 0/1",
        "layer.0: bert.encoder.layer.0.intermediate.dense.bias (64) zeros, cut 0/1",
        "layer.0: bert.encoder.layer.0.output.dense.weight (16, 64) normal 0.02, cut 1/1",
        "layer.0: bert.encoder.layer.0.output.dense.bias (16) zeros",
        "layer.0: bert.encoder.layer.0.output.LayerNorm.weight (16) ones",
        "layer.0: bert.encoder.layer.0.output.LayerNorm.bias (16) zeros",
        "heads: cls.predictions.transform.dense.weight (16, 16) normal 0.02",
        "heads: cls.predictions.transform.dense.bias (16) zeros",
        "heads: cls.predictions.transform.LayerNorm.weight (16) ones",
        "heads: cls.predictions.transform.LayerNorm.bias (16) zeros", "heads: cls.predictions.bias (32) zeros, cut 0/1",
        "heads: bert.pooler.dense.weight (16, 16) normal 0.02", "heads: bert.pooler.dense.bias (16) zeros",
        "heads: cls.seq_relationship.weight (2, 16) normal 0.02", "heads: cls.seq_relationship.bias (2) zeros");
    EXPECT_LINES(
        model_ops(graph, 5), "%5 embedding: position(%4, bert.embeddings.position_embeddings.weight, in6) 8",
        "%6 embedding: layernorm(%5, bert.embeddings.LayerNorm.weight, bert.embeddings.LayerNorm.bias) ; 1e-12",
        "%7 layer.0: tensor_tokens(%6) 2 8",
        "%8 layer.0: linear(%7, ~.attention.self.query.weight, ~.attention.self.query.bias) 1",
        "%9 layer.0: linear(%7, ~.attention.self.key.weight, ~.attention.self.key.bias) 1",
        "%10 layer.0: linear(%7, ~.attention.self.value.weight, ~.attention.self.value.bias) 1",
        "%11 layer.0: attention(%8, %9, %10, in6) 2 1 4 4 ; 0.5",
        "%12 layer.0: linear(%11, ~.attention.output.dense.weight, -) 1", "%13 layer.0: tensor_scatter(%12)",
        "%14 layer.0: bias(%13, ~.attention.output.dense.bias)", "%15 layer.0: add(%6, %14) -1",
        "%16 layer.0: layernorm(%15, ~.attention.output.LayerNorm.weight, ~.attention.output.LayerNorm.bias) ; 1e-12",
        "%17 layer.0: tensor_tokens(%16) 2 8",
        "%18 layer.0: linear(%17, ~.intermediate.dense.weight, ~.intermediate.dense.bias) 1",
        "%19 layer.0: gelu_erf(%18)", "%20 layer.0: linear(%19, ~.output.dense.weight, -) 1",
        "%21 layer.0: tensor_scatter(%20)", "%22 layer.0: bias(%21, ~.output.dense.bias)",
        "%23 layer.0: add(%16, %22) -1",
        "%24 layer.0: layernorm(%23, ~.output.LayerNorm.weight, ~.output.LayerNorm.bias) ; 1e-12",
        "%25 heads: rows(in2, %24) 8", "%26 heads: tensor_sum(%25)",
        "%27 heads: linear(%26, cls.predictions.transform.dense.weight, cls.predictions.transform.dense.bias) 1",
        "%28 heads: gelu_erf(%27)",
        "%29 heads: layernorm(%28, cls.predictions.transform.LayerNorm.weight, "
        "cls.predictions.transform.LayerNorm.bias) ; 1e-12",
        "%30 heads: linear_cross_entropy_part(%29, bert.embeddings.word_embeddings.weight, in3, cls.predictions.bias) "
        "4 32 1 16 0 0 1",
        "%31 heads: tensor_gather(%30)",
        "%32 heads: linear_cross_entropy_join(%31, %29, bert.embeddings.word_embeddings.weight, in3, "
        "cls.predictions.bias) 4 32 1 16 0 0 1",
        "%33 heads: rows(in4, %24) 8", "%34 heads: tensor_sum(%33)",
        "%35 heads: linear(%34, bert.pooler.dense.weight, bert.pooler.dense.bias) 1", "%36 heads: tanh(%35)",
        "%37 heads: linear(%36, cls.seq_relationship.weight, cls.seq_relationship.bias) 1",
        "%38 heads: cross_entropy(%37, in5)");
    assert_int_equal(zr_graph_units(graph), 3);
    const zr_shape hits = {2, {2, 2}}; /* of each masked token */
    assert_true(zr_shape_equal(&zr_graph_value(graph, zr_graph_get_output(graph))->type.shape, &hits));
    zr_graph_destroy(&graph);
}

static void classification(void **state)
{
    (void)state;
    static const char model[] =
        SIZES ",\"task\":\"sequence_classification\",\"num_labels\":3,\"classifier_dropout\":0.5";
    zr_graph *graph = model_build(model, &TRAIN, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8", "in2: 2 3", "in3: 2 3", "in4: 2 8");
    EXPECT_LINES(model_params(graph, 21), "heads: bert.pooler.dense.weight (16, 16) normal 0.02",
                 "heads: bert.pooler.dense.bias (16) zeros", "heads: classifier.weight (3, 16) normal 0.02",
                 "heads: classifier.bias (3) zeros");
    EXPECT_LINES(model_ops(graph, 20), "%20 heads: rows(in2, %19)",
                 "%21 heads: linear(%20, bert.pooler.dense.weight, bert.pooler.dense.bias) 1", "%22 heads: tanh(%21)",
                 "%23 heads: dropout(%22) 4 ; 0.5", "%24 heads: linear(%23, classifier.weight, classifier.bias) 1",
                 "%25 heads: cross_entropy(%24, in3)");
    assert_int_equal(zr_graph_loss_terms(graph), 1);
    assert_string_equal(zr_graph_loss_name(graph, 0), "classification");
    assert_int_equal(zr_graph_get_output(graph), ZR_NONE);
    zr_graph_destroy(&graph);
    const zr_graph_spec eval = spec_of(ZR_MODE_EVAL, 1, false);
    graph = model_build(model, &eval, ZR_OK);
    const zr_shape logits = {3, {2, 3, 3}};
    assert_true(zr_shape_equal(&zr_graph_value(graph, zr_graph_get_output(graph))->type.shape, &logits));
    zr_graph_destroy(&graph);
    /* without a dropout of its own, the classifier has that of the hidden layers */
    graph = model_build(SIZES ",\"task\":\"sequence_classification\",\"hidden_dropout_prob\":0.375", &TRAIN, ZR_OK);
    char *list = model_ops(graph, 0), *at = strstr(list, "heads: dropout");
    assert_non_null(strstr(at, "; 0.375"));
    assert_non_null(strstr(at, "linear(%23, classifier.weight"));
    zr_free(list);
    zr_graph_destroy(&graph);
}

/* Masked tokens alone: the head of pre-training without the pooler and the labels of pairs. */
static void masked_tokens(void **state)
{
    (void)state;
    static const char model[] = SIZES ",\"task\":\"masked_lm\"";
    zr_graph *graph = model_build(model, &TRAIN, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8", "in2: 2 2", "in3: 2 2", "in4: 2 8");
    EXPECT_LINES(model_params(graph, 20), "layer.0: bert.encoder.layer.0.output.LayerNorm.bias (16) zeros",
                 "heads: cls.predictions.transform.dense.weight (16, 16) normal 0.02",
                 "heads: cls.predictions.transform.dense.bias (16) zeros",
                 "heads: cls.predictions.transform.LayerNorm.weight (16) ones",
                 "heads: cls.predictions.transform.LayerNorm.bias (16) zeros",
                 "heads: cls.predictions.bias (32) zeros");
    assert_int_equal(zr_graph_loss_terms(graph), 1);
    assert_string_equal(zr_graph_loss_name(graph, 0), "masked_lm");
    zr_graph_destroy(&graph);
    zr_graph_spec eval = spec_of(ZR_MODE_EVAL, 1, false);
    graph = model_build(model, &eval, ZR_OK);
    const zr_shape hits = {2, {2, 2}};
    assert_true(zr_shape_equal(&zr_graph_value(graph, zr_graph_get_output(graph))->type.shape, &hits));
    zr_graph_destroy(&graph);
    eval.predictions = 0;
    graph = model_build(model, &eval, ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "0 masked tokens"));
    zr_graph_destroy(&graph);
}

static void tags(void **state)
{
    (void)state;
    static const char model[] = SIZES ",\"task\":\"token_classification\",\"num_labels\":5,\"classifier_dropout\":0.5";
    zr_graph *graph = model_build(model, &TRAIN, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8", "in2: 2 2", "in3: 2 2", "in4: 2 8");
    EXPECT_LINES(model_params(graph, 20), "layer.0: bert.encoder.layer.0.output.LayerNorm.bias (16) zeros",
                 "heads: classifier.weight (5, 16) normal 0.02", "heads: classifier.bias (5) zeros");
    EXPECT_LINES(model_ops(graph, 20), "%20 heads: rows(in2, %19)", "%21 heads: dropout(%20) 4 ; 0.5",
                 "%22 heads: linear(%21, classifier.weight, classifier.bias) 1", "%23 heads: cross_entropy(%22, in3)");
    assert_string_equal(zr_graph_loss_name(graph, 0), "tag");
    zr_graph_destroy(&graph);
    for (int cut = 0; cut < 2; cut++) { /* also where ranks divide the tokens, each has all words */
        const zr_graph_spec eval = spec_of(ZR_MODE_EVAL, cut ? 2 : 1, cut);
        graph = model_build(model, &eval, ZR_OK);
        const zr_shape logits = {3, {2, 2, 5}};
        assert_true(zr_shape_equal(&zr_graph_value(graph, zr_graph_get_output(graph))->type.shape, &logits));
        zr_graph_destroy(&graph);
    }
}

static void answers(void **state)
{
    (void)state;
    static const char model[] = SIZES ",\"task\":\"question_answering\"";
    zr_graph_spec spec = spec_of(ZR_MODE_EVAL, 1, false);
    zr_graph *graph = model_build(model, &spec, ZR_OK);
    EXPECT_LINES(model_inputs(graph), "in0: 2 8", "in1: 2 8", "in2: 2 3 2", "in3: 2 8");
    EXPECT_LINES(model_params(graph, 20), "layer.0: bert.encoder.layer.0.output.LayerNorm.bias (16) zeros",
                 "heads: qa_outputs.weight (2, 16) normal 0.02", "heads: qa_outputs.bias (2) zeros");
    EXPECT_LINES(model_ops(graph, 16),
                 "%16 layer.0: layernorm(%15, ~.output.LayerNorm.weight, ~.output.LayerNorm.bias) ; 1e-12",
                 "%17 heads: linear(%16, qa_outputs.weight, qa_outputs.bias) 1",
                 "%18 heads: place_cross_entropy(%17, in2, in3)");
    assert_string_equal(zr_graph_loss_name(graph, 0), "answer");
    const zr_shape logits = {3, {2, 8, 2}};
    assert_true(zr_shape_equal(&zr_graph_value(graph, zr_graph_get_output(graph))->type.shape, &logits));
    zr_graph_destroy(&graph);
    for (int i = 0; i < 3; i++) { /* no output in training, nor where no rank has the logits of all tokens */
        spec = spec_of(i ? ZR_MODE_EVAL : ZR_MODE_TRAIN, i ? 2 : 1, i == 2);
        graph = model_build(model, &spec, ZR_OK);
        assert_true((zr_graph_get_output(graph) == ZR_NONE) == (i != 1));
        zr_graph_destroy(&graph);
    }
}

/* Check which matrices of the head's unit Muon trains. */
static void check_hidden(const char *task, const zr_lora *lora, const char *wanted)
{
    char model[512], found[512] = "";
    zr_graph_spec spec = TRAIN;
    zr_graph *graph = NULL;
    spec.hidden_apart = true;
    snprintf(model, sizeof model, "%s%s", SIZES, task);
    zr_config *config = model_config(model);
    zr_model bert = zr_family_model(config->model.family, &config->model.config);
    if (lora) bert.lora = *lora;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_model_build(&bert, graph);
    if (zr_graph_finish(graph) != ZR_OK) fail_msg("%s", zr_error_message());
    for (int32_t i = 0; i < zr_graph_params(graph); i++) {
        const zr_param_info *param = zr_graph_param(graph, i);
        const bool block = strstr(param->name, ".layer.");
        if (block) assert_true(param->hidden == (param->whole.ndim == 2 && !param->frozen));
        if (!block && param->hidden) strcat(strcat(found, " "), param->name);
    }
    assert_string_equal(found, wanted);
    zr_graph_destroy(&graph);
    zr_config_destroy(&config);
}

static void hidden_matrices_before_the_head(void **state)
{
    (void)state;
    static const char classes[] = ",\"task\":\"sequence_classification\"";
    const zr_lora all = {.rank = 2, .alpha = 2, .targets = "dense\nclassifier"};
    check_hidden("", NULL, " cls.predictions.transform.dense.weight bert.pooler.dense.weight");
    check_hidden(classes, NULL, " bert.pooler.dense.weight");
    check_hidden(",\"task\":\"question_answering\"", NULL, "");
    check_hidden(classes, &all, " bert.pooler.dense.lora_A.weight bert.pooler.dense.lora_B.weight");
}

/* ---- sizes ------------------------------------------------------------------------------------- */

static const zr_bert_config *bert(const zr_config *config)
{
    return (const zr_bert_config *)&config->model.config;
}

static void auto_is_bert_base(void **state)
{
    (void)state;
    zr_config *config = model_config("\"type\": \"bert\"");
    const zr_bert_config *c = bert(config);
    assert_int_equal(c->num_hidden_layers, 12);
    assert_int_equal(c->num_attention_heads, 12);
    assert_int_equal(c->hidden_size, 768);
    assert_int_equal(c->intermediate_size, 3072);
    assert_int_equal(c->max_position_embeddings, 512);
    assert_int_equal(c->vocab_size, 30522);
    assert_int_equal(c->type_vocab_size, 2);
    assert_int_equal(c->num_labels, 2);
    zr_model_sizes sizes = zr_config_sizes(config);
    sizes.width = 384;
    zr__config_resize(config, &sizes); /* the MLP stays four times as wide */
    assert_int_equal(bert(config)->intermediate_size, 1536);
    zr_config_destroy(&config);
    zr_model_config preset;
    assert_int_equal(zr_family_find_preset("bert-mini", NULL, &preset), ZR_OK);
    c = (const zr_bert_config *)&preset;
    assert_true(c->num_hidden_layers == 4 && c->num_attention_heads == 4 && c->hidden_size == 256);
    assert_true(c->intermediate_size == 1024 && c->layer_norm_eps == 1e-12 && c->initializer_range == 0.02);
    assert_true(c->max_position_embeddings == 512 && c->vocab_size == 30522 && c->num_labels == 2);
}

static void numbers_have_their_defaults_and_ranges(void **state)
{
    (void)state;
    EXPECT_LINES(model_fields("bert"), "num_hidden_layers: \"auto\" | 12, 1 to 9.00719925474e+15",
                 "num_attention_heads: \"auto\" | 12, 1 to 9.00719925474e+15",
                 "hidden_size: \"auto\" | 768, 1 to 9.00719925474e+15",
                 "intermediate_size: \"auto\" | 3072, 1 to 9.00719925474e+15",
                 "max_position_embeddings: \"auto\" | 512, 1 to 9.00719925474e+15",
                 "vocab_size: \"auto\" | 30522, 1 to 9.00719925474e+15", "type_vocab_size: 2, 1 to 2147483647",
                 "hidden_dropout_prob:, 0 to 0.999", "attention_probs_dropout_prob:, 0 to 0.999",
                 "layer_norm_eps: 1e-12, 1e-12 to 1", "initializer_range: 0.02, 0 to 10", "num_labels: 2, 2 to 1048576",
                 "classifier_dropout:, 0 to 0.999");
    EXPECT_LINES(model_fields("gpt2"), "n_layer: \"auto\" | 12, 1 to 9.00719925474e+15",
                 "n_head: \"auto\" | 12, 1 to 9.00719925474e+15", "n_embd: \"auto\" | 768, 1 to 9.00719925474e+15",
                 "n_positions: \"auto\" | 1024, 1 to 9.00719925474e+15",
                 "vocab_size: \"auto\" | 50257, 1 to 9.00719925474e+15", "dropout:, 0 to 0.999",
                 "embd_pdrop:, 0 to 0.999", "resid_pdrop:, 0 to 0.999", "attn_pdrop:, 0 to 0.999",
                 "layer_norm_epsilon: 1e-5, 1e-12 to 1", "initializer_range: 0.02, 0 to 10",
                 "n_inner: null, 1 to 9.00719925474e+15");
}

/* ---- refusals ---------------------------------------------------------------------------------- */

static const zr_bert_config TINY = {.num_hidden_layers = 2,
                                    .num_attention_heads = 4,
                                    .hidden_size = 16,
                                    .intermediate_size = 24,
                                    .max_position_embeddings = 64,
                                    .vocab_size = 32,
                                    .type_vocab_size = 2,
                                    .layer_norm_eps = 1e-12,
                                    .initializer_range = 0.02,
                                    .task = ZR_BERT_CLASSIFICATION,
                                    .num_labels = 2,
                                    .classifier_dropout = NAN};

static void refuse_spec(const zr_bert_config *config, const zr_graph_spec *spec, zr_status status, const char *text)
{
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(spec, &graph), ZR_OK);
    zr_bert(config).build(graph, config);
    assert_int_equal(zr_graph_finish(graph), status);
    if (!strstr(zr_error_message(), text)) fail_msg("%s: %s", text, zr_error_message());
    zr_graph_destroy(&graph);
}

#define REFUSE(field, value, text)                                                                                     \
    do {                                                                                                               \
        zr_bert_config config = TINY;                                                                                  \
        config.field = value;                                                                                          \
        if (zr__bert_check(&config) != ZR_ERR_CONFIG || !strstr(zr_error_message(), text))                             \
            fail_msg("%s: %s", text, zr_error_message());                                                              \
        refuse_spec(&config, &TRAIN, ZR_ERR_CONFIG, text);                                                             \
    } while (0)

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    const int64_t many = (int64_t)1 << 31;
    assert_int_equal(zr__bert_check(&TINY), ZR_OK);
    REFUSE(num_hidden_layers, 0, "num_hidden_layers is 0; wanted 1 to 65536");
    REFUSE(num_hidden_layers, 65537, "num_hidden_layers is 65537; wanted 1 to 65536");
    REFUSE(num_attention_heads, 0, "num_attention_heads is 0");
    REFUSE(num_attention_heads, 5, "hidden_size 16 is not a multiple of num_attention_heads 5");
    REFUSE(hidden_size, 0, "hidden_size is 0; wanted 1 to 2147483647");
    REFUSE(intermediate_size, many, "intermediate_size is 2147483648; wanted 1 to 2147483647");
    REFUSE(max_position_embeddings, 0, "max_position_embeddings is 0");
    REFUSE(vocab_size, many, "vocab_size is 2147483648");
    REFUSE(type_vocab_size, 0, "type_vocab_size is 0");
    REFUSE(hidden_dropout_prob, 1, "hidden_dropout_prob is 1; wanted 0 <= p < 1");
    REFUSE(attention_probs_dropout_prob, -0.5, "attention_probs_dropout_prob is -0.5; wanted 0 <= p < 1");
    REFUSE(layer_norm_eps, 0, "layer_norm_eps is 0; wanted above 0");
    REFUSE(layer_norm_eps, INFINITY, "layer_norm_eps is inf");
    REFUSE(initializer_range, -1, "initializer_range is -1; wanted 0 or above");
    REFUSE(initializer_range, NAN, "initializer_range is nan");
    REFUSE(task, -1, "task is -1");
    REFUSE(task, 5, "task is 5");
    REFUSE(num_labels, 1, "num_labels is 1; wanted 2 to 1048576 labels");
    REFUSE(num_labels, 1048577, "num_labels is 1048577; wanted 2 to 1048576 labels");
    REFUSE(classifier_dropout, 1, "classifier_dropout is 1; wanted 0 <= p < 1");
    zr_bert_config c = TINY;
    c.task = ZR_BERT_PRETRAINING; /* labels are not read */
    c.num_labels = 0;
    c.classifier_dropout = 2;
    c.initializer_range = 0;
    c.num_hidden_layers = 65536;
    assert_int_equal(zr__bert_check(&c), ZR_OK);
    c.hidden_size = (int64_t)1 << 22; /* 2^62 elements of attention */
    assert_int_equal(zr__bert_check(&c), ZR_ERR_CONFIG);
    assert_non_null(
        strstr(zr_error_message(), "num_hidden_layers 65536 with hidden_size 4194304 gives more parameters"));
    c.hidden_size = (int64_t)1 << 21;
    assert_int_equal(zr__bert_check(&c), ZR_OK);
    c.intermediate_size = INT32_MAX; /* 2^69 of the MLP */
    assert_int_equal(zr__bert_check(&c), ZR_ERR_CONFIG);
}

static void impossible_rows_are_refused(void **state)
{
    (void)state;
    zr_graph_spec spec = TRAIN;
    spec.seq = 65;
    refuse_spec(&TINY, &spec, ZR_ERR_CONFIG, "a sequence of 65 tokens is longer than max_position_embeddings, 64");
    spec.seq = 64;
    spec.tensor = 3;
    refuse_spec(&TINY, &spec, ZR_ERR_CONFIG, "num_attention_heads 4 cannot be shared by 3 tensor-parallel ranks");
    spec.tensor = 1;
    spec.samples = 0;
    refuse_spec(&TINY, &spec, ZR_ERR_CONFIG, "0 samples; wanted at least 1 of each");
    zr_bert_config c = TINY;
    c.task = ZR_BERT_PRETRAINING;
    spec.samples = 1;
    spec.predictions = 0;
    refuse_spec(&c, &spec, ZR_ERR_CONFIG, "a row has 0 masked tokens and 1 samples");
    const zr_graph_spec decode = {.mode = ZR_MODE_DECODE,
                                  .batch = 1,
                                  .seq = 1,
                                  .cache_len = 8,
                                  .dtype = ZR_F32,
                                  .grad_dtype = ZR_F32,
                                  .tensor = 1};
    refuse_spec(&TINY, &decode, ZR_ERR_UNSUPPORTED, "bert: an encoder cannot decode");
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK); /* 64 tokens, and no masked ones of labels */
    zr_bert(&TINY).build(graph, &TINY);
    assert_int_equal(zr_graph_finish(graph), ZR_OK);
    zr_graph_destroy(&graph);
}

/* ---- the chain ----------------------------------------------------------------------------------- */

static zr_graph *chain(chain_config config, zr_graph_spec spec, zr_status status)
{
    const zr_model model = chain_model(&config);
    zr_graph *graph = NULL;
    assert_string_equal(model.name, "chain");
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    model.build(graph, model.config);
    assert_int_equal(zr_graph_finish(graph), status);
    return graph;
}

static void chains_alternate_their_sizes_and_cuts(void **state)
{
    (void)state;
    const zr_graph_spec eval = {
        .mode = ZR_MODE_EVAL, .batch = 2, .seq = 3, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 2};
    zr_graph *graph = chain((chain_config){4, 8, 6}, eval, ZR_OK);
    EXPECT_LINES(model_params(graph, 0), "0: 0.weight (8, 6) normal 0.02, cut 1/1",
                 "1: 1.weight (6, 8) normal 0.02, cut 0/1", "2: 2.weight (8, 6) normal 0.02, cut 1/1",
                 "3: 3.weight (6, 8) normal 0.02, cut 0/1");
    assert_int_equal(zr_graph_param_elems(graph), 4 * 8 * 6);
    zr_graph_destroy(&graph);
    static const chain_config wrong[] = {{0, 8, 6}, {65537, 8, 6}, {1, 0, 6}, {1, 8, 0}, {3, 8, 6}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        graph = chain(wrong[i], eval, ZR_ERR_CONFIG);
        assert_non_null(strstr(zr_error_message(), i == 4 ? "3 matrices cannot be shared" : "wanted 1 to 65536"));
        zr_graph_destroy(&graph);
    }
    zr_graph_spec one = eval;
    one.tensor = 1;
    graph = chain(wrong[4], one, ZR_OK);
    zr_graph_destroy(&graph);
    one = (zr_graph_spec){.mode = ZR_MODE_DECODE,
                          .batch = 1,
                          .seq = 1,
                          .cache_len = 8,
                          .dtype = ZR_F32,
                          .grad_dtype = ZR_F32,
                          .tensor = 1};
    graph = chain((chain_config){2, 8, 6}, one, ZR_ERR_UNSUPPORTED);
    zr_graph_destroy(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pretraining_with_norms_before),
        cmocka_unit_test(pretraining_with_norms_after),
        cmocka_unit_test(classification),
        cmocka_unit_test(masked_tokens),
        cmocka_unit_test(tags),
        cmocka_unit_test(answers),
        cmocka_unit_test(hidden_matrices_before_the_head),
        cmocka_unit_test(auto_is_bert_base),
        cmocka_unit_test(numbers_have_their_defaults_and_ranges),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(impossible_rows_are_refused),
        cmocka_unit_test(chains_alternate_their_sizes_and_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
