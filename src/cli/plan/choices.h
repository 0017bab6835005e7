/** Stages and recompute policies of one configuration, planned and priced side by side (choices.c), and printed: speed
 * (speed.c), advice (advice.c), traffic of tensor parallelism (within_layers.c).
 */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "cli/plan/table.h"
#include "base/json/json_write.h"
#include "cli/plan/target.h"
#include "plan/cost/cost.h"

#define CLI_MANY_LAYERS 512 /* more are planned as configured only: planning time grows with the square */
#define CLI_SPACINGS 64     /* most units between kept inputs that are tried */
#define CLI_CHOICES (64 + CLI_SPACINGS)
#define CLI_MOST_RANKS (1 << 20) /* ranks up to which the advice looks for more ranks */

/** Reductions of memory that cost overlap; each includes those before it. */
typedef enum cli_light {
    CLI_LIGHT_NONE,     /* as configured */
    CLI_LIGHT_PREFETCH, /* no prefetch at stage 3: stage3_prefetch_bucket_size 0 */
    CLI_LIGHT_OVERLAP,  /* overlap_comm false: one unit and one gradient at a time */
    CLI_LIGHT_BUCKETS,  /* buckets of light_elems elements at most */
    CLI_LIGHTS
} cli_light;
#define CLI_LIGHT_ELEMS (1 << 20)
#define CLI_LIGHT_STEPS 16384

/** Place of activation checkpoints. */
typedef struct cli_kept {
    bool pieces, host; /* zr_layout's partition_checkpoints, offload_checkpoints */
} cli_kept;

typedef struct cli_choice {
    int stage;
    cli_light light;
    zr_recompute recompute;
    int64_t every;
    cli_kept asked, kept; /* asked: by the layout; kept: in the plan, where policy auto has chosen */
    cli_trial made;
    zr__fullest fullest;
} cli_choice;

/** Search for more ranks where nothing fits: stage 3 with recompute unit on the fewest ranks that fit, or on the number
 * from which more ranks hardly help. */
typedef struct cli_more_ranks {
    int ranks; /* 0: not known */
    int64_t needs_bytes;
    bool fits, all; /* `all`: the cluster has no devices for more ranks */
} cli_more_ranks;

typedef struct cli_choices {
    const cli_target *target; /* set this, `chosen` and `tokens`, then plan */
    bool chosen;              /* the configured choice was made for the memory (zr__train_choose) */
    double peak_flops;        /* peak FLOP/s of a rank in the type of its products; 0: not known */
    double tokens;            /* tokens to train on; 0: not asked */
    int64_t light_elems;      /* elements of a bucket of CLI_LIGHT_BUCKETS */
    int64_t step_tokens;      /* tokens of a step of all ranks */
    bool shares_layers;       /* ranks are tensor-parallel */
    cli_kept base;            /* as configured */
    bool many_layers;
    bool compute_known, link_known; /* the rates are known, without which there are no times */
    cli_choice choice[CLI_CHOICES];
    int n;
    int configured, advised; /* -1: nothing fits */
    zr_status failed;        /* the first failure of a plan that is more than a refusal */
    int most_ranks;          /* ranks that the target has devices for */
    cli_more_ranks more;
} cli_choices;

/** Plan stages 0 to 3 with recompute none, selective and unit (with tensor parallelism also with partitioned
 * checkpoints, Pa, and for unit with these on the host, Pa+cpu), the configured policy, and auto where the limit leaves
 * it a choice; spacings: unit with every k as well. A model of more than CLI_MANY_LAYERS layers is planned as
 * configured only. Errors of the configured plan, and of any other plan that is not merely refused. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings);
/** Fill a table with the stages that could be planned with the configured recompute policy. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** Write a choice's recompute policy and, with tensor parallelism, place of checkpoints: "unit/2 Pa". Returns `text`.
 */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choices *choices, const cli_choice *c, char text[CLI_CHOICE_BYTES]);
/** Write the keys that ask for a choice's place of checkpoints, ", activation_checkpointing.partition_activations
 * true"; "" where it is configured or chosen by policy auto. Returns `text`. */
#define CLI_KEPT_BYTES 128
const char *cli_kept_words(const cli_choices *choices, const cli_choice *c, char text[CLI_KEPT_BYTES]);
/** Return the keys of a reduction, ", stage3_prefetch_bucket_size 0 and overlap_comm false", "" for none; in room or a
 * constant. */
const char *cli_light_words(const cli_choices *choices, cli_light light, char room[128]);
/** Find the bytes that a rank needs at stage 3 with recompute unit and the lightest of cli_light. */
ZR_NODISCARD zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks,
                                         int64_t *bytes);

/** Print the choices as lines of at most 80 columns, with bars of the memory by category. */
void cli_bars_print(FILE *out, const cli_choices *choices, bool color);

/** Print tokens a second, the share of the peak (MFU) and, with `tokens`, days, of the configured and the advised
 * choice, where times are known. */
void cli_speed_print(FILE *out, const cli_choices *choices);
/** Add these figures of a choice as members of the open object, null where not known. */
void cli_speed_json(zr__json_out *out, const cli_choices *choices, const cli_choice *c);

/** Print the advised choice and its reasons, or ways to make it fit, as a paragraph. */
ZR_NODISCARD zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config);
/** Add members "profile", "limit", "time", "choices", "advice" and, where nothing fits, "more_ranks" to the open
 * object.
 */
void cli_advice_json(zr__json_out *out, const cli_choices *choices);

/* ---- traffic between tensor-parallel ranks --------------------------------------------------- */

/** Print, with parallel.tensor above 1, the bytes that tensor-parallel ranks receive from each other in a step: their
 * ratio to stage 3's traffic if all ranks were data-parallel instead (the papers' b s / (3 h) counts the blocks alone,
 * with 12 b s h a block, as policy paper does), their purposes, and the parameters that each tensor-parallel rank has
 * whole. */
ZR_NODISCARD zr_status cli_within_print(FILE *out, const zr_config *config, const zr_plan *plan,
                                        const zr_profile *profile);
/** Add these figures as members of the open object: tensor_to_stage3 (null: stage 3 cannot be planned), within_layers,
 * replicated. */
ZR_NODISCARD zr_status cli_within_json(zr__json_out *out, const zr_config *config, const zr_plan *plan,
                                       const zr_profile *profile);

/** Return the bytes that a rank takes beside its plan's total, in words (zr__rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);

#endif
