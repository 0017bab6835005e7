#!/usr/bin/env python3
"""Published speeds of runs with pipelines or tensor parallelism, compared with the results of `zr simulate`.

    bench/published_pipelines.py [--zr FILE] [--json] [--quick]

Reads tests/published_pipelines.csv, whose first lines name the sources. Prints one line for each run: its shape, the
published and the simulated value, and by how many percent zr is faster. Then prints the median and the largest
deviations, and for runs of one model and number of micro-batches the ratios of the speeds of schedules. --quick leaves
out runs whose plans take more than some seconds.

Systems differ only in what their software is known to do: `megatron` and `zb` store attention scores (13 bytes for each,
as fused kernels before Flash Attention), `nanotron` runs PyTorch's unfused ops (see bench/published.py). All sum the
gradients of ranks once a step.
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

from published import GPUS, MEMORY, ROOT, UNFUSED_SHARE

SCORES_BYTES = 13.0
QUICK = 15000  # layers times micro-batches


def read_rows(quick):
    lines = [line for line in open(ROOT / "tests/published_pipelines.csv") if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    work = lambda row: int(row["layers"] or 32) * int(row["accumulation"]) * (int(row["pipeline"]) > 1)
    return [row for row in rows if not quick or work(row) <= QUICK]


def cluster_file(row, folder):
    return folder / f"{row['system']}.{row['gpu']}.json"


def write_cluster(row, folder):
    """Write a cluster with the software of a row's system."""
    device = dict(MEMORY.get(row["gpu"], {}))
    made = {"include": GPUS[row["gpu"]][0], "devices": 4096, "device": device}
    if row["system"] in ("megatron", "zb"):
        made["software"] = {"scores_bytes": SCORES_BYTES}
    if row["system"] == "nanotron":
        device["memory_share"] = UNFUSED_SHARE
    cluster_file(row, folder).write_text(json.dumps(made))


def model(row):
    if not row["layers"]:
        return {"model.preset": row["model"]}
    sizes = {"vocab_size": row["vocab"]}
    if row["model"] == "gpt2":
        sizes |= {"n_layer": row["layers"], "n_embd": row["hidden"], "n_head": row["heads"], "n_positions": row["seq"]}
    else:
        sizes |= {"type": "llama", "num_hidden_layers": row["layers"], "hidden_size": row["hidden"],
                  "num_attention_heads": row["heads"], "num_key_value_heads": row["heads"],
                  "intermediate_size": row["ffn"], "max_position_embeddings": row["seq"],
                  "tie_word_embeddings": "false"}
    return {f"model.{key}": value for key, value in sizes.items()}


def simulate(zr, row, folder):
    """Return the value that zr predicts, in the unit of the row."""
    keys = model(row) | {"parallel.sequence": row["sequence"], f"{row['dtype']}.enabled": "true",
                         "gradient_accumulation_steps": row["accumulation"], "gradient_reduction": "step",
                         "gradient_clipping": "1.0", "optimizer.type": "AdamW",
                         "activation_checkpointing.policy": row["recompute"]}
    if int(row["pipeline"]) > 1:
        keys |= {f"parallel.{key}": row[key] for key in ("pipeline", "chunks", "schedule")}
    call = [zr, "simulate", str(folder / "config.json"), "--cluster", str(cluster_file(row, folder)), "--json", "--quiet",
            "--ranks", row["gpus"], "--stage", row["stage"], "--tensor", row["tensor"], "--batch", row["micro_batch"],
            "--seq", row["seq"]] + [f"--{key}={value}" for key, value in keys.items()]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"published_pipelines: {' '.join(call)}\n{ended.stderr}")
    made, gpus = json.loads(ended.stdout), int(row["gpus"])
    return {"step": made["step_sec"], "samples": made["samples_per_sec"] / gpus,
            "tokens": made["tokens_per_sec"] / gpus, "mfu": made["mfu"] * 100}[row["unit"]]


def schedules(rows):
    """Return, for each run and the run of 1f1b that differs only in its schedule, published and simulated speed-up."""
    same = lambda row: tuple(row[key] for key in row if key not in ("schedule", "chunks", "value", "zr", "ratio"))
    base = {same(row): row for row in rows if row["schedule"] == "1f1b"}
    pairs = [(row, base[same(row)]) for row in rows if row["schedule"] != "1f1b" and same(row) in base]
    return [(f"{row['schedule']}, {row['accumulation']} micro-batches", float(row["value"]) / float(one["value"]),
             row["zr"] / one["zr"]) for row, one in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--zr", default=str(ROOT / "build/zr"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = read_rows(options.quick)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(name)
        (folder / "config.json").write_text("{}")
        for row in rows:  # before the threads, of which several read the same file
            write_cluster(row, folder)
        for row, zr in zip(rows, pool.map(lambda row: simulate(options.zr, row, folder), rows)):
            row["zr"] = zr
            row["ratio"] = zr / float(row["value"]) if row["unit"] != "step" else float(row["value"]) / zr
    ratios = schedules(rows)
    if options.json:
        print(json.dumps({"rows": rows, "schedules": ratios}))
        return
    for row in rows:
        print(f"{row['system']:9} {row['gpu']:9} {row['model']:9} {row['layers']:>3} {row['gpus']:>4} GPUs "
              f"t {row['tensor']} p {row['pipeline']:>2} v {row['chunks']} {row['schedule']:11} "
              f"{row['accumulation']:>3} x {row['micro_batch']:>2} {row['unit']:7} {float(row['value']):9.2f} "
              f"{row['zr']:9.2f} {100 * (row['ratio'] - 1):+6.1f} %")
    far = sorted(abs(row["ratio"] - 1) for row in rows)
    print(f"{len(rows)} runs: median deviation {100 * statistics.median(far):.1f} %, nine of ten within "
          f"{100 * far[-(-9 * len(far) // 10) - 1]:.1f} %, all within {100 * far[-1]:.1f} %")
    for what, published, zr in ratios:
        print(f"{what}, to 1f1b: {published:.3f} published, {zr:.3f} simulated, {100 * (zr / published - 1):+.1f} %")


if __name__ == "__main__":
    main()
