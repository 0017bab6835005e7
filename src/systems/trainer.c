/* The Trainer of transformers, alone or with FSDP2 (TrainingArguments.fsdp). */
#include "systems/systems.h"

static const zr__option options[] = {
    ZR__CHOICE("torch_dtype", "auto", "float32|bfloat16|float16",
               .help = "type with which the model is loaded; auto: the checkpoint's, mostly bfloat16 (transformers 5)"),
    ZR__BOOL("fsdp", "auto", .help = "FSDP2 instead of DDP; auto: from stage 2 on"),
    ZR__BOOL("reshard_after_forward", "auto", .help = "of fsdp_config: free units after the forward; auto: at stage 3"),
    ZR__CHOICE("optim", "adamw_torch_fused", "adamw_torch_fused|adamw_torch|adamw_bnb_8bit|adafactor",
               .help = "adamw_torch_fused with torch >= 2.8, adamw_torch before"),
    ZR__INT("ddp_bucket_cap_mb", "25", 1, 1e6, .help = "MiB of a bucket of DDP"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

const zr__system zr__system_trainer = {.name = "trainer",
                                       .title = "the Trainer of transformers",
                                       .version = "transformers 5.24, accelerate 1.15, torch 2.15",
                                       .option = options,
                                       .unproved =
                                           "no measured row of allocated bytes proves the formulas of models of "
                                           "transformers; they are read from source and counted on a processor"};
