/* The last line of a run: the commands that can follow it. */
#include "cli/runs/runs.h"
#include "cli/shell/message.h"
#include "config/config.h"

#include <string.h>

/** Return a path as a word of a shell's command line. Quote it if the shell would change or divide it. */
static const char *word_of(const char *path, char out[PATH_MAX])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=@%:,";
    const char *shown = CLI_SHOWN(path);
    const bool quoted = path[strspn(path, plain)] != '\0';
    snprintf(out, PATH_MAX, "%s%s%s", quoted ? "'" : "", shown, quoted ? "'" : "");
    return out;
}

void cli_next_say(const zr_config *config, const zr_train_result *result)
{
    char dir[PATH_MAX];
    zr__text line = {0};
    char *text = NULL;
    const bool writes = zr__config_samples(config) == ZR_SAMPLES_NEXT;
    const bool chats = config->data.chat_template && strcmp(config->data.chat_template, "auto") != 0;
    word_of(config->train.output_dir, dir);
    /* A model that was trained on token files has no tokenizer with which it could read a prompt. */
    if (result->saved && writes && config->data.tokenizer)
        zr__text_add(&line, "zr generate %s%s --prompt TEXT; ", dir, chats ? " --chat" : "");
    if (result->saved) zr__text_add(&line, "zr eval %s%s; ", dir, config->data.val ? "" : " --data FILE");
    if (result->saved && config->model.lora.rank > 0)
        zr__text_add(&line, "zr convert %s DIR (the adapters merged into the model); ", dir);
    zr__text_add(&line, "zr report %s", dir);
    if (zr__text_take(&line, &text) == ZR_OK) cli_say("next: %s", text);
    zr_free(text);
}
