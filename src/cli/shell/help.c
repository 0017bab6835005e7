/* The text that `zr COMMAND --help` prints. */
#include "cli/shell/reference.h"

#include <stdio.h>
#include <string.h>

static void print_option(const cli_option *o)
{
    char left[48];
    snprintf(left, sizeof(left), "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-24s %s\n", left, o->help);
}

/** Print a configuration key and its help text, wrapped between the columns FIRST and LAST. */
static void print_key(const zr_key *key)
{
    enum { FIRST = 47, LAST = 100 };
    int column = printf("  %-44s [%s]", key->path, key->standard && key->standard[0] ? key->standard : "-");
    char help[CLI_KEY_HELP_BYTES];
    for (const char *at = cli_key_help(key, help); *at;) {
        int length = (int)strcspn(at, " ");
        if (column + 1 + length > LAST) column = printf("\n%*s", FIRST - 1, "") - 1;
        column += printf(" %.*s", length, at);
        at += length;
        at += strspn(at, " ");
    }
    putchar('\n');
}

static cli_help_form *form_now;

void cli_help_as(cli_help_form *form)
{
    form_now = form;
}

void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys)
{
    if (form_now) {
        form_now(command, options, keys != CLI_KEYS_NONE);
        return;
    }
    if (keys == CLI_KEYS_ALL) {
        int n = 0;
        zr_key *key = NULL;
        if (zr_config_keys(&key, &n) != ZR_OK) return;
        printf("Keys of CONFIG.json, with defaults in brackets; each can also be given as an option, --key=value\n");
        for (int i = 0; i < n; i++)
            if (key[i].state != ZR_KEY_NO_MEANING) print_key(&key[i]);
        printf("\nOther keys of DeepSpeed are accepted but have no effect; zr prints a note for each one that is "
               "given.\n");
        zr_free(key);
        return;
    }
    printf("zr %s: %s\n\nExamples\n%s\nUsage\n  %s\n\nOptions\n", command->name, command->summary, command->examples,
           command->usage);
    for (const cli_option *o = options; o->name; o++) print_option(o);
    for (const cli_option *o = cli_common_options; strcmp(o->name, "help") != 0; o++) print_option(o);
    printf("  %-24s %s\n", "-h, --help", "show this help");
    if (keys == CLI_KEYS_NAMED)
        printf("\nAny key of CONFIG.json can also be given as an option, --key.path=value: --train.steps=500,\n"
               "--zero_optimization.stage=3. `zr %s -h keys` lists all keys with their defaults.\n",
               command->name);
}
