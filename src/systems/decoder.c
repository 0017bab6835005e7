/* Decoders whose parts are from different families, such as SwiGLU with LayerNorm and learned positions. They are only
 * planned. */
#include "systems/model.h"

#include "zr/layers.h"
#include "zr/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t whole_number(const zr_config *config, const char *key, int64_t otherwise)
{
    const zr_field *field = zr_family_field(config->model.family, key);
    int64_t value = 0;
    if (field && field->type == ZR_FIELD_INT) memcpy(&value, config->model.config.bytes + field->offset, sizeof(value));
    return value > 0 ? value : otherwise;
}

static double real_number(const zr_config *config, const char *key)
{
    const zr_field *field = zr_family_field(config->model.family, key);
    double value = 0;
    if (field && field->type == ZR_FIELD_REAL)
        memcpy(&value, config->model.config.bytes + field->offset, sizeof(value));
    return value;
}

static bool flag(const zr_config *config, const char *key)
{
    const zr_field *field = zr_family_field(config->model.family, key);
    return field && field->type == ZR_FIELD_BOOL && config->model.config.bytes[field->offset] != 0;
}

zr_status zr__decoder_of(const zr_config *config, zr__decoder *decoder)
{
    const zr_family *family = config->model.family;
    const zr_model_sizes s = zr_config_sizes(config);
    const bool llama = zr_family_field(family, "num_key_value_heads") != NULL;
    ZR_CHECK(zr_family_samples(family, config->model.config.bytes) == ZR_SAMPLES_NEXT, ZR_ERR_UNSUPPORTED,
             "%s is an encoder; options of the model's shape are for decoders", family->title);
    *decoder = (zr__decoder){.layers = s.layers,
                             .heads = s.heads,
                             .width = s.width,
                             .positions = s.positions,
                             .vocabulary = s.vocabulary,
                             .kv_heads = whole_number(config, "num_key_value_heads", s.heads),
                             .head_width = whole_number(config, "head_dim", s.width / s.heads),
                             .inner = whole_number(config, "intermediate_size", 4 * s.width),
                             .gated = llama,
                             .rms_norm = llama,
                             .rotary = llama,
                             .learned = !llama,
                             .biased = !llama || (flag(config, "attention_bias") && flag(config, "mlp_bias")),
                             .tied = !llama || flag(config, "tie_word_embeddings"),
                             .dropout = real_number(config, "resid_pdrop"),
                             .attention_dropout = real_number(config, llama ? "attention_dropout" : "attn_pdrop")};
    return ZR_OK;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Write the name of a part of block i into `name`, and return it. */
#define PART_BYTES 64
#define PART(what) part_name((char[PART_BYTES]){0}, i, what)
static const char *part_name(char name[PART_BYTES], int64_t i, const char *what)
{
    snprintf(name, PART_BYTES, "block.%" PRId64 ".%s", i, what);
    return name;
}

/* Add a linear layer, whose weight is cut by outputs (dimension 0) or by inputs (dimension 1). */
static zr_value dense(zr_graph *graph, const zr__decoder *d, zr_value x, int64_t inputs, int64_t outputs, int dim,
                      const char *name)
{
    const zr_init zero = {.kind = ZR_INIT_ZERO};
    zr_value w = zr_param_cut(graph, zero, ZR_SHAPE(outputs, inputs), (zr_cut){dim, 1}, "%s.weight", name);
    zr_value b = ZR_NONE;
    if (d->biased) b = zr_param_cut(graph, zero, ZR_SHAPE(outputs), (zr_cut){0, dim == 0}, "%s.bias", name);
    return zr_linear(graph, x, w, b, true);
}

static zr_value norm(zr_graph *graph, const zr__decoder *d, zr_value x, const char *name)
{
    if (!d->rms_norm) return zr_layer_norm(graph, x, 1e-5, name);
    return zr_rmsnorm(graph, x, zr_param(graph, (zr_init){.kind = ZR_INIT_ONE}, ZR_SHAPE(d->width), "%s", name), 1e-5);
}

static zr_value turn(zr_graph *graph, const zr__decoder *d, zr_value x)
{
    const zr_rotary_spec spec = {.width = d->head_width, .theta = 10000};
    return d->rotary ? zr_rotary(graph, x, zr_rotary_table(graph, &spec)) : x;
}

static zr_value block(zr_graph *graph, const zr__decoder *d, int64_t i, zr_value x)
{
    const zr_attention_spec spec = {.heads = d->heads, .kv_heads = d->kv_heads, .dropout = d->attention_dropout};
    const int64_t q = d->heads * d->head_width, k = d->kv_heads * d->head_width;
    zr_value h = norm(graph, d, x, PART("norm_1"));
    zr_value query = turn(graph, d, dense(graph, d, h, d->width, q, 0, PART("query")));
    zr_value key = turn(graph, d, dense(graph, d, h, d->width, k, 0, PART("key")));
    zr_value value = dense(graph, d, h, d->width, k, 0, PART("value"));
    h = dense(graph, d, zr_attend(graph, query, key, value, &spec), q, d->width, 1, PART("projection"));
    x = zr_add(graph, x, zr_dropout(graph, h, d->dropout));
    h = norm(graph, d, x, PART("norm_2"));
    zr_value inner = dense(graph, d, h, d->width, d->inner, 0, PART("inner"));
    inner = d->gated ? zr_swiglu(graph, dense(graph, d, h, d->width, d->inner, 0, PART("gate")), inner)
                     : zr_gelu(graph, inner);
    h = dense(graph, d, inner, d->inner, d->width, 1, PART("outer"));
    return zr_add(graph, x, zr_dropout(graph, h, d->dropout));
}

static void build(zr_graph *graph, const void *config)
{
    const zr__decoder *d = config;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_init zero = {.kind = ZR_INIT_ZERO};
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_unit(graph, "embedding");
    zr_value table = zr_param_table(graph, zero, d->vocabulary, d->width, "embedding");
    zr_value x = zr_embedding(graph, tokens, table);
    if (d->learned) x = zr_position(graph, x, zr_param(graph, zero, ZR_SHAPE(d->positions, d->width), "positions"));
    x = zr_dropout(graph, x, d->dropout);
    for (int64_t i = 0; i < d->layers; i++) {
        zr_graph_unit(graph, "block.%" PRId64, i);
        x = block(graph, d, i, x);
    }
    zr_graph_unit(graph, "final");
    x = norm(graph, d, x, "norm");
    if (!d->tied) table = zr_param_table(graph, zero, d->vocabulary, d->width, "head");
    zr_value targets = zr_input(graph, "targets", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, table, targets));
}

zr_model zr__decoder_model(const zr__decoder *decoder)
{
    return (zr_model){.name = "decoder", .build = build, .config = decoder};
}
