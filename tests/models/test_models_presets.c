//TEST timeout=20
/* Model shapes by name: their sizes against the papers' tables and published counts, their names, and the answer to an
 * unknown name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/families.h"
#include "zr/models.h"

static zr_graph *graph_of(const zr_gpt2_config *config)
{
    zr_graph_spec spec = {
        .mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    zr_model model = zr_gpt2(config);
    model.build(graph, model.config);
    if (zr_graph_finish(graph) != ZR_OK) fail_msg("%s", zr_error_message());
    return graph;
}

static zr_gpt2_config preset(const char *name)
{
    zr_gpt2_config config;
    if (zr_gpt2_preset(name, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

/* Return the number of elements in all matrices of the blocks: the papers' 12 L h^2. */
static int64_t block_matrices(const zr_graph *graph)
{
    int64_t elems = 0;
    for (int32_t i = 0; i < zr_graph_params(graph); i++) {
        const zr_param_info *p = zr_graph_param(graph, i);
        if (p->shape.ndim == 2 && strncmp(zr_graph_unit_info(graph, p->unit)->name, "h.", 2) == 0)
            elems += zr_shape_elems(&p->shape);
    }
    return elems;
}

/* ---- sizes ------------------------------------------------------------------------------------ */

/* name, 12 L h^2, all parameters: for the ZeRO papers' shapes, the columns of their tables */
static const struct {
    const char *name;
    int64_t matrices, params;
} expected[] = {
    {"gpt2-124m", 84934656, 124439808},
    {"gpt2-350m", 301989888, 354823168},
    {"gpt2-774m", 707788800, 774030080},
    {"gpt2-1.5b", 1474560000, 1557611200},
    {"gpt2", 84934656, 124439808},
    {"gpt2-medium", 301989888, 354823168},
    {"gpt2-large", 707788800, 774030080},
    {"gpt2-xl", 1474560000, 1557611200},
    {"gpt3-1.3b", 1207959552, 1315723264},
    {"gpt3-2.7b", 2516582400, 2651553280},
    {"gpt3-6.7b", 6442450944, 6658404352},
    {"gpt3-13b", 12582912000, 12853386240},
    {"gpt3-175b", 173946175488, 174604259328},
    {"megatron-7.5b", 7247757312, 7467786240},
    {"megatron-8.3b", 8153726976, 8314143744},
    {"turing-nlg-17b", 16954269696, 17176845728},
    {"gpt-neox-20b", 19931332608, 20257296384},
    {"bloom-176b", 172637552640, 176276602880},
    {"gpt-1t", 998768640000, 1000123750400},
    {"zero-1.16b", 1061683200, 1160745600},
    {"zero-1.2b", 1132462080, 1212031488},
    {"zero-1.38b", 1132462080, 1212031488},
    {"zero-1.5b-34x1920x16", 1504051200, 1603363200},
    {"zero-1.5b-48x1600x16", 1474560000, 1557611200},
    {"zero-2.5b", 2388787200, 2488598400},
    {"zero-4b", 4076863488, 4196936448},
    {"zero-5.9b", 5804752896, 5940104544},
    {"zero-6b", 5888802816, 6048420864},
    {"zero-7.5b", 7247757312, 7459729408},
    {"zero-8b", 8153726976, 8314143744},
    {"zero-10b", 10066329600, 10279047168},
    {"zero-11b", 10871635968, 11084566528},
    {"zero-12b", 11676942336, 11890085888},
    {"zero-13b", 12482248704, 12695605248},
    {"zero-20b-98x4096x32", 19730006016, 19945279488},
    {"zero-20b-111x3808x32", 19315150848, 19515931456},
    {"zero-40b-50x8192x32", 40265318400, 40690753536},
    {"zero-40b-88x6144x32", 39862665216, 40184776704},
    {"zero-40b-88x6144x64", 39862665216, 40184776704},
    {"zero-50b", 49928994816, 50355707904},
    {"zero-60b-75x8192x32", 60397977600, 60826075136},
    {"zero-60b-75x8192x64", 60397977600, 60826075136},
    {"zero-60b-132x6144x32", 59793997824, 60119623680},
    {"zero-60b-132x6144x64", 59793997824, 60119623680},
    {"zero-80b-100x8192x64", 80530636800, 80961396736},
    {"zero-80b-100x8192x128", 80530636800, 80961396736},
    {"zero-80b-112x7680x80", 79272345600, 79677381120},
    {"zero-80b-173x6144x32", 78366375936, 78695276544},
    {"zero-100b-125x8192x64", 100663296000, 101096718336},
    {"zero-100b-125x8192x128", 100663296000, 101096718336},
    {"zero-100b-317x5120x80", 99719577600, 100003246080},
    {"zero-120b-150x8192x64", 120795955200, 121232039936},
    {"zero-120b-150x8192x128", 120795955200, 121232039936},
    {"zero-140b-175x8192x64", 140928614400, 141367361536},
    {"zero-140b-175x8192x128", 140928614400, 141367361536},
    {"zero-150b", 150592290816, 151032315904},
    {"zero-170b-212x8192x64", 170724950016, 171167637504},
    {"zero-170b-212x8192x256", 170724950016, 171167637504},
    {"zero-c1", 40265318400, 40690753536},
    {"zero-c2", 59793997824, 60119623680},
    {"zero-c3", 49928994816, 50355707904},
    {"zero-c4", 140928614400, 141367361536},
    {"zero-c5", 150592290816, 151032315904},
};
enum { EXPECTED = sizeof expected / sizeof *expected };

static void test_sizes(void **state)
{
    (void)state;
    const zr_preset *all = zr_family_find("gpt2")->preset;
    for (int i = 0; i < EXPECTED; i++) {
        assert_string_equal(all[i].name, expected[i].name);
        zr_gpt2_config config = preset(all[i].name);
        assert_int_equal(zr__gpt2_check(&config), ZR_OK);
        assert_true(config.embd_pdrop == 0 && config.resid_pdrop == 0 && config.attn_pdrop == 0);
        zr_graph *graph = graph_of(&config);
        assert_int_equal(block_matrices(graph), expected[i].matrices);
        assert_int_equal(zr_graph_param_elems(graph), expected[i].params);
        zr_graph_destroy(&graph);
    }
    assert_null(all[EXPECTED].name);
}

static int64_t params_of(const char *name)
{
    zr_gpt2_config config = preset(name);
    zr_graph *graph = graph_of(&config);
    int64_t params = zr_graph_param_elems(graph);
    zr_graph_destroy(&graph);
    return params;
}

/* Check parameter counts against the published ones of other projects' models, after subtracting or adding the
 * parameters in which their architecture differs from GPT-2's. */
static void test_published_counts(void **state)
{
    (void)state;
    zr_gpt2_config bloom = preset("bloom-176b"), neox = preset("gpt-neox-20b");
    int64_t positions = bloom.n_positions * bloom.n_embd, norm = 2 * bloom.n_embd;
    assert_int_equal(params_of("bloom-176b") - positions + norm, 176247271424); /* from its model card */
    positions = neox.n_positions * neox.n_embd;
    int64_t head = neox.vocab_size * neox.n_embd;
    /* from the README of its configuration */
    assert_int_equal(params_of("gpt-neox-20b") - positions + head, 20554567680);
}

static void test_trillion(void **state)
{
    (void)state;
    zr_gpt2_config config = preset("gpt-1t");
    assert_int_equal(config.n_embd % config.n_head, 0);
    assert_in_range(config.n_embd / config.n_head, 128, 192);
    assert_in_range(params_of("gpt-1t"), 999000000000, 1001000000000);
}

/* ---- models of the Llama kind ----------------------------------------------------------------- */

/* Numbers of parameters as published: in the models' descriptions or the headers of their files at Hugging Face. */
static const struct {
    const char *family, *name;
    int64_t params;
} published[] = {
    {"llama", "smollm2-135m", 134515008},
    {"llama", "smollm2-360m", 361821120},
    {"llama", "smollm2-1.7b", 1711376384},
    {"llama", "llama2-7b", 6738415616},
    {"llama", "llama2-13b", 13015864320},
    {"llama", "llama2-70b", 68976648192},
    {"llama", "llama3-8b", 8030261248},
    {"llama", "llama3-70b", 70553706496},
    {"llama", "llama3.1-8b", 8030261248},
    {"llama", "llama3.1-70b", 70553706496},
    {"llama", "llama3.1-405b", 405853388800},
    {"llama", "llama3.2-1b", 1235814400},
    {"llama", "llama3.2-3b", 3212749824},
    {"mistral", "mistral-7b", 7248023552},
    {"mistral", "mistral-nemo-12b", 12247782400},
    {"qwen2", "qwen2.5-0.5b", 494032768},
    {"qwen2", "qwen2.5-1.5b", 1543714304},
    {"qwen2", "qwen2.5-3b", 3085938688},
    {"qwen2", "qwen2.5-7b", 7615616512},
    {"qwen2", "qwen2.5-14b", 14770033664},
    {"qwen2", "qwen2.5-32b", 32763876352},
    {"qwen2", "qwen2.5-72b", 72706203648},
    {"qwen3", "qwen3-0.6b", 596049920},
    {"qwen3", "qwen3-1.7b", 1720574976},
    {"qwen3", "qwen3-4b", 4022468096},
    {"qwen3", "qwen3-8b", 8190735360},
    {"qwen3", "qwen3-14b", 14768307200},
    {"qwen3", "qwen3-32b", 32762123264},
};
enum { PUBLISHED = sizeof published / sizeof *published };

/* Return the number of parameters by formula: the table and, unless it is tied, the head; four products of attention
 * and three of the MLP, two norms, Qwen2's biases and Qwen3's norms of heads in each layer; the last norm. */
static int64_t by_formula(const char *family, const zr_llama_config *c)
{
    const int64_t h = c->hidden_size, q = c->num_attention_heads * c->head_dim,
                  kv = c->num_key_value_heads * c->head_dim;
    int64_t layer = 2 * h * (q + kv) + 3 * h * c->intermediate_size + 2 * h;
    if (strcmp(family, "qwen2") == 0) layer += q + 2 * kv;
    if (strcmp(family, "qwen3") == 0) layer += 2 * c->head_dim;
    return c->vocab_size * h * (c->tie_word_embeddings ? 1 : 2) + c->num_hidden_layers * layer + h;
}

static int64_t count_params(const zr_family *family, const zr_model_config *config, int *tensors)
{
    const bool pairs = family->samples == ZR_SAMPLES_PAIRS;
    const zr_graph_spec spec = {.mode = ZR_MODE_EVAL,
                                .batch = 1,
                                .seq = 1,
                                .dtype = ZR_F32,
                                .grad_dtype = ZR_F32,
                                .tensor = 1,
                                .documents = pairs,
                                .predictions = pairs,
                                .samples = pairs};
    const zr_model model = zr_family_model(family, config);
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
    model.build(graph, model.config);
    if (zr_graph_finish(graph) != ZR_OK) fail_msg("%s", zr_error_message());
    const int64_t params = zr_graph_param_elems(graph);
    *tensors = zr_graph_params(graph);
    zr_graph_destroy(&graph);
    return params;
}

static void test_llama_sizes(void **state)
{
    (void)state;
    const zr_family *family = NULL;
    zr_model_config config;
    int presets = 0;
    for (int i = 0; i < PUBLISHED; i++) {
        if (zr_family_find_preset(published[i].name, &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
        assert_string_equal(family->name, published[i].family);
        assert_int_equal(family->check(&config), ZR_OK);
        int tensors = 0;
        const int64_t params = count_params(family, &config, &tensors);
        if (params != published[i].params || params != by_formula(family->name, (const zr_llama_config *)&config))
            fail_msg("%s has %lld parameters", published[i].name, (long long)params);
    }
    for (int i = 0; zr_family_preset(i, &family); i++)
        presets += strcmp(family->name, "gpt2") != 0 && family->samples == ZR_SAMPLES_NEXT;
    assert_int_equal(presets, PUBLISHED);
}

/* ---- BERT --------------------------------------------------------------------------------------- */

/* Return the number of parameters by formula: three tables and a norm; four products of attention, two of the MLP and
 * two norms, with biases, in each layer; the pooler; the head for masked tokens, whose table is tied, and the head for
 * pairs; with norms before each part a last norm. */
static int64_t bert_by_formula(const zr_bert_config *c, bool pre_layer_norm)
{
    const int64_t h = c->hidden_size, inner = c->intermediate_size;
    const int64_t tables = (c->vocab_size + c->max_position_embeddings + c->type_vocab_size + 2) * h;
    const int64_t layer = 4 * (h * h + h) + 2 * h * inner + inner + h + 4 * h;
    return tables + c->num_hidden_layers * layer + 2 * (h * h + h) + 2 * h + c->vocab_size + 2 * h + 2 +
           (pre_layer_norm ? 2 * h : 0);
}

static void test_bert_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t params;
        int tensors;
    } known[] = {{"bert-base", 110106428, 206}, {"bert-large", 336226108, 398}}; /* as counted by transformers */
    const zr_family *family = NULL;
    const zr_preset *preset;
    zr_model_config config;
    int found = 0;
    for (int i = 0; (preset = zr_family_preset(i, &family)); i++) {
        if (family->samples != ZR_SAMPLES_PAIRS) continue;
        assert_int_equal(zr_family_find_preset(preset->name, &family, &config), ZR_OK);
        assert_int_equal(family->check(&config), ZR_OK);
        const zr_bert_config *c = (const zr_bert_config *)&config;
        int tensors = 0;
        const int64_t params = count_params(family, &config, &tensors);
        if (params != bert_by_formula(c, strcmp(family->name, "bert-preln") == 0))
            fail_msg("%s has %lld parameters", preset->name, (long long)params);
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(preset->name, known[k].name) == 0) {
                assert_int_equal(params, known[k].params);
                assert_int_equal(tensors, known[k].tensors);
                found++;
            }
    }
    assert_int_equal(found, 2);
}

/* ---- names ------------------------------------------------------------------------------------ */

/* Check that a name that spells a shape out has that shape. */
static void test_names_say_the_shape(void **state)
{
    (void)state;
    int spelled = 0;
    const zr_preset *all = zr_family_find("gpt2")->preset;
    for (const zr_preset *its = all; its->name; its++) {
        double size = 0;
        long long layers = 0, width = 0, heads = 0;
        if (sscanf(its->name, "zero-%lfb-%lldx%lldx%lld", &size, &layers, &width, &heads) != 4) continue;
        zr_gpt2_config config = preset(its->name);
        assert_int_equal(config.n_layer, layers);
        assert_int_equal(config.n_embd, width);
        assert_int_equal(config.n_head, heads);
        spelled++;
    }
    assert_int_equal(spelled, 24);
    for (const zr_preset *a = all; a->name; a++)
        for (const zr_preset *b = a + 1; b->name; b++) assert_string_not_equal(a->name, b->name);
}

static void answers(const char *name, const char *text)
{
    zr_gpt2_config config;
    assert_int_equal(zr_gpt2_preset(name, &config), ZR_ERR_NOT_FOUND);
    if (!strstr(zr_error_message(), text)) fail_msg("%s: %s", name, zr_error_message());
    assert_non_null(strstr(zr_error_message(), "zr plan --shapes"));
}

static void test_unknown_names(void **state)
{
    (void)state;
    answers("gpt2-7b", "nearest: gpt2-774m gpt2-124m gpt2-350m gpt2-1.5b gpt2-medium gpt2-large");
    answers("zero-60b", "nearest: zero-60b-75x8192x32 zero-60b-75x8192x64 zero-60b-132x6144x32 zero-60b-132x6144x64");
    answers("175b", "nearest: gpt3-175b");
    answers("bloom", "nearest: bloom-176b;");
    answers("Qwen/Qwen2-7B", "nearest: qwen2.5-7b ");
    answers("mistralai/Mistral-7B-v0.1", "nearest: mistral-7b ");
    answers("meta-llama/Llama-3.3-70B-Instruct", "nearest: llama3.1-70b ");
    answers("google-bert/bert-base-cased", "nearest: bert-base ");
    answers("unsloth/mistral-7b", "nearest: mistral-7b ");
    answers("EleutherAI/gpt-neox-20b", "nearest: gpt-neox-20b");
    answers("/models/Llama-3-8B", "nearest: llama3-8b ");
    answers("gtp-2", "nearest: gpt2;");
    answers("gtp2-xl", "nearest: gpt2-xl");
    answers("", "no preset \"\"; `zr");
    answers("qqqq", "no preset \"qqqq\"; `zr");
}

/* Check that names of Hugging Face and other spellings are understood if they stand for exactly one preset, and that
 * similar names of other models are not. */
static void test_other_names(void **state)
{
    (void)state;
    static const char *const same[][2] = {{"meta-llama/Meta-Llama-3-8B", "llama3-8b"},
                                          {"Llama-3-8B", "llama3-8b"},
                                          {"llama3:8b", "llama3-8b"},
                                          {"LLaMA 3 8B", "llama3-8b"},
                                          {"https://huggingface.co/meta-llama/Llama-3.2-1B", "llama3.2-1b"},
                                          {"qwen/qwen3-8b", "qwen3-8b"},
                                          {"meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"},
                                          {"meta-llama/Llama-2-7b-hf", "llama2-7b"},
                                          {"mistralai/Mistral-7B-v0.3", "mistral-7b"},
                                          {"Qwen/Qwen2.5-0.5B", "qwen2.5-0.5b"},
                                          {"HuggingFaceTB/SmolLM2-135M", "smollm2-135m"},
                                          {"gpt2", "gpt2"},
                                          {"gpt-2", "gpt2"},
                                          {"openai-community/gpt2-xl", "gpt2-xl"},
                                          {"GPT2_medium", "gpt2-medium"},
                                          {"bert-base-uncased", "bert-base"},
                                          {"google-bert/bert-large-uncased", "bert-large"},
                                          {"google/bert_uncased_L-2_H-128_A-2", "bert-tiny"}};
    static const char *const other[] = {"Llama-38B",
                                        "llama38b",
                                        "Llama-3-80B",
                                        "mistralai/Mistral-7B-v0.1",
                                        "Qwen/Qwen2-7B",
                                        "bert-base-cased",
                                        "./llama3-8b",
                                        "/models/llama3-8b",
                                        "a/b/llama3-8b",
                                        "meta-llama/b/llama3-8b",
                                        "llama/Llama-3-8B",
                                        "unsloth/mistral-7b",
                                        "EleutherAI/gpt-neox-20b",
                                        "Qwen/Qwen2.5-7B-Instruct",
                                        "HuggingFaceTB/SmolLM-135M",
                                        "",
                                        "-",
                                        "meta-llama/"};
    const zr_family *family;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const zr_preset *found = zr_family_preset_called(same[i][0], &family);
        if (!found || strcmp(found->name, same[i][1]) != 0)
            fail_msg("%s is %s", same[i][0], found ? found->name : "unknown");
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (zr_family_preset_called(other[i], &family)) fail_msg("%s is understood", other[i]);
    /* Every preset is found by its own name and in capital letters, so no two names fall together. */
    const zr_preset *preset;
    for (int i = 0; (preset = zr_family_preset(i, &family)); i++) {
        char large[64];
        size_t n = 0;
        for (; preset->name[n]; n++)
            large[n] = (char)(preset->name[n] >= 'a' ? preset->name[n] - 'a' + 'A' : preset->name[n]);
        large[n] = '\0';
        assert_ptr_equal(zr_family_preset_called(preset->name, &family), preset);
        assert_ptr_equal(zr_family_preset_called(large, &family), preset);
    }
}

/* ---- the tables themselves -------------------------------------------------------------------- */

/* Every shape of the papers' tables: ZeRO (arXiv 1910.02054v1) tables 4 and 5; SC20, C1 to C5 and the runs of its
 * artifact appendix. Each row has the label as printed, layers, width and heads. */
static const struct {
    const char *label;
    long long layers, width, heads;
} printed[] = {
    {"1.2", 40, 1536, 16},   {"1.5", 48, 1600, 16},  {"4", 64, 2304, 24},     {"5.9", 72, 2592, 32},
    {"8", 72, 3072, 24},     {"20", 111, 3808, 32},  {"40", 88, 6144, 32},    {"60", 132, 6144, 32},
    {"60", 132, 6144, 64},   {"80", 173, 6144, 32},  {"80", 112, 7680, 80},   {"100", 317, 5120, 80},
    {"C1", 50, 8192, 32},    {"C2", 132, 6144, 64},  {"C3", 62, 8192, 32},    {"C4", 175, 8192, 64},
    {"C5", 187, 8192, 64},   {"20", 98, 4096, 32},   {"40", 88, 6144, 64},    {"80", 100, 8192, 64},
    {"80", 100, 8192, 128},  {"100", 125, 8192, 64}, {"100", 125, 8192, 128}, {"120", 150, 8192, 64},
    {"120", 150, 8192, 128}, {"140", 175, 8192, 64}, {"140", 175, 8192, 128}, {"170", 212, 8192, 64},
    {"170", 212, 8192, 256}, {"60", 75, 8192, 32},   {"40", 50, 8192, 32},    {"150", 187, 8192, 64},
    {"50", 62, 8192, 32},    {"60", 75, 8192, 64},   {"1.5", 34, 1920, 16},   {"2.5", 54, 1920, 16},
    {"6", 52, 3072, 24},     {"10", 50, 4096, 32},   {"11", 54, 4096, 32},    {"12", 58, 4096, 32},
    {"13", 62, 4096, 32},    {"1.16", 24, 1920, 16}, {"1.38", 40, 1536, 16},
};
enum { PRINTED = sizeof printed / sizeof *printed };

/* Check that each printed row is found by its name, whether or not the name spells its shape out. */
static void test_every_row_of_the_tables(void **state)
{
    (void)state;
    for (int i = 0; i < PRINTED; i++) {
        char name[40], spelled[100];
        zr_gpt2_config config;
        const char *label = printed[i].label;
        bool letter = label[0] == 'C';
        snprintf(name, sizeof name, letter ? "zero-c%s" : "zero-%sb", label + letter);
        snprintf(spelled, sizeof spelled, "%s-%lldx%lldx%lld", name, printed[i].layers, printed[i].width,
                 printed[i].heads);
        if (zr_gpt2_preset(name, &config) != ZR_OK) config = preset(spelled);
        assert_int_equal(config.n_layer, printed[i].layers);
        assert_int_equal(config.n_embd, printed[i].width);
        assert_int_equal(config.n_head, printed[i].heads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_published_counts),
        cmocka_unit_test(test_trillion),
        cmocka_unit_test(test_llama_sizes),
        cmocka_unit_test(test_bert_sizes),
        cmocka_unit_test(test_names_say_the_shape),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_every_row_of_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
