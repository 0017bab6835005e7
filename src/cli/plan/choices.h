/** Compare the ZeRO stages and recompute policies for one configuration, and advise. A choice is a stage with a policy,
 * planned and priced by train/choose, which also finds the advised choice. choices.c prints the speed of choices and
 * the orders of micro-batches, advice.c prints advice, and within_layers.c the traffic of tensor parallelism. */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "base/json/json_write.h"
#include "cli/plan/table.h"
#include "cli/plan/target.h"

#define CLI_MANY_LAYERS 512      /* models with more layers are planned only as configured, because plans take long */
#define CLI_MOST_RANKS (1 << 20) /* with more configured ranks, the advice does not search for a number that fits */

typedef zr__tried cli_choice;

/** Result of the search for a larger number of ranks, which is done if nothing fits. The search plans stage 3 with
 * recompute unit and ZR__LIGHT_BUCKETS. `ranks` is the smallest number that fits. If no number fits, `ranks` is the
 * last number tried: a larger number would hardly help, or the cluster has no more devices. */
typedef struct cli_more_ranks {
    int ranks; /* number of ranks, or 0 if unknown */
    int64_t needs_bytes;
    /* `fits`: whether the plan fits; `all`: whether the search stopped because the cluster has no more devices */
    bool fits, all;
} cli_more_ranks;

typedef struct cli_choices {
    /* `target`: machine for which choices are planned. `question`: the question of the advice; question.config is the
     * configuration before any choice. `found`: the answer, if the question has been answered already (`answered`). The
     * caller sets `target`, `question`, `found`, `answered` and `tokens` before planning. */
    const cli_target *target;
    zr__question question;
    zr__choices found;
    bool answered;
    double tokens; /* tokens to train on, or 0 if not given */

    zr__train_target where;
    const zr_config *config;
    const char *origin; /* origin of the configured choice: "configured", "chosen" or "default" */
    double peak_flops;  /* peak FLOP/s of a rank in the data type of matrix products, or 0 if unknown */
    bool shares_layers; /* whether the tensor-parallel degree is above 1 */
    bool many_layers;
    /* Whether FLOP/s and the link's bandwidth are known. The time of a step needs both. */
    bool compute_known, link_known;
    cli_choice **choice; /* the list, of n choices */
    int n;
    int configured, advised; /* indices into `choice`; `advised` is -1 if no choice fits */
    int most_ranks;          /* maximum number of ranks that the search for `more` tries */
    cli_more_ranks more;
} cli_choices;

/** Return the keys that are free in the question of the advice: stage, policy, and the keys of micro-batch and offload
 * that neither the file nor the command line gives. `batch` tells whether a micro-batch is given. */
zr__free cli_choices_free(const zr_config *config, const cli_target *target, bool batch);
/** Plan the list of choices (zr__choices_list), and find the advised choice. Plan a model with more than
 * CLI_MANY_LAYERS layers only as configured. Return an error if the configured plan is refused, or if any plan fails
 * for another reason. Clear the choices in any case. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings);
void cli_choices_clear(cli_choices *choices);
/** Fill a table with the choices that differ from the configured choice only in the stage. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** Write the recompute policy of a choice, such as "unit/2", into `text`. With `placed`, add the place of checkpoints,
 * as in "unit/2 Pa". Return `text`. */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choice *c, bool placed, char text[CLI_CHOICE_BYTES]);
/** Return whether a choice has other micro-batches or homes of states than configured. */
bool cli_choice_differs(const cli_choices *choices, const cli_choice *c);
/** Return an object of the keys of a choice besides its stage, policy and place of checkpoints, or NULL without memory.
 */
struct json_t *cli_choice_keys(const cli_choices *choices, const cli_choice *c);
/** Return the tokens of a step of a choice, over all ranks. */
int64_t cli_choice_tokens(const cli_choices *choices, const cli_choice *c);
/** Find the fewest bytes that a rank can need with `ranks` ranks. Plan stage 3 with recompute unit and
 * ZR__LIGHT_BUCKETS. */
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

/** Print a paragraph that advises a choice, with its keys and reasons. If nothing fits, print ways to make the
 * configuration fit. */
ZR_NODISCARD zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config);
/** Add the members "profile", "limit", "time", "needs", "fits", "choices" and "advice" to the open object. If nothing
 * fits, "advice" is null, and the member "more_ranks" may follow. */
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
