#include "cli/shell/reference.h"

#include <stdio.h>
#include <string.h>

const cli_option cli_common_options[] = {
    {"json", CLI_FLAG, NULL, 0, NULL, "print one JSON document on standard output"},
    {"quiet", CLI_FLAG, NULL, 0, NULL, "print only errors on standard error"},
    {"color", CLI_TEXT, NULL, 0, "WHEN", "color the output: auto, always or never"},
    {"help", CLI_FLAG, NULL, 0, NULL, "this text"},
    {0}};

zr_status cli_options_of(const cli_command *command, cli_help_form *form)
{
    char help[] = "--help", *words[] = {help, NULL};
    cli_help_as(form);
    zr_status st = command->run(command, NULL, 1, words);
    cli_help_as(NULL);
    return st;
}

const char *cli_key_words(const zr_key *key, char words[256])
{
    const char *choices = key->state == ZR_KEY_LIMITED ? key->built : key->choices;
    words[0] = '\0';
    if (key->type == ZR_KEY_BOOL || key->type == ZR_KEY_SWITCH) {
        snprintf(words, 256, "%s",
                 key->state == ZR_KEY_LIMITED ? choices
                 : key->type == ZR_KEY_SWITCH ? "true false auto"
                                              : "true false");
    } else if (choices) {
        snprintf(words, 256, "%s", choices);
        for (char *at = words; *at; at++) *at = *at == '|' ? ' ' : *at;
    } else if (key->type == ZR_KEY_INT && key->min >= 0 && key->max < 10) {
        size_t used = 0;
        for (int i = (int)key->min; i <= (int)key->max; i++)
            used += (size_t)snprintf(words + used, 256 - used, "%s%d", used ? " " : "", i);
    }
    return words;
}

const char *cli_key_help(const zr_key *key, char help[CLI_KEY_HELP_BYTES])
{
    const bool some = key->families;
    snprintf(help, CLI_KEY_HELP_BYTES, "%s%s%s%s", some ? key->families : "", some ? ": " : "",
             key->state == ZR_KEY_NO_MEANING ? "no effect in zr: " : "", key->help);
    return help;
}

const zr_key *cli_key_next(const zr_key *keys, const zr_key *key)
{
    for (key = key ? key + 1 : keys; key->path; key++) {
        const zr_key *first = keys;
        while (strcmp(first->path, key->path) != 0) first++;
        if (first == key && key->state != ZR_KEY_NO_MEANING) return key;
    }
    return NULL;
}

zr_status cli_reference(const cli_command *const *commands, int n, int argc, char **argv)
{
    const char *what = argv[0], *of = argc > 1 ? argv[1] : NULL;
    if (strcmp(what, "--list") == 0 && argc == 1) {
        for (int i = 0; i < n; i++) printf("%s\n", commands[i]->name);
        return ZR_OK;
    }
    if (strcmp(what, "--completion") == 0 && argc == 2) return cli_completion(commands, n, of);
    if (strcmp(what, "--man") == 0 && argc <= 2) return cli_man(commands, n, of);
    return ZR_FAIL(ZR_ERR_ARG, "`zr help` must be followed by a command, keys, --list, --completion bash, --completion "
                               "zsh or --man [COMMAND|config]");
}
