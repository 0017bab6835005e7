#!/usr/bin/env python3
"""Measured memory of runs of other systems, compared with `zr plan --system` and with estimators that exist.

    bench/planner.py [--zr FILE] [--rows CSV] [--markdown] [--json] [-v]

Reads measured rows (default: facts/planner_memory.csv in $ZR_SHARED or ../shared), plans each run with `zr plan
--system ... --json`, and prints how far the plans are off, by system and size. Beside them are the estimators of
DeepSpeed, accelerate, Megatron-LM and Megatron-Bridge by their published formulas. --markdown prints the tables of
docs/planning.md. --json prints a line for each row. -v prints each row.

Rows of "peak_unknown_kind" are compared with allocated bytes. Rows of models that no family of zr has are planned with
Megatron-LM's own options for the shape, and counted.
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

LARGE = 8e9
PROFILES = {"a100": "a100-80gb", "h100": "h100", "h200": "h200", "gb200": "h200"}
# Tests of Megatron-LM set CUBLAS_WORKSPACE_CONFIG=:4096:8 (tests/functional_tests/test_cases/gpt/*/model_config.yaml,
# d98e8a64), except those with these words in their names.
NO_WORKSPACE = ("_cp2", "_cp4", "reshard", "cross_entropy_loss_fusion", "15b_8t")
# Those with these words ran on GB200 before PyTorch took 32 MiB there.
OLD_WORKSPACE = ("nondeterministic", "reshard")


# ---- the command of a row ------------------------------------------------------------------------


def is_llama(row):
    return row["norm"] == "RMSNorm" and row["pos"] == "rope" and row["gated"] == "1"


def model_keys(row):
    """Return the keys of the model, and the options of Megatron-LM for what zr's family differs in."""
    layers, hidden, heads = row["layers"], row["hidden"], row["heads"]
    if is_llama(row):
        keys = {"type": "llama", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                "num_key_value_heads": row["kv_heads"], "intermediate_size": row["ffn"], "vocab_size": row["vocab"],
                "max_position_embeddings": row["seq"], "tie_word_embeddings": str(row["tied"] == "1").lower()}
        if row["bias"] == "1":
            keys |= {"attention_bias": "true", "mlp_bias": "true"}
        return keys, {}
    keys = {"type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "vocab_size": row["vocab"],
            "n_positions": row["seq"]}
    shape = {}
    ffn = number(row, "ffn")
    if row["model"].startswith("gpt3_mcore") and row["gated"] == "1" and ffn == 4 * int(hidden):
        # these tests give no width, and with --swiglu Megatron-LM takes two thirds of 4 h (arguments.py)
        ffn = 8 * int(hidden) // 3 // 64 * 64
    if ffn != 4 * int(hidden):
        shape["ffn-hidden-size"] = ffn
    if row["gated"] == "1":
        shape["swiglu"] = "true"
    if row["norm"] == "RMSNorm":
        shape["normalization"] = "RMSNorm"
    if row["pos"] != "learned_absolute":
        shape["position-embedding-type"] = "rope" if row["pos"] == "rope" else "none"
    if row["tied"] == "0":
        shape["untie-embeddings-and-output-weights"] = "true"
    if row["bias"] == "0":
        shape["disable-bias-linear"] = "true"
    if row["kv_heads"] != heads:
        shape["num-query-groups"] = row["kv_heads"]
    return keys, shape


def megatron(row):
    hidden, attention = (float(part) for part in row["dropout"].split("/"))
    note, options = row["note"], {}
    options["transformer-impl"] = "local" if "local" in row["system"] else "transformer_engine"
    options["hidden-dropout"], options["attention-dropout"] = hidden, attention
    if row["attention"] in ("flash", "unfused", "fused"):
        options["attention-backend"] = row["attention"]
    if row["sp"] == "1":
        options["sequence-parallel"] = "true"
    options["context-parallel-size"] = number(row, "cp", 1)
    if number(row, "vpp", 1) > 1:
        options["num-virtual-stages-per-pipeline-rank"] = row["vpp"]
    if row["vpp_group"]:
        options["microbatch-group-size-per-virtual-pipeline-stage"] = row["vpp_group"]
    if row["grad_dtype"] == "bf16":
        options["grad-reduce-in-bf16"] = "true"
    if row["param_dtype"] == "fp16" and row["grad_dtype"] == "fp32":
        options["accumulate-allreduce-grads-in-fp32"] = "true"
    if row["ce_fused"] == "1":
        options["cross-entropy-loss-fusion"] = "true"
    if "fusion off" in note:
        options["no-gradient-accumulation-fusion"] = "true"
    if "no mask" in note:
        options["no-create-attention-mask-in-dataloader"] = "true"
    words = row["recompute"].split()
    options["recompute-granularity"] = words[0]
    if words[0] == "full" and len(words) == 3:
        options["recompute-method"], options["recompute-num-layers"] = words[1:]
    if words[0] == "selective" and len(words) > 1:
        options["recompute-modules"] = ",".join(words[1:])
    if row["model"].startswith("gpt3_") and not any(word in row["model"] for word in NO_WORKSPACE):
        options["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    elif any(word in row["model"] for word in OLD_WORKSPACE) and row["gpu"] == "gb200":
        options["CUBLAS_WORKSPACE_CONFIG"] = ":4096:2:16:8"
    return "megatron", options, 1 if row["sharding"] == "zero1" else 0


def fsdp2(row):
    lit = row["system"].startswith("litgpt")
    options = {"model_code": "litgpt" if lit else "torchtitan", "context_parallel_degree": number(row, "cp", 1),
               "activation_checkpoint": row["recompute"].split()[0]}
    if lit:
        options |= {"dtype": "bfloat16", "reduce_dtype": "bfloat16", "loss_dtype": "bfloat16"}
    if row["compile"] != "0":
        # torchtitan compiles the loss since 2025
        late = "2025" in row["source"] or row["gpu"] == "h200"
        options["compile"] = "model,loss" if late and not lit else "model"
        options["compile_backend"] = "thunder" if row["compile"] == "thunder" else "inductor"
    return "fsdp2", options, 2 if row["sharding"] in ("zero2", "none") else 3


def nanotron(row):
    options = {"tp_mode": "REDUCE_SCATTER" if row["sp"] == "1" else "ALL_REDUCE"}
    return "nanotron", options, 1 if row["sharding"] == "zero1" else 0


def command(row, zr):
    """Return the command of a row, or the reason why there is none."""
    makers = {"megatron": megatron, "nanotron": nanotron, "torchtitan": fsdp2, "litgpt": fsdp2}
    make = makers.get(row["system"].split()[0])
    if not make:
        return f"no system for {row['system']}"
    system, options, stage = make(row)
    keys, shape = model_keys(row)
    if shape and system != "megatron":
        return f"no family of zr has this shape ({', '.join(shape)}), and {system} has no options for it"
    ranks = number(row, "dp", 1) * number(row, "cp", 1) * number(row, "tp", 1) * number(row, "pp", 1)
    gpu = next((PROFILES[name] for name in PROFILES if row["gpu"].startswith(name)), "h100")
    made = [zr, "plan", "--json", "--quiet", "--system", system, "--profile", gpu, "--ranks", ranks, "--stage", stage,
            "--seq", row["seq"], "--batch", row["micro_batch"], "--tensor", number(row, "tp", 1),
            f"--gradient_accumulation_steps={row['accumulation']}", f"--parallel.pipeline={number(row, 'pp', 1)}",
            f"--{'fp16' if row['param_dtype'] == 'fp16' else 'bf16'}.enabled=true"]
    made += [f"--model.{key}={value}" for key, value in keys.items()]
    for name, value in (options | shape).items():
        made += ["--with", f"{name}={value}"]
    return [str(word) for word in made]


def plan(row, zr):
    """Return the planned bytes of what a row measured, or why there are none."""
    made = command(row, zr)
    if isinstance(made, str):
        return made
    ended = subprocess.run(made, capture_output=True, text=True)
    if ended.returncode:
        return ended.stderr.strip() + "\n  " + " ".join(made)
    said = json.loads(ended.stdout)
    rank = said["pipeline_ranks"][{"last": -1, "max": said["fullest_rank"]}.get(row["rank"], 0)]
    if row["measure"] == "allocated_between_steps":
        return rank["between_steps"]
    if row["measure"] == "peak_reserved":
        return said["reserved"]["bytes"]
    return rank["allocated"]


# ---- estimators that exist -----------------------------------------------------------------------


def counts(row):
    """Return the parameters of a layer that are cut over tensor ranks and those that are not, of a table, and in
    all, as Megatron-LM's estimator counts them."""
    layers, hidden, ffn, vocab = (number(row, key) for key in ("layers", "hidden", "ffn", "vocab"))
    norm = 1 if row["norm"] == "RMSNorm" else 2
    attention = 2 * hidden * hidden * (1 + number(row, "kv_heads") / number(row, "heads"))
    cut = attention + 2 * hidden * ffn * (1.5 if row["gated"] == "1" else 1)
    table = hidden * vocab
    return cut, 2 * hidden * norm, table, layers * (cut + 2 * hidden * norm) + table * (1 if row["tied"] == "1" else 2)


def schedule_factor(row):
    pp, m, v = number(row, "pp", 1), number(row, "accumulation", 1), number(row, "vpp", 1)
    if v > 1:
        return 1 + (pp - 1) / (pp * v)
    return min(1, m / pp) if pp > 1 else 1


def megatron_states(row, context):
    """report_theoretical_memory of Megatron-LM (megatron/training/theoretical_memory_usage.py)."""
    cut, whole, table, _ = counts(row)
    layers, tp, pp = number(row, "layers"), number(row, "tp", 1), number(row, "pp", 1)
    elems = (cut * layers / pp + table) / tp + whole * layers / pp
    if pp == 1 and row["tied"] == "0":
        elems += table / tp
    shards = number(row, "dp", 1) * (number(row, "cp", 1) if context else 1)
    return elems * (6 + 12 / shards if row["sharding"] == "zero1" else 18)


def megatron_activations(row, sequence):
    hidden, ffn, layers, vocab = (number(row, key) for key in ("hidden", "ffn", "layers", "vocab"))
    tp, pp = number(row, "tp", 1), number(row, "pp", 1)
    tokens = number(row, "seq") * number(row, "micro_batch")
    if sequence:
        kept = tokens * hidden * (18 + 4 * ffn / hidden) * layers + 8 * tokens * pp + tokens * hidden * pp
        kept *= schedule_factor(row)
        if pp == 1:
            kept += tokens * hidden * 4 * (1 + vocab / hidden)
        return kept / tp
    kept = tokens * hidden * (10 + 24 / tp) * layers + 8 * tokens * pp + tokens * hidden * pp
    kept *= schedule_factor(row)
    if pp == 1:
        kept += 2 * (tokens * vocab / tp + tokens * hidden)
    return 1.05 * kept


def estimates(row):
    """Return the bytes that each estimator says, by its name."""
    cut, whole, table, all_elems = counts(row)
    between = row["measure"] == "allocated_between_steps"
    ranks, parts = number(row, "dp", 1) * number(row, "cp", 1), number(row, "tp", 1) * number(row, "pp", 1)
    own = all_elems / parts
    layer = max(cut + whole, table)
    deepspeed = 18 * own / ranks + 4 * layer if row["sharding"] == "zero3" else 2 * own + 18 * own / ranks
    selective = row["recompute"].startswith("selective")
    activations = bridge = 0
    if not between:
        activations, bridge = megatron_activations(row, row["sp"] == "1" and selective), megatron_activations(row, True)
    return {"DeepSpeed": deepspeed, "accelerate": 8 * all_elems,
            "Megatron-LM": megatron_states(row, False) + activations,
            "Megatron-Bridge": megatron_states(row, True) + bridge}


# ---- tables --------------------------------------------------------------------------------------


def group(row):
    size = "above 8 GB" if float(row["bytes"]) > LARGE else "small"
    words = {"peak_allocated": "peak", "allocated_between_steps": "between steps", "peak_reserved": "reserved",
             "peak_unknown_kind": "kind unknown"}
    return row["system"], size, words[row["measure"]]


def summary(errors):
    """Return number, median, and the numbers within 5, 10 and 15 %, of relative errors."""
    sizes = [abs(error) for error in errors]
    return (len(sizes), statistics.median(sizes), *(sum(size <= most for size in sizes) for most in (.05, .10, .15)))


def tables(rows):
    """Return the lines of the table by groups, and of the table of estimators."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[group(row)].append(row["error"])
        if row["measure"].endswith(("allocated", "steps")):
            groups["all allocated", "", ""].append(row["error"])
            if float(row["bytes"]) > LARGE:
                groups["all allocated", "above 8 GB", ""].append(row["error"])
    order = sorted(groups, key=lambda key: (key[0] == "all allocated", key))
    first = [(*key, *summary(groups[key])) for key in order]
    allocated = [row for row in rows if row["measure"].endswith(("allocated", "steps"))]
    second = []
    for large in (False, True):
        chosen = [row for row in allocated if not large or float(row["bytes"]) > LARGE]
        if not chosen:
            continue
        named = {"zr plan --system": [row["error"] for row in chosen]}
        for row in chosen:
            for name, value in estimates(row).items():
                named.setdefault(name, []).append(value / float(row["bytes"]) - 1)
        second += [(name, "above 8 GB" if large else "all", *summary(errors)) for name, errors in named.items()]
    return first, second


def print_tables(rows, markdown):
    first, second = tables(rows)
    heads = [("system", "size", "measured", "rows", "median error", "within 5 %", "within 10 %", "within 15 %"),
             ("estimator", "rows above", "rows", "median error", "within 5 %", "within 10 %", "within 15 %")]
    for head, lines in zip(heads, (first, second)):
        print()
        print_table(head, lines, markdown)


def main():
    parser = arguments(__doc__, "planner_memory.csv")
    options = parser.parse_args()
    if not os.path.exists(options.rows):
        print(f"planner: SKIPPED: there is no {options.rows}; give --rows CSV", file=sys.stderr)
        return 0
    rows = list(csv.DictReader(open(options.rows)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        planned = list(pool.map(lambda row: plan(row, options.zr), rows))
    shaped, failed, done = 0, 0, []
    for row, value in zip(rows, planned):
        if isinstance(value, str):
            print(f"planner: {row['id']} {row['system']} {row['model']}: {value}", file=sys.stderr)
            failed += 1
            continue
        row["planned"], row["error"] = value, value / float(row["bytes"]) - 1
        shaped += bool(model_keys(row)[1])
        done.append(row)
        if options.json:
            print(json.dumps({key: row[key] for key in ("id", "system", "measure", "planned", "error")}
                             | {"bytes": float(row["bytes"])}))
        if options.verbose:
            print(f"{row['system']:14} {row['measure'][:14]:14} {value / 1e9:8.2f} {float(row['bytes']) / 1e9:8.2f} GB "
                  f"{100 * row['error']:+6.1f} %  tp{row['tp']} pp{row['pp']} v{row['vpp']} cp{row['cp']} "
                  f"dp{row['dp']} {row['attention']} {row['gpu']} {row['id']} {row['model']}")
    if not options.json:
        print_tables(done, options.markdown)
        print(f"\n{len(done)} rows; {shaped} have shapes that no family of zr has; {failed} could not be planned")
    return 1 if failed else 0


sys.exit(main())
