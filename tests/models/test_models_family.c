//TEST timeout=60
/* A family that the program adds: one declaration, from which follow its keys of CONFIG.json, their messages, training,
 * its Hugging Face directory in both directions, and searches. Its blocks compute attention and feed-forward part side
 * by side, as GPT-NeoX does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>

#include "checkpoint/checkpoint.h"
#include "support/config_reference.h"
#include "support/tempdir.h"
#include "base/text/text.h"
#include "config/config.h"
#include "zr/checkpoint.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "train/weights/weights.h"
#include "zr/run.h"

/* ---- the family --------------------------------------------------------------------------------- */

typedef struct side_config {
    int64_t num_hidden_layers, num_attention_heads, hidden_size, max_position_embeddings, vocab_size, intermediate_size;
    double hidden_dropout, layer_norm_eps, initializer_range, scale_factor;
    bool tie_word_embeddings;
    int scale_type; /* 0: none, 1: linear */
    int64_t window;
    zr_ids eos_token_id;
} side_config;

static zr_value side_norm(zr_graph *g, const side_config *c, zr_value x, int64_t i, const char *name)
{
    const zr_shape shape = {1, {c->hidden_size}};
    zr_value gain = zr_param(g, (zr_init){.kind = ZR_INIT_ONE}, shape, "side.layers.%" PRId64 ".%s.weight", i, name);
    zr_value bias = zr_param(g, (zr_init){.kind = ZR_INIT_ZERO}, shape, "side.layers.%" PRId64 ".%s.bias", i, name);
    return zr_layernorm(g, x, gain, bias, c->layer_norm_eps);
}

/* Multiply by a weight of shape (outputs, inputs), cut by outputs (0) or by inputs (1) in side-by-side parts. */
static zr_value side_linear(zr_graph *g, const side_config *c, zr_value x, int64_t i, const char *name, int64_t outputs,
                            int64_t inputs, zr_cut cut)
{
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range};
    zr_value w =
        zr_param_cut(g, init, (zr_shape){2, {outputs, inputs}}, cut, "side.layers.%" PRId64 ".%s.weight", i, name);
    return zr_linear(g, x, w, ZR_NONE, true);
}

static void side_build(zr_graph *g, const void *config)
{
    const side_config *c = config;
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    const int64_t C = c->hidden_size, V = c->vocab_size;
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range};
    zr_value tokens = zr_input(g, "tokens", ZR_I32, (zr_shape){2, {spec->batch, spec->seq}});
    zr_graph_unit(g, "embedding");
    zr_value table = zr_param_cut(g, init, (zr_shape){2, {V, C}}, (zr_cut){0, 1}, "side.embed_in.weight");
    zr_value places = zr_param(g, init, (zr_shape){2, {c->max_position_embeddings, C}}, "side.embed_at.weight");
    zr_value x = zr_position(g, zr_embedding(g, tokens, table), places);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        zr_graph_unit(g, "layers.%" PRId64, i);
        zr_value a = side_norm(g, c, x, i, "input_layernorm"), f = side_norm(g, c, x, i, "post_attention_layernorm");
        a = side_linear(g, c, a, i, "query_key_value", 3 * C, C, (zr_cut){0, 3});
        a = zr_attention(g, a, c->num_attention_heads, 0);
        a = side_linear(g, c, a, i, "dense", C, C, (zr_cut){1, 1});
        f = zr_gelu(g, side_linear(g, c, f, i, "up", c->intermediate_size, C, (zr_cut){0, 1}));
        f = side_linear(g, c, f, i, "down", C, c->intermediate_size, (zr_cut){1, 1});
        x = zr_add(g, x, zr_dropout(g, zr_add(g, a, f), c->hidden_dropout));
    }
    zr_graph_unit(g, "final");
    x = side_norm(g, c, x, c->num_hidden_layers, "final_layer_norm");
    zr_value head = table;
    if (!c->tie_word_embeddings)
        head = zr_param_cut(g, init, (zr_shape){2, {V, C}}, (zr_cut){0, 1}, "embed_out.weight");
    if (spec->mode == ZR_MODE_DECODE) {
        zr_graph_output(g, zr_linear(g, x, head, ZR_NONE, true));
        return;
    }
    zr_value targets = zr_input(g, "targets", ZR_I32, (zr_shape){2, {spec->batch, spec->seq}});
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, head, targets));
}

static void side_complete(void *config)
{
    side_config *c = config;
    if (c->num_hidden_layers == 0) c->num_hidden_layers = 2;
    if (c->hidden_size == 0) c->hidden_size = 32;
    if (c->num_attention_heads == 0) c->num_attention_heads = 2;
    if (c->max_position_embeddings == 0) c->max_position_embeddings = 16;
    if (c->vocab_size == 0) c->vocab_size = 300;
    if (c->intermediate_size == 0) c->intermediate_size = 4 * c->hidden_size;
}

/* Keep the ratio of the hidden layer's width to the model's. */
static void side_resize(void *config, const zr_model_sizes *from)
{
    side_config *c = config;
    c->intermediate_size = c->intermediate_size * c->hidden_size / from->width;
}

static zr_status side_check(const void *config)
{
    const side_config *c = config;
    ZR_CHECK(c->scale_type == 0 || c->scale_factor >= 1, ZR_ERR_CONFIG,
             "side: rope_scaling.factor is missing, but rope_scaling.rope_type is linear");
    ZR_CHECK(c->num_hidden_layers <= 100, ZR_ERR_CONFIG, "side: num_hidden_layers is %" PRId64 "; wanted 1 to 100",
             c->num_hidden_layers);
    return ZR_OK;
}

#define AT(member) .offset = offsetof(side_config, member)
#define SIZE(name, what, ...)                                                                                          \
    {                                                                                                                  \
        .key = #name, .type = ZR_FIELD_INT, .role = ZR_FIELD_SHAPE, AT(name), .standard = "\"auto\"",                  \
        .fallback = "24", .min = 1, .max = 1e6, .means = what, __VA_ARGS__                                             \
    }
static const zr_field side_fields[] = {
    SIZE(num_hidden_layers, "layers", .help = "a size: layers"),
    SIZE(num_attention_heads, "heads", .help = "a size: heads", .divides = "hidden_size"),
    SIZE(hidden_size, "width", .help = "a size: width"),
    SIZE(max_position_embeddings, "positions", .help = "a size: positions"),
    SIZE(vocab_size, "vocabulary", .help = "a size: vocabulary"),
    {.key = "intermediate_size",
     .type = ZR_FIELD_INT,
     AT(intermediate_size),
     .standard = "\"auto\"",
     .fallback = "null",
     .min = 1,
     .max = 1e6,
     .help = "width of the hidden layer; auto: 4 hidden_size"},
    {.key = "hidden_dropout",
     .type = ZR_FIELD_REAL,
     .role = ZR_FIELD_DROPOUT,
     AT(hidden_dropout),
     .standard = "0.0",
     .max = 0.9,
     .help = "probability of dropout"},
    {.key = "layer_norm_eps",
     .type = ZR_FIELD_REAL,
     .role = ZR_FIELD_RESULT,
     AT(layer_norm_eps),
     .standard = "1e-5",
     .min = 1e-12,
     .max = 1,
     .means = "norm epsilon",
     .help = "epsilon of layer norms"},
    {.key = "initializer_range",
     .type = ZR_FIELD_REAL,
     .role = ZR_FIELD_START,
     AT(initializer_range),
     .standard = "0.02",
     .max = 10,
     .help = "deviation of initial weights"},
    {.key = "tie_word_embeddings",
     .type = ZR_FIELD_BOOL,
     AT(tie_word_embeddings),
     .standard = "false",
     .help = "whether the head is the table of tokens"},
    {.key = "rope_scaling.rope_type",
     .type = ZR_FIELD_CHOICE,
     .role = ZR_FIELD_RESULT,
     AT(scale_type),
     .standard = "\"default\"",
     .choices = "default|linear",
     .twin = "rope_parameters.rope_type",
     .also = "rope_scaling.type",
     .help = "kind of scaling"},
    {.key = "rope_scaling.factor",
     .type = ZR_FIELD_REAL,
     .role = ZR_FIELD_RESULT,
     AT(scale_factor),
     .standard = "null",
     .min = 1,
     .max = 1e6,
     .twin = "rope_parameters.factor",
     .help = "factor of scaling"},
    {.key = "rope_scaling.beta", .type = ZR_FIELD_FIXED, .place = ZR_FIELD_IN_HF, .standard = "null"},
    {.key = "sliding_window",
     .type = ZR_FIELD_INT,
     .role = ZR_FIELD_RESULT,
     AT(window),
     .standard = "null",
     .fallback = "4096",
     .min = 1,
     .max = 1e6,
     .help = "tokens that a token sees"},
    {.key = "layer_types",
     .type = ZR_FIELD_FIXED,
     .place = ZR_FIELD_IN_HF,
     .standard = "\"full_attention\"",
     .fallback = "null"},
    {.key = "use_parallel_residual", .type = ZR_FIELD_FIXED, .standard = "true", .help = "parallel parts of a block"},
    {.key = "hidden_act",
     .type = ZR_FIELD_FIXED,
     .standard = "\"gelu_new\"",
     .same = "\"gelu_fast\"",
     .help = "activation function"},
    {.key = "eos_token_id",
     .type = ZR_FIELD_IDS,
     .role = ZR_FIELD_START,
     AT(eos_token_id),
     .standard = "null",
     .help = "tokens that end a text"},
    {0},
};

static const zr_preset side_presets[] = {{"side-tiny",
                                          &(const side_config){.num_hidden_layers = 3,
                                                               .num_attention_heads = 4,
                                                               .hidden_size = 64,
                                                               .max_position_embeddings = 32,
                                                               .vocab_size = 256,
                                                               .intermediate_size = 96,
                                                               .layer_norm_eps = 1e-6,
                                                               .initializer_range = 0.03,
                                                               .scale_factor = NAN},
                                          NULL},
                                         {0}};

static const zr_family side = {
    .name = "side",
    .title = "Side",
    .architecture = "SideForCausalLM",
    .bytes = sizeof(side_config),
    .field = side_fields,
    .preset = side_presets,
    .names = {.prefix = "side.", .head = "embed_out.weight", .table = "side.embed_in.weight"},
    .complete = side_complete,
    .check = side_check,
    .build = side_build,
    .resize = side_resize};

/* A second family with the same keys, but another default for its number of layers. */
static zr_field other_fields[sizeof(side_fields) / sizeof(side_fields[0])];
static const zr_family other = {.names = {.prefix = ""},
                                .name = "other",
                                .title = "Other",
                                .architecture = "OtherForCausalLM",
                                .bytes = sizeof(side_config),
                                .field = other_fields,
                                .complete = side_complete,
                                .check = side_check,
                                .build = side_build};

const zr_family *const zr_own_families[] = {&side, &other, NULL};

static int set_up(void **state)
{
    memcpy(other_fields, side_fields, sizeof(side_fields));
    other_fields[0].help = "a size: layers, with other words";
    return tempdir_make(state);
}

/* ---- keys ------------------------------------------------------------------------------------- */

static zr_config *load(const char *text, const char *override)
{
    zr_config *config = NULL;
    if (zr_config_parse(text, strlen(text), "c.json", &override, override != NULL, &config) != ZR_OK)
        fail_msg("%s", zr_error_message());
    return config;
}

static const side_config *settings(const zr_config *config)
{
    return (const side_config *)&config->model.config;
}

static void the_family_is_in_the_table(void **state)
{
    (void)state;
    assert_ptr_equal(zr_family_find("side"), &side);
    assert_ptr_equal(zr_family_find("other"), &other);
    if (zr_family_check(&side) != ZR_OK || zr_family_check(&other) != ZR_OK) fail_msg("%s", zr_error_message());
}

static void keys_follow_from_the_declaration(void **state)
{
    (void)state;
    zr_config *c = load("{\"model\": {\"type\": \"side\", \"hidden_size\": 48, \"rope_scaling\": {\"factor\": 2,"
                        " \"rope_type\": \"linear\"}, \"eos_token_id\": [3, 5], \"tie_word_embeddings\": true}}",
                        "model.num_hidden_layers=3");
    char *json = NULL;
    assert_ptr_equal(c->model.family, &side);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    for (int round = 0; round < 2; round++) {
        const side_config *s = settings(c);
        assert_int_equal(s->num_hidden_layers, 3);
        assert_int_equal(s->hidden_size, 48);
        assert_int_equal(s->num_attention_heads, 2);
        assert_int_equal(s->intermediate_size, 192);
        assert_true(s->scale_type == 1 && s->scale_factor == 2 && s->tie_word_embeddings && s->window == 0);
        assert_true(s->eos_token_id.n == 2 && s->eos_token_id.id[1] == 5);
        assert_int_equal(c->data.seq_length, 16);
        assert_int_equal(zr_config_sizes(c).width, 48);
        if (round) break;
        assert_int_equal(zr_config_to_json(c, &json), ZR_OK);
        assert_null(strstr(json, "n_embd"));
        zr_config_destroy(&c);
        c = load(json, NULL); /* the written configuration reads back the same */
        zr_free(json);
    }
    zr_config_destroy(&c);
    c = load("{\"model\": {\"preset\": \"side-tiny\"}}", "model.layer_norm_eps=0.5"); /* the preset gives the type */
    assert_string_equal(c->model.type, "side");
    assert_int_equal(zr_train_prepare(c, 1, 0), ZR_OK);
    assert_int_equal(settings(c)->intermediate_size, 96);
    assert_true(settings(c)->layer_norm_eps == 0.5 && settings(c)->initializer_range == 0.03);
    zr_config_destroy(&c);
}

static void wrong_keys_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
    } wrong[] = {
        {"\"type\": \"side\", \"n_embd\": 8",
         "model.n_embd: this is a key of model.type gpt2; with side write model.hidden_size"},
        {"\"hidden_size\": 8", "model.hidden_size: this is a key of model.type llama, mistral, qwen2, qwen3, bert, "
                               "bert-preln, side, other; with gpt2 write model.n_embd"},
        {"\"rope_scaling\": {\"factor\": 2}", "model.rope_scaling: this is a key of model.type llama, mistral, qwen2, "
                                              "qwen3, side, other; gpt2 has no such key"},
        {"\"type\": \"side\", \"hidden_sizes\": 8", "model.hidden_sizes: unknown key; did you mean model.hidden_size?"},
        {"\"type\": \"side\", \"hidden_size\": 0", "model.hidden_size: found 0, wanted an integer from 1 to 1000000"},
        {"\"type\": \"side\", \"rope_scaling\": {\"rope_type\": \"yarn\"}",
         "model.rope_scaling.rope_type: found \"yarn\", wanted one of default, linear"},
        {"\"type\": \"side\", \"rope_scaling\": {\"beta\": 2}", "model.rope_scaling.beta: unknown key"},
        {"\"type\": \"side\", \"num_attention_heads\": 5, \"hidden_size\": 8",
         "c.json:1:28: model.num_attention_heads: 5 does not divide hidden_size 8"},
        {"\"type\": \"side\", \"hidden_act\": \"relu\"", "model.hidden_act: found \"relu\", wanted one of gelu_new"},
        {"\"type\": \"side\", \"use_parallel_residual\": false", "model.use_parallel_residual: false is not available"},
        {"\"type\": \"side\", \"eos_token_id\": -1", "model.eos_token_id: found -1, wanted a token id"},
        {"\"type\": \"sides\"", "model.type: found \"sides\", wanted one of gpt2, llama, mistral, qwen2, qwen3, bert, "
                                "bert-preln, side, other"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[256];
        zr_config *config = NULL;
        snprintf(text, sizeof(text), "{\"model\": {%s}}", wrong[i].text);
        assert_int_not_equal(zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config), ZR_OK);
        if (!strstr(zr_error_message(), wrong[i].fault)) fail_msg("%s: %s", wrong[i].fault, zr_error_message());
    }
}

/* Check that a key is listed once for all families that declare it alike, and names them. */
static void keys_of_several_families_are_listed_once(void **state)
{
    (void)state;
    zr_key *key = NULL;
    char *markdown = NULL;
    int layers = 0, widths = 0, vocabularies = 0;
    assert_int_equal(zr_config_keys(&key), ZR_OK);
    for (int i = 0; key[i].path; i++) {
        layers += strcmp(key[i].path, "model.num_hidden_layers") == 0;
        vocabularies += strcmp(key[i].path, "model.vocab_size") == 0;
        if (strcmp(key[i].path, "model.type") == 0) assert_null(key[i].families);
        if (strcmp(key[i].path, "model.n_embd") == 0) assert_string_equal(key[i].families, "gpt2");
        if (strcmp(key[i].path, "model.hidden_size") != 0) continue;
        if (strcmp(key[i].families, "llama, mistral, qwen2, qwen3") == 0) continue;
        if (strcmp(key[i].families, "bert, bert-preln") == 0) continue;
        assert_string_equal(key[i].families, "side, other");
        widths++;
    }
    assert_true(layers == 4 && widths == 1 && vocabularies == 4);
    zr_free(key);
    assert_int_equal(config_reference(&markdown), ZR_OK);
    const char *own = strstr(markdown, "\nOnly of model.type side, other:\n\n");
    assert_non_null(own);
    assert_non_null(strstr(own, "A size: width.\n"));
    zr_free(markdown);
}

static void searches_change_sizes(void **state)
{
    (void)state;
    zr_config *c = load("{\"model\": {\"type\": \"side\", \"intermediate_size\": 48}}", NULL);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    zr_model_sizes sizes = zr_config_sizes(c);
    sizes.layers = 9;
    zr__config_resize(c, &sizes);
    assert_int_equal(settings(c)->num_hidden_layers, 9);
    assert_int_equal(settings(c)->intermediate_size, 48);
    sizes.width = 128;
    zr__config_resize(c, &sizes);
    assert_int_equal(settings(c)->intermediate_size, 192);
    zr_config_destroy(&c);
}

/* Check that a declaration is refused, with a message, after a change of a field or of the family. */
static void a_wrong_declaration_is_refused(void **state)
{
    (void)state;
    enum { FIELDS = sizeof(side_fields) / sizeof(side_fields[0]) };
    static const zr_family_task two[] = {{"SideForPairs", ZR_SAMPLES_PAIRS}, {0}},
                                odd[] = {{"Odd", (zr_samples)9}, {0}};
    static const char *const fault[] = {
        "changed: two fields have the key num_hidden_layers",
        "changed: the field num_attention_heads has no default",
        "changed: the field num_attention_heads has no help text",
        "changed: the field num_attention_heads is outside the struct",
        "changed: the field num_attention_heads has no range",
        "changed: the field rope_scaling.rope_type has no choices",
        "changed: the field num_attention_heads divides breadth, which is no field",
        "changed: no field of type INT and role SHAPE means \"heads\"",
        "changed: no field of type INT and role SHAPE means \"vocabulary\"",
        "changed: the names of tensors need a prefix, and both a head and a table or neither",
        "changed: the names of tensors need a prefix, and both a head and a table or neither",
        "side: two families have this name",
        "changed: the struct has 1000000 bytes; the most is",
        "changed: a family needs a name, title, architecture, fields, check and build",
        "a family: a family needs a name",
        "changed: there are no samples 9",
        "changed: there are no samples 9",
        "changed: a field of type CHOICE that means \"task\" needs a word for each of 2 tasks, and has 1",
        "changed: a field of type CHOICE that means \"task\" needs a word for each of 1 tasks, and has 2",
        NULL,
        NULL,
    };
    for (int i = 0; i < (int)(sizeof(fault) / sizeof(fault[0])); i++) {
        zr_field field[FIELDS];
        memcpy(field, side_fields, sizeof(field));
        zr_family family = side;
        family.name = "changed";
        family.field = field;
        zr_field *heads = &field[1], *choice = NULL;
        for (zr_field *f = field; f->key; f++)
            if (strcmp(f->key, "rope_scaling.rope_type") == 0) choice = f;
        if (i == 0) heads->key = "num_hidden_layers";
        if (i == 1) heads->standard = NULL;
        if (i == 2) heads->help = NULL;
        if (i == 3) heads->offset = sizeof(side_config) - 7;
        if (i == 4) heads->max = heads->min;
        if (i == 5) choice->choices = NULL;
        if (i == 6) heads->divides = "breadth";
        if (i == 7) heads->role = ZR_FIELD_RESULT;
        if (i == 8) field[4].means = NULL;
        if (i == 9) family.names.table = NULL;
        if (i == 10) family.names.prefix = NULL;
        if (i == 11) family.name = "side";
        if (i == 12) family.bytes = 1000000;
        if (i == 13) family.title = NULL;
        if (i == 14) family.name = NULL;
        if (i == 15) family.samples = (zr_samples)9;
        if (i == 16) family.task = odd;
        if (i == 17) family.task = two;
        if (i == 18) choice->means = "task";
        if (i == 19) choice->means = "task", family.task = two; /* a word for each task */
        if (i == 20) heads->offset = sizeof(side_config) - 8;   /* the last one that fits */
        const zr_status st = zr_family_check(&family);
        assert_int_equal(st, fault[i] ? ZR_ERR_INTERNAL : ZR_OK);
        if (fault[i] && !strstr(zr_error_message(), fault[i])) fail_msg("%s: %s", fault[i], zr_error_message());
    }
    assert_null(zr_family_at(-1));
    for (int f = 0; zr_family_at(f); f++)
        if (zr_family_check(zr_family_at(f)) != ZR_OK) fail_msg("%s", zr_error_message());
}

/* Check that the field that means "task" chooses the samples and the architecture. */
static void tasks_choose_samples_and_architecture(void **state)
{
    (void)state;
    static const struct {
        const char *members, *architecture;
        zr_samples samples;
    } tasks[] = {
        {"\"type\": \"bert\"", "BertForPreTraining", ZR_SAMPLES_PAIRS},
        {"\"type\": \"bert\", \"task\": \"sequence_classification\"", "BertForSequenceClassification",
         ZR_SAMPLES_LABELS},
        {"\"type\": \"bert\", \"task\": \"question_answering\"", "BertForQuestionAnswering", ZR_SAMPLES_ANSWERS},
        {"\"type\": \"bert\", \"task\": \"masked_lm\"", "BertForMaskedLM", ZR_SAMPLES_MASKED},
        {"\"type\": \"bert\", \"task\": \"token_classification\"", "BertForTokenClassification", ZR_SAMPLES_TAGS},
        {"\"type\": \"bert-preln\"", "BertPreLNForPreTraining", ZR_SAMPLES_PAIRS},
        {"\"type\": \"bert-preln\", \"task\": \"masked_lm\"", "BertPreLNForMaskedLM", ZR_SAMPLES_MASKED},
        {"\"type\": \"bert-preln\", \"task\": \"token_classification\"", "BertPreLNForTokenClassification",
         ZR_SAMPLES_TAGS},
        {"\"type\": \"bert-preln\", \"task\": \"sequence_classification\"", "BertPreLNForSequenceClassification",
         ZR_SAMPLES_LABELS},
        {"\"type\": \"bert-preln\", \"task\": \"question_answering\"", "BertPreLNForQuestionAnswering",
         ZR_SAMPLES_ANSWERS},
        {"\"type\": \"llama\"", "LlamaForCausalLM", ZR_SAMPLES_NEXT},
        {"\"type\": \"mistral\"", "MistralForCausalLM", ZR_SAMPLES_NEXT},
        {"\"type\": \"qwen2\"", "Qwen2ForCausalLM", ZR_SAMPLES_NEXT},
        {"\"type\": \"qwen3\"", "Qwen3ForCausalLM", ZR_SAMPLES_NEXT},
        {"\"type\": \"gpt2\"", "GPT2LMHeadModel", ZR_SAMPLES_NEXT},
    };
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "{\"model\": {%s}}", tasks[i].members);
        zr_config *c = load(text, NULL);
        assert_string_equal(zr_family_architecture(c->model.family, &c->model.config), tasks[i].architecture);
        assert_int_equal(zr_family_samples(c->model.family, &c->model.config), tasks[i].samples);
        zr_config_destroy(&c);
    }
}

/* ---- config.json ------------------------------------------------------------------------------ */

static zr_status read_settings(const char *members, zr_model_config *config)
{
    char text[512];
    const zr_family *family = NULL;
    snprintf(text, sizeof(text), "{\"model_type\": \"side\", \"hidden_size\": 48%s%s}", members[0] ? ", " : "",
             members);
    put_file("config.json", text, strlen(text));
    return zr_hf_read(tempdir, &family, config);
}

static void both_spellings_are_read(void **state)
{
    (void)state;
    static const char *const same[] = {
        "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}",
        "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0, \"beta\": null}",
        "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2}, \"rope_scaling\": null",
        "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2}, \"rope_scaling\": {\"factor\": 2.0}",
    };
    zr_model_config first = {0}, config = {0};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        if (read_settings(same[i], i ? &config : &first) != ZR_OK) fail_msg("%s: %s", same[i], zr_error_message());
        if (i) assert_memory_equal(&config, &first, sizeof(first));
    }
    const side_config *s = (const side_config *)&first;
    assert_true(s->scale_type == 1 && s->scale_factor == 2);
    assert_int_equal(s->num_hidden_layers, 24); /* default of transformers */
    assert_int_equal(s->window, 4096);
    assert_int_equal(read_settings("\"sliding_window\": null, \"eos_token_id\": [1, 2], \"hidden_act\": \"gelu_fast\", "
                                   "\"layer_types\": [\"full_attention\", \"full_attention\"]",
                                   &config),
                     ZR_OK);
    s = (const side_config *)&config;
    assert_true(s->window == 0 && s->eos_token_id.n == 2 && s->scale_type == 0 && isnan(s->scale_factor));
}

static void what_zr_cannot_compute_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *members, *fault;
    } wrong[] = {
        {"\"rope_scaling\": {\"rope_type\": \"yarn\"}",
         "rope_scaling.rope_type is \"yarn\"; zr computes Side only with \"default\", \"linear\""},
        {"\"rope_scaling\": {\"rope_type\": \"linear\"}", "rope_scaling.factor is missing"},
        {"\"rope_scaling\": {\"factor\": 2}, \"rope_parameters\": {\"factor\": 4}",
         "rope_scaling.factor is 2, but rope_parameters.factor is 4; they mean the same"},
        {"\"rope_scaling\": {\"beta\": 2}", "rope_scaling.beta is 2; zr computes Side only with null"},
        {"\"rope_scaling\": {\"gamma\": 2}", "rope_scaling.gamma is 2, and zr does not know this key"},
        {"\"rope_parameters\": {\"full\": {}}", "rope_parameters.full is an object, and zr does not know this key"},
        {"\"rope_scaling\": 7", "rope_scaling is 7; expected an object or null"},
        {"\"use_parallel_residual\": false", "use_parallel_residual is false; zr computes Side only with true"},
        {"\"layer_types\": [\"full_attention\", \"sliding_attention\"]", "layer_types is"},
        {"\"num_attention_heads\": 5", "hidden_size 48 is not a multiple of num_attention_heads 5"},
        {"\"num_hidden_layers\": 101", "config.json: side: num_hidden_layers is 101"},
        {"\"num_hidden_layers\": null", "num_hidden_layers is null; expected an integer from 1 to 1000000"},
        {"\"tie_word_embeddings\": 1", "tie_word_embeddings is 1; expected true or false"},
        {"\"eos_token_id\": [1, -2]", "eos_token_id is"},
        {"\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]", "a list of up to 16"},
        {"\"hidden_dropout\": 0.95", "hidden_dropout is 0.95; expected a number from 0 to 0.9"},
    };
    zr_model_config config;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_settings(wrong[i].members, &config), ZR_ERR_DATA);
        if (!strstr(zr_error_message(), wrong[i].fault)) fail_msg("%s: %s", wrong[i].fault, zr_error_message());
    }
    const zr_family *family = NULL;
    put_file("config.json", "{\"model_type\": \"bloom\"}", strlen("{\"model_type\": \"bloom\"}"));
    assert_int_equal(zr_hf_read(tempdir, &family, &config), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "model_type is \"bloom\"; expected \"gpt2\", \"llama\", \"mistral\", "
                                               "\"qwen2\", \"qwen3\", \"bert\", \"bert-preln\", \"side\" or "
                                               "\"other\""));
}

static void read_text(const char *name, char *text, size_t size)
{
    FILE *file = fopen(in_tempdir(name), "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void config_json_is_written(void **state)
{
    (void)state;
    static const char *const members[] = {
        "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}, \"eos_token_id\": [1, 2]", ""};
    static const char *const parts[2][6] = {
        {"\"architectures\": [\"SideForCausalLM\"]", "\"rope_scaling\": {\n    \"rope_type\": \"linear\"",
         "\"rope_parameters\": {\n    \"rope_type\": \"linear\",\n    \"factor\": 2.0", "\"eos_token_id\": [",
         "\"use_parallel_residual\": true", "\"hidden_act\": \"gelu_new\""},
        {"\"rope_scaling\": null", "\"rope_parameters\": {\n    \"rope_type\": \"default\"\n  }",
         "\"eos_token_id\": null", "\"sliding_window\": 4096", "\"intermediate_size\": 192",
         "\"tie_word_embeddings\": false"}};
    for (int i = 0; i < 2; i++) {
        zr_model_config config, again;
        const zr_family *family = NULL;
        char text[2048];
        assert_int_equal(read_settings(members[i], &config), ZR_OK);
        assert_int_equal(zr_hf_write(tempdir, &side, &config), ZR_OK);
        read_text("config.json", text, sizeof(text));
        assert_null(strstr(text, "layer_types"));
        for (int p = 0; p < 6; p++)
            if (!strstr(text, parts[i][p])) fail_msg("%s is not in %s", parts[i][p], text);
        assert_int_equal(zr_hf_read(tempdir, &family, &again), ZR_OK);
        assert_ptr_equal(family, &side);
        assert_memory_equal(&again, &config, sizeof(config));
    }
}

/* ---- tied heads --------------------------------------------------------------------------------- */

/* Write a directory of the model declared by `tied`, with the tensors that this model needs, and with a head if `head`
 * is true. The head's elements are `value`, all others 0. */
static void write_weights(bool tied, bool head, float value)
{
    enum { MOST = 64 };
    side_config sizes = {.num_hidden_layers = 1,
                         .num_attention_heads = 1,
                         .hidden_size = 4,
                         .max_position_embeddings = 4,
                         .vocab_size = 256,
                         .layer_norm_eps = 1e-5,
                         .scale_factor = NAN,
                         .tie_word_embeddings = tied};
    zr_model_config config = {0};
    const zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32};
    zr__tensor_spec tensor[MOST];
    zr_graph *graph = NULL;
    zr_safetensors *file = NULL;
    int32_t n = 0;
    bool has = false;
    side_complete(&sizes);
    memcpy(&config, &sizes, sizeof(sizes));
    assert_int_equal(zr_hf_write(tempdir, &side, &config), ZR_OK);
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    side_build(graph, &config);
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const zr_param_info *info = zr_graph_param(graph, p);
        const bool is_head = strcmp(info->name, "embed_out.weight") == 0;
        if (!is_head || head) tensor[n++] = (zr__tensor_spec){info->name, info->shape};
        has |= is_head;
    }
    if (head && !has) tensor[n++] = (zr__tensor_spec){"embed_out.weight", {2, {256, 4}}};
    (void)remove(in_tempdir("model.safetensors"));
    assert_int_equal(zr__safetensors_create(in_tempdir("model.safetensors"), NULL, tensor, n), ZR_OK);
    zr_graph_destroy(&graph);
    if (!head) return;
    assert_int_equal(zr__safetensors_attach(in_tempdir("model.safetensors"), &file), ZR_OK);
    const zr_safetensors_tensor *to = zr_safetensors_find(file, "embed_out.weight");
    assert_int_equal(zr__safetensors_write(file, to, to->elems - 1, 1, &value), ZR_OK);
    zr_safetensors_close(&file);
}

static void heads_are_tied_or_not(void **state)
{
    (void)state;
    static const struct {
        bool tied, head;
        float value;
        const char *fault;
    } cases[] = {
        {true, false, 0, NULL},
        {true, true, 0, NULL},
        {true, true, 1, "embed_out.weight and side.embed_in.weight differ"},
        {false, true, 1, NULL},
        {false, false, 0, "embed_out.weight: missing; expected shape (256, 4)\n  (if the head is tied"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char note[256] = "";
        write_weights(cases[i].tied, cases[i].head, cases[i].value);
        zr_status st = zr__hf_check(tempdir, note, sizeof(note));
        assert_int_equal(st, cases[i].fault ? ZR_ERR_DATA : ZR_OK);
        assert_string_equal(note, "");
        if (cases[i].fault && !strstr(zr_error_message(), cases[i].fault)) fail_msg("%s", zr_error_message());
    }
}

/* ---- training --------------------------------------------------------------------------------- */

static zr_status train(zr_comm *comm, void *arg)
{
    zr_train_result result = {0};
    return zr_train_run(arg, comm, &(zr_observer){0}, &result);
}

static void expect_trained(const char *model, const char *dir, int ranks)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"model\": {%s}, \"data\": {\"train\": \"%s/text\", \"tokenizer\": \"bytes\"},"
             " \"train\": {\"steps\": 2, \"threads\": 1, \"output_dir\": \"%s/%s\"}, \"device\": \"cpu\","
             " \"zero_optimization\": {\"stage\": 3}}",
             model, tempdir, tempdir, dir);
    zr_config *config = load(text, NULL);
    assert_ptr_equal(config->model.family, &side);
    if (zr_train_prepare(config, ranks, 0) != ZR_OK || zr_comm_threads_run(ranks, train, config) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
}

static double loss_of(const char *dir)
{
    const zr_eval_args args = {.data = in_tempdir("text"), .threads = 1};
    zr_eval_result result = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", tempdir, dir);
    if (zr_eval_dir(path, &args, &result) != ZR_OK) fail_msg("%s", zr_error_message());
    return result.loss;
}

static void the_family_is_trained_and_read_again(void **state)
{
    (void)state;
    char text[400], model[256], config[4096];
    for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i * i % 23);
    put_file("text", text, sizeof(text));
    expect_trained("\"type\": \"side\", \"num_hidden_layers\": 3, \"vocab_size\": 256, \"hidden_dropout\": 0.1,"
                   " \"layer_norm_eps\": 0.001",
                   "run", 2);
    read_text("run/model/config.json", config, sizeof(config));
    assert_non_null(strstr(config, "\"model_type\": \"side\""));
    assert_non_null(strstr(config, "\"layer_norm_eps\": 0.001"));
    assert_float_equal(loss_of("run/model"), loss_of("run"), 0);

    /* A run that starts from the directory takes its model, including the type. With learning rate 0 the weights stay.
     */
    snprintf(model, sizeof(model), "\"init\": \"%s/run/model\"}, \"optimizer\": {\"params\": {\"lr\": 0}", tempdir);
    expect_trained(model, "again", 1);
    assert_float_equal(loss_of("again"), loss_of("run"), 1e-6);

    const char *const given = "model.type=gpt2";
    snprintf(model, sizeof(model), "{\"model\": {\"init\": \"%s/run/model\"}}", tempdir);
    zr_config *c = load(model, given);
    assert_int_equal(zr_train_prepare(c, 1, 0), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "model.type is gpt2, but model_type in "));
    zr_config_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_family_is_in_the_table),
        cmocka_unit_test(keys_follow_from_the_declaration),
        cmocka_unit_test(wrong_keys_are_refused),
        cmocka_unit_test(keys_of_several_families_are_listed_once),
        cmocka_unit_test(searches_change_sizes),
        cmocka_unit_test(a_wrong_declaration_is_refused),
        cmocka_unit_test(tasks_choose_samples_and_architecture),
        cmocka_unit_test(both_spellings_are_read),
        cmocka_unit_test(what_zr_cannot_compute_is_named),
        cmocka_unit_test(config_json_is_written),
        cmocka_unit_test(heads_are_tied_or_not),
        cmocka_unit_test(the_family_is_trained_and_read_again),
    };
    return cmocka_run_group_tests(tests, set_up, tempdir_remove);
}
