/** Stages and recompute policies of one configuration, planned and priced side by side; which one to take and why. */
#ifndef ZR_CLI_CHOICES_H
#define ZR_CLI_CHOICES_H

#include "cli/plan/target.h"

#define CLI_MANY_LAYERS 512 /* planning time grows with their square: of more only what is configured is planned */
#define CLI_SPACINGS 64     /* most units between kept inputs that are tried */
#define CLI_CHOICES (64 + CLI_SPACINGS)
#define CLI_MOST_RANKS (1 << 20) /* from which more are looked for */

/** What takes less memory and hides less: each has what those before it have. */
typedef enum cli_light {
    CLI_LIGHT_NONE,     /* as configured */
    CLI_LIGHT_PREFETCH, /* stage 3 gathers nothing ahead: stage3_prefetch_bucket_size 0 */
    CLI_LIGHT_OVERLAP,  /* overlap_comm false: one unit and one gradient at a time */
    CLI_LIGHT_BUCKETS,  /* buckets of light_elems elements at most */
    CLI_LIGHTS
} cli_light;
#define CLI_LIGHT_ELEMS (1 << 20)
#define CLI_LIGHT_STEPS 16384

/** How activation checkpoints are kept. */
typedef struct cli_kept {
    bool pieces, host; /* zr_layout's partition_checkpoints, offload_checkpoints */
} cli_kept;

typedef struct cli_choice {
    int stage;
    cli_light light;
    zr_recompute recompute;
    int64_t every;
    cli_kept asked, kept; /* of the layout; of its plan, where policy auto has chosen */
    cli_trial made;
    zr_fullest fullest;
} cli_choice;

/** Where nothing fits: stage 3 with recompute unit on more ranks, the fewest that fit, or so many that more of them
 *  hardly help. */
typedef struct cli_more_ranks {
    int ranks; /* 0: not known */
    int64_t needs_bytes;
    bool fits, all; /* `all`: a cluster has no devices for more */
} cli_more_ranks;

typedef struct cli_choices {
    const cli_target *target; /* set this, `chosen` and `tokens`, then plan */
    bool chosen;              /* the configured choice was made for the memory (zr_train_choose) */
    double peak_flops;        /* peak FLOP/s of a rank in the type of its products; 0: not known */
    double tokens;            /* tokens to train on; 0: not asked */
    int64_t light_elems;      /* elements of a bucket of CLI_LIGHT_BUCKETS */
    int64_t step_tokens;      /* tokens of a step of all ranks */
    bool shares_layers;
    cli_kept base; /* as configured */
    bool many_layers;
    bool compute_known, link_known; /* rates, without which a time is not one */
    cli_choice choice[CLI_CHOICES];
    int n;
    int configured, advised; /* -1: nothing fits */
    zr_status failed;        /* the first failure of a plan that is more than a refusal */
    int most_ranks;          /* ranks that the target has devices for */
    cli_more_ranks more;
} cli_choices;

/** Plan stages 0 to 3 with recompute none, selective, unit (where ranks share layers also with checkpoints in pieces,
 * Pa, and of unit with these on the host, Pa+cpu), what is configured, and auto where the limit leaves it something to
 * decide; spacings: unit with every k as well. A model of more than CLI_MANY_LAYERS layers is planned as configured
 * only. Errors: those of the configured plan; any other plan's, unless it is merely refused. */
ZR_NODISCARD zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings);
/** The stages with the recompute policy that is configured, which could be planned. */
void cli_choices_table(const cli_choices *choices, cli_table *table);
/** "unit/2 Pa": how it computes again, and keeps checkpoints where ranks share layers. Returns `text`. */
#define CLI_CHOICE_BYTES 48
const char *cli_choice_name(const cli_choices *choices, const cli_choice *c, char text[CLI_CHOICE_BYTES]);
/** ", activation_checkpointing.partition_activations true": what asks for its checkpoints to be kept so, "" where that
 *  is configured or chosen by policy auto. Returns `text`. */
#define CLI_KEPT_BYTES 128
const char *cli_kept_words(const cli_choices *choices, const cli_choice *c, char text[CLI_KEPT_BYTES]);
/** ", stage3_prefetch_bucket_size 0 and overlap_comm false", "" for none; returns room or a constant. */
const char *cli_light_words(const cli_choices *choices, cli_light light, char room[128]);
/** What a process needs at stage 3 with recompute unit and the lightest of cli_light, and so many ranks, rows and
 *  tokens. */
ZR_NODISCARD zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks, int64_t batch,
                                         int64_t seq, int64_t *bytes);

/** The choices as lines of at most 80 columns, with bars of what fills the memory. */
void cli_bars_print(FILE *out, const cli_choices *choices, bool color);

/** Tokens a second, the share of the peak (MFU) and, for so many tokens, days: of what is configured and of what is
 *  advised, where times are known. */
void cli_speed_print(FILE *out, const cli_choices *choices);
/** The same as members behind a comma, null where it is not known. */
void cli_speed_json(FILE *out, const cli_choices *choices, const cli_choice *c);

/** What to take and why, or what would help, as a paragraph. */
ZR_NODISCARD zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config);
/** Members "profile", "limit", "time", "choices", "advice" and, where nothing fits, "more_ranks" of a JSON object, each
 *  behind a comma. */
void cli_advice_json(FILE *out, const cli_choices *choices);

#endif
