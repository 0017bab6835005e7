#TEST timeout=120 long=more
# Check that one question has one answer: `zr plan`, `zr plan --memory` and `zr simulate --search` choose the same
# configuration, say its ties, and take host memory before a disk.
. tests/support/command.inc
command -v python3 >/dev/null || { skip "one answer" "no python3"; echo "1..$n"; exit 0; }

# Keys that only a search leaves free.
closed="--tensor 1 --zero_optimization.mics_shard_size=-1 --activation_checkpointing.every=1 --gradient_reduction=micro
 --activation_checkpointing.partition_activations=false --zero_optimization.reduce_bucket_size=auto
 --zero_optimization.stage3_prefetch_bucket_size=50000000 --zero_optimization.overlap_comm=true --collectives.hierarchical=auto"
# one_answer MEMORY OPTION...: the three commands name the same winner for devices of this memory
one_answer() {
    memory=$1
    shift
    "$ZR" plan "$@" --json --advice --quiet >plan.json && "$ZR" plan "$@" --quiet >plan.txt &&
        "$ZR" plan "$@" --memory "$memory" --json --advice >memory.json 2>memory.txt &&
        "$ZR" simulate "$@" $closed --search --quiet --json >search.json &&
        "$ZR" simulate "$@" $closed --search --quiet >search.txt &&
        python3 - "$memory" <<'END'
import json, re, sys
plan, memory, found = (json.load(open(name + ".json")) for name in ("plan", "memory", "search"))
keys = found[0]["keys"]
advice = {"zero_optimization.stage": plan["advice"]["stage"], "activation_checkpointing.policy": plan["advice"]["policy"],
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, **plan["advice"]["keys"]}
assert advice == keys, (advice, keys)
chosen = open("memory.txt").read()
for key, value in keys.items():
    if isinstance(value, bool) or key.endswith("device"): continue
    assert re.search(re.escape(key) + r" (x )?" + str(value), chosen), (key, value, chosen)
assert memory["advice"]["stage"] == keys["zero_optimization.stage"]
# all three print memory, tokens a step and the free keys
asked = [re.search(r"(\S+ GB) a rank, (\d+) tokens a step; free: (zero_optimization.stage)", " ".join(text.split()))
         for text in (chosen, open("plan.txt").read(), open("search.txt").read())]
assert all(asked) and len({one.groups() for one in asked}) == 1, asked
assert float(asked[0][1].split()[0]) == float(sys.argv[1][:-2]), asked
advised = [c for c in plan["choices"] if all(c[k] == plan["advice"][k] for k in ("stage", "policy", "every", "keys"))]
speed = [advised[0]["time"]["tokens_per_sec"], memory["time"]["tokens_per_sec"], found[0]["tokens_per_sec"]]
assert max(speed) / min(speed) - 1 < 1e-6, speed
END
}
llama='--preset llama3.2-1b --seq 4096'
[ -z "${ZR_LONG-}" ] || llama='--preset llama3-8b --seq 4096'
check "Llama on 8 A100" one_answer 80GB $llama --cluster dgx-a100x8 --ranks 8
check "... ties are said, with what each costs" sh -c "tr '\n' ' ' <plan.txt |
    grep -q 'Ties within 2 %: stage [0-3] with recompute [a-z]* and [0-9]* x 1 samples ([0-9.]* % [a-z]*er, [0-9.]* [MG]B [a-z]* a rank)' &&
    grep -q ' a tie: [0-9.]* % [a-z]*er, [0-9.]* [MG]B [a-z]*' search.txt"
ties() { # the fastest first, each smaller than all before it; the note of --memory names the same
    python3 - <<'END'
import re
plan, note = (" ".join(open(name).read().split()) for name in ("plan.txt", "memory.txt"))
said = [re.search(r"[Tt]ies within 2 %: (.*?)[.;] ?(?:The|A rank|asked)", text)[1] for text in (plan, note)]
assert said[0] == said[1], said
unit = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
ties = [(float(t[0]) * (1 if t[1] == "faster" else -1), float(t[2]) * unit[t[3]] * (1 if t[4] == "more" else -1))
        for t in re.findall(r"\((\S+) % (\w+), (\S+) (\w+) (\w+) a rank", said[0])]
assert ties and ties == sorted(ties, reverse=True), ties
assert all(faster > 0 or size < 0 for faster, size in ties), ties
assert all(a[1] > b[1] for a, b in zip(ties, ties[1:])), ties
END
}
check "... the fastest first, none of them slower and larger than another" ties
named() { # each key that is said to be free is a key of the configuration
    tr '\n' ' ' <plan.txt | sed 's/.*; free: //; s/[.] .*//' | tr ', ' '\n\n' | grep . >keys.txt
    for key in $(cat keys.txt); do
        "$ZR" train --help "$key" >help.txt 2>&1 || return 1
    done
    test "$(wc -l <keys.txt)" -ge 8
}
check "... and what is free is named by its keys" named
check "... the simplest of them without further keys is preferred" python3 -c '
import json
found = json.load(open("search.json"))
usual = {"zero_optimization.stage", "activation_checkpointing.policy", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
fits = [way for way in found if way["fits"] and set(way["keys"]) == usual]
assert found[0] == fits[0], found[0]
best, fastest = fits[0], max(way["samples_per_sec"] for way in fits)
assert fastest <= 1.02 * best["samples_per_sec"], (fastest, best)
ties = [way for way in fits if way["samples_per_sec"] * 1.02 >= fastest]
assert best["keys"]["zero_optimization.stage"] == min(way["keys"]["zero_optimization.stage"] for way in ties), ties'
if [ -n "${ZR_LONG-}" ]; then
    check "... with 40 GB" one_answer 40GB $llama --cluster dgx-a100x8-40gb --ranks 8
    check "... on 2 x 8 H100" one_answer 80GB $llama --cluster dgx-h100x8 --ranks 16
    check "... on 4 RTX 4090" one_answer 24GB $llama --cluster 4x4090 --ranks 4
fi

pasted() { # the options of the advice, pasted, give the plan that is advised
    options=$(sed -n '/^Advice/,/^Asked/p' plan.txt | tr ' ' '\n' | grep '^--')
    "$ZR" plan "$@" $options --json --advice --quiet >pasted.json && python3 -c '
import json
plan, pasted = (json.load(open(name + ".json")) for name in ("plan", "pasted"))
advised = plan["choices"][-1]
assert pasted["fits"] and pasted["needs"] == advised["needs"], (pasted["needs"], advised["needs"])
assert pasted["advice"]["stage"] == pasted["stage"] == advised["stage"] and not pasted["advice"]["keys"], pasted["advice"]'
}

# Host memory is a tier before disk.
small='--preset gpt2-774m --ranks 2 --seq 256'
echo '{"include": "4x4090", "device": {"memory_bytes": 4e9, "flops_f32_per_sec": 82e12, "flops_bf16_per_sec": 165e12,
 "memory_bytes_per_sec": 1e12}, "devices": 2, "host": {"memory_bytes": 64e9}}' >host.json
sed 's/64e9/2e9/' host.json >poor.json
"$ZR" plan $small --cluster ./host.json --quiet >plan.txt
"$ZR" plan $small --cluster ./host.json --quiet --json --advice >plan.json
check "states go to the host's memory" sh -c 'grep -q -- "--zero_optimization.offload_optimizer.device=cpu" plan.txt && ! grep -q "nothing fits" plan.txt'
check "... given per rank and per host, and held against the host's" sh -c "tr '\n' ' ' <plan.txt |
    grep -q 'takes [0-9.]* GB of host memory a rank, [0-9.]* GB a host of 64.00 GB'"
check "... of which no disk is one" sh -c "! grep -q disk_bytes plan.txt"
check "... at rates that are assumed" sh -c "tr '\n' ' ' <plan.txt | grep -q 'at assumed rates: host.memory_bytes_per_sec .* usual for a workstation'"
check "the advice can be pasted" pasted $small --cluster ./host.json
# Where the batch is given, checkpoints in the host's memory can leave room for a faster policy.
each_degree() {
    set -- $small --cluster ./host.json --memory 4GB --batch 48 --quiet --json --advice
    "$ZR" plan "$@" >free.json && "$ZR" plan "$@" --zero_optimization.offload_optimizer.device=cpu --activation_checkpointing.offload=host >kept.json &&
        python3 -c '
import json
free, kept = (json.load(open(name + ".json")) for name in ("free", "kept"))
assert free["fits"] and kept["fits"] and free["time"]["step_sec"] <= kept["time"]["step_sec"], (free["time"], kept["time"])'
}
check "... each degree of it is tried" each_degree
check "--memory with --disk takes the host's memory" prints 'offload_optimizer.device cpu' \
    sh -c "'$ZR' plan $small --cluster ./host.json --memory 4GB --disk 1TB 2>&1"
check "... and the disk where the host's memory is short" prints 'offload_optimizer.device nvme' \
    sh -c "'$ZR' plan $small --cluster ./poor.json --memory 4GB --disk 1TB 2>&1"
check "... whose rate is assumed" prints 'note: assumed: .*host.disk_bytes_per_sec' \
    sh -c "'$ZR' plan $small --cluster ./poor.json --memory 4GB --disk 1TB 2>&1"
# A disk that is not given is assumed.
assumed() { "$ZR" plan $small --cluster ./poor.json "$@" 2>&1 | tr '\n' ' ' >disk.txt; grep -q -- "$words" disk.txt; }
words='--zero_optimization.offload_optimizer.device=nvme .*offload_optimizer.nvme_path=DIR .* on disk, whose size is not known, .*host.disk_bytes_per_sec 2.00 GB/s'
check "without a disk one is assumed" assumed --quiet
words='note: chosen .*offload_optimizer.device nvme.* on disk, whose size is not known'
check "... with --memory too" assumed --memory 4GB
[ -z "${ZR_LONG-}" ] || check "... and by a search" prints 'a rank on disk, whose size is not known' \
    "$ZR" simulate $small --cluster ./poor.json --search --tensor 1 --quiet
check "nothing fits a device without room for the buffers" prints 'nothing fits' \
    "$ZR" plan $small --cluster ./host.json --memory 1.2GB --quiet
check "... which the search says too" fails 71 'nothing fits' \
    "$ZR" simulate $small --cluster ./host.json --memory 1.2GB --search --tensor 1 --quiet
# Only those kinds of states go to disk for which the host's memory is short.
kinds() { # HOST_BYTES MEMORY OPTIMIZER PARAMETERS
    sed "s/64e9/$1/" host.json >between.json
    "$ZR" plan $small --cluster ./between.json --memory.layout=paper --batch 1 --memory "$2" --json >plan.json 2>plan.txt &&
        grep -q "offload_optimizer.device $3 and offload_param.device $4 (" plan.txt && python3 -c '
import json
plan = json.load(open("plan.json"))
space = {name: plan["memory"]["spaces"][name] for name in ("host", "disk")}
assert all(space[name]["total"] > 0 for name in space), space'
}
check "optimizer states on disk, parameters in the host's memory" kinds 4e9 2GB nvme cpu
check "... and the reverse" kinds 12e9 2.2GB cpu nvme
lighter() { # less overlap is tried at each tensor-parallel degree
    sed 's/4e9/6.8e9/' host.json >tight.json
    "$ZR" simulate --preset gpt2-774m --ranks 2 --seq 1024 --batch 1 --stage 3 --cluster ./tight.json --search --quiet --json \
        --zero_optimization.offload_optimizer.device=none --activation_checkpointing.offload=none >search.json && python3 -c '
import json
keys = json.load(open("search.json"))[0]["keys"]
assert keys["parallel.tensor"] == 2 and keys["zero_optimization.overlap_comm"] is False, keys'
}
check "less overlap with ranks that share layers" lighter
# The largest model is one with any free keys.
largest() {
    "$ZR" plan $small --cluster ./host.json --max layers --quiet >max.txt && tr '\n' ' ' <max.txt |
        grep -q 'n_layer 2[0-9]* fits: .* with *--train_.*--zero_optimization.offload_optimizer.device=cpu .*The offload takes [0-9.]* GB of host' &&
        grep -q 'and leaves [0-9.]* [GM]B a rank' max.txt
}
check "--max puts states into the host's memory" largest
fewer() { # there are 411 plans without bounds
    plans=$("$ZR" simulate $small --cluster ./host.json --search --quiet | sed -n 's/.*, from \([0-9]*\) plans: .*/\1/p')
    test "$plans" -lt 200
}
[ -z "${ZR_LONG-}" ] || check "plans that cannot win are not made" fewer
searched() {
    "$ZR" simulate $small --cluster ./host.json --search --json --quiet >search.json &&
        "$ZR" simulate --preset gpt2-124m --cluster dgx-a100x8 --ranks 8 --seq 256 --tensor 4 --memory 3GB --batch 64 --search --json --quiet >pieces.json &&
        "$ZR" simulate --preset gpt2-124m --cluster dgx-a100x8 --ranks 8 --seq 256 --batch 8 --search --json --quiet >keep.json &&
        python3 -c '
import json
away, pieces, keep = (json.load(open(name + ".json")) for name in ("search", "pieces", "keep"))
assert away[0]["keys"]["zero_optimization.offload_optimizer.device"] == "cpu", away[0]["keys"]
assert any(way["keys"].get("activation_checkpointing.partition_activations") for way in pieces), pieces
assert any(way["keys"]["activation_checkpointing.policy"] == "keep" for way in keep), keep'
}
check "a search includes offload, P_a and policy keep" searched
echo "1..$n"
