"""Text generation with GPT-2 124M with random weights, one sample: tokens per second, relative to the limit of the
memory's bandwidth."""
import shutil
import statistics
import time

import measure

SHORT, LONG = 8, 136
WTE_TOKENS, POSITIONS, WIDTH = 50257, 1024, 768


def model():
    """Return a directory of such a model, with a tokenizer of a few tokens. All 50257 logits are computed."""
    run = measure.OUT / "generate"
    if not (run / "model/model.safetensors").exists():
        shutil.rmtree(run, ignore_errors=True)
        config = measure.preset_config(batch=1, steps=1)
        config["train"]["output_dir"] = str(run)
        path = measure.OUT / "generate.json"
        path.write_text(measure.json.dumps(config))
        measure.run([measure.ZR, "train", path, "--quiet"], 600)
        words = measure.OUT / "generate.tokenizer"
        shutil.rmtree(words, ignore_errors=True)
        measure.run([measure.ZR, "tokenize", "--train", 300, measure.ROOT / "ARCHITECTURE.md", "-o", words], 60)
        shutil.copy(words / "tokenizer.json", run / "model")
    return run / "model"


def seconds_a_token(folder):
    """Return the time of a token, as the difference between a short and a long text, in which the time to load the
    weights cancels out."""
    took = []
    for tokens in (SHORT, LONG):
        begin = time.perf_counter()
        measure.run([measure.ZR, "generate", folder, "--prompt", "x", "--tokens", tokens, "--temperature", 0], 600)
        took.append(time.perf_counter() - begin)
    return (took[1] - took[0]) / (LONG - SHORT)


def bandwidth():
    measure.run([measure.ZR, "info", "--bench", "--quiet"], 600)
    return measure.info()["rates"]["memory_bytes_sec"]


def main():
    options = measure.options()
    what, wanted = "tokens/s of GPT-2 124M, share of what bandwidth allows", ">= 0.5"
    try:
        folder = model()
        # A token reads one row of the table of positions.
        weights = (folder / "model.safetensors").stat().st_size - 4 * (POSITIONS - 1) * WIDTH
        shares, speeds = [], []
        for number in range(1 if options.quick else 3):
            bytes_sec, sec = bandwidth(), seconds_a_token(folder)
            speeds.append(1 / sec)
            shares.append(weights / sec / bytes_sec)
            measure.progress(f"round {number + 1}: {1 / sec:.1f} tokens/s at {bytes_sec / 1e9:.1f} GB/s")
    except measure.Failed as error:
        return measure.without(what, error, wanted)
    return measure.result(what, round(statistics.median(shares), 3), wanted, "",
                          f"{statistics.median(speeds):.1f} tokens/s, {weights / 1e6:.0f} MB of fp32 weights a token; "
                          f"each round {', '.join(f'{share:.2f}' for share in shares)}")


main()
