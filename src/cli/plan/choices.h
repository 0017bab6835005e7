/** A call of `zr plan`: its question, the answer, and the list of ZeRO stages with recompute policies. A choice is a
 * stage with a policy, planned and priced by train/choose, which also finds the advised choice. choices.c makes the
 * list. speed.c prints the speed of choices and the orders of micro-batches, advice.c prints advice, and
 * within_layers.c the traffic of tensor parallelism. */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "base/json/json_write.h"
#include "cli/formats/formats.h"
#include "cli/plan/brief.h"
#include "cli/plan/max.h"
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

typedef struct cli_plan_options {
    cli_brief brief;
    const char *max, *svg, *html, *profile, *cluster, *from, *emit, *out;
    const char *line; /* the command line, for --html */
    int64_t ranks;
    const char *system; /* --system, whose options are `with` */
    cli_list with;
    double tokens, efficiency; /* values of --tokens and --efficiency; 0 if not given */
    bool schedule, shapes, every, advice;
} cli_plan_options;

typedef struct cli_choices {
    const cli_args *args;
    const cli_plan_options *o;
    cli_target target;
    zr_config *config; /* the configuration, with the chosen keys if `answered` */
    bool batch;        /* whether a micro-batch is given */
    cli_max max;
    /* `question`: the question of the advice, about `asked`, which is the configuration before any choice. `found`: its
     * answer. `answered`: whether the question was answered, and keys were chosen, before the list is planned. */
    zr_config asked;
    zr__train_target where;
    zr__question question;
    zr__choices found;
    bool answered;
    /* The list, of n choices. `own`: the configured choice. `told`: the choice that the advice names: the preferred one
     * or, if nothing fits, the nearest (zr__choices.least). `advised`: whether `told` fits. */
    zr__choices list;
    const zr__choices *answer; /* `found`, or `list` for a model with many layers */
    cli_choice **choice;
    int n;
    const cli_choice *own, *told;
    bool advised;
    cli_from from;            /* the configuration of --from */
    const zr__format *format; /* of --emit, or NULL */
    const char *origin;       /* origin of the configured choice: "configured", "chosen" or "default" */
    double peak_flops;        /* peak FLOP/s of a rank in the data type of matrix products, or 0 if unknown */
    bool shares_layers;       /* whether the tensor-parallel degree is above 1 */
    bool many_layers;
    /* Whether FLOP/s and the link's bandwidth are known. The time of a step needs both. */
    bool compute_known, link_known;
    int most_ranks; /* maximum number of ranks that the search for `more` tries */
    cli_more_ranks more;
} cli_choices;

/** Ask the question of the advice: settle the target and the configuration, and choose missing keys. The caller has set
 * the target's device and rates. */
ZR_NODISCARD zr_status cli_choices_ask(cli_choices *choices);
/** Plan the list of choices (zr__choices_list), and find the choice to name. Plan a model with more than
 * CLI_MANY_LAYERS layers only as configured. Return an error if the configured plan is refused, or if any plan fails
 * for another reason. Clear the choices in any case. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices);
void cli_choices_clear(cli_choices *choices);
/** Fill a table with the choices that differ from the configured choice only in the stage. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** Write the recompute policy of a choice, such as "unit/2", into `text`. With `placed`, add the place of checkpoints,
 * as in "unit/2 Pa". Return `text`. */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choice *c, bool placed, char text[CLI_CHOICE_BYTES]);
/** Return whether a choice differs from the configuration in its micro-batches, its homes of states or, without tensor
 * parallelism, its place of checkpoints. */
bool cli_choice_differs(const cli_choices *choices, const cli_choice *c);
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
void cli_speed_print(const cli_choices *choices);
/** Add the members "tokens_per_sec" and "mfu" to the open object. If the number of tokens is given, also add "steps"
 * and "days". An unknown member is null. */
void cli_speed_json(zr__json_out *out, const cli_choices *choices, const cli_choice *c);

/** Print the traffic and the memory of both orders of micro-batches (train.accumulation_order), for the configured
 * choice. Print nothing if the orders do not differ: with one micro-batch per step, below stage 3, or with one
 * data-parallel rank. Also print nothing if the other order cannot be planned, or if planning it would take too long.
 */
ZR_NODISCARD zr_status cli_order_print(const cli_choices *choices);
/** Print which parameters and gradients are quantised in exchanges, if any, and the bytes and the time of a step,
 * beside exact exchanges. */
ZR_NODISCARD zr_status cli_records_print(const cli_choices *choices, const zr_plans *plans);

/** Print a paragraph that advises a choice, with its keys and reasons. If nothing fits, print ways to make the
 * configuration fit. */
ZR_NODISCARD zr_status cli_advice_print(const cli_choices *choices);
/** Add the members "profile", "limit", "time", "needs", "fits", "choices", "question", "ties" and "advice" to the open
 * object. If nothing fits, "advice" is null, and the members "least" and "more_ranks" may follow. */
void cli_advice_json(zr__json_out *out, const cli_choices *choices);
/** Print a text in lines of at most 78 columns. A line break in the text begins a new line. */
void cli_print_wrapped(const char *text);

/* ---- traffic between tensor-parallel ranks --------------------------------------------------- */

/** Print the bytes that a rank receives from other tensor-parallel ranks in a step, by purpose. Print their ratio to
 * the traffic of stage 3 without tensor parallelism on the same ranks. Beside it, print the ZeRO papers' estimate of
 * the ratio, b s / (3 h), for b samples of s tokens and width h. The estimate counts only the blocks, with 12 b s h
 * elements per block. Print the parameters that are replicated on all tensor-parallel ranks. If parallel.tensor is 1,
 * print nothing. */
ZR_NODISCARD zr_status cli_within_print(const cli_choices *choices, const zr_plan *plan);
/** Add the members "tensor_to_stage3", "within_layers" and "replicated" to the open object. "tensor_to_stage3" is null
 * if stage 3 cannot be planned. If parallel.tensor is 1, add nothing. */
ZR_NODISCARD zr_status cli_within_json(zr__json_out *out, const cli_choices *choices, const zr_plan *plan);

/** Return the memory that a rank needs in addition to its plan, in words such as "1.07 GB" (see zr__rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);

#endif
