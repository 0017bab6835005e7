/* `zr init`: write an example of a configuration file. */
#include "config/config.h"
#include "zr/config.h"
#include "zr/models.h"
#include "base/file/commit.h"
#include "cli/plan/profile.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_OUT "config.json"
enum { TYPES_MOST = 32 };

/** Write a new file. Fail if `path` already exists, so that no file of the user is overwritten. If writing fails, leave
 * no file, so that the same command can be repeated. */
static zr_status write_new(const char *path, const char *text)
{
    const zr_status st = zr__file_write_new(path, text, (int64_t)strlen(text));
    ZR_CHECK(st != ZR_ERR_CREATE, st, "%s; name another file: zr init FILE.json", zr_error_message());
    if (st != ZR_OK) unlink(path);
    return st;
}

static zr_status check_model(const char *type, const char *preset)
{
    const char *names[TYPES_MOST + 1] = {0};
    const zr_family *family;
    int index;
    ZR_CHECK(!type || !preset, ZR_ERR_ARG, "--preset %s has a type of its own; leave out --type", preset);
    for (int i = 0; i < TYPES_MOST && (family = zr_family_at(i)); i++) names[i] = family->name;
    if (type) ZR_TRY(cli_word("type", type, names, &index));
    return preset ? cli_preset(preset) : ZR_OK;
}

static zr_status run_init(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    const char *type = NULL, *preset = NULL;
    const cli_option options[] = {
        {"type", CLI_TEXT, &type, 0, "TYPE",
         "kind of model (key model.type): gpt2, llama, mistral, qwen2, qwen3, bert or bert-preln; the file has a small "
         "model of this kind [gpt2]"},
        {"preset", CLI_TEXT, &preset, 0, "NAME",
         "named model shape, e.g. smollm2-135m, with training settings for its size (`zr plan --shapes` lists them)"},
        {0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    ZR_AUTO_FREE char *text = NULL;
    (void)comm;
    ZR_TRY(cli_parse_operands(&args, command, NULL, argc, argv));
    if (args.help) return ZR_OK;
    ZR_TRY(check_model(type, preset));
    const char *path = args.n_operands ? args.operand[0] : DEFAULT_OUT;
    ZR_TRY(zr__config_example(type, preset, &text));
    ZR_TRY(write_new(path, text));
    if (args.json) {
        zr__json_out json = {0};
        zr__json_add(&json, "file", path);
        ZR_TRY(zr__json_write(&json, stdout));
    }
    const zr_family *family = type ? zr_family_find(type) : NULL, *of;
    const char *own_name = preset ? zr_family_preset_called(preset, &of)->name : NULL;
    if (preset && strcmp(own_name, preset) != 0 && !args.quiet)
        cli_say("note: --preset %s is read as %s", ZR_SHOWN(preset), own_name);
    /* whether the model needs a tokenizer other than "bytes" */
    const bool own = preset || (family && family->samples == ZR_SAMPLES_PAIRS);
    if (!args.quiet)
        cli_say("wrote %s; next: zr train %s --data TEXT_FILE%s", ZR_SHOWN(path), ZR_WORD(path),
                own ? " --data.tokenizer=DIR" : "");
    return ZR_OK;
}

const cli_command cli_init = {
    .name = "init",
    .summary = "write a first configuration, with comments that explain its keys",
    .usage = "zr init [FILE] [--type TYPE | --preset NAME]",
    .examples = "  zr init                                    write config.json, with a small GPT-2\n"
                "  zr init --type llama                       ... with a small Llama\n"
                "  zr init --preset smollm2-135m small.json   ... with a named model\n"
                "  zr train config.json --data book.txt\n",
    .run = run_init,
};
