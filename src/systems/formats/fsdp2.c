/* A Python file that applies PyTorch's fully_shard: its settings as constants, with a function that uses them. */
#include "systems/formats/formats.h"

#define SAME(name) ZR__BOTH(name "=*", "with." name "=*")
#define KEY(theirs, ours) ZR__BOTH(theirs "=*", ours "=*")
#define PLACES "zero_optimization.offload_param.device=cpu zero_optimization.offload_optimizer.device=cpu"

static const zr__rule rules[] = {
    ZR__STANDARD("", "system=fsdp2 with.model_code=transformers"),
    ZR__BOTH("reshard_after_forward=true", "zero_optimization.stage=3"),
    ZR__BOTH("reshard_after_forward=false", "zero_optimization.stage=2"),
    KEY("micro_batch", "train_micro_batch_size_per_gpu"),
    KEY("accumulation", "gradient_accumulation_steps"),
    KEY("sequence_length", "data.seq_length"),
    KEY("max_norm", "gradient_clipping"),
    KEY("ranks", "ranks"),
    KEY("tensor_parallel", "parallel.tensor"),
    ZR__BOTH("param_dtype=bfloat16", "bf16.enabled=true"),
    ZR__BOTH("param_dtype=float16", "fp16.enabled=true"),
    ZR__READ("param_dtype=float32", "bf16.enabled=false fp16.enabled=false"),
    ZR__WRITE("param_dtype=float32", "?!with.param_dtype bf16.enabled=false fp16.enabled=false"),
    ZR__STANDARD("", "bf16.enabled=false fp16.enabled=false"),
    ZR__BOTH("checkpoint_blocks=true", "activation_checkpointing.policy=unit"),
    ZR__BOTH("checkpoint_blocks=false", "activation_checkpointing.policy=none"),
    ZR__BOTH("cpu_offload=true", PLACES),
    SAME("reduce_dtype"),
    ZR__WRITE("reduce_dtype=float32", "?system=fsdp2 ?!with.reduce_dtype"),
    ZR__WRITE("cpu_offload=false", "?!zero_optimization.offload_param.device"),
    ZR__READ("cpu_offload=false", ""),
    {0}};

const zr__format zr__format_fsdp2 = {
    .name = "fsdp2",
    .title = "a Python file with fully_shard",
    .syntax = ZR__SYNTAX_PYTHON,
    .systems = "fsdp2",
    .needs = "with.* activation_checkpointing.policy",
    .signs = "reshard_after_forward checkpoint_blocks param_dtype reduce_dtype sequence_length",
    .idle = "",
    .command = "import torch\n"
               "from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard\n"
               "\n\n"
               "def shard(model, blocks, mesh=None):\n"
               "    \"\"\"Shard a model whose transformer blocks are `blocks`, before the optimizer is made.\"\"\"\n"
               "    policy = MixedPrecisionPolicy(param_dtype=getattr(torch, param_dtype),\n"
               "                                  reduce_dtype=getattr(torch, reduce_dtype))\n"
               "    offload = CPUOffloadPolicy() if cpu_offload else OffloadPolicy()\n"
               "    for block in blocks:\n"
               "        if checkpoint_blocks:\n"
               "            checkpoint(block)\n"
               "        fully_shard(block, mesh=mesh, mp_policy=policy, offload_policy=offload,\n"
               "                    reshard_after_forward=reshard_after_forward)\n"
               "    return fully_shard(model, mesh=mesh, mp_policy=policy, offload_policy=offload)\n"
               "\n\n"
               "def checkpoint(block):\n"
               "    \"\"\"Keep only the input of a block, and run it again in the backward pass.\"\"\"\n"
               "    forward = block.forward\n"
               "    block.forward = lambda *args, **kwargs: torch.utils.checkpoint.checkpoint(\n"
               "        forward, *args, use_reentrant=False, **kwargs)\n",
    .rule = rules};
