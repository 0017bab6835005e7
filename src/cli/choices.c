#include "cli/choices.h"

/** The stages are planned with these; what is configured besides is added. */
static const zr_recompute common[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
enum { COMMON = sizeof(common) / sizeof(common[0]) };

const char *cli_recompute_name(zr_recompute recompute, int64_t every, char text[32])
{
    static const char *const name[] = {[ZR_RECOMPUTE_NONE] = "none",
                                       [ZR_RECOMPUTE_UNIT] = "unit",
                                       [ZR_RECOMPUTE_SELECTIVE] = "selective",
                                       [ZR_RECOMPUTE_AUTO] = "auto"};
    snprintf(text, 32, "%s", name[recompute]);
    if (recompute == ZR_RECOMPUTE_UNIT && every > 1) snprintf(text, 32, "unit/%lld", (long long)every);
    return text;
}

static zr_status plan_one(const zr_config *config, const zr_layout *layout, const zr_profile *profile, cli_choice *c)
{
    zr_plan *plan = NULL;
    ZR_TRY(zr_train_plan_layout(config, layout, profile, &plan));
    c->report = zr_report_planned(plan);
    zr_status st = zr_plan_price(plan, profile, &c->price);
    if (st == ZR_OK) st = cli_fullest_find(plan, &c->fullest);
    zr_plan_destroy(&plan);
    return st;
}

/** What cannot be planned (a baseline that a stage does not know) is left out. */
static void add(cli_choices *choices, const zr_config *config, const zr_layout *layout, bool configured)
{
    if (choices->n == CLI_CHOICES) return;
    cli_choice *c = &choices->choice[choices->n];
    *c = (cli_choice){.stage = layout->stage, .recompute = layout->recompute, .every = layout->recompute_every};
    if (plan_one(config, layout, choices->profile, c) != ZR_OK) return;
    c->needs_bytes = zr_train_process_bytes(c->report.memory.total_bytes, 1);
    c->fits = choices->limit_bytes == 0 || c->needs_bytes <= choices->limit_bytes;
    if (configured) choices->configured = choices->n;
    choices->n++;
}

static bool is_common(const zr_layout *layout)
{
    if (layout->recompute == ZR_RECOMPUTE_AUTO) return false;
    return layout->recompute != ZR_RECOMPUTE_UNIT || layout->recompute_every == 1;
}

static void add_stage(cli_choices *choices, const zr_config *config, const zr_layout *base, int stage)
{
    zr_layout layout = *base;
    layout.stage = stage;
    layout.recompute_every = 1;
    for (int i = 0; i < COMMON; i++) {
        layout.recompute = common[i];
        add(choices, config, &layout, stage == base->stage && is_common(base) && base->recompute == common[i]);
    }
    if (is_common(base)) return;
    layout.recompute = base->recompute;
    layout.recompute_every = base->recompute_every;
    add(choices, config, &layout, stage == base->stage);
}

/** The stage of the configuration with the inputs of every 2nd, 3rd ... unit kept. */
static void add_spacings(cli_choices *choices, const zr_config *config, const zr_layout *base)
{
    zr_layout layout = *base;
    layout.recompute = ZR_RECOMPUTE_UNIT;
    for (int64_t k = 2; k <= config->model.sizes.n_layer && k <= CLI_SPACINGS; k++) {
        layout.recompute_every = k;
        if (base->recompute != ZR_RECOMPUTE_UNIT || base->recompute_every != k) add(choices, config, &layout, false);
    }
}

static double best_of(const cli_choices *choices, const bool *left, double (*value)(const cli_choice *c))
{
    double best = -1;
    for (int i = 0; i < choices->n; i++) {
        double v = value(&choices->choice[i]);
        if (left[i] && (best < 0 || v < best)) best = v;
    }
    return best;
}

static double time_of(const cli_choice *c)
{
    return c->price.step_sec;
}
static double work_of(const cli_choice *c)
{
    return c->report.flops_hardware;
}
static double bytes_of(const cli_choice *c)
{
    return (double)c->report.memory.total_bytes;
}

double cli_choice_traffic(const cli_choice *c)
{
    double sum = 0;
    for (int kind = 0; kind < ZR_TRAFFIC_KINDS; kind++) sum += (double)c->report.traffic.bytes[kind];
    return sum;
}

/** The fastest that fits; of what is as fast within 1 % the one that takes the least memory, then the lowest stage.
 * Where a rate is not known, FLOPs and traffic stand for the time. */
static int advise(const cli_choices *choices)
{
    double (*const order[])(const cli_choice *) = {choices->compute_known ? time_of : work_of,
                                                   choices->link_known ? time_of : cli_choice_traffic, bytes_of};
    bool left[CLI_CHOICES];
    for (int i = 0; i < choices->n; i++) left[i] = choices->choice[i].fits;
    for (size_t o = 0; o < sizeof(order) / sizeof(order[0]); o++) {
        double best = best_of(choices, left, order[o]);
        for (int i = 0; i < choices->n; i++) left[i] = left[i] && order[o](&choices->choice[i]) <= 1.01 * best;
    }
    for (int i = 0; i < choices->n; i++)
        if (left[i]) return i;
    return -1;
}

void cli_choices_plan(cli_choices *choices, const zr_config *config, int ranks, bool spacings)
{
    zr_layout base = zr_train_layout(config, ranks);
    const zr_profile *profile = choices->profile;
    bool narrow = base.dtype != ZR_F32 && profile->flops_bf16 > 0;
    choices->compute_known = narrow || profile->flops_f32 > 0;
    choices->link_known = ranks == 1 || profile->link_bytes_sec > 0;
    choices->ranks = ranks;
    choices->configured = -1;
    for (int stage = 0; stage < 4; stage++) add_stage(choices, config, &base, stage);
    if (spacings) add_spacings(choices, config, &base);
    choices->advised = advise(choices);
}

void cli_choices_table(const cli_choices *choices, cli_table *table)
{
    const cli_choice *configured = &choices->choice[choices->configured];
    table->chosen = configured->stage;
    for (int i = 0; i < choices->n; i++) {
        const cli_choice *c = &choices->choice[i];
        if (c->recompute != configured->recompute || c->every != configured->every) continue;
        table->report[c->stage] = c->report;
        table->planned[c->stage] = true;
    }
}

/* ---- more ranks ------------------------------------------------------------------------------ */

zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks, int64_t batch, int64_t seq,
                            int64_t *bytes)
{
    zr_layout layout = zr_train_layout(config, ranks);
    zr_plan *plan = NULL;
    layout.stage = 3;
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.recompute_every = 1;
    layout.batch = batch;
    layout.seq = seq;
    ZR_TRY(zr_train_plan_layout(config, &layout, choices->profile, &plan));
    *bytes = zr_train_process_bytes(plan->memory.total_bytes, 1);
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static zr_status needs_with(const cli_choices *choices, const zr_config *config, int ranks, int64_t *bytes)
{
    return cli_choices_least(choices, config, ranks, config->micro_batch_size, config->data.seq_length, bytes);
}

zr_status cli_choices_ranks(const cli_choices *choices, const zr_config *config, int *ranks, int64_t *bytes, bool *fits)
{
    int low = choices->ranks;
    int64_t before = 0, needs = 0;
    *ranks = low;
    ZR_TRY(needs_with(choices, config, *ranks, bytes));
    do { /* until it fits, or what is not shared is nearly all, or padding makes it more */
        low = *ranks;
        before = *bytes;
        *ranks *= 2;
        ZR_TRY(needs_with(choices, config, *ranks, bytes));
        *fits = *bytes <= choices->limit_bytes;
    } while (!*fits && (double)*bytes < 0.98 * (double)before && *ranks <= CLI_MOST_RANKS);
    while (*fits && *ranks - low > 1 && !config->train.world) { /* `world` wants a power of two */
        int middle = low + (*ranks - low) / 2;
        ZR_TRY(needs_with(choices, config, middle, &needs));
        if (needs <= choices->limit_bytes) {
            *ranks = middle;
            *bytes = needs;
        } else {
            low = middle;
        }
    }
    return ZR_OK;
}
