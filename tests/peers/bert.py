"""BERT, tiny and random, as transformers makes and saves it, beside zr: losses, training, and directories written
again. test_hf_bert.sh starts it in a virtual environment with transformers: bert.py ZR FOLDER; ZR the command,
FOLDER an empty one.

Prints TAP. Every comparison names its largest difference.
"""
import json
import pathlib
import shutil
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

import tap
from encoder import (BATCH, SIZES, STEPS, compare_export, compare_steps, compare_weights, loaded, make_model, train,
                     trained_by_torch)
from files import compare_files, tensors_of
from tap import check, zr

ZR, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
KIND = transformers.BertForPreTraining
SEQ, TABLES = 19, {"vocab_size": 53, "max_position_embeddings": 23}
TERMS = "masked_lm", "next_sentence"
BIAS, DECODER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"
POSITIONS = "bert.embeddings.position_ids"
EXTRA = POSITIONS, DECODER_BIAS  # what old files hold besides, and what is not written again

# name: type, size of a file, whether the files have the names and tensors of the first versions
KINDS = {
    "plain": ("float32", None, False),
    "in files": ("float32", "20KB", False),
    "bf16": ("bfloat16", None, False),
    "old spellings": ("float32", None, True),
    "old spellings in files, f16": ("float16", "12KB", True),
}

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


# ---- models and rows -----------------------------------------------------------------------------


def respell(folder):
    """Rename the norms of a directory as the first versions did, and add the tensors that only their files have."""
    index = folder / "model.safetensors.index.json"
    for path in sorted(folder.glob("*.safetensors")):
        tensors = {}
        for name, value in load_file(path).items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[name] = value
        if BIAS in tensors:
            tensors[DECODER_BIAS] = tensors[BIAS].clone()
            tensors[POSITIONS] = torch.arange(TABLES["max_position_embeddings"])[None]
        save_file(tensors, path, metadata={"format": "pt"})
    if index.exists():
        told = json.loads(index.read_text())
        told["weight_map"] = {name: file for name, (file, *_) in tensors_of(folder).items()}
        index.write_text(json.dumps(told))


def make_rows(steps, seed):
    """Return rows of two segments and padding, in which at least one token is predicted."""
    random = torch.Generator().manual_seed(seed)
    n = steps * BATCH
    ids = torch.randint(5, TABLES["vocab_size"], (n, SEQ), generator=random)
    place, filled = torch.arange(SEQ), torch.randint(SEQ // 2, SEQ + 1, (n, 1), generator=random)
    mask = place < filled
    picked = (torch.rand((n, SEQ), generator=random) < 0.2) & mask | (place == 1)
    rows = {"input_ids": torch.where(picked, 4, ids) * mask, "attention_mask": mask.long(),
            "token_type_ids": ((place >= filled // 2) & mask).long(), "labels": torch.where(picked, ids, -100),
            "next_sentence_label": torch.randint(0, 2, (n,), generator=random)}
    return {name: value.contiguous() for name, value in rows.items()}


def losses_of(model, rows):
    """Return the two means of the loss, from the logits in float64, after a comparison with the loss of
    transformers."""
    out = model(**rows)
    pair = [cross_entropy(out.prediction_logits.double().flatten(0, 1), rows["labels"].flatten()),
            cross_entropy(out.seq_relationship_logits.double(), rows["next_sentence_label"])]
    if abs(out.loss.item() - sum(pair).item()) > 1e-5:
        raise RuntimeError(f"transformers' loss is {out.loss.item()}, not the sum of the means {pair}")
    return pair


def accuracy_of(model, rows):
    """Return the fraction of masked tokens that have the largest logit; of several equal logits, the first counts."""
    counted = rows["labels"] >= 0
    return (model(**rows).prediction_logits.argmax(-1) == rows["labels"])[counted].double().mean().item()


def part_of(rows, first, n):
    return {name: value[first:first + n].contiguous() for name, value in rows.items()}


# ---- comparisons ---------------------------------------------------------------------------------


def compare_losses(name, folder, model, rows, path):
    """Compare the losses of all rows, and those of a few rows alone, so that no difference is averaged out."""
    most = off = 0.0
    cases = [(path, rows)]
    for first in range(3):
        cases.append((FOLDER / "row.safetensors", part_of(rows, first, 1)))
    for file, part in cases:
        if file != path:
            save_file(part, file)
        told = json.loads(zr("eval", folder, "--data", file, "--seq", SEQ, "--json"))
        with torch.no_grad():
            wanted = [loss.item() for loss in losses_of(model, part)]
            off = max(off, abs(told["masked_lm_accuracy"] - accuracy_of(model, part)))
        for got, want in zip((told["masked_lm"], told["next_sentence"], told["loss"]), (*wanted, sum(wanted))):
            most = max(most, abs(got / want - 1))
    check(f"{name}: losses of zr eval", most < 1e-6, f"largest relative difference {most:.2g}")
    check(f"{name}: masked_lm_accuracy", off < 1e-8, f"largest difference {off:.2g}")


def compare_outputs(name, model, other, rows):
    """Compare the logits of two models of transformers."""
    with torch.no_grad():
        inputs = {key: rows[key] for key in ("input_ids", "attention_mask", "token_type_ids")}
        a, b = model(**inputs), other(**inputs)
    off = max((x - y).abs().max().item() for x, y in ((a.prediction_logits, b.prediction_logits),
                                                     (a.seq_relationship_logits, b.seq_relationship_logits)))
    most = a.prediction_logits.abs().max().item()
    check(f"{name}: logits", off <= 1e-5 * most, f"largest difference {off:.2g}, of logits up to {most:.3g}")


def run_kind(name, dtype, shard, old, rows, path):
    folder = FOLDER / "".join(c if c.isalnum() else "-" for c in name)
    make_model(folder, KIND, TABLES, dtype, shard)
    if old:
        respell(folder)
    if shard:
        check(f"{name}: several files", len(list(folder.glob("model-*-of-*.safetensors"))) > 2)
    model, missing, unknown = loaded(folder, KIND)
    # which tensors an old directory has too many depends on the version of transformers
    strange = [key for key in missing + unknown if not old or key not in EXTRA]
    check(f"{name}: transformers loads it", not strange, ", ".join(strange))
    compare_losses(name, folder, model, rows, path)

    copy, run, back = (folder.with_name(f"{folder.name}-{word}") for word in ("copy", "run", "back"))
    zr("convert", folder, copy, "--to", "hf", "--quiet")
    compare_files(f"{name}, converted", folder, copy, without=EXTRA)
    zr("convert", folder, run, "--to", "run", "--quiet")
    zr("convert", run, back, "--quiet")
    compare_files(f"{name}, to a run and back", folder, back, without=EXTRA)
    compare_outputs(f"{name}, to a run and back", model, compare_export(name, back, KIND), rows)

    tuned = folder.with_name(f"{folder.name}-tuned")
    data = {"train": str(path), "seq_length": SEQ, "max_predictions": SEQ}
    losses = train(folder, tuned, data, TERMS, ("--ranks", 2, "--zero_optimization.stage=3"))
    wanted, model = trained_by_torch(model, lambda it, step: losses_of(it, part_of(rows, step * BATCH, BATCH)))
    compare_steps(name, losses, wanted)
    again = compare_export(f"{name}, trained", tuned / "model", KIND)
    compare_losses(f"{name}, trained", tuned, again, rows, path)
    compare_losses(f"{name}, trained, its model", tuned / "model", again, rows, path)
    compare_weights(name, again, model)


# ---- norms before each part ----------------------------------------------------------------------


def run_preln(rows, path):
    """Check that neither program takes a model that transformers does not have for one that it has."""
    run = FOLDER / "preln"
    config = {"model": {"type": "bert-preln"} | SIZES | TABLES,
              "data": {"train": str(path), "seq_length": SEQ, "max_predictions": SEQ},
              "train_batch_size": BATCH, "train": {"steps": 2, "eval_interval": 0, "output_dir": str(run)}}
    (FOLDER / "config.json").write_text(json.dumps(config))
    zr("train", FOLDER / "config.json", "--quiet")
    told = json.loads((run / "model/config.json").read_text())
    check("norms before each part: its own type", told["model_type"] == "bert-preln" and
          told["architectures"] == ["BertPreLNForPreTraining"], f"{told['model_type']}, {told['architectures']}")
    try:
        transformers.AutoModelForPreTraining.from_pretrained(run / "model")
        refused = ""
    except (ValueError, KeyError) as error:
        refused = str(error)
    check("... which transformers refuses", "bert-preln" in refused)
    first, again = (json.loads(zr("eval", weights, "--data", path, "--seq", SEQ, "--json"))["loss"]
                    for weights in (run, run / "model"))
    check("... and zr reads", first == again, f"{first}, {again}")
    wrong = FOLDER / "wrong"
    shutil.copytree(run / "model", wrong)
    told |= {"model_type": "bert", "architectures": ["BertForPreTraining"]}
    (wrong / "config.json").write_text(json.dumps(told))
    ended = subprocess.run([ZR, "eval", wrong, "--data", path, "--seq", str(SEQ)], capture_output=True, text=True)
    missing = "attention.output.LayerNorm.weight: missing"
    check("... but not as BERT", ended.returncode == 65 and missing in ended.stderr,
          f"exit {ended.returncode}: {ended.stderr.splitlines()[:1]}")


def main():
    rows, path = make_rows(STEPS, 1), FOLDER / "rows.safetensors"
    save_file(rows, path)
    for name, (dtype, shard, old) in KINDS.items():
        run_kind(name, dtype, shard, old, rows, path)
    run_preln(rows, path)
    tap.end()


main()
