"""The run of bench/nanogpt.json in PyTorch eager on the processor, for comparison in bench/run nanogpt.

    python nanogpt_torch.py nanogpt.json train.bin val.bin VOCABULARY [STEPS [SEED]]

The model, the optimizer's groups, the learning rate, the rows (windows that do not overlap, shuffled anew each epoch)
and the evaluations (always the first windows of val.bin) are as in zr. The random numbers are PyTorch's. AdamW is
PyTorch's fused implementation, which is the fastest. Prints one JSON object; wall_sec does not include the start of
PyTorch.
"""
import json
import math
import os
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.ln_1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    """GPT-2 with a tied head. Its forward pass returns the loss."""

    def __init__(self, model, vocabulary):
        super().__init__()
        width, layers = model["n_embd"], model["n_layer"]
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(model["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, model["n_head"]) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim > 1:
                into_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if into_residual else 0.02)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_tokens(path):
    return torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.int16).long()


def windows(tokens, starts, length):
    """Return inputs and targets, each of shape (len(starts), length)."""
    rows = torch.stack([tokens[start: start + length + 1] for start in starts])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def make_optimizer(model, optimizer):
    wide = [p for p in model.parameters() if p.ndim >= 2]
    flat = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": wide, "weight_decay": optimizer["weight_decay"]}, {"params": flat, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=optimizer["lr"], betas=tuple(optimizer["betas"]), fused=True)


def rate(step, peak, scheduler):
    """Return the learning rate of a step, from 0: a linear warm-up, then half a cosine down to cos_min_ratio."""
    warm, total, low = (scheduler[key] for key in ("warmup_num_steps", "total_num_steps", "cos_min_ratio"))
    if step < warm:
        return peak * step / warm
    done = min(1.0, (step - warm) / (total - warm))
    return peak * (low + (1.0 - low) * 0.5 * (1.0 + math.cos(math.pi * done)))


def shuffled(windows_of_epoch):
    while True:
        yield from torch.randperm(windows_of_epoch).tolist()


@torch.no_grad()
def evaluate(model, tokens, batches, batch, length):
    model.eval()
    losses = [float(model(*windows(tokens, range(i * batch * length, (i + 1) * batch * length, length), length)))
              for i in range(batches)]
    model.train()
    return sum(losses) / len(losses)


def main():
    recipe = json.loads(pathlib.Path(sys.argv[1]).read_text())
    begin = time.perf_counter()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    train, val, vocabulary = read_tokens(sys.argv[2]), read_tokens(sys.argv[3]), int(sys.argv[4])
    steps = int(sys.argv[5]) if len(sys.argv) > 5 else recipe["train"]["steps"]
    torch.manual_seed(int(sys.argv[6]) if len(sys.argv) > 6 else 1234)
    batch, length, plan = recipe["train_batch_size"], recipe["data"]["seq_length"], recipe["train"]
    settings, scheduler = recipe["optimizer"]["params"], recipe["scheduler"]["params"]
    model = Model(recipe["model"], vocabulary)
    optimizer = make_optimizer(model, settings)
    val_loss = []
    rows = shuffled((len(train) - 1) // length)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, settings["lr"], scheduler)
        loss = model(*windows(train, [next(rows) * length for _ in range(batch)], length))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe["gradient_clipping"])
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # read the loss of every step, as zr does
        if (step + 1) % plan["eval_interval"] == 0 or step + 1 == steps:
            val_loss.append(evaluate(model, val, plan["eval_batches"], batch, length))
    print(json.dumps({"val_loss": val_loss[-1], "evaluations": len(val_loss),
                      "val_tokens": plan["eval_batches"] * batch * length, "train_tokens": steps * batch * length,
                      "wall_sec": time.perf_counter() - begin}))


main()
