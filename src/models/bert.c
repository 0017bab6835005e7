/* BERT (Devlin et al. 2019): an encoder with learned positions and segments, trained to predict masked tokens and
 * whether one text follows another, and fine-tuned to classify texts or words, or to find answers. The family "bert"
 * normalises after each residual addition, as the original does. The family "bert-preln" normalises before each part of
 * a layer and once after the last layer (Xiong et al. 2020). */
#include "models/families.h"
#include "zr/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LABELS_MAX = 1 << 20 };

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Return whether the number of parameters may overflow: layers x (4 C^2 + 2 C I + 9 C + I), with C = hidden_size and I
 * = intermediate_size, plus the tables and the heads. */
static bool params_overflow(const zr_bert_config *c)
{
    const double C = (double)c->hidden_size, inner = (double)c->intermediate_size;
    const double layer = 4 * C * C + 2 * C * inner + 9 * C + inner;
    const double rows = (double)c->vocab_size + (double)c->max_position_embeddings + (double)c->type_vocab_size;
    return (double)c->num_hidden_layers * layer + rows * (C + 1) + 2 * C * C + 16 * C >= 0x1p62;
}

zr_status zr__bert_check(const zr_bert_config *c)
{
    ZR_TRY(zr__check_size("bert: ", "num_hidden_layers", c->num_hidden_layers, ZR__LAYERS_MAX));
    ZR_TRY(zr__check_size("bert: ", "num_attention_heads", c->num_attention_heads, INT32_MAX));
    ZR_TRY(zr__check_size("bert: ", "hidden_size", c->hidden_size, INT32_MAX));
    ZR_TRY(zr__check_size("bert: ", "intermediate_size", c->intermediate_size, INT32_MAX));
    ZR_TRY(zr__check_size("bert: ", "max_position_embeddings", c->max_position_embeddings, INT32_MAX));
    ZR_TRY(zr__check_size("bert: ", "vocab_size", c->vocab_size, INT32_MAX)); /* since token ids have 32 bits */
    ZR_TRY(zr__check_size("bert: ", "type_vocab_size", c->type_vocab_size, INT32_MAX));
    ZR_CHECK(c->hidden_size % c->num_attention_heads == 0, ZR_ERR_CONFIG,
             "bert: hidden_size %" PRId64 " is not a multiple of num_attention_heads %" PRId64, c->hidden_size,
             c->num_attention_heads);
    ZR_CHECK(!params_overflow(c), ZR_ERR_CONFIG,
             "bert: num_hidden_layers %" PRId64 " with hidden_size %" PRId64
             " gives more parameters than 63 bits count",
             c->num_hidden_layers, c->hidden_size);
    ZR_TRY(zr__check_dropout("bert: ", "hidden_dropout_prob", c->hidden_dropout_prob));
    ZR_TRY(zr__check_dropout("bert: ", "attention_probs_dropout_prob", c->attention_probs_dropout_prob));
    ZR_CHECK(c->layer_norm_eps > 0 && isfinite(c->layer_norm_eps), ZR_ERR_CONFIG,
             "bert: layer_norm_eps is %g; wanted above 0", c->layer_norm_eps);
    ZR_CHECK(c->initializer_range >= 0 && isfinite(c->initializer_range), ZR_ERR_CONFIG,
             "bert: initializer_range is %g; wanted 0 or above", c->initializer_range);
    ZR_CHECK(c->task >= ZR_BERT_PRETRAINING && c->task <= ZR_BERT_TAGS, ZR_ERR_CONFIG,
             "bert: task is %d; wanted one of zr_bert_task", c->task);
    if (c->task != ZR_BERT_CLASSIFICATION && c->task != ZR_BERT_TAGS) return ZR_OK;
    ZR_CHECK(c->num_labels >= 2 && c->num_labels <= LABELS_MAX, ZR_ERR_CONFIG,
             "bert: num_labels is %" PRId64 "; wanted 2 to %d labels", c->num_labels, LABELS_MAX);
    return isnan(c->classifier_dropout) ? ZR_OK
                                        : zr__check_dropout("bert: ", "classifier_dropout", c->classifier_dropout);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static const zr_init zero = {.kind = ZR_INIT_ZERO};

/* Cuts of a table or a weight: by outputs, not at all. */
static const zr_cut by_outputs = {0, 1}, whole = {0, 0};

/* Add a linear layer of a head, which every tensor-parallel rank has whole. */
static zr_value dense(zr_graph *graph, const zr_bert_config *c, zr_value x, int64_t outputs, const char *name)
{
    return zr_layer_linear(graph, x, c->hidden_size, outputs, whole, c->initializer_range, name);
}

/* Return the standard deviation of the initial weights of projections whose output is added to the residual stream.
 * With pre_layer_norm nothing normalises the stream's sums, so the deviation is divided by the square root of their
 * number. */
static double residual_std(const zr_bert_config *c)
{
    return c->pre_layer_norm ? c->initializer_range / sqrt(2.0 * (double)c->num_hidden_layers) : c->initializer_range;
}

static zr_value layer(zr_graph *graph, const zr_bert_config *c, int64_t i, zr_value x)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "bert.encoder.layer.%" PRId64 ".", i);
    return zr_layer_encoder(graph, x,
                            &(zr_encoder_spec){.heads = c->num_attention_heads,
                                               .inner = c->intermediate_size,
                                               .eps = c->layer_norm_eps,
                                               .dropout = c->hidden_dropout_prob,
                                               .attention_dropout = c->attention_probs_dropout_prob,
                                               .std = c->initializer_range,
                                               .residual_std = residual_std(c),
                                               .pre_layer_norm = c->pre_layer_norm,
                                               .prefix = prefix});
}

/* ---- model ----------------------------------------------------------------------------------- */

/* Return whether the task predicts something at places of a row: masked tokens, or the tags of words. */
static bool has_places(const zr_bert_config *c)
{
    return c->task == ZR_BERT_PRETRAINING || c->task == ZR_BERT_MASKED_LM || c->task == ZR_BERT_TAGS;
}

static bool fits(zr_graph *graph, const zr_bert_config *c)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    if (zr__bert_check(c) != ZR_OK)
        zr_graph_error(graph, ZR_ERR_CONFIG, "%s", zr_error_message());
    else if (spec->mode == ZR_MODE_DECODE)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "bert: an encoder cannot decode; wanted a decoder, such as gpt2");
    else if (spec->tensor > 1 && c->num_attention_heads % spec->tensor != 0)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "bert: num_attention_heads %" PRId64 " cannot be shared by %" PRId64
                       " tensor-parallel ranks (parallel.tensor); wanted a degree that divides it",
                       c->num_attention_heads, spec->tensor);
    else if (spec->seq > c->max_position_embeddings)
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "bert: a sequence of %" PRId64 " tokens is longer than max_position_embeddings, %" PRId64,
                       spec->seq, c->max_position_embeddings);
    else if (spec->samples < 1 || (spec->predictions < 1 && has_places(c)))
        zr_graph_error(graph, ZR_ERR_CONFIG,
                       "bert: a row has %" PRId64 " masked tokens and %" PRId64 " samples; wanted at least 1 of each",
                       spec->predictions, spec->samples);
    else
        return true;
    return false;
}

/* Look up tokens, segments and positions. With sequence parallelism the table of segments is cut as well, because
 * the sum over the ranks' partial look-ups also distributes the tokens over the ranks. */
static zr_value embed(zr_graph *graph, const zr_bert_config *c, zr_value tokens, zr_value segments, zr_value words)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range};
    const zr_cut cut = spec->sequence && spec->tensor > 1 ? by_outputs : whole;
    zr_value positions = zr_param(graph, init, ZR_SHAPE(c->max_position_embeddings, c->hidden_size),
                                  "bert.embeddings.position_embeddings.weight");
    zr_value types = zr_param_cut(graph, init, ZR_SHAPE(c->type_vocab_size, c->hidden_size), cut,
                                  "bert.embeddings.token_type_embeddings.weight");
    zr_value x = zr_add(graph, zr_embedding(graph, tokens, words), zr_embedding(graph, segments, types));
    x = zr_layer_norm(graph, zr_position(graph, x, positions), c->layer_norm_eps, "bert.embeddings.LayerNorm");
    return zr_dropout(graph, x, c->hidden_dropout_prob);
}

/* Add the losses of the masked tokens. Only their rows pass through the head. The output of an evaluation is, for each
 * masked token, whether it has the largest logit. */
static void predict_masked(zr_graph *graph, const zr_bert_config *c, zr_value x, zr_value targets, zr_value words)
{
    zr_value h = dense(graph, c, x, c->hidden_size, "cls.predictions.transform.dense");
    h = zr_layer_norm(graph, zr_gelu_erf(graph, h), c->layer_norm_eps, "cls.predictions.transform.LayerNorm");
    zr_value bias = zr_param_cut(graph, zero, ZR_SHAPE(c->vocab_size), by_outputs, "cls.predictions.bias");
    const bool eval = zr_graph_get_spec(graph)->mode == ZR_MODE_EVAL;
    zr_value hits = ZR_NONE;
    zr_graph_loss_term(graph, "masked_lm",
                       zr_linear_cross_entropy_hits(graph, h, words, bias, targets, eval ? &hits : NULL));
    if (eval) zr_graph_output(graph, hits);
}

/* Return the pooler's output for the first token of each sample. */
static zr_value pool(zr_graph *graph, const zr_bert_config *c, zr_value x, zr_value first)
{
    return zr_tanh(graph, dense(graph, c, zr_rows(graph, x, first), c->hidden_size, "bert.pooler.dense"));
}

/* Add the losses of the samples: whether a sample's second text follows its first one (0) or not (1). */
static void predict_next(zr_graph *graph, const zr_bert_config *c, zr_value x, zr_value first, zr_value next)
{
    zr_value logits = dense(graph, c, pool(graph, c, x, first), 2, "cls.seq_relationship");
    zr_graph_loss_term(graph, "next_sentence", zr_cross_entropy(graph, logits, next));
}

/* Add the losses of the labels of samples or of words. An evaluation outputs the logits. */
static void classify(zr_graph *graph, const zr_bert_config *c, zr_value x, zr_value label, const char *term)
{
    const double p = isnan(c->classifier_dropout) ? c->hidden_dropout_prob : c->classifier_dropout;
    zr_value logits = dense(graph, c, zr_dropout(graph, x, p), c->num_labels, "classifier");
    zr_graph_loss_term(graph, term, zr_cross_entropy(graph, logits, label));
    if (zr_graph_get_spec(graph)->mode == ZR_MODE_EVAL) zr_graph_output(graph, logits);
}

/* Add the losses of the answers' first and last tokens. The output of an evaluation is the logits, except with sequence
 * parallelism, where no rank has the logits of all tokens. */
static void find_answers(zr_graph *graph, const zr_bert_config *c, zr_value x, zr_value answer)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const bool own_tokens = spec->sequence && spec->tensor > 1;
    zr_value logits = dense(graph, c, x, 2, "qa_outputs");
    zr_graph_loss_term(graph, "answer", zr_place_cross_entropy(graph, logits, answer));
    if (spec->mode == ZR_MODE_EVAL && !own_tokens) zr_graph_output(graph, logits);
}

/* Inputs of a task; a member that the task does not have is ZR_NONE. */
typedef struct inputs {
    zr_value tokens, segments, places, targets, first, next, label, answer;
} inputs;

static inputs declare_inputs(zr_graph *graph, const zr_bert_config *c)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const int64_t B = spec->batch, T = spec->seq, P = spec->predictions, S = spec->samples;
    inputs in = {ZR_NONE, ZR_NONE, ZR_NONE, ZR_NONE, ZR_NONE, ZR_NONE, ZR_NONE, ZR_NONE};
    in.tokens = zr_input(graph, "tokens", ZR_I32, ZR_SHAPE(B, T));
    in.segments = zr_input(graph, "segments", ZR_I32, ZR_SHAPE(B, T));
    const bool pretraining = c->task == ZR_BERT_PRETRAINING, classes = c->task == ZR_BERT_CLASSIFICATION,
               tags = c->task == ZR_BERT_TAGS;
    if (has_places(c)) {
        in.places = zr_input(graph, tags ? "words" : "masked", ZR_I32, ZR_SHAPE(B, P));
        in.targets = zr_input(graph, tags ? "tags" : "masked_targets", ZR_I32, ZR_SHAPE(B, P));
    }
    if (pretraining || classes) in.first = zr_input(graph, "first", ZR_I32, ZR_SHAPE(B, S));
    if (pretraining) in.next = zr_input(graph, "next", ZR_I32, ZR_SHAPE(B, S));
    if (classes) in.label = zr_input(graph, "label", ZR_I32, ZR_SHAPE(B, S));
    if (c->task == ZR_BERT_ANSWERS) in.answer = zr_input(graph, "answer", ZR_I32, ZR_SHAPE(B, S, 2));
    return in;
}

static void bert_build(zr_graph *graph, const void *config)
{
    const zr_bert_config *c = config;
    if (!fits(graph, c)) return;
    const inputs in = declare_inputs(graph, c);
    zr_graph_unit(graph, "embedding");
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = c->initializer_range};
    zr_value words =
        zr_param_table(graph, init, c->vocab_size, c->hidden_size, "bert.embeddings.word_embeddings.weight");
    zr_value x = embed(graph, c, in.tokens, in.segments, words);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        zr_graph_unit(graph, "layer.%" PRId64, i);
        x = layer(graph, c, i, x);
    }
    zr_graph_unit(graph, "heads");
    if (c->pre_layer_norm) x = zr_layer_norm(graph, x, c->layer_norm_eps, "bert.encoder.FinalLayerNorm");
    if (c->task == ZR_BERT_ANSWERS) {
        find_answers(graph, c, x, in.answer);
    } else if (c->task == ZR_BERT_CLASSIFICATION) {
        classify(graph, c, pool(graph, c, x, in.first), in.label, "classification");
    } else if (c->task == ZR_BERT_TAGS) {
        classify(graph, c, zr_rows(graph, x, in.places), in.targets, "tag");
    } else {
        predict_masked(graph, c, zr_rows(graph, x, in.places), in.targets, words);
        if (c->task == ZR_BERT_PRETRAINING) predict_next(graph, c, x, in.first, in.next);
    }
}

zr_model zr_bert(const zr_bert_config *config)
{
    return (zr_model){.name = "bert", .build = bert_build, .config = config};
}

/* ---- presets --------------------------------------------------------------------------------- */

/* Settings of a model, for both families. */
typedef struct bert_settings {
    zr_bert_config model;
    zr_ids pad; /* special token of config.json */
} bert_settings;

/* Sizes of Devlin et al. 2019 and, for the small ones, of Turc et al. 2019, with the uncased vocabulary and the
 * learning rates of their training. Columns: name, layers, width, heads, learning rate. */
#define SHAPE_LIST(X)                                                                                                  \
    X("bert-tiny", 2, 128, 2, "1e-4")                                                                                  \
    X("bert-mini", 4, 256, 4, "1e-4")                                                                                  \
    X("bert-small", 4, 512, 8, "1e-4")                                                                                 \
    X("bert-medium", 8, 512, 8, "1e-4")                                                                                \
    X("bert-base", 12, 768, 12, "1e-4")                                                                                \
    X("bert-large", 24, 1024, 16, "1e-4")
#define PRELN_LIST(X)                                                                                                  \
    X("bert-base-preln", 12, 768, 12, NULL)                                                                            \
    X("bert-large-preln", 24, 1024, 16, NULL)

#define PRESET(name, layers, width, heads, lr)                                                                         \
    {name,                                                                                                             \
     &(const bert_settings){.model = {.num_hidden_layers = layers,                                                     \
                                      .hidden_size = width,                                                            \
                                      .num_attention_heads = heads,                                                    \
                                      .intermediate_size = 4 * (width),                                                \
                                      .max_position_embeddings = 512,                                                  \
                                      .vocab_size = 30522,                                                             \
                                      .type_vocab_size = 2,                                                            \
                                      .layer_norm_eps = 1e-12,                                                         \
                                      .initializer_range = 0.02}},                                                     \
     lr},
static const zr_preset bert_presets[] = {SHAPE_LIST(PRESET){0}}, bert_preln_presets[] = {PRELN_LIST(PRESET){0}};

/* ---- families -------------------------------------------------------------------------------- */

static void complete(void *config)
{
    bert_settings *s = config;
    zr_bert_config *c = &s->model;
    int64_t *const size[] = {&c->num_hidden_layers, &c->num_attention_heads, &c->hidden_size,
                             &c->max_position_embeddings, &c->vocab_size};
    const int64_t standard[] = {12, 12, 768, 512, 30522}; /* BERT-Base */
    for (int i = 0; i < 5; i++)
        if (*size[i] == 0) *size[i] = standard[i];
    if (c->intermediate_size == 0) c->intermediate_size = 4 * c->hidden_size;
    if (c->num_labels == 0) c->num_labels = 2;
    if (s->pad.n == 0) s->pad.n = 1; /* token 0, [PAD] */
}

/* Scale the width of the MLP with the width of the model. */
static void resize(void *config, const zr_model_sizes *from)
{
    zr_bert_config *c = &((bert_settings *)config)->model;
    if (from->width > 0) c->intermediate_size = c->intermediate_size * c->hidden_size / from->width;
}

static zr_bert_config settled(const void *config, bool pre_layer_norm)
{
    zr_bert_config c = ((const bert_settings *)config)->model;
    c.pre_layer_norm = pre_layer_norm;
    return c;
}

static zr_status check_bert(const void *config)
{
    return zr__bert_check(&((const bert_settings *)config)->model);
}

static void build_bert(zr_graph *graph, const void *config)
{
    const zr_bert_config c = settled(config, false);
    bert_build(graph, &c);
}

static void build_bert_preln(zr_graph *graph, const void *config)
{
    const zr_bert_config c = settled(config, true);
    bert_build(graph, &c);
}

#define SIZE(...) ZR__FIELD_SIZE(bert_settings, __VA_ARGS__)
#define DROPOUT(name, what, text)                                                                                      \
    FIELD(REAL, #name, model.name, DROPOUT, "0.1", .max = 0.999, .means = what, .help = text)
#define FIELD(...) ZR__FIELD(bert_settings, __VA_ARGS__)

static const zr_field fields[] = {
    SIZE(num_hidden_layers, "12", "layers", "number of layers; auto: 12"),
    SIZE(num_attention_heads, "12", "heads", "number of attention heads, which must divide hidden_size; auto: 12",
         .divides = "hidden_size"),
    SIZE(hidden_size, "768", "width", "width of the model; auto: 768"),
    SIZE(intermediate_size, "3072", NULL, "width of the hidden layer of the MLP; auto: 4 hidden_size"),
    SIZE(max_position_embeddings, "512", "positions", "longest sequence, in tokens; auto: 512"),
    SIZE(vocab_size, "30522", "vocabulary",
         "size of the vocabulary, at least that of data.tokenizer; auto: that of the tokenizer, or 30522"),
    FIELD(INT, "type_vocab_size", model.type_vocab_size, SHAPE, "2", .min = 1, .max = 0x1p31 - 1,
          .help = "number of segments, which tell the two texts of a sample apart"),
    DROPOUT(hidden_dropout_prob, "dropout", "dropout probability after the embedding and before residual additions"),
    DROPOUT(attention_probs_dropout_prob, "attention dropout", "dropout probability of attention weights"),
    FIELD(REAL, "layer_norm_eps", model.layer_norm_eps, RESULT, "1e-12", .min = 1e-12, .max = 1,
          .means = "norm epsilon", .help = "epsilon of layer norms, which is added to the variance"),
    ZR__FIELD_DEVIATION(bert_settings),
    {.key = "hidden_act",
     .type = ZR_FIELD_FIXED,
     .standard = "\"gelu\"",
     .choices = "gelu|gelu_new|gelu_pytorch_tanh|relu|silu|tanh",
     .means = "activation",
     .help = "activation function of the MLP and of the head of masked tokens"},
    FIELD(IDS, "pad_token_id", pad, START, "0", .place = ZR_FIELD_IN_HF),
    FIELD(CHOICE, "task", model.task, RESULT, "\"pretraining\"", .place = ZR_FIELD_IN_CONFIG,
          .choices = "pretraining|sequence_classification|question_answering|masked_lm|token_classification",
          .means = "task",
          .help =
              "what the model predicts, and so its head and data; another task than that of model.init has a new head"),
    FIELD(INT, "num_labels", model.num_labels, RESULT, "2", .place = ZR_FIELD_IN_CONFIG, .min = 2, .max = LABELS_MAX,
          .means = "labels",
          .help = "number of labels of the tasks sequence_classification and token_classification; if neither this "
                  "key nor model.init gives it, that of model.label_names"),
    FIELD(REAL, "classifier_dropout", model.classifier_dropout, DROPOUT, "null", .max = 0.999, .means = "label dropout",
          .help = "dropout probability before the classifier of the tasks sequence_classification and "
                  "token_classification; null: hidden_dropout_prob"),
    ZR__FIELD_ONLY("problem_type", "\"single_label_classification\"", .fallback = "null", .same = "null"),
    ZR__FIELD_ONLY("position_embedding_type", "\"absolute\""),
    ZR__FIELD_ONLY("is_decoder", "false"),
    ZR__FIELD_ONLY("add_cross_attention", "false"),
    ZR__FIELD_ONLY("tie_word_embeddings", "true"),
    {0},
};

/* Some files also hold a table of position ids, and the bias of the decoder under a second name. The first published
 * files use TensorFlow's names for the parameters of norms. */
static const char *const redundant[] = {"embeddings.position_ids", ".embeddings.position_ids",
                                        "cls.predictions.decoder.bias", NULL};
static const char *const spelled[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                         {"LayerNorm.bias", "LayerNorm.beta"},
                                         {"cls.predictions.bias", "cls.predictions.decoder.bias"},
                                         {NULL, NULL}};
static const char *const heads[] = {"cls.", "classifier.", "qa_outputs.", "bert.pooler.", NULL};
static const char *const outputs[] = {"classifier.", "qa_outputs.", NULL};
static const char *const bodies[] = {"BertModel", NULL};
static const zr_family_task bert_tasks[] = {{"BertForSequenceClassification", ZR_SAMPLES_LABELS},
                                            {"BertForQuestionAnswering", ZR_SAMPLES_ANSWERS},
                                            {"BertForMaskedLM", ZR_SAMPLES_MASKED},
                                            {"BertForTokenClassification", ZR_SAMPLES_TAGS},
                                            {0}};
static const zr_family_task bert_preln_tasks[] = {{"BertPreLNForSequenceClassification", ZR_SAMPLES_LABELS},
                                                  {"BertPreLNForQuestionAnswering", ZR_SAMPLES_ANSWERS},
                                                  {"BertPreLNForMaskedLM", ZR_SAMPLES_MASKED},
                                                  {"BertPreLNForTokenClassification", ZR_SAMPLES_TAGS},
                                                  {0}};
#define NAMES                                                                                                          \
    {                                                                                                                  \
        .prefix = "bert.", .redundant = redundant, .spelled = spelled, .head = "cls.predictions.decoder.weight",       \
        .table = "bert.embeddings.word_embeddings.weight", .heads = heads, .outputs = outputs, .bodies = bodies        \
    }

#define ROW(of, its_name, its_title, class)                                                                            \
    const zr_family zr__family_##of = {.name = its_name,                                                               \
                                       .title = its_title,                                                             \
                                       .architecture = class,                                                          \
                                       .bytes = sizeof(bert_settings),                                                 \
                                       .field = fields,                                                                \
                                       .preset = of##_presets,                                                         \
                                       .samples = ZR_SAMPLES_PAIRS,                                                    \
                                       .task = of##_tasks,                                                             \
                                       .names = NAMES,                                                                 \
                                       .complete = complete,                                                           \
                                       .check = check_bert,                                                            \
                                       .build = build_##of,                                                            \
                                       .resize = resize};
ROW(bert, "bert", "BERT", "BertForPreTraining")
ROW(bert_preln, "bert-preln", "BERT with norms before each part", "BertPreLNForPreTraining")
