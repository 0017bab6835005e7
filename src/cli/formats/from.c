#include "cli/formats/formats.h"

#include "base/file/folder.h"
#include "base/json/json.h"
#include "cli/shell/message.h"
#include "systems/systems.h"
#include "zr/checkpoint.h"
#include "zr/models.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_options(const char *given)
{
    return strncmp(given, "--", 2) == 0 || strstr(given, " --");
}

/** Read the settings of a file, or of options given on the command line, and find their format. */
static zr_status read_text(const char *given, const char **name, zr__settings *theirs, const zr__format **format)
{
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = strlen(given);
    *name = is_options(given) ? "--from" : given;
    if (is_options(given))
        ZR_TRY(zr__text_copy(given, bytes, &text));
    else
        ZR_TRY(zr__json_read(given, &text, &bytes));
    ZR_TRY(zr__settings_read(text, bytes, *name, theirs));
    *format = zr__format_of(theirs);
    ZR_CHECK(*format, ZR_ERR_CONFIG,
             "%s: no setting of DeepSpeed, accelerate, torchtitan, Megatron-LM or the Trainer in it; zr's own "
             "configurations are given without --from",
             *name);
    return ZR_OK;
}

/** Add the settings of a file of DeepSpeed that the first file names. Its "auto" means what the first file says. */
static zr_status merge_file(cli_from *from, zr__settings *ours, zr__text *said)
{
    const zr__setting *file = zr__settings_find(ours, "file");
    ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
    ZR_AUTO(zr__settings_clear) zr__settings more = {0};
    const zr__format *format;
    const char *name;
    if (!file) return ZR_OK;
    ZR_TRY(read_text(file->value, &name, &theirs, &format));
    ZR_CHECK(format == &zr__format_deepspeed, ZR_ERR_CONFIG, "%s: it is not a JSON file of DeepSpeed, as %s says", name,
             from->name);
    ZR_TRY(zr__format_read(format, &theirs, name, &more, said));
    for (int64_t i = 0; i < more.n; i++) {
        const zr__setting *s = &more.one[i];
        zr__setting *had = zr__settings_find(ours, s->name);
        if (had && (strcmp(s->value, "auto") == 0 || zr__same_value(had->value, s->value))) continue;
        ZR_CHECK(!had || !had->from, ZR_ERR_CONFIG,
                 "%s in %s is %s, but %s in %s is %s; write the same, or \"auto\", in %s", s->name, name, s->value,
                 had->from, from->name, had->value, name);
        if (had) {
            char *copy = NULL;
            ZR_TRY(zr__text_copy(s->value, strlen(s->value), &copy));
            zr_free(had->value);
            had->value = copy;
        } else {
            ZR_TRY(zr__settings_add(ours, s->name, s->value, s->line));
        }
    }
    return ZR_OK;
}

/** Turn the name of a model, as Trainer's scripts have it, into a key of zr. */
static zr_status name_model(zr__settings *ours)
{
    const zr_family *family;
    char path[PATH_MAX];
    const char *model = zr__settings_value(ours, "model");
    if (!model) return ZR_OK;
    const bool folder = zr__path_join(path, model, "config.json") == ZR_OK && access(path, R_OK) == 0;
    const zr_preset *preset = folder ? NULL : zr_family_preset_called(model, &family);
    if (folder) return zr__settings_add(ours, "model.init", model, 0);
    return preset ? zr__settings_add(ours, "model.preset", preset->name, 0) : ZR_OK;
}

/** Find the sizes of the model, which are 0 if they are unknown. */
static zr_model_sizes find_sizes(const cli_args *args, const char *preset, const zr__settings *ours)
{
    static const char begin[] = "model.init=";
    const zr_family *family = NULL;
    zr_model_config config;
    const char *init = zr__settings_value(ours, "model.init");
    for (int i = 0; i < args->n_overrides; i++)
        if (strncmp(args->override[i], begin, strlen(begin)) == 0) init = args->override[i] + strlen(begin);
    if (!preset) preset = zr__settings_value(ours, "model.preset");
    if (init && zr_hf_read(init, &family, &config) != ZR_OK) return (zr_model_sizes){0};
    if (!init && (!preset || zr_family_find_preset(preset, &family, &config) != ZR_OK)) return (zr_model_sizes){0};
    return zr_family_sizes(family, &config);
}

static void say_lines(const char *name, const char *lines)
{
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        cli_say("note: %s: %.*s", name, (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

/** Keep a text until the end of the command. Return it, or NULL if memory is short. */
static const char *keep(cli_from *from, const char *name, const char *value)
{
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    zr__text_add(&text, "%s=%s", name, value);
    if (text.failed || zr__settings_add(&from->texts, name, text.data, 0) != ZR_OK) return NULL;
    return from->texts.one[from->texts.n - 1].value;
}

static zr_status insert_option(cli_list *with, const char *text)
{
    ZR_CHECK(with->n < CLI_LIST_MOST, ZR_ERR_ARG, "more than %d options of the system", CLI_LIST_MOST);
    memmove(with->text + 1, with->text, (size_t)with->n++ * sizeof(with->text[0]));
    with->text[0] = text;
    return ZR_OK;
}

/** Return whether the list has an option. */
static bool has_option(const cli_list *with, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < with->n; i++)
        if (strncmp(with->text[i], name, n) == 0 && with->text[i][n] == '=') return true;
    return false;
}

/** Insert the options among our settings that the list does not have. */
static zr_status insert_options(cli_from *from, const zr__settings *ours, cli_list *with)
{
    static const char begin[] = "with.";
    for (int64_t i = 0; i < ours->n; i++) {
        const char *name = ours->one[i].name + strlen(begin), *value = ours->one[i].value;
        if (strncmp(ours->one[i].name, begin, strlen(begin)) != 0 || strcmp(value, "auto") == 0) continue;
        if (has_option(with, name)) continue;
        const char *text = keep(from, name, value);
        ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the options of a system");
        ZR_TRY(insert_option(with, text));
    }
    return ZR_OK;
}

/** Remove the policy of recompute from our settings if the command line says it by an option of the system. */
static void drop_recompute(zr__settings *ours, const char *system, const cli_list *with)
{
    const zr__system *found;
    const bool known = system && zr__system_find(system, &found) == ZR_OK && found->recompute_option;
    zr__setting *s = zr__settings_find(ours, "activation_checkpointing.policy");
    if (!known || !s || !has_option(with, found->recompute_option)) return;
    zr_free(s->name);
    zr_free(s->value);
    *s = ours->one[--ours->n];
}

zr_status cli_formats_options(cli_from *from, const zr__format *emit, const char **system, cli_list *with)
{
    ZR_AUTO(zr__settings_clear) zr__settings usual = {0};
    if (!*system) *system = from->system;
    drop_recompute(&from->ours, *system, with);
    ZR_TRY(insert_options(from, &from->ours, with));
    if (!emit) return ZR_OK;
    if (!*system) {
        char first[32];
        snprintf(first, sizeof(first), "%.*s", (int)strcspn(emit->systems, " "), emit->systems);
        const char *text = keep(from, "", first);
        ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the name of a system");
        *system = text + 1;
    }
    ZR_CHECK(zr__format_is_for(emit, *system), ZR_ERR_ARG, "--emit %s is for --system %s, and this is a run of %s",
             emit->name, emit->systems, *system);
    ZR_TRY(zr__settings_add(&usual, "system", *system, 0));
    ZR_TRY(zr__format_options(emit, &usual));
    return insert_options(from, &usual, with);
}

zr_status cli_from_read(const char *given, const char *preset, const cli_args *args, int64_t ranks, cli_from *from)
{
    ZR_AUTO(zr__text_clear) zr__text said = {0};
    ZR_TRY(read_text(given, &from->name, &from->theirs, &from->format));
    ZR_TRY(zr__format_read(from->format, &from->theirs, from->name, &from->ours, &said));
    ZR_TRY(merge_file(from, &from->ours, &said));
    ZR_TRY(name_model(&from->ours));
    const zr_model_sizes sizes = find_sizes(args, preset, &from->ours);
    ZR_TRY(zr__format_settle(from->name, &from->ours, ranks, sizes.layers, sizes.width));
    const char *given_ranks = zr__settings_value(&from->ours, "ranks");
    from->ranks = given_ranks ? (int64_t)strtod(given_ranks, NULL) : 0;
    from->system = zr__settings_value(&from->ours, "system");
    ZR_CHECK(!said.failed, ZR_ERR_MEMORY, "no memory for what %s says", from->name);
    if (args->quiet) return ZR_OK;
    cli_say("note: %s: read as %s", from->name, from->format->title);
    say_lines(from->name, said.data ? said.data : "");
    return ZR_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/** Return whether a setting of ours is no key of zr. */
static bool is_other(const char *name)
{
    static const char *const other[] = {"system",           "ranks", "hosts", "per_host", "global", "local", "shard",
                                        "layers_per_chunk", "file",  "model"};
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
        if (strcmp(name, other[i]) == 0) return true;
    return strncmp(name, "with.", 5) == 0;
}

bool cli_from_model(const cli_from *from)
{
    for (int64_t i = 0; i < from->ours.n; i++)
        if (strncmp(from->ours.one[i].name, "model.", 6) == 0) return true;
    return false;
}

zr_status cli_from_overrides(cli_from *from, cli_args *args)
{
    for (int64_t i = from->ours.n; i-- > 0;) {
        const zr__setting *s = &from->ours.one[i];
        if (is_other(s->name)) continue;
        const char *text = keep(from, s->name, s->value);
        ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the keys of %s", from->name);
        ZR_CHECK(args->n_overrides < CLI_MAX_OVERRIDES, ZR_ERR_ARG, "%s: more than %d keys", from->name,
                 CLI_MAX_OVERRIDES);
        memmove(args->override + 1, args->override, (size_t)args->n_overrides++ * sizeof(args->override[0]));
        args->override[0] = text;
    }
    return ZR_OK;
}

zr_status cli_from_explain(const cli_from *from, zr_status st)
{
    static const char begin[] = "command line: "; /* where keys of a file are added */
    char message[1024];
    if (st == ZR_OK) return st;
    const char *said = zr_error_message();
    snprintf(message, sizeof(message), "%s", said + (strncmp(said, begin, strlen(begin)) == 0 ? strlen(begin) : 0));
    for (int64_t i = 0; i < from->ours.n; i++) {
        const zr__setting *s = &from->ours.one[i];
        if (!s->from || is_other(s->name) || !strstr(message, s->name)) continue;
        const char *name = zr__same_name(s->from, s->name) ? "" : s->from; /* the name in the file, if it differs */
        if (s->line > 0)
            return ZR_FAIL(st, "%s:%d: %s%s%s%s", from->name, s->line, message, *name ? " (" : "", name,
                           *name ? ")" : "");
        return ZR_FAIL(st, "%s: %s%s%s%s", from->name, message, *name ? " (" : "", name, *name ? ")" : "");
    }
    return st;
}

void cli_from_clear(cli_from *from)
{
    zr__settings_clear(&from->theirs);
    zr__settings_clear(&from->ours);
    zr__settings_clear(&from->texts);
}
