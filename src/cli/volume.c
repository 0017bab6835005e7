/* What tensor parallelism moves against what ZeRO would move for the same training on the same ranks. */
#include "cli/cli.h"

static double bytes_of(const zr_traffic *traffic)
{
    return (double)traffic->bytes[ZR_TRAFFIC_REDUCE_SCATTER] + (double)traffic->bytes[ZR_TRAFFIC_ALL_GATHER];
}

/* The configured training with every layer on each of the ranks, sharded at stage 3. */
static zr_layout stage3_alone(const zr_config *config, int ranks)
{
    zr_layout layout = zr_train_layout(config, ranks);
    layout.tensor = 1;
    layout.ranks = ranks;
    layout.stage = 3;
    layout.eval = false;
    layout.save = ZR_SAVE_NONE;
    if (layout.reduce == ZR_REDUCE_ALL_REDUCE) layout.reduce = ZR_REDUCE_TO_SHARDS;  /* stage 3 has none */
    if (layout.recompute == ZR_RECOMPUTE_AUTO) layout.recompute = ZR_RECOMPUTE_UNIT; /* it gathers what others gather */
    return layout;
}

zr_status cli_tensor_to_stage3(const zr_config *config, const zr_report *report, const zr_profile *profile,
                               double *ratio)
{
    const zr_layout layout = stage3_alone(config, report->ranks);
    zr_plan *plan = NULL;
    ZR_TRY(zr_train_plan_layout(config, &layout, profile, &plan));
    *ratio = bytes_of(&report->across[ZR_BORDER_TENSOR]) / bytes_of(&plan->traffic);
    zr_plan_destroy(&plan);
    return ZR_OK;
}

void cli_volume_print(FILE *out, const zr_config *config, const zr_report *report, const zr_profile *profile)
{
    const double b = (double)config->micro_batch_size, s = (double)config->data.seq_length;
    double ratio;
    if (config->parallel.tensor <= 1) return;
    if (cli_tensor_to_stage3(config, report, profile, &ratio) != ZR_OK) return;
    fprintf(out, "  within layers: %.3g x stage 3 alone on %d ranks (papers: b s / 3 h = %.3g)\n", ratio, report->ranks,
            b * s / (3 * (double)config->model.sizes.n_embd));
}
