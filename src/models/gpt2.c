/* GPT-2 (Radford et al. 2019): pre-LN blocks, learned positions, the head tied to the embedding. */
#include "zr/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LAYERS_MAX = 1 << 16 };

/* ---- sizes ----------------------------------------------------------------------------------- */

static zr_status check_gpt2_size(const char *field, int64_t value, int64_t most)
{
    ZR_CHECK(value >= 1 && value <= most, ZR_ERR_CONFIG, "gpt2: %s is %" PRId64 "; wanted 1 to %" PRId64, field, value,
             most);
    return ZR_OK;
}

static zr_status check_gpt2_dropout(const char *field, double value)
{
    ZR_CHECK(value >= 0 && value < 1, ZR_ERR_CONFIG, "gpt2: %s is %g; wanted 0 <= p < 1", field, value);
    return ZR_OK;
}

/* Return whether the number of parameters, n_layer (12 C^2 + 13 C) + (vocab_size + n_positions) C + 2 C, overflows. */
static bool params_overflow(const zr_gpt2_config *c)
{
    int64_t C = c->n_embd, layer = 0, all = 0, table = 0;
    return __builtin_mul_overflow(C, 12, &layer) || __builtin_add_overflow(layer, 13, &layer) ||
           __builtin_mul_overflow(layer, C, &layer) || __builtin_mul_overflow(layer, c->n_layer, &all) ||
           __builtin_add_overflow(c->vocab_size, c->n_positions, &table) || __builtin_add_overflow(table, 2, &table) ||
           __builtin_mul_overflow(table, C, &table) || __builtin_add_overflow(all, table, &all);
}

zr_status zr_gpt2_check(const zr_gpt2_config *c)
{
    ZR_TRY(check_gpt2_size("n_layer", c->n_layer, LAYERS_MAX));
    ZR_TRY(check_gpt2_size("n_head", c->n_head, INT32_MAX));
    ZR_TRY(check_gpt2_size("n_embd", c->n_embd, INT32_MAX));
    ZR_TRY(check_gpt2_size("n_positions", c->n_positions, INT32_MAX));
    ZR_TRY(check_gpt2_size("vocab_size", c->vocab_size, INT32_MAX)); /* since token ids have 32 bits */
    ZR_CHECK(c->n_embd % c->n_head == 0, ZR_ERR_CONFIG, "gpt2: n_embd %" PRId64 " is not a multiple of n_head %" PRId64,
             c->n_embd, c->n_head);
    ZR_CHECK(!params_overflow(c), ZR_ERR_CONFIG,
             "gpt2: n_layer %" PRId64 " with n_embd %" PRId64 " gives more parameters than 63 bits count", c->n_layer,
             c->n_embd);
    ZR_TRY(check_gpt2_dropout("embd_pdrop", c->embd_pdrop));
    ZR_TRY(check_gpt2_dropout("resid_pdrop", c->resid_pdrop));
    ZR_TRY(check_gpt2_dropout("attn_pdrop", c->attn_pdrop));
    ZR_CHECK(c->layer_norm_epsilon > 0 && isfinite(c->layer_norm_epsilon), ZR_ERR_CONFIG,
             "gpt2: layer_norm_epsilon is %g; wanted above 0", c->layer_norm_epsilon);
    ZR_CHECK(c->initializer_range >= 0 && isfinite(c->initializer_range), ZR_ERR_CONFIG,
             "gpt2: initializer_range is %g; wanted 0 or above", c->initializer_range);
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

static zr_init normal_init(double std)
{
    return (zr_init){.kind = ZR_INIT_NORMAL, .std = std};
}

static const zr_init zero = {.kind = ZR_INIT_ZERO};

static zr_value gpt2_norm(zr_graph *graph, const zr_gpt2_config *c, zr_value x, const char *name)
{
    zr_value gain = zr_param(graph, (zr_init){.kind = ZR_INIT_ONE}, vector(c->n_embd), "%s.weight", name);
    zr_value bias = zr_param(graph, zero, vector(c->n_embd), "%s.bias", name);
    return zr_layernorm(graph, x, gain, bias, c->layer_norm_epsilon);
}

/* Add a Conv1D as in Hugging Face, with a weight of shape (inputs, outputs), cut as in Megatron (Shoeybi et al. 2019,
 * section 3). A cut by columns (dimension 1) cuts each of the side-by-side parts, so that each rank gets whole heads or
 * hidden units. The next product, which reads the output, must be cut by rows (dimension 0). */
static zr_value dense(zr_graph *graph, zr_value x, const char *name, int64_t inputs, int64_t outputs, zr_cut cut,
                      double std)
{
    const zr_cut bias_cut = {0, cut.dim == 1 ? cut.parts : 0};
    zr_value w = zr_param_cut(graph, normal_init(std), matrix(inputs, outputs), cut, "%s.weight", name);
    zr_value b = zr_param_cut(graph, zero, vector(outputs), bias_cut, "%s.bias", name);
    return zr_linear(graph, x, w, b, false);
}

#define PART_BYTES 64
/* Return the name of a part of block i. The text is in a temporary array of the calling block. */
#define PART(what) part_name((char[PART_BYTES]){0}, i, what)
static const char *part_name(char name[PART_BYTES], int64_t i, const char *what)
{
    snprintf(name, PART_BYTES, "transformer.h.%" PRId64 ".%s", i, what);
    return name;
}

static zr_value gpt2_block(zr_graph *graph, const zr_gpt2_config *c, int64_t i, zr_value x)
{
    int64_t C = c->n_embd;
    double std = c->initializer_range;
    /* Divide by the square root of the number of branches that add to the residual stream. */
    double residual_std = std / sqrt(2.0 * (double)c->n_layer);

    zr_value h = gpt2_norm(graph, c, x, PART("ln_1"));
    h = dense(graph, h, PART("attn.c_attn"), C, 3 * C, (zr_cut){1, 3}, std);
    h = zr_attention(graph, h, c->n_head, c->attn_pdrop);
    h = dense(graph, h, PART("attn.c_proj"), C, C, (zr_cut){0, 1}, residual_std);
    x = zr_add(graph, x, zr_dropout(graph, h, c->resid_pdrop));

    h = gpt2_norm(graph, c, x, PART("ln_2"));
    h = dense(graph, h, PART("mlp.c_fc"), C, 4 * C, (zr_cut){1, 1}, std);
    h = zr_gelu(graph, h);
    h = dense(graph, h, PART("mlp.c_proj"), 4 * C, C, (zr_cut){0, 1}, residual_std);
    return zr_add(graph, x, zr_dropout(graph, h, c->resid_pdrop));
}

/* ---- model ----------------------------------------------------------------------------------- */

/* Write the divisors of n, such as "1, 2, 4", into `list`, as far as they fit. Return `list`. */
static const char *list_divisors(int64_t n, char *list, size_t bytes)
{
    size_t used = 0;
    for (int64_t d = 1; d <= n && used + 24 < bytes; d++)
        if (n % d == 0) used += (size_t)snprintf(list + used, bytes - used, used ? ", %" PRId64 : "%" PRId64, d);
    return list;
}

static bool gpt2_fits(zr_graph *graph, const zr_gpt2_config *c)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    int64_t tokens = spec->mode == ZR_MODE_DECODE ? spec->cache_len : spec->seq;
    char degrees[128];
    if (zr_gpt2_check(c) != ZR_OK)
        zr_graph_error(graph, ZR_ERR_CONFIG, "%s", zr_error_message());
    else if (spec->tensor > 1 && c->n_head % spec->tensor != 0)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "gpt2: n_head %" PRId64 " cannot be shared by %" PRId64
                       " tensor-parallel ranks (parallel.tensor): "
                       "%s would do",
                       c->n_head, spec->tensor, list_divisors(c->n_head, degrees, sizeof degrees));
    else if (tokens > c->n_positions)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "gpt2: a sequence of %" PRId64 " tokens is longer than n_positions, %" PRId64, tokens,
                       c->n_positions);
    else
        return true;
    return false;
}

static void gpt2_build(zr_graph *graph, const void *config)
{
    const zr_gpt2_config *c = config;
    if (!gpt2_fits(graph, c)) return;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, matrix(spec->batch, spec->seq));

    zr_graph_unit(graph, "embedding");
    zr_init init = normal_init(c->initializer_range);
    zr_value wte =
        zr_param_cut(graph, init, matrix(c->vocab_size, c->n_embd), (zr_cut){0, 1}, "transformer.wte.weight");
    zr_value wpe = zr_param(graph, init, matrix(c->n_positions, c->n_embd), "transformer.wpe.weight");
    zr_value x = zr_position(graph, zr_embedding(graph, tokens, wte), wpe);
    x = zr_dropout(graph, x, c->embd_pdrop);

    for (int64_t i = 0; i < c->n_layer; i++) {
        zr_graph_unit(graph, "h.%" PRId64, i);
        x = gpt2_block(graph, c, i, x);
    }

    zr_graph_unit(graph, "final");
    x = gpt2_norm(graph, c, x, "transformer.ln_f");
    if (spec->mode == ZR_MODE_DECODE) {
        zr_graph_output(graph, zr_linear(graph, x, wte, ZR_NONE, true));
        return;
    }
    zr_value targets = zr_input(graph, "targets", ZR_I32, matrix(spec->batch, spec->seq));
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, wte, targets));
}

zr_model zr_gpt2(const zr_gpt2_config *config)
{
    return (zr_model){.name = "gpt2", .build = gpt2_build, .config = config};
}
