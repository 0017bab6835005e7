/* Layouts and configurations of zr that model the ZeRO papers' systems. */
#include "cli/papers/papers.h"
#include "zr/run.h"

#include <stdio.h>

static zr_layout papers_layout(const cli_papers_run *r)
{
    zr_layout l = zr_layout_default();
    l.ranks = r->gpus / r->tensor;
    l.tensor = r->tensor;
    l.stage = cli_papers_stage(r);
    l.dtype = l.wire_dtype = ZR_F16;
    l.batch = r->batch;
    l.seq = CLI_PAPERS_TOKENS;
    l.eval = false;
    l.overlap = false;
    l.norm_first = true;
    l.recompute = ZR_RECOMPUTE_PAPER;
    l.reduce_bucket_elems = l.gather_bucket_elems = CLI_PAPERS_BUCKET_ELEMS;
    if (r->system == CLI_PAPERS_ZERO_OS) l.reduce = ZR_REDUCE_ALL_REDUCE;
    l.reduce_once = r->system == CLI_PAPERS_ZERO_OS_LATE;
    if (l.reduce_once) l.accum = 2;
    l.partition_checkpoints = r->kept != CLI_PAPERS_WHOLE;
    l.checkpoint_home = r->kept == CLI_PAPERS_HOST ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
    return l;
}

zr_profile cli_papers_profile(const zr_machine *device)
{
    return (zr_profile){.machine = *device, .facts = {.name = "V100", .threads = 1, .own_memory = true}};
}

zr_status cli_papers_plan(const cli_papers_run *run, bool padded, const zr_machine *device, zr_plan **plan)
{
    const int multiple = padded ? 128 * run->tensor : 1;
    const int vocabulary = (CLI_PAPERS_VOCABULARY + multiple - 1) / multiple * multiple;
    const zr_gpt2_config sizes = {.n_layer = run->layers,
                                  .n_head = run->heads,
                                  .n_embd = run->hidden,
                                  .n_positions = CLI_PAPERS_TOKENS,
                                  .vocab_size = vocabulary,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    const zr_model model = zr_gpt2(&sizes);
    const zr_layout layout = papers_layout(run);
    const zr_profile profile = cli_papers_profile(device);
    return zr_plan_create(&model, &layout, &profile, plan);
}

zr_status cli_papers_preset_config(const cli_papers_preset *preset, const char *model, int gpus, int batch,
                                   zr_config **config)
{
    char text[640], own[16];
    snprintf(own, sizeof(own), "zero-c%c", preset->name[1]);
    const int bytes = snprintf(
        text, sizeof(text),
        "{\"model\": {\"preset\": \"%s\"}, \"memory\": {\"layout\": \"paper\"}, \"fp16\": {\"enabled\": true}, "
        "\"optimizer\": {\"type\": \"AdamW\"}, \"parallel\": {\"tensor\": %d}, \"zero_optimization\": {\"stage\": %d}, "
        "\"train_micro_batch_size_per_gpu\": %d, \"gradient_accumulation_steps\": 1, "
        "\"data\": {\"seq_length\": %d}, \"activation_checkpointing\": {\"policy\": \"unit\", "
        "\"partition_activations\": %s, \"cpu_checkpointing\": %s}}",
        model ? model : own, CLI_PAPERS_TENSOR, preset->stage, batch, CLI_PAPERS_TOKENS,
        preset->kept != CLI_PAPERS_WHOLE ? "true" : "false", preset->kept == CLI_PAPERS_HOST ? "true" : "false");
    ZR_TRY(zr_config_parse(text, (size_t)bytes, preset->name, NULL, 0, config));
    zr_status st = zr_train_prepare(*config, gpus, 0);
    if (st != ZR_OK) zr_config_destroy(config);
    return st;
}
