"""A training step of GPT-2 in PyTorch on the processor, timed: what bench/run sets beside zr.

    python gpt2_torch.py single --batch 4 --seq 64
    torchrun --nproc_per_node 2 gpt2_torch.py fsdp2 --batch 2 --seq 64

Systems: single, ddp, fsdp2, ds0 .. ds3 (DeepSpeed's stages). The batch is per rank. Rank 0 prints one JSON object;
step_ms holds every step, the first included.
"""
import argparse
import contextlib
import json
import os
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, POSITIONS, VOCABULARY = 12, 12, 768, 1024, 50257


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        heads = self.c_attn(x).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    """GPT-2 with a tied head; its forward pass returns the loss."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def deepspeed_step(model, stage, options):
    import deepspeed

    deepspeed.init_distributed("gloo")
    config = {
        "train_micro_batch_size_per_gpu": options.batch,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "bf16": {"enabled": options.bf16},
        "zero_optimization": {"stage": stage},
        # DeepSpeed's own CPU Adam is compiled at run time; PyTorch's is what every system here uses.
        "zero_force_ds_cpu_optimizer": False,
    }
    engine = deepspeed.initialize(model=model, config=config)[0]

    def step(ids, targets):
        loss = engine(ids, targets)
        engine.backward(loss)
        engine.step()
        return loss

    return step


def torch_step(model, system, options):
    if system == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    elif system == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    # The fused kernel does not take FSDP2's sharded tensors.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=system != "fsdp2")
    half = torch.autocast("cpu", dtype=torch.bfloat16) if options.bf16 else contextlib.nullcontext()

    def step(ids, targets):
        with half:
            loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system", choices=["single", "ddp", "fsdp2", "ds0", "ds1", "ds2", "ds3"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()

    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
    torch.manual_seed(1234)
    model = Model()
    if options.system.startswith("ds"):
        step = deepspeed_step(model, int(options.system[2:]), options)
    else:
        if ranks > 1:
            dist.init_process_group("gloo")
        step = torch_step(model, options.system, options)

    meet = dist.barrier if ranks > 1 else lambda: None
    times = []
    for _ in range(options.steps):
        ids, targets = torch.randint(0, VOCABULARY, (2, options.batch, options.seq))
        meet()
        start = time.perf_counter()
        loss = step(ids, targets).item()
        meet()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({
            "system": options.system, "dtype": "bf16" if options.bf16 else "fp32", "ranks": ranks,
            "version": torch.__version__, "step_ms": [round(1e3 * seconds, 3) for seconds in times],
            "loss": round(loss, 4)}))
    if dist.is_initialized():
        dist.destroy_process_group()


main()
