/* Completion scripts of the zr command for bash and zsh. */
#include "base/core/scope.h"
#include "cli/shell/reference.h"
#include "train/family/family.h"

#include <stdio.h>
#include <string.h>

static void print_presets(void)
{
    const zr_family *family;
    const zr_preset *preset;
    for (int i = 0; (preset = zr_family_preset(i, &family)); i++) printf("%s%s", i ? " " : "", preset->name);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void print_options(const cli_option *options, const char **space)
{
    for (const cli_option *o = options; o->name; o++) {
        printf("%s--%s", *space, o->name);
        *space = " ";
    }
}

static void bash_command(const cli_command *command, const cli_option *options, bool keys)
{
    const char *space = "";
    printf("    %s) options=\"", command->name);
    print_options(options, &space);
    print_options(cli_common_options, &space);
    printf("\"%s ;;\n", keys ? " keys=$_zr_keys" : "");
}

static zr_status print_bash(const cli_command *const *commands, int n)
{
    ZR_AUTO_FREE zr_key *keys = NULL;
    char words[256];
    ZR_TRY(zr_config_keys(&keys));
    printf("# Completion of zr for bash, written by `zr help --completion bash`.\n_zr_commands=\"help");
    for (int i = 0; i < n; i++) printf(" %s", commands[i]->name);
    printf("\"\n_zr_keys=\"");
    for (const zr_key *key = NULL; (key = cli_key_next(keys, key));)
        printf("%s--%s=", key == keys ? "" : " ", key->path);
    printf("\"\n_zr_values() {\n    case $1 in\n    --color) echo auto always never ;;\n    --preset) echo ");
    print_presets();
    printf(" ;;\n");
    for (const zr_key *key = NULL; (key = cli_key_next(keys, key));)
        if (*cli_key_words(key, words)) printf("    --%s) echo %s ;;\n", key->path, words);
    printf("    esac\n}\n_zr_options() {\n    options= keys=\n    case $1 in\n");
    for (int i = 0; i < n; i++) ZR_TRY(cli_options_of(commands[i], bash_command));
    fputs("    esac\n}\n"
          "_zr() {\n"
          "    local options keys values cur=${COMP_WORDS[COMP_CWORD]} of=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"$_zr_commands\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    # bash takes --key=value for three words.\n"
          "    if [ \"$cur\" = = ]; then cur=\n"
          "    elif [ \"$of\" = = ]; then of=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    values=$(_zr_values \"$of\")\n"
          "    _zr_options \"${COMP_WORDS[1]}\"\n"
          "    if [ \"${COMP_WORDS[1]}\" = help ]; then values=\"$_zr_commands --list --completion --man\"; fi\n"
          "    if [ -n \"$values\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
          "    elif [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options $keys\" -- \"$cur\"))\n"
          "        if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
          "    fi\n"
          "}\n"
          "complete -o default -F _zr zr\n",
          stdout);
    return ZR_OK;
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/** Print text for zsh's _arguments. Escape single quotes, brackets, colons and backslashes. */
static void print_zsh(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_option(const cli_option *o)
{
    printf("      '--%s%s[", o->name, o->value ? "=" : "");
    print_zsh(o->help);
    printf("]");
    if (o->value) {
        printf(":");
        print_zsh(o->value);
        printf(":");
        if (strcmp(o->name, "color") == 0) printf("(auto always never)");
        if (strcmp(o->name, "preset") == 0) {
            putchar('(');
            print_presets();
            putchar(')');
        }
        if (strstr(o->value, "FILE")) printf("_files");
    }
    printf("' \\\n");
}

static void zsh_command(const cli_command *command, const cli_option *options, bool keys)
{
    printf("    %s) _arguments \\\n", command->name);
    for (const cli_option *o = options; o->name; o++) zsh_option(o);
    for (const cli_option *o = cli_common_options; o->name; o++) zsh_option(o);
    printf("      %s'*:file:_files' ;;\n", keys ? "$keys " : "");
}

static zr_status print_zsh_all(const cli_command *const *commands, int n)
{
    ZR_AUTO_FREE zr_key *keys = NULL;
    char words[256], help[CLI_KEY_HELP_BYTES];
    ZR_TRY(zr_config_keys(&keys));
    printf("#compdef zr\n# Completion of zr for zsh, written by `zr help --completion zsh`.\n"
           "_zr() {\n  local -a commands keys\n  commands=(\n");
    for (int i = 0; i < n; i++) {
        printf("    '%s:", commands[i]->name);
        print_zsh(commands[i]->summary);
        printf("'\n");
    }
    printf("    'help:explain a command'\n  )\n  keys=(\n");
    for (const zr_key *key = NULL; (key = cli_key_next(keys, key));) {
        printf("    '--%s=-[", key->path);
        print_zsh(cli_key_help(key, help));
        printf("]:value:");
        if (*cli_key_words(key, words)) printf("(%s)", words);
        printf("'\n");
    }
    printf("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
           "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n"
           "    help) _describe command commands ;;\n");
    for (int i = 0; i < n; i++) ZR_TRY(cli_options_of(commands[i], zsh_command));
    printf("  esac\n}\n_zr \"$@\"\n");
    return ZR_OK;
}

zr_status cli_completion(const cli_command *const *commands, int n, const char *shell)
{
    if (strcmp(shell, "bash") == 0) return print_bash(commands, n);
    if (strcmp(shell, "zsh") == 0) return print_zsh_all(commands, n);
    return ZR_FAIL(ZR_ERR_ARG, "--completion is \"%s\"; bash or zsh was wanted", shell);
}
