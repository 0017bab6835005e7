#!/usr/bin/env python3
"""Speed that others published for runs on A100 and H100, beside what `zr simulate` says.

    bench/published.py [--zr FILE] [--plan zr|fsdp] [--json] [--fit] [GENERATION.KEY=VALUE ...]

Reads tests/published.csv (its first lines say whose runs these are) and prints one line for each run: its shape, tokens
a second of a GPU as published and as zr's, zr's deviation in percent, and whether the run is one of those by which the
constants were fitted; then for each kind of run (GPU, one host or many) the median deviation and how many of the runs
are within 30 %, of those fitted and of those held out. The first, third, fifth ... run of a kind are fitted.

GENERATION is ampere or hopper, KEY one of product_share, product_half_size, attention_share, memory_share, link_share,
network_sec: residuals with that constant in place of the one in src/simulate/clusters.c. --plan fsdp plans as the
published runs did: a block is one bucket, exchanges are not split by host; zr, the default, as zr does. --fit looks for
the three constants of each generation that make the mean of |log(zr / published)| of the fitted runs least, on a grid,
with fsdp's plans.
"""
import argparse
import collections
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
# cluster, generation, bytes a second into a GPU: from the others of its host, from other hosts
GPUS = {"a100_80gb": ("dgx-a100x8", "ampere", 300e9, 25e9),
        "a100_40gb": ("dgx-a100x8-40gb", "ampere", 300e9, 25e9),
        "h100_80gb": ("dgx-h100x8", "hopper", 450e9, 50e9)}
HOST, MOST = 8, 512
DEVICE = ["product_share", "product_half_size", "attention_share", "memory_share"]
FSDP = ["--zero_optimization.reduce_bucket_size=1000000000", "--zero_optimization.allgather_bucket_size=1000000000",
        "--collectives.hierarchical=false"]
GRID = {"product_share": [x / 100 for x in range(45, 96)], "attention_share": [x / 100 for x in range(20, 71, 2)]}
HALVES = [32, 64, 128, 256, 384, 512]


def read_rows():
    lines = [line for line in open(ROOT / "tests/published.csv") if not line.startswith("#")]
    rows, seen = list(csv.DictReader(lines)), collections.Counter()
    for row in rows:
        row["kind"] = (row["gpu"][:4], "one host" if int(row["gpus"]) <= HOST else "many hosts")
        row["fitted"] = seen[row["kind"]] % 2 == 0
        seen[row["kind"]] += 1
    return rows


class Runs:
    def __init__(self, zr, plan, folder):
        self.zr, self.folder = zr, pathlib.Path(folder)
        self.options = FSDP if plan == "fsdp" else []
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.files = 0
        (self.folder / "config.json").write_text("{}")

    def cluster(self, gpu, constants):
        """Its name, or a file with other constants."""
        name, generation, inside, network = GPUS[gpu]
        mine = constants.get(generation, {})
        if not mine:
            return name
        cluster = {"include": name, "devices": MOST, "device": {k: mine[k] for k in DEVICE if k in mine}}
        if "link_share" in mine:
            cluster["link_share"] = mine["link_share"]
        if "network_sec" in mine:
            cluster["links"] = [{"name": "NVSwitch", "devices": HOST, "bytes_per_sec": inside, "share": 0.8},
                                {"name": "InfiniBand", "devices": MOST, "bytes_per_sec": network,
                                 "shared_bytes_per_sec": HOST * network, "latency_sec": mine["network_sec"]}]
        self.files += 1
        file = self.folder / f"{self.files}.json"
        file.write_text(json.dumps(cluster))
        return str(file)

    def one(self, row, cluster):
        """zr's tokens a second of a GPU."""
        call = [self.zr, "simulate", str(self.folder / "config.json"), "--cluster", cluster, "--json", "--quiet",
                "--ranks", row["gpus"], "--stage", row["stage"], "--batch", row["micro_batch"], "--seq", row["seq"],
                "--bf16.enabled=true", f"--gradient_accumulation_steps={row['accumulation']}",
                f"--model.n_layer={row['layers']}", f"--model.n_embd={row['width']}",
                f"--model.n_head={row['heads']}", f"--model.vocab_size={row['vocab']}",
                f"--model.n_positions={row['seq']}", f"--activation_checkpointing.policy={row['recompute']}"]
        ended = subprocess.run(call + self.options, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"published: {ended.stderr}")
        return json.loads(ended.stdout)["tokens_per_sec"] / int(row["gpus"])

    def all(self, rows, constants):
        clusters = {gpu: self.cluster(gpu, constants) for gpu in {row["gpu"] for row in rows}}
        return list(self.pool.map(lambda row: self.one(row, clusters[row["gpu"]]), rows))


def fit(runs, rows, generation):
    """Of each half size, shares by turns."""
    some = [row for row in rows if row["fitted"] and GPUS[row["gpu"]][1] == generation]

    def loss(constants):
        made = runs.all(some, {generation: constants})
        return statistics.mean(abs(math.log(zr / float(row["tokens_per_sec_gpu"]))) for row, zr in zip(some, made))

    best = math.inf, {}
    for half in HALVES:
        at = {"product_share": 0.6, "product_half_size": half, "attention_share": 0.4}
        least = loss(at)
        for key in list(GRID) * 2:
            step = 8  # of the grid, halved while no neighbour is better
            while step:
                i = GRID[key].index(at[key])
                near = [at | {key: GRID[key][j]} for j in (i - step, i + step) if 0 <= j < len(GRID[key])]
                losses = [loss(one) for one in near]
                if min(losses) < least:
                    least, at = min(losses), near[losses.index(min(losses))]
                else:
                    step //= 2
        print(f"# {generation} {at}: {least:.4f}", flush=True)
        best = min(best, (least, at), key=lambda one: one[0])
    return best[1]


def show(rows):
    for row in rows:
        shape = f"{row['layers']}x{row['width']}"
        print(f"{row['gpu']} {row['gpus']:>4} {shape:>8} T {row['seq']:>5} x {row['micro_batch']:>2} "
              f"x {row['accumulation']:>2} {row['recompute']:>5} {row['published']:9.0f} {row['zr']:9.0f} "
              f"{100 * (row['ratio'] - 1):+6.1f} % {'fitted' if row['fitted'] else ''}".rstrip())
    print()
    for kind in sorted({row["kind"] for row in rows}):
        for fitted in (True, False):
            ratios = [row["ratio"] for row in rows if row["kind"] == kind and row["fitted"] == fitted]
            within = sum(abs(ratio - 1) <= 0.3 for ratio in ratios)
            print(f"{kind[0]}, {kind[1]}, {'fitted' if fitted else 'held out'}: median "
                  f"{100 * (statistics.median(ratios) - 1):+.1f} %, {within} of {len(ratios)} within 30 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--zr", default=str(ROOT / "build/zr"))
    parser.add_argument("--plan", choices=["zr", "fsdp"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("constants", nargs="*", metavar="GENERATION.KEY=VALUE")
    options = parser.parse_args()
    constants, rows = collections.defaultdict(dict), read_rows()
    for text in options.constants:
        name, _, value = text.partition("=")
        generation, _, key = name.partition(".")
        if generation not in ("ampere", "hopper") or key not in DEVICE + ["link_share", "network_sec"]:
            parser.error(f"{text}: GENERATION.KEY=VALUE was wanted, as hopper.product_share=0.6")
        constants[generation][key] = float(value)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options.zr, options.plan or ("fsdp" if options.fit else "zr"), folder)
        if options.fit:
            constants = {generation: fit(runs, rows, generation) for generation in ("ampere", "hopper")}
        for row, zr in zip(rows, runs.all(rows, constants)):
            row.update(zr=zr, published=float(row["tokens_per_sec_gpu"]))
            row["ratio"] = zr / row["published"]
    if options.json:
        print(json.dumps(rows))
    else:
        show(rows)


main()
