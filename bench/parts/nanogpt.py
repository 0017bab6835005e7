"""nanoGPT's recipe for a processor (bench/nanogpt.json) on Tiny Shakespeare's characters: zr beside PyTorch eager."""
import json
import os
import pathlib
import statistics
import struct

import measure
from measure import result, without

RECIPE = measure.ROOT / "bench/nanogpt.json"
FASTER, SAME = "whole run: time of zr / time of PyTorch", "validation loss: zr less PyTorch, absolute"
FASTER_WANTED, SAME_WANTED = "<= 0.6", "<= 0.03"


def find_text(options):
    shared = pathlib.Path(os.environ.get("ZR_SHARED", measure.ROOT / "../shared"))
    path = options.text or shared / "data/tinyshakespeare.txt"
    if not path.is_file():
        raise measure.Missing("no text: give --text FILE (Tiny Shakespeare)")
    return path


def write_tokens(text):
    """Prepare the data like nanoGPT: each character gets a number, and nine tenths of the text are for training."""
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    cut = len(text) * 9 // 10
    paths = []
    for name, part in (("train", text[:cut]), ("val", text[cut:])):
        paths.append(measure.OUT / f"characters-{name}.bin")
        paths[-1].write_bytes(struct.pack(f"<{len(part)}H", *(number[character] for character in part)))
    return paths, len(characters)


def ours(paths, vocabulary, steps, seed):
    """Train with zr. The wall time is measured from outside, so it includes the start and the saving of weights."""
    recipe = json.loads(RECIPE.read_text())
    recipe["model"]["vocab_size"] = vocabulary
    recipe["data"].update(train=str(paths[0]), val=str(paths[1]))
    recipe["train"].update(steps=steps, seed=seed)
    run = measure.train(recipe, arguments=["--quiet"])
    evaluations = [line for line in run.more["metrics"] if "val_loss" in line]
    return {"wall_sec": run.more["wall_sec"], "val_loss": evaluations[-1]["val_loss"],
            "evaluations": len(evaluations), "val_tokens": evaluations[-1]["val_tokens"],
            "train_tokens": steps * recipe["train_batch_size"] * recipe["data"]["seq_length"]}


def theirs(paths, vocabulary, steps, seed):
    return measure.run_json([measure.PEERS / "python", "bench/peers/nanogpt_torch.py", RECIPE, *paths, vocabulary,
                             steps, seed], 1800)


def compare(zr, torch, steps):
    for key in ("evaluations", "val_tokens", "train_tokens"):
        if zr[0][key] != torch[0][key]:
            raise measure.Failed(f"not the same run: {key} {zr[0][key]} in zr, {torch[0][key]} in PyTorch")
    seconds = [statistics.median(run["wall_sec"] for run in runs) for runs in (zr, torch)]
    each = ", ".join(f"{a['wall_sec'] / b['wall_sec']:.2f}" for a, b in zip(zr, torch))
    result(FASTER, round(seconds[0] / seconds[1], 3), FASTER_WANTED, "x",
           f"{seconds[0]:.1f} s against {seconds[1]:.1f} s, {steps} steps, {zr[0]['evaluations']} evaluations of "
           f"{zr[0]['val_tokens']} tokens; each round {each}")
    losses = [statistics.mean(run["val_loss"] for run in runs) for runs in (zr, torch)]
    each = "; ".join(", ".join(f"{run['val_loss']:.4f}" for run in runs) for runs in (zr, torch))
    # A shortened run has not learned enough for a comparison.
    result(SAME, round(abs(losses[0] - losses[1]), 4), SAME_WANTED if steps >= 2000 else None, "nats",
           f"{losses[0]:.4f} and {losses[1]:.4f}, means over the seeds; each {each}")


def race(options, paths, vocabulary):
    steps = 250 if options.quick else json.loads(RECIPE.read_text())["train"]["steps"]
    zr, torch = [], []
    for number in range(1 if options.quick else 2):
        zr.append(ours(paths, vocabulary, steps, seed=number))
        torch.append(theirs(paths, vocabulary, steps, seed=number))
        measure.progress(f"round {number + 1}: zr {zr[-1]['wall_sec']:.1f} s, PyTorch {torch[-1]['wall_sec']:.1f} s")
    compare(zr, torch, steps)


def main():
    options = measure.options()
    try:
        measure.need_peers()
        paths, vocabulary = write_tokens(find_text(options).read_text())
        race(options, paths, vocabulary)
    except measure.Failed as error:
        without(FASTER, error, FASTER_WANTED)
        without(SAME, error, SAME_WANTED)


main()
