/* Decoders of the Llama kind (Touvron et al. 2023): pre-RMSNorm blocks, rotary positions, grouped-query attention
 * (Ainslie et al. 2023) and SwiGLU (Shazeer 2020). Mistral, Qwen2 and Qwen3 differ only in the numbers of
 * zr_llama_config. Names are those of Hugging Face. */
#include "zr/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LAYERS_MAX = 1 << 16 };

/* ---- sizes ----------------------------------------------------------------------------------- */

static zr_status check_size(const char *field, int64_t value)
{
    ZR_CHECK(value >= 1 && value <= INT32_MAX, ZR_ERR_CONFIG, "%s is %" PRId64 "; wanted 1 to %d", field, value,
             (int)INT32_MAX);
    return ZR_OK;
}

static zr_status check_sizes(const zr_llama_config *c)
{
    ZR_CHECK(c->num_hidden_layers >= 1 && c->num_hidden_layers <= LAYERS_MAX, ZR_ERR_CONFIG,
             "num_hidden_layers is %" PRId64 "; wanted 1 to %d", c->num_hidden_layers, (int)LAYERS_MAX);
    ZR_TRY(check_size("hidden_size", c->hidden_size));
    ZR_TRY(check_size("intermediate_size", c->intermediate_size));
    ZR_TRY(check_size("num_attention_heads", c->num_attention_heads));
    ZR_TRY(check_size("num_key_value_heads", c->num_key_value_heads));
    ZR_TRY(check_size("head_dim", c->head_dim));
    ZR_TRY(check_size("max_position_embeddings", c->max_position_embeddings));
    return check_size("vocab_size", c->vocab_size); /* since token ids have 32 bits */
}

/* Return whether the number of parameters overflows: layers x (2 hidden x (heads + kv heads) x head_dim + 3 hidden x
 * intermediate + norms and biases) + 2 hidden x (vocab_size + 1). */
static bool params_overflow(const zr_llama_config *c)
{
    const double heads = (double)(c->num_attention_heads + c->num_key_value_heads) * (double)c->head_dim,
                 hidden = (double)c->hidden_size, inner = (double)c->intermediate_size;
    const double layer = 2 * hidden * heads + 3 * hidden * inner + 4 * hidden + 2 * heads + 2 * inner;
    return (double)c->num_hidden_layers * layer + 2 * hidden * ((double)c->vocab_size + 1) >= 0x1p62;
}

zr_status zr_llama_check(const zr_llama_config *c)
{
    ZR_TRY(check_sizes(c));
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
    ZR_CHECK(c->attention_dropout >= 0 && c->attention_dropout < 1, ZR_ERR_CONFIG,
             "attention_dropout is %g; wanted 0 <= p < 1", c->attention_dropout);
    return ZR_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static zr_shape vector(int64_t n)
{
    return (zr_shape){1, {n}};
}

static zr_shape matrix(int64_t rows, int64_t cols)
{
    return (zr_shape){2, {rows, cols}};
}

#define PART_BYTES 64
/* Return the name of a part of block i. The text is in a temporary array of the calling block. */
#define PART(what) part_name((char[PART_BYTES]){0}, i, what)
static const char *part_name(char name[PART_BYTES], int64_t i, const char *what)
{
    snprintf(name, PART_BYTES, "model.layers.%" PRId64 ".%s", i, what);
    return name;
}

/* Add a norm of every `width` columns of x. */
static zr_value norm(zr_graph *graph, const zr_llama_config *c, zr_value x, int64_t width, const char *name)
{
    zr_value gain = zr_param(graph, (zr_init){.kind = ZR_INIT_ONE}, vector(width), "%s.weight", name);
    return zr_rmsnorm_rounded(graph, x, gain, c->rms_norm_eps);
}

/* Add a linear layer with a weight of shape (outputs, inputs), cut as in Megatron (Shoeybi et al. 2019, section 3). */
static zr_value dense(zr_graph *graph, const zr_llama_config *c, zr_value x, const char *name, int64_t inputs,
                      int64_t outputs, zr_cut cut, bool biased)
{
    const zr_init normal = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range}, zero = {.kind = ZR_INIT_ZERO};
    const zr_cut bias_cut = {0, cut.dim == 0 ? cut.parts : 0};
    zr_value w = zr_param_cut(graph, normal, matrix(outputs, inputs), cut, "%s.weight", name);
    zr_value b = biased ? zr_param_cut(graph, zero, vector(outputs), bias_cut, "%s.bias", name) : ZR_NONE;
    return zr_linear(graph, x, w, b, true);
}

/* Cuts of a weight (outputs, inputs): by outputs, so that each tensor-parallel rank gets whole heads or hidden units;
 * by inputs; not at all. */
static const zr_cut by_outputs = {0, 1}, by_inputs = {1, 1}, whole = {0, 0};

static zr_value self_attention(zr_graph *graph, const zr_llama_config *c, int64_t i, zr_value x)
{
    const int64_t hidden = c->hidden_size, D = c->head_dim, ranks = zr_graph_get_spec(graph)->tensor;
    const int64_t q_cols = c->num_attention_heads * D, kv_cols = c->num_key_value_heads * D;
    const bool biased = c->attention_bias || c->qkv_bias, windowed = c->sliding_window && i >= c->max_window_layers;
    /* If the ranks do not divide the key/value heads, each rank has all of them. */
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
    if (zr_llama_check(c) != ZR_OK)
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
    const zr_shape table = matrix(c->vocab_size, c->hidden_size);
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, matrix(spec->batch, spec->seq));

    zr_graph_unit(graph, "embedding");
    zr_value head = zr_param_cut(graph, normal, table, by_outputs, "model.embed_tokens.weight");
    zr_value x = zr_embedding(graph, tokens, head);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        zr_graph_unit(graph, "layers.%" PRId64, i);
        x = block(graph, c, i, x);
    }

    zr_graph_unit(graph, "final");
    x = norm(graph, c, x, c->hidden_size, "model.norm");
    if (!c->tie_word_embeddings) head = zr_param_cut(graph, normal, table, by_outputs, "lm_head.weight");
    if (spec->mode == ZR_MODE_DECODE) {
        zr_graph_output(graph, zr_linear(graph, x, head, ZR_NONE, true));
        return;
    }
    zr_value targets = zr_input(graph, "targets", ZR_I32, matrix(spec->batch, spec->seq));
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, head, targets));
}

zr_model zr_llama(const zr_llama_config *config)
{
    return (zr_model){.name = "llama", .build = llama_build, .config = config};
}
