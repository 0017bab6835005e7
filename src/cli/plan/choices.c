/** The list of choices: stages and policies as train/choose lists them, the advised choice, and the number of ranks
 * with which the model would fit. */
#include "cli/plan/choices.h"

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
    return c->way.rows != own.rows || c->way.accum != own.accum || c->way.device != own.device ||
           (!choices->shares_layers && c->way.kept != own.kept);
}

int64_t cli_choice_tokens(const cli_choices *choices, const cli_choice *c)
{
    return zr__way_tokens(&c->way, choices->config, choices->target.ranks);
}

/** Return the text of the column "fits": "yes"; "no" if the device's memory is too small; otherwise "no" with the name
 * of the memory that is too small. */
static const char *fits_word(const cli_choices *choices, const cli_choice *c)
{
    return c->made.fits                                                                      ? "yes"
           : c->made.needs_bytes > choices->target.limit_bytes                               ? "no"
           : c->made.disk_bytes > choices->where.disk_bytes && choices->where.disk_bytes > 0 ? "no: disk"
                                                                                             : "no: host";
}

void cli_choices_table(const cli_choices *choices, cli_table *table)
{
    const zr__way *own = &choices->own->way;
    table->chosen = (int)own->stage;
    for (int i = 0; i < choices->n; i++) {
        const cli_choice *c = choices->choice[i];
        zr__way same = c->way;
        same.stage = own->stage;
        if (!zr__way_alike(&same, own, ZR__ALIKE_ALL)) continue;
        table->report[c->way.stage] = c->made.report;
        table->planned[c->way.stage] = true;
        table->fits[c->way.stage] = fits_word(choices, c);
    }
}

/* ---- more ranks ------------------------------------------------------------------------------ */

zr_status cli_choices_least(const cli_choices *choices, const zr_config *config, int ranks, int64_t *bytes)
{
    zr_config least = *config;
    const int64_t limit = choices->target.limit_bytes;
    zr__train_target where = choices->where;
    zr__trial made;
    zr__way w = zr__way_of(config);
    where.ranks = ranks;
    where.cluster = NULL; /* the cluster may have fewer devices */
    w.stage = 3;
    zr__way_least(&w, config);
    zr__way_set(&w, ranks, &least);
    if (least.collectives.reduce == ZR_REDUCE_ALL_REDUCE) least.collectives.reduce = ZR_REDUCE_TO_SHARDS;
    least.quantization.weight_differences = false; /* like all-reduce, not at stage 3 */
    ZR_TRY(zr__try(&where, &least, &made, NULL));
    /* a plan that fits the device, but not the hosts or the disk, counts as one that does not fit */
    *bytes = made.fits || made.needs_bytes > limit ? made.needs_bytes : limit + 1;
    return ZR_OK;
}

static zr_status find_ranks(const cli_choices *choices, cli_more_ranks *more)
{
    const zr_config *config = &choices->asked;
    int low = choices->target.ranks;
    /* `step` is the smallest change of the number of ranks, and divides `low`: a whole host or, if tensor-parallel
     * groups cross hosts, one tensor-parallel group. */
    const int host = (int)config->parallel.ranks_per_host, tensor = (int)config->parallel.tensor,
              step = host > 0 && host % tensor == 0 ? host : tensor;
    int64_t before = INT64_MAX, needs = 0, limit = choices->target.limit_bytes;
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

/* ---- the question, the list and the advice ---------------------------------------------------- */

/** Return the keys that the advice may choose if the configuration left no choice open: stage, policy, and the keys of
 * micro-batch and offload that neither the file nor the command line gives. */
static zr__free free_keys(const cli_choices *p)
{
    const zr_config *config = &p->asked;
    const bool limited = p->target.limit_bytes > 0, own_memory = p->target.profile.facts.own_memory;
    const bool homes = limited && zr__train_offload_open(config) && config->zero.optim.device == ZR_HOME_NONE;
    return (zr__free){.stage = true,
                      .policy = true,
                      .batch = limited && !p->batch && !zr__config_given(config, "train_batch_size"),
                      .pieces = !zr__config_given(config, ZR__PIECES_KEY),
                      .host = homes && own_memory,
                      .disk = homes,
                      .kept = zr__train_offload_degrees(config) == ZR__OFFLOADS,
                      .lighter = limited && !zr__config_given(config, "zero_optimization.overlap_comm") &&
                                 !zr__config_given(config, "zero_optimization.stage3_prefetch_bucket_size"),
                      .places = limited && own_memory && zr__place_is_free(config)};
}

zr_status cli_choices_ask(cli_choices *p)
{
    const bool max = p->o->max != NULL;
    const int64_t disk_bytes = cli_brief_disk_bytes(&p->o->brief);
    if (!max) p->target.disk_bytes = disk_bytes;
    ZR_TRY(cli_settle(p->config, &p->target, &p->asked, max ? NULL : &p->found));
    p->target.disk_bytes = disk_bytes;
    p->answered = p->found.n > 0;
    p->where = cli_train_target(&p->target);
    p->question = zr__question_of(&p->asked, &p->where);
    if (p->answered) return ZR_OK;
    p->asked = *p->config;
    p->question.free = free_keys(p);
    return ZR_OK;
}

/** Set `own` and `told`. If keys were chosen to fit the memory, the configuration has them already. */
static zr_status find_told(cli_choices *p)
{
    const zr__way own = zr__way_of(p->config);
    const zr__choices *f = p->answer;
    const int64_t configured = zr__list_find(&p->list, &own);
    if (configured < 0) return zr__failure_tell(&p->list.refused);
    zr__tried *told = f->best ? f->best : (zr__tried *)f->least; /* it is one of f->tried */
    const int64_t listed = p->answered || !told ? configured : zr__list_find(&p->list, &told->way);
    if (listed < 0) ZR_TRY(zr__list_add(&p->list, told));
    p->choice = p->list.listed;
    p->n = (int)p->list.n_listed;
    p->own = p->choice[configured];
    p->told = p->choice[listed < 0 ? p->n - 1 : listed];
    p->advised = f->best != NULL;
    return ZR_OK;
}

zr_status cli_choices_plan(cli_choices *p)
{
    const cli_target *t = &p->target;
    const zr_config *config = p->config;
    const zr_machine *machine = &t->profile.machine;
    zr__question list;
    const bool narrow = (config->bf16 || config->fp16) && machine->flops_bf16 > 0;
    p->compute_known = t->simulated || narrow || machine->flops_f32 > 0;
    p->link_known = t->simulated || t->ranks == 1 || zr__machine_link(machine).bytes_sec > 0;
    p->peak_flops = narrow ? machine->flops_bf16 : machine->flops_f32;
    if (t->efficiency > 0) p->peak_flops /= t->efficiency;
    const bool given = zr__config_given(config, "zero_optimization.stage") ||
                       zr__config_given(config, "activation_checkpointing.policy");
    p->origin = given ? "configured" : p->answered ? "chosen" : "default";
    p->shares_layers = config->parallel.tensor > 1;
    p->many_layers = zr_config_sizes(config).layers > CLI_MANY_LAYERS;
    const bool listed = !p->answered && p->many_layers; /* a search takes too long */
    p->answer = listed ? &p->list : &p->found;
    if (listed) p->question.free = (zr__free){.stage = true, .policy = true};
    list = p->question;
    list.config = config;
    if (!p->answered && !listed) ZR_TRY(zr__search(&p->question, &p->found));
    ZR_TRY(zr__choices_list(&list, p->many_layers, p->o->every, &p->list));
    if (listed) zr__prefer(&p->list);
    ZR_TRY(find_told(p));
    p->most_ranks = t->simulated && !t->cluster.any_hosts ? t->cluster.devices : 2 * CLI_MOST_RANKS;
    const bool help = !p->advised && !p->many_layers && t->ranks <= CLI_MOST_RANKS;
    const zr_status st = help ? find_ranks(p, &p->more) : ZR_OK;
    if (st != ZR_OK) p->more = (cli_more_ranks){0};
    return st == ZR_ERR_MEMORY ? st : ZR_OK;
}

void cli_choices_clear(cli_choices *choices)
{
    zr__choices_clear(&choices->found);
    zr__choices_clear(&choices->list);
    cli_target_clear(&choices->target);
    zr_config_destroy(&choices->config);
    cli_from_clear(&choices->from);
}
