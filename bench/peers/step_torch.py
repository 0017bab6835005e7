"""Time a training step of a language model in PyTorch on the processor, for comparison in bench/run.

    python step_torch.py single --model smollm2-135m --batch 4 --seq 64 --compile
    torchrun --nproc_per_node 2 step_torch.py fsdp2 --batch 2 --seq 64
    torchrun --nproc_per_node 1 step_torch.py ds3 --bf16 --offload nvme --folder DIR

Models: gpt2-124m and smollm2-135m, with random weights. Systems: single, ddp, fsdp2, ds0 .. ds3 (DeepSpeed's stages).
The batch is per rank. --compile: use torch.compile. --offload: DeepSpeed's optimizer states are in host memory (cpu),
where its own Adam updates them, or in files in a folder (nvme); update_ms then has the times of all updates. Rank 0
prints one JSON object; step_ms has the times of all steps, including the first.
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

class Gpt2Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.c_attn(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Gpt2Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """GPT-2 124M with a tied head. Its forward pass returns the loss."""

    vocabulary = 50257

    def __init__(self, layers=12, heads=12, width=768, positions=1024):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(self.vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList([Gpt2Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        logits = functional.linear(self.norm(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def rotate(x, cos, sin):
    """Apply a rotary embedding, with pairs in the order of Llama (first half, second half)."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, inner):
        super().__init__()
        self.heads, self.kv_heads, head = heads, kv_heads, width // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.norm_1(x)
        q, k, v = (part(y).unflatten(-1, (heads, -1)).transpose(1, 2) for part, heads in
                   ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads)))
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm_2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A model with the shape of SmolLM2-135M and a tied head. Its forward pass returns the loss."""

    vocabulary = 49152

    def __init__(self, layers=30, heads=9, kv_heads=3, width=576, inner=1536, theta=100000.0):
        super().__init__()
        self.wte = nn.Embedding(self.vocabulary, width)
        self.h = nn.ModuleList([LlamaBlock(width, heads, kv_heads, inner) for _ in range(layers)])
        self.norm = nn.RMSNorm(width, 1e-5)
        self.frequencies = theta ** -(torch.arange(0, width // heads, 2) / (width // heads))

    def forward(self, ids, targets):
        x = self.wte(ids)
        angles = torch.outer(torch.arange(ids.shape[1]), self.frequencies).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        for block in self.h:
            x = block(x, cos, sin)
        logits = functional.linear(self.norm(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


MODELS = {"gpt2-124m": Gpt2, "smollm2-135m": Llama}


def make_model(name):
    model = MODELS[name]()
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            nn.init.normal_(parameter, std=0.02)
    return model


def deepspeed_step(model, stage, options):
    import deepspeed

    deepspeed.init_distributed("gloo")
    config = {
        "train_micro_batch_size_per_gpu": options.batch,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "bf16": {"enabled": options.bf16},
        "zero_optimization": {"stage": stage},
        # DeepSpeed's own CPU Adam must be compiled; all other systems here use PyTorch's Adam.
        "zero_force_ds_cpu_optimizer": False,
    }
    if options.offload:
        del config["zero_force_ds_cpu_optimizer"], config["optimizer"]["params"]["torch_adam"]
        config["zero_optimization"]["offload_optimizer"] = {"device": options.offload, "nvme_path": options.folder}
    engine = deepspeed.initialize(model=model, config=config)[0]
    update_ms = []

    def step(ids, targets):
        loss = engine(ids, targets)
        engine.backward(loss)
        start = time.perf_counter()
        engine.step()
        update_ms.append(round(1e3 * (time.perf_counter() - start), 3))
        return loss

    return step, update_ms


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
    # The fused kernel does not support FSDP2's sharded tensors.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=system != "fsdp2")
    if options.compile:
        model = torch.compile(model)
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
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--offload", choices=["cpu", "nvme"])
    parser.add_argument("--folder")
    options = parser.parse_args()

    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
    torch.manual_seed(1234)
    model = make_model(options.model)
    update_ms = []
    if options.system.startswith("ds"):
        step, update_ms = deepspeed_step(model, int(options.system[2:]), options)
    else:
        if ranks > 1:
            dist.init_process_group("gloo")
        step = torch_step(model, options.system, options)

    meet = dist.barrier if ranks > 1 else lambda: None
    times = []
    for _ in range(options.steps):
        ids, targets = torch.randint(0, model.vocabulary, (2, options.batch, options.seq))
        meet()
        start = time.perf_counter()
        loss = step(ids, targets).item()
        meet()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({
            "system": options.system, "model": options.model, "compiled": options.compile,
            "dtype": "bf16" if options.bf16 else "fp32", "ranks": ranks, "version": torch.__version__,
            "step_ms": [round(1e3 * seconds, 3) for seconds in times], "update_ms": update_ms,
            "loss": round(loss, 4)}))
    if dist.is_initialized():
        dist.destroy_process_group()


main()
