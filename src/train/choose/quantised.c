/** Choice of zero_quantized_weights and zero_quantized_gradients, if they are "auto": true if the planned step is then
 * shorter. Quantised values change results, so a resumed run keeps its checkpoint's choice. */
#include "train/choose/choose.h"

#include "config/config.h"

#define WEIGHTS_KEY "zero_optimization.zero_quantized_weights"
#define GRADIENTS_KEY "zero_optimization.zero_quantized_gradients"

/* Factor by which a step must be shorter to count as shorter. */
#define ALIKE 1.01

/** Sets of keys that are true, as bits. */
enum { WEIGHTS = 1, GRADIENTS = 2, BOTH = 3, SETS = 4 };

/** Results of planning a set. `usable`: whether it can be planned and fits. */
typedef struct seen {
    bool usable;
    double step_sec;
} seen;

static zr_config_switch switch_of(bool on)
{
    return on ? ZR_SWITCH_ON : ZR_SWITCH_OFF;
}

/** Set the keys in `keys` to true if `set` has them, else to false. */
static void set_keys(zr_config *config, int keys, int set)
{
    if (keys & WEIGHTS) config->zero.quantized_weights = switch_of(set & WEIGHTS);
    if (!(keys & GRADIENTS)) return;
    config->zero.quantized_gradients = switch_of(set & GRADIENTS);
    if (set & GRADIENTS) config->reduce_once = true; /* like zr_config_resolve for true */
}

static zr_status see(const zr_config *config, const zr__train_target *target, int keys, int set, seen *s)
{
    zr__train_target by = *target;
    zr__trial trial;
    zr_config with = *config;
    if (target->rates) by.profile = target->rates;
    set_keys(&with, keys, set);
    *s = (seen){false, 0};
    const zr_status st = zr__try(&by, &with, &trial, NULL);
    if (zr__refused(st)) return ZR_OK;
    ZR_TRY(st);
    *s = (seen){trial.fits, trial.simulation.price.step_sec};
    return ZR_OK;
}

/** Return why gradients cannot be quantised, or NULL. */
static const char *excluded(const zr_config *config)
{
    const bool micro = zr__config_given(config, "gradient_reduction") && !config->reduce_once;
    return config->train.rank_free_sums                   ? "train.reproducible is world"
           : config->collectives.reduce == ZR_REDUCE_NCCL ? "collectives.reduce is nccl"
           : micro && config->accumulation_steps > 1      ? "gradient_reduction is micro"
                                                          : NULL;
}

/** Return whether the time of encoding and decoding a key's values is known. On processors it has rates; GPUs are
 * priced by the bytes in memory. */
static bool is_coding_timed(const zr_config *config, const zr__train_target *target, int key)
{
    const zr_profile *rates = target->rates ? target->rates : target->profile;
    const zr_machine *machine = target->cluster ? &target->cluster->device : &rates->machine;
    const zr_record_rate *rate =
        &machine->records[key == WEIGHTS ? config->quantization.weights : config->quantization.gradients];
    return rates->facts.own_memory ||
           (rate->decode > 0 && (config->quantization.stochastic ? rate->encode_random : rate->encode) > 0);
}

/** Return why the times of steps with and without a key are not known, or NULL. */
static const char *untimed(const zr_config *config, const zr__train_target *target, int key)
{
    const zr_profile *rates = target->rates ? target->rates : target->profile;
    const bool link = target->cluster || zr__machine_link(&rates->machine).bytes_sec > 0;
    return rates->facts.own_memory && !link
               ? "as links between GPUs are not measured (`zr plan --cluster` tells whether true is faster)"
           : !zr__is_timed(config, target)
               ? "as rates are not known (`zr info --bench` measures them, on several hosts under the launcher)"
           : !is_coding_timed(config, target, key)
               ? "as the rates of encoding are not known (`zr info --bench` measures them)"
               : NULL;
}

/** Begin the description of a key, or of both, with the value. */
static void begin(zr__text *text, int keys, bool on)
{
    if (text->length > 0) zr__text_add(text, "; ");
    zr__text_add(text, "%s%s%s: auto, set to %s, ", keys & WEIGHTS ? WEIGHTS_KEY : GRADIENTS_KEY,
                 keys == BOTH ? " and " : "", keys == BOTH ? GRADIENTS_KEY : "", on ? "true" : "false");
}

/** Describe the choice of a key, or of both, where `set` is the best of all sets. */
static void note_choice(const seen all[SETS], int key, int set, zr__text *text)
{
    const seen *with = &all[set | key], *without = &all[set & ~key];
    begin(text, key, set & key);
    if ((set & key) && !without->usable)
        zr__text_add(text, "as false cannot be planned, or does not fit");
    else if (set & key)
        zr__text_add(text, "with which a step takes %.3g s instead of %.3g s", with->step_sec, without->step_sec);
    else if (!with->usable)
        zr__text_add(text, "as true cannot be planned, or does not fit");
    else if (with->step_sec > ALIKE * without->step_sec)
        zr__text_add(text, "since a step of %.3g s would take %.3g s", without->step_sec, with->step_sec);
    else
        zr__text_add(text, "since a step of %.3g s would not be shorter", without->step_sec);
}

/** Choose the set of `keys` with the shortest step. */
static zr_status choose_set(zr_config *config, const zr__train_target *target, int keys, zr__text *text)
{
    seen all[SETS] = {{false, 0}};
    int best = 0;
    for (int set = 0; set < SETS; set++) {
        if (set & ~keys) continue;
        ZR_TRY(see(config, target, keys, set, &all[set]));
        if (all[set].usable && (!all[best].usable || ALIKE * all[set].step_sec < all[best].step_sec)) best = set;
    }
    set_keys(config, keys, best);
    if (best == BOTH && all[0].usable) {
        note_choice(all, BOTH, best, text); /* beside the exact step */
        return ZR_OK;
    }
    for (int key = WEIGHTS; key <= GRADIENTS; key++)
        if (keys & key) note_choice(all, key, best, text);
    return ZR_OK;
}

zr_status zr__choose_quantised(zr_config *config, const zr__train_target *target, zr__train_kept kept, zr__text *text)
{
    const zr__config_open open = zr__config_get_open(config);
    const int asked = (open.weights ? WEIGHTS : 0) | (open.gradients ? GRADIENTS : 0);
    const int64_t summing = target->ranks / (config->parallel.tensor * config->parallel.pipeline);
    const char *no_gradients = excluded(config);
    int keys = asked;
    for (int key = WEIGHTS; key <= GRADIENTS; key++) {
        const char *why = summing == 1 ? "as nothing passes between data-parallel ranks" : untimed(config, target, key);
        const bool on = kept.quantised[key == GRADIENTS], alone = key == GRADIENTS && no_gradients;
        if (!(asked & key) || !(kept.accum > 0 || why || alone)) continue;
        set_keys(config, key, kept.accum > 0 && on ? key : 0);
        begin(text, key, kept.accum > 0 && on);
        if (kept.accum > 0)
            zr__text_add(text, "as the checkpoint has it");
        else
            zr__text_add(text, "%s%s", why ? "" : "as ", why ? why : no_gradients);
        keys &= ~key;
    }
    return keys ? choose_set(config, target, keys, text) : ZR_OK;
}

zr_status zr__note_quantised(const zr_config *config, const zr__train_target *target, zr__text *text)
{
    const bool weights = config->zero.quantized_weights == ZR_SWITCH_ON && zr__config_given(config, WEIGHTS_KEY),
               gradients = config->zero.quantized_gradients == ZR_SWITCH_ON && zr__config_given(config, GRADIENTS_KEY);
    const int keys = (weights ? WEIGHTS : 0) | (gradients ? GRADIENTS : 0);
    zr_config exact = *config;
    seen with, without;
    if (!keys || !zr__is_timed(config, target)) return ZR_OK;
    ZR_TRY(see(config, target, keys, keys, &with));
    if (gradients && !zr__config_given(config, "gradient_reduction")) exact.reduce_once = false; /* they set it */
    ZR_TRY(see(&exact, target, keys, 0, &without));
    if (!with.usable || !without.usable || with.step_sec <= ALIKE * without.step_sec) return ZR_OK;
    if (text->length > 0) zr__text_add(text, "; ");
    zr__text_add(text, "%s%s%s: a step takes %.3g s, but %.3g s without: false, or \"auto\", is faster here",
                 keys & WEIGHTS ? WEIGHTS_KEY : GRADIENTS_KEY, keys == BOTH ? " and " : "",
                 keys == BOTH ? GRADIENTS_KEY : "", with.step_sec, without.step_sec);
    return ZR_OK;
}
