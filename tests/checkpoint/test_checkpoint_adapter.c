//TEST timeout=20
/* Adapter directories of peft: which of them zr computes as peft does, and which it refuses, with the name of the
 * member of adapter_config.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LAYER "model.layers.0.self_attn.q_proj"

/* The members that peft 0.21 writes, with their default values. */
#define DEFAULTS                                                                                                       \
    "\"alora_invocation_tokens\": null, \"alpha_pattern\": {}, \"arrow_config\": null, \"auto_mapping\": null, "       \
    "\"base_model_name_or_path\": \"base\", \"bias\": \"none\", \"corda_config\": null, \"ensure_weight_tying\": "     \
    "false, "                                                                                                          \
    "\"eva_config\": null, \"exclude_modules\": null, \"fan_in_fan_out\": false, \"inference_mode\": true, "           \
    "\"init_lora_weights\": true, \"kasa_config\": null, \"layer_replication\": null, \"layers_pattern\": null, "      \
    "\"layers_to_transform\": null, \"loftq_config\": {}, \"lora_alpha\": 16, \"lora_bias\": false, "                  \
    "\"lora_dropout\": 0.05, \"lora_ga_config\": null, \"megatron_config\": null, \"megatron_core\": "                 \
    "\"megatron.core\", \"modules_to_save\": null, \"monteclora_config\": null, \"peft_type\": \"LORA\", "             \
    "\"peft_version\": \"0.21.2\", \"qalora_group_size\": 16, \"r\": 2, \"rank_pattern\": {}, \"revision\": null, "    \
    "\"target_modules\": [\"q_proj\"], \"target_parameters\": null, \"task_type\": \"CAUSAL_LM\", "                    \
    "\"trainable_token_indices\": null, \"use_bdlora\": null, \"use_dora\": false, \"use_qalora\": false, "            \
    "\"use_rslora\": false, \"velora_config\": null"

/* Write adapter_config.json with the defaults, of which these members replace some. */
static void put_config(const char *members)
{
    char more[1024];
    snprintf(more, sizeof more, "{%s}", members);
    json_t *root = json_loads("{" DEFAULTS "}", 0, NULL), *other = json_loads(more, 0, NULL);
    if (!root || !other || json_object_update(root, other) != 0) fail_msg("%s", members);
    char *text = json_dumps(root, 0);
    put_file("d/adapter_config.json", text, strlen(text));
    free(text);
    json_decref(root);
    json_decref(other);
}

static int make(void **state)
{
    const zr__tensor_spec specs[] = {{"base_model.model." LAYER ".lora_A.weight", {2, {2, 8}}},
                                     {"base_model.model." LAYER ".lora_B.weight", {2, {8, 2}}}};
    if (tempdir_make(state) != 0 || mkdir(in_tempdir("d"), 0700) != 0) return -1;
    return zr__safetensors_create(in_tempdir("d/adapter_model.safetensors"), NULL, specs, 2) == ZR_OK ? 0 : -1;
}

static const struct {
    const char *members, *told; /* an error message, or NULL if the adapter is read */
} rows[] = {
    {"", NULL},
    {"\"init_lora_weights\": false", NULL},
    {"\"init_lora_weights\": null", NULL},
    {"\"init_lora_weights\": \"gaussian\"", NULL},
    {"\"init_lora_weights\": \"Gaussian\"", NULL},
    {"\"init_lora_weights\": \"orthogonal\"", NULL},
    {"\"init_lora_weights\": \"eva\", \"eva_config\": {\"rho\": 2.0}", NULL},
    {"\"init_lora_weights\": \"pissa\"", "init_lora_weights is \"pissa\""},
    {"\"init_lora_weights\": \"pissa_niter_16\"", "init_lora_weights is \"pissa_niter_16\""},
    {"\"init_lora_weights\": \"olora\"", "init_lora_weights is \"olora\""},
    {"\"init_lora_weights\": \"corda\", \"corda_config\": {\"verbose\": false}", "init_lora_weights is \"corda\""},
    {"\"init_lora_weights\": \"loftq\", \"loftq_config\": {\"loftq_bits\": 4}", "init_lora_weights is \"loftq\""},
    {"\"init_lora_weights\": \"lora_ga\"", "init_lora_weights is \"lora_ga\""},
    {"\"init_lora_weights\": \"mica\"", "init_lora_weights is \"mica\""},
    {"\"init_lora_weights\": \"true\"", "init_lora_weights is \"true\""},
    {"\"init_lora_weights\": 1", "init_lora_weights is 1"},
    {"\"loftq_config\": {\"loftq_bits\": 4}, \"qalora_group_size\": 8, \"megatron_core\": \"mine\"", NULL},
    {"\"fan_in_fan_out\": true, \"auto_mapping\": {\"base_model_class\": \"X\"}, \"revision\": \"main\"", NULL},
    {"\"target_modules\": \".*\\\\.q_proj\"", NULL},
    {"\"target_modules\": \"all-linear\"", NULL},
    {"\"target_modules\": null", NULL},
    {"\"target_modules\": [\"" LAYER "\"]", NULL},
    {"\"target_modules\": [\"v_proj\", \"proj\"]", "[\"v_proj\", \"proj\"], without the layer " LAYER},
    {"\"target_modules\": [\"_proj\"]", "without the layer " LAYER},
    {"\"peft_type\": \"LOHA\"", "peft_type is \"LOHA\""},
    {"\"bias\": \"lora_only\"", "bias is \"lora_only\""},
    {"\"use_dora\": true", "use_dora is true"},
    {"\"use_rslora\": true", "use_rslora is true"},
    {"\"use_qalora\": true", "use_qalora is true"},
    {"\"lora_bias\": true", "lora_bias is true"},
    {"\"modules_to_save\": [\"lm_head\"]", "modules_to_save is [\"lm_head\"]"},
    {"\"exclude_modules\": [\"k_proj\"]", "exclude_modules is [\"k_proj\"]"},
    {"\"layers_to_transform\": 0", "layers_to_transform is 0"},
    {"\"layers_to_transform\": [0], \"layers_pattern\": \"layers\"", "layers_pattern is \"layers\""},
    {"\"rank_pattern\": {\"q_proj\": 4}", "rank_pattern is "},
    {"\"alpha_pattern\": {\"q_proj\": 4}", "alpha_pattern is "},
    {"\"layer_replication\": [[0, 1], [0, 1]]", "layer_replication is "},
    {"\"trainable_token_indices\": [1]", "trainable_token_indices is [1]"},
    {"\"target_parameters\": [\"experts.up\"]", "target_parameters is "},
    {"\"alora_invocation_tokens\": [1, 2]", "alora_invocation_tokens is [1, 2]"},
    {"\"ensure_weight_tying\": true", "ensure_weight_tying is true"},
    {"\"use_bdlora\": {\"nblocks\": 2}", "use_bdlora is "},
    {"\"arrow_config\": {\"top_k\": 2}", "arrow_config is "},
    {"\"kasa_config\": {\"beta\": 1}", "kasa_config is "},
    {"\"velora_config\": {\"num_groups\": 2}", "velora_config is "},
    {"\"monteclora_config\": {\"num_samples\": 2}", "monteclora_config is "},
    {"\"megatron_config\": {\"hidden_size\": 8}", "megatron_config is "},
    {"\"of_a_later_peft\": true", "of_a_later_peft is true, which zr does not compute"},
    {"\"of_a_later_peft\": false", NULL},
};

static void every_member_is_computed_or_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zr__adapter adapter;
        put_config(rows[i].members);
        const zr_status st = zr__adapter_read(in_tempdir("d"), &adapter);
        if (!rows[i].told && st != ZR_OK) fail_msg("%s: %s", rows[i].members, zr_error_message());
        if (rows[i].told && (st != ZR_ERR_DATA || !strstr(zr_error_message(), rows[i].told)))
            fail_msg("%s: %d, %s", rows[i].members, st, zr_error_message());
        if (rows[i].told && !strstr(zr_error_message(), "d/adapter_config.json: "))
            fail_msg("%s: %s", rows[i].members, zr_error_message());
        if (st == ZR_OK) {
            assert_int_equal(adapter.lora.rank, 2);
            assert_true(adapter.lora.alpha == 16 && adapter.lora.dropout == 0.05);
            assert_string_equal(adapter.targets, LAYER);
        }
        zr__adapter_clear(&adapter);
    }
}

static void weights_in_another_form_are_named(void **state)
{
    (void)state;
    zr__adapter adapter;
    put_config("");
    assert_int_equal(rename(in_tempdir("d/adapter_model.safetensors"), in_tempdir("kept")), 0);
    assert_int_equal(zr__adapter_read(in_tempdir("d"), &adapter), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "it holds no adapter_model.safetensors; copy the weights"));
    zr__adapter_clear(&adapter);
    zr_weights *weights = NULL;
    put_file("d/adapter_model.bin", "x", 1);
    assert_int_equal(zr_weights_open(in_tempdir("d"), &zr_family_find("llama")->names, &weights), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "zr does not read adapter_model.bin; load the adapter with peft"));
    put_file("d/model.safetensors", "x", 1); /* the weights of a whole model are not those of the adapter */
    assert_int_equal(zr__adapter_read(in_tempdir("d"), &adapter), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "zr does not read adapter_model.bin; load the adapter with peft"));
    zr__adapter_clear(&adapter);
    assert_int_equal(rename(in_tempdir("kept"), in_tempdir("d/adapter_model.safetensors")), 0);
    assert_int_equal(zr__adapter_read(in_tempdir("d"), &adapter), ZR_OK);
    zr__adapter_clear(&adapter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_computed_or_named),
        cmocka_unit_test(weights_in_another_form_are_named),
    };
    return cmocka_run_group_tests(tests, make, tempdir_remove);
}
