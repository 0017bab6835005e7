//TEST timeout=120
/* How models are divided into the stages of a pipeline: every family, frozen and with adapters, and by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_ways.h"

/* ---- families ---------------------------------------------------------------------------------- */

static const zr_llama_config llama = {.num_hidden_layers = 5,
                                      .num_attention_heads = 2,
                                      .num_key_value_heads = 1,
                                      .head_dim = 16,
                                      .hidden_size = 32,
                                      .intermediate_size = 48,
                                      .max_position_embeddings = 64,
                                      .vocab_size = 67,
                                      .rms_norm_eps = 1e-5,
                                      .initializer_range = 0.02,
                                      .rotary = {.width = 16, .theta = 10000}};
static const zr_bert_config bert = {.num_hidden_layers = 5,
                                    .num_attention_heads = 2,
                                    .hidden_size = 32,
                                    .intermediate_size = 48,
                                    .max_position_embeddings = 64,
                                    .vocab_size = 67,
                                    .type_vocab_size = 2,
                                    .layer_norm_eps = 1e-12,
                                    .initializer_range = 0.02,
                                    .num_labels = 3,
                                    .classifier_dropout = NAN};

/* Return the unit of the table of words. */
static int32_t unit_of_table(const zr_graph *g)
{
    int32_t p = 0;
    while (!strstr(zr_graph_param(g, p)->name, "wte.") && !strstr(zr_graph_param(g, p)->name, "embed_tokens.") &&
           !strstr(zr_graph_param(g, p)->name, "word_embeddings."))
        p++;
    return zr_graph_param(g, p)->unit;
}

/* Check that a model is planned on 2 to 4 pipeline ranks, in every schedule, and that the proof holds. `last`
 * tells which rank must have the table of words: the last rank, unless the schedule is a V, or rank 0. */
static void try_model(const zr_model *model, bool last)
{
    for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++)
        for (int P = 2; P <= 4; P++)
            for (int stage = 0; stage <= 3; stage += 3) {
                zr_layout l = layout_of(stage, 2, ZR_BF16, 2 * P);
                l.predictions = 3;
                l.samples = 1;
                l.pipeline = P;
                l.pipeline_schedule = (zr_pipe_schedule)s;
                l.chunks = s == ZR_PIPELINE_ZB_V ? 2 : 1;
                l.recompute = stage ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
                l.tied_apart = last && s != ZR_PIPELINE_ZB_V && P % 2 == 1;
                if (s == ZR_PIPELINE_ZB_V && P > 3) continue; /* 5 layers are fewer than 8 stages */
                zr_plans plans;
                zr_status st = ways_plan_model(model, l, &plans);
                if (st == ZR_OK) st = zr_plans_check(&plans);
                if (st != ZR_OK) fail_msg("%s, schedule %d on %d ranks: %s", model->name, s, P, zr_error_message());
                const int32_t role = last && s != ZR_PIPELINE_ZB_V ? P - 1 : 0;
                const zr_plan_unit *table =
                    &plans.role[role]->unit[unit_of_table(plans.role[role]->graph[ZR_SCHEDULE_TRAIN])];
                assert_true(table->held && table->owner == (l.tied_apart ? 0 : role));
                ways_drop(&plans);
            }
}

static void test_families(void **state)
{
    (void)state;
    const zr_gpt2_config gpt2 = ways_deeper(5);
    zr_model m = zr_gpt2(&gpt2);
    try_model(&m, true);
    m.frozen = "h.0.*\nh.1.*";
    try_model(&m, true);
    m.frozen = "wte.*\nwpe.*\nh.3.*\nh.4.*\nln_f.*"; /* the last ranks train nothing */
    try_model(&m, true);
    zr_llama_config decoder = llama;
    m = zr_llama(&decoder);
    try_model(&m, false);
    decoder.tie_word_embeddings = true;
    try_model(&m, true);
    m.lora = (zr_lora){.targets = "q_proj\nv_proj", .rank = 2, .alpha = 4};
    try_model(&m, true);
    zr_bert_config encoder = bert;
    m = zr_bert(&encoder);
    try_model(&m, true); /* the head of masked tokens shares the table of words */
    encoder.pre_layer_norm = true;
    encoder.task = ZR_BERT_CLASSIFICATION;
    try_model(&m, false);
    encoder.task = ZR_BERT_ANSWERS;
    try_model(&m, false);
    encoder.task = ZR_BERT_TAGS;
    try_model(&m, false);
    encoder.task = ZR_BERT_MASKED_LM;
    try_model(&m, true);
}

/* A model whose blocks share their weights. */
static void build_shared(zr_graph *graph, const void *config)
{
    (void)config;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = 0.02};
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, ZR_SHAPE(spec->batch, spec->seq)),
             targets = zr_input(graph, "targets", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_unit(graph, "embedding");
    zr_value x = zr_embedding(graph, tokens, zr_param(graph, init, ZR_SHAPE(64, 32), "table"));
    zr_value shared = ZR_NONE;
    for (int64_t i = 0; i < 4; i++) {
        zr_graph_unit(graph, "h.%d", (int)i);
        if (i == 0) shared = zr_param(graph, init, ZR_SHAPE(32, 32), "shared");
        x = zr_add(graph, x, zr_linear(graph, x, shared, ZR_NONE, false));
    }
    zr_graph_unit(graph, "final");
    zr_value head = zr_param(graph, init, ZR_SHAPE(64, 32), "head");
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, head, targets));
}

/* ---- by hand ----------------------------------------------------------------------------------- */

/* Return the number of units of a stage whose forward pass the stage runs. */
static int32_t units_of(const zr_plan *plan, int32_t stage)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    int32_t n = 0, before = -1;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (op->backward || plan->stage[ZR_SCHEDULE_TRAIN][i] != stage) continue;
        n += op->unit != before;
        before = op->unit;
    }
    return n;
}

/* Check the units of each stage. If a table is tied, the embedding runs beside the head. */
static void try_units(const zr_model *model, zr_layout l, bool tied)
{
    zr_plans plans;
    const int32_t stages = l.n_pipeline_units;
    if (ways_plan_model(model, l, &plans) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_plans_check(&plans) != ZR_OK) fail_msg("%s", zr_error_message());
    const bool beside = tied && l.pipeline_schedule != ZR_PIPELINE_ZB_V;
    for (int32_t s = 0; s < stages; s++)
        assert_int_equal(units_of(plans.role[0], s), l.pipeline_units[s] + (s == 0 && !beside) + (s + 1 == stages));
    assert_int_equal(units_of(plans.role[0], stages), beside);
    ways_drop(&plans);
}

static void refuse_units(const zr_model *model, zr_layout l, const char *wanted)
{
    zr_plans plans;
    assert_int_equal(ways_plan_model(model, l, &plans), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), wanted)) fail_msg("\"%s\" without \"%s\"", zr_error_message(), wanted);
    ways_drop(&plans);
}

static void test_by_hand(void **state)
{
    (void)state;
    const zr_gpt2_config gpt2 = ways_deeper(14);
    zr_llama_config decoder = llama;
    decoder.num_hidden_layers = 14;
    const zr_model tied = zr_gpt2(&gpt2), apart = zr_llama(&decoder);
    static const int32_t even[] = {3, 4, 4, 3}, odd[] = {1, 11, 1, 1}, halves[] = {9, 5}, zero[] = {4, 6, 4, 0},
                         below[] = {9, 9, -5, 1};
    zr_layout l = layout_of(2, 2, ZR_BF16, 4);
    l.pipeline = 4;
    l.n_pipeline_units = 4;
    l.pipeline_units = even;
    try_units(&tied, l, true);
    try_units(&apart, l, false);
    l.pipeline_units = odd;
    try_units(&tied, l, true);
    try_units(&apart, l, false);
    l.pipeline = l.chunks = 2;
    l.pipeline_schedule = ZR_PIPELINE_ZB_V;
    try_units(&tied, l, true);
    l.pipeline_schedule = ZR_PIPELINE_INTERLEAVED;
    try_units(&apart, l, false);
    l.pipeline_units = zero;
    refuse_units(&tied, l, "parallel.pipeline_units gives 0 blocks to stage 3: at least 1 is wanted");
    l.pipeline_units = below;
    refuse_units(&tied, l, "parallel.pipeline_units gives -5 blocks to stage 2");
    l.pipeline_units = halves;
    l.n_pipeline_units = 2;
    refuse_units(&tied, l,
                 "parallel.pipeline_units has 2 numbers: 4 are wanted, one for each stage (parallel.pipeline 2 "
                 "times parallel.chunks 2)");
    l.chunks = 1;
    l.pipeline_schedule = ZR_PIPELINE_1F1B;
    try_units(&tied, l, true);
    l.pipeline_units = even;
    refuse_units(&tied, l, "add up to 7 blocks, but the model has 14");
    decoder.num_hidden_layers = 13;
    l.pipeline_units = halves;
    refuse_units(&apart, l, "add up to 14 blocks, but the model has 13");
}

static void test_refused(void **state)
{
    (void)state;
    const zr_gpt2_config few = ways_deeper(2);
    zr_layout l = layout_of(2, 1, ZR_BF16, 4);
    l.pipeline = 4;
    const zr_model tied = zr_gpt2(&few), shared = {.name = "shared", .build = build_shared};
    refuse_units(&tied, l, "4 stages, but the model has only 3 parts to divide");
    l.pipeline = 2;
    zr_plans plans;
    assert_int_equal(ways_plan_model(&shared, l, &plans), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "parameters of \"h.0\""));
    ways_drop(&plans);
    l.tied_apart = true; /* its gradient's parts are added by the first rank, whatever ranks they come from */
    if (ways_plan_model(&shared, l, &plans) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_plans_check(&plans) != ZR_OK) fail_msg("%s", zr_error_message());
    ways_drop(&plans);
    /* W of the last stage comes late, but not the part of the gradient for which the first stage waits */
    static const char late[] = "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2\n";
    zr_layout by_table = l;
    zr_pipe_table *table = NULL;
    assert_int_equal(zr_pipe_table_read(late, strlen(late), &table), ZR_OK);
    by_table.pipeline_schedule = ZR_PIPELINE_TABLE;
    by_table.pipeline_table = table;
    by_table.accum = 3;
    if (ways_plan_model(&shared, by_table, &plans) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_plans_check(&plans) != ZR_OK) fail_msg("%s", zr_error_message());
    ways_drop(&plans);
    zr_pipe_table_destroy(&table);
    const zr_model untied = zr_llama(&llama);
    refuse_units(&untied, l, "parallel.tied_apart, but no table is on two pipeline ranks");
    l.pipeline_schedule = ZR_PIPELINE_ZB_V;
    l.chunks = 2;
    const zr_gpt2_config more = ways_deeper(5);
    const zr_model v = zr_gpt2(&more);
    refuse_units(&v, l, "parallel.tied_apart, but no table is on two pipeline ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families), cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
