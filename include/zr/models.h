/**
 * models: families of models, on top of zr/graph.h. A builder is a function that writes the forward pass of a model,
 * without regard to ZeRO, ranks or devices. The same builder is called for training, evaluation and decoding. In each
 * of the three, it must declare the same parameters in the same order.
 *
 * A family (zr_family) is a kind of model: its builder, and a declaration of its settings. From the declaration follow:
 * the keys below "model." in CONFIG.json, their defaults, help and documentation, the presets, the names of tensors,
 * and how config.json of Hugging Face is read and written. A family is one file of src/models and one row of the table
 * in families.c; gpt2.c is an example. A program can define its own families (zr_own_families).
 */
#ifndef ZR_MODELS_H
#define ZR_MODELS_H

#include "zr/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_model {
    const char *name;
    /** Write the forward pass into `graph`, for the mode and the sizes in zr_graph_get_spec. Errors are stored in the
     * graph. */
    void (*build)(zr_graph *graph, const void *config);
    const void *config; /* argument of build; borrowed */
    const char *frozen; /* name patterns of frozen parameters for zr_graph_freeze, borrowed; NULL if all are trained */
    zr_lora lora;       /* low-rank adapters for zr_graph_adapt; rank 0 for none */
} zr_model;

/** Build a model in a graph: its adapters, its forward pass and its frozen parameters. Call zr_graph_finish
 * afterwards. */
ZR_API void zr_model_build(const zr_model *model, zr_graph *graph);

/* ---- fields of a family ---------------------------------------------------------------------- */

typedef enum zr_field_type {
    ZR_FIELD_INT,    /* int64_t; 0 stands for "auto" or null, if the default is "auto" or null */
    ZR_FIELD_REAL,   /* double; NAN stands for "auto" or null, if the default is "auto" or null */
    ZR_FIELD_BOOL,   /* bool */
    ZR_FIELD_CHOICE, /* int, the index of a word in `choices` */
    ZR_FIELD_IDS,    /* zr_ids: one token id, a list of ids, or null */
    /* int64_t, for a list with one word per layer: the first word of `choices` for the first layers, and the second
     * word for all other layers. The value is 1 + the number of layers with the first word, or 0 for null. The field is
     * read, but never written */
    ZR_FIELD_LAYERS,
    /* no member of the struct: zr supports only one value, and refuses other values with a message that names the key
     */
    ZR_FIELD_FIXED
} zr_field_type;

/** Effect of a field. The role decides what happens if a preset or the directory model.init gives the field, and
 * whether it may change when a run resumes. */
typedef enum zr_field_role {
    ZR_FIELD_SHAPE,  /* shapes of weights depend on it: a different value in CONFIG.json is refused */
    ZR_FIELD_RESULT, /* results depend on it: CONFIG.json may replace it, but not when a run resumes */
    ZR_FIELD_START,  /* only initial weights depend on it: CONFIG.json may replace it at any time */
    ZR_FIELD_DROPOUT /* probability of dropout: CONFIG.json may replace it at any time; presets give none */
} zr_field_role;

/** Files that hold a field. */
typedef enum zr_field_place {
    ZR_FIELD_IN_BOTH,
    ZR_FIELD_IN_CONFIG, /* only CONFIG.json, below "model." */
    ZR_FIELD_IN_HF      /* only config.json of Hugging Face */
} zr_field_place;

/** A set of token ids, such as the tokens that end a text. */
#define ZR_IDS_MOST 16
typedef struct zr_ids {
    int64_t n;
    int64_t id[ZR_IDS_MOST];
} zr_ids;

/** Setting of a family. Its key is the same in CONFIG.json, below "model.", and in config.json of Hugging Face. A dot
 * in the key separates an object from its member: "rope_scaling.factor". */
typedef struct zr_field {
    const char *key;
    zr_field_type type;
    zr_field_role role;
    zr_field_place place;
    size_t offset; /* offset of the value in the family's struct */
    /* default as JSON, or "\"auto\"" if zr_family.complete computes the value. For FIXED, the only allowed value */
    const char *standard;
    /* value as JSON if config.json lacks the key: the default of transformers; NULL if it equals `standard` */
    const char *fallback;
    double min, max; /* range of INT and REAL; config.json takes integers only up to 2^31 - 1 */
    /* CHOICE: allowed words as "a|b|c". FIXED: if the value is a word, all words that other programs allow */
    const char *choices;
    /* FIXED: a second value, as JSON, that config.json may have with the same meaning; or NULL. A list in config.json
     * whose elements all have the value counts as the value */
    const char *same;
    const char *help; /* one line of help; FIXED: a remedy for other values, or NULL */
    /* name of a setting that families share under different keys, or NULL. Each family has one field for each of
     * "layers", "heads", "width", "positions" and "vocabulary", of type INT. Messages also use other names, to find the
     * key with the same meaning in another family */
    const char *means;
    const char *divides; /* INT: key of the field whose value must be a multiple of this field's value, or NULL */
    const char *twin;    /* second key in config.json that is read and written with the same value, or NULL */
    const char *also;    /* keys in config.json that are only read, as "a|b", or NULL */
} zr_field;

/* ---- families -------------------------------------------------------------------------------- */

/** Names of the tensors in the files of one family of models. */
typedef struct zr_hf_names {
    const char *prefix; /* prefix of all tensor names, which some files leave out; "" for no prefix */
    /* names of tensors in some files that zr does not need, ending with NULL. An entry that begins with a dot matches
     * the end of a name. NULL if all tensors are needed */
    const char *const *redundant;
    /* names of the tensors of a head that may be tied, and of the table to which it is tied. A tied model has no
     * parameter for the head. If a file has a tensor for the head nevertheless, its values must equal the table's. NULL
     * if the head is never or always tied */
    const char *head, *table;
    /* pairs of endings of tensor names, in zr's spelling and in the spelling of some files, such as
     * {".LayerNorm.weight", ".LayerNorm.gamma"}, ending with {NULL, NULL}. NULL if there is one spelling. If a file has
     * a tensor under both names, the values must be equal */
    const char *const (*spelled)[2];
    /* beginnings of the names of the tensors of heads, which only some tasks have; ending with NULL. If a run begins
     * with weights of another task, its own heads begin with random values, and the heads in the files are ignored.
     * NULL if there is only one task */
    const char *const *heads;
    /* heads whose meaning depends on the task, such as a classifier. A run that begins with weights of another task
     * does not take them over. Ending with NULL; NULL if there are none */
    const char *const *outputs;
    /* further classes of transformers that have the family's body (the model without heads); a run can begin with their
     * files. Ends with NULL. NULL if zr knows only the classes of the tasks */
    const char *const *bodies;
} zr_hf_names;

/** The five sizes that every model has. A size is 0 until it is known. */
typedef struct zr_model_sizes {
    int64_t layers, heads, width, positions, vocabulary;
} zr_model_sizes;

/** A named model of a family. */
typedef struct zr_preset {
    const char *name;
    const void *config; /* the family's struct */
    const char *lr;     /* learning rate of the original training, such as "3e-4", or NULL if unknown */
} zr_preset;

/** Samples on which a family is trained, which determine the inputs of its graphs. All inputs are I32. */
typedef enum zr_samples {
    /* next-token prediction, for decoders. Inputs: tokens (B,T) and targets (B,T); a target of -1 does not count */
    ZR_SAMPLES_NEXT,
    /* masked tokens and pairs of sentences, for encoders. Inputs: tokens (B,T); segments (B,T); masked (B,P), the index
     * in the row of each predicted token; masked_targets (B,P); first (B,S), the index in the row of each sample's
     * first token; next (B,S), the sample's label of next-sentence prediction. P and S are zr_graph_spec.predictions
     * and .samples. A target or label of -1 does not count. The graph has two loss terms: masked tokens, and next
     * sentence. Rows always have documents (zr_graph_spec.documents): each sample and the padding is a document */
    ZR_SAMPLES_PAIRS,
    /* texts or pairs of texts with labels, for encoders. Inputs: tokens, segments, first, as above; label (B,S), where
     * -1 does not count. One loss term. Rows always have documents */
    ZR_SAMPLES_LABELS,
    /* questions with contexts that hold the answers, for encoders. Inputs: tokens, segments, as above; answer (B,S,2),
     * the indices in the row of the answer's first and last token, where -1 does not count. One loss term, of two
     * losses for each sample. Rows always have documents */
    ZR_SAMPLES_ANSWERS,
    /* masked tokens alone, for encoders. Inputs: tokens, segments, masked, masked_targets, as above. One loss term.
     * Rows always have documents */
    ZR_SAMPLES_MASKED,
    /* sentences whose words have tags, for encoders. Inputs: tokens, segments, as above; words (B,P), the index in the
     * row of each word's first token; tags (B,P), where -1 does not count. P is T. One loss term. Rows always have
     * documents */
    ZR_SAMPLES_TAGS
} zr_samples;

/** A task of a family besides its first one. The models of all tasks have the same body, and each task has its own
 * head. */
typedef struct zr_family_task {
    const char *architecture; /* class of transformers, such as "BertForQuestionAnswering" */
    zr_samples samples;
} zr_family_task;

/** Maximum size of a family's struct, in bytes. */
#define ZR_MODEL_CONFIG_BYTES 1024
/** Settings of a model of any family: the family's struct, followed by zeros. */
typedef union zr_model_config {
    char bytes[ZR_MODEL_CONFIG_BYTES];
    int64_t integer;
    double real;
} zr_model_config;

/** A kind of model. In its functions, `config` points to the family's struct. */
typedef struct zr_family {
    const char *name;         /* value of model.type in CONFIG.json, and of model_type in config.json */
    const char *title;        /* name in messages, such as "GPT-2" */
    const char *architecture; /* name of the model's class in transformers, such as "GPT2LMHeadModel" */
    size_t bytes;             /* size of the family's struct */
    const zr_field *field;    /* settings, in the order of docs/config.md; ends with a row without key */
    const zr_preset *preset;  /* named models; ends with a row without name. NULL for no presets */
    zr_samples samples;       /* samples on which models with the first task are trained */
    /* Further tasks; ends with a row without architecture. Row i is the task of choice i + 1 of the field that means
     * "task". NULL if the family has only the task whose class is `architecture`. */
    const zr_family_task *task;
    zr_hf_names names;
    /** Set the values that are still "auto" (0 or NAN), from constants or from other values. Called for every source of
     * a configuration. May be NULL. */
    void (*complete)(void *config);
    /** Check a complete configuration. Fail with ZR_ERR_CONFIG, naming the field. */
    zr_status (*check)(const void *config);
    /** Write the forward pass, as zr_model.build does. The member `samples` determines the inputs. When decoding, the
     * tokens are the only input, and the logits are the output. Encoders do not decode. */
    void (*build)(zr_graph *graph, const void *config);
    /** Adapt other sizes when a search for the largest model has set a new width or number of heads. `from` has the
     * previous sizes. The function may set values to "auto", which are then completed. May be NULL if no other size
     * depends on width or heads. */
    void (*resize)(void *config, const zr_model_sizes *from);
} zr_family;

/** Families of the program itself, ending with NULL, such as
 *     const zr_family *const zr_own_families[] = {&my_family, NULL};
 * The program defines this array if it has its own families. They follow the families of zr. */
extern ZR_API const zr_family *const zr_own_families[] __attribute__((weak));

/** Return the i-th family, or NULL after the last. The first family is the default of model.type. */
ZR_API const zr_family *zr_family_at(int i);
/** Check a family's declaration. Fail with ZR_ERR_INTERNAL, naming the fault, if a part is missing or two parts
 * contradict each other. */
ZR_API ZR_NODISCARD zr_status zr_family_check(const zr_family *family);
/** Return the family with this name, or NULL. */
ZR_API const zr_family *zr_family_find(const char *name);

/** Return the size in bytes of a field's value in the family's struct. */
static inline size_t zr_field_bytes(zr_field_type type)
{
    switch (type) {
    case ZR_FIELD_REAL:
        return sizeof(double);
    case ZR_FIELD_BOOL:
        return sizeof(bool);
    case ZR_FIELD_CHOICE:
        return sizeof(int);
    case ZR_FIELD_IDS:
        return sizeof(zr_ids);
    case ZR_FIELD_FIXED:
        return 0;
    case ZR_FIELD_INT:
    case ZR_FIELD_LAYERS:
        break;
    }
    return sizeof(int64_t);
}
/** Return the field with this key, or NULL. */
ZR_API const zr_field *zr_family_field(const zr_family *family, const char *key);
/** Return the field with this meaning (zr_field.means), such as "width", or NULL. */
ZR_API const zr_field *zr_family_meaning(const zr_family *family, const char *means);
/** Return the sizes of a model (_sizes): layers, heads, width, positions, vocabulary. Or set these sizes and the sizes
 * that depend on them (_resize). `config` is the family's struct. */
ZR_API zr_model_sizes zr_family_sizes(const zr_family *family, const void *config);
ZR_API void zr_family_resize(const zr_family *family, void *config, const zr_model_sizes *sizes);

/** Return the samples on which a model is trained (_samples), or its class of transformers (_architecture). Both depend
 * on the model's task. `config` is the family's struct. */
ZR_API zr_samples zr_family_samples(const zr_family *family, const void *config);
ZR_API const char *zr_family_architecture(const zr_family *family, const void *config);

/** Return the builder of a model. `config` is borrowed. */
ZR_API zr_model zr_family_model(const zr_family *family, const void *config);

/** Return the i-th preset of all families, numbered family by family, and store its family in *family. Return NULL
 * after the last preset. */
ZR_API const zr_preset *zr_family_preset(int i, const zr_family **family);
/** Return the preset with this name, and store its family in *family. Return NULL if no family has the preset. A name
 * of Hugging Face may be given instead: meta-llama/Meta-Llama-3-8B means llama3-8b, for example, because both models
 * compute the same from the same weights. Letters may be small or capital. */
ZR_API const zr_preset *zr_family_preset_called(const char *name, const zr_family **family);
/** Find a preset by its name as zr_family_preset_called does, and copy its settings. Fail with ZR_ERR_NOT_FOUND and the
 * most similar names in the message. `family` may be NULL. */
ZR_API ZR_NODISCARD zr_status zr_family_find_preset(const char *name, const zr_family **family,
                                                    zr_model_config *config);

/* ---- models ---------------------------------------------------------------------------------- */

/** Sizes of a GPT-2 (Radford et al. 2019), with the names of Hugging Face. The struct of the family "gpt2" begins with
 * this one. */
typedef struct zr_gpt2_config {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
    double embd_pdrop, resid_pdrop, attn_pdrop;
    double layer_norm_epsilon; /* usually 1e-5 */
    /* standard deviation of initial values, usually 0.02; it is divided by sqrt(2 n_layer) for residual projections */
    double initializer_range;
} zr_gpt2_config;

/**
 * Find the sizes of a named model. Its dropout is 0. Fail with ZR_ERR_NOT_FOUND and the most similar names in the
 * message.
 *
 *    gpt2-124m gpt2-350m gpt2-774m gpt2-1.5b    the GPT-2 family
 *    gpt3-175b megatron-8.3b turing-nlg-17b
 *    gpt-neox-20b bloom-176b                    sizes of these models: layers, width, heads, positions, vocabulary
 *    gpt-1t                                     10^12 parameters within 0.02 %
 *    zero-<size>b                               models of the ZeRO papers, named by the size in the papers
 *    zero-<size>b-<layers>x<width>x<heads>      one of several models of the papers with the same size
 *    zero-c1 ... zero-c5                        largest models of the configurations C1 to C5 of the SC20 paper
 *
 * In zr all these models use the blocks of GPT-2, even if the original architecture differs. Positions are 1,024 and
 * the vocabulary is 50,257 if the source does not give them. The originals differ: GPT-3 alternates dense and sparse
 * attention. GPT-NeoX has rotary positions, parallel branches and an untied head. BLOOM has ALiBi instead of a position
 * table, and a norm after the embedding. Megatron pads the vocabulary to 51,200.
 */
ZR_API ZR_NODISCARD zr_status zr_gpt2_preset(const char *name, zr_gpt2_config *config);
/** Return the builder of a GPT-2 with pre-layer norm and a tied head. Its units are "embedding" (wte, wpe), "h.0" ...,
 * and "final" (ln_f, head). Parameters have the names of Hugging Face's GPT2LMHeadModel, such as
 * "transformer.h.0.attn.c_attn.weight". `config` is borrowed. */
ZR_API zr_model zr_gpt2(const zr_gpt2_config *config);

/** Sizes of a decoder of the Llama kind, with the names of Hugging Face. */
typedef struct zr_llama_config {
    int64_t num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, hidden_size, intermediate_size,
        max_position_embeddings, vocab_size;
    double rms_norm_eps;
    double initializer_range;  /* standard deviation of initial weights, usually 0.02 */
    double attention_dropout;  /* dropout probability of attention weights */
    int64_t sliding_window;    /* number of tokens that a token attends to, including itself; 0 for all */
    int64_t max_window_layers; /* number of layers, from the first, that attend to all tokens despite sliding_window */
    zr_rotary_spec rotary;     /* rotary embedding; its width is head_dim */
    bool tie_word_embeddings;  /* whether the head's weights are the embedding */
    bool qkv_bias;             /* whether the projections of queries, keys and values have biases (Qwen2) */
    bool attention_bias;       /* whether all four projections of attention have biases */
    bool mlp_bias;             /* whether the three projections of the MLP have biases */
    bool qk_norm;              /* whether queries and keys are normalised per head (Qwen3) */
} zr_llama_config;

/** Return the builder of a decoder of the Llama kind: Llama, Mistral, Qwen2, Qwen3 and models with their blocks. Its
 * units are "embedding", "layers.0" ..., and "final" (last norm; the head if it is not tied). Parameters have the names
 * of Hugging Face's LlamaForCausalLM, such as "model.layers.0.self_attn.q_proj.weight". `config` is borrowed. */
ZR_API zr_model zr_llama(const zr_llama_config *config);

/** What a BERT predicts. */
typedef enum zr_bert_task {
    ZR_BERT_PRETRAINING,    /* masked tokens, and whether one text follows another */
    ZR_BERT_CLASSIFICATION, /* one of several labels of a sample */
    ZR_BERT_ANSWERS,        /* the first and the last token of the answer to a question */
    ZR_BERT_MASKED_LM,      /* masked tokens alone */
    ZR_BERT_TAGS            /* one of several labels of each word */
} zr_bert_task;

/** Sizes of a BERT (Devlin et al. 2019), with the names of Hugging Face. The structs of the families "bert" and
 * "bert-preln" begin with this one. */
typedef struct zr_bert_config {
    int64_t num_hidden_layers, num_attention_heads, hidden_size, intermediate_size, max_position_embeddings, vocab_size,
        type_vocab_size;
    double hidden_dropout_prob, attention_probs_dropout_prob;
    double layer_norm_eps; /* usually 1e-12 */
    /* standard deviation of initial values, usually 0.02; with pre_layer_norm it is divided by sqrt(2
     * num_hidden_layers) for residual projections */
    double initializer_range;
    /* whether the norm comes before each part of a layer and after the last layer, and not after each residual addition
     */
    bool pre_layer_norm;
    int task;                  /* zr_bert_task */
    int64_t num_labels;        /* number of labels of CLASSIFICATION and TAGS, at least 2 */
    double classifier_dropout; /* dropout probability before the classifier; NAN for hidden_dropout_prob */
} zr_bert_config;

/** Return the builder of a BERT with the heads of its task. Its units are "embedding", "layer.0" ..., and "heads".
 * Parameters have the names of Hugging Face's BertForPreTraining, BertForSequenceClassification,
 * BertForQuestionAnswering, BertForMaskedLM or BertForTokenClassification, such as
 * "bert.encoder.layer.0.attention.self.query.weight". With P = spec.predictions and S = spec.samples, its inputs are,
 * all I32: tokens (B,T) segments (B,T)         0 or 1, below type_vocab_size masked (B,P)           PRETRAINING,
 * MASKED_LM: index in the row of each masked token; 0 for padding masked_targets (B,P)   PRETRAINING, MASKED_LM:
 * original id of each masked token; -1 for padding first (B,S)            PRETRAINING, CLASSIFICATION: index in the row
 * of each sample's first token, [CLS]; 0 for padding next (B,S)             PRETRAINING: 0 if the sample's second text
 * follows its first one, 1 if it does not; -1 does not count words (B,P)            TAGS: index in the row of the first
 * token of each tagged word; 0 for padding tags (B,P)             TAGS: label of each of these words; -1 does not count
 *    label (B,S)            CLASSIFICATION: label of each sample; -1 does not count
 *    answer (B,S,2)         ANSWERS: indices in the row of the answer's first and last token, in the same document; -1
 *                           does not count
 * A row of several samples, or of a sample and padding, needs spec.documents, with the padding as a document of its
 * own. The loss terms are "masked_lm" and "next_sentence" for PRETRAINING, "masked_lm" for MASKED_LM, "classification"
 * for CLASSIFICATION, "tag" for TAGS, and "answer" for ANSWERS, with losses (B,S,2) of an answer's start and end
 * (zr_place_cross_entropy). In EVAL mode the output of CLASSIFICATION is the logits (B,S,num_labels), that of TAGS the
 * logits (B,P,num_labels), and the output of ANSWERS is the logits (B,T,2) of starts and ends, unless the ranks are
 * sequence-parallel. `config` is borrowed. */
ZR_API zr_model zr_bert(const zr_bert_config *config);

#ifdef __cplusplus
}
#endif
#endif
