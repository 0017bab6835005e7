"""Time a training step of GPT-2, and attention alone, in PyTorch on a GPU, for comparison in bench/gpu.

    python gpu_torch.py train --layers 12 --heads 12 --width 768 --batch 32 --bf16
    python gpu_torch.py attention --batch 8 --heads 16 --dims 64 128 --seqs 1024 4096

train: compiled, scaled_dot_product_attention, fused AdamW, clipping at 1.0, bf16 by autocast, fp32 without TF32.
attention: causal, bf16, forward and backward, with PyTorch's default, with each backend, and with deterministic
algorithms. Prints one JSON object. Exit status 71: not enough memory.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norm[1](x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.token, self.place = nn.Embedding(o.vocab, o.width), nn.Embedding(o.seq, o.width)
        self.block = nn.ModuleList([Block(o.width, o.heads) for _ in range(o.layers)])
        self.norm = nn.LayerNorm(o.width)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.place.weight
        for block in self.block:
            x = block(x)
        logits = functional.linear(self.norm(x), self.token.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def wait(o):
    if o.device == "cuda":
        torch.cuda.synchronize()


def clocked(o, run):
    wait(o)
    begin = time.perf_counter()
    run()
    wait(o)
    return 1e3 * (time.perf_counter() - begin)


def build(o):
    """Return a function that performs a training step, and whether it is compiled."""
    with torch.device(o.device):
        model = Model(o)
    if o.blocks:  # compiled once for all blocks
        for block in model.block:
            block.compile()
    whole = model if o.plain or o.blocks else torch.compile(model)
    decay = [[p for p in model.parameters() if (p.ndim > 1) == matrix] for matrix in (True, False)]
    groups = [{"params": some, "weight_decay": rate} for some, rate in zip(decay, (0.1, 0.0))]
    optimizer = torch.optim.AdamW(groups, lr=2e-4, betas=(0.9, 0.95), fused=True)
    half = torch.autocast(o.device, dtype=torch.bfloat16) if o.bf16 else contextlib.nullcontext()

    def step(ids, targets):
        with half:
            loss = whole(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step, "not compiled" if o.plain else "blocks compiled" if o.blocks else "compiled"


def train(o):
    torch.manual_seed(1234)
    step, how = build(o)
    times, loss = [], None
    for _ in range(o.steps + 3):
        ids, targets = torch.randint(0, o.vocab, (2, o.batch, o.seq), device=o.device)

        def run(ids=ids, targets=targets):
            nonlocal loss
            loss = step(ids, targets)

        times.append(clocked(o, run))
    on_gpu = o.device == "cuda"
    return {"step_ms": statistics.median(times[3:]), "first_ms": times[0], "all_ms": times[3:], "loss": loss,
            "how": how, "version": torch.__version__,
            "allocated_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
            "reserved_bytes": torch.cuda.max_memory_reserved() if on_gpu else 0}


def many(o, run):
    """Return the milliseconds of one run, the best of three averages over several runs."""
    run()
    runs = max(1, min(500, int(30 / max(1e-3, clocked(o, run)))))
    return min(clocked(o, lambda: [run() for _ in range(runs)]) / runs for _ in range(3))


def time_attention(o, dim, seq):
    # As in the model, a row has the heads side by side.
    q, k, v, dy = (torch.randn(o.batch, seq, o.heads, dim, device=o.device, dtype=torch.bfloat16).transpose(1, 2)
                   for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    with torch.no_grad():
        forward_ms = many(o, lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    backward_ms = many(o, lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True))
    return {"forward_ms": forward_ms, "backward_ms": backward_ms}


def ways(o):
    """Return each implementation's name, and the context that makes PyTorch select it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = {"as it is": contextlib.nullcontext}
    if o.device == "cuda":
        found["flash"] = lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION)
        found["cuDNN"] = lambda: sdpa_kernel(SDPBackend.CUDNN_ATTENTION)
    found["deterministic"] = deterministic
    return found


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def attention(o):
    torch.manual_seed(1)
    told = {"version": torch.__version__, "sizes": []}
    for dim in o.dims:
        for seq in o.seqs:
            size = {"dim": dim, "seq": seq, "ways": {}, "failed": {}}
            told["sizes"].append(size)
            for name, way in ways(o).items():
                try:
                    with way():
                        size["ways"][name] = time_attention(o, dim, seq)
                except RuntimeError as error:  # the backend does not support this GPU or size
                    size["failed"][name] = str(error)[:200]
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "attention"])
    for name, default in (("layers", 12), ("heads", 12), ("width", 768), ("vocab", 50257), ("seq", 1024), ("batch", 8),
                          ("steps", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dims", type=int, nargs="+", default=[64])
    parser.add_argument("--seqs", type=int, nargs="+", default=[1024])
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--plain", action="store_true", help="not compiled")
    parser.add_argument("--blocks", action="store_true", help="only the blocks are compiled, all at once")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    o = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        print(json.dumps(train(o) if o.what == "train" else attention(o)))
    except torch.OutOfMemoryError as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return 71
    return 0


sys.exit(main())
