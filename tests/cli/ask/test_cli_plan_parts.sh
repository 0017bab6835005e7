#TEST timeout=120
# Check the parts of `zr plan` against each other: what the tables, choices and advice say in words is what the JSON of
# the same plans has.
. tests/support/command.inc

cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 32},
 "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
 "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0, "train": {"steps": 1, "output_dir": "run"}}
END_CONFIG
cat >disk.json <<'END_PROFILE'
{"name": "ours", "flops_f32": 1e13, "flops_bf16": 2e14, "memory_bytes_sec": 1e12, "link_bytes_sec": 1e11, "memory_bytes": "40GB",
 "disk_read_bytes_sec": 2e9, "disk_write_bytes_sec": 1e9, "disk_both_bytes_sec": 1.5e9}
END_PROFILE
sed 's/, "disk_both_bytes_sec": 1.5e9//; s/"disk_read_bytes_sec": 2e9/"disk_read_bytes_sec": 4e9/' disk.json >fast.json
command -v python3 >/dev/null || { skip "parts of plans" "no python3"; echo "1..$n"; exit 0; }

cat >parts.py <<'END_PYTHON'
import json, os, re, subprocess, sys

def run(*words):
    return subprocess.run([os.environ["ZR"], "plan", *words, "--quiet"], stdout=subprocess.PIPE, text=True, check=True).stdout

UNIT = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "us": 1e-6, "ms": 1e-3, "s": 1, "": 1, "k": 1e3, "M": 1e6, "G": 1e9,
        "T": 1e12}

def number(text):
    found = re.match(r"([-0-9.]+)\s*([a-zA-Z]*)", text)
    return float(found[1]) * UNIT[found[2]]

def near(text, value, what):
    digits = re.match(r"[-0-9.]+", text)[0]
    half = 0.51 * 10 ** -len(digits.partition(".")[2]) * UNIT[re.match(r"[-0-9.]+\s*([a-zA-Z]*)", text)[1]]
    assert abs(number(text) - value) <= half, (what, text, value)

def rows(text):
    """The rows of the table of stages: name, values of stages 0 to 3."""
    found = {}
    for line in text.split("\n"):
        m = re.match(r"  ([a-z][^0-9?]*\??)\s\s+((?:[0-9.]+ [kMGT]?B\s*|yes\s*|no\s*|-\s*){4})$", line)
        if m: found[m[1].strip()] = re.findall(r"[0-9.]+ [kMGT]?B|yes|no|-", m[2])
    return found

def table(words):
    """Check the table, the choices and the advice of a plan."""
    text = run(*words)
    at = rows(text)
    names = {"parameters": "param", "gradients": "grad", "optimizer states": "optim", "activations": "act",
             "scratch": "work", "model states": "states"}
    shown = re.search(r"memory per rank.*", text)[0]
    stages = [int(s) for s in re.findall(r"stage (\d)", shown)]
    own = int(re.search(r"\* ?stage (\d)", shown)[1])
    for column, stage in enumerate(stages):
        try:
            d = json.loads(run(*words, "--json", "--advice", f"--stage={stage}"))
        except subprocess.CalledProcessError:
            continue # parameters are offloaded at stage 3 alone
        memory = d["memory"]
        for name, key in names.items():
            if name in at: near(at[name][column], memory[key], (words, stage, name))
        near(next(v for k, v in at.items() if k.startswith("total (peaks"))[column], memory["total"], (words, stage, "total"))
        traffic = d["traffic"]
        near(at["reduce-scatter"][column], traffic["reduce_scatter"], (words, stage))
        near(at["all-gather"][column], traffic["all_gather"], (words, stage))
        near(at["all-reduce (scalars)"][column], traffic["all_reduce"], (words, stage))
        near(at["total"][column], traffic["total"], (words, stage))
    d = json.loads(run(*words, "--json", "--advice"))
    assert d["stage"] == own, (d["stage"], own)
    flops = re.search(r"one step of all ranks: ([0-9.]+ .?)FLOP of the model, ([0-9.]+ .?)FLOP computed", text)
    near(flops[1], d["flops"]["model"], words)
    near(flops[2], d["flops"]["hardware"], words)
    return text, d, at

def choices(text, d):
    """Check the lines of the choices."""
    lines = re.findall(r"^([* ][> ])(\d) (\S+?)(?:/(\d+))?( [abc])?\s+([0-9.]+ .?B) (yes|no|  -)?\s+([0-9.]+ [mu]?s)\s+([0-9.]+) %", text, re.M)
    assert len(lines) >= len(set(c["stage"] for c in d["choices"])), lines
    for mark, stage, policy, every, light, total, fits, step, waits in lines:
        for c in d["choices"]:
            if (c["stage"], c["policy"], c["every"]) != (int(stage), policy, int(every or 1)): continue
            if len(c["keys"]) != {"": 0, " a": 1, " b": 2, " c": 4}[light]: continue
            near(total, c["total"], "choice")
            near(step, c["time"]["step_sec"], "choice")
            near(waits, 100 * c["time"]["exposed_sec"] / c["time"]["step_sec"], "choice")
            if fits.strip() in ("yes", "no"): assert c["fits"] == (fits == "yes"), c
            if d["limit"]: assert c["fits"] == (c["needs"] <= d["limit"]), c
            break
        else:
            assert False, (mark, stage, policy, every, light)
    configured = [l for l in lines if l[0][0] == "*"]
    assert len(configured) == 1 and int(configured[0][1]) == d["stage"], configured
    advised = [l for l in lines if l[0][1] == ">"]
    assert len(advised) == (d["advice"] is not None), advised

def advice(text, d, ranks):
    text = " ".join(text.split())
    a = d["advice"]
    chosen = next(c for c in d["choices"] if all(c[k] == a[k] for k in ("stage", "policy", "every")) and c["keys"] == a["keys"])
    found = re.search(r"Advice: stage (\d) with recompute (\S+?)[:, ]", text)
    assert int(found[1]) == a["stage"] and found[2].partition("/")[0] == a["policy"]
    near(re.search(r"([0-9.]+ [mu]?s) a step", text)[1], chosen["time"]["step_sec"], "advice")
    assert a["left"] == (d["limit"] - chosen["needs"] if d["limit"] else None)
    if d["limit"]: near(re.search(r"leaves ([0-9.]+ .?B) a rank", text)[1], a["left"], "advice")
    if ranks == 1:
        assert "With one rank there is no traffic" in text and a["flops_per_byte"] is None
        return
    near(re.search(r"([0-9.]+ .?)FLOP of the model for each byte", text)[1], a["flops_per_byte"], "advice")
    moved = number(re.search(r"A rank moves ([0-9.]+ .?B) a step", text)[1])
    assert abs(moved * a["flops_per_byte"] * ranks / d["flops"]["model"] - 1) < 0.01
    share = re.search(r"exposed \(([0-9.]+) % of the step\)(.)", text)
    near(share[1], 100 * chosen["time"]["exposed_sec"] / chosen["time"]["step_sec"], "advice")
    assert ("a larger micro-batch makes" in text) == (float(share[1]) >= 5)

what = sys.argv[1]
h100 = ["c.json", "--profile", "h100"]
if what == "stages":
    text, d, at = table([*h100, "--ranks", "2", "--stage", "3"])
    choices(text, d)
    advice(text, d, 2)
    assert "They do not contain the time of the disk" not in text
    assert "copied per rank and step" not in text and "of it within groups" not in text and "offload:" not in text
    text, d, at = table([*h100, "--ranks", "1", "--stage", "0"])
    advice(text, d, 1)
elif what == "offload":
    optim = "--zero_optimization.offload_optimizer."
    text, d, at = table([*h100, "--ranks", "2", "--stage", "3", optim + "device=cpu"])
    assert "offload: optimizer states, gradients in the host's memory" in text
    assert "host to device" in at and "device to host" in at and "read from disk" not in at, at
    assert re.search(r"computing waits [0-9.]+ [mu]?s of a step of", text)
    disk = ["c.json", "--ranks", "2", "--stage", "3", optim + "device=nvme", optim + "nvme_path=/tmp"]
    text, d, at = table([*disk, "--profile", "disk.json"])
    assert "optimizer states, gradients on disk" in text and "read from disk" in at and "host to device" not in at
    moved = re.search(r"a rank reads ([0-9.]+ .?B) and writes ([0-9.]+ .?B) of disk a step\s+\(([0-9.]+) and ([0-9.]+) bytes a parameter\): (.*)", text)
    assert [moved[1], moved[2]] == [at["read from disk"][3], at["written to disk"][3]]
    shard = d["params"] / 2
    for part in (1, 2): near(moved[2 + part], number(moved[part]) / shard, "bytes a parameter") if number(moved[2 + part]) < 9 else None
    t = d["time"]
    near(moved[5], t["disk_sec"], "disk")
    computing = re.search(r"computing takes (.*?), and waits (.*?) of a step of (.*)", text)
    near(computing[1], t["compute_sec"], "disk")
    near(computing[2], t["exposed_sec"], "disk")
    near(computing[3], t["step_sec"], "disk")
    assert ("the disk is the bound" in text) == (t["disk_sec"] > t["compute_sec"])
    assert re.search(r"with (more|fewer) than", text)[1] == ("more" if t["disk_sec"] > t["compute_sec"] else "fewer")
    tokens = 2 * 4 * 2 * 32
    assert abs(t["disk_tokens"] / (tokens * t["disk_sec"] / t["compute_sec"]) - 1) < 1e-6
    assert f"(now {tokens})" in text
    written = number(at["written to disk"][3])
    assert abs(t["disk_written_per_day"] / (2 * written * 86400 / t["step_sec"]) - 1) < 0.01
    near(re.search(r"a host writes ([0-9.]+ .?B) a day", text)[1], t["disk_written_per_day"], "disk")
    assert "updates begin after the last micro-batch" in text
    once = run(*disk, "--profile", "disk.json", "--gradient_accumulation_steps=1")
    assert "updates wait for the norm of all gradients (gradient_clipping)" in once and "memory.norm two_pass hides them" in once
    free = run(*disk, "--profile", "disk.json", "--gradient_accumulation_steps=1", "--gradient_clipping=0")
    assert "updates wait" not in free and "updates begin" not in free
    fast = json.loads(run(*disk, "--profile", "fast.json", "--json", "--advice"))["time"]
    assert 0 < fast["disk_sec"] < t["disk_sec"]
    unknown = run(*disk, "--profile", "h100")
    assert "how long it takes is not known: a file for --profile may have disk_read_bytes_sec" in " ".join(unknown.split())
    missing = json.loads(run(*disk, "--profile", "h100", "--json", "--advice"))["time"]
    assert missing["disk_sec"] is None and missing["disk_tokens"] is None and missing["disk_written_per_day"] is None, missing
    cluster = run(*disk, "--cluster", "dgx-h100x8") # has no rate of a disk, so that of a usual server is assumed
    assert re.search(r"bytes a parameter\): [0-9.]+ [mu]?s\n", cluster) and "is the bound" in cluster, cluster
    assert "They do not contain the time of the disk" in unknown and "without the time of the disk, whose rates" in unknown
elif what == "groups":
    words = ["c.json", "--ranks", "16", "--stage", "3", "--cluster", "dgx-h100x8"]
    text, d, at = table(words)
    assert "of it across hosts" in at and "of it within groups" not in at
    near(at["of it across hosts"][3], d["traffic"]["across_hosts"]["total"], "across hosts")
    text, d, at = table([*words, "--zero_optimization.mics_shard_size=4"])
    for column in (3,):
        assert abs(number(at["of it within groups"][column]) + number(at["of it across groups"][column]) - number(at["total"][column])) < 2e5
    text, d, at = table([*words, "--parallel.tensor=2"])
    assert abs(number(at["of it for ZeRO"][3]) + number(at["of it within layers"][3]) - number(at["total"][3])) < 2e5
    assert "Times are simulated on dgx-h100x8; `zr simulate` says how they come about." in text
elif what == "tensor":
    words = [*h100, "--ranks", "4", "--stage", "1", "--parallel.tensor=2", "--activation_checkpointing.policy=unit",
             "--activation_checkpointing.partition_activations=true"]
    text, d = run(*words), json.loads(run(*words, "--json"))
    at, flat, within = rows(text), " ".join(text.split()), d["within_layers"]
    near(at["of it for ZeRO"][1], d["traffic"]["data"]["total"], "data")
    near(at["of it within layers"][1], d["traffic"]["tensor"]["total"], "tensor")
    assert d["traffic"]["data"]["total"] + d["traffic"]["tensor"]["total"] == d["traffic"]["total"]
    unit = {u["name"]: u["bytes"] for u in within["units"]}
    assert list(unit) == ["embedding", "h.0", "h.1", "final"] and unit["h.0"] == unit["h.1"]
    rest = [within[k] for k in ("cross_entropy", "gradients", "checkpoints")]
    assert sum(unit.values()) + sum(rest) == d["traffic"]["tensor"]["total"] and within["checkpoints"] > 0
    found = re.search(r"for embedding ([0-9.]+ .?B), 2 units from h.0 on ([0-9.]+ .?B) \(([0-9.]+ .?B) each\), final ([0-9.]+ .?B)", flat)
    for shown, value in zip(found.groups(), (unit["embedding"], 2 * unit["h.0"], unit["h.0"], unit["final"])): near(shown, value, "unit")
    found = re.search(r"for the cross-entropy ([0-9.]+ .?B), checkpoints in pieces ([0-9.]+ .?B)", flat)
    near(found[1], within["cross_entropy"], "cross-entropy")
    near(found[2], within["checkpoints"], "checkpoints")
    names, layers, C = d["replicated"]["names"], 2, 64
    assert d["replicated"]["params"] == 32 * C + layers * 6 * C + 2 * C and len(names) == 1 + layers * 6 + 2
    patterns = list(dict.fromkeys(re.sub(r"\.[0-9]+\.", ".*.", n) for n in names))
    assert re.search(r"rank 2.94 k parameters: (.*?) layer ", flat)[1].split() == patterns
    three = json.loads(run(*h100, "--ranks", "4", "--stage", "3", "--json", "--activation_checkpointing.policy=unit"))["traffic"]
    tensor = d["traffic"]["tensor"]
    ratio = (tensor["reduce_scatter"] + tensor["all_gather"]) / (three["reduce_scatter"] + three["all_gather"])
    assert abs(d["tensor_to_stage3"] / ratio - 1) < 1e-6, (d["tensor_to_stage3"], ratio)
    assert f"within layers: {ratio:.3g} x stage 3 alone on 4 ranks (papers: b s / 3 h = {4 * 32 / (3 * 64):.3g})" in flat
    pieces = json.loads(run(*words[:-1], "--json"))["within_layers"]
    assert pieces["checkpoints"] == 0
elif what == "order":
    said = lambda *more: "order of micro-batches" in run(*h100, *more)
    text = run(*h100, "--ranks", "2", "--stage", "3")
    found = re.findall(r"^([* ]) (micro|layer) +([0-9.]+ .?B) gathered of +([0-9.]+ .?B) a step, total +([0-9.]+ .?B), (.*)$", text, re.M)
    assert [f[1] for f in found] == ["micro", "layer"] and [f[0] for f in found] == ["*", " "], found
    for f in found:
        d = json.loads(run(*h100, "--ranks", "2", "--stage", "3", "--json", "--advice", "--train.accumulation_order=" + f[1]))
        near(f[2], d["traffic"]["all_gather"], f)
        near(f[3], d["traffic"]["total"], f)
        near(f[4], d["memory"]["total"], f)
        near(f[5], d["time"]["step_sec"], f)
    other = run(*h100, "--ranks", "2", "--stage", "3", "--train.accumulation_order=layer")
    assert re.findall(r"^([* ]) (micro|layer) +[0-9]", other, re.M) == [(" ", "micro"), ("*", "layer")]
    three = ["--ranks", "2", "--stage", "3"]
    assert said(*three, "--gradient_accumulation_steps=16") and not said(*three, "--gradient_accumulation_steps=17")
    assert said(*three, "--gradient_accumulation_steps=17", "--train.accumulation_order=layer")
    assert not said(*three, "--gradient_accumulation_steps=1") and not said("--ranks", "2", "--stage", "2")
    assert not said("--ranks", "1", "--stage", "3") and not said(*three, "--parallel.tensor=2")
elif what == "nothing":
    here = "--zero_optimization.offload_optimizer.device=none"
    base = ["--preset", "gpt2-124m", "--profile", "h100", here, "--json", "--advice"]
    d = json.loads(run(*base, "--memory", "1.5GB"))
    more = d["more_ranks"]
    assert d["advice"] is None and more["fits"] and more["needs"] <= 1500000000 and more["ranks"] > 1, more
    exact = json.loads(run(*base, "--memory", str(more["needs"])))["more_ranks"]
    assert exact == more, (exact, more) # what takes the limit to the byte fits
    less = json.loads(run(*base, "--memory", str(more["needs"] - 1)))["more_ranks"]
    assert less["ranks"] > more["ranks"], less
    words = " ".join(run(*base[:5], "--memory", "1.5GB").split())
    least = min(c["needs"] for c in d["choices"])
    near(re.search(r"nothing fits 1.50 GB. The nearest is .*?: ([0-9.]+ .?B) a rank", words)[1], least, "least")
    assert f"With {more['ranks']} ranks stage 3 with recompute unit" in words
    # Where the offload is open, it fits with states in the host's memory.
    base.remove(here)
    away = json.loads(run(*base, "--memory.limit=2.0GB"))
    keys = away["advice"]["keys"]
    assert keys["zero_optimization.offload_optimizer.device"] == "cpu" and away["advice"]["left"] >= 0, away["advice"]
    keys = [f"--{k}={str(v).lower()}" for k, v in keys.items()]
    taken = json.loads(run(*base, "--stage", str(away["advice"]["stage"]), "--memory.limit=2.0GB", *keys,
                           f"--activation_checkpointing.policy={away['advice']['policy']}"))
    assert taken["fits"] and taken["memory"]["spaces"]["host"]["optim"] > 0, taken["memory"]
    assert taken["needs"] == 2000000000 - away["advice"]["left"], taken["needs"]
elif what == "shapes":
    shapes = {s["name"]: s for s in json.loads(run("--shapes", "--json"))}
    assert shapes["gpt2"]["params"] == 124439808 and shapes["bert-base"]["params"] == 110106428
    assert shapes["qwen3-0.6b"]["num_key_value_heads"] == 8 and "num_key_value_heads" not in shapes["gpt2"]
    for line in run("--shapes").strip().split("\n")[1:]:
        w = re.match(r"(\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([0-9.]+ .?)\s+(\S+)\s+(\d+)$", line)
        s = shapes.pop(w[1])
        values = list(s.values())
        assert [int(w[i]) for i in range(2, 7)] == values[1:6], (line, s)
        assert w[8] == s["type"] and int(w[9]) == s.get("num_key_value_heads", values[3]), (line, s)
        near(w[7], s["params"], line)
    assert not shapes
elif what == "most":
    model = ["c.json", "--model.n_embd=256", "--model.vocab_size=256", "--profile", "h100", "--ranks", "2", "--stage", "1"] # few layers fit
    base = [*model, "--memory", "1.22GB"]
    for kind, key in (("layers", "model.n_layer"), ("batch", "train_micro_batch_size_per_gpu")):
        d = json.loads(run(*base, "--max", kind, "--json"))["max"]
        assert d["what"] == kind and d["stage"] == 1 and d["needs"] <= 1220000000 < d["next_needs"], d
        keys = [f"--{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in d["keys"].items() if k != "memory.limit"]
        at = lambda n: json.loads(run(*base, "--json", "--advice", *keys, f"--{key}={n}"))["needs"]
        assert at(d[key]) == d["needs"], d
        if kind == "batch": assert d["train_batch_size"] == d[key] * 2 * 2, d
        exact = json.loads(run(*model, "--memory", str(d["needs"]), "--max", kind, "--json"))["max"]
        assert exact[key] == d[key], (exact, d)
        text = " ".join(run(*base, "--max", kind).split())
        assert f"{key} {d[key]} fits: it needs {d['needs'] / 1e6:.1f} of 1220.0 MB a rank" in text, text[:200]
        assert f"{d[key] + 1} needs {d['next_needs'] / 1e6:.1f}" in text and "at zero_optimization.stage 1" in text
    d = json.loads(run("--preset", "gpt2", "--max", "model", "--memory", "2GB", "--json"))["max"]
    text = run("--preset", "gpt2", "--max", "model", "--memory", "2GB")
    assert f"with model.n_embd {d['model.n_embd']}, n_head {d['model.n_head']}: " in text and f"at zero_optimization.stage {d['stage']}\n" in text
END_PYTHON
export ZR
for what in stages offload groups tensor order nothing shapes most; do
    check "what is said is what is planned: $what" python3 parts.py $what
done
lonely() { sed "s/$1, //" disk.json >lonely.json; fails 65 "$2" "$ZR" plan c.json --profile lonely.json; }
check "a disk's rate to read alone" lonely '"disk_write_bytes_sec": 1e9' '"disk_read_bytes_sec" is given without "disk_write_bytes_sec"'
check "... to write alone" lonely '"disk_read_bytes_sec": 2e9' '"disk_write_bytes_sec" is given without "disk_read_bytes_sec"'
check "--max needs a matrix of the model that is there" fails 78 'h.9' "$ZR" plan c.json --max layers --memory 1GB --model.frozen='h.9.*'
check "a cluster of no name" fails 66 'there is no machine "nowhere"' "$ZR" plan c.json --cluster nowhere
echo '{"devices": 3}' >odd.json
check "a cluster's file without its devices" fails 65 'device.memory_bytes: is missing' "$ZR" plan c.json --cluster ./odd.json
check "--stage ends at 3" fails 2 'expected 0, 1, 2 or 3' "$ZR" plan c.json --stage 4
check "--memory twice" fails 2 'are the same setting' "$ZR" plan c.json --memory 1GB --memory.limit=1GB
check "--disk of no size" fails 2 'expected a size such as 200GB' "$ZR" plan c.json --disk 0
check "no model" fails 2 'needs a CONFIG.json or --preset NAME' "$ZR" plan
echo "1..$n"
