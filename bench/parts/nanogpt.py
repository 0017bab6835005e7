"""nanoGPT's recipe for a processor (bench/nanogpt.json) on Tiny Shakespeare's characters: zr beside PyTorch eager, and
quantised exchanges beside exact ones."""
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
RANKS = 4  # of runs with quantised exchanges
QUANTISED = {  # keys of zero_optimization, and the percent by which the loss may differ
    "int8 parameters": ({"zero_quantized_weights": True}, 0.1),
    "int4 gradients": ({"zero_quantized_gradients": True}, 1),
}


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


def ours(paths, vocabulary, steps, seed, ranks=1, zero=None, whole=False):
    """Train with zr. The wall time is measured from outside, so it includes the start and the saving of weights.
    whole: evaluate once, at the end, on all of the validation text."""
    recipe = json.loads(RECIPE.read_text())
    recipe["model"]["vocab_size"] = vocabulary
    recipe["data"].update(train=str(paths[0]), val=str(paths[1]))
    recipe["train"].update(steps=steps, seed=seed)
    if whole:
        recipe["train"].update(eval_interval=steps, eval_batches=0)
    if zero:
        recipe["zero_optimization"] = zero
    run = measure.train(recipe, ranks=ranks, arguments=["--quiet"])
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


def compare_quantised(options, paths, vocabulary):
    """Compare losses with quantised and exact exchanges, seed by seed. Rounding sends a run on another way, as another
    seed does, so the spread of the seeds stands beside the differences."""
    steps = 250 if options.quick else json.loads(RECIPE.read_text())["train"]["steps"]
    seeds = range(1, 2 if options.quick else 4)

    def losses(keys):
        runs = [ours(paths, vocabulary, steps, seed, RANKS, {"stage": 2, **keys}, whole=True) for seed in seeds]
        return [run["val_loss"] for run in runs]

    exact = losses({})
    spread = (max(exact) - min(exact)) / statistics.mean(exact) * 100
    for name, (keys, wanted) in QUANTISED.items():
        percent = [(loss / other - 1) * 100 for loss, other in zip(losses(keys), exact)]
        result(f"validation loss with {name} / with exact exchanges - 1", round(statistics.mean(percent), 3),
               None if options.quick else f"<= {wanted}", "%",
               f"{RANKS} ranks, stage 2, {steps} steps; each seed {', '.join(f'{each:+.3f}' for each in percent)}; "
               f"the seeds' exact losses spread over {spread:.2f} %")


def main():
    options = measure.options()
    try:
        paths, vocabulary = write_tokens(find_text(options).read_text())
    except measure.Failed as error:
        without("nanoGPT's recipe", error)
        return
    try:
        compare_quantised(options, paths, vocabulary)
    except measure.Failed as error:
        without("validation loss with quantised exchanges", error)
    try:
        measure.need_peers()
        race(options, paths, vocabulary)
    except measure.Failed as error:
        without(FASTER, error, FASTER_WANTED)
        without(SAME, error, SAME_WANTED)


main()
