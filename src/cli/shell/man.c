/* Man pages, in roff. */
#include "base/core/scope.h"
#include "cli/shell/reference.h"

#include <stdio.h>
#include <string.h>

/** Print text with roff's special characters escaped: backslashes, minus signs, and a dot or quote at the start of a
 * line. */
static void print_roff(const char *text)
{
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        begins = *text == '\n';
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
    }
}

static void print_head(const char *name, int section, const char *summary)
{
    char upper[64];
    snprintf(upper, sizeof(upper), "%s", name);
    for (char *at = upper; *at; at++) *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
    printf(".TH \"%s\" %d \"\" \"zr %s\" \"zr\"\n.SH NAME\n", upper, section, zr_version());
    print_roff(name);
    printf(" \\- ");
    print_roff(summary);
    printf("\n");
}

static void print_tagged(const char *before, const char *tag, const char *value, const char *help)
{
    printf(".TP\n\\fB%s", before[0] ? "\\-\\-" : "");
    print_roff(tag);
    printf("\\fR");
    if (value) {
        printf(" \\fI");
        print_roff(value);
        printf("\\fR");
    }
    printf("\n");
    print_roff(help);
    printf("\n");
}

/** Print the section SEE ALSO with links to zr, zr-config and `n` commands. */
static void print_see_also(const cli_command *const *commands, int n)
{
    printf(".SH SEE ALSO\n\\fBzr\\fR(1), \\fBzr\\-config\\fR(5)");
    for (int i = 0; i < n; i++) printf(",\n\\fBzr\\-%s\\fR(1)", commands[i]->name);
    printf("\n");
}

static void command_page(const cli_command *command, const cli_option *options, bool keys)
{
    char name[64];
    snprintf(name, sizeof(name), "zr-%s", command->name);
    print_head(name, 1, command->summary);
    printf(".SH SYNOPSIS\n");
    print_roff(command->usage);
    printf("\n.SH OPTIONS\n");
    for (const cli_option *o = options; o->name; o++) print_tagged("--", o->name, o->value, o->help);
    for (const cli_option *o = cli_common_options; o->name; o++) print_tagged("--", o->name, o->value, o->help);
    if (keys)
        printf(".TP\n\\fB\\-\\-\\fIkey.path\\fB=\\fIvalue\\fR\n"
               "a key of the configuration, as \\fBzr\\-config\\fR(5) lists them\n");
    printf(".SH EXAMPLES\n.nf\n");
    print_roff(command->examples);
    printf(".fi\n");
    print_see_also(NULL, 0);
}

static void config_page(void)
{
    ZR_AUTO_FREE zr_key *keys = NULL;
    char words[256], value[320], help[CLI_KEY_HELP_BYTES];
    if (zr_config_keys(&keys) != ZR_OK) return;
    print_head("zr-config", 5, "the configuration of zr");
    printf(".SH DESCRIPTION\nA configuration is a file of JSON, in which // begins a comment. Keys that DeepSpeed has "
           "keep its names and\nmeanings. On the command line any key is written \\-\\-key.path=value.\n"
           "\\fBzr init\\fR writes one to begin with.\n.SH KEYS\n");
    for (const zr_key *key = keys; key->path; key++) {
        if (key->state == ZR_KEY_NO_MEANING) continue;
        const char *standard = key->standard && key->standard[0] ? key->standard : "-";
        cli_key_words(key, words);
        snprintf(value, sizeof(value), "%s%s[%s]", words, *words ? " " : "", standard);
        print_tagged("", key->path, value, cli_key_help(key, help));
    }
    print_see_also(NULL, 0);
}

static void zr_page(const cli_command *const *commands, int n)
{
    char code[12];
    print_head("zr", 1, "train transformer language models with ZeRO");
    printf(".SH SYNOPSIS\nzr \\fIcommand\\fR [\\fIoptions\\fR]\n.SH COMMANDS\n");
    for (int i = 0; i < n; i++) print_tagged("", commands[i]->name, NULL, commands[i]->summary);
    print_tagged("", "help", "COMMAND [WORD...]", "the options of a command, with examples, or those with the words");
    print_tagged("", "help keys", "[WORD...]", "the keys of a configuration, or those with the words");
    printf(".SH EXIT STATUS\n");
    for (int i = 0; i < CLI_EXITS; i++) {
        snprintf(code, sizeof(code), "%d", cli_exits[i].code);
        print_tagged("", code, NULL, cli_exits[i].words);
    }
    print_see_also(commands, n);
}

zr_status cli_man(const cli_command *const *commands, int n, const char *name)
{
    if (!name) {
        zr_page(commands, n);
        return ZR_OK;
    }
    if (strcmp(name, "config") == 0) {
        config_page();
        return ZR_OK;
    }
    for (int i = 0; i < n; i++)
        if (strcmp(commands[i]->name, name) == 0) return cli_options_of(commands[i], command_page);
    return ZR_FAIL(ZR_ERR_ARG, "--man: unknown command \"%s\"; `zr help --list` lists the commands", name);
}
