"""What the comparisons of BERT with transformers share: small models, their training by both, and their files."""
import json
import pathlib

import torch
import transformers

from tap import check, zr

STEPS, BATCH, CLIP = 8, 4, 1.0
SIZES = dict(num_hidden_layers=2, hidden_size=30, num_attention_heads=3, intermediate_size=41,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
NO_DROPOUT = {key: 0 for key in SIZES if "dropout" in key}
ADAMW = {"lr": 0.003, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}


def make_model(folder, kind, sizes, dtype="float32", shard=None, scale=4):
    """Save a model in which no parameter has a neutral value."""
    torch.manual_seed(sum(map(ord, folder.name)))
    model = kind(transformers.BertConfig(**SIZES | sizes))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
            else:
                weight.mul_(scale)
    model.to(getattr(torch, dtype)).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))


def loaded(folder, kind):
    """Load a directory with transformers. Return the model, and the names of missing and of unknown tensors."""
    model, told = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                       output_loading_info=True)
    return model.eval(), sorted(told["missing_keys"]), sorted(told["unexpected_keys"])


def compare_export(name, folder, kind):
    model, missing, unknown = loaded(folder, kind)
    check(f"{name}: transformers misses no tensor and knows all", not missing and not unknown,
          ", ".join(missing + unknown))
    return model


def compare_weights(name, model, other, shifts=()):
    """Compare all weights except the biases of keys and those that `shifts` names. Such a bias adds the same number to
    all inputs of a softmax, so its gradient is 0 except for rounding, which Adam scales up to updates of normal
    size."""
    off, where = max(((a - b).abs().max().item(), key) for (key, a), (_, b) in
                     zip(model.named_parameters(), other.named_parameters(), strict=True)
                     if not key.endswith(("self.key.bias", *shifts)))
    check(f"{name}: trained weights", off < 2e-4, f"largest difference {off:.2g}, of {where}")


def trained_by_torch(model, losses_of):
    """Return the losses of each step before its update, the sum first; losses_of gives the terms of a step."""
    model.train()
    decayed = [[p for p in model.parameters() if p.ndim >= 2], [p for p in model.parameters() if p.ndim < 2]]
    optimizer = torch.optim.AdamW([{"params": decayed[0]}, {"params": decayed[1], "weight_decay": 0.0}], **ADAMW)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        terms = losses_of(model, step)
        sum(terms).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append([sum(terms).item(), *(loss.item() for loss in terms)])
    return losses, model.eval()


def train(folder, run, data, terms, more=()):
    """Return the losses of each step of zr, which reads the samples in their order."""
    config = {"model": {"init": str(folder)} | NO_DROPOUT, "data": {"order": "sequential"} | data,
              "train_batch_size": BATCH, "gradient_clipping": CLIP, "optimizer": {"type": "AdamW", "params": ADAMW},
              "train": {"steps": STEPS, "eval_interval": 0, "save_interval": STEPS, "output_dir": str(run)}}
    path = pathlib.Path(f"{run}.json")
    path.write_text(json.dumps(config))
    zr("train", path, "--quiet", *more)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [[line[key] for key in ("loss", *terms)] for line in lines if "loss" in line]


def compare_steps(name, losses, wanted):
    off = max(abs(a / b - 1) for one, other in zip(losses, wanted) for a, b in zip(one, other, strict=True))
    check(f"{name}: losses of {STEPS} steps", len(losses) == STEPS and off < 1e-5,
          f"largest relative difference {off:.2g}, {wanted[0][0]:.5g} to {wanted[-1][0]:.5g}")
