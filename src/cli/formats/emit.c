#include "cli/formats/formats.h"

#include "base/paths/output.h"
#include "config/config.h"
#include "systems/systems.h"

#include <stdio.h>
#include <string.h>

/* ---- our settings ---------------------------------------------------------------------------- */

/** Sections of zr's configuration that are no part of a plan, or that only zr has. */
static bool is_zr_only(const char *name)
{
    static const char *const begin[] = {"train.", "data.",           "scheduler.",       "checkpoint.", "aio.",
                                        "device", "steps_per_print", "train_batch_size", "memory.",     "collectives."};
    for (size_t i = 0; i < sizeof(begin) / sizeof(*begin); i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0) return strcmp(name, "data.seq_length") != 0;
    return false;
}

/** Choices that are written even where they have zr's default, since the default of the system may be another. */
static bool is_choice(const char *name)
{
    static const char *const choice[] = {"zero_optimization.stage",
                                         "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps",
                                         "gradient_clipping",
                                         "activation_checkpointing.policy",
                                         "bf16.enabled",
                                         "fp16.enabled",
                                         "parallel.tensor",
                                         "parallel.pipeline",
                                         "parallel.schedule",
                                         "parallel.chunks",
                                         "data.seq_length",
                                         "optimizer.type"};
    for (size_t i = 0; i < sizeof(choice) / sizeof(*choice); i++)
        if (strcmp(name, choice[i]) == 0) return true;
    return false;
}

/** Return whether a value is the default of its key. */
static bool is_default(const zr_key *keys, const char *name, const char *value)
{
    for (const zr_key *key = keys; key->path; key++) {
        char plain[128];
        if (strcmp(key->path, name) != 0) continue;
        const size_t quoted = key->standard[0] == '"';
        snprintf(plain, sizeof(plain), "%.*s", (int)(strlen(key->standard) - 2 * quoted), key->standard + quoted);
        return zr__same_value(plain, value);
    }
    return false;
}

/** Collect the settings of a configuration that make the plan. The model is its preset or directory, or its sizes. */
static zr_status collect(const cli_emit *emit, const zr_config *config, zr__settings *ours)
{
    ZR_AUTO_FREE char *json = NULL;
    ZR_AUTO_FREE zr_key *keys = NULL;
    ZR_AUTO(zr__settings_clear) zr__settings all = {0};
    const bool named = (config->model.preset || config->model.init) && !emit->format->shapes;
    ZR_TRY(zr_config_to_json(config, &json));
    ZR_TRY(zr__settings_read(json, strlen(json), "the configuration", &all));
    ZR_TRY(zr_config_keys(&keys));
    for (int64_t i = 0; i < all.n; i++) {
        const char *name = all.one[i].name, *value = all.one[i].value;
        const bool choice = is_choice(name), model = strncmp(name, "model.", 6) == 0;
        const bool by_name = strcmp(name, "model.preset") == 0 || strcmp(name, "model.init") == 0;
        const bool own = is_default(keys, name, value);
        if (is_zr_only(name) || strcmp(value, "auto") == 0 || (model && named && !by_name)) continue;
        if (!choice && !model && (own || !zr__config_given(config, name))) continue;
        ZR_TRY(zr__settings_add(ours, name, value, 0));
        const bool neutral = strncmp(name, "parallel.", 9) == 0 || zr__text_ends(name, ".enabled");
        const bool one_stage = strcmp(name, "parallel.chunks") == 0 && strcmp(value, "1") == 0;
        ours->one[ours->n - 1].plain = (own && (neutral || model)) || one_stage;
    }
    return ZR_OK;
}

/** Return whether an option NAME=VALUE has this name. It then repeats a key of the configuration. */
static bool is_key(const char *option, const char *name)
{
    const size_t n = name ? strlen(name) : 0;
    return name && strncmp(option, name, n) == 0 && option[n] == '=';
}

static zr_status add_options(const cli_emit *emit, zr__settings *ours)
{
    const zr__system *system;
    ZR_TRY(zr__system_find(emit->system, &system));
    ZR_TRY(zr__settings_add(ours, "system", emit->system, 0));
    for (int i = 0; i < emit->with->n; i++) {
        char name[128];
        const char *equals = strchr(emit->with->text[i], '=');
        ZR_ASSERT(equals);
        if (is_key(emit->with->text[i], system->recompute_option) || is_key(emit->with->text[i], system->chunks_option))
            continue;
        snprintf(name, sizeof(name), "with.%.*s", (int)(equals - emit->with->text[i]), emit->with->text[i]);
        ZR_TRY(zr__settings_add(ours, name, equals + 1, 0));
    }
    return ZR_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

/** An existing file is overwritten only if it begins like this one. */
static zr__output_kind kind_of(const zr__format *format)
{
    return (zr__output_kind){.what = format->title,
                             .head = format->syntax == ZR__SYNTAX_JSON ? "{\n  \"zr\"" : "# Written by `zr plan"};
}

zr_status cli_emit_check(const zr__format *format, const zr_config *config, const char *path)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    const zr__output_kind kind = kind_of(format);
    zr__config_inputs(config, inputs);
    return path ? zr__output_check(path, &kind, inputs) : ZR_OK;
}

zr_status cli_emit_write(const cli_emit *emit, const zr_config *config, const char *path)
{
    ZR_AUTO(zr__settings_clear) zr__settings ours = {0};
    ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
    ZR_AUTO(zr__text_clear) zr__text head = {0};
    ZR_AUTO(zr__text_clear) zr__text notes = {0};
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    const zr_model_sizes sizes = zr_config_sizes(config);
    ZR_TRY(collect(emit, config, &ours));
    ZR_TRY(add_options(emit, &ours));
    ZR_TRY(zr__format_derive(&ours, emit->ranks, emit->per_host, sizes.layers));
    ZR_TRY(zr__format_write(emit->format, &ours, &theirs, &notes));
    zr__text_add(&head, "Written by `zr plan --emit %s`\n%s%s", emit->format->name, emit->head,
                 notes.data ? notes.data : "");
    ZR_CHECK(!head.failed && !notes.failed, ZR_ERR_MEMORY, "no memory for %s", emit->format->title);
    ZR_TRY(zr__format_print(emit->format, &theirs, head.data, emit->comments, &ours, &text));
    ZR_CHECK(!text.failed, ZR_ERR_MEMORY, "no memory for %s", emit->format->title);
    if (!path) {
        fputs(text.data, stdout);
        return ZR_OK;
    }
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    const zr__output_kind kind = kind_of(emit->format);
    zr__config_inputs(config, inputs);
    return zr__output_write(path, &kind, inputs, text.data, text.length);
}
