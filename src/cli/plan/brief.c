#include "base/text/text.h"
#include "cli/plan/profile.h"
#include "cli/plan/brief.h"
#include "zr/config.h"

#include <string.h>

bool cli_overrides(const cli_args *args, const char *begin)
{
    for (int i = 0; i < args->n_overrides; i++)
        if (strncmp(args->override[i], begin, strlen(begin)) == 0) return true;
    return false;
}

zr_status cli_brief_overrides(const cli_brief *brief, cli_args *args, char room[CLI_BRIEF_KEYS][256])
{
    int n = 0;
    const bool alone = args->n_operands == 0 && !brief->from,
               bf16 = alone && !cli_overrides(args, "fp16.enabled=true") && !cli_overrides(args, "fp16=");
    if (brief->preset) ZR_TRY(cli_override(args, room[n++], "model.preset=\"%s\"", brief->preset));
    if (bf16) ZR_TRY(cli_override(args, room[n++], "bf16.enabled=true"));
    args->by_memory = brief->memory && brief->chooses;
    args->disk = brief->chooses ? brief->disk : NULL;
    if (brief->batch || (alone && !args->by_memory)) {
        long long batch = brief->batch ? brief->batch : 1;
        ZR_TRY(cli_override(args, room[n++], "train_micro_batch_size_per_gpu=%lld", batch));
    }
    if (brief->stage >= 0)
        ZR_TRY(cli_override(args, room[n++], "zero_optimization.stage=%lld", (long long)brief->stage));
    if (brief->seq) ZR_TRY(cli_override(args, room[n++], "data.seq_length=%lld", (long long)brief->seq));
    if (brief->tensor) ZR_TRY(cli_override(args, room[n++], "parallel.tensor=%lld", (long long)brief->tensor));
    if (brief->memory) ZR_TRY(cli_override(args, room[n++], "memory.limit=\"%s\"", brief->memory));
    return ZR_OK;
}

int64_t cli_brief_disk_bytes(const cli_brief *brief)
{
    int64_t bytes = 0;
    return brief->disk && zr__text_bytes(brief->disk, &bytes) ? bytes : 0;
}

/* Refuse an unknown key or a value of the wrong type on the command line, without reading a file. */
static zr_status check_keys(const cli_args *args)
{
    ZR_AUTO(zr_config_destroy) zr_config *config = NULL;
    return zr_config_load(NULL, args->override, args->n_overrides, &config);
}

zr_status cli_brief_check(const cli_brief *brief, const cli_args *args)
{
    int64_t bytes = 0;
    const bool has_model = args->n_operands || brief->preset || brief->from_model || cli_overrides(args, "model.");
    ZR_CHECK(
        has_model || !brief->from_name, ZR_ERR_ARG,
        "--from names the model %s, which is neither a preset nor a directory with config.json; give --preset NAME, "
        "or --model.init=DIR",
        ZR_SHOWN(brief->from_name));
    ZR_CHECK(has_model || !brief->from, ZR_ERR_ARG,
             "--from names no model; give --preset NAME, or --model.init=DIR, whose config.json is enough");
    if (!has_model) ZR_TRY(check_keys(args)); /* the model may be missing only because its key is misspelled */
    ZR_CHECK(
        has_model, ZR_ERR_ARG,
        "zr %s needs a CONFIG.json or --preset NAME, or --model.init=DIR to start from weights; `zr %s --help` has "
        "examples",
        args->command, args->command);
    if (brief->preset) ZR_TRY(cli_preset(brief->preset));
    ZR_CHECK(brief->stage <= 3, ZR_ERR_ARG, "--stage is %lld; expected 0, 1, 2 or 3", (long long)brief->stage);
    ZR_CHECK(!brief->memory || zr__text_bytes(brief->memory, &bytes), ZR_ERR_ARG,
             "--memory is \"%s\"; expected a size such as 80GB, 80G or 512MiB", brief->memory);
    ZR_CHECK(!brief->memory || !cli_overrides(args, "memory.limit="), ZR_ERR_ARG,
             "--memory %s and --memory.limit are the same setting; leave out one of them", brief->memory);
    ZR_CHECK(!brief->disk || (zr__text_bytes(brief->disk, &bytes) && bytes > 0), ZR_ERR_ARG,
             "--disk is \"%s\"; expected a size such as 200GB, 2TB or 512MiB", brief->disk);
    return ZR_OK;
}
