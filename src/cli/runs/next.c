/* The last line of a run: the commands that can follow it. */
#include "cli/runs/runs.h"
#include "cli/shell/message.h"
#include "config/config.h"

#include <string.h>

void cli_next_say(const zr_config *config, const zr_train_result *result)
{
    const char *dir = ZR_WORD(config->train.output_dir);
    zr__text line = {0};
    ZR_AUTO_FREE char *text = NULL;
    /* whether the run has stored weights: model/ or a checkpoint, which all these commands can read */
    const bool weights = result->saved || config->train.save_end || config->train.save_interval > 0;
    const bool writes = zr__config_samples(config) == ZR_SAMPLES_NEXT;
    const bool chats = config->data.chat_template && strcmp(config->data.chat_template, "auto") != 0;
    /* A model that was trained on token files has no tokenizer with which it could read a prompt. */
    if (weights && writes && config->data.tokenizer)
        zr__text_add(&line, "zr generate %s%s --prompt TEXT; ", dir, chats ? " --chat" : "");
    if (weights) zr__text_add(&line, "zr eval %s%s; ", dir, config->data.val ? "" : " --data FILE");
    if (weights && config->model.lora.rank > 0)
        zr__text_add(&line, "zr convert %s DIR (the adapters merged into the model); ", dir);
    zr__text_add(&line, "zr report %s", dir);
    if (zr__text_take(&line, &text) == ZR_OK) cli_say("next: %s", text);
}
