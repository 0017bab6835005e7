//TEST timeout=20
/* Directories of models of the Llama kind that zr cannot use: each is refused with one message that names the file, the
 * field or tensor, and what to do. Both spellings of transformers 4 and 5 give the same model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "support/golden.h"
#include "support/tempdir.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"

/* Write dir/config.json of a trace with other keys: "KEY": VALUE pairs as JSON; null removes a key. */
static void put_config(const char *golden, const char *keys)
{
    char dir[GOLDEN_DIR_BYTES], path[GOLDEN_DIR_BYTES + 32];
    json_error_t error;
    snprintf(path, sizeof path, "%s/model/config.json", golden_own_dir(golden, dir));
    json_t *root = json_load_file(path, 0, &error), *more = json_loads(keys, 0, &error), *value;
    const char *key;
    if (!root || !more) fail_msg("%s: %s", keys, error.text);
    json_object_foreach(more, key, value)
    {
        if (json_is_null(value))
            json_object_del(root, key);
        else
            json_object_set(root, key, value);
    }
    char *text = json_dumps(root, 0);
    put_file("d/config.json", text, strlen(text));
    free(text);
    json_decref(more);
    json_decref(root);
}

/* Make a directory d with a trace's weights and a changed config.json. */
static void make_dir(const char *golden, const char *keys)
{
    char dir[GOLDEN_DIR_BYTES], path[GOLDEN_DIR_BYTES + 32];
    (void)mkdir(in_tempdir("d"), 0700);
    (void)remove(in_tempdir("d/model.safetensors"));
    snprintf(path, sizeof path, "%s/model/model.safetensors", golden_own_dir(golden, dir));
    char *real = realpath(path, NULL);
    assert_non_null(real);
    assert_int_equal(symlink(real, in_tempdir("d/model.safetensors")), 0);
    free(real);
    put_config(golden, keys);
}

static const struct {
    const char *golden, *keys, *told[3];
} bad[] = {
    {"llama-scaled", "{\"model_type\": \"gemma\"}", {"model_type is \"gemma\"", "expected \"gpt2\", \"llama\""}},
    {"llama-scaled", "{\"model_type\": \"gemma3_text\"}", {"model_type is \"gemma3_text\"", "\"qwen3\""}},
    {"llama-scaled", "{\"model_type\": \"phi3\"}", {"model_type is \"phi3\"", "\"mistral\""}},
    {"llama-scaled", "{\"model_type\": \"mixtral\"}", {"model_type is \"mixtral\"", "\"mistral\""}},
    {"llama-scaled",
     "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}}",
     {"model_type is \"llava\"", "\"llama\""}},
    {"llama-scaled",
     "{\"rope_parameters\": {\"rope_type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [1]}}",
     {"rope_parameters.rope_type is \"longrope\"", "\"llama3\", \"yarn\""}},
    {"llama-scaled",
     "{\"rope_parameters\": null, \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1], \"long_factor\": [1]}}",
     {"rope_scaling.type is \"su\"", "\"llama3\", \"yarn\""}},
    {"llama-yarn",
     "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"mscale\": 2.0}}",
     {"rope_parameters.mscale is 2.0", "zr does not know this key"}},
    {"llama-scaled",
     "{\"rope_scaling\": {\"rope_type\": \"llama3\"}}",
     {"rope_parameters.factor is 8.0, but rope_scaling", "lacks it"}},
    {"llama-scaled", "{\"rope_theta\": 500.0}", {"rope_theta is 500.0", "rope_parameters.rope_theta is 10000.0"}},
    {"llama-scaled", "{\"pad_token_id\": -2}", {"pad_token_id is -2; expected a token id"}},
    {"llama-scaled", "{\"pad_token_id\": 1.5}", {"pad_token_id is 1.5; expected a token id"}},
    {"llama-scaled", "{\"eos_token_id\": \"</s>\"}", {"eos_token_id is \"</s>\"; expected a token id"}},
    {"llama-scaled", "{\"head_dim\": 11}", {"head_dim is 11; wanted an even number"}},
    {"llama-scaled", "{\"num_key_value_heads\": 4}", {"num_key_value_heads 4", "num_attention_heads 6"}},
    {"llama-scaled", "{\"num_key_value_heads\": 12}", {"num_key_value_heads 12", "num_attention_heads 6"}},
    {"llama-scaled",
     "{\"quantization_config\": {\"quant_method\": \"gptq\"}}",
     {"quantization_config is an object", "without quantization first"}},
    {"llama-scaled", "{\"hidden_act\": \"gelu\"}", {"hidden_act is \"gelu\"", "\"silu\""}},
    {"llama-scaled", "{\"partial_rotary_factor\": 0.5}", {"partial_rotary_factor is 0.5", "only with 1.0"}},
    {"qwen2-window",
     "{\"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
     {"layer_types is [\"sliding_attention\"", "\"full_attention\" followed by layers of \"sliding_attention\""}},
    {"qwen3-heads",
     "{\"layer_types\": [\"full_attention\", \"linear_attention\"]}",
     {"\"linear_attention\"]", "zr computes Qwen3 only"}},
    {"qwen2-window",
     "{\"layer_types\": [\"full_attention\"]}",
     {"layer_types has 1 elements", "num_hidden_layers is 2"}},
    {"qwen2-window", "{\"max_window_layers\": 2}", {"layer_types has windows from layer 1 on", "layer 2 of 2"}},
    {"llama-scaled",
     "{\"tie_word_embeddings\": true}",
     {"lm_head.weight and model.embed_tokens.weight differ", "tie_word_embeddings to false"}},
    {"qwen3-heads",
     "{\"tie_word_embeddings\": false}",
     {"lm_head.weight: missing", "set tie_word_embeddings to true in config.json"}},
    {"llama-scaled",
     "{\"hidden_size\": 48}",
     {"25 of 35 tensors do not fit the model of config.json", "shape (96, 36); expected (96, 48)"}},
    {"llama-scaled", "{\"intermediate_size\": 44}", {"mlp.gate_proj.weight: shape (42, 36); expected (44, 36)"}},
    {"llama-scaled", "{\"vocab_size\": 100}", {"lm_head.weight: shape (96, 36); expected (100, 36)"}},
    {"llama-scaled", "{\"num_hidden_layers\": 3}", {"model.layers.2.input_layernorm.weight: missing"}},
};

static void unusable_directories_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_dir(bad[i].golden, "{}");
        if (zr__hf_check(in_tempdir("d"), NULL, 0) != ZR_OK) fail_msg("%s", zr_error_message());
        make_dir(bad[i].golden, bad[i].keys);
        const zr_status st = zr__hf_check(in_tempdir("d"), NULL, 0);
        const char *said = zr_error_message();
        if (st != ZR_ERR_DATA || !strstr(said, in_tempdir("d"))) fail_msg("%s: %d, %s", bad[i].keys, st, said);
        for (int k = 0; k < 3 && bad[i].told[k]; k++)
            if (!strstr(said, bad[i].told[k])) fail_msg("%s: %s", bad[i].keys, said);
    }
}

/* Check that tensors that the model does not have are named, and that a conversion reports that it leaves them out. */
static void unused_tensors_are_named(void **state)
{
    (void)state;
    char note[512] = "", from[PATH_MAX];
    make_dir("llama-scaled", "{\"num_hidden_layers\": 1}");
    assert_int_equal(zr__hf_check(in_tempdir("d"), note, sizeof note), ZR_OK);
    assert_non_null(strstr(note, "tensors that the model does not have (16): model.layers.1."));
    snprintf(from, sizeof from, "%s", in_tempdir("d"));
    const zr__convert_args args = {.from = from, .to = in_tempdir("less"), .kind = ZR_CONVERT_HF, .same_types = true};
    zr__converted did;
    assert_int_equal(zr__convert_dir(&args, &did), ZR_OK);
    assert_non_null(strstr(did.note, "not converted: "));
    assert_non_null(strstr(did.note, "(16): model.layers.1."));
}

/* ---- names of tensors --------------------------------------------------------------------------- */

/* Write d/model.safetensors with a trace's tensors. Those whose names begin with `drop` lose it, and then all names
 * begin with `add`. */
static void rename_tensors(const char *golden, const char *drop, const char *add)
{
    enum { MOST = 64, NAME = 128 };
    static float values[1 << 14];
    static char names[MOST][NAME];
    char dir[GOLDEN_DIR_BYTES], path[GOLDEN_DIR_BYTES + 32];
    zr__tensor_spec specs[MOST];
    zr_safetensors *from = NULL, *to = NULL;
    make_dir(golden, "{}");
    assert_int_equal(remove(in_tempdir("d/model.safetensors")), 0);
    snprintf(path, sizeof path, "%s/model/model.safetensors", golden_own_dir(golden, dir));
    assert_int_equal(zr_safetensors_open(path, &from), ZR_OK);
    const int64_t n = zr_safetensors_count(from);
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++) {
        const zr_safetensors_tensor *t = zr_safetensors_get(from, i);
        const size_t begin = strncmp(t->name, drop, strlen(drop)) == 0 ? strlen(drop) : 0;
        snprintf(names[i], NAME, "%s%s", add, t->name + begin);
        specs[i] = (zr__tensor_spec){names[i], {t->ndim, {0}}};
        for (int d = 0; d < t->ndim; d++) specs[i].shape.dim[d] = t->dim[d];
    }
    assert_int_equal(zr__safetensors_create(in_tempdir("d/model.safetensors"), NULL, specs, n), ZR_OK);
    assert_int_equal(zr__safetensors_attach(in_tempdir("d/model.safetensors"), &to), ZR_OK);
    for (int64_t i = 0; i < n; i++) {
        const zr_safetensors_tensor *t = zr_safetensors_get(from, i);
        assert_true(t->elems <= (int64_t)(sizeof values / sizeof *values));
        assert_int_equal(zr_safetensors_read_f32(from, t, 0, t->elems, values), ZR_OK);
        assert_int_equal(zr__safetensors_write(to, zr_safetensors_find(to, names[i]), 0, t->elems, values), ZR_OK);
    }
    zr_safetensors_close(&from);
    zr_safetensors_close(&to);
}

static void names_without_a_prefix_are_read(void **state)
{
    (void)state;
    char note[256] = "", from[PATH_MAX];
    rename_tensors("llama-scaled", "model.", "");
    if (zr__hf_check(in_tempdir("d"), note, sizeof note) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_string_equal(note, "");
    snprintf(from, sizeof from, "%s", in_tempdir("d"));
    const zr__convert_args args = {.from = from, .to = in_tempdir("bare"), .kind = ZR_CONVERT_HF, .same_types = true};
    zr__converted did;
    zr_safetensors *file = NULL;
    assert_int_equal(zr__convert_dir(&args, &did), ZR_OK); /* with the same names */
    assert_int_equal(zr_safetensors_open(in_tempdir("bare/model.safetensors"), &file), ZR_OK);
    assert_non_null(zr_safetensors_find(file, "embed_tokens.weight"));
    assert_non_null(zr_safetensors_find(file, "lm_head.weight"));
    zr_safetensors_close(&file);
}

static void names_in_a_wrapper_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *drop, *add, *told[2];
    } wrapped[] = {
        {"",
         "_orig_mod.",
         {"\"_orig_mod.\" stands before the names", "have: _orig_mod.lm_head.weight, _orig_mod.model."}},
        {"", "module.", {"\"module.\" stands before the names", "have: module.lm_head.weight, module.model."}},
        {"model.",
         "_orig_mod.",
         {"\"_orig_mod.\" stands before", "have: _orig_mod.lm_head.weight, _orig_mod.embed_tokens"}},
        {"model.", "odd", {"get both again", "have: oddlm_head.weight, oddembed_tokens.weight, "}},
    };
    for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++) {
        rename_tensors("llama-scaled", wrapped[i].drop, wrapped[i].add);
        assert_int_equal(zr__hf_check(in_tempdir("d"), NULL, 0), ZR_ERR_DATA);
        for (int k = 0; k < 2; k++)
            if (!strstr(zr_error_message(), wrapped[i].told[k])) fail_msg("%zu: %s", i, zr_error_message());
        assert_null(strstr(zr_error_message(), "tie_word_embeddings"));
    }
}

/* ---- spellings ---------------------------------------------------------------------------------- */

static zr_model_config read_as(const char *golden, const char *keys)
{
    const zr_family *family = NULL;
    zr_model_config config;
    make_dir(golden, keys);
    if (zr_hf_read(in_tempdir("d"), &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

static void both_spellings_are_one(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"llama-scaled", "{\"rope_parameters\": null, \"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": "
                         "\"llama3\", \"factor\": 8.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0, "
                         "\"original_max_position_embeddings\": 16}, \"dtype\": null, \"torch_dtype\": \"float32\"}"},
        {"llama-scaled", "{\"rope_parameters\": null, \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, "
                         "\"high_freq_factor\": 4, \"low_freq_factor\": 1, \"original_max_position_embeddings\": 16}}"},
        {"mistral-window", "{\"rope_theta\": 10000.0}"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const zr_model_config want = read_as(same[i][0], "{}"), got = read_as(same[i][0], same[i][1]);
        assert_memory_equal(&want, &got, sizeof want);
    }
}

/* Check that ids that stand for no token are read as in transformers, and written again. */
static void ids_of_no_token_are_read(void **state)
{
    (void)state;
    static const char *const keys[] = {"{\"pad_token_id\": -1}", "{\"eos_token_id\": [2, -1]}",
                                       "{\"bos_token_id\": -1, \"pad_token_id\": 31999}"};
    (void)mkdir(in_tempdir("ids"), 0700);
    const zr_model_config none = read_as("llama-scaled", "{}");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const zr_family *family = NULL;
        zr_model_config again;
        const zr_model_config config = read_as("llama-scaled", keys[i]);
        assert_memory_not_equal(&config, &none, sizeof none);
        assert_int_equal(zr_hf_write(in_tempdir("ids"), zr_family_find("llama"), &config), ZR_OK);
        assert_int_equal(zr_hf_read(in_tempdir("ids"), &family, &again), ZR_OK);
        assert_memory_equal(&config, &again, sizeof again);
    }
    const char *const none_id = "{\"model_type\": \"bert\", \"pad_token_id\": null}";
    const zr_family *family = NULL;
    zr_model_config config;
    put_file("ids/config.json", none_id, strlen(none_id));
    if (zr_hf_read(in_tempdir("ids"), &family, &config) != ZR_OK) fail_msg("%s", zr_error_message());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusable_directories_are_refused), cmocka_unit_test(unused_tensors_are_named),
        cmocka_unit_test(both_spellings_are_one),           cmocka_unit_test(names_without_a_prefix_are_read),
        cmocka_unit_test(names_in_a_wrapper_are_shown),     cmocka_unit_test(ids_of_no_token_are_read),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
