#include "zr/config.h"
#include "base/file/file.h"
#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "cli/shell/message.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_OUT "config.json"

/** Write a new file. Fail if `path` already exists, so that no file of the user is overwritten. */
static zr_status write_new(const char *path, const char *text)
{
    zr__file file;
    ZR_TRY(zr__file_create(path, &file));
    zr_status st = zr__file_write(&file, 0, text, (int64_t)strlen(text));
    if (st == ZR_OK) st = zr__file_sync(&file);
    zr__file_close(&file);
    return st;
}

static zr_status run_init(const cli_command *command, zr_comm *comm, int argc, char **argv)
{
    const cli_option options[] = {{0}};
    cli_args args = {.command = command->name, .options = options, .max_operands = 1};
    char *text = NULL;
    (void)comm;
    ZR_TRY(cli_parse_operands(&args, command, NULL, argc, argv));
    if (args.help) return ZR_OK;
    const char *path = args.n_operands ? args.operand[0] : DEFAULT_OUT;
    ZR_TRY(zr_config_example(&text));
    zr_status st = write_new(path, text);
    zr_free(text);
    ZR_TRY(st);
    if (args.json) {
        zr__json_out json = {0};
        zr__json_open(&json, NULL, '{');
        zr__json_add(&json, "file", path);
        zr__json_close(&json, '}');
        ZR_TRY(zr__json_write(&json, stdout));
    }
    if (!args.quiet) cli_say("wrote %s; next: zr train %s --data TEXT_FILE", ZR_SHOWN(path), ZR_SHOWN(path));
    return ZR_OK;
}

const cli_command cli_init = {
    .name = "init",
    .summary = "write a first configuration, with comments that explain its keys",
    .usage = "zr init [FILE]",
    .examples = "  zr init                                    write config.json\n"
                "  zr train config.json --data book.txt\n",
    .run = run_init,
};
