//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc
/* Hugging Face directories: config.json, weights in one file or several, old names, and contents that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <sys/stat.h>

#include "support/hf_gpt2.h"
#include "support/golden.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

static int allocations, fail_at = -1;

void *__wrap_zr_alloc(size_t bytes)
{
    return allocations++ == fail_at ? NULL : __real_zr_alloc(bytes);
}

/* ---- config.json ----------------------------------------------------------------------------- */

static zr_status read_config(const char *text, zr_gpt2_config *config)
{
    put_file("config.json", text, strlen(text));
    return hf_gpt2_read(tempdir, config);
}

static void defaults_are_those_of_transformers(void **state)
{
    (void)state;
    zr_gpt2_config c = {0};
    assert_int_equal(read_config("{\"model_type\":\"gpt2\"}", &c), ZR_OK);
    assert_int_equal(c.n_layer, 12);
    assert_int_equal(c.n_head, 12);
    assert_int_equal(c.n_embd, 768);
    assert_int_equal(c.n_positions, 1024);
    assert_int_equal(c.vocab_size, 50257);
    assert_true(c.embd_pdrop == 0.1 && c.resid_pdrop == 0.1 && c.attn_pdrop == 0.1);
    assert_true(c.layer_norm_epsilon == 1e-5 && c.initializer_range == 0.02);
}

static void unsupported_fields_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *fragment;
    } bad[] = {
        {"\"model_type\":\"t5\"", "model_type is \"t5\"; expected \"gpt2\""},
        {"\"n_layer\":1", "model_type is missing"},
        {"\"model_type\":7", "model_type is 7"},
        {"\"model_type\":\"gpt2\",\"n_inner\":768", "n_inner is 768; expected null or 4 x n_embd = 3072"},
        {"\"model_type\":\"gpt2\",\"activation_function\":\"relu\"", "activation_function is \"relu\""},
        {"\"model_type\":\"gpt2\",\"activation_function\":null", "activation_function is null"},
        {"\"model_type\":\"gpt2\",\"scale_attn_weights\":false", "scale_attn_weights is false"},
        {"\"model_type\":\"gpt2\",\"scale_attn_by_inverse_layer_idx\":true", "scale_attn_by_inverse_layer_idx is true"},
        {"\"model_type\":\"gpt2\",\"add_cross_attention\":true", "add_cross_attention is true"},
        {"\"model_type\":\"gpt2\",\"tie_word_embeddings\":false", "tie_word_embeddings is false"},
        {"\"model_type\":\"gpt2\",\"n_layer\":0", "n_layer is 0"},
        {"\"model_type\":\"gpt2\",\"n_layer\":\"12\"", "n_layer is \"12\""},
        {"\"model_type\":\"gpt2\",\"n_embd\":2147483648", "n_embd is 2147483648"},
        {"\"model_type\":\"gpt2\",\"n_head\":7", "n_embd 768 is not a multiple of n_head 7"},
        {"\"model_type\":\"gpt2\",\"embd_pdrop\":1.0", "embd_pdrop is 1.0"},
        {"\"model_type\":\"gpt2\",\"layer_norm_epsilon\":-1e-5", "layer_norm_epsilon"},
        {"\"model_type\":\"gpt2\",\"layer_norm_epsilon\":0", "layer_norm_epsilon is 0"},
        {"\"model_type\":\"gpt2\",\"n_layer\":2,\"n_layer\":3", "duplicate"},
    };
    zr_gpt2_config c = {.n_layer = 99};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "{%s}", bad[i].fields);
        zr_status st = read_config(text, &c);
        if (st != ZR_ERR_DATA || !strstr(zr_error_message(), bad[i].fragment) ||
            !strstr(zr_error_message(), "config.json"))
            fail_msg("%s: status %d, message: %s", text, st, zr_error_message());
    }
    assert_int_equal(c.n_layer, 99);
}

static void harmless_fields_are_left_alone(void **state)
{
    (void)state;
    zr_gpt2_config c = {0};
    assert_int_equal(read_config("{\"model_type\":\"gpt2\",\"n_inner\":256,\"n_embd\":64,\"n_head\":4,\"n_ctx\":5,"
                                 "\"activation_function\":\"gelu_pytorch_tanh\",\"reorder_and_upcast_attn\":true,"
                                 "\"task_specific_params\":{\"a\":[1,2]},\"embd_pdrop\":0}",
                                 &c),
                     ZR_OK);
    assert_int_equal(c.n_embd, 64);
    assert_true(c.embd_pdrop == 0);
}

static void config_is_written_and_read_back(void **state)
{
    (void)state;
    const double long_one = 0.1 + 0.2; /* 17 digits */
    const zr_gpt2_config wrote = {3, 5, 35, 17, 50304, 0.0, 0.1, long_one, 1e-5, 0.02};
    zr_gpt2_config c = {0};
    /* A decimal comma must not reach the file. Where the locale is not installed this repeats the plain case. */
    (void)setlocale(LC_ALL, "de_DE.UTF-8");
    assert_int_equal(hf_gpt2_write(tempdir, &wrote), ZR_OK);
    assert_int_equal(hf_gpt2_read(tempdir, &c), ZR_OK);
    (void)setlocale(LC_ALL, "C");
    assert_int_equal(c.n_layer, 3);
    assert_int_equal(c.n_head, 5);
    assert_int_equal(c.n_embd, 35);
    assert_int_equal(c.n_positions, 17);
    assert_int_equal(c.vocab_size, 50304);
    assert_true(c.embd_pdrop == 0 && c.resid_pdrop == 0.1 && c.attn_pdrop == long_one);
    assert_true(c.layer_norm_epsilon == 1e-5 && c.initializer_range == 0.02);
}

/* Check that the written config.json also has the other fields that transformers reads. */
static void written_config_is_gpt2_for_others(void **state)
{
    (void)state;
    const zr_gpt2_config wrote = {2, 4, 64, 32, 256, 0.0, 0.0, 0.0, 1e-5, 0.02};
    static const char *const parts[] = {
        "\"architectures\": [\"GPT2LMHeadModel\"]",
        "\"model_type\": \"gpt2\"",
        "\"n_inner\": null",
        "\"activation_function\": \"gelu_new\"",
        "\"torch_dtype\": \"float32\"",
        "\"tie_word_embeddings\": true",
        "\"bos_token_id\": null",
        "\"eos_token_id\": null",
        "\"embd_pdrop\": 0.0",
        "\"initializer_range\": 0.02",
    };
    char text[4096] = "";
    assert_int_equal(hf_gpt2_write(tempdir, &wrote), ZR_OK);
    FILE *file = fopen(in_tempdir("config.json"), "r");
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strstr(text, parts[i])) fail_msg("%s is not in %s", parts[i], text);
}

static void infinite_configs_are_not_written(void **state)
{
    (void)state;
    zr_gpt2_config c = {2, 4, 64, 32, 256, 0.0, 0.0, 0.0, 1e-5, 0.02};
    c.initializer_range = 1.0 / (double)(c.n_layer - 2);
    assert_int_equal(hf_gpt2_write(tempdir, &c), ZR_ERR_ARG);
    assert_int_equal(hf_gpt2_read(in_tempdir("nowhere"), &c), ZR_ERR_NOT_FOUND);
    static char long_path[2 * PATH_MAX]; /* no output is involved, so it is not ZR_ERR_CREATE */
    memset(long_path, 'a', sizeof(long_path) - 1);
    assert_int_equal(hf_gpt2_read(long_path, &c), ZR_ERR_NOT_FOUND);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Create a separate folder for a test. */
static const char *new_folder(const char *name)
{
    assert_int_equal(mkdir(in_tempdir(name), 0700), 0);
    return in_tempdir(name);
}

/* Write a file of tensors; element i of each has the value i + 1000 * its position. */
static void put_tensors(const char *path, const zr__tensor_spec *spec, int64_t n)
{
    zr_safetensors *st;
    assert_int_equal(zr__safetensors_create(path, NULL, spec, n), ZR_OK);
    assert_int_equal(zr__safetensors_attach(path, &st), ZR_OK);
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < zr_shape_elems(&spec[t].shape); i++) {
            float value = (float)(i + 1000 * t);
            assert_int_equal(zr__safetensors_write(st, zr_safetensors_find(st, spec[t].name), i, 1, &value), ZR_OK);
        }
    zr_safetensors_close(&st);
}

static const zr__tensor_spec wanted[] = {{"transformer.wte.weight", {2, {4, 2}}}, {"transformer.ln_f.bias", {1, {2}}}};

static void one_file_with_and_without_prefix(void **state)
{
    (void)state;
    const zr__tensor_spec old[] = {{"ln_f.bias", {1, {2}}},         {"wte.weight", {2, {4, 2}}},
                                   {"h.0.attn.bias", {1, {4}}},     {"h.0.attn.masked_bias", {0, {0}}},
                                   {"lm_head.weight", {2, {4, 2}}}, {"extra.weight", {1, {3}}}};
    zr_weights *weights;
    char note[256];
    float value;
    const char *dir = new_folder("old");
    put_tensors(in_tempdir("old/model.safetensors"), old, 6);
    assert_int_equal(zr_weights_open(dir, hf_gpt2_names(), &weights), ZR_OK);
    assert_int_equal(zr__weights_check(weights, wanted, 2, note, sizeof(note)), ZR_OK);
    assert_non_null(strstr(note, "tensors that the model does not have (1): extra.weight"));
    assert_int_equal(zr_weights_read(weights, "transformer.wte.weight", 5, 1, &value), ZR_OK);
    assert_true(value == 1005);
    assert_int_equal(zr_weights_read(weights, "transformer.wpe.weight", 0, 1, &value), ZR_ERR_DATA);
    zr_weights_close(&weights);
    assert_null(weights);

    const zr__tensor_spec bare[] = {{"wte.weight", {2, {4, 2}}}, {"ln_f.bias", {1, {2}}}};
    dir = new_folder("new");
    put_tensors(in_tempdir("new/model.safetensors"), wanted, 2);
    assert_int_equal(zr_weights_open(dir, hf_gpt2_names(), &weights), ZR_OK);
    assert_int_equal(zr__weights_check(weights, bare, 2, note, sizeof(note)), ZR_OK);
    assert_string_equal(note, "");
    zr_weights_close(&weights);
}

static void misfits_are_listed(void **state)
{
    (void)state;
    zr_weights *weights;
    zr__tensor_spec many[12] = {{"transformer.wte.weight", {2, {2, 4}}}, {"transformer.ln_f.bias", {2, {1, 2}}}};
    many[2] = (zr__tensor_spec){"transformer.wte.weight", {1, {4}}};
    for (int i = 3; i < 12; i++) many[i] = (zr__tensor_spec){"transformer.gone", {1, {7}}};
    const char *dir = new_folder("misfits");
    put_tensors(in_tempdir("misfits/model.safetensors"), wanted, 2);
    assert_int_equal(zr_weights_open(dir, hf_gpt2_names(), &weights), ZR_OK);
    assert_int_equal(zr__weights_check(weights, many, 12, NULL, 0), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "12 of 12 tensors do not fit the model"));
    assert_non_null(strstr(zr_error_message(), "\n  transformer.wte.weight: shape (4, 2); expected (2, 4)"));
    assert_non_null(strstr(zr_error_message(), "\n  transformer.ln_f.bias: shape (2); expected (1, 2)"));
    assert_non_null(strstr(zr_error_message(), "\n  transformer.wte.weight: shape (4, 2); expected (4)"));
    assert_non_null(strstr(zr_error_message(), "\n  transformer.gone: missing; expected shape (7)"));
    assert_non_null(
        strstr(zr_error_message(), "\n  and 4 more\n  (config.json and the weights are not of the same model"));
    int lines = 0;
    for (const char *at = zr_error_message(); (at = strchr(at, '\n')); at++) lines++;
    assert_int_equal(lines, 8 + 2);
    zr_weights_close(&weights);
}

static void integers_do_not_fit(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}  ";
    const zr__tensor_spec a = {"a", {1, {1}}};
    char image[8 + sizeof(text) - 1 + 4] = {sizeof(text) - 1};
    zr_weights *weights;
    const char *dir = new_folder("integers");
    memcpy(image + 8, text, sizeof(text) - 1);
    put_file("integers/model.safetensors", image, sizeof(image));
    assert_int_equal(zr_weights_open(dir, hf_gpt2_names(), &weights), ZR_OK);
    assert_int_equal(zr__weights_check(weights, &a, 1, NULL, 0), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "a: dtype I32; expected F32, BF16 or F16; save the weights again"));
    assert_null(strstr(zr_error_message(), "not of the same model"));
    zr_weights_close(&weights);
}

static zr_status open_index(const char *dir, const char *map, zr_weights **weights)
{
    char text[1024], name[256];
    snprintf(text, sizeof(text), "{\"metadata\":{},\"weight_map\":%s}", map);
    snprintf(name, sizeof(name), "%s/model.safetensors.index.json", dir);
    put_file(name, text, strlen(text));
    *weights = NULL;
    return zr_weights_open(in_tempdir(dir), hf_gpt2_names(), weights);
}

static void several_files_are_one_set(void **state)
{
    (void)state;
    zr_weights *weights;
    char note[256];
    float value;
    new_folder("sharded");
    put_tensors(in_tempdir("sharded/m-1.safetensors"), &wanted[0], 1);
    put_tensors(in_tempdir("sharded/m-2.safetensors"), &wanted[1], 1);
    const char *map = "{\"transformer.wte.weight\":\"m-1.safetensors\",\"transformer.ln_f.bias\":\"m-2.safetensors\"}";
    assert_int_equal(open_index("sharded", map, &weights), ZR_OK);
    assert_int_equal(zr__weights_check(weights, wanted, 2, note, sizeof(note)), ZR_OK);
    assert_string_equal(note, "");
    assert_int_equal(zr_weights_read(weights, "transformer.ln_f.bias", 1, 1, &value), ZR_OK);
    assert_true(value == 1);
    zr_weights_close(&weights);
}

static void bad_indices_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *map, *fragment;
        zr_status status;
    } bad[] = {
        {"{\"a\":\"../../etc/passwd\"}", "is not the name of a file in the directory", ZR_ERR_DATA},
        {"{\"a\":\"/etc/passwd\"}", "is not the name of a file in the directory", ZR_ERR_DATA},
        {"{\"a\":\"..\"}", "is not the name of a file in the directory", ZR_ERR_DATA},
        {"{\"a\":\"sub/m.safetensors\"}", "is not the name of a file in the directory", ZR_ERR_DATA},
        {"{\"a\":\"\"}", "is not the name of a file in the directory", ZR_ERR_DATA},
        {"{\"a\":1}", "weight_map.a is not a string", ZR_ERR_DATA},
        {"{}", "no \"weight_map\"", ZR_ERR_DATA},
        {"[]", "no \"weight_map\"", ZR_ERR_DATA},
        {"{\"transformer.wte.weight\":\"gone.safetensors\"}", "gone.safetensors", ZR_ERR_NOT_FOUND},
        {"{\"other\":\"m-1.safetensors\"}",
         "places tensor other in \"m-1.safetensors\", but that file does not hold it", ZR_ERR_DATA},
        {"{\"transformer.wte.weight\":\"m-1.safetensors\",\"transformer.ln_f.bias\":\"m-12.safetensors\"}",
         "is in two files", ZR_ERR_DATA},
        {"{\"a\":\"x\",\"a\":\"y\"}", "duplicate", ZR_ERR_DATA},
        {"{\"a\":", "model.safetensors.index.json", ZR_ERR_DATA},
    };
    zr_weights *weights;
    new_folder("index");
    put_tensors(in_tempdir("index/m-1.safetensors"), &wanted[0], 1);
    put_tensors(in_tempdir("index/m-12.safetensors"), wanted, 2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        zr_status st = open_index("index", bad[i].map, &weights);
        if (st != bad[i].status || weights || !strstr(zr_error_message(), bad[i].fragment))
            fail_msg("%s: status %d, message: %s", bad[i].map, st, zr_error_message());
    }
    assert_int_equal(zr_weights_open(new_folder("bare"), hf_gpt2_names(), &weights), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "neither model.safetensors nor"));
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    zr_weights *weights = NULL;
    char note[64];
    new_folder("memory");
    put_tensors(in_tempdir("memory/m-1.safetensors"), wanted, 2);
    zr_status st = open_index("memory", "{\"transformer.wte.weight\":\"m-1.safetensors\"}", &weights);
    assert_int_equal(st, ZR_OK);
    zr_weights_close(&weights);
    st = ZR_ERR_MEMORY;
    int failures = 0;
    for (fail_at = 0; st == ZR_ERR_MEMORY; fail_at++) {
        allocations = 0;
        st = zr_weights_open(in_tempdir("memory"), hf_gpt2_names(), &weights);
        if (st == ZR_OK) st = zr__weights_check(weights, wanted, 2, note, sizeof(note));
        zr_weights_close(&weights);
        failures += st == ZR_ERR_MEMORY;
    }
    fail_at = -1;
    assert_int_equal(st, ZR_OK);
    assert_true(failures >= 10);
}

/* ---- files that transformers wrote ----------------------------------------------------------- */

static void files_of_transformers_are_read(void **state)
{
    (void)state;
    char dir[PATH_MAX + 16], note[256];
    zr_gpt2_config c = {0};
    zr_weights *weights;
    snprintf(dir, sizeof(dir), "%s/model", golden_own());
    const zr__tensor_spec some[] = {{"transformer.wte.weight", {2, {61, 16}}},
                                    {"transformer.h.1.attn.c_attn.weight", {2, {16, 48}}}};
    float value[4] = {0};
    assert_int_equal(hf_gpt2_read(dir, &c), ZR_OK);
    assert_int_equal(c.n_layer, 2);
    assert_int_equal(c.n_positions, 12);
    assert_int_equal(zr_weights_open(dir, hf_gpt2_names(), &weights), ZR_OK);
    assert_int_equal(zr__weights_check(weights, some, 2, note, sizeof(note)), ZR_OK);
    assert_non_null(strstr(note, "tensors that the model does not have (26): "));
    assert_int_equal(zr_weights_read(weights, "transformer.wte.weight", 0, 4, value), ZR_OK);
    for (int i = 0; i < 4; i++) assert_true(value[i] != 0 && value[i] > -1 && value[i] < 1);
    zr_weights_close(&weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_transformers),
        cmocka_unit_test(unsupported_fields_are_named),
        cmocka_unit_test(harmless_fields_are_left_alone),
        cmocka_unit_test(config_is_written_and_read_back),
        cmocka_unit_test(written_config_is_gpt2_for_others),
        cmocka_unit_test(infinite_configs_are_not_written),
        cmocka_unit_test(one_file_with_and_without_prefix),
        cmocka_unit_test(misfits_are_listed),
        cmocka_unit_test(integers_do_not_fit),
        cmocka_unit_test(several_files_are_one_set),
        cmocka_unit_test(bad_indices_are_refused),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(files_of_transformers_are_read),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
