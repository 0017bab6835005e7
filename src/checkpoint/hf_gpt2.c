/**
 * config.json of Hugging Face's GPT-2: reads the numbers that zr uses, and refuses every field that would make
 * transformers compute something else.
 */
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"

#include <string.h>

#define PLACE(member) #member, offsetof(zr_hf_gpt2, member)

static const zr__hf_integer integers[] = {
    {PLACE(n_layer), 12},       {PLACE(n_head), 12},        {PLACE(n_embd), 768},
    {PLACE(n_positions), 1024}, {PLACE(vocab_size), 50257},
};

static const zr__hf_real reals[] = {
    {PLACE(embd_pdrop), 0.1, 0, 1},           {PLACE(resid_pdrop), 0.1, 0, 1},
    {PLACE(attn_pdrop), 0.1, 0, 1},           {PLACE(layer_norm_epsilon), 1e-5, 1e-12, 1},
    {PLACE(initializer_range), 0.02, 0, 1e3},
};

static const zr__hf_numbers numbers = {.integer = integers,
                                       .integers = sizeof(integers) / sizeof(integers[0]),
                                       .real = reals,
                                       .reals = sizeof(reals) / sizeof(reals[0])};

static zr_status check_architecture(const zr__hf_config *file, const zr_hf_gpt2 *config)
{
    ZR_CHECK(config->n_embd % config->n_head == 0, ZR_ERR_DATA, "%s: n_embd %lld is not a multiple of n_head %lld",
             file->file, (long long)config->n_embd, (long long)config->n_head);
    const json_t *activation = json_object_get(file->root, "activation_function");
    const char *name = activation ? json_string_value(activation) : "gelu_new";
    ZR_CHECK(name && (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0), ZR_ERR_DATA,
             "%s: unsupported architecture: activation_function is %s; expected \"gelu_new\" or \"gelu_pytorch_tanh\"",
             file->file, ZR_JSON_SHOWN(activation));
    const json_t *inner = json_object_get(file->root, "n_inner");
    bool usual =
        !inner || json_is_null(inner) || (json_is_integer(inner) && json_integer_value(inner) == 4 * config->n_embd);
    ZR_CHECK(usual, ZR_ERR_DATA, "%s: unsupported architecture: n_inner is %s; expected null or 4 x n_embd = %lld",
             file->file, ZR_JSON_SHOWN(inner), (long long)(4 * config->n_embd));
    ZR_TRY(zr__hf_config_bool(file, "GPT-2", "scale_attn_weights", true));
    ZR_TRY(zr__hf_config_bool(file, "GPT-2", "scale_attn_by_inverse_layer_idx", false));
    ZR_TRY(zr__hf_config_bool(file, "GPT-2", "add_cross_attention", false));
    return zr__hf_config_bool(file, "GPT-2", "tie_word_embeddings", true);
}

zr_status zr_hf_gpt2_read(const char *dir, zr_hf_gpt2 *config)
{
    static const char *const type = "gpt2";
    zr__hf_config file;
    zr_hf_gpt2 read = {.tie_word_embeddings = true};
    int which = 0;
    ZR_TRY(zr__hf_config_open(dir, &file));
    zr_status st = zr__hf_config_type(&file, &type, 1, &which);
    if (st == ZR_OK) st = zr__hf_config_numbers(&file, &numbers, &read);
    if (st == ZR_OK) st = check_architecture(&file, &read);
    if (st == ZR_OK) *config = read;
    zr__hf_config_close(&file);
    return st;
}

/* Create the JSON of config.json. GPT-2's own vocabulary ends with its only special token. Other vocabularies have no
 * special token, but transformers needs one. */
static json_t *config_json(const zr_hf_gpt2 *config)
{
    json_t *root = json_object();
    int failed = !root;
    json_int_t special = config->vocab_size >= 50257 ? 50256 : 0;
    failed |= json_object_set_new(root, "architectures", json_pack("[s]", "GPT2LMHeadModel"));
    failed |= json_object_set_new(root, "model_type", json_string("gpt2"));
    failed |= zr__hf_set_integers(root, &numbers, config);
    failed |= json_object_set_new(root, "n_inner", json_null());
    failed |= json_object_set_new(root, "activation_function", json_string("gelu_new"));
    failed |= zr__hf_set_reals(root, &numbers, config);
    failed |= json_object_set_new(root, "scale_attn_weights", json_true());
    failed |= json_object_set_new(root, "tie_word_embeddings", json_true());
    failed |= json_object_set_new(root, "bos_token_id", json_integer(special));
    failed |= json_object_set_new(root, "eos_token_id", json_integer(special));
    failed |= json_object_set_new(root, "torch_dtype", json_string("float32"));
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

zr_status zr__hf_gpt2_write(const char *dir, const zr_hf_gpt2 *config)
{
    ZR_CHECK(config->tie_word_embeddings, ZR_ERR_ARG,
             "tie_word_embeddings is false, but GPT-2 in zr always ties the head to the embedding");
    json_t *root = config_json(config);
    ZR_CHECK(root, ZR_ERR_ARG, "a number of the configuration is not finite, or there is no memory for its text");
    zr_status st = zr__hf_config_write(dir, root, &numbers, config);
    json_decref(root);
    return st;
}

const zr_hf_names *zr_hf_gpt2_names(void)
{
    /* GPT-2's first files have no prefix in tensor names, and also hold the tied head and the causal masks, which zr
     * computes itself. */
    static const char *const redundant[] = {"lm_head.weight", ".attn.bias", ".attn.masked_bias", NULL};
    static const zr_hf_names names = {.prefix = "transformer.", .redundant = redundant};
    return &names;
}
