"""Models of the Llama kind, tiny and random, as transformers makes and saves them, beside zr. test_hf_families.sh
starts it in a virtual environment with transformers: families.py ZR LOGITS FOLDER [MPIRUN]; ZR the command, LOGITS the
example, FOLDER an empty one, MPIRUN the words that start processes.

Prints TAP. Every comparison names its largest difference.
"""
import json
import pathlib
import random
import subprocess
import sys

import numpy
import torch
import transformers

import tap
from files import compare_files, tensors_of
from tap import check, zr

ZR, LOGITS, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
MPIRUN = sys.argv[4].split() if len(sys.argv) > 4 else []
TEXT = "".join(f"line {i} of a text: {i * i % 97} apples, 'tis {'odd' if i % 2 else 'even'}.\n" for i in range(900))
SIZES = dict(num_hidden_layers=3, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, vocab_size=300, bos_token_id=299, eos_token_id=299, rms_norm_eps=1e-5)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}

# name: (class of the configuration, other settings, type, size of a file)
KINDS = {
    "llama": (transformers.LlamaConfig, {}, "float32", None),
    "llama tied, llama3 scaling, biases": (transformers.LlamaConfig, {
        "rope_parameters": LLAMA3, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}, "float32", None),
    "llama bf16 in files": (transformers.LlamaConfig, {"rope_parameters": YARN}, "bfloat16", "60KB"),
    "llama f16, padded vocabulary": (transformers.LlamaConfig, {"vocab_size": 320, "head_dim": 24}, "float16", None),
    "mistral with a window": (transformers.MistralConfig, {"sliding_window": 11}, "float32", "100KB"),
    "mistral bf16": (transformers.MistralConfig, {"sliding_window": None, "head_dim": 32}, "bfloat16", None),
    "qwen2 tied": (transformers.Qwen2Config, {"tie_word_embeddings": True}, "bfloat16", "50KB"),
    "qwen2 with windows": (transformers.Qwen2Config, {
        "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}, "float32", None),
    "qwen3": (transformers.Qwen3Config, {"head_dim": 32, "tie_word_embeddings": True}, "bfloat16", "80KB"),
    "qwen3 yarn": (transformers.Qwen3Config, {"head_dim": 16, "rope_parameters": YARN}, "float32", None),
}

torch.set_grad_enabled(False)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


# ---- models --------------------------------------------------------------------------------------


def make_model(folder, kind, more, dtype, shard):
    torch.manual_seed(sum(map(ord, folder.name)))
    config = kind(**(SIZES | more))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.add_(0.1 * torch.randn_like(weight))
        else:
            weight.mul_(4)  # so that the likeliest token is no near tie
    model = model.to(getattr(torch, dtype))
    model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    return config


def loaded(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager").eval()


def logits_of(folder, tokens):
    made = subprocess.run([LOGITS, folder, *map(str, tokens)], check=True, capture_output=True).stdout
    return torch.from_numpy(numpy.frombuffer(made, numpy.float32).reshape(len(tokens), -1).copy())


def compare_logits(name, folder, model):
    tokens = [random.Random(3).randrange(300) for _ in range(model.config.max_position_embeddings)]
    wanted = model(torch.tensor([tokens])).logits[0]
    off, most = (logits_of(folder, tokens) - wanted).abs().max().item(), wanted.abs().max().item()
    check(f"{name}: logits", off <= 1e-5 * most, f"largest difference {off:.2g}, of logits up to {most:.3g}")


def compare_greedy(name, folder, model, tokenizer):
    ids = tokenizer.encode("line 7 of", add_special_tokens=False)
    made = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=50, min_new_tokens=50, pad_token_id=0,
                          eos_token_id=None)[0].tolist()
    told = json.loads(zr("generate", folder, "--prompt", "line 7 of", "--tokens", 50, "--temperature", 0, "--past-end",
                         "--json"))
    wanted = tokenizer.decode(made[len(ids):], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    check(f"{name}: 50 greedy tokens", told["text"] == wanted and len(made) == len(ids) + 50)


# ---- documents -----------------------------------------------------------------------------------


def packed_rows(documents, room):
    """Return rows of `room` tokens, each with as many whole documents as fit, in order."""
    rows = []
    for document in documents:
        if not rows or sum(map(len, rows[-1])) + len(document) > room:
            rows.append([])
        rows[-1].append(document)
    return rows


def row_loss(model, row):
    """Return the sum of the losses of a packed row, with positions that restart at each document and a block-diagonal
    mask."""
    tokens = torch.tensor([sum(row, [])])
    which = torch.cat([torch.full((len(document),), i) for i, document in enumerate(row)])
    positions = torch.cat([torch.arange(len(document)) for document in row])
    sees = (which[:, None] == which) & torch.ones(len(which), len(which), dtype=torch.bool).tril()
    mask = torch.zeros(1, 1, *sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)
    logits = model(tokens, attention_mask=mask, position_ids=positions[None]).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1], tokens[0, 1:], reduction="none")
    return losses[which[:-1] == which[1:]].double().sum().item()


def alone_loss(model, document):
    logits = model(torch.tensor([document])).logits[0]
    return torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(document[1:]), reduction="none").double().sum().item()


def compare_packed(name, folder, model, tokenizer):
    """Check that the loss of packed rows is that of a block-diagonal mask, and that of the documents alone."""
    texts = [TEXT[at:at + 7 + at * 13 % 90] for at in range(0, 3000, 61)]
    path = FOLDER / "documents.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    end = tokenizer.encode("<|endoftext|>", add_special_tokens=False)
    documents = [tokenizer.encode(text, add_special_tokens=False) + end for text in texts]
    rows = packed_rows(documents, 97)
    run = folder.with_name(f"{folder.name}-packed")
    loss = train(folder, run, 1, 0, data={"train": str(path), "tokenizer": str(folder), "seq_length": 96,
                                          "packing": "whole", "order": "sequential"}, train_batch_size=len(rows))[0]
    targets = sum(len(document) - 1 for document in documents)
    wanted = sum(alone_loss(model, document) for document in documents) / targets
    check(f"{name}: documents that share rows", max(map(len, rows)) > 3 and abs(loss - wanted) < 1e-5 * wanted,
          f"{loss:.7g}, alone {wanted:.7g}")
    if getattr(model.config, "sliding_window", None):
        return  # transformers takes such a mask as it is, without the window
    wanted = sum(row_loss(model, row) for row in rows) / targets
    check(f"{name}: ... a block-diagonal mask", abs(loss - wanted) < 1e-5 * wanted, f"{loss:.7g}, masked {wanted:.7g}")


# ---- files ---------------------------------------------------------------------------------------


def compare_export(name, folder, run, values=True):
    """Check that a run's weights are in fp32, and have the form of their source after a conversion."""
    check(f"{name}: fp32", {dtype for _, dtype, *_ in tensors_of(run / "model").values()} == {torch.float32})
    exported = run.with_name(f"{run.name}-exported")
    zr("convert", run, exported, "--quiet")
    compare_files(name, folder, exported, values)


# ---- training ------------------------------------------------------------------------------------


def train(folder, run, steps, lr, before=(), ranks=1, **keys):
    config = {"model": {"init": str(folder)}, "train_batch_size": 8,
              "data": {"train": str(FOLDER / "text.txt"), "tokenizer": str(folder), "seq_length": 32},
              "optimizer": {"type": "AdamW", "params": {"lr": lr, "weight_decay": 0}},
              "train": {"steps": steps, "eval_interval": 0, "save_interval": steps, "output_dir": str(run)}} | keys
    (FOLDER / "config.json").write_text(json.dumps(config))
    zr("train", FOLDER / "config.json", "--quiet", *(() if before else ("--ranks", ranks)), before=before)
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


def run_kind(name, kind, more, dtype, shard):
    folder = FOLDER / "".join(c if c.isalnum() else "-" for c in name)
    make_model(folder, kind, more, dtype, shard)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER / "tokenizer")
    tokenizer.save_pretrained(folder)
    if shard:
        check(f"{name}: several files", len(list(folder.glob("model-*-of-*.safetensors"))) > 2)
    model = loaded(folder)
    compare_logits(name, folder, model)
    compare_greedy(name, folder, model, tokenizer)
    compare_packed(name, folder, model, tokenizer)
    copy, run, back = (folder.with_name(f"{folder.name}-{word}") for word in ("copy", "run", "back"))
    zr("convert", folder, copy, "--to", "hf", "--quiet")
    compare_files(f"{name}, converted", folder, copy)
    zr("convert", folder, run, "--to", "run", "--quiet")
    zr("convert", run, back, "--quiet")
    compare_files(f"{name}, to a run and back", folder, back)
    still, tuned = folder.with_name(f"{folder.name}-still"), folder.with_name(f"{folder.name}-tuned")
    train(folder, still, 1, 0, ranks=2, zero_optimization={"stage": 3})
    compare_export(f"{name}, after a step at rate 0", folder, still)
    launch = (*MPIRUN, "-n", "2") if MPIRUN else ()
    losses = train(folder, tuned, 40, 1e-3, before=launch, ranks=2, zero_optimization={"stage": 3},
                   parallel={"tensor": 2})
    check(f"{name}: the loss falls", losses[-1] < 0.8 * losses[0], f"{losses[0]:.4g} to {losses[-1]:.4g}")
    compare_export(f"{name}, trained by two tensor-parallel processes", folder, tuned, False)
    trained = loaded(tuned / "model")
    check(f"{name}: trained weights are finite", all(w.isfinite().all() for w in trained.parameters()))
    compare_logits(f"{name}, trained", tuned / "model", trained)
    compare_greedy(f"{name}, trained", tuned / "model", trained, tokenizer)


(FOLDER / "text.txt").write_text(TEXT)
zr("tokenize", "--train", 300, FOLDER / "text.txt", "-o", FOLDER / "tokenizer", "--quiet")
for name, settings in KINDS.items():
    run_kind(name, *settings)
tap.end()
