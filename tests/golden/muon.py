"""Write muon.json of traces of tests/golden: their models trained with Muon and AdamW on the same tokens, in float64 from
float32 weights, once for each scale of RUNS.

    python muon.py gpt2-tiny qwen3-heads        (needs torch, transformers, safetensors, numpy)

Order of a step: clip the gradients; matrices of blocks: momentum = mu momentum + (1 - mu) g, u = (1 - mu) g + mu momentum,
X = u / max(|u|, eps), then five times X = a X + (b A + c A^2) X with A = X X^T, W = (1 - lr decay) W - lr scale X; all
others: AdamW. GPT-2 stores (in, out), and c_attn is three matrices. "moved" has the norm of each parameter's difference
from the initial one after the last step; keys' biases, whose exact gradient is 0, are not in it.
"""
import json
import math
import pathlib
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM

from make import ADAMW, BATCH, CLIP, STEPS, mean_loss

RUNS = {"original": 0.02, "match_rms_adamw": 1e-3}  # torch's adjust_lr_fn: learning rate of the matrices
MOMENTUM, DECAY, EPS, COEFFICIENTS = 0.95, 0.1, 1e-7, (3.4445, -4.7750, 2.0315)


def scale(run, outputs, inputs):
    return math.sqrt(max(1, outputs / inputs)) if run == "original" else 0.2 * math.sqrt(max(outputs, inputs))


def orthogonal(u):
    a, b, c = COEFFICIENTS
    x = u.T if u.size(0) > u.size(1) else u
    x = x / x.norm().clamp(min=EPS)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if u.size(0) > u.size(1) else x


def matrices_of(name, tensor):
    """Return the matrices (outputs, inputs) of a parameter, as views."""
    if ".h." in name:
        tensor = tensor.T
    return tensor.chunk(3) if "c_attn" in name else [tensor]


def train(folder, run, lr):
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32, attn_implementation="eager")
    model = model.double().train()
    tokens = numpy.fromfile(folder / "tokens.bin", "<u2")
    length = len(tokens) // (BATCH * STEPS)
    params = dict(model.named_parameters())
    hidden = {n: p for n, p in params.items() if p.dim() == 2 and (".h." in n or ".layers." in n)}
    rest = [p for n, p in params.items() if n not in hidden]
    adamw = torch.optim.AdamW([{"params": [p for p in rest if p.dim() >= 2]},
                               {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0}], **ADAMW)
    first = {n: p.detach().clone() for n, p in params.items()}
    momentum = {n: torch.zeros_like(p) for n, p in hidden.items()}
    losses, norms = [], []
    for step in range(STEPS):
        model.zero_grad()
        loss, _ = mean_loss(model, tokens, step, length)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), CLIP).item())
        losses.append(loss.item())
        adamw.step()
        with torch.no_grad():
            for n, p in hidden.items():
                momentum[n].lerp_(p.grad, 1 - MOMENTUM)
                u = p.grad.lerp(momentum[n], MOMENTUM)
                p.mul_(1 - lr * DECAY)
                for w, part in zip(matrices_of(n, p), matrices_of(n, u)):
                    w.sub_(lr * scale(run, *w.shape) * orthogonal(part))
    with torch.no_grad():
        after = mean_loss(model, tokens, 0, length)[0].item()
        moved = {n: (p - first[n]).norm().item() for n, p in params.items() if not n.endswith("c_attn.bias")}
    return length, {"muon_lr": lr, "losses": losses, "grad_norms": norms, "loss_batch1_after": after, "moved": moved}


def main(folder):
    runs = {}
    for run, lr in RUNS.items():
        length, runs[run] = train(folder, run, lr)
    optimizer = {"type": "Muon", "momentum": MOMENTUM, "weight_decay": DECAY, "adam": ADAMW}
    (folder / "muon.json").write_text(json.dumps({"batch": BATCH, "seq_length": length, "optimizer": optimizer,
                                                  "gradient_clipping": CLIP, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(pathlib.Path(__file__).resolve().parent / name)
