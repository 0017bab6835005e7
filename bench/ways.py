#!/usr/bin/env python3
"""The table of docs/parallel.md: the fastest way of each kind of parallelism that fits, as the simulator predicts it.

    bench/ways.py [--quick]

Prints the table. --quick: only the first model. It takes some minutes.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SLOW = {"include": "dgx-h100x8", "name": "two hosts, 25 Gbit/s", "devices": 16,
        "links": [{"name": "NVLink", "devices": 8, "bytes_per_sec": 450e9, "share": 0.8},
                  {"name": "network", "devices": 16, "bytes_per_sec": 3.125e9, "shared_bytes_per_sec": 3.125e9}]}
# name, preset, tokens of a row, rows of a step, devices
MODELS = (("7B", "llama2-7b", 4096, 128, 16), ("70B", "llama2-70b", 4096, 256, 64),
          ("405B", "llama3.1-405b", 8192, 512, 512), ("1T", "gpt-1t", 1024, 2048, 1024))
CLUSTERS = ("dgx-a100x8", "dgx-h100x8", "hgx-b200x8")


def simulate(model, cluster, *keys):
    """Return what the simulator says of a configuration, or None if it refuses it or finds nothing that fits."""
    _, preset, seq, rows, ranks = model
    command = [ROOT / "build/zr", "simulate", "--preset", preset, "--cluster", cluster, "--ranks", str(ranks), "--json",
               "--quiet", f"--data.seq_length={seq}", f"--train_batch_size={rows}", *keys]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return None
    told = json.loads(ended.stdout)
    told = told[0] if isinstance(told, list) else told
    return told if told["fits"] else None


def searched(model, cluster, tensor, *keys):
    told = simulate(model, cluster, "--search", f"--parallel.tensor={tensor}", "--parallel.pipeline=1", *keys)
    if not told:
        return None
    return told["mfu"], f"stage {told['keys'].get('zero_optimization.stage', 0)}"


def pipelined(model, cluster):
    best = None
    for tensor in (1, 8):
        for pipeline in (2, 4, 8, 16):
            if model[4] % (tensor * pipeline) or model[3] * tensor * pipeline < model[4] * pipeline:
                continue
            for chunks in (1, 2):
                for policy in ("none", "selective", "unit"):
                    told = simulate(model, cluster, f"--parallel.tensor={tensor}", f"--parallel.pipeline={pipeline}",
                                    f"--parallel.chunks={chunks}",
                                    f"--parallel.schedule={'1f1b' if chunks == 1 else 'interleaved'}",
                                    "--zero_optimization.stage=1", "--gradient_reduction=step",
                                    "--train_micro_batch_size_per_gpu=1", f"--activation_checkpointing.policy={policy}")
                    if told and (not best or told["mfu"] > best[0]):
                        best = told["mfu"], f"P {pipeline}" + (f", v {chunks}" if chunks > 1 else "") + (
                            f", M {tensor}" if tensor > 1 else "")
                    if told:
                        break  # policies that compute more are slower
    return best


def show(found):
    return f"{100 * found[0]:.0f} % ({found[1]})" if found else "does not fit"


def main():
    models = MODELS[:1] if "--quick" in sys.argv[1:] else MODELS
    with tempfile.NamedTemporaryFile("w", suffix=".json") as slow:
        json.dump(SLOW, slow)
        slow.flush()
        print("| model, rows of a step | devices | data | tensor 8 | pipeline | offload |\n|---|---|---|---|---|---|")
        for model in models:
            for cluster in (*CLUSTERS, slow.name):
                if cluster == slow.name and model[4] > 64:
                    continue
                at = model if cluster != slow.name else (*model[:4], 16)
                where = "16 H100, 25 Gbit/s" if cluster == slow.name else f"{at[4]} {cluster.split('-')[1][:-2].upper()}"
                offload = searched(at, cluster, 1, "--zero_optimization.offload_optimizer.device=cpu")
                print(f"| {at[0]}, {at[3]} x {at[2]} | {where} | {show(searched(at, cluster, 1))} | "
                      f"{show(searched(at, cluster, 8))} | {show(pipelined(at, cluster))} | {show(offload)} |", flush=True)


main()
