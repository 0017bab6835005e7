#include "cli/shell/args.h"
#include "cli/shell/config.h"
#include "base/text/text.h"
#include "config/config.h"
#include "zr/run.h"

/** If --disk is given, let zr choose an offload to disk (zr__config_offer_disk), for states that do not fit in
 * memory. */
static zr_status offer_disk(const cli_args *args, zr_config *config)
{
    int64_t bytes = 0;
    if (!args->disk || !zr__text_bytes(args->disk, &bytes)) return ZR_OK;
    zr__config_offer_disk(config, bytes);
    const bool given = zr__config_given(config, "zero_optimization.offload_optimizer.device") ||
                       zr__config_given(config, "zero_optimization.offload_param.device");
    ZR_CHECK(given || config->memory.limit_bytes > 0, ZR_ERR_ARG,
             "--disk %s is for what does not fit in memory; give the memory of a rank too: --memory SIZE", args->disk);
    return ZR_OK;
}

zr_status cli_config_load(const cli_args *args, zr_config **config)
{
    const char *path = args->n_operands ? args->operand[0] : NULL;
    ZR_TRY(zr_config_load(path, args->override, args->n_overrides, config));
    if (args->by_memory) zr__config_leave_open(*config);
    if (args->recipe) zr__config_take_recipe(*config);
    const zr_status st = offer_disk(args, *config);
    if (st != ZR_OK) zr_config_destroy(config);
    return st;
}

zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir)
{
    ZR_TRY(cli_config_load(args, config));
    if (own_dir) *own_dir = !(*config)->train.output_dir;
    zr_status st = zr_train_prepare(*config, ranks, unix_sec);
    if (st != ZR_OK) zr_config_destroy(config);
    return st;
}

const char *cli_type_name(const zr_config *config)
{
    return config->bf16 ? "bf16" : config->fp16 ? "fp16" : "fp32";
}
