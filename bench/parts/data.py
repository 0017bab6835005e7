"""What a step waits for beside its own work: samples that must be tokenized, and Python."""
import json
import statistics
import sys

import measure

WORDS = "the of and to in a is that for it as was with be by on not he i this are or his from at which but have".split()

# Trains as `zr train CONFIG` does, by the package, on the file or on arrays: ARRAYS ZR train CONFIG ...
PROGRAM = """
import json, sys
import numpy as np, zr
with open(sys.argv[4]) as text:
    config = json.load(text)
data = None
if sys.argv[1] == "arrays":
    file, seq = config["data"].pop("train"), config["data"]["seq_length"]
    tokens = np.fromfile(file, np.uint8 if file.endswith(".txt") else np.uint16).astype(np.int32)
    rows = config["train_micro_batch_size_per_gpu"]
    size = rows * (seq + 1)
    data = (tokens[i % 1000 * seq :][:size].reshape(rows, seq + 1) for i in range(10**9))
    if file.endswith(".txt"):
        config["model"]["vocab_size"] = 256
for line in zr.train(config, data=data):
    pass
"""


def lines_of_json():
    """Write texts with words in an arbitrary order."""
    path = measure.OUT / "texts.jsonl"
    if not path.exists():
        texts = (" ".join(WORDS[(i * 7 + w * w * 13 + w // 5) % len(WORDS)] for w in range(40 + i % 200))
                 for i in range(4000))
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    folder = measure.OUT / "texts.tokenizer"
    if not folder.exists():
        measure.run([measure.ZR, "tokenize", "--train", 300, measure.ROOT / "ARCHITECTURE.md", "-o", folder], 60)
    return path, folder


def waiting(options):
    what, wanted = "waiting for data / step, GPT-2 124M, B 1, T 64, from .jsonl", "<= 0.005"
    try:
        path, folder = lines_of_json()
        config = measure.preset_config(batch=1, seq=64, steps=6 if options.quick else 30)
        config["data"].update({"train": str(path), "tokenizer": str(folder)})
        ran = measure.train(config, arguments=["--quiet"])
    except measure.Failed as error:
        return measure.without(what, error, wanted)
    steps = [line for line in ran.more["metrics"] if "step_ms" in line][1:]
    waited, took = (sum(step[key] for step in steps) for key in ("data_wait_ms", "step_ms"))
    return measure.result(what, float(f"{waited / took:.2g}"), wanted, "",
                          f"{1e3 * waited / len(steps):.0f} us of {took / len(steps):.0f} ms a step")


def from_python(options):
    """Time the steps of the command and of the package in turn. Each round begins with another of the systems."""
    try:
        measure.run([sys.executable, "-c", "import numpy"], 60)
    except measure.Failed:
        return measure.without("Python / command", measure.Missing(f"{sys.executable} has no numpy"), "<= 1.01")
    program = measure.OUT / "train.py"
    program.write_text(PROGRAM)
    if options.quick:
        model, config = "a tiny GPT-2", measure.bytes_config(layers=2, width=64, seq=64, stage=0, batch=4, steps=20)
    else:
        model, config = "GPT-2 124M, B 4, T 64", measure.preset_config(batch=4, seq=64, steps=9)
    env = {"PYTHONPATH": measure.ROOT / "python", "ZR_LIBRARY": measure.ZR.resolve().parent / "libzr.so", "ZR_COMMAND": measure.ZR}
    systems = {
        "command": lambda: measure.train(config, arguments=["--quiet"]),
        "Python": lambda: measure.train(config, [sys.executable, program, "file"], env=env),
        "Python, arrays": lambda: measure.train(config, [sys.executable, program, "arrays"], env=env)}
    turns, names = measure.Turns(0, systems), list(systems)
    for number in range(2 if options.quick else 6):
        for i in range(len(names)):
            name = names[(number + i) % len(names)]
            if name not in turns.failed:
                turns.take(number + 1, name, systems[name])
    for name in names[1:]:
        what, wanted = f"{model}: time of a step, {name} / command", None if options.quick else "<= 1.01"
        if why := turns.why_not("command", name):
            measure.without(what, why, wanted)
            continue
        each = [statistics.median(own.step_ms) / statistics.median(command.step_ms)
                for own, command in zip(turns.runs[name], turns.runs["command"])]
        measure.result(what, round(statistics.median(each), 4), wanted, "x",
                       f"{turns.median_ms(name):.1f} ms against {turns.median_ms('command'):.1f} ms; "
                       f"each round {', '.join(f'{ratio:.3f}' for ratio in each)}")
    return None


def main():
    options = measure.options(python={"action": "store_true"})
    if not options.python:
        waiting(options)
    from_python(options)


main()
