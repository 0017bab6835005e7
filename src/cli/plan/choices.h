/** Choices: the stages and recompute policies for one configuration, planned and priced side by side (choices.c).
 * speed.c prints the choices' speed, advice.c prints advice, and within_layers.c prints the traffic of tensor
 * parallelism. */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "cli/plan/table.h"
#include "base/json/json_write.h"
#include "cli/plan/target.h"
#include "plan/cost/cost.h"

#define CLI_MANY_LAYERS 512 /* larger models are planned only as configured, because more plans take too long */
#define CLI_SPACINGS 64     /* largest k for which keeping the input of only every k-th unit is planned */
#define CLI_CHOICES (64 + CLI_SPACINGS)
#define CLI_MOST_RANKS (1 << 20) /* maximum number of ranks that the advice suggests */

/** Reductions of memory that cost overlap. Each reduction includes all earlier reductions in the list. */
typedef enum cli_light {
    CLI_LIGHT_NONE,     /* no reduction */
    CLI_LIGHT_PREFETCH, /* no prefetch at stage 3: stage3_prefetch_bucket_size 0 */
    CLI_LIGHT_OVERLAP,  /* overlap_comm false: only one unit and one gradient are in flight at a time */
    CLI_LIGHT_BUCKETS,  /* buckets of at most light_elems elements */
    CLI_LIGHTS
} cli_light;
#define CLI_LIGHT_ELEMS (1 << 20)
#define CLI_LIGHT_STEPS 16384

/** Place of activation checkpoints. */
typedef struct cli_kept {
    bool pieces, host; /* partition_checkpoints and offload_checkpoints of zr_layout */
} cli_kept;

typedef struct cli_choice {
    int stage;
    cli_light light;
    zr_recompute recompute;
    int64_t every;
    cli_kept asked, kept; /* place of checkpoints in the layout (`asked`) and in the plan (`kept`), which differ if
                             policy auto chooses the place */
    cli_trial made;
    zr__fullest fullest;
} cli_choice;

/** Result of the search for more ranks, which is done if no choice fits. The search plans stage 3 with recompute unit.
 * It finds the fewest ranks that fit, or else the number of ranks beyond which more ranks hardly help. */
typedef struct cli_more_ranks {
    int ranks; /* 0 if unknown */
    int64_t needs_bytes;
    bool fits, all; /* `all` tells whether the cluster has no devices for more ranks */
} cli_more_ranks;

typedef struct cli_choices {
    const cli_target *target; /* the caller sets `target`, `chosen` and `tokens` before planning */
    bool chosen;              /* whether zr__train_choose chose keys of the configured choice to fit the memory */
    double peak_flops;        /* peak FLOP/s of a rank in the data type of its products, or 0 if unknown */
    double tokens;            /* tokens to train on, or 0 if not given */
    int64_t light_elems;      /* elements of a bucket with CLI_LIGHT_BUCKETS */
    int64_t step_tokens;      /* tokens of all ranks in a step */
    bool shares_layers;       /* whether there is tensor parallelism */
    cli_kept base;            /* configured place of checkpoints */
    bool many_layers;
    bool compute_known, link_known; /* whether the rates of computation and of links are known; times need both rates */
    cli_choice choice[CLI_CHOICES];
    int n;
    int configured, advised; /* indices into `choice`; `advised` is -1 if no choice fits */
    zr_status failed;        /* error of the first plan that failed for a reason other than a refusal, or ZR_OK */
    int most_ranks;          /* maximum number of ranks for which the target has devices */
    cli_more_ranks more;
} cli_choices;

/** Plan stages 0 to 3 with recompute none, selective and unit. Also plan the configured policy and, if the memory
 * limit allows a mixture of policies, auto. With tensor parallelism, also plan partitioned checkpoints (Pa) and, for
 * unit, partitioned checkpoints on the host (Pa+cpu). With `spacings`, also plan unit with each k up to CLI_SPACINGS.
 * A model with more than CLI_MANY_LAYERS layers is planned only as configured. Return the error of the configured
 * plan, or of another plan that failed for a reason other than a refusal. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings);
/** Fill a table with the stages that could be planned with the configured recompute policy. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** Write the recompute policy of a choice into `text`. With tensor parallelism, add the place of its checkpoints, as
 * in "unit/2 Pa". Return `text`. */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choices *choices, const cli_choice *c, char text[CLI_CHOICE_BYTES]);
/** Write into `text` the keys that set a choice's place of checkpoints, such as ",
 * activation_checkpointing.partition_activations true". Write "" if the place is configured or if policy auto chose
 * it. Return `text`. */
#define CLI_KEPT_BYTES 128
const char *cli_kept_words(const cli_choices *choices, const cli_choice *c, char text[CLI_KEPT_BYTES]);
/** Return the keys that a reduction sets, such as ", stage3_prefetch_bucket_size 0 and overlap_comm false", or "" for
 * no reduction. The text is either in `room` or constant. */
const char *cli_light_words(const cli_choices *choices, cli_light light, char room[128]);
/** Find the bytes that a rank needs at stage 3 with recompute unit and with all reductions of cli_light. */
ZR_NODISCARD zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks,
                                         int64_t *bytes);

/** Print the choices in lines of at most 80 columns, each with a bar that shows its memory by category. */
void cli_bars_print(FILE *out, const cli_choices *choices, bool color);

/** Print the speed of the configured choice and of the advised choice: tokens per second, the share of the peak (MFU)
 * and, if the number of tokens is given, days. Print nothing if times are unknown. */
void cli_speed_print(FILE *out, const cli_choices *choices);
/** Add a choice's tokens per second, MFU and days as members to the open object. A member is null if unknown. */
void cli_speed_json(zr__json_out *out, const cli_choices *choices, const cli_choice *c);

/** Print a paragraph on the advised choice and the reasons for it. If no choice fits, print ways to make the
 * configuration fit. */
ZR_NODISCARD zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config);
/** Add the members "profile", "limit", "time", "choices" and "advice" to the open object. If no choice fits, also add
 * "more_ranks". */
void cli_advice_json(zr__json_out *out, const cli_choices *choices);

/* ---- traffic between tensor-parallel ranks --------------------------------------------------- */

/** If parallel.tensor is above 1, print the bytes that a rank receives from other tensor-parallel ranks in a step: by
 * purpose, and as a ratio to the traffic of stage 3 if all ranks were data-parallel. (The papers' ratio b s / (3 h)
 * counts only the blocks, with 12 b s h per block, as policy paper does.) Also print the parameters that are whole on
 * each tensor-parallel rank. */
ZR_NODISCARD zr_status cli_within_print(FILE *out, const zr_config *config, const zr_plan *plan,
                                        const zr_profile *profile);
/** Add the traffic between tensor-parallel ranks to the open object: the members tensor_to_stage3 (null if stage 3
 * cannot be planned), within_layers and replicated. */
ZR_NODISCARD zr_status cli_within_json(zr__json_out *out, const zr_config *config, const zr_plan *plan,
                                       const zr_profile *profile);

/** Return in words how many bytes a rank needs in addition to the total of its plan (see zr__rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);

#endif
