"""Write the traces lora-* of tests/golden: low-rank adapters as peft and PyTorch train them, in float64 from float32
weights, on the model and the tokens of another trace.

    python lora.py lora-llama llama-scaled 3 6        (needs torch, transformers, peft, safetensors, numpy)
    python lora.py lora-gpt2 gpt2-tiny 4 3            (arguments: the trace, its base, rank, alpha)

FOLDER/adapter/       the initial adapter, as peft saves it, with random values in B
FOLDER/expected.json  sizes, optimizer, losses (mean, before the update), gradient norms (before clipping)
"""
import json
import pathlib
import sys

import numpy
import peft
import torch
from transformers import AutoModelForCausalLM

BATCH, STEPS, SEED, CLIP = 4, 10, 5, 1.0
ADAMW = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def mean_loss(model, tokens, length, step):
    part = torch.from_numpy(tokens[step * BATCH * length:(step + 1) * BATCH * length + 1].astype(numpy.int64))
    logits = model(part[:-1].view(BATCH, length)).logits
    return torch.nn.functional.cross_entropy(logits.view(BATCH * length, -1), part[1:])


def main(folder, base, rank, alpha):
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_pretrained(base / "model", dtype=torch.float32, attn_implementation="eager")
    gpt2 = model.config.model_type == "gpt2"
    names = ["c_attn", "c_proj", "c_fc"] if gpt2 else ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                                       "down_proj"]
    model = peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=names,
                                                       fan_in_fan_out=gpt2, task_type="CAUSAL_LM"))
    params = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for name, p in params.items():
            if ".lora_B." in name:
                p.copy_(0.1 * torch.randn_like(p))
    model.save_pretrained(folder / "adapter")
    (folder / "adapter/README.md").unlink(missing_ok=True)
    path = folder / "adapter/adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = f"../{base.name}/model"
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")

    tokens = numpy.fromfile(base / "tokens.bin", "<u2")
    length = len(tokens) // (BATCH * STEPS)
    model = model.double().train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **ADAMW)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(model, tokens, length, step)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    expected = {"about": "peft in float64 from float32 weights; the tokens are those of the base", "base": base.name,
                "batch": BATCH, "seq_length": length, "rank": rank, "alpha": alpha,
                "optimizer": {"type": "AdamW", **ADAMW}, "gradient_clipping": CLIP, "losses": losses,
                "grad_norms": norms}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    main(here / sys.argv[1], here / sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
