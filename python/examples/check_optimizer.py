"""Check a sharded optimizer against exact steps: an AdamW of two ranks, right and with two faults that have been public.

    python check_optimizer.py

The class has the form in which such code is written: each rank updates its half of the flat parameters. Its faults:

  clips_updates   the norm and the clipping are of the updates, not of the gradient
                  (https://github.com/deepspeedai/DeepSpeed/issues/8439, there for Muon)
  each_micro      the rule is applied to each micro-batch, and the updates are averaged; the rule is not linear
                  (https://github.com/deepspeedai/DeepSpeed/issues/8443, there for Muon)
"""

import sys

import numpy as np
import zr

LR, CLIP, BETAS, EPS = 1e-2, 0.5, (0.9, 0.999), 1e-8


class ShardedAdamW:
    def __init__(self, elems, ranks=2, fault=None):
        self.shards = np.array_split(np.arange(elems), ranks)
        self.first, self.second = np.zeros(elems), np.zeros(elems)
        self.fault, self.steps = fault, 0

    def update(self, gradient):
        change = np.zeros_like(gradient)
        for shard in self.shards:  # each of these is a rank
            self.first[shard] += (1 - BETAS[0]) * (gradient[shard] - self.first[shard])
            self.second[shard] += (1 - BETAS[1]) * (gradient[shard] ** 2 - self.second[shard])
            first, second = self.first[shard] / (1 - BETAS[0] ** self.steps), self.second[shard] / (1 - BETAS[1] ** self.steps)
            change[shard] = first / (np.sqrt(second) + EPS)
        return change

    def step(self, weights, micro_gradients):
        self.steps += 1
        clip = lambda x: x * min(1, CLIP / np.linalg.norm(x))  # noqa: E731
        whole = sum(micro_gradients) / len(micro_gradients)
        if self.fault == "clips_updates":
            return weights - LR * clip(self.update(whole))
        if self.fault == "each_micro":
            factor = np.linalg.norm(clip(whole)) / np.linalg.norm(whole)
            return weights - LR * sum(self.update(g * factor) for g in micro_gradients) / len(micro_gradients)
        return weights - LR * self.update(clip(whole))


model = {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 96, "n_positions": 16}
rule = {"type": "AdamW", "params": {"lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": 0}}
tokens = np.random.default_rng(0).integers(96, size=(8, 17), dtype=np.int32)
micro = [tokens[:4], tokens[4:]]


def exact(weights, rows, **layout):
    return zr.reference_step(weights, rows, model=model, optimizer=rule, gradient_clipping=CLIP, **layout)


def flat(arrays):
    return np.concatenate([arrays[name].reshape(-1).astype(np.float64) for name in sorted(arrays)])


start = zr.reference_step(None, tokens, model=model, optimizer={"type": "SGD", "params": {"lr": 0}}).weights
wanted = exact(start, tokens, ranks=2, stage=2, batch=2)
gradients = [flat(exact(start, part).gradients) for part in micro]
failed = []
for fault in (None, "clips_updates", "each_micro"):
    optimizer = ShardedAdamW(gradients[0].size, fault=fault)
    got = optimizer.step(flat(start), gradients)
    error = np.abs(got - flat(wanted.weights)).max() / LR
    verdict = "agrees" if error < 1e-2 else "DIFFERS"
    print(f"{fault or 'no fault':14} {verdict}: weights differ by up to {error:.1e} learning rates")
    failed += [(fault is None) != (verdict == "agrees")]
sys.exit(any(failed))
