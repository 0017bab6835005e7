#!/usr/bin/env python3
"""Published speeds of runs on A100 and H100, compared with the results of `zr simulate`.

    bench/published.py [--zr FILE] [--plan zr|fsdp] [--json] [--fit] [GENERATION.KEY=VALUE ...]

Reads tests/published.csv (whose first lines name the sources) and prints one line for each run: its shape, tokens per
second per GPU as published and as simulated, zr's deviation in percent, and whether the constants were fitted to the
run.
Then prints for each kind of run (GPU; FSDP on one host or many, llm.c, or Llama models by system) the median deviation
and the number of runs within 30 %, separately for fitted and held-out runs. The first, third, fifth ... FSDP run of a
kind of GPT shapes and all runs of llm.c are fitted. No run of a Llama model is fitted.

PyTorch computes the ops between products unfused, so they move more bytes than zr's. The runs of PyTorch without
torch.compile are therefore simulated with the memory share unfused_share. All other constants are the same for all
systems.

GENERATION.KEY=VALUE replaces a constant of src/simulate/clusters.c. GENERATION is ampere or hopper. KEY is
product_share, product_half_size, attention_share, memory_share, link_share, network_sec or unfused_share. --plan fsdp
plans FSDP's runs like FSDP: a block is one bucket, and exchanges are not split by host. --plan zr, the default, plans
them like zr. --fit prints the three constants of each generation that fit best, on a grid, with --plan fsdp. It
minimises the mean of |log(zr / published)| over the fitted FSDP runs plus the largest value of llm.c's runs.
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
# cluster, generation, bytes per second into a GPU: from other GPUs of its host, from other hosts
GPUS = {"a100_80gb": ("dgx-a100x8", "ampere", 300e9, 25e9),
        "a100_40gb": ("dgx-a100x8-40gb", "ampere", 300e9, 25e9),
        "h100_80gb": ("dgx-h100x8", "hopper", 450e9, 50e9),
        "h100_96gb": ("dgx-h100x8", "hopper", 450e9, 50e9)}
# where it differs from the named cluster
MEMORY = {"h100_96gb": {"memory_bytes": 96e9, "memory_bytes_per_sec": 2.4e12}}
NETWORK = {("a100_80gb", "ibm"): 6.25e9, ("h100_80gb", "ibm"): 12.5e9}  # bytes per second into a GPU from other hosts
UNFUSED = ("fsdp", "titan", "ibm")  # systems that run PyTorch's ops
HOST, MOST = 8, 512
NETWORK_SEC = 1e-5  # for both generations
DEVICE = ["product_share", "product_half_size", "attention_share", "memory_share"]
OTHERS = ["link_share", "network_sec", "unfused_share"]
# Fraction of the memory bandwidth, counted in the bytes of zr's ops, that PyTorch's unfused ops reach. Chosen by hand.
UNFUSED_SHARE = 0.3
FSDP = ["--zero_optimization.reduce_bucket_size=1000000000", "--zero_optimization.allgather_bucket_size=1000000000",
        "--collectives.hierarchical=false"]
GRID = {"product_share": [x / 100 for x in range(45, 96)], "attention_share": [x / 100 for x in range(20, 71, 2)]}
HALVES = [16, 32, 64, 128]


def read_rows():
    lines = [line for line in open(ROOT / "tests/published.csv") if not line.startswith("#")]
    rows, seen = list(csv.DictReader(lines)), collections.Counter()
    for row in rows:
        hosts = "one host" if int(row["gpus"]) <= HOST else "many hosts"
        own = "Llama, " + row["system"] if row["model"] else row["system"]
        row["kind"] = (row["gpu"][:4], hosts if row["system"] == "fsdp" else own)
        row["fitted"] = not row["model"] and (seen[row["kind"]] % 2 == 0 or row["system"] != "fsdp")
        seen[row["kind"]] += 1
    return rows


class Runs:
    def __init__(self, zr, plan, folder):
        self.zr, self.folder = zr, pathlib.Path(folder)
        self.options = FSDP if plan == "fsdp" else []
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.files = 0
        (self.folder / "config.json").write_text("{}")

    def cluster(self, gpu, system, constants):
        """Return a cluster's name, or a file that overrides some of its constants."""
        name, generation, inside, network = GPUS[gpu]
        mine = dict(constants.get(generation, {}))
        unfused = mine.pop("unfused_share", UNFUSED_SHARE)
        if system in UNFUSED:
            mine["memory_share"] = unfused
        if (gpu, system) in NETWORK:
            network = NETWORK[gpu, system]
            mine.setdefault("network_sec", NETWORK_SEC)
        if not mine and gpu not in MEMORY:
            return name
        device = {k: mine[k] for k in DEVICE if k in mine} | MEMORY.get(gpu, {})
        cluster = {"include": name, "devices": MOST, "device": device}
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
        """Return zr's tokens per second per GPU."""
        call = [self.zr, "simulate", str(self.folder / "config.json"), "--cluster", cluster, "--json", "--quiet",
                "--ranks", row["gpus"], "--stage", row["stage"], "--batch", row["micro_batch"], "--seq", row["seq"],
                "--bf16.enabled=true", f"--gradient_accumulation_steps={row['accumulation']}",
                f"--activation_checkpointing.policy={row['recompute']}"]
        if row["model"]:
            call += [f"--model.preset={row['model']}", "--gradient_clipping=1.0", "--optimizer.type=AdamW"]
        else:
            call += [f"--model.n_layer={row['layers']}", f"--model.n_embd={row['width']}",
                     f"--model.n_head={row['heads']}", f"--model.vocab_size={row['vocab']}",
                     f"--model.n_positions={row['seq']}"]
        if row["shard"]:
            call.append(f"--zero_optimization.mics_shard_size={row['shard']}")
        if row["system"] != "llm.c":
            call += self.options
        ended = subprocess.run(call, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"published: {ended.stderr}")
        return json.loads(ended.stdout)["tokens_per_sec"] / int(row["gpus"])

    def all(self, rows, constants):
        runs_of = {(row["gpu"], row["system"]) for row in rows}
        clusters = {one: self.cluster(*one, constants) for one in runs_of}
        return list(self.pool.map(lambda row: self.one(row, clusters[row["gpu"], row["system"]]), rows))


def fit(runs, rows, generation):
    """Return the constants with the least loss: search one share after the other, with step sizes that are halved."""
    some = [row for row in rows if row["fitted"] and GPUS[row["gpu"]][1] == generation]

    def loss(constants):
        made, apart = runs.all(some, {generation: constants}), collections.defaultdict(list)
        for row, zr in zip(some, made):
            apart[row["system"]].append(abs(math.log(zr / float(row["tokens_per_sec_gpu"]))))
        return statistics.mean(apart["fsdp"]) + max(apart["llm.c"])

    best = math.inf, {}
    for half in HALVES:
        at = {"product_share": 0.6, "product_half_size": half, "attention_share": 0.4}
        least = loss(at)
        for key in list(GRID) * 2:
            step = 8  # grid step, halved when no neighbour is better
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
        times = f"{row['micro_batch']:>2} x {row['accumulation']:>2}"
        shape = row["model"] or f"{row['layers']}x{row['width']}"
        print(f"{row['gpu']} {row['system']:>7} {row['gpus']:>4} {shape:>11} T {row['seq']:>5} x {times} "
              f"{row['recompute']:>9} {row['published']:9.0f} {row['zr']:9.0f} "
              f"{100 * (row['ratio'] - 1):+6.1f} % {'fitted' if row['fitted'] else ''}".rstrip())
    print()
    for kind in sorted({row["kind"] for row in rows}):
        for fitted in (True, False):
            ratios = [row["ratio"] for row in rows if row["kind"] == kind and row["fitted"] == fitted]
            if not ratios:
                continue
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
        if generation not in ("ampere", "hopper") or key not in DEVICE + OTHERS:
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


if __name__ == "__main__":
    main()
