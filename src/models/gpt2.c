/* GPT-2 (Radford et al. 2019): pre-LN blocks, learned positions, the head tied to the embedding. */
#include "models/families.h"
#include "zr/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Return whether the number of parameters, n_layer (12 C^2 + 13 C) + (vocab_size + n_positions) C + 2 C with C =
 * n_embd, overflows. */
static bool params_overflow(const zr_gpt2_config *c)
{
    int64_t C = c->n_embd, layer = 0, all = 0, table = 0;
    return __builtin_mul_overflow(C, 12, &layer) || __builtin_add_overflow(layer, 13, &layer) ||
           __builtin_mul_overflow(layer, C, &layer) || __builtin_mul_overflow(layer, c->n_layer, &all) ||
           __builtin_add_overflow(c->vocab_size, c->n_positions, &table) || __builtin_add_overflow(table, 2, &table) ||
           __builtin_mul_overflow(table, C, &table) || __builtin_add_overflow(all, table, &all);
}

zr_status zr__gpt2_check(const zr_gpt2_config *c)
{
    ZR_TRY(zr__check_size("gpt2: ", "n_layer", c->n_layer, ZR__LAYERS_MAX));
    ZR_TRY(zr__check_size("gpt2: ", "n_head", c->n_head, INT32_MAX));
    ZR_TRY(zr__check_size("gpt2: ", "n_embd", c->n_embd, INT32_MAX));
    ZR_TRY(zr__check_size("gpt2: ", "n_positions", c->n_positions, INT32_MAX));
    ZR_TRY(zr__check_size("gpt2: ", "vocab_size", c->vocab_size, INT32_MAX)); /* since token ids have 32 bits */
    ZR_CHECK(c->n_embd % c->n_head == 0, ZR_ERR_CONFIG, "gpt2: n_embd %" PRId64 " is not a multiple of n_head %" PRId64,
             c->n_embd, c->n_head);
    ZR_CHECK(!params_overflow(c), ZR_ERR_CONFIG,
             "gpt2: n_layer %" PRId64 " with n_embd %" PRId64 " gives more parameters than 63 bits count", c->n_layer,
             c->n_embd);
    ZR_TRY(zr__check_dropout("gpt2: ", "embd_pdrop", c->embd_pdrop));
    ZR_TRY(zr__check_dropout("gpt2: ", "resid_pdrop", c->resid_pdrop));
    ZR_TRY(zr__check_dropout("gpt2: ", "attn_pdrop", c->attn_pdrop));
    ZR_CHECK(c->layer_norm_epsilon > 0 && isfinite(c->layer_norm_epsilon), ZR_ERR_CONFIG,
             "gpt2: layer_norm_epsilon is %g; wanted above 0", c->layer_norm_epsilon);
    ZR_CHECK(c->initializer_range >= 0 && isfinite(c->initializer_range), ZR_ERR_CONFIG,
             "gpt2: initializer_range is %g; wanted 0 or above", c->initializer_range);
    return ZR_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static const zr_init zero = {.kind = ZR_INIT_ZERO};

/* Add a Conv1D as in Hugging Face, with a weight of shape (inputs, outputs), cut as in Megatron (Shoeybi et al. 2019,
 * section 3). A cut by columns (dimension 1) cuts each of the parts that lie side by side (q, k and v), so that each
 * rank gets whole heads or hidden units. The next product, which reads the output, must be cut by rows (dimension 0).
 */
static zr_value dense(zr_graph *graph, zr_value x, const char *name, int64_t inputs, int64_t outputs, zr_cut cut,
                      double std)
{
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = std};
    const zr_cut bias_cut = {0, cut.dim == 1 ? cut.parts : 0};
    zr_value w = zr_param_cut(graph, init, ZR_SHAPE(inputs, outputs), cut, "%s.weight", name);
    zr_value b = zr_param_cut(graph, zero, ZR_SHAPE(outputs), bias_cut, "%s.bias", name);
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

    zr_value h = zr_layer_norm(graph, x, c->layer_norm_epsilon, PART("ln_1"));
    h = dense(graph, h, PART("attn.c_attn"), C, 3 * C, (zr_cut){1, 3}, std);
    h = zr_attention(graph, h, c->n_head, c->attn_pdrop);
    h = dense(graph, h, PART("attn.c_proj"), C, C, (zr_cut){0, 1}, residual_std);
    x = zr_add(graph, x, zr_dropout(graph, h, c->resid_pdrop));

    h = zr_layer_norm(graph, x, c->layer_norm_epsilon, PART("ln_2"));
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
    if (zr__gpt2_check(c) != ZR_OK)
        zr_graph_error(graph, ZR_ERR_CONFIG, "%s", zr_error_message());
    else if (spec->tensor > 1 && c->n_head % spec->tensor != 0)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "gpt2: n_head %" PRId64 " cannot be shared by %" PRId64
                       " tensor-parallel ranks (parallel.tensor): %s would do",
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
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));

    zr_graph_unit(graph, "embedding");
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range};
    zr_value wte = zr_param_table(graph, init, c->vocab_size, c->n_embd, "transformer.wte.weight");
    zr_value wpe = zr_param(graph, init, ZR_SHAPE(c->n_positions, c->n_embd), "transformer.wpe.weight");
    zr_value x = zr_position(graph, zr_embedding(graph, tokens, wte), wpe);
    x = zr_dropout(graph, x, c->embd_pdrop);

    for (int64_t i = 0; i < c->n_layer; i++) {
        zr_graph_unit(graph, "h.%" PRId64, i);
        x = gpt2_block(graph, c, i, x);
    }

    zr_graph_unit(graph, "final");
    x = zr_layer_norm(graph, x, c->layer_norm_epsilon, "transformer.ln_f");
    if (spec->mode == ZR_MODE_DECODE) {
        zr_graph_output(graph, zr_linear(graph, x, wte, ZR_NONE, true));
        return;
    }
    zr_value targets = zr_input(graph, "targets", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_losses(graph, zr_linear_cross_entropy(graph, x, wte, targets));
}

zr_model zr_gpt2(const zr_gpt2_config *config)
{
    return (zr_model){.name = "gpt2", .build = gpt2_build, .config = config};
}

/* ---- presets --------------------------------------------------------------------------------- */

/* Sources: GPT-2, Radford et al. 2019; GPT-3, Brown et al. 2020, table 2.1; Megatron-LM,
 * Shoeybi et al. 2019; Turing-NLG, Microsoft 2020; GPT-NeoX-20B, Black et al. 2022; BLOOM, Le Scao et al. 2022. The
 * names zero-* are shapes that the ZeRO papers ran (arXiv 1910.02054 v1, tables 4 and 5; SC20, the appendix of its
 * artifact). gpt-1t has the width and heads of Megatron-LM's trillion-parameter model (Narayanan et al. 2021) and the
 * number of layers that comes closest to 10^12 parameters. megatron-7.5b is a row of Narayanan et al.'s table 1. The
 * ZeRO paper gives no shape for the 7.5B model of its table 1, so zero-7.5b has the blocks of megatron-7.5b with
 * GPT-2's vocabulary and positions. gpt2, gpt2-medium, gpt2-large and gpt2-xl are Hugging Face's names of GPT-2's four
 * sizes. gpt3-1.3b has 16 heads of 128, since the 24 heads that the paper gives do not divide its width. */
/* columns: name, layers, width, heads, positions, vocabulary */
#define SHAPE_LIST(X)                                                                                                  \
    X("gpt2-124m", 12, 768, 12, 1024, 50257)                                                                           \
    X("gpt2-350m", 24, 1024, 16, 1024, 50257)                                                                          \
    X("gpt2-774m", 36, 1280, 20, 1024, 50257)                                                                          \
    X("gpt2-1.5b", 48, 1600, 25, 1024, 50257)                                                                          \
    X("gpt2", 12, 768, 12, 1024, 50257)                                                                                \
    X("gpt2-medium", 24, 1024, 16, 1024, 50257)                                                                        \
    X("gpt2-large", 36, 1280, 20, 1024, 50257)                                                                         \
    X("gpt2-xl", 48, 1600, 25, 1024, 50257)                                                                            \
    X("gpt3-1.3b", 24, 2048, 16, 2048, 50257)                                                                          \
    X("gpt3-2.7b", 32, 2560, 32, 2048, 50257)                                                                          \
    X("gpt3-6.7b", 32, 4096, 32, 2048, 50257)                                                                          \
    X("gpt3-13b", 40, 5120, 40, 2048, 50257)                                                                           \
    X("gpt3-175b", 96, 12288, 96, 2048, 50257)                                                                         \
    X("megatron-7.5b", 36, 4096, 32, 2048, 51200)                                                                      \
    X("megatron-8.3b", 72, 3072, 24, 1024, 50257)                                                                      \
    X("turing-nlg-17b", 78, 4256, 28, 1024, 50257)                                                                     \
    X("gpt-neox-20b", 44, 6144, 64, 2048, 50432)                                                                       \
    X("bloom-176b", 70, 14336, 112, 2048, 250880)                                                                      \
    X("gpt-1t", 127, 25600, 160, 1024, 50257)                                                                          \
    X("zero-1.16b", 24, 1920, 16, 1024, 50257)                                                                         \
    X("zero-1.2b", 40, 1536, 16, 1024, 50257)                                                                          \
    X("zero-1.38b", 40, 1536, 16, 1024, 50257)                                                                         \
    X("zero-1.5b-34x1920x16", 34, 1920, 16, 1024, 50257)                                                               \
    X("zero-1.5b-48x1600x16", 48, 1600, 16, 1024, 50257)                                                               \
    X("zero-2.5b", 54, 1920, 16, 1024, 50257)                                                                          \
    X("zero-4b", 64, 2304, 24, 1024, 50257)                                                                            \
    X("zero-5.9b", 72, 2592, 32, 1024, 50257)                                                                          \
    X("zero-6b", 52, 3072, 24, 1024, 50257)                                                                            \
    X("zero-7.5b", 36, 4096, 32, 1024, 50257)                                                                          \
    X("zero-8b", 72, 3072, 24, 1024, 50257)                                                                            \
    X("zero-10b", 50, 4096, 32, 1024, 50257)                                                                           \
    X("zero-11b", 54, 4096, 32, 1024, 50257)                                                                           \
    X("zero-12b", 58, 4096, 32, 1024, 50257)                                                                           \
    X("zero-13b", 62, 4096, 32, 1024, 50257)                                                                           \
    X("zero-20b-98x4096x32", 98, 4096, 32, 1024, 50257)                                                                \
    X("zero-20b-111x3808x32", 111, 3808, 32, 1024, 50257)                                                              \
    X("zero-40b-50x8192x32", 50, 8192, 32, 1024, 50257)                                                                \
    X("zero-40b-88x6144x32", 88, 6144, 32, 1024, 50257)                                                                \
    X("zero-40b-88x6144x64", 88, 6144, 64, 1024, 50257)                                                                \
    X("zero-50b", 62, 8192, 32, 1024, 50257)                                                                           \
    X("zero-60b-75x8192x32", 75, 8192, 32, 1024, 50257)                                                                \
    X("zero-60b-75x8192x64", 75, 8192, 64, 1024, 50257)                                                                \
    X("zero-60b-132x6144x32", 132, 6144, 32, 1024, 50257)                                                              \
    X("zero-60b-132x6144x64", 132, 6144, 64, 1024, 50257)                                                              \
    X("zero-80b-100x8192x64", 100, 8192, 64, 1024, 50257)                                                              \
    X("zero-80b-100x8192x128", 100, 8192, 128, 1024, 50257)                                                            \
    X("zero-80b-112x7680x80", 112, 7680, 80, 1024, 50257)                                                              \
    X("zero-80b-173x6144x32", 173, 6144, 32, 1024, 50257)                                                              \
    X("zero-100b-125x8192x64", 125, 8192, 64, 1024, 50257)                                                             \
    X("zero-100b-125x8192x128", 125, 8192, 128, 1024, 50257)                                                           \
    X("zero-100b-317x5120x80", 317, 5120, 80, 1024, 50257)                                                             \
    X("zero-120b-150x8192x64", 150, 8192, 64, 1024, 50257)                                                             \
    X("zero-120b-150x8192x128", 150, 8192, 128, 1024, 50257)                                                           \
    X("zero-140b-175x8192x64", 175, 8192, 64, 1024, 50257)                                                             \
    X("zero-140b-175x8192x128", 175, 8192, 128, 1024, 50257)                                                           \
    X("zero-150b", 187, 8192, 64, 1024, 50257)                                                                         \
    X("zero-170b-212x8192x64", 212, 8192, 64, 1024, 50257)                                                             \
    X("zero-170b-212x8192x256", 212, 8192, 256, 1024, 50257)                                                           \
    X("zero-c1", 50, 8192, 32, 1024, 50257)                                                                            \
    X("zero-c2", 132, 6144, 64, 1024, 50257)                                                                           \
    X("zero-c3", 62, 8192, 32, 1024, 50257)                                                                            \
    X("zero-c4", 175, 8192, 64, 1024, 50257)                                                                           \
    X("zero-c5", 187, 8192, 64, 1024, 50257)

/* Settings of a model: the sizes, and settings that exist only in files. */
typedef struct gpt2_settings {
    zr_gpt2_config model;
    double dropout;  /* dropout probability for the dropouts that are not given */
    int64_t n_inner; /* width of the hidden layer in config.json, which must be 4 n_embd; 0 if it is null */
    zr_ids bos, eos; /* special tokens of config.json */
} gpt2_settings;

#define PRESET(name, layers, width, heads, positions, vocabulary)                                                      \
    {name,                                                                                                             \
     &(const gpt2_settings){.model = {.n_layer = layers,                                                               \
                                      .n_embd = width,                                                                 \
                                      .n_head = heads,                                                                 \
                                      .n_positions = positions,                                                        \
                                      .vocab_size = vocabulary,                                                        \
                                      .layer_norm_epsilon = 1e-5,                                                      \
                                      .initializer_range = 0.02}},                                                     \
     NULL},
static const zr_preset presets[] = {SHAPE_LIST(PRESET){0}};

zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config)
{
    zr_model_config found;
    const zr_family *family = NULL;
    ZR_TRY(zr_family_find_preset(name, &family, &found));
    ZR_CHECK(family == &zr__family_gpt2, ZR_ERR_NOT_FOUND, "the preset \"%s\" is a %s, not a GPT-2", name,
             family->title);
    memcpy(config, &found, sizeof(*config));
    return ZR_OK;
}

/* ---- family ---------------------------------------------------------------------------------- */

static void complete_gpt2(void *config)
{
    gpt2_settings *s = config;
    zr_gpt2_config *c = &s->model;
    int64_t *const size[] = {&c->n_layer, &c->n_head, &c->n_embd, &c->n_positions, &c->vocab_size};
    const int64_t standard[] = {12, 12, 768, 1024, 50257}; /* the smallest GPT-2 */
    double *const dropout[] = {&c->embd_pdrop, &c->resid_pdrop, &c->attn_pdrop};
    for (int i = 0; i < 5; i++)
        if (*size[i] == 0) *size[i] = standard[i];
    for (int i = 0; i < 3; i++)
        if (isnan(*dropout[i])) *dropout[i] = s->dropout;
    /* GPT-2's own vocabulary ends with its only special token. For other vocabularies the special token is unknown. */
    const zr_ids special = {c->vocab_size >= 50257 ? 1 : 0, {50256}};
    if (s->bos.n == 0) s->bos = special;
    if (s->eos.n == 0) s->eos = special;
}

static zr_status check_gpt2(const void *config)
{
    const gpt2_settings *s = config;
    ZR_TRY(zr__gpt2_check(&s->model));
    ZR_CHECK(s->n_inner == 0 || s->n_inner == 4 * s->model.n_embd, ZR_ERR_CONFIG,
             "gpt2: n_inner is %" PRId64 "; expected null or 4 x n_embd = %" PRId64, s->n_inner, 4 * s->model.n_embd);
    return ZR_OK;
}

/* Make the width of the hidden layer follow the new n_embd. */
static void resize_gpt2(void *config, const zr_model_sizes *from)
{
    (void)from;
    ((gpt2_settings *)config)->n_inner = 0;
}

#define SIZE(...) ZR__FIELD_SIZE(gpt2_settings, __VA_ARGS__)
#define FIELD(...) ZR__FIELD(gpt2_settings, __VA_ARGS__)
#define DROPOUT(name, text)                                                                                            \
    FIELD(REAL, #name, model.name, DROPOUT, "\"auto\"", .fallback = "0.1", .max = 0.999,                               \
          .help = text "; auto: model.dropout")

static const zr_field fields[] = {
    SIZE(n_layer, "12", "layers", "number of transformer blocks; auto: 12"),
    SIZE(n_head, "12", "heads", "number of attention heads, which must divide n_embd; auto: 12", .divides = "n_embd"),
    SIZE(n_embd, "768", "width", "width of the model; auto: 768"),
    SIZE(n_positions, "1024", "positions", "longest sequence, in tokens; auto: 1024"),
    SIZE(vocab_size, "50257", "vocabulary",
         "size of the vocabulary, at least that of data.tokenizer; auto: that of the tokenizer, or 50257"),
    FIELD(REAL, "dropout", dropout, DROPOUT, "0.0", .place = ZR_FIELD_IN_CONFIG, .max = 0.999, .means = "dropout",
          .help = "default of embd_pdrop, resid_pdrop and attn_pdrop; without it a run has the dropout of model.init"),
    DROPOUT(embd_pdrop, "dropout probability after the embedding"),
    DROPOUT(resid_pdrop, "dropout probability before each residual addition"),
    DROPOUT(attn_pdrop, "dropout probability of attention weights"),
    FIELD(REAL, "layer_norm_epsilon", model.layer_norm_epsilon, RESULT, "1e-5", .min = 1e-12, .max = 1,
          .means = "norm epsilon", .help = "epsilon of layer norms, which is added to the variance"),
    ZR__FIELD_DEVIATION(gpt2_settings),
    {.key = "activation_function",
     .type = ZR_FIELD_FIXED,
     .standard = "\"gelu_new\"",
     .same = "\"gelu_pytorch_tanh\"",
     .choices = "gelu_new|gelu|relu|silu|tanh",
     .means = "activation",
     .help = "activation function of the feed-forward part"},
    FIELD(INT, "n_inner", n_inner, START, "null", .place = ZR_FIELD_IN_HF, .min = 1, .max = 0x1p53),
    ZR__FIELD_ONLY("scale_attn_weights", "true"),
    ZR__FIELD_ONLY("scale_attn_by_inverse_layer_idx", "false"),
    ZR__FIELD_ONLY("add_cross_attention", "false"),
    ZR__FIELD_ONLY("tie_word_embeddings", "true"),
    FIELD(IDS, "bos_token_id", bos, START, "null", .place = ZR_FIELD_IN_HF),
    FIELD(IDS, "eos_token_id", eos, START, "null", .place = ZR_FIELD_IN_HF),
    {0},
};

/* GPT-2's first files have no prefix in tensor names, and also hold the tied head and the causal masks, which zr
 * computes itself. */
static const char *const redundant[] = {"lm_head.weight", ".attn.bias", ".attn.masked_bias", NULL};

const zr_family zr__family_gpt2 = {.name = "gpt2",
                                   .title = "GPT-2",
                                   .architecture = "GPT2LMHeadModel",
                                   .bytes = sizeof(gpt2_settings),
                                   .field = fields,
                                   .preset = presets,
                                   .names = {.prefix = "transformer.", .redundant = redundant},
                                   .complete = complete_gpt2,
                                   .check = check_gpt2,
                                   .build = gpt2_build,
                                   .resize = resize_gpt2};
