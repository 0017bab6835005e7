/** Compare the ZeRO stages and recompute policies for one configuration. A choice is a stage with a policy, planned and
 * priced (choices.c). speed.c prints the speed of choices, advice.c prints advice, and within_layers.c prints the
 * traffic of tensor parallelism. */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "cli/plan/table.h"
#include "base/json/json_write.h"
#include "cli/plan/target.h"
#include "plan/cost/cost.h"
#include "train/setup/setup.h"

#define CLI_MANY_LAYERS 512 /* models with more layers are planned only as configured, because plans take long */
#define CLI_SPACINGS 64     /* maximum planned spacing of checkpoints, in units */
#define CLI_CHOICES (64 + CLI_SPACINGS)
#define CLI_MOST_RANKS (1 << 20) /* with more configured ranks, the advice does not search for a number that fits */

/** Ways to save memory at the cost of overlap. Each value also applies all earlier values. */
typedef enum cli_light {
    CLI_LIGHT_NONE,     /* as configured */
    CLI_LIGHT_PREFETCH, /* stage3_prefetch_bucket_size 0: no prefetch at stage 3 */
    CLI_LIGHT_OVERLAP,  /* overlap_comm false: only one unit and one gradient are in flight at a time */
    CLI_LIGHT_BUCKETS,  /* buckets of at most cli_choices.light_elems elements */
    CLI_LIGHTS
} cli_light;
#define CLI_LIGHT_ELEMS (1 << 20)
#define CLI_LIGHT_STEPS 16384

/** Place of activation checkpoints. */
typedef struct cli_kept {
    bool pieces;   /* whether checkpoints are partitioned */
    zr_space home; /* space in which they are stored */
} cli_kept;

typedef struct cli_choice {
    int stage;
    cli_light light;
    zr_recompute recompute;
    int64_t every;
    /* Places of checkpoints: `asked` as requested, `kept` as planned. Policy auto may plan another place than
     * requested. */
    cli_kept asked, kept;
    cli_trial made;
    zr__fullest fullest;
} cli_choice;

/** Result of the search for a larger number of ranks, which is done if no choice fits. The search plans stage 3 with
 * recompute unit and CLI_LIGHT_BUCKETS. `ranks` is the smallest number that fits. If no number fits, `ranks` is the
 * last number tried: a larger number would hardly help, or the cluster has no more devices. */
typedef struct cli_more_ranks {
    int ranks; /* number of ranks, or 0 if unknown */
    int64_t needs_bytes;
    /* `fits`: whether the plan fits; `all`: whether the search stopped because the cluster has no more devices */
    bool fits, all;
} cli_more_ranks;

/** Result of the search for an offload, which is done if no choice fits and nothing is offloaded. The
 * search plans stage 3 with recompute unit and CLI_LIGHT_BUCKETS. */
typedef struct cli_away {
    zr__offload offload; /* first degree of offload that fits, or ZR__OFFLOAD_NONE if none fits */
    zr_config_home device;
    int64_t needs_bytes, away_bytes; /* bytes that a rank needs, and bytes of a rank in host memory or on disk */
} cli_away;

typedef struct cli_choices {
    /* Machine for which choices are planned. The caller sets `target`, `chosen` and `tokens` before planning. */
    const cli_target *target;
    bool chosen;         /* whether zr__train_choose set keys of the configured choice to fit the memory */
    const char *origin;  /* origin of the configured choice: "configured", "chosen" or "default" */
    double peak_flops;   /* peak FLOP/s of a rank in the data type of matrix products, or 0 if unknown */
    double tokens;       /* tokens to train on, or 0 if not given */
    int64_t light_elems; /* bucket size for CLI_LIGHT_BUCKETS, in elements */
    int64_t step_tokens; /* tokens of a step, over all ranks */
    bool shares_layers;  /* whether the tensor-parallel degree is above 1 */
    cli_kept base;       /* configured place of checkpoints */
    bool many_layers;
    /* Whether FLOP/s and the link's bandwidth are known. The time of a step needs both. */
    bool compute_known, link_known;
    cli_choice choice[CLI_CHOICES];
    int n;
    int configured, advised; /* indices into `choice`; `advised` is -1 if no choice fits */
    /** Error that ended the planning, or ZR_OK. A choice that the planner refuses is left out, and is an error only if
     * it is the configured choice. */
    zr_status failed;
    int most_ranks; /* maximum number of ranks that the search for `more` tries */
    cli_more_ranks more;
    cli_away away;
} cli_choices;

/** Plan stages 0 to 3, each with recompute none, selective, unit and the configured policy. Add policy auto where a
 * mixture of policies may fit the memory limit. With tensor parallelism, add partitioned checkpoints (Pa) and, for
 * recompute unit, partitioned checkpoints on the host (Pa+cpu). With `spacings`, add recompute unit with a checkpoint
 * at every 2nd, 3rd ... unit. Plan a model with more than CLI_MANY_LAYERS layers only as configured. Return an error if
 * the configured plan is refused, or if any plan fails for another reason. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings);
/** Fill a table with the choices that differ from the configured choice only in the stage. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** Write the recompute policy of a choice, such as "unit/2", into `text`. With tensor parallelism, add the place of
 * checkpoints, as in "unit/2 Pa". Return `text`. */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choices *choices, const cli_choice *c, char text[CLI_CHOICE_BYTES]);
/** Write the keys that set a choice's place of checkpoints into `text`, such as ",
 * activation_checkpointing.partition_activations true". Write "" if the place is configured or if policy auto chooses
 * it. Return `text`. */
#define CLI_KEPT_BYTES 128
const char *cli_kept_words(const cli_choices *choices, const cli_choice *c, char text[CLI_KEPT_BYTES]);
/** Return the keys that `light` sets, such as ", stage3_prefetch_bucket_size 0", or "" for CLI_LIGHT_NONE. The text may
 * be stored in `room`. */
const char *cli_light_words(const cli_choices *choices, cli_light light, char room[128]);
/** Find the fewest bytes that a rank can need with `ranks` ranks. Plan stage 3 with recompute unit and
 * CLI_LIGHT_BUCKETS. */
ZR_NODISCARD zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks,
                                         int64_t *bytes);

/** Print a line of at most 80 columns for each choice, with a bar that shows its memory by category. */
void cli_bars_print(FILE *out, const cli_choices *choices, bool color);

/** Print tokens per second and MFU of the configured choice and of the advised choice. If the number of tokens is
 * given, also print the days of training. If times are unknown, print no speed. */
void cli_speed_print(FILE *out, const cli_choices *choices);
/** Add the members "tokens_per_sec" and "mfu" to the open object. If the number of tokens is given, also add "steps"
 * and "days". An unknown member is null. */
void cli_speed_json(zr__json_out *out, const cli_choices *choices, const cli_choice *c);

/** Print the traffic and the memory of both orders of micro-batches (train.accumulation_order), for the configured
 * choice. Print nothing if the orders do not differ: with one micro-batch per step, below stage 3, or with one
 * data-parallel rank. Also print nothing if the other order cannot be planned, or if planning it would take too long.
 */
ZR_NODISCARD zr_status cli_order_print(FILE *out, const zr_config *config, const cli_choices *choices);

/** Print a paragraph that advises a choice and gives reasons. If no choice fits, print ways to make the configuration
 * fit. */
ZR_NODISCARD zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config);
/** Add the members "profile", "limit", "time", "needs", "fits", "choices" and "advice" to the open object. If no choice
 * fits, "advice" is null, and the members "more_ranks" and "offload_fits" may follow. */
void cli_advice_json(zr__json_out *out, const cli_choices *choices);

/* ---- traffic between tensor-parallel ranks --------------------------------------------------- */

/** Print the bytes that a rank receives from other tensor-parallel ranks in a step, by purpose. Print their ratio to
 * the traffic of stage 3 without tensor parallelism on the same ranks. Beside it, print the papers' estimate of the
 * ratio, b s / (3 h), for b samples of s tokens and width h. The estimate counts only the blocks, with 12 b s h
 * elements per block. Print the parameters that are replicated on all tensor-parallel ranks. If parallel.tensor is 1,
 * print nothing. */
ZR_NODISCARD zr_status cli_within_print(FILE *out, const zr_config *config, const zr_plan *plan,
                                        const zr_profile *profile);
/** Add the members "tensor_to_stage3", "within_layers" and "replicated" to the open object. "tensor_to_stage3" is null
 * if stage 3 cannot be planned. If parallel.tensor is 1, add nothing. */
ZR_NODISCARD zr_status cli_within_json(zr__json_out *out, const zr_config *config, const zr_plan *plan,
                                       const zr_profile *profile);

/** Return the memory that a rank needs in addition to its plan, in words such as "1.07 GB" (see zr__rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);

#endif
