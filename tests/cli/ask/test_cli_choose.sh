#TEST timeout=120 long=more
# Check that one question has one answer: `zr plan`, `zr plan --memory` and `zr simulate --search` choose the same
# configuration, say its ties and the question, and take host memory before a disk.
. tests/support/command.inc
command -v python3 >/dev/null || { skip "one answer" "no python3"; echo "1..$n"; exit 0; }

cat >load.py <<'END'
import json, re, sys
def load(*names): return (json.load(open(name + ".json")) for name in names)
def words(name): return " ".join(open(name).read().split())
def options(text): return dict(re.findall(r"--([a-z_.0-9]+)=(\S+)", text))
def shown(keys): return {key: str(value).lower() for key, value in keys.items()}
usual = {"zero_optimization.stage", "activation_checkpointing.policy", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
END
python() { cat load.py - >program.py && python3 program.py "$@"; }

# one_answer MEMORY OPTION...: the three commands name the same winner for devices of this memory. Options in $given are
# for the search, which has more free keys.
given='--parallel.tensor=1 --zero_optimization.mics_shard_size=-1 --activation_checkpointing.every=1 --zero_optimization.reduce_bucket_size=auto
    --zero_optimization.stage3_prefetch_bucket_size=auto --zero_optimization.overlap_comm=true --collectives.hierarchical=auto --gradient_reduction=micro'
one_answer() {
    memory=$1
    shift
    "$ZR" plan "$@" --json --advice --quiet >plan.json && "$ZR" plan "$@" --memory "$memory" --json --advice >memory.json 2>memory.txt &&
        "$ZR" simulate "$@" $given --search --quiet --json >search.json && python "$memory" <<'END'
plan, memory, found = load("plan", "memory", "search")
keys = found[0]["keys"]
advice = {"zero_optimization.stage": plan["advice"]["stage"], "activation_checkpointing.policy": plan["advice"]["policy"],
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, **plan["advice"]["keys"]}
assert advice == keys, (advice, keys)
chosen = words("memory.txt")
for key, value in keys.items():
    if key.endswith(("device", "gradients", "offload")): continue
    assert re.search(re.escape(key) + r" (x )?" + str(value).lower(), chosen), (key, value, chosen)
assert memory["advice"]["stage"] == keys["zero_optimization.stage"]
# all three name memory, tokens a step and the free keys
asked = [plan["question"], memory["question"], found[0]["question"]]
assert asked[0]["memory"] == asked[1]["memory"] == asked[2]["memory"] == float(sys.argv[1][:-2]) * 1e9, asked
assert asked[0]["step_tokens"] == asked[1]["step_tokens"] == asked[2]["step_tokens"] == found[0]["step_tokens"], asked
free = [set(one["free"]) for one in asked]
lighter = {key for key in free[0] if "bucket" in key or "overlap" in key} # $given has them
assert free[0] == free[1] and free[0] - lighter <= free[2] and usual - free[0] == {"gradient_accumulation_steps"}, asked
advised = [c for c in plan["choices"] if all(c[k] == plan["advice"][k] for k in ("stage", "policy", "every", "keys"))]
speed = [advised[0]["time"]["tokens_per_sec"], memory["time"]["tokens_per_sec"], found[0]["tokens_per_sec"]]
assert max(speed) / min(speed) - 1 < 1e-6, speed
for bytes in ("host_rank_bytes", "host_bytes", "disk_bytes"):
    assert plan["advice"][bytes] == advised[0][bytes] == memory["advice"][bytes] == found[0][bytes], bytes
END
}
llama='--preset llama3.2-1b --seq 4096'
[ -z "${ZR_LONG-}" ] || llama='--preset llama3-8b --seq 4096'
check "Llama on 8 A100" one_answer 80GB $llama --cluster dgx-a100x8 --ranks 8
simplest() {
    "$ZR" simulate $llama --cluster dgx-a100x8 --ranks 8 --search --quiet --json >search.json && python <<'END'
found, = load("search")
fits = [way for way in found if way["fits"] and set(way["keys"]) == usual]
assert found[0] == fits[0], found[0]
best, fastest = fits[0], max(way["samples_per_sec"] for way in found if way["fits"])
assert fastest <= 1.02 * best["samples_per_sec"], (fastest, best)
ties = [way for way in fits if way["samples_per_sec"] * 1.02 >= fastest]
assert best["keys"]["zero_optimization.stage"] == min(way["keys"]["zero_optimization.stage"] for way in ties), ties
for way in found[1:]: # ties are marked, and further keys are named as keys
    assert way["tie"] == (way["fits"] and fastest <= 1.02 * way["samples_per_sec"]) == way["why"].startswith("a tie: "), way
    assert options(way["why"]) == shown(way["further"]), way
    assert set(way["further"]) == set(way["keys"]) - usual - {"memory.limit", "activation_checkpointing.partition_activations"}, way
assert any(way["further"] for way in found) and not found[0]["further"] and "further keys" not in str(found)
END
}
check "... the simplest of ties without further keys is preferred" simplest
# Activation checkpoints in the host's memory, which make larger micro-batches possible, are free in all three.
echo '{"include": "azure-nc24rs-v3x8", "device": {"memory_bytes": 3e9, "flops_f32_per_sec": 15.7e12, "flops_bf16_per_sec": 125e12,
 "memory_bytes_per_sec": 9e11}}' >azure.json
check "checkpoints on hosts" one_answer 3GB --preset gpt2-124m --cluster ./azure.json --ranks 8
check "... are what is chosen" grep -q '"activation_checkpointing.cpu_checkpointing": true' plan.json
if [ -n "${ZR_LONG-}" ]; then
    check "... with 40 GB" one_answer 40GB $llama --cluster dgx-a100x8-40gb --ranks 8
    check "... on 2 x 8 H100" one_answer 80GB $llama --cluster dgx-h100x8 --ranks 16
    check "... on 4 RTX 4090" one_answer 24GB $llama --cluster 4x4090 --ranks 4
fi
# The words of all three have the question, and the ties, of which there are as many everywhere.
said() {
    set -- --preset gpt2-124m --cluster dgx-a100x8 --ranks 8 --seq 512
    "$ZR" plan "$@" --quiet >plan.txt && "$ZR" plan "$@" --json --advice --quiet >plan.json &&
        "$ZR" plan "$@" --memory 80GB >memory.txt 2>note.txt && "$ZR" simulate "$@" --search --quiet >search.txt && python <<'END'
plan, = load("plan")
asked = [re.search(r"(\S+ GB) a rank, (\d+) tokens a step; free: (zero_optimization.stage)", words(name))
         for name in ("plan.txt", "memory.txt", "note.txt", "search.txt")]
assert all(asked) and len({one.groups() for one in asked}) == 1 and asked[0][1] == "80.00 GB", asked
tie = r"stage [0-3] with recompute [a-z]+ and \d+ x \d+ samples \([0-9.]+ % [a-z]+er, [0-9.]+ [MG]B [a-z]+ a rank\)"
ties = [re.search(r"ties within 2 %: (.*?)[;.] ", words(name), re.I)[1] for name in ("plan.txt", "memory.txt", "note.txt")]
assert len(set(ties)) == 1 and re.match(tie, ties[0]), ties
more = re.search(r" and (\d+) more", ties[0])
assert len(re.findall(tie, ties[0])) + int(more[1] if more else 0) == len(plan["ties"]) > 0, (ties, plan["ties"])
assert re.search(r" a tie: [0-9.]+ % [a-z]+er, [0-9.]+ [MG]B [a-z]+", words("search.txt"))
# the fastest comes first, and none is slower and larger than the answer or than another
told, = [c for c in plan["choices"] if all(c[k] == plan["advice"][k] for k in ("stage", "policy", "every", "keys"))]
cost = [(-c["time"]["tokens_per_sec"], c["needs"]) for c in plan["ties"]]
answer = (-told["time"]["tokens_per_sec"], told["needs"])
assert cost == sorted(cost) and all(a[1] > b[1] for a, b in zip(cost, cost[1:])), cost
assert all(c[0] < answer[0] or c[1] < answer[1] for c in cost), (cost, answer)
open("keys", "w").write("\n".join(plan["question"]["free"]) + "\n")
END
}
check "question and ties are said, the same by all" said
named_keys() { # each key that is said to be free is a key of the configuration
    test "$(wc -l <keys)" -ge 8 || return 1
    while read -r key; do "$ZR" train --help "$key" >help.txt 2>&1 || { echo "$key"; return 1; }; done <keys
}
check "... and what is free is named by its keys" named_keys

pasted() { # the options of the advice, pasted, give the plan that is advised
    options=$(sed -n '/^Advice/,/^Asked/p' plan.txt | tr ' ' '\n' | grep '^--')
    "$ZR" plan "$@" $options --json --advice --quiet >pasted.json && python <<'END'
plan, pasted = load("plan", "pasted")
advised = plan["choices"][-1]
assert pasted["fits"] and pasted["needs"] == advised["needs"], (pasted["needs"], advised["needs"])
assert pasted["advice"]["stage"] == pasted["stage"] == advised["stage"] and not pasted["advice"]["keys"], pasted["advice"]
END
}

# Host memory is a tier before disk.
small='--preset gpt2-124m --ranks 2 --seq 256'
echo '{"include": "4x4090", "device": {"memory_bytes": 1.7e9, "flops_f32_per_sec": 82e12, "flops_bf16_per_sec": 165e12,
 "memory_bytes_per_sec": 1e12}, "devices": 2, "host": {"memory_bytes": 64e9}}' >host.json
sed 's/64e9/5e8/' host.json >poor.json
"$ZR" plan $small --cluster ./host.json --quiet >plan.txt
"$ZR" plan $small --cluster ./host.json --quiet --json --advice >plan.json
check "states go to the host's memory" sh -c 'grep -q -- "--zero_optimization.offload_optimizer.device=cpu" plan.txt && ! grep -q "nothing fits" plan.txt'
check "... given per rank and per host, and held against the host's" sh -c "tr '\n' ' ' <plan.txt |
    grep -q 'takes [0-9.]* [MG]B of host memory a rank, [0-9.]* GB a host of 64.00 GB'"
check "... of which no disk is one" sh -c "! grep -q disk_bytes plan.txt"
check "... at rates that are assumed" sh -c "tr '\n' ' ' <plan.txt | grep -q 'at assumed rates: host.memory_bytes_per_sec .* usual for a workstation'"
check "the advice can be pasted" pasted $small --cluster ./host.json
# Where the batch is given, checkpoints in the host's memory can leave room for a faster policy.
each_degree() {
    sed 's/1.7e9/4e9/' host.json >larger.json
    set -- --preset gpt2-774m --ranks 2 --seq 256 --cluster ./larger.json --memory 4GB --batch 48 --quiet --json --advice
    "$ZR" plan "$@" >free.json && "$ZR" plan "$@" --zero_optimization.offload_optimizer.device=cpu --activation_checkpointing.offload=host >kept.json &&
        python <<'END'
free, kept = load("free", "kept")
assert free["fits"] and kept["fits"] and free["time"]["step_sec"] <= kept["time"]["step_sec"], (free["time"], kept["time"])
END
}
check "... each degree of it is tried" each_degree
check "--memory with --disk takes the host's memory" prints 'offload_optimizer.device cpu' \
    sh -c "'$ZR' plan $small --cluster ./host.json --memory 1.7GB --disk 1TB 2>&1"

# The note, the table and the advice name one candidate, also where states are on disk or nothing fits.
# named WORDS MEMBER OPTION...: what the note calls chosen is what the advice names after WORDS, and MEMBER in JSON
named() {
    words=$1 member=$2
    shift 2
    "$ZR" plan "$@" >plan.txt 2>note.txt && "$ZR" plan "$@" --json --advice --quiet >plan.json && python "$words" "$member" <<'END'
plan, = load("plan")
note, text = words("note.txt"), words("plan.txt")
stage, policy = re.search(r"zero_optimization.stage (\d), activation_checkpointing.policy ([a-z]+)", note).groups()
taken = re.search(r"([0-9.]+ .B of host memory a rank, [0-9.]+ .B a host of [0-9.]+ .B(, [0-9.]+ .B a rank on disk)?)", note)[1]
assert f"{sys.argv[1]} stage {stage} with recompute {policy}" in text and f"takes {taken}" in text, (note, text)
row = re.findall(r"^\*>(\d) ([a-z]+)[ /]+([0-9.]+ .B) (yes|no)", open("plan.txt").read(), re.M)
assert len(row) == 1 and row[0][:2] == (stage, policy) and (row[0][3] == "yes") == plan["fits"] == (sys.argv[2] == "advice"), row
told = plan[sys.argv[2]]
assert (str(told["stage"]), told["policy"]) == (stage, policy) and not told["keys"], told
assert plan["fits"] or plan["advice"] is None
# the table has plans of the same homes as the configuration that was chosen
assert all((c["disk_bytes"] > 0) == (told["disk_bytes"] > 0) for c in plan["choices"] if c["policy"] != "auto"), plan["choices"]
own = [c for c in plan["choices"] if (c["stage"], c["policy"], c["keys"]) == (told["stage"], told["policy"], {})]
assert own[0]["total"] == plan["memory"]["total"] and own[0]["host_bytes"] == told["host_bytes"], own
END
}
check "... and the disk where the host's memory is short, named by all" named Advice: advice $small --cluster ./poor.json --memory 1.7GB --disk 1TB
check "... with a folder to fill in" grep -q 'nvme_path=DIR' plan.txt
check "... whose rate is assumed" grep -q 'note: assumed: .*host.disk_bytes_per_sec' note.txt
on_disk() { # the same disk without --memory, and in a search
    "$ZR" plan $small --cluster ./poor.json --disk 1TB --json --advice --quiet >disk.json &&
        "$ZR" simulate $small --cluster ./poor.json --stage 3 --tensor 1 --disk 1TB --search --json --quiet >search.json && python <<'END'
plan, disk, found = load("plan", "disk", "search")
device = "zero_optimization.offload_optimizer.device"
assert disk["advice"]["keys"][device] == found[0]["keys"][device] == "nvme", (disk["advice"], found[0]["keys"])
assert disk["advice"]["disk_bytes"] == plan["advice"]["disk_bytes"] > 0, (disk["advice"], plan["advice"])
assert 0 < found[0]["disk_bytes"] <= 1e12, found[0]
END
}
check "... also without --memory, and in a search" on_disk
check "... of a search that must be large enough" fails 71 'of --disk 100.00 MB' "$ZR" simulate $small --cluster ./poor.json --stage 3 --tensor 1 \
    --zero_optimization.offload_optimizer.device=nvme --zero_optimization.offload_optimizer.nvme_path=. --disk 100MB --search --quiet
check "... and of a simulation" prints '; [0-9.]* MB of --disk 100.00 MB: does not fit' "$ZR" simulate $small --cluster ./host.json --stage 3 \
    --zero_optimization.offload_optimizer.device=nvme --zero_optimization.offload_optimizer.nvme_path=. --disk 100MB --quiet
check "--disk of no size" fails 2 'expected a size such as 200GB' "$ZR" simulate $small --cluster ./host.json --disk 0
# A disk that is not given is assumed.
assumed() { "$ZR" plan $small --cluster ./poor.json "$@" 2>&1 | tr '\n' ' ' >disk.txt; grep -q -- "$words" disk.txt; }
words='--zero_optimization.offload_optimizer.device=nvme .*offload_optimizer.nvme_path=DIR .* on disk, whose size is not known, .*host.disk_bytes_per_sec 2.00 GB/s'
check "without a disk one is assumed" assumed --quiet
words='note: chosen .*offload_optimizer.device nvme.* on disk, whose size is not known'
check "... with --memory too" assumed --memory 1.7GB
[ -z "${ZR_LONG-}" ] || check "... and by a search" prints 'a rank on disk, whose size is not known' \
    "$ZR" simulate $small --cluster ./poor.json --search --tensor 1 --quiet
# A device without room for the buffers, or no disk that is large enough: nothing fits.
check "nothing fits, which all say" named 'The nearest is' least $small --cluster ./host.json --memory 1.2GB
check "nothing fits a small disk" named 'The nearest is' least $small --cluster ./poor.json --memory 1.7GB --disk 700MB
check "... and what is short" sh -c "tr '\n' ' ' <plan.txt | grep -q 'That is more than --disk gives' && grep -q 'fits in .* no: disk$' plan.txt"
sed 's/1.7e9/1.2e9/' host.json >tiny.json
"$ZR" plan $small --cluster ./tiny.json --quiet >plan.txt
check "... also without --memory, in the table" sh -c 'grep -q "^ >[0-3] .* d .* no " plan.txt && grep -q "> the nearest" plan.txt'
check "... which the search says too" fails 71 'nothing fits; stage .* Asked: 1.20 GB a rank' "$ZR" simulate $small --cluster ./tiny.json --tensor 1 --search --quiet
# Only those kinds of states go to disk for which the host's memory is short.
kinds() { # HOST_BYTES MEMORY OPTIMIZER PARAMETERS
    sed "s/64e9/$1/; s/1.7e9/4e9/" host.json >between.json
    "$ZR" plan --preset gpt2-774m --ranks 2 --seq 256 --cluster ./between.json --memory.layout=paper --batch 1 --memory "$2" --json >plan.json 2>plan.txt &&
        grep -q "offload_optimizer.device $3 and offload_param.device $4 (" plan.txt && python <<'END'
plan, = load("plan")
space = {name: plan["memory"]["spaces"][name] for name in ("host", "disk")}
assert all(space[name]["total"] > 0 for name in space), space
END
}
check "optimizer states on disk, parameters in the host's memory" kinds 4e9 2GB nvme cpu
check "... and the reverse" kinds 12e9 2.2GB cpu nvme
lighter() { # less overlap is tried at each tensor-parallel degree
    sed 's/1.7e9/6.8e9/' host.json >tight.json
    "$ZR" simulate --preset gpt2-774m --ranks 2 --seq 1024 --batch 1 --stage 3 --cluster ./tight.json --search --quiet --json \
        --zero_optimization.offload_optimizer.device=none --activation_checkpointing.offload=none >search.json && python <<'END'
found, = load("search")
keys = found[0]["keys"]
assert keys["parallel.tensor"] == 2 and keys["zero_optimization.overlap_comm"] is False, keys
END
}
[ -z "${ZR_LONG-}" ] || check "less overlap with ranks that share layers" lighter
# The largest model is one with any free keys.
largest() {
    sed 's/64e9/22e8/' host.json >less.json
    "$ZR" plan $small --cluster ./less.json --max layers --quiet >max.txt && tr '\n' ' ' <max.txt |
        grep -q 'n_layer [0-9]* fits: .* with *--train_.*--zero_optimization.offload_optimizer.device=cpu .*The offload takes [0-9.]* GB of host' &&
        grep -q 'and leaves [0-9.]* [GM]B a rank' max.txt
}
check "--max puts states into the host's memory" largest
searched() {
    "$ZR" simulate $small --cluster ./host.json --search --json --quiet >search.json &&
        "$ZR" simulate --preset gpt2-124m --cluster dgx-a100x8 --ranks 8 --seq 256 --tensor 4 --stage 1 --memory 3GB --batch 64 --search --json --quiet >pieces.json &&
        "$ZR" simulate --preset gpt2-124m --cluster dgx-a100x8 --ranks 8 --seq 256 --batch 8 --search --json --quiet >keep.json && python <<'END'
away, pieces, keep = load("search", "pieces", "keep")
assert away[0]["keys"]["zero_optimization.offload_optimizer.device"] == "cpu", away[0]["keys"]
assert any(way["keys"].get("activation_checkpointing.partition_activations") for way in pieces), pieces
assert any(way["keys"]["activation_checkpointing.policy"] == "keep" for way in keep), keep
END
}
check "a search includes offload, P_a and policy keep" searched
echo "1..$n"
