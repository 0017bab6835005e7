#!/usr/bin/env python3
"""Published times of a step of other systems' runs, compared with `zr simulate --system`.

    bench/planner_steps.py [--zr FILE] [--rows CSV] [--quick] [--markdown] [--json] [-v]

Reads rows (default: facts/planner_pipeline.csv in $ZR_SHARED or ../shared), simulates each run with `zr simulate --system
... --json`, and prints how far the times are off, by system and GPU. Rows whose configuration is not complete (recompute
is not stated, or in a recipe) are in a table of their own. --markdown prints the tables of docs/planning.md. --json prints
a line for each row. -v prints each row. --quick leaves out runs whose plans take more than some seconds.

A row says little about switches. What is assumed of all rows of a system: NeMo and Megatron Bridge overlap all exchanges,
as their recipes do; Megatron-LM's tests overlap none; torchtitan compiles unless the row says eager; runs before 2023
have attention that is not fused. A feed-forward part of two matrices with grouped queries, which no family of zr has, is
simulated as a gated one of two thirds of its width, which has as many FLOPs. Layers that a pipeline's stages do not divide
are rounded up, since embedding and head count as layers there. Megatron-FSDP is simulated as the distributed optimizer,
since both overlap.
"""
import collections
import csv
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from planner_tables import arguments, number, print_table

CLUSTERS = {"a100_80gb": "a100-80gb", "a100_40gb": "a100-40gb", "h100_80gb": "h100", "h100_96gb_500w": "h100-96gb",
            "h200": "h200", "b200": "b200", "gb200": "gb200", "gb300": "gb300"}
STAGES = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}
QUICK = 6000  # layers times micro-batches times stages of a pipeline rank, over pipeline ranks


# ---- the command of a row ------------------------------------------------------------------------


def model_keys(row):
    layers, hidden, heads, kv, ffn = (number(row, key) for key in ("layers", "hidden", "heads", "kv_heads", "ffn"))
    tokens = number(row, "seq")
    stages = number(row, "pp", 1) * max(1, number(row, "vpp", 1))
    layers = -(-layers // stages) * stages
    vocab = -(-number(row, "vocab") // number(row, "tp", 1)) * number(row, "tp", 1)
    if row["gated"] != "1" and kv == heads:
        return {"type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": tokens,
                "vocab_size": vocab}
    if row["gated"] != "1":
        ffn = ffn * 2 // 3 // 64 * 64
    return {"type": "llama", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
            "num_key_value_heads": kv, "intermediate_size": ffn, "max_position_embeddings": tokens,
            "tie_word_embeddings": "false", "vocab_size": vocab}


def bits(row):
    return 4 if "fp4" in row["precision"] else 8 if "fp8" in row["precision"] else 16


def early(row):
    return "2104.04473" in row["source"] or "2205.05198" in row["source"]


def megatron(row, nemo):
    sequence = row["sp"] == "1" or "sequence parallel" in row["recompute"] or nemo and row["sp"] == "not stated"
    options = {"sequence-parallel": sequence and number(row, "tp", 1) > 1,
               "context-parallel-size": number(row, "cp", 1)}
    if number(row, "vpp", 1) > 1:
        options["num-virtual-stages-per-pipeline-rank"] = number(row, "vpp")
    if nemo:
        options |= {"overlap-grad-reduce": True, "overlap-param-gather": True, "tp-comm-overlap": True}
    if early(row):
        options["attention-backend"] = "unfused"
    if bits(row) == 8:
        options["fp8-format"] = "hybrid"
    if bits(row) == 4:
        options["fp4-format"] = "e2m1"
    return "megatron", options, min(1, STAGES[row["sharding"]])


def fsdp2(row, code):
    options = {"model_code": code, "context_parallel_degree": number(row, "cp", 1)}
    if code == "torchtitan" and "eager" not in row["note"]:
        options["compile"] = "model"
    if "async TP" in row["note"]:
        options["async_tensor_parallel"] = True
    if bits(row) == 8:
        options["float8"] = "rowwise" if "rowwise" in row["precision"] else "tensorwise"
    return "fsdp2", options, STAGES[row["sharding"]]


def run_of(row):
    """Return system, options and stage, or None if there is no such system."""
    system, stage = row["system"], STAGES[row["sharding"]]
    if "Automodel" in row["source"]:
        return fsdp2(row, "transformers")
    if system.startswith(("nemo", "megatron")):
        return megatron(row, system.startswith("nemo"))
    if system == "torchtitan":
        return fsdp2(row, "torchtitan")
    if system == "nanotron":
        return "nanotron", {"tp_mode": "REDUCE_SCATTER" if row["sp"] == "1" else "ALL_REDUCE"}, stage
    if system == "deepspeed":
        return "deepspeed", {"attn_implementation": "eager"} if early(row) else {}, stage
    return None


def recompute(row, system):
    """Return the policy. Megatron-LM's selective recompute redoes attention that is not fused; in these rows it is."""
    if row["recompute"].startswith("full"):
        return "unit"
    return "selective" if row["recompute"].startswith("selective") and system == "fsdp2" else "none"


def command(row, zr):
    """Return the command of a row, or the reason why there is none."""
    made = run_of(row)
    if not made:
        return f"no system for {row['system']}"
    if row["gpu"] not in CLUSTERS:
        return f"no cluster for {row['gpu']}"
    system, options, stage = made
    call = [zr, "simulate", "--json", "--quiet", "--system", system, "--cluster", CLUSTERS[row["gpu"]], "--ranks",
            row["gpus"], "--stage", stage, "--seq", row["seq"], "--batch", row["micro_batch"], "--tensor",
            number(row, "tp", 1), f"--gradient_accumulation_steps={row['accumulation']}",
            f"--parallel.pipeline={number(row, 'pp', 1)}", "--gradient_clipping=1.0", "--optimizer.type=AdamW",
            f"--{'fp16' if 'fp16' in row['precision'] else 'bf16'}.enabled=true",
            f"--activation_checkpointing.policy={recompute(row, system)}"]
    call += [f"--model.{key}={value}" for key, value in model_keys(row).items()]
    for name, value in options.items():
        call += ["--with", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return [str(word) for word in call]


def simulate(call):
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    return json.loads(ended.stdout) if ended.returncode == 0 else ended.stderr.strip() + "\n  " + " ".join(call)


# ---- tables --------------------------------------------------------------------------------------


def complete(row):
    return not row["recompute"].startswith(("not stated", "see recipe"))


def summary(rows):
    """Return number, median deviation, that of nine of ten, the largest, and the median of sim / published - 1."""
    far = sorted(abs(row["ratio"] - 1) for row in rows)
    return (len(far), statistics.median(far), far[-(-9 * len(far) // 10) - 1], far[-1],
            statistics.median(row["ratio"] for row in rows) - 1)


def tables(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        words = "complete" if complete(row) else "recompute not stated"
        groups[words, row["system"], row["gpu"]].append(row)
        groups[words, "all", ""].append(row)
    return [(*key, *summary(groups[key])) for key in sorted(groups, key=lambda key: (key[0], key[1] == "all", key))]


def print_tables(rows, markdown):
    head = ("configuration", "system", "GPU", "rows", "median", "nine of ten within", "largest", "bias")
    print_table(head, tables(rows), markdown, signed=(7,))


def is_quick(row):
    pipeline = number(row, "pp", 1)
    work = number(row, "layers") * number(row, "accumulation", 1) * number(row, "vpp", 1) / pipeline
    return pipeline == 1 or work <= QUICK


def main():
    parser = arguments(__doc__, "planner_pipeline.csv")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not os.path.exists(options.rows):
        print(f"planner_steps: SKIPPED: there is no {options.rows}; give --rows CSV", file=sys.stderr)
        return 0
    with open(options.rows, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(line for line in file if not line.startswith("#"))
                if not options.quick or is_quick(row)]
    calls = [command(row, options.zr) for row in rows]
    different = {" ".join(call): call for call in calls if not isinstance(call, str)}  # some rows are runs of one kind
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(different, pool.map(simulate, different.values())))
    failed, done = 0, []
    for row, call in zip(rows, calls):
        said = call if isinstance(call, str) else made[" ".join(call)]
        if isinstance(said, str):
            print(f"planner_steps: {row['id']} {row['system']} {row['model']}: {said}", file=sys.stderr)
            failed += 1
            continue
        row["sec"], row["ratio"] = said["step_sec"], said["step_sec"] / float(row["seconds_per_step"])
        done.append(row)
        if options.json:
            print(json.dumps({"id": row["id"], "system": row["system"], "gpu": row["gpu"], "sec": row["sec"],
                              "published": float(row["seconds_per_step"]), "ratio": row["ratio"],
                              "complete": complete(row)}))
        if options.verbose:
            exposed = {key: round(value / row["sec"], 2) for key, value in said["exposed"].items() if value > 0}
            print(f"{row['id']} {row['system'][:8]:8} {row['gpu'][:6]:6} {row['gpus']:>4} {row['model'][:15]:15} "
                  f"t{row['tp']} c{row['cp']} p{row['pp']} v{row['vpp']} {row['accumulation']:>3} x {row['micro_batch']:>2} "
                  f"{row['sharding']:5} {row['precision'][:6]:6} {float(row['seconds_per_step']):8.3f} {row['sec']:8.3f} s "
                  f"{100 * (row['ratio'] - 1):+6.1f} %  products {said['product_sec'] / row['sec']:.2f} memory "
                  f"{said['memory_sec'] / row['sec']:.2f} {exposed}")
    if not options.json and done:
        print_tables(done, options.markdown)
        print(f"\n{len(done)} rows; {failed} could not be simulated")
    return 1 if failed else 0


sys.exit(main())
