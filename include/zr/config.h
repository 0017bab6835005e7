/**
 * config: reads CONFIG.json, with the keys and meanings of DeepSpeed, into one checked struct.
 *
 * The table of keys (zr_config_keys) is the only place for names, types, ranges, defaults and help texts. The keys of
 * the model come from the fields of families (zr/models.h). Error messages, help and docs/config.md are made from this
 * table. First call zr_config_load. Then code that knows the model and the data sets values that the file does not give
 * (zr_config_set). Finally zr_config_resolve sets all remaining values. A run saves the result with zr_config_to_json.
 *
 * Error messages give file:line:column, the key's path, the actual value and the expected value.
 */
#ifndef ZR_CONFIG_H
#define ZR_CONFIG_H

#include "zr/choices.h"
#include "zr/models.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zr_config_order { ZR_ORDER_SHUFFLED, ZR_ORDER_SEQUENTIAL } zr_config_order;
typedef enum zr_config_optimizer {
    ZR_OPTIMIZER_ADAMW,
    ZR_OPTIMIZER_ADAM,
    ZR_OPTIMIZER_SGD,
    ZR_OPTIMIZER_LAMB,
    ZR_OPTIMIZER_LARS,
    ZR_OPTIMIZER_MUON,
    ZR_OPTIMIZER_LION,
    ZR_OPTIMIZER_ADAMW8BIT
} zr_config_optimizer;
typedef enum zr_config_scheduler {
    ZR_SCHEDULER_NONE, /* constant learning rate optimizer.lr */
    ZR_SCHEDULER_WARMUP,
    ZR_SCHEDULER_WARMUP_DECAY,
    ZR_SCHEDULER_WARMUP_COSINE,
    ZR_SCHEDULER_WARMUP_EXP,
    ZR_SCHEDULER_WARMUP_POLY,
    ZR_SCHEDULER_ONE_CYCLE
} zr_config_scheduler;
typedef enum zr_config_warmup { ZR_WARMUP_LOG, ZR_WARMUP_LINEAR, ZR_WARMUP_FROM_1 } zr_config_warmup;
/** Number type as named in the file. AUTO is replaced by zr_config_resolve. */
typedef enum zr_config_dtype { ZR_CONFIG_AUTO, ZR_CONFIG_FP32, ZR_CONFIG_BF16, ZR_CONFIG_FP16 } zr_config_dtype;
typedef enum zr_config_switch { ZR_SWITCH_OFF, ZR_SWITCH_ON, ZR_SWITCH_AUTO } zr_config_switch;

typedef enum zr_config_layout { ZR_LAYOUT_LEAN, ZR_LAYOUT_PAPER } zr_config_layout;
typedef enum zr_config_norm { ZR_NORM_ONE_PASS, ZR_NORM_TWO_PASS } zr_config_norm;
typedef enum zr_config_offload { ZR_OFFLOAD_NONE, ZR_OFFLOAD_HOST, ZR_OFFLOAD_DISK } zr_config_offload;
/** Codes of quantised values (section quantization), in the order of the key's choices. */
typedef enum zr_config_codes {
    ZR_CODES_INT8,
    ZR_CODES_INT4,
    ZR_CODES_E4M3,
    ZR_CODES_E5M2,
    ZR_CODES_H4
} zr_config_codes;
/** Place in which model states are stored between the steps that compute with them: the device, host memory, or a
 * disk. */
typedef enum zr_config_home { ZR_HOME_NONE, ZR_HOME_CPU, ZR_HOME_NVME } zr_config_home;

/** Offload of one kind of model states: values of the section offload_optimizer or offload_param. */
typedef struct zr_config_offloaded {
    zr_config_home device;
    /* folder on disk, or a list of folders in the form of data.train; NULL if not given */
    const char *folders;
    double ratio;    /* share of the elements that are offloaded, from 0 to 1 */
    int64_t buffers; /* key buffer_count; ZR_CONFIG_BUFFERS leaves the choice to the planner. Not used for parameters */
} zr_config_offloaded;

/** Device on which ranks compute. */
typedef enum zr_config_device { ZR_DEVICE_AUTO, ZR_DEVICE_CPU, ZR_DEVICE_CUDA } zr_config_device;

/** Defaults of DeepSpeed for sub_group_size, and for buffer_count of offload_optimizer. zr treats them as "not given",
 * because examples of configurations contain them, and they would need gigabytes. */
#define ZR_CONFIG_SUB_GROUP 1000000000
#define ZR_CONFIG_BUFFERS 4

/** Samples that the program itself makes, for decoders only. */
typedef struct zr_source {
    /** Give samples [first, first+n): the rows of one training step, or all rows for evaluations. Set *tokens and
     * *targets to rows of data.seq_length tokens and of their targets. The loss ignores targets of -1. *stride is the
     * distance in elements between the beginnings of two rows, at first data.seq_length. The run copies the rows, and
     * needs the arrays until it asks for other samples. Each rank calls this function at most once per step, for the
     * same samples; for evaluations once, before the first step. Ranks that are threads may call it at the same time.
     * After a failure the run ends as it does if its data cannot be read. */
    zr_status (*read)(void *arg, int64_t first, int64_t n, const int32_t **tokens, const int32_t **targets,
                      int64_t *stride);
    void *arg;
    int64_t rows; /* number of samples for evaluations; not used for training data, which have no end */
} zr_source;

/** Values of all keys of CONFIG.json. Strings are owned by the struct, and are NULL if not given. */
typedef struct zr_config {
    zr_config_device device;
    struct {
        const char *type;   /* name of the family, such as "gpt2" */
        const char *preset; /* name of a known model from which the sizes are taken, such as "gpt2-124m" */
        /* directory whose config.json gives the sizes and whose model.safetensors gives the initial weights */
        const char *init;
        const char *frozen;      /* name patterns of untrained parameters, one per line; or NULL */
        const char *label_names; /* names of labels, one per line; or NULL */
        zr_lora lora;            /* low-rank adapters; rank 0 for none */
        const char *lora_init;   /* directory of an adapter from which training starts, or NULL */
        const zr_family *family; /* row of `type` in the table of families */
        /* the family's struct, with the values of its keys. After loading, a value that is not given, or that comes
         * from preset or init, is 0, or NAN for a real number */
        zr_model_config config;
    } model;
    struct {
        /* path of the training data (zr_data_args.path), or NULL; training needs data, but planning does not */
        const char *train;
        /* source of the samples in place of `train`, or NULL. It is borrowed, and is not a key: a program sets it
         * before zr_train_run, alike on all ranks. A resumed run continues with the sample after its last step */
        const zr_source *source;
        /* path of the evaluation data; unlike training data, its sources have no weights. Or a number as JSON, such as
         * "0.05": the share of `train` that is held out for evaluations */
        const char *val;
        const zr_source *val_source; /* samples in place of `val`, or NULL, as `source` */
        /* name of the tokenizer for zr_tokenizer_open; NULL means "bytes" for texts, and no tokenizer for token files
         */
        const char *tokenizer;
        int64_t seq_length;  /* sequence length T in tokens; 0 until resolved, by default n_positions */
        bool as_text;        /* key data.format: whether every file is read as plain text */
        int64_t token_bytes; /* bytes of a token in token files without a header: 2 or 4; 0 for "auto" */
        zr_config_order order;
        zr_data_packing packing;
        zr_data_loss_on loss_on; /* targets that count in the loss, in records with prompts or messages */
        /* name of a form of conversations, such as "llama3", or the path of a chat template, which ends in ".jinja"; or
         * "auto" for the template in the tokenizer's directory */
        const char *chat_template;
        const char *chat_date;            /* today's date in chat templates, YYYY-MM-DD */
        const char *chat_template_kwargs; /* JSON text of an object with further variables of the template, or NULL */
        const char *columns;              /* JSON text of an object with the names of the members of records, or NULL */
        const char *text_key;             /* member that holds the text in each record */
        bool skip_bad_lines;   /* whether bad lines of a .jsonl file are skipped; otherwise they are errors */
        const char *cache_dir; /* cache directory for tokenized texts; NULL for the user's cache */
        /* only for encoders, as in zr_pairs_args and zr_labelled_args */
        int64_t max_predictions; /* maximum number of predicted tokens in a row */
        int64_t max_samples;     /* maximum number of samples in a row */
        double masked_lm_prob;   /* share of a sample's tokens that are predicted */
        double short_seq_prob;   /* probability that a document's samples are shorter than a row */
        bool whole_words;        /* whether the tokens of a word are predicted together */
        int64_t doc_stride; /* question answering: distance in tokens between the beginnings of two windows of a text */
        int64_t max_query_length; /* maximum number of tokens of a question */
    } data;
    struct {
        int64_t tensor;
        zr_sequence sequence;
        int64_t pipeline; /* number of pipeline ranks, 1 without pipeline parallelism */
        int64_t chunks;   /* number of stages of a pipeline rank; 0 for "auto" */
        zr_pipe_schedule schedule;
        const char
            *schedule_file;     /* path of a table of actions (zr_pipe_table_read), which replaces schedule, or NULL */
        const char *units;      /* key pipeline_units: zr_layout.pipeline_units as text, such as "3,4,4,3"; or NULL */
        bool tied_apart;        /* setting of zr_layout.tied_apart */
        int64_t ranks_per_host; /* number of ranks per host; 0 to use the number that the transport finds */
    } parallel;
    struct {
        zr_config_layout layout;
        zr_config_norm norm; /* method for the gradient norm with layout lean and one micro-batch per step */
        /* key memory.limit: limit in bytes of the memory of a rank's process or, with a GPU, of its GPU memory; 0 for
         * no limit */
        int64_t limit_bytes;
        int64_t tile_elems; /* maximum number of elements of a tile of the embedding or the head; 0 for whole tables */
    } memory;
    struct {
        int64_t steps;
        int64_t seed;
        int64_t eval_interval; /* training steps between evaluations; 0 to never evaluate */
        int64_t eval_batches;  /* number of batches per evaluation; 0 for all evaluation data */
        /* number of tokens of the sample text that the model generates at each evaluation and at the end of the run; 0
         * for none */
        int64_t sample_tokens;
        const char *sample_prompt; /* prompt of the sample text, or NULL */
        const char *output_dir;    /* directory of the run; NULL for runs/<model>-<time> */
        /* directory that relative paths in a run's saved config.json refer to; NULL for the current directory */
        const char *started_in;
        int64_t threads; /* compute threads per rank; 0 for automatic choice */
        /* seconds without progress after which a rank is reported as hanging; 0 for automatic choice */
        int64_t hang_timeout;
        int64_t save_interval; /* training steps between checkpoints; 0 for no periodic checkpoints */
        bool save_end;         /* whether to write a checkpoint after the last step, independently of the interval */
        bool save_model;       /* whether to write the final weights as model/ */
        int64_t keep_last;
        bool keep_best;   /* whether to keep the weights with the lowest evaluation loss */
        int64_t patience; /* number of evaluations without a lower loss after which the run ends; 0 for no end */
        double threshold; /* a loss counts as lower if it has fallen by more than this, in nats */
        /* key "reproducible": whether results have the same bits for every number of ranks that is a power of two */
        bool rank_free_sums;
        /* key "accumulation_order": whether all micro-batches of a training step pass through a part of the model
         * before the next part runs */
        bool layer_major;
        bool noise_scale; /* key "gradient_noise_scale": whether to measure the gradient noise scale */
        bool tensorboard; /* whether to write a TensorBoard event file beside metrics.jsonl */
    } train;
    struct {
        zr_config_optimizer type;
        double lr;
        double betas[2];
        double eps;
        double weight_decay;
        double momentum;
        bool nesterov;
        bool adam_w_mode;        /* for Adam and NVIDIA's LAMB: whether weight decay is decoupled, as in AdamW */
        zr_lamb_variant variant; /* variant of LAMB */
        bool bias_correction;    /* for Adam, AdamW and LAMB */
        /* minimum and maximum trust ratio of LAMB (zr_lamb_args); the following fields down to use_nvlamb are also for
         * LAMB */
        double min_coeff, max_coeff;
        bool eps_inside_sqrt, grad_averaging, use_nvlamb;
        double trust_coefficient; /* for LARS */
        /* The following fields are for Muon. `lr` is the learning rate of hidden matrices once muon_lr is resolved.
         * `adamw`: AdamW of all other parameters */
        double muon_lr;
        struct {
            double lr, betas[2], eps, weight_decay;
        } adamw;
        bool momentum_sums;  /* key "momentum_form": whether the momentum is m = momentum m + g, not a moving average */
        zr_muon_scale scale; /* key "adjust_lr_fn" */
        int ns_method;       /* always 0, the standard iteration */
        int64_t ns_steps;
        double ns_coefficients[3];
        double ns_eps;
        bool ns_eps_added;
        bool ns_f32;          /* key "ns_dtype" */
        const char *matrices; /* patterns of names of hidden matrices, one per line; NULL: zr_param_info.hidden */
    } optimizer;
    struct {
        zr_config_scheduler type;
        double warmup_min_lr, warmup_max_lr;
        int64_t warmup_num_steps;
        zr_config_warmup warmup_type;
        /* step at which the learning rate is lowest; 0 until resolved, by default train.steps */
        int64_t total_num_steps;
        double warmup_min_ratio, cos_min_ratio;
        double warmup_degree, decay_rate, decay_step, lr_offset; /* for WarmupExpDecayLR */
        double decay_degree;                                     /* for WarmupPolyDecayLR */
        /* lowest and highest learning rate of OneCycle; the following fields are also for OneCycle */
        double cycle_min_lr, cycle_max_lr;
        /* number of steps in which the rate rises (first) and falls (second). A second value of 0 is resolved to the
         * first */
        int64_t first_step_size, second_step_size;
        int64_t first_stair_count, second_stair_count; /* number of stairs of the rise and of the fall; 0 for none */
        int64_t decay_step_size; /* number of steps of one decay interval (decay_lr_rate); 0 for no decay */
        double decay_lr_rate;
    } scheduler;
    double gradient_clipping; /* maximum gradient norm; 0 for no clipping */
    /* key "gradient_reduction": whether gradients are reduced over ranks once per step, not after every micro-batch */
    bool reduce_once;
    bool bf16, fp16; /* type of parameters and activations: at most one of the two is true; fp32 if both are false */
    struct {
        double loss_scale; /* static loss scale; 0 for a dynamic loss scale */
        int64_t initial_scale_power, loss_scale_window, hysteresis;
        bool consecutive_hysteresis;
        double min_loss_scale;
    } scale;                             /* values of the section "fp16" */
    zr_config_dtype communication_dtype; /* type of gradients in communication; AUTO until resolved */
    /* type of gradients accumulated over micro-batches; AUTO until resolved, then FP32 */
    zr_config_dtype grad_accum_dtype;
    struct {
        int64_t stage;
        int64_t reduce_bucket_elems, allgather_bucket_elems;
        /* whether communication overlaps computation; AUTO until resolved, by default ON */
        zr_config_switch overlap_comm;
        int64_t prefetch_bucket_elems; /* elements to prefetch at stage 3; 0 for no prefetch */
        /* persistence thresholds at stage 3: a unit is not sharded if each of its parameters has fewer than
         * persistence_elems elements, as long as all unsharded units together have at most model_persistence_elems
         * elements (0 for no limit) */
        int64_t persistence_elems, model_persistence_elems;
        int64_t max_live_elems; /* maximum number of gathered elements at stage 3; 0 for the elements of two units */
        int64_t max_reuse_elems;
        zr_config_offloaded optim, param; /* offload of optimizer states, and of parameters */
        /* whether gradients are offloaded too, to the place of the optimizer states */
        bool offload_gradients;
        /* number of elements of an offloaded state that are updated at a time; ZR_CONFIG_SUB_GROUP leaves the choice to
         * the planner */
        int64_t sub_group_elems;
        int64_t mics_shard_ranks; /* number of ranks over which model states are sharded (MiCS); -1 for all ranks */
        /* number of ranks over which a second copy of the parameters is sharded (hpZ); 1 for no copy */
        int64_t hpz_partition_ranks;
        /* whether trained parameters are gathered (qwZ), frozen ones kept, and gradients reduced (qgZ) in the forms of
         * `quantization` */
        zr_config_switch quantized_weights, quantized_gradients;
        bool quantized_frozen;
        /* error feedback of quantised gradients: number of steps after which the errors are cleared, or 0 for none; and
         * share of the earlier errors in the new ones */
        int64_t loco_reset_steps;
        double loco_beta;
    } zero;
    struct {
        int64_t block_elems; /* elements that share a scale: 128 or 256 */
        zr_config_codes weights, gradients;
        bool weight_differences; /* whether parameters pass as differences to what ranks have */
        bool stochastic;         /* key "quantization.rounding" */
        bool any_ranks;          /* whether a run with quantised gradients may resume on other ranks */
    } quantization;
    struct {
        zr_recompute policy;
        int64_t every;
        bool partition; /* whether each tensor-parallel rank stores only its part of each activation checkpoint */
        /* whether activation checkpoints are stored in host memory; has the same effect as the value HOST of `offload`
         */
        bool cpu;
        zr_config_offload offload;
    } recompute; /* values of the section "activation_checkpointing" */
    struct {
        zr_reduce reduce;
        zr_config_switch hierarchical;
    } collectives;
    struct {
        zr_config_switch async; /* whether to write checkpoints asynchronously, during the next training steps */
        /* interval in steps: checkpoints whose step is a multiple of this number are never removed; 0 if all may be
         * removed */
        int64_t every;
    } checkpoint;
    struct {
        int64_t block_bytes; /* maximum bytes of a single transfer from or to disk; 0: the planner chooses */
        int64_t depth;       /* maximum number of transfers in flight in each direction; 0: the planner chooses */
    } aio;
    int64_t steps_per_print;
    /* samples per step over all ranks, samples per micro-batch on one rank, and micro-batches per step; each 0 until
     * resolved */
    int64_t train_batch_size, micro_batch_size, accumulation_steps;

    struct zr_config_state *state; /* internal state: strings, notes and the set of given keys */
} zr_config;

/** Read a configuration from the JSON file `path`, or use the defaults if `path` is NULL. `//` begins a comment in the
 * file. Then apply the overrides in order. An override has the form "key.path=value", optionally with a leading "--".
 * If two overrides set the same key, the later one counts. The value is read as JSON if possible, otherwise as a
 * string. For a key of type string, a number is read as a string too. Errors: ZR_ERR_NOT_FOUND (exit code 66);
 * ZR_ERR_CONFIG (78); ZR_ERR_UNSUPPORTED (69) for a feature that does not exist yet. */
ZR_API ZR_NODISCARD zr_status zr_config_load(const char *path, const char *const *overrides, int n_overrides,
                                             zr_config **config);

/** Load a configuration from text in memory, as zr_config_load does from a file. Error messages use `name` as the
 * file's name. */
ZR_API ZR_NODISCARD zr_status zr_config_parse(const char *text, size_t bytes, const char *name,
                                              const char *const *overrides, int n_overrides, zr_config **config);

ZR_API void zr_config_destroy(zr_config **config);

/** Set one key by its path after loading. For example, call zr_config_set(c, "train.output_dir", dir). `value` is
 * written as in an override. */
ZR_API ZR_NODISCARD zr_status zr_config_set(zr_config *config, const char *key, const char *value);

/** Set all values that are still open (not given, or "auto") for a run with `ranks` ranks. With tensor parallelism,
 * parallel.tensor ranks share each layer. The batch sizes must satisfy
 *     train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks.
 * An open vocabulary becomes 256 with the tokenizer "bytes". Other open settings of the model become the defaults of
 * its family. Sequence length, types and schedule are set too. If preset or init is given, set the model sizes before
 * this call. The function may be called again with the same number of ranks. Error: ZR_ERR_CONFIG. */
ZR_API ZR_NODISCARD zr_status zr_config_resolve(zr_config *config, int ranks);

/** Write the configuration as JSON, including all defaults. Loading this JSON gives the same configuration. Free *json
 * with zr_free. */
ZR_API ZR_NODISCARD zr_status zr_config_to_json(const zr_config *config, char **json);

/** Return the sizes of the model. A size that is not known yet is 0. */
ZR_API zr_model_sizes zr_config_sizes(const zr_config *config);

/** Return the number of notes for the user. Each note is one line, about a key that has no effect in zr, a value
 * chosen for "auto", or a rounded size. */
ZR_API int zr_config_notes(const zr_config *config);
ZR_API const char *zr_config_note(const zr_config *config, int index);

/* ---- the table of keys ----------------------------------------------------------------------- */

typedef enum zr_key_type {
    ZR_KEY_BOOL,
    ZR_KEY_SWITCH, /* true, false or "auto" */
    ZR_KEY_INT,
    ZR_KEY_NUMBER,
    ZR_KEY_STRING,
    ZR_KEY_NAMES,   /* one name pattern or a list of patterns; stored as lines of one string */
    ZR_KEY_PATHS,   /* a path, a list of paths, or a list of sources with weights; a list is stored as JSON text */
    ZR_KEY_SHARE,   /* a number above 0 and below 1, stored as JSON text; or as for ZR_KEY_PATHS */
    ZR_KEY_FOLDERS, /* a folder or a list of folders; a list is stored as JSON text */
    ZR_KEY_CHOICE,  /* one of the words in `choices`; stored as the word's index */
    ZR_KEY_EITHER,  /* one of two words in `choices`; stored as a bool, which is true for the second word */
    ZR_KEY_PAIR,    /* two numbers in [0, 1) */
    ZR_KEY_TRIPLE,  /* three numbers */
    ZR_KEY_BYTES,   /* an integer, or a size such as "2GiB" */
    ZR_KEY_IDS,     /* a token id, a list of ids, or null; stored as zr_ids */
    ZR_KEY_OBJECT,  /* an object of any members; stored as JSON text */
    ZR_KEY_ANY      /* any value, which is ignored */
} zr_key_type;

typedef enum zr_key_state {
    ZR_KEY_BUILT, /* supported key: all values in the allowed range work */
    /* partly supported key: only the values in `built` work; other values fail with ZR_ERR_UNSUPPORTED */
    ZR_KEY_LIMITED,
    ZR_KEY_NO_MEANING /* key of DeepSpeed that has no effect in zr; a note tells the user */
} zr_key_state;

typedef struct zr_key {
    /* path of the key, such as "train.steps"; a final "*" stands for all other keys of the same object */
    const char *path;
    zr_key_type type;
    zr_key_state state;
    double min, max; /* for the types INT, NUMBER, TRIPLE and BYTES: allowed range */
    /* for the types CHOICE, EITHER and STRING: allowed words as "a|b|c", in the order of the enum */
    const char *choices;
    const char *built;      /* for a LIMITED key: supported values, such as "0" or "a|b" */
    const char *standard;   /* default value as JSON */
    const char *help;       /* one line of help */
    const char *instead;    /* for a LIMITED key: one line of advice for users of an unsupported value, or NULL */
    const char *instead_of; /* the only word that `instead` is about; NULL: it is about all */
    size_t offset;          /* offset of the key's field in zr_config, or SIZE_MAX if the key has no field */
    const zr_field *field;  /* for a key of the model: the field of its family, or NULL */
    /* in zr_config_keys: names of the families that have the key, as "a, b"; NULL if every family has it */
    const char *families;
    unsigned only; /* bit set (1 << type) of the optimizers or schedulers that the key belongs to; 0 for all */
    bool chosen;   /* whether zr can choose the value, so that the key also takes "auto" */
} zr_key;

/** Return the table of the keys of all families. It ends with a key whose path is NULL. A key that several families
 * declare identically is listed once. A key that they declare differently is listed once for each family. Free *keys
 * with zr_free. Errors: ZR_ERR_MEMORY; ZR_ERR_INTERNAL if a family's declaration is wrong (zr_family_check). */
ZR_API ZR_NODISCARD zr_status zr_config_keys(zr_key **keys);

#ifdef __cplusplus
}
#endif
#endif
