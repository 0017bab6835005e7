/** systems, internal: plans of runs of other training systems. A run is a configuration of zr, whose keys name what all
 * systems have (model, batch, stage, tensor, pipeline, types, recompute, clipping, offload), and options of the system,
 * which have the names that the system itself uses.
 *
 * A system is a row of systems.c and a file of its own (deepspeed.c, fsdp2.c, ddp.c, trainer.c, megatron.c,
 * nanotron.c): its options as a table, what it cannot do, and the memory of its ranks. options.c finds options. model.c
 * walks the graph of the model, which is zr's, and asks the system what an op keeps. decoder.c builds decoders that no
 * family of zr has. memory.c finds the fullest rank and adds what is not allocated by tensors: the allocator, the
 * context, communicators. */
#ifndef ZR_SYSTEMS_SYSTEMS_H
#define ZR_SYSTEMS_SYSTEMS_H

#include "zr/config.h"
#include "zr/graph.h"
#include "zr/simulate.h"

/* ---- options --------------------------------------------------------------------------------- */

typedef enum zr__option_type {
    ZR__OPTION_BOOL,   /* true or false, as number 1 or 0 */
    ZR__OPTION_INT,    /* an integer, also in the form 5e8 */
    ZR__OPTION_REAL,   /* a real number */
    ZR__OPTION_CHOICE, /* one of the words in `choices`, as its index */
    ZR__OPTION_WORDS   /* some of the words in `choices`, separated by commas or blanks, as a set of bits */
} zr__option_type;

/** Option of a system, by its own name. */
typedef struct zr__option {
    const char *name;
    zr__option_type type;
    const char *standard; /* default of the system, in the form of a value; "auto" if the system computes it */
    const char *key;      /* key of zr with the same meaning, whose value counts if it is given; or NULL */
    double min, max;      /* INT, REAL: range */
    const char *choices;  /* CHOICE, WORDS: words as "a|b|c" */
    const char *help;     /* one line, with the version from which on the default holds if it changed */
} zr__option;

#define ZR__OPTIONS_MOST 48
#define ZR__OPTION_AUTO (-1.0) /* value of an option that is "auto" */

/* Rows of options. */
#define ZR__BOOL(name_, standard_, ...)                                                                                \
    {                                                                                                                  \
        .name = name_, .type = ZR__OPTION_BOOL, .standard = standard_, __VA_ARGS__                                     \
    }
#define ZR__INT(name_, standard_, min_, max_, ...)                                                                     \
    {                                                                                                                  \
        .name = name_, .type = ZR__OPTION_INT, .standard = standard_, .min = min_, .max = max_, __VA_ARGS__            \
    }
#define ZR__REAL(name_, standard_, min_, max_, ...)                                                                    \
    {                                                                                                                  \
        .name = name_, .type = ZR__OPTION_REAL, .standard = standard_, .min = min_, .max = max_, __VA_ARGS__           \
    }
#define ZR__CHOICE(name_, standard_, choices_, ...)                                                                    \
    {                                                                                                                  \
        .name = name_, .type = ZR__OPTION_CHOICE, .standard = standard_, .choices = choices_, __VA_ARGS__              \
    }
#define ZR__WORDS(name_, standard_, choices_, ...)                                                                     \
    {                                                                                                                  \
        .name = name_, .type = ZR__OPTION_WORDS, .standard = standard_, .choices = choices_, __VA_ARGS__               \
    }

/* Options of all systems: PyTorch's allocator and the workspaces of products. */
#define ZR__TORCH_OPTIONS                                                                                              \
    ZR__BOOL("expandable_segments", "false", .help = "of PYTORCH_CUDA_ALLOC_CONF: less is lost between blocks"),       \
        ZR__CHOICE("CUBLAS_WORKSPACE_CONFIG", "auto", ":4096:8|:4096:2:16:8|:16:8",                                    \
                   .help =                                                                                             \
                       "workspace of a stream: 32 MiB with :4096:8 and, by default, on H100 and later; 8 MiB with "    \
                       ":4096:2:16:8 and by default before")

/* Options of models of transformers (Hugging Face). */
#define ZR__TRANSFORMERS_OPTIONS                                                                                       \
    ZR__CHOICE("attn_implementation", "sdpa", "sdpa|flash_attention_2|eager", .help = "attention of the model"),       \
        ZR__BOOL("attention_mask", "false",                                                                            \
                 .help = "whether batches have padding: SDPA then expands keys and values, and keeps a mask"),         \
        ZR__BOOL("use_liger_kernel", "false", .help = "whether the head and the loss are fused, without logits"),      \
        ZR__BOOL("torch_compile", "false", .help = "whether inductor compiles the model")

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct zr__system zr__system;

/** Run of a system. `config` is resolved for `ranks` ranks, and borrowed. Its keys decide what zr has a key for: stage,
 * recompute, degrees and schedule of a pipeline. */
typedef struct zr__run {
    const zr__system *system;
    const zr_config *config;
    int64_t ranks;                  /* all ranks: data x context x tensor x pipeline */
    int64_t stage;                  /* ZeRO stage */
    double value[ZR__OPTIONS_MOST]; /* of the options, in the order of the table */
    bool given[ZR__OPTIONS_MOST];   /* whether --with gave it */
    bool hopper; /* whether the GPU is of the generation of H100 or later, with larger workspaces of products */
} zr__run;

/** Begin a run: take defaults, then keys of zr, then `with`, n texts in the form "NAME=VALUE". Then set the keys of the
 * configuration that the system decides: its usual stage if none is given, recompute and stages of a pipeline rank if
 * options say them, and no places of checkpoints, which it does not have. A note says which given keys have no effect.
 * The caller has set `hopper`. Fail with ZR_ERR_ARG, naming the option and what is possible. */
ZR_NODISCARD zr_status zr__run_begin(zr__run *run, const zr__system *system, zr_config *config, int64_t ranks,
                                     const char *const *with, int n);
/** Take another configuration, whose stage, recompute, degrees, micro-batches and offload may differ. */
void zr__run_follow(zr__run *run, const zr_config *config);
/** Set an option, as `--with` does. `value` is text. */
ZR_NODISCARD zr_status zr__run_set(zr__run *run, const char *name, const char *value);
/** Return whether `--with` gave an option. `name` may be NULL. */
bool zr__with_given(const zr__run *run, const char *name);
/** Return the value of an option of the run's system, which must exist: a number, 0 or 1, an index of a word, or
 * ZR__OPTION_AUTO. */
double zr__with(const zr__run *run, const char *name);
/** Return whether an option has this word (CHOICE), or contains it (WORDS). */
bool zr__with_word(const zr__run *run, const char *name, const char *word);
/** Write the value of an option into `text` in the form that zr__run_set takes. Return `text`. */
#define ZR__OPTION_BYTES 128
const char *zr__with_text(const zr__run *run, const zr__option *option, char text[ZR__OPTION_BYTES]);

/** Degrees of a run. dp is without cp, so that the ranks are dp * cp * tp * pp. Systems differ in what they shard over
 * dp * cp ranks. */
typedef struct zr__degrees {
    int64_t dp, cp, tp, pp, chunks;
} zr__degrees;
zr__degrees zr__degrees_of(const zr__run *run);

/* ---- memory ---------------------------------------------------------------------------------- */

/** Parts of the allocated memory of a rank. */
#define ZR__PART_LIST(X)                                                                                               \
    X(PARAMS, "parameters")                                                                                            \
    X(GRADS, "gradients")                                                                                              \
    X(STATES, "master and moments")                                                                                    \
    X(BUCKETS, "buckets")         /* of reductions, with flattened copies */                                           \
    X(GATHERED, "gathered units") /* whole parameters of units whose shards a rank has */                              \
    X(ACTIVATIONS, "activations") /* kept for the backward pass */                                                     \
    X(REDONE, "recomputed block") /* activations of the block that is recomputed */                                    \
    X(HEAD, "head")               /* logits, softmax and their gradients */                                            \
    X(TEMPS, "temporaries")       /* of optimizer and clipping */                                                      \
    X(WORKSPACE, "workspaces")    /* of matrix products */

typedef enum zr__part {
#define ZR__PART_ENUM(name, text) ZR__PART_##name,
    ZR__PART_LIST(ZR__PART_ENUM)
#undef ZR__PART_ENUM
        ZR__PARTS
} zr__part;

/** Moments of a step at which memory can be fullest. */
#define ZR__MOMENT_LIST(X)                                                                                             \
    X(LOSS, "loss")           /* all activations are kept, the head is computed */                                     \
    X(BACKWARD, "backward")   /* first backward pass of a block: all activations, few gradients */                     \
    X(END, "end of backward") /* all gradients, the activations of a block */                                          \
    X(STEP, "optimizer step")                                                                                          \
    X(START, "initialisation")  /* before the first step */                                                            \
    X(BETWEEN, "between steps") /* not a peak: what stays */

typedef enum zr__moment {
#define ZR__MOMENT_ENUM(name, text) ZR__MOMENT_##name,
    ZR__MOMENT_LIST(ZR__MOMENT_ENUM)
#undef ZR__MOMENT_ENUM
        ZR__MOMENTS
} zr__moment;

const char *zr__part_name(zr__part part);
const char *zr__moment_name(zr__moment moment);

/** Memory of a pipeline rank, in bytes. */
typedef struct zr__rank_memory {
    double part[ZR__MOMENTS][ZR__PARTS];
    double host; /* of its process: states that are offloaded */
} zr__rank_memory;

/** Set a part at all moments. */
void zr__part_set(zr__rank_memory *rank, zr__part part, double bytes);
/** Return the sum of the parts at a moment. */
double zr__moment_bytes(const zr__rank_memory *rank, zr__moment moment);
/** Return the moment at which the most is allocated; never BETWEEN. */
zr__moment zr__peak_moment(const zr__rank_memory *rank);

/** A number with the range in which it is expected. */
typedef struct zr__range {
    double low, bytes, high;
} zr__range;

/** Memory of a run. Numbers are of the fullest rank: allocated by tensors (torch.cuda.max_memory_allocated), reserved
 * by the allocator, and used as nvidia-smi shows it. */
typedef struct zr__run_memory {
    int32_t n, fullest; /* number of pipeline ranks, and the fullest of them */
    zr__rank_memory *rank;
    double allocated;
    zr__range reserved, used;
    double context, communicators; /* parts of `used` beside `reserved`; the number of communicators follows */
    int32_t n_communicators;
    double params; /* of the whole model */
} zr__run_memory;

/** Check that the degrees divide the ranks and that the system can do what the run asks (ZR_ERR_UNSUPPORTED). */
ZR_NODISCARD zr_status zr__run_possible(const zr__run *run);
/** Measure a run that is possible. */
ZR_NODISCARD zr_status zr__run_measure(const zr__run *run, zr__run_memory *memory);
void zr__run_memory_clear(zr__run_memory *memory);

/* ---- time ------------------------------------------------------------------------------------ */

/** How a system differs from zr in the time of a step. The plan is zr's for the same layout. 0 means no difference. */
typedef struct zr__speed {
    /* shares of the peak FLOP/s that products and attention reach on an H100; a device whose generation sustains less
     * reaches less in proportion */
    double product_share, attention_share;
    double scores_bytes;                            /* zr_cluster.scores_bytes */
    double pass_factor, update_factor, cast_factor; /* of zr_cluster */
    double tensor_factor, reduce_factor;            /* of zr_cluster */
    double network_share;                           /* share of the network's rate that exchanges reach */
    double hop_sec;       /* latency between neighbours of a ring; 0 for that of the network, once for each host */
    double extra_sec;     /* seconds of a step that no formula tells */
    int32_t product_bits; /* of products of layers, or 0 for 16 */
    bool sequence;        /* with tensor parallelism: norms on a rank's own tokens */
    bool each_micro;      /* ranks reduce gradients in each micro-batch, not once a step */
    bool reduce_f32;      /* gradients are exchanged in fp32 */
    bool exposed;         /* exchanges of states do not overlap with computing */
    bool hides_gather;    /* parameters are gathered during the next step's first micro-batch */
} zr__speed;

/** Change a copy of the run's configuration, and the cluster on which the run takes place, so that zr's planner and
 * simulator give the time of the run's step. Fail with ZR_ERR_UNSUPPORTED if the run's model is none of zr's families,
 * or the system's time is not known. */
ZR_NODISCARD zr_status zr__run_place(const zr__run *run, zr__speed *speed, zr_config *config, zr_cluster *cluster);
/** Finish a simulation of what zr__run_place made: subtract what overlaps with the next step, and add extra_sec. */
void zr__run_timed(const zr__speed *speed, int64_t micro_batches, zr_simulation *made);

/* ---- systems --------------------------------------------------------------------------------- */

/* model.h */
typedef struct zr__model zr__model;
typedef struct zr__keeps zr__keeps;
typedef struct zr__decoder zr__decoder;

struct zr__system {
    const char *name, *title;
    unsigned stages; /* ZeRO stages that the system has, as bits: 1 << stage */
    int64_t usual_stage;
    unsigned schedules;       /* schedules of pipelines that the system has, as bits: 1 << zr_pipe_schedule */
    const char *other_stages; /* what to use for other stages, as a remedy in messages */
    const char *version;      /* versions whose sources the formulas were read from */
    const zr__option *option; /* ends with a row without name */
    /** What no measured row proves, as a sentence for the output; NULL if rows prove it. */
    const char *unproved;
    const char *why[ZR__PARTS]; /* for a part, why it has its size, in a few words; or NULL */
    /** Fill in how fast the system is. `speed` is zeros. */
    void (*speed)(const zr__run *run, zr__speed *speed);
    /** What rows prove about the time of a step, as a sentence for the output. */
    const char *timed;
    /** Names of the options that hold the degree of context parallelism and the number of stages of a pipeline rank, or
     * NULL if the system has none. */
    const char *context_option, *chunks_option;
    const char *recompute_option; /* another name of activation_checkpointing.policy, with the value full for unit */
    /** Fail with ZR_ERR_UNSUPPORTED if the system cannot do what the run asks, with a remedy. */
    zr_status (*check)(const zr__run *run);
    /** Say how the system runs the model. `room` may take the sizes of a decoder, to which keeps->decoder then points.
     */
    zr_status (*keeps)(const zr__run *run, zr__keeps *keeps, zr__decoder *room);
    /** Fill the memory of a pipeline rank, all parts but the workspaces. */
    void (*memory)(const zr__run *run, const zr__model *model, int64_t pipe_rank, zr__rank_memory *rank);
    /** Return the factors reserved / allocated. */
    zr__range (*fragmentation)(const zr__run *run);
    /** Return the number of communicators of a rank. NULL: one for each degree above 1. */
    int32_t (*communicators)(const zr__run *run);
};

/** Return the i-th system, or NULL after the last. zr itself is no row. */
const zr__system *zr__system_at(int i);
/** Find a system by its name. Fail with ZR_ERR_ARG and the names in the message. */
ZR_NODISCARD zr_status zr__system_find(const char *name, const zr__system **system);

#endif
