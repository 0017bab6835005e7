//TEST timeout=20
/* GPT-2: names, shapes, sizes and initial values of its parameters, which are the same in every mode, and the
 * configurations that it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "model_text.h"
#include "models/families.h"
#include "zr/models.h"

static const zr_gpt2_config TINY = {.n_layer = 2,
                                    .n_head = 4,
                                    .n_embd = 64,
                                    .n_positions = 32,
                                    .vocab_size = 256,
                                    .layer_norm_epsilon = 1e-5,
                                    .initializer_range = 0.02};

static const zr_graph_spec TRAIN = {
    .mode = ZR_MODE_TRAIN, .batch = 2, .seq = 16, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
static const zr_graph_spec EVAL = {
    .mode = ZR_MODE_EVAL, .batch = 2, .seq = 16, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
static const zr_graph_spec DECODE = {
    .mode = ZR_MODE_DECODE, .batch = 1, .seq = 1, .cache_len = 16, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};

static zr_status build(const zr_gpt2_config *config, zr_graph_spec spec, zr_graph **graph)
{
    assert_int_equal(zr_graph_create(&spec, graph), ZR_OK);
    zr_model model = zr_gpt2(config);
    assert_string_equal(model.name, "gpt2");
    model.build(*graph, model.config);
    return zr_graph_finish(*graph);
}

static zr_graph *graph_of(const zr_gpt2_config *config, zr_graph_spec spec)
{
    zr_graph *graph = NULL;
    zr_status status = build(config, spec, &graph);
    if (status != ZR_OK) print_message("%s\n", zr_error_message());
    assert_int_equal(status, ZR_OK);
    return graph;
}

/* ---- parameters ------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    int ndim;
    int64_t dim[2];
    double std; /* standard deviation; 0: zeros, -1: ones */
} row;

#define RESIDUAL 0.01 /* 0.02 / sqrt(2 * 2) */
/* clang-format off */
#define BLOCK(i)                                                                                                       \
    {"transformer.h." i ".ln_1.weight", 1, {64, 0}, -1},                                                               \
    {"transformer.h." i ".ln_1.bias", 1, {64, 0}, 0},                                                                  \
    {"transformer.h." i ".attn.c_attn.weight", 2, {64, 192}, 0.02},                                                    \
    {"transformer.h." i ".attn.c_attn.bias", 1, {192, 0}, 0},                                                          \
    {"transformer.h." i ".attn.c_proj.weight", 2, {64, 64}, RESIDUAL},                                                 \
    {"transformer.h." i ".attn.c_proj.bias", 1, {64, 0}, 0},                                                           \
    {"transformer.h." i ".ln_2.weight", 1, {64, 0}, -1},                                                               \
    {"transformer.h." i ".ln_2.bias", 1, {64, 0}, 0},                                                                  \
    {"transformer.h." i ".mlp.c_fc.weight", 2, {64, 256}, 0.02},                                                       \
    {"transformer.h." i ".mlp.c_fc.bias", 1, {256, 0}, 0},                                                             \
    {"transformer.h." i ".mlp.c_proj.weight", 2, {256, 64}, RESIDUAL},                                                 \
    {"transformer.h." i ".mlp.c_proj.bias", 1, {64, 0}, 0}
/* clang-format on */

static const row ROWS[] = {
    {"transformer.wte.weight", 2, {256, 64}, 0.02},
    {"transformer.wpe.weight", 2, {32, 64}, 0.02},
    BLOCK("0"),
    BLOCK("1"),
    {"transformer.ln_f.weight", 1, {64, 0}, -1},
    {"transformer.ln_f.bias", 1, {64, 0}, 0},
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static void test_parameters(void **state)
{
    (void)state;
    zr_graph *graph = graph_of(&TINY, TRAIN);
    assert_int_equal(zr_graph_params(graph), N_ROWS);
    for (int32_t i = 0; i < N_ROWS; i++) {
        const zr_param_info *p = zr_graph_param(graph, i);
        const row *r = &ROWS[i];
        assert_string_equal(p->name, r->name);
        assert_int_equal(p->shape.ndim, r->ndim);
        for (int d = 0; d < r->ndim; d++) assert_int_equal(p->shape.dim[d], r->dim[d]);
        assert_int_equal(p->init.kind, r->std > 0 ? ZR_INIT_NORMAL : r->std < 0 ? ZR_INIT_ONE : ZR_INIT_ZERO);
        if (r->std > 0) assert_true(fabs(p->init.std - r->std) < 1e-15);
    }
    assert_int_equal(zr_graph_param_elems(graph), 118528);
    zr_graph_destroy(&graph);
}

static void test_units(void **state)
{
    (void)state;
    zr_graph *graph = graph_of(&TINY, EVAL);
    static const char *const name[] = {"embedding", "h.0", "h.1", "final"};
    static const int64_t elems[] = {(256 + 32) * 64, 12 * 64 * 64 + 13 * 64, 12 * 64 * 64 + 13 * 64, 2 * 64};
    assert_int_equal(zr_graph_units(graph), 4);
    for (int32_t u = 0; u < 4; u++) {
        assert_string_equal(zr_graph_unit_info(graph, u)->name, name[u]);
        assert_int_equal(zr_graph_unit_info(graph, u)->elems, elems[u]);
    }
    zr_graph_destroy(&graph);
}

static void test_same_parameters_in_every_mode(void **state)
{
    (void)state;
    zr_graph *graph[3] = {graph_of(&TINY, TRAIN), graph_of(&TINY, EVAL), graph_of(&TINY, DECODE)};
    for (int m = 1; m < 3; m++) {
        assert_int_equal(zr_graph_params(graph[m]), zr_graph_params(graph[0]));
        for (int32_t i = 0; i < zr_graph_params(graph[0]); i++) {
            const zr_param_info *a = zr_graph_param(graph[0], i), *b = zr_graph_param(graph[m], i);
            assert_string_equal(a->name, b->name);
            assert_true(zr_shape_equal(&a->shape, &b->shape));
            assert_true(a->unit == b->unit && a->unit_offset == b->unit_offset && a->first == b->first);
        }
    }
    for (int m = 0; m < 3; m++) zr_graph_destroy(&graph[m]);
}

static void test_inputs_and_outputs(void **state)
{
    (void)state;
    zr_graph *eval = graph_of(&TINY, EVAL), *decode = graph_of(&TINY, DECODE);
    assert_int_equal(zr_graph_inputs(eval), 2);
    for (int32_t i = 0; i < 2; i++) {
        const zr_type *type = &zr_graph_value(eval, zr_graph_input(eval, i))->type;
        assert_true(type->dtype == ZR_I32 && type->shape.ndim == 2);
        assert_true(type->shape.dim[0] == 2 && type->shape.dim[1] == 16);
    }
    assert_int_equal(zr_graph_get_output(eval), ZR_NONE);
    assert_int_equal(zr_graph_value(eval, zr_graph_get_loss_term(eval, 0))->type.dtype, ZR_F32);

    assert_int_equal(zr_graph_inputs(decode), 1);
    assert_int_equal(zr_graph_get_loss_term(decode, 0), ZR_NONE);
    const zr_shape logits = {3, {1, 1, 256}};
    assert_true(zr_shape_equal(&zr_graph_value(decode, zr_graph_get_output(decode))->type.shape, &logits));
    int caches = 0;
    for (zr_value v = 0; v < zr_graph_values(decode); v++) caches += zr_graph_value(decode, v)->kind == ZR_VALUE_CACHE;
    assert_int_equal(caches, 2);
    zr_graph_destroy(&eval);
    zr_graph_destroy(&decode);
}

/* Check that a model without dropout has no op too many: 10 in each block, 2 before the blocks and 2 after them. */
static void test_ops(void **state)
{
    (void)state;
    zr_graph *graph = graph_of(&TINY, EVAL);
    assert_int_equal(zr_graph_ops(graph), 2 * 10 + 2 + 2);
    zr_graph_destroy(&graph);
}

/* Check that names and shapes are those that Hugging Face wrote for the same sizes. */
static void test_golden_names(void **state)
{
    (void)state;
    golden_expected golden = golden_load(golden_own());
    char path[5000];
    snprintf(path, sizeof path, "%s/model/model.safetensors", golden.dir);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint64_t bytes = 0;
    assert_int_equal(fread(&bytes, sizeof bytes, 1, file), 1);
    assert_in_range(bytes, 2, 1 << 20);
    char *text = malloc(bytes);
    assert_int_equal(fread(text, 1, bytes, file), bytes);
    fclose(file);
    json_t *header = json_loadb(text, bytes, 0, NULL);
    assert_non_null(header);
    json_object_del(header, "__metadata__");
    zr_graph_spec spec = EVAL;
    spec.seq = golden.config.n_positions;
    zr_graph *graph = graph_of(&golden.config, spec);
    assert_int_equal(json_object_size(header), zr_graph_params(graph));
    for (int32_t i = 0; i < zr_graph_params(graph); i++) {
        const zr_param_info *p = zr_graph_param(graph, i);
        json_t *shape = json_object_get(json_object_get(header, p->name), "shape");
        assert_int_equal(json_array_size(shape), p->shape.ndim);
        for (int d = 0; d < p->shape.ndim; d++)
            assert_int_equal(json_integer_value(json_array_get(shape, (size_t)d)), p->shape.dim[d]);
    }
    zr_graph_destroy(&graph);
    json_decref(header);
    free(text);
}

/* Check each op of a model with dropout on two tensor-parallel ranks. */
static void test_each_op(void **state)
{
    (void)state;
    zr_graph_spec spec = TRAIN;
    spec.seq = 8;
    spec.tensor = 2;
    static const char model[] = "\"type\":\"gpt2\",\"n_layer\":1,\"n_embd\":16,\"n_head\":4,\"vocab_size\":32"
                                ",\"n_positions\":64,\"embd_pdrop\":0.125,\"attn_pdrop\":0.25,\"resid_pdrop\":0.375,"
                                "\"layer_norm_epsilon\":0.001,\"initializer_range\":0.5";
    zr_graph *graph = model_build(model, &spec, ZR_OK);
    EXPECT_LINES(model_params(graph, 0), "embedding: transformer.wte.weight (32, 16) normal 0.5, cut 0/1",
                 "embedding: transformer.wpe.weight (64, 16) normal 0.5", "h.0: transformer.h.0.ln_1.weight (16) ones",
                 "h.0: transformer.h.0.ln_1.bias (16) zeros",
                 "h.0: transformer.h.0.attn.c_attn.weight (16, 48) normal 0.5, cut 1/3",
                 "h.0: transformer.h.0.attn.c_attn.bias (48) zeros, cut 0/3",
                 "h.0: transformer.h.0.attn.c_proj.weight (16, 16) normal 0.353553, cut 0/1",
                 "h.0: transformer.h.0.attn.c_proj.bias (16) zeros", "h.0: transformer.h.0.ln_2.weight (16) ones",
                 "h.0: transformer.h.0.ln_2.bias (16) zeros",
                 "h.0: transformer.h.0.mlp.c_fc.weight (16, 64) normal 0.5, cut 1/1",
                 "h.0: transformer.h.0.mlp.c_fc.bias (64) zeros, cut 0/1",
                 "h.0: transformer.h.0.mlp.c_proj.weight (64, 16) normal 0.353553, cut 0/1",
                 "h.0: transformer.h.0.mlp.c_proj.bias (16) zeros", "final: transformer.ln_f.weight (16) ones",
                 "final: transformer.ln_f.bias (16) zeros");
    EXPECT_LINES(model_ops(graph, 0), "%0 embedding: embedding(in0, transformer.wte.weight) 32 16",
                 "%1 embedding: tensor_sum(%0)", "%2 embedding: position(%1, transformer.wpe.weight)",
                 "%3 embedding: dropout(%2) ; 0.125", "%4 h.0: layernorm(%3, ~.ln_1.weight, ~.ln_1.bias) ; 0.001",
                 "%5 h.0: linear(%4, ~.attn.c_attn.weight, ~.attn.c_attn.bias)",
                 "%6 h.0: attention(%5) 2 1 4 4 0 1 ; 0.5 0.25", "%7 h.0: linear(%6, ~.attn.c_proj.weight, -)",
                 "%8 h.0: tensor_sum(%7)", "%9 h.0: bias(%8, ~.attn.c_proj.bias)", "%10 h.0: dropout(%9) 2 ; 0.375",
                 "%11 h.0: add(%3, %10) -1", "%12 h.0: layernorm(%11, ~.ln_2.weight, ~.ln_2.bias) ; 0.001",
                 "%13 h.0: linear(%12, ~.mlp.c_fc.weight, ~.mlp.c_fc.bias)", "%14 h.0: gelu(%13)",
                 "%15 h.0: linear(%14, ~.mlp.c_proj.weight, -)", "%16 h.0: tensor_sum(%15)",
                 "%17 h.0: bias(%16, ~.mlp.c_proj.bias)", "%18 h.0: dropout(%17) 3 ; 0.375",
                 "%19 h.0: add(%11, %18) -1",
                 "%20 final: layernorm(%19, transformer.ln_f.weight, transformer.ln_f.bias) ; 0.001",
                 "%21 final: linear_cross_entropy_part(%20, transformer.wte.weight, in1) 16 32 0 16 0 0 1",
                 "%22 final: tensor_gather(%21)",
                 "%23 final: linear_cross_entropy_join(%22, %20, transformer.wte.weight, in1) 16 32 0 16 0 0 1");
    zr_graph_destroy(&graph);
    spec.tensor = 3;
    graph = model_build(model, &spec, ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "n_head 4 cannot be shared by 3 tensor-parallel ranks"));
    assert_non_null(strstr(zr_error_message(), ": 1, 2, 4 would do"));
    zr_graph_destroy(&graph);
}

/* Check the sizes that "auto" means, and what follows from the vocabulary and from model.dropout. */
static void test_auto(void **state)
{
    (void)state;
    zr_config *config = model_config("\"dropout\": 0.25, \"attn_pdrop\": 0.5");
    const zr_gpt2_config *c = (const zr_gpt2_config *)&config->model.config;
    assert_true(c->n_layer == 12 && c->n_head == 12 && c->n_embd == 768);
    assert_true(c->n_positions == 1024 && c->vocab_size == 50257);
    assert_true(c->embd_pdrop == 0.25 && c->resid_pdrop == 0.25 && c->attn_pdrop == 0.5);
    zr_config_destroy(&config);
    for (int i = 0; i < 2; i++) { /* only GPT-2's own vocabulary has its special token */
        config = model_config(i ? "\"vocab_size\": 50256" : "\"vocab_size\": 50257");
        for (int e = 0; e < 2; e++) {
            const zr_field *field = zr_family_field(config->model.family, e ? "eos_token_id" : "bos_token_id");
            zr_ids ids;
            memcpy(&ids, config->model.config.bytes + field->offset, sizeof ids);
            assert_int_equal(ids.n, i ? 0 : 1);
            if (!i) assert_int_equal(ids.id[0], 50256);
        }
        zr_config_destroy(&config);
    }
    zr_gpt2_config none;
    assert_int_equal(zr_gpt2_preset("llama2-7b", &none), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "the preset \"llama2-7b\" is a Llama, not a GPT-2"));
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void refuse(zr_gpt2_config config, const char *text)
{
    assert_int_equal(zr__gpt2_check(&config), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), text)) print_message("%s\n", zr_error_message());
    assert_non_null(strstr(zr_error_message(), text));
    zr_graph *graph = NULL; /* the builder refuses it too */
    assert_int_equal(build(&config, EVAL, &graph), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), text));
    zr_graph_destroy(&graph);
}

#define REFUSE(field, value, text)                                                                                     \
    do {                                                                                                               \
        zr_gpt2_config config = TINY;                                                                                  \
        config.field = value;                                                                                          \
        refuse(config, text);                                                                                          \
    } while (0)

static void test_impossible_sizes(void **state)
{
    (void)state;
    REFUSE(n_layer, 0, "n_layer is 0");
    REFUSE(n_layer, INT64_MAX, "n_layer");
    REFUSE(n_head, -1, "n_head is -1");
    REFUSE(n_head, 5, "n_embd 64 is not a multiple of n_head 5");
    REFUSE(n_embd, 0, "n_embd is 0");
    REFUSE(n_positions, 0, "n_positions is 0");
    REFUSE(vocab_size, (int64_t)INT32_MAX + 1, "vocab_size");
    REFUSE(embd_pdrop, 1, "embd_pdrop is 1");
    REFUSE(resid_pdrop, -0.5, "resid_pdrop is -0.5");
    REFUSE(attn_pdrop, NAN, "attn_pdrop");
    REFUSE(n_layer, 65537, "n_layer is 65537; wanted 1 to 65536");
    REFUSE(n_embd, (int64_t)INT32_MAX + 1, "n_embd is 2147483648; wanted 1 to 2147483647");
    REFUSE(n_positions, (int64_t)INT32_MAX + 1, "n_positions is 2147483648");
    REFUSE(layer_norm_epsilon, INFINITY, "layer_norm_epsilon is inf");
    REFUSE(initializer_range, -0.5, "initializer_range is -0.5");
    REFUSE(layer_norm_epsilon, 0, "layer_norm_epsilon is 0");
    REFUSE(initializer_range, INFINITY, "initializer_range");
    zr_gpt2_config huge = TINY;
    huge.n_layer = 65536;
    huge.n_embd = (int64_t)1 << 30;
    refuse(huge, "more parameters than 63 bits count");
    huge.n_embd = INT32_MAX - 3; /* the matrices of one layer fit, those of all do not */
    huge.n_layer = 1;
    huge.n_head = 4;
    refuse(huge, "more parameters than 63 bits count");
    huge.n_embd = (int64_t)1 << 29;
    huge.n_layer = 3; /* 9.7e18 */
    refuse(huge, "more parameters than 63 bits count");
    huge.n_layer = 2; /* 6.9e18 with small tables */
    assert_int_equal(zr__gpt2_check(&huge), ZR_OK);
    huge.n_positions = huge.vocab_size = INT32_MAX; /* 2.3e18 more in tables */
    huge.n_layer = 2;
    zr_gpt2_config tables = huge;
    tables.n_embd = INT32_MAX / 4 * 4;
    refuse(tables, "more parameters than 63 bits count");
    huge = TINY;
    huge.initializer_range = 0;
    huge.n_layer = 65536;
    assert_int_equal(zr__gpt2_check(&huge), ZR_OK);
}

static void test_sequences_too_long(void **state)
{
    (void)state;
    zr_graph_spec train = TRAIN, decode = DECODE;
    train.seq = decode.cache_len = TINY.n_positions;
    zr_graph *graph = graph_of(&TINY, train);
    zr_graph_destroy(&graph);
    graph = graph_of(&TINY, decode);
    zr_graph_destroy(&graph);
    train.seq = decode.cache_len = TINY.n_positions + 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(build(&TINY, i ? decode : train, &graph), ZR_ERR_CONFIG);
        assert_non_null(strstr(zr_error_message(), "a sequence of 33 tokens is longer than n_positions, 32"));
        zr_graph_destroy(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_same_parameters_in_every_mode),
        cmocka_unit_test(test_inputs_and_outputs),
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_each_op),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_golden_names),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_sequences_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
