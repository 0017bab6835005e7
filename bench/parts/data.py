"""The time for which a step waits for its samples: GPT-2 124M at T 64, with lines of JSON that must be tokenized."""
import json

import measure

WORDS = "the of and to in a is that for it as was with be by on not he i this are or his from at which but have".split()


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


def main():
    options = measure.options()
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


main()
