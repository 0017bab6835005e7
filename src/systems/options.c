/* Options of systems: defaults, keys of zr, values that a user gives, and their checks. */
#include "systems/systems.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "config/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLICY_KEY "activation_checkpointing.policy"

static int find_option(const zr__system *system, const char *name)
{
    for (int i = 0; system->option[i].name; i++)
        if (strcmp(system->option[i].name, name) == 0) return i;
    return -1;
}

/* Fail because of an unknown option: name the nearest one, or all. */
static zr_status unknown_option(const zr__system *system, const char *name)
{
    const char *names[ZR__OPTIONS_MOST] = {NULL};
    int n = 0;
    for (; system->option[n].name; n++) names[n] = system->option[n].name;
    const char *near = zr__text_nearest(name, names, n);
    if (near)
        return ZR_FAIL(ZR_ERR_ARG, "--with %s: %s has no such option; did you mean \"%s\"?", ZR_SHOWN(name),
                       system->title, near);
    ZR_AUTO(zr__text_clear) zr__text list = {0};
    for (int i = 0; i < n; i++) zr__text_add(&list, "%s%s", i ? ", " : "", names[i]);
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__text_take(&list, &text));
    return ZR_FAIL(ZR_ERR_ARG, "--with %s: %s has no such option; its options are %s", ZR_SHOWN(name), system->title,
                   text);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Return the index of a word of `n` characters in a list "a|b|c", or -1. */
static int find_word(const char *choices, const char *word, size_t n)
{
    int index = 0;
    for (const char *at = choices; *at; index++) {
        const size_t length = strcspn(at, "|");
        if (length == n && strncmp(at, word, n) == 0) return index;
        at += length + (at[length] == '|');
    }
    return -1;
}

static zr_status bad_value(const zr__option *option, const char *value, const char *wanted)
{
    return ZR_FAIL(ZR_ERR_ARG, "--with %s=%s: wanted %s", option->name, ZR_SHOWN(value), wanted);
}

static zr_status read_number(const zr__option *option, const char *value, double *number)
{
    char *end = NULL;
    const double read = strtod(value, &end);
    const bool whole = option->type == ZR__OPTION_REAL || (read == floor(read) && fabs(read) < 0x1p53);
    char wanted[96];
    snprintf(wanted, sizeof(wanted), "%s from %.10g to %.10g",
             option->type == ZR__OPTION_REAL ? "a number" : "an integer", option->min, option->max);
    if (end == value || *end || !isfinite(read) || !whole || read < option->min || read > option->max)
        return bad_value(option, value, wanted);
    *number = read;
    return ZR_OK;
}

/* Read words that commas or blanks separate, as a set of bits. "none" is the empty set. */
static zr_status read_words(const zr__option *option, const char *value, double *set)
{
    static const char gaps[] = ", []\"";
    unsigned long bits = 0;
    char wanted[256];
    for (const char *at = value + strspn(value, gaps); *at; at += strspn(at, gaps)) {
        const size_t n = strcspn(at, gaps);
        const int word = find_word(option->choices, at, n);
        snprintf(wanted, sizeof(wanted), "none, or some of %s, separated by commas", option->choices);
        if (word < 0 && !(n == 4 && strncmp(at, "none", 4) == 0)) return bad_value(option, value, wanted);
        if (word >= 0) bits |= 1UL << word;
        at += n;
    }
    *set = (double)bits;
    return ZR_OK;
}

static zr_status read_value(const zr__option *option, const char *value, double *number)
{
    if (strcmp(value, "auto") == 0 && strcmp(option->standard, "auto") == 0) {
        *number = ZR__OPTION_AUTO;
        return ZR_OK;
    }
    char wanted[256];
    int word;
    switch (option->type) {
    case ZR__OPTION_BOOL:
        word = find_word("false|true|False|True|0|1", value, strlen(value));
        if (word < 0) return bad_value(option, value, "true or false");
        *number = word % 2;
        return ZR_OK;
    case ZR__OPTION_INT:
    case ZR__OPTION_REAL:
        return read_number(option, value, number);
    case ZR__OPTION_WORDS:
        return read_words(option, value, number);
    case ZR__OPTION_CHOICE:
        break;
    }
    word = find_word(option->choices, value, strlen(value));
    snprintf(wanted, sizeof(wanted), "one of %s%s", option->choices,
             strcmp(option->standard, "auto") == 0 ? "|auto" : "");
    if (word < 0) return bad_value(option, value, wanted);
    *number = word;
    return ZR_OK;
}

const char *zr__with_text(const zr__run *run, const zr__option *option, char text[ZR__OPTION_BYTES])
{
    const double value = zr__with(run, option->name);
    size_t used = 0;
    int index = 0;
    text[0] = 0;
    if (value == ZR__OPTION_AUTO && strcmp(option->standard, "auto") == 0)
        snprintf(text, ZR__OPTION_BYTES, "auto");
    else if (option->type == ZR__OPTION_BOOL)
        snprintf(text, ZR__OPTION_BYTES, "%s", value != 0 ? "true" : "false");
    else if (option->type == ZR__OPTION_INT || option->type == ZR__OPTION_REAL)
        snprintf(text, ZR__OPTION_BYTES, "%s", ZR_SHORTEST(value));
    else
        for (const char *at = option->choices; *at; index++) {
            const size_t n = strcspn(at, "|");
            const bool in = option->type == ZR__OPTION_CHOICE ? index == (int)value : (unsigned long)value >> index & 1;
            if (in && used + n + 2 < ZR__OPTION_BYTES)
                used += (size_t)snprintf(text + used, ZR__OPTION_BYTES - used, "%s%.*s", used ? "," : "", (int)n, at);
            at += n + (at[n] == '|');
        }
    if (!text[0]) snprintf(text, ZR__OPTION_BYTES, "none");
    return text;
}

zr_status zr__run_set(zr__run *run, const char *name, const char *value)
{
    const int i = find_option(run->system, name);
    if (i < 0) return unknown_option(run->system, name);
    ZR_TRY(read_value(&run->system->option[i], value, &run->value[i]));
    run->given[i] = true;
    return ZR_OK;
}

bool zr__with_given(const zr__run *run, const char *name)
{
    const int i = name ? find_option(run->system, name) : -1;
    return i >= 0 && run->given[i];
}

double zr__with(const zr__run *run, const char *name)
{
    const int i = find_option(run->system, name);
    return i < 0 ? 0 : run->value[i];
}

bool zr__with_word(const zr__run *run, const char *name, const char *word)
{
    const int i = find_option(run->system, name);
    if (i < 0 || run->value[i] == ZR__OPTION_AUTO) return false;
    const zr__option *option = &run->system->option[i];
    const int index = find_word(option->choices, word, strlen(word));
    if (index < 0) return false;
    return option->type == ZR__OPTION_CHOICE ? index == (int)run->value[i] : (unsigned long)run->value[i] >> index & 1;
}

/* ---- the beginning of a run ------------------------------------------------------------------ */

/* Take the value of an option from the key of zr with the same meaning. Keys that zr has taken from a section with
 * another default, and values that the system does not have, leave the system's default. */
static void take_key(zr__run *run, const json_t *root, int i)
{
    const zr__option *option = &run->system->option[i];
    const json_t *at = root;
    char path[128], *save = NULL, text[64];
    snprintf(path, sizeof(path), "%s", option->key);
    for (char *part = strtok_r(path, ".", &save); part; part = strtok_r(NULL, ".", &save))
        at = json_object_get(at, part);
    if (json_is_string(at))
        snprintf(text, sizeof(text), "%s", json_string_value(at));
    else if (json_is_boolean(at))
        snprintf(text, sizeof(text), "%s", json_is_true(at) ? "true" : "false");
    else if (json_is_number(at))
        snprintf(text, sizeof(text), "%.17g", json_number_value(at));
    else
        return;
    double value;
    if (read_value(option, text, &value) == ZR_OK) run->value[i] = value;
}

static zr_status take_keys(zr__run *run)
{
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr_config_to_json(run->config, &text));
    json_t *root = zr__json_loads(text, 0);
    ZR_CHECK(root, ZR_ERR_MEMORY, "no memory for the keys of a run");
    for (int i = 0; run->system->option[i].name; i++) {
        const zr__option *option = &run->system->option[i];
        if (option->key && zr__config_given(run->config, option->key)) take_key(run, root, i);
    }
    json_decref(root);
    return ZR_OK;
}

/* Set the policy of recompute if an option says it. */
static zr_status settle_recompute(const zr__run *run, zr_config *config)
{
    const char *option = run->system->recompute_option;
    if (!zr__with_given(run, option) || zr__with(run, option) == ZR__OPTION_AUTO) return ZR_OK;
    const zr_recompute had = config->recompute.policy, policy = zr__with_word(run, option, "full") ? ZR_RECOMPUTE_UNIT
                                                                : zr__with_word(run, option, "selective")
                                                                    ? ZR_RECOMPUTE_SELECTIVE
                                                                    : ZR_RECOMPUTE_NONE;
    const bool same = had == policy || (had == ZR_RECOMPUTE_PAPER && policy == ZR_RECOMPUTE_UNIT);
    ZR_CHECK(same || !zr__config_given(config, POLICY_KEY), ZR_ERR_ARG,
             "%s says another recompute than " POLICY_KEY "; leave out one of them", option);
    if (!same) config->recompute.policy = policy;
    return ZR_OK;
}

/* Set the stages of a pipeline rank if an option says them, or the option if the schedule says them. */
static void settle_chunks(zr__run *run, zr_config *config)
{
    const char *option = run->system->chunks_option;
    if (!option) return;
    const int64_t chunks = (int64_t)zr__with(run, option);
    if (chunks > 1 || zr__with_given(run, option)) {
        config->parallel.schedule = chunks > 1 ? ZR_PIPELINE_INTERLEAVED : ZR_PIPELINE_1F1B;
        config->parallel.chunks = chunks > 1 ? chunks : 0;
    }
    run->value[find_option(run->system, option)] = (double)zr__degrees_of(run).chunks;
}

/* Leave out places of activation checkpoints: no system applies these keys of DeepSpeed to the models that are planned.
 */
static zr_status settle_places(const zr__run *run, zr_config *config)
{
    const bool any = config->recompute.cpu || config->recompute.partition || config->recompute.offload;
    if (any)
        ZR_TRY(zr__config_note(config, "the place of activation checkpoints (%s) has no effect on a run of %s",
                               config->recompute.cpu         ? "activation_checkpointing.cpu_checkpointing"
                               : config->recompute.partition ? "activation_checkpointing.partition_activations"
                                                             : "activation_checkpointing.offload",
                               run->system->title));
    config->recompute.cpu = config->recompute.partition = false;
    config->recompute.offload = ZR_OFFLOAD_NONE;
    return ZR_OK;
}

void zr__run_follow(zr__run *run, const zr_config *config)
{
    run->config = config;
    run->stage = config->zero.stage;
}

zr_status zr__run_begin(zr__run *run, const zr__system *system, zr_config *config, int64_t ranks,
                        const char *const *with, int n)
{
    const bool hopper = run->hopper;
    *run = (zr__run){.system = system, .config = config, .ranks = ranks, .hopper = hopper};
    for (int i = 0; system->option[i].name; i++)
        ZR_TRY(read_value(&system->option[i], system->option[i].standard, &run->value[i]));
    ZR_TRY(take_keys(run));
    for (int i = 0; i < n; i++) {
        const char *equals = strchr(with[i], '=');
        char name[64];
        ZR_CHECK(equals, ZR_ERR_ARG, "--with %s: wanted NAME=VALUE", ZR_SHOWN(with[i]));
        snprintf(name, sizeof(name), "%.*s", (int)(equals - with[i] < 63 ? equals - with[i] : 63), with[i]);
        ZR_TRY(zr__run_set(run, name, equals + 1));
    }
    const bool given = config->zero.stage > 0 || zr__config_given(config, "zero_optimization.stage");
    if (!given) config->zero.stage = system->usual_stage;
    settle_chunks(run, config);
    ZR_TRY(settle_recompute(run, config));
    ZR_TRY(settle_places(run, config));
    zr__run_follow(run, config);
    return ZR_OK;
}
