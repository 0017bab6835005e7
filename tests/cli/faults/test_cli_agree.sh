#TEST timeout=240 long=more
# Check that commands agree: `zr plan --cluster`, `zr simulate`, a sweep of one value, and a search in which nothing can
# vary give the same step time, bytes and fit. With --memory they choose the same, and a run takes the same.
. tests/support/command.inc

command -v python3 >/dev/null || { echo "ok 1 - # SKIP there is no python3"; echo 1..1; exit 0; }
cat >mine.json <<'END'
{"name": "mine", "devices": 32, "include": "dgx-a100x8", "host": {"devices": 4, "memory_bytes": 2e11}}
END
# Cluster, ranks, options. A short run checks a third of the lines, which together have each cluster, stage and option.
cat >questions <<'END'
dgx-h100x8 64 --preset gpt2-1.5b --stage 3 --batch 4
dgx-h100x8 16 --preset gpt2-124m --stage 1 --batch 32 --seq 512
dgx-h100x8 12 --preset gpt2-350m --stage 2 --batch 3
dgx-a100x8 64 --preset gpt2-774m --stage 3 --batch 8 --activation_checkpointing.policy=unit
dgx-a100x8 8 --preset gpt2-1.5b --stage 2 --batch 30
dgx-a100x8 16 --preset gpt2-350m --stage 0 --batch 16 --gradient_accumulation_steps=4
dgx-a100x8-40gb 32 --preset gpt2-1.5b --stage 3 --batch 8 --zero_optimization.mics_shard_size=8
dgx-a100x8-40gb 8 --preset gpt2-774m --stage 1 --batch 64 --activation_checkpointing.policy=selective
dgx-a100x8-40gb 16 --preset gpt2-124m --stage 2 --batch 8 --parallel.ranks_per_host=4
hgx-h200x8 16 --preset gpt2-774m --stage 3 --tensor 2 --batch 8 --activation_checkpointing.policy=unit --activation_checkpointing.partition_activations=true
hgx-h200x8 8 --preset gpt2-350m --stage 0 --batch 300
hgx-h200x8 24 --preset gpt2-124m --stage 3 --batch 5 --collectives.hierarchical=false
hgx-b200x8 16 --preset gpt2-1.5b --stage 1 --batch 16 --zero_optimization.overlap_comm=false
hgx-b200x8 8 --preset gpt2-124m --stage 2 --batch 7
hgx-b200x8 32 --preset gpt2-350m --stage 3 --batch 4 --zero_optimization.zero_hpz_partition_size=8
gb200-nvl72 72 --preset gpt2-1.5b --stage 3 --batch 8
gb200-nvl72 144 --preset gpt2-124m --stage 1 --batch 8
gb200-nvl72 6 --preset gpt2-774m --stage 2 --batch 12
mi300x8 16 --preset gpt2-1.5b --stage 3 --batch 16 --zero_optimization.reduce_bucket_size=1000000
mi300x8 8 --preset gpt2-350m --stage 1 --batch 32
mi300x8 40 --preset gpt2-124m --stage 0 --batch 4
4x4090 4 --preset gpt2-774m --stage 3 --batch 4 --activation_checkpointing.policy=unit
4x4090 2 --preset gpt2-1.5b --stage 2 --batch 1
4x4090 4 --preset gpt2-124m --stage 1 --batch 24 --activation_checkpointing.policy=unit --activation_checkpointing.cpu_checkpointing=true
dgx2x25 64 --preset gpt2-774m --stage 1 --tensor 4 --batch 8
dgx2x25 400 --preset gpt2-350m --stage 2 --batch 4
dgx2x25 30 --preset gpt2-124m --stage 3 --batch 12
dgx1v 8 --preset gpt2-350m --stage 2 --batch 6 --activation_checkpointing.policy=selective
./mine.json 32 --preset gpt2-774m --stage 3 --batch 8
azure-nc24rs-v3x8 32 --preset gpt2-1.5b --stage 1 --batch 1
END
cat >compare.py <<'END'
import csv, json
load = lambda name: json.load(open(name))
plan, one, found = load("plan.json"), load("simulated.json"), load("found.json")
row, = csv.DictReader(open("swept.csv"))
digits = lambda x: float("%.9g" % x) # as zr plan prints them
first = found[0]
sec = [plan["time"]["step_sec"], digits(one["step_sec"]), digits(float(row["step_sec"])), digits(first["step_sec"])]
assert len(set(sec)) == 1, sec
total = [plan["memory"]["total"], one["memory_bytes"], int(row["memory_bytes"]), first["memory_bytes"]]
assert len(set(total)) == 1, total
assert plan["needs"] == one["needs"], (plan["needs"], one["needs"])
fits = [plan["fits"], one["fits"], row["fits"] == "true", first["fits"]]
assert len(set(fits)) == 1, fits
assert digits(one["mfu"]) == plan["time"]["mfu"], (one["mfu"], plan["time"]["mfu"])
assert digits(one["days"]) == plan["time"]["days"], (one["days"], plan["time"]["days"])
END
agree() { # CLUSTER RANKS OPTION...: the policies and splits that a search would vary are given
    cluster=$1 ranks=$2
    shift 2
    for key in activation_checkpointing.policy=none activation_checkpointing.cpu_checkpointing=false gradient_accumulation_steps=1 \
        parallel.tensor=1 zero_optimization.mics_shard_size=-1 zero_optimization.reduce_bucket_size=auto \
        zero_optimization.overlap_comm=true collectives.hierarchical=auto gradient_reduction=micro; do
        case "$key $*" in parallel.*--tensor*) continue ;; esac
        case "$*" in *"--${key%=*}="*) ;; *) set -- "$@" "--$key" ;; esac
    done
    "$ZR" plan --cluster "$cluster" --ranks "$ranks" "$@" --quiet --tokens 5e6 --json --advice >plan.json &&
        "$ZR" simulate --cluster "$cluster" --ranks "$ranks" "$@" --quiet --tokens 5e6 --json >simulated.json &&
        "$ZR" simulate --cluster "$cluster" --sweep ranks="$ranks" "$@" --quiet >swept.csv || return 1
    "$ZR" simulate --cluster "$cluster" --ranks "$ranks" "$@" --quiet --search --json >found.json
    [ $? = 71 ] && echo "[$(cat simulated.json)]" >found.json # nothing fits, and the message gives the same values
    python3 compare.py
}
line=0
while read -r question; do
    line=$((line + 1))
    [ -n "${ZR_LONG-}" ] || [ $((line % 3)) = 1 ] || continue
    check "$question" agree $question
done <questions

# With --memory, both choose the same open options (a tie is within 2 %), and print the same step time.
chosen() { # OPTION...
    "$ZR" plan "$@" --json --advice >plan.json 2>note &&
        python3 -c '
import json
plan = json.load(open("plan.json"))
advice, choices = plan["advice"], plan["choices"]
sec = lambda of: of["time"]["step_sec"] or of["time"]["compute_sec"] # without a rate of the link
best = min(sec(c) for c in choices if c["fits"])
assert plan["fits"] and sec(plan) <= 1.02 * best, (plan["time"], best)
assert not advice["keys"] and advice["stage"] == plan["stage"], (advice, plan["stage"])' || return 1
    grep -q 'chosen for memory.limit' note || { cat note >&2; return 1; }
}
check "what is chosen is advised" chosen --cluster dgx2x25 --ranks 64 --preset gpt2-774m --memory 20GB
check "... on other hosts" chosen --cluster dgx-h100x8 --ranks 16 --preset gpt2-774m --memory 24GB
check "... at one host's peak rates" chosen --profile v100-dgx2 --ranks 16 --preset gpt2-1.5b --memory 32GB
check "... where the link is not known" chosen --ranks 64 --preset gpt2-1.5b --memory 32GB

# No given micro-batch is faster than the chosen one, by the simulated time of its cluster.
batches="2 8 32"
[ -z "${ZR_LONG-}" ] || batches="1 2 4 8 16 32"
fastest() { # OPTION...
    "$ZR" plan "$@" --json --advice --quiet >chosen.json || return 1
    for batch in $batches; do
        "$ZR" plan "$@" --batch $batch --json --advice --quiet >given.json && python3 -c '
import json
chosen, given = json.load(open("chosen.json")), json.load(open("given.json"))
rate = [of["time"]["tokens_per_sec"] for of in (chosen, given)]
assert not given["fits"] or rate[1] <= 1.02 * rate[0], rate' || return 1
    done
}
check "what is chosen is the fastest on its cluster" fastest --cluster dgx2x25 --ranks 64 --preset gpt2-774m --memory 12GB
large() { # a limit above a device's memory does not make a plan fit
    set -- --cluster 4x4090 --ranks 2 --preset gpt2-1.5b --stage 1 --batch 16 --activation_checkpointing.policy=none --memory 200GB --quiet --json
    set -- "$@" --zero_optimization.offload_optimizer.device=none
    "$ZR" simulate "$@" >simulated.json && "$ZR" plan "$@" --advice >plan.json && python3 -c '
import json
plan, one = json.load(open("plan.json")), json.load(open("simulated.json"))
assert 24e9 < one["needs"] == plan["needs"] < 200e9 and one["fits"] is plan["fits"] is False, (one, plan["fits"])'
}
check "a limit above what a device has" large
# ... nor does it change what is chosen or found.
auto='--cluster dgx1v --ranks 8 --preset gpt2-124m --stage 2 --activation_checkpointing.policy=auto --max batch --json --quiet'
alike() { "$ZR" plan $auto >a && "$ZR" plan $auto --memory 200GB >b && cmp a b >&2; }
check "... by policy auto" alike
check "... which is said" sh -c "'$ZR' plan --preset gpt2-124m --cluster dgx1v --memory 200GB --stage 1 --batch 1 2>&1 >/dev/null |
    grep -q 'note: memory.limit 200.00 GB is more than a device of dgx1v has'"

# Checkpoints on a host count in --max too, and the message says that the host's memory is too small.
echo '{"name": "small", "devices": 16, "include": "dgx-a100x8", "host": {"memory_bytes": 4e9}}' >small.json
host='--cluster ./small.json --ranks 8 --preset gpt2-350m --stage 1 --activation_checkpointing.policy=unit --activation_checkpointing.cpu_checkpointing=true --quiet'
hosts() {
    "$ZR" plan $host --max batch --json --advice >plan.json || return 1
    rows=$(sed -n 's/.*"train_micro_batch_size_per_gpu": \([0-9]*\), "stage".*/\1/p' plan.json)
    "$ZR" simulate $host --batch $rows --json >fits.json && "$ZR" simulate $host --batch $((rows + 1)) --json >larger.json &&
        python3 -c '
import json
plan, fits, larger = (json.load(open(name + ".json")) for name in ("plan", "fits", "larger"))
assert plan["fits"] and fits["fits"] and not larger["fits"], (plan["max"], fits["host_bytes"], larger["host_bytes"])
assert plan["max"]["next_needs"] == larger["needs"], (plan["max"], larger["needs"])'
}
check "a host's memory bounds --max" hosts
# The nearest lacks the least: 241.59 of 200 GB of a host, not 311 of 80 GB of a device with another policy.
sed 's/4e9/2e11/' small.json >middle.json
check "... and is what is too small" sh -c "'$ZR' plan $(echo "$host" | sed 's/small/middle/') --batch 600 | tr '\n' ' ' | grep -q ' a host of 200.00 GB.* The hosts lack memory for it'"

# A cluster with too few devices for the ranks is refused in every output format, and no incomplete document is printed.
for what in --json '--json --advice' --schedule '--max batch --json' ''; do
    check "more ranks than there are devices: $what" fails 78 'do not fit' "$ZR" plan --preset gpt2-124m --ranks 8 --cluster 4x4090 --quiet $what
    check "... and nothing is printed" sh -c "'$ZR' plan --preset gpt2-124m --ranks 8 --cluster 4x4090 --quiet $what 2>/dev/null >printed; test ! -s printed"
done
check "a save on a disk whose rate is not known: a usual rate is assumed" sh -c "'$ZR' plan --preset gpt2-124m --ranks 8 --cluster dgx-h100x8 --train.save_interval=10 2>&1 |
    grep -q 'note: assumed: host.disk_bytes_per_sec 8.00 GB/s (dgx-h100x8 gives none; usual for a server)'"
check "a step's tokens bound a search with policy auto" sh -c "'$ZR' simulate --preset gpt2-124m --ranks 8 --cluster dgx-h100x8 --stage 1 --tensor 1 --step-tokens 16384 \
    --activation_checkpointing.policy=auto --search --json --quiet >found.json && python3 -c '
import json
for way in json.load(open(\"found.json\")):
    keys = way[\"keys\"]
    assert keys[\"train_micro_batch_size_per_gpu\"] * keys[\"gradient_accumulation_steps\"] * 8 * 1024 <= 16384, keys'"

# On this machine, a run with the options chosen for a limit takes the memory of its plan.
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 64, "vocab_size": 256},
 "data": {"train": "t.txt", "seq_length": 32}, "optimizer": {"type": "AdamW"}, "train": {"steps": 1}}
END
seq 2000 >t.txt
taken() { # OPTION...
    rm -rf run
    "$ZR" plan c.json --ranks 2 --quiet --json "$@" >plan.json &&
        "$ZR" train c.json --ranks 2 --quiet --train.output_dir=run "$@" && python3 -c '
import json
plan, run = json.load(open("plan.json")), json.load(open("run/run.json"))
for key in "stage", "memory":
    assert plan[key] == run["planned"][key], (key, plan[key], run["planned"][key])'
}
check "a run takes what is planned" taken --train_micro_batch_size_per_gpu=2 --zero_optimization.stage=2
check "... and chosen" taken --memory 60MB

check "a profile is one host" fails 2 'give --cluster dgx-h100x8' "$ZR" plan --preset gpt2 --ranks 9 --profile h100
check "... with all its devices" "$ZR" plan --preset gpt2 --ranks 8 --profile h100 --quiet --json
check "a cluster or a profile" fails 2 'cannot be given together' "$ZR" plan --preset gpt2 --ranks 8 --profile h100 --cluster dgx-h100x8
check "a cluster has shares of its own" fails 2 'product_share' "$ZR" plan --preset gpt2 --cluster dgx-h100x8 --efficiency 0.4
check "no such cluster" fails 66 'did you mean dgx-h100x8' "$ZR" plan --preset gpt2 --cluster dgx-h100
check "more ranks than it has" fails 78 'do not fit' "$ZR" plan --preset gpt2 --ranks 8 --cluster 4x4090
check "the text says where times come from" prints 'simulated on dgx2x25' "$ZR" plan --preset gpt2 --ranks 32 --cluster dgx2x25 --quiet
