/** Stages and recompute policies of one configuration, planned and priced side by side (choices.c). speed.c prints
 * their speed, advice.c advice, within_layers.c the traffic of tensor parallelism. */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "cli/plan/table.h"
#include "base/json/json_write.h"
#include "cli/plan/target.h"
#include "plan/cost/cost.h"

#define CLI_MANY_LAYERS 512 /* larger models are planned only as configured, because more plans take too long */
#define CLI_SPACINGS 64     /* largest k for which keeping the input of every k-th unit is tried */
#define CLI_CHOICES (64 + CLI_SPACINGS)
#define CLI_MOST_RANKS (1 << 20) /* most ranks for which the advice looks for more ranks */

/** Reductions of memory that cost overlap. Each reduction includes the reductions before it. */
typedef enum cli_light {
    CLI_LIGHT_NONE,     /* as configured */
    CLI_LIGHT_PREFETCH, /* no prefetch at stage 3: stage3_prefetch_bucket_size 0 */
    CLI_LIGHT_OVERLAP,  /* overlap_comm false: one unit and one gradient at a time */
    CLI_LIGHT_BUCKETS,  /* buckets of at most light_elems elements */
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
    cli_kept asked, kept; /* `asked` is the place in the layout; `kept` is the place in the plan, which policy auto may
                             have chosen */
    cli_trial made;
    zr__fullest fullest;
} cli_choice;

/** Result of the search for more ranks if nothing fits: stage 3 with recompute unit on the fewest ranks that fit, or on
 * the number of ranks beyond which more ranks hardly help. */
typedef struct cli_more_ranks {
    int ranks; /* 0 if not known */
    int64_t needs_bytes;
    bool fits, all; /* `all`: whether the cluster has no devices for more ranks */
} cli_more_ranks;

typedef struct cli_choices {
    const cli_target *target; /* the caller sets `target`, `chosen` and `tokens` before planning */
    bool chosen;              /* whether zr__train_choose made the configured choice to fit the memory */
    double peak_flops;        /* peak FLOP/s of a rank in the type of its products, or 0 if not known */
    double tokens;            /* tokens to train on, or 0 if not given */
    int64_t light_elems;      /* elements of a bucket with CLI_LIGHT_BUCKETS */
    int64_t step_tokens;      /* tokens of a step, of all ranks together */
    bool shares_layers;       /* whether ranks are tensor-parallel */
    cli_kept base;            /* configured place of checkpoints */
    bool many_layers;
    bool compute_known, link_known; /* whether these rates are known; times need them */
    cli_choice choice[CLI_CHOICES];
    int n;
    int configured, advised; /* indices of choices; `advised` is -1 if nothing fits */
    zr_status failed;        /* first failure of a plan other than a refusal, or ZR_OK */
    int most_ranks;          /* most ranks for which the target has devices */
    cli_more_ranks more;
} cli_choices;

/** Plan stages 0 to 3 with recompute none, selective and unit, with the configured policy and, if the limit leaves it a
 * choice, with auto. With tensor parallelism, also plan partitioned checkpoints (Pa) and, for unit, partitioned
 * checkpoints on the host (Pa+cpu). With `spacings`, also plan unit with every k. A model with more than
 * CLI_MANY_LAYERS layers is planned only as configured. Return the error of the configured plan, or of another plan
 * that failed for a reason other than a refusal. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings);
/** Fill a table with the stages that could be planned with the configured recompute policy. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** Write a choice's recompute policy and, with tensor parallelism, the place of its checkpoints, such as "unit/2 Pa",
 * into `text`. Return `text`. */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choices *choices, const cli_choice *c, char text[CLI_CHOICE_BYTES]);
/** Write the keys that set a choice's place of checkpoints, such as ", activation_checkpointing.partition_activations
 * true", or "" if the place is configured or chosen by policy auto, into `text`. Return `text`. */
#define CLI_KEPT_BYTES 128
const char *cli_kept_words(const cli_choices *choices, const cli_choice *c, char text[CLI_KEPT_BYTES]);
/** Return the keys of a reduction, such as ", stage3_prefetch_bucket_size 0 and overlap_comm false", or "" for no
 * reduction. The text is in `room` or constant. */
const char *cli_light_words(const cli_choices *choices, cli_light light, char room[128]);
/** Find the bytes that a rank needs at stage 3 with recompute unit and all reductions of cli_light. */
ZR_NODISCARD zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks,
                                         int64_t *bytes);

/** Print the choices in lines of at most 80 columns, with bars of the memory by category. */
void cli_bars_print(FILE *out, const cli_choices *choices, bool color);

/** Print, for the configured and the advised choice, tokens a second, the share of the peak (MFU) and, with `tokens`,
 * days. Print nothing if times are not known. */
void cli_speed_print(FILE *out, const cli_choices *choices);
/** Add a choice's tokens a second, MFU and days as members of the open object, null if not known. */
void cli_speed_json(zr__json_out *out, const cli_choices *choices, const cli_choice *c);

/** Print the advised choice and its reasons, or ways to make the configuration fit, as a paragraph. */
ZR_NODISCARD zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config);
/** Add the members "profile", "limit", "time", "choices", "advice" and, if nothing fits, "more_ranks" to the open
 * object. */
void cli_advice_json(zr__json_out *out, const cli_choices *choices);

/* ---- traffic between tensor-parallel ranks --------------------------------------------------- */

/** Print, for parallel.tensor above 1, the bytes that tensor-parallel ranks receive from each other in a step: their
 * purposes, and their ratio to the traffic of stage 3 if all ranks were data-parallel. (The papers' ratio b s / (3 h)
 * counts only the blocks, with 12 b s h a block, as policy paper does.) Also print the parameters that are whole on
 * each tensor-parallel rank. */
ZR_NODISCARD zr_status cli_within_print(FILE *out, const zr_config *config, const zr_plan *plan,
                                        const zr_profile *profile);
/** Add the traffic between tensor-parallel ranks to the open object: tensor_to_stage3 (null if stage 3 cannot be
 * planned), within_layers and replicated. */
ZR_NODISCARD zr_status cli_within_json(zr__json_out *out, const zr_config *config, const zr_plan *plan,
                                       const zr_profile *profile);

/** Return in words how many bytes a rank needs besides its plan's total (see zr__rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);

#endif
