"""Write the traces of tests/golden as transformers and PyTorch compute them, in float64 from float32 weights.

    python make.py NAME...        (needs torch, transformers, safetensors, numpy)

NAME/model/                    the initial weights, as transformers saves them; no parameter at a neutral value
NAME/tokens.bin                uint16; step s reads tokens [s B T, (s + 1) B T], targets one later
NAME/expected.json             sizes, optimizer, losses (mean, before the update), gradient norms (before clipping)
NAME/logits_step1.safetensors  of the first sample before any update, (T, V)
NAME/grads_step1.safetensors   of the first step, before clipping
NAME/weights_step10.safetensors  after the updates

Of most models of other families than GPT-2 only model/, tokens.bin and expected.json are kept.
"""
import json
import pathlib
import sys

import numpy
import torch
import transformers
from safetensors.torch import save_file

BATCH, STEPS = 4, 10
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
CLIP = 1.0


def sizes(width, inner, heads, kv, head_dim=None):
    """Return the sizes of a model of the Llama kind."""
    made = {"vocab_size": 96, "num_hidden_layers": 2, "max_position_embeddings": 64, "hidden_size": width,
            "intermediate_size": inner, "num_attention_heads": heads, "num_key_value_heads": kv}
    return made | ({"head_dim": head_dim} if head_dim else {})


def rope(kind, theta, **constants):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta} | constants}


# name: family, seed, T, configuration
MODELS = {
    "gpt2-tiny": ("gpt2", 3, 12, {"vocab_size": 61, "n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 12,
                                  "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0,
                                  "eos_token_id": 0}),
    "llama-scaled": ("llama", 11, 24, sizes(36, 42, 6, 2, 12) | rope(
        "llama3", 1e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
        | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}),
    "llama-yarn": ("llama", 12, 24, sizes(30, 45, 3, 1, 10) | {"tie_word_embeddings": True} | rope(
        "yarn", 1e4, factor=4.0, original_max_position_embeddings=12)),
    "llama-linear": ("llama", 13, 24, sizes(40, 56, 4, 4) | rope("linear", 500.0, factor=2.0)),
    "mistral-window": ("mistral", 21, 24, sizes(48, 36, 6, 3, 8) | {"sliding_window": 5} | rope("default", 1e4)),
    "mistral-wide": ("mistral", 22, 24, sizes(24, 52, 4, 2, 16) | {"sliding_window": None} | rope("default", 1e6)),
    "mistral-dynamic": ("mistral", 23, 24, sizes(36, 30, 3, 1, 14) | {"sliding_window": 7} | rope(
        "dynamic", 1e4, factor=2.0, original_max_position_embeddings=16)),
    "qwen2-window": ("qwen2", 31, 24, sizes(36, 42, 6, 2) | rope("default", 1e4) | {
        "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1, "tie_word_embeddings": False}),
    "qwen2-one": ("qwen2", 32, 24, sizes(42, 36, 7, 1) | {"tie_word_embeddings": True} | rope("default", 1e6)),
    "qwen2-yarn": ("qwen2", 33, 24, sizes(32, 60, 4, 2) | {"tie_word_embeddings": False} | rope(
        "yarn", 1e4, factor=4.0, original_max_position_embeddings=16)),
    "qwen3-heads": ("qwen3", 41, 24, sizes(30, 30, 6, 3, 12) | {"tie_word_embeddings": True} | rope("default", 1e6)),
    "qwen3-biased": ("qwen3", 42, 24, sizes(40, 28, 4, 1, 12) | rope("default", 1e4) | {
        "attention_bias": True, "tie_word_embeddings": False}),
    "qwen3-window": ("qwen3", 43, 24, sizes(30, 48, 6, 2, 6) | {
        "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 0} | rope(
        "yarn", 1e4, factor=2.0, original_max_position_embeddings=12)),
}


def initial_model(family, seed, config):
    torch.manual_seed(seed)
    made = transformers.AutoConfig.for_model(family, **config)
    made._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(made)
    with torch.no_grad():
        for param in model.parameters():
            if param.dim() == 1:
                param.add_(0.1 * torch.randn_like(param))
            else:
                param.mul_(5.0)
    return model


def mean_loss(model, tokens, step, length):
    """Return the loss of a step's batch, and the logits from which it is computed."""
    part = torch.from_numpy(tokens[step * BATCH * length:(step + 1) * BATCH * length + 1].astype(numpy.int64))
    logits = model(part[:-1].view(BATCH, length)).logits
    return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), part[1:]), logits


def as_float32(tensors):
    return {name: tensor.detach().float().contiguous() for name, tensor in tensors}


def train(model, tokens, length, folder):
    """Train for STEPS steps, write the tensors, and return the numbers of expected.json."""
    params = dict(model.named_parameters())
    decay = ADAMW["weight_decay"]
    groups = [{"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss, logits = mean_loss(model, tokens, step, length)
        loss.backward()
        if step == 0:
            save_file(as_float32([("logits", logits[0])]), folder / "logits_step1.safetensors")
            save_file(as_float32((n, p.grad) for n, p in params.items()), folder / "grads_step1.safetensors")
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    save_file(as_float32(params.items()), folder / "weights_step10.safetensors")
    with torch.no_grad():
        after = mean_loss(model, tokens, 0, length)[0].item()
    return {"parameters": sum(p.numel() for p in params.values()), "optimizer": {"type": "AdamW", **ADAMW},
            "gradient_clipping": CLIP, "losses": losses, "grad_norms": norms, "loss_batch1_after": after}


def main(folder):
    family, seed, length, config = MODELS[folder.name]
    model = initial_model(family, seed, config)
    model.save_pretrained(folder / "model", safe_serialization=True)
    (folder / "model/generation_config.json").unlink(missing_ok=True)
    count = STEPS * BATCH * length + 1
    tokens = numpy.random.default_rng(seed).integers(0, config["vocab_size"], count).astype("<u2")
    tokens.tofile(folder / "tokens.bin")
    gpt2 = {key: config[key] for key in ("vocab_size", "n_layer", "n_head", "n_embd") if key in config}
    expected = gpt2 | {"seq_length": length, "batch": BATCH} | train(model.double().train(), tokens, length, folder)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(pathlib.Path(__file__).parent / name)
