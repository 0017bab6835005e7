/** The list of choices: stages and policies as train/choose lists them, the advised choice, and the number of ranks
 * with which the model would fit. */
#include "cli/plan/choices.h"

#include "base/json/json.h"
#include "config/config.h"

#include <stdio.h>

/* ---- names ------------------------------------------------------------------------------------ */

const char *cli_beside(const zr_device_facts *facts)
{
    return facts->own_memory ? "1.07 GB" : "3 % and 50.33 MB";
}

const char *cli_choice_name(const cli_choice *c, bool placed, char text[CLI_CHOICE_BYTES])
{
    static const char *const place[ZR_SPACES][2] = {[ZR_SPACE_DEVICE] = {"", " Pa"},
                                                    [ZR_SPACE_HOST] = {" cpu", " Pa+cpu"},
                                                    [ZR_SPACE_DISK] = {" disk", " Pa+disk"}};
    char policy[32];
    snprintf(text, CLI_CHOICE_BYTES, "%s%s", cli_recompute_name(c->way.policy, c->way.every, policy),
             placed ? place[c->made.home][c->made.pieces] : "");
    return text;
}

bool cli_choice_differs(const cli_choices *choices, const cli_choice *c)
{
    const zr__way own = zr__way_of(choices->config);
    return c->way.rows != own.rows || c->way.accum != own.accum || c->way.device != own.device;
}

json_t *cli_choice_keys(const cli_choices *choices, const cli_choice *c)
{
    const zr__way own = zr__way_of(choices->config);
    zr__way w = c->way;
    w.stage = own.stage;
    w.policy = own.policy;
    w.every = own.every;
    w.pieces = own.pieces;
    w.kept = own.kept;
    return zr__way_keys(&w, choices->config, choices->config, choices->target->ranks, false);
}

int64_t cli_choice_tokens(const cli_choices *choices, const cli_choice *c)
{
    return c->way.rows * c->way.accum * (choices->target->ranks / c->way.tensor) * choices->config->data.seq_length;
}

void cli_choices_table(const cli_choices *choices, cli_table *table)
{
    const cli_choice *configured = choices->choice[choices->configured];
    const zr__way *own = &configured->way;
    table->chosen = (int)own->stage;
    for (int i = 0; i < choices->n; i++) {
        const cli_choice *c = choices->choice[i];
        const zr__way *w = &c->way;
        if (zr__light_of(w) || w->policy != own->policy || w->every != own->every) continue;
        if (w->pieces != own->pieces || w->kept != own->kept || cli_choice_differs(choices, c)) continue;
        table->report[w->stage] = c->made.report;
        table->planned[w->stage] = true;
    }
}

/* ---- more ranks ------------------------------------------------------------------------------ */

zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks, int64_t *bytes)
{
    zr_config least = *config;
    zr__train_target where = choices->where;
    zr__trial made;
    zr__way w = zr__way_of(config);
    where.ranks = ranks;
    where.cluster = NULL; /* the cluster may have fewer devices */
    w.stage = 3;
    zr__way_least(&w, config);
    zr__way_set(&w, ranks, &least);
    if (least.collectives.reduce == ZR_REDUCE_ALL_REDUCE) least.collectives.reduce = ZR_REDUCE_TO_SHARDS;
    ZR_TRY(zr__try(&where, &least, &made, NULL));
    *bytes = made.needs_bytes;
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

/* ---- the list and the advice ----------------------------------------------------------------- */

zr__free cli_choices_free(const zr_config *config, const cli_target *target, bool batch)
{
    const bool limited = target->limit_bytes > 0, given = zr__config_given(config, "train_batch_size");
    const bool homes = zr__train_offload_open(config) && config->zero.optim.device == ZR_HOME_NONE;
    return (zr__free){.stage = true,
                      .policy = true,
                      .batch = limited && !batch && !given,
                      .pieces = !zr__config_given(config, ZR__PIECES_KEY),
                      .host = limited && homes && target->profile.facts.own_memory,
                      .disk = limited && homes,
                      .kept = zr__train_offload_degrees(config) == ZR__OFFLOADS,
                      .lighter = limited};
}

/** Set `configured` and `advised`. If keys were chosen to fit the memory, the configuration already has them, so that
 * the configured choice is also the advised one. */
static zr_status find_advised(cli_choices *choices)
{
    zr__choices *f = &choices->found;
    const zr__way own = zr__way_of(choices->config);
    choices->configured = (int)zr__list_find(f, &own);
    if (choices->configured < 0) return zr__failure_tell(&f->refused);
    if (choices->answered) {
        choices->advised = f->listed[choices->configured]->fits ? choices->configured : -1;
    } else {
        if (f->best) ZR_TRY(zr__list_add(f, f->best));
        choices->advised = f->best ? (int)zr__list_find(f, &f->best->way) : -1;
    }
    choices->choice = f->listed;
    choices->n = (int)f->n_listed;
    return ZR_OK;
}

zr_status cli_choices_plan(cli_choices *choices, const zr_config *config, bool spacings)
{
    const cli_target *t = choices->target;
    const zr_machine *machine = &t->profile.machine;
    zr__question *q = &choices->question, list;
    const bool narrow = (config->bf16 || config->fp16) && machine->flops_bf16 > 0;
    choices->config = config;
    choices->where = cli_train_target(t);
    q->target = &choices->where;
    choices->compute_known = t->simulated || narrow || machine->flops_f32 > 0;
    choices->link_known = t->simulated || t->ranks == 1 || zr__machine_link(machine).bytes_sec > 0;
    choices->peak_flops = narrow ? machine->flops_bf16 : machine->flops_f32;
    if (t->efficiency > 0) choices->peak_flops /= t->efficiency;
    const bool given = zr__config_given(config, "zero_optimization.stage") ||
                       zr__config_given(config, "activation_checkpointing.policy");
    choices->origin = given ? "configured" : choices->answered ? "chosen" : "default";
    choices->shares_layers = config->parallel.tensor > 1;
    choices->many_layers = zr_config_sizes(config).layers > CLI_MANY_LAYERS;
    list = *q;
    list.config = config;
    if (choices->answered) choices->found.first = choices->found.n; /* `config` has the chosen keys */
    if (!choices->answered && !choices->many_layers) ZR_TRY(zr__search(q, &choices->found));
    ZR_TRY(zr__choices_list(&list, choices->many_layers, spacings, &choices->found));
    if (choices->many_layers) zr__prefer(&choices->found);
    ZR_TRY(find_advised(choices));
    choices->most_ranks = t->simulated && !t->cluster.any_hosts ? t->cluster.devices : 2 * CLI_MOST_RANKS;
    const bool help = choices->advised < 0 && !choices->many_layers && t->ranks <= CLI_MOST_RANKS;
    const zr_status st = help ? find_ranks(choices, config, &choices->more) : ZR_OK;
    if (st != ZR_OK) choices->more = (cli_more_ranks){0};
    return st == ZR_ERR_MEMORY ? st : ZR_OK;
}

void cli_choices_clear(cli_choices *choices)
{
    zr__choices_clear(&choices->found);
}
