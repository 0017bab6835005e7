//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* What a run begins with: adapters on their base, weights of another task, what is chosen where nothing is given, and
 * where a run that has moved finds its files and its cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "support/allocations.h"
#include "support/hf_make.h"
#include "data/labelled.h"
#include "support/prepared.h"
#include "train/family/adapter.h"
#include "train/family/inputs.h"
#include "train/family/paths.h"

/* ---- weights and adapters ------------------------------------------------------------------------------- */

static const zr_gpt2_config HF = {2, 2, 16, 8, 256, 0, 0, 0, 1e-5, 0.02};

/* Write a directory of an adapter of the base "base" with these tensors, and the base's path. */
static void write_adapter(const char *name, const char *base, const zr__tensor_spec *tensor, int n)
{
    char path[PATH_MAX];
    hf_new_folder(name);
    snprintf(path, sizeof(path), "%s/%s/adapter_config.json", tempdir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\": [\"c_attn\"],"
            " \"fan_in_fan_out\": true, \"task_type\": \"CAUSAL_LM\"%s%s%s}\n",
            base ? ", \"base_model_name_or_path\": \"" : "", base ? base : "", base ? "\"" : "");
    fclose(f);
    snprintf(path, sizeof(path), "%s/%s/adapter_model.safetensors", tempdir, name);
    assert_int_equal(zr__safetensors_create(path, NULL, tensor, n), ZR_OK);
}

#define LAYER "base_model.model.transformer.h.0.attn.c_attn.lora_"
static const zr__tensor_spec A = {LAYER "A.weight", {2, {2, 16}}}, B = {LAYER "B.weight", {2, {48, 2}}};

static zr_status open_adapter(const char *name, const char *base, zr__family_model *model)
{
    zr_weights *weights = NULL;
    char note[512] = "", dir[PATH_MAX], of[PATH_MAX] = "";
    snprintf(dir, sizeof(dir), "%s/%s", tempdir, name);
    if (base) snprintf(of, sizeof(of), "%s", base);
    const zr_status st = zr__adapter_open(dir, of, model, &weights, note, sizeof(note));
    zr_weights_close(&weights);
    return st;
}

static void adapters_fit_their_base(void **state)
{
    (void)state;
    char base[PATH_MAX];
    zr__family_model model;
    const zr__tensor_spec both[] = {A, B, {"base_model.model.transformer.h.1.attn.c_attn.lora_B.weight", {2, {48, 2}}}};
    hf_make("base", &HF, NULL, 0);
    snprintf(base, sizeof(base), "%s/base", tempdir);
    write_adapter("right", base, both, 2);
    if (open_adapter("right", NULL, &model) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_true(model.lora.rank == 2 && model.lora.alpha == 4 && model.sizes.layers == 2);
    write_adapter("none", base, both, 0); /* no factors */
    assert_int_equal(open_adapter("none", NULL, &model), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "it has no factors of LoRA"));
    write_adapter("half", base, &A, 1);
    assert_int_equal(open_adapter("half", NULL, &model), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "the adapter does not fit its base"));
    write_adapter("more", base, both, 3); /* a B without its A */
    assert_int_equal(open_adapter("more", NULL, &model), ZR_ERR_DATA);
    if (!strstr(zr_error_message(), "the adapter has 3 tensors, of which the model uses only 2"))
        fail_msg("%s", zr_error_message());
    write_adapter("nameless", NULL, both, 2);
    assert_int_equal(open_adapter("nameless", NULL, &model), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "base_model_name_or_path is missing"));
    assert_int_equal(open_adapter("nameless", base, &model), ZR_OK); /* a base that is given needs no name */
}

/* Check where the base of an adapter is looked for: at its path, then by its last component in the adapter's directory
 * and in three above. */
static void a_base_that_has_moved_is_found(void **state)
{
    (void)state;
    const zr__tensor_spec both[] = {A, B};
    char dir[PATH_MAX], want[PATH_MAX];
    hf_make("base", &HF, NULL, 0);
    hf_new_folder("a");
    for (int deep = 1; deep < 5; deep++) {
        char name[64] = "a";
        for (int i = 1; i < deep; i++) {
            snprintf(name + strlen(name), sizeof(name) - strlen(name), "/%d", i);
            (void)mkdir(in_tempdir(name), 0777);
        }
        snprintf(name + strlen(name), sizeof(name) - strlen(name), "/adapter");
        write_adapter(name, "/gone/base", both, 2);
        snprintf(dir, sizeof(dir), "%s/%s", tempdir, name);
        zr__family_model model;
        zr_weights *weights = NULL;
        char found[PATH_MAX] = "", note[256];
        const zr_status st = zr__adapter_open(dir, found, &model, &weights, note, sizeof(note));
        zr_weights_close(&weights);
        assert_int_equal(st, deep < 3 ? ZR_OK : ZR_ERR_NOT_FOUND);
        snprintf(want, sizeof(want), "%s/base", tempdir);
        if (st == ZR_OK) assert_string_equal(found, want);
        if (st != ZR_OK)
            assert_non_null(strstr(zr_error_message(), "the base of this adapter, /gone/base (base_model"));
    }
}

static void adapters_are_described(void **state)
{
    (void)state;
    char base[PATH_MAX], dir[PATH_MAX], real[PATH_MAX];
    const zr__tensor_spec both[] = {A, B};
    zr__family_model model;
    zr__adapter read = {0}, adapter;
    zr_graph *graph = NULL;
    zr__tensor_spec *specs = NULL;
    int64_t n = 0;
    hf_make("base", &HF, NULL, 0);
    snprintf(base, sizeof(base), "%s/base", tempdir);
    assert_non_null(realpath(base, real));
    write_adapter("right", base, both, 2);
    snprintf(dir, sizeof(dir), "%s/right", tempdir);
    assert_int_equal(zr__adapter_read(dir, &read), ZR_OK);
    assert_int_equal(zr__family_read(base, &model), ZR_OK);
    for (int all = 0; all < 2; all++) { /* one layer of two is listed by its name, both by the last part of it */
        model.lora = read.lora;
        if (all) model.lora.targets = "c_attn";
        assert_int_equal(zr__param_graph(&model, &graph), ZR_OK);
        assert_true(zr__has_adapters(graph));
        assert_int_equal(zr__adapter_describe(graph, &model, base, &adapter), ZR_OK);
        assert_string_equal(adapter.targets, all ? "c_attn" : "transformer.h.0.attn.c_attn");
        assert_string_equal(adapter.base, real);
        assert_true(adapter.by_columns && adapter.predicts_next && adapter.lora.rank == 2);
        assert_ptr_equal(adapter.lora.targets, adapter.targets);
        assert_int_equal(zr__adapter_specs(graph, &specs, &n), ZR_OK);
        assert_int_equal(n, all ? 4 : 2);
        assert_string_equal(specs[0].name, A.name);
        assert_true(zr_shape_equal(&specs[0].shape, &A.shape) && zr_shape_equal(&specs[1].shape, &B.shape));
        zr_free(specs);
        int64_t count[4];
        for (zr__params set = ZR_PARAMS_ALL; set <= ZR_PARAMS_TRAINED; set++) {
            assert_int_equal(zr__param_specs(graph, set, &specs, &count[set]), ZR_OK);
            zr_free(specs);
        }
        const int64_t factors = all ? 4 : 2;
        assert_int_equal(count[ZR_PARAMS_BASE], 28);
        assert_int_equal(count[ZR_PARAMS_ALL], 28 + factors);
        assert_int_equal(count[ZR_PARAMS_STORED], factors);
        assert_int_equal(count[ZR_PARAMS_TRAINED], factors);
        zr__adapter_clear(&adapter);
        zr_graph_destroy(&graph);
    }
    model.lora.rank = 0;
    assert_int_equal(zr__param_graph(&model, &graph), ZR_OK);
    assert_false(zr__has_adapters(graph));
    assert_int_equal(zr__param_specs(graph, ZR_PARAMS_STORED, &specs, &n), ZR_OK);
    assert_int_equal(n, 28);
    zr_free(specs);
    zr_graph_destroy(&graph);
    zr__adapter_clear(&read);
}

static void weights_must_be_finite(void **state)
{
    (void)state;
    const float x[] = {1, 2, NAN, INFINITY};
    assert_int_equal(zr__weights_finite("dir", "w", 10, x, 2), ZR_OK);
    assert_int_equal(zr__weights_finite("dir", "w", 10, x, 4), ZR_ERR_DATA);
    assert_string_equal(zr_error_message(), "dir: tensor w: element 12 is nan; weights must be finite");
    assert_int_equal(zr__weights_finite("", "w", 0, x + 3, 1), ZR_ERR_DATA);
    assert_string_equal(zr_error_message(), "tensor w: element 0 is inf; weights must be finite");
}

/* Check inputs that lack something, or whose weights are of another kind. */
static void inputs_are_checked(void **state)
{
    (void)state;
    zr__inputs inputs = {0};
    char base[PATH_MAX];
    hf_make("base", &HF, NULL, 0);
    snprintf(base, sizeof(base), "%s/base", tempdir);
    put_file("text", "abcdefghijklmnopqrstuvwxyz", 26);
    zr_config *c = prepared("{\"model\": {\"init\": \"%s\"}, \"data\": {\"tokenizer\": \"bytes\"}}", base);
    assert_int_equal(zr__inputs_open(c, true, NULL, NULL, &inputs), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "data.train is missing"));
    zr__inputs_close(&inputs);
    zr_config_destroy(&c);
    c = prepared("{\"model\": {\"init\": \"%s\"}, \"data\": {\"tokenizer\": \"bytes\", \"train\": \"%s/text\","
                 " \"val\": \"%s/text\"}}",
                 base, tempdir, tempdir);
    assert_int_equal(zr__inputs_open(c, true, NULL, NULL, &inputs), ZR_OK);
    assert_true(zr__samples_are_open(&inputs.train) && zr__samples_are_open(&inputs.val) && inputs.weights);
    assert_true(inputs.note[0] == '\0' && inputs.fresh[0] == '\0');
    assert_false(zr__inputs_lack(&inputs, "transformer.wte.weight"));
    zr__inputs_close(&inputs);
    zr_config_destroy(&c);
    c = load("{\"model\": {\"lora\": {\"rank\": 3}}, \"data\": {\"tokenizer\": \"bytes\", \"seq_length\": 8, "
             "\"train\": \"%s/text\"}}",
             tempdir);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    assert_int_equal(zr__inputs_open(c, true, NULL, NULL, &inputs), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "model.lora.rank is 3, but model.init is missing"));
    zr__inputs_close(&inputs);
    zr_config_destroy(&c);
}

/* Check the weights of a directory, with or without an adapter, and that nothing is left without memory. */
static zr_status list_params(void *arg)
{
    zr__tensor_spec *specs = NULL;
    int64_t n = 0;
    const zr_status st = zr__param_specs(arg, ZR_PARAMS_ALL, &specs, &n);
    zr_free(specs);
    return st;
}

static zr_status list_factors(void *arg)
{
    zr__tensor_spec *specs = NULL;
    int64_t n = 0;
    const zr_status st = zr__adapter_specs(arg, &specs, &n);
    zr_free(specs);
    return st;
}

static void weights_of_directories_are_opened(void **state)
{
    (void)state;
    char base[PATH_MAX], dir[PATH_MAX], note[512];
    const zr__tensor_spec both[] = {A, B};
    zr__family_model model;
    zr_weights *weights = NULL;
    zr_graph *graph = NULL;
    hf_make("base", &HF, NULL, 0);
    snprintf(base, sizeof(base), "%s/base", tempdir);
    write_adapter("right", base, both, 2);
    snprintf(dir, sizeof(dir), "%s/right", tempdir);
    for (int adapter = 0; adapter < 2; adapter++) {
        if (zr__weights_of_dir(adapter ? dir : base, &model, &weights, note, sizeof(note)) != ZR_OK)
            fail_msg("%s", zr_error_message());
        assert_true(model.sizes.layers == 2 && model.sizes.width == 16 && model.lora.rank == (adapter ? 2 : 0));
        assert_string_equal(model.family->name, "gpt2");
        zr_weights_close(&weights);
    }
    (void)remove(in_tempdir("base/model.safetensors"));
    assert_true(zr__weights_of_dir(base, &model, &weights, note, sizeof(note)) != ZR_OK);
    assert_null(weights);
    model.lora = (zr_lora){.rank = 2, .alpha = 4, .targets = "c_attn"};
    assert_int_equal(zr__param_graph(&model, &graph), ZR_OK);
    expect_each_allocation_fails(list_params, graph, 0);
    expect_each_allocation_fails(list_factors, graph, 0);
    zr_graph_destroy(&graph);
}

/* ---- preparing -------------------------------------------------------------------------------------- */

static void expect_unprepared(const char *message, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    zr_config *c = load("%s", text);
    if (zr_train_prepare(c, 1, 0) == ZR_OK || !strstr(zr_error_message(), message))
        fail_msg("%s: %s", message, zr_error_message());
    zr_config_destroy(&c);
}

static bool is_noted(const zr_config *config, const char *part)
{
    for (int i = 0; i < zr_config_notes(config); i++)
        if (strstr(zr_config_note(config, i), part)) return true;
    return false;
}

/* Check that adapters have the keys of their directory, and that other keys are refused by name. */
static void an_adapter_gives_its_keys(void **state)
{
    (void)state;
    char base[PATH_MAX], dir[PATH_MAX];
    const zr__tensor_spec both[] = {A, B};
    zr__inputs inputs = {0};
    hf_make("base", &HF, NULL, 0);
    snprintf(base, sizeof(base), "%s/base", tempdir);
    write_adapter("right", base, both, 2);
    snprintf(dir, sizeof(dir), "%s/right", tempdir);
    put_file("text", "abcdefghijklmnopqrstuvwxyz", 26);
    zr_config *c =
        prepared("{\"model\": {\"init\": \"%s\", \"lora\": {\"init\": \"%s\"}}, \"data\": {\"train\": \"%s/text\","
                 " \"tokenizer\": \"bytes\"}}",
                 base, dir, tempdir);
    assert_true(c->model.lora.rank == 2 && c->model.lora.alpha == 4);
    assert_string_equal(c->model.lora.targets, "transformer.h.0.attn.c_attn");
    if (zr__inputs_open(c, true, NULL, NULL, &inputs) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_non_null(inputs.weights);
    zr__inputs_close(&inputs);
    zr_config_destroy(&c);
    static const char with[] = "{\"model\": {\"init\": \"%s\", \"lora\": {\"init\": \"%s\", %s}}}";
    expect_unprepared("model.lora.rank differs from the adapter in model.lora.init, which has 2", with, base, dir,
                      "\"rank\": 3");
    expect_unprepared("model.lora.alpha differs from the adapter in model.lora.init, which has 4", with, base, dir,
                      "\"alpha\": 3");
    expect_unprepared("model.lora.targets differs from the adapter in model.lora.init, which has "
                      "[\"transformer.h.0.attn.c_attn\"]",
                      with, base, dir, "\"targets\": [\"c_proj\"]");
    c = prepared(with, base, dir, "\"rank\": 2, \"alpha\": 4");
    zr_config_destroy(&c);
    expect_unprepared("give an adapter directory of peft",
                      "{\"model\": {\"init\": \"%s\", \"lora\": {\"init\": \"%s\"}}}", base, base);
    expect_unprepared("has an adapter, not a whole model; give the directory of its base",
                      "{\"model\": {\"init\": \"%s\"}}", dir);
}

static void what_is_not_given_is_chosen(void **state)
{
    (void)state;
    char base[PATH_MAX];
    hf_make("base", &HF, NULL, 0);
    snprintf(base, sizeof(base), "%s/base", tempdir);
    put_file("text", "abcdefghijklmnopqrstuvwxyz", 26);
    zr_config *c = prepared("{}");
    assert_string_equal(c->train.output_dir, "runs/gpt2-19700101-000000");
    zr_config_destroy(&c);
    c = load("{\"model\": {\"preset\": \"gpt2-124m\"}}");
    assert_int_equal(zr_train_prepare(c, 1, 86400 + 3723), ZR_OK);
    assert_string_equal(c->train.output_dir, "runs/gpt2-124m-19700102-010203");
    zr_config_destroy(&c);
    c = prepared("{\"model\": {\"vocab_size\": 513, \"n_positions\": 8}, \"data\": {\"train\": \"%s/text\"}, "
                 "\"train\": {\"output_dir\": \"x\"}}",
                 tempdir);
    assert_string_equal(c->data.tokenizer, "bytes");
    assert_string_equal(c->train.output_dir, "x");
    assert_true(is_noted(c, "so the text is read as bytes, which use only 256 of the model's 513 tokens"));
    for (int i = 0; i < zr_config_notes(c); i++) assert_true(zr_config_note(c, i)[0]); /* no note is empty */
    zr_config_destroy(&c);
    c = prepared("{\"model\": {\"vocab_size\": 512, \"n_positions\": 8}, \"data\": {\"train\": \"%s/text\"}}", tempdir);
    assert_false(is_noted(c, "the text is read as bytes"));
    for (int i = 0; i < zr_config_notes(c); i++) assert_true(zr_config_note(c, i)[0]);
    zr_config_destroy(&c);
    c = prepared("{\"data\": {\"tokenizer\": \"%s\"}}", in_squad(""));
    assert_int_equal(zr_config_sizes(c).vocabulary, VOCAB); /* that of the tokenizer */
    zr_config_destroy(&c);
    expect_unprepared("data.tokenizer: ", "{\"data\": {\"tokenizer\": \"%s/nowhere\"}}", tempdir);
    expect_unprepared("(needed for model.vocab_size, which is not given)",
                      "{\"data\": {\"tokenizer\": \"%s/nowhere\"}}", tempdir);
    expect_unprepared("model.preset: there is no preset \"gpt9\"", "{\"model\": {\"preset\": \"gpt9\"}}");
    expect_unprepared("model.init: ", "{\"model\": {\"init\": \"%s/nowhere\"}}", tempdir);
    expect_unprepared("; give a Hugging Face directory on this machine", "{\"model\": {\"init\": \"%s/nowhere\"}}",
                      tempdir);
    expect_unprepared("data.tokenizer is missing; text for an encoder needs a tokenizer",
                      "{\"model\": {\"type\": \"bert\"}, \"data\": {\"train\": \"%s/text\"}}", tempdir);
    static const uint16_t tokens[40] = {1, 2, 3, 400, 5, 60000};
    put_file("tokens.bin", tokens, sizeof(tokens));
    expect_unprepared("data.train is text but data.val is tokens, and data.tokenizer is not given",
                      "{\"data\": {\"train\": \"%s/text\", \"val\": \"%s/tokens.bin\"}}", tempdir, tempdir);
}

/* Check weights of another task: the head is new, and adapters are refused. */
static void another_task_has_a_new_head(void **state)
{
    (void)state;
    zr__family_model model = {0};
    zr_graph *graph = NULL;
    zr__tensor_spec *specs = NULL;
    zr__inputs inputs = {0};
    int64_t n = 0;
    char path[PATH_MAX];
    static const char text[] = "{\"model\": {\"type\": \"bert\", \"num_hidden_layers\": 1, \"num_attention_heads\": 1,"
                               " \"hidden_size\": 8, \"max_position_embeddings\": 32, \"vocab_size\": 155}}";
    zr_config *c = prepared("%s", text);
    model.family = c->model.family;
    model.config = c->model.config;
    zr_config_destroy(&c);
    hf_new_folder("bert");
    assert_int_equal(zr_hf_write(in_tempdir("bert"), model.family, &model.config), ZR_OK);
    assert_int_equal(zr__param_graph(&model, &graph), ZR_OK);
    assert_int_equal(zr__param_specs(graph, ZR_PARAMS_ALL, &specs, &n), ZR_OK);
    snprintf(path, sizeof(path), "%s/bert/model.safetensors", tempdir);
    assert_int_equal(zr__safetensors_create(path, NULL, specs, n), ZR_OK);
    zr_free(specs);
    zr_graph_destroy(&graph);
    static const char tuned[] =
        "{\"model\": {\"init\": \"%s/bert\", \"task\": \"sequence_classification\"%s}, \"data\":"
        " {\"train\": \"%s\", \"tokenizer\": \"%s\", \"seq_length\": 32}}";
    char data[PATH_MAX];
    snprintf(data, sizeof(data), "%s", write_file("numbers.jsonl", "{\"text\": \"the\", \"label\": 0}\n"));
    c = prepared(tuned, tempdir, "", data, in_squad(""));
    if (zr__inputs_open(c, true, NULL, NULL, &inputs) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_string_equal(inputs.fresh, "classifier.weight, classifier.bias");
    assert_true(zr__inputs_lack(&inputs, "classifier.weight") && !zr__inputs_lack(&inputs, "bert.pooler.dense.weight"));
    zr__inputs_close(&inputs);
    zr_config_destroy(&c);
    expect_unprepared("is no BertForSequenceClassification: adapters cannot begin with another task's weights", tuned,
                      tempdir, ", \"lora\": {\"rank\": 2}", data, in_squad(""));
}

static void all_memory_is_freed(void **state)
{
    (void)state;
    assert_int_equal(alloc_live, 0);
}

/* ---- where files are -------------------------------------------------------------------------------- */

/* Check the order in which a run looks for its files: where it began, beside the run and two directories above, here.
 */
static void a_run_finds_its_files(void **state)
{
    (void)state;
    char found[PATH_MAX], run[PATH_MAX], want[PATH_MAX];
    (void)mkdir(in_tempdir("start"), 0777);
    (void)mkdir(in_tempdir("moved"), 0777);
    (void)mkdir(in_tempdir("moved/runs"), 0777);
    (void)mkdir(in_tempdir("moved/runs/a"), 0777);
    put_file("moved/text", "x", 1);
    snprintf(run, sizeof(run), "%s/moved/runs/a", tempdir);
    zr_config *c = load("{\"train\": {\"started_in\": \"%s/start\", \"output_dir\": \"runs/a\"}}", tempdir);
    static const struct {
        const char *at, *path;
        bool found;
    } cases[] = {
        {"moved/text", "text", true},             /* relative to where output_dir now is */
        {"start/text", "text", true},             /* where the run began, before all else */
        {"moved/runs/a/other", "x/other", true},  /* by its name in the run */
        {"moved/runs/second", "/x/second", true}, /* by its name one above */
        {"moved/third", "/x/third", true},        /* two above */
        {"fourth", "/x/fourth", false},           /* three above is too far */
        {"moved/runs/a/none", "/x/missing", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_file(cases[i].at, "x", 1);
        const zr_status st = zr__run_path_find(c, run, "data.train", cases[i].path, found);
        if (cases[i].found && st != ZR_OK) fail_msg("%s", zr_error_message());
        if (!cases[i].found) {
            assert_int_equal(st, ZR_ERR_NOT_FOUND);
            assert_non_null(strstr(zr_error_message(), "data.train: "));
            assert_non_null(strstr(zr_error_message(), "neither does a copy beside the run in "));
            continue;
        }
        assert_non_null(realpath(in_tempdir(cases[i].at), want));
        assert_string_equal(found, want);
    }
    zr_config_destroy(&c);
}

static void a_run_finds_its_cache(void **state)
{
    (void)state;
    char run[PATH_MAX], found[PATH_MAX], want[PATH_MAX];
    const char *cache = NULL;
    (void)mkdir(in_tempdir("start"), 0777);
    (void)mkdir(in_tempdir("moved"), 0777);
    (void)mkdir(in_tempdir("moved/runs"), 0777);
    (void)mkdir(in_tempdir("moved/runs/a"), 0777);
    snprintf(run, sizeof(run), "%s/moved/runs/a", tempdir);
    static const struct {
        const char *start, *cache, *want; /* want: in the temporary folder; NULL: the user's cache */
    } cases[] = {{"start", "c", "start/c"}, {"start", "c/d/e", "start/c/d/e"}, {"gone", "c", "moved/c"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = load("{\"train\": {\"started_in\": \"%s/%s\", \"output_dir\": \"runs/a\"},"
                            " \"data\": {\"cache_dir\": \"%s\"}}",
                            tempdir, cases[i].start, cases[i].cache);
        assert_int_equal(zr__run_cache_find(c, run, found, &cache), ZR_OK);
        snprintf(want, sizeof(want), "%s/%s", tempdir, cases[i].want);
        assert_non_null(cache);
        assert_string_equal(cache, want);
        zr_config_destroy(&c);
    }
    zr_config *c = load("{\"train\": {\"started_in\": \"%s/gone\", \"output_dir\": \"other\"},"
                        " \"data\": {\"cache_dir\": \"c\"}}",
                        tempdir);
    assert_int_equal(zr__run_cache_find(c, run, found, &cache), ZR_OK);
    assert_null(cache); /* neither folder can be made */
    zr_config_destroy(&c);
    c = load("{\"train\": {\"started_in\": \"%s/gone\"}, \"data\": {\"cache_dir\": \"%s/moved/x\"}}", tempdir, tempdir);
    assert_int_equal(zr__run_cache_find(c, run, found, &cache), ZR_OK);
    assert_null(cache); /* an absolute path that is gone */
    (void)mkdir(in_tempdir("moved/x"), 0777);
    assert_int_equal(zr__run_cache_find(c, run, found, &cache), ZR_OK);
    assert_ptr_equal(cache, c->data.cache_dir);
    zr_config_destroy(&c);
    c = load("{\"data\": {\"cache_dir\": \"c\"}}"); /* no run */
    assert_int_equal(zr__run_cache_find(c, run, found, &cache), ZR_OK);
    assert_string_equal(cache, "c");
    zr_config_destroy(&c);
}

/* Check that a run's configuration gets absolute paths, and forgets where it began. */
static void paths_are_settled(void **state)
{
    (void)state;
    char want[PATH_MAX + 8], start[PATH_MAX];
    (void)mkdir(in_tempdir("start"), 0777);
    put_file("start/text", "x", 1);
    assert_non_null(realpath(in_tempdir("start/text"), want));
    assert_non_null(realpath(in_tempdir("start"), start));
    zr_config *c =
        load("{\"train\": {\"started_in\": \"%s\", \"output_dir\": \"runs/a\"}, \"data\": {\"train\": \"text\","
             " \"val\": \"none\", \"cache_dir\": \"c\"}, \"zero_optimization\": {\"offload_optimizer\":"
             " {\"device\": \"nvme\", \"nvme_path\": \"disk\"}}}",
             start);
    assert_int_equal(zr__run_paths_settle(c), ZR_OK);
    assert_string_equal(c->data.train, want);
    assert_null(c->train.started_in);
    snprintf(want, sizeof(want), "%s/disk", start);
    assert_string_equal(c->zero.optim.folders, want);
    snprintf(want, sizeof(want), "%s/c", start);
    assert_string_equal(c->data.cache_dir, want);
    zr_config_destroy(&c);
    c = load("{\"data\": {\"train\": \"text\"}}"); /* a configuration of no run stays */
    assert_int_equal(zr__run_paths_settle(c), ZR_OK);
    assert_string_equal(c->data.train, "text");
    zr_config_destroy(&c);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_fit_their_base),
        cmocka_unit_test(a_base_that_has_moved_is_found),
        cmocka_unit_test(adapters_are_described),
        cmocka_unit_test(weights_must_be_finite),
        cmocka_unit_test(inputs_are_checked),
        cmocka_unit_test(a_run_finds_its_files),
        cmocka_unit_test(a_run_finds_its_cache),
        cmocka_unit_test(paths_are_settled),
        cmocka_unit_test(weights_of_directories_are_opened),
        cmocka_unit_test(an_adapter_gives_its_keys),
        cmocka_unit_test(what_is_not_given_is_chosen),
        cmocka_unit_test(another_task_has_a_new_head),
        cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
