"""Write the traces of tests/golden: GPT-2 as transformers and PyTorch compute it, in float64 from float32 weights.

    python make.py gpt2-tiny        (needs torch, transformers, safetensors, numpy)

FOLDER/model/                    the initial weights, as transformers saves them; no parameter at a neutral value
FOLDER/tokens.bin                uint16; step s reads tokens [s B T, (s + 1) B T], targets one later
FOLDER/expected.json             sizes, optimizer, losses (mean, before the update), gradient norms (before clipping)
FOLDER/logits_step1.safetensors  of the first sample before any update, (T, V)
FOLDER/grads_step1.safetensors   of the first step, before clipping
FOLDER/weights_step10.safetensors  after the updates
"""
import json
import pathlib
import sys

import numpy
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = {"vocab_size": 61, "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 12}
BATCH, STEPS, SEED = 4, 10, 3
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
CLIP = 1.0


def initial_model():
    torch.manual_seed(SEED)
    config = GPT2Config(**SIZES, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for param in model.parameters():
            if param.dim() == 1:
                param.add_(0.1 * torch.randn_like(param))
            else:
                param.mul_(5.0)
    return model


def mean_loss(model, tokens, step):
    """The loss of a step's batch, and the logits that it comes from."""
    length = SIZES["n_positions"]
    part = torch.from_numpy(tokens[step * BATCH * length:(step + 1) * BATCH * length + 1].astype(numpy.int64))
    logits = model(part[:-1].view(BATCH, length)).logits
    return torch.nn.functional.cross_entropy(logits.view(-1, SIZES["vocab_size"]), part[1:]), logits


def as_float32(tensors):
    return {name: tensor.detach().float().contiguous() for name, tensor in tensors}


def main(folder):
    model = initial_model()
    model.save_pretrained(folder / "model", safe_serialization=True)
    (folder / "model/generation_config.json").unlink(missing_ok=True)
    count = STEPS * BATCH * SIZES["n_positions"] + 1
    tokens = numpy.random.default_rng(SEED).integers(0, SIZES["vocab_size"], count).astype("<u2")
    tokens.tofile(folder / "tokens.bin")

    model = model.double().train()
    params = dict(model.named_parameters())
    decay = ADAMW["weight_decay"]
    groups = [{"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, logits = mean_loss(model, tokens, step)
        loss.backward()
        if step == 0:
            save_file(as_float32([("logits", logits[0])]), folder / "logits_step1.safetensors")
            save_file(as_float32((n, p.grad) for n, p in params.items()), folder / "grads_step1.safetensors")
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    save_file(as_float32(params.items()), folder / "weights_step10.safetensors")
    with torch.no_grad():
        after = mean_loss(model, tokens, 0)[0].item()
    expected = {"vocab_size": SIZES["vocab_size"], "n_layer": SIZES["n_layer"], "n_head": SIZES["n_head"],
                "n_embd": SIZES["n_embd"], "seq_length": SIZES["n_positions"], "batch": BATCH,
                "parameters": sum(p.numel() for p in params.values()), "optimizer": {"type": "AdamW", **ADAMW},
                "gradient_clipping": CLIP, "losses": losses, "grad_norms": norms, "loss_batch1_after": after}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(__file__).parent / sys.argv[1])
