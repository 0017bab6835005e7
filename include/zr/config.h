/**
 * config: reads CONFIG.json, with DeepSpeed's keys and meanings, into one checked struct.
 *
 * One table of keys (zr_config_keys) holds every name, type, range, default and help line; errors, help and
 * docs/config.md are made from it. Order of calls: zr_config_load; then the code that knows model and data sets what
 * the file leaves open (zr_config_set); then zr_config_resolve. After that no field is open, and a run saves the result
 * of zr_config_to_json.
 *
 * Messages give file:line:column, the key's path, the value found and the value wanted.
 */
#ifndef ZR_CONFIG_H
#define ZR_CONFIG_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zr_config_order { ZR_ORDER_SHUFFLED, ZR_ORDER_SEQUENTIAL } zr_config_order;
typedef enum zr_config_optimizer { ZR_OPTIMIZER_ADAMW, ZR_OPTIMIZER_ADAM, ZR_OPTIMIZER_SGD } zr_config_optimizer;
typedef enum zr_config_scheduler {
    ZR_SCHEDULER_NONE, /* learning rate constant at optimizer.lr */
    ZR_SCHEDULER_WARMUP,
    ZR_SCHEDULER_WARMUP_DECAY,
    ZR_SCHEDULER_WARMUP_COSINE
} zr_config_scheduler;
typedef enum zr_config_warmup { ZR_WARMUP_LOG, ZR_WARMUP_LINEAR } zr_config_warmup;
/** A number type as named in the file. AUTO occurs only before zr_config_resolve. */
typedef enum zr_config_dtype { ZR_CONFIG_AUTO, ZR_CONFIG_FP32, ZR_CONFIG_BF16, ZR_CONFIG_FP16 } zr_config_dtype;
typedef enum zr_config_switch { ZR_SWITCH_OFF, ZR_SWITCH_ON, ZR_SWITCH_AUTO } zr_config_switch;

typedef enum zr_config_layout { ZR_LAYOUT_LEAN, ZR_LAYOUT_PAPER } zr_config_layout;
typedef enum zr_config_norm { ZR_NORM_ONE_PASS, ZR_NORM_TWO_PASS } zr_config_norm;
typedef enum zr_config_policy {
    ZR_POLICY_NONE,
    ZR_POLICY_UNIT,
    ZR_POLICY_SELECTIVE,
    ZR_POLICY_AUTO,
    ZR_POLICY_PAPER
} zr_config_policy;
typedef enum zr_config_sequence { ZR_TOKENS_OFF, ZR_TOKENS_KEEP, ZR_TOKENS_REGATHER } zr_config_sequence;
typedef enum zr_config_offload { ZR_OFFLOAD_NONE, ZR_OFFLOAD_HOST, ZR_OFFLOAD_DISK } zr_config_offload;
typedef enum zr_config_reduce {
    ZR_COLLECTIVE_SCATTER,
    ZR_COLLECTIVE_ALL_REDUCE,
    ZR_COLLECTIVE_OWNER,
    ZR_COLLECTIVE_NCCL
} zr_config_reduce;
typedef enum zr_config_gather { ZR_COLLECTIVE_GATHER, ZR_COLLECTIVE_BROADCAST } zr_config_gather;

/** Sizes of a model; 0 for a size that is still open. */
typedef struct zr_config_sizes {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
} zr_config_sizes;

/** Device that ranks compute on. */
typedef enum zr_config_device { ZR_DEVICE_AUTO, ZR_DEVICE_CPU, ZR_DEVICE_CUDA } zr_config_device;

/** All values of CONFIG.json. Strings are owned by the struct; NULL if not given. */
typedef struct zr_config {
    zr_config_device device;
    struct {
        const char *type;      /* family of the model, such as "gpt2" */
        const char *preset;    /* name of a known shape, which gives the sizes */
        const char *init;      /* directory with config.json and model.safetensors, which give the sizes */
        const char *frozen;    /* patterns, one per line, for the names of parameters that are not trained; NULL to
                                  train all parameters */
        zr_config_sizes sizes; /* sizes of the model; after loading, a size is 0 if it is not given or comes from preset
                                  or init */
        double dropout;        /* value of the key `dropout`, for all three dropout probabilities; 0 if not given */
        double embd_pdrop, resid_pdrop, attn_pdrop;
        double layer_norm_epsilon;
        double initializer_range;
    } model;
    struct {
        const char *train;     /* training data, as in zr_data_args.path; if NULL, a plan can be made but no data can be
                                  read */
        const char *val;       /* evaluation data, whose sources have no weights */
        const char *tokenizer; /* tokenizer's name for zr_tokenizer_open; if NULL, texts use "bytes", and token files
                                  use no tokenizer */
        int64_t seq_length;    /* sequence length T; 0 until resolved, by default to n_positions */
        zr_config_order order;
        const char *text_key;  /* key of the text in a line of a .jsonl file */
        bool skip_bad_lines;   /* whether to skip bad lines of a .jsonl file; otherwise they are errors */
        const char *cache_dir; /* directory for the tokens of texts; NULL for the user's cache */
    } data;
    struct {
        int64_t tensor;
        zr_config_sequence sequence;
        int64_t ranks_per_host; /* ranks per host; 0 to use the number that the transport finds */
    } parallel;
    struct {
        zr_config_layout layout;
        zr_config_norm norm; /* how to compute the whole gradient's norm in layout lean with one micro-batch per step */
        int64_t limit_bytes; /* memory limit (key memory.limit) in bytes of a rank's process, or of its GPU memory; 0
                                for no limit */
    } memory;
    struct {
        int64_t steps;
        int64_t seed;
        int64_t eval_interval;     /* steps between evaluations; 0 to never evaluate */
        int64_t eval_batches;      /* batches per evaluation; 0 for all of val */
        int64_t sample_tokens;     /* length in tokens of the sample text that the model writes; 0 for no sample */
        const char *sample_prompt; /* prompt of the sample text, or NULL if none */
        const char *output_dir;    /* directory of the run; NULL for runs/<model>-<time> */
        const char *started_in;    /* directory to which relative paths in a run's own config.json refer; NULL for
                                      the current directory */
        int64_t threads;           /* compute threads per rank; 0 to choose automatically */
        int64_t hang_timeout;      /* seconds without progress after which a rank counts as hanging; 0 to choose
                                      automatically */
        int64_t save_interval;     /* steps between checkpoints; 0 to write none at intervals */
        bool save_end;             /* whether to write a checkpoint after the last step, whatever the interval */
        int64_t keep_last;
        bool keep_best;      /* whether to keep the weights with the lowest val_loss */
        bool rank_free_sums; /* key "reproducible": whether results have the same bits for any number of ranks that
                                is a power of two */
        bool noise_scale;    /* whether to measure the gradient noise scale (key "gradient_noise_scale") */
        bool tensorboard;    /* whether to write a TensorBoard event file beside metrics.jsonl */
    } train;
    struct {
        zr_config_optimizer type;
        double lr;
        double betas[2];
        double eps;
        double weight_decay;
        double momentum;
        bool nesterov;
        bool adam_w_mode; /* whether Adam decouples weight decay, as AdamW does */
    } optimizer;
    struct {
        zr_config_scheduler type;
        double warmup_min_lr, warmup_max_lr;
        int64_t warmup_num_steps;
        zr_config_warmup warmup_type;
        int64_t total_num_steps; /* 0 until resolved, by default to train.steps */
        double warmup_min_ratio, cos_min_ratio;
    } scheduler;
    double gradient_clipping; /* maximum gradient norm, or 0 for no clipping */
    bool reduce_once;         /* key "gradient_reduction": whether to reduce over ranks once per step rather than
                                 after every micro-batch */
    bool bf16, fp16;          /* at most one of the two is true */
    struct {
        double loss_scale; /* static loss scale, or 0 for a dynamic one */
        int64_t initial_scale_power, loss_scale_window, hysteresis;
        bool consecutive_hysteresis;
        double min_loss_scale;
    } scale;                             /* section fp16 */
    zr_config_dtype communication_dtype; /* type of gradients while they are communicated; AUTO until resolved */
    zr_config_dtype grad_accum_dtype;    /* type of sums over micro-batches; AUTO until resolved, then FP32 */
    struct {
        int64_t stage;
        int64_t reduce_bucket_elems, allgather_bucket_elems;
        zr_config_switch overlap_comm;                      /* whether communication overlaps computation; AUTO until
                                                               resolved, then ON by default */
        int64_t prefetch_bucket_elems;                      /* elements gathered ahead at stage 3; 0 to gather no
                                                               unit ahead */
        int64_t persistence_elems, model_persistence_elems; /* model_persistence_elems 0 means no limit */
        int64_t max_live_elems;                             /* maximum number of elements gathered at once at stage 3; 0
                                                               to allow two units */
        int64_t max_reuse_elems;
        int64_t mics_shard_ranks;    /* number of ranks over which states are sharded (MiCS), or -1 for all ranks */
        int64_t hpz_partition_ranks; /* number of ranks over which a second copy of the parameters is sharded (hpZ),
                                        or 1 for no copy */
    } zero;
    struct {
        zr_config_policy policy;
        int64_t every;
        bool partition; /* whether each tensor-parallel rank keeps only its piece of each activation checkpoint */
        bool cpu;       /* whether activation checkpoints are kept in host memory, as with offload HOST */
        zr_config_offload offload;
    } recompute; /* section activation_checkpointing */
    struct {
        zr_config_reduce reduce;
        zr_config_gather gather;
        bool fused; /* whether to use one buffer for the whole model instead of buckets */
        zr_config_switch hierarchical;
    } collectives;
    struct {
        zr_config_switch async; /* whether to write checkpoints asynchronously, during the next training steps */
        int64_t every;          /* a checkpoint whose step is a multiple of this number is never removed; 0 if every
                                   checkpoint may be removed */
    } checkpoint;
    int64_t steps_per_print;
    int64_t train_batch_size, micro_batch_size, accumulation_steps; /* 0 until resolved */

    struct zr_config_state *state; /* strings, notes and the set of given keys; private to the config layer */
} zr_config;

/** Read the JSON file `path`, in which `//` begins a comment, or begin with the defaults if `path` is NULL. Then apply
 * the overrides "key.path=value" in order, so that later overrides win. A value is read as JSON, or as a string if it
 * is not JSON; for a key of string type, a number is read as a string too. A leading "--" is allowed. Errors: NOT_FOUND
 * (exit code 66), CONFIG (78), UNSUPPORTED (69: the key's feature does not exist). */
ZR_API ZR_NODISCARD zr_status zr_config_load(const char *path, const char *const *overrides, int n_overrides,
                                             zr_config **config);

/** Load a configuration from memory, like zr_config_load from a file. `name` is the file's name in messages. */
ZR_API ZR_NODISCARD zr_status zr_config_parse(const char *text, size_t bytes, const char *name,
                                              const char *const *overrides, int n_overrides, zr_config **config);

ZR_API void zr_config_destroy(zr_config **config);

/** Set one key by its path after loading, such as zr_config_set(c, "train.output_dir", dir). The value is written as in
 * an override. */
ZR_API ZR_NODISCARD zr_status zr_config_set(zr_config *config, const char *key, const char *value);

/** Settle all open fields for `ranks` ranks, where parallel.tensor ranks share each layer: the batch triple
 * (train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks), open sizes
 * (vocab_size becomes 256 with tokenizer "bytes", else 50257; the others become GPT-2's smallest), sequence length,
 * types and schedule. With preset or init the sizes must be set before. May be called again with the same ranks.
 * Errors: CONFIG. */
ZR_API ZR_NODISCARD zr_status zr_config_resolve(zr_config *config, int ranks);

/** Write the configuration, with all defaults, as JSON; zr_free it. Loading the JSON gives the same configuration. */
ZR_API ZR_NODISCARD zr_status zr_config_to_json(const zr_config *config, char **json);

/** Return the number of notes for the user. A note is one line about a key without meaning in zr, a value chosen for
 * "auto" or a rounded size. */
ZR_API int zr_config_notes(const zr_config *config);
ZR_API const char *zr_config_note(const zr_config *config, int index);

/* ---- the table of keys ----------------------------------------------------------------------- */

typedef enum zr_key_type {
    ZR_KEY_BOOL,
    ZR_KEY_SWITCH, /* true, false or "auto" */
    ZR_KEY_INT,
    ZR_KEY_NUMBER,
    ZR_KEY_STRING,
    ZR_KEY_NAMES,  /* a pattern of names or a list of patterns; stored one per line */
    ZR_KEY_PATHS,  /* a path, a list of paths, or sources with weights; a list is stored as JSON text */
    ZR_KEY_CHOICE, /* one of the words in `choices`; stored as its index */
    ZR_KEY_EITHER, /* one of the two words in `choices`; stored as a bool that is true for the second */
    ZR_KEY_PAIR,   /* two numbers in [0, 1) */
    ZR_KEY_BYTES,  /* an integer, or a size such as "2GiB" */
    ZR_KEY_ANY     /* any value, which is ignored */
} zr_key_type;

typedef enum zr_key_state {
    ZR_KEY_BUILT,     /* every value in range is supported */
    ZR_KEY_LIMITED,   /* only the values in `built` are supported yet; others fail with ZR_ERR_UNSUPPORTED */
    ZR_KEY_NO_MEANING /* a key of DeepSpeed that has no effect here; a note tells the user */
} zr_key_state;

typedef struct zr_key {
    const char *path; /* path of the key, such as "train.steps"; a "*" at the end stands for all other keys of that
                         object */
    zr_key_type type;
    zr_key_state state;
    double min, max;      /* allowed range of values of type INT, NUMBER and BYTES */
    const char *choices;  /* for CHOICE, EITHER and STRING: the allowed words as "a|b|c", in the order of the enum */
    const char *built;    /* for LIMITED: the supported values, such as "0" or "a|b" */
    const char *standard; /* default value as JSON */
    const char *help;     /* help text of one line */
    const char *instead;  /* for LIMITED: advice, in one line, for users of unsupported values; or NULL */
    size_t offset;        /* offset of the key's field in zr_config, or SIZE_MAX if the key has no field */
    unsigned only;        /* bit set (1 << type) of the optimizers or schedulers that have this key, or 0 for all */
} zr_key;

/** Return the table of keys. */
ZR_API const zr_key *zr_config_keys(int *n);

/** Write the reference of all keys as Markdown (docs/config.md); zr_free it. */
ZR_API ZR_NODISCARD zr_status zr_config_reference(char **markdown);

/** Write the text of an example configuration file that explains its keys; zr_free it. */
ZR_API ZR_NODISCARD zr_status zr_config_example(char **text);

#ifdef __cplusplus
}
#endif
#endif
