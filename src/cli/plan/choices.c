#include "cli/plan/choices.h"

#include "base/core/core.h"
#include "config/config.h"
#include "train/host/limits.h"
#include "train/setup/setup.h"

#include <stdio.h>

/** Recompute policies and places of checkpoints that are planned at each stage. The configured policy is planned too.
 * Partitioned checkpoints are planned only with tensor parallelism. */
static const struct {
    zr_recompute recompute;
    cli_kept kept;
} common[] = {{ZR_RECOMPUTE_NONE, {false, ZR_SPACE_DEVICE}},
              {ZR_RECOMPUTE_KEEP, {false, ZR_SPACE_DEVICE}}, /* only on a device with its own memory */
              {ZR_RECOMPUTE_SELECTIVE, {false, ZR_SPACE_DEVICE}},
              {ZR_RECOMPUTE_SELECTIVE, {true, ZR_SPACE_DEVICE}},
              {ZR_RECOMPUTE_UNIT, {false, ZR_SPACE_DEVICE}},
              {ZR_RECOMPUTE_UNIT, {true, ZR_SPACE_DEVICE}},
              {ZR_RECOMPUTE_UNIT, {true, ZR_SPACE_HOST}}};

static bool kept_alike(cli_kept a, cli_kept b)
{
    return a.pieces == b.pieces && a.home == b.home;
}

static cli_kept kept_of(const zr_layout *layout)
{
    return (cli_kept){layout->partition_checkpoints, layout->checkpoint_home};
}

static void keep_as(zr_layout *layout, cli_kept kept)
{
    layout->partition_checkpoints = kept.pieces;
    layout->checkpoint_home = kept.home;
}

/** Plan a choice and add it. Skip a choice that the planner refuses, for example because the stage has no all-reduce.
 */
static void add_choice(cli_choices *choices, const zr_config *config, const zr_layout *layout, cli_light light,
                       bool configured)
{
    if (choices->n == CLI_CHOICES || choices->failed != ZR_OK) return;
    zr_plan *plan = NULL;
    cli_choice *c = &choices->choice[choices->n];
    *c = (cli_choice){.stage = layout->stage,
                      .light = light,
                      .recompute = layout->recompute,
                      .every = layout->recompute_every,
                      .asked = kept_of(layout)};
    zr_status st = cli_try(choices->target, config, layout, &c->made, &plan);
    if (st == ZR_OK) {
        c->kept = (cli_kept){plan->partition_checkpoints, plan->checkpoint_home};
        st = zr__plan_fullest(plan, &c->fullest);
    }
    zr_plan_destroy(&plan);
    if (st != ZR_OK && (configured || !cli_refused(st))) choices->failed = st;
    if (st != ZR_OK) return;
    if (configured) choices->configured = choices->n;
    choices->n++;
}

/** Return whether two layouts have the same recompute policy and place of checkpoints. Without recomputation there are
 * no checkpoints, so ignore their place. */
static bool same_policy(const zr_layout *a, const zr_layout *b)
{
    return a->recompute == b->recompute && a->recompute_every == b->recompute_every &&
           (!zr_recomputes(a->recompute) || kept_alike(kept_of(a), kept_of(b)));
}

/** Return whether to plan a mixture of policies (auto) for the choices from index `first` on. A mixture can help if
 * recompute none, the first choice, does not fit but another choice does. It can also help if recompute none fits but
 * keep does not fit. */
static bool may_mix(const cli_choices *choices, int first)
{
    const cli_choice *none = &choices->choice[first];
    bool any = false, keep_fails = false;
    for (int i = first; i < choices->n; i++) {
        any |= choices->choice[i].made.fits;
        keep_fails |= choices->choice[i].recompute == ZR_RECOMPUTE_KEEP && !choices->choice[i].made.fits;
    }
    return any && none->recompute == ZR_RECOMPUTE_NONE && (!none->made.fits || keep_fails);
}

static void add_mixed(cli_choices *choices, const zr_config *config, int stage)
{
    zr_config mixed = *config;
    mixed.recompute.policy = ZR_RECOMPUTE_AUTO;
    mixed.recompute.every = 1;
    mixed.memory.limit_bytes = choices->target->limit_bytes;
    zr_layout layout = zr__train_layout(&mixed, choices->target->ranks);
    layout.stage = stage;
    add_choice(choices, &mixed, &layout, CLI_LIGHT_NONE, false);
}

/* ---- names ------------------------------------------------------------------------------------ */

const char *cli_beside(const zr_device_facts *facts)
{
    return facts->own_memory ? "1.07 GB" : "3 % and 50.33 MB";
}

const char *cli_choice_name(const cli_choices *choices, const cli_choice *c, char text[CLI_CHOICE_BYTES])
{
    static const char *const place[ZR_SPACES][2] = {
        [ZR_SPACE_HOST] = {" cpu", "+cpu"}, [ZR_SPACE_DISK] = {" disk", "+disk"}};
    char policy[32];
    const cli_kept kept = choices->shares_layers ? c->kept : (cli_kept){false, ZR_SPACE_DEVICE};
    const char *home = place[kept.home][kept.pieces];
    snprintf(text, CLI_CHOICE_BYTES, "%s%s%s", cli_recompute_name(c->recompute, c->every, policy),
             kept.pieces ? " Pa" : "", home ? home : "");
    return text;
}

const char *cli_kept_words(const cli_choices *choices, const cli_choice *c, char text[CLI_KEPT_BYTES])
{
    const bool free = !choices->shares_layers || !zr_recomputes(c->recompute) || c->recompute == ZR_RECOMPUTE_AUTO;
    const bool pieces = !free && c->asked.pieces != choices->base.pieces,
               moved = !free && c->asked.home != choices->base.home;
    const bool disk = c->asked.home == ZR_SPACE_DISK || choices->base.home == ZR_SPACE_DISK;
    int n = 0;
    text[0] = '\0';
    if (pieces)
        n = snprintf(text, CLI_KEPT_BYTES, ", activation_checkpointing.partition_activations %s",
                     c->asked.pieces ? "true" : "false");
    if (!moved) return text;
    const char *before = pieces ? " and " : ", activation_checkpointing.";
    if (disk)
        snprintf(text + n, CLI_KEPT_BYTES - (size_t)n, "%soffload %s", before,
                 c->asked.home == ZR_SPACE_DEVICE ? "none" : zr_space_name(c->asked.home));
    else
        snprintf(text + n, CLI_KEPT_BYTES - (size_t)n, "%scpu_checkpointing %s", before,
                 c->asked.home == ZR_SPACE_HOST ? "true" : "false");
    return text;
}

/* ---- lighter --------------------------------------------------------------------------------- */

const char *cli_light_words(const cli_choices *choices, cli_light light, char room[128])
{
    static const char *const words[CLI_LIGHTS] = {[CLI_LIGHT_NONE] = "",
                                                  [CLI_LIGHT_PREFETCH] = ", stage3_prefetch_bucket_size 0",
                                                  [CLI_LIGHT_OVERLAP] =
                                                      ", stage3_prefetch_bucket_size 0 and overlap_comm false"};
    if (light != CLI_LIGHT_BUCKETS) return words[light];
    snprintf(room, 128, ", stage3_prefetch_bucket_size 0, overlap_comm false and buckets of %lld elements",
             (long long)choices->light_elems);
    return room;
}

/** Return the bucket size for CLI_LIGHT_BUCKETS, in elements. Small buckets need little staging memory. But each bucket
 * is a step of the schedule, so a model gets at most about CLI_LIGHT_STEPS buckets. */
static int64_t light_elems(const zr_config *config)
{
    const zr_model_sizes m = zr_config_sizes(config);
    double params = 12.0 * (double)m.layers * (double)m.width * (double)m.width +
                    (double)(m.vocabulary + m.positions) * (double)m.width;
    int64_t elems = (int64_t)(params / CLI_LIGHT_STEPS);
    return elems > CLI_LIGHT_ELEMS ? elems : CLI_LIGHT_ELEMS;
}

static void lighten(zr_layout *layout, cli_light light, int64_t elems)
{
    if (light >= CLI_LIGHT_PREFETCH) layout->prefetch_elems = 0;
    if (light >= CLI_LIGHT_OVERLAP) layout->overlap = false;
    if (light < CLI_LIGHT_BUCKETS) return;
    if (layout->reduce_bucket_elems > elems) layout->reduce_bucket_elems = elems;
    if (layout->gather_bucket_elems > elems) layout->gather_bucket_elems = elems;
}

/** Plan a layout that saves memory as `light` says. Add the choice if it fits or if `anyhow` is set. Return whether the
 * choice fits. */
static bool try_light(cli_choices *choices, const zr_config *config, const zr_layout *layout, cli_light light,
                      bool anyhow)
{
    zr_layout lighter = *layout;
    int n = choices->n;
    lighten(&lighter, light, choices->light_elems);
    add_choice(choices, config, &lighter, light, false);
    bool fits = choices->n > n && choices->choice[n].made.fits;
    if (!fits && !anyhow) choices->n = n;
    return fits;
}

/** For each choice from index `first` on that does not fit, find the first cli_light with which its policy fits, and
 * add this choice. First try recompute unit with CLI_LIGHT_BUCKETS. If even this does not fit, try no other policy,
 * because other policies store more activations. */
static void add_lighter(cli_choices *choices, const zr_config *config, zr_layout layout, int first)
{
    if (choices->target->limit_bytes == 0) return;
    bool unit_fits = false;
    for (int i = first; i < choices->n; i++)
        unit_fits |= choices->choice[i].recompute == ZR_RECOMPUTE_UNIT && choices->choice[i].made.fits;
    layout.recompute_every = 1;
    layout.recompute = ZR_RECOMPUTE_UNIT;
    if (choices->shares_layers) layout.partition_checkpoints = true; /* partitioned checkpoints need the least memory */
    bool hope = unit_fits, at_last = layout.stage == 3;
    int end = choices->n;
    if (!unit_fits) {
        hope = try_light(choices, config, &layout, CLI_LIGHT_BUCKETS, at_last);
        if (hope) choices->n = end; /* remove this choice again, because a milder cli_light may be enough */
    }
    for (int i = first; i < end && hope; i++) {
        const cli_choice c = choices->choice[i];
        if (c.made.fits || c.every != 1 || c.recompute == ZR_RECOMPUTE_AUTO || c.recompute == ZR_RECOMPUTE_KEEP)
            continue;
        layout.recompute = c.recompute;
        keep_as(&layout, c.asked);
        cli_light least = layout.stage == 3 ? CLI_LIGHT_PREFETCH : CLI_LIGHT_OVERLAP;
        for (cli_light l = least; l < CLI_LIGHTS; l++)
            if (try_light(choices, config, &layout, l, false)) break;
    }
}

/** Add the choices of a stage. Without tensor parallelism, plan only the configured place of checkpoints. */
static void add_stage(cli_choices *choices, const zr_config *config, const zr_layout *base, int stage)
{
    const int first = choices->n;
    const bool is_base = stage == base->stage;
    bool common_base = false;
    zr_layout layout = *base;
    layout.stage = stage;
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        zr_layout one = layout;
        if (common[i].kept.pieces && !choices->shares_layers) continue;
        if (common[i].recompute == ZR_RECOMPUTE_KEEP && !choices->target->profile.facts.own_memory) continue;
        one.recompute = common[i].recompute;
        one.recompute_every = 1;
        if (choices->shares_layers) keep_as(&one, common[i].kept);
        const bool same = same_policy(&one, base);
        common_base |= same;
        add_choice(choices, config, &one, CLI_LIGHT_NONE, is_base && same);
    }
    if (base->recompute != ZR_RECOMPUTE_AUTO && may_mix(choices, first)) add_mixed(choices, config, stage);
    add_lighter(choices, config, layout, first);
    if (!common_base) add_choice(choices, config, &layout, CLI_LIGHT_NONE, is_base);
}

/** Add choices at the configured stage with recompute unit and a checkpoint at every 2nd unit, every 3rd unit, and so
 * on. */
static void add_spacings(cli_choices *choices, const zr_config *config, const zr_layout *base)
{
    zr_layout layout = *base;
    layout.recompute = ZR_RECOMPUTE_UNIT;
    const int64_t layers = zr_config_sizes(config).layers;
    for (int64_t k = 2; k <= layers && k <= CLI_SPACINGS; k++) {
        layout.recompute_every = k;
        if (base->recompute != ZR_RECOMPUTE_UNIT || base->recompute_every != k)
            add_choice(choices, config, &layout, CLI_LIGHT_NONE, false);
    }
}

/** Return the index of the fastest choice that fits, or -1 if no choice fits. Choices within 1 % of the fastest count
 * as equally fast. Among them, prefer the configured choice if zr chose its keys to fit the memory. Otherwise prefer
 * the least memory, then the lowest stage. If rates are unknown, compare FLOPs and traffic instead of times. */
static int advise(const cli_choices *choices)
{
    enum { COMPUTE, COMM, MEMORY, MEASURES };
    bool left[CLI_CHOICES];
    double value[CLI_CHOICES];
    for (int i = 0; i < choices->n; i++) left[i] = choices->choice[i].made.fits;
    for (int m = COMPUTE; m < MEASURES; m++) {
        if (m == MEMORY && choices->chosen && left[choices->configured]) return choices->configured;
        for (int i = 0; i < choices->n; i++) {
            const cli_trial *made = &choices->choice[i].made;
            const double sec = made->simulation.price.step_sec,
                         of[MEASURES] = {choices->compute_known ? sec : made->report.flops_hardware,
                                         choices->link_known ? sec : cli_traffic_bytes(made->report.traffic),
                                         (double)zr__memory_taken(&made->report.memory)};
            value[i] = of[m];
        }
        zr__keep_least(choices->n, value, 1.01, left);
    }
    for (int i = 0; i < choices->n; i++)
        if (left[i]) return i;
    return -1;
}

void cli_choices_table(const cli_choices *choices, cli_table *table)
{
    const cli_choice *configured = &choices->choice[choices->configured];
    table->chosen = configured->stage;
    for (int i = 0; i < choices->n; i++) {
        const cli_choice *c = &choices->choice[i];
        if (c->light || c->recompute != configured->recompute || c->every != configured->every) continue;
        if (!kept_alike(c->asked, configured->asked)) continue;
        table->report[c->stage] = c->made.report;
        table->planned[c->stage] = true;
    }
}

/* ---- more ranks ------------------------------------------------------------------------------ */

/** Plan the configuration that needs the least memory with `ranks` ranks: stage 3 with recompute unit and
 * CLI_LIGHT_BUCKETS. */
static zr_status plan_least(const cli_choices *choices, const zr_config *config, int ranks, zr_plan **plan)
{
    zr_layout layout = zr__train_layout(config, ranks);
    layout.stage = 3;
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.recompute_every = 1;
    if (layout.tensor > 1) layout.partition_checkpoints = true; /* partitioned checkpoints need the least memory */
    if (layout.reduce == ZR_REDUCE_ALL_REDUCE) layout.reduce = ZR_REDUCE_TO_SHARDS; /* stage 3 has no all-reduce */
    lighten(&layout, CLI_LIGHT_BUCKETS, choices->light_elems);
    return zr__train_plan_layout(config, &layout, &choices->target->profile, plan);
}

zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks, int64_t *bytes)
{
    zr_plan *plan = NULL;
    ZR_TRY(plan_least(choices, config, ranks, &plan));
    *bytes = zr__rank_needs(&plan->memory, &plan->profile.facts);
    zr_plan_destroy(&plan);
    return ZR_OK;
}

static zr_status find_ranks(const cli_choices *choices, const zr_config *config, cli_more_ranks *more)
{
    int low = choices->target->ranks;
    /* `step` is the smallest change of the number of ranks, and divides `low`: a whole host or, if tensor-parallel
     * groups cross hosts, one tensor-parallel group. */
    const int host = (int)config->parallel.ranks_per_host, tensor = (int)config->parallel.tensor,
              step = host > 0 && host % tensor == 0 ? host : tensor;
    int64_t before = INT64_MAX, needs = 0, limit = choices->target->limit_bytes;
    more->ranks = low;
    ZR_TRY(cli_choices_least(choices, config, low, &more->needs_bytes));
    /* Double the ranks until the plan fits. Stop early if doubling shrinks the plan by less than 2 %, or if padding
     * makes the plan grow. */
    while (more->needs_bytes > limit && (double)more->needs_bytes < 0.98 * (double)before &&
           more->ranks + step <= choices->most_ranks) {
        low = more->ranks;
        before = more->needs_bytes;
        more->ranks = low <= choices->most_ranks / 2 ? 2 * low : choices->most_ranks / step * step;
        ZR_TRY(cli_choices_least(choices, config, more->ranks, &more->needs_bytes));
    }
    more->fits = more->needs_bytes <= limit;
    more->all = more->ranks + step > choices->most_ranks;
    /* Bisect for the fewest ranks that fit. With rank-free sums only powers of two are allowed, so keep the doubled
     * number. */
    while (more->fits && more->ranks - low > step && !config->train.rank_free_sums) {
        int middle = low + (more->ranks - low) / 2 / step * step;
        ZR_TRY(cli_choices_least(choices, config, middle, &needs));
        if (needs <= limit) {
            more->ranks = middle;
            more->needs_bytes = needs;
        } else {
            low = middle;
        }
    }
    return ZR_OK;
}

/** Find the first degree of offload with which stage 3 fits. On a device with its own memory, try the host's memory
 * before the disk. Do nothing if the configuration already offloads states. A degree that the planner refuses does not
 * fit. */
static void find_offload(cli_choices *choices, const zr_config *config)
{
    const zr_space space[] = {[ZR_HOME_CPU] = ZR_SPACE_HOST, [ZR_HOME_NVME] = ZR_SPACE_DISK};
    const zr_config_home first = choices->target->profile.facts.own_memory ? ZR_HOME_CPU : ZR_HOME_NVME;
    if (!zr__train_offload_open(config)) return;
    for (zr_config_home device = first; device <= ZR_HOME_NVME; device++)
        for (int offload = ZR__OFFLOAD_OPTIM; offload < zr__train_offload_degrees(config); offload++) {
            zr_plan *plan = NULL;
            zr_config away = *config;
            zr__train_set_offload(&away, offload, device);
            if (plan_least(choices, &away, choices->target->ranks, &plan) != ZR_OK) continue;
            choices->away = (cli_away){.offload = offload,
                                       .device = device,
                                       .needs_bytes = zr__rank_needs(&plan->memory, &plan->profile.facts),
                                       .away_bytes = plan->memory.space[space[device]].total_bytes};
            zr_plan_destroy(&plan);
            if (choices->away.needs_bytes <= choices->target->limit_bytes) return;
        }
    choices->away = (cli_away){.offload = ZR__OFFLOAD_NONE};
}

/* ---- the whole search ------------------------------------------------------------------------ */

zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings)
{
    const cli_target *t = choices->target;
    const zr_layout base = zr__train_layout(config, t->ranks);
    const zr_machine *machine = &t->profile.machine;
    const bool narrow = base.dtype != ZR_F32 && machine->flops_bf16 > 0;
    choices->compute_known = t->simulated || narrow || machine->flops_f32 > 0;
    choices->link_known = t->simulated || t->ranks == 1 || zr__machine_link(machine).bytes_sec > 0;
    choices->light_elems = light_elems(config);
    choices->step_tokens = config->train_batch_size * base.seq;
    choices->peak_flops = narrow ? machine->flops_bf16 : machine->flops_f32;
    if (t->efficiency > 0) choices->peak_flops /= t->efficiency;
    choices->configured = -1;
    const bool given = zr__config_given(config, "zero_optimization.stage") ||
                       zr__config_given(config, "activation_checkpointing.policy");
    choices->origin = given ? "configured" : choices->chosen ? "chosen" : "default";
    choices->shares_layers = base.tensor > 1;
    choices->base = kept_of(&base);
    choices->many_layers = zr_config_sizes(config).layers > CLI_MANY_LAYERS;
    if (choices->many_layers) add_choice(choices, config, &base, CLI_LIGHT_NONE, true);
    for (int stage = 0; stage < 4 && !choices->many_layers; stage++) add_stage(choices, config, &base, stage);
    if (spacings && !choices->many_layers) add_spacings(choices, config, &base);
    ZR_TRY(choices->failed); /* zr_error_message() is still the message of this failure */
    choices->advised = advise(choices);
    choices->most_ranks = t->simulated && !t->cluster.any_hosts ? t->cluster.devices : 2 * CLI_MOST_RANKS;
    const bool help = choices->advised < 0 && choices->n > 0 && !choices->many_layers && t->ranks <= CLI_MOST_RANKS;
    const zr_status st = help ? find_ranks(choices, config, &choices->more) : ZR_OK;
    if (st != ZR_OK) choices->more = (cli_more_ranks){0};
    if (help && st != ZR_ERR_MEMORY) find_offload(choices, config);
    return st == ZR_ERR_MEMORY ? st : ZR_OK;
}
