/* Decoders of the Llama kind (Touvron et al. 2023): pre-RMSNorm blocks, rotary positions, grouped-query attention
 * (Ainslie et al. 2023) and SwiGLU (Shazeer 2020). Mistral, Qwen2 and Qwen3 differ only in the numbers of
 * zr_llama_config. Parameters have the names of Hugging Face. */
#include "models/families.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Return whether the number of parameters overflows: layers x (2 hidden x (heads + kv heads) x head_dim + 3 hidden x
 * intermediate + norms and biases) + 2 hidden x (vocab_size + 1). */
static bool params_overflow(const zr_llama_config *c)
{
    const double heads = (double)(c->num_attention_heads + c->num_key_value_heads) * (double)c->head_dim,
                 hidden = (double)c->hidden_size, inner = (double)c->intermediate_size;
    const double layer = 2 * hidden * heads + 3 * hidden * inner + 4 * hidden + 2 * heads + 2 * inner;
    return (double)c->num_hidden_layers * layer + 2 * hidden * ((double)c->vocab_size + 1) >= 0x1p62;
}

zr_status zr__llama_check(const zr_llama_config *c)
{
    ZR_TRY(zr__check_size("", "num_hidden_layers", c->num_hidden_layers, ZR__LAYERS_MAX));
    ZR_TRY(zr__check_size("", "hidden_size", c->hidden_size, INT32_MAX));
    ZR_TRY(zr__check_size("", "intermediate_size", c->intermediate_size, INT32_MAX));
    ZR_TRY(zr__check_size("", "num_attention_heads", c->num_attention_heads, INT32_MAX));
    ZR_TRY(zr__check_size("", "num_key_value_heads", c->num_key_value_heads, INT32_MAX));
    ZR_TRY(zr__check_size("", "head_dim", c->head_dim, INT32_MAX));
    ZR_TRY(zr__check_size("", "max_position_embeddings", c->max_position_embeddings, INT32_MAX));
    ZR_TRY(zr__check_size("", "vocab_size", c->vocab_size, INT32_MAX)); /* since token ids have 32 bits */
    ZR_CHECK(c->num_attention_heads % c->num_key_value_heads == 0, ZR_ERR_CONFIG,
             "num_key_value_heads %" PRId64 " does not divide num_attention_heads %" PRId64, c->num_key_value_heads,
             c->num_attention_heads);
    ZR_CHECK(c->head_dim % 2 == 0, ZR_ERR_CONFIG,
             "head_dim is %" PRId64 "; wanted an even number, since rotary positions turn pairs", c->head_dim);
    ZR_CHECK(!params_overflow(c), ZR_ERR_CONFIG, "these sizes give more parameters than 63 bits count");
    ZR_CHECK(c->sliding_window >= 0, ZR_ERR_CONFIG, "sliding_window is %" PRId64 "; wanted 0 (no window) or more",
             c->sliding_window);
    ZR_CHECK(c->max_window_layers >= 0, ZR_ERR_CONFIG, "max_window_layers is %" PRId64 "; wanted 0 or more",
             c->max_window_layers);
    ZR_CHECK(c->rms_norm_eps > 0 && isfinite(c->rms_norm_eps), ZR_ERR_CONFIG, "rms_norm_eps is %g; wanted above 0",
             c->rms_norm_eps);
    ZR_CHECK(c->initializer_range >= 0 && isfinite(c->initializer_range), ZR_ERR_CONFIG,
             "initializer_range is %g; wanted 0 or above", c->initializer_range);
    return zr__check_dropout("", "attention_dropout", c->attention_dropout);
}

/* ---- parts ----------------------------------------------------------------------------------- */

#define PART_BYTES 64
/* Return the name of a part of block i. The text is in a temporary array of the calling block. */
#define PART(what) part_name((char[PART_BYTES]){0}, i, what)
static const char *part_name(char name[PART_BYTES], int64_t i, const char *what)
{
    snprintf(name, PART_BYTES, "model.layers.%" PRId64 ".%s", i, what);
    return name;
}

/* Add an RMSNorm that normalises each group of `width` columns of x separately. */
static zr_value norm(zr_graph *graph, const zr_llama_config *c, zr_value x, int64_t width, const char *name)
{
    zr_value gain = zr_param(graph, (zr_init){.kind = ZR_INIT_ONE}, ZR_SHAPE(width), "%s.weight", name);
    return zr_rmsnorm_rounded(graph, x, gain, c->rms_norm_eps);
}

/* Add a linear layer with a weight of shape (outputs, inputs), cut as in Megatron (Shoeybi et al. 2019, section 3). */
static zr_value dense(zr_graph *graph, const zr_llama_config *c, zr_value x, const char *name, int64_t inputs,
                      int64_t outputs, zr_cut cut, bool biased)
{
    const zr_init normal = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range}, zero = {.kind = ZR_INIT_ZERO};
    const zr_cut bias_cut = {0, cut.dim == 0 ? cut.parts : 0};
    zr_value w = zr_param_cut(graph, normal, ZR_SHAPE(outputs, inputs), cut, "%s.weight", name);
    zr_value b = biased ? zr_param_cut(graph, zero, ZR_SHAPE(outputs), bias_cut, "%s.bias", name) : ZR_NONE;
    return zr_linear(graph, x, w, b, true);
}

/* Cuts of a weight of shape (outputs, inputs). A cut by outputs gives each tensor-parallel rank whole heads or hidden
 * units. `whole` is for a weight that is not cut. */
static const zr_cut by_outputs = {0, 1}, by_inputs = {1, 1}, whole = {0, 0};

static zr_value self_attention(zr_graph *graph, const zr_llama_config *c, int64_t i, zr_value x)
{
    const int64_t hidden = c->hidden_size, D = c->head_dim, ranks = zr_graph_get_spec(graph)->tensor;
    const int64_t q_cols = c->num_attention_heads * D, kv_cols = c->num_key_value_heads * D;
    const bool biased = c->attention_bias || c->qkv_bias, windowed = c->sliding_window && i >= c->max_window_layers;
    /* If the number of ranks does not divide the number of key/value heads, each rank has all of these heads. */
    const zr_cut kv_cut = ranks > 1 && c->num_key_value_heads % ranks != 0 ? whole : by_outputs;
    const zr_attention_spec spec = {.heads = c->num_attention_heads,
                                    .kv_heads = c->num_key_value_heads,
                                    .window = windowed ? c->sliding_window : 0,
                                    .dropout = c->attention_dropout};
    zr_value q = dense(graph, c, x, PART("self_attn.q_proj"), hidden, q_cols, by_outputs, biased);
    zr_value k = dense(graph, c, x, PART("self_attn.k_proj"), hidden, kv_cols, kv_cut, biased);
    zr_value v = dense(graph, c, x, PART("self_attn.v_proj"), hidden, kv_cols, kv_cut, biased);
    if (c->qk_norm) {
        q = norm(graph, c, q, D, PART("self_attn.q_norm"));
        k = norm(graph, c, k, D, PART("self_attn.k_norm"));
    }
    const zr_value table = zr_rotary_table(graph, &c->rotary);
    q = zr_rotary(graph, q, table);
    k = zr_rotary(graph, k, table);
    const zr_value y = zr_attend(graph, q, k, v, &spec);
    return dense(graph, c, y, PART("self_attn.o_proj"), q_cols, hidden, by_inputs, c->attention_bias);
}

static zr_value mlp(zr_graph *graph, const zr_llama_config *c, int64_t i, zr_value x)
{
    const int64_t hidden = c->hidden_size, inner = c->intermediate_size;
    zr_value gate = dense(graph, c, x, PART("mlp.gate_proj"), hidden, inner, by_outputs, c->mlp_bias);
    zr_value up = dense(graph, c, x, PART("mlp.up_proj"), hidden, inner, by_outputs, c->mlp_bias);
    zr_value y = zr_swiglu(graph, gate, up);
    return dense(graph, c, y, PART("mlp.down_proj"), inner, hidden, by_inputs, c->mlp_bias);
}

static zr_value block(zr_graph *graph, const zr_llama_config *c, int64_t i, zr_value x)
{
    const int64_t hidden = c->hidden_size;
    x = zr_add(graph, x, self_attention(graph, c, i, norm(graph, c, x, hidden, PART("input_layernorm"))));
    return zr_add(graph, x, mlp(graph, c, i, norm(graph, c, x, hidden, PART("post_attention_layernorm"))));
}

/* ---- model ----------------------------------------------------------------------------------- */

static bool fits(zr_graph *graph, const zr_llama_config *c)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const int64_t tokens = spec->mode == ZR_MODE_DECODE ? spec->cache_len : spec->seq;
    if (zr__llama_check(c) != ZR_OK)
        zr_graph_error(graph, ZR_ERR_CONFIG, "%s", zr_error_message());
    else if (spec->tensor > 1 && c->num_attention_heads % spec->tensor != 0)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "num_attention_heads %" PRId64 " cannot be shared by %" PRId64
                       " tensor-parallel ranks (parallel.tensor); wanted a degree that divides it",
                       c->num_attention_heads, spec->tensor);
    else if (tokens > c->max_position_embeddings)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "a sequence of %" PRId64 " tokens is longer than max_position_embeddings, %" PRId64, tokens,
                       c->max_position_embeddings);
    else
        return true;
    return false;
}

static void llama_build(zr_graph *graph, const void *config)
{
    const zr_llama_config *c = config;
    if (!fits(graph, c)) return;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_init normal = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range};
    const int64_t V = c->vocab_size, C = c->hidden_size;
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));

    zr_graph_unit(graph, "embedding");
    zr_value head = zr_param_table(graph, normal, V, C, "model.embed_tokens.weight");
    zr_value x = zr_embedding(graph, tokens, head);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        zr_graph_unit(graph, "layers.%" PRId64, i);
        x = block(graph, c, i, x);
    }

    zr_graph_unit(graph, "final");
    x = norm(graph, c, x, C, "model.norm");
    if (!c->tie_word_embeddings) head = zr_param_table(graph, normal, V, C, "lm_head.weight");
    if (spec->mode == ZR_MODE_DECODE) {
        zr_graph_output(graph, zr_linear(graph, x, head, ZR_NONE, true));
        return;
    }
    zr_value targets = zr_input(graph, "targets", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, head, targets));
}

zr_model zr_llama(const zr_llama_config *config)
{
    return (zr_model){.name = "llama", .build = llama_build, .config = config};
}

/* ---- presets --------------------------------------------------------------------------------- */

/* Settings of a model, for all four families. */
typedef struct llama_settings {
    zr_llama_config model;
    bool use_sliding_window; /* whether sliding_window is used (Qwen2, Qwen3); true for Mistral */
    /* 1 + number of layers before the first one with a window, according to layer_types; 0 if not given */
    int64_t full_layers;
    zr_ids bos, eos, pad; /* special tokens of config.json */
} llama_settings;

#define ROTARY(base)                                                                                                   \
    {                                                                                                                  \
        .theta = base, .factor = NAN, .attention_factor = NAN, UNSCALED                                                \
    }
#define UNSCALED .low_freq_factor = NAN, .high_freq_factor = NAN, .beta_fast = 32, .beta_slow = 1, .truncate = true
/* Scaling of rotary positions in Llama 3.1 and 3.2, by the factor `by` from 8,192 tokens on. */
#define LLAMA3(by)                                                                                                     \
    {                                                                                                                  \
        .kind = ZR_ROTARY_LLAMA3, .theta = 500000, .factor = by, .original = 8192, .low_freq_factor = 1,               \
        .high_freq_factor = 4, .attention_factor = NAN, .beta_fast = 32, .beta_slow = 1, .truncate = true              \
    }

/* Llama 2 (Touvron et al. 2023) and Llama 3 (Dubey et al. 2024) by Meta, SmolLM2 by Hugging Face. Columns: name,
 * layers, width, width of the MLP, heads, key/value heads, width of a head, positions, vocabulary, whether the head is
 * tied, epsilon, learning rate of the training (table 1 of Touvron et al., table 3 of Dubey et al.), rotary embedding.
 */
#define LLAMA_LIST(X)                                                                                                  \
    X("smollm2-135m", 30, 576, 1536, 9, 3, 64, 8192, 49152, true, 1e-5, NULL, ROTARY(100000))                          \
    X("smollm2-360m", 32, 960, 2560, 15, 5, 64, 8192, 49152, true, 1e-5, NULL, ROTARY(100000))                         \
    X("smollm2-1.7b", 24, 2048, 8192, 32, 32, 64, 8192, 49152, true, 1e-5, NULL, ROTARY(130000))                       \
    X("llama2-7b", 32, 4096, 11008, 32, 32, 128, 4096, 32000, false, 1e-5, "3e-4", ROTARY(10000))                      \
    X("llama2-13b", 40, 5120, 13824, 40, 40, 128, 4096, 32000, false, 1e-5, "3e-4", ROTARY(10000))                     \
    X("llama2-70b", 80, 8192, 28672, 64, 8, 128, 4096, 32000, false, 1e-5, "1.5e-4", ROTARY(10000))                    \
    X("llama3-8b", 32, 4096, 14336, 32, 8, 128, 8192, 128256, false, 1e-5, "3e-4", ROTARY(500000))                     \
    X("llama3-70b", 80, 8192, 28672, 64, 8, 128, 8192, 128256, false, 1e-5, "1.5e-4", ROTARY(500000))                  \
    X("llama3.1-8b", 32, 4096, 14336, 32, 8, 128, 131072, 128256, false, 1e-5, "3e-4", LLAMA3(8))                      \
    X("llama3.1-70b", 80, 8192, 28672, 64, 8, 128, 131072, 128256, false, 1e-5, "1.5e-4", LLAMA3(8))                   \
    X("llama3.1-405b", 126, 16384, 53248, 128, 8, 128, 131072, 128256, false, 1e-5, "8e-5", LLAMA3(8))                 \
    X("llama3.2-1b", 16, 2048, 8192, 32, 8, 64, 131072, 128256, true, 1e-5, NULL, LLAMA3(32))                          \
    X("llama3.2-3b", 28, 3072, 8192, 24, 8, 128, 131072, 128256, true, 1e-5, NULL, LLAMA3(32))
#define MISTRAL_LIST(X)                                                                                                \
    X("mistral-7b", 32, 4096, 14336, 32, 8, 128, 32768, 32768, false, 1e-5, NULL, ROTARY(1000000))                     \
    X("mistral-nemo-12b", 40, 5120, 14336, 32, 8, 128, 131072, 131072, false, 1e-5, NULL, ROTARY(1000000))
#define QWEN2_LIST(X)                                                                                                  \
    X("qwen2.5-0.5b", 24, 896, 4864, 14, 2, 64, 32768, 151936, true, 1e-6, NULL, ROTARY(1000000))                      \
    X("qwen2.5-1.5b", 28, 1536, 8960, 12, 2, 128, 32768, 151936, true, 1e-6, NULL, ROTARY(1000000))                    \
    X("qwen2.5-3b", 36, 2048, 11008, 16, 2, 128, 32768, 151936, true, 1e-6, NULL, ROTARY(1000000))                     \
    X("qwen2.5-7b", 28, 3584, 18944, 28, 4, 128, 131072, 152064, false, 1e-6, NULL, ROTARY(1000000))                   \
    X("qwen2.5-14b", 48, 5120, 13824, 40, 8, 128, 131072, 152064, false, 1e-5, NULL, ROTARY(1000000))                  \
    X("qwen2.5-32b", 64, 5120, 27648, 40, 8, 128, 131072, 152064, false, 1e-5, NULL, ROTARY(1000000))                  \
    X("qwen2.5-72b", 80, 8192, 29568, 64, 8, 128, 131072, 152064, false, 1e-5, NULL, ROTARY(1000000))
#define QWEN3_LIST(X)                                                                                                  \
    X("qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, 40960, 151936, true, 1e-6, NULL, ROTARY(1000000))                      \
    X("qwen3-1.7b", 28, 2048, 6144, 16, 8, 128, 40960, 151936, true, 1e-6, NULL, ROTARY(1000000))                      \
    X("qwen3-4b", 36, 2560, 9728, 32, 8, 128, 40960, 151936, true, 1e-6, NULL, ROTARY(1000000))                        \
    X("qwen3-8b", 36, 4096, 12288, 32, 8, 128, 40960, 151936, false, 1e-6, NULL, ROTARY(1000000))                      \
    X("qwen3-14b", 40, 5120, 17408, 40, 8, 128, 40960, 151936, false, 1e-6, NULL, ROTARY(1000000))                     \
    X("qwen3-32b", 64, 5120, 25600, 64, 8, 128, 40960, 151936, false, 1e-6, NULL, ROTARY(1000000))

#define PRESET(name, layers, width, mlp_width, heads, kv, head_width, tokens, vocabulary, tied, epsilon, rate, ...)    \
    {name,                                                                                                             \
     &(const llama_settings){.model = {.num_hidden_layers = layers,                                                    \
                                       .max_window_layers = layers,                                                    \
                                       .hidden_size = width,                                                           \
                                       .intermediate_size = mlp_width,                                                 \
                                       .num_attention_heads = heads,                                                   \
                                       .num_key_value_heads = kv,                                                      \
                                       .head_dim = head_width,                                                         \
                                       .max_position_embeddings = tokens,                                              \
                                       .vocab_size = vocabulary,                                                       \
                                       .tie_word_embeddings = tied,                                                    \
                                       .rms_norm_eps = epsilon,                                                        \
                                       .initializer_range = 0.02,                                                      \
                                       .rotary = __VA_ARGS__}},                                                        \
     rate},
static const zr_preset llama_presets[] = {LLAMA_LIST(PRESET){0}}, mistral_presets[] = {MISTRAL_LIST(PRESET){0}},
                       qwen2_presets[] = {QWEN2_LIST(PRESET){0}}, qwen3_presets[] = {QWEN3_LIST(PRESET){0}};

/* ---- families -------------------------------------------------------------------------------- */

/* Set the sizes that are "auto" to the sizes of SmolLM2-135M, or to sizes that follow from the width and the heads. */
static void complete(void *config)
{
    zr_llama_config *c = &((llama_settings *)config)->model;
    int64_t *const size[] = {&c->num_hidden_layers, &c->num_attention_heads, &c->hidden_size,
                             &c->max_position_embeddings, &c->vocab_size};
    const int64_t standard[] = {30, 9, 576, 2048, 32000};
    for (int i = 0; i < 5; i++)
        if (*size[i] == 0) *size[i] = standard[i];
    if (c->num_key_value_heads == 0) c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim == 0) c->head_dim = c->hidden_size / c->num_attention_heads;
    if (c->intermediate_size == 0) c->intermediate_size = (8 * c->hidden_size / 3 + 63) / 64 * 64;
}

/* Adapt sizes to a new width and number of heads: the number of query heads per key/value head does not change if it
 * divides the new number of heads, and the width of the MLP stays the same multiple of the model's width. */
static void resize(void *config, const zr_model_sizes *from)
{
    zr_llama_config *c = &((llama_settings *)config)->model;
    const int64_t kv = c->num_key_value_heads, group = kv > 0 ? from->heads / kv : 0;
    c->num_key_value_heads = group > 0 && c->num_attention_heads % group == 0 ? c->num_attention_heads / group : 0;
    c->head_dim = 0;
    if (from->width > 0) c->intermediate_size = (c->intermediate_size * c->hidden_size / from->width + 63) / 64 * 64;
}

/* Return the model that complete settings describe. Set constants of the rotary embedding that are not given to their
 * defaults. Remove the window unless `windows` is true. */
static zr_llama_config settled(const llama_settings *s, bool windows)
{
    zr_llama_config c = s->model;
    zr_rotary_spec *r = &c.rotary;
    const bool dynamic = r->kind == ZR_ROTARY_DYNAMIC;
    r->width = c.head_dim;
    /* transformers scales "dynamic" from max_position_embeddings on, whatever the original length is. */
    if (dynamic || r->original == 0) r->original = c.max_position_embeddings;
    if (isnan(r->attention_factor)) r->attention_factor = 0;
    if (isnan(r->factor)) r->factor = 1;
    if (!windows) c.sliding_window = c.max_window_layers = 0;
    return c;
}

static zr_llama_config llama_of(const void *config)
{
    return settled(config, false);
}

static zr_llama_config mistral_of(const void *config)
{
    zr_llama_config c = settled(config, true);
    c.max_window_layers = 0; /* all layers have the window */
    return c;
}

static zr_llama_config qwen2_of(const void *config)
{
    zr_llama_config c = settled(config, ((const llama_settings *)config)->use_sliding_window);
    c.qkv_bias = true;
    return c;
}

static zr_llama_config qwen3_of(const void *config)
{
    zr_llama_config c = settled(config, ((const llama_settings *)config)->use_sliding_window);
    c.qk_norm = true;
    return c;
}

/* Check that the constants of the rotary embedding's kind are given. */
static zr_status check_rotary(const llama_settings *s)
{
    const zr_rotary_spec *r = &s->model.rotary;
    ZR_CHECK(r->theta > 1, ZR_ERR_CONFIG, "rope_theta is %g; wanted a number above 1", r->theta);
    ZR_CHECK(r->kind != ZR_ROTARY_DEFAULT || isnan(r->factor), ZR_ERR_CONFIG,
             "rope_scaling.factor is %g, but rope_scaling.rope_type is \"default\", which has no factor; give the "
             "type, such as \"linear\", or leave out the factor",
             r->factor);
    ZR_CHECK(r->kind == ZR_ROTARY_DEFAULT || r->factor >= 1, ZR_ERR_CONFIG,
             "rope_scaling.factor is missing or below 1; rope_scaling.rope_type needs a factor of 1 or more");
    ZR_CHECK(r->kind != ZR_ROTARY_YARN || (r->beta_slow > 0 && r->beta_fast > r->beta_slow), ZR_ERR_CONFIG,
             "rope_scaling: \"yarn\" needs beta_slow above 0 and a larger beta_fast; they are %g and %g", r->beta_slow,
             r->beta_fast);
    if (r->kind != ZR_ROTARY_LLAMA3) return ZR_OK;
    ZR_CHECK(r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor, ZR_ERR_CONFIG,
             "rope_scaling: \"llama3\" needs low_freq_factor above 0 and a larger high_freq_factor");
    return ZR_OK;
}

/* Check that layer_types, if given, puts windows into the same layers as the other settings. */
static zr_status check_layer_types(const llama_settings *s, const zr_llama_config *c)
{
    int64_t full = c->sliding_window ? c->max_window_layers : c->num_hidden_layers;
    if (full > c->num_hidden_layers) full = c->num_hidden_layers;
    ZR_CHECK(s->full_layers == 0 || s->full_layers == 1 + full, ZR_ERR_CONFIG,
             "layer_types has windows from layer %" PRId64 " on, but the other settings have them from layer %" PRId64
             " of %" PRId64 " on",
             s->full_layers - 1, full, c->num_hidden_layers);
    return ZR_OK;
}

static zr_status check(const void *config, zr_llama_config c)
{
    const int64_t heads = c.num_attention_heads;
    ZR_CHECK(heads < 1 || c.hidden_size % heads == 0 || c.head_dim != c.hidden_size / heads, ZR_ERR_CONFIG,
             "hidden_size %" PRId64 " is not a multiple of num_attention_heads %" PRId64
             "; change one of them, or give head_dim",
             c.hidden_size, heads);
    ZR_TRY(check_rotary(config));
    ZR_TRY(check_layer_types(config, &c));
    return zr__llama_check(&c);
}

#define FAMILY(name)                                                                                                   \
    static zr_status check_##name(const void *config)                                                                  \
    {                                                                                                                  \
        return check(config, name##_of(config));                                                                       \
    }                                                                                                                  \
    static void build_##name(zr_graph *graph, const void *config)                                                      \
    {                                                                                                                  \
        const zr_llama_config c = name##_of(config);                                                                   \
        llama_build(graph, &c);                                                                                        \
    }
FAMILY(llama)
FAMILY(mistral)
FAMILY(qwen2)
FAMILY(qwen3)

/* ---- fields ---------------------------------------------------------------------------------- */

#define SIZE(...) ZR__FIELD_SIZE(llama_settings, __VA_ARGS__)
#define FIELD(...) ZR__FIELD(llama_settings, __VA_ARGS__)
#define FLAG(name, member, its_role, text) FIELD(BOOL, name, member, its_role, "false", .help = text)
#define SPECIAL(name, member) FIELD(IDS, name, member, START, "null", .place = ZR_FIELD_IN_HF)
/* A constant of the rotary embedding, which is in rope_scaling in transformers 4 and in rope_parameters in
 * transformers 5. */
#define SCALING(name, member, default_of_both, text)                                                                   \
    FIELD(REAL, "rope_scaling." name, model.rotary.member, RESULT, default_of_both, .twin = "rope_parameters." name,   \
          .min = 0, .max = 1e9, .help = text)

/* Fields that all four families have. The arguments are the defaults of transformers for some of the sizes. */
#define COMMON(width_, mlp_width, kv_heads, head_width, tokens, vocabulary)                                            \
    SIZE(num_hidden_layers, "32", "layers", "number of transformer blocks; auto: 30"),                                 \
        SIZE(num_attention_heads, "32", "heads", "number of query heads of attention; auto: 9"),                       \
        SIZE(num_key_value_heads, kv_heads, "key/value heads",                                                         \
             "number of key and value heads, which must divide num_attention_heads; auto: num_attention_heads",        \
             .divides = "num_attention_heads"),                                                                        \
        SIZE(hidden_size, width_, "width", "width of the model; auto: 576"),                                           \
        SIZE(head_dim, head_width, "head width",                                                                       \
             "width of a head, an even number; auto: hidden_size / num_attention_heads"),                              \
        SIZE(intermediate_size, mlp_width, "MLP width",                                                                \
             "width of the feed-forward part; auto: 8/3 of hidden_size, rounded up to a multiple of 64"),              \
        SIZE(max_position_embeddings, tokens, "positions", "longest sequence, in tokens; auto: 2048"),                 \
        SIZE(vocab_size, vocabulary, "vocabulary",                                                                     \
             "size of the vocabulary, at least that of data.tokenizer; auto: that of the tokenizer, or 32000"),        \
        FLAG("tie_word_embeddings", model.tie_word_embeddings, SHAPE,                                                  \
             "whether the head uses the weights of the embedding"),                                                    \
        FIELD(REAL, "rms_norm_eps", model.rms_norm_eps, RESULT, "1e-6", .min = 1e-12, .max = 1,                        \
              .means = "norm epsilon", .help = "epsilon of norms, which is added to the mean square"),                 \
        FIELD(REAL, "rope_theta", model.rotary.theta, RESULT, "10000.0", .twin = "rope_parameters.rope_theta",         \
              .min = 1, .max = 1e12, .help = "base of the frequencies of rotary positions"),                           \
        FIELD(CHOICE, "rope_scaling.rope_type", model.rotary.kind, RESULT, "\"default\"",                              \
              .twin = "rope_parameters.rope_type", .also = "rope_scaling.type|rope_parameters.type",                   \
              .choices = "default|linear|dynamic|llama3|yarn",                                                         \
              .help = "how rotary positions are scaled for longer sequences. dynamic changes only sequences of more "  \
                      "than max_position_embeddings tokens, which zr does not train"),                                 \
        SCALING("factor", factor, "null", "factor of the length of sequences; needed unless rope_type is default"),    \
        SCALING("low_freq_factor", low_freq_factor, "null",                                                            \
                "llama3: a wavelength above original / low_freq_factor tokens is multiplied by factor"),               \
        SCALING("high_freq_factor", high_freq_factor, "null",                                                          \
                "llama3: a wavelength below original / high_freq_factor tokens is kept"),                              \
        FIELD(INT, "rope_scaling.original_max_position_embeddings", model.rotary.original, RESULT, "null",             \
              .twin = "rope_parameters.original_max_position_embeddings", .also = "original_max_position_embeddings",  \
              .min = 1, .max = 0x1p53,                                                                                 \
              .help = "llama3, yarn: length in tokens of the sequences before scaling; null: "                         \
                      "max_position_embeddings"),                                                                      \
        SCALING("beta_fast", beta_fast, "32.0",                                                                        \
                "yarn: frequencies of more than beta_fast turns in the original length are kept"),                     \
        SCALING("beta_slow", beta_slow, "1.0",                                                                         \
                "yarn: frequencies of fewer than beta_slow turns in the original length are divided by factor"),       \
        SCALING("attention_factor", attention_factor, "null",                                                          \
                "yarn: factor of queries and keys; null: 0.1 ln(factor) + 1"),                                         \
        FIELD(BOOL, "rope_scaling.truncate", model.rotary.truncate, RESULT, "true",                                    \
              .twin = "rope_parameters.truncate",                                                                      \
              .help = "yarn: whether the two borders are rounded to whole pairs of columns"),                          \
        FIELD(REAL, "attention_dropout", model.attention_dropout, DROPOUT, "0.0", .max = 0.999, .means = "dropout",    \
              .help = "dropout probability of attention weights"),                                                     \
        ZR__FIELD_DEVIATION(llama_settings), ZR__FIELD_ONLY("hidden_act", "\"silu\"", .same = "\"swish\""),            \
        ZR__FIELD_ONLY("partial_rotary_factor", "1.0", .fallback = "null",                                             \
                       .also = "rope_parameters.partial_rotary_factor"),                                               \
        ZR__FIELD_ONLY("is_causal", "true", .fallback = "null"),                                                       \
        ZR__FIELD_ONLY("quantization_config", "null", .fallback = "null",                                              \
                       .help = "save the model without quantization first, such as with dequantize() of "              \
                               "transformers"),                                                                        \
        SPECIAL("bos_token_id", bos), SPECIAL("eos_token_id", eos), SPECIAL("pad_token_id", pad)

#define WINDOW(default_of_transformers, condition)                                                                     \
    FIELD(INT, "sliding_window", model.sliding_window, RESULT, "null", .fallback = default_of_transformers, .min = 1,  \
          .max = 0x1p53, .help = "number of tokens that a token attends to, itself included" condition "; null: all")
#define LAYER_TYPES                                                                                                    \
    FIELD(LAYERS, "layer_types", full_layers, RESULT, "null", .place = ZR_FIELD_IN_HF,                                 \
          .choices = "full_attention|sliding_attention")
#define ATTENTION_BIAS                                                                                                 \
    FLAG("attention_bias", model.attention_bias, SHAPE, "whether the four projections of attention have biases")
#define QWEN_WINDOWS                                                                                                   \
    FLAG("use_sliding_window", use_sliding_window, RESULT, "whether sliding_window is used"),                          \
        WINDOW("4096", ", if use_sliding_window is true"),                                                             \
        FIELD(INT, "max_window_layers", model.max_window_layers, RESULT, "28", .min = 0, .max = 0x1p53,                \
              .help = "number of first layers in which tokens attend to all tokens, in spite of sliding_window")

static const zr_field llama_fields[] = {
    COMMON("4096", "11008", "null", "null", "2048", "32000"),
    ATTENTION_BIAS,
    FLAG("mlp_bias", model.mlp_bias, SHAPE, "whether the three projections of the feed-forward part have biases"),
    LAYER_TYPES,
    {0},
};
static const zr_field mistral_fields[] = {
    COMMON("4096", "14336", "8", "null", "131072", "32000"),
    WINDOW("4096", ""),
    LAYER_TYPES,
    {0},
};
static const zr_field qwen2_fields[] = {
    COMMON("4096", "22016", "32", "null", "32768", "151936"),
    QWEN_WINDOWS,
    LAYER_TYPES,
    {0},
};
static const zr_field qwen3_fields[] = {
    COMMON("4096", "22016", "32", "128", "32768", "151936"), ATTENTION_BIAS, QWEN_WINDOWS, LAYER_TYPES, {0},
};

/* Tensors of old files that are skipped: the frequencies of rotary positions, which zr computes itself. */
static const char *const redundant[] = {".rotary_emb.inv_freq", NULL};

#define ROW(of, its_title, class)                                                                                      \
    const zr_family zr__family_##of = {                                                                                \
        .name = #of,                                                                                                   \
        .title = its_title,                                                                                            \
        .architecture = class,                                                                                         \
        .bytes = sizeof(llama_settings),                                                                               \
        .field = of##_fields,                                                                                          \
        .preset = of##_presets,                                                                                        \
        .names = {"model.", redundant, "lm_head.weight", "model.embed_tokens.weight"},                                 \
        .complete = complete,                                                                                          \
        .check = check_##of,                                                                                           \
        .build = build_##of,                                                                                           \
        .resize = resize,                                                                                              \
    };
ROW(llama, "Llama", "LlamaForCausalLM")
ROW(mistral, "Mistral", "MistralForCausalLM")
ROW(qwen2, "Qwen2", "Qwen2ForCausalLM")
ROW(qwen3, "Qwen3", "Qwen3ForCausalLM")
