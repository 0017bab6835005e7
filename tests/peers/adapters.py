"""Low-rank adapters of zr in peft, and of peft in zr. test_peft_peers.sh starts it in a virtual environment that
has peft: adapters.py ZR LOGITS FOLDER; ZR the command, LOGITS the example, FOLDER an empty one.

Prints TAP. Every comparison names its largest difference.
"""
import json
import math
import pathlib
import subprocess
import sys

import numpy
import peft
import torch
import transformers

import tap
from tap import check, zr

ZR, LOGITS, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
TEXT = "".join(f"line {i} of a text: {i * i % 97} apples, {'odd' if i % 2 else 'even'}.\n" for i in range(300))
TOKENS = list(TEXT[:64].encode())

torch.manual_seed(7)
torch.set_grad_enabled(False)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def make_base(family):
    """A model of random weights, with biases and norms that are not 0 and 1."""
    if family == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=64, vocab_size=256,
                                         bos_token_id=0, eos_token_id=0)
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.Qwen2Config(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                          hidden_size=32, intermediate_size=48, max_position_embeddings=64,
                                          vocab_size=256, bos_token_id=None, eos_token_id=None)
        model = transformers.Qwen2ForCausalLM(config)
    for weight in model.parameters():
        if weight.ndim == 1:
            weight.add_(0.1 * torch.randn_like(weight))
        else:
            weight.mul_(4)
    model.save_pretrained(FOLDER / family)


def plain(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER / folder, dtype=torch.float32).eval()


def adapted(base, adapter):
    return peft.PeftModel.from_pretrained(plain(base), FOLDER / adapter).eval()


def logits(model):
    return model(torch.tensor([TOKENS])).logits[0].float()


def logits_of(folder):
    made = subprocess.run([LOGITS, FOLDER / folder, *map(str, TOKENS)], check=True, capture_output=True).stdout
    return torch.from_numpy(numpy.frombuffer(made, numpy.float32).reshape(len(TOKENS), -1).copy())


def compare(name, got, wanted):
    off = (got - wanted).abs().max().item() / wanted.abs().max().item()
    check(f"{name}: logits", off <= 1e-5, f"largest difference {off:.2g} of the largest logit")


def compare_loss(name, run, model):
    part = list(TEXT.encode())
    total = windows = 0
    for begin in range(0, (len(part) - 1) // 64 * 64, 64):
        out = model(torch.tensor([part[begin:begin + 64]])).logits[0].double()
        total += torch.nn.functional.cross_entropy(out, torch.tensor(part[begin + 1:begin + 65])).item()
        windows += 1
    told = json.loads(zr("eval", FOLDER / run, "--data", FOLDER / "text.txt", "--json"))
    off = abs(math.log(told["perplexity"]) - total / windows)
    check(f"{name}: loss of zr eval", off <= 1e-5, f"difference {off:.2g}")


def train(family, folder, more):
    config = {"model": {"init": str(FOLDER / family), "lora": more}, "data": {"train": str(FOLDER / "text.txt")},
              "train_batch_size": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.02}},
              "train": {"steps": 6, "threads": 1, "output_dir": str(FOLDER / folder)}}
    (FOLDER / "c.json").write_text(json.dumps(config))
    zr("train", FOLDER / "c.json", "--quiet")


def main():
    (FOLDER / "text.txt").write_text(TEXT)
    for family, some in (("gpt2", ["c_attn", "h.1.*"]), ("qwen2", ["q_proj", "v_proj", "layers.1.mlp.*"])):
        make_base(family)
        for name, more in (("all", {"rank": 4}), ("some", {"rank": 3, "alpha": 5, "targets": some})):
            what = f"{family}, {name} layers"
            train(family, f"{family}-{name}", more)
            model = adapted(family, f"{family}-{name}/model")
            check(f"{what}: the adapter changes logits", (logits(model) - logits(plain(family))).abs().max() > 0.01)
            zr("convert", FOLDER / f"{family}-{name}", FOLDER / f"{family}-{name}-merged", "--quiet")
            compare(f"{what}, merged, in zr", logits_of(f"{family}-{name}-merged"), logits(model))
            compare(f"{what}, merged, in transformers", logits(plain(f"{family}-{name}-merged")), logits(model))
            compare_loss(what, f"{family}-{name}", model)
        names = ["c_attn", "c_proj"] if family == "gpt2" else "all-linear"
        model = peft.get_peft_model(plain(family), peft.LoraConfig(r=5, lora_alpha=7, target_modules=names,
                                                                   fan_in_fan_out=family == "gpt2"))
        for name, weight in model.named_parameters():
            if ".lora_B." in name:
                weight.copy_(0.1 * torch.randn_like(weight))
        model.save_pretrained(FOLDER / f"{family}-peft")
        zr("convert", FOLDER / f"{family}-peft", FOLDER / f"{family}-peft-merged", "--to", "hf", "--quiet")
        compare(f"{family}, adapter of peft, merged", logits_of(f"{family}-peft-merged"), logits(model.eval()))
        train(family, f"{family}-more", {"init": str(FOLDER / f"{family}-peft")})
        compare_loss(f"{family}, adapter of peft, trained on", f"{family}-more", adapted(family, f"{family}-more/model"))
    tap.end()


main()
