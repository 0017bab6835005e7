/**
 * config.json of Hugging Face's GPT-2: the numbers that zr computes with, and a refusal of every field
 * that would make transformers compute something else.
 */
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/hf.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 256 };

typedef struct reader {
    char file[SHOWN_BYTES]; /* printable */
    const json_t *root;
} reader;

/* Names, places and transformers' defaults of the numbers. */
typedef struct int_field {
    const char *key;
    size_t place;
    int64_t fallback;
} int_field;

typedef struct real_field {
    const char *key;
    size_t place;
    double fallback;
    double low, high; /* low <= value < high */
} real_field;

#define PLACE(member) #member, offsetof(zr_hf_gpt2, member)

static const int_field int_fields[] = {
    {PLACE(n_layer), 12},       {PLACE(n_head), 12},        {PLACE(n_embd), 768},
    {PLACE(n_positions), 1024}, {PLACE(vocab_size), 50257},
};

static const real_field real_fields[] = {
    {PLACE(embd_pdrop), 0.1, 0, 1},           {PLACE(resid_pdrop), 0.1, 0, 1},
    {PLACE(attn_pdrop), 0.1, 0, 1},           {PLACE(layer_norm_epsilon), 1e-5, 1e-12, 1},
    {PLACE(initializer_range), 0.02, 0, 1e3},
};

enum { INTS = sizeof(int_fields) / sizeof(int_fields[0]), REALS = sizeof(real_fields) / sizeof(real_fields[0]) };

/* Text of a value for a message. */
static const char *show(const json_t *value, char text[SHOWN_BYTES])
{
    char plain[SHOWN_BYTES / 4];
    size_t n = json_dumpb(value, plain, sizeof(plain) - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    plain[n < sizeof(plain) ? n : sizeof(plain) - 1] = '\0';
    return zr__text_escape(n < sizeof(plain) ? plain : "something else", text, SHOWN_BYTES);
}

static zr_status read_numbers(const reader *r, zr_hf_gpt2 *config)
{
    char text[SHOWN_BYTES];
    for (int i = 0; i < INTS; i++) {
        const json_t *value = json_object_get(r->root, int_fields[i].key);
        int64_t number = value ? json_integer_value(value) : int_fields[i].fallback;
        ZR_CHECK((!value || json_is_integer(value)) && number >= 1 && number <= INT32_MAX, ZR_ERR_DATA,
                 "%s: %s is %s, wanted an integer 1 .. 2147483647", r->file, int_fields[i].key, show(value, text));
        memcpy((char *)config + int_fields[i].place, &number, sizeof(number));
    }
    for (int i = 0; i < REALS; i++) {
        const real_field *field = &real_fields[i];
        const json_t *value = json_object_get(r->root, field->key);
        double number = value ? json_number_value(value) : field->fallback;
        ZR_CHECK((!value || json_is_number(value)) && number >= field->low && number < field->high, ZR_ERR_DATA,
                 "%s: %s is %s, wanted a number %g <= x < %g", r->file, field->key, show(value, text), field->low,
                 field->high);
        memcpy((char *)config + field->place, &number, sizeof(number));
    }
    ZR_CHECK(config->n_embd % config->n_head == 0, ZR_ERR_DATA, "%s: n_embd %lld is not a multiple of n_head %lld",
             r->file, (long long)config->n_embd, (long long)config->n_head);
    return ZR_OK;
}

/* A boolean that zr knows in one state only; absent means that state. */
static zr_status want_bool(const reader *r, const char *key, bool wanted)
{
    char text[SHOWN_BYTES];
    const json_t *value = json_object_get(r->root, key);
    ZR_CHECK(!value || (wanted ? json_is_true(value) : json_is_false(value)), ZR_ERR_DATA,
             "%s: unsupported architecture: %s is %s, zr computes GPT-2 with %s only", r->file, key, show(value, text),
             wanted ? "true" : "false");
    return ZR_OK;
}

static zr_status check_architecture(const reader *r, const zr_hf_gpt2 *config)
{
    char text[SHOWN_BYTES];
    const json_t *activation = json_object_get(r->root, "activation_function");
    const char *name = activation ? json_string_value(activation) : "gelu_new";
    ZR_CHECK(name && (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0), ZR_ERR_DATA,
             "%s: unsupported architecture: activation_function is %s, wanted \"gelu_new\" or \"gelu_pytorch_tanh\"",
             r->file, show(activation, text));
    const json_t *inner = json_object_get(r->root, "n_inner");
    bool usual =
        !inner || json_is_null(inner) || (json_is_integer(inner) && json_integer_value(inner) == 4 * config->n_embd);
    ZR_CHECK(usual, ZR_ERR_DATA, "%s: unsupported architecture: n_inner is %s, wanted null or 4 x n_embd = %lld",
             r->file, show(inner, text), (long long)(4 * config->n_embd));
    ZR_TRY(want_bool(r, "scale_attn_weights", true));
    ZR_TRY(want_bool(r, "scale_attn_by_inverse_layer_idx", false));
    ZR_TRY(want_bool(r, "add_cross_attention", false));
    ZR_TRY(want_bool(r, "tie_word_embeddings", true));
    return ZR_OK;
}

static zr_status check_model_type(const reader *r)
{
    char text[SHOWN_BYTES];
    const json_t *type = json_object_get(r->root, "model_type");
    const char *name = json_string_value(type);
    ZR_CHECK(name && strcmp(name, "gpt2") == 0, ZR_ERR_DATA,
             "%s: unsupported architecture: model_type is %s, wanted \"gpt2\"", r->file,
             type ? show(type, text) : "missing");
    return ZR_OK;
}

zr_status zr__hf_path(const char *dir, const char *name, char **path)
{
    zr__text text = {0};
    zr__text_add(&text, "%s/%s", dir, name);
    ZR_TRY(zr__text_take(&text, path));
    return ZR_OK;
}

static zr_status read_config(const char *path, zr_hf_gpt2 *config)
{
    char *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    reader r;
    zr_hf_gpt2 read = {.tie_word_embeddings = true};
    zr_status st = ZR_OK;
    ZR_TRY_GOTO(st, zr__json_read_file(path, &text, &bytes), done);
    ZR_TRY_GOTO(st, zr__json_parse(text, bytes, path, &root), done);
    r.root = root;
    zr__text_escape(path, r.file, sizeof(r.file));
    ZR_TRY_GOTO(st, check_model_type(&r), done);
    ZR_TRY_GOTO(st, read_numbers(&r, &read), done);
    ZR_TRY_GOTO(st, check_architecture(&r, &read), done);
    *config = read;
done:
    json_decref(root);
    zr_free(text);
    /* A model's config is data; only CONFIG.json is configuration. */
    return st == ZR_ERR_CONFIG ? ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message()) : st;
}

zr_status zr_hf_gpt2_read(const char *dir, zr_hf_gpt2 *config)
{
    char *path = NULL;
    ZR_TRY(zr__hf_path(dir, "config.json", &path));
    zr_status st = read_config(path, config);
    zr_free(path);
    ZR_TRY(st);
    return ZR_OK;
}

/* GPT-2's own vocabulary ends with its one special token; others have none, and transformers wants one. */
static json_t *config_json(const zr_hf_gpt2 *config)
{
    json_t *root = json_object();
    int failed = !root;
    json_int_t special = config->vocab_size >= 50257 ? 50256 : 0;
    failed |= json_object_set_new(root, "architectures", json_pack("[s]", "GPT2LMHeadModel"));
    failed |= json_object_set_new(root, "model_type", json_string("gpt2"));
    for (int i = 0; i < INTS; i++) {
        int64_t number;
        memcpy(&number, (const char *)config + int_fields[i].place, sizeof(number));
        failed |= json_object_set_new(root, int_fields[i].key, json_integer(number));
    }
    failed |= json_object_set_new(root, "n_inner", json_null());
    failed |= json_object_set_new(root, "activation_function", json_string("gelu_new"));
    for (int i = 0; i < REALS; i++) {
        double number;
        memcpy(&number, (const char *)config + real_fields[i].place, sizeof(number));
        failed |= json_object_set_new(root, real_fields[i].key, json_real(number));
    }
    failed |= json_object_set_new(root, "scale_attn_weights", json_true());
    failed |= json_object_set_new(root, "tie_word_embeddings", json_true());
    failed |= json_object_set_new(root, "bos_token_id", json_integer(special));
    failed |= json_object_set_new(root, "eos_token_id", json_integer(special));
    failed |= json_object_set_new(root, "torch_dtype", json_string("float32"));
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

/* Fewest digits that give back all of the numbers; "0.0" stays a real number, as transformers wants it. */
static size_t digits_for(const zr_hf_gpt2 *config)
{
    size_t digits = 15;
    for (int i = 0; i < REALS; i++) {
        double number;
        char text[ZR_NUMBER_BYTES];
        memcpy(&number, (const char *)config + real_fields[i].place, sizeof(number));
        do snprintf(text, sizeof(text), "%.*g", (int)digits, number);
        while (strtod(text, NULL) != number && digits++ < 17);
    }
    return digits < 17 ? digits : 17;
}

zr_status zr_hf_gpt2_write(const char *dir, const zr_hf_gpt2 *config)
{
    ZR_CHECK(config->tie_word_embeddings, ZR_ERR_ARG, "tie_word_embeddings is false: zr's GPT-2 ties its head");
    char *path = NULL, *text = NULL;
    zr_status st = ZR_OK;
    json_t *root = config_json(config);
    ZR_CHECK(root, ZR_ERR_ARG, "a number of the configuration is not finite, or out of memory");
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(digits_for(config)));
    if (!text) {
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory for the text of config.json");
        goto done;
    }
    ZR_TRY_GOTO(st, zr__hf_path(dir, "config.json", &path), done);
    ZR_TRY_GOTO(st, zr_file_write(path, text, (int64_t)strlen(text)), done);
done:
    free(text); /* jansson's */
    zr_free(path);
    json_decref(root);
    return st;
}
