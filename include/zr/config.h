/**
 * config: CONFIG.json, with DeepSpeed's keys and meanings, read into one checked struct.
 *
 * One table of keys (zr_config_keys) holds every name, type, range, default and help line; errors,
 * help and docs/config.md come from it. Order of calls: zr_config_load, then whoever knows the model
 * and the data settles what the file leaves open (zr_config_set), then
 * zr_config_resolve; after that no field is open and zr_config_to_json is what a run saves.
 *
 * Messages name file:line:column, key path, what was found and what was wanted.
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
    ZR_SCHEDULER_NONE, /* constant optimizer.lr */
    ZR_SCHEDULER_WARMUP,
    ZR_SCHEDULER_WARMUP_DECAY,
    ZR_SCHEDULER_WARMUP_COSINE
} zr_config_scheduler;
typedef enum zr_config_warmup { ZR_WARMUP_LOG, ZR_WARMUP_LINEAR } zr_config_warmup;
/** A number type as the file names it; AUTO only before zr_config_resolve. */
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

/** The sizes of a model, 0: open. */
typedef struct zr_config_sizes {
    int64_t n_layer, n_head, n_embd, n_positions, vocab_size;
} zr_config_sizes;

/** Device that ranks compute on. */
typedef enum zr_config_device { ZR_DEVICE_AUTO, ZR_DEVICE_CPU, ZR_DEVICE_CUDA } zr_config_device;

/** All values of CONFIG.json. Strings are borrowed from the struct; NULL: not given. */
typedef struct zr_config {
    zr_config_device device;
    struct {
        const char *type;      /* the family: "gpt2" */
        const char *preset;    /* a named shape, from which sizes come */
        const char *init;      /* directory with config.json and model.safetensors; sizes come from it */
        const char *frozen;    /* patterns of names of parameters that do not train, one a line; NULL: all train */
        zr_config_sizes sizes; /* open (0) after loading with preset or init, or where not given */
        double dropout;        /* value of the key `dropout` for all three probabilities, or 0 */
        double embd_pdrop, resid_pdrop, attn_pdrop;
        double layer_norm_epsilon;
        double initializer_range;
    } model;
    struct {
        const char *train;     /* path as in zr_data_args.path; NULL: refused by the data reader, not by a plan */
        const char *val;       /* evaluation data; its sources have no weights */
        const char *tokenizer; /* name as in zr_tokenizer_open; NULL: bytes for text, no tokenizer for token files */
        int64_t seq_length;    /* T; 0 until resolved: n_positions */
        zr_config_order order;
        const char *text_key;  /* key of the text in a line of a .jsonl file */
        bool skip_bad_lines;   /* skip bad lines of a .jsonl file; else they are an error */
        const char *cache_dir; /* where a text's tokens are kept; NULL: the user's cache */
    } data;
    struct {
        int64_t tensor;
        zr_config_sequence sequence;
        int64_t ranks_per_host; /* 0: auto, as the transport finds it */
    } parallel;
    struct {
        zr_config_layout layout;
        zr_config_norm norm; /* way to the whole gradient's norm, in layout lean with one micro-batch a step */
        int64_t limit_bytes; /* memory.limit: bytes of a rank's process, or of its GPU's memory; 0: none */
    } memory;
    struct {
        int64_t steps;
        int64_t seed;
        int64_t eval_interval;     /* 0: never */
        int64_t eval_batches;      /* 0: all of val */
        int64_t sample_tokens;     /* tokens of the sample text that the model writes; 0: no sample */
        const char *sample_prompt; /* NULL: none */
        const char *output_dir;    /* NULL: runs/<model>-<time> */
        const char *started_in;    /* directory from which relative paths of a run's own config.json count; NULL: the
                                      current directory */
        int64_t threads;           /* 0: auto */
        int64_t hang_timeout;      /* seconds; 0: auto */
        int64_t save_interval;     /* 0: none */
        bool save_end;             /* a checkpoint of the last step, whatever the interval */
        int64_t keep_last;
        bool keep_best;      /* weights of the lowest val_loss */
        bool rank_free_sums; /* "reproducible": same bits for any number of ranks that is a power of two */
        bool noise_scale;    /* "gradient_noise_scale" */
        bool tensorboard;    /* an event file beside metrics.jsonl */
    } train;
    struct {
        zr_config_optimizer type;
        double lr;
        double betas[2];
        double eps;
        double weight_decay;
        double momentum;
        bool nesterov;
        bool adam_w_mode; /* Adam: decoupled weight decay, as AdamW */
    } optimizer;
    struct {
        zr_config_scheduler type;
        double warmup_min_lr, warmup_max_lr;
        int64_t warmup_num_steps;
        zr_config_warmup warmup_type;
        int64_t total_num_steps; /* 0 until resolved: train.steps */
        double warmup_min_ratio, cos_min_ratio;
    } scheduler;
    double gradient_clipping; /* 0: none */
    bool reduce_once;         /* "gradient_reduction": over ranks once a step, not after every micro-batch */
    bool bf16, fp16;          /* at most one */
    struct {
        double loss_scale; /* static; 0: dynamic */
        int64_t initial_scale_power, loss_scale_window, hysteresis;
        bool consecutive_hysteresis;
        double min_loss_scale;
    } scale;                             /* section fp16 */
    zr_config_dtype communication_dtype; /* gradients on the wire */
    zr_config_dtype grad_accum_dtype;    /* FP32 */
    struct {
        int64_t stage;
        int64_t reduce_bucket_elems, allgather_bucket_elems;
        zr_config_switch overlap_comm;                      /* AUTO until resolved: on */
        int64_t prefetch_bucket_elems;                      /* 0: stage 3 does not gather ahead */
        int64_t persistence_elems, model_persistence_elems; /* second: 0: any */
        int64_t max_live_elems;                             /* 0: two units */
        int64_t max_reuse_elems;
        int64_t mics_shard_ranks;    /* ranks that states are sharded over (MiCS); -1: all */
        int64_t hpz_partition_ranks; /* ranks that a second copy of the parameters is sharded over (hpZ); 1: no copy */
    } zero;
    struct {
        zr_config_policy policy;
        int64_t every;
        bool partition; /* each tensor-parallel rank keeps one piece of each checkpoint */
        bool cpu;       /* checkpoints are kept in the host's memory, as with offload HOST */
        zr_config_offload offload;
    } recompute; /* section activation_checkpointing */
    struct {
        zr_config_reduce reduce;
        zr_config_gather gather;
        bool fused; /* one buffer of the whole model in place of buckets */
        zr_config_switch hierarchical;
    } collectives;
    struct {
        zr_config_switch async; /* asynchronous writes, during the next steps */
        int64_t every;          /* checkpoints of multiples of this number of steps are kept for good; 0: none */
    } checkpoint;
    int64_t steps_per_print;
    int64_t train_batch_size, micro_batch_size, accumulation_steps; /* 0 until resolved */

    struct zr_config_state *state; /* strings, notes and the set of keys given; private to the config layer */
} zr_config;

/** Read a file (NULL: none, defaults only) of JSON, in which `//` begins a comment, then overrides "key.path=value"
 * (value: JSON, or else a string, which a key of strings prefers to a number; a leading "--" is allowed), later ones
 * win. Errors: NOT_FOUND (66), CONFIG (78), UNSUPPORTED (69: the key's feature does not exist). */
ZR_API ZR_NODISCARD zr_status zr_config_load(const char *path, const char *const *overrides, int n_overrides,
                                             zr_config **config);

/** Load a configuration from memory, otherwise as zr_config_load; `name` stands for the file in messages. */
ZR_API ZR_NODISCARD zr_status zr_config_parse(const char *text, size_t bytes, const char *name,
                                              const char *const *overrides, int n_overrides, zr_config **config);

ZR_API void zr_config_destroy(zr_config **config);

/** Set one key by its path after loading, value as in an override: zr_config_set(c, "train.output_dir", dir). */
ZR_API ZR_NODISCARD zr_status zr_config_set(zr_config *config, const char *key, const char *value);

/** Settle all open fields for `ranks` ranks, of which each parallel.tensor share a layer: the batch triple
 *  (train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks), sizes still
 *  open (vocab_size: 256 for tokenizer "bytes", else 50257; the others GPT-2's smallest), sequence length, types,
 *  schedule. With preset or init the sizes must have been set. May be called again with the same ranks. Errors: CONFIG.
 */
ZR_API ZR_NODISCARD zr_status zr_config_resolve(zr_config *config, int ranks);

/** Write the configuration as JSON with every default; zr_free it. Loading it again gives the same. */
ZR_API ZR_NODISCARD zr_status zr_config_to_json(const zr_config *config, char **json);

/** Return the number of notices for the user, one line each: keys without meaning here, values of "auto", rounded
 *  sizes. */
ZR_API int zr_config_notes(const zr_config *config);
ZR_API const char *zr_config_note(const zr_config *config, int index);

/* ---- the table of keys ----------------------------------------------------------------------- */

typedef enum zr_key_type {
    ZR_KEY_BOOL,
    ZR_KEY_SWITCH, /* true, false or "auto" */
    ZR_KEY_INT,
    ZR_KEY_NUMBER,
    ZR_KEY_STRING,
    ZR_KEY_NAMES,  /* a pattern of names or a list of patterns, kept one a line */
    ZR_KEY_PATHS,  /* a path, a list of paths, or sources with weights; lists are kept as their JSON text */
    ZR_KEY_CHOICE, /* one of `choices`, kept as its number */
    ZR_KEY_EITHER, /* one of two words in `choices`, kept as whether it is the second */
    ZR_KEY_PAIR,   /* two numbers from 0 to below 1 */
    ZR_KEY_BYTES,  /* an integer, or "2GiB" */
    ZR_KEY_ANY     /* read and not used */
} zr_key_type;

typedef enum zr_key_state {
    ZR_KEY_BUILT,     /* every value in range works */
    ZR_KEY_LIMITED,   /* only `built` works yet; other values are refused with ZR_ERR_UNSUPPORTED */
    ZR_KEY_NO_MEANING /* DeepSpeed's; nothing here depends on it, and a note says so */
} zr_key_state;

typedef struct zr_key {
    const char *path; /* "train.steps"; a last "*" stands for all other keys of that object */
    zr_key_type type;
    zr_key_state state;
    double min, max;      /* INT, NUMBER, BYTES */
    const char *choices;  /* CHOICE, EITHER, STRING: "a|b|c", in the order of the enum */
    const char *built;    /* LIMITED: the values that work, "0" or "a|b" */
    const char *standard; /* the default as JSON */
    const char *help;     /* one line */
    const char *instead;  /* LIMITED: advice for users of the refused values, one line; NULL */
    size_t offset;        /* offset of its field in zr_config; SIZE_MAX: no field */
    unsigned only;        /* 1 << type of the optimizers or schedulers that have it; 0: all */
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
