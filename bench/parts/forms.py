"""100 MB of Alpaca's records in a JSON array, rendered and tokenized: zr, as it prepares a run, compared with the packages
datasets and tokenizers, with GPT-2's vocabulary or, where it is not installed, a learned one."""
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import measure
import tokenizer as part

PEERS = measure.BUILD / "peers/datasets"
FIRST = "Below is an instruction that describes a task"

# The peer begins with the packages loaded; zr's time includes its start.
PEER = r"""
import sys, time, datasets, tokenizers
folder, path, cache, first = sys.argv[1:]
datasets.disable_progress_bars()
try:
    tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
except Exception:
    tokenizer = tokenizers.ByteLevelBPETokenizer(folder + "/vocab.json", folder + "/merges.txt")._tokenizer
end = ". Write a response that appropriately completes the request.\n\n### Instruction:\n"
def prompt(asked, given):
    if not given:
        return f"{first}{end}{asked}\n\n### Response:"
    return (f"{first}, paired with an input that provides further context{end}{asked}\n\n### Input:\n{given}\n\n"
            "### Response:")
def encode(batch):
    prompts = [prompt(*both) for both in zip(batch["instruction"], batch["input"])]
    before = tokenizer.encode_batch_fast(prompts)
    whole = tokenizer.encode_batch_fast([a + b for a, b in zip(prompts, batch["output"])])
    sizes = [(len(a.ids), len(b.ids)) for a, b in zip(before, whole)]
    return {"input_ids": [b.ids for b in whole], "completion_mask": [[0] * a + [1] * (b - a) for a, b in sizes]}
begin = time.perf_counter()
data = datasets.load_dataset("json", data_files=path, split="train", cache_dir=cache)
data = data.map(encode, batched=True, remove_columns=data.column_names)
print(time.perf_counter() - begin, len(data))
"""


def array(text, megabytes):
    """Write an array of records with words of a text. Return its path and the number of records."""
    path = measure.OUT / f"alpaca-{megabytes}.json"
    words, rng, size, records = text.read_text(errors="ignore").split(), random.Random(1), 0, 0
    with open(path, "w") as file:
        def words_of(least, most):
            n = rng.randint(least, most)
            at = rng.randrange(len(words) - n)
            return " ".join(words[at:at + n])
        while size < megabytes * 1e6:
            record = {"instruction": words_of(5, 20), "input": words_of(5, 30) if rng.random() < 0.4 else "",
                      "output": words_of(10, 150)}
            size += file.write(("," if records else "[") + "\n" + json.dumps(record, indent=4))
            records += 1
        file.write("\n]\n")
    return path, records


def peer_python():
    if not (PEERS / "bin/python").exists():
        measure.progress(f"installing datasets and tokenizers into {PEERS.relative_to(measure.ROOT)}")
        try:
            subprocess.run([sys.executable, "-m", "venv", PEERS], check=True, stdout=sys.stderr)
            subprocess.run([PEERS / "bin/pip", "install", "-q", "datasets==5.2.0", "tokenizers==0.23.3"], check=True,
                           stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            raise measure.Missing(f"datasets could not be installed: {error}") from None
    return PEERS / "bin/python"


def of_zr(path, folder):
    cache = measure.OUT / "forms.cache"
    shutil.rmtree(cache, ignore_errors=True)
    return measure.run([measure.ZR, "tokenize", "--tokenizer", folder, path, "--show", 1, "--quiet"], 900,
                       {"XDG_CACHE_HOME": str(cache)})


def of_peer(python, path, folder):
    cache = measure.OUT / "forms.peer"
    shutil.rmtree(cache, ignore_errors=True)
    ended = measure.run([python, "-c", PEER, folder, path, cache, FIRST], 1800,
                        {"RAYON_NUM_THREADS": str(measure.CORES), "TOKENIZERS_PARALLELISM": "true",
                         "HF_HUB_OFFLINE": "1"})
    return float(ended.stdout.split()[0])


def main():
    options = measure.options()
    speed, memory = "array of Alpaca's records, zr / datasets + tokenizers", "memory for an array of Alpaca's records"
    megabytes = 10 if options.quick else 100
    try:
        text, folder = part.inputs(options)
        path, records = array(text, megabytes)
        mine, rss = [], 0
        for _ in range(2 if options.quick else 3):
            ended = of_zr(path, folder)
            mine.append(ended.wall_sec)
            rss = max(rss, ended.rss_bytes)
        measure.result(memory, round(rss / 1e6), "<= 64", "MB", f"{megabytes} MB, {records} records")
        python = peer_python()
        theirs = [of_peer(python, path, folder) for _ in mine]
    except measure.Failed as error:
        return measure.without(speed, error, ">= 3")
    return measure.result(speed, round(statistics.median(theirs) / statistics.median(mine), 2), ">= 3", "x",
                          f"{megabytes / statistics.median(mine):.1f} MB/s against "
                          f"{megabytes / statistics.median(theirs):.1f}, {measure.CORES} threads each")


if __name__ == "__main__":
    main()
