"""`zr tokenize` compared with the package tokenizers, with GPT-2's vocabulary or, where it is not installed, a learned
one."""
import os
import pathlib
import statistics
import subprocess
import sys

import measure

PEERS = measure.BUILD / "peers/tokenizers"
TIMES = 16  # number of repetitions of the texts

# The peer's time does not include reading the files and the vocabulary, zr's time does. Parts end with a line and are
# about as long as the parts into which zr divides a text. The package gives each part to a thread.
PEER = r"""
import sys, time, tokenizers
folder, text = sys.argv[1:]
try:
    tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
except Exception:
    tokenizer = tokenizers.ByteLevelBPETokenizer(folder + "/vocab.json", folder + "/merges.txt")._tokenizer
lines, parts, size = open(text, newline="").read().splitlines(True), [[]], 0
for line in lines:
    if size > 100000:
        parts.append([])
        size = 0
    parts[-1].append(line)
    size += len(line)
parts = ["".join(part) for part in parts]
begin = time.perf_counter()
made = tokenizer.encode_batch_fast(parts, add_special_tokens=False)
print(time.perf_counter() - begin, sum(len(part.ids) for part in made))
"""


def shared():
    return pathlib.Path(os.environ.get("ZR_SHARED", measure.ROOT / "../shared")) / "data"


def inputs(options):
    """Return the text and the tokenizer's directory."""
    found = [options.text] if options.text else sorted(shared().glob("*.txt"))
    if not found:
        raise measure.Missing("no text: --text FILE, or *.txt in data/ of $ZR_SHARED or ../shared")
    text = measure.OUT / "tokenize.txt"
    text.write_bytes(b"".join(path.read_bytes() for path in found) * (2 if options.quick else TIMES))
    folder = shared() / "gpt2"
    if not folder.is_dir():
        folder = measure.OUT / "tokenize.tokenizer"
        if not folder.exists():
            measure.run([measure.ZR, "tokenize", "--train", 32000, *found, "-o", folder], 600)
    return text, folder


def peer_python():
    if not (PEERS / "bin/python").exists():
        measure.progress(f"installing tokenizers into {PEERS.relative_to(measure.ROOT)}")
        try:
            subprocess.run([sys.executable, "-m", "venv", PEERS], check=True, stdout=sys.stderr)
            subprocess.run([PEERS / "bin/pip", "install", "-q", "tokenizers==0.23.3"], check=True, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            raise measure.Missing(f"tokenizers could not be installed: {error}") from None
    return PEERS / "bin/python"


def of_zr(text, folder, threads):
    out = measure.OUT / "tokenize.bin"
    out.unlink(missing_ok=True)
    ended = measure.run([measure.ZR, "tokenize", "--tokenizer", folder, text, "-o", out, "--threads", threads,
                         "--quiet"], 600)
    return ended.wall_sec


def of_peer(python, text, folder, threads):
    ended = measure.run([python, "-c", PEER, folder, text], 900,
                        {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"})
    return float(ended.stdout.split()[0])


def main():
    options = measure.options()
    for threads in sorted({1, measure.CORES}):
        what, wanted = f"zr tokenize / tokenizers, {threads} thread{'s' if threads > 1 else ''} each", ">= 3"
        try:
            (text, folder), python = inputs(options), peer_python()
            mine, theirs = [], []
            for number in range(2 if options.quick else 3):
                theirs.append(of_peer(python, text, folder, threads))
                mine.append(of_zr(text, folder, threads))
                measure.progress(f"round {number + 1}: {theirs[-1]:.2f} s / {mine[-1]:.2f} s")
        except measure.Failed as error:
            measure.without(what, error, wanted)
            continue
        size = text.stat().st_size / 1e6
        measure.result(what, round(statistics.median(theirs) / statistics.median(mine), 2), wanted, "x",
                       f"{size / statistics.median(mine):.1f} MB/s against {size / statistics.median(theirs):.1f}; each "
                       f"round {', '.join(f'{b / a:.2f}' for a, b in zip(mine, theirs))}; start and files count for zr")


if __name__ == "__main__":
    main()
