#!/usr/bin/env python3
"""ZeRO++'s published speeds on 384 V100, compared with the results of `zr simulate`.

    bench/published_zeropp.py [--zr FILE] [--json]

Reads tests/published_zeropp.csv, whose first lines name the sources. Prints one line for each run: TFLOP/s of a GPU with
stage 3 and with ZeRO++, and how many times as fast ZeRO++ is, as published and as simulated, with zr's deviation in
percent. Then prints the median deviations. Constants are those of `dgx2x25`, but the network's, which are those of A100
and H100: the 0.38 of `dgx2x25` is what software of 2019 reached. Stage 3 gathers and reduces in rings over all GPUs, as
DeepSpeed does.
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from published import ROOT

HOST, GPUS, SEQ = 16, 384, 512
ZEROPP = ["--zero_optimization.zero_quantized_weights=true", "--zero_optimization.zero_quantized_gradients=true",
          f"--zero_optimization.zero_hpz_partition_size={HOST}"]


def read_rows():
    return list(csv.DictReader(line for line in open(ROOT / "tests/published_zeropp.csv") if not line.startswith("#")))


def write_cluster(network, folder):
    """Write a cluster of DGX-2 with a network of so many Gbit/s for a host."""
    rate = float(network) * 1e9 / 8
    links = [{"name": "NVSwitch", "devices": HOST, "bytes_per_sec": 150e9, "share": 0.8},
             {"name": "InfiniBand", "devices": GPUS, "bytes_per_sec": min(rate, 12.5e9), "shared_bytes_per_sec": rate,
              "latency_sec": 1e-5, "share": 0.7}]
    cluster = {"include": "dgx2x25", "devices": GPUS, "links": links}
    (folder / f"{network}.json").write_text(json.dumps(cluster))


def simulate(zr, row, folder, options):
    """Return the TFLOP/s of a GPU."""
    call = [zr, "simulate", str(folder / "config.json"), "--cluster", str(folder / f"{row['network']}.json"), "--json", "--quiet",
            "--ranks", str(GPUS), "--stage", "3", "--batch", str(int(row["tokens"]) // SEQ), "--seq", str(SEQ),
            "--fp16.enabled=true", "--activation_checkpointing.policy=unit", f"--model.n_layer={row['layers']}",
            f"--model.n_embd={row['hidden']}", f"--model.n_head={row['heads']}", "--model.vocab_size=50304",
            f"--model.n_positions={SEQ}", *options]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"published_zeropp: {' '.join(call)}\n{ended.stderr}")
    return json.loads(ended.stdout)["tflops"]


def deviation(row, name):
    return 100 * (row[f"zr_{name}"] / row[name] - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--zr", default=str(ROOT / "build/zr"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = read_rows()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text("{}")
        for network in {row["network"] for row in rows}:
            write_cluster(network, folder)
        for way, keys in (("zero", ["--collectives.hierarchical=false"]), ("zeropp", ZEROPP)):
            made = pool.map(lambda row, keys=keys: simulate(options.zr, row, folder, keys), rows)
            for row, zr in zip(rows, made):
                row[way], row[f"zr_{way}"] = float(row[way]), zr
    for row in rows:
        row["gain"], row["zr_gain"] = row["zeropp"] / row["zero"], row["zr_zeropp"] / row["zr_zero"]
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['network']:>4} Gbit/s {row['tokens']:>5} tokens {row['model']:>5}: "
              f"stage 3 {row['zero']:3.0f} {row['zr_zero']:5.1f} {deviation(row, 'zero'):+6.1f} %, "
              f"ZeRO++ {row['zeropp']:3.0f} {row['zr_zeropp']:5.1f} {deviation(row, 'zeropp'):+6.1f} %, "
              f"times {row['gain']:.2f} {row['zr_gain']:.2f} {deviation(row, 'gain'):+6.1f} %")
    for name, what in (("zero", "stage 3"), ("zeropp", "ZeRO++"), ("gain", "times as fast")):
        off = [deviation(row, name) for row in rows]
        print(f"{what}: median {statistics.median(off):+.1f} %, from {min(off):+.1f} to {max(off):+.1f} %")


if __name__ == "__main__":
    main()
