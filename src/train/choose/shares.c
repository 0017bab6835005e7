/** Choice of the order of micro-batches and of the shares of an offload (zr__train_choose_shares). No choice changes a
 * bit of the results, so the choice may depend on rates, which differ between machines. */
#include "train/choose/choose.h"

#include "config/config.h"

#include <math.h>

/* Two steps count as equally long if their times differ by at most this factor. */
#define ALIKE 1.01
/* maximum number of micro-batches with which the order "layer" is tried, since the time to plan grows with this number
 */
#define MICROS_MOST 16

/** Results of planning a configuration. */
typedef struct seen {
    bool planned, fits; /* planned: whether the planner accepts the configuration; fits: whether it fits memory.limit */
    bool timed;         /* whether all rates on which step_sec depends are known */
    int64_t needs, disk_bytes;
    double step_sec;
} seen;

static const zr_profile *rates_of(const zr__train_target *target)
{
    return target->rates ? target->rates : target->profile;
}

bool zr__is_timed(const zr_config *config, const zr__train_target *target)
{
    zr_machine m = rates_of(target)->machine;
    const bool narrow = config->bf16 || config->fp16;
    const double products = narrow && m.flops_bf16 > 0 ? m.flops_bf16 : m.flops_f32;
    return target->cluster ||
           (products > 0 && m.memory_bytes_sec > 0 && (target->ranks == 1 || zr__machine_link(&m).bytes_sec > 0));
}

/** Return whether all rates that a plan needs are known: of copies between device memory, host and disk, and of updates
 * on the host's processors. */
static bool copies_timed(const zr__train_target *target, const zr_plan *plan, const zr_price *price)
{
    const zr_machine *m = &rates_of(target)->machine;
    const bool host = plan->copied[ZR_SPACE_HOST][ZR_SPACE_DEVICE] > 0;
    const bool disk = plan->memory.space[ZR_SPACE_DISK].total_bytes > 0;
    if (target->cluster) return !disk || price->disk_sec > 0;
    const bool updates = plan->has_stream[ZR_STREAM_HOST];
    return (!disk || (m->disk_read_bytes_sec > 0 && m->disk_write_bytes_sec > 0)) && (!host || m->host_bytes_sec > 0) &&
           (!updates || m->host_memory_bytes_sec > 0);
}

/** Plan a configuration. If `plans` is not NULL, also return the plans. A configuration that the planner refuses is not
 * an error. */
static zr_status see(const zr_config *config, const zr__train_target *target, seen *s, zr_plans *plans)
{
    ZR_AUTO(zr__plans_clear) zr_plans made = {0};
    zr__trial trial;
    zr__train_target by = *target;
    by.profile = rates_of(target);
    *s = (seen){0};
    const zr_status st = zr__try(&by, config, &trial, &made);
    if (zr__refused(st)) return ZR_OK; /* the run reports this error when it plans */
    ZR_TRY(st);
    *s = (seen){.planned = true,
                .needs = trial.needs_bytes,
                .disk_bytes = trial.disk_bytes,
                .fits = config->memory.limit_bytes == 0 || trial.needs_bytes <= config->memory.limit_bytes,
                .timed = zr__is_timed(config, target) && copies_timed(target, made.role[0], &trial.simulation.price),
                .step_sec = trial.simulation.price.step_sec};
    if (!plans) return ZR_OK;
    *plans = made;
    made = (zr_plans){0};
    return ZR_OK;
}

/** Begin a new part of the description. */
static void begin(zr__text *text)
{
    if (text->length > 0) zr__text_add(text, "; ");
}

/* ---- order of micro-batches --------------------------------------------------------------------- */

static zr_status choose_order(zr_config *config, const zr__train_target *target, zr__text *text)
{
    static const char key[] = "train.accumulation_order: auto, set to ";
    const long long accum = (long long)config->accumulation_steps;
    seen micro, layer = {0};
    config->train.layer_major = false;
    begin(text);
    if (accum == 1 || accum > MICROS_MOST) {
        zr__text_add(text, "%smicro, as a step has %lld micro-batch%s", key, accum, accum == 1 ? "" : "es");
        return ZR_OK;
    }
    zr_config other = *config;
    other.train.layer_major = true;
    ZR_TRY(see(config, target, &micro, NULL));
    ZR_TRY(see(&other, target, &layer, NULL));
    const bool known = micro.timed && layer.timed;
    config->train.layer_major = layer.fits && known && layer.step_sec * ALIKE < micro.step_sec;
    if (config->train.layer_major)
        zr__text_add(text, "%slayer, with which a step takes %.3g s instead of %.3g s", key, layer.step_sec,
                     micro.step_sec);
    else
        zr__text_add(text, "%smicro: %s", key,
                     !layer.planned ? "layer cannot be planned"
                     : !layer.fits  ? "layer does not fit memory.limit"
                     : !known       ? "rates are not known (`zr info --bench` measures them)"
                                    : "layer is not faster");
    return ZR_OK;
}

/* ---- shares ------------------------------------------------------------------------------------- */

/** Units that a share of 1 offloads. The chosen share offloads the last of them. */
typedef struct units {
    int64_t *elems; /* elems[n]: elements of the last n units of the model that are offloaded, for n from 0 to `n` */
    int n;
} units;

/** List the units that a plan offloads with a share of 1. */
static zr_status list_units(const zr_plan *plan, bool param, units *u)
{
    *u = (units){.elems = zr_alloc((size_t)(plan->n_units + 1) * sizeof(*u->elems))};
    ZR_CHECK(u->elems, ZR_ERR_MEMORY, "no memory to choose a share");
    for (int32_t i = plan->n_units - 1; i >= 0; i--) {
        const zr_plan_unit *unit = &plan->unit[i];
        if ((param ? unit->param_home : unit->optim_home) == ZR_SPACE_DEVICE) continue;
        u->elems[u->n + 1] = u->elems[u->n] + unit->elems;
        u->n++;
    }
    return ZR_OK;
}

/** Return the number with the fewest digits that, as a share, selects the last n units. The planner rounds shares up to
 * whole units. */
static double share_of(const units *u, int n)
{
    const double all = (double)u->elems[u->n];
    if (n == 0 || n == u->n) return n == 0 ? 0 : 1;
    const double most = (double)u->elems[n], above = (double)u->elems[n - 1];
    for (double scale = 10; scale < 1e15; scale *= 10) {
        const double share = floor(most / all * scale) / scale;
        if (above < share * all && share * all <= most) return share;
    }
    return (most + above) / 2 / all;
}

/** A search for the share of one kind of states. */
typedef struct search {
    zr_config config; /* copy of the configuration, in which the share is changed */
    double *ratio;    /* the share in `config` */
    const zr__train_target *target;
    units units;
    bool limited;    /* whether the share must fit memory.limit; otherwise the share must not prolong a step */
    double free_sec; /* maximum seconds of a step with offload that counts as no slower than one without */
} search;

/** Plan with the last n units offloaded. */
static zr_status see_share(search *s, int n, seen *found)
{
    *s->ratio = share_of(&s->units, n);
    return see(&s->config, s->target, found, NULL);
}

/** Find the smallest number of units that fits memory.limit, or the largest number that does not prolong a step.
 * Offloading all units is known to fit, and offloading none does not prolong a step. */
static zr_status bisect(search *s, int *n)
{
    int low = 0, high = s->units.n;
    seen found;
    ZR_TRY(see_share(s, s->limited ? low : high, &found));
    if (s->limited ? found.fits : found.step_sec <= s->free_sec) {
        *n = s->limited ? low : high;
        return ZR_OK;
    }
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        ZR_TRY(see_share(s, middle, &found));
        const bool lower = s->limited ? found.fits : found.step_sec > s->free_sec;
        if (lower)
            high = middle;
        else
            low = middle;
    }
    *n = s->limited ? high : low;
    return ZR_OK;
}

/** Describe the chosen share, which offloads the last n units. */
static zr_status note_share(search *s, const char *key, int n, zr__text *text)
{
    seen found;
    ZR_TRY(see_share(s, n, &found));
    begin(text);
    zr__text_add(text, "%s: auto, set to %s, ", key, ZR_SHORTEST(*s->ratio));
    if (s->limited)
        zr__text_add(text, "the least with which %s is enough: %s a rank",
                     ZR_SIZE((double)s->config.memory.limit_bytes), ZR_SIZE((double)found.needs));
    else
        zr__text_add(text, "the most whose copies prolong a step by at most 1 %%: %.3g s", found.step_sec);
    if (found.disk_bytes > 0) zr__text_add(text, ", %s on disk", ZR_SIZE((double)found.disk_bytes));
    return ZR_OK;
}

/** Find the largest share that does not prolong a step. If it does not fit the memory of the target, use this memory as
 * limit and search again. */
static zr_status search_free(search *s, int *n)
{
    seen found;
    ZR_TRY(see_share(s, 0, &found));
    s->free_sec = ALIKE * found.step_sec;
    ZR_TRY(bisect(s, n));
    ZR_TRY(see_share(s, *n, &found));
    s->limited = s->target->memory_bytes > 0 && found.needs > s->target->memory_bytes;
    if (s->limited) s->config.memory.limit_bytes = s->target->memory_bytes;
    return ZR_OK;
}

/** Choose the share of a search and describe it. `whole` is the plan with a share of 1. */
static zr_status take_share(search *s, const char *key, const seen *whole, zr__text *text)
{
    int n = s->units.n;
    const char *why = NULL;
    s->limited = s->config.memory.limit_bytes > 0;
    if (n == 0)
        why = "as nothing can be offloaded";
    else if (!s->limited && !whole->timed)
        why = "as rates are not known (`zr info --bench` and `zr info --bench --disk DIR` measure them)";
    else if (!s->limited)
        ZR_TRY(search_free(s, &n));
    if (!why && s->limited && whole->needs > s->config.memory.limit_bytes)
        why = "with which the memory is not enough either";
    if (!why && s->limited) ZR_TRY(bisect(s, &n));
    if (!why) return note_share(s, key, n, text);
    *s->ratio = 1;
    begin(text);
    zr__text_add(text, "%s: auto, set to 1, %s", key, why);
    return ZR_OK;
}

static zr_status choose_share(zr_config *config, const zr__train_target *target, bool param, zr__text *text)
{
    const char *key = param ? "zero_optimization.offload_param.ratio" : "zero_optimization.offload_optimizer.ratio";
    search s = {.config = *config, .target = target};
    seen whole;
    ZR_AUTO(zr__plans_clear) zr_plans plans = {0};
    s.ratio = param ? &s.config.zero.param.ratio : &s.config.zero.optim.ratio;
    *s.ratio = 1;
    if ((param ? config->zero.param.device : config->zero.optim.device) == ZR_HOME_NONE) return ZR_OK;
    ZR_TRY(see(&s.config, target, &whole, &plans));
    if (!whole.planned) return ZR_OK;
    zr_status st = list_units(plans.role[0], param, &s.units);
    if (st == ZR_OK) st = take_share(&s, key, &whole, text);
    if (st == ZR_OK) *(param ? &config->zero.param.ratio : &config->zero.optim.ratio) = *s.ratio;
    zr_free(s.units.elems);
    return st;
}

zr_status zr__train_choose_shares(zr_config *config, const zr__train_target *target, zr__text *text)
{
    const zr__config_open open = zr__config_get_open(config);
    if (open.order) ZR_TRY(choose_order(config, target, text));
    if (open.param_ratio) ZR_TRY(choose_share(config, target, true, text));
    if (open.optim_ratio) ZR_TRY(choose_share(config, target, false, text));
    return ZR_OK;
}
