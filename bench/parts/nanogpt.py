"""nanoGPT's recipe for a processor (bench/nanogpt.json) on Tiny Shakespeare's characters: zr beside PyTorch eager,
quantised exchanges beside exact ones, and Muon beside AdamW."""
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
RANKS = 4  # of the runs that follow, at stage 2
QUANTISED = {  # keys of zero_optimization, and the percent by which the loss may differ
    "int8 parameters": ({"zero_quantized_weights": True}, 0.1),
    "int4 gradients": ({"zero_quantized_gradients": True}, 1),
}
MUON_SHARE = 0.75  # of the steps, within which Muon must reach the loss of AdamW
MUON = {"muon_lr": 0.02}  # Keller Jordan's rate of matrices; the recipe's is AdamW's, which trains the rest


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


def ours(paths, vocabulary, steps, seed, ranks=1, whole=0, **sections):
    """Train with zr. The wall time is measured from outside, so it includes the start and the saving of weights.
    whole: evaluate so many times, on all of the validation text. sections: of the configuration, instead of the
    recipe's."""
    recipe = json.loads(RECIPE.read_text()) | sections
    recipe["model"]["vocab_size"] = vocabulary
    recipe["data"].update(train=str(paths[0]), val=str(paths[1]))
    recipe["train"].update(steps=steps, seed=seed)
    if whole:
        recipe["train"].update(eval_interval=steps // whole, eval_batches=0)
    run = measure.train(recipe, ranks=ranks, arguments=["--quiet"])
    evaluations = [line for line in run.more["metrics"] if "val_loss" in line]
    return {"wall_sec": run.more["wall_sec"], "val_loss": evaluations[-1]["val_loss"],
            "evaluations": len(evaluations), "val_tokens": evaluations[-1]["val_tokens"],
            "val_losses": [(line["step"], line["val_loss"]) for line in evaluations],
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


def train_seeds(options, paths, vocabulary, share=1, whole=1, zero=None, **sections):
    """Train with each seed in a share of the recipe's steps."""
    steps = 250 if options.quick else json.loads(RECIPE.read_text())["train"]["steps"]
    seeds = range(1, 2 if options.quick else 4)
    return [ours(paths, vocabulary, int(share * steps), seed, RANKS, whole,
                 zero_optimization={"stage": 2, **(zero or {})}, **sections) for seed in seeds]


def compare_losses(what, runs, exact, wanted, detail):
    """Print by how many percent losses differ from those of exact runs, seed by seed."""
    percent = [(run["val_loss"] / other["val_loss"] - 1) * 100 for run, other in zip(runs, exact)]
    result(what, round(statistics.mean(percent), 3), wanted, "%",
           f"{RANKS} ranks, stage 2; each seed {', '.join(f'{each:+.3f}' for each in percent)}; {detail}")


def compare_quantised(options, paths, vocabulary, exact):
    """Compare losses with quantised and exact exchanges. Rounding sends a run on another way, as another seed does, so
    the spread of the seeds stands beside the differences."""
    losses = [run["val_loss"] for run in exact]
    spread = (max(losses) - min(losses)) / statistics.mean(losses) * 100
    for name, (keys, wanted) in QUANTISED.items():
        compare_losses(f"validation loss with {name} / with exact exchanges - 1",
                       train_seeds(options, paths, vocabulary, zero=keys), exact,
                       None if options.quick else f"<= {wanted}",
                       f"the seeds' exact losses spread over {spread:.2f} %")


def compare_muon(options, paths, vocabulary, adamw):
    """Compare the losses of Muon in a share of the steps, with the whole schedule in them, with those of AdamW."""
    recipe = json.loads(RECIPE.read_text())
    optimizer, scheduler = recipe["optimizer"], recipe["scheduler"]
    optimizer["type"] = "Muon"
    optimizer["params"].update(MUON)
    for key in ("total_num_steps", "warmup_num_steps"):
        scheduler["params"][key] = int(MUON_SHARE * scheduler["params"][key])
    runs = train_seeds(options, paths, vocabulary, MUON_SHARE, 15, optimizer=optimizer, scheduler=scheduler)
    below = [next((str(step) for step, loss in run["val_losses"] if loss <= other["val_loss"]), "none")
             for run, other in zip(runs, adamw)]
    compare_losses(f"validation loss with Muon in {MUON_SHARE} of the steps / with AdamW - 1", runs, adamw,
                   None if options.quick else "<= 0", f"first step at or below AdamW's last loss: {', '.join(below)}")


def main():
    options = measure.options()
    try:
        paths, vocabulary = write_tokens(find_text(options).read_text())
    except measure.Failed as error:
        without("nanoGPT's recipe", error)
        return
    try:
        exact = train_seeds(options, paths, vocabulary)
        compare_quantised(options, paths, vocabulary, exact)
        compare_muon(options, paths, vocabulary, exact)
    except measure.Failed as error:
        without("validation losses of other exchanges and optimizers", error)
    try:
        measure.need_peers()
        race(options, paths, vocabulary)
    except measure.Failed as error:
        without(FASTER, error, FASTER_WANTED)
        without(SAME, error, SAME_WANTED)


main()
